"""CPU seconds of one release by phase: opened, measured, published; of many small queries, and of few large ones.

Usage: ``python -m bench.phases [WORK ...] [--rounds N] [--rows N] [--beside FOLDER]``. Every run is the command
``run --direct`` in a process from scratch and in a project of its own; the least CPU time of the rounds counts, phase
by phase. With ``--beside`` another checkout of this project takes turns with this one, in the same run. Works:

* ``small``: 1,000 counts of one number each, every one with a ``where`` of its own, over 100,000 rows.
* ``large``: 20 queries on one table of 1,000,000 rows: ten tables of counts, five of sums, three of means, two of
  quantiles (W3).

Columns, all of the processor's time of the command: imports and all before the budget is reserved; from then until the
first draw begins; from there until publishing begins; from there until the release is closed; all of it. Files and MB
are those of the bundle, MiB the peak of memory.
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
    account: people
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


def small(folder: Path, rows: int) -> str:
    """Made-up people and a spec of 1,000 counts; the generator may be seeded, for nothing in it is secret."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(7)
    columns = {f"c{k}": generator.integers(1, KEYS + 1, rows) for k in range(COLUMNS)}
    pq.write_table(pa.table(columns), folder / "people.parquet")
    pairs = itertools.product(itertools.combinations(range(COLUMNS), 2), range(1, KEYS + 1), range(1, KEYS + 1))
    lines = [
        f"  q{number}: {{table: people, where: c{one} = {first} AND c{other} = {second}, "
        "measures: {n: {count: rows}}}"
        for number, ((one, other), first, second) in enumerate(itertools.islice(pairs, 1000))
    ]
    declared = [f"      c{k}: {{type: integer, keys: {{from: 1, to: {KEYS}}}}}" for k in range(COLUMNS)]
    return HEAD.format(file="people.parquet", columns="\n".join(declared), queries="\n".join(lines))


def large(folder: Path, rows: int) -> str:
    """The same of 20 queries over one CSV file."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pv

    generator = np.random.default_rng(7)
    columns = {name: generator.integers(1, keys + 1, rows) for name, keys in KEYED.items()}
    columns["income"] = generator.lognormal(10, 1, rows).astype(np.int64)
    pv.write_csv(pa.table(columns), folder / "people.csv")
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
    return HEAD.format(file="people.csv", columns="\n".join(declared), queries="\n".join(lines))


WORKS = {"small": (small, 100_000), "large": (large, 1_000_000)}


def _command(marks: str) -> None:
    """The command, in a process from scratch, noting its processor time when it comes by."""
    seen: dict[str, float] = {}

    def note(event: str, told: tuple[Any, ...]) -> None:
        if event == EVENT and (name := MARKS.get(told[0])) and name not in seen:
            seen[name] = time.process_time()

    sys.addaudithook(note)
    from dprelease.cli import main as dprelease

    sys.argv = ["dprelease", "run", "spec.yaml", "--direct"]
    try:
        dprelease()
    finally:
        Path(marks).write_text(json.dumps(seen), encoding="utf-8")


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
    found = dict(zip(PHASES, (b - a for a, b in itertools.pairwise(marks_at)), strict=False))
    files = [path for path in (project / "releases").rglob("*") if path.is_file()]
    weight = {"files": len(files), "MB": sum(path.stat().st_size for path in files) / 1e6}
    return {**found, "all": usage.ru_utime + usage.ru_stime, **weight, "MiB": usage.ru_maxrss / 2**10}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", default=list(WORKS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--beside", type=Path)
    asked = parser.parse_args()
    checkouts = [*([asked.beside] if asked.beside else []), Path(__file__).resolve().parents[1]]
    print(f"{'work':7} {'checkout':24}" + "".join(f"{name:>9}" for name in (*PHASES, "files", "MB", "MiB")))
    with tempfile.TemporaryDirectory() as name:
        for work in asked.works:
            make, rows = WORKS[work]
            data = Path(name) / work
            data.mkdir()
            text = make(data, asked.rows or rows)
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
                print(f"{work:7} {str(checkout)[-24:]:24}" + "".join(f"{found[each]:9.2f}" for each in found))


if __name__ == "__main__":
    main()
