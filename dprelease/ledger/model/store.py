"""What a store of a ledger is: transactions over tables, and a lock for each release. The rules stand in `Ledger`.

Every statement is written once, in SQL that SQLite and PostgreSQL both understand, with ``?`` for a value.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Protocol, Self

from dprelease.canonical import Value, sha256
from dprelease.ledger.model.process import utc_text

__all__ = ["Holder", "Lock", "Store", "Transaction", "row_identity"]


class Holder(Value):
    """Who holds the lock of a release.

    Attributes:
        release: Name of the release; empty where a lock file does not say it.
        period: Its period.
        host: Where the holder runs.
        process: Its process id there.
        since: When it took the lock, UTC.
        doing: What it does.
        alive: False where it is known to be gone: the lock is then free.
    """

    release: str
    period: str
    host: str
    process: int
    since: str
    doing: str
    alive: bool


class Transaction(Protocol):
    """One transaction on the tables of a ledger."""

    @property
    def fresh(self) -> bool:
        """Whether this is the first transaction on its connection: what is there has not been looked at yet."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; the rows that it returns, none for a write.

        Bytes come back as ``bytes``. A driver's error leaves as it is: the transaction's end translates it.
        """

    def forget_secret(self, reservation: int) -> None:
        """Remove the key of a reservation that has ended: the one row that a ledger ever loses."""


class Lock(ABC):
    """Held while a release is planned, measured and published; taking it never waits.

    Exactly-once does not rest on this lock but on the ledger's keys; the lock keeps two runs from doing the same work,
    and a reservation from being given back under a run.

    Args:
        release: Name of the release.
        period: Its period.
        doing: What the holder is doing, in a word that a loser is told.
        clock: Tells the time in UTC.
    """

    def __init__(self, release: str, period: str, doing: str, clock: Callable[[], datetime]) -> None:
        self._release, self._period, self._doing, self._clock = release, period, doing, clock

    @abstractmethod
    def acquire(self) -> None:
        """Take the lock.

        Raises:
            Locked: Somebody holds it; says who, where, since when and doing what.
            LedgerError: The lock file, or the server, cannot be used.
        """

    @abstractmethod
    def release(self) -> None:
        """Free it; again does nothing."""

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _description(self) -> dict[str, Any]:
        """What others are told of the holder: the fields of a `Holder`."""
        return {
            "release": self._release,
            "period": self._period,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "since": utc_text(self._clock()),
            "doing": self._doing,
        }


class Store(Protocol):
    """Where the tables of a ledger are. Safe to use from several threads; a forked child connects anew.

    Every method may raise ``Locked`` (busy), ``Corrupt`` (what is there is no ledger, or is damaged) and
    ``LedgerError`` (the place cannot be used, and why).
    """

    @property
    def place(self) -> str:
        """Where it is, canonical and without a password: ``sqlite:/srv/ledger.db``, ``postgresql:host:5432/name``."""

    @property
    def server(self) -> str:
        """What the server's data are called until they are restored or fail over; empty: nobody can tell, or a file."""

    def reading(self) -> AbstractContextManager[Transaction | None]:
        """One snapshot; None where there is no ledger yet."""

    def writing(self, *, make: bool = False) -> AbstractContextManager[Transaction | None]:
        """One transaction, alone among all writers; durable when the context ends, rolled back by an error.

        Args:
            make: Create the ledger where there is none; otherwise None is handed out there.
        """

    def lock(self, release: str, period: str, doing: str, clock: Callable[[], datetime]) -> Lock:
        """The lock of a release; not taken yet."""

    def holders(self) -> tuple[Holder, ...]:
        """The locks that are described, held or left behind."""

    def break_lock(self, holder: Holder) -> None:
        """End the process or session that holds a lock, or remove the words that a dead one left.

        Raises:
            LedgerError: If it cannot be done from here, such as a process on another host.
        """

    def findings(self) -> list[str]:
        """What the database's own checks and a comparison of its tables and rules with fresh ones find."""

    def after_close(self) -> None:
        """Called when a release is closed: a good moment to fold in a long log. Best effort."""

    def disconnect(self) -> None:
        """Close idle connections; the store stays usable."""

    @property
    def folder(self) -> Path | None:
        """The folder that contains the ledger file, or None for a database server."""


def row_identity(*names: str) -> str:
    """A second key of a row, made of its first one: a damaged byte can hide a row from one of them, not from both."""
    return sha256(f"[{','.join(map(encode_basestring, names))}]".encode())[:32]  # of canonical JSON
