"""One release of the same rows from a CSV, a SQLite file, a DuckDB file and a PostgreSQL table: the same numbers."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from dprelease.errors import LedgerError
from dprelease.release import direct
from dprelease.release.run import Request, open_run
from dprelease.release.tuning.look import look_at
from tests import postgres as servers
from tests.postgres import RUNNER, Database
from tests.project import CANARY, SPEC, command, small_project

postgres_server, postgres = servers.postgres_server, servers.postgres

# Files of a bundle that name the plan by its fingerprint, in which the source is, or by that of a file that does.
NAME_THE_PLAN = {
    *(
        "SHA256SUMS",
        "certificate.pdf",
        "accounting.html",
        "accounting.json",
        "datapackage.json",
        "facts.json",
        "index.html",
        "manifest.json",
    ),
    *("plan.json", "registry.yaml", "tables/income.parquet", "tables/population.parquet", "tables/workbook.xlsx"),
}
FILE = 'source: {file: "people-*.csv", null_values: ["", N]}'


def rows(folder: Path) -> list[list[str]]:
    with (folder / "people-1.csv").open(encoding="utf-8", newline="") as file:
        return [*csv.reader(file)][1:]


def in_sqlite(folder: Path) -> str:
    """Every value by a class of its own: numbers, texts of numbers, and nulls."""
    with sqlite3.connect(folder / "office.db") as database:
        database.execute("CREATE TABLE people (district, sex, income)")
        for at, (district, sex, income) in enumerate(rows(folder)):
            known = None if income == "N" else float(income) if at % 2 else income
            database.execute("INSERT INTO people VALUES (?, ?, ?)", (district, int(sex) if at % 3 else sex, known))
    database.close()
    return 'source: {database: "sqlite:///office.db", table: people}'


def in_duckdb(folder: Path) -> str:
    with duckdb.connect(str(folder / "office.duckdb")) as database:
        database.execute(
            "CREATE TABLE people AS SELECT district::VARCHAR AS district, sex::TINYINT AS sex, "
            "nullif(income, 'N')::DECIMAL(12, 2) AS income FROM read_csv(?, all_varchar = true)",
            [str(folder / "people-1.csv")],
        )
    return 'source: {database: "duckdb:///office.duckdb", table: people}'


def in_postgres(folder: Path, database: Database) -> str:
    import psycopg

    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("CREATE TABLE people (district char(8), sex smallint, income numeric(12, 2), secret text)")
        with connection.cursor() as cursor, cursor.copy("COPY people FROM STDIN") as copy:
            for district, sex, income in rows(folder):
                copy.write_row((district, sex, None if income == "N" else income, f"marker-{CANARY}"))
        connection.execute(f"GRANT SELECT (district, sex, income) ON people TO {RUNNER}")
    return 'source: {database: "${env:OFFICE_DB}", table: people}'


def kinds(database: Database) -> dict[str, Callable[[Path], str]]:
    """By kind of database, what puts the rows of a project into one and says the source of a spec."""
    return {"sqlite": in_sqlite, "duckdb": in_duckdb, "postgres": partial(in_postgres, database=database)}


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes what is drawn from entropy the same for each release; called before each of them."""
    numbers = itertools.count()

    def drawn(size: int) -> bytes:
        return hashlib.shake_256(str(next(numbers)).encode()).digest(size)

    monkeypatch.setattr(os, "urandom", drawn)
    monkeypatch.setattr(direct, "_WORKERS", 1)

    def again() -> None:
        nonlocal numbers
        numbers = itertools.count()

    return again


def released(folder: Path, spec: str, steady: Callable[[], None]) -> dict[str, bytes]:
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    steady()
    bundle = Path(direct.run_directly(Request(target=str(folder / "spec.yaml"))).folder)
    return {path.relative_to(bundle).as_posix(): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}


def test_the_same_rows_give_the_same_tables_from_every_kind_of_source(
    tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch, steady: Callable[[], None]
) -> None:
    monkeypatch.setenv("OFFICE_DB", postgres.runner)
    made = kinds(postgres)
    small_project(tmp_path / "csv")
    plain = released(tmp_path / "csv", SPEC, steady)
    for kind, make in made.items():
        folder = tmp_path / kind
        small_project(folder)
        source = make(folder)
        (folder / "people-1.csv").unlink()
        found = released(folder, SPEC.replace(FILE, source), steady)
        assert found.keys() == plain.keys()
        assert {name for name in plain if found[name] != plain[name]} == NAME_THE_PLAN, kind
        for name in ("population", "income"):
            place = f"tables/{name}.parquet"
            assert pq.read_table(io.BytesIO(found[place])).equals(pq.read_table(io.BytesIO(plain[place])))
        assert not [name for name, data in found.items() if postgres.runner.encode() in data or b"marker-" in data]
        assert "FAIL" not in command(folder, "verify", str(folder / "releases/survey/2024"))


def test_a_look_counts_the_same_in_every_kind_of_source(
    tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE_DB", postgres.runner)
    small_project(tmp_path / "csv")
    expected = looked(tmp_path / "csv")
    made = kinds(postgres)
    for kind, make in made.items():
        spec = small_project(tmp_path / kind)
        spec.write_text(SPEC.replace(FILE, make(tmp_path / kind)), encoding="utf-8")
        (tmp_path / kind / "people-1.csv").unlink()
        assert looked(tmp_path / kind) == expected
        said = command(tmp_path / kind, "validate", "spec.yaml", variables={"OFFICE_DB": postgres.runner})
        assert "not compared" not in said


def looked(folder: Path) -> list[tuple[object, ...]]:
    (found,) = look_at(folder / "spec.yaml", allowed=True, is_terminal=True)
    every = [*found.rows, *(line for lines in (found.columns | found.queries).values() for line in lines)]
    return [(line.what, line.of, line.count, line.whole) for line in every if line.what != "unparsed"]


def test_a_release_goes_on_with_the_rows_that_it_began_with_and_no_others(
    tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE_DB", postgres.runner)
    spec = small_project(tmp_path)
    spec.write_text(SPEC.replace(FILE, in_postgres(tmp_path, postgres)), encoding="utf-8")
    request = Request(target=str(spec))
    with open_run(request, "dprelease run --direct") as run:
        assert run.batches()
    postgres.execute("UPDATE people SET income = income + 1 WHERE sex = 1")
    with pytest.raises(LedgerError, match="DPR-L150") as caught:
        direct.run_directly(request)
    assert "rows" in str(caught.value)
    postgres.execute("UPDATE people SET income = income - 1 WHERE sex = 1")
    postgres.execute("UPDATE people SET secret = 'another'")  # nothing that is read
    assert Path(direct.run_directly(request).folder).is_dir()


def test_a_password_that_the_server_does_not_take_costs_nothing(tmp_path: Path, postgres: Database) -> None:
    """A server that asks for one: with the right one the same command releases."""
    server = postgres.server
    access = server.folder / "data" / "pg_hba.conf"
    before = access.read_text()
    postgres.execute("CREATE ROLE locked LOGIN PASSWORD 'opensesame-5521'")
    spec = small_project(tmp_path)
    spec.write_text(SPEC.replace(FILE, in_postgres(tmp_path, postgres)), encoding="utf-8")
    postgres.execute("GRANT SELECT (district, sex, income) ON people TO locked")
    access.write_text(f"local all locked scram-sha-256\n{before}")
    server.run("pg_ctl", "-D", "data", "reload")
    try:
        for password in ("wrong-5521", ""):
            url = postgres.runner.replace(f"{RUNNER}@", f"locked:{password}@" if password else "locked@")
            said = command(tmp_path, "run", "spec.yaml", "--direct", code=5, variables={"OFFICE_DB": url})
            assert "DPR-E125" in said
            assert "5521" not in said
            assert "locked" not in said
        assert '"releases": 0' in command(tmp_path, "ledger", "status", "--json")
        url = postgres.runner.replace(f"{RUNNER}@", "locked:opensesame-5521@")
        command(tmp_path, "run", "spec.yaml", "--direct", variables={"OFFICE_DB": url})
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) > 10
        assert not [path for path in files if b"opensesame" in path.read_bytes()]
    finally:
        access.write_text(before)
        server.run("pg_ctl", "-D", "data", "reload")
        postgres.execute("DROP OWNED BY locked")
        postgres.execute("DROP ROLE locked")


def test_a_wrong_password_and_a_missing_variable_cost_nothing(tmp_path: Path) -> None:
    spec = small_project(tmp_path)
    spec.write_text(SPEC.replace(FILE, 'source: {database: "${env:OFFICE_DB}", table: people}'), encoding="utf-8")
    assert "DPR-E101" in command(tmp_path, "run", "spec.yaml", "--direct", code=5)
    url = "postgresql://nobody:opensesame@127.0.0.1:1/office"
    said = command(tmp_path, "run", "spec.yaml", "--direct", code=5, variables={"OFFICE_DB": url})
    assert "DPR-E120" in said
    assert "opensesame" not in said
    assert "nobody" not in said
    assert '"releases": 0' in command(tmp_path, "ledger", "status", "--json")
