"""One process measured from outside: its wall and processor seconds and its memory, whatever it starts included."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Measured", "StoppedShort", "Taken", "run_measured", "taken_by"]

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux
_EVERY = 0.2
_LINGER = 30.0


class StoppedShort(Exception):
    """A run that failed, or took longer than the limit; its text is the reason."""


@dataclass(frozen=True)
class Taken:
    """What a command took.

    Attributes:
        wall: Seconds from its start to its end.
        cpu: Seconds of all processors, in it and in all that it started.
        peak: The most memory in MiB: of all its processes together, looked at five times a second, or of the first one
            by itself, which the system tells at its end. What starts it must hold less, for that counts as well.
    """

    wall: float
    cpu: float
    peak: float


@dataclass(frozen=True)
class Measured(Taken):
    """What one run of a system took.

    Attributes:
        inside: Seconds of its queries and files, imports and the start of an engine aside, as it told itself.
        inside_cpu: Processor seconds of its first process in these.
    """

    inside: float
    inside_cpu: float


def _resident(session: int) -> float:
    """MiB that the processes of a session hold now."""
    pages = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue  # gone meanwhile
            pages += int(fields[21]) if int(fields[3]) == session else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _most(process: int) -> float:
    """MiB that one process has held at the most; 0 where it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 2**10 for line in status.splitlines() if line.startswith("VmHWM:")), 0.0)


def _end(session: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)


class _Watch(threading.Thread):
    """Looks at a session's memory until it is told to stop, and ends the session at the limit."""

    def __init__(self, session: int, limit: float) -> None:
        super().__init__(daemon=True)
        self.session, self.limit = session, limit
        self.peak, self.late = 0.0, False
        self.done = threading.Event()

    def run(self) -> None:
        """Until the process has ended."""
        end = time.monotonic() + self.limit
        while not self.done.wait(_EVERY):
            self.peak = max(self.peak, _resident(self.session), _most(self.session))
            if time.monotonic() > end and not self.late:
                self.late = True
                _end(self.session)


def _reap(session: int) -> None:
    """Wait for processes that outlived the one that started them, such as Spark's; end them if they do not leave."""
    end = time.monotonic() + _LINGER
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not found:
            if time.monotonic() > end:
                _end(session)
            time.sleep(0.02)


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def taken_by(command: Sequence[str], folder: Path, said: Path, limit: float) -> Taken:
    """Run a command in ``folder``; ``said`` is then what it printed.

    Raises:
        StoppedShort: It failed, or took longer than ``limit`` seconds.
    """
    # Orphans become children of this process, so that their time is told when they end.
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    before = _used()
    with said.open("wb") as sink:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
        )
        watch = _Watch(process.pid, limit)
        watch.start()
        _, status = os.waitpid(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    _reap(process.pid)
    watch.done.set()
    watch.join()
    if watch.late:
        raise StoppedShort(f"stopped after {limit:,.0f} s")
    if process.returncode:
        lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise StoppedShort(f"exit {process.returncode}: {lines[-1] if lines else 'it said nothing'}"[:200])
    return Taken(wall, _used() - before, watch.peak)


def run_measured(command: Sequence[str], folder: Path, out: Path, limit: float) -> Measured:
    """Run a system's script in ``folder``; it leaves ``phases.json`` in ``out``, and ``said.txt`` is what it printed.

    Raises:
        StoppedShort: It failed, or took longer than ``limit`` seconds.
    """
    taken = taken_by(command, folder, out / "said.txt", limit)
    phases = json.loads((out / "phases.json").read_text(encoding="utf-8"))
    inside, peak = phases["query"] + phases["write"], max(taken.peak, phases["peak"])
    return Measured(taken.wall, taken.cpu, peak, inside, phases["cpu"])
