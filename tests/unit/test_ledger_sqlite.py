"""What the SQLite store adds to the promises of a ledger: its file, its own rules, and how it opens."""

from __future__ import annotations

import gc
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, Corrupt, DpReleaseError, LedgerError, Locked
from dprelease.ledger import LEDGERS, open_ledger
from dprelease.ledger.stores import sqlite, sqlite_schema
from dprelease.ledger.stores.sqlite import sqlite_error
from dprelease.ledger.stores.sqlite_schema import VERSION
from dprelease.ledger.tables.view import require_head
from tests.ledgers import SQLiteLedger, answer, charges, key, plan, standing_of
from tests.ledgers import fill as whole


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[SQLiteLedger]:
    made = SQLiteLedger(path, (), lambda: datetime(2024, 3, 7, 5, 6, 7, tzinfo=UTC))
    yield made
    made.disconnect()


def fill(ledger: SQLiteLedger, period: str = "2024", cost: str = "1/10") -> None:
    """One release with two steps, from its reservation (entry 3, or later) to its end."""
    whole(ledger, plan(period=period, steps={"a": "people", "b": "people"}, cost=cost))


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def test_urls_are_relative_to_the_project_or_absolute_with_four_slashes(tmp_path: Path) -> None:
    relative = open_ledger("sqlite:///state/ledger.db", tmp_path / "project")
    absolute = open_ledger(f"sqlite:///{tmp_path}/elsewhere.db", tmp_path / "project")
    assert relative.folder == tmp_path / "project" / "state"
    assert absolute.folder == tmp_path
    assert set(LEDGERS) == {"sqlite", "postgresql"}


@pytest.mark.parametrize(
    "url", ["mysql:///ledger", "mysql://u:secret@host/db", "ledger.db", "sqlite://x", "sqlite:///", "sqlite", ""]
)
def test_a_url_of_no_store_says_what_there_is_and_shows_no_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="DPR-L143") as error:
        open_ledger(url, tmp_path)
    assert "sqlite:///state/ledger.db" in str(error.value)
    assert "secret" not in str(error.value)


def test_files_and_folder_are_for_the_owner_alone(ledger: SQLiteLedger, path: Path) -> None:
    made = plan()
    ledger.reserve(made, charges(made))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    names = {each.name for each in path.parent.iterdir()}
    assert names == {"ledger.db", "ledger.db-wal", "ledger.db-shm"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}


def test_the_file_says_what_it_is_and_commits_reach_the_disk(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    with ledger._store._connections.use() as connected:  # type: ignore[attr-defined]  # it is a SQLiteStore
        assert connected is not None
        connection, _ = connected
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in (
                "application_id",
                "user_version",
                "journal_mode",
                "synchronous",
                "foreign_keys",
                "busy_timeout",
            )
        }
    assert found == {
        "application_id": int.from_bytes(b"DPRL", "big"),
        "user_version": VERSION,
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 60_000,
    }
    assert path.with_name("ledger.db-wal").stat().st_size == 0, "the log is folded in when a release is closed"


def test_times_are_in_the_entries_in_utc(ledger: SQLiteLedger) -> None:
    fill(ledger)
    assert {entry.body["at"] for entry in ledger.entries()} == {"2024-03-07T05:06:07Z"}
    assert ledger.reservations()[0].reserved_at == "2024-03-07T05:06:07Z"


TABLES = {
    **dict.fromkeys(("entries", "reservations", "endings", "measurements", "sources"), "sequence = sequence + 100"),
    "contents": "payload = x'00'",
}


@pytest.mark.parametrize("table", TABLES)
def test_the_database_itself_refuses_every_change(ledger: SQLiteLedger, path: Path, table: str) -> None:
    fill(ledger)
    with raw(path) as connection:
        for change in (
            f"UPDATE {table} SET {TABLES[table]}",
            f"DELETE FROM {table}",
            f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} LIMIT 1",
        )[: 2 if table == "contents" else 3]:  # the same bytes under the same digest are nothing new
            with pytest.raises(sqlite3.IntegrityError, match=f"{table}: "):
                connection.execute(change)
    assert ledger.check() == ()


def test_the_database_itself_refuses_other_bytes_under_a_digest(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    with raw(path) as connection, pytest.raises(sqlite3.IntegrityError, match="contents: "):
        connection.execute("INSERT OR REPLACE INTO contents SELECT digest, x'00' FROM contents LIMIT 1")
    assert ledger.check() == ()


def test_the_database_itself_gives_back_nothing_that_was_read(ledger: SQLiteLedger, path: Path) -> None:
    """Not even for a program with a bug: a reservation with a source is not voided."""
    made = plan()
    kept = ledger.reserve(made, charges(made))
    ledger.source("survey", "2024", kept.plan_fingerprint, {"people": ("hash",)}, "key")
    with raw(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        with pytest.raises(sqlite3.IntegrityError, match="has ended, or was measured"):
            connection.execute("INSERT INTO endings VALUES (?, 99, 'void')", (kept.sequence,))


def test_the_database_itself_refuses_a_second_reservation_and_a_measurement_without_one(
    ledger: SQLiteLedger, path: Path
) -> None:
    made = plan()
    kept = ledger.reserve(made, charges(made))
    with raw(path) as connection:
        entry = connection.execute("SELECT hash FROM entries ORDER BY sequence DESC").fetchone()[0]
        connection.execute("INSERT INTO entries VALUES (4, ?, 'h', 'reserve', '{}')", (entry,))
        for restates in (None, kept.sequence):
            again = (4, "survey", "2024", "another plan", restates, "i")
            with pytest.raises(sqlite3.IntegrityError, match="already reserved"):
                connection.execute("INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?)", again)
        for plan_of in ("another plan", kept.plan_fingerprint):
            row = ("survey", "2025", plan_of, "one", 4, "d", "i")
            with pytest.raises(sqlite3.IntegrityError, match="not reserved"):
                connection.execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def test_an_entry_that_is_written_while_a_connection_opens_is_no_broken_chain(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    with raw(path) as connection:
        periods = iter(("2025", "2026"))

        def meanwhile(statement: str) -> None:
            if "count(*)" in statement:
                fill(ledger, next(periods))

        connection.set_trace_callback(meanwhile)
        connection.execute("BEGIN")
        require_head(sqlite._Rows(connection, fresh=True))
        connection.execute("ROLLBACK")
    assert [each.period for each in ledger.reservations()] == ["2024", "2025"]


@pytest.mark.parametrize("content", [b"", b"not a database, though it is long enough to be read as one" * 20])
def test_a_file_that_is_no_ledger_is_refused(ledger: SQLiteLedger, path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    made = plan()
    with pytest.raises(Corrupt, match="is not a ledger"):
        ledger.reserve(made, charges(made))
    assert path.read_bytes() == content
    assert len(ledger.check()) == 1


def test_a_database_of_something_else_is_refused(ledger: SQLiteLedger, path: Path) -> None:
    path.parent.mkdir()
    with raw(path) as connection:
        connection.execute("CREATE TABLE t(x)")
    with pytest.raises(Corrupt, match="DPR-L301"):
        standing_of(ledger, ["people"])


def test_a_newer_schema_is_refused(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    ledger.disconnect()
    with raw(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    made = plan(period="2025")
    for use in (lambda: standing_of(ledger, ["people"]), lambda: ledger.reserve(made, charges(made))):
        with pytest.raises(LedgerError, match=r"DPR-L141 .* from a newer dprelease"):
            use()
    (finding,) = ledger.check()
    assert "from a newer dprelease" in finding
    with raw(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)


def test_an_open_release_has_one_key_that_goes_when_it_ends(ledger: SQLiteLedger, path: Path) -> None:
    """Two processes that resume a release leave the same rows out; afterwards nobody can tell which."""
    made = plan(steps={"a": "people"})
    kept = ledger.reserve(made, charges(made))
    identity = (kept.release, kept.period, kept.plan_fingerprint)
    secret = ledger.secret(*identity)
    assert len(secret) == 32
    assert SQLiteLedger(path).secret(*identity) == secret
    ledger.commit(key(kept, "a"), answer("a"))
    ledger.close(*identity, "manifest")
    with raw(path) as connection:
        assert connection.execute("SELECT count(*) FROM secrets").fetchone() == (0,)
    with pytest.raises(BrokenPromiseError, match="DPR-L901"):
        ledger.secret(*identity)
    other = plan(period="2025", steps={"a": "people"})
    again = ledger.reserve(other, charges(other))
    assert ledger.secret(again.release, again.period, again.plan_fingerprint) != secret
    assert ledger.check() == ()


FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_older_schema_is_brought_up_to_date_and_goes_on(path: Path, version: int) -> None:
    """What its answers and its spend are then is in `tests/crash/test_old_ledgers.py`."""
    path.parent.mkdir()
    with raw(path) as connection:
        connection.executescript((FIXTURES / f"ledger_v{version}.sql").read_text(encoding="utf-8"))
    ledger = SQLiteLedger(path, [path.parent / "head"])
    assert ledger.check() == ()
    last = list(ledger.entries())[-1].body
    assert (last["why"], last["place"]) == (f"the tables came from schema {version}", f"sqlite:{path}")
    kept = ledger.find("survey", "2025")
    assert kept is not None
    for step in "ac":
        ledger.commit(key(kept, step), answer(step))
    ledger.close("survey", "2025", kept.plan_fingerprint, "manifest")
    fill(ledger, period="2026")
    assert ledger.check() == ()
    ledger.disconnect()
    with raw(path) as connection, raw(path.parent / "fresh.db") as fresh:
        sqlite_schema.create_tables(fresh)
        assert sqlite_schema.objects(connection) == sqlite_schema.objects(fresh)
    path.unlink()
    again = SQLiteLedger(path, [path.parent / "head"])
    again.recover("deleted")
    lost = {(each.period, each.state) for each in again.reservations()}
    assert lost == {("2021", "lost"), ("2022", "lost"), ("2025", "lost"), ("2026", "lost")}
    assert again.check() == ()


def test_a_ledger_that_disappears_or_is_replaced_is_noticed(ledger: SQLiteLedger, path: Path, tmp_path: Path) -> None:
    fill(ledger)
    with raw(path) as source, raw(tmp_path / "copy.db") as target:
        source.backup(target)
    fill(ledger, period="2025")
    ledger.disconnect()
    os.replace(tmp_path / "copy.db", path)
    assert [each.period for each in ledger.reservations()] == ["2024"]  # no anchor tells that it was rolled back
    path.unlink()
    with pytest.raises(Corrupt, match="has disappeared"):
        standing_of(ledger, ["people"])
    made = plan()
    with pytest.raises(Corrupt, match="has disappeared"):
        ledger.reserve(made, charges(made))


def test_places_that_cannot_hold_a_ledger_say_why(
    ledger: SQLiteLedger, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan()
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file" / "ledger.db", tmp_path):
        with pytest.raises(LedgerError, match="DPR-L140"):
            SQLiteLedger(bad).reserve(made, charges(made))
    ledger.reserve(made, charges(made))
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    with pytest.raises(LedgerError, match=r"belongs to user \d+, and this process is user 4000000"):
        standing_of(ledger, ["people"])


def test_a_read_only_disk_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    made = plan()
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(LedgerError, match="Read-only file system"):
        SQLiteLedger(path).reserve(made, charges(made))
    assert list(path.parent.iterdir()) == [], "nothing half-made is left behind"


@pytest.mark.parametrize(
    ("code", "kind", "named"),
    [
        (sqlite3.SQLITE_BUSY, Locked, "DPR-L201"),
        (sqlite3.SQLITE_READONLY, LedgerError, "DPR-L140"),
        (sqlite3.SQLITE_CANTOPEN, LedgerError, "DPR-L140"),
        (sqlite3.SQLITE_FULL, LedgerError, "full or failing"),
        (sqlite3.SQLITE_IOERR_FSYNC, LedgerError, "full or failing"),
        (sqlite3.SQLITE_NOTADB, Corrupt, "DPR-L300"),
        (sqlite3.SQLITE_CORRUPT_INDEX, Corrupt, "DPR-L300"),
        (sqlite3.SQLITE_CONSTRAINT_TRIGGER, BrokenPromiseError, "DPR-L905"),
        (sqlite3.SQLITE_MISUSE, LedgerError, "DPR-L142"),
    ],
)
def test_every_error_of_sqlite_becomes_one_of_ours(code: int, kind: type[DpReleaseError], named: str) -> None:
    error = sqlite3.OperationalError("words")
    error.sqlite_errorcode = code
    found = sqlite_error(error, Path("ledger.db"))
    assert type(found) is kind
    assert named in str(found)


def test_a_busy_ledger_is_waited_for_and_then_reported(
    ledger: SQLiteLedger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger)
    ledger.disconnect()
    monkeypatch.setattr("dprelease.ledger.stores.sqlite._BUSY_SECONDS", 0.05)
    with raw(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        made = plan(period="2025")
        with pytest.raises(Locked, match="DPR-L201"):
            ledger.reserve(made, charges(made))
        connection.execute("ROLLBACK")
    ledger.reserve(made, charges(made))


def test_a_forked_child_makes_its_own_connections(ledger: SQLiteLedger) -> None:
    fill(ledger)
    child = os.fork()
    if child == 0:
        try:
            made = plan(period="2025")
            ledger.reserve(made, charges(made))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    fill(ledger, period="2026")
    assert [each.period for each in ledger.reservations()] == ["2024", "2025", "2026"]
    assert ledger.check() == ()


@pytest.mark.slow
def test_no_connection_is_left_open_by_a_ledger_that_is_dropped(path: Path) -> None:
    ledger = SQLiteLedger(path)
    fill(ledger)
    idle = ledger._store._connections._idle  # type: ignore[attr-defined]  # it is a SQLiteStore
    assert len(idle) == 1
    del ledger
    gc.collect()  # the store and its connections know each other
    assert idle == []
    assert [each.name for each in path.parent.iterdir()] == ["ledger.db"]
