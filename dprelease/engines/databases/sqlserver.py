"""SQL Server: base tables, read in one state under snapshot isolation by one connection.

**This project has no server to try it on.** It is opened only where a site says that the conformance suite passed
against its own (``DPRELEASE_TRIED_DATABASES``). What is read are the columns that a spec names, each under an
expression of ours that fails on no value; names are quoted, and no value of a spec stands in a statement but the days
of the period.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import database_of, no_table, require_columns, require_readable_types
from dprelease.engines.databases.server import CursorSnapshot, not_for_reading
from dprelease.engines.databases.sqlserver_session import SQLServerSession, sqlserver_refused
from dprelease.engines.files.rows import typed
from dprelease.engines.files.source import stored_columns
from dprelease.errors import EngineError, TableMismatch

__all__ = ["SQLServerSnapshot"]

_SCHEMA = "dbo"
_BYTES = "CONVERT(varbinary(max), CONVERT(nvarchar(max), {}))"  # two bytes a character, whatever they are
_ASKED = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "bit"), "CONVERT(varchar(20), {})"),
    **dict.fromkeys(("decimal", "numeric"), "CONVERT(varchar(64), {})"),
    **dict.fromkeys(("money", "smallmoney"), "CONVERT(varchar(64), CAST({} AS decimal(19, 4)))"),
    **dict.fromkeys(("float", "real"), "CONVERT(varchar(40), CAST({} AS float), 3)"),  # 17 digits, always
    **dict.fromkeys(("char", "nchar"), _BYTES.replace("{}", "RTRIM({})")),
    **dict.fromkeys(("varchar", "nvarchar", "text", "ntext"), _BYTES),
    "uniqueidentifier": "LOWER(CONVERT(varchar(36), {}))",
    "date": "CONVERT(varchar(10), {}, 23)",
    **dict.fromkeys(("datetime", "datetime2", "smalldatetime"), "CONVERT(varchar(33), CAST({} AS datetime2(7)), 126)"),
    # A moment within a day of either end may have no place in UTC, and the server would fail on it.
    "datetimeoffset": "CASE WHEN {0} BETWEEN '0001-01-02' AND '9999-12-30' "
    "THEN CONVERT(varchar(33), CAST(SWITCHOFFSET({0}, 0) AS datetime2(7)), 126) END",
}
_TEXTS = ("char", "nchar", "varchar", "nvarchar", "text", "ntext")
_SCALED = ("decimal", "numeric", "money", "smallmoney")
_MOMENTS = ("datetime", "datetime2", "smalldatetime", "datetimeoffset")
_TABLE = """
SELECT o.object_id, o.type, COALESCE(t.is_external, 0), COALESCE(t.is_memory_optimized, 0) FROM sys.objects AS o
JOIN sys.schemas AS s ON s.schema_id = o.schema_id LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
WHERE s.name = %s AND o.name = %s AND o.type IN ('U', 'V', 'SN')"""
_NAMES = """
SELECT o.name FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE s.name = %s AND o.type IN ('U', 'V')"""
_FILTERS = """
SELECT COUNT(*) FROM sys.security_predicates AS p JOIN sys.security_policies AS q ON q.object_id = p.object_id
WHERE p.target_object_id = %s AND q.is_enabled = 1 AND p.predicate_type = 0"""
_COLUMNS = """
SELECT c.name, CASE WHEN c.encryption_type IS NULL THEN TYPE_NAME(c.system_type_id) ELSE 'encrypted' END, c.scale,
    c.is_masked FROM sys.columns AS c WHERE c.object_id = %s ORDER BY c.column_id"""


class SQLServerSnapshot(CursorSnapshot):
    """A ``Snapshot`` of a database of SQL Server.

    Args:
        url: ``sqlserver://...``.
        folder: What the path of certificates is relative to.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._session = SQLServerSession(url, folder)
        super().__init__(self._session, sqlserver_refused)

    def _usual_schema(self) -> str:
        return _SCHEMA

    def _checked(self, table: Table) -> dict[str, str]:
        source, place = database_of(table), self._place(table)
        if source.query is not None or source.view:
            raise not_for_reading(table, "SQL Server", "snapshot")
        number = self._table(table, place)
        every = self._session.ask(_COLUMNS, (number,))
        require_columns(table, [name for name, *_ in every])
        types = {name: f"{stored}({scale})" if stored in _SCALED else stored for name, stored, scale, _ in every}
        require_readable_types(table, types, lambda stored: stored.partition("(")[0] in _ASKED)
        wanted = {column.name for column in stored_columns(table)}
        masked = [name for name, _, _, is_masked in every if is_masked and name in wanted]
        if masked and not self._session.unmasked:
            raise EngineError(
                f"table {table.name!r}: column {masked[0]!r} is masked for this user: it shows other values",
                hint="ask the owner of the database for UNMASK, or leave the column out",
                code="DPR-E335",
            )
        self._session.ask(f"SELECT TOP 0 {self._asked(types, stored_columns(table))} FROM {_named(*place)}")  # noqa: S608 - names that are checked and quoted
        return types

    def _table(self, table: Table, place: tuple[str, str]) -> int:
        """The number of a table, after it was checked that it can be read as a whole."""
        found = self._session.ask(_TABLE, place)
        if not found:
            raise no_table(table, place[0], [name for (name,) in self._session.ask(_NAMES, place[:1])])
        ((number, kind, is_external, in_memory),) = found
        if kind.strip() != "U" or is_external or in_memory:
            stored = "an external table" if is_external else "a table in memory" if in_memory else "a view or a synonym"
            raise TableMismatch(
                f"table {table.name!r}: {place[1]!r} is {stored}, which is in no state of the database",
                hint="name a table that is on the disk of this database, or export it to a file",
                code="DPR-E127",
            )
        if self._session.ask(_FILTERS, (number,))[0][0]:
            raise EngineError(
                f"table {table.name!r}: a row security policy of {place[1]!r} hides rows",
                hint="ask its owner for a table without one that holds what may be released",
                code="DPR-E331",
            )
        return int(number)

    def _asked(self, types: dict[str, str], columns: Sequence[Column]) -> str:
        asked = [_ASKED[types[column.name].partition("(")[0]].format(_quoted(column.name)) for column in columns]
        return ", ".join(asked) or "'1'"

    def identity(self, table: Table) -> tuple[str, ...]:
        """The server, the database and the table, by their names."""
        return ("sqlserver", self._session.server, self._session.database, *self._place(table))

    def _selected(self, table: Table, types: dict[str, str], columns: Sequence[Column]) -> Any:
        asked = f"SELECT {self._asked(types, columns)} FROM {_named(*self._place(table))}"  # noqa: S608 - names that are checked and quoted
        return self._session.rows(asked + self._of_period(table, types))

    def _of_period(self, table: Table, types: dict[str, str]) -> str:
        """What only rows of the period are, where the server can tell: ``rows.in_period`` has the last word."""
        time = table.time
        if time is None or types[time.column] not in ("date", "datetime", "datetime2", "smalldatetime"):
            return ""
        name = f"CAST({_quoted(time.column)} AS date)"
        return f" WHERE {name} >= '{time.start:%Y%m%d}' AND {name} < '{time.end:%Y%m%d}'"

    @staticmethod
    def _array(values: Sequence[Any], stored: str, repeated: bool) -> Any:
        """By their texts; half of a pair of surrogates stays what it is: bytes that are no text."""
        kind, _, scale = stored.partition("(")
        if kind in _TEXTS:
            texts = pa.array([None if each is None else _text(bytes(each)) for each in values], pa.binary())
            return texts.dictionary_encode() if repeated else texts
        if kind in _MOMENTS:  # to the microsecond: seven digits are cut to six
            texts = pa.array([None if each is None else each[:26] for each in values], pa.string())
            return typed(Column(name="x", type="timestamp"), texts).cast(pa.timestamp("us"))
        texts = pa.array(values, pa.string())
        if kind in ("float", "real"):
            return texts.cast(pa.float64())
        if kind in _SCALED and scale != "0)":
            return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
        return typed(Column(name="x", type="date"), texts).cast(pa.date32()) if kind == "date" else texts


def _quoted(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


def _named(schema: str, table: str) -> str:
    return f"{_quoted(schema)}.{_quoted(table)}"


def _text(units: bytes) -> bytes:
    return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")
