"""SQLite files: one read transaction of Python's own driver, and every value by the storage class that it has.

A column of SQLite may hold values of several classes. Each is read by itself: an integer, a real number, a text or
bytes, as its own text says; what the column was declared as in the file says nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import (
    database_of,
    gone,
    no_table,
    require_columns,
    require_view,
    told,
)
from dprelease.engines.databases.file_place import FileSnapshot, quoted
from dprelease.engines.databases.query_text import query_text
from dprelease.engines.files.source import stored_columns
from dprelease.engines.files.values import number_text
from dprelease.errors import DpReleaseError, EngineError, TableMismatch

__all__ = ["SQLiteSnapshot"]

_ROWS = 1 << 15
_WAIT = 10.0  # seconds that a writer may take to finish
_SCHEMA = "main"
_BUSY = {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL"}


def _refused(doing: str, error: Exception) -> DpReleaseError:
    name = str(getattr(error, "sqlite_errorname", "") or type(error).__name__)
    if name.startswith(tuple(_BUSY)):
        return gone(doing, "another process writes to it")
    hint = "check that it is a whole SQLite file, and that this user may read it and the files beside it (-wal, -shm)"
    return EngineError(f"{doing}: failed ({name}); the driver's own words are withheld", hint=hint, code="DPR-E121")


class SQLiteSnapshot(FileSnapshot):
    """A ``Snapshot`` of a SQLite file."""

    SCHEME = "sqlite"

    def _opened(self) -> sqlite3.Connection:
        return told("opening a SQLite file", self._begun, _refused)

    def _begun(self) -> sqlite3.Connection:
        # Threads of DuckDB ask for the blocks, one after the other.
        place = f"{self._path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(place, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            connection.text_factory = bytes
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # the state is that of this moment
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows = self._connection.execute(sql, values).fetchall()
        return [tuple(each.decode() if isinstance(each, bytes) else each for each in row) for row in rows]

    def describe(self, table: Table) -> None:
        """Check table and columns."""
        told(f"table {table.name!r}, describing it", lambda: self._described(table), _refused)

    def columns(self, table: Table) -> dict[str, str]:
        """The columns by the file's catalog; the declared type of one may be empty, for it binds no value."""
        wanted, asked = database_of(table).table, "SELECT name, type FROM pragma_table_info(?)"
        self.describe(table)
        return dict(told(f"table {table.name!r}, describing it", lambda: self._ask(asked, [wanted]), _refused))

    def _described(self, table: Table, columns: Sequence[Column] = ()) -> str:
        """What stands behind FROM, after it was checked."""
        source = database_of(table)
        if source.query is not None:
            inner = f"({query_text(table, self._folder)}\n)"
        else:
            self._require_table(table, source.in_schema or _SCHEMA)
            inner = quoted(source.table or "")
        cursor = self._connection.execute(f"SELECT * FROM {inner} LIMIT 0")  # noqa: S608 - names that are checked and quoted
        found = [each[0] for each in cursor.description]
        require_columns(table, found, columns)
        return inner

    def _require_table(self, table: Table, schema: str) -> None:
        known = self._ask("SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view')")
        names = {name: (kind, str(sql)) for name, kind, sql in known}
        wanted = database_of(table).table or ""
        if wanted not in names or schema != _SCHEMA:
            raise no_table(table, schema, [*names])
        kind, sql = names[wanted]
        require_view(table, is_view=kind == "view")
        if sql.lstrip().upper().startswith("CREATE VIRTUAL"):
            raise TableMismatch(
                f"table {table.name!r}: {wanted!r} is a virtual table, whose rows are made by an extension",
                hint="copy its rows into a table, and name that",
                code="DPR-E333",
            )

    def _hashed_types(self, table: Table) -> dict[str, str]:
        return {column.name: "" for column in stored_columns(table)}

    def blocks(self, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
        """The stored values, block by block."""
        doing = f"table {table.name!r}, reading it"
        inner = told(doing, lambda: self._described(table, columns), _refused)
        names = ", ".join(quoted(column.name) for column in columns) or "NULL"
        repeated = [bool(column.keys) for column in columns] or [False]
        asked = f"SELECT {names} FROM {inner}"  # noqa: S608 - names that are checked and quoted
        cursor = told(doing, lambda: self._connection.execute(asked), _refused)

        def read() -> Iterator[list[Any]]:
            while rows := told(doing, lambda: cursor.fetchmany(_ROWS), _refused):
                yield [_array(values, few) for values, few in zip(zip(*rows, strict=True), repeated, strict=True)]

        return read()


def _array(values: Sequence[Any], repeated: bool) -> Any:
    """Values of one column; where they are of several classes, by their texts."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {int}:
        return pa.array(values, pa.int64())
    if kinds <= {float}:
        return pa.array(values, pa.float64())
    texts = pa.array(values if kinds <= {bytes} else map(_text, values), pa.binary())
    return texts.dictionary_encode() if repeated else texts


def _text(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    text = number_text(value) if isinstance(value, float) else str(value)
    return None if text is None else text.encode()
