"""The ledger in one SQLite file: for one host, any number of processes and threads."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dprelease.ledger.ledger import Ledger
from dprelease.ledger.model.process import this_process, utc_now, utc_text
from dprelease.ledger.model.store import Holder
from dprelease.ledger.stores import sqlite_schema
from dprelease.ledger.stores.file_lock import ReleaseLock, break_lock, holders, turn
from dprelease.ledger.stores.sqlite_connect import Connections
from dprelease.ledger.tables.write import record_migration

__all__ = ["SQLiteLedger", "SQLiteStore"]

_PATIENCE = 30.0  # seconds that a writer stands in line before it tries out of turn, as whoever knows of no line does


@dataclass(frozen=True)
class _Rows:
    """One transaction; see `Rows`."""

    connection: sqlite3.Connection
    fresh: bool = False

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            if "decode" not in str(error):
                raise
        # Bytes that are no text must reach the check of the hashes, which names the entry that they are in.
        self.connection.text_factory = lambda data: data.decode("utf-8", "replace")
        return self.connection.execute(sql, values).fetchall()

    def forget_secret(self, reservation: int) -> None:
        """Remove the key of a reservation."""
        self.connection.execute("DELETE FROM secrets WHERE reservation = ?", (reservation,))


class SQLiteStore:
    """A `Store` in a file that is created on the first reservation, readable by its owner alone.

    Write-ahead log, every commit synced to the disk, every write in one immediate transaction.

    Args:
        path: The file; its folder is created where it is missing.
        clock: Tells the time for the record.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(os.path.realpath(path))
        self._clock = clock
        self._connections = Connections(self.path, self._migrate)

    @property
    def place(self) -> str:
        """Its absolute path, links resolved."""
        return f"sqlite:{self.path}"

    @property
    def folder(self) -> Path:
        """Where it is; the lock files of its releases are there as well."""
        return self.path.parent

    @property
    def server(self) -> str:
        """Empty: a file says nothing of having been put back."""
        return ""

    @contextmanager
    def reading(self) -> Iterator[_Rows | None]:
        """One snapshot."""
        with self._connections.use() as found:
            if found is None:
                yield None
                return
            connection, fresh = found
            connection.execute("BEGIN")
            yield _Rows(connection, fresh)
            connection.execute("COMMIT")

    @contextmanager
    def writing(self, *, make: bool = False) -> Iterator[_Rows | None]:
        """One immediate transaction."""
        with self._connections.use(make=make) as found:
            if found is None:
                yield None
                return
            connection, fresh = found
            with turn(self.folder, _PATIENCE):
                connection.execute("BEGIN IMMEDIATE")
                yield _Rows(connection, fresh)
                connection.execute("COMMIT")

    def lock(self, release: str, period: str, doing: str, clock: Callable[[], datetime]) -> ReleaseLock:
        """A lock file beside the ledger."""
        return ReleaseLock(self.folder, release, period, doing, clock)

    def holders(self) -> tuple[Holder, ...]:
        """The lock files that are described."""
        return holders(self.folder)

    def break_lock(self, holder: Holder) -> None:
        """End the process that holds a lock on this host."""
        break_lock(self.folder, holder)

    def findings(self) -> list[str]:
        """What SQLite's own checks and a comparison of the schema find."""
        with self._connections.use() as found:
            return _findings(found[0]) if found else []

    def after_close(self) -> None:
        """Fold the write-ahead log in: a long one that is damaged loses its tail without a word."""
        # Best effort: while somebody reads, the log simply stays.
        with self._connections.use() as found:
            if found is not None:
                connection = found[0]
                timeout = connection.execute("PRAGMA busy_timeout").fetchone()[0]
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute(f"PRAGMA busy_timeout = {int(timeout)}")

    def disconnect(self) -> None:
        """Close idle connections."""
        self._connections.disconnect()

    def _migrate(self, connection: sqlite3.Connection) -> None:
        at, by = utc_text(self._clock()), this_process("migration")
        sqlite_schema.migrate(connection, lambda found: record_migration(_Rows(connection), found, self.place, at, by))


class SQLiteLedger(Ledger):
    """A `Ledger` in a SQLite file.

    Args:
        path: The file.
        anchors: Files, elsewhere, that its head is written to.
        clock: Tells the time for the record; never used for order.
    """

    def __init__(self, path: Path, anchors: Sequence[Path] = (), clock: Callable[[], datetime] = utc_now) -> None:
        super().__init__(SQLiteStore(path, clock), anchors, clock)
        self.path = Path(os.path.realpath(path))


def _findings(connection: sqlite3.Connection) -> list[str]:
    wrong = [f"the file is damaged: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    wrong += [
        f"row {row[1]} of {row[0]} points at a row of {row[2]} that is missing"
        for row in connection.execute("PRAGMA foreign_key_check")
    ]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        sqlite_schema.create(fresh)
        expected, actual = sqlite_schema.objects(fresh), sqlite_schema.objects(connection)
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            wrong.append(f"`{name}` of the database is missing or is not as dprelease makes it")
    return wrong
