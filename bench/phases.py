"""CPU seconds of one release by phase: opened, loaded, counted, published; of many small queries and few large ones.

Usage: ``python -m bench.phases [WORK ...] [--rounds N] [--rows N] [--beside FOLDER] [--csv] [--memory SIZE]``. Every
run is the command ``run --direct`` in a process from scratch and in a project of its own; the least CPU time of the
rounds counts, phase by phase. With ``--beside`` another checkout of this project takes turns with this one, in the
same run. Sources are Parquet, or CSV with ``--csv``. With ``--memory`` a process may take so much of it. Works:

* ``small``: 1,000 counts of one number each, every one with a ``where`` of its own, over 100,000 rows.
* ``cells``: counts of 1,000,000 people by county x sex x race, 42,000 cells (W1).
* ``sums``: a clipped sum of theirs by county, 3,000 cells (W2).
* ``large``: 20 queries on one table of 1,000,000 rows: ten tables of counts, five of sums, three of means, two of
  quantiles (W3).
* ``users``: 1,000,000 visits of a tenth as many users, a few of whom have very many; counts by county of at most ten
  counties of a user, one visit in each (W4).
* ``bounded``: the same visits, of which rows have to be chosen: a clipped sum and the number of users by county, of the
  younger ones, at most ten counties of a user and two visits in each. It needs the most memory.

Columns, all of the processor's time of the command: imports and all before the budget is reserved; from then until the
first draw begins; from there until publishing begins, of which reading and typing files whose rows are kept, and noise;
from there until the release is closed; all of it. Files and MB are those of the bundle, MiB the peak of memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

EVENT = "dprelease.point"
MARKS = {
    "reserve.anchored": "reserved",
    "draw.begun": "drawing",
    "publish.begun": "publishing",
    "close.anchored": "closed",
}
SETTINGS = "ledger: sqlite:///state/ledger.db\nreleases: releases\npolicy: policy.yaml\n"
POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 8, delta: 1e-8}}
"""
HEAD = """dprelease: 1
release: {{name: bench, period: 2024, title: Many tables}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: 1, delta: 1e-9}}}}
tables:
  people:
    account: people{more}
    source: {{file: {file}}}
    columns:
{columns}
queries:
{queries}
"""
COLUMNS, KEYS = 20, 3
KEYED = {"county": 3000, "state": 50, "sex": 2, "race": 7, "age": 18}
COUNTED = ["state", "sex", "race", "age", "sex race", "state sex", "state race", "age sex", "state sex race", "county"]
PHASES = ("plan", "open", "measure", "publish", "all")
PARTS = ("load", "noise")
SHOWN = ("plan", "open", "measure", *PARTS, "publish", "all", "files", "MB", "MiB")


def written(folder: Path, columns: dict[str, Any], csv: bool) -> str:
    """The name of a file of these columns."""
    import pyarrow as pa
    import pyarrow.csv as pv
    import pyarrow.parquet as pq

    if csv:
        pv.write_csv(pa.table(columns), folder / "people.csv", pv.WriteOptions(quoting_style="none"))
        return "people.csv"
    pq.write_table(pa.table(columns), folder / "people.parquet")
    return "people.parquet"


def conditional(queries: int) -> list[str]:
    """Lines of a spec: counts of one number each, every one with a ``where`` of its own."""
    pairs = itertools.product(itertools.combinations(range(COLUMNS), 2), range(1, KEYS + 1), range(1, KEYS + 1))
    return [
        f"  q{number}: {{table: people, where: c{one} = {first} AND c{other} = {second}, "
        "measures: {n: {count: rows}}}"
        for number, ((one, other), first, second) in enumerate(itertools.islice(pairs, queries))
    ]


def small(folder: Path, rows: int, csv: bool) -> str:
    """Made-up people and a spec of 1,000 counts; the generator may be seeded, for nothing in it is secret."""
    import numpy as np

    generator = np.random.default_rng(7)
    file = written(folder, {f"c{k}": generator.integers(1, KEYS + 1, rows) for k in range(COLUMNS)}, csv)
    lines = conditional(1000)
    declared = [f"      c{k}: {{type: integer, keys: {{from: 1, to: {KEYS}}}}}" for k in range(COLUMNS)]
    return HEAD.format(file=file, more="", columns="\n".join(declared), queries="\n".join(lines))


def large(folder: Path, rows: int, csv: bool) -> str:
    """The same of 20 queries."""
    import numpy as np

    generator = np.random.default_rng(7)
    columns = {name: generator.integers(1, keys + 1, rows) for name, keys in KEYED.items()}
    columns["income"] = generator.lognormal(10, 1, rows).astype(np.int64)
    file = written(folder, columns, csv)
    lines = []
    for kind, of, measure in (
        ("count", COUNTED, "{count: rows}"),
        ("sum", COUNTED[:5], "{sum: income}"),
        ("mean", COUNTED[:3], "{mean: income}"),
        ("quantile", COUNTED[:2], "{quantiles: income, at: [0.25, 0.5, 0.75]}"),
    ):
        for at, by in enumerate(of):
            name = ", ".join(by.split())
            lines.append(f"  {kind}{at}: {{table: people, by: [{name}], measures: {{n: {measure}}}}}")
    declared = [f"      {name}: {{type: integer, keys: {{from: 1, to: {keys}}}}}" for name, keys in KEYED.items()]
    declared.append("      income: {type: integer, range: [0, 200000], step: 1000}")
    return HEAD.format(file=file, more="", columns="\n".join(declared), queries="\n".join(lines))


def one_query(query: str, more: str = "") -> Callable[[Path, int, bool], str]:
    """What makes six columns of people, or of visits, and a spec of one query; counties are text."""

    def make(folder: Path, rows: int, csv: bool) -> str:
        import numpy as np
        import pyarrow as pa

        generator = np.random.default_rng(7)
        users = max(1, rows // 10)
        counties = pa.array([f"{county:05}" for county in range(KEYED["county"])])
        columns = {
            "user": (users * generator.random(rows) ** 2).astype(np.int64),
            "county": counties.take(pa.array(generator.integers(0, KEYED["county"], rows))),
            **{name: generator.integers(1, KEYED[name] + 1, rows) for name in ("sex", "race", "age")},
            "income": generator.lognormal(10, 1, rows).round(2),
        }
        declared = [
            "      user: {type: integer}",
            f"      county: {{type: text, keys: [{', '.join(repr(str(county)) for county in counties)}]}}",
            *(
                f"      {name}: {{type: integer, keys: {{from: 1, to: {KEYED[name]}}}}}"
                for name in ("sex", "race", "age")
            ),
            "      income: {type: decimal, range: [0, 200000], step: 0.01}",
        ]
        file = written(folder, columns, csv)
        return HEAD.format(
            file=file, more=more, columns="\n".join(declared), queries="  q: {table: people, " + query + "}"
        )

    return make


WORKS = {
    "small": (small, 100_000),
    "cells": (one_query("by: [county, sex, race], measures: {n: {count: rows}}"), 1_000_000),
    "sums": (one_query("by: [county], measures: {n: {sum: income, clip: [0, 100000]}}"), 1_000_000),
    "large": (large, 1_000_000),
    "bounded": (
        one_query(
            "by: [county], where: age <= 12, bounds: {max_groups: 10, max_rows_per_group: 2}, "
            "measures: {n: {sum: income, clip: [0, 100000], clip_per: row}, users: {count: units}}",
            "\n    unit_id: user",
        ),
        1_000_000,
    ),
    "users": (
        one_query(
            "by: [county], bounds: {max_groups: 10, max_rows_per_group: 1}, measures: {n: {count: rows}}",
            "\n    unit_id: user",
        ),
        1_000_000,
    ),
}


def _command(marks: str) -> None:
    """The command, in a process from scratch, noting its processor time when it comes by."""
    seen: dict[str, float] = {}

    def note(event: str, told: tuple[Any, ...]) -> None:
        if event == EVENT and (name := MARKS.get(told[0])) and name not in seen:
            if name == "reserved":  # all that is timed apart is imported by now
                _timed(seen)
            seen[name] = time.process_time()

    sys.addaudithook(note)
    from dprelease.cli import main as dprelease

    sys.argv = ["dprelease", "run", "spec.yaml", "--direct"]
    try:
        dprelease()
    finally:
        Path(marks).write_text(json.dumps(seen), encoding="utf-8")


def _timed(seen: dict[str, float]) -> None:
    """Add up the processor's time of parts of measuring; what other threads do meanwhile counts with it."""
    from dprelease.engines.duck.loaded import LoadedTables
    from dprelease.release import draw

    seen.update(load=0.0, noise=0.0)

    def timed(action: Callable[..., Any], part: str) -> Callable[..., Any]:
        def act(*given: Any, **named: Any) -> Any:
            started = time.process_time()
            try:
                return action(*given, **named)
            finally:
                seen[part] += time.process_time() - started

        return act

    for place, name, part in ((LoadedTables, "_load", "load"), (draw, "hidden", "noise")):
        setattr(place, name, timed(getattr(place, name), part))


def run(project: Path, checkout: Path) -> dict[str, float]:
    """One release of a project by one checkout: CPU seconds by phase, and what the bundle weighs."""
    marks = project / "marks.json"
    code = f"import sys; sys.path.insert(0, {str(checkout)!r}); " + (
        f"import importlib.util as u; s = u.spec_from_file_location('phases', {str(Path(__file__).resolve())!r}); "
        "m = u.module_from_spec(s); s.loader.exec_module(m); m._command(sys.argv[1])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(marks)], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said = process.stderr.read().decode() if process.stderr else ""
    _, status, usage = os.wait4(process.pid, 0)
    if process.stderr:
        process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}: {said}")
    seen = json.loads(marks.read_text(encoding="utf-8"))
    marks_at = [0.0, *(seen[name] for name in MARKS.values())]
    parts = {part: seen[part] for part in PARTS}
    found = dict(zip(PHASES, (b - a for a, b in itertools.pairwise(marks_at)), strict=False))
    files = [path for path in (project / "releases").rglob("*") if path.is_file()]
    weight = {"files": len(files), "MB": sum(path.stat().st_size for path in files) / 1e6}
    return {**found, **parts, "all": usage.ru_utime + usage.ru_stime, **weight, "MiB": usage.ru_maxrss / 2**10}


def _made(work: str, folder: Path, rows: int, csv: bool) -> str:
    return WORKS[work][0](folder, rows, csv)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", default=list(WORKS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--memory")
    asked = parser.parse_args()
    if asked.memory:
        os.environ["DPRELEASE_MEMORY"] = asked.memory
    checkouts = [*([asked.beside] if asked.beside else []), Path(__file__).resolve().parents[1]]
    print(f"{'work':7} {'checkout':24}" + "".join(f"{name:>9}" for name in SHOWN))
    with tempfile.TemporaryDirectory() as name:
        for work in asked.works:
            rows = WORKS[work][1]
            data = Path(name) / work
            data.mkdir()
            # In a process of its own: what is started here is told to have taken at least the memory that this one has.
            with ProcessPoolExecutor(1, get_context("spawn")) as maker:
                text = maker.submit(_made, work, data, asked.rows or rows, asked.csv).result()
            best: dict[Path, dict[str, float]] = {}
            for turn, checkout in itertools.product(range(asked.rounds), checkouts):
                project = data / f"{turn}-{checkouts.index(checkout)}"
                project.mkdir()
                for path in data.glob("people.*"):
                    (project / path.name).symlink_to(path)
                for file, content in (("dprelease", SETTINGS), ("policy", POLICY), ("spec", text)):
                    (project / f"{file}.yaml").write_text(content, encoding="utf-8")
                found = run(project, checkout)
                known = best.get(checkout, found)
                best[checkout] = {each: min(known[each], found[each]) for each in found}
            for checkout, found in best.items():
                print(f"{work:7} {str(checkout)[-24:]:24}" + "".join(f"{found[each]:9.2f}" for each in SHOWN))


if __name__ == "__main__":
    main()
