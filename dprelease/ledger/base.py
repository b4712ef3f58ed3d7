"""What every ledger promises, and the values that go in and out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dprelease.canonical import Value
from dprelease.ledger.entry import AccountFacts, Actor, Entry
from dprelease.noise import Measurement
from dprelease.plan.document import Account, Head, ReleasePlan, Standing
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Composed

__all__ = ["Charge", "Ledger", "Reservation", "StepKey"]


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
        plan_fingerprint: Of the plan.
        spec_fingerprint: Of the spec that the plan was made from.
        plan: The plan as canonical JSON; ``ReleasePlan.from_canonical`` reads it.
        sequence: The ledger entry that charged it.
        hash: The hash of that entry.
        reserved_at: When, in UTC, as ISO text.
        reserved_by: Who.
        environment: The versions that ran.
        state: ``open`` until it is published.
        accounts: What each account had lost before it and has lost with it.
        manifest: Digest of the published manifest, once closed.
    """

    release: str
    period: str
    plan_fingerprint: str
    spec_fingerprint: str
    plan: str
    sequence: int
    hash: str
    reserved_at: str
    reserved_by: Actor
    environment: dict[str, str]
    state: Literal["open", "closed"]
    accounts: tuple[AccountFacts, ...]
    manifest: str | None = None


@dataclass(frozen=True, order=True)
class StepKey:
    """What identifies one draw for ever; ``plan`` is the fingerprint of the plan."""

    release: str
    period: str
    plan: str
    step: str

    def __str__(self) -> str:
        return f"step {self.step} of {self.release} {self.period}"


class Ledger(Protocol):
    """Remembers what was charged and what was answered, for ever.

    Every method is one transaction and holds nothing when it returns. Safe to call from several threads,
    processes and, where the store says so, hosts. Beside what is listed, every method may raise `Corrupt`
    (an entry or a measurement is not what its hash says), `Locked` (the store is busy: try again) and
    `LedgerError` (the store cannot be used, and why).
    """

    @property
    def folder(self) -> Path:
        """Where the lock files of its releases are."""
        ...

    def standing(self, accounts: Sequence[str]) -> Standing:
        """Heads and charged events of these accounts; unknown ones are left out. Creates nothing.

        A head is the last entry that opened, charged or gave back to the account.
        """
        ...

    def find(self, release: str, period: str) -> Reservation | None:
        """The reservation of a release and period, open or closed; None if none or if it was given back."""
        ...

    def reserve(
        self,
        plan: ReleasePlan,
        charges: Sequence[Charge],
        heads: Mapping[str, Head] | None = None,
        environment: Mapping[str, str] | None = None,
        command: str = "",
    ) -> Reservation:
        """Charge a whole plan, to all of its accounts or to none.

        Where the same plan is already reserved for its (release, period), that reservation is returned and
        nothing is charged. Otherwise accounts are opened on first use, a changed lifetime cap is recorded,
        and every account's composed loss with this release must stay inside both caps of its charge.

        Args:
            plan: What will be measured.
            charges: One per account of the plan, with exactly the events of ``plan.event_of(account)``.
            heads: The heads that the plan was frozen against; None: any head will do.
            environment: Names and versions of what runs, kept for the report.
            command: What is being run, kept beside user, host and process.

        Raises:
            BudgetExceeded: A cap says no; a ``refuse`` entry is kept and nothing is charged.
            StalePlan: An account's head is not the one in ``heads``.
            LedgerError: The (release, period) is reserved with another plan, or an account was opened with
                another unit, relation or composition.
            UnsupportedEvent: An account's composition has no theorem for one of the plan's mechanisms.
            BrokenPromiseError: The charges are not what the plan costs.
        """
        ...

    def stored(self, key: StepKey) -> Measurement | None:
        """The committed measurement of a step, checked against its entry; None if there is none."""
        ...

    def commit(self, key: StepKey, measurement: Measurement) -> Measurement:
        """Store a measurement unless the step has one already, and return what is stored.

        Only the returned measurement may be handed on: a loser's own draw is thrown away unseen.

        Raises:
            BrokenPromiseError: There is no open reservation of that plan, the step is not in it, or the
                measurement has another step or number of cells.
        """
        ...

    def measured(self, release: str, period: str, plan: str) -> frozenset[str]:
        """The steps of a plan that have a measurement."""
        ...

    def secret(self, release: str, period: str, plan: str) -> bytes:
        """32 random bytes that belong to an open release: the same ones at every call, until it ends.

        They decide which rows of a unit with too many are left out. They are durable before they are returned, so
        that a resumed run reads the same rows, and are removed when the release is closed or given back.

        Raises:
            BrokenPromiseError: There is no open reservation of that plan.
        """
        ...

    def close(self, release: str, period: str, plan: str, manifest_digest: str) -> None:
        """Record that a release was published; again with the same digest does nothing.

        Raises:
            BrokenPromiseError: A step has no measurement, or the plan is not reserved.
            LedgerError: It was closed with another manifest.
        """
        ...

    def void(self, release: str, period: str, plan: str, why: str, command: str = "") -> None:
        """Give a reservation back; only for failures that do not depend on the data.

        Raises:
            BrokenPromiseError: A measurement exists, or the release is closed.
            LedgerError: That plan is not reserved.
        """
        ...

    def reservations(self) -> tuple[Reservation, ...]:
        """Every reservation that was not given back, in ledger order."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Every entry, in order."""
        ...

    def check(self) -> tuple[str, ...]:
        """Every finding of a full check, one line each; empty: the ledger is sound."""
        ...

    def disconnect(self) -> None:
        """Close idle connections; the ledger stays usable and connects again when it must."""
        ...
