"""The two files beside a spec: ``dprelease.yaml`` says where things are, ``policy.yaml`` what may be spent."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from dprelease.errors import Problem
from dprelease.privacy.unit import Neighboring
from dprelease.spec.advice import NOT_YET
from dprelease.spec.document import Cap, SpecValue
from dprelease.spec.fields import Delta, Filled, Positive, kind_of, refuse
from dprelease.spec.findings import Findings
from dprelease.spec.load import read_model
from dprelease.spec.names import NAME_RULE, QUERY_NAME
from dprelease.spec.nodes import Places
from dprelease.spec.prune import Hidden

__all__ = ["AccountSpec", "ApprovalsSpec", "Lifetime", "PolicySpec", "ProjectSpec", "load_policy", "load_project"]


def _ledger(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("postgresql:", "postgres:")):
        raise refuse("DPR-S300", "names PostgreSQL, not available yet", NOT_YET["ledger=postgresql"])
    if not isinstance(value, str) or not value.startswith("sqlite:///") or value == "sqlite:///":
        raise refuse("DPR-S220", f"is {kind_of(value)}, no ledger", "write `ledger: sqlite:///state/ledger.db`")
    return value


class ProjectSpec(SpecValue):
    """Where things are; relative paths start at the folder of ``dprelease.yaml``."""

    ledger: Annotated[str, BeforeValidator(_ledger)] = Field(description="sqlite:/// and a path.")
    releases: Filled = Field("releases", description="Folder of published bundles.")
    prefect_home: Filled = Field("state/prefect", description="Run history of Prefect.")
    policy: Filled = Field("policy.yaml", description="The data owner's policy.")


class Lifetime(SpecValue):
    """All that may ever be spent from an account."""

    epsilon: Positive = Field(description="At most this epsilon, over all releases together.")
    delta: Delta = Field(Fraction(0), description="At this delta.")
    selecting: Delta = Field(
        Fraction(0), description="With zcdp: the part of delta that `keys: private` may use, fixed for ever."
    )


class AccountSpec(SpecValue):
    """One account: whom it protects, how its losses add up, and where it ends."""

    unit: Filled = Field(description="Whom it protects, as specs name it.")
    neighboring: Neighboring = Field(Neighboring.ADD_REMOVE, strict=False, description="As in the specs.")
    composition: Literal["basic", "zcdp"] = Field(description="How the losses of its releases add up.")
    lifetime: Lifetime


def _no_approval(value: Any) -> int:
    if not isinstance(value, int) and getattr(value, "whole", None) == 0:
        return 0
    if value != 0:
        raise refuse("DPR-S300", f"is {kind_of(value)}: approvals are not available yet", NOT_YET["approvals.required"])
    return 0


class ApprovalsSpec(SpecValue):
    """Signatures that a plan needs: none, in this version."""

    required: Annotated[Literal[0], BeforeValidator(_no_approval)] = 0


class PolicySpec(SpecValue):
    """What may be spent, kept by whoever answers for the data; no spec can raise it."""

    accounts: dict[str, AccountSpec] = Field(description="By name.")
    ceilings: Cap | None = Field(None, description="What no single release may exceed.")
    approvals: ApprovalsSpec = ApprovalsSpec()


_PROJECT_MODELS: Mapping[str, type[BaseModel]] = {"": ProjectSpec}
_POLICY_MODELS: Mapping[str, type[BaseModel]] = {
    "": PolicySpec,
    "accounts.*": AccountSpec,
    "accounts.*.lifetime": Lifetime,
    "ceilings": Cap,
    "approvals": ApprovalsSpec,
}


def load_project(text: str | bytes, file: str) -> ProjectSpec:
    """Read ``dprelease.yaml``.

    Raises:
        SpecError: With every problem, in file order.
    """
    return read_model(text, file, ProjectSpec, _PROJECT_MODELS, _nothing_to_check, {})[0]


def load_policy(text: str | bytes, file: str) -> PolicySpec:
    """Read ``policy.yaml``.

    Raises:
        SpecError: With every problem, in file order.
    """
    return read_model(text, file, PolicySpec, _POLICY_MODELS, _check_policy, {"accounts": {}})[0]


def _nothing_to_check(_project: ProjectSpec, _places: Places, _hidden: Hidden) -> list[Problem]:
    return []


def _check_policy(policy: PolicySpec, places: Places, hidden: Hidden) -> list[Problem]:
    findings = Findings(places, hidden)
    for name, account in policy.accounts.items():
        at = ("accounts", name)
        if not QUERY_NAME.fullmatch(name):
            findings.add("DPR-S502", at, "is no name", f"{NAME_RULE}; - as well", key=True)
        if account.composition == "zcdp" and account.lifetime.delta == 0:
            says = "has no delta, and zcdp needs one greater than 0"
            hint = "write `lifetime: {epsilon: 4, delta: 1e-8}`, or `composition: basic`"
            findings.add("DPR-S536", (*at, "lifetime"), says, hint, at)
        if account.lifetime.selecting:
            here, delta = (*at, "lifetime", "selecting"), account.lifetime.delta
            if account.composition != "zcdp":
                hint = "leave it out: with `composition: basic` deltas add up to the account's own"
                findings.add("DPR-S537", here, "is for accounts with zcdp composition", hint)
            elif account.lifetime.selecting >= delta:
                hint = "keep a part of delta for all other draws, such as half"
                findings.add("DPR-S537", here, "leaves nothing of the account's delta", hint)
    return findings.problems
