"""The promise of a schedule: whatever fails, is killed, is late or is changed, no period is forgotten and none comes twice.

Histories are made up; what has to follow from one is told here by a book of its own, apart from the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import PlanError
from dprelease.ledger import Holder, Reservation
from dprelease.release.schedule.due import coverage
from dprelease.release.schedule.due_runs import Agenda, Turn, turns
from dprelease.spec.fields.schedule import Scheduled, ScheduleSpec
from tests.ledgers import SQLiteLedger, charges, fill, plan
from tests.tiers import few

from .test_due import schedule, taken

State = Literal["open", "closed", "given_up"]
NOW = datetime(2024, 6, 20, 12, tzinfo=UTC)


def holder(period: str) -> Holder:
    return Holder(release="r", period=period, host="h", process=7, since="t", doing="measuring", alive=True)


def told(
    made: ScheduleSpec,
    reservations: Sequence[Reservation] = (),
    held: Mapping[str, Holder] | None = None,
    first: str | None = "2024-01",
    now: datetime = NOW,
    most: int = 0,
) -> Agenda:
    return turns(Scheduled("r", first, made), reservations, held or {}, now, most)


def text(found: Agenda) -> list[str]:
    return [str(turn) + "*" * turn.resumes for turn in found.turns]


def why(found: Agenda) -> dict[str, str]:
    return {each.period: each.why for each in found.left}


def test_what_was_left_comes_first_then_what_is_due_the_earliest_first() -> None:
    begun = [taken("2024-04", "open"), taken("2024-01", "closed"), taken("2024-02", "open")]
    found = told(schedule(), begun)

    assert text(found) == ["2024-02*", "2024-04*", "2024-03", "2024-05"]
    assert found.left == ()
    assert [(turn.request("s.yaml").period, turn.request("s.yaml").as_planned) for turn in found.turns[:1]] == [
        ("2024-02", True)
    ]


def test_what_somebody_works_on_is_left_to_him() -> None:
    begun = [taken("2024-02", "open"), taken("2024-01", "closed")]
    found = told(schedule(), begun, {"2024-02": holder("2024-02"), "2024-04": holder("2024-04")})

    assert text(found) == ["2024-03", "2024-05"]
    assert why(found) == {"2024-02": "held", "2024-04": "held"}
    assert "process 7 on h" in found.left[0].says
    assert not any(each.alarm for each in found.left)


def test_what_is_not_attempted_is_told_and_why() -> None:
    begun = [taken("2024-01", "given_up"), taken("2024-W20", "open")]
    found = told(schedule(retention="60d", skip={"2024-03": "no survey"}), begun)

    assert text(found) == ["2024-04", "2024-05"]
    assert {(each.period, each.why, each.alarm) for each in found.left} == {
        ("2024-01", "given_up", False),
        ("2024-02", "lost", True),
        ("2024-03", "skipped", False),
        ("2024-W20", "outside", True),
    }
    assert {each.period: each.says for each in found.left}["2024-03"] == "no survey"
    assert "2024-04-30" in {each.period: each.says for each in found.left}["2024-02"]
    assert why(told(schedule(last="2024-03"), [taken("2024-05", "open")]))["2024-05"] == "outside"


def test_a_run_may_take_a_few_only() -> None:
    found = told(schedule(), [taken("2024-02", "open")], most=2)

    assert text(found) == ["2024-02*", "2024-01"]
    assert why(found) == {"2024-03": "most", "2024-04": "most", "2024-05": "most"}


def revised(period: str, number: int, state: State) -> Reservation:
    return taken(period, state).model_copy(update={"revision": number})


def with_revisions(
    begun: Sequence[Reservation], planned: int = 2, held: Mapping[str, Holder] | None = None, **fields: Any
) -> Agenda:
    made = schedule(**{"revisions": ("1m", "3m"), "last": "2024-01", **fields})
    return turns(Scheduled("r", "2024-01", made), begun, held or {}, NOW, planned=lambda base: planned)


def test_of_revisions_only_the_last_that_is_due_comes() -> None:
    base = taken("2024-01", "closed")

    assert text(with_revisions([base])) == ["2024-01 revision 2"]
    assert with_revisions([base]).turns[0].request("s.yaml").revision == 2
    assert text(with_revisions([base], revisions=("1m", "9m"))) == ["2024-01 revision 1"]
    assert text(with_revisions([base], revisions=("9m",))) == []
    assert text(with_revisions([base, revised("2024-01", 1, "closed")])) == ["2024-01 revision 2"]
    assert text(with_revisions([base, revised("2024-01", 2, "closed")])) == []
    assert text(with_revisions([base, revised("2024-01", 1, "given_up")])) == ["2024-01 revision 2"]


def test_a_revision_that_was_begun_is_gone_on_with_before_the_next_one() -> None:
    base = taken("2024-01", "closed")
    found = with_revisions([base, revised("2024-01", 1, "open")])

    assert text(found) == ["2024-01 revision 1*"]
    assert found.turns[0].request("s.yaml").revision == 1


def test_no_revision_is_due_that_was_not_paid_for_or_has_no_time() -> None:
    base = taken("2024-01", "closed")

    assert text(with_revisions([base], planned=0)) == []
    assert text(with_revisions([base], planned=1)) == ["2024-01 revision 1"]
    assert text(with_revisions([base], revisions=("1m",))) == [
        "2024-01 revision 1"
    ]  # the second one has no time any more
    assert text(with_revisions([base], revisions=())) == []
    assert text(with_revisions([taken("2024-01", "given_up")], planned=0)) == []
    assert text(with_revisions([base], skip={"2024-01": "the register was moved"})) == []


def test_periods_come_before_revisions_and_a_revision_that_is_held_or_lost_is_left() -> None:
    base = taken("2024-01", "closed")

    assert text(with_revisions([base], last="2024-02")) == ["2024-02", "2024-01 revision 2"]
    held = with_revisions([base], held={"2024-01": holder("2024-01")})
    assert [(each.revision, each.why, each.alarm) for each in held.left] == [(2, "held", False)]
    lost = with_revisions([base], retention="130d")
    assert text(lost) == []
    assert [(each.revision, each.why, each.alarm) for each in lost.left] == [(2, "lost", False)]


def test_nothing_is_due_of_what_nobody_began() -> None:
    with pytest.raises(PlanError) as caught:
        told(schedule(), first=None)
    assert caught.value.code == "DPR-P312"
    assert text(told(schedule(), [taken("2024-03", "closed")], first=None)) == ["2024-04", "2024-05"]


# Histories.

KINDS = ("day", "week", "month")
FIRST = {"day": "2024-02-26", "week": "2024-W09", "month": "2024-02"}


@dataclass
class Book:
    """What really happened, kept apart from the code: of every period what it was last, and how often it was published."""

    kind: str
    now: datetime = datetime(2024, 3, 1, tzinfo=UTC)
    not_before: int = 0  # hours
    retention: int = 9_999
    skip: dict[str, str] = field(default_factory=dict)
    first: str = ""
    last: dict[str, State] = field(default_factory=dict)
    published: list[str] = field(default_factory=list)
    entries: list[tuple[str, State]] = field(default_factory=list)

    def put(self, period: str, state: State) -> None:
        if self.last.get(period) == "open":
            self.entries.remove((period, "open"))
        self.entries.append((period, state))
        self.last[period] = state
        if state == "closed":
            self.published.append(period)

    @property
    def schedule(self) -> ScheduleSpec:
        lengths = {"not_before": f"{self.not_before}h", "retention": f"{self.retention}h"}
        return schedule(self.kind, **lengths, skip=self.skip)  # type: ignore[arg-type]  # one of the three

    def whole(self) -> dict[str, tuple[date, date]]:
        """Every period from the first one on that has ended, with its first day and the day after it: day by day."""
        found: dict[str, tuple[date, date]] = {}
        day = date(2024, 1, 1)
        while day <= self.now.date():
            name = {"day": day.isoformat(), "week": day.strftime("%G-W%V"), "month": day.strftime("%Y-%m")}[self.kind]
            begin, _ = found.get(name, (day, day))
            found[name] = (begin, day + timedelta(days=1))
            day += timedelta(days=1)
        running = {name for name, (_, end) in found.items() if end > self.now.date()}
        return {name: days for name, days in found.items() if name >= self.first and name not in running}

    def expected(self) -> dict[str, str]:
        """What must be true of every period that is over, in UTC and with hours as lengths: no calendar of the code's."""
        states = {}
        for name, (_, end) in self.whole().items():
            over = datetime(end.year, end.month, end.day, tzinfo=UTC)
            if name in self.last:
                was_closed = name in self.published
                states[name] = "open" if self.last[name] == "open" else "published" if was_closed else "given_up"
            elif name in self.skip:
                states[name] = "skipped"
            elif self.now < over + timedelta(hours=self.not_before):
                states[name] = "waiting"
            elif self.now >= over + timedelta(hours=self.retention):
                states[name] = "lost"
            else:
                states[name] = "wanted"
        return states

    def agenda(self, reservations: Sequence[Reservation], most: int = 0) -> Agenda:
        return turns(Scheduled("r", self.first, self.schedule), reservations, {}, self.now, most)

    def check(self, reservations: Sequence[Reservation]) -> None:
        expected = self.expected()
        slots = coverage(self.schedule, self.first, reservations, self.now)
        assert len({slot.period for slot in slots}) == len(slots)  # never in two states
        found = {slot.period: slot.state for slot in slots if slot.period in expected}
        wanted = {name: "wanted" if state in ("due", "late") else state for name, state in found.items()}
        assert wanted == expected  # none is missing
        open_ones = sorted(name for name, state in self.last.items() if state == "open")
        assert sorted(slot.period for slot in slots if slot.state == "open") == open_ones  # the spec may have moved on
        agenda = self.agenda(reservations)
        names = [turn.period for turn in agenda.turns]
        assert names == open_ones + sorted(name for name, state in expected.items() if state == "wanted")
        assert not set(names) & {name for name, state in expected.items() if state == "published"}
        assert {turn.period for turn in agenda.turns if turn.resumes} == set(open_ones)
        assert {each.period for each in agenda.left if each.period in expected} == {
            name for name, state in expected.items() if state in ("lost", "skipped", "given_up")
        }


Outcome = Literal["done", "refused", "killed"]
RUN = st.tuples(st.just("run"), st.integers(0, 3), st.lists(st.sampled_from(("done", "refused", "killed")), max_size=5))
CLOCK = st.tuples(st.just("clock"), st.integers(-2 * 24, 40 * 24), st.none())
SPEC = st.tuples(
    st.just("spec"),
    st.sampled_from(("not_before", "retention", "first", "skip")),
    st.sampled_from((0, 30, 100, 900)),
)
GIVE_UP = st.tuples(st.just("give up"), st.integers(0, 3), st.none())
HISTORY = st.lists(st.one_of(RUN, RUN, CLOCK, CLOCK, SPEC, GIVE_UP), max_size=12)


def change(book: Book, what: str, number: int) -> None:
    """Another spec from now on."""
    if what == "first":
        names = list(Book(book.kind, now=book.now).whole())
        book.first = names[-1 - number % len(names)] if number else FIRST[book.kind]
    elif what == "skip":
        skipped = list(book.whole())[-3:][: number % 3]
        book.skip = {**book.skip, **dict.fromkeys(skipped, "why")}
    elif what == "retention":
        book.retention = 500 + number
    else:
        book.not_before = number % 400


class Pretended:
    """A ledger that is a list."""

    def __init__(self, book: Book) -> None:
        self.book = book

    def reservations(self) -> list[Reservation]:
        return [taken(period, state) for period, state in self.book.entries]

    def run(self, turn: Turn, outcome: Outcome) -> None:
        if outcome == "killed":
            self.book.put(turn.period, "open")
        elif outcome == "done":
            self.book.put(turn.period, "closed")

    def give_up(self, period: str) -> None:
        self.book.put(period, "given_up")


class Real(Pretended):
    """The same with a ledger in a file, of which every reservation is read again."""

    def __init__(self, book: Book, path: Path) -> None:
        super().__init__(book)
        self.ledger = SQLiteLedger(path)

    def reservations(self) -> list[Reservation]:
        return list(self.ledger.reservations())

    def run(self, turn: Turn, outcome: Outcome) -> None:
        super().run(turn, outcome)
        made = plan(release="r", period=turn.period, cost="1/1000")
        if outcome == "done":
            fill(self.ledger, made)
        elif outcome == "killed":
            self.ledger.reserve(made, charges(made))
        else:  # it fails before it has read anything, and gives back what it has just reserved
            known = self.ledger.find("r", turn.period)
            self.ledger.reserve(made, charges(made))
            if known is None:
                self.ledger.void("r", turn.period, made.fingerprint(), "refused")

    def give_up(self, period: str) -> None:
        super().give_up(period)
        self.ledger.give_up("r", period, plan(release="r", period=period, cost="1/1000").fingerprint(), "why")


def live(book: Book, ledger: Pretended, history: Sequence[tuple[str, Any, Any]]) -> None:
    """A history from its beginning, held against the book after each event; and a run at its end that does not fail."""
    book.first = FIRST[book.kind]
    for event, one, two in history:
        if event == "clock":
            book.now += timedelta(hours=one)
        elif event == "spec":
            change(book, one, two)
        elif event == "give up":
            for period in [name for name, state in book.last.items() if state == "open"][:one]:
                ledger.give_up(period)
        else:
            for turn, outcome in zip(book.agenda(ledger.reservations(), one).turns, two, strict=False):
                ledger.run(turn, outcome)
        book.check(ledger.reservations())
    for turn in book.agenda(ledger.reservations()).turns:
        ledger.run(turn, "done")
    book.check(ledger.reservations())
    assert book.agenda(ledger.reservations()).turns == ()
    assert set(book.expected().values()) <= {"published", "given_up", "skipped", "waiting", "lost"}
    assert len(set(book.published)) == len(book.published)
    closed = [each.period for each in ledger.reservations() if each.state == "closed"]
    assert sorted(closed) == sorted(book.published)


@pytest.mark.slow
@settings(max_examples=few(80))
@given(kind=st.sampled_from(KINDS), history=HISTORY)
def test_no_period_is_forgotten_and_none_is_released_twice(kind: str, history: list[tuple[str, Any, Any]]) -> None:
    book = Book(kind)

    live(book, Pretended(book), history)


@settings(max_examples=12)
@given(history=HISTORY)
def test_the_same_with_a_real_ledger(
    history: list[tuple[str, Any, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    book = Book("month")

    live(book, Real(book, tmp_path_factory.mktemp("ledger") / "l.db"), history)
