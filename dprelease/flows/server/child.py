"""The temporary server's process: ``python -m dprelease.flows.server.child SOCKET``; stdin's first line is its home.

It never outlives the process that started it: Linux kills it with its parent, and everywhere the end of stdin,
which the kernel closes when the parent is gone however it ended, stops it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

from dprelease.flows.server.database import Claim, claim, copy, empty_database, provide
from dprelease.flows.server.settings import server_environment

__all__ = ["main"]

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in <sys/prctl.h>
# What Prefect's server imports and what reads no setting: loaded while the parent still looks for the home.
_EARLY = ("uvicorn", "fastapi", "sqlalchemy.orm", "sqlalchemy.ext.asyncio", "alembic.command", "docket", "httpx")


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
    import tempfile

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


def _serve(listening: socket.socket, home: Path, held: Claim) -> None:
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
