"""What a ledger says, whatever store it is in; nothing here writes but the anchors of what is handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dprelease.errors import LedgerError
from dprelease.ledger.anchors.anchors import Journal
from dprelease.ledger.anchors.guard import Guard, sound
from dprelease.ledger.anchors.hosts import Hosts
from dprelease.ledger.model.admission import assess_charges
from dprelease.ledger.model.balance import Charged
from dprelease.ledger.model.entry import AccountOpened, LedgerEntry, Sourced
from dprelease.ledger.model.history import State
from dprelease.ledger.model.process import utc_now, utc_text
from dprelease.ledger.model.reservation import Charge, Reservation, StepKey
from dprelease.ledger.model.store import Holder, Lock, Store, Transaction
from dprelease.ledger.tables import view
from dprelease.ledger.tables.published import PublishedBundle, bundles_lacking
from dprelease.ledger.tables.sources import Read, files_read, require_readable
from dprelease.ledger.tables.windowed import with_named_times
from dprelease.noise import Measurement
from dprelease.plan.document import Head, ReleasePlan
from dprelease.plan.document.account import AccountLosses

__all__ = ["Reader"]

_PAGE = 500


class Reader:
    """The methods of a `Ledger` that read: each is one snapshot, and holds nothing when it returns.

    Args:
        store: Where its tables are.
        anchors: Files, elsewhere, that its head is written to.
        clock: Tells the time for the record; never used for order.
        host: The name of this host; empty: as the operating system has it.
        shared: Further anchors, which every host sees under the same path.
    """

    def __init__(
        self,
        store: Store,
        anchors: Sequence[Path] = (),
        clock: Callable[[], datetime] = utc_now,
        host: str = "",
        shared: Sequence[Path] = (),
    ) -> None:
        self._store = store
        hosts = Hosts(store.folder is None, host, [str(path) for path in shared])
        self._guard = Guard(store, Journal([*anchors, *shared]), hosts)
        self._clock = clock
        # By hash of the reserve entry, so never out of date:
        self._steps: dict[str, Mapping[str, int | None]] = {}
        self._cut: dict[str, frozenset[str]] = {}
        self._read: dict[str, Read] = {}  # what this process was last told, or has told, of its sources

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        return self._store.place

    @property
    def id(self) -> str:
        """What it is called, for ever: random, said in every bundle; empty where there is none yet."""
        with self._reading() as rows:
            place = view.place(rows, view.head(rows)) if rows else None
        return place.ledger if place else ""

    @property
    def exists(self) -> bool:
        """Whether anything was ever written."""
        with self._reading() as rows:
            return rows is not None

    def lock(self, release: str, period: str, doing: str) -> Lock:
        """The lock of a release; not taken yet."""
        return self._store.lock(release, period, doing, self._clock)

    def holders(self) -> tuple[Holder, ...]:
        """The locks that are held, or were left behind."""
        return self._store.holders()

    def break_lock(self, holder: Holder) -> None:
        """End what holds a lock.

        Raises:
            LedgerError: It cannot be done from here.
        """
        self._store.break_lock(holder)

    def heads(self, accounts: Sequence[str]) -> dict[str, Head]:
        """The last entry that changed each of these accounts; unknown ones are left out. Quick."""
        with self._reading() as rows:
            stands = view.state(rows).accounts if rows else {}
        return {name: stands[name].head for name in accounts if name in stands}

    def quote(self, charges: Sequence[Charge], period: str) -> tuple[tuple[Charged, ...], tuple[AccountLosses, ...]]:
        """What these charges would come to now, and the facts of accounts that could not pay; nothing is charged.

        Args:
            charges: As for :meth:`reserve`; errors as there, but for ``BudgetExceeded``.
            period: The release's period.
        """
        with self._reading() as rows:
            state = view.state(rows) if rows else State()
            state = with_named_times(rows, state, [charge.account for charge in charges])
        return assess_charges(state, charges, period)

    def openings(self, account: str) -> tuple[tuple[int, AccountOpened], ...]:
        """The entries that opened an account or changed its caps, in order, with their sequence numbers."""
        with self._reading() as rows:
            return view.openings(rows, account) if rows else ()

    def find(self, release: str, period: str) -> Reservation | None:
        """The reservation of a release and period, open or closed; None if none or if it was given back."""
        with self._reading() as rows:
            reservation = view.find(rows, release, period) if rows else None
            return view.with_plan(rows, reservation) if rows and reservation else None

    def reservations(self) -> tuple[Reservation, ...]:
        """Every reservation that was not given back, in ledger order."""
        with self._reading() as rows:
            return view.reservations(rows) if rows else ()

    def stored(self, key: StepKey) -> Measurement | None:
        """The committed measurement of a step, checked against its entry; None if there is none."""
        return self.stored_all((key,)).get(key)

    def stored_all(self, keys: Iterable[StepKey]) -> dict[StepKey, Measurement]:
        """The committed measurements of those steps that have one, each checked against its entry, in one snapshot."""
        with self._reading() as rows:
            found = {key: kept for key in keys if rows and (kept := view.stored(rows, key))}
            last = max((sequence for sequence, _ in found.values()), default=0)
            lines = self._guard.lacking(rows, Head(sequence=last)) if rows and found else ()
        self._guard.anchor(*lines)  # whoever wrote them may have died before that
        return {key: measurement for key, (_, measurement) in found.items()}

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
        with self._reading() as rows:
            require_readable(rows, tables, accounts, key_id, accepted=accepted)

    def measured(self, release: str, period: str, plan: str) -> frozenset[str]:
        """The ids of the measurements of a plan that are there: of its steps, and of the pieces of those in pieces."""
        with self._reading() as rows:
            return view.measured_steps(rows, release, period, plan) if rows else frozenset()

    def plan_of(self, reservation: Reservation) -> ReleasePlan | None:
        """The plan of a reservation, checked against its fingerprint; None of one that was lost."""
        with self._reading() as rows:
            text = view.with_plan(rows, reservation).plan if rows else ""
        return ReleasePlan.from_canonical(text) if text else None

    def files_read(self) -> tuple[Sourced, ...]:
        """Every record of files that were read for a release, or (reservation 0) looked at, in ledger order."""
        with self._reading() as rows:
            return files_read(rows) if rows else ()

    def entries(self, *, admitted: bool = True) -> Iterator[LedgerEntry]:
        """Every entry, in order; ``admitted`` as of :meth:`lacks`."""
        last = 0
        while True:
            with self._reading() if admitted else self._store.reading() as rows:
                page = view.entries_after(rows, last, _PAGE) if rows else []
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].sequence

    def lacks(self, bundles: Sequence[PublishedBundle], *, admitted: bool = True) -> tuple[PublishedBundle, ...]:
        """The published bundles whose charge is not in it; ``admitted=False``: though its anchors contradict it."""
        with self._reading() if admitted else self._store.reading() as rows:
            if rows is None:
                return tuple(bundles)
            sound(rows)
            return bundles_lacking(rows, bundles)

    def warnings(self, *, every: bool = False) -> tuple[str, ...]:
        """What could be lost unnoticed by this host; ``every``: also what is no news to it."""
        with self._reading() as rows:
            place = view.place(rows, view.head(rows)) if rows else None
        return self._guard.hosts.warnings(place.anchors if place else (), every=every)

    def check(self) -> tuple[str, ...]:
        """Every finding of a full check, one line each; empty: the ledger is sound."""
        from dprelease.ledger.audit.check import full_check  # its patterns take a while, and few commands check

        try:
            # The database's own checks run beside ours: they are long, and wait for the disk.
            with ThreadPoolExecutor(1) as beside, self._store.reading() as rows:
                stored = beside.submit(self._store.findings)
                findings = full_check(rows) if rows else []
                return (*stored.result(), *self._guard.wrong(), *findings)
        except LedgerError as error:
            return (error.summary,)

    def disconnect(self) -> None:
        """Close idle connections; the ledger stays usable and connects again when it must."""
        self._store.disconnect()

    @property
    def folder(self) -> Path | None:
        """The folder that contains the ledger file, or None for a database server."""
        return self._store.folder

    def _now(self) -> str:
        return utc_text(self._clock())

    @contextmanager
    def _reading(self) -> Iterator[Transaction | None]:
        looked = self._guard.look()
        with self._store.reading() as rows:
            self._guard.admit(rows, looked)
            yield rows
