"""What tasks of Spark read: objects of a store, a version of a Delta table, and rows of earlier periods of a series.

Each gives the numbers of the embedded engine, and what was replaced meanwhile ends the job. On Spark itself the same is
tried in ``test_spark.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, DeltaSource, Source, Table, TimeFilter
from dprelease.engines import ENGINES
from dprelease.engines.spark import engine as room
from dprelease.engines.spark import splits
from dprelease.errors import EngineError
from tests.conformance.people import VISITED, opened
from tests.conformance.plain_cluster import PlainCluster
from tests.object_store import Bucket, ObjectStore, object_store

SECRET = bytes(range(32))
DAYS = [
    (date(2024, 1, 1), date(2024, 2, 1)),
    (date(2024, 2, 1), date(2024, 3, 1)),
    (date(2023, 1, 1), date(2023, 2, 1)),
]


@pytest.fixture(autouse=True)
def cluster(plain_cluster: PlainCluster) -> PlainCluster:
    """Three cores, no power of two."""
    plain_cluster.defaultParallelism = 3
    return plain_cluster


def rows(file: int) -> Any:
    """100 of 200 rows of 40 units."""
    at = range(100 * file, 100 * file + 100)
    return pa.table({"id": [f"u{each * 7 % 40}" for each in at], "sex": [each % 2 for each in at], "n": list(at)})


def asked(kind: str, folder: Path, table: Table, environment: dict[str, str] | None = None) -> list[Any]:
    """The numbers of an engine."""
    grouping = Grouping(table="t", by=("sex",), max_groups=1, max_rows_per_group=2)
    quantities = [Quantity(kind="rows"), Quantity(kind="sum", column="n", low=0, high=150), Quantity(kind="units")]
    with closing(ENGINES[kind](folder, environment or {})) as engine:
        boxes = engine.aggregate(Catalog(tables={"t": table}), grouping, quantities, {}, SECRET)
        return [opened(each) for each in boxes]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    """The two files, of row groups of 30 rows, in a folder and in a bucket."""
    with object_store() as found:
        found.buckets["office"] = Bucket()
        for file in range(2):
            path = tmp_path / f"rows-{file}.parquet"
            pq.write_table(rows(file), path, row_group_size=30)
            found.buckets["office"].put(f"people/{path.name}", path.read_bytes())
        yield found


STORED = VISITED.model_copy(update={"source": Source(file="s3://office/people/rows-*.parquet", format="parquet")})


def test_tasks_read_the_objects_of_a_store(store: ObjectStore, tmp_path: Path, cluster: PlainCluster) -> None:
    """Opened by each of them from what it was sent; a task that is done again reads the same."""
    cluster.again = True
    assert asked("spark", tmp_path, STORED, store.environment) == asked("duckdb", tmp_path, VISITED)


@pytest.mark.parametrize("versioned", [False, True])
def test_an_object_that_is_replaced_during_a_job_ends_it(
    versioned: bool, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, read = store.buckets["office"], splits.stored_blocks  # type: ignore[attr-defined]
    bucket.versioned = versioned

    def replaced(*given: Any) -> Any:
        yield from read(*given)
        bucket.put("people/rows-1.parquet", bucket.objects["people/rows-1.parquet"][0])  # the same bytes, written again

    monkeypatch.setattr(splits, "stored_blocks", replaced)
    with pytest.raises(EngineError, match="DPR-E105"):
        asked("spark", tmp_path, STORED, store.environment)


def test_what_tasks_are_told_of_a_store_shows_no_credential(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    run = room.run_job  # type: ignore[attr-defined]

    def job(context: Any, work: Any, parts: Any) -> Any:
        shown.extend(repr(each) for each in (work, work.asked, *parts))
        return run(context, work, parts)

    monkeypatch.setattr(room, "run_job", job)
    asked("spark", tmp_path, STORED, store.environment)
    assert any("rows-1.parquet" in text for text in shown)
    assert not any(secret in text for text in shown for secret in ("MARKERACCESSKEY", "MARKER-secret-access-key"))


@pytest.fixture
def lake(tmp_path: Path) -> Table:
    """The two files as versions of a Delta table with a column of its log, and a third version without most of them."""
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    place = tmp_path / "lake"
    for file in range(2):
        town = pa.array([("x", "y", None)[at % 3] for at in range(100)])
        mode = "append" if file else "error"
        deltalake.write_deltalake(
            place, rows(file).append_column("town", town), partition_by=["town"], mode=mode, target_file_size=500
        )
    deltalake.DeltaTable(place).delete("n > 20")
    town = Column(name="town", type="text", keys=("x", "y"), partition=True)
    return VISITED.model_copy(
        update={"source": DeltaSource(file="lake", version=1), "columns": (*VISITED.columns, town), "bounds": None}
    )


def test_tasks_read_the_files_of_one_version_of_a_delta_table(lake: Table, tmp_path: Path) -> None:
    """The first version has the first file alone, the second both, and what was deleted later changes neither."""
    found = []
    for version in range(3):
        pinned = lake.model_copy(update={"source": DeltaSource(file="lake", version=version)})
        found.append(asked("spark", tmp_path, pinned))
        assert found[-1] == asked("duckdb", tmp_path, pinned)
    assert len({str(each) for each in found}) == 3


def test_a_file_of_a_delta_table_that_is_replaced_during_a_job_ends_it(
    lake: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = splits.stored_blocks  # type: ignore[attr-defined]

    def replaced(*given: Any) -> Any:
        yield from read(*given)
        for path in (tmp_path / "lake").rglob("*.parquet"):
            path.write_bytes(path.read_bytes())

    monkeypatch.setattr(splits, "stored_blocks", replaced)
    with pytest.raises(EngineError, match="DPR-E105"):
        asked("spark", tmp_path, lake)


def test_rows_of_earlier_periods_have_the_hashes_that_one_machine_finds(tmp_path: Path) -> None:
    """Whatever their order, in however many files and parts of files; of a stretch without rows as well."""
    draw = random.Random(5)
    lines = [(f"2024-0{1 + at % 4}-0{1 + at % 9}", at % 3, (at * 37 % 50) / 8) for at in range(150)]
    table = Table(
        name="t",
        account="a",
        source=Source(file="rows-*.parquet", format="parquet"),
        columns=(Column(name="sex", type="integer", keys=(0, 1, 2)), Column(name="n", type="decimal")),
        time=TimeFilter(column="day", type="date", start=date(2024, 3, 1), end=date(2024, 4, 1)),
    )

    def hashed(kind: str, files: int) -> tuple[str, ...]:
        for path in tmp_path.glob("*.parquet"):
            path.unlink()
        for file in range(files):
            named = zip(("day", "sex", "n"), map(list, zip(*lines[file::files], strict=True)), strict=True)
            pq.write_table(pa.table(dict(named)), tmp_path / f"rows-{file}.parquet", row_group_size=20)
        with closing(ENGINES[kind](tmp_path, {})) as engine:
            return engine.digest_rows(table, ["sex", "n"], DAYS, SECRET)

    found = hashed("duckdb", 1)
    draw.shuffle(lines)
    assert hashed("spark", 3) == found
    assert len(set(found)) == 3
    lines[0] = (lines[0][0], 1 + lines[0][1], lines[0][2])
    assert hashed("spark", 3) != found
