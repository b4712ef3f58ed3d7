"""Rows of databases: opened once, hashed and read in one state, and let go of as soon as they are in memory.

A state is held from the first look at a table's rows until the last table that was looked at is loaded. While it is
held it is what a fingerprint says, and nothing has to be compared: who writes meanwhile writes a later state. Where it
was lost, or is needed again, another one is taken, and what it holds is compared before a row of it is handed on. A
table that is read a second time may not fit in memory, and is read in parts: from then on its state is held to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dprelease.catalog.source import DATABASE_SCHEMES, EXPORT
from dprelease.catalog.table import Column, Table
from dprelease.catalog.urls import in_place
from dprelease.engines.databases.base import Snapshot, database_of
from dprelease.engines.databases.digests import digests_of
from dprelease.errors import EngineError, Unavailable, Unsupported

__all__ = ["DATABASES", "DatabaseReader"]


def _postgres(url: str, folder: Path) -> Snapshot:
    from dprelease.engines.databases.postgres import PostgresSnapshot  # a driver that not every installation has

    return PostgresSnapshot(url, folder)


def _mysql(url: str, folder: Path) -> Snapshot:
    from dprelease.engines.databases.mysql import MySQLSnapshot  # as above

    return MySQLSnapshot(url, folder)


def _sqlserver(url: str, folder: Path) -> Snapshot:
    from dprelease.engines.databases.sqlserver import SQLServerSnapshot  # as above

    return SQLServerSnapshot(url, folder)


def _sqlite(url: str, folder: Path) -> Snapshot:
    from dprelease.engines.databases.sqlite import SQLiteSnapshot  # every release would wait for what it loads

    return SQLiteSnapshot(url, folder)


def _duckdb(url: str, folder: Path) -> Snapshot:
    from dprelease.engines.databases.duckdb_file import DuckDBSnapshot  # as above

    return DuckDBSnapshot(url, folder)


DATABASES: dict[str, Callable[[str, Path], Snapshot]] = {
    "postgresql": _postgres,
    "mysql": _mysql,
    "sqlserver": _sqlserver,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}
"""What opens a database of each kind of ``DATABASE_SCHEMES``, at a URL that may be relative to a folder."""
_UNTRIED = {"sqlserver": "tests/conformance/test_database_sqlserver.py"}
"""Kinds of which this project has no server, and what a site runs before it says that its own is read rightly."""
_TRIED = "DPRELEASE_TRIED_DATABASES"


class DatabaseReader:
    """A ``SourceReader`` of tables in databases (``dprelease.engines.readers``).

    Args:
        folder: What the path of a file is relative to.
        environment: What ``${env:NAME}`` in ``source.database`` may name.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._held: dict[str, Snapshot] = {}
        self._waiting: dict[str, set[str]] = {}  # tables that were hashed in a state that is held, and not yet loaded
        self._seen: dict[tuple[str, bytes], tuple[str, ...]] = {}
        self._loaded: set[str] = set()
        self._begun: set[str] = set()  # tables whose rows were asked for

    def __repr__(self) -> str:
        return "<DatabaseReader>"  # the key is inside, and URLs with passwords

    def describe(self, table: Table) -> None:
        """Check the table and the columns in it."""
        with self._state(table) as snapshot:
            snapshot.describe(table)

    def columns(self, table: Table) -> dict[str, str]:
        """All columns of the table that may be seen, declared or not, and the types they are stored with."""
        with self._state(table) as snapshot:
            return snapshot.columns(table)

    def present(self, table: Table) -> None:
        """Check that the table may be read."""
        self.describe(table)

    def known(self, table: Table, key: bytes) -> tuple[str, ...] | None:
        """The keyed hashes of the state that is held, or was loaded."""
        return self._seen.get((table.fingerprint(), key))

    def fingerprint(self, table: Table, key: bytes, *, loaded: bool) -> tuple[str, ...]:
        """The keyed hashes of the rows, and of which table they are in."""
        identity = table.fingerprint()
        if (known := self._seen.get((identity, key))) is not None:
            return known
        if loaded:  # nobody can tell any more what those rows were
            raise _written_to(table)
        with self._state(table) as snapshot:
            self._seen[identity, key] = digests_of(table, snapshot.sums(table), snapshot.identity(table), key)
            self._waiting.setdefault(self._url(table), set()).add(identity)
        return self._seen[identity, key]

    def blocks(
        self, table: Table, columns: Sequence[Column], show: Callable[[int, int], None] = lambda done, parts: None
    ) -> Iterator[list[Any]]:
        """The rows of the state that was hashed, or of one that has the same rows."""
        url, identity = self._url(table), table.fingerprint()
        again = identity in self._begun
        self._begun.add(identity)
        if identity not in self._waiting.get(url, ()):
            self._require_same(table)
        self._waiting.setdefault(url, set()).add(identity)
        with self._state(table) as snapshot:
            blocks = snapshot.blocks(table, columns)
        return self._handed_on(url, identity, blocks, show, again)

    def parts(self, table: Table, columns: Sequence[Column]) -> Sequence[Iterator[list[Any]]]:
        """All rows in one part: a state is read by one connection."""
        return [self.blocks(table, columns)]

    def _handed_on(
        self, url: str, identity: str, blocks: Iterator[list[Any]], show: Callable[[int, int], None], again: bool
    ) -> Iterator[list[Any]]:
        try:
            yield from blocks
        except Unavailable:
            self._lose(url)
            raise
        show(1, 1)
        self._loaded.add(identity)
        if not again:
            self._waiting[url].discard(identity)
            self._let_go(url)

    def _require_same(self, table: Table) -> None:
        """Before a table is read in another state than it was hashed in: its rows are the same."""
        for (identity, key), known in [*self._seen.items()]:
            if identity == table.fingerprint():
                with self._state(table) as snapshot:
                    if digests_of(table, snapshot.sums(table), snapshot.identity(table), key) != known:
                        raise _written_to(table)
                    self._waiting.setdefault(self._url(table), set()).add(identity)

    @contextmanager
    def _state(self, table: Table) -> Iterator[Snapshot]:
        """The state of its database that is held, or one of this moment; it is let go of where nobody waits for it."""
        url = self._url(table)
        if url not in self._held:
            self._held[url] = self._opened(url)
        try:
            yield self._held[url]
        except Unavailable:
            self._lose(url)
            raise
        finally:
            self._let_go(url)

    def _opened(self, url: str) -> Snapshot:
        for kind, scheme in DATABASE_SCHEMES.items():
            if scheme.takes(url):
                _require_tried(kind, self._environment)
                return DATABASES[kind](url, self._folder)
        raise Unsupported(
            "the variables of `source.database` give no place of a database that is read", hint=EXPORT, code="DPR-E220"
        )

    def _url(self, table: Table) -> str:
        """Where the database is; it may hold a password, and is never shown."""
        written = database_of(table).database
        try:
            return in_place(written, self._environment, DATABASE_SCHEMES.values())
        except KeyError as missing:
            name = missing.args[0]
        raise Unavailable(
            f"the environment variable {name} is not set; {written!r} needs it",
            hint=f"export {name}=... and run the same command again",
            code="DPR-E101",
        )

    def _lose(self, url: str) -> None:
        """A state is gone: what was hashed in it, and is not in memory, has to be hashed again."""
        lost = self._waiting.pop(url, set()) - self._loaded
        for place in [place for place in self._seen if place[0] in lost]:
            del self._seen[place]
        self._let_go(url)

    def _let_go(self, url: str) -> None:
        if url in self._held and not self._waiting.get(url):
            self._held.pop(url).close()

    def close(self) -> None:
        """Let go of every state."""
        self._waiting.clear()
        for url in [*self._held]:
            self._let_go(url)


def _require_tried(kind: str, environment: Mapping[str, str]) -> None:
    """Refuse a kind that was tried on no server, but where somebody says that it was tried on theirs.

    Raises:
        Unsupported: Nobody does (DPR-E131).
    """
    if kind in _UNTRIED and kind not in environment.get(_TRIED, "").replace(" ", "").split(","):
        raise Unsupported(
            f"rows of a database of the kind {kind} have been read on no server of this project",
            detail="whether theirs is one state, and whether every value means what it says, has to be tried on yours",
            hint=f"run {_UNTRIED[kind]} of the source distribution against a server of yours; where it passes, "
            f"`export {_TRIED}={kind}`. Or export the rows to Parquet",
            code="DPR-E131",
        )


def _written_to(table: Table) -> EngineError:
    return EngineError(
        f"table {table.name!r}: its rows were written to after they were read",
        detail="what was read last gets no answer, for it may belong to no state of the database",
        hint="run the same command again: it compares the rows with what was read first, and resumes",
        code="DPR-E105",
    )
