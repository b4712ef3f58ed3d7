"""DuckDB files: one read-only transaction in a second DuckDB of this process, which reaches nothing but that file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import (
    database_of,
    gone,
    no_table,
    require_columns,
    require_readable_types,
    require_view,
    told,
)
from dprelease.engines.databases.file_place import FileSnapshot, quoted
from dprelease.engines.databases.query_text import query_text
from dprelease.engines.locked import locked_duckdb
from dprelease.errors import DpReleaseError, EngineError, TableMismatch

__all__ = ["DuckDBSnapshot"]

_ROWS = 1 << 17
_SCHEMA = "main"
_CASTS = {
    "": "{}",  # as it is
    "integer": "CAST({} AS BIGINT)",
    "text": "CAST({} AS VARCHAR)",
    "number": "CAST({} AS DOUBLE)",
    "moment": "CASE WHEN isfinite({0}) THEN {0} END",
    "zoned": "CASE WHEN isfinite({0}) THEN make_timestamp(epoch_us({0})) END",
}
_KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "integer"),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM", "VARINT", "UUID", "JSON", "ENUM"), "text"),
    **dict.fromkeys(("BOOLEAN", "VARCHAR", "DECIMAL", "BLOB"), ""),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "moment"),
    "TIMESTAMP WITH TIME ZONE": "zoned",
}


def _kind(stored: str) -> str | None:
    """How a type is read; None: it is not."""
    return None if stored.endswith("]") else _KINDS.get(re.sub(r"\(.*\)$", "", stored, flags=re.DOTALL))


def _refused(doing: str, error: Exception) -> DpReleaseError:
    name = type(error).__name__
    if isinstance(error, duckdb.IOException) and "lock" in str(error).lower():  # its words are looked at, and not shown
        return gone(doing, f"{name}: another process has it open for writing")
    hint = "check that it is a whole DuckDB file of this version or an older one"
    return EngineError(f"{doing}: failed ({name}); the driver's own words are withheld", hint=hint, code="DPR-E121")


class DuckDBSnapshot(FileSnapshot):
    """A ``Snapshot`` of a DuckDB file."""

    SCHEME = "duckdb"

    def _opened(self) -> Any:
        return told("opening a DuckDB file", self._begun, _refused)

    def _begun(self) -> Any:
        connection = locked_duckdb(str(self._path.absolute()))
        connection.execute("BEGIN TRANSACTION")
        return connection

    def describe(self, table: Table) -> None:
        """Check table and columns."""
        told(f"table {table.name!r}, describing it", lambda: self._described(table), _refused)

    def columns(self, table: Table) -> dict[str, str]:
        """The columns by the file's catalog."""
        return told(f"table {table.name!r}, describing it", lambda: self._described(table), _refused)[1]

    def _described(self, table: Table, columns: Sequence[Column] = ()) -> tuple[str, dict[str, str]]:
        """What stands behind FROM, after it was checked, and the types of its columns."""
        source = database_of(table)
        if source.query is not None:
            inner = f"({self._one_select(table)}\n)"
        else:
            schema = source.in_schema or _SCHEMA
            self._require_table(table, schema)
            inner = f"{quoted(schema)}.{quoted(source.table or '')}"
        asked = f"DESCRIBE SELECT * FROM {inner}"  # noqa: S608 - names that are checked and quoted
        rows = self._connection.execute(asked).fetchall()
        require_columns(table, [row[0] for row in rows], columns)
        types = {row[0]: str(row[1]) for row in rows}
        require_readable_types(table, types, lambda stored: _kind(stored) is not None)
        return inner, types

    def _one_select(self, table: Table) -> str:
        text = query_text(table, self._folder)
        whole = f"SELECT * FROM ({text}\n)"  # noqa: S608 - the owner of the data has approved it
        statements = self._connection.extract_statements(whole)
        if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
            raise TableMismatch(
                f"table {table.name!r}: {database_of(table).query!r} is no single SELECT",
                hint="write one SELECT into the file",
                code="DPR-E341",
            )
        return text

    def _require_table(self, table: Table, schema: str) -> None:
        known = self._connection.execute(
            "SELECT table_name, table_type FROM information_schema.tables "
            "WHERE table_catalog = current_database() AND table_schema = ?",
            [schema],
        ).fetchall()
        kinds = dict(known)
        wanted = database_of(table).table or ""
        if wanted not in kinds:
            raise no_table(table, schema, [*kinds])
        require_view(table, is_view=kinds[wanted] != "BASE TABLE")

    def _within(self, table: Table) -> tuple[str, ...]:
        return (database_of(table).in_schema or _SCHEMA, *super()._within(table))

    def blocks(self, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
        """The stored values, block by block."""
        doing = f"table {table.name!r}, reading it"
        inner, types = told(doing, lambda: self._described(table, columns), _refused)
        names = [_CASTS[_kind(types[column.name]) or ""].format(quoted(column.name)) for column in columns]
        listed = ", ".join(f"{each} AS c{at}" for at, each in enumerate(names)) or "NULL AS c0"
        repeated = [bool(column.keys) for column in columns] or [False]
        asked = f"SELECT {listed} FROM {inner}"  # noqa: S608 - names that are checked and quoted
        reader = told(doing, lambda: self._connection.sql(asked).to_arrow_reader(_ROWS), _refused)

        def read() -> Iterator[list[Any]]:
            while (batch := told(doing, lambda: next(reader, None), _refused)) is not None:
                yield [
                    array.dictionary_encode() if few and pa.types.is_string(array.type) else array
                    for array, few in zip(batch.columns, repeated, strict=True)
                ]

        return read()
