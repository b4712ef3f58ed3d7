"""Sensitivity by brute force: over all neighbouring tiny tables, never above the claim, and reached somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from dprelease.catalog.aggregate import BoundedAggregate, Quantity, sensitivity
from dprelease.catalog.table import Column, Source, Table
from dprelease.privacy.unit import Neighboring

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
]


def table(cells: int) -> Table:
    key = Column(name="k", type="integer", keys=tuple(range(cells)))
    source = Source(file="t.csv", format="csv")
    return Table(name="t", account="a", source=source, columns=(key, Column(name="x", type="integer")))


def exact(quantity: Quantity, rows: tuple[Row, ...], cells: int) -> list[int]:
    answer = [0] * cells
    for cell, value in rows:
        if cell is None:
            continue
        if quantity.kind == "rows" or (value is not None and quantity.kind == "nonnull"):
            answer[cell] += 1
        elif value is not None:
            answer[cell] += min(max(value, quantity.low), quantity.high) - quantity.centre
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


@pytest.mark.parametrize("relation", list(Neighboring))
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda q: f"{q.kind}[{q.low},{q.high}]-{q.centre}")
def test_no_neighbour_moves_an_aggregate_further_than_claimed(
    quantity: Quantity, cells: int, relation: Neighboring
) -> None:
    aggregate = BoundedAggregate(table="t", by=("k",), quantity=quantity)
    claimed = sensitivity(aggregate, table(cells), relation)
    reached = [Fraction(0)] * 4
    for one, other in neighbours(cells, relation):
        change = [a - b for a, b in zip(exact(quantity, one, cells), exact(quantity, other, cells), strict=True)]
        norms = (
            sum(1 for c in change if c),
            sum(abs(c) for c in change),
            sum(c * c for c in change),
            max(abs(c) for c in change),
        )
        reached = [max(best, Fraction(norm)) for best, norm in zip(reached, norms, strict=True)]
    assert reached == [claimed.l0, claimed.l1, claimed.l2_squared, claimed.linf]
