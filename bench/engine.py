"""CPU seconds to load and to aggregate N rows with the embedded engine, beside plain DuckDB on the same file.

Usage: ``python bench/engine.py [ROWS] [all]``, with ``all`` every value in quotes. The file has four short columns
(county, sex, race, income) from a small generator; the query is a count and a clipped sum by county x sex x race,
42,000 cells. Plain DuckDB reads the file with its own CSV reader and given types, and has no rules for odd values. The
least of three turns counts.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Range, Source, Table
from dprelease.engines import ENGINES

COUNTIES, SEXES, RACES = 3000, 2, 7


def write(path: Path, rows: int, quoting: str = "none") -> None:
    """A file of invented people; the generator needs no entropy, for nothing in it is secret."""
    at = np.arange(rows, dtype=np.int64) * 2654435761 % 2**32
    people = {
        "county": pa.array((at % COUNTIES).astype(str)),
        "sex": (at // 7) % SEXES + 1,
        "race": (at // 31) % RACES + 1,
        "income": (at // 101) % 120000 - 5000,
    }
    pv.write_csv(pa.table(people), path, pv.WriteOptions(quoting_style=quoting))


def table() -> Table:
    limits = Range(low=Fraction(-10000), high=Fraction(500000))
    return Table(
        name="persons",
        account="bench",
        source=Source(file="persons.csv", format="csv"),
        columns=(
            Column(name="county", type="text", keys=tuple(str(key) for key in range(COUNTIES))),
            Column(name="sex", type="integer", keys=tuple(range(1, SEXES + 1))),
            Column(name="race", type="integer", keys=tuple(range(1, RACES + 1))),
            Column(name="income", type="decimal", range=limits),
        ),
    )


def plain(path: Path) -> tuple[float, float]:
    started = time.process_time()
    connection = duckdb.connect()
    kinds = {"county": "VARCHAR", "sex": "BIGINT", "race": "BIGINT", "income": "DOUBLE"}
    relation = connection.read_csv(str(path), dtype=kinds)
    relation.create("persons")
    loaded = time.process_time()
    connection.execute(
        "SELECT county, sex, race, count(*), sum(least(greatest(round(income), 0), 200000)::BIGINT) "
        "FROM persons GROUP BY ALL"
    ).fetchnumpy()
    return loaded - started, time.process_time() - loaded


def ours(folder: Path) -> tuple[float, float]:
    started = time.process_time()
    engine = ENGINES["duckdb"](folder, {})
    count, summed = Quantity(kind="rows"), Quantity(kind="sum", column="income", low=0, high=200000)
    catalog = Catalog(tables={"persons": table()})
    all_rows, cells = Grouping(table="persons", by=()), Grouping(table="persons", by=("county", "sex", "race"))
    engine.expect(catalog, [(all_rows, (count,)), (cells, (count, summed))])
    engine.aggregate(catalog, all_rows, (count,), {}, b"")
    loaded = time.process_time()
    engine.aggregate(catalog, cells, (count, summed), {}, b"")
    return loaded - started, time.process_time() - loaded


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "persons.csv"
        write(path, rows, "all_valid" if "all" in sys.argv else "none")
        print(f"{rows} rows, {path.stat().st_size / 2**20:.0f} MiB of CSV")
        turns = [(ours(Path(folder)), plain(path)) for _ in range(3)]
        for name, taken in zip(("dprelease", "plain DuckDB"), zip(*turns, strict=True), strict=True):
            load, query = (min(each) for each in zip(*taken, strict=True))
            print(f"{name:14} load {load:7.2f} s   aggregate {query:6.2f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB (both)")


if __name__ == "__main__":
    main()
