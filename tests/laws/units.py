"""Every table of a unit with several rows, its totals in plain Python, and how far two of them are apart.

The tables are any multisets of rows within the bounds: how an engine bounds a unit must not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import combinations_with_replacement, zip_longest
from types import SimpleNamespace
from typing import Any, NamedTuple

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table, TableBounds
from dprelease.errors import BrokenPromiseError
from dprelease.plan.verify.reach import check_reach
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["Case", "Change", "aggregate", "breaches", "catalog", "changes", "reached", "tables", "verified", "within"]

Row = tuple[int, int | None, bool]  # cell, value in steps (None: null), whether a measure's `where` lets it count
Change = tuple[int, ...]


class Case(NamedTuple):
    """The declared bounds, and the number of cells."""

    max_rows: int | None
    max_groups: int | None
    max_rows_per_group: int | None
    cells: int


def catalog(case: Case) -> Catalog:
    columns = (
        Column(name="k", type="integer", keys=tuple(range(case.cells))),
        Column(name="u", type="text"),
        Column(name="x", type="integer"),
    )
    bounds = None if case.max_rows is None else TableBounds(max_rows=case.max_rows)
    source = Source(file="t.csv", format="csv")
    return Catalog(
        tables={"t": Table(name="t", account="a", source=source, columns=columns, unit_id="u", bounds=bounds)}
    )


def aggregate(quantity: Quantity, case: Case) -> BoundedAggregate:
    return BoundedAggregate(
        table="t",
        by=("k",),
        max_groups=case.max_groups,
        max_rows_per_group=case.max_rows_per_group,
        quantity=quantity,
    )


def tables(case: Case, possible: tuple[Row, ...]) -> Iterator[tuple[Row, ...]]:
    """Every multiset of rows of one unit that obeys the bounds, however it was bounded."""
    groups = min(case.cells, case.max_groups or case.cells)
    most = min(case.max_rows or 9, groups * (case.max_rows_per_group or 9))
    if case.max_rows is None and case.max_rows_per_group is None:
        most = 3  # nothing bounds the rows; only for what counts once per cell, where more rows say nothing new
    for size in range(most + 1):
        for rows in combinations_with_replacement(possible, size):
            places = [cell for cell, *_ in rows]
            full = max((places.count(cell) for cell in places), default=0)
            if len(set(places)) <= groups and full <= (case.max_rows_per_group or size):
                yield rows


def part(quantity: Quantity, value: int | None) -> int:
    """What one value (of a row, or of all of a unit's rows in a cell) contributes, straight from the definition."""
    if quantity.kind in ("rows", "units"):
        return 1
    if quantity.kind == "balance":
        return -1 if value is None else 1
    if value is None:
        return 0
    if quantity.kind == "nonnull":
        return 1
    centred = min(max(value, quantity.low), quantity.high) - quantity.centre
    if quantity.kind == "sum":
        return centred
    share = Decimal(centred * centred) / quantity.grain
    return int(share.quantize(Decimal(1), rounding=ROUND_HALF_UP)) - quantity.offset


def totals(quantity: Quantity, rows: tuple[Row, ...], cells: int) -> Change:
    """The unit's part of every cell."""
    found = []
    for cell in range(cells):
        values = [value for place, value, counts in rows if place == cell and counts]
        if quantity.kind == "balance":
            found.append(_balance(quantity, [row for row in rows if row[0] == cell]))
        elif quantity.kind == "units":
            found.append(1 if values else 0)
        elif quantity.per == "unit_cell":
            known = [value for value in values if value is not None]
            found.append(part(quantity, sum(known) if known else None))
        else:
            found.append(sum(part(quantity, value) for value in values))
    return tuple(found)


def _balance(quantity: Quantity, rows: list[Row]) -> int:
    """Of one unit in one cell: rows that count less rows that do not; once for the unit with ``unit_cell``."""
    valued = quantity.column is not None
    signs = [(part(quantity, value) if valued else 1) if counts else -1 for _, value, counts in rows]
    return max(signs, default=0) if quantity.per == "unit_cell" else sum(signs)


@lru_cache(maxsize=64)
def moves(vectors: frozenset[Change], relation: Neighboring) -> frozenset[Change]:
    """Every change, sizes sorted downwards, zeros dropped.

    The parts of all other units are the same in both tables. Under replace-one the old unit's cells are taken in
    falling order: the tables of all units are the same whatever the cells are called.
    """

    def sizes(change: Change) -> Change:
        return tuple(sorted((abs(c) for c in change if c), reverse=True))

    if relation is Neighboring.ADD_REMOVE:
        return frozenset(map(sizes, vectors))
    olds = [old for old in vectors if list(old) == sorted(old, reverse=True)]
    return frozenset(sizes(tuple(a - b for a, b in zip(new, old, strict=True))) for old in olds for new in vectors)


def changes(quantity: Quantity, case: Case, relation: Neighboring) -> frozenset[Change]:
    """Over every two tables of one unit."""
    return moves(_vectors(quantity, case), relation)


@lru_cache(maxsize=64)
def _vectors(quantity: Quantity, case: Case) -> frozenset[Change]:
    values = (None, -9, quantity.centre, 9) if quantity.column else (None,)
    flags = (True, False) if quantity.where else (True,)
    possible = tuple((cell, value, flag) for cell in range(case.cells) for value in values for flag in flags)
    return frozenset(totals(quantity, rows, case.cells) for rows in tables(case, possible))


def breaches(claim: Sensitivity, found: frozenset[Change]) -> list[str]:
    """Where a claim is too small."""
    names = [
        name
        for name, holds in {
            "l0": all(len(change) <= claim.l0 for change in found),
            "l1": all(sum(change) <= claim.l1 for change in found),
            "l2": all(sum(c * c for c in change) <= claim.l2_squared for change in found),
            "linf": all(max(change, default=0) <= claim.linf for change in found),
        }.items()
        if not holds
    ]
    if claim.shifts and not all(any(within(change, shift) for shift in claim.shifts) for change in found):
        names.append("shifts")
    return names


def within(change: Change, shift: Change) -> bool:
    return all(size <= most for size, most in zip_longest(change, shift, fillvalue=0))


def reached(claim: Sensitivity, found: frozenset[Change]) -> bool:
    """Whether some change is as large as claimed, in each norm, and every listed worst case is a change."""
    norms = (
        max(len(change) for change in found),
        max(sum(change) for change in found),
        max(sum(c * c for c in change) for change in found),
        max(max(change, default=0) for change in found),
    )
    listed = set(claim.shifts) <= found and len(set(claim.shifts)) == len(claim.shifts)
    return list(norms) == [claim.l0, claim.l1, claim.l2_squared, claim.linf] and listed


def verified(quantity: Quantity, case: Case, relation: Neighboring, claim: Sensitivity) -> bool:
    """Whether the verifier, which derives it by another route, accepts a claim."""
    plan: Any = SimpleNamespace(catalog=catalog(case), neighboring=relation)
    facts = {"id": "s", "aggregate": aggregate(quantity, case), "cells": case.cells, "sensitivity": claim}
    kinds = {
        "gauge": None,
        "joined": (),
        "choosing": None,
        "selecting": None,
        "mechanism": "discrete_laplace",
        "tables": (),
    }
    step: Any = SimpleNamespace(**facts, **kinds)
    try:
        check_reach(plan, step)
    except BrokenPromiseError:
        return False
    return True
