"""Whatever order of events: one answer per step, spend never below what was handed on, and no rollback unnoticed.

The model knows what callers were told: it is never asked what the ledger did, but where a recovery had to decide.
"""

from __future__ import annotations

import copy
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError
from dprelease.ledger.anchors.anchors import Journal
from dprelease.ledger.model.anchor_lines import AnchorLine
from dprelease.ledger.tables import view
from tests.ledgers import SQLiteLedger, account, answer, charges, fill, plan
from tests.tiers import few
from tests.unit.ledger_model import CAP, COSTS, NAMES, PLANS, RELEASES, STEPS, Crash, Facts, Model

releases = st.sampled_from(RELEASES)
costs = st.sampled_from(COSTS)
steps = st.sampled_from(sorted(STEPS))
mostly = st.integers(0, 99)  # which reservation: mostly one that is there
deaths = st.sampled_from(["never", "never", "never", "inside", "after", "anchored"])
reasons = st.sampled_from(["", "why"])


class Machine(Model):
    """The ledger and its anchors beside a model of them."""

    @initialize(cost=costs, restored=st.booleans())
    def begin(self, cost: str, restored: bool) -> None:
        """Hypothesis leaves rules out at random: whatever is left has something to work on."""
        self.reserve("north", cost, "", "never")
        self.reserve("south", COSTS[0], "", "never")
        self.measure_all(0)
        self.backup()
        self.measure_all(1)
        if restored:
            self.restore(0, delete=False)
            self.recover("never")

    @rule(release=releases, cost=costs, reason=reasons, death=deaths)
    def reserve(self, release: str, cost: str, reason: str, death: str) -> None:
        name, made = (release, cost), PLANS[release, cost]
        if self.refuses(lambda: self.ledger.reserve(made, charges(made), restates=reason)):
            return
        fits = self.spent() + 2 * Fraction(cost) <= CAP
        last = self.facts.last.get(release)
        state = self.facts.states[last] if last else "none"
        free = last is None or (bool(reason) and state != "open" and name not in self.facts.states)
        with self.dying(death):
            try:
                kept = self.ledger.reserve(made, charges(made), restates=reason)
            except Crash:
                if death != "inside" and free and fits:
                    self.reserved(name)
                self.die()
            except BudgetExceeded:
                assert free
                assert not fits
            except LedgerError:
                assert not free
                assert name != last or state not in ("open", "closed") or reason
            else:
                assert (free and fits) or (name == last and state in ("open", "closed"))
                assert kept.plan == made.canonical()
                if free:
                    assert bool(kept.restates) == (last is not None)
                    self.reserved(name)
                self.charged[kept.hash] = 2 * Fraction(cost)

    @precondition(lambda self: self.facts.last)
    @rule(which=mostly, death=deaths)
    def source(self, which: int, death: str) -> None:
        name = self.pick(which)
        at = (name[0], "2024", PLANS[name].fingerprint())

        def read() -> None:
            known = self.ledger.sourced(*at)
            assert (known is not None) == (name in self.facts.read)
            tables = {"people": ("hash" if known is None else f"hash {self.count}",)}
            self.ledger.source(*at, tables, "key", accepted="" if known is None else "changed")

        if self.refuses(read):
            return
        with self.dying(death):
            try:
                read()
            except Crash:
                # It may have died while it made sure that the reservation is in the anchors, before any reading.
                if death != "inside" and self.is_open(name):
                    self.facts.read |= {name} if self.was_sourced(at) else set()
                self.die()
            except BrokenPromiseError:
                assert not self.is_open(name)
            else:
                assert self.is_open(name)
                self.facts.read.add(name)

    @precondition(lambda self: self.facts.last or self.handed)
    @rule(which=mostly, step=steps, death=deaths)
    def commit(self, which: int, step: str, death: str) -> None:
        name = self.pick(which)
        at, drawn = self.key(name, step), answer(step, self.count)
        if self.refuses(lambda: self.ledger.commit(at, drawn)):
            return
        before = self.facts.answers.get(at)
        with self.dying(death):
            try:
                kept = self.ledger.commit(at, drawn)
            except Crash:
                if death != "inside" and before is None and self.is_open(name):
                    self.facts.answers[at] = drawn.digest  # committed: whoever asks next gets it
                self.die()
            except BrokenPromiseError:
                assert not self.is_open(name)
                assert before is None
            else:
                assert kept.digest == (before or drawn.digest)
                assert kept.digest == self.handed.get(at, kept.digest), "nobody ever gets another answer"
                self.facts.answers[at] = self.handed[at] = kept.digest

    @precondition(lambda self: self.facts.last)
    @rule(which=mostly, death=deaths)
    def close(self, which: int, death: str) -> None:
        name = self.pick(which)
        release = name[0]
        whole = all(self.key(name, step) in self.facts.answers for step in STEPS)
        mark = PLANS[name].fingerprint()
        if self.refuses(lambda: self.ledger.close(release, "2024", mark, "manifest")):
            return
        state = self.facts.states.get(name)
        with self.dying(death):
            try:
                self.ledger.close(release, "2024", mark, "manifest")
            except Crash:
                if death != "inside":
                    self.facts.states[name] = "closed"
                self.die()
            except BrokenPromiseError:
                assert state != "closed"
                assert state != "open" or not whole
            else:
                assert whole
                assert state in ("open", "closed")
                self.facts.states[name] = "closed"

    @precondition(lambda self: self.facts.last)
    @rule(which=mostly, death=deaths)
    def give_up(self, which: int, death: str) -> None:
        name = self.pick(which)
        release = name[0]
        mark = PLANS[name].fingerprint()
        if self.refuses(lambda: self.ledger.give_up(release, "2024", mark, "why")):
            return
        with self.dying(death):
            try:
                self.ledger.give_up(release, "2024", mark, "why")
            except Crash:
                if death != "inside":
                    self.facts.states[name] = "given_up"
                self.die()
            except (LedgerError, BrokenPromiseError):
                assert not self.is_open(name)
            else:
                assert self.is_open(name)
                self.facts.states[name] = "given_up"

    @precondition(lambda self: self.facts.last)
    @rule(which=mostly, death=deaths)
    def void(self, which: int, death: str) -> None:
        name = self.pick(which)
        release = name[0]
        mark = PLANS[name].fingerprint()
        if self.refuses(lambda: self.ledger.void(release, "2024", mark, "no file")):
            return
        drawn = name in self.facts.read or any(self.key(name, step) in self.facts.answers for step in STEPS)
        may = self.is_open(name) and not drawn
        found = self.ledger.find(release, "2024")
        with self.dying(death):
            try:
                self.ledger.void(release, "2024", mark, "no file")
            except Crash:
                if death != "inside":
                    self.voided(name, found.hash if found else "")
                self.die()
            except (LedgerError, BrokenPromiseError):
                assert not may
            else:
                assert may
                self.voided(name, found.hash if found else "")

    @rule()
    def another_process(self) -> None:
        self.die()

    @rule(which=mostly)
    def measure_all(self, which: int) -> None:
        """A whole run, from wherever it is: what most processes do."""
        name = self.pick(which)
        if not self.behind and self.is_open(name):
            self.source(which, "never")
            for step in STEPS:
                self.commit(which, step, "never")

    @precondition(lambda self: not self.behind and self.facts.last)
    @rule()
    def backup(self) -> None:
        if self.path.exists():
            self.ledger.disconnect()
            to = Path(self.folder.name) / f"backup {len(self.backups)}"
            with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(to)) as target:
                source.backup(target)
            self.backups.append((to, copy.deepcopy(self.facts)))

    @precondition(lambda self: self.backups)
    @rule(which=st.integers(0, 9), delete=st.sampled_from([False, False, False, True]))
    def restore(self, which: int, *, delete: bool) -> None:
        """An old copy takes the file's place, or nothing does; a file that lacks nothing anchored is as good as new."""
        self.ledger.disconnect()
        for each in self.path.parent.glob("ledger.db*"):
            each.unlink()
        self.facts = Facts()
        for mark in self.unanchored:  # nothing can know what was spent without anchors and is gone
            del self.charged[mark]
        self.unanchored.clear()
        if not delete:
            old, facts = self.backups[which % len(self.backups)]
            shutil.copy(old, self.path)
            self.facts = copy.deepcopy(facts)
        self.ledger = self.opened()
        self.behind = self.told is not None and not self.has(self.told)

    @precondition(lambda self: self.facts.last)
    @rule(cost=costs)
    def go_on_without_anchors(self, cost: str) -> None:
        """Somebody takes the anchors out of the list, releases something else, and puts them back.

        The ledger has written down where they are: those that know more than the file are asked all the same.
        """
        if not self.path.exists():
            return
        self.ledger.disconnect()
        self.count += 1
        bare, made = SQLiteLedger(self.path), plan(release=f"bare-{self.count}", cost=cost)
        if self.refuses(lambda: fill(bare, made)):
            bare.disconnect()
            self.die()
            return
        try:
            kept = fill(bare, made)
            self.charged[kept.hash] = Fraction(cost)
            self.unanchored.add(kept.hash)
        except BudgetExceeded:
            pass
        bare.disconnect()
        self.die()

    @precondition(lambda self: self.backups)
    @rule(death=st.sampled_from(["never", "never", "committed"]))
    def recover(self, death: str) -> None:
        known = self.told
        with pytest.MonkeyPatch.context() as context:
            if death == "committed":

                def die(*_: object) -> None:
                    raise Crash

                context.setattr(Journal, "renew", die)
            try:
                done = self.ledger.recover("again")
            except Crash:
                assert self.behind
                self.die()
                return
        assert bool(done) == self.behind
        if not self.behind:
            return
        self.behind, self.recovered = False, True
        assert known is not None
        lost = {each.release: each for each in self.ledger.reservations()}
        for at in self.handed:
            assert lost[at.release].state != "open"
        with self.ledger._reading() as rows:
            assert rows is not None
            head = view.head(rows)
        self._told = None
        self.tell(AnchorLine(ledger=known.ledger, sequence=head.sequence, hash=head.hash))
        self.follow()

    @invariant()
    def every_answer_that_was_handed_on_is_still_the_answer_or_there_is_none_for_ever(self) -> None:
        if self.behind:
            return
        for at, digest in self.handed.items():
            found = self.ledger.stored(at)
            if found is None:
                name = NAMES[at.plan]
                assert self.recovered
                assert not self.is_open(name)
                with pytest.raises(BrokenPromiseError):
                    self.ledger.commit(at, answer(at.step, 1_000_000))
            else:
                assert found.digest == digest

    @invariant()
    def spend_is_never_below_what_was_handed_on_and_above_the_cap_only_by_a_recovery(self) -> None:
        if self.behind:
            return
        spent = self.spent()
        assert spent >= sum(self.charged.values(), Fraction(0))
        assert spent <= CAP or self.recovered
        assert account().lifetime.epsilon == CAP

    @invariant()
    def the_file_has_what_the_model_says(self) -> None:
        if self.behind:
            return
        found = [each for each in self.ledger.reservations() if each.plan_fingerprint in NAMES]
        assert {NAMES[each.plan_fingerprint]: each.state for each in found} == self.facts.states
        for release, name in self.facts.last.items():
            last = self.ledger.find(release, "2024")
            assert last is not None
            assert NAMES[last.plan_fingerprint] == name

    @invariant()
    def the_check_finds_nothing_but_a_rollback(self) -> None:
        type(self).made += 1
        assert bool(self.ledger.check()) == self.behind


def run(examples: int, length: int) -> int:
    """How many steps were made."""
    before = Machine.made
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=length,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return Machine.made - before


def test_any_order_of_events(capsys: pytest.CaptureFixture[str]) -> None:
    made = run(few(12, 5), 25)
    with capsys.disabled():
        print(f"{made} steps of a ledger ", end="")
    assert made > 100


@pytest.mark.nightly
def test_ten_thousand_events(capsys: pytest.CaptureFixture[str]) -> None:
    made = 0
    while made < 10_000:
        made += run(100, 60)
    with capsys.disabled():
        print(f"{made} steps of a ledger ", end="")
