"""Rows of SQLite and DuckDB files: each value by itself, one state, the file alone, and what a policy lists."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.catalog.table import Column, DatabaseSource, Table
from dprelease.engines.databases.reader import DatabaseReader
from dprelease.engines.files.rows import typed
from dprelease.engines.files.values import LIMIT, READ, id_text
from dprelease.engines.locked import locked_duckdb
from dprelease.errors import DpReleaseError, SpecError, Unavailable
from dprelease.release.planning import open_target, plan_release
from tests.project import SPEC, small_project

KEY = bytes(range(64))
X = Column(name="x", type="text")
# What SQLite holds beside the text that it is: by storage class, whatever stands in the other rows.
STORED: dict[Any, str | None] = {
    1: "1", -(2**63): "-9223372036854775808", 2**63 - 1: "9223372036854775807", 2.5: "2.5", 12.0: "12", 1e22: "1" + "0" * 22,
    5e-324: f"0.{'0' * 323}5", float("inf"): None, "12.0": "12.0", "": "", " 7 ": " 7 ", "2024-02-29": "2024-02-29",
    "a\nb": "a\nb", "true": "true", b"7": "7", b"\xff": "\ufffd", "nul\x00": "nul\x00", None: None,
}  # fmt: skip


def made(folder: Path, values: list[Any]) -> Table:
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("DROP TABLE IF EXISTS t")
        database.execute("CREATE TABLE t (n, x)")
        database.executemany("INSERT INTO t VALUES (?, ?)", enumerate(values))
    database.close()
    source = DatabaseSource(database="sqlite:///a.db", table="t", null_values=())
    return Table(name="t", account="a", source=source, columns=(X,))


def read(folder: Path, table: Table, column: Column = X) -> list[Any]:
    reader = DatabaseReader(folder, {})
    return [value for (block,) in reader.blocks(table, [column]) for value in typed(column, block).to_pylist()]


@pytest.mark.parametrize("kind", READ)
def test_a_value_of_sqlite_is_read_by_its_class_beside_others_and_alone(kind: Any, tmp_path: Path) -> None:
    column = Column(name="x", type=kind)
    every: list[Any] = [None if text is None else READ[kind](text) for text in STORED.values()]
    expected = [None if kind == "integer" and each is not None and abs(each) > LIMIT else each for each in every]
    assert repr(read(tmp_path, made(tmp_path, [*STORED]), column)) == repr(expected)
    for value, one in zip(STORED, expected, strict=True):
        assert repr(read(tmp_path, made(tmp_path, [value]), column)) == repr([one])


def test_bytes_that_are_no_text_stay_different_ids(tmp_path: Path) -> None:
    table = made(tmp_path, [b"\xff", b"\xfe"])
    (block,) = next(DatabaseReader(tmp_path, {}).blocks(table, [X]))
    assert typed(X, block, unit=True).to_pylist() == [id_text(b"\xff"), id_text(b"\xfe")]


def fingerprint(folder: Path, table: Table) -> tuple[str, ...]:
    reader = DatabaseReader(folder, {})
    try:
        return reader.fingerprint(table, KEY, loaded=False)
    finally:
        reader.close()


def test_a_fingerprint_counts_rows_and_knows_no_order(tmp_path: Path) -> None:
    first = fingerprint(tmp_path, made(tmp_path, ["a", "b", None]))
    assert fingerprint(tmp_path, made(tmp_path, [None, "b", "a"])) == first
    others: list[list[Any]] = [
        ["a", "b"],
        ["a", "b", None, None],
        ["a", "b", ""],
        ["a", "b", "None"],
        ["ab", None, None],
        [],
    ]
    found = [fingerprint(tmp_path, made(tmp_path, each)) for each in others]
    assert len({first, *found}) == 1 + len(others)
    assert all(len({*first} & {*each}) == 1 for each in found)  # which table it is


def test_values_do_not_change_places_unseen(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as database:
        for name, rows in {"one": "('a', 'b'), ('b', 'a')", "two": "('a', 'a'), ('b', 'b')"}.items():
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {rows}) AS v(x, y)")
    columns = (X, Column(name="y", type="text"))
    every = [
        Table(name="t", account="a", source=DatabaseSource(database="duckdb:///a.duckdb", table=name), columns=columns)
        for name in ("one", "two")
    ]
    assert not {*fingerprint(tmp_path, every[0])} & {*fingerprint(tmp_path, every[1])}


def written(folder: Path, value: str) -> None:
    """Another process adds a row and commits it."""
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("INSERT INTO t VALUES (99, ?)", [value])
    database.close()


def values_of(reader: DatabaseReader, table: Table) -> list[Any]:
    return [value for (block,) in reader.blocks(table, [X]) for value in typed(X, block).to_pylist()]


def in_wal(folder: Path) -> None:
    """Readers do not stop writers."""
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("PRAGMA journal_mode = WAL")
    database.close()


def test_the_parts_of_a_table_are_read_in_one_state_whoever_writes_between_them(tmp_path: Path) -> None:
    table = made(tmp_path, ["a", "b"])
    in_wal(tmp_path)
    reader = DatabaseReader(tmp_path, {})
    known = reader.fingerprint(table, KEY, loaded=False)
    begun = reader.blocks(table, [X])  # all rows, for which there is not enough memory
    next(begun)
    del begun
    for _ in range(3):
        written(tmp_path, "later")
        assert values_of(reader, table) == ["a", "b"]
    assert reader.fingerprint(table, KEY, loaded=True) == known
    reader.close()
    assert values_of(DatabaseReader(tmp_path, {}), table) == ["a", "b", "later", "later", "later"]


def test_a_table_that_was_let_go_of_and_written_to_is_not_read_again(tmp_path: Path) -> None:
    table = made(tmp_path, ["a", "b"])
    in_wal(tmp_path)
    reader = DatabaseReader(tmp_path, {})
    reader.fingerprint(table, KEY, loaded=False)
    assert values_of(reader, table) == ["a", "b"]  # all of it is in memory, so that its state is let go of
    written(tmp_path, "later")
    with pytest.raises(DpReleaseError, match="DPR-E105"):
        values_of(reader, table)
    reader.close()


@pytest.mark.parametrize(
    ("statement", "name", "code"),
    [
        ("SELECT 1", "T", "DPR-E330"),
        ("CREATE VIEW v AS SELECT * FROM t LIMIT 1", "v", "DPR-E332"),
        ("CREATE TABLE u (y)", "u", "DPR-E301"),
    ],
)
def test_what_is_not_as_declared_is_told(statement: str, name: str, code: str, tmp_path: Path) -> None:
    table = made(tmp_path, [1])
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute(statement)
    database.close()
    source = DatabaseSource(database="sqlite:///a.db", table=name)
    with pytest.raises(DpReleaseError) as caught:
        DatabaseReader(tmp_path, {}).describe(table.model_copy(update={"source": source}))
    assert caught.value.code == code


@pytest.mark.parametrize("url", ["duckdb:///a.db", "sqlite:///a.db"])
def test_a_file_that_is_no_database_is_no_reason_to_try_again(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"something else" * 400)
    table = Table(name="t", account="a", source=DatabaseSource(database=url, table="t"), columns=(X,))
    with pytest.raises(DpReleaseError, match="DPR-E121"):
        DatabaseReader(tmp_path, {}).describe(table)


def test_a_duckdb_file_that_another_process_writes_to_is_a_reason_to_wait(tmp_path: Path) -> None:
    held = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", held, str(tmp_path / "a.duckdb")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        source = DatabaseSource(database="duckdb:///a.duckdb", table="t")
        with pytest.raises(Unavailable, match="DPR-E120"):
            DatabaseReader(tmp_path, {}).describe(Table(name="t", account="a", source=source, columns=(X,)))
        process.communicate()


def test_a_duckdb_file_opens_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("x\n1\n")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS x")
        database.execute(f"CREATE VIEW v AS SELECT * FROM '{tmp_path / 'b.csv'}'")
    source = DatabaseSource(database="duckdb:///a.duckdb", table="v", view=True)
    with pytest.raises(DpReleaseError, match="DPR-E121"):
        DatabaseReader(tmp_path, {}).describe(Table(name="t", account="a", source=source, columns=(X,)))
    opened = locked_duckdb(str(tmp_path / "a.duckdb"))
    for statement in ("CREATE TABLE u (x int)", "INSERT INTO t VALUES (2)", "SET enable_external_access = true"):
        with pytest.raises(duckdb.Error):
            opened.execute(statement)
    opened.close()


def test_a_query_is_read_as_the_policy_lists_it_and_no_other(tmp_path: Path) -> None:
    spec = small_project(tmp_path)
    made(tmp_path, [1])
    text = "SELECT '06-01' AS district, 1 AS sex, x AS income FROM t -- one row of each;\n"
    (tmp_path / "people.sql").write_text(text, encoding="utf-8")
    source = 'source: {database: "sqlite:///a.db", query: people.sql}'
    spec.write_text(SPEC.replace('source: {file: "people-*.csv", null_values: ["", N]}', source), encoding="utf-8")
    with pytest.raises(SpecError, match="DPR-S420") as caught:
        plan_release(open_target(spec))
    line = str(caught.value).split("`")[-2]
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    table = plan_release(open_target(spec)).catalog.tables["people"]
    assert isinstance(table.source, DatabaseSource)
    assert table.source.query_sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert read(tmp_path, table, Column(name="income", type="integer")) == [1]
    (tmp_path / "people.sql").write_text(text.replace("1 AS sex", "2 AS sex"), encoding="utf-8")
    with pytest.raises(SpecError, match="another one in the policy"):
        plan_release(open_target(spec))
    with pytest.raises(DpReleaseError, match="DPR-E340"):
        DatabaseReader(tmp_path, {}).describe(table)


def test_a_database_is_no_public_file(tmp_path: Path) -> None:
    spec = small_project(tmp_path)
    made(tmp_path, [1])
    (tmp_path / "places.csv").unlink()
    (tmp_path / "places.csv").symlink_to(tmp_path / "a.db")
    source = 'source: {database: "sqlite:///a.db", table: t}'
    spec.write_text(SPEC.replace('source: {file: "people-*.csv", null_values: ["", N]}', source), encoding="utf-8")
    with pytest.raises(SpecError, match="DPR-S690"):
        plan_release(open_target(spec))
