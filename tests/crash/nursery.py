"""A warm process that forks one child per attempt: a start costs milliseconds and not the seconds of the imports.

The parent has imported everything that a release imports and has opened nothing: no database, no ledger, no file of a
project. A child runs exactly what ``dprelease run --direct`` runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.crash.child import Orders, run
from tests.project import environment
from tests.warm import load

__all__ = ["End", "Nursery"]

_ROOT = Path(__file__).resolve().parents[2]
_HUNG = 120.0  # seconds in which no child computes anything, or of the processor for one release
_LOOK = 5.0


class End(NamedTuple):
    """How a child ended.

    Attributes:
        code: Its exit code; negative: the signal that ended it.
        seconds: From its start to its end.
    """

    code: int
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.code == -signal.SIGKILL


class Nursery:
    """Starts the warm process; a context manager. ``errors`` is the file that the children's stderr goes to."""

    def __init__(self, errors: Path) -> None:
        self.errors = errors
        with errors.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.nursery"],
                cwd=_ROOT,
                env=environment({"OPENBLAS_NUM_THREADS": "1"}),
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, *orders: Orders, kill: int = 0, after: float | None = None) -> list[End]:
        """Start these children together; ``after`` so many seconds the ``kill``-th of them is killed.

        Raises:
            RuntimeError: The warm process is gone.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the nursery has no pipes")
        asked = {"orders": [asdict(each) for each in orders], "kill": kill, "after": after}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the nursery has died: see {self.errors}")
        return [End(*each) for each in json.loads(line)]

    def finish(self, orders: Orders) -> str:
        """Run to the end; empty if it got there, and what it said if not."""
        before = self.errors.stat().st_size
        (end,) = self.run(orders)
        if end.code == 0:
            return ""
        said = self.errors.read_bytes()[before:].decode(errors="replace").strip()
        return f"the run ended with {end.code}: {said[-2000:]}"


def _born(orders: Orders, inherited: Sequence[int]) -> tuple[int, int]:
    """Fork a child; its process id, and a pipe that ends when it does."""
    alive, held = os.pipe()
    process = os.fork()
    if process:
        os.close(held)
        return process, alive
    code = 99
    with contextlib.suppress(BaseException):
        try:
            for each in (alive, *inherited):
                os.close(each)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            code = run(orders)
        except BaseException:
            import traceback

            traceback.print_exc()
    os._exit(code)


def _ends(all_orders: Sequence[Orders], kill: int, after: float | None) -> list[End]:
    started = time.monotonic()
    born: list[tuple[int, int]] = []
    for orders in all_orders:
        born.append(_born(orders, [pipe for _, pipe in born]))
    due, ends = after, {}
    waiting = {pipe: process for process, pipe in born}
    clocks, moved = [0.0], started
    while waiting:
        left = _LOOK if due is None else max(0.0, started + due - time.monotonic())
        ready, _, _ = select.select(list(waiting), [], [], min(left, _LOOK))
        if due is not None and time.monotonic() >= started + due:
            due = None
            if born[kill][0] in waiting.values():
                os.kill(born[kill][0], signal.SIGKILL)
        # By the clocks of the children and not by that of the wall: beside other work a release may take minutes.
        if (now := [_computed(process) for process in waiting.values()]) != clocks:
            clocks, moved = now, time.monotonic()
        if time.monotonic() - moved > _HUNG or max(clocks) > _HUNG:
            sys.stderr.write(f"hung after {clocks} seconds of the processor\n")
            for process in waiting.values():
                os.kill(process, signal.SIGUSR1)  # another end than the one that was asked for
        for pipe in ready:
            process = waiting.pop(pipe)
            os.close(pipe)
            _, status = os.waitpid(process, 0)
            ends[process] = End(os.waitstatus_to_exitcode(status), time.monotonic() - started)
    return [ends[process] for process, _ in born]


def _computed(process: int) -> float:
    """Seconds of the processor that a child has used; of one that has ended and is not waited for, all of them."""
    told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def _serve() -> None:
    load()
    for line in sys.stdin:
        asked = json.loads(line)
        ends = _ends([Orders(**each) for each in asked["orders"]], asked["kill"], asked["after"])
        print(json.dumps(ends), flush=True)


if __name__ == "__main__":
    _serve()
