"""How far one unit moves choices and selections, by brute force; and the verifier's own derivation of it.

That a draw whose scores change within an interval is one of bounded range is test_bounded_range_draws.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from types import SimpleNamespace
from typing import Any

import mpmath
import pytest

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.catalog.sensitivity import choice_reach, selection_reach
from dprelease.errors import BrokenPromiseError
from dprelease.noise.mechanisms.threshold import least_threshold
from dprelease.plan.document import Ranking, Selecting
from dprelease.plan.document.mechanisms import Choosing
from dprelease.plan.verify.reach import check_reach
from dprelease.plan.verify.units import tail
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.laws.units import Case, aggregate, catalog

ADD, REPLACE = Neighboring.ADD_REMOVE, Neighboring.REPLACE_ONE
RANKS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(2, 3), Fraction(3, 4), Fraction(1)]
CASES = [Case(*each) for each in product([None, 1, 2, 3], [None, 1, 2], [None, 1, 2], [1, 2, 3])]
CASES = [case for case in CASES if case.max_rows or case.max_rows_per_group]
GRID = (0, 1, 2)

each_rank = pytest.mark.parametrize("at", RANKS, ids=str)
each_relation = pytest.mark.parametrize("relation", list(Neighboring))


def quantile(at: Fraction) -> Quantity:
    return Quantity(kind="quantile", column="x", low=0, high=2, at=at)


def score(values: tuple[int, ...], x: int, at: Fraction) -> Fraction:
    """The distance in ranks of x from the quantile, by its definition."""
    below, above = sum(v < x for v in values), sum(v > x for v in values)
    return max(below - at * len(values), above - (1 - at) * len(values), Fraction(0))


def counts(most: int) -> list[tuple[int, ...]]:
    """Every multiset of up to ``most`` values of the grid: how often each occurs."""
    return [numbers for numbers in product(range(most + 1), repeat=len(GRID)) if sum(numbers) <= most]


@cache
def scores(numbers: tuple[int, ...], at: Fraction) -> tuple[int, ...]:
    """Of every grid value, in parts of a rank: whole numbers are quick to add."""
    values = tuple(value for value, n in zip(GRID, numbers, strict=True) for _ in range(n))
    return tuple(int(score(values, x, at) * at.denominator) for x in GRID)


@cache
def apart(at: Fraction, old: int, new: int) -> Fraction:
    """The largest difference of two scores' changes, where a unit with up to ``old`` values is replaced in a cell.

    Beside up to 9 values of others: at rank 3/4 it takes 3 times as many as the unit has for the worst case.
    """
    most = 0
    for others in counts(9):
        found = [
            {scores(tuple(map(sum, zip(others, rows, strict=True))), at) for rows in counts(n)} for n in (old, new)
        ]
        for before, after in product(*found):
            change = [b - a for a, b in zip(before, after, strict=True)]
            most = max(most, max(change) - min(change))
    return Fraction(most, at.denominator)


@each_rank
def test_the_scores_of_one_cell_move_apart_by_exactly_the_spread(at: Fraction) -> None:
    rate = 2 * max(at, 1 - at) if 0 < at < 1 else Fraction(1)
    for rows in (1, 2):
        case = Case(rows, 1, None, 1)
        assert choice_reach(aggregate(quantile(at), case), catalog(case), ADD)[:2] == (1, rows * rate)
        exchanged = Fraction(2 * rows if 0 < at < 1 else rows)
        assert choice_reach(aggregate(quantile(at), case), catalog(case), REPLACE)[:2] == (1, exchanged)
        assert apart(at, 0, rows) == rows * rate
        assert apart(at, rows, rows) == exchanged


def test_the_gap_of_a_grid_of_two_values() -> None:
    """Between two values nothing lies on the far side of both: their scores move apart by half as much."""
    for at in RANKS:
        most = Fraction(0)
        for others in [rows for n in range(9) for rows in combinations_with_replacement((0, 1), n)]:
            for row in ((0,), (1,)):
                change = [score(others + row, x, at) - score(others, x, at) for x in (0, 1)]
                most = max(most, max(change) - min(change))
        assert most == max(at, 1 - at)


def profiles(case: Case) -> list[tuple[int, ...]]:
    """Rows per cell of a unit, within the bounds."""
    most = case.max_rows_per_group or case.max_rows or 0
    return [
        rows
        for rows in product(range(most + 1), repeat=case.cells)
        if sum(rows) <= (case.max_rows or 9) and sum(n > 0 for n in rows) <= (case.max_groups or case.cells)
    ]


def fits(spreads: list[Fraction], rounds: int, spread: Fraction) -> bool:
    """Whether cells of these spreads can be put together into so many rounds: every way is tried."""
    if not spreads:
        return True
    for at in range(1 << (len(spreads) - 1)):
        together = [spreads[0]] + [each for i, each in enumerate(spreads[1:]) if at >> i & 1]
        apart_ = [each for i, each in enumerate(spreads[1:]) if not at >> i & 1]
        if rounds and sum(together) <= spread and fits(apart_, rounds - 1, spread):
            return True
    return False


@cache
def ways(at: Fraction, case: Case, relation: Neighboring) -> frozenset[tuple[Fraction, ...]]:
    """The spreads of the cells that one unit changes, largest first, over every two units."""
    units = profiles(case)
    pairs = product([(0,) * case.cells], units) if relation is ADD else product(units, units)
    found = set()
    for old, new in pairs:
        spreads = [apart(at, min(n, m), max(n, m)) for n, m in zip(old, new, strict=True) if n or m]
        found.add(tuple(sorted(spreads, reverse=True)))
    return frozenset(found)


@pytest.mark.thin
@each_relation
@each_rank
def test_the_cells_of_every_unit_fit_into_the_rounds(at: Fraction, relation: Neighboring) -> None:
    for case in CASES:
        rounds, spread, norms = choice_reach(aggregate(quantile(at), case), catalog(case), relation)
        found = ways(at, case, relation)
        assert all(fits(list(spreads), rounds, spread) for spreads in found), case
        assert (norms.l0, norms.l1, norms.linf) == (rounds, rounds * spread, spread)
        assert (norms.l2_squared, norms.shifts) == (rounds * spread**2, ())
        if relation is ADD:
            assert not all(fits(list(spreads), rounds, spread - Fraction(1, 100)) for spreads in found), case
            assert max(max(spreads, default=Fraction(0)) for spreads in found) == spread, case
            full = case.max_rows is None or case.max_rows >= rounds * (spread / apart(at, 0, 1))
            if full:  # all rounds can be full at once: nothing smaller would do
                assert max(sum(spreads) for spreads in found) == rounds * spread, case


def test_where_rounds_are_claimed_that_no_unit_fills() -> None:
    """With 3 rows, at most 2 in a cell, no two rounds of 2 are full; but 2 + 1 wants two rounds."""
    case = Case(3, None, 2, 3)
    rounds, spread, _ = choice_reach(aggregate(quantile(Fraction(1, 2)), case), catalog(case), ADD)
    assert (rounds, spread) == (2, Fraction(2))
    assert max(sum(spreads) for spreads in ways(Fraction(1, 2), case, ADD)) == 3


def lists(case: Case, kind: str) -> Iterator[tuple[int, ...]]:
    """What one unit adds to the count of every key."""
    for rows in profiles(case):
        yield tuple(min(1, n) for n in rows) if kind == "units" else rows


@each_relation
@pytest.mark.parametrize("kind", ["rows", "units"])
def test_every_round_of_a_list_moves_by_exactly_the_spread(kind: Any, relation: Neighboring) -> None:
    """Whatever keys the rounds before have taken."""
    for case in CASES:
        of_list = aggregate(Quantity(kind=kind), case)
        rounds, spread, _ = choice_reach(of_list, catalog(case), relation, rounds_of_list=2)
        assert rounds == 2
        units = list(lists(case, kind))
        most = 0
        for old, new in product([(0,) * case.cells] if relation is ADD else units, units):
            change = [b - a for a, b in zip(old, new, strict=True)]
            for size in range(1, case.cells + 1):
                for left in combinations(change, size):
                    most = max(most, max(left) - min(left))
        if case.cells == 1:
            assert most == 0  # a list of the only key there is tells nothing
        else:
            assert most == spread, case


@each_relation
def test_a_selection_moves_as_many_keys_as_a_unit_can_have(relation: Neighboring) -> None:
    for groups in (1, 2, 3):
        case = Case(None, groups, None, 1)
        grouping = aggregate(Quantity(kind="units"), case).grouping.model_copy(update={"private": True})
        found, reach = selection_reach(grouping, catalog(case), relation)
        keys = range(2 * groups)
        units = [set(held) for size in range(groups + 1) for held in combinations(keys, size)]
        moved = {len(a ^ b) for a, b in product([set()] if relation is ADD else units, units)}
        assert (found, reach) == (groups, Sensitivity.of_shifts((1,) * max(moved)))


def verified(aggregate: BoundedAggregate, case: Case, relation: Neighboring, **facts: Any) -> bool:
    """Whether the verifier accepts a step."""
    ranking = [SimpleNamespace(ranking=Ranking(k=2, step="s")), SimpleNamespace(ranking=None)]
    plan: Any = SimpleNamespace(catalog=catalog(case), neighboring=relation, queries=ranking)
    cells = None if aggregate.private else case.cells
    same = {
        "id": "s",
        "mechanism": "",
        "is_clip": aggregate.quantity.is_clip,
        "gauge": None,
        "joined": (),
        "choosing": None,
        "selecting": None,
        "cells": cells,
        "tables": (),
    }
    step: Any = SimpleNamespace(**{**same, "aggregate": aggregate, **facts})
    try:
        check_reach(plan, step)
    except BrokenPromiseError:
        return False
    return True


def of_choice(claim: tuple[int, Fraction, Sensitivity], candidates: int, mechanism: str) -> dict[str, Any]:
    rounds, spread, norms = claim
    choosing = Choosing(rounds=rounds, spread=spread, candidates=candidates)
    return {"choosing": choosing, "sensitivity": norms, "mechanism": mechanism}


@each_relation
@each_rank
def test_the_verifier_derives_the_reach_of_quantiles_and_refuses_any_other(at: Fraction, relation: Neighboring) -> None:
    many = [Case(100, None, None, 50), Case(100, 10, 20, 50), Case(7, 3, 3, 4), Case(None, 5, 40, 6)]
    for case in CASES + many:
        chosen = aggregate(quantile(at), case)
        claim = choice_reach(chosen, catalog(case), relation)
        facts = of_choice(claim, 3, "exponential_quantile")
        assert verified(chosen, case, relation, **facts), case
        assert not verified(chosen, case, relation, **of_choice(claim, 4, "exponential_quantile"))
        assert not verified(chosen, case, relation, **of_choice(claim, 3, "exponential_top_k"))
        rounds, spread, norms = claim
        for other in ((rounds, spread - Fraction(1, 100)), (rounds + 1, spread), (rounds, spread + 1)):
            assert not verified(chosen, case, relation, **of_choice((*other, norms), 3, "exponential_quantile")), case
        if rounds > 1:
            fewer = (rounds - 1, spread, norms)
            assert not verified(chosen, case, relation, **of_choice(fewer, 3, "exponential_quantile"))
        wrong = (rounds, spread, norms.model_copy(update={"l1": norms.l1 - Fraction(1, 100)}))
        assert not verified(chosen, case, relation, **of_choice(wrong, 3, "exponential_quantile"))


@each_relation
@pytest.mark.parametrize("kind", ["rows", "units"])
def test_the_verifier_derives_the_reach_of_lists_and_refuses_any_other(kind: Any, relation: Neighboring) -> None:
    for case in CASES:
        if case.cells < 2:
            continue
        ranked = aggregate(Quantity(kind=kind), case)
        claim = choice_reach(ranked, catalog(case), relation, rounds_of_list=2)
        assert verified(ranked, case, relation, **of_choice(claim, case.cells, "exponential_top_k")), case
        assert not verified(ranked, case, relation, **of_choice(claim, case.cells + 1, "exponential_top_k"))
        rounds, spread, norms = claim
        for other in ((1, spread), (3, spread), (rounds, spread - Fraction(1, 2)), (rounds, spread + 1)):
            facts = of_choice((*other, norms), case.cells, "exponential_top_k")
            assert not verified(ranked, case, relation, **facts)


def exact_tail(mechanism: str, scale: Fraction, least: int) -> mpmath.mpf:
    """The probability that the noise is at least ``least``, number by number."""
    with mpmath.workdps(60):
        size = mpmath.mpf(scale.numerator) / scale.denominator

        def mass(k: int) -> mpmath.mpf:
            return mpmath.exp(-k / size) if mechanism == "laplace_threshold" else mpmath.exp(-((k / size) ** 2) / 2)

        far = least + int(150 * scale) + 60
        every = 1 + 2 * mpmath.fsum(mass(k) for k in range(1, far))
        return mpmath.fsum(mass(k) for k in range(least, far)) / every


@pytest.mark.parametrize("mechanism", ["laplace_threshold", "gaussian_threshold"])
def test_the_verifiers_tail_is_the_sum_of_the_masses(mechanism: str) -> None:
    for scale, least in product((Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(12)), (1, 2, 5, 30)):
        exact = exact_tail(mechanism, scale, least)
        if exact > 1e-280:
            assert abs(tail(mechanism, scale, least) / exact - 1) < 1e-11, (scale, least)


def test_the_tail_of_a_wide_gaussian_is_an_upper_bound_and_close() -> None:
    """Just above the scale up to which it is summed, against the sum."""
    summed, bound = Fraction(1 << 16), Fraction((1 << 16) + 1)
    for ratio in (2, 4, 6, 8):
        below, above = (tail("gaussian_threshold", scale, ratio * scale.numerator) for scale in (summed, bound))
        assert abs(above / below - 1) < 1e-3
        with mpmath.workdps(40):
            limit = mpmath.erfc((ratio * bound - mpmath.mpf(1) / 2) / bound / mpmath.sqrt(2)) / 2
            assert abs(above / limit - 1) < 1e-12


@each_relation
@pytest.mark.parametrize("mechanism", ["laplace_threshold", "gaussian_threshold"])
@pytest.mark.parametrize("scale", [Fraction(3, 4), Fraction(3), Fraction(47, 4), Fraction(1000), Fraction(1 << 20)])
def test_the_verifier_accepts_the_least_threshold_and_none_below(
    mechanism: str, scale: Fraction, relation: Neighboring
) -> None:
    delta = Fraction(1, 10**7)
    for groups in (1, 3, 40):
        case = Case(None, groups, None, 1)
        grouping = Grouping(table="t", by=("k",), max_groups=groups, private=True)
        selected = BoundedAggregate(**dict(grouping), quantity=Quantity(kind="units"))
        found, reach = selection_reach(grouping, catalog(case), relation)
        assert found == groups
        least = least_threshold("laplace" if mechanism == "laplace_threshold" else "gaussian", scale, delta, groups)

        def accepts(
            threshold: int, claim: Sensitivity = reach, of: BoundedAggregate = selected, at: Case = case
        ) -> bool:
            facts = {"sensitivity": claim, "mechanism": mechanism, "scale": scale}
            return verified(of, at, relation, selecting=Selecting(threshold=threshold, delta=delta), **facts)

        assert accepts(least)
        assert accepts(least + 5)  # a list of keys of at least so many units
        # Gaussians of a scale above 200 are planned by a bound that is one step higher at most.
        assert not accepts(least - (2 if mechanism == "gaussian_threshold" and scale > 200 else 1))
        assert not accepts(least, reach.model_copy(update={"l1": reach.l1 - 1}))
        assert not accepts(least, reach, selected.model_copy(update={"quantity": Quantity(kind="rows")}))
        if scale < 5:
            seen = 1 - (1 - exact_tail(mechanism, scale, least - 1)) ** groups
            assert seen <= delta < 1 - (1 - exact_tail(mechanism, scale, least - 2)) ** groups
