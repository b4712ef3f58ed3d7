"""DuckDB inside this process: rows in its memory, in parts where not all fit; no file, no network, no spilling."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.reference import References
from dprelease.catalog.table import Catalog, Column, Key, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.duck.array_totals import ArrayTotals
from dprelease.engines.duck.backend import Backend
from dprelease.engines.duck.combinations import cell_counts, combinations_identity, rows_identity, suits
from dprelease.engines.duck.cubes import added_up
from dprelease.engines.duck.expected import ExpectedQuestions
from dprelease.engines.duck.loaded import LoadedTables
from dprelease.engines.duck.parts import (
    ALL,
    AddedUp,
    ComeTo,
    UnitPart,
    check_parts,
    combinations_of,
    cube_cells_of,
    dense_totals,
    hashes_of_rows,
    last_step,
    more_parts,
    occurring_keys,
)
from dprelease.engines.duck.pipeline import PassQuery, answers, occurring
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.memory import memory_for_rows
from dprelease.engines.readers import SOURCE_READERS, SourceReader
from dprelease.engines.refuse import refuse_uncomputable, refuse_within, require_secret
from dprelease.engines.row_digests import digests, table_of_rows
from dprelease.errors import EngineError, NotEnoughMemory, Unsupported
from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys

__all__ = ["DuckDBEngine"]

Result = TypeVar("Result")
_RUNS = 16  # so small are the runs of rows that are hashed at a time: 4 million rows, none of which is kept
_PARTS = 1  # of a table that was not read before: all rows together, where they fit
_KEPT = 8  # sets of combinations, each of up to one row per row of its table


class DuckDBEngine:
    """The embedded engine: files read by our own code, added up in arrays, or by DuckDB through Ibis.

    A table is loaded once, when it is first needed, and serves every later batch from memory; one that does not fit is
    read in parts for every batch, and the rows of one that a single pass is expected over are not kept. In each case
    the answers of one release come from one state of its files. One lock makes it safe for threads; DuckDB uses all
    cores.

    Args:
        folder: What ``source.file`` is relative to.
        environment: What ``${env:NAME}`` in ``source.file`` may name; ``DPRELEASE_MEMORY`` is the memory it may take.

    Raises:
        EngineError: If that is no size.
    """

    formats: ClassVar[frozenset[str]] = frozenset(SOURCE_READERS)

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._lock = Lock()
        self._expected = ExpectedQuestions()
        self._arrays: dict[str, ArrayTotals | None] = {}  # by the fingerprint of a table; None: it takes statements
        self._read: set[str] = set()  # the fingerprints of tables that answers are made of
        self._parts: dict[str, int] = {}  # how many parts of a table fit in memory one by one, where not all do
        self._combinations: dict[Any, tuple[References, Any]] = {}
        self._numbers = count(1)
        memory = memory_for_rows(environment)
        self._backend: Any = Backend(memory)
        self._lasting = Stage(self._backend, self._numbers)
        self._readers: dict[Any, SourceReader] = {}
        self._whole = self._tables(ALL)

    def __repr__(self) -> str:
        return "<DuckDBEngine>"

    def describe(self, table: Table) -> None:
        """Check the source of a table and the names in it; see :class:`dprelease.engines.base.Engine`."""
        self._reader(table).describe(table)

    def check(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: References,
        within: CellSlice | None = None,
    ) -> None:
        """Refuse what cannot be computed; see :class:`dprelease.engines.base.Engine`."""
        refuse_uncomputable(catalog, grouping, quantities, references)

    def present(self, table: Table) -> None:
        """Check that the files can be read; see :class:`dprelease.engines.base.Engine`."""
        self._reader(table).present(table)

    def fingerprint(self, table: Table, key: bytes) -> tuple[str, ...]:
        """Keyed hashes of the files of a table; see :class:`dprelease.engines.base.Engine`."""
        self._check_open()
        known = self._reader(table).known(
            table, key
        )  # without the lock: nobody waits for another's pass to look at a file
        if known is not None:
            return known
        with self._lock:
            self._check_open()
            return self._reader(table).fingerprint(table, key, loaded=table.fingerprint() in self._read)

    def _reader(self, table: Table) -> SourceReader:
        """What reads the source of a table; one of each kind, which knows what it has looked at."""
        maker = SOURCE_READERS[table.source.format]
        if maker not in self._readers:
            self._readers[maker] = maker(self._folder, self._environment)
        return self._readers[maker]

    def expect(self, catalog: Catalog, asked: Iterable[tuple[Grouping, Sequence[Quantity]]]) -> None:
        """What will be asked, so that no more is read; see :class:`dprelease.engines.base.Engine`.

        Where it takes statements DuckDB is begun now: a failure to do so is then one before anything is read.
        """
        tables = self._expected.add(catalog, asked)
        self._arrays = {place: each for place, each in self._arrays.items() if each is not None and each.are_read}
        if any(self._arrays_of(table) is None for table in tables):
            self._backend.begin()

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: References,
        secret: bytes,
        keys: Sequence[tuple[Key, ...]] | None = None,
        within: CellSlice | None = None,
        cube: TotalsCube | None = None,
    ) -> tuple[Exact | ExactHistogram, ...]:
        """Exact totals per cell, boxed; see :class:`dprelease.engines.base.Engine`."""
        if grouping.private == (keys is None):
            raise Unsupported("selected keys go with private keys, and only with them", code="DPR-E213")
        self.check(catalog, grouping, quantities, references, within)
        require_secret(catalog.tables[grouping.table], secret)
        if not quantities:
            return ()
        asked = PassQuery(catalog, grouping, tuple(quantities), references, secret)
        if within is not None:
            refuse_within(catalog, grouping, within, counts=suits(asked))
        with self._lock:
            self._check_open()
            plain = keys is None and within is None
            if plain and (boxes := self._from_arrays(asked)) is not None:
                return boxes
            if suits(asked):
                return self._from_combinations(asked, within)
            if cube is not None and asked.table.unit_id is None:
                return self._from_cube(asked, cube)
            return self._from_rows(asked, keys)

    def _from_rows(
        self, asked: PassQuery, keys: Sequence[tuple[Key, ...]] | None = None
    ) -> tuple[Exact | ExactHistogram, ...]:
        """What is asked, by a pass over the rows."""
        return self._answered(
            asked,
            partial(dense_totals, asked, keys),
            lambda stage, totals: answers(stage, asked, totals, keys),
        )

    def _from_combinations(self, asked: PassQuery, within: CellSlice | None) -> tuple[Exact | ExactHistogram, ...]:
        """Numbers of complete rows: their keys are found once for the other tables of a workload too."""
        return self._from_kept(
            combinations_identity(asked),
            asked,
            partial(combinations_of, asked),
            lambda stage, kept: cell_counts(stage, asked, kept, within),
        )

    def _from_cube(self, asked: PassQuery, cube: TotalsCube) -> tuple[Exact | ExactHistogram, ...]:
        """What a cube answers, added up from it; the rest from the rows."""
        whole = replace(asked, grouping=Grouping(table=asked.table.name, by=cube.by), quantities=cube.quantities)
        once = dict.fromkeys(asked.quantities)
        held = [item for item in once if cube.answers(asked.grouping, item)]
        rest = replace(asked, quantities=tuple(item for item in once if item not in held))
        boxes: dict[Quantity, Exact | ExactHistogram] = {}
        if held:
            added = self._from_kept(
                (*rows_identity(asked), cube),
                whole,
                partial(cube_cells_of, whole),
                lambda stage, kept: added_up(stage, asked, cube, kept, held),
            )
            boxes.update(zip(held, added, strict=True))
        if rest.quantities:
            boxes.update(zip(rest.quantities, self._from_rows(rest), strict=True))
        return tuple(boxes[item] for item in asked.quantities)

    def units_by_key(self, catalog: Catalog, grouping: Grouping, references: References, secret: bytes) -> ExactKeys:
        """The keys that occur, boxed; see :class:`dprelease.engines.base.Engine`."""
        if not grouping.private:
            raise Unsupported("keys that are public are not selected", code="DPR-E213")
        self.check(catalog, grouping, (), references)
        require_secret(catalog.tables[grouping.table], secret)
        asked = PassQuery(catalog, grouping, (), references, secret)
        with self._lock:
            self._check_open()
            return self._answered(
                asked,
                partial(occurring_keys, asked),
                lambda stage, totals: occurring(stage, asked, totals["keys"]),
            )

    def _arrays_of(self, table: Table) -> ArrayTotals | None:
        """What answers all that is expected to be asked about a table without a statement; None: it takes some."""
        place = table.fingerprint()
        if place not in self._arrays:
            self._arrays[place] = self._whole.in_arrays(self._expected.questions(table))
        return self._arrays[place]

    def _from_arrays(self, asked: PassQuery) -> tuple[Exact | ExactHistogram, ...] | None:
        """The answer, where no statement is made for it; None: there is one to make."""
        table, place = asked.table, asked.table.fingerprint()
        totals = self._arrays_of(table)
        if totals is None or not totals.answers(asked):
            return None
        if not totals.are_read:
            parts = self._reader(table).parts(table, totals.columns)
            try:
                scrubbed(f"table {table.name!r}, loading", lambda: totals.read(parts))
            except NotEnoughMemory:  # in parts there may be enough
                self._arrays[place] = None
                return None
            self._read.add(place)
        return totals.boxes(asked)

    def _answered(
        self, asked: PassQuery, come_to: ComeTo, finish: Callable[[Stage, Mapping[str, Any]], Result]
    ) -> Result:
        """What is asked, from all rows together if they fit in memory, else from what their parts come to.

        Every answer is a function of totals that add up exactly, so that it is the same however many parts there were.

        Args:
            asked: The question.
            come_to: What some of the rows come to, and whether these are all rows.
            finish: What is made of that.
        """
        table = asked.table
        while True:
            parts, others = self._parts.get(table.fingerprint(), _PARTS), bool(self._whole or self._combinations)
            try:
                return self._in_parts(parts, asked, come_to, finish)
            except NotEnoughMemory:
                pass
            self._forget()
            if not others:  # nothing else was in the way
                self._parts[table.fingerprint()] = more_parts(parts, table)

    def _in_parts(
        self, parts: int, asked: PassQuery, come_to: ComeTo, finish: Callable[[Stage, Mapping[str, Any]], Result]
    ) -> Result:
        """The same, in so many parts; no word of a driver gets out."""
        doing = _doing(asked)
        with Stage(self._backend, self._numbers, self._lasting) as results:
            if parts == 1:
                with self._whole.rows(asked, once=self._expected.once(asked.table)) as whole:

                    def act() -> Result:
                        totals = come_to(results, whole, True)
                        return finish(results, {name: each.rows for name, each in totals.items()})

                    return scrubbed(doing, act)
            added = AddedUp(results)
            with closing(self._tables_of_parts(parts, asked)) as each:
                for tables in each:

                    def add(tables: Sequence[Any] = tables) -> None:
                        with Stage(self._backend, self._numbers) as stage:
                            added.take(come_to(stage, tables, False))

                    scrubbed(doing, add)
            return last_step(asked.table, lambda: scrubbed(doing, lambda: finish(results, added.totals)))

    def _tables_of_parts(self, parts: int, asked: PassQuery) -> Generator[Sequence[Any]]:
        """The tables of one part after the other, each of which is forgotten for the next."""
        if asked.table.unit_id is None:
            with self._tables(ALL) as tables:
                yield from tables.runs(asked, parts)
            return
        found = []
        for number in range(parts):
            with self._tables(UnitPart(number, parts)) as tables:
                yield tables.of(asked)
                found.append(tables.found)
        check_parts(found)

    def _tables(self, part: UnitPart) -> LoadedTables:
        def read(table: Table, columns: Sequence[Column]) -> Iterator[Sequence[Any]]:
            return self._reader(table).blocks(table, columns)

        return LoadedTables(self._backend, self._numbers, read, self._expected.loadings, self._read, part)

    def stored(
        self, table: Table, columns: Sequence[Column], show: Callable[[int, int], None]
    ) -> Iterator[Sequence[Any]]:
        """Stored values of all rows; see :class:`dprelease.engines.base.OpenedEngine`."""
        return self._reader(table).blocks(table, columns, show)

    def digest_rows(
        self, table: Table, columns: Sequence[str], days: Sequence[tuple[date, date]], key: bytes
    ) -> tuple[str, ...]:
        """A keyed hash of the rows of each stretch; see :class:`dprelease.engines.base.Engine`."""
        looked = table_of_rows(table, columns, days)
        read = tuple(Quantity(kind="nonnull", column=column.name) for column in looked.columns)
        catalog = Catalog(tables={looked.name: looked})
        asked = PassQuery(catalog, Grouping(table=looked.name, by=()), read, {}, key)
        with self._lock:
            self._check_open()
            self._parts.setdefault(looked.fingerprint(), _RUNS)
            return self._answered(
                asked,
                partial(hashes_of_rows, asked, tuple(days)),
                lambda stage, totals: digests(_lines(stage.read_kept(totals["hashes"])), len(days), key),
            )

    def close(self) -> None:
        """Close DuckDB and with it forget every row; a second time does nothing."""
        with self._lock:
            if self._backend is not None:
                self._forget()
                self._arrays.clear()
                backend, self._backend = self._backend, None
                for reader in self._readers.values():
                    reader.close()
                backend.close()

    def _check_open(self) -> None:
        if self._backend is None:
            raise EngineError("this engine is closed", hint="open another one", code="DPR-E002")

    def _from_kept(
        self,
        place: Any,
        asked: PassQuery,
        come_to: ComeTo,
        finish: Callable[[Stage, Any], Result],
    ) -> Result:
        """What is made of a table of what the rows come to, which is kept for other questions, the latest few of them.

        Args:
            place: What it depends on, but for public references, which are given anew with every call.
            asked: What is asked of the rows.
            come_to: As for :meth:`_answered`.
            finish: What is made of the kept table.
        """
        known = self._combinations.pop(place, None)
        if known is not None and known[0] != dict(asked.references):
            self._lasting.forget(known[1])
            known = None
        if known is None:
            while len(self._combinations) >= _KEPT:
                self._lasting.forget(self._combinations.pop(next(iter(self._combinations)))[1])
            kept = self._answered(
                asked,
                come_to,
                lambda _, totals: self._lasting.keep(totals["kept"]),
            )
            known = (dict(asked.references), kept)
        self._combinations[place] = known
        with Stage(self._backend, self._numbers) as stage:
            return scrubbed(_doing(asked), lambda: finish(stage, known[1]))

    def _forget(self) -> None:
        """Drop every table that is kept for later, to make room."""
        self._whole.forget()
        self._combinations.clear()
        self._lasting.clear()


def _lines(rows: Any) -> list[tuple[int, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _doing(asked: PassQuery) -> str:
    return f"table {asked.table.name!r}, aggregating by ({', '.join(asked.grouping.by)})"
