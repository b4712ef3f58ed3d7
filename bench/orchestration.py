"""What Prefect costs: one release of 10, 100 and 1,000 queries with it, with a running server of its, and without.

Usage: ``python -m bench.orchestration [QUERIES ...] [--rounds N] [--rows N] [--small] [--ways WAY ...]``. Every query
counts the rows of made-up people by other columns than all others, so that no two share a pass; with ``--small`` it is
one number under a condition of its own, and many share one. Each run is the command itself in a process from scratch
and in a project of its own; the ways take turns, and the fastest of the rounds counts. Columns:

* wall, CPU: of the command and all that it started; for a running server its own CPU beside it, until it has written
  down what it was told. On a machine that others use the processor's time says more than the clock.
* plan: from the start until the budget is reserved, and so imports, planning, and fingerprints of the data.
* wait: from then until the first draw begins. A temporary server boots meanwhile: this is Prefect's start-up.
* inside: from the first draw to the closed release, and so every task of the flow but the first one.
* idle: of the time from the first draw to the last answer, the part in which no thread draws: what Prefect puts between
  draws, whatever these take. at work: how many threads draw at once, on average.
* end: from the closed release to the end of the process: artifacts, last events, a temporary server is stopped.
* share: what is longer inside and at the end than without Prefect, as a share of the whole wall time. It is what grows
  with the number of queries; start-up does not.
* of CPU: the same of the command's own processor time, without any server's.
* more: what its processor time, imports and all, is more than without Prefect; with a running server no server's is
  in it. within: the same from the first draw on, which is measuring and publishing. Here the least of the rounds
  counts, of each way by itself.
* MB: peak of the command, and of its temporary server (or of the running one).
* tasks and KB: what the run adds to Prefect's database.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.phases import conditional
from dprelease.failpoints import EVENT

COLUMNS = 20
KEYS = 3
WAYS = ("--direct", "temporary server", "running server")
MARKS = {"reserve.anchored": "reserved", "draw.begun": "drawing", "close.anchored": "closed"}
SETTINGS = "ledger: sqlite:///state/ledger.db\nreleases: releases\nprefect_home: {home}\npolicy: policy.yaml\n"
POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 8, delta: 1e-8}}
"""
HEAD = """dprelease: 1
release: {{name: bench, period: {period}, title: Many tables}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: 1, delta: 1e-9}}}}
tables:
  people:
    account: people
    source: {{file: {file}}}
    columns:
{columns}
queries:
{queries}
publish: {{formats: [csv]}}
"""


@dataclass(frozen=True)
class Found:
    """Figures of one run; seconds, megabytes and kilobytes."""

    wall: float
    cpu: float
    plan: float
    wait: float
    inside: float
    end: float
    client: float
    busy: float
    total: float
    idle: float
    at_work: float
    server: float = 0.0
    server_cpu: float = 0.0
    tasks: int = 0
    grown: float = 0.0


def write_people(path: Path, rows: int) -> None:
    """Made-up people; the generator may be seeded, for nothing in it is secret."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(7)
    pq.write_table(pa.table({f"c{k}": generator.integers(1, KEYS + 1, rows) for k in range(COLUMNS)}), path)


def grouped(queries: int) -> list[str]:
    """Lines of a spec: counts by other columns each."""
    chosen = itertools.chain.from_iterable(itertools.combinations(range(COLUMNS), size) for size in (2, 3, 4))
    return [
        f"  q{number}: {{table: people, by: [{', '.join(f'c{k}' for k in by)}], measures: {{n: {{count: rows}}}}}}"
        for number, by in enumerate(itertools.islice(chosen, queries))
    ]


def project(folder: Path, people: Path, home: Path, lines: list[str], period: str) -> None:
    """A project with one spec of these queries, whose ledger is empty."""
    columns = [f"      c{k}: {{type: integer, keys: {{from: 1, to: {KEYS}}}}}" for k in range(COLUMNS)]
    text = HEAD.format(
        period=period, file=json.dumps(str(people)), columns="\n".join(columns), queries="\n".join(lines)
    )
    folder.mkdir(parents=True)
    (folder / "dprelease.yaml").write_text(SETTINGS.format(home=json.dumps(str(home))), encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")


def _command(marks: str, words: list[str]) -> None:
    """The command, in a process from scratch, noting when it comes by: the first time, or of closing the last."""
    seen: dict[str, tuple[float, float]] = {}
    drawn: dict[int, list[list[float]]] = {}  # by thread, when each draw began and had its last answer

    def note(event: str, told: tuple[Any, ...]) -> None:
        if event != EVENT:
            return
        if (name := MARKS.get(told[0])) and (name not in seen or name == "closed"):
            seen[name] = (time.monotonic(), time.process_time())
        if told[0] == "draw.begun":
            now = time.monotonic()
            drawn.setdefault(threading.get_ident(), []).append([now, now])
        elif told[0] == "commit.read" and (mine := drawn.get(threading.get_ident())):
            mine[-1][1] = time.monotonic()

    sys.addaudithook(note)
    from dprelease.cli import main as dprelease

    sys.argv = ["dprelease", *words]
    try:
        dprelease()
    finally:
        seen["ended"] = (time.monotonic(), time.process_time())
        seen["idle"] = _idle([draw for mine in drawn.values() for draw in mine])
        Path(marks).write_text(json.dumps(seen), encoding="utf-8")


def _idle(draws: list[list[float]]) -> tuple[float, float]:
    """Of the time from the first beginning to the last end, the part that no draw covers; how many do on average."""
    covered, reached = 0.0, min(begun for begun, _ in draws)
    whole = max(ended for _, ended in draws) - reached
    for begun, ended in sorted(draws):
        covered += max(0.0, ended - max(begun, reached))
        reached = max(reached, ended)
    return 1 - covered / whole, sum(ended - begun for begun, ended in draws) / whole


def _environment(api: str = "") -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.upper().startswith("PREFECT_")}
    return {**kept, "NO_PROXY": "127.0.0.1", **({"PREFECT_API_URL": api} if api else {})}


def _descendants(process: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))


def _peak(process: int) -> float:
    """The most memory that a process has had so far, in MB."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3
    return 0.0


def _processor(process: int) -> float:
    """Seconds of processor time of one process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(folder: Path, *words: str, api: str = "") -> Found:
    """Release the project's spec by the command."""
    marks = folder / "marks.json"
    code = "import sys; from bench.orchestration import _command; _command(sys.argv[1], sys.argv[2:])"
    environment = {**_environment(api), "PYTHONPATH": str(Path(__file__).parents[1])}
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(marks), "run", "spec.yaml", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    client = server = 0.0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        client = max(client, _peak(process.pid))
        server = max([server, *map(_peak, _descendants(process.pid))])
        time.sleep(0.05)
    ended = time.monotonic()
    said = process.stderr.read().decode() if process.stderr else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.stderr:
        process.stderr.close()
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}: {said}")
    seen = json.loads(marks.read_text(encoding="utf-8"))
    at, used = ({name: both[k] for name, both in seen.items()} for k in (0, 1))
    return Found(
        wall=ended - started,
        cpu=usage.ru_utime + usage.ru_stime,
        plan=at["reserved"] - started,
        wait=at["drawing"] - at["reserved"],
        inside=at["closed"] - at["drawing"],
        end=ended - at["closed"],
        client=client,
        busy=used["ended"] - used["drawing"],
        total=used["ended"],
        idle=at["idle"],
        at_work=used["idle"],
        server=server,
    )


@dataclass(frozen=True)
class Server:
    """A Prefect server that keeps running."""

    api: str
    process: int
    database: Path


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """``prefect server start`` on the loopback, with a database of its own, until it answers and to the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home.mkdir()
    settings = {"PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"],
        env={**_environment(), **settings},
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        api = f"http://127.0.0.1:{port}/api"
        while process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{api}/health", timeout=5):
                break
            time.sleep(0.2)
        else:
            raise SystemExit("Prefect's server has ended")
        yield Server(api, process.pid, home / "prefect.db")
    finally:
        process.terminate()
        process.wait()


def _kept(database: Path) -> tuple[int, int]:
    """Task runs, and bytes, in Prefect's database."""
    if not database.exists():
        return 0, 0
    with closing(sqlite3.connect(database, timeout=60)) as reader:
        (tasks,) = reader.execute("select count(*) from task_run where state_type = 'COMPLETED'").fetchone()
        (pages,) = reader.execute("pragma page_count").fetchone()
        (size,) = reader.execute("pragma page_size").fetchone()
        (free,) = reader.execute("pragma freelist_count").fetchone()
    return tasks, (pages - free) * size


def _settled(server: Server) -> None:
    """Wait until the server has nothing to do: it writes tasks down long after the command has ended."""
    quiet, before = 0, _processor(server.process)
    while quiet < 5:
        time.sleep(1)
        now = _processor(server.process)
        quiet, before = (quiet + 1 if now - before < 0.2 else 0), now


def measured(
    way: str, folder: Path, people: Path, homes: Mapping[str, Path], server: Server, lines: list[str]
) -> Found:
    """One run of these queries one way."""
    project(folder, people, homes["own"], lines, "2024")
    if way == "--direct":
        return run(folder, "--direct")
    api, database = ("", homes["own"] / "prefect.db") if way == "temporary server" else (server.api, server.database)
    before, used = _kept(database), _processor(server.process)
    found = run(folder, api=api)
    if api:
        _settled(server)
        found = replace(found, server=_peak(server.process), server_cpu=_processor(server.process) - used)
    after = _kept(database)
    return replace(found, tasks=after[0] - before[0], grown=(after[1] - before[1]) / 1e3)


def told(queries: int, way: str, found: Found, direct: Found, least: Sequence[float]) -> str:
    """A line of the table."""
    more = found.inside + found.end - direct.inside - direct.end
    share = "" if way == "--direct" else f"{more / found.wall:6.1%}"
    of_cpu = "" if way == "--direct" else f"{(found.busy - direct.busy) / found.total:6.1%}"
    beyond = " ".join(f"{'' if way == WAYS[0] else f'{each:6.1%}':>7}" for each in least)
    seconds = " ".join(f"{value:7.2f}" for value in (found.wall, found.plan, found.wait, found.inside, found.end))
    server_cpu = f"+{found.server_cpu:.1f}" if found.server_cpu else ""
    figures = (
        f"{found.cpu:7.1f} {server_cpu:>6} {share:>7} {of_cpu:>7} {beyond} {found.client:6.0f} {found.server:6.0f}"
    )
    drawing = f"{found.idle:6.1%} {found.at_work:7.2f}"
    return f"{queries:7} {way:<17} {seconds} {drawing} {figures} {found.tasks:6} {found.grown:8.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("queries", nargs="*", type=int, default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--ways", nargs="+", choices=WAYS[1:], default=WAYS[1:], help="beside --direct")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped, too
    ways, lines = (WAYS[0], *asked.ways), conditional if asked.small else grouped
    best: dict[tuple[int, str], Found] = {}
    least: dict[tuple[int, str], tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people, homes = folder / "people.parquet", {"own": folder / "own"}
        write_people(people, asked.rows)
        with serving(folder / "served") as server:
            for way in ways[1:]:  # the first run of a home makes its database, and of a server its tables
                measured(way, folder / f"first {way}", people, homes, server, lines(1))
            for turn, queries in itertools.product(range(asked.rounds), asked.queries):
                for way in random.sample(ways, len(ways)):
                    found = measured(way, folder / f"{turn} {queries} {way}", people, homes, server, lines(queries))
                    cpu, busy = least.get((queries, way), (found.cpu, found.busy))
                    least[queries, way] = min(cpu, found.cpu), min(busy, found.busy)
                    known = best.get((queries, way))
                    best[queries, way] = found if known is None or found.wall < known.wall else known
    print(f"{asked.rows} rows of {COLUMNS} columns; the fastest of {asked.rounds}; seconds; {os.cpu_count()} cores")
    names = (
        "wall",
        "plan",
        "wait",
        "inside",
        "end",
        "idle",
        "at work",
        "CPU",
        "server",
        "share",
        "of CPU",
        "more",
        "within",
    )
    head = [f"{each:>7}" for each in names]
    print(f"queries {'way':<17} {' '.join(head)} MB own server  tasks       KB")
    for queries in asked.queries:
        for way in ways:
            without = least[queries, WAYS[0]]
            more = [mine / its - 1 for mine, its in zip(least[queries, way], without, strict=True)]
            print(told(queries, way, best[queries, way], best[queries, WAYS[0]], more))


if __name__ == "__main__":
    main()
