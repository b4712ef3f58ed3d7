"""Seconds to load, bound and aggregate rows of many units, beside the same bounded query written by hand.

Usage: ``python bench/bounding.py [ROWS]``. The rows (10 million unless given) belong to a tenth as many units, skewed:
a few have thousands of rows, most a handful. At most 10 cells of each unit and 5 of its rows in each are kept; asked
are a count and a clipped sum by 3,000 keys. By hand is plain DuckDB over the same Parquet file: a window of rows in
random order per unit and cell, and one of cells in hashed order per unit; no typing of values, no stable sample, no
check of the bounds. Neither draws noise. On a machine that others use the processor's time says more than the clock.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Range, Source, Table
from dprelease.engines import ENGINES
from dprelease.noise.exact import Exact, open_exact

KEYS, GROUPS, EACH, CLIP = 3000, 10, 5, 200
BY_HAND = f"""
WITH ranked AS (
    SELECT unit, key, amount, row_number() OVER (PARTITION BY unit, key ORDER BY random()) AS place FROM visits
), cells AS (
    SELECT unit, key, row_number() OVER (PARTITION BY unit ORDER BY hash(unit, key)) AS place
    FROM (SELECT DISTINCT unit, key FROM visits)
)
SELECT key, count(*), sum(least(greatest(round(amount), 0), {CLIP})::BIGINT)
FROM ranked JOIN cells USING (unit, key)
WHERE ranked.place <= {EACH} AND cells.place <= {GROUPS}
GROUP BY key
"""


def write(path: Path, rows: int) -> None:
    """Invented visits; the generator may be seeded, for nothing in it is secret."""
    generator = np.random.default_rng(7)
    units = max(1, rows // 10)
    pq.write_table(
        pa.table(
            {
                "unit": (units * generator.random(rows) ** 2).astype(np.int64),
                "key": np.minimum(generator.pareto(1.0, rows) * 40, KEYS - 1).astype(np.int64),
                "amount": generator.gamma(2.0, 40.0, rows).round(2),
            }
        ),
        path,
    )


def catalog() -> Catalog:
    limits = Range(low=Fraction(0), high=Fraction(100_000))
    table = Table(
        name="visits",
        account="bench",
        source=Source(file="visits.parquet", format="parquet"),
        columns=(
            Column(name="unit", type="integer"),
            Column(name="key", type="integer", keys=tuple(range(KEYS))),
            Column(name="amount", type="decimal", range=limits),
        ),
        unit_id="unit",
    )
    return Catalog(tables={"visits": table})


def by_hand(path: Path) -> tuple[float, float, list[int]]:
    started = time.perf_counter()
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE visits AS SELECT * FROM read_parquet('{path}')")
    loaded = time.perf_counter()
    found = connection.execute(BY_HAND).fetchnumpy()
    done = time.perf_counter()
    connection.close()
    return loaded - started, done - loaded, [int(values.sum()) for values in list(found.values())[1:]]


def ours(folder: Path) -> tuple[float, float, list[int]]:
    declared, secret = catalog(), bytes(range(32))
    count, summed = Quantity(kind="rows"), Quantity(kind="sum", column="amount", low=0, high=CLIP)
    started = time.perf_counter()
    engine = ENGINES["duckdb"](folder, {})
    engine.aggregate(declared, Grouping(table="visits", by=(), where="FALSE"), (count,), {}, secret)
    loaded = time.perf_counter()
    grouping = Grouping(table="visits", by=("key",), max_groups=GROUPS, max_rows_per_group=EACH)
    boxes = engine.aggregate(declared, grouping, (count, summed), {}, secret)
    done = time.perf_counter()
    engine.close()
    return loaded - started, done - loaded, [int(open_exact(box).sum()) for box in boxes if isinstance(box, Exact)]


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def shown(name: str, run: Callable[[], tuple[float, float, list[int]]]) -> tuple[float, float]:
    """Run one way and print what it took; seconds of the clock and of the processor."""
    before = processor()
    load, query, (count, summed) = run()
    used, peak = processor() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:9} load {load:.2f} s, aggregate {query:.2f} s, together {load + query:.2f} s, processor {used:.2f} s")
    print(f"{'':9} count {count}, sum {summed}, peak memory so far {peak:.1f} GiB")
    return load + query, used


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        write(path, rows)
        print(f"{rows} rows, {path.stat().st_size / 2**20:.0f} MiB of Parquet")
        ways = {"dprelease": lambda: ours(Path(folder)), "by hand": lambda: by_hand(path)}
        spent = {name: shown(name, run) for name, run in ways.items()}
        for at, unit in enumerate(("seconds", "processor seconds")):
            print(f"ratio of {unit}: {spent['dprelease'][at] / spent['by hand'][at]:.2f}")


if __name__ == "__main__":
    main()
