"""Delta tables: a pinned version is a snapshot, and what would be read wrong is refused by name."""

from __future__ import annotations

import builtins
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, DeltaSource, Table, TimeFilter
from dprelease.engines import ENGINES
from dprelease.engines.files.places.found import data_files
from dprelease.engines.files.reader import FileReader
from dprelease.engines.look.row_counts import count_rows
from dprelease.errors import DpReleaseError, EngineError, MissingExtra, TableMismatch, Unavailable
from dprelease.noise.exact import Exact, open_exact
from dprelease.release.data.public_files import confidential_files, identity_of
from tests.embedded import EMBEDDED
from tests.object_store import Bucket, object_store

deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")

KEY = bytes(range(64))
DAY = dt.date(2024, 2, 29)
PAY = Column(name="pay", type="integer")
TOWN = Column(name="town", type="text", keys=("x", "y", "a/b ü%"), partition=True)


def table(version: int, *columns: Column, file: str = "lake", **more: Any) -> Table:
    source = DeltaSource(file=file, version=version)
    return Table(name="people", account="a", source=source, columns=columns or (TOWN, PAY), **more)


@pytest.fixture(params=EMBEDDED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A table of three versions: rows, more rows, and then some of the first ones deleted."""
    place = tmp_path / "lake"
    towns = ["x", "a/b ü%", None, "x"]
    deltalake.write_deltalake(place, pa.table({"town": towns, "pay": [1, 2, 3, 4]}), partition_by=["town"])
    deltalake.write_deltalake(place, pa.table({"town": ["y"], "pay": [5]}), mode="append")
    deltalake.DeltaTable(place).delete("pay = 4")
    return place


def read(
    kind: str, folder: Path, one: Table, by: tuple[str, ...] = ("town",), environment: dict[str, str] | None = None
) -> tuple[Any, ...]:
    engine = ENGINES[kind](folder, environment or {})
    try:
        engine.describe(one)
        engine.present(one)
        before = engine.fingerprint(one, KEY)
        asked = (Quantity(kind="rows"), Quantity(kind="sum", column="pay", low=0, high=100))
        boxes = engine.aggregate(Catalog(tables={"people": one}), Grouping(table="people", by=by), asked, {}, KEY)
        assert engine.fingerprint(one, KEY) == before
        return before, *([int(number) for number in open_exact(box)] for box in boxes if isinstance(box, Exact))
    finally:
        engine.close()


def file_of_x(folder: Path) -> Path:
    """The file of the first version with the rows of one town."""
    (file,) = (each.path for each in data_files(table(0), folder, {}) if each.values == (b"x",))
    assert isinstance(file, Path)
    return file


def test_a_version_has_the_rows_that_it_had(kind: str, lake: Path, tmp_path: Path) -> None:
    """After an append and a deletion too: the folder holds the files of all versions, and each names its own."""
    first = read(kind, tmp_path, table(0))
    assert first[1:] == ([2, 0, 1], [5, 0, 2])
    assert read(kind, tmp_path, table(1))[1:] == ([2, 1, 1], [5, 5, 2])
    assert read(kind, tmp_path, table(2))[1:] == ([1, 1, 1], [1, 5, 2])
    deltalake.write_deltalake(lake, pa.table({"town": ["x"], "pay": [9]}), mode="append")
    assert read(kind, tmp_path, table(0)) == first
    assert read(kind, tmp_path, table(3))[1:] == ([2, 1, 1], [10, 5, 2])


def test_a_table_in_a_store_is_the_same(kind: str, lake: Path, tmp_path: Path) -> None:
    with object_store() as store:
        bucket = store.buckets["office"] = Bucket()
        for path in lake.rglob("*"):
            if path.is_file():
                bucket.put(f"deep/{path.relative_to(tmp_path)}", path.read_bytes())
        for version in (0, 1, 2):
            stored = read(kind, tmp_path, table(version, file="s3://office/deep/lake"), environment=store.environment)
            assert stored == read(kind, tmp_path, table(version))
        told = {}
        for how, file, environment in (
            ("no table", "s3://office/nothing", store.environment),
            ("no bucket", "s3://nowhere/lake", store.environment),
            ("wrong key", "s3://office/deep/lake", {**store.environment, "AWS_ACCESS_KEY_ID": "MARKEROTHER"}),
            ("no version", "s3://office/deep/lake", store.environment),
        ):
            with pytest.raises(Unavailable) as wrong:
                data_files(table(7, file=file), tmp_path, environment)
            told[how] = str(wrong.value)
    found = {how: text[:8] for how, text in told.items()}
    assert found == {"no table": "DPR-E102", "no bucket": "DPR-E142", "wrong key": "DPR-E141", "no version": "DPR-E151"}
    assert "MARKER" not in "".join(told.values())


def test_a_version_that_is_not_there_names_the_newest(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="DPR-E151") as told:
        data_files(table(9), tmp_path, {})
    assert "its newest one is 2" in str(told.value)
    for file in ("nothing", "lake/_delta_log"):
        with pytest.raises(Unavailable, match="DPR-E102"):
            data_files(table(0, file=file), tmp_path, {})


def rewritten(lake: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The log of the first version, changed as a writer with more features would have written it."""
    log = lake / "_delta_log/00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        change(line)
    log.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    for later in lake.glob("_delta_log/*[12].json"):
        later.unlink()


def with_feature(
    *features: str, reader: int = 3, deleted: bool = False, mapped: str = ""
) -> Callable[[dict[str, Any]], None]:
    def change(line: dict[str, Any]) -> None:
        if "protocol" in line:
            named = {"readerFeatures": features, "writerFeatures": features} if reader == 3 else {}
            line["protocol"] = {"minReaderVersion": reader, "minWriterVersion": 7 if reader == 3 else 5, **named}
        if "add" in line and deleted:
            vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
            line["add"]["deletionVector"] = {**vector, "cardinality": 1}
        if "metaData" in line and mapped:
            line["metaData"]["configuration"] = {
                "delta.columnMapping.mode": mapped,
                "delta.columnMapping.maxColumnId": "9",
            }
            schema = json.loads(line["metaData"]["schemaString"])
            for at, field in enumerate(schema["fields"], start=1):
                field["metadata"] = {"delta.columnMapping.id": at, "delta.columnMapping.physicalName": field["name"]}
            line["metaData"]["schemaString"] = json.dumps(schema)

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (with_feature("deletionVectors", deleted=True), "deletionVectors"),
        (with_feature("deletionVectors"), "deletionVectors"),
        (with_feature("columnMapping", mapped="name"), "columnMapping"),
        (with_feature(reader=2, mapped="id"), "columnMapping"),
        (with_feature("typeWidening"), "typeWidening"),
        (with_feature("variantType", "deletionVectors"), "deletionVectors"),
        (with_feature("fancyThing"), "fancyThing"),
        (with_feature(reader=9), "reader version 9"),
    ],
)
def test_a_table_that_asks_more_of_a_reader_is_refused_by_name(
    kind: str, change: Callable[[dict[str, Any]], None], named: str, lake: Path, tmp_path: Path
) -> None:
    rewritten(lake, change)
    with pytest.raises(TableMismatch, match="DPR-E150") as told:
        read(kind, tmp_path, table(0))
    assert named in str(told.value)


def test_features_that_leave_rows_alone_are_read(kind: str, lake: Path, tmp_path: Path) -> None:
    rewritten(lake, with_feature("v2Checkpoint", "vacuumProtocolCheck", "timestampNtz"))
    assert read(kind, tmp_path, table(0))[1:] == ([2, 0, 1], [5, 0, 2])


@pytest.mark.parametrize(
    "path", ["../people.parquet", "%2E%2E/people.parquet", "/etc/people.parquet", "file:///etc/x.parquet"]
)
def test_a_log_that_names_a_file_elsewhere_is_refused(path: str, lake: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"pay": [99]}), tmp_path / "people.parquet")

    def change(line: dict[str, Any]) -> None:
        if "add" in line:
            line["add"]["path"] = path

    rewritten(lake, change)
    with pytest.raises(DpReleaseError, match="DPR-E153"):
        data_files(table(0), tmp_path, {})


def test_a_link_in_the_folder_of_a_table_leads_nowhere_else(lake: Path, tmp_path: Path) -> None:
    file = file_of_x(tmp_path)
    file.rename(tmp_path / "elsewhere.parquet")
    file.symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(TableMismatch, match="DPR-E153"):
        data_files(table(0), tmp_path, {})


def test_partition_columns_are_those_of_the_log(kind: str, lake: Path, tmp_path: Path) -> None:
    for columns, says in (
        ((TOWN.model_copy(update={"partition": False}), PAY), "write `partition: true`"),
        ((TOWN, PAY.model_copy(update={"partition": True})), "leave `partition: true` out"),
    ):
        with pytest.raises(TableMismatch, match="DPR-E152") as told:
            read(kind, tmp_path, table(0, *columns))
        assert says in str(told.value)
    with pytest.raises(TableMismatch, match="DPR-E301"):
        read(kind, tmp_path, table(0, TOWN, PAY, Column(name="height", type="integer")))


def test_a_column_that_came_later_is_null_in_older_files(kind: str, lake: Path, tmp_path: Path) -> None:
    more = pa.table({"town": ["x"], "pay": [6], "sex": ["f"]})
    deltalake.write_deltalake(lake, more, mode="append", schema_mode="merge")
    sex = Column(name="sex", type="text", keys=("f", "none"), null="none")
    assert read(kind, tmp_path, table(3, TOWN, PAY, sex), ("sex",))[1] == [1, 4]
    with pytest.raises(TableMismatch, match="DPR-E301"):
        read(kind, tmp_path, table(2, TOWN, PAY, sex), ("sex",))


def test_values_of_every_type_are_read_from_the_log_as_from_a_file(kind: str, tmp_path: Path) -> None:
    """The same column, once as a partition and once in the files."""
    stored = {
        "integer": pa.array([1, -2, None, 1]),
        "decimal": pa.array([Decimal("1.50"), Decimal("0.25"), None, Decimal("7.00")]),
        "boolean": pa.array([True, False, None, True]),
        "date": pa.array([DAY, dt.date(1, 1, 1), None, DAY]),
        "timestamp": pa.array(
            [dt.datetime(2024, 2, 29, 23, 30, 0, 5, dt.UTC), None, None, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]
        ),
    }
    for name, values in stored.items():
        rows = pa.table({"key": values, "pay": [1, 2, 4, 8]})
        found = []
        for parted in (True, False):
            place = tmp_path / f"{name}{parted}"
            deltalake.write_deltalake(place, rows, partition_by=["key"] if parted else None)
            declared = Column(name="key", type=name, partition=parted)
            one = table(0, declared, PAY, file=place.name)
            engine = ENGINES[kind](tmp_path, {})
            texts = Quantity(kind="distinct", column="key")
            boxes = engine.aggregate(
                Catalog(tables={"people": one}),
                Grouping(table="people", by=()),
                (
                    texts,
                    Quantity(kind="nonnull", column="key"),
                    *(Quantity(kind="rows", where=condition) for condition in CONDITIONS[name]),
                ),
                {},
                KEY,
            )
            found.append([open_exact(box).tolist() for box in boxes if isinstance(box, Exact)])
            engine.close()
        assert found[0] == found[1], name
        assert sum(each[0] for each in found[0][2:]) > 0, name


CONDITIONS = {
    "integer": ["key = 1", "key = -2"],
    "decimal": ["key = 1.5", "key = 0.25", "key = 7"],
    "boolean": ["key", "not key"],
    "date": ["key = date '2024-02-29'", "key = date '0001-01-01'"],
    "timestamp": ["year(key) = 2024", "cast(key as date) = date '2024-02-29'"],
}


def test_files_of_another_period_are_not_opened(kind: str, tmp_path: Path) -> None:
    days = [dt.date(2024, 1, 31), DAY, DAY, dt.date(2024, 3, 1)]
    deltalake.write_deltalake(tmp_path / "lake", pa.table({"day": days, "pay": [1, 2, 3, 4]}), partition_by=["day"])
    for path in tmp_path.glob("lake/day=2024-0[13]*/*.parquet"):
        path.write_bytes(b"no Parquet")
    time = TimeFilter(column="day", type="date", start=dt.date(2024, 2, 1), end=dt.date(2024, 3, 1))
    assert read(kind, tmp_path, table(0, Column(name="day", type="date", partition=True), PAY, time=time), ())[1:] == (
        [2],
        [5],
    )


def test_a_file_that_was_removed_or_written_to_is_told(kind: str, lake: Path, tmp_path: Path) -> None:
    engine = ENGINES[kind](tmp_path, {})
    engine.fingerprint(table(0), KEY)
    engine.aggregate(
        Catalog(tables={"people": table(0)}), Grouping(table="people", by=()), (Quantity(kind="rows"),), {}, KEY
    )
    file = file_of_x(tmp_path)
    pq.write_table(pa.table({"pay": [1, 2, 3]}), file)
    with pytest.raises(EngineError, match="DPR-E105"):
        engine.fingerprint(table(0), KEY)
    engine.close()
    file.unlink()
    with pytest.raises(Unavailable, match="DPR-E103"):
        read(kind, tmp_path, table(0))


def test_an_append_that_was_made_twice_counts_twice(kind: str, tmp_path: Path) -> None:
    """The log names both files on purpose; that they are equal is no copy that was left behind."""
    for _ in range(2):
        deltalake.write_deltalake(tmp_path / "lake", pa.table({"pay": [3]}), mode="append")
    assert read(kind, tmp_path, table(1, PAY), ())[1:] == ([2], [6])


def test_a_look_counts_the_rows_of_the_version(lake: Path, tmp_path: Path) -> None:
    counts = count_rows(Catalog(tables={"people": table(1)}), table(1), {}, {}, FileReader(tmp_path, {}).blocks)
    assert (counts.files, counts.rows, counts.columns["town"].null) == (4, 5, 1)


def test_without_the_package_the_install_line_is_told(
    kind: str, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "deltalake":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"dprelease\[delta\]"):
        read(kind, tmp_path, table(0))


def test_no_file_of_a_confidential_lake_is_read_as_public(lake: Path, tmp_path: Path) -> None:
    spec = "tables: {people: {source: {delta: lake, version: 0}}}\n"
    (tmp_path / "spec.yaml").write_text(spec, encoding="utf-8")
    found = confidential_files(tmp_path, (), {})
    assert {identity_of(path) for path in lake.rglob("*.parquet")} <= set(found)
