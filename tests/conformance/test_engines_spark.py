"""The conformance of the Spark engine's own steps, on a cluster without Spark: the numbers of the reference engine."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.table import Catalog, Column, DatabaseSource, Source, Table, TableBounds, TimeFilter
from dprelease.engines import ENGINES, OpenedEngine, engine_for
from dprelease.engines.files.places.found import data_files
from dprelease.engines.spark import engine as room
from dprelease.engines.spark import splits, tasks
from dprelease.engines.spark.engine import SparkEngine
from dprelease.engines.spark.settings import OURS, asked_for, refuse_unsafe
from dprelease.errors import BrokenPromiseError, EngineError, NotEnoughMemory, Unsupported
from tests.conformance.people import VISITED, opened
from tests.conformance.plain_cluster import PlainCluster
from tests.conformance.test_engines_parts import LAWS
from tests.tiers import few

SECRET = bytes(range(32))


@pytest.fixture(autouse=True)
def cluster(plain_cluster: PlainCluster, monkeypatch: pytest.MonkeyPatch) -> PlainCluster:
    """Three cores, no power of two, and every total added up by tasks."""
    plain_cluster.defaultParallelism = 3
    monkeypatch.setattr(room, "_FEW", 0)
    return plain_cluster


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=few(3, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_tasks_come_to_the_numbers_of_the_reference_engine(law: str, data: st.DataObject) -> None:
    LAWS[law]("spark", data)


@pytest.mark.nightly
@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=few(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_tasks_come_to_the_numbers_of_the_reference_engine_in_full(law: str, data: st.DataObject) -> None:
    LAWS[law]("spark", data)


def _table(folder: Path, **more: Any) -> Table:
    """200 rows of 40 units in two files, of row groups of 30 rows."""
    for file in range(2):
        rows = range(100 * file, 100 * file + 100)
        columns = {"id": [f"u{at * 7 % 40}" for at in rows], "sex": [at % 2 for at in rows], "n": list(rows)}
        pq.write_table(pa.table(columns), folder / f"rows-{file}.parquet", row_group_size=30)
    return VISITED.model_copy(update=more)


def _asked(folder: Path, table: Table, kind: str = "spark") -> list[Any]:
    engine = ENGINES[kind](folder, {})
    units = {} if table.unit_id is None else {"max_groups": 1, "max_rows_per_group": 2}
    grouping = Grouping(table="t", by=("sex",), **units)
    asked = [Quantity(kind="rows"), Quantity(kind="sum", column="n", low=0, high=150), Quantity(kind="units")]
    asked.append(Quantity(kind="distinct", column="n"))
    boxes = engine.aggregate(Catalog(tables={"t": table}), grouping, asked, {}, SECRET)
    engine.close()
    return [each._Exact__values.tolist() for each in boxes]  # type: ignore[union-attr]


def test_a_task_that_is_done_again_changes_nothing(tmp_path: Path, cluster: PlainCluster) -> None:
    table = _table(tmp_path)
    cluster.again = True
    assert _asked(tmp_path, table) == _asked(tmp_path, table, "duckdb")


def test_rows_that_are_lost_or_doubled_on_their_way_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    whole = tasks._complete
    for spoilt in (lambda sent: sent[1:], lambda sent: [sent[0], *sent], lambda sent: sent[:-1]):
        monkeypatch.setattr(tasks, "_complete", lambda work, sent, by=spoilt: whole(work, by(list(sent))))
        with pytest.raises(BrokenPromiseError, match="lost or doubled"):
            _asked(tmp_path, table)


def test_a_unit_in_two_parts_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    monkeypatch.setattr(tasks, "_places", lambda connection, rows, place: pa.array(range(len(rows))).to_numpy() % 4)
    with pytest.raises(BrokenPromiseError, match="not all of its rows"):
        _asked(tmp_path, table)


def test_a_file_that_is_replaced_during_a_job_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, read = _table(tmp_path), splits.stored_blocks  # type: ignore[attr-defined]

    def replaced(*given: Any) -> Any:
        yield from read(*given)
        path = tmp_path / "rows-1.parquet"
        path.write_bytes(path.read_bytes())

    monkeypatch.setattr(splits, "stored_blocks", replaced)
    with pytest.raises(EngineError, match="DPR-E105"):
        _asked(tmp_path, table)


def test_another_version_on_an_executor_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    monkeypatch.setattr(room, "task_versions", lambda: ("dprelease 0",))
    with pytest.raises(EngineError, match="DPR-E155"):
        _asked(tmp_path, table)


@pytest.mark.slow
def test_units_are_looked_at_in_more_parts_where_a_task_has_not_enough_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, run, tried = _table(tmp_path), room.run_job, []  # type: ignore[attr-defined]

    def job(context: Any, work: Any, parts: Any) -> Any:
        tried.append(work.parts)
        if len(tried) < 3:
            raise NotEnoughMemory("a task", code="DPR-E004")
        return run(context, work, parts)

    monkeypatch.setattr(room, "run_job", job)
    assert _asked(tmp_path, table) == _asked(tmp_path, table, "duckdb")
    assert tried == [4, 8, 16]


def test_what_tasks_are_told_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    run = room.run_job  # type: ignore[attr-defined]

    def job(context: Any, work: Any, parts: Any) -> Any:
        shown.extend(repr(each) for each in (work, work.asked, parts))
        return run(context, work, parts)

    monkeypatch.setattr(room, "run_job", job)
    _asked(tmp_path, _table(tmp_path))
    assert shown
    assert not any(SECRET.hex() in text or repr(SECRET) in text for text in shown)


@pytest.mark.parametrize("unit_id", [None, "id"])
def test_a_period_without_a_folder_has_no_rows(unit_id: str | None, tmp_path: Path) -> None:
    other = tmp_path / "day=2024-01-31"
    other.mkdir()
    written = _table(other)
    table = written.model_copy(
        update={
            "source": Source(file="day=*/rows-*.parquet", format="parquet"),
            "columns": (*written.columns, Column(name="day", type="date", partition=True)),
            "time": TimeFilter(column="day", type="date", start=date(2024, 2, 1), end=date(2024, 3, 1)),
            "unit_id": unit_id,
            "bounds": None if unit_id is None else written.bounds,
        }
    )
    assert splits.splits_of(table, 0, data_files(table, tmp_path, {}), 3) == []
    assert _asked(tmp_path, table) == _asked(tmp_path, table, "duckdb")
    assert {total for answer in _asked(tmp_path, table) for total in answer} == {0}


def test_pieces_are_added_up_from_what_the_cluster_keeps_and_no_row_is_read_again(
    tmp_path: Path, cluster: PlainCluster
) -> None:
    """Twenty nodes, and a column above that says nothing of them; a piece reads the range of its own nodes alone."""
    draw = random.Random(3)
    rows = [(at % 37, draw.randrange(20), draw.randrange(2)) for at in range(400)]
    named = dict(zip(("who", "node", "top"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(named), tmp_path / "rows.parquet", row_group_size=50)
    columns = [Column(name=name, type="integer", keys=tuple(range(keys))) for name, keys in (("node", 20), ("top", 2))]
    table = Table(
        name="t",
        account="a",
        source=Source(file="rows.parquet", format="parquet"),
        columns=(Column(name="who", type="integer"), *columns),
        unit_id="who",
        bounds=TableBounds(max_rows=4),
    )
    grouping = Grouping(table="t", by=("node", "top"), complete=("node", "top"))
    catalog, rows_of = Catalog(tables={"t": table}), [Quantity(kind="rows")]
    pieces = [None, *(CellSlice(column="node", nodes=nodes) for nodes in ((0, 1, 2), (6, 19), (9,)))]
    found = {}
    for kind in ("duckdb", "spark"):
        engine = ENGINES[kind](tmp_path, {})

        def ask(within: CellSlice | None, engine: OpenedEngine = engine) -> Any:
            return [opened(each) for each in engine.aggregate(catalog, grouping, rows_of, {}, SECRET, within=within)]

        with ThreadPoolExecutor(4) as threads:  # as a flow has them: one job at a time, whoever asks
            found[kind] = list(threads.map(ask, pieces))
        engine.close()
    assert found["spark"] == found["duckdb"]
    assert cluster.jobs == 1
    assert cluster.at_once == 1
    assert sorted(cluster.read) == [[0], [0, 2], [1]]


def test_one_engine_measures_a_release(tmp_path: Path) -> None:
    ours, other = _table(tmp_path, engine="spark"), _table(tmp_path)
    assert engine_for([ours]) is SparkEngine
    assert engine_for([other]) is ENGINES["duckdb"]
    with pytest.raises(Unsupported, match="DPR-E139"):
        engine_for([ours, other])
    database = ours.model_copy(update={"source": DatabaseSource(database="sqlite:///a.db", table="t")})
    with pytest.raises(Unsupported, match="DPR-E202"):
        engine_for([database])
    assert "engine" not in other.canonical()


def test_more_cells_than_a_driver_should_hold_are_refused_beforehand(tmp_path: Path) -> None:
    wide = tuple(Column(name=name, type="integer", keys=tuple(range(4000))) for name in "ab")
    table = Table(name="t", account="a", source=Source(file="x.parquet", format="parquet"), columns=wide)
    engine = SparkEngine(tmp_path, {})
    with pytest.raises(Unsupported, match="DPR-E156"):
        engine.check(Catalog(tables={"t": table}), Grouping(table="t", by=("a", "b")), [Quantity(kind="rows")], {})
    engine.close()


def test_unsafe_settings_are_refused_by_name() -> None:
    for master in ("local[2]", "yarn"):
        safe = asked_for(master)
        refuse_unsafe(safe)
        for name in {*OURS, "spark.authenticate", "spark.network.crypto.enabled"} & safe.keys():
            if name in ("spark.app.name", "spark.log.level", "spark.ui.showConsoleProgress"):
                continue
            other = "false" if safe[name] == "true" else "true"
            with pytest.raises(Unsupported, match=rf"DPR-E154.*{name}"):
                refuse_unsafe({**safe, name: other})
    for name in ("spark.extraListeners", "spark.plugins", "spark.metrics.conf"):
        with pytest.raises(Unsupported, match=name):
            refuse_unsafe({**asked_for("local[2]"), name: "org.example.Listener"})
    for unset in ("spark.ui.enabled", "spark.io.encryption.enabled", "spark.authenticate"):
        with pytest.raises(Unsupported, match=unset):
            refuse_unsafe({name: value for name, value in asked_for("yarn").items() if name != unset})
