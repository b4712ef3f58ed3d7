"""The rules of every ledger, over whatever store: charged before read, drawn once, never forgotten.

Every write is one transaction that is durable, and then in every anchor, before its method returns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from dprelease.canonical import sha256
from dprelease.errors import BrokenPromiseError, Corrupt
from dprelease.failpoints import POINTS, hit
from dprelease.ledger.model.admission import out_of_budget, require_heads, require_plan
from dprelease.ledger.model.balance import Actor
from dprelease.ledger.model.entry import RESTORE
from dprelease.ledger.model.fault import Fault
from dprelease.ledger.model.lifecycle import not_reserved, require_measured, require_same_manifest
from dprelease.ledger.model.process import this_process
from dprelease.ledger.model.reservation import Charge, Reservation, SourcesRead, StepKey
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.reader import Reader
from dprelease.ledger.recovery import recover_ledger
from dprelease.ledger.tables import view
from dprelease.ledger.tables.incident import IncidentOutcome, corrections, record, recorded
from dprelease.ledger.tables.published import Evidence
from dprelease.ledger.tables.reserving import Opening, is_new, record_closing, record_reservation, record_void
from dprelease.ledger.tables.sources import record_look, record_source, require_same_data
from dprelease.ledger.tables.tally import Tally, tally
from dprelease.ledger.tables.write import Write, record_measurement
from dprelease.noise import Measurement
from dprelease.plan.document import Account, Head, ReleasePlan
from dprelease.plan.document.approval import Signed
from dprelease.privacy.event import Composed

__all__ = ["Ledger"]


class Ledger(Reader):
    """Remembers what was charged and what was answered, for ever.

    Every method is one transaction and holds nothing when it returns. Safe to call from several threads,
    processes and, where the store says so, hosts. Beside what is listed, every method may raise `Corrupt`
    (an entry or a measurement is not what its hash says), `Locked` (the store is busy: try again) and
    `LedgerError` (the store cannot be used, and why).
    """

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
        as ``ledger.model.lifecycle`` says.

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
        release, period, by = plan.release.name, plan.release.period, this_process(command)
        text = plan.canonical()  # once, and before anybody has to wait: a plan of many steps is long
        mark = sha256(text.encode())
        hit("reserve.begun")
        with self._writing(make=True, by=by, point="reserve") as write:
            existing = view.find(write.rows, release, period)
            if not is_new(write.rows, existing, plan, mark, restates) and existing:
                return view.with_plan(write.rows, existing)
            require_plan(plan, charges)
            if heads is not None:
                require_heads(write.state, [charge.account.name for charge in charges], heads)
            facts = {
                "environment": dict(environment or {}),
                "restates": existing.sequence if existing else None,
                "reason": _revised(plan) or restates,
                "approvals": tuple(approvals),
            }
            state, exceeded = record_reservation(write, plan, text, charges, facts, self._now, by)
        if exceeded:  # said only now: nobody waits for words
            raise out_of_budget(plan, state, charges, exceeded, again=facts["restates"] is not None)
        kept = self.find(release, period)
        if kept is None or kept.plan_fingerprint != mark:
            raise Corrupt(f"{release} {period} was reserved and is not there", hint=RESTORE, code="DPR-L304")
        self._remember_steps(kept, plan)  # whose text is the one that was stored: their fingerprint is the same
        return kept

    def secret(self, release: str, period: str, plan: str) -> bytes:
        """32 random bytes that belong to an open release: the same ones at every call, until it ends.

        They decide which rows of a unit with too many are left out. They are durable before they are returned, so
        that a resumed run reads the same rows, and are removed when the release is closed or given back.

        Raises:
            BrokenPromiseError: There is no open reservation of that plan.
        """
        with self._writing(point="secret") as write:
            live = self._open(write.rows, release, period, plan)
            fresh = os.urandom(32)
            query = "INSERT INTO secrets VALUES (?, ?) ON CONFLICT DO NOTHING"
            write.rows.execute(query, (live.sequence, fresh))
            hit("secret.made")
            return view.secret(write.rows, live.sequence) or fresh

    def sourced(self, release: str, period: str, plan: str) -> SourcesRead | None:
        """What was read for an open release; None: nothing was.

        Its reservation is in every anchor when this returns, so that reading may begin.

        Raises:
            BrokenPromiseError: There is no open reservation of that plan.
        """
        with self._reading() as rows:
            live = self._open(rows, release, period, plan)
            sources = view.sources(rows, live.sequence) if rows else None
            self._read[live.hash] = (sources.tables, sources.key) if sources else None
            entry = Head(sequence=live.sequence, hash=live.hash)
            lines = self._guard.lacking(rows, entry, (release, period, plan)) if rows else ()
        self._guard.anchor(*lines)
        return sources

    def source(
        self,
        release: str,
        period: str,
        plan: str,
        tables: Mapping[str, tuple[str, ...]],
        key_id: str,
        accepted: str = "",
        command: str = "",
        rows: Mapping[str, str] = MappingProxyType({}),
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
            rows: By table of a series, a keyed hash of the rows of the release's own period.

        Raises:
            LedgerError: One of the files was read for another account; or other data are accepted while a step has
                some of its pieces and not all.
            BrokenPromiseError: There is no open reservation of that plan.
        """
        with self._writing(point="source") as write:
            live = self._open(write.rows, release, period, plan)
            planned = self._plan(write.rows, live)
            record_source(write, live, planned, tables, key_id, accepted, self._now(), this_process(command), rows)
        self._read[live.hash] = (dict(tables), key_id)

    def look(self, plan: ReleasePlan, tables: Mapping[str, tuple[str, ...]], key_id: str, command: str = "") -> None:
        """Record, once for each command, that files which no account has paid for are looked at for a plan; free.

        Raises:
            LedgerError: An account has paid for one of them.
        """
        by = this_process(command)
        with self._writing(make=True, by=by, point="source") as write:
            record_look(write, plan, tables, key_id, self._now(), by)

    def commit(self, key: StepKey, measurement: Measurement) -> Measurement:
        """Store one measurement, as :meth:`commit_all` does."""
        return self.commit_all({key: measurement})[key]

    def commit_all(self, drawn: Mapping[StepKey, Measurement]) -> dict[StepKey, Measurement]:
        """Store measurements, all of them or none, but for steps that have one already; return what is stored.

        Only the returned measurements may be handed on: a loser's own draws are thrown away unseen.

        Raises:
            BrokenPromiseError: There is no open reservation of that plan, a step is not in it, or a measurement has
                another step or number of cells.
            LedgerError: One is of a piece of a step, and other data were accepted since this process compared its own.
        """
        hit("commit.begun")
        opened: dict[tuple[str, str, str], Reservation] = {}  # none of them changes within the transaction
        with self._writing(point="commit") as write:
            for key, measurement in drawn.items():
                if view.stored(write.rows, key) is None:
                    named = (key.release, key.period, key.plan)
                    if (live := opened.get(named)) is None:
                        live = opened[named] = self._open(write.rows, *named)
                    self._require_step(write.rows, live, key, measurement)
                    if key.step in self._cut[live.hash]:
                        require_same_data(live, self._read.get(live.hash), view.sources(write.rows, live.sequence))
                    record_measurement(write, key, measurement, self._now())
        kept = self.stored_all(drawn)  # read back: what is handed on is what the disk has
        if lost := [key for key in drawn if key not in kept]:
            raise Corrupt(f"{lost[0]} was committed and is not there", hint=RESTORE, code="DPR-L304")
        hit("commit.read")
        return kept

    def close(self, release: str, period: str, plan: str, manifest_digest: str) -> None:
        """Record that a release was published; again with the same digest does nothing.

        Raises:
            BrokenPromiseError: A step has no measurement, or the plan is not reserved.
            LedgerError: It was closed with another manifest.
        """
        hit("close.begun")
        with self._writing(point="close") as write:
            reservation = view.find(write.rows, release, period)
            if reservation is None or reservation.plan_fingerprint != plan:
                raise BrokenPromiseError(f"{release} {period} is published and was not reserved", code="DPR-L901")
            if reservation.state == "closed":
                require_same_manifest(reservation, manifest_digest)
                return
            measured = view.measured_steps(write.rows, release, period, plan)
            # Of a lost one nothing is known.
            steps = self._known_steps(write.rows, reservation) if reservation.state == "open" else {}
            require_measured(reservation, steps, measured)
            record_closing(write, reservation, self._now(), manifest=manifest_digest)
        self._store.after_close()
        self._guard.journal.shorten()
        hit("close.shortened")

    def give_up(self, release: str, period: str, plan: str, why: str) -> None:
        """End an open release that is not to be finished; what it was charged stays charged.

        Raises:
            LedgerError: That plan is not reserved, or has ended.
        """
        with self._writing(point="close") as write:
            reservation = view.find(write.rows, release, period)
            if reservation is None or reservation.plan_fingerprint != plan or reservation.state != "open":
                raise not_reserved(release, period, plan)
            record_closing(write, reservation, self._now(), gave_up=why or "no reason given")

    def void(self, release: str, period: str, plan: str, why: str, command: str = "") -> None:
        """Give a reservation back; only for failures before anything was read, so that they cannot depend on data.

        Raises:
            BrokenPromiseError: Something was read or measured, or the release has ended.
            LedgerError: That plan is not reserved.
        """
        by = this_process(command)
        with self._writing(by=by, point="close") as write:
            reservation = view.find(write.rows, release, period)
            if reservation is None or reservation.plan_fingerprint != plan:
                raise not_reserved(release, period, plan)
            record_void(write, reservation, why, self._now(), by)

    def open_account(
        self, account: Account, why: str, series: Sequence[tuple[Composed, int]] = (), command: str = ""
    ) -> None:
        """Open an account, or record its caps anew, without a release.

        Args:
            account: As the policy has it.
            why: Said in the entry.
            series: For a ``pld`` account: the draws of each kind of release that it will ever have, and how many.
            command: What is being run.

        Raises:
            LedgerError: It was opened with another unit, relation, composition or series, or needs a series.
            BudgetExceeded: The series costs more than the cap.
        """
        by = this_process(command)
        with self._writing(make=True, by=by, point="reserve") as write:
            Opening(write, self._now(), by).open(account, why, series)

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
        return recover_ledger(self._store, self._guard, why, self._now(), this_process(command), published, gone)

    def incident(self, fault: Fault, *, dry: bool = False, command: str = "") -> IncidentOutcome:
        """Charge what releases of the past really cost, because of a fault; twice under the same one does nothing.

        Args:
            fault: What was wrong, and in which draws.
            dry: Only say what would change.
            command: What is being run.

        Raises:
            UnsupportedEvent: What less noise would have meant cannot be said of one of the draws.
        """
        if dry:
            with self._reading() as rows:
                return IncidentOutcome(corrections(rows, fault), recorded(rows, fault)) if rows else IncidentOutcome(())
        by = this_process(command)
        with self._writing(by=by, point="incident") as write:
            changed = corrections(write.rows, fault)
            if changed:
                record(write, fault, changed, self._now(), by)
            return IncidentOutcome(changed, recorded(write.rows, fault))

    def tally(self) -> Tally:
        """Everything that stands charged, release by release, quickly; for people who ask, not for a decision."""
        with self._reading() as rows:
            return tally(rows) if rows else Tally()

    @contextmanager
    def _writing(self, *, make: bool = False, by: Actor | None = None, point: str) -> Iterator[Write]:
        if make and not self._guard.admitted:
            with self._reading():
                pass  # a ledger that is gone is refused before anything is made in its place
        looked = self._guard.look()
        with self._store.writing(make=make) as rows:
            if rows is None:
                self._guard.admit(rows, looked)
                raise BrokenPromiseError("nothing was ever reserved in this ledger", code="DPR-L901")
            write = Write(rows, self._guard.admit_writer(rows, looked))
            before = write.state.head.sequence
            self._guard.settle(write, self._now(), by or this_process())
            yield write
            line = self._guard.whole(write, before, looked)
        if f"{point}.committed" in POINTS:
            hit(f"{point}.committed")
        if line is not None:
            self._guard.anchor(line)
            self._guard.farewell(line)
            if f"{point}.anchored" in POINTS:
                hit(f"{point}.anchored")

    def _open(self, rows: Transaction | None, release: str, period: str, plan: str) -> Reservation:
        """The open reservation of a plan."""
        reservation = view.find(rows, release, period) if rows else None
        if reservation is None or reservation.plan_fingerprint != plan or reservation.state != "open":
            raise BrokenPromiseError(
                f"{release} {period} is measured without an open reservation of its plan",
                hint="nothing was stored; please report this",
                code="DPR-L901",
            )
        return reservation

    def _plan(self, rows: Transaction, reservation: Reservation) -> ReleasePlan:
        return ReleasePlan.from_canonical(view.plan_text(rows, reservation.sequence, reservation.plan_fingerprint))

    def _known_steps(self, rows: Transaction, reservation: Reservation) -> Mapping[str, int | None]:
        """How many numbers each measurement of a reservation has: one of a step, or of a piece of one."""
        if reservation.hash not in self._steps:
            self._remember_steps(reservation, self._plan(rows, reservation))
        return self._steps[reservation.hash]

    def _remember_steps(self, reservation: Reservation, plan: ReleasePlan) -> None:
        self._cut[reservation.hash] = frozenset(p.id(step) for step, pieces in plan.pieces.items() for p in pieces)
        self._steps[reservation.hash] = plan.numbers

    def _require_step(self, rows: Transaction, live: Reservation, key: StepKey, measurement: Measurement) -> None:
        steps = self._known_steps(rows, live)
        cells = steps.get(key.step)  # None also where a noisy selection decides
        if key.step not in steps or key.step != measurement.step or cells not in (None, len(measurement.values)):
            raise BrokenPromiseError(
                f"what was measured is not {key}: the reserved plan has no such step of such a shape",
                hint="nothing was stored; please report this",
                code="DPR-L900",
            )


def _revised(plan: ReleasePlan) -> str:
    """Why a planned revision is released; empty: it is none."""
    release = plan.release
    return f"planned revision {release.revision} of {release.revisions}" if release.revision else ""
