"""The temporary server's process: ``python -m dprelease.flows.server.child SOCKET``; stdin's first line is its home.

It never outlives the process that started it: Linux kills it with its parent, and everywhere the end of stdin,
which the kernel closes when the parent is gone however it ended, stops it.

Prefect's own database is made once per version of Prefect, then copied; there are never two servers on one file. It is
not an audit trail: it holds when which flow ran; what was measured and spent is in the ledger.

::

    home/prefect.db              history of the runs; held by at most one temporary server at a time
    home/empty-<version>.db      an empty database of that version (making one takes 6 s, copying it 10 ms)
    home/run-*/prefect.db        of a run beside another one; removed with it
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO

from dprelease.flows.server.settings import make_home, server_environment
from dprelease.lean_imports import LeanImports

__all__ = ["claim", "copy", "empty_database", "main", "provide"]

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in <sys/prctl.h>
# What Prefect's server imports and what reads no setting: loaded while the parent still looks for the home.
_EARLY = ("uvicorn", "fastapi", "sqlalchemy.orm", "sqlalchemy.ext.asyncio", "alembic.command", "docket", "httpx")
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
class _Claim:
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


def claim(home: Path) -> _Claim:
    """The home's database if no other run holds it, otherwise a private one beside it."""
    make_home(home)
    _sweep(home)
    if lock := _locked(home / "prefect.db.lock"):
        return _Claim(home / "prefect.db", lock, private=False)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=home))
    return _Claim(folder / "prefect.db", _locked(folder / "lock"), private=True)


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


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        os._exit(0)


def _first_line(descriptor: int) -> bytes:
    # Unbuffered: a thread that waits inside a buffered reader cannot be left behind at the end of the process.
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return line


def _die_at_end_of(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os._exit(0)


def _make_empty(empty: Path) -> None:
    """Run Prefect's migrations into a new file, away from where a kill could leave half of them."""
    from prefect.server.database import provide_database_interface
    from prefect.server.database.configurations import AioSqliteConfiguration
    from prefect.server.database.dependencies import temporary_database_config

    async def migrate() -> None:
        database = provide_database_interface()
        await database.create_db()
        await (await database.engine()).dispose()

    with tempfile.TemporaryDirectory(prefix="run-", dir=empty.parent) as folder:
        made = Path(folder) / "prefect.db"
        with temporary_database_config(AioSqliteConfiguration(f"sqlite+aiosqlite:///{made}")):
            asyncio.run(migrate())
        copy(made, empty)


def _serve(listening: socket.socket, home: Path, held: _Claim) -> None:
    import uvicorn
    from prefect.server.api.server import create_app

    empty = empty_database(home)
    if not empty.exists():
        _make_empty(empty)
    provide(held.path, empty)
    config = uvicorn.Config(create_app(), log_level="error", lifespan="on", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    gc.enable()
    server.run(sockets=[listening])


def main() -> None:
    """Serve Prefect's API on an inherited listening socket until told to stop."""
    gc.disable()  # importing makes many objects and no garbage: a fifth faster
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that what is held is released
    listening = socket.socket(fileno=int(sys.argv[1]))
    _die_with(int(sys.argv[2]))
    sys.meta_path.insert(0, LeanImports())
    for name in _EARLY:
        importlib.import_module(name)
    first = _first_line(0)
    if not first:
        return
    threading.Thread(target=_die_at_end_of, args=(0,), daemon=True).start()
    orders = json.loads(first)
    home = Path(orders["home"])
    held = claim(home)
    os.environ.update(server_environment(home, held.path, orders["secret"]))
    ended: int | str | None = 0
    try:
        _serve(listening, home, held)
    except SystemExit as told_to:
        ended = told_to.code
    finally:
        held.release()
    # Nothing is left to do, and taking down an interpreter of this size takes a second.
    os._exit(ended if isinstance(ended, int) else 1)


if __name__ == "__main__":
    main()
