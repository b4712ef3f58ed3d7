"""DuckDB inside this process: rows in its memory, no file, no network, no spilling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar

import duckdb
import ibis

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.reference import References
from dprelease.catalog.table import Catalog, Key, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.declared import Loading, loading
from dprelease.engines.duck.bounding import bounded_rows
from dprelease.engines.duck.bounds_check import check_row_bounds
from dprelease.engines.duck.combinations import cell_counts, combined, counted_columns, suits
from dprelease.engines.duck.cubes import added_up, cube_of
from dprelease.engines.duck.loading import Layout, take_in
from dprelease.engines.duck.pipeline import PassQuery, answers, occurring
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import unit_name
from dprelease.engines.files.decimals import Grids, grids_read
from dprelease.engines.readers import SOURCE_READERS, SourceReader
from dprelease.engines.refuse import refuse_uncomputable, refuse_within, require_secret
from dprelease.errors import EngineError, Unsupported
from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys

__all__ = ["DuckDBEngine", "locked_connection"]

Result = TypeVar("Result")
_KEPT = 8  # sets of combinations, each of up to one row per row of its table


def locked_connection() -> Any:
    """An Ibis backend over an empty in-memory DuckDB that can reach nothing outside itself.

    It has no temporary directory (more data than memory is an error, never a file), reads and writes no file,
    installs and loads no extension, sees no Python variable, and none of that can be switched back on.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "preserve_insertion_order": "false",
            # Bits: groups by few and small columns need no hashing, which is several times as fast. Of more bits the
            # many sums of one pass would take much memory, as every possible group has a place.
            "perfect_ht_threshold": "16",
        },
    )
    backend = ibis.duckdb.from_connection(connection)  # sets the time zone, so before the lock
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return backend


class DuckDBEngine:
    """The embedded engine: files read by our own code, aggregated by DuckDB through Ibis.

    A table is loaded once, when it is first needed, and serves every later batch from memory: the answers of
    one release come from one state of its files. One lock makes it safe for threads; DuckDB uses all cores.

    Args:
        folder: What ``source.file`` is relative to.
        environment: What ``${env:NAME}`` in ``source.file`` may name.
    """

    formats: ClassVar[frozenset[str]] = frozenset(SOURCE_READERS)

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._lock = Lock()
        self._expected: dict[str, Loading] = {}
        self._loaded: dict[tuple[str, tuple[Any, ...]], dict[Loading, str]] = {}
        self._bounds: dict[tuple[str, int | None, bytes], Any] = {}
        self._combinations: dict[Any, tuple[References, Any]] = {}
        self._numbers = count(1)
        self._backend: Any = scrubbed("starting DuckDB", locked_connection)
        self._lasting = Stage(self._backend, self._numbers)
        self._readers: dict[Any, SourceReader] = {}

    def __repr__(self) -> str:
        return "<DuckDBEngine>"

    def describe(self, table: Table) -> None:
        """Check the files of a table and the names in them; see :class:`dprelease.engines.base.Engine`."""
        self._reader(table).describe(table)

    def check(
        self, catalog: Catalog, grouping: Grouping, quantities: Sequence[Quantity], references: References
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
            loaded = any(known == table.fingerprint() and tables for (known, _), tables in self._loaded.items())
            return self._reader(table).fingerprint(table, key, loaded=loaded)

    def _reader(self, table: Table) -> SourceReader:
        """What reads the source of a table; one of each kind, which knows what it has looked at."""
        maker = SOURCE_READERS[table.source.format]
        if maker not in self._readers:
            self._readers[maker] = maker(self._folder, self._environment)
        return self._readers[maker]

    def expect(self, catalog: Catalog, asked: Iterable[tuple[Grouping, Sequence[Quantity]]]) -> None:
        """What will be asked, so that no more is read; see :class:`dprelease.engines.base.Engine`."""
        for grouping, quantities in asked:
            for name, needed in loading(catalog, grouping, quantities).items():
                place = catalog.tables[name].fingerprint()
                self._expected[place] = self._expected.get(place, Loading(frozenset())) | needed

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
        self.check(catalog, grouping, quantities, references)
        require_secret(catalog.tables[grouping.table], secret)
        if not quantities:
            return ()
        asked = PassQuery(catalog, grouping, tuple(quantities), references, secret)
        if within is not None:
            refuse_within(catalog, grouping, within, counts=suits(asked))
        if suits(asked):
            return self._scrubbed(
                asked, lambda stage, rows: cell_counts(stage, asked, self._combined(stage, asked, rows), within)
            )
        if cube is not None and asked.table.unit_id is None:
            return self._from_cube(asked, cube)
        return self._scrubbed(asked, lambda stage, tables: answers(stage, asked, tables, keys))

    def _from_cube(self, asked: PassQuery, cube: TotalsCube) -> tuple[Exact | ExactHistogram, ...]:
        """What a cube answers, added up from it; the rest from the rows."""
        whole = replace(asked, grouping=Grouping(table=asked.table.name, by=cube.by), quantities=cube.quantities)
        held = [item for item in asked.quantities if cube.answers(asked.grouping, item)]
        rest = replace(asked, quantities=tuple(item for item in asked.quantities if item not in held))
        boxes: dict[Quantity, Exact | ExactHistogram] = {}

        def add(stage: Stage, tables: Sequence[Any]) -> list[Exact]:
            place = (*(rows.op() for rows in tables), cube)
            kept = self._kept(place, whole, lambda: cube_of(stage, self._lasting, whole, tables))
            return added_up(stage, asked, cube, kept, held)

        if held:
            boxes.update(zip(held, self._scrubbed(whole, add), strict=True))
        if rest.quantities:
            counted = self._scrubbed(rest, lambda stage, tables: answers(stage, rest, tables, None))
            boxes.update(zip(rest.quantities, counted, strict=True))
        return tuple(boxes[item] for item in asked.quantities)

    def units_by_key(self, catalog: Catalog, grouping: Grouping, references: References, secret: bytes) -> ExactKeys:
        """The keys that occur, boxed; see :class:`dprelease.engines.base.Engine`."""
        if not grouping.private:
            raise Unsupported("keys that are public are not selected", code="DPR-E213")
        self.check(catalog, grouping, (), references)
        require_secret(catalog.tables[grouping.table], secret)
        asked = PassQuery(catalog, grouping, (), references, secret)
        return self._scrubbed(asked, lambda stage, tables: occurring(stage, asked, tables))

    def _scrubbed(self, asked: PassQuery, action: Callable[[Stage, Sequence[Any]], Result]) -> Result:
        """Load and bound what is asked for, then answer from it; no word of a driver gets out."""
        table = asked.table
        doing = f"table {table.name!r}, aggregating by ({', '.join(asked.grouping.by)})"
        with self._lock:
            self._check_open()
            tables = [self._bounded(table, None if table.bounds is None else table.bounds.max_rows, asked)]
            for join in table.private_joins:
                other = asked.catalog.tables[join.table]
                own = join.max_matches if other.bounds is None else other.bounds.max_rows
                tables.append(self._bounded(other, min(join.max_matches, own), asked))

            def act() -> Result:
                with Stage(self._backend, self._numbers) as stage:
                    return action(stage, tables)

            return scrubbed(doing, act)

    def _bounded(self, table: Table, limit: int | None, asked: PassQuery) -> Any:
        """The loaded rows of a table, at most ``limit`` of each unit; checked, and kept for later batches."""
        needed = loading(asked.catalog, asked.grouping, asked.quantities)[table.name]
        name = self._load(table, grids_read(asked.catalog, table), needed)
        identity = (name, limit, b"" if limit is None else asked.secret)
        if identity not in self._bounds:
            rows = self._backend.table(name)

            def bound() -> Any:
                if limit is None:
                    return rows
                kept = bounded_rows(self._lasting, rows, table, asked.secret, limit)
                check_row_bounds(self._lasting, kept, table, unit_name(table), limit)
                return kept

            self._bounds[identity] = scrubbed(f"table {table.name!r}, bounding its rows", bound)
        return self._bounds[identity]

    def _combined(self, stage: Stage, asked: PassQuery, tables: Sequence[Any]) -> Any:
        """What the rows that count have for keys; kept for the other tables of a workload, the latest few of them.

        A loaded or bounded table has a name of its own, so that equal expressions are equal rows as declared; but
        public references are given anew with every call.
        """
        grouping, weight = asked.grouping, asked.quantities[0].weight
        place = (*(rows.op() for rows in tables), grouping.where, counted_columns(grouping), asked.zeros, weight)
        return self._kept(place, asked, lambda: combined(stage, self._lasting, asked, tables))

    def _kept(self, place: Any, asked: PassQuery, make: Callable[[], Any]) -> Any:
        """A kept table of combinations, made where it is not there or is of other references."""
        known = self._combinations.pop(place, None)
        if known is not None and known[0] != dict(asked.references):
            self._lasting.forget(known[1])
            known = None
        if known is None:
            while len(self._combinations) >= _KEPT:
                self._lasting.forget(self._combinations.pop(next(iter(self._combinations)))[1])
            known = (dict(asked.references), make())
        self._combinations[place] = known
        return known[1]

    def close(self) -> None:
        """Close DuckDB and with it forget every row; a second time does nothing."""
        with self._lock:
            if self._backend is not None:
                self._loaded.clear()
                self._bounds.clear()
                self._combinations.clear()
                backend, self._backend = self._backend, None
                scrubbed("closing DuckDB", backend.disconnect)

    def _check_open(self) -> None:
        if self._backend is None:
            raise EngineError("this engine is closed", hint="open another one", code="DPR-E002")

    def _load(self, table: Table, grids: Grids, needed: Loading) -> str:
        """The name of a loaded table that has all that is needed of it, which is loaded now if none was before.

        Then it has all that is expected to be asked; where something else is asked, everything.
        """
        identity = (table.fingerprint(), tuple(grids.items()))
        loaded = self._loaded.setdefault(identity, {})
        for known, name in loaded.items():
            if known.covers(needed):
                return name
        wanted = self._expected.get(identity[0])
        if wanted is None or not wanted.covers(needed):
            wanted = Loading.everything(table)
        layout = Layout(table, wanted, grids)
        blocks = self._reader(table).blocks(table, layout.columns)
        name = f"t{next(self._numbers)}"
        scrubbed(f"table {table.name!r}, loading", lambda: take_in(self._backend.con, name, layout, blocks))
        loaded[wanted] = name
        return name
