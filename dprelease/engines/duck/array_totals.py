"""All that is asked about a table, added up in arrays in one reading of its source: no table is made of its rows.

The cell of a row is known from the places of its keys, so that nothing has to be looked up for it; DuckDB, which takes
rows in as a table or a stream and makes groups of them, takes three times as long for the same totals. What is added up
are small cubes: an array with a place for every combination of the keys of a few columns, and for rows without a key in
one of them one place more, so that such a row still counts where that column is not asked for. Every grouping is a sum
over axes of a cube, and so exact whatever it is summed from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Table
from dprelease.engines.duck.cells import place_name
from dprelease.engines.duck.columns.grid_steps import whole_limits
from dprelease.engines.duck.loading import Layout
from dprelease.engines.duck.pipeline import PassQuery, alike
from dprelease.engines.duck.units import our_name
from dprelease.engines.files.decimals import MOST, grid_name
from dprelease.engines.files.in_turn import each_by_a_thread, in_turn
from dprelease.freed_memory import keep_freed
from dprelease.noise.exact import Exact, ExactHistogram

__all__ = ["ArrayTotals"]

Integers = npt.NDArray[np.int64]
Columns = tuple[str, ...]
_CELLS = 2**18  # of a cube: every block of rows has an array of them all, which is to be no more work than its rows are
_SHARED = 2**16  # of all totals of a cube that several questions share
_ALL = 2**20  # of all cubes of a table
_LARGEST = 2**32  # contribution of a row, so that the sum of those of a block is below 2^53, and exact as a double
_TOGETHER = 2**16  # rows, so that many small files are not an array of all cells each
_ROWS = 2**20  # of a block whose contributions are added as doubles
_WIDE = MOST  # what a total of 64 bits may come to, before it goes on in whole numbers of any size


def _fits(asked: PassQuery, layout: Layout) -> bool:
    """Whether all that is asked are numbers and sums of rows, or histograms, in no more cells than a cube has."""
    grouping, names = asked.grouping, layout.schema.names
    bounds = (grouping.where, grouping.max_groups, grouping.max_rows_per_group)
    if grouping.private or bounds != (None, None, None):
        return False
    columns = _columns(asked)
    if not {place_name(our_name(asked.table, name)) for name in columns} <= set(names):
        return False
    return all(
        _is_added(asked.table, item, names) and _size(asked.table, columns) * _values(item) <= _CELLS
        for item in asked.quantities
    )


def _is_added(table: Table, quantity: Quantity, names: Sequence[str]) -> bool:
    plain = Quantity(kind=quantity.kind, column=quantity.column)
    if quantity.kind in ("rows", "nonnull"):
        return quantity == plain and (quantity.column is None or our_name(table, quantity.column) in names)
    ends = {name: getattr(quantity, name) for name in ("step", "low", "high", "centre")}
    at = {"at": quantity.at, "starts": quantity.starts, "grain": quantity.grain} if quantity.kind == "quantile" else {}
    if quantity.kind not in ("sum", "quantile") or quantity != plain.model_copy(update={**ends, **at}):
        return False
    if max(map(abs, (quantity.low, quantity.high, *quantity.contribution))) > _LARGEST:
        return False
    whole = not _is_coarse(table, quantity) or whole_limits(quantity) is not None
    return whole and _steps_name(table, quantity) in names


def _is_coarse(table: Table, quantity: Quantity) -> bool:
    """Whether it is about integers that are rounded to a grid of other steps than 1."""
    return table.column(str(quantity.column)).type == "integer" and quantity.step != 1


def _steps_name(table: Table, quantity: Quantity) -> str:
    """The column of its whole steps, or of the integers that they are made of."""
    column = table.column(str(quantity.column))
    name = our_name(table, column.name)
    return name if column.type == "integer" else grid_name(name, quantity.step)


def _columns(asked: PassQuery) -> Columns:
    """The columns that a row has a key in or does not count, in rising order."""
    return tuple(sorted({*asked.grouping.by, *asked.grouping.complete}))


def _size(table: Table, columns: Columns) -> int:
    """The places of a cube."""
    return prod(table.column(name).cells + 1 for name in columns)


def _values(quantity: Quantity) -> int:
    """How many numbers each place has: of a histogram one for each grid value within the clip, and one for nulls."""
    return quantity.high - quantity.low + 2 if quantity.kind == "quantile" else 1


@dataclass(frozen=True)
class _Cube:
    """Totals in every combination of places; or a histogram, which is all that its cube has."""

    columns: Columns
    quantities: tuple[Quantity, ...]

    def with_columns(self, asked: Columns, item: Quantity) -> _Cube:
        return _Cube(tuple(sorted({*self.columns, *asked})), tuple(dict.fromkeys((*self.quantities, item))))


def _places(table: Table, cube: _Cube) -> int:
    """How many numbers all totals of a cube are."""
    return sum(_size(table, cube.columns) * _values(item) for item in cube.quantities)


def _cubes(questions: Iterable[PassQuery]) -> tuple[_Cube, ...]:
    """Few cubes that answer all questions: the largest first, each as large as it may be shared."""
    wanted = {(_columns(asked), alike(item)): asked.table for asked in questions for item in asked.quantities}
    cubes: list[_Cube] = []
    for (columns, item), table in sorted(wanted.items(), key=lambda each: -_size(each[1], each[0][0])):
        for at, cube in enumerate(cubes):
            if (item.kind == "quantile" or cube.quantities[0].kind == "quantile") and cube.quantities != (item,):
                continue
            both = cube.with_columns(columns, item)
            if both == cube or _places(table, both) <= _SHARED:
                cubes[at] = both
                break
        else:
            cubes.append(_Cube(columns, (item,)))
    return tuple(cubes)


class _Sums:
    """What some rows come to: every total of every cube, exactly."""

    def __init__(self, table: Table, cubes: Sequence[_Cube]) -> None:
        self.rows = 0
        self.totals: dict[tuple[_Cube, Quantity], npt.NDArray[Any]] = {
            (cube, item): np.zeros(_size(table, cube.columns) * _values(item), dtype=np.int64)
            for cube in cubes
            for item in cube.quantities
        }

    def add(self, rows: int, totals: Mapping[tuple[_Cube, Quantity], npt.NDArray[Any]]) -> None:
        """Add what other rows come to, so many."""
        self.rows += rows
        for place, each in totals.items():
            if self.rows * _largest(place[1]) > _WIDE:
                self.totals[place] = self.totals[place].astype(object)
            self.totals[place] += each


class ArrayTotals:
    """What some questions about one table are answered from: un-noised totals, which only boxes carry out of here.

    Args:
        questions: All that is going to be asked about a table without units, in passes that meet no other table.
        layout: How the rows of the table are typed.
    """

    def __init__(self, questions: Sequence[PassQuery], layout: Layout) -> None:
        self._layout, self._table, self._questions = layout, layout.table, questions
        self._fit = all(_fits(each, layout) for each in questions)
        self._cubes = _cubes(questions) if self._fit else ()
        self._totals: dict[tuple[_Cube, Quantity], npt.NDArray[Any]] = {}

    def __repr__(self) -> str:
        return "<ArrayTotals>"

    @property
    def fit(self) -> bool:
        """Whether all questions are answered by cubes that are small enough."""
        return self._fit and sum(_places(self._table, cube) for cube in self._cubes) <= _ALL

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return self._layout.columns

    @property
    def are_read(self) -> bool:
        """Whether the rows were added up."""
        return bool(self._totals)

    def read(self, parts: Sequence[Iterable[Sequence[Any]]]) -> None:
        """Add up all rows: what several threads do with parts of their own, or with the blocks of a single one.

        Args:
            parts: Of each the blocks: stored values of the columns of the layout. Together all rows of the source.
        """
        keep_freed()
        whole = _Sums(self._table, self._cubes)
        of_block = partial(_block_totals, self._layout, self._cubes)

        def of_part(blocks: Iterable[Sequence[Any]]) -> _Sums:
            sums = _Sums(self._table, self._cubes)
            for typed in _typed(self._layout, blocks):
                sums.add(*of_block(typed))
            return sums

        if len(parts) == 1:
            for rows, totals in in_turn(of_block, _typed(self._layout, parts[0])):
                whole.add(rows, totals)
        else:
            for each in each_by_a_thread(of_part, parts):
                whole.add(each.rows, each.totals)
        self._totals = whole.totals

    def answers(self, asked: PassQuery) -> bool:
        """Whether it is one of the questions."""
        return any((asked.grouping, asked.quantities) == (each.grouping, each.quantities) for each in self._questions)

    def boxes(self, asked: PassQuery) -> tuple[Exact | ExactHistogram, ...]:
        """One box per quantity of one of the questions: totals are in 62 bits, as those of ``query.cell_totals``."""
        return tuple(self._box(asked, alike(item)) for item in asked.quantities)

    def _cube_of(self, asked: PassQuery, quantity: Quantity) -> _Cube:
        columns = set(_columns(asked))
        return next(cube for cube in self._cubes if quantity in cube.quantities and columns <= set(cube.columns))

    def _box(self, asked: PassQuery, quantity: Quantity) -> Exact | ExactHistogram:
        cube = self._cube_of(asked, quantity)
        each = _in_cells(self._table, asked, cube, self._totals[cube, quantity])
        if quantity.kind != "quantile":
            return Exact(np.clip(each.ravel(), -MOST, MOST).astype(np.int64))
        counts = each[:, :-1].astype(np.int64)  # without the nulls
        cell, value = np.nonzero(counts)
        return ExactHistogram(len(counts), cell, value + quantity.low, counts[cell, value])


def _in_cells(table: Table, asked: PassQuery, cube: _Cube, total: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A total of a cube in the cells of a grouping: shape ``(cells, numbers of each)``."""
    needed, by = _columns(asked), asked.grouping.by
    whole = total.reshape([*(table.column(name).cells + 1 for name in cube.columns), -1])
    has_key = tuple(slice(-1 if name in needed else None) for name in cube.columns)
    summed = whole[has_key].sum(axis=tuple(at for at, name in enumerate(cube.columns) if name not in by))
    left = [name for name in cube.columns if name in by]
    ordered: npt.NDArray[Any] = summed.transpose([*(left.index(name) for name in by), len(left)])
    return ordered.reshape(-1, whole.shape[-1])


def _largest(quantity: Quantity) -> int:
    """The size of the largest contribution of a row."""
    return 1 if quantity.kind == "quantile" else max(map(abs, quantity.contribution))


def _typed(layout: Layout, blocks: Iterable[Sequence[Any]]) -> Iterator[Callable[[], list[Any]]]:
    """What types a large block, or puts small ones together."""
    small: list[list[Any]] = []
    rows = 0
    for block in blocks:
        if len(block[0]) >= _TOGETHER:
            yield partial(layout.typed, block)
            continue
        small.append(layout.typed(block))
        rows += len(block[0])
        if rows >= _TOGETHER:
            yield partial(_joined, small)
            small, rows = [], 0
    if small:
        yield partial(_joined, small)


def _joined(blocks: Sequence[list[Any]]) -> list[Any]:
    return [pa.concat_arrays(parts) for parts in zip(*blocks, strict=True)]


def _block_totals(
    layout: Layout, cubes: Sequence[_Cube], typed: Callable[[], list[Any]]
) -> tuple[int, dict[tuple[_Cube, Quantity], Integers]]:
    """The number of rows of a block, and their totals."""
    arrays = typed()
    rows, names = len(arrays[0]), layout.schema.names
    found = _Block(layout.table, dict(zip(names, arrays, strict=True)), rows)
    return rows, {(cube, item): found.total(cube, item) for cube in cubes for item in cube.quantities}


class _Block:
    """The rows of a block: the places of their keys, and what they contribute, each worked out once."""

    def __init__(self, table: Table, arrays: Mapping[str, Any], rows: int) -> None:
        self._table, self._arrays, self._rows = table, arrays, rows
        self._places: dict[str, Integers] = {}
        self._cells: dict[Columns, Integers] = {}
        self._counts: dict[Columns, Integers] = {}
        self._clipped: dict[Quantity, tuple[Integers, npt.NDArray[np.bool_] | None]] = {}

    def total(self, cube: _Cube, quantity: Quantity) -> Integers:
        """The totals of one quantity in all places of a cube."""
        cells, size = self._cells_of(cube.columns), _size(self._table, cube.columns)
        if quantity.column is None:
            return self._count(cube.columns)
        if quantity.kind == "nonnull":
            values = self._arrays[our_name(self._table, quantity.column)]
            if not values.null_count:
                return self._count(cube.columns)
            return np.bincount(cells[values.is_valid().to_numpy(zero_copy_only=False)], minlength=size)
        steps, present = self._steps(quantity)
        if quantity.kind == "quantile":
            each = _values(quantity)
            at = steps - quantity.low if present is None else np.where(present, steps - quantity.low, each - 1)
            return np.bincount(cells * each + at, minlength=size * each)
        contributions = steps - quantity.centre if quantity.centre else steps
        if present is not None:
            contributions = np.where(present, contributions, 0)
        # No contribution is above 2^32, and no more than 2^20 of them are added here: no sum on the way is above 2^52.
        total = np.zeros(size, dtype=np.int64)
        for first in range(0, self._rows, _ROWS):
            some = slice(first, first + _ROWS)
            total += np.bincount(cells[some], weights=contributions[some], minlength=size).astype(np.int64)
        return total

    def _count(self, columns: Columns) -> Integers:
        if columns not in self._counts:
            self._counts[columns] = np.bincount(self._cells_of(columns), minlength=_size(self._table, columns))
        return self._counts[columns]

    def _cells_of(self, columns: Columns) -> Integers:
        """The place of each row in a cube, the last column fastest."""
        if columns not in self._cells:
            cells = np.zeros(self._rows, dtype=np.int64)
            for at, name in enumerate(columns):
                if at:
                    cells *= self._table.column(name).cells + 1
                cells += self._places_of(name)
            self._cells[columns] = cells
        return self._cells[columns]

    def _places_of(self, name: str) -> Integers:
        """The place of each row's key; that of what is no key comes after them."""
        if name not in self._places:
            places = self._arrays[place_name(our_name(self._table, name))]
            if places.null_count:
                known = places.fill_null(0).to_numpy().astype(np.int64)
                known[places.is_null().to_numpy(zero_copy_only=False)] = self._table.column(name).cells
            else:
                known = places.to_numpy()
            self._places[name] = known
        return self._places[name]

    def _steps(self, quantity: Quantity) -> tuple[Integers, npt.NDArray[np.bool_] | None]:
        """Clipped grid steps (``grid_steps.steps``), and where there is a value; None: in every row."""
        if quantity not in self._clipped:
            values, low, high = self._arrays[_steps_name(self._table, quantity)], quantity.low, quantity.high
            present = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
            steps = (values.fill_null(0) if values.null_count else values).to_numpy()
            limits = whole_limits(quantity) if _is_coarse(self._table, quantity) else None
            if limits is not None:
                step = quantity.step
                steps = (steps.clip(*limits) * (2 * step.denominator) + step.numerator) // (2 * step.numerator)
            self._clipped[quantity] = steps.clip(low, high), present
        return self._clipped[quantity]
