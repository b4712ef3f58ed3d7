"""Spark beside the embedded engine, and beside plain SQL in each of them: are the exact answers the same numbers?

    python -m bench.spark [--rows N] [--works W1 W3 W4 bounded] [--master local[2]] [--data FOLDER] [--ours]

W1 to W4 are the works of ``bench/peers/works.py``, with its rows and queries; ``bounded`` is in ``bench/phases.py``.
Every pass of a plan is made once, in a process of its own: by the embedded engine, and by Spark on this machine. Beside
them stand the same queries in plain SQL without bounds, in DuckDB and in Spark's own language, and of W4 those with
users bounded by window functions as well. Of each: SHA-256 of the exact answers; seconds of the processor of all its
processes (Java's and the tasks' among them), apart from what it takes until a session has done a first job; seconds of
the clock; how many times the processor seconds of each plain line of the same engine that is; MiB at the most of the
process that asks, and of Java, which is executor as well; and MB that were written to the shuffle, compressed and
encrypted. Of several rounds the least processor seconds count. Java may take 4 GiB: with the 1 GiB that Spark gives it
by itself the quartiles of W3 in Spark's own language end it at ten million rows. With ``--ours`` no line is plain.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from bench import phases
from bench.databases import peak
from bench.large_tables import answered
from bench.peers import works
from bench.peers.rows import write_rows
from bench.peers.systems import ours
from dprelease.engines import ENGINES
from dprelease.engines.spark.session import MASTER, spark_context
from dprelease.release.planning import open_target, plan_release

BOUNDED = (
    "SELECT county, sum(greatest(least(income, 100000), 0)), count(DISTINCT user) FROM {rows} "
    "WHERE age <= 12 GROUP BY county"
)
ENGINE, PLAIN, KEPT = "ours", "plain", "plain, bounded"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Work:
    """What is asked: the files of a project, the file of rows, and plain queries of ``{rows}`` by their kind."""

    files: dict[str, str]
    rows: Path
    plain: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Told:
    """What one process tells: see the head of this file."""

    digest: str
    numbers: int
    started: float
    spent: float
    seconds: float
    most: float
    java: float
    shuffled: float


def prepared(name: str, folder: Path, data: Path, rows: int) -> Work:
    """A work with its rows, which are written if they are not there: those of ``bounded`` beside the spec."""
    if name == "bounded":
        text = phases.WORKS[name][0](folder, rows, False)
        files = {"dprelease": phases.SETTINGS, "policy": phases.POLICY, "spec": text}
        return Work(files, folder / "people.parquet", {PLAIN: (BOUNDED,)})
    work = works.WORKS[name]
    file = write_rows(data, rows, [work.table]) / f"{work.table}.parquet"
    text = ours.spec_text(work, str(file.resolve()), "1", "1e-6")
    plain = {PLAIN: tuple(works.raw_sql(query, "", "{rows}") for query in work.queries)}
    if work.bounded:
        kept = works.bounded_rows("", "{rows}")
        plain[KEPT] = tuple(works.raw_sql(query, "", kept) for query in work.queries)
    return Work({"dprelease": ours.SETTINGS, "policy": ours.policy_text("gaussian"), "spec": text}, file, plain)


def children(process: int) -> Iterator[int]:
    """The processes that a process began and has not waited for, and theirs."""
    try:
        begun = [
            int(each)
            for task in Path(f"/proc/{process}/task").iterdir()
            for each in (task / "children").read_text().split()
        ]
    except OSError:
        return
    for each in begun:
        yield each
        yield from children(each)


def spent(process: int) -> float:
    """Seconds of the processor of a process, of all that it began and of all that these waited for."""
    total = 0.0
    for each in (process, *children(process)):
        try:
            numbers = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, numbers[11:15])) / _TICKS
    return total


def of_java(process: int) -> float:
    """MiB at the most of the Java that a process began."""
    for each in children(process):
        status = Path(f"/proc/{each}/status").read_text().splitlines()
        if "Name:\tjava" in status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    return 0.0


def shuffled(context: Any) -> float:
    """MB that the tasks of a session wrote to its shuffle."""
    executors = context._jsc.sc().statusStore().executorList(False)
    return sum(int(executors.apply(at).totalShuffleWrite()) for at in range(executors.size())) / 1e6


def plainly_in_duckdb(work: Work, kind: str) -> int:
    """The plain queries, one by one; how many rows they have."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    rows = f"read_parquet('{work.rows}')"
    return sum(len(connection.sql(sql.format(rows=rows)).to_arrow_table()) for sql in work.plain[kind])


def plainly_in_spark(work: Work, kind: str, context: Any) -> int:
    """The same in Spark's own language, with a partition of the shuffle for each core."""
    from pyspark.sql import SparkSession

    session = SparkSession(context)
    session.conf.set("spark.sql.shuffle.partitions", context.defaultParallelism)
    rows = f"parquet.`{work.rows}`"
    return sum(len(session.sql(sql.format(rows=rows)).toArrow()) for sql in work.plain[kind])


def ask(folder: Path, engine: str, kind: str, work: Work, master: str, told: Any) -> None:
    """Tell what the answers are, and what they took."""
    environment, context = {**os.environ, MASTER: master}, None
    plan = plan_release(open_target(folder / f"{engine}.yaml"))
    began = spent(os.getpid())
    if engine == "spark":
        os.environ["SPARK_DRIVER_MEMORY"] = "4g"
        context = spark_context(environment)
        context.parallelize(range(context.defaultParallelism)).map(str).collect()
    started, since = spent(os.getpid()), time.perf_counter()
    digest = ""
    if kind == ENGINE:
        opened = ENGINES[engine](folder, environment)
        digest, numbers = answered(plan, folder, opened)
        opened.close()
    elif engine == "spark":
        numbers = plainly_in_spark(work, kind, context)
    else:
        numbers = plainly_in_duckdb(work, kind)
    seconds, all_of_it = time.perf_counter() - since, spent(os.getpid())
    java, sent = (0.0, 0.0) if context is None else (of_java(os.getpid()), shuffled(context))
    told.send(Told(digest, numbers, started - began, all_of_it - started, seconds, peak(), java, sent))


def apart(action: Callable[..., None], *given: Any) -> Told:
    """What a process of its own tells."""
    mine, its = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=action, args=(*given, its))
    child.start()
    its.close()
    found: Told = mine.recv()
    child.join()
    return found


def _one(folder: Path, data: Path, name: str, asked: argparse.Namespace) -> bool:
    work = prepared(name, folder, data, asked.rows)
    spec = work.files["spec"]
    specs = {"duckdb": spec, "spark": spec.replace("    source:", "    engine: spark\n    source:")}
    for file, content in {**work.files, **specs}.items():
        (folder / f"{file}.yaml").write_text(content, encoding="utf-8")
    digests = set()
    for engine in ("duckdb", "spark"):
        plain: dict[str, float] = {}
        for kind in (*(() if asked.ours else work.plain), ENGINE):
            turns = [apart(ask, folder, engine, kind, work, asked.master) for _ in range(asked.rounds)]
            best = min(turns, key=lambda each: each.spent)
            digests |= {each.digest for each in turns} - {""}
            ratios = [f"{best.spent / each:.2f}" for each in plain.values()] if kind == ENGINE else []
            if kind != ENGINE:
                plain[kind] = best.spent
            spents = f"{best.started:6.1f} {best.spent:8.1f} {best.seconds:8.1f} {' '.join(ratios):>10}"
            most = f"{best.most:6.0f} {best.java:6.0f} {best.shuffled:8.1f}"
            print(f"{f'{engine} {kind}':21} {best.digest[:12]:12} {best.numbers:>10,} {spents} {most}", flush=True)
    return len(digests) == 1


def main() -> None:
    """Print all, and whether the answers are equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--works", nargs="+", choices=(*works.WORKS, "bounded"), default=("W1", "W3", "W4", "bounded"))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ours", action="store_true", help="without plain SQL")
    parser.add_argument("--data", type=Path, help="where rows are kept for another time")
    asked = parser.parse_args()
    equal = True
    for name in asked.works:
        print(
            f"{asked.rows:,} rows, {name}; digest, numbers, processor s to start and to answer, clock s, times plain, "
            "MiB asking, MiB Java, MB shuffled",
            flush=True,
        )
        with tempfile.TemporaryDirectory() as own:
            equal = _one(Path(own), asked.data or Path(own), name, asked) and equal
    print("equal" if equal else "NOT EQUAL")
    raise SystemExit(not equal)


if __name__ == "__main__":
    main()
