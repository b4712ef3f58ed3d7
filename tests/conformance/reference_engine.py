"""The engine that is too simple to be wrong: one row at a time, Python integers and fractions, no vector in sight.

The oracle of the conformance tests. It shares no code with the engines; only expressions are evaluated by their
own definition, ``catalog.expressions.expression``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Catalog, Column, Key, Table
from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys
from tests.conformance.reference_rows import (
    Row,
    canonical,
    chosen_cells,
    holds,
    packed,
    sampled,
    table_rows,
)
from tests.conformance.reference_values import Written

MOST = 2**62
Cell = tuple[Key, ...]
Placed = list[tuple[Cell, Row]]


class ReferenceEngine:
    """The protocol of ``dprelease.engines``, over files named without variables."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder

    def describe(self, table: Table) -> None:
        """Nothing to check: a test hands over what fits."""

    def check(self, *_: object) -> None:
        """Nothing to check, as before."""

    def present(self, table: Table) -> None:
        """Nothing to look for, as before."""

    def fingerprint(self, table: Table, key: bytes) -> tuple[str, ...]:
        """No file is told from another: nothing is released from here."""
        return ()

    def close(self) -> None:
        """Nothing to close."""

    def expect(self, catalog: Catalog, asked: object) -> None:
        """It reads everything, every time."""

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
        secret: bytes,
        keys: Sequence[Cell] | None = None,
        within: CellSlice | None = None,
        cube: TotalsCube | None = None,
    ) -> tuple[Exact | ExactHistogram, ...]:
        """As the protocol says, the slow way."""
        table = catalog.tables[grouping.table]
        rows = table_rows(catalog, table, self.folder, references, secret)
        cells = list(keys) if keys is not None else public_cells(catalog, grouping)
        if within is not None:
            every = table.column(within.column).keys or ()
            cells = [cell for cell in cells if cell[0] in {every[at] for at in within.nodes}]
        number: dict[Cell, int] = {}
        for at, cell in enumerate(cells):
            number.setdefault(cell, at)
        inside: list[list[Row]] = [[] for _ in cells]
        for cell, row in bounded(catalog, grouping, placed_rows(catalog, grouping, rows), secret):
            if cell in number:  # a key that was not selected
                inside[number[cell]].append(row)
        return tuple(boxed(table, quantity, inside) for quantity in quantities)

    def units_by_key(
        self,
        catalog: Catalog,
        grouping: Grouping,
        references: Mapping[str, ReferenceTable],
        secret: bytes,
    ) -> ExactKeys:
        """The keys that occur, by their text, with how many units each has."""
        table = catalog.tables[grouping.table]
        rows = table_rows(catalog, table, self.folder, references, secret)
        units: dict[Cell, set[Any]] = {}
        for cell, row in bounded(catalog, grouping, placed_rows(catalog, grouping, rows), secret):
            units.setdefault(cell, set()).add(row.unit)
        found = sorted(units, key=lambda cell: [str(canonical(part)) for part in cell])
        return ExactKeys(found, np.array([len(units[cell]) for cell in found], dtype=np.int64))


def public_cells(catalog: Catalog, grouping: Grouping) -> list[Cell]:
    """The full cross product, row-major, without what is excluded."""
    table = catalog.tables[grouping.table]
    every = list(product(*(table.column(name).keys or () for name in grouping.by)))
    if grouping.excluding in catalog.zeros:
        gone, at = impossible(catalog, grouping.table, grouping.excluding)
        return [cell for cell in every if tuple(cell[grouping.by.index(name)] for name in at) not in gone]
    left_out = set(catalog.exclusions[grouping.excluding]) if grouping.excluding else set()
    return [cell for at, cell in enumerate(every) if at not in left_out]


def impossible(catalog: Catalog, table: str, name: str) -> tuple[set[Cell], tuple[str, ...]]:
    """Combinations of keys that no row that counts has, and of which columns."""
    zeros = catalog.zeros[name]
    every = list(product(*(catalog.tables[table].column(each).keys or () for each in zeros.columns)))
    return {every[at] for at in zeros.cells}, zeros.columns


def placed_rows(catalog: Catalog, grouping: Grouping, rows: Sequence[Row]) -> Placed:
    """Each row that ``where`` keeps with its cell; a row in no cell is dropped."""
    table = catalog.tables[grouping.table]
    columns = [table.column(name) for name in grouping.by]
    public = None if grouping.private else set(public_cells(catalog, grouping))
    placed = []
    for row in rows:
        cell = tuple(key(column, row.values[column.name]) for column in columns)
        declared = all(column.keys is None or part in column.keys for column, part in zip(columns, cell, strict=True))
        counts = holds(table, grouping.where, row) and complete(table, grouping, row)
        if counts and grouping.zeros is not None:
            gone, names = impossible(catalog, grouping.table, grouping.zeros)
            counts = tuple(key(table.column(name), row.values[name]) for name in names) not in gone
        if counts and None not in cell and declared and (public is None or cell in public):
            placed.append((cell, row))
    return placed


def complete(table: Table, grouping: Grouping, row: Row) -> bool:
    """Whether a row has a key in every column that must have one."""
    columns = [table.column(name) for name in grouping.complete]
    return all(key(column, row.values[column.name]) in (column.keys or ()) for column in columns)


def key(column: Column, value: Any) -> Any:
    return column.null if value is None else value


def bounded(catalog: Catalog, grouping: Grouping, placed: Placed, secret: bytes) -> Placed:
    """At most ``max_groups`` cells of each unit, then at most ``max_rows_per_group`` rows of it in each."""
    table = catalog.tables[grouping.table]
    if table.unit_id is None:
        return placed
    of_unit: dict[str | int, dict[Cell, list[Row]]] = {}
    for cell, row in placed:
        of_unit.setdefault(row.unit, {}).setdefault(cell, []).append(row)
    text = cell_texts(table, grouping, [cell for cell, _ in placed])
    kept = []
    for unit, cells in of_unit.items():
        for cell in chosen_cells(table, list(cells), text, unit, grouping.max_groups, secret):
            kept += [(cell, row) for row in sampled(table, cells[cell], grouping.max_rows_per_group, secret)]
    return kept


def cell_texts(table: Table, grouping: Grouping, cells: Sequence[Cell]) -> Mapping[Cell, str | int]:
    """What the keyed order of cells is an order of: positions in the whole cross product, or private keys as texts."""
    if grouping.private:
        return {cell: packed([canonical(part) for part in cell]) for cell in cells}
    whole: dict[Cell, int] = {}
    for at, cell in enumerate(product(*(table.column(name).keys or () for name in grouping.by))):
        whole.setdefault(cell, at)
    return whole


def boxed(table: Table, quantity: Quantity, inside: Sequence[Sequence[Row]]) -> Exact | ExactHistogram:
    counted = [[row for row in rows if holds(table, quantity.where, row)] for rows in inside]
    if quantity.kind == "quantile":
        entries = [
            (at, value, count)
            for at, rows in enumerate(counted)
            for value, count in sorted(
                Counter(clipped(table, quantity, row) for row in with_value(rows, quantity)).items()
            )
        ]
        columns = [np.array([entry[part] for entry in entries], dtype=np.int64) for part in range(3)]
        return ExactHistogram(len(inside), *columns)
    if quantity.kind == "rest":
        counted = [[row for row in rows if not holds(table, quantity.where, row)] for rows in inside]
        quantity = quantity.model_copy(update={"kind": "nonnull" if quantity.column else "rows", "where": None})
    totals = [total(table, quantity, rows) for rows in counted]
    if quantity.kind == "balance":
        totals = [balance(table, quantity, of, rows) for of, rows in zip(counted, inside, strict=True)]
    return Exact(np.array([max(-MOST, min(MOST, each)) for each in totals], dtype=np.int64))


def with_value(rows: Sequence[Row], quantity: Quantity) -> list[Row]:
    assert quantity.column is not None
    return [row for row in rows if row.values[quantity.column] is not None]


def total(table: Table, quantity: Quantity, rows: Sequence[Row]) -> int:
    """The quantity of one cell."""
    if quantity.weight is not None:
        return weighted(table, quantity, rows)
    if quantity.kind == "rows":
        return len(rows)
    if quantity.kind == "units":
        return len({row.unit for row in rows})
    if quantity.kind == "balance":
        return 0  # of all rows of the cell, by :func:`balance`
    valued = with_value(rows, quantity)
    if quantity.kind == "distinct":
        return len({row.values[str(quantity.column)] for row in valued})
    if quantity.per == "unit_cell":
        return unit_total(table, quantity, valued)
    if quantity.kind == "nonnull":
        return len(valued)
    return sum(part(quantity, clipped(table, quantity, row)) for row in valued)


def weighted(table: Table, quantity: Quantity, rows: Sequence[Row]) -> int:
    """What the rows contribute, each written out as often as it weighs."""
    found = 0
    for row in rows:
        if quantity.column is None or row.values[quantity.column] is not None:
            each = part(quantity, clipped(table, quantity, row)) if quantity.kind == "sum" else 1
            found += each * weight(table, quantity, row)
    return found


def weight(table: Table, quantity: Quantity, row: Row) -> int:
    """How often a row counts, in steps of its weight."""
    assert quantity.weight is not None
    if row.values[quantity.weight.column] is None:
        return 0
    of_weight = Quantity(kind="sum", column=quantity.weight.column, step=quantity.weight.step)
    return max(0, min(quantity.weight.clip, steps(table, of_weight, row)))


def balance(table: Table, quantity: Quantity, counted: Sequence[Row], inside: Sequence[Row]) -> int:
    """One up for every row (or unit) that counts, one down for every other one in the cell."""
    which = counted if quantity.column is None else with_value(counted, quantity)
    if quantity.weight is not None:
        plain = quantity.model_copy(update={"kind": "rows", "column": None})
        return 2 * weighted(table, plain, which) - weighted(table, plain, inside)
    if quantity.per == "unit_cell":
        units = {row.unit for row in which}
        return sum(1 if unit in units else -1 for unit in {row.unit for row in inside})
    return len(which) - (len(inside) - len(which))


def unit_total(table: Table, quantity: Quantity, valued: Sequence[Row]) -> int:
    """All rows of a unit are one contribution: their sum, clipped once."""
    of_unit: dict[Any, int] = {}
    for row in valued:
        value = 0 if quantity.kind == "nonnull" else max(-MOST, min(MOST, steps(table, quantity, row)))
        of_unit[row.unit] = of_unit.get(row.unit, 0) + value
    if quantity.kind == "nonnull":
        return len(of_unit)
    return sum(part(quantity, max(quantity.low, min(quantity.high, value))) for value in of_unit.values())


def part(quantity: Quantity, clipped_value: int) -> int:
    """What one clipped value adds."""
    centred = clipped_value - quantity.centre
    if quantity.kind == "square":
        return math.floor(Fraction(centred**2, quantity.grain) + Fraction(1, 2)) - quantity.offset
    return centred


def clipped(table: Table, quantity: Quantity, row: Row) -> int:
    return max(quantity.low, min(quantity.high, steps(table, quantity, row)))


def steps(table: Table, quantity: Quantity, row: Row) -> int:
    """A number to the nearest grid step, halves away from zero: of a decimal that was read by its own digits.

    One that was computed is a double, and so is one on a grid that is not its column's; less than 2^-50 of itself below
    a half is a half then.
    """
    value = row.values[str(quantity.column)]
    column, step = table.column(str(quantity.column)), quantity.step
    ratio: Fraction | float
    if column.type == "integer":
        ratio = value / Fraction(step)
    elif isinstance(value, Written) and step in column.grids:
        ratio = value.exact / step
    else:
        ratio = float(value) * float(step.denominator) / float(step.numerator)
        ratio = ratio * (1 + 2.0**-50) if abs(ratio) < 2**48 else ratio
    if isinstance(ratio, float) and math.isinf(ratio):
        return 2**1024 if ratio > 0 else -(2**1024)
    exact = Fraction(ratio)
    return int(abs(exact) + Fraction(1, 2)) * (1 if exact > 0 else -1)
