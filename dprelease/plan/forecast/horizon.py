"""Many releases like this one: how their losses add up on every cap of an account, and which one a cap refuses.

Pure: the ledger's balances come in as values (:class:`Purse`). Every total is the sum that reservations make, one
release after the other, and is read by the same theorem (``privacy.filters``): what is shown here is what the ledger
will say, if nothing else is charged in between. It reserves nothing.

>>> coming("2024-11", 3, taken=["2024-12"])
('2024-11', '2025-01', '2025-02')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, repeat
from typing import NamedTuple

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed, Repeated
from dprelease.privacy.filters import Spent, Terms, read_total, series_loss, spent_on
from dprelease.privacy.periods import most_lost, raised, within_one
from dprelease.privacy.unit import Neighboring
from dprelease.spec.period import following, span

__all__ = ["Capped", "Horizon", "Line", "Purse", "Series", "ahead", "capped", "coming", "in_advance"]

_MANY = 10**9  # releases that are looked for; nobody will make more
_NOTHING = Spent()


class Series(NamedTuple):
    """What was recorded for a ``pld`` account: the loss of all of it, and how many releases like this one are left."""

    loss: Loss
    left: int


@dataclass(frozen=True)
class Purse:
    """An account as it stands.

    Attributes:
        account: As the policy has it.
        cap: Its lifetime cap, lowered by the spec's ``at_most``; both are held.
        spent: Everything that stands charged.
        windows: The same by window, or by stretch of a parallel account.
        series: For a ``pld`` account that was opened; None there: a series of just these releases would be recorded.
    """

    account: Account
    cap: Budget
    spent: Spent = _NOTHING
    windows: Mapping[str, Spent] = field(default_factory=dict)
    series: Series | None = None

    @property
    def terms(self) -> Terms:
        """How it adds up."""
        account = self.account
        return Terms(composition=account.composition, order=account.order, selecting=account.selecting)


@dataclass(frozen=True)
class Capped:
    """One cap, what stands on it, and which of the coming releases it is about.

    Attributes:
        purse: Whose cap it is.
        window: The stretch of time that it is about; empty: for ever.
        cap: The cap.
        before: What stands charged.
        numbers: The numbers of the releases, counted from 1.
        touched: Of a parallel account: the stretches that each of them touches, of which its cap holds for each by
            itself; all are about this one cap.
    """

    purse: Purse
    window: str
    cap: Budget
    before: Spent
    numbers: tuple[int, ...]
    touched: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        name, per = self.purse.account.name, self.purse.account.stretch
        return f"account {name}" + (
            f", {per} {self.window}" if self.window else f", each {per}" if self.touched else ""
        )

    def totals(self, one: Spent) -> list[Spent]:
        """What stands on it, and what is on it after each of the releases; rounded as a ledger rounds.

        Of a parallel account: what counts of the stretches of that release.
        """
        if self.touched:
            relation, sums, found = self.purse.account.neighboring, self.purse.windows, [self.before]
            for names in self.touched:
                sums = raised(sums, names, one)
                found.append(most_lost(sums, names, relation))
            return found
        return list(accumulate(repeat(one, len(self.numbers)), Spent.plus, initial=self.before))

    def amount(self, spent: Spent) -> Fraction | None:
        """A total in the currency of the cap, as a reservation reads it; None: nothing finite holds at its delta."""
        terms, cap = self.purse.terms, self.cap
        if cap.rho is not None:
            lost = spent.reveals > min(terms.selecting, cap.delta) or (spent.loss and terms.selecting >= cap.delta)
            return None if lost else spent.loss
        try:
            return read_total(terms, spent, cap.delta).epsilon
        except UnsupportedEvent:
            return None

    def last(self, asked: Composed) -> Fraction | None:
        """What is on it after all of the releases, in its currency; None: nothing finite.

        A ``pld`` account that was opened has the loss of its series, whatever is asked.

        Raises:
            UnsupportedEvent: The account's composition has no theorem for one of the draws.
        """
        series = self.purse.series
        if self.purse.account.composition != "pld":
            totals = self.totals(spent_on(self.purse.terms, asked))
            # The last total that concerns the fullest stretch, or two, is the most of all.
            worst = Spent(loss=max(each.loss for each in totals), reveals=max(each.reveals for each in totals))
            return self.amount(worst)
        if series is not None:
            return series.loss.epsilon if series.loss.delta <= self.cap.delta else None
        return self.in_series(asked, len(self.numbers))

    def in_series(self, asked: Composed, releases: int) -> Fraction | None:
        """The epsilon of a series of so many, at the delta of the cap; None: nothing finite."""
        try:
            return series_loss([(asked, releases)], self.cap.delta).epsilon
        except UnsupportedEvent:
            return None

    def allows(self, amount: Fraction | None) -> bool:
        """Whether a total in its currency is inside."""
        return amount is not None and amount <= self.cap.limit


@dataclass(frozen=True)
class Line:
    """What coming releases would put on one cap; amounts are in its currency, None: nothing finite holds there.

    Attributes:
        capped: The cap.
        before: What is on it now.
        after: By the number of each release that it is about, what is on it then. Of a ``pld`` account that was not
            opened: what a series of so many would cost, and would from its first one on.
        refused: The number of the first one that it would refuse; None: none of them.
        room: How many releases like this one it would take if all were about it; None: no number fills it. Of a
            parallel account: how many each stretch takes that has nothing yet, if all have as many.
    """

    capped: Capped
    before: Fraction | None
    after: Mapping[int, Fraction | None]
    refused: int | None
    room: int | None


@dataclass(frozen=True)
class Horizon:
    """Coming releases, numbered from 1; ``periods`` is empty where theirs are none of the calendar."""

    releases: int
    periods: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def fit(self) -> int:
        """How many of them are granted before the first one that is not."""
        return min((line.refused - 1 for line in self.lines if line.refused is not None), default=self.releases)


def coming(period: str, releases: int, taken: Collection[str] = ()) -> tuple[str, ...]:
    """A period and those after it of the same kind, but for ``taken``; nothing where it is none of the calendar.

    Raises:
        PlanError: The calendar ends before.
    """
    found: list[str] = []
    while span(period) is not None:
        found += [] if period in taken else [period]
        if len(found) >= releases:
            break
        period = following(period)
    return tuple(found)


def capped(purse: Purse, periods: Sequence[str], releases: int) -> list[Capped]:
    """The caps of an account that so many releases touch.

    Raises:
        PlanError: It has windows or stretches, and the periods are none of the calendar.
    """
    account, everyone = purse.account, tuple(range(1, releases + 1))
    caps = tuple(dict.fromkeys((purse.cap, account.lifetime)))
    if account.stretch is None:
        return [Capped(purse, "", cap, purse.spent, everyone) for cap in caps]
    if not periods:
        raise PlanError(
            f"account {account.name} has a cap per {account.stretch}, and the period is none of the calendar",
            hint="write `period: 2024-03` in the spec, or another of the calendar",
            code="DPR-P310",
        )
    names = tuple(account.stretches(period) for period in periods)
    if account.window is None:
        before = most_lost(purse.windows, {name for each in names for name in each}, account.neighboring)
        return [Capped(purse, "", cap, before, everyone, names) for cap in caps]
    touched: dict[str, list[int]] = {}
    for number, each in zip(everyone, names, strict=True):
        for name in each:
            touched.setdefault(name, []).append(number)
    found = [Capped(purse, "", cap, purse.spent, everyone) for cap in caps]
    for name, numbers in touched.items():
        found.append(Capped(purse, name, account.window.cap, within_one(purse.windows, name), tuple(numbers)))
    return found


def ahead(plan: ReleasePlan, purses: Sequence[Purse], periods: Sequence[str], releases: int) -> Horizon:
    """What so many releases like this one would put on every cap, one after the other.

    Args:
        plan: The plan of one of them.
        purses: The plan's accounts.
        periods: Theirs, as :func:`coming` says; empty where they are none of the calendar.
        releases: How many.

    Raises:
        UnsupportedEvent: An account's composition has no theorem for one of the plan's draws.
        PlanError: An account has windows, and the periods are none of the calendar.
    """
    lines: list[Line] = []
    for purse in purses:
        asked = plan.cost_of(purse.account)
        line = _series_line if purse.account.composition == "pld" else _line
        lines += [line(each, asked) for each in capped(purse, periods, releases)]
    return Horizon(releases, tuple(periods), tuple(lines))


def in_advance(drawn: Composed, asked: Composed, releases: int, delta: Fraction) -> dict[str, Fraction | None]:
    """What everything and so many more releases cost under each accountant, had it all been fixed beforehand.

    It grants nothing (``privacy.filters`` says why). None: no finite epsilon.

    Args:
        drawn: What stands charged.
        asked: What one more release costs the account.
        releases: How many more.
        delta: At which epsilon is read.
    """
    event = Composed(events=(*drawn.events, Repeated(event=asked, count=releases)))
    found: dict[str, Fraction | None] = {}
    for name, accountant in ACCOUNTANTS.items():
        try:
            found[name] = accountant.epsilon(event, delta)
        except UnsupportedEvent:
            found[name] = None
    return found


def _line(case: Capped, asked: Composed) -> Line:
    one = spent_on(case.purse.terms, asked)
    totals = case.totals(one)
    amounts = [case.amount(total) for total in totals]
    after = dict(zip(case.numbers, amounts[1:], strict=True))
    refused = next((number for number, amount in after.items() if not case.allows(amount)), None)
    if case.touched:
        return Line(case, amounts[0], after, refused, _apart(case, one))
    if refused is not None:
        return Line(case, amounts[0], after, refused, case.numbers.index(refused))
    if one == Spent():
        return Line(case, amounts[0], after, None, None)

    def holds(n: int) -> bool:
        more = Spent(loss=n * one.loss, reveals=n * one.reveals)
        return case.allows(case.amount(totals[-1].plus(more)))

    return Line(case, amounts[0], after, None, len(case.numbers) + _most(holds))


def _apart(case: Capped, one: Spent) -> int | None:
    """How many releases each empty stretch takes; under ``replace_one`` two of them count together."""
    steps = 1 if case.purse.account.neighboring is Neighboring.ADD_REMOVE else 2

    def holds(n: int) -> bool:
        return case.allows(case.amount(Spent(loss=steps * n * one.loss, reveals=steps * n * one.reveals)))

    return _most(holds) if one != Spent() else None


def _series_line(case: Capped, asked: Composed) -> Line:
    """A series costs all of its loss from its first draw on, and takes no draw that is not in it."""
    series, numbers = case.purse.series, case.numbers
    if series is None:
        before: Fraction | None = Fraction(0)
        room = _most(lambda n: case.allows(case.in_series(asked, n)))
        after = {number: case.in_series(asked, number) for number in numbers}
    else:
        before = case.last(asked)
        room = series.left if case.allows(before) else 0
        after = dict.fromkeys(numbers, before)
    return Line(case, before, after, numbers[room] if room < len(numbers) else None, room)


def _most(holds: Callable[[int], bool]) -> int:
    """The largest number for which it holds, as it does for all smaller ones; 0 for none."""
    low, high = 0, 1
    while holds(high):
        if high >= _MANY:
            return high
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
