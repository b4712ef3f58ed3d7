"""Spark beside the embedded engine and plain DuckDB: are the exact totals the same numbers, and what do they take?

    python -m bench.spark [--rows N] [--works cells sums bounded] [--master local[2]]

The rows and the specs are those of works of ``bench/phases.py``. Every step of a plan is asked once, in a process of
its own: of the embedded engine, of Spark on this machine, and beside them the same groups of plain DuckDB without
bounds. Of each: SHA-256 of the exact totals, seconds of the processor of all its processes (Java's and the tasks' among
them), MiB of the process that asks, and MB that were written to the shuffle, compressed and encrypted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from bench.databases import peak
from bench.large_tables import answered
from bench.phases import POLICY, SETTINGS, WORKS
from dprelease.engines import ENGINES
from dprelease.engines.spark.session import MASTER, spark_context
from dprelease.release.planning import open_target, plan_release

RAW = {
    "cells": "SELECT county, sex, race, count(*) FROM '{file}' GROUP BY ALL",
    "sums": "SELECT county, sum(greatest(least(income, 100000), 0)) FROM '{file}' GROUP BY ALL",
    "bounded": "SELECT county, sum(greatest(least(income, 100000), 0)), count(DISTINCT user) FROM '{file}' "
    "WHERE age <= 12 GROUP BY ALL",
}
_TICKS = os.sysconf("SC_CLK_TCK")


def spent(process: int) -> float:
    """Seconds of the processor of a process, of all that it began and of all that these waited for."""
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        begun = [
            int(each)
            for task in Path(f"/proc/{process}/task").iterdir()
            for each in (task / "children").read_text().split()
        ]
    except OSError:
        return 0.0
    return sum(map(int, numbers[11:15])) / _TICKS + sum(map(spent, begun))


def shuffled(context: Any) -> float:
    """MB that the tasks of a session wrote to its shuffle."""
    executors = context._jsc.sc().statusStore().executorList(False)
    return sum(int(executors.apply(at).totalShuffleWrite()) for at in range(executors.size())) / 1e6


def ask(folder: Path, kind: str, work: str, master: str, told: Any) -> None:
    """Tell what the totals are, and what they took."""
    if kind == "raw":
        (file,) = folder.glob("*.parquet")
        found = duckdb.sql(RAW[work].format(file=file)).to_arrow_table()
        told.send(("", len(found), spent(os.getpid()), peak(), 0.0))
        return
    environment = {**os.environ, MASTER: master}
    plan, began = plan_release(open_target(folder / f"{kind}.yaml")), spent(os.getpid())
    engine = ENGINES[kind](folder, environment)
    digest, cells = answered(plan, folder, engine)
    sent = shuffled(spark_context(environment)) if kind == "spark" else 0.0
    told.send((digest, cells, spent(os.getpid()) - began, peak(), sent))
    engine.close()


def main() -> None:
    """Print all, and whether they are equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--works", nargs="+", choices=tuple(RAW), default=tuple(RAW))
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()
    equal = True
    for work in asked.works:
        print(f"{asked.rows:,} rows, {work}; cells, processor s, MiB, MB shuffled", flush=True)
        with tempfile.TemporaryDirectory() as name:
            equal = _one(Path(name), work, asked.rows, asked.master) and equal
    print("equal" if equal else "NOT EQUAL")
    raise SystemExit(not equal)


def _one(folder: Path, work: str, rows: int, master: str) -> bool:
    made = WORKS[work][0](folder, rows, False)
    texts = {"dprelease": SETTINGS, "policy": POLICY, "duckdb": made}
    texts["spark"] = made.replace("    source:", "    engine: spark\n    source:")
    for file, content in texts.items():
        (folder / f"{file}.yaml").write_text(content, encoding="utf-8")
    spawned, digests = multiprocessing.get_context("spawn"), []
    for kind in ("raw", "duckdb", "spark"):
        mine, its = spawned.Pipe()
        child = spawned.Process(target=ask, args=(folder, kind, work, master, its))
        child.start()
        its.close()
        digest, cells, seconds, most, sent = mine.recv()
        child.join()
        digests += [digest] * (kind != "raw")
        print(f"{kind:8}{digest[:16]:16} {cells:>9,} {seconds:8.1f} {most:8.0f} {sent:8.1f}", flush=True)
    return len(set(digests)) == 1


if __name__ == "__main__":
    main()
