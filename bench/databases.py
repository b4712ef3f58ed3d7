"""Rows of databases beside the same rows in a Parquet file: how long loading and the fingerprint take.

    python -m bench.databases [rows] [source ...]

The sources are ``parquet``, ``duckdb``, ``postgresql`` and ``mysql`` (which is MariaDB), all where none is named. The
servers' own programs are needed (``tests/postgres.py``, ``tests/mariadb.py``). Every run is a process of its own, and
all sources take turns, three times; of each the least counts. A client and its server work at once, so that the wall
time says as much of what else runs on the machine: beside it stand the processor's seconds of both.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import AnySource, Catalog, Column, DatabaseSource, Range, Source, Table
from dprelease.engines import DuckDBEngine
from dprelease.engines.readers import SOURCE_READERS
from tests import mariadb
from tests.postgres import RUNNER, start_server

SOURCES = ("parquet", "duckdb", "postgresql", "mysql")
COLUMNS = (
    Column(name="state", type="text", keys=tuple(f"{at:02}" for at in range(50))),
    Column(name="sex", type="integer", keys=(1, 2)),
    Column(name="age", type="integer", range=Range(low=0, high=99)),
    Column(name="pay", type="decimal", range=Range(low=0, high=100_000)),
    Column(name="seen", type="date"),
    Column(name="town", type="text"),
)
MADE = (
    "SELECT lpad((n * 7919 % 50)::text, 2, '0') AS state, (n % 2 + 1)::int AS sex, (n * 31 % 100)::int AS age, "
    "(n * 104729 % 10000000)::float8 / 100 AS pay, DATE '2024-01-01' + (n % 366)::int AS seen, "
    "'town ' || (n * 13 % 5000)::text AS town FROM "
)
ASKED = (
    Quantity(kind="rows"),
    Quantity(kind="sum", column="pay", low=0, high=100_000),
    Quantity(kind="distinct", column="town"),
    Quantity(kind="nonnull", column="seen"),
    Quantity(kind="nonnull", column="age"),
)


def table(source: AnySource) -> Table:
    """The table, wherever its rows are."""
    return Table(name="people", account="a", source=source, columns=COLUMNS)


def answered(folder: Path, source: AnySource) -> None:
    """A pass over all columns, loading among it."""
    engine, people = DuckDBEngine(folder, {}), table(source)
    grouping = Grouping(table="people", by=("state", "sex"))
    engine.aggregate(Catalog(tables={"people": people}), grouping, ASKED, {}, bytes(32))
    engine.close()


def hashed(folder: Path, source: AnySource) -> None:
    """A fingerprint."""
    reader = SOURCE_READERS[source.format](folder, {})
    reader.fingerprint(table(source), bytes(32), loaded=False)
    reader.close()


def server_seconds(number: int | None) -> float:
    """Processor seconds of a server's process, of those that it has started, and of those that have ended."""
    if number is None:
        return 0.0
    found = 0
    for place in Path("/proc").iterdir():
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split() if place.name.isdigit() else []
        except OSError:  # it has ended meanwhile
            continue
        if fields and number in (int(place.name), int(fields[1])):
            found += sum(map(int, fields[11 : 15 if int(place.name) == number else 13]))
    return found / os.sysconf("SC_CLK_TCK")


def peak() -> float:
    """MiB at the most of this process, by the system; what the one that started it had does not count."""
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measured(action: Callable[[Path, AnySource], None], folder: Path, source: AnySource, told: Any) -> None:
    """In a process of its own: seconds of the wall and of the processor, and MiB at the most."""
    begun, spent = time.perf_counter(), time.process_time()
    action(folder, source)
    seconds, spent = time.perf_counter() - begun, time.process_time() - spent
    told.send((seconds, spent, peak()))


def once(action: Callable[[Path, AnySource], None], folder: Path, source: AnySource, server: int | None) -> list[float]:
    """Wall, processor seconds of both, and MiB of the client."""
    spawned = multiprocessing.get_context("spawn")
    mine, its = spawned.Pipe()
    before = server_seconds(server)
    child = spawned.Process(target=measured, args=(action, folder, source, its))
    child.start()
    its.close()
    seconds, spent, most = mine.recv()
    child.join()
    return [seconds, spent + server_seconds(server) - before, most]


def into_files(folder: Path, rows: int) -> None:
    """The rows in a DuckDB file, a Parquet file, and a file of lines that MySQL takes in."""
    with duckdb.connect(str(folder / "people.duckdb")) as file:
        file.execute("SET enable_progress_bar = false")
        file.execute(f"CREATE TABLE people AS {MADE.replace('n * ', 'n::BIGINT * ')} range(1, {rows + 1}) AS r(n)")
        file.execute(f"COPY people TO '{folder / 'people.parquet'}'")
        file.execute(f"COPY people TO '{folder / 'people.tsv'}' (DELIMITER '\t', HEADER false)")


def servers(
    wanted: list[str], folder: Path, rows: int, running: ExitStack
) -> Iterator[tuple[str, AnySource, int | None]]:
    """Each source that is wanted, and the process of its server."""
    if "parquet" in wanted:
        yield "parquet", Source(file="people.parquet", format="parquet"), None
    if "duckdb" in wanted:
        yield "duckdb", DatabaseSource(database="duckdb:///people.duckdb", table="people"), None
    if "postgresql" in wanted:
        server = start_server()
        running.callback(server.remove)
        database = server.new_database()
        made = MADE.replace("n * ", "n::BIGINT * ")
        database.execute(f"CREATE TABLE people AS {made} generate_series(1, {rows}) AS n")
        database.execute("VACUUM ANALYZE people")
        database.execute(f"GRANT SELECT ON people TO {RUNNER}")
        number = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        yield "postgresql", DatabaseSource(database=database.runner, table="people"), number
    if "mysql" in wanted:
        office = running.enter_context(mariadb.started())
        office.execute(
            "CREATE TABLE people (state varchar(2), sex int, age int, pay double, seen date, town varchar(20))",
            f"LOAD DATA INFILE '{folder / 'people.tsv'}' INTO TABLE people",
        )
        office.grant("people")
        own = office.process.pid if office.process is not None else None
        yield "mysql", DatabaseSource(database=office.url, table="people"), own


def main() -> None:
    """Print the figures of each source, and what its loading is beside that of Parquet."""
    words = sys.argv[1:]
    rows = int(words.pop(0)) if words and words[0].isdigit() else 1_000_000
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # the server of MySQL is another user
        into_files(folder, rows)
        places = [*servers(words or [*SOURCES], folder, rows, running)]
        taken: dict[tuple[str, str], list[list[float]]] = {}
        for _ in range(3):
            for name, source, server in places:
                for action in (answered, hashed):
                    taken.setdefault((name, action.__name__), []).append(once(action, folder, source, server))
    least = {key: [min(each) for each in zip(*runs, strict=True)] for key, runs in taken.items()}
    first = places[0][0]
    print(f"{rows:,} rows of {len(COLUMNS)} columns at load {os.getloadavg()[0]:.1f}: seconds of the wall and of the")
    print(f"processor, and MiB at the most; in brackets beside {first}")
    for name, _, _ in places:
        found, hashes = least[name, "answered"], least[name, "hashed"]
        shown = [
            f"{each:7.2f} ({each / base:4.2f})" for each, base in zip(found, least[first, "answered"], strict=True)
        ]
        print(f"{name:11} load {' '.join(shown)}; fingerprint {hashes[0]:6.2f} {hashes[1]:6.2f}")


if __name__ == "__main__":
    main()
