"""MySQL and MariaDB: base tables of InnoDB, read in one state by one connection.

What is read are the columns that a spec names, each under an expression of ours by its stored type. Names are quoted;
no value of a spec stands in a statement but the days of the period. Only what InnoDB keeps has states: tables of other
engines change under whoever reads them, and of what a view reads nobody can be told. Both are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import database_of, no_table, require_columns, require_readable_types
from dprelease.engines.databases.mysql_session import MySQLSession, mysql_refused
from dprelease.engines.databases.server import CursorSnapshot, not_for_reading
from dprelease.engines.files.rows import typed
from dprelease.engines.files.source import stored_columns
from dprelease.errors import TableMismatch

__all__ = ["MySQLSnapshot"]

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


class MySQLSnapshot(CursorSnapshot):
    """A ``Snapshot`` of a database of MySQL or MariaDB.

    Args:
        url: ``mysql://...`` or ``mariadb://...``.
        folder: What the paths in it are relative to.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._session = MySQLSession(url, folder)
        super().__init__(self._session, mysql_refused)

    def _usual_schema(self) -> str:
        return self._session.database

    def _checked(self, table: Table) -> dict[str, str]:
        source, place = database_of(table), self._place(table)
        if source.query is not None or source.view:
            raise not_for_reading(table, "MySQL", "read-only transaction")
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

    def _selected(self, table: Table, types: dict[str, str], columns: Sequence[Column]) -> Any:
        asked = f"SELECT {self._asked(types, columns)} FROM {_named(*self._place(table))}"  # noqa: S608 - names that are checked and quoted
        period, values = self._of_period(table, types)
        return self._session.rows(asked + period, values)

    def _of_period(self, table: Table, types: dict[str, str]) -> tuple[str, tuple[str, ...]]:
        """What only rows of the period are, where the server can tell: ``rows.in_period`` has the last word."""
        time = table.time
        if time is None or _KINDS[types[time.column].partition("(")[0]] not in ("day", "moment"):
            return "", ()
        name = _quoted(time.column)
        return f" WHERE {name} >= %s AND {name} < %s", (time.start.isoformat(), time.end.isoformat())

    @staticmethod
    def _array(values: Sequence[bytes | None], stored: str, repeated: bool) -> Any:
        """A number is one text however many zeros it was stored with, a day that is none is null."""
        texts, kind = pa.array(values, pa.binary()), _read_as(stored)
        if kind == "number":
            return texts.cast(pa.string()).cast(pa.float64())
        if kind == "decimal":
            return pc.utf8_rtrim(pc.utf8_rtrim(texts.cast(pa.string()), "0"), ".")
        if kind in ("day", "moment"):
            real = typed(Column(name="x", type="date" if kind == "day" else "timestamp"), texts)
            return real.cast(pa.date32() if kind == "day" else pa.timestamp("us"))
        return texts.dictionary_encode() if repeated else texts


def _read_as(stored: str) -> str:
    name, _, scale = (stored or "int").partition("(")
    return ("integer" if scale == "0)" else "decimal") if name == "decimal" else _KINDS[name]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def _named(schema: str, table: str) -> str:
    return f"{_quoted(schema)}.{_quoted(table)}"
