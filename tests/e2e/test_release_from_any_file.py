"""One release of the same rows from files and databases of every kind: the same totals, and the same bundle.

A file that cannot be read is told before anything is charged, with what to do and without a word of what is in it.
"""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import os
import random
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter

from dprelease.catalog.aggregate import Grouping
from dprelease.cli import main
from dprelease.engines import ENGINES
from dprelease.engines.files.statistical import process
from dprelease.noise.exact import Exact, open_exact, open_histogram
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import reference_tables
from tests import mariadb
from tests import postgres as servers
from tests.mariadb import Office
from tests.postgres import RUNNER, Database
from tests.project import POLICY, SETTINGS, command
from tests.statistical_files import KINDS, packed_as, write_statistical
from tests.workbook_files import write_columns

postgres_server, postgres = servers.postgres_server, servers.postgres
mysql_office = mariadb.mysql_office

WORD, NUMBER = "CANARYqz7", 918_273_645
SPEC = """dprelease: 1
release: {name: visits, period: 2024, title: Visits}
privacy:
  unit: {entity: person}
  budget: {epsilon: 2, delta: 1e-9}
  accounting: zcdp
  noise: gaussian
references:
  places: {file: places.csv, columns: {PLACE: text, REGION: text}}
tables:
  visits:
    account: people
    source: SOURCE
    unit_id: PERSON
    bounds: {max_rows: 3, truncate: first, order_by: [SEEN]}
    join: [{reference: places, on: PLACE, add: [REGION]}]
    columns:
      PERSON: {type: text}
      PLACE: {type: text, keys: {reference: places}}
      REGION: {type: text, keys: {reference: places}}
      SEX: {type: integer, keys: [1, 2], null: 2}
      BORN: {type: date}
      SEEN: {type: timestamp}
      AMOUNT: {type: decimal, range: [0, 1000], step: 0.25}
      EMPLOYED: {type: boolean, keys: [true, false]}
queries:
  counts:
    table: visits
    by: [REGION, SEX]
    where: "BORN >= CAST('1950-06-01' AS DATE) OR BORN IS NULL"
    bounds: {max_groups: 2, max_rows_per_group: 2}
    measures: {visits: {count: rows}, people: {count: units}, known: {count: AMOUNT}}
  amounts:
    table: visits
    by: [EMPLOYED]
    bounds: {max_groups: 2, max_rows_per_group: 2}
    measures:
      total: {sum: AMOUNT, clip_per: row}
      middle: {quantiles: AMOUNT, at: [0.5]}
publish: {formats: [csv, parquet, html]}
"""
PLACES = "PLACE,REGION\nBern,west\nGenf,west\nChur,east\n"
NAMES = ("PERSON", "PLACE", "SEX", "BORN", "SEEN", "AMOUNT", "EMPLOYED")
DATABASES = ("sqlite", "duckdb", "postgres", "mysql")
SOURCES = {
    "csv": '{file: "visits.csv"}',
    "european": '{file: "visits-eu.csv", delimiter: ";", decimal: ",", date_format: "%d.%m.%Y", encoding: latin-1}',
    **{kind: f'{{file: "visits.{kind}"}}' for kind in ("csv.gz", "csv.zst", "parquet", "xlsx", *KINDS)},
    "folder": '{file: "visits/**/*.parquet"}',
    "delta": "{delta: lake, version: 0}",
    "sqlite": '{database: "sqlite:///office.db", table: visits}',
    "duckdb": '{database: "duckdb:///office.duckdb", table: visits}',
    **dict.fromkeys(("postgres", "mysql"), '{database: "${env:OFFICE_DB}", table: visits}'),
}


def made_rows() -> list[list[Any]]:
    draw = random.Random(7)
    rows: list[list[Any]] = []
    for at in range(900):
        seen = dt.datetime(2024, draw.randrange(1, 12), draw.randrange(1, 28), draw.randrange(24), 5, at % 60, 125_000)
        born = dt.date(1940, 1, 1) + dt.timedelta(draw.randrange(20_000))
        sex, amount = draw.choice([1, 2, 2, None]), draw.choice([draw.randrange(5000) / 8, None, 2000.0, -0.125])
        row = [
            f"p{at % 400}",
            draw.choice(["Bern", "Genf", "Chur", "Rom"]),
            sex,
            born,
            seen,
            amount,
            draw.random() < 0.5,
        ]
        rows.append([None if at > 2 and draw.random() < 0.02 else value for value in row])
    return rows


def written(folder: Path, kind: str, rows: list[list[Any]]) -> Path:
    """A project whose source is of a format."""
    folder.mkdir(parents=True)
    files = {"dprelease.yaml": SETTINGS, "policy.yaml": POLICY, "places.csv": PLACES}
    for name, text in (files | {"spec.yaml": SPEC.replace("SOURCE", SOURCES[kind])}).items():
        (folder / name).write_text(text, encoding="utf-8")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(NAMES)}
    if kind in KINDS:
        write_statistical(folder / f"visits.{kind}", columns)
    elif kind == "xlsx":
        write_columns(folder / "visits.xlsx", columns)
    elif kind == "parquet":
        pq.write_table(pa.table(columns), folder / "visits.parquet")
    elif kind == "folder":
        for at in range(3):
            place = folder / "visits" / f"n{at % 2}" / f"part-{at}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns).slice(at * 300, 300), place)
    elif kind == "delta":
        _in_lake(folder / "lake", pa.table(columns))
    elif kind in DATABASES:
        return folder
    else:
        european = kind == "european"
        content = io.StringIO()
        lines = csv.writer(content, delimiter=";" if european else ",", lineterminator="\n")
        lines.writerows([NAMES, *([_text(value, european) for value in row] for row in rows)])
        place = folder / ("visits-eu.csv" if european else f"visits.{kind}")
        place.write_bytes(packed_as(content.getvalue().encode("latin-1"), kind))
    return folder


def _in_lake(folder: Path, rows: pa.Table) -> None:
    """Two versions, of which the second has rows more than the first."""
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    moments = rows.set_column(4, "SEEN", rows["SEEN"].cast(pa.timestamp("us")))
    deltalake.write_deltalake(folder, moments)
    deltalake.write_deltalake(folder, moments.slice(0, 200), mode="append")


def into_database(
    kind: str, folder: Path, rows: list[list[Any]], request: pytest.FixtureRequest, text: str = "varchar(20)"
) -> str:
    """Put the rows into a table of a database of its own; the URL that a variable holds, where one does."""
    names = ", ".join(NAMES)
    if kind == "sqlite":  # which has numbers and texts, and nothing else
        with sqlite3.connect(folder / "office.db") as database:
            database.execute(f"CREATE TABLE visits ({names})")
            texts = [[_text(each, False) if isinstance(each, dt.date) else each for each in row] for row in rows]
            database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?)", texts)
        database.close()
        return ""
    if kind == "duckdb":
        columns = pa.table({name: [row[at] for row in rows] for at, name in enumerate(NAMES)})
        with duckdb.connect(str(folder / "office.duckdb")) as database:
            database.register("rows", columns)
            database.execute("CREATE TABLE visits AS SELECT * FROM rows")
        return ""
    types = (text, "char(6)", "smallint", "date", "timestamp(6)", "double precision", "boolean")
    if kind == "mysql":
        office: Office = request.getfixturevalue("mysql_office")
        types = (*types[:4], "datetime(6)", *types[5:])
        made = ", ".join(f"{name} {stored} NULL" for name, stored in zip(NAMES, types, strict=True))
        office.execute("DROP TABLE IF EXISTS visits", f"CREATE TABLE visits ({made})")
        office.execute("INSERT INTO visits VALUES (%s, %s, %s, %s, %s, %s, %s)", rows=[tuple(row) for row in rows])
        office.grant("visits")
        return office.url
    postgres: Database = request.getfixturevalue("postgres")
    made = ", ".join(f'"{name}" {stored}' for name, stored in zip(NAMES, types, strict=True))
    postgres.execute(f"CREATE TABLE visits ({made})")
    psycopg = pytest.importorskip("psycopg")
    connection = psycopg.connect(postgres.superuser, autocommit=True)
    with connection, connection.cursor() as cursor, cursor.copy("COPY visits FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    postgres.execute(f"GRANT SELECT ON visits TO {RUNNER}")
    return postgres.runner


def _text(value: Any, european: bool) -> str:
    if isinstance(value, dt.datetime):
        return value.strftime("%d.%m.%Y %H:%M:%S.%f" if european else "%Y-%m-%dT%H:%M:%S.%f")
    if isinstance(value, dt.date):
        return value.strftime("%d.%m.%Y") if european else value.isoformat()
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace(".", ",") if european and isinstance(value, float) else text


def run(folder: Path, patch: pytest.MonkeyPatch, *more: str) -> tuple[int, str]:
    """The command in this process, and what it said."""
    said = io.StringIO()
    with patch.context() as inside, redirect_stdout(said), redirect_stderr(said):
        inside.chdir(folder)
        inside.setattr("dprelease.release.run.heard", lambda plan, ask: None)  # another library's opinion of the price
        inside.setattr(sys, "argv", ["dprelease", *(more or ("run", "spec.yaml", "--direct"))])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0), said.getvalue()


def with_test_key(patch: pytest.MonkeyPatch) -> None:
    """Entropy that is the same in every run, and one step after the other."""
    stream = hashlib.shake_256(b"a fixed test key").digest(1 << 22)
    at = [0]

    def taken(size: int) -> bytes:
        begin = at[0]
        at[0] += size
        return stream[begin : begin + size]

    patch.setattr("os.urandom", taken)
    patch.setattr("dprelease.release.direct._WORKERS", 1)


def totals(folder: Path) -> str:
    """SHA-256 of the exact totals of every question of the plan, as the engine answers it from this source."""
    plan = plan_release(open_target(folder / "spec.yaml"))
    engine = ENGINES["duckdb"](folder, os.environ)
    found = hashlib.sha256()
    try:
        for step in plan.steps:
            aggregate = step.aggregate
            grouping = Grouping(**{name: getattr(aggregate, name) for name in Grouping.model_fields})
            references = reference_tables(plan.catalog, folder)
            (box,) = engine.aggregate(plan.catalog, grouping, (aggregate.quantity,), references, bytes(32))
            if isinstance(box, Exact):
                found.update(open_exact(box).tobytes())
            else:
                found.update(repr([np.asarray(each).tolist() for each in open_histogram(box)]).encode())
    finally:
        engine.close()
    return found.hexdigest()


def bundle(folder: Path) -> dict[str, bytes]:
    """Every file of the release, without what tells its source: that, hashes, sizes of files with it, and times.

    Parquet files are their tables; what they hold beside them are hashes.
    """
    found, root = {}, folder / "releases" / "visits" / "2024"
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data = repr(pq.read_table(path).to_pydict()).encode()
        elif path.name == "plan.json":
            plan = json.loads(data)
            source = next(each for each in _each(plan) if "source" in each).pop("source")
            assert "format" in source
            data = json.dumps(plan).encode()
        data = re.sub(rb"[0-9a-f]{12,}", b"HASH", data)
        data = re.sub(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d", b"TIME", data)
        found[path.relative_to(root).as_posix()] = re.sub(rb'"plan\.json":\{"bytes":\d+', b"", data)
    return found


def _each(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within a JSON value."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _each(inner)
    if isinstance(value, dict):
        yield value


def published(folder: Path) -> dict[str, bytes]:
    """Every table of the bundle."""
    found = {path.name: path.read_bytes() for path in sorted((folder / "releases").rglob("tables/*.csv"))}
    assert {"counts.csv", "amounts.csv"} <= set(found)
    return found


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the plainest CSV, released."""
    folder = written(tmp_path_factory.mktemp("known") / "csv", "csv", made_rows())
    with pytest.MonkeyPatch.context() as patch:
        with_test_key(patch)
        code, said = run(folder, patch)
    assert code == 0, said
    return folder


@pytest.fixture(scope="module")
def known(first: Path) -> dict[str, bytes]:
    return published(first)


@pytest.fixture(scope="module")
def first_totals(first: Path) -> str:
    return totals(first)


FIRST = ["sav", "postgres", "european"]


@pytest.mark.thin(first=len(FIRST))
@pytest.mark.parametrize("kind", [*FIRST, *sorted(SOURCES.keys() - {"csv", *FIRST})])
def test_the_same_rows_make_the_same_bundle(
    kind: str,
    first: Path,
    first_totals: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """But for what names the source; and the exact totals, before any noise, are the same numbers."""
    rows = made_rows()
    folder = written(tmp_path / "it", kind, rows)
    if kind in DATABASES:
        monkeypatch.setenv("OFFICE_DB", into_database(kind, folder, rows, request))
    with_test_key(monkeypatch)
    code, said = run(folder, monkeypatch)
    assert code == 0, said
    assert published(folder) == published(first)
    found, expected = bundle(folder), bundle(first)
    assert len(expected) > 15
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []
    assert totals(folder) == first_totals


def charged(folder: Path) -> int:
    return int(json.loads(command(folder, "ledger", "status", "--json"))["accounts"][0]["releases"])


def spoiled(data: bytes, how: str) -> bytes:
    """A file as it may come off a bad disk, or from somebody who wrote it by hand."""
    if how == "cut":
        return data[: len(data) * 2 // 3]
    if how == "garbage":
        return random.Random(3).randbytes(len(data))
    if how == "zeros":
        return bytes(len(data))
    return b"" if how == "empty" else data[: len(data) // 2] + random.Random(4).randbytes(len(data) // 2)


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("how", ["cut", "garbage", "zeros", "empty"])
@pytest.mark.parametrize("kind", ["sav", "csv.zst", "csv.gz", "xlsx", *sorted(set(KINDS) - {"sav"})])
def test_a_broken_file_is_told_before_anything_is_charged(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[WORD if at == 0 else NUMBER if at == 5 else value for at, value in enumerate(row)] for row in made_rows()]
    folder = written(tmp_path / "it", kind, rows)
    path = folder / f"visits.{kind}"
    path.write_bytes(spoiled(path.read_bytes(), how))
    for words in (("validate", "spec.yaml"), ("run", "spec.yaml", "--direct")):
        code, said = run(folder, monkeypatch, *words)
        assert code == 5, said
        assert "DPR-E303" in said
        assert any(
            each in said for each in ("is damaged, cut short, or no", "damaged or cut short", "not compressed by")
        )
        assert WORD not in said
        assert str(NUMBER) not in said
    assert charged(folder) == 0


def test_a_missing_extra_is_told_before_anything_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "dta", made_rows())
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    for words in (("validate", "spec.yaml"), ("run", "spec.yaml", "--direct")):
        code, said = run(folder, monkeypatch, *words)
        assert code == 9
        assert 'pip install "dprelease[statfiles]"' in said
    assert charged(folder) == 0


ODD = ("two\nlines", 'say "hi"', "back\\slash\\134", "'; drop table visits; --", "%s %% {} \\N", "\U0001f600", "a\u0308", " b ", "b",
       "\ufdd0", "x" * 60_000, "NULL", "0x1F", "\t", "\u202eright", "A", "a", "1e5", "100000")  # fmt: skip


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "duckdb", "mysql", "delta", "folder"])
def test_hostile_texts_are_the_same_units_everywhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Which rows of a unit are kept, and in how many cells it is, depends on every letter of its id."""
    rows = [[ODD[at % len(ODD)], *row[1:]] for at, row in enumerate(made_rows())]
    expected = totals(written(tmp_path / "parquet", "parquet", rows))
    folder = written(tmp_path / "it", kind, rows)
    if kind in DATABASES:
        monkeypatch.setenv("OFFICE_DB", into_database(kind, folder, rows, request, text="text"))
    assert totals(folder) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "xlsx", *DATABASES, "csv", "csv.gz", "csv.zst", "parquet", "folder", "delta"])
def test_a_canary_is_in_no_file_but_its_own(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A word and a number in every row: in no log, no temporary file, no bundle, and no word of the command."""
    rows = [[f"{WORD}{at}", *row[1:5], float(NUMBER), row[6]] for at, row in enumerate(made_rows())]
    folder = written(tmp_path / "it", kind, rows)
    if kind in DATABASES:
        monkeypatch.setenv("OFFICE_DB", into_database(kind, folder, rows, request))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    code, said = run(folder, monkeypatch)
    assert code == 0, said
    marks = [WORD.encode(), str(NUMBER).encode(), *(NUMBER.to_bytes(8, order) for order in ("little", "big"))]
    marks.append(pa.array([float(NUMBER)]).buffers()[1].to_pybytes()[:8])
    assert not any(mark.decode() in said for mark in marks[:2])
    own = ("visits.", "office.", "part-")
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith(own)]
    files = [path for path in files if "_delta_log" not in path.parts]  # of the source: it holds statistics of its rows
    assert len(files) > 10
    assert [path.name for path in files if any(mark in path.read_bytes() for mark in marks)] == []


def test_a_wrong_name_is_told_with_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "dta", made_rows()[:20])
    (folder / "visits.dta").rename(folder / "visits.sav")
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", SOURCES["sav"]), encoding="utf-8")
    code, said = run(folder, monkeypatch, "validate", "spec.yaml")
    assert code == 5
    assert "it begins like a Stata file" in said
    assert "give it a name that ends in .dta" in said


def test_names_in_other_letters_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "sav", made_rows()[:20])
    write_statistical(folder / "visits.sav", {name.lower(): [1.0] for name in NAMES})
    code, said = run(folder, monkeypatch, "validate", "spec.yaml")
    assert code == 5
    assert "'person' for 'PERSON'" in said
    assert "letters' case counts" in said


@pytest.mark.parametrize("name", ["visits.xls", "visits.ods"])
def test_other_workbooks_are_told_with_what_to_save_them_as(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "it", "csv", made_rows()[:20])
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", f"{{file: {name}}}"), encoding="utf-8")
    code, said = run(folder, monkeypatch, "validate", "spec.yaml")
    assert code == 2
    assert "DPR-S216" in said
    assert "save it as an Excel workbook (.xlsx) or the sheet as CSV in UTF-8" in said


def test_a_reference_in_a_workbook_is_that_in_a_csv(
    known: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "it", "csv", made_rows())
    (folder / "places.csv").unlink()
    with xlsxwriter.Workbook(folder / "places.xlsx") as book:
        sheet = book.add_worksheet()
        for at, line in enumerate(PLACES.splitlines()):
            sheet.write_row(at, 0, line.split(","))
    spec = SPEC.replace("SOURCE", SOURCES["csv"]).replace("places.csv", "places.xlsx")
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    with_test_key(monkeypatch)
    code, said = run(folder, monkeypatch)
    assert code == 0, said
    assert published(folder) == known
