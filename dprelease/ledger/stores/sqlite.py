"""The ledger in one SQLite file: for one host, any number of processes and threads.

Connections are made safely, used by one thread at a time, and never held between calls.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dprelease.errors import BrokenPromiseError, Corrupt, DpReleaseError, LedgerError, Locked
from dprelease.ledger.model.entry import RESTORE
from dprelease.ledger.model.process import cannot_use, make_folder, require_owner, this_process, utc_now, utc_text
from dprelease.ledger.model.store import Holder
from dprelease.ledger.stores import sqlite_schema
from dprelease.ledger.stores.file_lock import ReleaseLock, break_lock, file_holders, turn
from dprelease.ledger.stores.sqlite_schema import APPLICATION, VERSION, create_tables
from dprelease.ledger.tables.write import record_migration
from dprelease.regular import sync_folder

__all__ = ["SQLiteStore", "sqlite_error"]

_PATIENCE = 30.0  # seconds that a writer stands in line before it tries out of turn, as whoever knows of no line does
_BUSY_SECONDS = 60.0


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
        self._connections = _Connections(self.path, self._migrate)

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
        with self._connections.use() as used:
            if used is None:
                yield None
                return
            connection, fresh = used
            connection.execute("BEGIN")
            yield _Rows(connection, fresh)
            connection.execute("COMMIT")

    @contextmanager
    def writing(self, *, make: bool = False) -> Iterator[_Rows | None]:
        """One immediate transaction."""
        with self._connections.use(make=make) as used:
            if used is None:
                yield None
                return
            connection, fresh = used
            with turn(self.folder, _PATIENCE):
                connection.execute("BEGIN IMMEDIATE")
                yield _Rows(connection, fresh)
                connection.execute("COMMIT")

    def lock(self, release: str, period: str, doing: str, clock: Callable[[], datetime]) -> ReleaseLock:
        """A lock file beside the ledger."""
        return ReleaseLock(self.folder, release, period, doing, clock)

    def holders(self) -> tuple[Holder, ...]:
        """The lock files that are described."""
        return file_holders(self.folder)

    def break_lock(self, holder: Holder) -> None:
        """End the process that holds a lock on this host."""
        break_lock(self.folder, holder)

    def findings(self) -> list[str]:
        """What SQLite's own checks and a comparison of the schema find."""
        with self._connections.use() as used:
            return _findings(used[0]) if used else []

    def after_close(self) -> None:
        """Fold the write-ahead log in: a long one that is damaged loses its tail without a word."""
        # Best effort: while somebody reads, the log simply stays.
        with self._connections.use() as used:
            if used is not None:
                connection = used[0]
                timeout = connection.execute("PRAGMA busy_timeout").fetchone()[0]
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute(f"PRAGMA busy_timeout = {int(timeout)}")

    def disconnect(self) -> None:
        """Close idle connections."""
        self._connections.disconnect()

    def _migrate(self, connection: sqlite3.Connection) -> None:
        at, by = utc_text(self._clock()), this_process("migration")
        sqlite_schema.migrate(
            connection, lambda version: record_migration(_Rows(connection), version, self.place, at, by)
        )


def _findings(connection: sqlite3.Connection) -> list[str]:
    wrong = [f"the file is damaged: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    wrong += [
        f"row {row[1]} of {row[0]} points at a row of {row[2]} that is missing"
        for row in connection.execute("PRAGMA foreign_key_check")
    ]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        sqlite_schema.create_tables(fresh)
        expected, actual = sqlite_schema.objects(fresh), sqlite_schema.objects(connection)
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            wrong.append(f"`{name}` of the database is missing or is not as dprelease makes it")
    return wrong


def sqlite_error(error: sqlite3.Error, path: Path) -> DpReleaseError:
    """The error of ours for one of SQLite's; the ledger holds no exact value, so its words may be kept."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Locked(
            f"the ledger {path} is busy with another process",
            hint="try again; if it stays busy, see who holds it with `fuser`",
            code="DPR-L201",
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return Corrupt(f"the ledger {path} is damaged or is not a ledger ({name})", hint=RESTORE)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return cannot_use(path, f"it cannot be opened for writing ({name})")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return cannot_use(path, f"its disk is full or failing ({name})")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return BrokenPromiseError(
            f"the ledger refused a write: {error}",
            hint="nothing was written; please report this",
            code="DPR-L905",
        )
    return LedgerError(f"the ledger {path} failed: {name}", hint="run `dprelease ledger check`", code="DPR-L142")


def _disconnect(idle: list[sqlite3.Connection], process: int) -> None:
    if os.getpid() == process:  # a forked child must not touch its parent's connections
        while idle:
            idle.pop().close()


class _Connections:
    """A pool for one file.

    A connection serves one thread at a time, and goes back when the call ends, so that none is open across a
    draw. It is dropped when the file at the path is no longer the one that it opened, when a call failed, and
    in a forked child.

    Args:
        path: Absolute path of the database.
        migrate: Brings the tables of an older version to this one; called with a new connection.
    """

    def __init__(self, path: Path, migrate: Callable[[sqlite3.Connection], None]) -> None:
        self.path = path
        self._migrate = migrate
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[list[sqlite3.Connection]] = []
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        weakref.finalize(self, _disconnect, self._idle, self._process)

    @contextmanager
    def use(self, *, make: bool = False) -> Iterator[tuple[sqlite3.Connection, bool] | None]:
        """A connection for one call, and whether it is a new one; None where there is no file and ``make`` is false.

        Raises:
            LedgerError: The place cannot be used, or the file is from a newer version.
            Corrupt: The file is not a ledger, is damaged, or has disappeared.
            Locked: Another process kept it busy for a minute.
        """
        if not self._there(make):
            yield None
            return
        connection = None
        try:
            connection, fresh = self._take()
            yield connection, fresh
            if connection.in_transaction:
                raise BrokenPromiseError("a ledger transaction was left open", code="DPR-L906")
        except sqlite3.Error as error:
            self._drop(connection)
            raise sqlite_error(error, self.path) from error
        except UnicodeDecodeError:  # SQLite's own message, which quotes bytes of a damaged page
            self._drop(connection)
            raise Corrupt(f"the ledger {self.path} is damaged", hint=RESTORE) from None
        except BaseException:
            self._drop(connection)
            raise
        self._idle.append(connection)

    def disconnect(self) -> None:
        """Close the idle connections."""
        _disconnect(self._idle, self._process)

    def _there(self, make: bool) -> bool:
        facts = require_owner(self.path)
        if facts is None and self._file is not None:
            raise Corrupt(f"the ledger {self.path} has disappeared", hint=RESTORE, code="DPR-L305")
        if facts is None and make:
            self._make()
            facts = require_owner(self.path)
        if facts is None:
            return False
        if self._process != os.getpid():
            self._inherited.append(self._idle)
            self._idle, self._process = [], os.getpid()
            weakref.finalize(self, _disconnect, self._idle, self._process)
        if self._file != (facts.st_dev, facts.st_ino):
            self.disconnect()
            self._file = (facts.st_dev, facts.st_ino)
        return True

    def _take(self) -> tuple[sqlite3.Connection, bool]:
        try:
            return self._idle.pop(), False
        except IndexError:
            pass
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            for pragma in ("synchronous = FULL", "fullfsync = ON", "foreign_keys = ON", "secure_delete = ON"):
                connection.execute(f"PRAGMA {pragma}")
            self._require_ours(connection)
        except BaseException:
            connection.close()
            raise
        return connection, True

    def _require_ours(self, connection: sqlite3.Connection) -> None:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION or version < 1:
            raise Corrupt(
                f"{self.path} is not a ledger of dprelease",
                hint="point `ledger:` in dprelease.yaml at another file",
                code="DPR-L301",
            )
        if version > VERSION:
            raise LedgerError(
                f"the ledger {self.path} is from a newer dprelease: schema {version}, and this one reads {VERSION}",
                hint="pip install --upgrade dprelease",
                code="DPR-L141",
            )
        if version < VERSION:
            self._migrate(connection)

    def _drop(self, connection: sqlite3.Connection | None) -> None:
        if connection is not None:
            connection.close()  # rolls back what was not committed

    def _require_no_log(self) -> None:
        # SQLite would play an old log into the new file, whatever it is of.
        log = self.path.with_name(f"{self.path.name}-wal")
        if log.exists() and not self.path.exists():
            raise Corrupt(
                f"the ledger {self.path} is gone, and its log {log.name} is still there",
                hint=f"put both back from the same backup; or set {log.name} aside, and {RESTORE}",
                code="DPR-L305",
            )

    def _make(self) -> None:
        # Built whole under another name and linked into place: no process ever sees half a ledger, and of two
        # that start at once one wins. A file that exists already is never replaced.
        make_folder(self.path.parent)
        self._require_no_log()
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.", suffix=".new")
            os.close(handle)
            try:
                with closing(sqlite3.connect(name, isolation_level=None)) as connection:
                    create_tables(connection)
                    connection.execute("PRAGMA journal_mode = WAL")
                os.link(name, self.path)
            except FileExistsError:
                pass
            finally:
                os.unlink(name)
            sync_folder(self.path.parent)
        except OSError as error:
            raise cannot_use(self.path, str(error.strerror)) from error
        except sqlite3.Error as error:
            raise sqlite_error(error, self.path) from error
