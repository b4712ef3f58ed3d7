"""Tables of a metastore: the answers and the hashes of the files in their folder, and what is refused before any charge.

The metastore is a stand-in, as the cluster is. With Derby and Spark the same is tried in ``test_spark.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, DeltaSource, MetastoreSource, Source, Table
from dprelease.engines import ENGINES, engine_for
from dprelease.engines.spark import metastore_reader
from dprelease.engines.spark.settings import refuse_other_catalogs
from dprelease.errors import DpReleaseError, EngineError, LedgerError, Unsupported
from dprelease.release import direct
from dprelease.release.run import Request
from tests.conformance.people import VISITED, opened
from tests.conformance.plain_metastore import PlainMetastore, partition, table
from tests.object_store import Bucket, object_store
from tests.project import SPEC, small_project

SECRET = bytes(range(32))
NAME = "office.visits"
TOWN = Column(name="town", type="text", keys=("x", "y/z"), partition=True)
FOLDERS = {"x": "town=x", "y/z": "town=y%2Fz", None: "town=__HIVE_DEFAULT_PARTITION__"}


@pytest.fixture
def metastore(monkeypatch: pytest.MonkeyPatch) -> PlainMetastore:
    """Empty."""
    found = PlainMetastore()
    monkeypatch.setattr(metastore_reader, "spark_context", lambda _: None)
    monkeypatch.setattr(metastore_reader, "SessionCatalog", lambda _: found)
    return found


def rows(file: int) -> Any:
    """100 of 300 rows of 40 units."""
    at = range(100 * file, 100 * file + 100)
    return pa.table({"id": [f"u{each * 7 % 40}" for each in at], "sex": [each % 2 for each in at], "n": list(at)})


def plain(metastore: PlainMetastore, folder: Path) -> Table:
    """Two files in one folder, one of them by a name of Hive's, with what writers leave behind."""
    place = folder / "visits 1"
    place.mkdir(exist_ok=True)
    for file, name in enumerate(("part-0.snappy.parquet", "000001_0")):
        pq.write_table(rows(file), place / name, row_group_size=30)
    for left in ("_SUCCESS", ".part-0.snappy.parquet.crc", "_metadata"):
        (place / left).write_bytes(b"nothing")
    metastore.tables[NAME] = table(place, ("id", "sex", "n"))
    return VISITED.model_copy(update={"source": MetastoreSource(file=NAME)})


def parted(metastore: PlainMetastore, folder: Path) -> Table:
    """Three files in three partitions, one of which has a value with a slash in it, and one none."""
    place = folder / "visits"
    for file, name in enumerate(FOLDERS.values()):
        (place / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(file), place / name / f"part-{file}.parquet", row_group_size=30)
    metastore.tables[NAME] = table(place, ("id", "sex", "n"), ("town",))
    metastore.listed[NAME] = [partition(place / name, town=value) for value, name in FOLDERS.items()]
    columns = (*VISITED.columns, TOWN)
    return VISITED.model_copy(update={"source": MetastoreSource(file=NAME), "columns": columns, "bounds": None})


def asked(kind: str, folder: Path, one: Table, environment: dict[str, str] | None = None) -> list[Any]:
    """The numbers of an engine, and the hashes of what it read."""
    by = ("sex", "town") if TOWN in one.columns else ("sex",)
    grouping = Grouping(table="t", by=by, max_groups=1, max_rows_per_group=2)
    quantities = [Quantity(kind="rows"), Quantity(kind="sum", column="n", low=0, high=150), Quantity(kind="units")]
    with closing(ENGINES[kind](folder, environment or {})) as engine:
        engine.describe(one)
        engine.present(one)
        before = engine.fingerprint(one, SECRET)
        boxes = engine.aggregate(Catalog(tables={"t": one}), grouping, quantities, {}, SECRET)
        assert engine.fingerprint(one, SECRET) == before
        return [before, *(opened(each) for each in boxes)]


def of_folder(one: Table, pattern: str) -> Table:
    """The same table by the files of its folder."""
    return one.model_copy(update={"source": Source(file=pattern, format="parquet")})


def test_a_table_is_the_files_of_its_folder(metastore: PlainMetastore, tmp_path: Path) -> None:
    """Answers and hashes are those of one machine that reads the folder, with partitions or without."""
    one = plain(metastore, tmp_path)
    assert asked("spark", tmp_path, one) == asked("duckdb", tmp_path, of_folder(one, "visits 1/[p0]*"))
    one = parted(metastore, tmp_path)
    metastore.tables[NAME]["provider"] = "hive"  # STORED AS PARQUET
    assert asked("spark", tmp_path, one) == asked("duckdb", tmp_path, of_folder(one, "visits/*/*.parquet"))


def test_a_table_in_a_store_is_the_same(metastore: PlainMetastore, tmp_path: Path) -> None:
    one = parted(metastore, tmp_path)
    found = asked("spark", tmp_path, one)
    place = "s3a://office/deep/visits"
    metastore.tables[NAME] = table(place, ("id", "sex", "n"), ("town",))
    escaped = {value: name.replace("%", "%25") for value, name in FOLDERS.items()}
    metastore.listed[NAME] = [partition(f"{place}/{name}", town=value) for value, name in escaped.items()]
    with object_store() as store:
        bucket = store.buckets["office"] = Bucket()
        for path in (tmp_path / "visits").rglob("*.parquet"):
            bucket.put(f"deep/{path.relative_to(tmp_path)}", path.read_bytes())
        assert asked("spark", tmp_path, one, store.environment) == found
        bucket.put("deep/visits/town=x/deeper/a.parquet", b"")
        with pytest.raises(DpReleaseError, match="DPR-E159"):
            asked("spark", tmp_path, one, store.environment)


def test_a_delta_table_is_read_by_its_version(metastore: PlainMetastore, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    lake = tmp_path / "lake"
    for file in range(2):
        deltalake.write_deltalake(lake, rows(file), mode="append" if file else "error")
    metastore.tables[NAME] = table(lake, (), provider="delta")
    for version in range(2):
        one = VISITED.model_copy(update={"source": MetastoreSource(file=NAME, version=version)})
        pinned = VISITED.model_copy(update={"source": DeltaSource(file="lake", version=version)})
        assert asked("spark", tmp_path, one) == asked("duckdb", tmp_path, pinned)
    with pytest.raises(DpReleaseError, match="DPR-E135") as told:
        asked("spark", tmp_path, VISITED.model_copy(update={"source": MetastoreSource(file=NAME)}))
    assert "version: N" in str(told.value)


def _said(**more: Any) -> Callable[[PlainMetastore, Path], None]:
    """The record says something else of the table."""
    return lambda metastore, _: metastore.tables[NAME].update(more)


def _stored(**more: Any) -> Callable[[PlainMetastore, Path], None]:
    return lambda metastore, _: metastore.tables[NAME]["storage"].update(more)


def _elsewhere(location: str) -> Callable[[PlainMetastore, Path], None]:
    """The first partition lies somewhere else."""

    def change(metastore: PlainMetastore, folder: Path) -> None:
        metastore.listed[NAME][0]["storage"]["locationUri"] = location.replace("FOLDER", f"file:{folder}")

    return change


def _write(name: str) -> Callable[[PlainMetastore, Path], None]:
    """There is one more file in the folder."""

    def change(metastore: PlainMetastore, folder: Path) -> None:
        path = folder / "visits" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(0), path)

    return change


def _link(metastore: PlainMetastore, folder: Path) -> None:
    (folder / "visits/town=x/link.parquet").symlink_to(folder / "visits/town=y%2Fz/part-1.parquet")


def _same(metastore: PlainMetastore, folder: Path) -> None:
    (folder / "visits/town=x/again.parquet").hardlink_to(folder / "visits/town=y%2Fz/part-1.parquet")


def _gone(metastore: PlainMetastore, folder: Path) -> None:
    (folder / "visits/town=x/part-0.parquet").unlink()
    (folder / "visits/town=x").rmdir()


def _emptied(metastore: PlainMetastore, folder: Path) -> None:
    for path in (folder / "visits").rglob("*.parquet"):
        path.unlink()


def _silent(metastore: PlainMetastore, folder: Path) -> None:
    metastore.fails = RuntimeError("MARKER of a value")


def _in_memory(metastore: PlainMetastore, folder: Path) -> None:
    metastore.in_memory = True
    del metastore.tables[NAME]


REFUSED: dict[str, tuple[Callable[[PlainMetastore, Path], None], str, str]] = {
    "no table": (_in_memory, "DPR-E157", "spark.sql.catalogImplementation"),
    "no answer": (_silent, "DPR-E157", "(RuntimeError); its own words are withheld"),
    "a view": (_said(tableType={"name": "VIEW"}, provider=None), "DPR-E158", "is a view"),
    "a metric view": (_said(tableType={"name": "METRIC_VIEW"}), "DPR-E158", "neither a managed nor"),
    "csv": (_said(provider="csv"), "DPR-E158", "of the provider csv"),
    "orc": (_said(provider="ORC"), "DPR-E158", "of the provider orc"),
    "iceberg": (_said(provider="iceberg"), "DPR-E158", "of the provider iceberg"),
    "text": (
        lambda metastore, _: metastore.tables[NAME].update(
            provider="hive", storage={**metastore.tables[NAME]["storage"], "serde": "LazySimpleSerDe"}
        ),
        "DPR-E158",
        "no Parquet files",
    ),
    "hudi": (
        lambda metastore, _: metastore.tables[NAME].update(
            provider="hive", storage={**metastore.tables[NAME]["storage"], "inputFormat": "HoodieParquetInputFormat"}
        ),
        "DPR-E158",
        "read by a class of their own",
    ),
    "a partition of text": (
        lambda metastore, _: (
            metastore.tables[NAME].update(provider="hive"),
            metastore.listed[NAME][1]["storage"].update(serde="LazySimpleSerDe"),
        )[0],
        "DPR-E158",
        "a partition whose files are no Parquet",
    ),
    "transactions": (_said(properties={"transactional": "TRUE"}), "DPR-E158", "transactions (ACID)"),
    "iceberg as hive": (_said(properties={"table_type": "ICEBERG"}), "DPR-E158", "`table_type`"),
    "columns by position": (_said(properties={"parquet.column.index.access": "true"}), "DPR-E158", "index.access"),
    "skewed": (_said(unsupportedFeatures=["skewed columns"]), "DPR-E158", "skewed columns"),
    "a glob": (_stored(properties={"pathGlobFilter": "*1*"}), "DPR-E158", "`pathGlobFilter`"),
    "no folder": (_stored(locationUri=None), "DPR-E158", "no folder"),
    "hdfs": (_stored(locationUri="hdfs://name/visits"), "DPR-E158", "begins with `hdfs:`"),
    "no scheme": (_stored(locationUri="/visits"), "DPR-E158", "names no file system"),
    "a version": (_said(), "DPR-E135", "leave it out"),
    "partitions that are not listed": (
        _said(tracksPartitionsInCatalog=False),
        "DPR-E159",
        "MSCK REPAIR TABLE office.visits",
    ),
    "a partition outside": (_elsewhere("FOLDER/other/town=x"), "DPR-E159", "outside of the table's folder"),
    "a partition beside": (_elsewhere("FOLDER/visits2/town=x"), "DPR-E159", "outside of the table's folder"),
    "a partition in a store": (_elsewhere("s3a://office/visits/town=x"), "DPR-E159", "outside of the table's folder"),
    "a partition by another value": (_elsewhere("FOLDER/visits/town=w"), "DPR-E159", "named by its columns and values"),
    "a partition by another name": (_elsewhere("FOLDER/visits/city=x"), "DPR-E159", "named by its columns and values"),
    "a partition above": (_elsewhere("FOLDER/visits/deep/town=x"), "DPR-E159", "named by its columns and values"),
    "two partitions in one": (
        lambda metastore, _: metastore.listed[NAME].append(metastore.listed[NAME][0]),
        "DPR-E159",
        "one folder",
    ),
    "a folder that is not listed": (_write("town=w/a.parquet"), "DPR-E159", "file 2 of 4"),
    "a file beside the partitions": (_write("a.parquet"), "DPR-E159", "in no partition"),
    "a file below a partition": (_write("town=x/deep/a.parquet"), "DPR-E159", "in no partition"),
    "a half file": (_write("town=x/a.parquet._COPYING_"), "DPR-E159", "still being written"),
    "a folder that is gone": (_gone, "DPR-E159", "partition 1 of 3, as listed, is not there"),
    "a link": (_link, "DPR-E159", "there is a link"),
    "one file by two names": (_same, "DPR-E310", "are one file"),
    "no file": (_emptied, "DPR-E102", "has no file"),
    "a log": (_write("_delta_log/a.parquet"), "DPR-E314", "Delta table"),
    "no column": (_said(schema={"fields": [{"name": "id"}, {"name": "sex"}, {"name": "town"}]}), "DPR-E301", "'n'"),
    "no partition column": (
        lambda metastore, _: (_said(partitionColumnNames=["sex"])(metastore, _), metastore.listed.update({NAME: []}))[
            0
        ],
        "DPR-E152",
        "partition column",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_table_of_these_files_is_refused_when_it_is_looked_at(
    what: str, metastore: PlainMetastore, tmp_path: Path
) -> None:
    """By a clear error that says neither the folder nor a value of a partition, and what to do."""
    one = parted(metastore, tmp_path)
    change, code, says = REFUSED[what]
    change(metastore, tmp_path)
    if what == "a version":
        one = one.model_copy(update={"source": MetastoreSource(file=NAME, version=1)})
    with pytest.raises(DpReleaseError) as told:
        metastore_reader.MetastoreReader(tmp_path, {}).describe(one)
    text = str(told.value)
    assert (told.value.code, says in text, bool(told.value.hint)) == (code, True, True), text
    assert str(tmp_path) not in text
    assert not any(value in text for value in ("town=", "y/z", "%2F", "MARKER"))


def test_a_metastore_that_points_elsewhere_for_a_moment_refuses_the_table_for_good(
    metastore: PlainMetastore, tmp_path: Path
) -> None:
    """No file was written to, and the files of the first answer look as ever: only what was said tells it."""
    one = plain(metastore, tmp_path)
    first, other = metastore.tables[NAME], tmp_path / "other"
    other.mkdir()
    pq.write_table(rows(2), other / "a.parquet")
    grouping = Grouping(table="t", by=("sex",), max_groups=1, max_rows_per_group=2)
    with closing(ENGINES["spark"](tmp_path, {})) as engine:
        before = engine.fingerprint(one, SECRET)
        metastore.tables[NAME] = table(other, ("id", "sex", "n"))
        with pytest.raises(EngineError, match="DPR-E105"):
            engine.aggregate(Catalog(tables={"t": one}), grouping, [Quantity(kind="rows")], {}, SECRET)
        metastore.tables[NAME] = first
        with pytest.raises(EngineError, match="DPR-E105"):
            engine.fingerprint(one, SECRET)
    assert asked("spark", tmp_path, one)[0] == before


def test_only_spark_reads_it_and_only_where_names_mean_what_is_on_record(
    metastore: PlainMetastore, tmp_path: Path
) -> None:
    one = plain(metastore, tmp_path)
    assert engine_for([one.model_copy(update={"engine": "spark"})]) is ENGINES["spark"]
    with pytest.raises(Unsupported, match="DPR-E202"):
        engine_for([one])
    good = {
        "spark.sql.defaultCatalog": "spark_catalog",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    }
    refuse_other_catalogs(good)
    refuse_other_catalogs(dict.fromkeys(good, ""))
    for name, value in good.items():
        with pytest.raises(Unsupported, match="DPR-E154") as told:
            refuse_other_catalogs({**good, name: f"{value},org.example.Other"})
        assert name in str(told.value)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_release_says_the_name_and_never_the_folder_and_goes_on_with_its_own_rows_alone(
    metastore: PlainMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before a charge, begun, refused when the name has come to mean other rows, and then ended."""
    office, lake = tmp_path / "office", tmp_path / "MARKER-lake"
    text = SPEC.replace('{file: "people-*.csv", null_values: ["", N]}', "{metastore: office.people}")
    spec = small_project(office, text.replace("account: people\n", "account: people\n    engine: spark\n"), rows=40)
    people = pa.table({"district": ["06-01"] * 40, "sex": [1, 2] * 20, "income": [1000.0] * 40})
    for name in ("first", "second"):
        (lake / name).mkdir(parents=True)
        pq.write_table(people if name == "first" else people.slice(0, 30), lake / name / "a.parquet")

    def run() -> Any:
        return direct.run_directly(Request(target=str(spec)))

    ledger = office / "state/ledger.db"
    with pytest.raises(DpReleaseError, match="DPR-E157"):
        run()
    assert b"survey" not in (ledger.read_bytes() if ledger.exists() else b"")
    metastore.tables["office.people"] = table(lake / "first", people.column_names)
    with monkeypatch.context() as patch:
        patch.setattr("dprelease.engines.spark.engine.run_job", _fails)
        with pytest.raises(EngineError, match="DPR-E001"):
            run()
    metastore.tables["office.people"] = table(lake / "second", people.column_names)
    with pytest.raises(LedgerError, match="DPR-L150"):
        run()
    metastore.tables["office.people"] = table(lake / "first", people.column_names)
    bundle = Path(run().folder)
    said = {path: path.read_bytes() for path in office.rglob("*") if path.is_file()}
    assert b"office.people" in said[bundle / "plan.json"]
    assert not [path for path, content in said.items() if b"MARKER" in content]


def _fails(*given: Any) -> Any:
    raise EngineError("a cluster that is gone", code="DPR-E001")
