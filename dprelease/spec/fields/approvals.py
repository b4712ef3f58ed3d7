"""``approvals:`` of a policy: who may approve a plan, and whose signatures a plan needs before it can be run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from dprelease.signature import NotAKey, PublicKey
from dprelease.spec.fields.document import Cap
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import NAME_RULE, QUERY_NAME, did_you_mean, listed, shown
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import Filled, kind_of, refuse

__all__ = ["MODELS", "ApprovalsSpec", "ApproverSpec", "check_approvals"]

_HERE = "approvals"
_MOST = 100
_HOW = "write `required: 1`, `required: 2`, or by role `required: {data-owner: 1, privacy-officer: 1}`"


def _key(value: Any) -> str:
    if not isinstance(value, str):
        raise refuse(
            "DPR-S620", f"is {kind_of(value)}, no public key", "write the line that `dprelease keys new` prints"
        )
    try:
        return PublicKey.from_text(value).text
    except NotAKey as error:
        raise refuse("DPR-S620", f"is {error.reason}", error.hint) from None


def _number(value: Any, least: int) -> int:
    number = value.whole if isinstance(value, Numeral) else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= _MOST:
        raise refuse("DPR-S621", f"is {kind_of(value)}, no number of approvals from {least} to {_MOST}", _HOW)
    return number


def _required(value: Any) -> int | dict[str, int]:
    if not isinstance(value, dict):
        return _number(value, 0)
    if not value:
        raise refuse("DPR-S621", "names no role", _HOW)
    return {role: _number(number, 1) for role, number in value.items()}


class ApproverSpec(SpecValue):
    """One person who may approve."""

    role: Filled = Field(description="For whom the person signs: data-owner, privacy-officer, ...")
    key: Annotated[str, BeforeValidator(_key)] = Field(description="Public key, as `dprelease keys new` prints it.")


class ApprovalsSpec(SpecValue):
    """Signatures that a plan needs before it can be run; left out: none."""

    required: Annotated[int | dict[str, int], BeforeValidator(_required)] = Field(
        0, description="So many people, or by role so many of each."
    )
    roles: tuple[Filled, ...] = Field((), description="Whose approvals count; left out: those of every approver.")
    approvers: dict[str, ApproverSpec] = Field({}, description="By name.")
    above: Cap | None = Field(None, description="Releases that cost at most this need no approval.")

    def counts(self, role: str) -> bool:
        """Whether an approval in this role can ever count."""
        asked = self.required if isinstance(self.required, dict) else self.roles
        return not asked or role in asked

    def missing(self, roles: Sequence[str]) -> tuple[str, ...]:
        """What is missing when different people of these roles have approved; empty: nothing is.

        A number n beside ``roles`` asks for n people who have between them as many of the roles as n people can have:
        2 of [data-owner, privacy-officer] is one of each, and 1 of them is anyone of the two.
        """
        have = Counter(role for role in roles if self.counts(role))
        if isinstance(self.required, dict):
            lacking = {role: number - have[role] for role, number in self.required.items()}
            return tuple(f"{number} more as {role}" for role, number in sorted(lacking.items()) if number > 0)
        people, covered = self.required - have.total(), min(self.required, len(set(self.roles))) - len(have)
        if not self.roles or covered <= 0:
            named = f" as {' or '.join(self.roles)}" if self.roles else ""
            return (f"{people} more{named}",) if people > 0 else ()
        left = " or ".join(role for role in self.roles if role not in have)
        others = (f"{people - covered} more as {' or '.join(self.roles)}",) if people > covered else ()
        return (f"{covered} more as {left}", *others)


MODELS: Mapping[str, type[BaseModel]] = {
    "approvals": ApprovalsSpec,
    "approvals.approvers.*": ApproverSpec,
    "approvals.above": Cap,
}


def check_approvals(approvals: ApprovalsSpec, findings: Findings) -> None:
    """Names, keys and numbers of approvals that do not fit together."""
    _check_names(approvals, findings)
    seen: dict[str, str] = {}
    for name, approver in approvals.approvers.items():
        other = seen.setdefault(approver.key, name)
        if other != name:
            says = f"is the key of {shown(other)!r} as well: one key is one approver"
            findings.add("DPR-S622", (_HERE, "approvers", name, "key"), says, "every approver makes a key of their own")
    if approvals.model_fields_set and "required" not in approvals.model_fields_set:
        hint = f"{_HOW}; with `required: 0` nothing is demanded"
        findings.add("DPR-S623", (_HERE,), "does not say how many are required", hint, (_HERE, "required"), key=True)
    if isinstance(approvals.required, dict) and approvals.roles:
        hint = "leave `roles` out: `required` names the roles already"
        findings.add("DPR-S624", (_HERE, "roles"), "stands beside `required` by role", hint)
        return
    _check_enough(approvals, findings)


def _check_names(approvals: ApprovalsSpec, findings: Findings) -> None:
    rule = f"{NAME_RULE}; - as well"
    for name, approver in approvals.approvers.items():
        at = (_HERE, "approvers", name)
        if not QUERY_NAME.fullmatch(name):
            findings.add("DPR-S502", at, "is no name", rule, key=True)
        if not QUERY_NAME.fullmatch(approver.role):
            findings.add("DPR-S502", (*at, "role"), "is no name of a role", rule)
    known = {approver.role for approver in approvals.approvers.values()}
    by_role = isinstance(approvals.required, dict)
    asked: Sequence[str] = tuple(approvals.required) if isinstance(approvals.required, dict) else approvals.roles
    for number, role in enumerate(asked):
        where = (_HERE, "required", role) if by_role else (_HERE, "roles", number)
        if role in asked[:number]:
            findings.add("DPR-S624", where, f"repeats {shown(role)}", "list every role once")
        elif role not in known:
            says, hint = f"names {shown(role)!r}, a role that no approver has", did_you_mean(role, sorted(known))
            findings.add("DPR-S625", where, says, hint, (_HERE, "approvers"), key=by_role)


def _check_enough(approvals: ApprovalsSpec, findings: Findings) -> None:
    """Refuse what all approvers together could not satisfy, unless a role that nobody has says so already."""
    roles = [approver.role for approver in approvals.approvers.values()]
    missing = approvals.missing(roles)
    asked = approvals.required if isinstance(approvals.required, dict) else approvals.roles
    if missing and set(asked) <= set(roles):
        says = f"could never be met: all approvers together lack {listed(missing)}"
        hint = "add to `approvers`, as `alice: {role: data-owner, key: ...}`; `dprelease keys new FILE` makes a key"
        about = ((_HERE, "approvers"), (_HERE, "roles"))
        findings.add("DPR-S626", (_HERE, "required"), says, hint, *about)
