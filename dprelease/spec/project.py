"""The two files beside a spec: ``dprelease.yaml`` says where things are, ``policy.yaml`` what may be spent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from dprelease.catalog.urls import Scheme
from dprelease.errors import Problem
from dprelease.spec.checks.accounts import check_accounts
from dprelease.spec.fields.accounts import MODELS as ACCOUNTS
from dprelease.spec.fields.accounts import AccountSpec, CeilingsSpec, Lifetime, WindowSpec
from dprelease.spec.fields.approvals import MODELS as APPROVALS
from dprelease.spec.fields.approvals import ApprovalsSpec, check_approvals
from dprelease.spec.fields.document import SpecValue
from dprelease.spec.fields.published.theme import ThemeSpec
from dprelease.spec.ledger_url import ledger_text, misplaced
from dprelease.spec.load import read_model
from dprelease.spec.text.findings import Findings, Hidden
from dprelease.spec.text.nodes import Places
from dprelease.spec.text.scalars import Filled, refuse

__all__ = [
    "HOST",
    "AccountSpec",
    "ApprovalsSpec",
    "CeilingsSpec",
    "Lifetime",
    "PolicySpec",
    "ProjectSpec",
    "WindowSpec",
    "load_policy",
    "load_project",
]

HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"\$\{env:[A-Za-z_][A-Za-z0-9_]*\}")


class ProjectSpec(SpecValue):
    """Where things are; relative paths start at the folder of ``dprelease.yaml``."""

    ledger: Annotated[str, BeforeValidator(ledger_text)] = Field(
        description="sqlite:/// and a path, or postgresql://user@host/database; ${env:NAME} may stand in it."
    )
    anchors: tuple[Filled, ...] = Field(
        ("state-anchor/head.json",), description="Files that the ledger's head is copied to; [] for none."
    )
    shared_anchors: tuple[Filled, ...] = Field(
        (), description="Further anchors, which every host of a ledger on a server sees under the same absolute path."
    )
    host: Filled | None = Field(
        None,
        description="The name of this host in a ledger on a server, which stays when the machine is replaced; "
        "left out: as the operating system has it. ${env:NAME} may stand in it.",
    )
    source_key: Filled = Field("state-key/source.key", description="File of the key of source fingerprints.")
    signing_key: Filled | None = Field(
        None, description="File of the private key that releases are signed with; ${env:NAME} may stand in it."
    )
    releases: Filled = Field("releases", description="Folder of published bundles.")
    products: tuple[Filled, ...] = Field(
        (".",), description="Specs with a schedule, or folders of them, that a run of Prefect may release; [] for none."
    )
    prefect_home: Filled = Field("state/prefect", description="Run history of Prefect.")
    policy: Filled = Field("policy.yaml", description="The data owner's policy.")
    theme: ThemeSpec | None = Field(None, description="Colours and logo of the office on its pages.")


def _sha256(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise refuse("DPR-S239", "is no SHA-256", "write the 64 digits that `sha256sum people.sql` shows")
    return text


class PolicySpec(SpecValue):
    """What may be spent, kept by whoever answers for the data; no spec can raise it."""

    accounts: dict[str, AccountSpec] = Field(description="By name.")
    ceilings: CeilingsSpec | None = Field(None, description="What no single release may exceed.")
    approvals: ApprovalsSpec = ApprovalsSpec()
    source_queries: dict[Filled, Annotated[Filled, AfterValidator(_sha256)]] = Field(
        {}, description="Files of queries that rows of a database may come from, with the SHA-256 of each."
    )
    sources_under: tuple[Filled, ...] = Field(
        (), description="Folders in which the files of sources must lie, behind all links; left out: anywhere."
    )
    shared_anchor: Literal["required", "optional"] = Field(
        "optional", description="Whether the ledger must have an anchor under `shared_anchors`."
    )


_PROJECT_MODELS: Mapping[str, type[BaseModel]] = {"": ProjectSpec, "theme": ThemeSpec}
_POLICY_MODELS: Mapping[str, type[BaseModel]] = {
    "": PolicySpec,
    **ACCOUNTS,
    **APPROVALS,
}


def load_project(text: str | bytes, file: str, schemes: Sequence[Scheme]) -> ProjectSpec:
    """Read ``dprelease.yaml``.

    Args:
        text: The file.
        file: Its name in messages.
        schemes: How the place of a ledger may be written.

    Raises:
        SpecError: With every problem, in file order.
    """
    check = partial(_check_project, schemes=schemes)
    return read_model(text, file, ProjectSpec, _PROJECT_MODELS, check, {})[0]


def load_policy(text: str | bytes, file: str) -> PolicySpec:
    """Read ``policy.yaml``.

    Raises:
        SpecError: With every problem, in file order.
    """
    return read_model(text, file, PolicySpec, _POLICY_MODELS, _check_policy, {"accounts": {}})[0]


def _check_project(project: ProjectSpec, places: Places, hidden: Hidden, *, schemes: Sequence[Scheme]) -> list[Problem]:
    findings = Findings(places, hidden)
    if (found := misplaced(project.ledger, schemes)) is not None:
        code, says, hint = found
        findings.add(code, ("ledger",), says, hint)
    for number, anchor in enumerate(project.anchors):
        if anchor in project.anchors[:number]:
            findings.add("DPR-S597", ("anchors", number), "repeats a file", "name every file once, on other disks")
    for number, anchor in enumerate(project.shared_anchors):
        at = ("shared_anchors", number)
        if anchor in (*project.anchors, *project.shared_anchors[:number]):
            findings.add("DPR-S597", at, "repeats a file", "name every file once, on other disks")
        if not anchor.startswith("/"):
            findings.add("DPR-S229", at, "is no absolute path", "write /mnt/shared/head.json: the same on every host")
    if project.host is not None and not HOST.fullmatch(_VARIABLE.sub("x", project.host)):
        findings.add("DPR-S228", ("host",), "is no name of a host", "write letters, digits, dots, - and _: worker-1")
    return findings.problems


def _check_policy(policy: PolicySpec, places: Places, hidden: Hidden) -> list[Problem]:
    findings = Findings(places, hidden)
    check_approvals(policy.approvals, findings)
    check_accounts(policy.accounts, findings)
    return findings.problems
