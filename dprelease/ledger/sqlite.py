"""The ledger in one SQLite file: for one host, any number of processes and threads."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.errors import BrokenPromiseError, Corrupt, LedgerError
from dprelease.ledger import view
from dprelease.ledger.audit import audit
from dprelease.ledger.base import Charge, Reservation, StepKey
from dprelease.ledger.connect import Connections
from dprelease.ledger.entry import (
    RESTORE,
    AccountFacts,
    Actor,
    Body,
    Charged,
    Closed,
    Entry,
    Measured,
    Opened,
    Refused,
    Reserved,
    Voided,
)
from dprelease.ledger.history import History, judge, out_of_budget, require_heads, require_plan
from dprelease.ledger.place import this_process, utc_now, utc_text
from dprelease.noise import Measurement
from dprelease.plan.document import Head, ReleasePlan, Standing

__all__ = ["SQLiteLedger"]

_PAGE = 500


class SQLiteLedger:
    """A `Ledger` in a file that is created on the first reservation, readable by its owner alone.

    Write-ahead log, every commit synced to the disk, every write in one immediate transaction. The public
    methods are described at `Ledger`.

    Args:
        path: The file; its folder is created where it is missing.
        clock: Tells the time for the record; never used for order.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(os.path.abspath(path))
        self._connections = Connections(self.path, view.require_head)
        self._clock = clock
        self._cells: dict[str, Mapping[str, int | None]] = {}  # by hash of the reserve entry, so never out of date

    @property
    def folder(self) -> Path:
        """Where the lock files of its releases are."""
        return self.path.parent

    def standing(self, accounts: Sequence[str]) -> Standing:
        """Heads and charged events of these accounts."""
        with self._transaction("BEGIN") as connection:
            history = view.history(connection) if connection else {}
        return Standing(accounts={name: history[name].standing for name in accounts if name in history})

    def find(self, release: str, period: str) -> Reservation | None:
        """The reservation of a release and period that was not given back."""
        with self._transaction("BEGIN") as connection:
            return view.find(connection, release, period) if connection else None

    def reservations(self) -> tuple[Reservation, ...]:
        """Every reservation that was not given back."""
        with self._transaction("BEGIN") as connection:
            return view.reservations(connection) if connection else ()

    def stored(self, key: StepKey) -> Measurement | None:
        """The committed measurement of a step, checked."""
        with self._transaction("BEGIN") as connection:
            return view.stored(connection, key) if connection else None

    def measured(self, release: str, period: str, plan: str) -> frozenset[str]:
        """The steps of a plan that have a measurement."""
        with self._transaction("BEGIN") as connection:
            return view.measured(connection, release, period, plan) if connection else frozenset()

    def secret(self, release: str, period: str, plan: str) -> bytes:
        """The key of an open release, made on first use and durable before it is returned."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            live = view.open_reservation(connection, release, period, plan) if connection else None
            found = view.find(connection, release, period) if connection else None
            if connection is None or live is None or found is None:
                raise BrokenPromiseError(f"{release} {period} has no key, for it is not open", code="DPR-L901")
            fresh = (found.sequence, os.urandom(32))
            connection.execute("INSERT OR IGNORE INTO secrets VALUES (?, ?)", fresh)
            rows = connection.execute("SELECT secret FROM secrets WHERE reservation = ?", fresh[:1])
            return bytes(rows.fetchone()[0])

    def entries(self) -> Iterator[Entry]:
        """Every entry, in order; read in pages, so that a slow reader holds nothing open."""
        last = 0
        while True:
            with self._transaction("BEGIN") as connection:
                page = view.page(connection, last, _PAGE) if connection else []
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].sequence

    def check(self) -> tuple[str, ...]:
        """Every finding of a full check."""
        try:
            with self._transaction("BEGIN", greet=False) as connection:
                if connection is None:
                    return ()
                found = view.storage_findings(connection)
                entries, rows = view.all_entries(connection), view.stored_rows(connection)
                return (*found, *audit(entries, rows, view.index(connection)))
        except Corrupt as error:
            return (error.summary,)

    def reserve(
        self,
        plan: ReleasePlan,
        charges: Sequence[Charge],
        heads: Mapping[str, Head] | None = None,
        environment: Mapping[str, str] | None = None,
        command: str = "",
    ) -> Reservation:
        """Charge a whole plan, to all of its accounts or to none."""
        release, period = plan.release.name, plan.release.period
        by = this_process(command)
        refusal = None
        with self._transaction("BEGIN IMMEDIATE", make=True) as connection:
            if connection is None:
                raise Corrupt(f"the ledger {self.path} has disappeared", hint=RESTORE, code="DPR-L305")
            if existing := view.find(connection, release, period):
                return _same_plan(existing, plan)
            require_plan(plan, charges)
            history = view.history(connection)
            if heads is not None:
                require_heads(history, [charge.account.name for charge in charges], heads)
            charged, exceeded = judge(history, charges)
            if exceeded:
                refusal = out_of_budget(plan, history, charges, exceeded)
                self._append(connection, self._refused(plan, exceeded, by))
            else:
                self._open_accounts(connection, history, charges, by)
                body = self._reserved(plan, charged, environment or {}, by)
                row = (self._append(connection, body).sequence, release, period, body.plan_fingerprint)
                connection.execute("INSERT INTO reservations VALUES (?, ?, ?, ?)", row)
        if refusal is not None:
            raise refusal
        kept = self.find(release, period)
        if kept is None:
            raise Corrupt(f"{release} {period} was reserved and is not there", hint=RESTORE, code="DPR-L304")
        return kept

    def commit(self, key: StepKey, measurement: Measurement) -> Measurement:
        """Store a measurement unless the step has one already, and return what is stored."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if connection is None or view.stored(connection, key) is None:
                steps = self._steps(connection, key)
                cells = steps.get(key.step)  # None also where a noisy selection decides
                known = key.step in steps and cells in (None, len(measurement.values))
                if connection is None or key.step != measurement.step or not known:
                    raise BrokenPromiseError(
                        f"what was measured is not {key}: the reserved plan has no such step of such a shape",
                        hint="nothing was stored; please report this",
                        code="DPR-L900",
                    )
                self._store(connection, key, measurement)
        kept = self.stored(key)  # read back: what is handed on is what the disk has
        if kept is None:
            raise Corrupt(f"{key} was committed and is not there", hint=RESTORE, code="DPR-L304")
        return kept

    def close(self, release: str, period: str, plan: str, manifest_digest: str) -> None:
        """Record that a release was published."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            found = view.find(connection, release, period) if connection else None
            if connection is None or found is None or found.plan_fingerprint != plan:
                raise BrokenPromiseError(f"{release} {period} is published and was not reserved", code="DPR-L901")
            if found.state == "closed":
                _require_same_manifest(found, manifest_digest)
                return
            _require_measured(found, view.measured(connection, release, period, plan))
            body = Closed(
                release=release,
                period=period,
                plan=plan,
                reservation=found.sequence,
                manifest=manifest_digest,
                at=utc_text(self._clock()),
            )
            self._end(connection, body)
        self._shorten()

    def void(self, release: str, period: str, plan: str, why: str, command: str = "") -> None:
        """Give a reservation back that no noise was stored for."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            found = view.find(connection, release, period) if connection else None
            if connection is None or found is None or found.plan_fingerprint != plan:
                raise LedgerError(
                    f"{release} {period} is not reserved with plan {plan[:12]}",
                    hint="`dprelease ledger log` shows what is",
                    code="DPR-L130",
                )
            if found.state == "closed" or view.has_measure_entries(connection, found):
                raise BrokenPromiseError(
                    f"{release} {period} cannot be given back: noise was drawn for it",
                    hint="what was drawn stays charged; run the release again to go on where it stopped",
                    code="DPR-L902",
                )
            body = Voided(
                release=release,
                period=period,
                plan=plan,
                reservation=found.sequence,
                why=why,
                at=utc_text(self._clock()),
                by=this_process(command),
            )
            self._end(connection, body)

    def disconnect(self) -> None:
        """Close idle connections."""
        self._connections.disconnect()

    @contextmanager
    def _transaction(
        self, begin: str, *, make: bool = False, greet: bool = True
    ) -> Iterator[sqlite3.Connection | None]:
        # An exception closes the connection, and with it rolls back.
        with self._connections.use(make=make, greet=greet) as connection:
            if connection is not None:
                connection.execute(begin)
            yield connection
            if connection is not None:
                connection.execute("COMMIT")

    def _append(self, connection: sqlite3.Connection, body: Body) -> Entry:
        entry = Entry.after(view.head(connection), body)
        row = (entry.sequence, entry.previous, entry.hash, entry.kind, entry.text)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
        return entry

    def _open_accounts(
        self, connection: sqlite3.Connection, history: Mapping[str, History], charges: Sequence[Charge], by: Actor
    ) -> None:
        for charge in charges:
            past = history.get(charge.account.name)
            if past is None or past.account.lifetime != charge.account.lifetime:
                body = Opened(
                    account=charge.account.name,
                    unit=charge.account.unit,
                    neighboring=charge.account.neighboring,
                    composition=charge.account.composition,
                    cap=charge.account.lifetime,
                    selecting=charge.account.selecting,
                    replaces=past.opened if past else None,
                    at=utc_text(self._clock()),
                    by=by,
                )
                self._append(connection, body)

    def _reserved(
        self, plan: ReleasePlan, charged: tuple[Charged, ...], environment: Mapping[str, str], by: Actor
    ) -> Reserved:
        text = plan.canonical()
        return Reserved(
            release=plan.release.name,
            period=plan.release.period,
            plan=text,
            plan_fingerprint=sha256(text.encode()),
            spec_fingerprint=plan.spec_fingerprint,
            charges=charged,
            environment=dict(environment),
            at=utc_text(self._clock()),
            by=by,
        )

    def _refused(self, plan: ReleasePlan, exceeded: tuple[AccountFacts, ...], by: Actor) -> Refused:
        return Refused(
            release=plan.release.name,
            period=plan.release.period,
            plan=plan.fingerprint(),
            exceeded=exceeded,
            at=utc_text(self._clock()),
            by=by,
        )

    def _steps(self, connection: sqlite3.Connection | None, key: StepKey) -> Mapping[str, int | None]:
        """How many numbers each step of the open reservation of a key has."""
        live = view.open_reservation(connection, key.release, key.period, key.plan) if connection else None
        if connection is None or live is None:
            raise BrokenPromiseError(
                f"{key} was measured without an open reservation of its plan",
                hint="nothing was stored; please report this",
                code="DPR-L901",
            )
        if live not in self._cells:
            found = view.find(connection, key.release, key.period)
            plan = ReleasePlan.from_canonical(found.plan) if found else None
            self._cells[live] = {step.id: step.numbers for step in plan.steps} if plan else {}
        return self._cells[live]

    def _store(self, connection: sqlite3.Connection, key: StepKey, measurement: Measurement) -> None:
        payload = measurement.to_bytes()
        body = Measured(
            release=key.release,
            period=key.period,
            plan=key.plan,
            step=key.step,
            cells=len(measurement.values),
            digest=sha256(payload),
            at=utc_text(self._clock()),
        )
        entry = self._append(connection, body)
        row = (key.release, key.period, key.plan, key.step, entry.sequence, body.digest, payload)
        connection.execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _end(self, connection: sqlite3.Connection, body: Closed | Voided) -> None:
        entry = self._append(connection, body)
        connection.execute("INSERT INTO endings VALUES (?, ?, ?)", (body.reservation, entry.sequence, body.kind))
        connection.execute("DELETE FROM secrets WHERE reservation = ?", (body.reservation,))

    def _shorten(self) -> None:
        # A long write-ahead log that is damaged loses its tail without a word, so it is folded in after each
        # release. Best effort: while somebody reads, the log simply stays.
        with self._connections.use() as connection:
            if connection is not None:
                timeout = connection.execute("PRAGMA busy_timeout").fetchone()[0]
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute(f"PRAGMA busy_timeout = {int(timeout)}")


def _same_plan(existing: Reservation, plan: ReleasePlan) -> Reservation:
    mark = plan.fingerprint()
    if existing.plan_fingerprint == mark:
        return existing
    raise LedgerError(
        f"{existing.release} {existing.period} is {existing.state} with plan {existing.plan_fingerprint[:12]}, "
        f"and this is plan {mark[:12]}",
        detail="one release and period is measured once, from one plan",
        hint="give the changed spec another `period` or `name`, or run the unchanged spec to go on",
        code="DPR-L110",
    )


def _require_same_manifest(found: Reservation, digest: str) -> None:
    if found.manifest != digest:
        raise LedgerError(
            f"{found.release} {found.period} was published with manifest {found.manifest}, not {digest}",
            hint="the first publication stands; render it again with the version that made it",
            code="DPR-L131",
        )


def _require_measured(found: Reservation, measured: frozenset[str]) -> None:
    missing = [step.id for step in ReleasePlan.from_canonical(found.plan).steps if step.id not in measured]
    if missing:
        raise BrokenPromiseError(
            f"{found.release} {found.period} cannot be closed: {len(missing)} steps have no measurement, "
            f"the first is {missing[0]}",
            hint="run the release again: it goes on where it stopped",
            code="DPR-L903",
        )
