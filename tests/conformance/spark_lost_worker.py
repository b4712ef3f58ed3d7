"""A process with a small cluster of two executors, machines of which are lost while they keep what a table came to.

Each time the next question has to be answered with the numbers of one machine, or refused because a file is another one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.table import Catalog, Column, Source, Table, TableBounds
from dprelease.engines import ENGINES
from dprelease.engines.spark import engine as room
from dprelease.engines.spark import session
from dprelease.errors import DpReleaseError
from dprelease.noise.exact import open_exact

SECRET = bytes(range(7, 39))
MASTER = "local-cluster[2,1,512]"
TABLE = Table(
    name="t",
    account="a",
    source=Source(file="*.parquet", format="parquet"),
    columns=(
        Column(name="id", type="integer"),
        Column(name="node", type="integer", keys=tuple(range(40))),
        Column(name="sex", type="integer", keys=(0, 1)),
    ),
    unit_id="id",
    bounds=TableBounds(max_rows=4),
)


def main(folder: Path) -> None:
    """All of it."""
    data = folder / "data"
    data.mkdir()
    for file in range(3):
        rows = range(file * 5000, file * 5000 + 5000)
        columns = {
            "id": [at % 3001 for at in rows],
            "node": [at * 7 % 40 for at in rows],
            "sex": [at % 2 for at in rows],
        }
        pq.write_table(pa.table(columns), data / f"rows-{file}.parquet", row_group_size=1000)
    room._FEW = 0
    expected = [_asked(ENGINES["duckdb"](data, {}), nodes) for nodes in ((0, 1), (5, 6), (12,), (30, 39))]
    engine = ENGINES["spark"](data, {session.MASTER: MASTER})
    context = session.spark_context({session.MASTER: MASTER})
    print("equal" if _asked(engine, (0, 1)) == expected[0] else "different", flush=True)
    os.kill(_executors(context)[0], signal.SIGKILL)
    print("equal" if _asked(engine, (5, 6)) == expected[1] else "different", flush=True)
    print("lost" if _remove(folder) else "nothing was lost", flush=True)
    print("equal" if _asked(engine, (12,)) == expected[2] else "different", flush=True)
    whole = (data / "rows-1.parquet").read_bytes()
    (data / "rows-1.parquet").write_bytes(whole)  # the same rows, but nobody could know
    _remove(folder)
    try:
        _asked(engine, (30, 39))
    except DpReleaseError as error:
        print(error.code, flush=True)
    engine.close()
    engine = ENGINES["spark"](data, {session.MASTER: MASTER})
    print("equal" if _asked(engine, (30, 39)) == expected[3] else "different", flush=True)
    engine.close()
    session._ended(context, Path(session._FOLDERS[-1]))


def _asked(engine: Any, nodes: tuple[int, ...]) -> list[int]:
    grouping = Grouping(table="t", by=("node", "sex"), complete=("node", "sex"))
    within, rows = CellSlice(column="node", nodes=nodes), [Quantity(kind="rows")]
    (box,) = engine.aggregate(Catalog(tables={"t": TABLE}), grouping, rows, {}, SECRET, within=within)
    found: list[int] = open_exact(box).tolist()
    return found


def _executors(context: Any) -> list[int]:
    """The processes of the executors of this session, and of no other."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            mine = context.applicationId.encode() in words
            if mine and b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
                found.append(int(process.name))
    assert len(found) == 2, found
    return sorted(found)


def _remove(folder: Path) -> int:
    """Remove what executors keep and what they shuffled, as when a disk is gone; says how many files that were."""
    files = [path for kind in ("rdd_*", "shuffle_*") for path in (folder / "temporary").rglob(kind) if path.is_file()]
    for path in files:
        path.unlink(missing_ok=True)
    time.sleep(1)
    return len(files)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
