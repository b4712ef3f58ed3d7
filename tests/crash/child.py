"""One process that releases, tells what it hands on, and kills itself where it is told to.

``python -m tests.crash.child ORDERS`` runs one in a process of its own; ``nursery`` forks them from a warm parent.
What it runs is the product: two functions are wrapped so that what they return is noted before anybody else sees it.
"""

from __future__ import annotations

import fcntl
import importlib
import itertools
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dprelease.failpoints import EVENT

__all__ = ["FAILED", "Orders", "append", "run"]

FAILED = 3  # exit code: the product refused or failed; the reason is in the file of errors


@dataclass(frozen=True)
class Orders:
    """What a child does.

    Attributes:
        spec: Path of the spec.
        note: File to which every answer is appended before it is handed on.
        point: Kill yourself at this named point...
        hit: ...when it is reached for the so-many-th time.
        handed: Kill yourself when so many batches were handed on; 0: never.
        reached: File to which every named point is appended when it is reached.
        unlocked: Take no lock of a release, so that two processes really do the same work.
        prefect: Run the command through Prefect.
    """

    spec: str
    note: str
    point: str = ""
    hit: int = 1
    handed: int = 0
    reached: str = ""
    unlocked: bool = False
    prefect: bool = False

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


def run(orders: Orders) -> int:
    """Release; the exit code is 0 or ``FAILED``, and the process installs its hooks for good."""
    _note_answers(orders)
    if orders.point or orders.reached:
        _watch_points(orders)
    if orders.unlocked:
        _ignore_release_locks()
    from dprelease.errors import DpReleaseError

    try:
        if orders.prefect:
            return _command(orders)
        from dprelease.release.direct import run_directly
        from dprelease.release.run import Request

        run_directly(Request(target=orders.spec))
    except DpReleaseError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return FAILED
    return 0


def _command(orders: Orders) -> int:
    from dprelease.cli import main

    sys.argv = ["dprelease", "run", orders.spec]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def append(file: str, line: dict[str, str]) -> None:
    """Add a line to a note, whoever else does so at the same time."""
    # One write to a file opened for appending: lines of several processes never mix.
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(handle, json.dumps(line).encode() + b"\n")
    os.close(handle)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # the signal is on its way


def _note_answers(orders: Orders) -> None:
    product: Any = importlib.import_module("dprelease.release.run")
    draw, batches = product.draw_batch, itertools.count(1)

    def noting(batch: Any, *rest: Any, **named: Any) -> Any:
        answers = draw(batch, *rest, **named)
        release, period, plan = next(each for each in (*rest, *named.values()) if type(each) is tuple)
        for each in answers:
            about = {"release": release, "period": period, "plan": plan, "step": each.step, "digest": each.digest}
            append(orders.note, about)
        if next(batches) == orders.handed:
            _die()
        return answers

    product.draw_batch = noting


def _watch_points(orders: Orders) -> None:
    hits = itertools.count(1)

    def watch(event: str, told: tuple[Any, ...]) -> None:
        if event != EVENT:
            return
        if orders.reached:
            append(orders.reached, {"point": told[0]})
        if told[0] == orders.point and next(hits) == orders.hit:
            _die()

    sys.addaudithook(watch)


def _ignore_release_locks() -> None:
    flock = fcntl.flock

    def unlocked(file: Any, operation: int) -> None:
        number = file if isinstance(file, int) else file.fileno()
        if not Path(os.readlink(f"/proc/self/fd/{number}")).name.startswith("release-"):
            flock(file, operation)

    fcntl.flock = unlocked


if __name__ == "__main__":
    sys.exit(run(Orders(**json.loads(sys.argv[1]))))
