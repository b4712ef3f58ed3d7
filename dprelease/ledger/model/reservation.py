"""The values that go in and out of a ledger: what a release asks of an account, what was reserved, what was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dprelease.canonical import Value
from dprelease.ledger.model.balance import Actor
from dprelease.plan.document import Account
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.document.approval import Signed
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Composed

__all__ = ["Charge", "Reservation", "SourcesRead", "StepKey"]


class Charge(Value):
    """What a release asks of one account.

    ``cap`` is the account's lifetime cap, lowered by the spec's ``at_most`` where there is one. Both caps are
    checked, so that a cap above the lifetime one allows nothing more.
    """

    account: Account
    events: Composed
    cap: Budget


class Reservation(Value):
    """A plan that has been charged and may be measured; at most one for each (release, period).

    Attributes:
        release: Name of the release.
        period: Its period.
        plan_fingerprint: The plan's fingerprint.
        spec_fingerprint: The fingerprint of the spec that the plan was made from.
        plan: The plan as canonical JSON; ``ReleasePlan.from_canonical`` reads it. Empty in lists of reservations.
        sequence: The ledger entry that charged it.
        hash: The hash of that entry.
        reserved_at: When, in UTC, as ISO text.
        reserved_by: Who.
        environment: The versions that ran.
        state: ``open`` until it is ``closed`` (published) or ``given_up``; ``lost``: a recovered ledger knows of it by
            its anchors alone, without its plan.
        accounts: What each account had lost before it and has lost with it.
        windows: The same for each window of an account that it touches.
        manifest: Digest of the published manifest, once closed, or where a recovery has found it.
        ended: Why it was given up or lost.
        restates: The entry of the release that this one replaces, and ``reason``: why.
        revision: Which planned revision of the period it is; 0: a first publication, or one that replaced it by hand.
        approvals: The signatures that it was run with.
        accepted: Why it was gone on with after its data had changed, one reason each time.
    """

    release: str
    period: str
    plan_fingerprint: str
    spec_fingerprint: str
    plan: str = ""
    sequence: int
    hash: str
    reserved_at: str
    reserved_by: Actor
    environment: dict[str, str]
    state: Literal["open", "closed", "given_up", "lost"]
    accounts: tuple[AccountLosses, ...]
    windows: tuple[AccountLosses, ...] = ()
    manifest: str | None = None
    ended: str = ""
    restates: int | None = None
    reason: str = ""
    revision: int = 0
    approvals: tuple[Signed, ...] = ()
    accepted: tuple[str, ...] = ()


class SourcesRead(Value):
    """What was read for a reservation, by keyed hash.

    Attributes:
        tables: By table, one keyed hash for each file.
        key: Names the key.
        accepted: Why changed data were accepted, one reason each time.
    """

    tables: dict[str, tuple[str, ...]]
    key: str
    accepted: tuple[str, ...] = ()


@dataclass(frozen=True, order=True)
class StepKey:
    """What identifies one draw, or one piece of it, for ever; ``plan`` is the fingerprint of the plan."""

    release: str
    period: str
    plan: str
    step: str

    def __str__(self) -> str:
        return f"step {self.step} of {self.release} {self.period}"
