"""One table of visits for the tests of sources: its spec, its rows, and how these are put into every kind of source."""

from __future__ import annotations

import csv
import datetime as dt
import io
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.mariadb import Office
from tests.object_store import Bucket, ObjectStore, object_store
from tests.postgres import RUNNER, Database
from tests.project import POLICY, SETTINGS
from tests.statistical_files import KINDS, packed_as, write_statistical
from tests.workbook_files import write_columns

__all__ = ["DATABASES", "NAMES", "PLACES", "SOURCES", "SPEC", "made_rows", "office_store", "placed", "written"]

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
    "s3": '{file: "s3://office/rows/visits-*.parquet"}',
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
    elif kind in (*DATABASES, "s3"):
        return folder
    else:
        european = kind == "european"
        content = io.StringIO()
        lines = csv.writer(content, delimiter=";" if european else ",", lineterminator="\n")
        lines.writerows([NAMES, *([_text(value, european) for value in row] for row in rows)])
        place = folder / ("visits-eu.csv" if european else f"visits.{kind}")
        encoded = content.getvalue().encode("latin-1" if european else "utf-8", "replace")
        place.write_bytes(packed_as(encoded, kind))
    return folder


def placed(
    folder: Path,
    kind: str,
    rows: list[list[Any]],
    request: pytest.FixtureRequest,
    patch: pytest.MonkeyPatch,
    text: str = "varchar(20)",
) -> Path:
    """The same, with the rows in a database or a store and the environment that leads there, where it is one."""
    written(folder, kind, rows)
    if kind in DATABASES:
        patch.setenv("OFFICE_DB", _into_database(kind, folder, rows, request, text))
    if kind == "s3":
        store: ObjectStore = request.getfixturevalue("office_store")
        store.buckets["office"] = Bucket()
        columns = pa.table({name: [row[at] for row in rows] for at, name in enumerate(NAMES)})
        for at, part in enumerate((columns.slice(0, 500), columns.slice(500))):
            content = io.BytesIO()
            pq.write_table(part, content)
            store.buckets["office"].put(f"rows/visits-{at}.parquet", content.getvalue())
        for name, value in store.environment.items():
            patch.setenv(name, value)
    return folder


@pytest.fixture
def office_store() -> Iterator[ObjectStore]:
    """A stand-in for a store of objects."""
    with object_store() as store:
        yield store


def _in_lake(folder: Path, rows: pa.Table) -> None:
    """Two versions, of which the second has rows more than the first."""
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    moments = rows.set_column(4, "SEEN", rows["SEEN"].cast(pa.timestamp("us")))
    deltalake.write_deltalake(folder, moments)
    deltalake.write_deltalake(folder, moments.slice(0, 200), mode="append")


def _into_database(
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
