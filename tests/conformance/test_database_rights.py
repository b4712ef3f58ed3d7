"""What stands between a role and all rows of a table of PostgreSQL is told, each by its own code, before a row is read."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")
pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed: dprelease[postgres]")

from dprelease.catalog.table import Column, DatabaseSource, Table, TimeFilter  # noqa: E402 - only where the drivers are
from dprelease.engines.databases import postgres_session  # noqa: E402 - only where the drivers are
from dprelease.engines.databases.reader import DatabaseReader  # noqa: E402 - only where the drivers are
from dprelease.errors import DpReleaseError, EngineError, Unavailable  # noqa: E402 - only where the drivers are
from tests import postgres as servers  # noqa: E402 - only where the drivers are
from tests.postgres import OWNER, RUNNER, Database  # noqa: E402 - only where the drivers are

postgres_server, postgres = servers.postgres_server, servers.postgres

KEY = bytes(range(32))
COLUMNS = (Column(name="sex", type="integer", keys=(1, 2)), Column(name="pay", type="decimal"))
SEEN = TimeFilter(column="seen", type="date", start=date(2024, 3, 1), end=date(2024, 4, 1))
MARK = "marker-8125"


@pytest.fixture
def office(postgres: Database) -> Database:
    postgres.execute("CREATE TABLE visits (id bigint, sex int, pay numeric, seen timestamptz, note text)", OWNER)
    postgres.execute(
        "INSERT INTO visits SELECT n, n % 2 + 1, n / 7.0, '2024-02-01 12:00Z'::timestamptz + n * interval '1 minute', "
        f"'{MARK}' FROM generate_series(1, 200000) AS n",
        OWNER,
    )
    postgres.execute(f"GRANT SELECT ON visits TO {RUNNER}", OWNER)
    return postgres


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[DatabaseReader]:
    made = DatabaseReader(tmp_path, os.environ)
    yield made
    made.close()


def visits(url: str, name: str | None = "visits", **more: Any) -> Table:
    fields: dict[str, Any] = {"account": "a", "columns": COLUMNS, "time": None}
    fields |= {each: more.pop(each) for each in [*fields] if each in more}
    source = DatabaseSource(database=url, table=name, **more)
    return Table(name="visits", source=source, **fields)


def refused(reader: DatabaseReader, table: Table) -> DpReleaseError:
    with pytest.raises(DpReleaseError) as caught:
        reader.describe(table)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or isinstance(caught.value.__context__, DpReleaseError)
    assert not reader._held
    return caught.value


def pays(reader: DatabaseReader, table: Table) -> list[float]:
    return [float(each) for block in reader.blocks(table, COLUMNS) for each in block[1].to_pylist() if each is not None]


def test_each_thing_in_the_way_has_its_own_code(office: Database, reader: DatabaseReader) -> None:
    office.execute("CREATE VIEW few AS SELECT * FROM visits LIMIT 5", OWNER)
    office.execute("CREATE TABLE secured AS SELECT * FROM visits", OWNER)
    office.execute("ALTER TABLE secured ENABLE ROW LEVEL SECURITY", OWNER)
    office.execute(f"CREATE POLICY own ON secured TO {RUNNER} USING (sex = 1)", OWNER)
    office.execute("CREATE VIEW through AS SELECT * FROM secured", OWNER)
    office.execute("ALTER VIEW through SET (security_invoker = true)", OWNER)
    office.execute("CREATE TABLE parent (sex int, pay numeric)", OWNER)
    office.execute("CREATE TABLE child () INHERITS (parent)", OWNER)
    office.execute("CREATE TABLE closed (sex int, pay numeric)", OWNER)
    office.execute(f"GRANT SELECT (sex) ON closed TO {RUNNER}", OWNER)
    office.execute("CREATE TABLE odd (sex int, pay interval)", OWNER)
    office.execute(f"GRANT SELECT ON few, secured, through, parent, child, odd TO {RUNNER}", OWNER)
    url = office.runner
    assert refused(reader, visits(office.superuser)).code == "DPR-E334"
    assert refused(reader, visits(url, "few")).code == "DPR-E332"
    reader.describe(visits(url, "few", view=True))
    assert refused(reader, visits(url, "secured")).code == "DPR-E331"
    assert refused(reader, visits(url, "through", view=True)).code == "DPR-E335"
    assert refused(reader, visits(url, "parent")).code == "DPR-E338"
    assert refused(reader, visits(url, "closed")).code == "DPR-E335"
    assert refused(reader, visits(url, "odd")).code == "DPR-E221"
    missing = refused(reader, visits(url, "vissits"))
    assert (missing.code, missing.hint) == ("DPR-E330", "did you mean 'visits'?")
    assert refused(reader, visits(url, in_schema="nowhere")).code == "DPR-E330"
    other = refused(reader, visits(url, columns=(Column(name="pai", type="decimal"),)))
    assert (other.code, other.hint) == ("DPR-E301", "did you mean 'pay' for 'pai'?")
    hostile = refused(reader, visits(url, 'visits"; DROP TABLE visits; --'))
    assert hostile.code == "DPR-E330"
    assert refused(reader, visits(url.replace("ledger_runner", "stranger"))).code == "DPR-E125"
    assert refused(reader, visits(url.replace(office.name, "elsewhere"))).code == "DPR-E125"
    assert refused(reader, visits("oracle://u:opensesame@host/x")).code == "DPR-E220"


def test_a_foreign_table_is_refused_wherever_it_stands(office: Database, reader: DatabaseReader) -> None:
    office.execute("CREATE TABLE months (sex int, pay numeric) PARTITION BY LIST (sex)")
    office.execute("CREATE TABLE ours PARTITION OF months FOR VALUES IN (1)")
    office.execute(f"GRANT SELECT ON months TO {RUNNER}")
    reader.describe(visits(office.runner, "months"))
    office.execute("CREATE FOREIGN DATA WRAPPER nothing")
    office.execute("CREATE SERVER far FOREIGN DATA WRAPPER nothing")
    office.execute("CREATE FOREIGN TABLE theirs PARTITION OF months FOR VALUES IN (2) SERVER far")
    office.execute("CREATE VIEW over AS SELECT * FROM theirs")
    office.execute(f"GRANT SELECT ON theirs, over TO {RUNNER}")
    for name, view in (("theirs", False), ("months", False), ("over", True)):
        assert refused(reader, visits(office.runner, name, view=view)).code == "DPR-E333"


def test_a_database_without_an_encoding_is_refused(office: Database, reader: DatabaseReader) -> None:
    office.server.execute("CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    assert refused(reader, visits(office.runner.replace(office.name, "bytes"))).code == "DPR-E337"
    office.server.execute("DROP DATABASE bytes WITH (FORCE)")


def test_a_pooler_is_refused(office: Database, reader: DatabaseReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 1)
    assert refused(reader, visits(office.runner)).code == "DPR-E336"


@pytest.mark.parametrize(
    ("url", "environment", "mode"),
    [
        ("postgresql://db.example.org/x", {}, "verify-full"),
        ("postgresql://db.example.org/x?sslmode=require", {}, None),
        ("postgresql://10.0.0.1/x", {"PGSSLMODE": "prefer"}, None),
        ("postgresql:///x?service=office", {}, "verify-full"),
        ("postgresql:///x", {"PGHOST": "db.example.org"}, "verify-full"),
        ("postgresql://localhost/x?hostaddr=10.0.0.1", {}, "verify-full"),
        ("postgresql://localhost/x", {}, ""),
        ("postgresql:///x", {}, ""),
        ("postgresql://127.0.0.1/x?sslmode=disable", {}, "disable"),
        ("postgresql:///x?host=/run/postgresql", {}, ""),
    ],
)
def test_a_network_takes_verified_tls(url: str, environment: dict[str, str], mode: str | None) -> None:
    if mode is None:
        with pytest.raises(EngineError, match="DPR-E124"):
            postgres_session.libpq_parts(url, environment)
    else:
        assert postgres_session.libpq_parts(url, environment).get("sslmode", "") == mode


def test_rows_are_of_the_state_that_was_hashed(office: Database, reader: DatabaseReader) -> None:
    table = visits(office.runner)
    first = reader.fingerprint(table, KEY, loaded=False)
    blocks = reader.blocks(table, COLUMNS)
    rows = len(next(blocks)[0])
    office.execute("DELETE FROM visits WHERE sex = 1")
    office.execute("UPDATE visits SET pay = 0")
    rows += sum(len(block[0]) for block in blocks)
    assert rows == 200_000
    assert reader.known(table, KEY) == first
    assert not reader._held  # nothing holds back the cleaning of the database
    assert not office.execute(f"SELECT 1 FROM pg_stat_activity WHERE usename = '{RUNNER}' AND backend_xmin IS NOT NULL")
    with pytest.raises(EngineError, match="DPR-E105"):
        reader.blocks(table, COLUMNS)


def test_only_rows_of_the_period_count_and_only_columns_that_are_read(office: Database, tmp_path: Path) -> None:
    def now(**more: Any) -> tuple[str, ...]:
        reader = DatabaseReader(tmp_path, {})
        try:
            return reader.fingerprint(visits(office.runner, time=SEEN, **more), KEY, loaded=False)
        finally:
            reader.close()

    first = now()
    assert now() == first
    assert now(account="b") == first
    office.execute("UPDATE visits SET pay = pay + 1 WHERE seen < '2024-03-01 00:00Z' OR seen >= '2024-04-01 00:00Z'")
    office.execute("UPDATE visits SET note = 'x', id = 0")
    assert now() == first
    office.execute("UPDATE visits SET pay = pay + 1 WHERE seen = '2024-03-01 00:00Z'")
    assert len({*now()} & {*first}) == 1  # the same table, other rows
    office.execute("UPDATE visits SET pay = pay - 1 WHERE seen = '2024-03-01 00:00Z'")
    assert now() == first
    office.execute("INSERT INTO visits SELECT * FROM visits WHERE seen = '2024-03-01 00:00Z'")
    assert now() != first


@pytest.mark.parametrize("begun", [True, False])
def test_a_lost_connection_is_told_and_another_state_is_hashed_again(
    office: Database, reader: DatabaseReader, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprelease.engines.databases.postgres._BLOCK", 10_000)
    table = visits(office.runner)
    first = reader.fingerprint(table, KEY, loaded=False)
    blocks = reader.blocks(table, COLUMNS)
    if begun:
        next(blocks)
    office.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{RUNNER}'")
    with pytest.raises(Unavailable, match="DPR-E120") as caught:
        for _ in blocks:
            pass
    assert caught.value.__context__ is None
    assert reader.known(table, KEY) is None
    assert reader.fingerprint(table, KEY, loaded=False) == first
    assert sum(len(block[0]) for block in reader.blocks(table, COLUMNS)) == 200_000


def test_the_server_is_told_no_key_and_no_value(office: Database, reader: DatabaseReader) -> None:
    office.execute(f"ALTER ROLE {RUNNER} SET log_statement = 'all'")
    office.execute(f"ALTER ROLE {RUNNER} SET log_min_duration_statement = 0")
    office.execute(f"ALTER ROLE {RUNNER} SET log_temp_files = 0")
    kept = office.server.keeps_statements
    if kept:
        office.execute("CREATE EXTENSION pg_stat_statements")
        office.execute("SELECT pg_stat_statements_reset()")
    log = office.server.folder / "log"
    before = len(log.read_bytes())
    try:
        columns = (*COLUMNS, Column(name="note", type="text"))
        table = visits(office.runner, time=SEEN, columns=columns)
        found = reader.fingerprint(table, KEY, loaded=False)
        assert sum(block[2].to_pylist().count(MARK) if hasattr(block[2], "to_pylist") else 0 for block in reader.blocks(table, columns)) > 1000  # fmt: skip
    finally:
        office.execute(f"ALTER ROLE {RUNNER} RESET ALL")
    said = log.read_bytes()[before:]
    statements = office.execute("SELECT query FROM pg_stat_statements") if kept else []
    assert not kept or any("pg_export_snapshot" in text for (text,) in statements)
    said += repr(statements).encode()
    assert b"temporary file" not in said  # nothing of the rows went to the server's disk
    assert b"COPY" in said
    assert b"hashtextextended" in said
    for secret in (MARK.encode(), KEY, KEY.hex().encode(), hashlib.sha256(KEY).hexdigest().encode(), *map(str.encode, found)):  # fmt: skip
        assert secret not in said
    assert b"ERROR" not in said


def test_a_server_without_room_is_told(office: Database, reader: DatabaseReader) -> None:
    """A view that sorts has to write its rows to the server's disk, where there is room for next to nothing."""
    office.execute("CREATE VIEW sorted AS SELECT * FROM visits ORDER BY note, pay", OWNER)
    office.execute(f"GRANT SELECT ON sorted TO {RUNNER}", OWNER)
    for setting in ("work_mem = '64kB'", "temp_file_limit = '256kB'"):
        office.execute(f"ALTER ROLE {RUNNER} SET {setting}")
    try:
        table = visits(office.runner, "sorted", view=True)
        reader.describe(table)
        with pytest.raises(EngineError, match="DPR-E129") as caught:
            pays(reader, table)
        assert caught.value.__context__ is None
        assert MARK not in str(caught.value)
    finally:
        office.execute(f"ALTER ROLE {RUNNER} RESET ALL")


def test_a_writer_meanwhile_is_in_no_row(office: Database, reader: DatabaseReader) -> None:
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(office.owner, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("UPDATE visits SET pay = pay + 1 WHERE id % 97 = 0")

    table = visits(office.runner)
    expected = sum(n / 7 for n in range(1, 200_001))
    reader.fingerprint(table, KEY, loaded=False)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert sum(pays(reader, table)) == pytest.approx(expected, abs=0.01)
    finally:
        stop.set()
        writer.join()
