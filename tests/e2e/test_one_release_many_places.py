"""The same rows from a CSV, from folders with partitions, from a Delta table and from an object store: one release."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.seen import run, with_test_key
from tests.object_store import ACCESS, SECRET, Bucket, ObjectStore, object_store
from tests.project import SPEC, command, forked, small_project

deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")

FILE = 'source: {file: "people-*.csv", null_values: ["", N]}'
DISTRICT = "district: {type: text,"
PARTED = "district: {partition: true, type: text,"
SOURCES = {
    "csv": FILE,
    "hive": 'source: {file: "parted/district=*/*.parquet", null_values: ["", N]}',
    "delta": 'source: {delta: lake, version: 0, null_values: ["", N]}',
    "s3 csv": 'source: {file: "s3://office/d/people-*.csv", null_values: ["", N]}',
    "s3 parquet": 'source: {file: "s3://${env:BUCKET}/d/parted/district=*/*.parquet", null_values: ["", N]}',
    "s3 delta": 'source: {delta: "s3://office/d/lake", version: 0, null_values: ["", N]}',
}


def spec_of(kind: str) -> str:
    text = SPEC.replace(FILE, SOURCES[kind])
    return text if kind.endswith("csv") else text.replace(DISTRICT, PARTED)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ObjectStore]]:
    """A project, and a store that holds the same files."""
    folder = tmp_path_factory.mktemp("office")
    small_project(folder)
    rows = list(csv.DictReader(io.StringIO((folder / "people-1.csv").read_text(encoding="utf-8"))))
    for district in sorted({row["district"] for row in rows}):
        mine = [row for row in rows if row["district"] == district]
        place = folder / "parted" / f"district={quote(district)}" / "part-0.parquet"
        place.parent.mkdir(parents=True)
        pq.write_table(table_of(mine).drop_columns(["district"]), place)
        (place.parent / "_SUCCESS").touch()
    deltalake.write_deltalake(folder / "lake", table_of(rows), partition_by=["district"])
    deltalake.write_deltalake(folder / "lake", table_of(rows[:500]), mode="append")  # which version 0 does not have
    with object_store() as store:
        bucket = store.buckets["office"] = Bucket()
        for path in [*folder.glob("people-*.csv"), *folder.glob("parted/**/*"), *folder.glob("lake/**/*")]:
            if path.is_file():
                bucket.put(f"d/{path.relative_to(folder)}", path.read_bytes())
        yield folder, store


def table_of(rows: list[dict[str, str]]) -> pa.Table:
    incomes = [None if row["income"] == "N" else int(row["income"]) for row in rows]
    return pa.table(
        {"district": [row["district"] for row in rows], "sex": [int(row["sex"]) for row in rows], "income": incomes}
    )


def projected(folder: Path, office: Path, kind: str) -> Path:
    """A project of its own over the rows of the office's."""
    small_project(folder, spec_of(kind), rows=0)
    (folder / "people-1.csv").unlink()
    for path in office.iterdir():
        if path.name in ("people-1.csv", "parted", "lake"):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.slow
def test_one_release_of_the_same_rows_is_the_same_wherever_they_are(
    office: tuple[Path, ObjectStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under fixed noise every published number is the same to the last digit: so the exact totals were the same."""
    folder, store = office
    for name, value in {**store.environment, "BUCKET": "office"}.items():
        monkeypatch.setenv(name, value)
    found = {}
    for kind in SOURCES:
        project = projected(tmp_path / kind.replace(" ", "-"), folder, kind)
        with monkeypatch.context() as inside:
            with_test_key(inside)
            code, said = run(project)
        assert code == 0, said
        tables = sorted((project / "releases/survey/2024/tables").glob("*.csv"))
        found[kind] = {path.name: path.read_bytes() for path in tables}
        assert not any(marked(path) for path in project.rglob("*") if path.is_file() and not path.is_symlink())
    assert len(found["csv"]) == 2
    assert all(each == found["csv"] for each in found.values()), [kind for kind in found if found[kind] != found["csv"]]


def marked(path: Path) -> bool:
    """Whether a file holds a credential of the store: no plan, ledger, log or bundle may."""
    data = path.read_bytes()
    return ACCESS.encode() in data or SECRET.encode() in data


FAILURES = {
    "wrong key": ("s3 csv", {"AWS_ACCESS_KEY_ID": "MARKEROTHER"}, "DPR-E141"),
    "no bucket": ("s3 parquet", {"BUCKET": "nowhere"}, "DPR-E142"),
    "nobody listens": ("s3 csv", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "DPR-E143"),
    "a secret in the address": ("s3 parquet", {"BUCKET": f"{ACCESS}:{SECRET}@office"}, "DPR-E140"),
}


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("how", FAILURES)
def test_what_cannot_be_read_is_told_and_nothing_is_charged(
    how: str, office: tuple[Path, ObjectStore], tmp_path: Path
) -> None:
    kind, changed, code = FAILURES[how]
    folder, store = office
    project = projected(tmp_path / "project", folder, kind)
    variables = {"BUCKET": "office", **store.environment, **changed}
    ended = forked(project, "run", "spec.yaml", "--direct", variables=variables)
    assert ended.code == 5
    assert code in ended.out + ended.err
    assert "MARKER" not in ended.out + ended.err
    assert not any(marked(path) for path in project.rglob("*") if path.is_file() and not path.is_symlink())
    assert json.loads(command(project, "ledger", "status", "--json"))["accounts"][0]["releases"] == 0


def test_a_pinned_version_is_in_the_plan_and_another_one_is_another_release(
    office: tuple[Path, ObjectStore], tmp_path: Path
) -> None:
    project = projected(tmp_path / "project", office[0], "delta")
    command(project, "plan", "spec.yaml", "--out", "plan.json")
    assert '"version":0' in (project / "plan.json").read_text(encoding="utf-8").replace(" ", "")
    text = (project / "spec.yaml").read_text(encoding="utf-8")
    (project / "spec.yaml").write_text(text.replace("version: 0, ", ""), encoding="utf-8")
    said = command(project, "validate", "spec.yaml", code=2)
    assert "DPR-S246" in said
    assert "_delta_log" in said
