"""Seconds and memory of a census-style release: four levels, five tables at each, ten million published cells.

Usage: ``python -m bench.census [--cells 1000000 10000000] [--post consistent nonnegative integer] [--prefect]
[--spark] [--even]``. The people are made up, the same every time: nation, 51 states, counties and tracts with as many
of each as it takes, by sex, age and race; about 110 rows in a tract, as the Census has about 4,000. Published are the
total, three tables by one attribute and the one by all three at every level, in CSV and Parquet. With ``--spark`` rows
are read on this machine by Spark, whose processes are not in the lines. Each act is the command itself in a process of
its own, so that its memory is its own:

* plan: ``dprelease plan --out``; run: ``dprelease run --direct``, or with ``--prefect`` as it is run by default;
  publish: ``dprelease publish``, from the ledger and onto the same bundle; verify: ``dprelease verify``.
* Below each the parts in which it spent its time: wall seconds, seconds of the processor while they ran (of all
  threads: draws run beside one another) and how often; a part that is made of others holds theirs.
* Memory is the peak of the process so far.

On a machine that others use the seconds of the processor count. Nothing is asserted; a hundred million cells
(``--cells 100000000 --post consistent``) take half an hour of two cores, and 40 GB of a disk. Files are in a temporary
folder, which is removed.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.formats import FORMATS

ATTRIBUTES = {"sex": 2, "age": 10, "race": 6}
EACH = 1 + 2 + 10 + 6 + 120  # published cells of a node
STATES = 51
PER_COUNTY = 23  # tracts, on average
BLOCK = 1_000_000
SETTINGS = """ledger: sqlite:///state/ledger.db
anchors: [state-anchor/head.json]
source_key: state-key/source.key
releases: releases
prefect_home: state/prefect
policy: policy.yaml
"""
POLICY = """accounts:
  census: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 20, delta: 1e-9}}
"""
SPEC = """dprelease: 1
release:
  name: census
  period: 2020
  title: Made-up census
  curator: Example Statistical Office
  contact: statistics@example.org
  intended_use: Measuring
privacy:
  unit: {{entity: person}}
  neighboring: add_remove
  budget: {{rho: 1, delta: 1e-10}}
references:
  places: {{file: places.csv, columns: {{nation: text, state: text, county: text, tract: text}}}}
tables:
  persons:
    account: census{engine}
    source: {{file: persons.parquet}}
    join: [{{reference: places, on: tract, add: [nation, state, county]}}]
    columns:
      nation: {{type: text, keys: {{reference: places}}}}
      state: {{type: text, keys: {{reference: places}}}}
      county: {{type: text, keys: {{reference: places}}}}
      tract: {{type: text, keys: {{reference: places}}}}
      sex: {{type: integer, keys: {{from: 0, to: 1}}}}
      age: {{type: integer, keys: {{from: 0, to: 9}}}}
      race: {{type: integer, keys: {{from: 0, to: 5}}}}
hierarchies:
  places: [nation, state, county, tract]
queries:
  people:
    title: Population
    table: persons
    levels: places
    marginals: {{sets: [[], [sex], [age], [race], [sex, age, race]]}}
    measures: {{persons: {{count: rows}}}}
postprocess: [{post}]
publish: {{formats: [csv, parquet, html]}}
"""
# What is timed: the module in which a function is looked up, its name there, and what the line is called.
PARTS = (
    ("dprelease.release.run", "open_target", "load the spec"),
    ("dprelease.cli.views.plan", "open_target", "load the spec"),
    ("dprelease.release.planning", "verify", "verify the plan"),
    ("dprelease.release.quote", "plan_release", "make the plan"),
    ("dprelease.release.run", "plan_release", "make the plan"),
    ("dprelease.plan.document:ReleasePlan", "fingerprint", "plan: fingerprint"),
    ("dprelease.plan.document:ReleasePlan", "canonical", "plan: to text"),
    ("dprelease.plan.document:ReleasePlan", "from_canonical", "plan: from text"),
    ("dprelease.release.run:Run", "reserve", "plan and reserve"),
    ("dprelease.release.run:Run", "pin", "fingerprint the data"),
    ("dprelease.release.run:Run", "measure", "measure a batch"),
    ("dprelease.release.draw:_Run", "_aggregate", "load and aggregate"),
    ("dprelease.release.draw", "hidden", "noise"),
    ("dprelease.ledger.ledger:Ledger", "commit_all", "commit"),
    ("dprelease.ledger.ledger:Ledger", "stored_all", "answers from the ledger"),
    ("dprelease.ledger.ledger:Ledger", "reserve", "reserve"),
    ("dprelease.release.run", "rendered", "render"),
    ("dprelease.release.publishing.rendering", "rendered", "render"),
    ("dprelease.publish.measured", "estimated", "reconcile"),
    ("dprelease.publish.measured", "adjusted", "nonnegative and integer"),
    ("dprelease.publish.measured", "cell_variances", "variances"),
    ("dprelease.publish.measured", "table_of_counts", "tables"),
    ("dprelease.publish.bundle.package", "measurement_files", "measurements/"),
    ("dprelease.publish.bundle.package", "registry_yaml", "registry.yaml"),
    ("dprelease.publish.bundle.package", "nist_markdown", "nist-800-226.md"),
    ("dprelease.publish.bundle.package", "accounting_json", "accounting.json"),
    ("dprelease.release.run", "write", "write the bundle"),
    ("dprelease.release.publishing.rendering", "write", "write the bundle"),
    ("dprelease.release.run", "write_overview", "write the overview"),
    ("dprelease.publish.bundle.checks.whole_bundle", "read_bundle", "read and hash the bundle"),
    ("dprelease.publish.bundle.checks.opened", "measurements_in", "read measurements/"),
    ("dprelease.publish.bundle.checks.rendering", "bundle_files", "render"),
    ("dprelease.publish.bundle.checks.whole_bundle", "tables_agree", "check columns and keys"),
    ("dprelease.publish.bundle.checks.whole_bundle", "values_agree", "check values"),
)


@dataclass
class Line:
    """Seconds of one part."""

    wall: float = 0.0
    used: float = 0.0
    times: int = 0
    peak: float = 0.0


@dataclass
class Watch:
    """What was timed so far, in the order in which it first began."""

    lines: dict[str, Line] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def timed(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with a line for it."""

        @functools.wraps(run)
        def timing(*given: Any, **named: Any) -> Any:
            with self.lock:
                line = self.lines.setdefault(name, Line())
            start, used = time.perf_counter(), time.process_time()
            try:
                return run(*given, **named)
            finally:
                with self.lock:
                    line.wall += time.perf_counter() - start
                    line.used += time.process_time() - used
                    line.times += 1
                    line.peak = memory()

        return timing


def memory() -> float:
    """The peak of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def write_project(
    folder: Path, cells: int, post: list[str], rows_each: float, *, spark: bool, even: bool
) -> tuple[int, int]:
    """Spec, policy, places and people; returns the number of nodes and of rows."""
    draw = np.random.default_rng(1)
    tracts = round(cells / EACH / (1 + 1 / PER_COUNTY))
    counties = max(STATES, tracts // PER_COUNTY)
    share_out = _evenly if even else functools.partial(_shared_out, draw)
    state, county = share_out(counties, STATES), share_out(tracts, counties)
    names = [f"{state[at]:02d}{at:04d}" for at in range(counties)]
    codes = [f"{names[at]}{place:06d}" for place, at in enumerate(county)]
    lines = [f"US,{code[:2]},{code[:6]},{code}" for code in codes]
    (folder / "places.csv").write_text("nation,state,county,tract\n" + "\n".join(lines) + "\n")
    rows = draw.poisson(draw.lognormal(np.log(rows_each) - 0.08, 0.4, tracts))
    _write_people(folder / "persons.parquet", draw, np.repeat(np.arange(tracts, dtype=np.int32), rows), codes)
    (folder / "census.yaml").write_text(SPEC.format(post=", ".join(post), engine="\n    engine: spark" * spark))
    (folder / "dprelease.yaml").write_text(SETTINGS)
    (folder / "policy.yaml").write_text(POLICY)
    return 1 + STATES + counties + tracts, int(rows.sum())


def _shared_out(draw: np.random.Generator, children: int, parents: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The parent of each child, rising: every parent has one, some have many."""
    more = draw.multinomial(children - parents, draw.dirichlet(np.full(parents, 0.7)))
    return np.repeat(np.arange(parents), 1 + more)


def _evenly(children: int, parents: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The same with as many children for each parent, give or take one."""
    return np.arange(children) * parents // children


def _write_people(path: Path, draw: np.random.Generator, tract: Any, codes: list[str]) -> None:
    """Skewed as people are: a few races make up most of a tract."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    words, writer = pa.array(codes), None
    for start in range(0, len(tract), BLOCK):
        part = tract[start : start + BLOCK]
        home = (part * 7919) % ATTRIBUTES["race"]  # the race that most people of a tract have
        other = (draw.beta(1, 4, len(part)) * ATTRIBUTES["race"]).astype(np.int64)
        table = pa.table(
            {
                "tract": words.take(pa.array(part)),
                "sex": draw.integers(0, ATTRIBUTES["sex"], len(part)),
                "age": (draw.beta(1.2, 1.8, len(part)) * ATTRIBUTES["age"]).astype(np.int64),
                "race": np.where(draw.random(len(part)) < 0.7, home, other).astype(np.int64),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


ACTS = {
    "plan": ("plan", "census.yaml", "--out", "plan.json"),
    "run": ("run", "--direct", "census.yaml"),
    "publish": ("publish", "census/2020"),
    "verify": ("verify", "releases/census/2020"),
}


def act(arguments: list[str], profile: str = "") -> None:
    """The command in this process, timed; its lines, then one for the whole."""
    start, used = time.perf_counter(), time.process_time()
    from dprelease.cli import main as command

    watch = Watch()
    listed = ((*form.render.split(":"), name) for name, form in FORMATS.items())
    formats = tuple((f"dprelease.publish.{place}", name, told) for place, name, told in listed)
    for place, name, told in (*PARTS, *formats):
        module, _, inner = place.partition(":")
        held = importlib.import_module(module)
        held = getattr(held, inner) if inner else held
        found = inspect.getattr_static(held, name)
        made = watch.timed(told, found.__func__ if isinstance(found, classmethod) else found)
        setattr(held, name, classmethod(made) if isinstance(found, classmethod) else made)
    sys.argv = ["dprelease", *arguments]
    code: Any = 0
    try:
        command()
    except SystemExit as ended:
        code = ended.code
    sys.stdout.flush()
    for told, line in watch.lines.items():
        print(f"    {told:<28}{line.wall:8.2f} s {line.used:8.2f} s {line.times:6d} x {line.peak:8.2f} GB")
    wall, used = time.perf_counter() - start, time.process_time() - used
    print(f"  {arguments[0]:<30}{wall:8.2f} s {used:8.2f} s {'':8} {memory():8.2f} GB   ended with {code or 0}")
    sys.exit(code or 0)


def one(cells: int, post: list[str], asked: argparse.Namespace) -> None:
    """One project, its acts in turn."""
    with tempfile.TemporaryDirectory(prefix="dprelease-census-") as made:
        folder = asked.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "census.yaml").exists():
            nodes, rows = write_project(folder, cells, post, asked.rows, spark=asked.spark, even=asked.even)
            print(f"{nodes * EACH:,} cells of {nodes:,} nodes, {rows:,} rows; {', '.join(post)}", flush=True)
        for name in asked.acts:
            arguments = [part for part in ACTS[name] if not (asked.prefect and part == "--direct")]
            command = [sys.executable, "-m", "bench.census", "--act", *arguments]
            here = os.pathsep.join((str(Path.cwd()), os.environ.get("PYTHONPATH", "")))
            subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": here}, check=True)


def main() -> None:
    """Print the lines."""
    if sys.argv[1:2] == ["--act"]:
        act(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", default=(1_000_000,))
    parser.add_argument("--post", nargs="+", help="instead of both: without, and with nonnegative and integer")
    parser.add_argument("--acts", nargs="+", choices=tuple(ACTS), default=list(ACTS))
    parser.add_argument("--rows", type=float, default=110, help="of a tract, on average")
    parser.add_argument("--prefect", action="store_true", help="run through the orchestrator")
    parser.add_argument("--spark", action="store_true", help="rows are read by Spark, on this machine")
    parser.add_argument("--even", action="store_true", help="states and counties of equal size, as Spark's limit takes")
    parser.add_argument("--keep", type=Path, help="this folder, which stays, instead of a temporary one")
    asked = parser.parse_args()
    for cells in asked.cells:
        for post in [asked.post] if asked.post else [["consistent"], ["consistent", "nonnegative", "integer"]]:
            one(cells, post, asked)


if __name__ == "__main__":
    main()
