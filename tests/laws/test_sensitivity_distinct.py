"""Numbers of different values per cell by brute force, and the claims that no table reaches, with their reasons."""

from __future__ import annotations

from itertools import product

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.sensitivity import sensitivity
from dprelease.privacy.unit import Neighboring
from tests.laws.units import Case, Change, aggregate, breaches, catalog, changes, reached, tables, verified

each_relation = pytest.mark.parametrize("relation", list(Neighboring))

# Numbers of different values: the other units decide which values are new, so they are listed as well.
DISTINCT = Quantity(kind="distinct", column="x")
OTHERS: list[tuple[tuple[int, int], ...]] = [(), ((0, 1),), ((0, 1), (0, 2)), ((0, 1), (1, 2))]
DISTINCT_CASES = [
    Case(max_rows, groups, per_group, cells)
    for max_rows, groups, per_group, cells in product([None, 1, 2, 3], [None, 1, 2], [None, 1, 2], [1, 2, 3])
    if (max_rows or 9) * cells <= 6 or (max_rows is None and per_group == 1)
]


def different(values: int, case: Case, relation: Neighboring) -> frozenset[Change]:
    """Every change of the numbers of different values, of which there are only so many."""
    possible = tuple((cell, value, True) for cell in range(case.cells) for value in (None, *range(1, values + 1)))
    units = {
        tuple(frozenset(v for place, v, _ in rows if place == cell and v is not None) for cell in range(case.cells))
        for rows in tables(case, possible)
    }
    if relation is Neighboring.ADD_REMOVE:
        pairs = [(tuple(frozenset[int]() for _ in range(case.cells)), unit) for unit in units]
    else:
        pairs = list(product(units, units))
    found = set()
    for others in OTHERS:
        there = [{v for place, v in others if place == cell} for cell in range(case.cells)]
        for old, new in pairs:
            change = [len(a | c) - len(b | c) for a, b, c in zip(new, old, there, strict=True)]
            found.add(tuple(sorted((abs(c) for c in change if c), reverse=True)))
    return frozenset(found)


@each_relation
def test_numbers_of_different_values_move_by_at_most_a_units_rows(relation: Neighboring) -> None:
    for case in DISTINCT_CASES:
        claim = sensitivity(aggregate(DISTINCT, case), catalog(case), relation)
        found = different(3, case, relation)
        assert breaches(claim, found) == [], case
        assert reached(claim, found), (case, claim)
        assert verified(DISTINCT, case, relation, claim)
        for norm in ("l1", "l2_squared", "linf"):
            smaller = claim.model_copy(update={norm: getattr(claim, norm) - 1})
            assert norm.removesuffix("_squared") in breaches(smaller, found), (case, norm)


@each_relation
def test_the_gap_of_a_column_with_fewer_values_than_a_unit_has_rows(relation: Neighboring) -> None:
    case = Case(3, 1, None, 1)
    claim = sensitivity(aggregate(DISTINCT, case), catalog(case), relation)
    found = different(2, case, relation)
    assert breaches(claim, found) == []
    assert claim.linf == 3
    assert max(max(change, default=0) for change in found) == 2


@each_relation
def test_the_gap_of_a_clip_that_no_value_reaches(relation: Neighboring) -> None:
    case, quantity = Case(2, 1, None, 1), Quantity(kind="sum", column="x", low=0, high=50)
    claim = sensitivity(aggregate(quantity, case), catalog(case), relation)
    found = changes(quantity, case, relation)
    assert breaches(claim, found) == []
    assert claim.linf == 100
    assert max(max(change, default=0) for change in found) == 18
