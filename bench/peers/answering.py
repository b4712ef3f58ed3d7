"""What every system's script shares: its arguments, its phases, and files of answers.

A script is ``python -m bench.peers.systems.NAME --data FOLDER --work W1 --epsilon 1 --delta 1e-6 --out FOLDER``. It
writes one CSV file of answers per query, with a row for each cell, and ``phases.json``: seconds of ``start`` (an engine
or a session is made ready, without the data), ``query`` and ``write``, imports aside wherever they happen, ``cpu``, the
processor seconds of this process in the last two, and the ``peak`` of its own memory in MiB.
Nothing but the standard library is imported here.
"""

from __future__ import annotations

import argparse
import builtins
import csv
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.works import WORKS, Query, Work

__all__ = ["IMPORTS", "Asked", "Phases", "answer_with", "write_answers"]


class _ImportClock:
    """Seconds that the main thread has spent in import statements since ``start``, nested ones counted once."""

    def __init__(self) -> None:
        self.seconds, self.cpu = 0.0, 0.0
        self._inside = False
        self._import = builtins.__import__

    def start(self) -> None:
        """Count from now on: every import statement of the process goes through here."""
        builtins.__import__ = self._timed

    def _timed(self, *arguments: Any, **named: Any) -> Any:
        if self._inside or threading.current_thread() is not threading.main_thread():
            return self._import(*arguments, **named)
        self._inside, start, cpu = True, time.perf_counter(), time.process_time()
        try:
            return self._import(*arguments, **named)
        finally:
            self.seconds += time.perf_counter() - start
            self.cpu += time.process_time() - cpu
            self._inside = False


IMPORTS = _ImportClock()


class Phases:
    """Seconds by phase, imports aside."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {"start": 0.0, "query": 0.0, "write": 0.0}
        self.cpu = 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """What is done inside counts for that phase."""
        start, imports = time.perf_counter(), IMPORTS.seconds
        cpu = time.process_time() - IMPORTS.cpu
        yield
        self.seconds[name] += time.perf_counter() - start - (IMPORTS.seconds - imports)
        self.cpu += time.process_time() - IMPORTS.cpu - cpu if name != "start" else 0.0

    def write(self, folder: Path) -> None:
        """Leave them where the run finds them, and the most memory that this process has held, in MiB."""
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        (most,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        (folder / "phases.json").write_text(
            json.dumps({**self.seconds, "cpu": self.cpu, "peak": most / 1024}), encoding="utf-8"
        )


@dataclass(frozen=True)
class Asked:
    """What a script was asked for."""

    data: Path
    work: Work
    epsilon: float
    delta: float
    out: Path
    noise: str

    @property
    def file(self) -> Path:
        """The rows."""
        return self.data / f"{self.work.table}.parquet"

    @property
    def each(self) -> float:
        """The epsilon of one query, where they get equal parts."""
        return self.epsilon / len(self.work.queries)

    @property
    def rho(self) -> float:
        """The largest rho whose zero-concentrated privacy is (epsilon, delta)-privacy, for those who take a rho.

        By Canonne, Kamath and Steinke 2020, Proposition 12: delta is at most exp((a - 1) (a rho - epsilon)) / (a - 1)
        times (1 - 1/a)^a for every order a above 1.
        """
        low, high = 0.0, self.epsilon
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _log_delta(middle, self.epsilon) <= math.log(self.delta) else (low, middle)
        return low

    def answers(self, query: Query) -> Path:
        """The file of a query's answers."""
        return self.out / f"{query.name}.csv"


def _log_delta(rho: float, epsilon: float) -> float:
    """The logarithm of the least delta over orders from 1.01 to about 22,000, a hundredth apart in their logarithm."""
    orders = [1 + math.exp(at / 100) for at in range(-460, 1000)]
    return min((a - 1) * (a * rho - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a) for a in orders)


def write_answers(path: Path, query: Query, rows: Iterable[Sequence[Any]]) -> None:
    """Keys and numbers of every cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*query.by, *query.columns])
        writer.writerows(rows)


def answer_with(answer: Callable[[Asked, Phases], None]) -> None:
    """Read the arguments, have the work done, and write down how long its phases took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", choices=WORKS, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--noise", default="laplace", choices=["laplace", "gaussian"])
    told = vars(parser.parse_args())
    phases = Phases()
    IMPORTS.start()
    answer(Asked(**{**told, "work": WORKS[told["work"]]}), phases)
    phases.write(told["out"])
