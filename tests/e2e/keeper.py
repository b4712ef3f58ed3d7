"""Starts the processes of a test and takes every one of them, and whatever those started, along when it ends.

``python -m tests.e2e.keeper`` reads one JSON order a line: ``{"words", "folder", "environment", "log"}``, and answers
with a process id. Prefect gives each flow run a session of its own, so that no signal to a group would reach it; so
this process is where Linux hands orphans to, and at the end of stdin, which comes however the test ends, it kills all
of its children until there are none.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["below"]

_ADOPT_ORPHANS, _DIE_WITH_PARENT = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG in <sys/prctl.h>
_POLL = 0.05  # seconds
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def below(process: int) -> list[int]:
    """The processes that a process has started, and theirs; Linux only."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += [int(child), *below(int(child))]
    return found


def _start(order: dict[str, Any]) -> int:
    with open(order["log"], "ab") as log:
        started = subprocess.Popen(
            order["words"],
            cwd=order["folder"],
            env=order["environment"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_the_keeper,  # noqa: PLW1509  (this process has no threads)
        )
    return started.pid


def _die_with_the_keeper() -> None:
    assert _LIBC is not None
    _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _reap() -> None:
    """Let go of children that have ended, adopted ones included."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _orders() -> Iterator[bytes]:
    """The lines of stdin, until its end."""
    begun = b""
    while True:
        _reap()
        if not select.select([0], [], [], _POLL)[0]:
            continue
        if not (more := os.read(0, 1 << 16)):
            return
        *lines, begun = (begun + more).split(b"\n")
        yield from lines


def main() -> None:
    """Start what is ordered; kill it all at the end."""
    assert _LIBC is not None
    _LIBC.prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Meant for the test, which then ends our stdin. Not SIG_IGN, which children would inherit.
        signal.signal(each, lambda *_: None)
    for line in _orders():
        print(_start(json.loads(line)), flush=True)
    while children := below(os.getpid()):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _reap()
        time.sleep(0.02)


if __name__ == "__main__":
    main()
