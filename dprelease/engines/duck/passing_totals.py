"""Numbers and sums of rows that pass: added up in an array for each while the source is read, without a table of them.

A row's cell is known from the places of its keys, so that nothing has to be looked up for it; DuckDB, which has to make
groups of the rows of a stream, takes three times as long for the same totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.engines.duck.cells import place_name
from dprelease.engines.duck.loading import Layout
from dprelease.engines.duck.pipeline import PassQuery
from dprelease.engines.duck.units import our_name
from dprelease.engines.files.decimals import MOST, grid_name
from dprelease.engines.files.in_turn import in_turn
from dprelease.noise.exact import Exact

__all__ = ["add_up_in_arrays", "fits_arrays"]

Integers = npt.NDArray[np.int64]
_CELLS = 2**18  # every block of rows has an array of all cells, which is to be no more work than its rows are
_LARGEST = 2**32  # contribution of a row, so that the sum of those of a block is below 2^53, and exact as a double
_ROWS = 2**20  # of a block whose contributions are added as doubles
_WIDE = MOST  # what a total of 64 bits may come to, before it goes on in whole numbers of any size


def fits_arrays(asked: PassQuery, layout: Layout) -> bool:
    """Whether all that is asked are such totals in no more public cells than an array is made of for each block.

    Args:
        asked: Of a table without units, in whose pass no other table is met.
        layout: How its rows are typed.
    """
    grouping, names = asked.grouping, layout.schema.names
    bounds = (grouping.where, grouping.max_groups, grouping.max_rows_per_group)
    if grouping.private or bounds != (None, None, None) or not set(grouping.complete) <= set(grouping.by):
        return False
    places = {place_name(our_name(asked.table, name)) for name in grouping.by}
    if not places <= set(names) or asked.table.cells(grouping.by) > _CELLS:
        return False
    return all(_is_added(asked.table, item, names) for item in asked.quantities)


def _is_added(table: Table, quantity: Quantity, names: Sequence[str]) -> bool:
    plain = Quantity(kind=quantity.kind, column=quantity.column)
    if quantity.kind in ("rows", "nonnull"):
        return quantity == plain and (quantity.column is None or our_name(table, quantity.column) in names)
    ends = {name: getattr(quantity, name) for name in ("step", "low", "high", "centre")}
    if quantity.kind != "sum" or quantity != plain.model_copy(update=ends) or _largest(quantity) > _LARGEST:
        return False
    return max(map(abs, (quantity.low, quantity.high))) <= MOST and _steps_name(table, quantity) in names


def _largest(quantity: Quantity) -> int:
    """The size of the largest contribution of a row."""
    return max(map(abs, quantity.contribution))


def _steps_name(table: Table, quantity: Quantity) -> str:
    """The column of whole steps (``grid_steps.steps``): of an integer on a grid of 1 that of the values themselves."""
    column = table.column(str(quantity.column))
    name = our_name(table, column.name)
    return name if column.type == "integer" and quantity.step == 1 else grid_name(name, quantity.step)


def add_up_in_arrays(asked: PassQuery, layout: Layout, blocks: Iterable[Sequence[Any]]) -> tuple[Exact, ...]:
    """One box per quantity: its total in every cell, in 62 bits, as ``query.cell_totals`` has it.

    Args:
        asked: What :func:`fits_arrays`.
        layout: How its rows are typed.
        blocks: Stored values, all rows of the source.
    """
    totals: list[npt.NDArray[Any]] = [
        np.zeros(asked.table.cells(asked.grouping.by), dtype=np.int64) for _ in asked.quantities
    ]
    most, rows = [_largest(item) for item in asked.quantities], 0
    for added, of_these in in_turn(partial(_block_totals, asked, layout), blocks):
        rows += added
        for at, each in enumerate(of_these):
            if rows * most[at] > _WIDE:
                totals[at] = totals[at].astype(object)
            totals[at] += each
    return tuple(Exact(np.clip(total, -MOST, MOST).astype(np.int64)) for total in totals)


def _block_totals(asked: PassQuery, layout: Layout, block: Sequence[Any]) -> tuple[int, list[Integers]]:
    """The number of rows of a block, and their totals."""
    arrays = dict(zip(layout.schema.names, layout.typed(block), strict=True))
    rows = len(next(iter(arrays.values())))
    cells, counted = _cells(asked, arrays, rows)
    size = asked.table.cells(asked.grouping.by)
    known: dict[Quantity, Integers] = {}
    for item in asked.quantities:
        if item not in known:
            known[item] = _totals(asked.table, item, arrays, cells, counted, size)
    return rows, [known[item] for item in asked.quantities]


def _cells(asked: PassQuery, arrays: Mapping[str, Any], rows: int) -> tuple[Integers, npt.NDArray[np.bool_] | None]:
    """The cell of each row that has one of the keys in every column; and which rows these are, None: all."""
    cells, counted = np.zeros(rows, dtype=np.int64), None
    for name in asked.grouping.by:
        places = arrays[place_name(our_name(asked.table, name))]
        if places.null_count:
            has_key = places.is_valid().to_numpy(zero_copy_only=False)
            counted = has_key if counted is None else counted & has_key
            places = places.fill_null(0)
        cells *= asked.table.column(name).cells
        cells += places.to_numpy()
    return (cells if counted is None else cells[counted]), counted


def _totals(
    table: Table,
    quantity: Quantity,
    arrays: Mapping[str, Any],
    cells: Integers,
    counted: npt.NDArray[np.bool_] | None,
    size: int,
) -> Integers:
    """The totals of one quantity in all cells; arguments as above."""
    if quantity.column is None:
        return np.bincount(cells, minlength=size)
    summed = quantity.kind == "sum"
    values = arrays[_steps_name(table, quantity) if summed else our_name(table, quantity.column)]
    if counted is not None:
        values = values.filter(counted)
    if values.null_count:
        present = values.is_valid()
        cells, values = cells[present.to_numpy(zero_copy_only=False)], values.filter(present)
    if not summed:
        return np.bincount(cells, minlength=size)
    contributions = np.clip(values.to_numpy(), quantity.low, quantity.high) - quantity.centre
    # No contribution is above 2^32 and no more than 2^20 of them are added here: every sum on the way is below 2^53.
    total = np.zeros(size, dtype=np.int64)
    for first in range(0, len(cells), _ROWS):
        some = slice(first, first + _ROWS)
        total += np.bincount(cells[some], weights=contributions[some], minlength=size).astype(np.int64)
    return total
