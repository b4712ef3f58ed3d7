"""Parallel composition over periods: the true joint loss of small exact mechanisms, under both relations, and the law
of what an account grants.

A world has two months and the units that may be in them. Releases are noisy counts of a month, drawn from exact mass
functions; all of them together are enumerated, so that nothing is simulated. Data sets that differ in one unit of a
month are held against the most that any month lost, and those in which a unit of one month is replaced by a unit of the
other one against the two that lost most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.sensitivity import sensitivity
from dprelease.catalog.table import Catalog, Column, Range, Source, Table, TableBounds
from dprelease.ledger.model.admission import assess_charges
from dprelease.ledger.model.balance import Balance
from dprelease.ledger.model.history import Stand, State, charged_balance
from dprelease.ledger.model.reservation import Charge
from dprelease.plan.document import Account, Head
from dprelease.privacy.event import Composed, DiscreteLaplace, Sensitivity
from dprelease.privacy.filters import Spent
from dprelease.privacy.periods import leading, most_lost, raised
from dprelease.privacy.unit import Neighboring
from tests.ledgers import account
from tests.tiers import few

MONTHS = ("2024-01", "2024-02")
Data = tuple[int, int]  # how many units each of the two months has
Law = dict[int, Fraction]

# A release reads some months and has a pure mechanism: two-sided geometric noise, cut at both ends onto 0 to 2. Its
# ratio of one unit more is exactly 1 / alpha, at the ends as well, so that each release loses exactly log(1 / alpha).
Asked = tuple[tuple[int, ...], Fraction]
HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def geometric(true: int, alpha: Fraction) -> Law:
    """The law of a count in 0, 1, 2 with truncated geometric noise (Ghosh, Roughgarden and Sundararajan 2009)."""
    law = {1: (1 - alpha) / (1 + alpha) * alpha ** abs(1 - true)}
    return law | {0: alpha**true / (1 + alpha), 2: alpha ** (2 - true) / (1 + alpha)}


def joint(data: Data, releases: Sequence[Asked]) -> dict[tuple[int, ...], Fraction]:
    """The law of all answers together."""
    laws = [geometric(min(2, sum(data[month] for month in months)), alpha) for months, alpha in releases]
    return {
        outcome: _product(law[answer] for law, answer in zip(laws, outcome, strict=True))
        for outcome in product(range(3), repeat=len(laws))
    }


def _product(parts: Iterator[Fraction] | Sequence[Fraction]) -> Fraction:
    whole = Fraction(1)
    for part in parts:
        whole *= part
    return whole


def worst(one: Data, other: Data, releases: Sequence[Asked]) -> Fraction:
    """The largest ratio of any outcome, both ways: exp of the true loss of all releases together."""
    left, right = joint(one, releases), joint(other, releases)
    return max(max(left[o] / right[o], right[o] / left[o]) for o in left)


def neighbours(relation: Neighboring) -> Iterator[tuple[Data, Data]]:
    """Every two data sets that are one step apart, a unit being in one month."""
    for january, february in product(range(2), repeat=2):
        if relation is Neighboring.ADD_REMOVE:
            yield (january, february), (january + 1, february)
            yield (january, february), (january, february + 1)
        else:
            yield (january + 1, february), (january, february + 1)  # of one month, by one of the other


def claims(releases: Sequence[Asked], relation: Neighboring) -> Fraction:
    """Exp of what an account says that was lost: factors instead of sums, so that the comparison is exact."""
    factors = {
        name: _product([1 / alpha for months, alpha in releases if at in months]) for at, name in enumerate(MONTHS)
    }
    # Logarithms to base 6 would do; the order of factors is that of losses, and losses add where factors multiply.
    sums = {name: Spent(loss=factor - 1) for name, factor in factors.items()}
    return _product([factors[name] for name in leading(sums, MONTHS, relation)])


SERIES: dict[str, list[Asked]] = {
    "one each": [((0,), HALF), ((1,), HALF)],
    "one month more": [((0,), HALF), ((0,), THIRD), ((1,), HALF)],
    "a re-read of each": [((0,), HALF), ((1,), THIRD), ((0,), HALF), ((1,), THIRD)],
    "one month alone": [((0,), THIRD), ((0,), THIRD)],
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("relation", list(Neighboring))
def test_the_true_loss_of_all_releases_is_never_above_what_the_account_says(name: str, relation: Neighboring) -> None:
    releases = SERIES[name]
    true = max(worst(one, other, releases) for one, other in neighbours(relation))
    assert true <= claims(releases, relation)


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("relation", list(Neighboring))
def test_and_it_is_reached(name: str, relation: Neighboring) -> None:
    releases = SERIES[name]
    assert max(worst(one, other, releases) for one, other in neighbours(relation)) == claims(releases, relation)


@pytest.mark.parametrize("name", ["one each", "one month more", "a re-read of each"])
def test_the_most_of_one_month_would_be_too_little_where_units_are_replaced(name: str) -> None:
    releases = SERIES[name]
    true = max(worst(one, other, releases) for one, other in neighbours(Neighboring.REPLACE_ONE))
    assert true > claims(releases, Neighboring.ADD_REMOVE)


def test_a_unit_that_is_in_both_months_loses_more_than_its_account_says() -> None:
    """What is not promised: of a person with rows in two months both are lost. So such a unit is refused."""
    releases = SERIES["one each"]
    assert worst((0, 0), (1, 1), releases) > claims(releases, Neighboring.ADD_REMOVE)


@pytest.mark.parametrize("relation", list(Neighboring))
def test_a_release_about_both_months_counts_in_each(relation: Neighboring) -> None:
    releases: list[Asked] = [((0, 1), HALF), ((0,), THIRD)]
    true = max(worst(one, other, releases) for one, other in neighbours(relation))
    assert true <= claims(releases, relation)
    without = [each for each in releases if len(each[0]) == 1]
    assert max(worst(one, other, releases) for one, other in neighbours(Neighboring.ADD_REMOVE)) > claims(
        without, Neighboring.ADD_REMOVE
    )


def test_an_adversary_who_chooses_month_and_noise_by_what_was_seen_gets_no_more() -> None:
    """Every policy of two steps: which month, and how little noise, may depend on the first answer.

    Each month stops before exp(loss) exceeds 6: the filter of a month counts its own releases alone, so that spending
    on the other one never buys anything here.
    """
    offers: list[Asked] = [((month,), alpha) for month in range(2) for alpha in (HALF, THIRD)]
    for first in offers:
        for later in product(offers, repeat=3):  # by the first answer
            if any(claims([first, each], Neighboring.ADD_REMOVE) > 6 for each in later):
                continue
            for relation, most in ((Neighboring.ADD_REMOVE, 6), (Neighboring.REPLACE_ONE, 36)):
                for one, other in neighbours(relation):
                    assert _adaptive(one, other, first, later) <= most


def _adaptive(one: Data, other: Data, first: Asked, later: Sequence[Asked]) -> Fraction:
    def law(data: Data) -> dict[tuple[int, int], Fraction]:
        found = {}
        for answer, chance in geometric(min(2, sum(data[month] for month in first[0])), first[1]).items():
            months, alpha = later[answer]
            for second, then in geometric(min(2, sum(data[month] for month in months)), alpha).items():
                found[answer, second] = chance * then
        return found

    left, right = law(one), law(other)
    return max(max(left[o] / right[o], right[o] / left[o]) for o in left)


UNITS: dict[str, tuple[str | None, TableBounds | None]] = {
    "rows": (None, None),
    "one row": ("who", TableBounds(max_rows=1)),
    "three rows": ("who", TableBounds(max_rows=3)),
}
COUNTED = (
    Quantity(kind="rows"),
    Quantity(kind="units"),
    Quantity(kind="balance", column="x"),
    Quantity(kind="sum", column="x", low=-2, high=5),
)


@pytest.mark.parametrize("keys", [0, 1, 2, 4])
@pytest.mark.parametrize("units", UNITS)
def test_a_unit_that_leaves_the_period_is_within_what_a_replaced_one_changes(units: str, keys: int) -> None:
    """Which is how a unit of one month that becomes one of another month looks to a release about the first."""
    unit_id, bounds = UNITS[units]
    columns = (
        Column(name="k", type="integer", keys=tuple(range(keys or 1))),
        Column(name="x", type="integer", range=Range(low=-2, high=5)),
    )
    table = Table(
        name="t",
        account="a",
        source=Source(file="t.csv", format="csv"),
        columns=columns,
        unit_id=unit_id,
        bounds=bounds,
    )
    by = ("k",) if keys else ()
    for quantity in COUNTED:
        aggregate = BoundedAggregate(table="t", by=by, quantity=quantity)
        catalog = Catalog(tables={"t": table})
        leaves, replaced = (sensitivity(aggregate, catalog, each) for each in Neighboring)
        assert leaves.l0 <= replaced.l0
        assert leaves.l1 <= replaced.l1
        assert leaves.l2_squared <= replaced.l2_squared
        assert leaves.linf <= replaced.linf
        for shift in leaves.shifts:
            assert any(_covers(other, shift) for other in replaced.shifts) or not replaced.shifts


def _covers(larger: tuple[int, ...], smaller: tuple[int, ...]) -> bool:
    padded = (*sorted(smaller, reverse=True), *[0] * len(larger))
    return len(smaller) <= len(larger) and all(
        a >= b for a, b in zip(sorted(larger, reverse=True), padded, strict=False)
    )


# --- what counts, and what is granted ---

NAMES = ("2024-01", "2024-02", "2024-03", "2024-04")
AMOUNTS = st.builds(
    Spent, loss=st.integers(0, 5).map(Fraction), reveals=st.integers(0, 3).map(lambda n: Fraction(n, 9))
)


@given(
    st.dictionaries(st.sampled_from(NAMES), AMOUNTS),
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.sampled_from(Neighboring),
)
def test_what_counts_is_the_most_of_every_step_that_concerns_a_stretch(
    sums: dict[str, Spent], about: set[str], relation: Neighboring
) -> None:
    none = Spent()
    steps: list[tuple[str, ...]] = [(name,) for name in about]
    if relation is Neighboring.REPLACE_ONE:
        steps += [(name, other) for name in about for other in NAMES if other != name]
    totals = [[sums.get(name, none) for name in step] for step in steps]
    found = most_lost(sums, about, relation)
    assert found.loss == max(sum(each.loss for each in total) for total in totals)
    assert found.reveals == max(sum(each.reveals for each in total) for total in totals)
    assert sum(sums.get(name, none).loss for name in leading(sums, about, relation)) == found.loss


PERIODS = ("2024-01", "2024-02", "2024-03", "2024-W05", "2024-Q1", "2024-02-10")
TOUCHED = {
    "2024-W05": ("2024-01", "2024-02"),
    "2024-Q1": ("2024-01", "2024-02", "2024-03"),
    "2024-02-10": ("2024-02",),
}


def _charge(terms: Account, tenths: int) -> Charge:
    draw = DiscreteLaplace(scale=Fraction(10, tenths), sensitivity=Sensitivity.of_one_cell(1))
    return Charge(account=terms, events=Composed(events=(draw,)), cap=terms.lifetime)


@settings(max_examples=few(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PERIODS), st.integers(1, 6)), max_size=14), st.sampled_from(Neighboring))
def test_in_any_order_a_release_is_granted_if_and_only_if_every_step_stays_inside_the_cap(
    asked: list[tuple[str, int]], relation: Neighboring
) -> None:
    terms = account(epsilon="1", parallel="month", unit="person-month", neighboring=relation)
    balance, mine = Balance(account="people", opened=1), dict.fromkeys(NAMES, 0)
    for period, tenths in asked:
        state = State(accounts={"people": Stand(account=terms, balance=balance, head=Head())})
        (charged,), refused = assess_charges(state, [_charge(terms, tenths)], period)
        then = {name: lost + tenths * (name in TOUCHED.get(period, (period,))) for name, lost in mine.items()}
        largest = sorted(then.values(), reverse=True)
        worst_of_all = largest[0] if relation is Neighboring.ADD_REMOVE else largest[0] + largest[1]
        assert (not refused) == (worst_of_all <= 10)
        if not refused:
            balance, mine = charged_balance(balance, charged), then
    assert {name: balance.windows[name].loss * 10 if name in balance.windows else 0 for name in NAMES} == mine
    assert raised(balance.windows, (), Spent()) == balance.windows
