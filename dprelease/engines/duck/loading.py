"""Rows of a source into DuckDB, as a table or as a stream: the columns that are looked at, typed block by block.

Blocks are typed by several threads while DuckDB takes in those before them, so that no more than a few of them are in
memory as Arrow arrays. Of a column that is looked at by its keys alone the place of each value among them is kept: a
small whole number, found once per different value where the source says which values are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, islice
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.catalog.table import Column, Table
from dprelease.engines.declared import Loading, own_columns
from dprelease.engines.duck.cells import key_places, narrow, place_name
from dprelease.engines.duck.units import ALONE, UNIT, our_name, unit_name
from dprelease.engines.files.decimals import Grids, grid_name
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.rows import ARROW, in_period, typed_with_steps
from dprelease.freed_memory import give_back

__all__ = ["Layout", "PassingRows", "take_in"]


def _read_columns(table: Table, wanted: Loading) -> tuple[Column, ...]:
    """What is read of a source for a loading: its columns, then the time of its rows where that is not one of them.

    Of a table of which no column is looked at the first one that is declared, so that its rows can be counted.
    """
    own = own_columns(table)
    kept = tuple(column for column in own if column.name in wanted.values | wanted.places)
    time = table.time
    if time is None or any(column.name == time.column for column in kept):
        return kept or own[:1]
    return (*kept, Column(name=time.column, type=time.type))


@dataclass(frozen=True)
class Layout:
    """How the rows of a table are kept.

    Attributes:
        table: The declaration.
        wanted: Which columns, and how.
        grids: The grids of its decimals, by column.
    """

    table: Table
    wanted: Loading
    grids: Grids

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return _read_columns(self.table, self.wanted)

    def by_place(self, column: Column) -> bool:
        """Whether the places of its values are kept, and not the values."""
        return column.name in self.wanted.places

    def steps(self, column: Column) -> tuple[Fraction, ...]:
        """The grids whose steps are kept beside the values."""
        return self.grids.get(column.name, ()) if column.name in self.wanted.values else ()

    @property
    def schema(self) -> Any:
        """Names and types of the columns of the kept table."""
        fields: list[tuple[str, Any]] = []
        kept = self.wanted.values | self.wanted.places
        for column in self.columns:
            if column.name not in kept:
                continue
            name = UNIT if column not in self.table.columns else our_name(self.table, column.name)
            if self.by_place(column):
                fields.append((place_name(name), pa.type_for_alias(narrow(column.cells))))
                continue
            fields.append((name, ARROW[column.type]))
            fields += [(grid_name(name, step), pa.int64()) for step in self.steps(column)]
        fields = fields or [("none", pa.bool_())]
        return pa.schema([*fields, *([(ALONE, pa.int64())] if self._numbered else [])])

    @property
    def _numbered(self) -> bool:
        return self.table.unit_id is not None and self.table.null_id == "unit"

    def typed(self, block: Sequence[Any]) -> list[Any]:
        """The kept columns of a block, without the rows that are not of the period: before anything else sees them.

        Rows without an id are dropped here, where the table says so.
        """
        table, kept = self.table, self.wanted.values | self.wanted.places
        columns, inside = [], None
        for column, raw in zip(self.columns, block, strict=False):  # without a column one array is there for its length
            arrays = self._read(column, raw) if column.name in kept else []
            if table.time is not None and column.name == table.time.column:
                read = arrays and not self.by_place(column)
                moments = arrays[0] if read else self._values(column, raw, ())[0]
                inside = in_period(table.time, moments)
            columns += arrays
        columns = columns or [pa.nulls(len(block[0]), pa.bool_())]
        if inside is not None:
            columns = [array.filter(inside) for array in columns]
        return self._of_units(columns) if table.unit_id is not None and table.null_id == "drop" else columns

    def _of_units(self, arrays: list[Any]) -> list[Any]:
        known = arrays[self.schema.get_field_index(unit_name(self.table))].is_valid()
        return [array.filter(known) for array in arrays]

    def _read(self, column: Column, raw: Any) -> list[Any]:
        """One column of a block as it is kept; a source that says which values are equal has each of them read once."""
        if pa.types.is_dictionary(raw.type) and len(raw.dictionary) <= len(raw):
            words = pa.concat_arrays([raw.dictionary, pa.nulls(1, raw.dictionary.type)])  # a null can have a key
            at = raw.indices.cast(pa.int64()).fill_null(len(raw.dictionary)) if raw.null_count else raw.indices
            return [each.take(at) for each in self._read(column, words)]
        arrays = self._values(column, raw, self.steps(column))
        return [key_places(column, arrays[0])] if self.by_place(column) else arrays

    def _values(self, column: Column, raw: Any, steps: Sequence[Fraction]) -> list[Any]:
        source, unit = self.table.source, column.name == self.table.unit_id
        dialect = None if column.partition else source.notation  # in a path values are plain
        return typed_with_steps(column, raw, source.null_values, steps, unit=unit, dialect=dialect)

    def numbered(self, arrays: list[Any], number: count[int]) -> list[Any]:
        """With a number for each row without an id, which is a unit of its own; every other row has the number 0."""
        if not self._numbered:
            return arrays
        known = arrays[self.schema.get_field_index(unit_name(self.table))].is_valid()
        alone = np.zeros(len(known), dtype=np.int64)
        nobody = ~known.to_numpy(zero_copy_only=False)
        alone[nobody] = list(islice(number, int(nobody.sum())))
        return [*arrays, pa.array(alone)]


class Typing:
    """Blocks of a source on their way into DuckDB, typed by several threads meanwhile.

    Args:
        layout: What is kept of a block.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._failed = layout, list[BaseException]()

    def reader(self, blocks: Iterable[Sequence[Any]], told: Callable[[int], None] = lambda rows: None) -> Any:
        """The typed rows as an Arrow stream; ``told`` is told how many rows each block has."""
        layout, schema = self._layout, self._layout.schema

        def batches() -> Iterator[Any]:
            number = count(1)
            try:
                for arrays in in_turn(layout.typed, blocks):
                    told(len(arrays[0]))
                    yield pa.RecordBatch.from_arrays(layout.numbered(arrays, number), schema=schema)
            except BaseException as error:  # the driver would make an error of its own from it
                self._failed.append(error)
                raise

        return pa.RecordBatchReader.from_batches(schema, batches())

    def raise_own(self) -> None:
        """Raise what stopped the typing, if anything did, in the place of what the driver made of it."""
        if self._failed:
            raise self._failed[0] from None


class PassingRows:
    """The rows of a table for a statement that is the only one about it: typed while it runs, and kept nowhere.

    DuckDB asks for the stream as often as a statement looks at the table, and each time the source is read anew, so
    that no answer depends on how often it does.

    Args:
        layout: What is looked at of a block.
        read: Begins a reading of the source.
    """

    def __init__(self, layout: Layout, read: Callable[[], Iterable[Sequence[Any]]]) -> None:
        self._read, self._schema = read, layout.schema
        self.typing = Typing(layout)

    def __arrow_c_schema__(self) -> Any:
        """Names and types of the columns, by Arrow's interface for them."""
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A new reading, by Arrow's interface for streams."""
        return self.typing.reader(self._read()).__arrow_c_stream__(requested_schema)


def take_in(
    connection: Any, name: str, layout: Layout, blocks: Iterable[Sequence[Any]], condition: str | None = None
) -> int:
    """Make a table of all blocks; where one of them cannot be read there is none, and its own error is raised.

    Args:
        connection: DuckDB.
        name: Of the new table.
        layout: What is kept of a block.
        blocks: Of each the columns of the layout as they are stored, of equal length.
        condition: Which of the rows are taken, as SQL over the columns of the layout; None: all.

    Returns:
        How many rows there were, whether they were taken or not.
    """
    typing, there = Typing(layout), [0]
    reader = typing.reader(blocks, there.append)
    try:
        rows = connection.from_arrow(reader)
        (rows if condition is None else rows.filter(condition)).create(name)
    except Exception:
        typing.raise_own()
        raise
    give_back()  # of blocks that are gone: it is a fifth of what a large table takes
    return sum(there)
