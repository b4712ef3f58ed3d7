"""DuckDB inside this process: rows in its memory, no file, no network, no spilling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import ibis
import pyarrow as pa

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Table
from dprelease.engines.base import scrubbed
from dprelease.engines.query import dense, refuse, totals
from dprelease.engines.rows import ARROW, typed
from dprelease.engines.source import check, files, own_columns, read
from dprelease.errors import EngineError
from dprelease.noise import Exact

__all__ = ["DuckDBEngine", "locked_connection"]


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

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._lock = Lock()
        self._loaded: dict[str, str] = {}
        self._names = 0
        self._backend: Any = scrubbed("starting DuckDB", locked_connection)

    def __repr__(self) -> str:
        return "<DuckDBEngine>"

    def describe(self, table: Table) -> None:
        """Check the files of a table and the names in them; see :class:`dprelease.engines.base.Engine`."""
        check(table, files(table.source, self._folder, self._environment))

    def aggregate(
        self,
        table: Table,
        by: tuple[str, ...],
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
    ) -> tuple[Exact, ...]:
        """Exact totals per cell, boxed; see :class:`dprelease.engines.base.Engine`."""
        refuse(table, by, quantities, references)
        if not quantities:
            return ()
        with self._lock:
            self._check_open()
            name = self._load(table)
            doing = f"table {table.name!r}, aggregating by ({', '.join(by)})"
            return scrubbed(doing, lambda: self._run(name, table, by, quantities, references))

    def close(self) -> None:
        """Close DuckDB and with it forget every row; a second time does nothing."""
        with self._lock:
            if self._backend is not None:
                self._loaded.clear()
                backend, self._backend = self._backend, None
                scrubbed("closing DuckDB", backend.disconnect)

    def _check_open(self) -> None:
        if self._backend is None:
            raise EngineError("this engine is closed", hint="open another one", code="DPR-E002")

    def _run(
        self,
        name: str,
        table: Table,
        by: tuple[str, ...],
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
    ) -> tuple[Exact, ...]:
        with self._lending() as lend:
            rows = self._backend.table(name)
            query = totals(rows, table, by, quantities, references, lend)
            answer = self._backend.to_pyarrow(query)
        return tuple(Exact(values) for values in dense(answer, table.cells(by), len(quantities), bool(by)))

    def _load(self, table: Table) -> str:
        """The name of the loaded table, which is loaded now if it was not before."""
        identity = table.fingerprint()
        if identity not in self._loaded:
            paths = files(table.source, self._folder, self._environment)
            headers = check(table, paths)
            name = self._name()
            scrubbed(f"table {table.name!r}, loading", lambda: self._fill(name, table, paths, headers))
            self._loaded[identity] = name
        return self._loaded[identity]

    def _fill(self, name: str, table: Table, paths: Sequence[Path], headers: Sequence[tuple[str, ...]]) -> None:
        """All files of a table, typed block by block, into a DuckDB table; no half of one is left behind."""
        own = own_columns(table)
        places = [table.columns.index(column) for column in own]
        schema = pa.schema([(f"c{at}", ARROW[column.type]) for at, column in zip(places, own, strict=True)])
        if not own:
            schema = pa.schema([("none", pa.bool_())])
        whole = False
        self._backend.create_table(name, schema=ibis.Schema.from_pyarrow(schema))
        try:
            for path, names in zip(paths, headers, strict=True):
                for block in read(table, path, names):
                    pairs = zip(own, block, strict=False)
                    arrays = [typed(column, stored, table.source.null_values) for column, stored in pairs]
                    self._append(name, pa.table(arrays or [pa.nulls(len(block[0]), pa.bool_())], schema=schema))
            whole = True
        finally:
            if not whole:
                self._backend.drop_table(name)

    def _append(self, name: str, rows: Any) -> None:
        with self._lending() as lend:
            self._backend.insert(name, lend(rows))

    @contextmanager
    def _lending(self) -> Iterator[Any]:
        """A function that shows an Arrow table to DuckDB without copying it, until the end of the block."""
        lent: list[str] = []

        def lend(rows: Any) -> Any:
            lent.append(self._name())
            self._backend.con.register(lent[-1], rows)
            return self._backend.table(lent[-1])

        try:
            yield lend
        finally:
            for name in lent:
                self._backend.con.unregister(name)

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"
