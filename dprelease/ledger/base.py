"""What every ledger promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dprelease.ledger.balance import AccountFacts, Charged
from dprelease.ledger.entry import Entry, Opened, Sourced
from dprelease.ledger.reservation import Charge, Reservation, Sources, StepKey
from dprelease.ledger.store import Holder, Lock
from dprelease.noise import Measurement
from dprelease.plan.approved import Signed
from dprelease.plan.document import Account, Head, ReleasePlan, Standing
from dprelease.privacy.event import Composed

if TYPE_CHECKING:  # both read ledgers, by means of what is here
    from dprelease.ledger.incident import Fault, Outcome
    from dprelease.ledger.published import Evidence, Published
    from dprelease.ledger.tally import Tally

__all__ = ["Charge", "Ledger", "Reservation", "Sources", "StepKey"]


class Ledger(Protocol):
    """Remembers what was charged and what was answered, for ever.

    Every method is one transaction and holds nothing when it returns. Safe to call from several threads,
    processes and, where the store says so, hosts. Beside what is listed, every method may raise `Corrupt`
    (an entry or a measurement is not what its hash says), `Locked` (the store is busy: try again) and
    `LedgerError` (the store cannot be used, and why).
    """

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        ...

    @property
    def id(self) -> str:
        """What it is called, for ever: random, said in every bundle; empty where there is none yet."""
        ...

    @property
    def exists(self) -> bool:
        """Whether anything was ever written."""
        ...

    def lock(self, release: str, period: str, doing: str) -> Lock:
        """The lock of a release; not taken yet."""
        ...

    def holders(self) -> tuple[Holder, ...]:
        """The locks that are held, or were left behind."""
        ...

    def break_lock(self, holder: Holder) -> None:
        """End what holds a lock.

        Raises:
            LedgerError: It cannot be done from here.
        """
        ...

    def standing(self, accounts: Sequence[str]) -> Standing:
        """Heads and charged events of these accounts; unknown ones are left out. Creates nothing.

        A head is the last entry that opened, charged or gave back to the account.
        """
        ...

    def heads(self, accounts: Sequence[str]) -> dict[str, Head]:
        """The last entry that changed each of these accounts; unknown ones are left out. Quick."""
        ...

    def quote(self, charges: Sequence[Charge], period: str) -> tuple[tuple[Charged, ...], tuple[AccountFacts, ...]]:
        """What these charges would come to now, and the facts of accounts that could not pay; nothing is charged.

        Args:
            charges: As for :meth:`reserve`; errors as there, but for ``BudgetExceeded``.
            period: Of the release.
        """
        ...

    def openings(self, account: str) -> tuple[tuple[int, Opened], ...]:
        """The entries that opened an account or changed its caps, in order, with their sequence numbers."""
        ...

    @property
    def folder(self) -> Path | None:
        """Of a file: the folder that it is in."""
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
        *,
        restates: str = "",
        approvals: Sequence[Signed] = (),
    ) -> Reservation:
        """Charge a whole plan, to all of its accounts or to none.

        Where the same plan is already reserved for its (release, period), that reservation is returned and
        nothing is charged. Otherwise accounts are opened on first use, a changed lifetime cap is recorded,
        and every account's composed loss with this release must stay inside both caps of its charge.

        The plan of a planned revision is charged nothing, for the first publication paid for it, and is accepted only
        as ``ledger.revised`` says.

        Args:
            plan: What will be measured.
            charges: One per account of the plan, with exactly the events of ``plan.cost_of(account)``; none for a
                planned revision.
            heads: That the plan was frozen against; None: any head will do.
            environment: Names and versions of what runs, kept for the report.
            command: What is being run, kept beside user, host and process.
            restates: Why this plan replaces the release of another plan for the same (release, period), which has
                ended; it is charged again. Empty: it does not.
            approvals: The signatures that it is run with, for the record.

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
            LedgerError: It is of a piece of a step, and other data were accepted since this process compared its own.
        """
        ...

    def measured(self, release: str, period: str, plan: str) -> frozenset[str]:
        """The ids of the measurements of a plan that are there: of its steps, and of the pieces of those in pieces."""
        ...

    def secret(self, release: str, period: str, plan: str) -> bytes:
        """32 random bytes that belong to an open release: the same ones at every call, until it ends.

        They decide which rows of a unit with too many are left out. They are durable before they are returned, so
        that a resumed run reads the same rows, and are removed when the release is closed or given back.

        Raises:
            BrokenPromiseError: There is no open reservation of that plan.
        """
        ...

    def sourced(self, release: str, period: str, plan: str) -> Sources | None:
        """What was read for an open release; None: nothing was.

        Its reservation is in every anchor when this returns, so that reading may begin.

        Raises:
            BrokenPromiseError: There is no open reservation of that plan.
        """
        ...

    def source(
        self,
        release: str,
        period: str,
        plan: str,
        tables: Mapping[str, tuple[str, ...]],
        key_id: str,
        accepted: str = "",
        command: str = "",
    ) -> None:
        """Record what is read for an open release, before anything is drawn from it.

        Args:
            release: Its name.
            period: Its period.
            plan: The fingerprint of its plan.
            tables: By table, one keyed hash for each file.
            key_id: Names the key of the hashes.
            accepted: Why other data than before are read.
            command: What is being run.

        Raises:
            LedgerError: One of the files was read for another account; or other data are accepted while a step has
                some of its pieces and not all.
            BrokenPromiseError: There is no open reservation of that plan.
        """
        ...

    def look(self, plan: ReleasePlan, tables: Mapping[str, tuple[str, ...]], key_id: str, command: str = "") -> None:
        """Record, once, that a plan is about to be compared with files that no account has paid for; free.

        Raises:
            LedgerError: An account has paid for one of them.
        """
        ...

    def require_readable(
        self, tables: Mapping[str, tuple[str, ...]] | None, accounts: Mapping[str, str], key_id: str, *, accepted: bool
    ) -> None:
        """Refuse, before anything is charged, what :meth:`source` would refuse once it is. Writes nothing.

        Args:
            tables: As there; None: only the key is looked at.
            accounts: By table, the account that is to pay.
            key_id: As there.
            accepted: Whether another key than before is accepted.

        Raises:
            LedgerError: Another key was used before (DPR-L151), or a file was read for another account (DPR-L153).
        """
        ...

    def close(self, release: str, period: str, plan: str, manifest_digest: str) -> None:
        """Record that a release was published; again with the same digest does nothing.

        Raises:
            BrokenPromiseError: A step has no measurement, or the plan is not reserved.
            LedgerError: It was closed with another manifest.
        """
        ...

    def give_up(self, release: str, period: str, plan: str, why: str) -> None:
        """End an open release that is not to be finished; what it was charged stays charged.

        Raises:
            LedgerError: That plan is not reserved, or has ended.
        """
        ...

    def void(self, release: str, period: str, plan: str, why: str, command: str = "") -> None:
        """Give a reservation back; only for failures before anything was read, so that they cannot depend on data.

        Raises:
            BrokenPromiseError: Something was read or measured, or the release has ended.
            LedgerError: That plan is not reserved.
        """
        ...

    def open_account(
        self,
        account: Account,
        why: str,
        series: Sequence[tuple[Composed, int]] = (),
        command: str = "",
    ) -> None:
        """Open an account, or record its caps anew, without a release.

        Args:
            account: As the policy has it.
            why: Said in the entry.
            series: Of a ``pld`` account: the draws of each kind of release that it will ever have, and how many.
            command: What is being run.

        Raises:
            LedgerError: It was opened with another unit, relation, composition or series, or needs a series.
            BudgetExceeded: The series costs more than the cap.
        """
        ...

    def lacks(self, found: Sequence[Published], *, admitted: bool = True) -> tuple[Published, ...]:
        """The published bundles whose charge is not in it; ``admitted=False``: though its anchors contradict it."""
        ...

    def warnings(self, *, every: bool = False) -> tuple[str, ...]:
        """What could be lost unnoticed by this host; ``every``: also what is no news to it."""
        ...

    def recover(
        self, why: str, command: str = "", *, published: Sequence[Evidence] = (), gone: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Make a ledger usable that its anchors or bundles contradict, or that was moved; only ever adds spend.

        Args:
            why: Said in the entries.
            command: What is being run.
            published: What was found in the folder of releases.
            gone: Hosts that are gone for good with their anchors, and need not be asked.

        Returns: What was done, one line each; empty: nothing was wrong.
        """
        ...

    def incident(self, fault: Fault, *, dry: bool = False, command: str = "") -> Outcome:
        """Charge what releases of the past really cost, because of a fault; twice under the same one does nothing.

        Args:
            fault: What was wrong, and in which draws.
            dry: Only say what would change.
            command: What is being run.

        Raises:
            UnsupportedEvent: What less noise would have meant cannot be said of one of the draws.
        """
        ...

    def tally(self) -> Tally:
        """Everything that stands charged, release by release, quickly; for people who ask, not for a decision."""
        ...

    def reservations(self) -> tuple[Reservation, ...]:
        """Every reservation that was not given back, in ledger order."""
        ...

    def plan_of(self, reservation: Reservation) -> ReleasePlan | None:
        """The plan of a reservation, checked against its fingerprint; None of one that was lost."""
        ...

    def files_read(self) -> tuple[Sourced, ...]:
        """Every record of files that were read for a release, or (reservation 0) looked at, in ledger order."""
        ...

    def entries(self, *, admitted: bool = True) -> Iterator[Entry]:
        """Every entry, in order; ``admitted`` as of :meth:`lacks`."""
        ...

    def check(self) -> tuple[str, ...]:
        """Every finding of a full check, one line each; empty: the ledger is sound."""
        ...

    def disconnect(self) -> None:
        """Close idle connections; the ledger stays usable and connects again when it must."""
        ...
