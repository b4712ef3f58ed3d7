"""Tables in DuckDB's memory, loaded and bounded: with all rows, or with those of a part that is looked at alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self

from dprelease.catalog.table import Column, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.declared import Loading, id_column, loading, unjoined
from dprelease.engines.duck.array_totals import ArrayTotals
from dprelease.engines.duck.bounding import bounded_rows
from dprelease.engines.duck.bounds_check import check_row_bounds
from dprelease.engines.duck.loading import Layout, PassingRows, take_in
from dprelease.engines.duck.parts import ALL, UnitPart
from dprelease.engines.duck.pipeline import PassQuery
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import unit_name
from dprelease.engines.files.decimals import grids_read

__all__ = ["LoadedTables", "of_several_types"]

_RUN = 2**26  # rows that are taken at a time in two parts, of a table without units


class LoadedTables:
    """The tables of one part. Leaving it, or :meth:`forget`, drops them.

    Args:
        backend: Ibis over DuckDB.
        numbers: Numbers that no other table of the backend has in its name.
        read: Hands over the stored values of some columns of a table, block by block.
        expected: What is expected to be asked of a table, by its fingerprint.
        done: Told the fingerprint of every table that was loaded.
        part: Which units.
        layout: How rows of a table are kept; another one than the usual, where blocks are typed already.
    """

    def __init__(
        self,
        backend: Any,
        numbers: count[int],
        read: Callable[[Table, Sequence[Column]], Iterable[Sequence[Any]]],
        expected: Mapping[str, Loading],
        done: set[str],
        part: UnitPart = ALL,
        layout: type[Layout] = Layout,
    ) -> None:
        self._backend, self._numbers, self._read, self._expected = backend, numbers, read, expected
        self._done, self._part, self._layout = done, part, layout
        self._stage = Stage(backend, numbers)
        self._loaded: dict[tuple[str, tuple[Any, ...]], dict[Loading, str]] = {}
        self._bounds: dict[tuple[str, int | None, bytes], Any] = {}
        self.found: dict[str, tuple[int, int]] = {}
        """By table how many rows were in its source, and how many of them are in this part."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.forget()

    def __bool__(self) -> bool:
        return bool(self._loaded)

    def forget(self) -> None:
        """Drop every table."""
        for tables in self._loaded.values():
            for name in tables.values():
                self._backend.con.execute(f'DROP TABLE IF EXISTS "{name}"')
        self._loaded.clear()
        self._bounds.clear()
        self._stage.clear()

    def of(self, asked: PassQuery) -> list[Any]:
        """The rows of the table that is asked about, then of what each of its private joins adds from, bounded."""
        table = asked.table
        own = self._bounded(table, None if table.bounds is None else table.bounds.max_rows, asked)
        return [own, *self.lent(asked)]

    @contextmanager
    def rows(self, asked: PassQuery, *, once: bool) -> Iterator[list[Any]]:
        """The same for as long as a question is answered.

        Args:
            asked: The question.
            once: Whether no other pass is expected over its table. Then rows are not kept that are neither bounded nor
                joined: of rows that pass DuckDB knows no number, and could take them for the smaller side of a join.
        """
        table = asked.table
        if not (once and self._is_alone(asked)):
            yield self.of(asked)
            return
        layout = self._layout_of(table, asked)
        passing = PassingRows(layout, lambda: self._read(table, layout.columns))
        name = f"t{next(self._numbers)}"
        self._backend.con.register(name, passing)
        try:
            yield [self._backend.table(name)]
            self._done.add(table.fingerprint())
        except Exception:
            scrubbed(f"table {table.name!r}, loading", passing.typing.raise_own)
            raise
        finally:
            self._backend.con.unregister(name)

    def _is_alone(self, asked: PassQuery) -> bool:
        """Whether the rows of its table are not there yet, and are neither bounded nor joined."""
        loaded = any(place == asked.table.fingerprint() for place, _ in self._loaded)
        own = not loaded and asked.table.unit_id is None
        return own and unjoined(asked.catalog, asked.grouping, asked.quantities)

    def in_arrays(self, questions: Sequence[PassQuery]) -> ArrayTotals | None:
        """What answers all questions about a table, not read yet; None where statements have to be made."""
        if not questions or not all(map(self._is_alone, questions)):
            return None
        totals = ArrayTotals(questions, self._layout_of(questions[0].table, questions[0]))
        return totals if totals.fit else None

    def lent(self, asked: PassQuery) -> list[Any]:
        """What each private join of the table that is asked about adds from, bounded."""
        tables = []
        for join in asked.table.private_joins:
            other = asked.catalog.tables[join.table]
            own = join.max_matches if other.bounds is None else other.bounds.max_rows
            tables.append(self._bounded(other, min(join.max_matches, own), asked))
        return tables

    def runs(self, asked: PassQuery, parts: int) -> Iterator[list[Any]]:
        """The same of a table without units, so many rows at a time, from one reading; one run is dropped for the next.

        Args:
            asked: The question.
            parts: How small a run is.
        """
        layout = self._layout_of(asked.table, asked)
        blocks = iter(self._read(asked.table, layout.columns))
        last: list[bool] = []
        while not last:
            name = f"t{next(self._numbers)}"
            some = _first_rows(blocks, _RUN // parts, last)
            load = partial(take_in, self._backend.con, name, layout, some)
            scrubbed(f"table {asked.table.name!r}, loading", load)
            self._done.add(asked.table.fingerprint())
            try:
                yield [self._backend.table(name)]
            finally:
                self._backend.con.execute(f'DROP TABLE IF EXISTS "{name}"')

    def _bounded(self, table: Table, limit: int | None, asked: PassQuery) -> Any:
        """The loaded rows of a table, at most ``limit`` of each unit; checked, and kept for later batches."""
        name = self._load(table, asked)
        identity = (name, limit, b"" if limit is None else asked.secret)
        if identity not in self._bounds:
            rows = self._backend.table(name)

            def bound() -> Any:
                if limit is None:
                    return rows
                kept = bounded_rows(self._stage, rows, table, asked.secret, limit)
                check_row_bounds(self._stage, kept, table, unit_name(table), limit)
                return kept

            self._bounds[identity] = scrubbed(f"table {table.name!r}, bounding its rows", bound)
        return self._bounds[identity]

    def _load(self, table: Table, asked: PassQuery) -> str:
        """The name of a loaded table that has all that is needed of it, which is loaded now if none was before.

        Then it has all that is expected to be asked; where something else is asked, everything.
        """
        grids, needed = grids_read(asked.catalog, table), _needed(table, asked)
        loaded = self._loaded.setdefault((table.fingerprint(), tuple(grids.items())), {})
        for known, name in loaded.items():
            if known.covers(needed):
                return name
        layout = self._layout_of(table, asked)
        blocks = self._read(table, layout.columns)
        condition = self._part.condition(layout, by_text=of_several_types(asked))
        name = f"t{next(self._numbers)}"

        def load() -> None:
            there = take_in(self._backend.con, name, layout, blocks, condition)
            loaded[layout.wanted] = name
            rows = self._backend.table(name)
            (kept,) = self._stage.read(rows.aggregate(held=rows.count())).to_pylist()
            self.found[table.name] = (there, kept["held"])
            self._done.add(table.fingerprint())

        scrubbed(f"table {table.name!r}, loading", load)
        return name

    def _layout_of(self, table: Table, asked: PassQuery) -> Layout:
        """How a table is loaded: with what is expected to be asked if that covers what is, else with everything."""
        wanted = self._expected.get(table.fingerprint())
        if wanted is None or not wanted.covers(_needed(table, asked)):
            wanted = Loading.everything(table)
        return self._layout(table, wanted, grids_read(asked.catalog, table))


def _needed(table: Table, asked: PassQuery) -> Loading:
    return loading(asked.catalog, asked.grouping, asked.quantities)[table.name]


def _first_rows(blocks: Iterator[Sequence[Any]], most: int, last: list[bool]) -> Iterator[Sequence[Any]]:
    """Blocks until they have so many rows; ``last`` is told when there are no more."""
    taken = 0
    for block in blocks:
        yield block
        taken += len(block[0])
        if taken >= most:
            return
    last.append(True)


def of_several_types(asked: PassQuery) -> bool:
    """Whether the ids that meet in private joins are of several types, and so are compared by their texts."""
    tables = [asked.table, *(asked.catalog.tables[join.table] for join in asked.table.private_joins)]
    return len({None if (column := id_column(table)) is None else column.type for table in tables}) > 1
