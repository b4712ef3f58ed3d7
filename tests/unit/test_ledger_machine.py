"""Whatever order of reserve, commit, crash, retry, close and void: one answer per step, and never under-charged."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError
from dprelease.ledger import Reservation, SQLiteLedger, StepKey
from dprelease.ledger.entry import Body, Entry
from dprelease.noise import Measurement
from tests.ledgers import account, answer, charges, key, plan

RELEASES = ("north", "south", "west")
STEPS = {"a": "people", "b": "people"}
COSTS = ("1/8", "1/5")
PLANS = {(name, cost): plan(release=name, steps=STEPS, cost=cost) for name in RELEASES for cost in COSTS}


class Crash(BaseException):
    """The process dies here: nothing catches it, and the connection is dropped."""


class Mortal(SQLiteLedger):
    """Dies ``inside`` the next write, or ``after`` it: committed, and nobody was told."""

    dies = "never"

    def _append(self, connection: object, body: Body) -> Entry:
        entry = super()._append(connection, body)  # type: ignore[arg-type]  # the base class says what it is
        if self.dies == "inside":
            raise Crash
        return entry

    def stored(self, key: StepKey) -> Measurement | None:
        if self.dies == "after":
            raise Crash
        return super().stored(key)

    def find(self, release: str, period: str) -> Reservation | None:
        if self.dies == "after":
            raise Crash
        return super().find(release, period)


releases = st.sampled_from(RELEASES)
deaths = st.sampled_from(["never", "never", "inside", "after"])


class Machine(RuleBasedStateMachine):
    """The ledger beside a model of it: a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = self.opened()
        self.live: dict[str, str] = {}  # release -> cost
        self.closed: set[str] = set()
        self.handed: dict[StepKey, str] = {}
        self.draws = 0

    def opened(self) -> Mortal:
        return Mortal(Path(self.folder.name) / "ledger.db")

    def teardown(self) -> None:
        self.ledger.disconnect()
        self.folder.cleanup()

    def spent(self) -> Fraction:
        return sum((2 * Fraction(cost) for cost in self.live.values()), Fraction(0))

    def key(self, release: str, step: str) -> StepKey:
        cost = self.live.get(release, COSTS[0])
        return StepKey(release, "2024", PLANS[release, cost].fingerprint(), step)

    def die(self) -> None:
        """A new process comes."""
        self.ledger.disconnect()
        self.ledger = self.opened()

    @rule(release=releases, cost=st.sampled_from(COSTS), death=deaths)
    def reserve(self, release: str, cost: str, death: str) -> None:
        made = PLANS[release, cost]
        fits = self.spent() + 2 * Fraction(cost) <= 1
        known = self.live.get(release)
        self.ledger.dies = death
        try:
            kept = self.ledger.reserve(made, charges(made))
        except Crash:
            if death == "after" and known is None:
                self.live[release] = cost
            self.die()
        except BudgetExceeded:
            assert known is None
            assert not fits
        except LedgerError:
            assert known not in (None, cost)
        else:
            assert known == cost or (known is None and fits)
            assert kept.plan == made.canonical()
            self.live[release] = cost
        self.ledger.dies = "never"

    @rule(release=releases, step=st.sampled_from(sorted(STEPS)), death=deaths)
    def commit(self, release: str, step: str, death: str) -> None:
        self.draws += 1
        at, drawn = self.key(release, step), answer(step, self.draws)
        before = self.handed.get(at)
        self.ledger.dies = death
        try:
            kept = self.ledger.commit(at, drawn)
        except Crash:
            if death == "after" and before is None:
                self.handed[at] = drawn.digest  # committed: whoever asks next gets it
            self.die()
        except BrokenPromiseError:
            assert release not in self.live or (release in self.closed and before is None)
        else:
            assert kept.digest == (before or drawn.digest)
            self.handed[at] = kept.digest
        self.ledger.dies = "never"

    @rule(release=releases, death=st.sampled_from(["never", "inside"]))
    def close(self, release: str, death: str) -> None:
        whole = all(self.key(release, step) in self.handed for step in STEPS)
        self.ledger.dies = death
        try:
            self.ledger.close(release, "2024", self.key(release, "a").plan, "manifest")
        except Crash:
            self.die()
        except BrokenPromiseError:
            assert release not in self.live or not whole
        else:
            assert whole
            self.closed.add(release)
        self.ledger.dies = "never"

    @rule(release=releases, death=st.sampled_from(["never", "inside"]))
    def void(self, release: str, death: str) -> None:
        drawn = any(self.key(release, step) in self.handed for step in STEPS)
        self.ledger.dies = death
        try:
            self.ledger.void(release, "2024", self.key(release, "a").plan, "no source")
        except Crash:
            self.die()
        except BrokenPromiseError:
            assert drawn
        except LedgerError:
            assert release not in self.live
        else:
            assert not drawn
            del self.live[release]
        self.ledger.dies = "never"

    @rule()
    def another_process(self) -> None:
        self.die()

    @invariant()
    def every_answer_that_was_handed_on_is_still_the_answer(self) -> None:
        for at, digest in self.handed.items():
            found = self.ledger.stored(at)
            assert found is not None
            assert found.digest == digest

    @invariant()
    def what_was_drawn_is_charged_and_the_cap_holds(self) -> None:
        found = {each.release: each for each in self.ledger.reservations()}
        assert set(found) == set(self.live)
        assert {name for name, each in found.items() if each.state == "closed"} == self.closed
        for at in self.handed:
            assert key(found[at.release], at.step) == at
        assert len(self.ledger.standing(["people"]).of("people").charged) == len(self.live)
        assert self.spent() <= account().lifetime.epsilon  # type: ignore[operator]  # it is a cap in epsilon

    @invariant()
    def the_check_finds_nothing(self) -> None:
        assert self.ledger.check() == ()


TestLedgerMachine = Machine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
