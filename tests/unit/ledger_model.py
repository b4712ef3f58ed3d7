"""A ledger that dies on demand, and what a model remembers of it; for the state machine."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from dprelease.errors import LedgerError
from dprelease.ledger import StepKey
from dprelease.ledger.model.anchor_lines import AnchorLine
from dprelease.ledger.tables import view
from dprelease.ledger.tables.write import Write
from tests.ledgers import SQLiteLedger, plan

__all__ = ["CAP", "COSTS", "NAMES", "PLANS", "RELEASES", "STEPS", "Crash", "Facts", "Model", "Name"]

Name = tuple[str, str]  # of a release, and the cost of each of its two steps

RELEASES = ("north", "south", "west")
STEPS = {"a": "people", "b": "people"}
COSTS = ("1/20", "1/10", "1/8")
CAP = Fraction(1)
PLANS = {(name, cost): plan(release=name, steps=STEPS, cost=cost) for name in RELEASES for cost in COSTS}
NAMES = {made.fingerprint(): name for name, made in PLANS.items()}


class Crash(BaseException):
    """The process dies here: nothing catches it, and the connection is dropped."""


class Mortal(SQLiteLedger):
    """Dies ``inside`` the next write, ``after`` its commit, or once it is ``anchored``: each time, nobody was told."""

    def __init__(self, path: Path, anchors: list[Path], told: Callable[[AnchorLine], None]) -> None:
        super().__init__(path, anchors)
        self.dies = "never"
        self._anchor, self._tell = self._guard.anchor, told
        self._guard.anchor = self._die_around  # type: ignore[method-assign]  # that is the point

    @contextmanager
    def _writing(self, **how: Any) -> Iterator[Write]:
        with super()._writing(**how) as write:
            if self.dies == "inside":
                append = write._append

                def fatal(body: Any) -> Any:
                    append(body)
                    raise Crash

                write._append = fatal  # type: ignore[method-assign]  # that is the point
            yield write

    def _die_around(self, *lines: AnchorLine) -> None:
        if lines and self.dies == "after":
            raise Crash
        self._anchor(*lines)
        for line in lines:
            self._tell(line)
        if lines and self.dies == "anchored":
            raise Crash


@dataclass
class Facts:
    """What the file has: every reservation that was not given back, the last one of each release, and answers."""

    states: dict[Name, str] = field(default_factory=dict)
    last: dict[str, Name] = field(default_factory=dict)
    replaced: dict[Name, Name | None] = field(default_factory=dict)
    read: set[Name] = field(default_factory=set)
    answers: dict[StepKey, str] = field(default_factory=dict)


class Model(RuleBasedStateMachine):
    """The ledger and its anchors, and what is known of them without asking."""

    made = 0  # steps, over all examples; invariants are looked at after each

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state" / "ledger.db"
        self.heads = [Path(self.folder.name) / name / "head" for name in ("one", "two")]
        self._told: AnchorLine | None = None
        self.ledger = self.opened()
        self.facts = Facts()
        self.backups: list[tuple[Path, Facts]] = []
        self.behind = False
        self.recovered = False
        self.handed: dict[StepKey, str] = {}
        self.charged: dict[str, Fraction] = {}  # by hash of the reservation: what somebody was told is charged
        self.unanchored: set[str] = set()  # of these: what no anchor knows yet, for they were out of the way
        self.count = 0

    def opened(self) -> Mortal:
        return Mortal(self.path, self.heads, self.tell)

    def tell(self, line: AnchorLine) -> None:
        self.unanchored.clear()  # whoever writes with anchors again tells them everything
        if self._told is None or line.sequence >= self._told.sequence:
            self._told = line

    @property
    def told(self) -> AnchorLine | None:
        """The highest entry that the anchors were told: by a write, or when they came back to the list."""
        found = [
            AnchorLine.from_bytes(part)
            for head in self.heads
            if head.exists()
            for part in head.read_bytes().split(b"\n")
        ]
        known = [line for line in (*found, self._told) if line is not None and line.sequence]
        return max(known, key=lambda line: line.sequence, default=None)

    def teardown(self) -> None:
        self.ledger.disconnect()
        self.folder.cleanup()

    def die(self) -> None:
        """A new process comes."""
        self.ledger.disconnect()
        self.ledger = self.opened()

    def key(self, name: Name, step: str) -> StepKey:
        return StepKey(name[0], "2024", PLANS[name].fingerprint(), step)

    def pick(self, which: int) -> Name:
        there = sorted(self.facts.last.values())
        return there[which % len(there)] if there and which < 85 else sorted(PLANS)[which % len(PLANS)]

    def is_open(self, name: Name) -> bool:
        return self.facts.last.get(name[0]) == name and self.facts.states[name] == "open"

    def spent(self) -> Fraction:
        with self.ledger._reading() as rows:
            found = view.state(rows).accounts.get("people") if rows else None
        return found.balance.spent.loss if found else Fraction(0)

    @contextmanager
    def dying(self, death: str) -> Iterator[None]:
        """The next call dies like this; whatever it says, a new process may have to come."""
        self.count += 1
        self.ledger.dies = death
        try:
            yield
        finally:
            self.ledger.dies = "never"

    def refuses(self, use: Callable[[], object]) -> bool:
        """Where the file was rolled back, nothing can be done with it."""
        if self.behind:
            with pytest.raises(LedgerError, match=r"DPR-L3(05|10|12|13)"):
                use()
        return self.behind

    def reserved(self, name: Name) -> None:
        self.facts.replaced[name] = self.facts.last.get(name[0])
        self.facts.last[name[0]], self.facts.states[name] = name, "open"

    def was_sourced(self, at: tuple[str, str, str]) -> bool:
        self.die()
        return self.ledger.sourced(*at) is not None

    def voided(self, name: Name, mark: str) -> None:
        self.charged.pop(mark, None)
        del self.facts.states[name]
        before = self.facts.replaced.pop(name)
        if before is None:
            del self.facts.last[name[0]]
        else:
            self.facts.last[name[0]] = before

    def has(self, line: AnchorLine) -> bool:
        if not self.path.exists():
            return False
        with closing(sqlite3.connect(self.path)) as connection:
            query = "SELECT hash FROM entries WHERE sequence = ?"
            return connection.execute(query, (line.sequence,)).fetchall() == [(line.hash,)]

    def follow(self) -> None:
        """Which releases a recovery ended or knew to be lost is its to say; nothing is open, and nothing is unknown."""
        answers, read = self.facts.answers, self.facts.read
        before, self.facts = self.facts, Facts(answers=answers, read=read)
        for each in self.ledger.reservations():
            if each.plan_fingerprint not in NAMES:
                continue
            name = NAMES[each.plan_fingerprint]
            assert each.state != "open"
            assert name not in self.facts.states, "one plan is reserved once"
            assert each.state in (before.states.get(name, "lost"), "given_up")
            self.facts.replaced[name] = self.facts.last.get(name[0])
            self.facts.last[name[0]], self.facts.states[name] = name, each.state
        assert before.states.keys() <= self.facts.states.keys()
