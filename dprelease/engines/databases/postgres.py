"""PostgreSQL: tables read as Arrow by one read-only state, whole or not at all.

What is read are the columns that a spec names and nothing else, each under an expression of ours. Names become part of
a statement through the driver's own quoting, and nothing of a spec stands in one as text: in no statement is a value or
a key, so that the server's log and statistics hold none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import (
    RowSums,
    database_of,
    no_table,
    require_columns,
    require_readable_types,
    require_view,
    told,
)
from dprelease.engines.databases.postgres_session import Leader, sql  # which tells that the driver is missing
from dprelease.engines.databases.postgres_types import is_day, is_read, selected
from dprelease.engines.databases.query_text import query_text
from dprelease.engines.files.source import stored_columns
from dprelease.errors import EngineError, TableMismatch

__all__ = ["PostgresSnapshot"]

Result = TypeVar("Result")
_SCHEMA = "public"
_BLOCK = 1 << 22  # bytes on their way
# Seeds of two hashes of a row's text: no secrets, for what is made of the sums is keyed.
_SEEDS = (7207164311, 4038451929)

_RELATION = """
SELECT c.oid::int8, c.relkind::text, c.relhassubclass, row_security_active(c.oid),
    has_schema_privilege(n.oid, 'USAGE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s"""
_NAMES = """
SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_table_privilege(c.oid, 'SELECT')"""
# What a table is made of: its partitions, and what a view reads, at any depth.
_PARTS = """
WITH RECURSIVE part AS (
    SELECT %s::oid AS oid
    UNION SELECT below.oid FROM part JOIN (
        SELECT inhparent AS above, inhrelid AS oid FROM pg_inherits
        UNION SELECT w.ev_class, d.refobjid FROM pg_rewrite AS w JOIN pg_depend AS d
            ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
    ) AS below ON below.above = part.oid)
SELECT count(*) FROM part JOIN pg_class AS c ON c.oid = part.oid WHERE c.relkind = 'f'"""
_HEIRS = "SELECT 1 FROM pg_inherits WHERE inhparent = %s::oid LIMIT 1"
_COLUMNS = """
SELECT a.attname::text, a.atttypid::int8, has_column_privilege(a.attrelid, a.attnum, 'SELECT')
FROM pg_attribute AS a WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
# A domain is read as what it is made of; an enumeration as the text of its labels.
_TYPES = """
WITH RECURSIVE made AS (
    SELECT oid AS of, oid, typname, typtype, typbasetype, typnamespace FROM pg_type WHERE oid = ANY(%s::oid[])
    UNION ALL
    SELECT made.of, t.oid, t.typname, t.typtype, t.typbasetype, t.typnamespace
    FROM made JOIN pg_type AS t ON made.typtype = 'd' AND t.oid = made.typbasetype)
SELECT of::int8, CASE WHEN typtype = 'e' THEN 'enum'
    WHEN typnamespace = 'pg_catalog'::regnamespace OR typname = 'citext' THEN typname::text
    ELSE format_type(oid, NULL) END
FROM made WHERE typtype <> 'd'"""


class _Relation:
    """What a table of a spec turned out to be.

    Attributes:
        rows: What stands behind FROM.
        identity: Which of the database it is.
        types: The types of its columns.
    """

    def __init__(self, rows: sql.Composable, identity: str, types: dict[str, str]) -> None:
        self.rows, self.identity, self.types = rows, identity, types


class PostgresSnapshot:
    """A ``Snapshot`` of a PostgreSQL database.

    Args:
        url: ``postgresql://...``, as libpq reads it.
        folder: What the file of a query is relative to.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self._leader = Leader(url)
        self._relations: dict[str, _Relation] = {}

    def __repr__(self) -> str:
        return "<PostgresSnapshot>"

    def _told(self, table: Table, what: str, action: Callable[[], Result]) -> Result:
        return told(f"table {table.name!r}, {what}", action, self._leader.refused)

    def describe(self, table: Table) -> None:
        """Check table, columns and rights."""
        self._relation(table)

    def columns(self, table: Table) -> dict[str, str]:
        """The columns by the server's catalog."""
        return dict(self._relation(table).types)

    def _relation(self, table: Table) -> _Relation:
        """The relation, checked once in this state."""
        place = table.fingerprint()
        if place not in self._relations:
            self._relations[place] = self._told(table, "describing it", lambda: self._checked(table))
        return self._relations[place]

    def _checked(self, table: Table) -> _Relation:
        source = database_of(table)
        if source.query is not None:
            rows: sql.Composable = _Text(f"({query_text(table, self._folder)}\n) AS dprelease_rows")
            identity, columns = source.query_sha256 or "", self._described(rows)
        else:
            schema = source.in_schema or _SCHEMA
            number = self._table(table, schema)
            rows, identity = sql.Identifier(schema, source.table or ""), str(number)
            columns = {name: type_ for name, type_, _ in self._own(table, number)}
        require_columns(table, [*columns])
        known = dict(self._leader.ask(_TYPES, ([*columns.values()],)))
        types = {name: known[number] for name, number in columns.items()}
        require_readable_types(table, types, is_read)
        found = _Relation(rows, identity, types)
        self._leader.ask(sql.SQL("SELECT {} LIMIT 0").format(self._asked(table, found, stored_columns(table))))
        return found

    def _table(self, table: Table, schema: str) -> int:
        """The number of a table, after it was checked that it can be read as a whole."""
        wanted = database_of(table).table or ""
        found = self._leader.ask(_RELATION, (schema, wanted))
        if not found or not found[0][4] or found[0][1] not in "rpvmf":
            raise no_table(table, schema, [name for (name,) in self._leader.ask(_NAMES, (schema,))])
        number, kind, has_children, secured, _ = found[0]
        require_view(table, is_view=kind in "vm")
        if secured:
            raise EngineError(
                f"table {table.name!r}: a row security policy of {wanted!r} hides rows from this role",
                hint="ask its owner for a role that sees every row (BYPASSRLS), or for a table that holds what may be "
                "released",
                code="DPR-E331",
            )
        if self._leader.ask(_PARTS, (number,))[0][0]:
            raise TableMismatch(
                f"table {table.name!r}: {wanted!r} has rows in a foreign table, which belong to no state of this "
                "database",
                hint="copy them into a table of its own, or read them where they are",
                code="DPR-E333",
            )
        if kind == "r" and has_children and self._leader.ask(_HEIRS, (number,)):
            raise TableMismatch(
                f"table {table.name!r}: other tables inherit from {wanted!r}, and nobody says whether their rows count",
                hint="name a view of the rows that are meant, with `view: true`",
                code="DPR-E338",
            )
        return int(number)

    def _own(self, table: Table, number: int) -> list[tuple[str, int, bool]]:
        """The columns of a table, of which those that are read may be."""
        columns = self._leader.ask(_COLUMNS, (number,))
        wanted = {column.name for column in stored_columns(table)}
        closed = [name for name, _, allowed in columns if name in wanted and not allowed]
        if closed:
            raise EngineError(
                f"table {table.name!r}: the role of the database may not read its column"
                f"{'s' * (len(closed) > 1)} {', '.join(map(repr, closed))}",
                hint="ask the owner of the database for SELECT on them",
                code="DPR-E335",
            )
        return columns

    def _described(self, rows: sql.Composable) -> dict[str, int]:
        """The columns of a query."""
        cursor = self._leader.connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(rows), binary=True)
        names = [column.name for column in cursor.description or ()]
        numbers = [column.type_code for column in cursor.description or ()]
        return dict(zip(names, numbers, strict=True))

    def _asked(self, table: Table, found: _Relation, columns: Sequence[Column]) -> sql.Composed:
        """The typed columns of the rows of the period, without the word SELECT before them."""
        listed = [selected(column.name, found.types[column.name]) for column in columns]
        named = [sql.SQL("{} AS {}").format(each, sql.Identifier(f"c{at}")) for at, each in enumerate(listed)]
        wanted = self._of_period(table, found)
        return sql.SQL("{} FROM {}{}").format(
            sql.SQL(", ").join(named or [sql.SQL("NULL::bool AS c0").format()]),
            found.rows,
            sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(wanted)) if wanted else sql.SQL(""),
        )

    def _of_period(self, table: Table, found: _Relation) -> list[sql.Composed]:
        """What only rows of the period are, where the server can tell: ``rows.in_period`` has the last word."""
        time = table.time
        day = None if time is None else is_day(time.column, found.types[time.column])
        if time is None or day is None:
            return []
        limits = (sql.Literal(time.start.isoformat()), sql.Literal(time.end.isoformat()))
        return [sql.SQL("{0} >= {1}::date AND {0} < {2}::date").format(day, *limits)]

    def identity(self, table: Table) -> tuple[str, ...]:
        """The server's data, the database and the table, by their numbers; a query by its text."""
        leader = self._leader
        return ("postgresql", leader.system, str(leader.database), self._relation(table).identity)

    def sums(self, table: Table) -> RowSums:
        """Sums that the server works out over the text of every row, each text by its bytes."""
        found = self._relation(table)
        columns = sorted(stored_columns(table), key=lambda column: column.name)
        listed = sql.SQL(", ").join([sql.Identifier(f"c{at}") for at in range(len(columns))])
        query = sql.SQL(
            "SELECT count(*), coalesce(sum(hashtextextended(t, {})::numeric), 0)::text, "
            "coalesce(sum(hashtextextended(t, {})::numeric), 0)::text "
            'FROM (SELECT ROW({})::text COLLATE "C" AS t FROM (SELECT {}) AS typed) AS hashed'
        ).format(*map(sql.Literal, _SEEDS), listed, self._asked(table, found, columns))
        rows, low, high = self._told(table, "fingerprinting its rows", lambda: self._leader.ask(query)[0])
        types = {column.name: found.types[column.name] for column in columns}
        return RowSums(rows, (int(low), int(high)), f"postgresql {self._leader.version}", types)

    def blocks(self, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
        """The typed values, block by block."""
        found = self._relation(table)
        require_columns(table, [*found.types], columns)
        query = sql.SQL("SELECT {}").format(self._asked(table, found, columns))
        text = query.as_string(self._leader.connection)
        repeated = [bool(column.keys) for column in columns] or [False]
        return self._read(table, text, repeated)

    def _read(self, table: Table, text: str, repeated: Sequence[bool]) -> Iterator[list[Any]]:
        tell = partial(self._told, table, "reading it")
        connection = self._leader.reader()
        try:
            cursor = connection.cursor(adbc_stmt_kwargs={"adbc.postgresql.batch_size_hint_bytes": str(_BLOCK)})
            tell(lambda: cursor.execute(text))
            batches = tell(cursor.fetch_record_batch)
            while (batch := tell(lambda: next(batches, None))) is not None:
                yield [
                    array.dictionary_encode() if few and pa.types.is_string(array.type) else array
                    for array, few in zip(batch.columns, repeated, strict=True)
                ]
        finally:
            _closed(connection)

    def close(self) -> None:
        """End the transaction with the connection."""
        self._leader.close()


class _Text(sql.Composable):
    """The text of a query that the owner of the data has approved, as it is."""

    def as_bytes(self, context: Any = None) -> bytes:
        return str(self._obj).encode()


def _closed(connection: Any) -> None:
    """Let go of a connection that may be lost already."""
    with suppress(Exception):  # what was read is read, and what failed was told
        connection.close()
