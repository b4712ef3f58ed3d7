"""First hours from a table of a database: ``dprelease new`` asks its catalog for names and types, and no row."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import postgres as servers
from tests.e2e.test_first_hour import CANARY, HEAD, STATA, first_hour, plain_file, words, written_text
from tests.postgres import RUNNER, Database
from tests.project import command

postgres_server, postgres = servers.postgres_server, servers.postgres


def people(folder: Path) -> list[list[str]]:
    """The rows of a plain file."""
    return [line.split(",") for line in plain_file(folder).read_text(encoding="utf-8").splitlines()[1:]]


def test_from_a_table_of_sqlite(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "office.db") as database:
        database.execute("CREATE TABLE people (state TEXT, age INTEGER, income REAL)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", people(tmp_path))
    database.close()
    (tmp_path / "people.csv").unlink()
    place = ["sqlite:///office.db", "--table", "people"]
    typed = {name: said for name, said in STATA.items() if not name.startswith("--type")}  # the catalog has them
    said = first_hour(tmp_path, tmp_path / "office.db", typed, place=[*place, "--yes"])
    assert shlex.split(said.splitlines()[-1])[:5] == ["dprelease", "new", *place]
    assert 'database: "sqlite:///office.db"' in (tmp_path / "first-hour.yaml").read_text(encoding="utf-8")


def test_from_a_table_of_postgresql_and_its_view(
    tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The URL is in a variable; a role that may read the columns of the release alone is enough."""
    import psycopg

    with psycopg.connect(postgres.superuser, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA office")
        connection.execute(
            "CREATE TABLE office.people (state varchar(40), age smallint, income numeric(12, 2), note text)"
        )
        connection.execute("CREATE VIEW office.all_of_them AS SELECT state, age, income FROM office.people")
        with connection.cursor() as cursor, cursor.copy("COPY office.people FROM STDIN") as copy:
            for row in people(tmp_path):
                copy.write_row((*row, f"note {CANARY}"))
        connection.execute(f"GRANT USAGE ON SCHEMA office TO {RUNNER}")
        connection.execute(f"GRANT SELECT (state, age, income) ON office.people TO {RUNNER}")
        connection.execute(f"GRANT SELECT ON office.all_of_them TO {RUNNER}")
    (tmp_path / "people.csv").unlink()
    monkeypatch.setenv("OFFICE_DB", postgres.runner)
    place = ["${env:OFFICE_DB}", "--table", "people", "--schema", "office"]
    first_hour(tmp_path, tmp_path / "none", STATA, place=place)
    written = written_text(tmp_path, without=tmp_path / "none")
    assert postgres.runner not in written
    assert "income: {type: decimal" in (tmp_path / "first-hour.yaml").read_text(encoding="utf-8")
    other = words({name: said for name, said in (STATA | {"--name": "other"}).items() if name != "--cap"})
    of_view = [place[0], "--table", "all_of_them", *place[3:]]
    assert "DPR-E332" in command(tmp_path, "new", *of_view, *other, code=5)
    assert "view: true" in command(tmp_path, "new", *of_view, "--view", *other) + (tmp_path / "other.yaml").read_text()
    assert "valid. other/2024" in command(tmp_path, "validate", "other.yaml")


@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        (["sqlite:///office.db"], "DPR-S908", "--table NAME"),
        (["sqlite:///office.db", "--table", "peoples"], "DPR-E330", "did you mean 'people'"),
        (["sqlite:///gone.db", "--table", "people"], "DPR-E102", "place of the database"),
        (["${env:NOT_THERE}", "--table", "people"], "DPR-E101", "NOT_THERE"),
        ([f"postgresql://me:{CANARY}@host/db", "--table", "people"], "DPR-S238", "user or a password"),
        (["sqlite:///office.db", "--table", "people", "--header", "a,b"], "DPR-S908", "--header is for a CSV"),
        (["people.csv", "--table", "people"], "DPR-S908", "are for a database"),
        (["sqlite:///office.db", "--table", "people", "--by", "the age"], "DPR-S907", "another name there"),
    ],
)
def test_a_database_that_cannot_be_taken_is_told(tmp_path: Path, place: Sequence[str], code: str, says: str) -> None:
    with sqlite3.connect(tmp_path / "office.db") as database:
        database.execute(f'CREATE TABLE people (state TEXT, "the age" INTEGER, note DEFAULT {CANARY})')
    database.close()
    plain_file(tmp_path)
    given = [] if "--by" not in place else words({**HEAD, "--type the age": "text", "--keys the age": "1,2"})
    given += ["--yes", "--id", "none"] if given else []
    said = command(tmp_path, "new", *place, *given, code=5 if code.startswith("DPR-E") else 2)
    assert code in said
    assert says in said
    assert CANARY not in said
