"""Databases that are servers: how a session begins, what its errors become, and tables that are read by a cursor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import database_of, require_columns, told
from dprelease.engines.databases.row_sums import HashedHere
from dprelease.errors import DpReleaseError, EngineError, MissingExtra, TableMismatch

__all__ = [
    "WAIT",
    "CursorSnapshot",
    "ServerSession",
    "ServerUrl",
    "failed",
    "loopback",
    "no_driver",
    "not_for_reading",
    "unreadable",
]

Result = TypeVar("Result")
WAIT = 10
"""Seconds that a server may take to answer a first call."""
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1", re.IGNORECASE)
_ROWS = 1 << 14


def no_driver(missing: str, needs: str, extra: str, code: str) -> MissingExtra:
    """The error where the package that speaks with a server is not installed.

    Args:
        missing: What is not there, and the verb.
        needs: Whose rows need it, and the verb.
        extra: What installs it.
        code: Of the error.
    """
    return MissingExtra(
        f"{missing} not installed: rows of {needs}", hint=f'pip install "dprelease[{extra}]"', code=code
    )


def loopback(host: str) -> bool:
    """Whether what is said to a host does not leave this machine."""
    return _LOOPBACK.fullmatch(host) is not None


def unreadable(why: str, hint: str, code: str) -> EngineError:
    """The error for a server, or a user of it, by which rows could be missing, or by which too much is open."""
    return EngineError(f"the rows of this database cannot be read: {why}", hint=hint, code=code)


def failed(doing: str, name: str, *, closed: bool = False, full: bool = False, what: str = "table") -> EngineError:
    """The error for what is no trouble with the connection, without a word of the driver's.

    Args:
        doing: What was under way, in public words.
        name: Of the driver's error.
        closed: Whether the user may not read what the spec names.
        full: Whether the disk or the memory of the server is.
        what: May have changed, where it is something else.
    """
    if closed:
        hint = "ask the owner of the database for SELECT on the columns that the spec names"
        says = f"{doing}: the user of the database has no right to all that is read ({name})"
        return EngineError(says, hint=hint, code="DPR-E335")
    if full:
        hint = "ask whoever runs the server; nothing was drawn from what was read of it"
        says = f"{doing}: the disk or memory of the server is full or failing ({name})"
        return EngineError(says, hint=hint, code="DPR-E122")
    hint = f"check that {what} and server are as they were when it last worked; `dprelease validate` compares them"
    return EngineError(f"{doing}: failed ({name}); the driver's own words are withheld", hint=hint, code="DPR-E121")


def not_for_reading(table: Table, kind: str, state: str) -> TableMismatch:
    """The error for a view or a query of a kind of database whose state may not hold what these read.

    Args:
        table: The declaration.
        kind: Of the database, by its name.
        state: What an export is made in.
    """
    return TableMismatch(
        f"table {table.name!r}: of {kind} only tables themselves are read, no views and no queries",
        detail="what a view or a query reads could be a table that is in no state of the database",
        hint=f"name the table; or export what the query gives in one {state} to Parquet",
        code="DPR-E126",
    )


@dataclass(frozen=True)
class ServerUrl:
    """The parts of a URL; a password may be among them, and none is shown.

    Attributes:
        host: Empty where there is none.
        port: The usual one where there is none.
        database: What stands behind the host.
        options: What stands behind a question mark, by name.
        login: ``user`` and ``password``, where they are written.
    """

    host: str
    port: int
    database: str
    options: dict[str, str]
    login: dict[str, str]

    def __repr__(self) -> str:
        return "<ServerUrl>"

    @classmethod
    def of(cls, url: str, port: int) -> ServerUrl | None:
        """The parts of a URL; None where it is none, or names no database or more than one.

        Args:
            url: Of a database.
            port: The usual one.
        """
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
            port = parts.port or port
            database = unquote(parts.path.removeprefix("/"))
        except ValueError:  # its words quote the URL
            return None
        if not database or "/" in database:
            return None
        login = (("user", parts.username), ("password", parts.password))
        return cls(parts.hostname or "", port, database, options, {name: unquote(each) for name, each in login if each})


class ServerSession:
    """A connection with one state of a database: whoever cannot begin it closes it again.

    Args:
        doing: What is under way, in public words.
        connect: Gives the driver's connection.
        refused: The error for one of the driver's.

    Attributes:
        connection: The driver's connection.
    """

    def __init__(
        self, doing: str, connect: Callable[[], Any], refused: Callable[[str, Exception], DpReleaseError]
    ) -> None:
        self.connection = told(doing, connect, refused)
        try:
            told(doing, self._greet, refused)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"  # its parts have a password

    def _greet(self) -> None:
        """Make every setting of ours, refuse what could hide rows, and begin the state."""
        raise NotImplementedError

    def let_go(self, cursor: Any) -> None:
        """Close a cursor to its end, for the next question comes by the same connection; a lost one does not matter."""
        with suppress(Exception):  # what was read is read, and what failed was told
            cursor.close()

    def close(self) -> None:
        """End the transaction with the connection."""
        self.connection.close()


class CursorSnapshot(HashedHere):
    """A ``Snapshot`` of a server of which tables are read by one connection, and rows by a cursor.

    Args:
        session: The connection; it is closed with the snapshot.
        refused: The error for one of the driver's.
    """

    def __init__(self, session: ServerSession, refused: Callable[[str, Exception], DpReleaseError]) -> None:
        self._begun = session
        self._refused = refused
        self._known: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _told(self, table: Table, what: str, action: Callable[[], Result]) -> Result:
        return told(f"table {table.name!r}, {what}", action, self._refused)

    def describe(self, table: Table) -> None:
        """Check table, columns and rights."""
        self._types(table)

    def columns(self, table: Table) -> dict[str, str]:
        """The columns by the server's catalog."""
        return dict(self._types(table))

    def _types(self, table: Table) -> dict[str, str]:
        """What the columns are stored as; checked once in this state."""
        place = table.fingerprint()
        if place not in self._known:
            self._known[place] = self._told(table, "describing it", lambda: self._checked(table))
        return self._known[place]

    def _place(self, table: Table) -> tuple[str, str]:
        source = database_of(table)
        return source.in_schema or self._usual_schema(), source.table or ""

    def blocks(self, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
        """The stored values, block by block."""
        types = self._types(table)
        require_columns(table, [*types], columns)
        tell = partial(self._told, table, "reading it")
        cursor = tell(lambda: self._selected(table, types, columns))
        stored = [types[column.name] for column in columns] or [""]
        repeated = [bool(column.keys) for column in columns] or [False]

        def read() -> Iterator[list[Any]]:
            try:
                while rows := tell(lambda: cursor.fetchmany(_ROWS)):
                    every = zip(zip(*rows, strict=True), stored, repeated, strict=True)
                    yield [self._array(values, kind, few) for values, kind, few in every]
            finally:
                self._begun.let_go(cursor)

        return read()

    def _usual_schema(self) -> str:
        """Where a table is that names no schema."""
        raise NotImplementedError

    def _checked(self, table: Table) -> dict[str, str]:
        """What the columns of a table are stored as, after it was checked that it can be read as a whole."""
        raise NotImplementedError

    def _selected(self, table: Table, types: dict[str, str], columns: Sequence[Column]) -> Any:
        """A cursor over some columns of the rows of the period; over something of each row where there are none."""
        raise NotImplementedError

    @staticmethod
    def _array(values: Sequence[Any], stored: str, repeated: bool) -> Any:
        """Values of one column as they come from the cursor.

        Args:
            values: Of as many rows.
            stored: The type of the column; empty: of no column.
            repeated: Whether few values stand in many rows.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End the transaction with the connection."""
        self._begun.close()
