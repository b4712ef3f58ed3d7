"""Making the projects, and running the command in them."""

from __future__ import annotations

import datetime
import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.growth.results import ACTS
from bench.peers.measure import taken_by
from bench.peers.runs import ROOT, compact, machine
from bench.peers.systems.ours import SETTINGS, policy_text, spec_text
from bench.peers.table import OURS, SYSTEMS
from bench.peers.works import DELTA, EPSILON, WORKS, Work

__all__ = ["CELLS", "ROWS", "Asking", "cells_spec", "run"]

_LIMIT = 3600.0  # seconds of one act
_COUNTED = 10**6  # rows that the cells are counted of
_PACKAGES = ("dprelease", "duckdb", "pyarrow", "numpy")
_KEYS = {  # for each size keys of people, so that each column has all keys from 1 to the number
    10**4: {"county": 100, "state": 50, "sex": 2},
    10**5: {"county": 1000, "state": 50, "sex": 2},
    10**6: {"county": 2000, "state": 50, "sex": 2, "race": 5},
    10**7: {"county": 2000, "state": 50, "sex": 2, "race": 5, "age": 10},
}


@dataclass(frozen=True)
class Asking:
    """What a run is to do.

    Attributes:
        home: The folder of rows and outputs.
        rows: How many rows the files of the works have.
        cells: How many cells the releases have.
        works: Their names.
        rounds: How often everything is run.
        load: How busy the machine was before the first run.
    """

    home: Path
    rows: Sequence[int]
    cells: Sequence[int]
    works: Sequence[str]
    rounds: int
    load: float


@dataclass(frozen=True)
class _Project:
    """A folder with a spec, what the command calls its release, and how large it is."""

    folder: Path
    release: str
    size: int

    def words(self, act: str) -> list[str]:
        """What the command is told."""
        told = {
            "run": ["run", "--direct", "spec.yaml"],
            "publish": ["publish", self.release],
            "verify": ["verify", f"releases/{self.release}"],
        }
        return [sys.executable, "-m", "dprelease", *told[act]]


def _make(folder: Path, size: int, what: str) -> str:
    """Rows of a size, by another process; what it said."""
    command = [sys.executable, "-m", "bench.growth.making", str(folder), str(size), what]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _file(home: Path, rows: int, table: str) -> str:
    """The path of a table's rows, which are made once."""
    _make(home / "data", rows, table)
    return str(home / "data" / f"rows-{rows}" / f"{table}.parquet")


def _write(folder: Path, size: int, spec: str, noise: str) -> _Project:
    for name, text in (("dprelease", SETTINGS), ("policy", policy_text(noise)), ("spec", spec)):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return _Project(folder, "bench/2024", size)


def _of_work(work: Work, home: Path, folder: Path, rows: int) -> _Project:
    spec = spec_text(work, _file(home, rows, work.table), f"{EPSILON:g}", f"{DELTA:g}")
    return _write(folder, rows, spec, SYSTEMS[OURS].noise.get(work.name, "laplace"))


def cells_spec(cells: int, file: str) -> str:
    """The spec of one count with so many cells, published as CSV and Parquet.

    Raises:
        SystemExit: If there are no keys for so many.
    """
    if cells not in _KEYS:
        raise SystemExit(f"--cells: one of {', '.join(map(str, _KEYS))}")
    columns = "\n".join(
        f"      {name}: {{type: integer, keys: {{from: 1, to: {last}}}}}" for name, last in _KEYS[cells].items()
    )
    return f"""dprelease: 1
release: {{name: bench, period: 2024, title: One table}}
privacy: {{unit: {{entity: unit}}, budget: {{epsilon: {EPSILON:g}, delta: {DELTA:g}}}}}
tables:
  people:
    account: bench
    source: {{file: {file}}}
    columns:
{columns}
queries:
  count: {{table: people, by: [{", ".join(_KEYS[cells])}], measures: {{value: {{count: rows}}}}}}
publish: {{formats: [csv, parquet]}}
"""


def _table(home: Path, folder: Path, cells: int) -> _Project:
    return _write(folder, cells, cells_spec(cells, _file(home, _COUNTED, "people")), "laplace")


def _census(home: Path, folder: Path, cells: int) -> _Project:
    made = int(_make(folder, cells, "census"))
    (folder / "census.yaml").rename(folder / "spec.yaml")
    return _Project(folder, "census/2020", made)


ROWS: Mapping[str, Work] = WORKS
CELLS: Mapping[str, Callable[[Path, Path, int], _Project]] = {"table": _table, "census": _census}


def run(asking: Asking, results: Path) -> None:
    """Run everything; the file of results is written again after every act, so that nothing is lost."""
    kept: dict[str, Any] = {
        "day": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "rounds": asking.rounds,
        "counted": _COUNTED,
        "machine": machine(asking.load),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "runs": [],
    }
    rows = [("rows", work, size) for size in asking.rows for work in ROWS if work in asking.works]
    cells = [("cells", work, size) for size in asking.cells for work in CELLS if work in asking.works]
    for _ in range(asking.rounds):
        for axis, work, size in (*rows, *cells):
            folder = asking.home / "out" / work
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            made = (
                _of_work(ROWS[work], asking.home, folder, size)
                if axis == "rows"
                else CELLS[work](asking.home, folder, size)
            )
            for act in ACTS if axis == "cells" else ACTS[:1]:
                taken = taken_by(made.words(act), folder, folder / "said.txt", _LIMIT)
                told = {name: round(value, 3) for name, value in asdict(taken).items()}
                kept["runs"].append({"axis": axis, "work": work, "size": size, "made": made.size, "act": act, **told})
                results.write_text(compact(kept), encoding="utf-8")
                times = f"{taken.wall:8.2f} s {taken.cpu:8.2f} CPU s {taken.peak:6.0f} MiB"
                print(f"{size:>11,} {axis} {work:6} {act:8} {times}", flush=True)
            shutil.rmtree(folder)
