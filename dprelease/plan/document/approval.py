"""Approvals of a plan as values: what is signed, the signature in the plan's file, and the record kept of it.

Beside them stands what has been spent: the ledger's answer that a plan is held against, and never made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from dprelease.canonical import Value
from dprelease.signature import NotAKey, PrivateKey, PublicKey
from dprelease.words import phrase

__all__ = ["Approval", "Head", "Signed", "Statement", "approval_lines", "sign", "stands"]

PURPOSE = "approval of a plan"
# What people read in a report is never more than this, whoever wrote the file.
Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_-]{0,62}$")]
Moment = Annotated[str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class Statement(Value):
    """What an approver signs: this plan, of this release and period, on top of these ledger entries, and as whom.

    The heads make one approval worth one charge: as soon as an account is charged, its head is another one.

    Attributes:
        kind: The kind of this form of a statement.
        release: Name of the release.
        period: Its period.
        plan_fingerprint: The plan fingerprint of the plan: everything that will happen.
        heads: The heads of the accounts that the plan was made against.
        name: The name of the approver, as in the policy.
        role: In which the approver signs.
        key: Public key of the approver: a signature is of one key and no other.
        at: When, in UTC, as the approver's clock has it; nothing is decided by it.
    """

    kind: Literal["dprelease-approval-1"] = "dprelease-approval-1"
    release: str
    period: str
    plan_fingerprint: str
    heads: dict[str, Head]
    name: Name
    role: Name
    key: str
    at: Moment

    def to_bytes(self) -> bytes:
        """The bytes that are signed."""
        return self.canonical().encode()


class Approval(Value):
    """A signature beside a frozen plan; the rest of its statement is that plan.

    Attributes:
        name: The name of the approver.
        role: In which the approver signed.
        key: Public key.
        at: When, in UTC.
        signature: Ed25519, as base64.
    """

    name: Name
    role: Name
    key: str
    at: Moment
    signature: str


class Signed(Approval):
    """An approval that was checked, with all that is needed to check it again without the plan's file or the policy.

    Attributes:
        heads: As in the statement.
        statement: Fingerprint of the statement.
    """

    heads: dict[str, Head]
    statement: str


def sign(statement: Statement, key: PrivateKey) -> Approval:
    """The approval of a statement.

    Raises:
        ValueError: If the statement is of another key.
    """
    if statement.key != key.public.text:
        raise ValueError("a statement is signed with the key that it names")
    signature = key.sign(PURPOSE, statement.to_bytes())
    return Approval(name=statement.name, role=statement.role, key=statement.key, at=statement.at, signature=signature)


def stands(approval: Approval, release: str, period: str, plan: str, heads: Mapping[str, Head]) -> Signed | None:
    """The approval as a record, if its own key signed it for exactly this plan; None if it did not.

    Whether that key may approve anything is not asked here. A :class:`Signed` is checked again with its own ``heads``.

    Args:
        approval: As it stands in a file or an entry.
        release: Name of the release.
        period: Its period.
        plan: Fingerprint of the plan.
        heads: The heads of its accounts.
    """
    statement = Statement(
        release=release,
        period=period,
        plan_fingerprint=plan,
        heads=dict(heads),
        name=approval.name,
        role=approval.role,
        key=approval.key,
        at=approval.at,
    )
    try:
        key = PublicKey.from_text(approval.key)
    except NotAKey:
        return None
    if not key.signed(approval.signature, PURPOSE, statement.to_bytes()):
        return None
    record = Signed(
        **approval.model_dump(include=set(Approval.model_fields)),
        heads=dict(heads),
        statement=statement.fingerprint(),
    )
    return None if isinstance(approval, Signed) and approval != record else record


def approval_lines(signed: Sequence[Signed]) -> list[str]:
    """Who approved, in which role, when and with which key: a line each, in the order of the signatures.

    >>> key = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    >>> at = "2024-03-07T05:06:07Z"
    >>> approval_lines([Signed(name="alice", role="data-owner", key=key, at=at, signature="", heads={}, statement="")])
    ['alice (data-owner), 2024-03-07 05:06:07 UTC, key 21fe31dfa154a261']
    """
    return [
        phrase(
            "{name} ({role}), {at}, key {key}",
            name=each.name,
            role=each.role,
            at=each.at.replace("T", " ").replace("Z", " UTC"),
            key=PublicKey.from_text(each.key).fingerprint,
        )
        for each in signed
    ]


class Head(Value):
    """The last ledger entry of an account: sequence number (0: none yet) and hash."""

    sequence: int = 0
    hash: str = ""
