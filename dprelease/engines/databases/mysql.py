"""MySQL and MariaDB: base tables of InnoDB, read in one state by one connection.

What is read are the columns that a spec names, each under an expression of ours by its stored type. Names are quoted;
no value of a spec stands in a statement but the days of the period. Only what InnoDB keeps has states: tables of other
engines change under whoever reads them, and of what a view reads nobody can be told. Both are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import (
    RowSums,
    database_of,
    no_table,
    require_columns,
    require_readable_types,
    told,
)
from dprelease.engines.databases.mysql_session import MySQLSession, mysql_refused
from dprelease.engines.databases.row_sums import sums_of
from dprelease.engines.files.rows import typed
from dprelease.engines.files.source import stored_columns
from dprelease.engines.locked import locked_duckdb
from dprelease.errors import TableMismatch

__all__ = ["MySQLSnapshot"]

Result = TypeVar("Result")
_ROWS = 1 << 14
_TEXT = "CAST(CONVERT({} USING utf8mb4) AS BINARY)"
_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), "integer"),
    **dict.fromkeys(("decimal", "float", "double"), "number"),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"), "text"),
    **dict.fromkeys(("uuid", "inet4", "inet6"), "text"),
    "date": "day",
    **dict.fromkeys(("datetime", "timestamp"), "moment"),
}
"""What each type is read as. Bits, bytes, times of day and places on a map are not: no text of ours means them."""
_ASKED = {
    "integer": "{}",
    "text": _TEXT,
    "number": "{} + 0e0",  # as a double, whose text is exact: a FLOAT is shown with six digits
    "decimal": "{}",
    "day": "DATE_FORMAT({}, '%%Y-%%m-%%d')",
    "moment": "DATE_FORMAT({}, '%%Y-%%m-%%dT%%H:%%i:%%s.%%f')",
}
_TABLE = """
SELECT table_type, COALESCE(engine, ''), create_options FROM information_schema.tables
WHERE table_schema = %s AND table_name = %s"""
_NAMES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
_COLUMNS = """
SELECT column_name, data_type, COALESCE(numeric_scale, 0) FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""


class MySQLSnapshot:
    """A ``Snapshot`` of a database of MySQL or MariaDB.

    Args:
        url: ``mysql://...`` or ``mariadb://...``.
        folder: What the paths in it are relative to.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._session = MySQLSession(url, folder)
        self._known: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return "<MySQLSnapshot>"

    def _told(self, table: Table, what: str, action: Callable[[], Result]) -> Result:
        return told(f"table {table.name!r}, {what}", action, mysql_refused)

    def describe(self, table: Table) -> None:
        """Check table, columns and rights."""
        self._types(table)

    def columns(self, table: Table) -> dict[str, str]:
        """The columns by the server's catalog."""
        return dict(self._types(table))

    def _types(self, table: Table) -> dict[str, str]:
        place = table.fingerprint()
        if place not in self._known:
            self._known[place] = self._told(table, "describing it", lambda: self._checked(table))
        return self._known[place]

    def _place(self, table: Table) -> tuple[str, str]:
        source = database_of(table)
        return source.in_schema or self._session.database, source.table or ""

    def _checked(self, table: Table) -> dict[str, str]:
        source, place = database_of(table), self._place(table)
        if source.query is not None or source.view:
            raise TableMismatch(
                f"table {table.name!r}: of MySQL only tables themselves are read, no views and no queries",
                detail="what a view or a query reads could be a table that is in no state of the database",
                hint="name the table; or export what the query gives in one read-only transaction to Parquet",
                code="DPR-E126",
            )
        found = self._session.ask(_TABLE, place)
        if not found:
            raise no_table(table, place[0], [name for (name,) in self._session.ask(_NAMES, place[:1])])
        ((kind, engine, _),) = found
        if kind != "BASE TABLE" or engine != "InnoDB":
            stored = f"a table of the engine {engine}" if kind == "BASE TABLE" and engine else "a view"
            raise TableMismatch(
                f"table {table.name!r}: {place[1]!r} is {stored}, which is in no state of the database",
                hint="name a table of InnoDB (`SHOW TABLE STATUS` says which are), or export it to a file",
                code="DPR-E127",
            )
        every = self._session.ask(_COLUMNS, place)
        require_columns(table, [name for name, _, _ in every])
        types = {name: f"{stored}({scale})" if stored == "decimal" else stored for name, stored, scale in every}
        require_readable_types(table, types, lambda stored: stored.partition("(")[0] in _KINDS)
        self._session.ask(f"SELECT {self._asked(types, stored_columns(table))} FROM {_named(*place)} LIMIT 0")  # noqa: S608 - names that are checked and quoted
        return types

    def _asked(self, types: dict[str, str], columns: Sequence[Column]) -> str:
        """The columns under our expressions; a ``%`` in a name is doubled, for the driver fills in values by it."""
        asked = [_ASKED[_read_as(types[column.name])].format(_quoted(column.name)) for column in columns]
        return ", ".join(asked) or "1"

    def identity(self, table: Table) -> tuple[str, ...]:
        """The server, the database and the table, by their names."""
        return ("mysql", self._session.server, *self._place(table))

    def sums(self, table: Table) -> RowSums:
        """Sums over the rows, which are read once for it."""
        types = {column.name: self._types(table)[column.name] for column in stored_columns(table)}
        hasher = locked_duckdb()
        try:
            return sums_of(table, types, self.blocks(table, stored_columns(table)), hasher)
        finally:
            hasher.close()

    def blocks(self, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
        """The stored values, block by block."""
        types = self._types(table)
        require_columns(table, [*types], columns)
        asked = f"SELECT {self._asked(types, columns)} FROM {_named(*self._place(table))}"  # noqa: S608 - names that are checked and quoted
        period, values = self._of_period(table, types)
        kinds = [_read_as(types[column.name]) for column in columns] or ["integer"]
        repeated = [bool(column.keys) for column in columns] or [False]
        tell = partial(self._told, table, "reading it")
        cursor = tell(lambda: self._session.rows(asked + period, values))

        def read() -> Iterator[list[Any]]:
            try:
                while rows := tell(lambda: cursor.fetchmany(_ROWS)):
                    every = zip(zip(*rows, strict=True), kinds, repeated, strict=True)
                    yield [_array(values, kind, few) for values, kind, few in every]
            finally:
                with suppress(Exception):  # what was read is read, and what failed was told
                    cursor.close()  # to its end, for the next question comes by the same connection

        return read()

    def _of_period(self, table: Table, types: dict[str, str]) -> tuple[str, tuple[str, ...]]:
        """What only rows of the period are, where the server can tell: ``rows.in_period`` has the last word."""
        time = table.time
        if time is None or _KINDS[types[time.column].partition("(")[0]] not in ("day", "moment"):
            return "", ()
        name = _quoted(time.column)
        return f" WHERE {name} >= %s AND {name} < %s", (time.start.isoformat(), time.end.isoformat())

    def close(self) -> None:
        """End the transaction with the connection."""
        self._session.close()


def _read_as(stored: str) -> str:
    name, _, scale = stored.partition("(")
    return ("integer" if scale == "0)" else "decimal") if name == "decimal" else _KINDS[name]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def _named(schema: str, table: str) -> str:
    return f"{_quoted(schema)}.{_quoted(table)}"


def _array(values: Sequence[bytes | None], kind: str, repeated: bool) -> Any:
    """Values of one column: a number is one text however many zeros it was stored with, a day that is none is null."""
    texts = pa.array(values, pa.binary())
    if kind == "number":
        return texts.cast(pa.string()).cast(pa.float64())
    if kind == "decimal":
        return pc.utf8_rtrim(pc.utf8_rtrim(texts.cast(pa.string()), "0"), ".")
    if kind in ("day", "moment"):
        real = typed(Column(name="x", type="date" if kind == "day" else "timestamp"), texts)
        return real.cast(pa.date32() if kind == "day" else pa.timestamp("us"))
    return texts.dictionary_encode() if repeated else texts
