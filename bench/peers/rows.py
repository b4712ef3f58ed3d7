"""Made-up rows for the works: the same bytes of the same number of rows wherever NumPy draws alike.

The generators have fixed starts, for nothing in the rows is secret. Counties differ in size, and users in how many
rows they have, as in real files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.works import KEYS

__all__ = ["write_rows"]

_BLOCK = 1_000_000
_ROWS_PER_USER = 10


def _counties(draw: np.random.Generator, rows: int) -> np.ndarray:
    sizes = np.random.default_rng(11).lognormal(0, 1, KEYS["county"])
    return 1 + np.searchsorted(np.cumsum(sizes / sizes.sum()), draw.random(rows)).clip(0, KEYS["county"] - 1)


def _people(rows: int) -> Iterator[dict[str, np.ndarray]]:
    draw = np.random.default_rng(7)
    for start in range(0, rows, _BLOCK):
        count = min(_BLOCK, rows - start)
        county = _counties(draw, count)
        yield {
            "county": county,
            "state": 1 + (county - 1) * KEYS["state"] // KEYS["county"],
            "sex": draw.integers(1, KEYS["sex"] + 1, count),
            "race": draw.integers(1, KEYS["race"] + 1, count),
            "age": draw.integers(1, KEYS["age"] + 1, count),
            "income": draw.lognormal(10, 1, count).astype(np.int64),
        }


def _visits(rows: int) -> Iterator[dict[str, np.ndarray]]:
    draw = np.random.default_rng(8)
    users = max(1, rows // _ROWS_PER_USER)
    share = draw.lognormal(0, 1, users)
    ends = np.cumsum(share / share.sum())
    for start in range(0, rows, _BLOCK):
        count = min(_BLOCK, rows - start)
        user = 1 + np.searchsorted(ends, draw.random(count)).clip(0, users - 1)
        yield {"user_id": user, "county": _counties(draw, count)}


_TABLES: dict[str, Callable[[int], Iterator[dict[str, np.ndarray]]]] = {"people": _people, "visits": _visits}


def write_rows(folder: Path, rows: int, tables: Iterable[str] = ("people", "visits")) -> Path:
    """Write ``people.parquet`` and ``visits.parquet`` of so many rows, unless they are there; return their folder."""
    home = folder / f"rows-{rows}"
    home.mkdir(parents=True, exist_ok=True)
    for name in tables:
        blocks, path = _TABLES[name], home / f"{name}.parquet"
        if path.exists():
            continue
        whole, writer = path.with_suffix(".part"), None
        for block in blocks(rows):
            table = pa.table({column: pa.array(values.astype(np.int64)) for column, values in block.items()})
            writer = writer or pq.ParquetWriter(whole, table.schema)
            writer.write_table(table)
        if writer is None:
            raise SystemExit("at least one row")
        writer.close()
        whole.rename(path)
    return home
