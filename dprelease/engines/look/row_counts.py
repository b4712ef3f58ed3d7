"""Counts of what a release would leave out, move or not read of a table: for eyes that may see the data, for no draw.

One pass over the files, a block at a time; of a block nothing stays but numbers. Joins, computed columns, conditions,
cells and grid steps are those of a release, by the same functions. Only what bounds of units need is kept beside them,
in DuckDB's memory and in no file: of each unit how many rows it has, and in which cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.reference import References
from dprelease.catalog.table import Catalog, Column, Computed, Table
from dprelease.engines.declared import needed, own_columns
from dprelease.engines.duck.backend import locked_connection
from dprelease.engines.duck.columns.computed_columns import evaluated, with_derived
from dprelease.engines.duck.loaded import LoadedTables
from dprelease.engines.duck.pipeline import PassQuery, lent_matches, privately_joined, publicly_joined
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import UNIT, our_name, unit_name
from dprelease.engines.files.decimals import Grids, grid_name, grids_read
from dprelease.engines.files.rows import in_period, typed_with_steps
from dprelease.engines.files.source import stored_columns
from dprelease.engines.look.odd_values import OddValues
from dprelease.engines.look.query_counts import Beyond, QueryCounts, UnitSums, beyond_bound

__all__ = ["RowCounts", "count_rows"]

Show = Callable[[int, int], None]
_KEY = bytes(32)  # of a look's samples, which are the same each time; a release's own are drawn for it


@dataclass
class RowCounts:
    """What was found in one table. Confidential.

    Attributes:
        table: The declaration.
        files: How many files its source has.
        rows: Rows of all files.
        unparsed: Lines of a CSV that are no rows of its columns: each is read as a row of nulls.
        out_of_period: Rows with a time outside the release's period; None: the table has no time.
        timeless: Rows without a time that can be read, which lie in no period either.
        no_unit_id: Rows of the period without the id of a unit; None: every row is a unit.
        truncated: The rows beyond ``max_rows`` of their unit; None: there is no such bound.
        columns: What is read, joined or computed, by name; only rows of the period, but for the time itself.
        queries: By label.
    """

    table: Table
    files: int = 0
    rows: int = 0
    unparsed: int = 0
    out_of_period: int | None = None
    timeless: int = 0
    no_unit_id: int | None = None
    truncated: Beyond | None = None
    columns: dict[str, OddValues] = field(default_factory=dict)
    queries: dict[str, QueryCounts] = field(default_factory=dict)

    @property
    def stored(self) -> frozenset[str]:
        """The columns that are read from the files."""
        return frozenset(column.name for column in stored_columns(self.table))

    @property
    def of_period(self) -> int:
        """The rows that a release looks at."""
        return self.rows - (self.out_of_period or 0) - self.timeless


def count_rows(
    catalog: Catalog,
    table: Table,
    queries: Mapping[str, QueryCounts],
    references: References,
    read: Callable[[Table, Sequence[Column], Show], Iterator[Sequence[Any]]],
    show: Show = lambda done, total: None,
) -> RowCounts:
    """Read a table once, block by block, and count.

    Args:
        catalog: What is declared.
        table: That is read.
        queries: What is asked of it, by label; each is filled in.
        references: The public tables that joins name.
        read: Hands over the stored values of a table, block by block (``Engine.stored``).
        show: Called after every file with how many are done, and how many there are.

    Raises:
        Unavailable: If a file is not there.
        TableMismatch: If a declared column is missing from a file.
        Exception: Whatever a driver raises, whose text may quote a row: the caller lets none of it out.
    """
    whole = table.model_copy(update={"time": None})  # so that no row is left out because of its time
    counts = RowCounts(table, queries=dict(queries))
    backend, numbers = locked_connection(), count(1)
    loaded = LoadedTables(backend, numbers, lambda other, columns: read(other, columns, _unseen), {}, set())
    try:
        with Stage(backend, numbers) as lasting, loaded:
            # Where a unit has more rows there than are lent, others are taken than a release takes.
            asked = PassQuery(catalog, Grouping(table=table.name, by=()), (), references, _KEY)
            matches = lent_matches(lasting, asked, loaded.lent(asked))
            lent = [lasting.keep(each) for each in matches]
            reading = _Reading(asked, lent, counts, lasting, lambda: Stage(backend, numbers))

            def count_files(done: int, total: int) -> None:
                counts.files = total
                show(done, total)

            for block in read(whole, stored_columns(table), count_files):
                reading.add(block)
            reading.end()
    finally:
        backend.disconnect()
    return counts


def _looked_at(table: Table, asked: QueryCounts) -> frozenset[str]:
    """Every column that a query's rows, cells and clipped values are made of."""
    grouping = asked.grouping
    names = {*grouping.by, *grouping.complete, *(str(each.column) for each in asked.quantities)}
    return needed(table, names, [grouping.where, *(each.where for each in asked.quantities)])


def _unseen(done: int, total: int) -> None:
    """Files of a table that only lends to another one are no progress of that."""


class _Reading:
    """The blocks of one table, one after the other."""

    def __init__(
        self,
        asked: PassQuery,
        lent: Sequence[Any],
        counts: RowCounts,
        lasting: Stage,
        for_a_while: Callable[[], Stage],
    ) -> None:
        self._catalog, self._table, self._references = asked.catalog, asked.table, asked.references
        self._lent, self._counts, self._lasting, self._for_a_while = lent, counts, lasting, for_a_while
        table = self._table
        self._stored = stored_columns(table)
        self._grids: Grids = grids_read(asked.catalog, table)
        self._made = [column for column in table.columns if not column.in_source]
        wanted = {name for asked in counts.queries.values() for name in _looked_at(table, asked)}
        self._wanted = needed(table, wanted | {column.name for column in self._made}, ())
        counts.columns.update({column.name: OddValues(column) for column in (*self._stored, *self._made)})
        if table.time is not None:
            counts.out_of_period = 0
        self._units: UnitSums | None = None
        if table.unit_id is not None:
            counts.no_unit_id = 0
            if table.bounds is not None:
                self._units = UnitSums(lasting, [unit_name(table)])
        for each in counts.queries.values():
            each.begin(table, lasting)

    def add(self, block: Sequence[Any]) -> None:
        """Count a block of stored values."""
        self._counts.rows += len(block[0])
        if self._table.source.has_lines:
            own = [array for column, array in zip(self._stored, block, strict=False) if not column.partition]
            self._counts.unparsed += own[0].null_count if own else 0
        stored = dict(zip((column.name for column in self._stored), block, strict=False))
        time = self._table.time
        if time is not None:
            column = next(each for each in self._stored if each.name == time.column)
            moments = self._typed(column, stored[time.column])[0]
            self._odd(column, stored[time.column], moments)
            inside = in_period(time, moments)
            self._counts.timeless += moments.null_count
            self._counts.out_of_period = (self._counts.out_of_period or 0) + (
                len(moments) - moments.null_count - int(pc.sum(inside).as_py() or 0)
            )
            stored = {name: array.filter(inside) for name, array in stored.items()}
        rows = len(next(iter(stored.values()))) if stored else len(block[0])
        self._add_rows(self._arrays(stored, rows), rows)

    def _typed(self, column: Column, stored: Any) -> list[Any]:
        """Values and their steps, as a release reads them."""
        source = self._table.source
        unit = column.name == self._table.unit_id
        steps = self._grids.get(column.name, ())
        dialect = None if column.partition else source.notation
        return typed_with_steps(column, stored, source.null_values, steps, unit=unit, dialect=dialect)

    def _odd(self, column: Column, stored: Any, values: Any) -> None:
        source = self._table.source
        self._counts.columns[column.name].add(
            stored, values, source.null_values, None if column.partition else source.notation
        )

    def _arrays(self, stored: Mapping[str, Any], rows: int) -> dict[str, Any]:
        """The columns of a block by our names, counted on the way."""
        arrays: dict[str, Any] = {"none": pa.nulls(rows, pa.bool_())}
        table = self._table
        for column in self._stored:
            values, *steps = self._typed(column, stored[column.name])
            if table.time is None or column.name != table.time.column:
                self._odd(column, stored[column.name], values)
            if column not in own_columns(table):
                continue
            name = our_name(table, column.name) if column in table.columns else UNIT
            arrays[name] = values
            grids = self._grids.get(column.name, ())
            arrays |= {grid_name(name, step): each for step, each in zip(grids, steps, strict=True)}
        return arrays

    def _add_rows(self, arrays: dict[str, Any], rows: int) -> None:
        """What takes joins and computed columns."""
        table = self._table
        if table.unit_id is not None:
            known = arrays[unit_name(table)].is_valid()
            self._counts.no_unit_id = (self._counts.no_unit_id or 0) + rows - int(pc.sum(known).as_py() or 0)
            if table.null_id == "drop":
                arrays = {name: array.filter(known) for name, array in arrays.items()}
        with self._for_a_while() as stage:
            lent = stage.lend(pa.table(arrays))
            if self._units is not None:
                ids = lent.filter(lent[unit_name(table)].notnull())
                self._units.add(ids, held=ids.count())
            if not (self._made or self._counts.queries):
                return
            for join, matches in zip(table.private_joins, self._lent, strict=True):
                lent = privately_joined(lent, table, join, self._catalog.tables[join.table], matches)
            wide = publicly_joined(lent, table, self._wanted, self._references, stage.lend)
            wide = stage.keep(with_derived(wide, table, self._wanted, stage.lend))
            self._add_made(stage, wide)
            every = list(self._counts.queries.values())
            held = {f"held{at}": asked.kept(wide, table) for at, asked in enumerate(every)}
            (found,) = stage.read(wide.aggregate(**held)).to_pylist() if held else [{}]
            for at, asked in enumerate(every):
                asked.add(stage, wide, int(found[f"held{at}"]), table, self._catalog)

    def _add_made(self, stage: Stage, wide: Any) -> None:
        """Joined and computed columns."""
        for column in self._made:
            name = our_name(self._table, column.name)
            odd = self._counts.columns[column.name]
            odd.add_made(stage.read(wide.select(name)).column(name).combine_chunks())
            if isinstance(column.derivation, Computed) and column.range is not None:
                free = evaluated(column.derivation.sql, wide, self._table)
                if column.type == "decimal":
                    free = free.cast("float64")
                    free = ibis.ifelse(free.isnan() | free.isinf(), ibis.null("float64"), free)
                moved = free.notnull() & (wide[name].isnull() | (free != wide[name]))
                (found,) = stage.read(wide.aggregate(moved=ibis.coalesce(moved.sum(), 0))).to_pylist()
                odd.outside += int(found["moved"])

    def end(self) -> None:
        """After the last block."""
        table = self._table
        for asked in self._counts.queries.values():
            asked.end(table, self._lasting)
        if self._units is not None and table.bounds is not None:
            held, most = self._units.whole(), table.bounds.max_rows
            self._counts.truncated = Beyond() if held is None else beyond_bound(self._lasting, held, most)
