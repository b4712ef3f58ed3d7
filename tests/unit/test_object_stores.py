"""Files in an object store: the same rows, pinned to the state that was hashed, and every failure told apart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.source import SOURCE_FORMATS, store_problem
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.engines import ENGINES, Engine
from dprelease.engines.files.places.found import data_files
from dprelease.engines.files.places.objects import StoredObject
from dprelease.engines.files.places.stores import opened_store, store_failure
from dprelease.engines.files.reader import FileReader
from dprelease.errors import DpReleaseError, EngineError, Retryable, TableMismatch, Unavailable
from dprelease.noise.exact import Exact, open_exact
from tests.embedded import EMBEDDED
from tests.object_store import ACCESS, SECRET, Bucket, ObjectStore, object_store

KEY = bytes(range(64))
ASKED = (Quantity(kind="rows"), Quantity(kind="sum", column="pay", low=0, high=1000))


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with object_store() as made:
        made.buckets["office"] = Bucket()
        yield made


@pytest.fixture(params=EMBEDDED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def table(file: str) -> Table:
    columns = (Column(name="town", type="text", keys=("x", "y"), partition=True), Column(name="pay", type="integer"))
    return Table(name="people", account="a", source=Source(file=file, format=file.rpartition(".")[2]), columns=columns)


def content(shape: str, pays: list[int]) -> bytes:
    if shape == "csv":
        return ("pay\n" + "".join(f"{pay}\n" for pay in pays)).encode()
    out = io.BytesIO()
    pq.write_table(pa.table({"pay": pays}), out, row_group_size=2)
    return out.getvalue()


def files(shape: str) -> dict[str, bytes]:
    """Of a folder with partitions; enough of them that a list has pages."""
    made = {f"d/town={'xy'[at % 2]}/{at}.{shape}": content(shape, [at, at + 1, 7]) for at in range(120)}
    return {
        **made,
        "d/town=x/_SUCCESS": b"",
        f"d/_temporary/town=x/0.{shape}": content(shape, [99]),
        f"d/town=x/.a.{shape}": b"",
    }


def total(engine: Engine, one: Table) -> list[list[int]]:
    boxes = engine.aggregate(Catalog(tables={"people": one}), Grouping(table="people", by=("town",)), ASKED, {}, KEY)
    return [[int(number) for number in open_exact(box)] for box in boxes if isinstance(box, Exact)]


@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_the_same_objects_are_the_same_table_as_files(
    kind: str, shape: str, store: ObjectStore, tmp_path: Path
) -> None:
    for name, data in files(shape).items():
        store.buckets["office"].put(name, data)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = []
    for file in (f"d/town=*/*.{shape}", f"s3://office/d/town=*/*.{shape}", f"s3://office/**/*.{shape}"):
        engine, one = ENGINES[kind](tmp_path, store.environment), table(file)
        engine.describe(one)
        engine.present(one)
        before = engine.fingerprint(one, KEY)
        found.append((before, total(engine, one)))
        assert engine.fingerprint(one, KEY) == before
        engine.close()
    assert found[1:] == found[:1] * 2  # hashes too: a copy in a store is found where another account has paid for it
    assert found[0][1] == [[180, 180], [sum(2 * at + 8 for at in range(first, 120, 2)) for first in (0, 1)]]


def test_what_a_look_or_a_single_key_finds(store: ObjectStore, tmp_path: Path) -> None:
    """A key that exists is taken as it is, though it looks like a pattern."""
    for name in ("d/town=x/[a].csv", "d/town=x/a.csv", "d/town=x/b/c.csv"):
        store.buckets["office"].put(name, content("csv", [1]))
    one = table("s3://office/d/town=x/[a].csv")
    assert [each.path.name for each in data_files(one, tmp_path, store.environment)] == ["office/d/town=x/[a].csv"]
    del store.buckets["office"].objects["d/town=x/[a].csv"]
    assert [each.path.name for each in data_files(one, tmp_path, store.environment)] == ["office/d/town=x/a.csv"]


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_an_object_that_was_replaced_since_it_was_hashed_is_refused(
    kind: str, versioned: bool, same: bool, store: ObjectStore, tmp_path: Path
) -> None:
    """Even by the same bytes: what was read in between is not known."""
    bucket = store.buckets["office"] = Bucket(versioned)
    for town in "xy":
        bucket.put(f"d/town={town}/0.csv", content("csv", [1, 2]))
    engine, one = ENGINES[kind](tmp_path, store.environment), table("s3://office/d/*/*.csv")
    engine.fingerprint(one, KEY)
    total(engine, one)
    bucket.put("d/town=x/0.csv", content("csv", [1, 2] if same else [1, 3]))
    with pytest.raises(EngineError, match="DPR-E105"):
        engine.fingerprint(one, KEY)
    engine.close()


@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_an_object_that_is_replaced_while_it_is_read_is_refused(
    kind: str, shape: str, store: ObjectStore, tmp_path: Path
) -> None:
    """Between two requests of one pass: after the rows of the first were read, before those of the second."""
    bucket = store.buckets["office"]
    for town in "xy":
        bucket.put(f"d/town={town}/0.{shape}", content(shape, [1, 2, 3, 4]))
    engine, one = ENGINES[kind](tmp_path, store.environment), table(f"s3://office/d/*/*.{shape}")
    engine.fingerprint(one, KEY)
    seen: list[str] = []

    def replace(method: str, path: str) -> None:
        seen.append(path)
        if method == "GET" and "town=y" in path and "list-type" not in path:
            bucket.put(f"d/town=y/0.{shape}", content(shape, [5, 6, 7, 8]))

    store.before = replace
    total(engine, one)
    store.before = lambda *_: None
    assert seen
    with pytest.raises(EngineError, match="DPR-E105"):
        engine.fingerprint(one, KEY)
    engine.close()


def test_an_object_that_is_replaced_while_it_is_hashed_is_refused(
    kind: str, store: ObjectStore, tmp_path: Path
) -> None:
    bucket = store.buckets["office"]
    bucket.put("d/town=x/0.csv", content("csv", [1]))

    def replace(method: str, path: str) -> None:
        if method == "GET" and "town=x" in path and "list-type" not in path:
            bucket.put("d/town=x/0.csv", content("csv", [2]))

    store.before = replace
    engine = ENGINES[kind](tmp_path, store.environment)
    with pytest.raises(Unavailable, match="DPR-E104"):
        engine.fingerprint(table("s3://office/d/*/*.csv"), KEY)
    engine.close()


def failing(store: ObjectStore, how: str) -> tuple[str, dict[str, str]]:
    """A source that cannot be read, and with what environment."""
    environment = store.environment
    store.buckets["office"].put("d/town=x/0.csv", content("csv", [1]))
    if how == "wrong key":
        environment["AWS_ACCESS_KEY_ID"] = "MARKEROTHERKEY"
    elif how in ("AccessDenied", "SignatureDoesNotMatch", "InternalError", "drop"):
        store.before = lambda *_: how
    elif how == "nobody listens":
        environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    places = {
        "no bucket": "s3://nowhere/d/*/*.csv",
        "no object": "s3://office/e/*/*.csv",
        "no key": "s3://office/d/town=x/1.csv",
    }
    return places.get(how, "s3://office/d/*/*.csv"), environment


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("wrong key", "DPR-E141"),
        ("AccessDenied", "DPR-E141"),
        ("no bucket", "DPR-E142"),
        ("no object", "DPR-E102"),
        ("no key", "DPR-E102"),
        ("InternalError", "DPR-E143"),
        ("drop", "DPR-E143"),
        ("nobody listens", "DPR-E143"),
    ],
)
def test_each_failure_of_a_store_is_told_apart_and_quotes_nothing(
    kind: str, how: str, code: str, store: ObjectStore, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, environment = failing(store, how)
    engine = ENGINES[kind](tmp_path, environment)
    calls: list[Any] = [engine.describe, engine.present, lambda one: engine.fingerprint(one, KEY)]
    for call in calls:
        with pytest.raises(Unavailable, match=code) as told:
            call(table(file))
        assert isinstance(told.value, Retryable)
        words = str(told.value) + "".join(capfd.readouterr())
        assert "MARKER" not in words
        assert told.value.__cause__ is None
        assert told.value.__context__ is None
    engine.close()


def test_a_connection_that_drops_while_rows_are_read_is_no_answer(
    kind: str, store: ObjectStore, tmp_path: Path
) -> None:
    for town in "xy":
        store.buckets["office"].put(f"d/town={town}/0.csv", content("csv", [1, 2]))
    engine, one = ENGINES[kind](tmp_path, store.environment), table("s3://office/d/*/*.csv")
    before = engine.fingerprint(one, KEY)
    store.before = lambda method, path: "drop" if method == "GET" and "town=y" in path else None
    with pytest.raises(Unavailable, match="DPR-E143"):
        total(engine, one)
    store.before = lambda *_: None
    assert total(engine, one)[0] == [2, 2]
    assert engine.fingerprint(one, KEY) == before
    engine.close()


def test_a_store_that_says_no_version_is_refused(kind: str, store: ObjectStore, tmp_path: Path) -> None:
    class Silent:
        def open_input_file(self, name: str) -> Any:
            return pa.BufferReader(b"pay\n1\n")

    with pytest.raises(Unavailable, match="DPR-E144"):
        StoredObject("office/a.csv", "s3://office/a.csv", Silent()).look()


def test_the_objects_of_a_delta_table_are_refused(store: ObjectStore, tmp_path: Path) -> None:
    for name in ("lake/town=x/0.csv", "lake/_delta_log/0.json"):
        store.buckets["office"].put(name, content("csv", [1]))
    for file in ("s3://office/lake/*/*.csv", "s3://office/lake/town=x/*.csv"):
        with pytest.raises(TableMismatch, match="DPR-E314"):
            data_files(table(file), tmp_path, store.environment)


@pytest.mark.parametrize(
    "address",
    [
        f"s3://{ACCESS}:{SECRET}@office/d/*.csv",
        f"gs://{SECRET}@office/d/*.csv",
        f"abfss://box:{SECRET}@office.dfs.core.windows.net/d/*.csv",
        f"https://{ACCESS}:{SECRET}@s3.amazonaws.com/office/d.csv",
        "s3://office",
        "s3:///d.csv",
        "hdfs://office/d.csv",
        "abfss://box@office.dfs.core.example.net/d.csv",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused_and_not_shown(
    address: str, store: ObjectStore, tmp_path: Path
) -> None:
    assert store_problem(address)
    one = Table(
        name="t",
        account="a",
        source=Source(file="${env:WHERE}", format="csv"),
        columns=(Column(name="a", type="text"),),
    )
    with pytest.raises(DpReleaseError, match="DPR-E140") as told:
        data_files(one, tmp_path, {**store.environment, "WHERE": address})
    assert "MARKER" not in str(told.value)
    assert store.asked == []


def test_stores_that_no_test_reads_from_open_with_the_credentials_of_the_environment() -> None:
    """Nothing is asked of them: that Arrow takes what it is given is all that is shown here."""
    key = "MARKER" * 10 + "MARK"
    azure = opened_store("x", "abfss://box@office.dfs.core.windows.net/d/*.csv", {"AZURE_STORAGE_ACCOUNT_KEY": key})
    assert (azure.filesystem.type_name, azure.bucket, azure.pattern) == ("abfs", "box", "d/*.csv")
    google = opened_store("x", "gs://office/d/*.csv", {})
    assert (google.filesystem.type_name, google.bucket, google.pattern) == ("gcs", "office", "d/*.csv")


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("s3a://b/a.csv", "s3"),
        ("S3://b/a.csv", "s3"),
        ("gcs://b/a.csv", "gs"),
        ("az://b/a.csv", "abfss"),
        ("wasbs://c@a.blob.core.windows.net/a.csv", "abfss"),
    ],
)
def test_an_address_of_another_program_is_told_with_ours(address: str, meant: str) -> None:
    problem = store_problem(address)
    assert problem is not None
    assert problem[1].startswith(f"write {meant}://")


def test_no_credentials_are_no_broken_network() -> None:
    says = (
        "Status(UNAVAILABLE: Retry policy exhausted: Could not create a OAuth2 access token to authenticate the request"
    )
    assert store_failure("x", "OSError", says).code == "DPR-E141"
    assert store_failure("x", "OSError", "CURL error [6]=Could not resolve hostname").code == "DPR-E143"


@pytest.mark.parametrize(
    "address",
    [
        "s3://b/a.csv",
        "gs://b/a/**/*.csv",
        "abfss://box@office.dfs.core.windows.net/d/year=*/*.parquet",
        "abfss://box@office.dfs.core.chinacloudapi.cn/d/*.parquet",
        "abfss://box@office.blob.core.usgovcloudapi.net/d/*.parquet",
    ],
)
def test_addresses_of_every_kind_of_store_are_read(address: str) -> None:
    assert store_problem(address) is None


@pytest.mark.parametrize("ending", [each for each in SOURCE_FORMATS if each not in ("csv", "parquet")])
def test_what_only_a_folder_is_read_from_is_told(kind: str, ending: str, store: ObjectStore, tmp_path: Path) -> None:
    store.buckets["office"].put(f"d/town=x/a.{ending}", content("csv", [1]))
    one = table("s3://office/d/town=*/a.csv")
    source = Source(file=f"s3://office/d/town=*/a.{ending}", format=ending)
    engine = ENGINES[kind](tmp_path, store.environment)
    with pytest.raises(Unavailable, match="DPR-E145") as caught:
        engine.describe(one.model_copy(update={"source": source}))
    assert f"not {ending}" in str(caught.value)
    engine.close()


def test_an_object_that_is_replaced_between_two_parts_gives_no_answer(store: ObjectStore, tmp_path: Path) -> None:
    """Each part reads the objects again; the fingerprint after the last one is that of the first."""
    store.buckets["office"].put("d/town=x/a.csv", content("csv", [1, 2]))
    one, reader = table("s3://office/d/town=*/*.csv"), FileReader(tmp_path, store.environment)
    known = reader.fingerprint(one, KEY, loaded=False)
    parts = [sum(len(block[0]) for block in reader.blocks(one, one.columns)) for _ in range(2)]
    assert (parts, reader.fingerprint(one, KEY, loaded=True)) == ([2, 2], known)
    store.buckets["office"].put("d/town=x/a.csv", content("csv", [1, 3]))
    assert sum(len(block[0]) for block in reader.blocks(one, one.columns)) == 2
    with pytest.raises(EngineError, match="DPR-E105"):
        reader.fingerprint(one, KEY, loaded=True)
    store.buckets["office"].put("d/town=x/a.csv", content("csv", [1, 2]))  # put back: what was read meanwhile was not
    with pytest.raises(EngineError, match="DPR-E105"):
        reader.fingerprint(one, KEY, loaded=True)
