"""Seconds for 93 marginals of 8 attributes over N rows with the embedded engine, beside plain DuckDB in the same run.

Usage: ``python bench/workload_engine.py [ROWS ...]``, one process each. The rows are invented, as skewed as people are;
the tables are all of one, two and three attributes and the total, 93 of them. Plain DuckDB holds the same values in
memory and answers one GROUP BY per table; it knows no keys. Both use one thread for each core.
"""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.engines import ENGINES

SIZES = {"sex": 2, "age": 100, "race": 7, "origin": 2, "school": 16, "work": 9, "home": 5, "area": 51}
BLOCK = 500_000
TABLES = [by for size in range(4) for by in itertools.combinations(SIZES, size)]


def write(path: Path, rows: int) -> None:
    """A file of invented people; its generator has a fixed start, for nothing in it is secret."""
    draw, writer = np.random.default_rng(1), None
    for start in range(0, rows, BLOCK):
        count = min(BLOCK, rows - start)
        block = {
            name: pa.array((draw.beta(1, 3, count) * size).astype(np.int64)) if name != "area" else _areas(draw, count)
            for name, size in SIZES.items()
        }
        writer = writer or pq.ParquetWriter(path, pa.table(block).schema)
        writer.write_table(pa.table(block))
    assert writer is not None
    writer.close()


def _areas(draw: np.random.Generator, count: int) -> pa.Array:
    return pa.array(np.char.add("a", draw.integers(0, SIZES["area"], count).astype(str)))


def table() -> Table:
    columns = tuple(
        Column(name=name, type="integer", keys=tuple(range(size)))
        if name != "area"
        else Column(name=name, type="text", keys=tuple(f"a{at}" for at in range(size)))
        for name, size in SIZES.items()
    )
    return Table(name="people", account="b", source=Source(file="people.parquet", format="parquet"), columns=columns)


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def ours(folder: Path) -> tuple[float, float, float]:
    """Seconds to load, to the first table, and for all others."""
    engine, catalog = ENGINES["duckdb"](folder, {}), Catalog(tables={"people": table()})
    complete, rows = tuple(SIZES), (Quantity(kind="rows"),)
    marks = [time.perf_counter()]
    engine.aggregate(catalog, Grouping(table="people", by=()), rows, {}, b"")
    marks.append(time.perf_counter())
    for at, by in enumerate(TABLES):
        engine.aggregate(catalog, Grouping(table="people", by=by, complete=complete), rows, {}, b"")
        if at == 0:
            marks.append(time.perf_counter())
    marks.append(time.perf_counter())
    engine.close()
    load, first, rest = (after - before for before, after in itertools.pairwise(marks))
    return load, first, rest


def plain(path: Path) -> tuple[float, float]:
    """Seconds to load, and for a GROUP BY per table."""
    connection = duckdb.connect(":memory:")
    marks = [time.perf_counter()]
    connection.execute("CREATE TABLE people AS SELECT * FROM read_parquet(?)", [str(path)])
    marks.append(time.perf_counter())
    for by in TABLES:
        connection.execute(
            f"SELECT {''.join(name + ', ' for name in by)} count(*) FROM people GROUP BY ALL"
        ).fetchnumpy()
    marks.append(time.perf_counter())
    return marks[1] - marks[0], marks[2] - marks[1]


def one(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        write(path, rows)
        print(f"{rows} rows, {len(TABLES)} tables; {memory():.0f} MiB before")
        load, first, rest = ours(Path(folder))
        print(f"dprelease      load {load:6.1f} s   first table {first:6.1f} s   the others {rest:6.1f} s", end="   ")
        print(f"tables in all {first + rest:6.1f} s   peak {memory():.0f} MiB")
        load, whole = plain(path)
        print(f"plain DuckDB   load {load:6.1f} s   tables in all {whole:6.1f} s   peak of both {memory():.0f} MiB")


def main() -> None:
    if len(sys.argv) == 2:
        one(int(sys.argv[1]))
        return
    for rows in sys.argv[1:] or ("1000000", "10000000"):
        subprocess.run([sys.executable, __file__, rows], check=True)


if __name__ == "__main__":
    main()
