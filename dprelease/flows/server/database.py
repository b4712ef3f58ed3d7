"""Prefect's own database in a home: made once per version of Prefect, then copied, never two servers on one file.

Not an audit trail. It holds when which flow ran; what was measured and spent is in the ledger.

::

    home/prefect.db              history of the runs; held by at most one temporary server at a time
    home/empty-<version>.db      an empty database of that version (making one takes 6 s, copying it 10 ms)
    home/run-*/prefect.db        of a run beside another one; removed with it
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO

from dprelease.flows.server.settings import make_home

__all__ = ["Claim", "claim", "copy", "empty_database", "provide"]

_PARTS = ("", "-wal", "-shm")
_LEFT_BEHIND = 3600.0  # seconds


def _locked(path: Path) -> IO[bytes] | None:
    """The open file with an exclusive lock on it, or None if somebody else has it. The lock dies with the process."""
    if sys.platform == "win32":
        return None
    import fcntl

    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


@dataclass(frozen=True)
class Claim:
    """A database file that is ours alone while ``lock`` is open."""

    path: Path
    lock: IO[bytes] | None
    private: bool

    def release(self) -> None:
        """Let go of the file; a private one is removed."""
        if self.private:
            shutil.rmtree(self.path.parent, ignore_errors=True)
        if self.lock:
            self.lock.close()


def claim(home: Path) -> Claim:
    """The home's database if no other run holds it, otherwise a private one beside it."""
    make_home(home)
    _sweep(home)
    if lock := _locked(home / "prefect.db.lock"):
        return Claim(home / "prefect.db", lock, private=False)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=home))
    return Claim(folder / "prefect.db", _locked(folder / "lock"), private=True)


def _sweep(home: Path) -> None:
    """Remove what runs left that were killed: an hour old, so not just being made, and held by nobody."""
    for folder in home.glob("run-*"):
        try:
            old = time.time() - folder.stat().st_mtime > _LEFT_BEHIND
        except FileNotFoundError:
            continue
        if old and (lock := _locked(folder / "lock")):
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()


def empty_database(home: Path) -> Path:
    """Where the empty database of the installed Prefect is, or will be."""
    return home / f"empty-{version('prefect')}.db"


def copy(source: Path, target: Path) -> None:
    """Copy a database; the target is whole or not there, whenever the process is killed."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=target.parent) as folder:
        copied = Path(folder) / "made.db"
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(copied)) as new:
            old.backup(new)
        copied.replace(target)


def provide(path: Path, empty: Path) -> None:
    """Make ``path`` a database of the revision of ``empty``; one of another revision is put aside, not changed."""
    if path.exists() and _revision(path) == _revision(empty):
        return
    aside = path.with_name(f"prefect-before-{empty.stem.removeprefix('empty-')}.db")
    for part in _PARTS:
        old = path.with_name(path.name + part)
        if old.exists():
            old.replace(aside.with_name(aside.name + part))
    copy(empty, path)


def _revision(path: Path) -> str:
    """The revision of Prefect's schema in a file; empty if it has none."""
    try:
        with closing(sqlite3.connect(path)) as database:
            row = database.execute("select version_num from alembic_version").fetchone()
    except sqlite3.DatabaseError:
        return ""
    return str(row[0]) if row else ""
