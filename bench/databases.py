"""Rows of PostgreSQL beside the same rows in a Parquet file: how long loading and the fingerprint take.

    python bench/databases.py [rows]

Needs the programs of a PostgreSQL server (``tests/postgres.py``). Wall time, for the server's work is that of another
process; best of three.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import AnySource, Catalog, Column, DatabaseSource, Range, Source, Table
from dprelease.engines import DuckDBEngine
from dprelease.engines.readers import SOURCE_READERS
from tests.postgres import RUNNER, start_server

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
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


def best(action: Callable[[], object]) -> float:
    """Seconds of the fastest of three."""
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begun)
    return min(taken)


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


def main() -> None:
    """Print both times of each source, and what they are beside those of Parquet."""
    server = start_server()
    try:
        with tempfile.TemporaryDirectory() as made:
            folder, database = Path(made), server.new_database()
            made_here = MADE.replace("n * ", "n::BIGINT * ")
            database.execute(f"CREATE TABLE people AS {made_here} generate_series(1, {ROWS}) AS n")
            database.execute("VACUUM ANALYZE people")
            database.execute(f"GRANT SELECT ON people TO {RUNNER}")
            with duckdb.connect(str(folder / "people.duckdb")) as file:
                file.execute(f"CREATE TABLE people AS {made_here} range(1, {ROWS + 1}) AS r(n)")
                file.execute(f"COPY people TO '{folder / 'people.parquet'}'")
            sources: dict[str, AnySource] = {
                "parquet": Source(file="people.parquet", format="parquet"),
                "duckdb": DatabaseSource(database="duckdb:///people.duckdb", table="people"),
                "postgresql": DatabaseSource(database=database.runner, table="people"),
            }
            times = {
                name: (best(partial(answered, folder, each)), best(partial(hashed, folder, each)))
                for name, each in sources.items()
            }
            whole = times["parquet"][0]
            print(f"{ROWS:,} rows of {len(COLUMNS)} columns")
            for name, (load, fingerprint) in times.items():
                print(f"{name:12} load {load:6.2f} s ({load / whole:4.2f} x Parquet), fingerprint {fingerprint:6.2f} s")
    finally:
        server.remove()


if __name__ == "__main__":
    main()
