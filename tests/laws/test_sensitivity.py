"""Sensitivity by brute force where every row is a unit: over all neighbouring tiny tables, never above the claim,
and reached somewhere.

The verifier's own derivation, from extreme rows, must agree with it. Units with many rows: test_sensitivity_units.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product, zip_longest
from types import SimpleNamespace
from typing import Any

import pytest

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.sensitivity import sensitivity
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.errors import BrokenPromiseError
from dprelease.plan.verify.reach import _check_sensitivity
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.laws.units import part

Row = tuple[int | None, int | None]  # cell (None: belongs to none), value in steps (None: null)

QUANTITIES = [
    Quantity(kind="rows"),
    Quantity(kind="nonnull", column="x"),
    Quantity(kind="sum", column="x", low=0, high=3),
    Quantity(kind="sum", column="x", low=-3, high=1),
    Quantity(kind="sum", column="x", low=-2, high=2),
    Quantity(kind="sum", column="x", low=0, high=4, centre=2),
    Quantity(kind="sum", column="x", low=1, high=4, centre=2),
    Quantity(kind="sum", column="x", low=2, high=4),
    Quantity(kind="sum", column="x", low=-4, high=-2),
    Quantity(kind="balance", column="x"),
    Quantity(kind="square", column="x", low=-2, high=2),
    Quantity(kind="square", column="x", low=-2, high=2, offset=2),
    Quantity(kind="square", column="x", low=0, high=5, centre=2, offset=4),
    Quantity(kind="square", column="x", low=0, high=5, centre=2, grain=2, offset=2),
    Quantity(kind="square", column="x", low=-4, high=3, grain=3, offset=3),
    Quantity(kind="square", column="x", low=1, high=4, offset=8),
    Quantity(kind="square", column="x", low=-4, high=-2, offset=2),
    Quantity(kind="square", column="x", low=-3, high=3, grain=5),
]


def catalog(cells: int) -> Catalog:
    key = Column(name="k", type="integer", keys=tuple(range(cells)))
    source = Source(file="t.csv", format="csv")
    table = Table(name="t", account="a", source=source, columns=(key, Column(name="x", type="integer")))
    return Catalog(tables={"t": table})


def exact(quantity: Quantity, rows: tuple[Row, ...], cells: int) -> list[int]:
    answer = [0] * cells
    for cell, value in rows:
        if cell is not None:
            answer[cell] += part(quantity, value)
    return answer


def neighbours(cells: int, relation: Neighboring) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    possible: list[Row] = [(c, v) for c, v in product([None, *range(cells)], [None, -9, -1, 0, 2, 9])]
    for others in combinations_with_replacement(possible[:: max(1, len(possible) // 4)], 1):
        if relation is Neighboring.ADD_REMOVE:
            for row in possible:
                yield others, (*others, row)
        else:
            for old, new in product(possible, possible):
                yield (*others, old), (*others, new)


def changes(quantity: Quantity, cells: int, relation: Neighboring) -> set[tuple[int, ...]]:
    """Every change of any two neighbours, sizes sorted downwards, zeros dropped."""
    found = set()
    for one, other in neighbours(cells, relation):
        pairs = zip(exact(quantity, one, cells), exact(quantity, other, cells), strict=True)
        found.add(tuple(sorted((abs(a - b) for a, b in pairs if a != b), reverse=True)))
    return found


every_case = pytest.mark.parametrize(
    ("quantity", "cells", "relation"),
    [
        pytest.param(quantity, cells, relation, id=f"{at}-{quantity.kind}-{cells}-{relation}")
        for (at, quantity), cells, relation in product(enumerate(QUANTITIES), [1, 2, 3], Neighboring)
    ],
)


@every_case
def test_no_neighbour_moves_an_aggregate_further_than_claimed(
    quantity: Quantity, cells: int, relation: Neighboring
) -> None:
    claimed = sensitivity(BoundedAggregate(table="t", by=("k",), quantity=quantity), catalog(cells), relation)
    found = changes(quantity, cells, relation)
    reached = [
        max(len(change) for change in found),
        max(sum(change) for change in found),
        max(sum(c * c for c in change) for change in found),
        max(max(change, default=0) for change in found),
    ]
    assert reached == [claimed.l0, claimed.l1, claimed.l2_squared, claimed.linf]


@every_case
def test_every_change_is_within_a_shift_and_every_shift_is_a_change(
    quantity: Quantity, cells: int, relation: Neighboring
) -> None:
    shifts = sensitivity(BoundedAggregate(table="t", by=("k",), quantity=quantity), catalog(cells), relation).shifts
    found = changes(quantity, cells, relation)
    for change in found:
        assert any(all(size <= most for size, most in zip_longest(change, shift, fillvalue=0)) for shift in shifts), (
            change
        )
    assert set(shifts) <= found
    assert len(set(shifts)) == len(shifts)


@every_case
def test_the_verifier_finds_the_same_and_refuses_any_other_claim(
    quantity: Quantity, cells: int, relation: Neighboring
) -> None:
    aggregate = BoundedAggregate(table="t", by=("k",), quantity=quantity)
    claimed = sensitivity(aggregate, catalog(cells), relation)
    plan: Any = SimpleNamespace(catalog=catalog(cells), neighboring=relation)

    def check(claim: Sensitivity) -> None:
        facts = {"id": "s", "aggregate": aggregate, "cells": cells, "sensitivity": claim}
        step: Any = SimpleNamespace(**facts, parts=(quantity,), joined=(), gauge=None, tables=())
        _check_sensitivity(plan, step)

    check(claimed)
    smaller = tuple((shift[0] - 1, *shift[1:]) for shift in claimed.shifts[:1])
    wrong: list[dict[str, Any]] = [
        {"l1": claimed.l1 - 1},
        {"l2_squared": claimed.l2_squared - 1},
        {"l2_squared": claimed.l2_squared + 1},
        {"linf": claimed.linf - 1},
        {"l0": claimed.l0 + 1},
        {"shifts": ()},
        {"shifts": (*smaller, *claimed.shifts[1:])},
        {"shifts": claimed.shifts[1:]},
    ]
    for update in wrong:
        with pytest.raises(BrokenPromiseError):
            check(claimed.model_copy(update=update))


def test_a_square_is_rounded_half_upward_whatever_the_grain() -> None:
    for grain, value in product(range(1, 12), range(-40, 41)):
        quantity = Quantity(kind="square", column="x", low=-40, high=40, grain=grain)
        assert quantity.in_grains(value) == part(quantity, value)
