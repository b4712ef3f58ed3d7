"""One release from a request to a bundle, as steps that an executor walks.

Whatever happens in between - a kill, a second process, another orchestrator - the same request ends in the same
release: the ledger knows which steps have an answer, and only the others are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from dprelease.background import in_background
from dprelease.canonical import sha256
from dprelease.catalog.table import Table
from dprelease.engines import Maker, OpenedEngine, engine_for
from dprelease.errors import DpReleaseError
from dprelease.event_log import Event, tell, traced
from dprelease.failpoints import hit
from dprelease.freed_memory import give_back
from dprelease.ledger import Charge, Ledger, Lock, Reservation, has_ended, open_ledger
from dprelease.noise import Sampler, recorded_sampler, require_sampler
from dprelease.plan.document import Batch, Head, ReleasePlan
from dprelease.plan.document.approval import Signed
from dprelease.plan.explain.same_question import asked
from dprelease.plan.verify.second_opinion import heard
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish import folder_for, kept_beside, rehearse, write
from dprelease.release.approval import require_approvals
from dprelease.release.data import public_content
from dprelease.release.data.earlier_periods import catalogs_read, digests_of_rows, require_same_rows
from dprelease.release.data.restating import changed_data_note, nothing_to_restate, replacement
from dprelease.release.data.sources import RunSources, SourceKey, confidential_tables, fingerprints, source_key
from dprelease.release.draw import DataSource, draw_batch
from dprelease.release.environment import environment
from dprelease.release.opinion import begin_opinion, figures_beside
from dprelease.release.planning import (
    Target,
    charges,
    check_fresh,
    is_another,
    open_target,
    plan_release,
    require_computable,
    require_same_spec,
)
from dprelease.release.project import reference_tables
from dprelease.release.publishing.earlier import require_earlier
from dprelease.release.publishing.overview import write_overview
from dprelease.release.publishing.published import make_way, require_accounted
from dprelease.release.publishing.rendering import Outcome, looks_of, outcome, rendered, tuning_note
from dprelease.release.records.audited import taken_along
from dprelease.release.rehearsal import Rehearsal
from dprelease.release.request import Request
from dprelease.release.revisions import other_frozen, plan_of_revision, require_time
from dprelease.release.series import require_series
from dprelease.signature import PrivateKey

__all__ = ["Outcome", "Progress", "Request", "Run", "open_run"]

Progress = Callable[[str, int, int], None]


class Run:
    """An open release: planned, locked and reserved. A context manager; leaving it frees the lock and the engine."""

    def __init__(
        self,
        request: Request,
        target: Target,
        ledger: Ledger,
        lock: Lock,
        rehearsal: Rehearsal | None,
        key: PrivateKey | None = None,
    ) -> None:
        self._request, self._target, self._ledger, self._lock = request, target, ledger, lock
        self._rehearsal, self._key = rehearsal, key
        self._folder = rehearsal.folder if rehearsal else target.project.folder
        self._engines: dict[Maker, OpenedEngine] = {}
        self._sources, self._reused = RunSources(), frozenset[str]()
        self._made_with: Future[dict[str, str]] | None = None  # versions and commit, once they were asked for
        self._heard: Future[bool] | None = None  # the second opinion, likewise
        self._mine, self._note = False, ""  # whether it has made the reservation; what to say of one that was there
        self.ledger_warnings: tuple[str, ...] = ()  # what its user should know

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()
        self._lock.release()
        if self._rehearsal:
            self._rehearsal.close()

    def _forget(self) -> None:
        """Let go of every row."""
        for engine in self._engines.values():
            engine.close()

    def _engine(self, tables: Mapping[str, Table]) -> OpenedEngine:
        """The engine that reads these tables, opened when it is first needed."""
        maker = engine_for(tables.values())
        if maker not in self._engines:
            self._engines[maker] = maker(self._folder, os.environ)
        return self._engines[maker]

    def reserve(self) -> None:
        """Find the open or closed release of this name and period, or plan it and charge it in full."""
        target, release = self._target, self._target.loaded.spec.release
        if self._request.revision:
            self._revise(release.name, release.period)
            return
        known = self._ledger.find(release.name, release.period)
        if known is not None and not self._restates(known):
            self._resume(known)
            return
        if known is None and self._request.restate and not self._rehearsal:
            raise nothing_to_restate(release.name, release.period, self._ledger)
        if not self._rehearsal:
            require_time(self._target.loaded, 0, self._request.early, datetime.now(UTC))
        plan = plan_release(self._target)
        check_fresh(self._target, plan)
        approvals: tuple[Signed, ...] = ()
        if not self._rehearsal:
            approvals = require_approvals(target.project.policy, target.frozen, plan, target.spec_file.name)
        if known is not None:
            plan = replacement(self._ledger, known, plan, self._request.restate, lambda: self._hashed(plan))
        self._preflight(plan)  # plan_release has verified it
        heads = self._target.frozen.heads if self._target.frozen and not self._rehearsal else None
        self._reserve(plan, charges(plan, self._target.loaded), heads, approvals, self._request.restate)

    def _reserve(
        self,
        plan: ReleasePlan,
        owed: Sequence[Charge] = (),
        heads: Mapping[str, Head] | None = None,
        approvals: Sequence[Signed] = (),
        restates: str = "",
    ) -> None:
        """Charge the plan in the ledger, or find it charged."""
        hit("run.planned")
        early = " ".join(self._request.early.split())
        command = f"dprelease run --early: {early}" if early else "dprelease run"
        made_with = self._made_with.result() if self._made_with else environment(self._request.sampler)
        recorded = {**made_with, **taken_along(self._request.audit, plan)}
        self.reservation: Reservation = self._ledger.reserve(
            plan, owed, heads, recorded, command, restates=restates, approvals=approvals
        )
        self.plan, self._mine = plan, self.reservation.reserved_by.process == os.getpid()
        self._tell("reserved", entry=self.reservation.sequence)

    def _revise(self, release: str, period: str) -> None:
        """Find or reserve a planned revision: the plan is that of the publication, and was approved and paid with it.

        Raises:
            LedgerError: It is none that was planned, or not the next one (``ledger.model.lifecycle``).
            PlanError: It is not due yet, or the frozen plan is not the one that was published.
        """
        plan = plan_of_revision(self._ledger, release, period, self._request.revision)
        frozen, mark = self._target.frozen, plan.fingerprint()
        if frozen and frozen.plan_fingerprint != asked(plan).fingerprint():
            raise other_frozen(release, period)
        verify(plan)
        known = self._ledger.find(release, period)
        if known is None or known.plan_fingerprint != mark:  # it is begun now
            require_time(self._target.loaded, self._request.revision, self._request.early, datetime.now(UTC))
            self._preflight(plan)
        self._reserve(plan)

    def _preflight(self, plan: ReleasePlan) -> None:
        """Let all refuse now that would refuse once it is charged: memory, sampler, engine, publishing, the sources."""
        require_sampler(self._request.sampler)
        self._made_with = in_background(lambda: environment(self._request.sampler))  # most of it is waiting for git
        self._heard = in_background(lambda: heard(plan, figures_beside))  # which is waited for before anything is read
        engine = self._engine(tables := self._tables(plan))
        for table in tables.values():
            engine.describe(table)
        require_computable(plan, engine, self._target.project.folder)
        accept = self._request.accept_changed_data
        if not self._rehearsal:
            require_series(self._ledger, plan, restates=bool(self._request.restate), accepts=bool(accept))
        earlier = require_earlier(self._ledger, None if self._rehearsal else self._target.project.releases, plan)
        rehearse(plan, "" if self._key is None else self._key.public.text, earlier)
        if not self._rehearsal:
            self._sources.look(self._ledger, tables, engine, key := self._source_key(), accept)
            self._rows(plan, engine, key)
        self._require_public(plan)

    def _require_public(self, plan: ReleasePlan) -> None:
        """No reference is a confidential file; of a rehearsal, which reads no source, it was told by its path alone."""
        project = self._target.project
        if plan.catalog.references and not self._rehearsal:
            public_content.require_public(plan, project.folder, project.confidential, self._ledger, project.source_key)

    def _restates(self, known: Reservation) -> bool:
        """Whether to plan anew: it was asked for, and what is there is not this very restatement."""
        if not self._request.restate:
            return False  # the spec of one that is gone on with may have references that are no longer there
        return is_another(self._target, known) or (known.state == "closed" and bool(self._data_note(known)))

    def _data_note(self, known: Reservation) -> str:
        """What became of the files that a release was measured from; empty: they are as they were."""
        if self._rehearsal:
            return ""
        return changed_data_note(self._ledger, known, lambda: self._hashed(ReleasePlan.from_canonical(known.plan)))

    def _hashed(self, plan: ReleasePlan) -> tuple[SourceKey, dict[str, tuple[str, ...]]]:
        """The files of a plan as they are now, by keyed hash; the key is there, for something was measured."""
        key, tables = self._source_key(), self._tables(plan)
        return key, fingerprints(self._engine(tables), tables, key)

    def pin(self) -> None:
        """Fingerprint what is about to be read, or hold it against what was read before; nothing where all is measured.

        Before the first step is drawn, and so before a byte is read for it, ``dp_accounting`` must have agreed.

        Raises:
            BrokenPromiseError: It disagrees. What this run has reserved is then given back, for nothing was read.
            NoOpinion: It is installed and gives no answer.
            LedgerError: The data are not those that the release was begun with.
            Unavailable: A source cannot be read.
            MissingExtra: What drew the release so far is not installed.
        """
        pending = self._pending()
        if self.closed or not pending:
            return
        require_sampler(self._sampler)
        if not self._ledger.measured(*self._identity):
            heard(self.plan, figures_beside) if self._heard is None else self._heard.result()
        # Made here, by one thread, and shared by those that measure.
        self._references = reference_tables(self.plan.catalog, self._target.project.folder)
        tables = self._tables(self.plan)
        self._catalog = self.plan.catalog.model_copy(update={"tables": {**self.plan.catalog.tables, **tables}})
        engine = self._engine(tables)
        for catalog in (self._catalog, *catalogs_read(self.plan, self._catalog)):
            engine.expect(catalog, (each for batch in pending for each in batch.questions.items()))
        key = SourceKey.thrown_away() if self._rehearsal else self._source_key()
        accept, own = self._request.accept_changed_data, self.reservation.period
        if not self._rehearsal:
            require_series(self._ledger, self.plan, restates=False, accepts=bool(accept))

        def rows() -> dict[str, str]:
            return {name: by[own] for name, by in self._rows(self.plan, engine, key).items()}

        self._pinned = self._sources.pin(self._ledger, self._identity, tables, engine, key, accept, rows)
        self._tell("pinned")

    def _rows(self, plan: ReleasePlan, engine: OpenedEngine, key: SourceKey) -> dict[str, dict[str, str]]:
        """Keyed hashes of the rows that series read, by table and period; those of earlier periods are as they were."""
        tables = {**plan.catalog.tables, **self._tables(plan)}
        found = digests_of_rows(plan, plan.catalog.model_copy(update={"tables": tables}), engine, key.secret)
        if not self._rehearsal:
            require_same_rows(self._ledger, plan, found, key.id)
        return found

    def _source_key(self) -> SourceKey:
        project = self._target.project
        return source_key(project.source_key, project.releases, self._ledger)

    def give_back(self, error: BaseException) -> None:
        """After a failure before the first read: the budget that this run has just reserved is returned.

        Nothing was read, so the failure cannot depend on the data. Whatever fails later stays charged.
        """
        if not self._mine or self._sources.begun:
            return
        why = "cancelled" if not isinstance(error, Exception) else getattr(error, "code", type(error).__name__)
        with suppress(DpReleaseError):  # it stays charged then, and can be resumed
            self._ledger.void(*self._identity, f"before the first read: {why}", "dprelease run")
            self._tell("given_back", code=why)

    def _resume(self, known: Reservation) -> None:
        if known.state in ("given_up", "lost"):
            raise has_ended(known)
        if not self._request.as_planned:
            require_same_spec(self._target, known)
        self.plan = ReleasePlan.from_canonical(known.plan)
        verify(self.plan)
        self.reservation = known
        if not self.closed:
            self._require_public(self.plan)
        else:
            self._note = self._data_note(known)
        self._tell("found", entry=known.sequence)

    def _tables(self, plan: ReleasePlan) -> dict[str, Table]:
        tables = confidential_tables(plan)
        return self._rehearsal.tables(plan, tables) if self._rehearsal else tables

    @property
    def closed(self) -> bool:
        """Whether the release was finished before this run."""
        return self.reservation.state == "closed"

    def batches(self) -> tuple[Batch, ...]:
        """Batches that still have a step without an answer; called once, before any is measured."""
        self._reused = self._ledger.measured(*self._identity)
        return self._pending()

    def _pending(self) -> tuple[Batch, ...]:
        done = self._ledger.measured(*self._identity)
        return tuple(batch for batch in self.plan.batches() if not done.issuperset(batch.ids))

    @property
    def _identity(self) -> tuple[str, str, str]:
        return self.reservation.release, self.reservation.period, self.reservation.plan_fingerprint

    @property
    def _named(self) -> dict[str, str]:
        """What lines and spans say of every event of this release."""
        return dict(zip(("release", "period", "plan"), self._identity, strict=True))

    def _tell(self, event: Event, **known: str | int) -> None:
        if self._rehearsal is None:
            tell(event, **self._named, **known)

    @property
    def _sampler(self) -> Sampler:
        """What the reservation has recorded."""
        return recorded_sampler(self.reservation.environment.get("sampler", ""))

    def measure(self, batch: Batch) -> int:
        """Measure a batch; returns how many measurements it is made of, all of which are now committed."""
        source = DataSource(self._catalog, self._references, self._pinned.engine, self._pinned, self._sampler)
        with traced("measure", **self._named, steps=len(batch.steps)):
            measured = draw_batch(batch, source, self._ledger, self._identity)
        for step in batch.ids:
            self._tell("measured", step=step)
        return len(measured)

    def publish(self) -> Outcome:
        """Render from the committed answers, write the bundle, close the release."""
        with traced("publish", **self._named):
            return self._publish()

    def _publish(self) -> Outcome:
        self._forget()  # nothing is read any more, and publishing takes memory of its own
        give_back()
        hit("publish.begun")  # the reservation is then read again: what was accepted of its data came after it
        release = self._ledger.find(*self._identity[:2]) or self.reservation
        project, made_up = self._target.project, self._rehearsal is not None
        folder = folder_for(self._releases, self.reservation.release, self.reservation.period)
        with kept_beside(self._releases):
            publication = rendered(self._ledger, release, project, key=self._key, rehearsal=made_up, known=self.plan)
            hit("publish.rendered")
            if not self._rehearsal:
                make_way(self._ledger, folder, self.reservation.hash, self.reservation.plan_fingerprint)
            write(publication, folder)
        # Before the release is closed: nothing comes back to one that is, so a kill here would leave it unlisted.
        warning = "; ".join(filter(None, (*self.ledger_warnings, write_overview(self._releases))))
        state: Literal["published", "exists"] = "exists" if self.closed else "published"
        drawn = len(self.plan.numbers) - (reused := len(self._reused))
        if not self.closed:
            self._ledger.close(*self._identity, sha256(publication.files["manifest.json"]))
            self._tell("published", steps=drawn, reused=reused)
        ended = outcome(self.reservation, self.plan, folder, state, drawn, reused, warning)
        note = "" if self._rehearsal else tuning_note(looks_of(self._ledger, release))
        return ended.model_copy(update={"note": "; ".join(filter(None, (self._note, note)))})

    @property
    def _releases(self) -> Path:
        releases = self._target.project.releases
        return self._rehearsal.releases(releases) if self._rehearsal else releases


def open_run(request: Request, doing: str) -> Run:
    """Load the target, take the release's lock, and reserve its budget (or find it reserved).

    Raises:
        SpecError, PlanError: If there is nothing that could be released, or no key to sign it with.
        LedgerError: If it is to replace what was never released, or what cannot be replaced; no file was opened.
        Locked: If another process is releasing the same name and period.
        BudgetExceeded: If an account, a cap or a ceiling says no; nothing is charged.
    """
    begin_opinion()
    target = open_target(Path(request.target), request.period)
    # Read before anything is planned or charged: a release that cannot be signed must not be paid for.
    key = None if request.synthetic else target.project.signing_key(os.environ)
    rehearsal = Rehearsal.begin() if request.synthetic else None
    ledger = open_ledger("sqlite:///ledger.db", rehearsal.folder) if rehearsal else target.project.open_ledger()
    release = target.loaded.spec.release
    lock = ledger.lock(release.name, release.period, doing)
    lock.acquire()
    run = Run(request, target, ledger, lock, rehearsal, key)
    try:
        if rehearsal is None:
            run.ledger_warnings = require_accounted(ledger, target.project.releases, release.name, release.period)
        with traced("reserve", release=release.name, period=release.period):
            run.reserve()
            run.pin()
    except BaseException as error:
        run.give_back(error)
        run.__exit__()
        raise
    return run
