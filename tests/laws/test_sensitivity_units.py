"""Sensitivity of units with many rows by brute force: over every two tables of a unit that obey the bounds.

No change may exceed a claim, every norm is reached, and the verifier agrees. Numbers of different values, and where a
norm is not reached: test_sensitivity_distinct.py.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.sensitivity import limits_of, sensitivity
from dprelease.catalog.table import PrivateJoin
from dprelease.errors import BrokenPromiseError
from dprelease.plan.verify.reach import check_reach
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.laws.units import Case, aggregate, breaches, catalog, changes, reached, verified, within

CASES = [Case(*each) for each in product([None, 1, 2, 3], [None, 1, 2], [None, 1, 2], [1, 2, 3])]
# One total of 4 or 5 rows, so that the last cell of a unit is filled in part and may meet a full one.
CASES += [Case(4, None, 3, 2), Case(4, 2, 3, 4), Case(5, 2, 3, 2), Case(5, None, 2, 3)]

ADDITIVE = [
    Quantity(kind="rows"),
    Quantity(kind="rows", where="x > 0"),
    Quantity(kind="nonnull", column="x"),
    Quantity(kind="balance", column="x"),
    Quantity(kind="sum", column="x", low=0, high=3),
    Quantity(kind="sum", column="x", low=2, high=4, centre=1),
    Quantity(kind="sum", column="x", low=-1, high=2),
    Quantity(kind="sum", column="x", low=-5, high=3, centre=-2),
    Quantity(kind="sum", column="x", low=-3, high=1),
    Quantity(kind="sum", column="x", low=0, high=0),
    Quantity(kind="square", column="x", low=-2, high=2, offset=2),
    Quantity(kind="square", column="x", low=0, high=5, centre=2, offset=4),
    Quantity(kind="square", column="x", low=0, high=5, centre=2, grain=2, offset=2),
    Quantity(kind="units"),
    Quantity(kind="units", where="x > 0"),
    Quantity(kind="nonnull", column="x", per="unit_cell"),
    Quantity(kind="sum", column="x", low=-1, high=2, per="unit_cell"),
    Quantity(kind="sum", column="x", low=0, high=4, centre=2, per="unit_cell"),
    Quantity(kind="square", column="x", low=-1, high=3, offset=4, per="unit_cell"),
    Quantity(kind="balance", where="x > 0"),
    Quantity(kind="balance", column="x", where="x > 0"),
    Quantity(kind="balance", where="x > 0", per="unit_cell"),
]
ONCE = [quantity for quantity in ADDITIVE if quantity.kind == "units" or quantity.per == "unit_cell"]
each_additive = pytest.mark.parametrize(
    "quantity", [pytest.param(each, id=f"{at}-{each.kind}-{each.per}") for at, each in enumerate(ADDITIVE)]
)
each_relation = pytest.mark.parametrize("relation", list(Neighboring))


def allowed(quantity: Quantity, case: Case) -> bool:
    """Whether the bounds that the quantity needs are given; and few enough rows to list them all."""
    bounded = case.max_rows is not None or case.max_rows_per_group is not None
    few = (case.max_rows or 9) <= 3 or quantity.grain == 1
    return few and (bounded or quantity in ONCE)


@pytest.mark.thin(every=3)
@each_additive
def test_no_two_units_differ_by_more_than_claimed_and_some_by_that_much(quantity: Quantity) -> None:
    """And a claim that is off by one step is found: by the brute force, and by the verifier's other route."""
    for case, relation in product(CASES, Neighboring):
        if not allowed(quantity, case):
            continue
        claim = sensitivity(aggregate(quantity, case), catalog(case), relation)
        found = changes(quantity, case, relation)
        assert breaches(claim, found) == [], case
        assert reached(claim, found), (case, claim)
        assert verified(quantity, case, relation, claim), (case, claim)
        for norm in ("l0", "l1", "l2_squared", "linf"):
            if getattr(claim, norm):
                smaller = claim.model_copy(update={norm: getattr(claim, norm) - 1})
                assert norm.removesuffix("_squared") in breaches(smaller, found), (case, norm)
                assert not verified(quantity, case, relation, smaller), (case, norm)
            larger = claim.model_copy(update={norm: getattr(claim, norm) + 1})
            assert not verified(quantity, case, relation, larger), (case, norm)
        if claim.shifts:
            fewer = claim.shifts[1:] or ((claim.shifts[0][0] - 1, *claim.shifts[0][1:]),)
            assert "shifts" in breaches(claim.model_copy(update={"shifts": fewer}), found), case
            assert not verified(quantity, case, relation, claim.model_copy(update={"shifts": fewer})), case


def doubled(quantity: Quantity, case: Case, relation: Neighboring) -> Sensitivity:
    """Wrong: a replaced unit is one removed and one added, in other cells."""
    one = sensitivity(aggregate(quantity, case), catalog(case), Neighboring.ADD_REMOVE)
    if relation is Neighboring.ADD_REMOVE:
        return one
    return Sensitivity(l0=2 * one.l0, l1=2 * one.l1, l2_squared=2 * one.l2_squared, linf=one.linf)


def aligned(quantity: Quantity, case: Case, relation: Neighboring) -> Sensitivity:
    """Wrong: the worst exchange is the fullest cells for the fullest cells, or other cells."""
    right = sensitivity(aggregate(quantity, case), catalog(case), relation)
    if relation is Neighboring.ADD_REMOVE:
        return right
    limits = limits_of(aggregate(quantity, case), catalog(case))
    low, high = quantity.contribution
    full, rest = divmod(limits.rows or 0, limits.rows_per_group or 1)
    squares = full * (limits.rows_per_group or 1) ** 2 + rest**2
    apart = 2 * squares * max(-low, high) ** 2 if case.cells >= 2 * (full + (rest > 0)) else 0
    return right.model_copy(update={"l2_squared": Fraction(max(apart, squares * (high - low) ** 2)), "shifts": ()})


def one_row_fewer(quantity: Quantity, case: Case, relation: Neighboring) -> Sensitivity:
    """Wrong: at most max_rows_per_group - 1 rows in a cell."""
    fewer = case._replace(max_rows_per_group=max(1, (case.max_rows_per_group or 1) - 1))
    return sensitivity(aggregate(quantity, fewer), catalog(fewer), relation)


def clipped_once(quantity: Quantity, case: Case, relation: Neighboring) -> Sensitivity:
    """Wrong: each row is clipped, and the cell is taken to be."""
    once = quantity.model_copy(update={"per": "unit_cell"})
    return sensitivity(aggregate(once, case), catalog(case), relation)


@pytest.mark.parametrize(
    ("wrong", "case", "quantity", "norms"),
    [
        (doubled, Case(2, 1, None, 2), ADDITIVE[3], ["l2", "linf"]),
        (aligned, Case(3, 2, 2, 3), ADDITIVE[6], ["l2"]),
        (aligned, Case(3, 2, 2, 2), ADDITIVE[0], ["l2"]),
        (one_row_fewer, Case(3, None, 2, 3), ADDITIVE[4], ["l1", "l2", "linf"]),
        (clipped_once, Case(2, 1, None, 2), ADDITIVE[4], ["l1", "l2", "linf"]),
    ],
)
def test_functions_that_are_wrong_in_a_plausible_way_are_found(
    wrong: Callable[..., Sensitivity], case: Case, quantity: Quantity, norms: list[str]
) -> None:
    found = changes(quantity, case, Neighboring.REPLACE_ONE)
    claim = wrong(quantity, case, Neighboring.REPLACE_ONE)
    assert [name for name in breaches(claim, found) if name != "shifts"] == norms
    assert not verified(quantity, case, Neighboring.REPLACE_ONE, claim)


@each_relation
def test_every_worst_case_is_listed_where_they_are_few(relation: Neighboring) -> None:
    """Against a list of another kind: all orders of the new unit's cells beside one order of the old unit's."""
    for case in (Case(2, None, None, 3), Case(3, 2, 2, 3), Case(4, 2, 3, 4), Case(3, None, 1, 3)):
        for quantity in (ADDITIVE[0], ADDITIVE[6], ADDITIVE[3]):
            limits = limits_of(aggregate(quantity, case), catalog(case))
            low, high = quantity.contribution
            p, q = max(-low, high), min(-low, high)
            most = range((limits.rows_per_group or 0) + 1)
            full = [
                n
                for n in product(most, repeat=case.cells)
                if sum(n) == limits.rows and sum(c > 0 for c in n) <= limits.groups
            ]
            news = [(0,) * case.cells] if relation is Neighboring.ADD_REMOVE else full
            worst = {
                tuple(sorted((p * max(a, b) + q * min(a, b) for a, b in zip(old, order, strict=True)), reverse=True))
                for old in full
                for new in news
                for order in permutations(new)
            }
            kept = {one for one in worst if not any(other != one and within(one, other) for other in worst)}
            claim = sensitivity(aggregate(quantity, case), catalog(case), relation)
            assert set(claim.shifts) == {tuple(c for c in one if c) for one in kept}


def test_a_bound_that_is_missing_is_named() -> None:
    both = catalog(Case(None, None, None, 2))
    with pytest.raises(ValueError, match="max_rows_per_group or max_rows"):
        sensitivity(aggregate(ADDITIVE[0], Case(None, 1, None, 2)), both, Neighboring.ADD_REMOVE)
    with pytest.raises(ValueError, match="give max_groups"):
        limits_of(Grouping(table="t", by=("k",), private=True), both)
    quantile = Quantity(kind="quantile", column="x", at=Fraction(1, 2))
    with pytest.raises(ValueError, match="no sensitivity of its own"):
        sensitivity(aggregate(quantity=quantile, case=Case(1, 1, 1, 2)), both, Neighboring.ADD_REMOVE)


def test_limits_come_from_the_tightest_bounds() -> None:
    def limits(case: Case, **more: Any) -> tuple[int, int | None, int | None, int | None]:
        found = limits_of(aggregate(ADDITIVE[0], case).model_copy(update=more), catalog(case))
        return (found.groups, found.rows_per_group, found.rows, found.cells)

    assert limits(Case(None, None, None, 3)) == (3, None, None, 3)
    assert limits(Case(10, None, None, 3)) == (3, 10, 10, 3)
    assert limits(Case(2, None, None, 3)) == (2, 2, 2, 3)
    assert limits(Case(10, 2, 4, 3)) == (2, 4, 8, 3)
    assert limits(Case(5, 2, 4, 3)) == (2, 4, 5, 3)
    assert limits(Case(None, 2, 4, 3)) == (2, 4, 8, 3)
    assert limits(Case(None, 7, 4, 3)) == (3, 4, 12, 3)
    assert limits(Case(None, 7, 4, 3), private=True) == (7, 4, 28, None)


def test_cells_that_are_left_out_and_joined_rows_count() -> None:
    """With one cell left a replaced unit stays in it; a private join makes several rows of one."""
    case = Case(2, None, None, 2)
    declared = catalog(case)
    table = declared.tables["t"].model_copy(
        update={"private_joins": (PrivateJoin(table="s", on="u", max_matches=3, add=("y",)),)}
    )
    joined = declared.model_copy(update={"tables": {"t": table}, "exclusions": {"gone(k)": (1,)}})
    one = aggregate(ADDITIVE[3], case).model_copy(update={"excluding": "gone(k)"})
    claim = sensitivity(one, joined, Neighboring.REPLACE_ONE)
    assert claim == Sensitivity.of_shifts((12,))
    kinds = {"id": "s", "gauge": None, "joined": (), "choosing": None, "selecting": None, "tables": ()}
    plan: Any = SimpleNamespace(catalog=joined, neighboring=Neighboring.REPLACE_ONE)
    step: Any = SimpleNamespace(**kinds, mechanism="discrete_laplace", aggregate=one, cells=1, sensitivity=claim)
    check_reach(plan, step)
    step.cells = 2
    with pytest.raises(BrokenPromiseError, match="another number of cells"):
        check_reach(plan, step)
    step.cells, joined.exclusions["gone(k)"] = 1, (2,)
    with pytest.raises(BrokenPromiseError, match="no cell"):
        check_reach(plan, step)


def test_counts_of_units_with_several_rows_are_not_hidden_by_one_draw() -> None:
    case = Case(2, None, None, 2)
    plan: Any = SimpleNamespace(catalog=catalog(case), neighboring=Neighboring.ADD_REMOVE)
    parts = (ADDITIVE[0], ADDITIVE[2])
    facts = {"id": "s", "parts": parts, "joined": parts[1:], "aggregate": aggregate(parts[0], case), "cells": 2}
    claim = {"gauge": Fraction(1), "sensitivity": Sensitivity.of_shifts((1, 1)), "mechanism": "count_knorm"}
    step: Any = SimpleNamespace(**facts, **claim, choosing=None, selecting=None, tables=(), replaced=False)
    with pytest.raises(BrokenPromiseError, match="may have several rows"):
        check_reach(plan, step)
