"""The rules of every ledger, over whatever store: charged before read, drawn once, never forgotten.

Every write is one transaction that is durable, and then in every anchor, before its method returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from dprelease.canonical import sha256
from dprelease.errors import BrokenPromiseError, Corrupt
from dprelease.ledger import view
from dprelease.ledger.balance import Actor
from dprelease.ledger.base import Charge, Reservation, Sources, StepKey
from dprelease.ledger.entry import RESTORE, Closed, Measured, Refused, Reserved, Voided
from dprelease.ledger.fault import ERRATA
from dprelease.ledger.incident import Fault, Outcome, changes, record, recorded
from dprelease.ledger.judge import judge, out_of_budget, require_heads, require_plan
from dprelease.ledger.opening import Opening
from dprelease.ledger.place import this_process
from dprelease.ledger.published import Evidence
from dprelease.ledger.reader import Reader
from dprelease.ledger.recovery import recover
from dprelease.ledger.restating import repeated
from dprelease.ledger.revised import Past, revises
from dprelease.ledger.rules import not_reserved, replaces, require_measured, require_same_manifest
from dprelease.ledger.sourcing import record_look, record_source, require_same_data
from dprelease.ledger.store import Rows
from dprelease.ledger.tally import Tally, tally
from dprelease.ledger.write import Write
from dprelease.noise import Measurement
from dprelease.plan.approved import Signed
from dprelease.plan.document import Account, Head, ReleasePlan
from dprelease.points import POINTS, reach
from dprelease.privacy.event import Composed

__all__ = ["Book"]


class Book(Reader):
    """A `Ledger`. The public methods are described there."""

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
        """Charge a whole plan, to all of its accounts or to none."""
        release, period, by = plan.release.name, plan.release.period, this_process(command)
        text = plan.canonical()
        mark = sha256(text.encode())
        reach("reserve.begun")
        refused = None
        with self._writing(make=True, by=by, point="reserve") as write:
            existing = view.find(write.rows, release, period)
            if existing and not self._is_new(write.rows, existing, plan, mark, restates):
                kept = view.with_plan(write.rows, existing)
            else:
                if plan.release.revision and not existing:
                    revises((), plan, mark)
                require_plan(plan, charges)
                if heads is not None:
                    require_heads(write.state, [charge.account.name for charge in charges], heads)
                opening = Opening(write, self._now(), by)
                opening.name_times([charge.account for charge in charges])
                charged, exceeded = judge(write.state, charges, period)
                reach("reserve.judged")
                if exceeded:
                    refused = write.state, exceeded
                    facts = {"release": release, "period": period, "plan": mark, "exceeded": exceeded}
                    write.append(partial(Refused, **facts, at=self._now(), by=by))
                else:
                    opening.ensure([charge.account for charge in charges])
                    reach("reserve.opened")
                    body = partial(
                        Reserved,
                        release=release,
                        period=period,
                        plan_fingerprint=mark,
                        spec_fingerprint=plan.spec_fingerprint,
                        charges=charged,
                        environment=dict(environment or {}),
                        restates=existing.sequence if existing else None,
                        reason=_revised(plan) or restates,
                        revision=plan.release.revision,
                        approvals=tuple(approvals),
                        mended=tuple(ERRATA),
                        at=self._now(),
                        by=by,
                    )
                    self._reserve(write, body, charges, text)
                kept = None
        if refused is not None:  # said only now: nobody waits for words
            raise out_of_budget(plan, refused[0], charges, refused[1])
        kept = kept or self.find(release, period)
        if kept is None or kept.plan_fingerprint != mark:
            raise Corrupt(f"{release} {period} was reserved and is not there", hint=RESTORE, code="DPR-L304")
        return kept

    def _is_new(self, rows: Rows, existing: Reservation, plan: ReleasePlan, mark: str, why: str) -> bool:
        """Whether a plan is to be reserved beside what is there; False: it is the one that is there.

        Raises:
            LedgerError: Neither.
        """
        release, period = existing.release, existing.period
        if plan.release.revision:
            past = [
                Past(each.plan_fingerprint, each.state, each.revision) for each in view.history(rows, release, period)
            ]
            return revises(past, plan, mark)
        used = view.was_planned(rows, release, period, mark) or (bool(why) and repeated(rows, existing, plan))
        return replaces(existing, mark, why, used=used)

    def _reserve(self, write: Write, body: Callable[..., Reserved], charges: Sequence[Charge], text: str) -> None:
        kept = body()
        write.keep(text.encode())
        for charge in charges:
            write.keep(charge.events.canonical().encode())
        entry = write.charge(body, {charge.facts.name: charge for charge in kept.charges})
        reach("reserve.appended")
        write.index_reservation(entry, kept.release, kept.period, kept.plan_fingerprint, kept.restates)
        reach("reserve.indexed")

    def secret(self, release: str, period: str, plan: str) -> bytes:
        """The key of an open release, made on first use and durable before it is returned."""
        with self._writing(point="secret") as write:
            live = self._open(write.rows, release, period, plan)
            fresh = os.urandom(32)
            query = "INSERT INTO secrets VALUES (?, ?) ON CONFLICT DO NOTHING"
            write.rows.execute(query, (live.sequence, fresh))
            reach("secret.made")
            return view.secret(write.rows, live.sequence) or fresh

    def sourced(self, release: str, period: str, plan: str) -> Sources | None:
        """What was read for an open release; its reservation is in every anchor when this returns."""
        with self._reading() as rows:
            live = self._open(rows, release, period, plan)
            found = view.sources(rows, live.sequence) if rows else None
            self._read[live.hash] = (found.tables, found.key) if found else None
            entry = Head(sequence=live.sequence, hash=live.hash)
            lines = self._guard.lacking(rows, entry, (release, period, plan)) if rows else ()
        self._guard.anchor(*lines)
        return found

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
        """Record what is read for an open release."""
        with self._writing(point="source") as write:
            live = self._open(write.rows, release, period, plan)
            planned = self._plan(write.rows, live)
            record_source(write, live, planned, tables, key_id, accepted, self._now(), this_process(command))
        self._read[live.hash] = (dict(tables), key_id)

    def look(self, plan: ReleasePlan, tables: Mapping[str, tuple[str, ...]], key_id: str, command: str = "") -> None:
        """Record that a plan is about to be compared with these files."""
        by = this_process(command)
        with self._writing(make=True, by=by, point="source") as write:
            record_look(write, plan, tables, key_id, self._now(), by)

    def commit(self, key: StepKey, measurement: Measurement) -> Measurement:
        """Store a measurement unless the step has one already, and return what is stored."""
        reach("commit.begun")
        with self._writing(point="commit") as write:
            if view.stored(write.rows, key) is None:
                live = self._open(write.rows, key.release, key.period, key.plan)
                self._require_step(write.rows, live, key, measurement)
                if key.step in self._cut[live.hash]:
                    require_same_data(live, self._read.get(live.hash), view.sources(write.rows, live.sequence))
                payload = measurement.to_bytes()
                digest = write.keep(payload)
                reach("commit.stored")
                facts = {"release": key.release, "period": key.period, "plan": key.plan, "step": key.step}
                cells = len(measurement.values)
                entry = write.append(partial(Measured, **facts, cells=cells, digest=digest, at=self._now()))
                reach("commit.appended")
                write.index_measurement(entry, key, digest)
                reach("commit.indexed")
        kept = self.stored(key)  # read back: what is handed on is what the disk has
        if kept is None:
            raise Corrupt(f"{key} was committed and is not there", hint=RESTORE, code="DPR-L304")
        reach("commit.read")
        return kept

    def close(self, release: str, period: str, plan: str, manifest_digest: str) -> None:
        """Record that a release was published."""
        reach("close.begun")
        with self._writing(point="close") as write:
            found = view.find(write.rows, release, period)
            if found is None or found.plan_fingerprint != plan:
                raise BrokenPromiseError(f"{release} {period} is published and was not reserved", code="DPR-L901")
            if found.state == "closed":
                require_same_manifest(found, manifest_digest)
                return
            measured = view.measured(write.rows, release, period, plan)
            # Of a lost one nothing is known.
            steps = self._known_steps(write.rows, found) if found.state == "open" else {}
            require_measured(found, steps, measured)
            self._end(write, found, manifest=manifest_digest)
        self._store.after_close()
        self._guard.journal.shorten()
        reach("close.shortened")

    def give_up(self, release: str, period: str, plan: str, why: str) -> None:
        """End an open release that is not to be finished."""
        with self._writing(point="close") as write:
            found = view.find(write.rows, release, period)
            if found is None or found.plan_fingerprint != plan or found.state != "open":
                raise not_reserved(release, period, plan)
            self._end(write, found, gave_up=why or "no reason given")

    def void(self, release: str, period: str, plan: str, why: str, command: str = "") -> None:
        """Give a reservation back that nothing was read for."""
        by = this_process(command)
        with self._writing(by=by, point="close") as write:
            found = view.find(write.rows, release, period)
            if found is None or found.plan_fingerprint != plan:
                raise not_reserved(release, period, plan)
            read = view.sources(write.rows, found.sequence) or view.has_measurements(write.rows, found)
            if found.state != "open" or read:
                raise BrokenPromiseError(
                    f"{release} {period} cannot be given back: it was read, or noise was drawn for it",
                    hint="what may have been drawn stays charged; run the release again to go on where it stopped",
                    code="DPR-L902",
                )
            reserved = view.at(write.rows, found.sequence).facts()
            charged = reserved.charges if isinstance(reserved, Reserved) else ()
            charges = {charge.facts.name: write.priced(charge) for charge in charged}
            facts = {"release": release, "period": period, "plan": plan, "reservation": found.sequence}
            entry = write.give_back(partial(Voided, **facts, why=why, at=self._now(), by=by), charges)
            write.end(found.sequence, entry, "void", (release, period, plan))

    def open_account(
        self, account: Account, why: str, series: Sequence[tuple[Composed, int]] = (), command: str = ""
    ) -> None:
        """Open an account, or record its caps anew."""
        by = this_process(command)
        with self._writing(make=True, by=by, point="reserve") as write:
            Opening(write, self._now(), by).open(account, why, series)

    def recover(
        self, why: str, command: str = "", *, published: Sequence[Evidence] = (), gone: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Make a ledger usable that its anchors or bundles contradict, or that was moved."""
        return recover(self._store, self._guard, why, self._now(), this_process(command), published, gone)

    def incident(self, fault: Fault, *, dry: bool = False, command: str = "") -> Outcome:
        """Charge what past releases really cost, or (``dry``) only say it."""
        if dry:
            with self._reading() as rows:
                return Outcome(changes(rows, fault), recorded(rows, fault)) if rows else Outcome(())
        by = this_process(command)
        with self._writing(by=by, point="incident") as write:
            found = changes(write.rows, fault)
            if found:
                record(write, fault, found, self._now(), by)
            return Outcome(found, recorded(write.rows, fault))

    def tally(self) -> Tally:
        """Everything that stands charged, release by release."""
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
            reach(f"{point}.committed")
        if line is not None:
            self._guard.anchor(line)
            self._guard.farewell(line)
            if f"{point}.anchored" in POINTS:
                reach(f"{point}.anchored")

    def _open(self, rows: Rows | None, release: str, period: str, plan: str) -> Reservation:
        """The open reservation of a plan."""
        found = view.find(rows, release, period) if rows else None
        if found is None or found.plan_fingerprint != plan or found.state != "open":
            raise BrokenPromiseError(
                f"{release} {period} is measured without an open reservation of its plan",
                hint="nothing was stored; please report this",
                code="DPR-L901",
            )
        return found

    def _plan(self, rows: Rows, found: Reservation) -> ReleasePlan:
        return ReleasePlan.from_canonical(view.plan_text(rows, found))

    def _known_steps(self, rows: Rows, found: Reservation) -> Mapping[str, int | None]:
        """How many numbers each measurement of a reservation has: one of a step, or of a piece of one."""
        if found.hash not in self._steps:
            plan = self._plan(rows, found)
            self._cut[found.hash] = frozenset(p.id(step) for step, pieces in plan.pieces.items() for p in pieces)
            self._steps[found.hash] = plan.numbers
        return self._steps[found.hash]

    def _require_step(self, rows: Rows, live: Reservation, key: StepKey, measurement: Measurement) -> None:
        steps = self._known_steps(rows, live)
        cells = steps.get(key.step)  # None also where a noisy selection decides
        if key.step not in steps or key.step != measurement.step or cells not in (None, len(measurement.values)):
            raise BrokenPromiseError(
                f"what was measured is not {key}: the reserved plan has no such step of such a shape",
                hint="nothing was stored; please report this",
                code="DPR-L900",
            )

    def _end(self, write: Write, found: Reservation, *, manifest: str = "", gave_up: str = "") -> None:
        body = partial(
            Closed,
            release=found.release,
            period=found.period,
            plan=found.plan_fingerprint,
            reservation=found.sequence,
            manifest=manifest,
            gave_up=gave_up,
            at=self._now(),
        )
        entry = write.append(body)
        reach("close.appended")
        write.end(found.sequence, entry, "give_up" if gave_up else "close")
        reach("close.indexed")


def _revised(plan: ReleasePlan) -> str:
    """Why a planned revision is released; empty: it is none."""
    release = plan.release
    return f"planned revision {release.revision} of {release.revisions}" if release.revision else ""
