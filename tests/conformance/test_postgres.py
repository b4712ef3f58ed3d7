"""The PostgreSQL store on a real server: transactions, rights, locks, and servers and processes that die."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.canonical import fingerprint, sha256  # noqa: E402
from dprelease.errors import (  # noqa: E402
    BrokenPromiseError,
    Corrupt,
    DpReleaseError,
    LedgerError,
    Locked,
    MissingExtra,
    Retryable,
)
from dprelease.ledger import postgres_connect  # noqa: E402
from dprelease.ledger.place import utc_now  # noqa: E402
from dprelease.ledger.postgres import PostgresStore, create  # noqa: E402
from dprelease.ledger.postgres_schema import findings  # noqa: E402
from dprelease.ledger.store import Rows  # noqa: E402
from tests import postgres as servers  # noqa: E402
from tests.conformance.postgres_rows import append, end, keep, measure, reserve  # noqa: E402
from tests.postgres import OWNER, RUNNER, SUPERUSER, Database, Server  # noqa: E402

postgres_server, postgres = servers.postgres_server, servers.postgres  # fixtures

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("postgres_worker.py")


@pytest.fixture
def ledger(postgres: Database) -> Database:
    create(postgres.owner, RUNNER)
    return postgres


@pytest.fixture
def store(ledger: Database) -> Iterator[PostgresStore]:
    made = PostgresStore(ledger.runner)
    yield made
    made.disconnect()


def ask(store: PostgresStore, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with store.reading() as rows:
        assert rows is not None
        return rows.execute(sql, values)


def failed(transaction: AbstractContextManager[Rows | None], *do: Callable[[Rows], object]) -> Any:
    """The error that ends a transaction in which this is done."""
    try:
        with transaction as rows:
            assert rows is not None
            for each in do:
                each(rows)
    except Exception as error:
        return error
    pytest.fail("nothing was refused")


def refuses(url: str) -> Any:
    return failed(PostgresStore(url).reading())


def start(mode: str, url: str, *rest: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), mode, url, *rest],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def said(process: subprocess.Popen[str], timeout: float = 120) -> list[list[Any]]:
    out, _ = process.communicate(timeout=timeout)
    return [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]


def first(process: subprocess.Popen[str]) -> list[Any]:
    assert process.stdout is not None
    line: list[Any] = json.loads(process.stdout.readline())
    return line


def require_chain(store: PostgresStore) -> None:
    """Every entry follows the one before it, and nothing beside the entries stands alone."""
    with store.reading() as rows:
        assert rows is not None
        head = ""
        entries = rows.execute("SELECT sequence, previous, hash, kind, body FROM entries ORDER BY sequence")
        for place, (sequence, previous, mark, kind, body) in enumerate(entries, 1):
            assert (sequence, previous, mark) == (place, head, fingerprint([sequence, previous, kind, body]))
            head = mark
        reserved = rows.execute("SELECT sequence FROM reservations ORDER BY sequence")
        assert reserved == [(row[0],) for row in entries if row[3] == "reserve"]


# Transactions


def test_looking_where_nothing_is_makes_nothing(postgres: Database) -> None:
    store = PostgresStore(postgres.runner)
    with store.reading() as rows:
        assert rows is None
    with store.writing() as rows:
        assert rows is None
    with pytest.raises(LedgerError, match=r"ledger create --role") as refused, store.writing(make=True):
        pass
    assert refused.value.code == "DPR-L144"
    assert (store.findings(), store.holders()) == ([], ())
    assert postgres.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'dprelease'") == [(0,)]
    create(postgres.owner, RUNNER)
    with store.writing(make=True) as rows:
        assert rows is not None
    store.disconnect()


def test_values_come_back_as_they_were(store: PostgresStore) -> None:
    body = {"text": "käse \u2028 \u007f \u0001 \\ \" ' / $1 ? %s %", "n": 3}
    payload = bytes(range(256))
    with store.writing() as rows:
        assert rows is not None
        append(rows, "open", **body)
        digest = keep(rows, payload)
        assert keep(rows, payload) == digest
    with store.reading() as rows:
        assert rows is not None
        assert json.loads(rows.execute("SELECT body FROM entries WHERE sequence = ?", (1,))[0][0]) == body
        found = rows.execute("SELECT payload, '?' FROM contents WHERE digest = ?", (digest,))
        assert found == [(payload, "?")]
        assert type(found[0][0]) is bytes
    assert store.findings() == []


def test_names_are_ordered_by_their_bytes(store: PostgresStore) -> None:
    names = ["a", "B", "Z", "ä", "_", "10", "9"]
    with store.writing() as rows:
        assert rows is not None
        for name in names:
            reserve(rows, name, "2024")
    assert [row[0] for row in ask(store, "SELECT release FROM reservations ORDER BY release")] == sorted(names)


def test_an_error_rolls_back_and_the_next_writer_goes_on(store: PostgresStore) -> None:
    def opened(rows: Rows) -> None:
        append(rows, "open")

    def swallowed(rows: Rows) -> None:
        with pytest.raises(psycopg.Error):
            rows.execute("SELECT 1 / 0")  # whoever goes on after an error would be rolled back without a word

    row = (7, "", "h", "open", "{}")
    assert isinstance(failed(store.writing(), opened, lambda rows: json.loads("")), ValueError)
    refused = failed(
        store.writing(), opened, lambda rows: rows.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
    )
    assert isinstance(refused, BrokenPromiseError)
    assert refused.code == "DPR-L905"
    assert failed(store.writing(), opened, swallowed).code == "DPR-L906"
    assert failed(store.writing(), opened, lambda rows: rows.execute("ROLLBACK")).code == "DPR-L906"
    assert ask(store, "SELECT count(*) FROM entries") == [(0,)]
    with store.writing() as rows:
        assert rows is not None
        append(rows, "open")
    assert ask(store, "SELECT count(*) FROM entries") == [(1,)]


def test_a_connection_is_fresh_once(store: PostgresStore) -> None:
    seen = []
    for _ in range(2):
        with store.reading() as rows:
            assert rows is not None
            seen.append(rows.fresh)
    store.disconnect()
    with store.writing() as rows:
        assert rows is not None
        seen.append(rows.fresh)
    assert seen == [True, False, True]


def test_a_reader_has_one_snapshot_and_cannot_write(store: PostgresStore) -> None:
    with store.reading() as before:
        assert before is not None
        assert before.execute("SELECT count(*) FROM entries") == [(0,)]
        with store.writing() as rows:
            assert rows is not None
            append(rows, "open")
        assert before.execute("SELECT count(*) FROM entries") == [(0,)]
    assert ask(store, "SELECT count(*) FROM entries") == [(1,)]
    refused = failed(store.reading(), lambda rows: append(rows, "open"))
    assert refused.code == "DPR-L140"


def test_commits_are_durable_whatever_the_role_says(ledger: Database) -> None:
    ledger.execute(f"ALTER ROLE {RUNNER} IN DATABASE {ledger.name} SET synchronous_commit = off")
    ledger.execute(f"ALTER ROLE {RUNNER} IN DATABASE {ledger.name} SET search_path = public")
    store = PostgresStore(ledger.runner)
    with store.writing() as rows:
        assert rows is not None
        found = rows.execute(
            "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation'), "
            "current_setting('fsync'), current_setting('idle_in_transaction_session_timeout')"
        )
    assert found == [("on", "serializable", "on", "5min")]
    store.disconnect()


def test_a_writer_that_waits_in_vain_is_told_to_try_again(
    ledger: Database, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.writing():
        monkeypatch.setitem(postgres_connect._SETTINGS, "lock_timeout", "200ms")
        with pytest.raises(Locked) as busy, PostgresStore(ledger.runner).writing():
            pass
    assert busy.value.code == "DPR-L201"


def test_a_writer_that_stops_in_the_middle_holds_nobody_up_for_long(
    ledger: Database, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_connect._SETTINGS, "idle_in_transaction_session_timeout", "500ms")
    stopped = PostgresStore(ledger.runner)

    def wait(_: Rows) -> None:
        with store.writing() as others:
            assert others is not None
            reserve(others, "other", "2024")

    assert isinstance(failed(stopped.writing(), lambda rows: reserve(rows, "stopped", "2024"), wait), Locked)
    assert ask(store, "SELECT release FROM reservations") == [("other",)]


def test_one_after_the_other_in_threads(store: PostgresStore) -> None:
    def work() -> None:
        for _ in range(20):
            with store.writing() as rows:
                assert rows is not None
                append(rows, "open")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    require_chain(store)
    assert ask(store, "SELECT count(*) FROM entries") == [(160,)]


def test_sixteen_processes_never_get_more_than_the_cap_together(ledger: Database, store: PostgresStore) -> None:
    process = start("grant", ledger.runner, "16", "20", "200")
    seen = 0
    while process.poll() is None:  # a reader never sees half
        with store.reading() as rows:
            assert rows is not None
            counts = rows.execute(
                "SELECT (SELECT count(*) FROM reservations), (SELECT count(*) FROM contents), "
                "(SELECT count(*) FROM entries WHERE kind = 'reserve'), (SELECT count(*) FROM entries), "
                "(SELECT coalesce(max(sequence), 0) FROM entries)"
            )[0]
        reserved, kept, charged, count, last = counts
        assert reserved == kept == charged <= 200
        assert count == last
        seen += 1
    told = Counter(line[0] for line in said(process))
    assert told == {"granted": 200, "refused": 120}
    assert seen > 1
    assert ask(store, "SELECT count(*) FROM reservations") == [(200,)]
    require_chain(store)
    assert store.findings() == []


# Servers and processes that die


def test_a_server_that_crashes_forgets_nothing_that_it_called_committed(
    ledger: Database, store: PostgresStore, postgres_server: Server
) -> None:
    process = start("write", ledger.runner, "6")
    assert first(process)[0] == "written"
    for _ in range(2):
        time.sleep(0.4)
        postgres_server.restart("immediate")
    time.sleep(0.4)
    os.killpg(process.pid, signal.SIGKILL)
    told = said(process)
    lost = [line for line in told if line[0] == "lost"]
    written = [f"r{number}-{turn}" for what, number, turn in (line for line in told if line[0] == "written")]
    kept = [row[0] for row in ask(store, "SELECT release FROM reservations")]
    assert len(written) > 20
    assert {code for _, code in lost} == {"DPR-L202"}
    assert set(written) <= set(kept)
    assert len(kept) == len(set(kept))
    assert len(kept) <= len(written) + 7  # the first line, and what each of six had committed when it was killed
    require_chain(store)


def test_the_next_transaction_after_a_restart_connects_anew(
    ledger: Database, store: PostgresStore, postgres_server: Server
) -> None:
    for how in ("fast", "immediate"):
        ask(store, "SELECT 1")
        postgres_server.restart(how)
        with store.reading() as rows:
            assert rows is not None
            assert rows.fresh
    postgres_server.stop("fast")
    try:
        with pytest.raises(Locked) as away, store.reading():
            pass
    finally:
        postgres_server.start()
    assert away.value.code == "DPR-L202"
    assert ask(store, "SELECT 1") == [(1,)]


def test_a_writer_that_is_killed_leaves_nothing_and_holds_up_nobody(ledger: Database, store: PostgresStore) -> None:
    process = start("stall", ledger.runner)
    assert first(process) == ["inside"]
    process.kill()
    process.communicate()
    begun = time.monotonic()
    with store.writing() as rows:
        assert rows is not None
        assert rows.execute("SELECT count(*) FROM entries") == [(0,)]
        append(rows, "open")
    assert time.monotonic() - begun < 10


def test_a_connection_that_breaks_in_the_middle_writes_nothing(ledger: Database, store: PostgresStore) -> None:
    def cut(rows: Rows) -> None:
        backend = rows.execute("SELECT pg_backend_pid()")[0][0]
        ledger.execute(f"SELECT pg_terminate_backend({backend}, 5000)")

    lost = failed(store.writing(), lambda rows: reserve(rows, "lost", "2024"), cut)
    assert lost.code == "DPR-L202"
    assert isinstance(lost, Retryable)
    assert ask(store, "SELECT count(*) FROM entries") == [(0,)]


def test_a_forked_child_connects_anew(ledger: Database) -> None:
    (parent, one, first_backend), (child, two, second_backend), (again, three, third_backend) = said(
        start("fork", ledger.runner)
    )
    assert (one, two, three) == (True, True, False)
    assert parent == again != child
    assert first_backend == third_backend != second_backend


# Rights

CHANGES = (
    "UPDATE entries SET body = ''",
    "UPDATE entries SET body = '' WHERE false",
    "DELETE FROM entries",
    "DELETE FROM secrets",
    "UPDATE secrets SET secret = secret",
    "DELETE FROM measurements",
    "DELETE FROM contents WHERE false",
    "UPDATE endings SET kind = 'void'",
    "TRUNCATE entries CASCADE",
    "TRUNCATE secrets",
)
POWERS = (
    "INSERT INTO contents VALUES ('a', '') ON CONFLICT (digest) DO UPDATE SET payload = EXCLUDED.payload",
    "DROP TABLE entries CASCADE",
    "DROP SCHEMA dprelease CASCADE",
    "ALTER TABLE entries DISABLE TRIGGER ALL",
    "ALTER TABLE entries RENAME TO other",
    "ALTER TABLE entries ADD COLUMN more text",
    "DROP TRIGGER entries_rule ON entries",
    "CREATE TRIGGER mine BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION kept()",
    "CREATE RULE mine AS ON INSERT TO entries DO INSTEAD NOTHING",
    "CREATE OR REPLACE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "ALTER FUNCTION forget(bigint) SECURITY INVOKER",
    "CREATE TABLE dprelease.mine ()",
    "SET session_replication_role = replica",
    f"SET ROLE {OWNER}",
    f"ALTER TABLE entries OWNER TO {RUNNER}",
    "INSERT INTO meta VALUES (4, 'mine', 'x')",
    "BEGIN; LOCK TABLE entries IN EXCLUSIVE MODE",
    "COPY entries TO PROGRAM 'cat'",
)


@pytest.fixture
def full(store: PostgresStore) -> PostgresStore:
    """A ledger with a row in every table."""
    with store.writing() as rows:
        assert rows is not None
        at = reserve(rows, "open", "2024")
        rows.execute("INSERT INTO secrets VALUES (?, ?)", (at, b"s" * 32))
        measure(rows, "open", "2024", "one")
        rows.execute("INSERT INTO sources VALUES (?, ?)", (append(rows, "source"), at))
        end(rows, reserve(rows, "given back", "2024"), "void")
    return store


def as_role(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = dprelease")
        for statement in statements:
            connection.execute(statement)


def test_the_role_that_runs_releases_may_only_add(ledger: Database, full: PostgresStore) -> None:
    def everything() -> list[list[tuple[Any, ...]]]:
        tables = ("entries", "reservations", "endings", "measurements", "contents", "secrets", "sources", "meta")
        return [ask(full, f"SELECT * FROM {table} ORDER BY 1") for table in tables]

    before = everything()
    assert all(before)
    for statement in (*CHANGES, *POWERS):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_role(ledger.runner, statement)
    as_role(ledger.runner, "GRANT UPDATE ON entries TO PUBLIC")  # a warning, and nothing is granted
    assert everything() == before
    assert full.findings() == []


def test_a_mighty_role_is_refused_by_the_rules(ledger: Database, full: PostgresStore) -> None:
    for url, *first in ((ledger.owner,), (ledger.superuser, "SET session_replication_role = replica")):
        for statement in CHANGES:
            with pytest.raises(psycopg.errors.RaiseException):
                as_role(url, *first, statement)


def test_a_key_dies_with_its_release_and_not_before(ledger: Database, full: PostgresStore) -> None:
    as_role(ledger.runner, "SELECT forget(1)")
    assert ask(full, "SELECT secret FROM secrets") == [(b"s" * 32,)]
    with full.writing() as rows:
        assert rows is not None
        end(rows, 1, "close")
    assert ask(full, "SELECT count(*) FROM secrets") == [(0,)]
    late = failed(full.writing(), lambda rows: rows.execute("INSERT INTO secrets VALUES (?, ?)", (1, b"s" * 32)))
    assert isinstance(late, BrokenPromiseError)


def test_the_server_keeps_the_rules_of_a_ledger(full: PostgresStore) -> None:
    def refused(*does: tuple[str, tuple[object, ...]], entry: str = "") -> str:
        def do(rows: Rows) -> None:
            if entry:
                append(rows, entry)
            for sql, values in does:
                rows.execute(sql, values)

        broken = failed(full.writing(), do)
        assert isinstance(broken, BrokenPromiseError)
        return broken.summary

    last, head = ask(full, "SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1")[0]

    def row(sequence: int, previous: str, mark: str = "") -> tuple[str, tuple[object, ...]]:
        mark = mark or fingerprint([sequence, previous, "open", "{}"])
        return "INSERT INTO entries VALUES (?, ?, ?, 'open', '{}')", (sequence, previous, mark)

    for wrong in (row(last, head), row(last + 2, head), row(last + 1, ""), row(last + 1, head, "0" * 64), row(0, "")):
        assert "is not the next entry" in refused(wrong)
    assert "entries_kind_check" in refused(
        (
            "INSERT INTO entries VALUES (?, ?, ?, 'other', '{}')",
            (last + 1, head, fingerprint([last + 1, head, "other", "{}"])),
        )
    )

    reserved = "INSERT INTO reservations VALUES (?, 'open', '2024', ?, ?, 'i')"
    assert "is already reserved" in refused((reserved, (last + 1, "p", None)), entry="reserve")
    assert "is already reserved" in refused((reserved, (last + 1, "q", 1)), entry="reserve")
    measured = "INSERT INTO measurements VALUES (?, '2024', ?, ?, ?, ?, ?)"
    digest = sha256(b"x")
    for values in (
        ("open", "p", "one", last + 1, digest, "i"),
        ("open", "q", "two", last + 1, digest, "i"),
        ("given back", "p", "one", last + 1, digest, "i"),
        ("open", "p", "two", last + 1, digest, fingerprint(["open", "2024", "p", "one"])),
    ):
        assert "is measured, or is not reserved" in refused((measured, values), entry="measure")
    assert "measurements_digest_fkey" in refused(
        (measured, ("open", "p", "two", last + 1, "0" * 64, "i")), entry="measure"
    )
    ended = "INSERT INTO endings VALUES (?, ?, ?)"
    assert "has ended, or was measured" in refused((ended, (1, last + 1, "void")), entry="void")
    given_back = ask(full, "SELECT reservation FROM endings")[0][0]
    assert "has ended, or was measured" in refused((ended, (given_back, last + 1, "close")), entry="close")
    assert "is not what its digest says" in refused(("INSERT INTO contents VALUES (?, ?)", (sha256(b"a"), b"b")))
    assert "is not of an open reservation" in refused(
        ("INSERT INTO sources VALUES (?, ?)", (last + 1, given_back)), entry="source"
    )
    assert ask(full, "SELECT max(sequence) FROM entries") == [(last,)]


def test_a_closed_release_is_replaced_and_a_voided_one_reserved_again(full: PostgresStore) -> None:
    with full.writing() as rows:
        assert rows is not None
        end(rows, 1, "give_up")
        second = reserve(rows, "open", "2024", "q", restates=1)
        reserve(rows, "given back", "2024")
        measure(rows, "open", "2024", "one", plan="q")
        end(rows, second, "close")
    for plan, restates in (("p", second), ("r", 1), ("r", None)):
        refused = failed(full.writing(), partial(reserve, release="open", period="2024", plan=plan, restates=restates))
        assert "is already reserved" in refused.summary


def test_what_is_not_serializable_is_refused(ledger: Database, store: PostgresStore) -> None:
    mark = fingerprint([1, "", "open", "{}"])
    for level in ("READ COMMITTED", "REPEATABLE READ"):
        with pytest.raises(psycopg.errors.RaiseException, match="serializable"):
            as_role(
                ledger.runner,
                f"BEGIN ISOLATION LEVEL {level}",
                f"INSERT INTO entries VALUES (1, '', '{mark}', 'open', '{{}}')",
            )


TAMPERED = (
    ("ALTER TABLE entries DISABLE TRIGGER entries_rule", "trigger `entries.entries_rule`"),
    ("ALTER TABLE entries ENABLE TRIGGER entries_kept", "trigger `entries.entries_kept`"),
    ("DROP TRIGGER endings_rule ON endings", "trigger `endings.endings_rule` of the ledger is missing"),
    ("CREATE OR REPLACE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'", "`kept`"),
    ("ALTER FUNCTION forget(bigint) RESET search_path", "function `forget.bigint`"),
    ("DROP INDEX entries_by_kind", "index `entries.entries_by_kind` of the ledger is missing"),
    ("ALTER TABLE entries DROP CONSTRAINT entries_hash_key", "constraint `entries.entries_hash_key`"),
    ("ALTER TABLE secrets SET UNLOGGED", "table `secrets`"),
    ("ALTER TABLE entries ENABLE ROW LEVEL SECURITY", "table `entries`"),
    ("CREATE RULE mine AS ON INSERT TO secrets DO INSTEAD NOTHING", "table `secrets`"),
    ("ALTER TABLE entries ALTER body DROP NOT NULL", "column `entries.body`"),
    ('ALTER TABLE entries ALTER body TYPE text COLLATE "POSIX"', "column `entries.body`"),
    ("CREATE VIEW mine AS SELECT 1", "table `mine` does not belong to a ledger"),
    (f"GRANT UPDATE ON entries TO {RUNNER}", f"{RUNNER} may UPDATE `entries`"),
    ("GRANT DELETE ON contents TO PUBLIC", "everybody may DELETE `contents`"),
    (f"GRANT INSERT ON meta TO {RUNNER}", f"{RUNNER} may INSERT `meta`"),
)


def test_a_changed_rule_is_found(ledger: Database) -> None:
    with psycopg.connect(ledger.superuser) as connection:
        for change, found in TAMPERED:
            connection.execute("SET search_path = dprelease")
            connection.execute(change)
            told = findings(lambda sql: connection.execute(sql).fetchall())
            assert len(told) == 1, change
            assert found in told[0]
            connection.rollback()
        connection.execute("SET search_path = dprelease")
        assert findings(lambda sql: connection.execute(sql).fetchall()) == []


def test_making_it_again_changes_nothing_and_lets_another_role_in(ledger: Database, full: PostgresStore) -> None:
    before = ask(full, "SELECT ledger FROM meta")
    create(ledger.owner, RUNNER)
    create(ledger.owner)
    assert ask(full, "SELECT ledger FROM meta") == before
    for role, why in (("nobody_here", "no role"), (OWNER, "could change"), (SUPERUSER, "could change")):
        with pytest.raises(LedgerError, match=why):
            create(ledger.owner, role)
    with pytest.raises(LedgerError, match="may not make or share"):
        create(ledger.runner, RUNNER)


def test_who_may_not_make_one_is_told(postgres: Database) -> None:
    with pytest.raises(LedgerError, match="GRANT CREATE ON DATABASE"):
        create(postgres.runner)
    assert postgres.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'dprelease'") == [(0,)]


def test_two_that_make_it_at_once_make_one(postgres: Database) -> None:
    threads = [threading.Thread(target=create, args=(postgres.owner, RUNNER)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = PostgresStore(postgres.runner)
    assert ask(store, "SELECT count(*) FROM meta") == [(1,)]
    assert store.findings() == []
    store.disconnect()


# Places that will not do


def test_what_is_no_ledger_or_not_of_this_version_is_refused(postgres: Database) -> None:
    postgres.execute("CREATE SCHEMA dprelease CREATE TABLE entries (a int)")
    postgres.execute(f"GRANT USAGE ON SCHEMA dprelease TO {RUNNER}")
    refused = refuses(postgres.runner)
    assert isinstance(refused, Corrupt)
    assert refused.code == "DPR-L301"
    postgres.execute("DROP SCHEMA dprelease CASCADE")
    create(postgres.owner)
    assert "has no right to that" in refuses(postgres.runner).summary
    assert "ledger create --role" in refuses(postgres.runner).hint
    create(postgres.owner, RUNNER)
    postgres.execute("INSERT INTO dprelease.meta VALUES (4, 'dprelease ledger', 'x')")
    refused = refuses(postgres.runner)
    assert refused.code == "DPR-L141"
    assert "a newer dprelease" in refused.summary


def test_a_ledger_that_disappears_or_is_replaced_is_missed(ledger: Database, store: PostgresStore) -> None:
    ask(store, "SELECT 1")
    ledger.execute("DROP SCHEMA dprelease CASCADE")
    with pytest.raises(Corrupt) as gone:
        ask(store, "SELECT count(*) FROM entries")
    assert gone.value.code == "DPR-L305"
    with pytest.raises(Corrupt, match="has disappeared"), store.writing():
        pass
    create(ledger.owner, RUNNER)
    with pytest.raises(Corrupt, match="another ledger"), store.writing():
        pass


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_commits_is_refused(ledger: Database, setting: str) -> None:
    def switch(value: str) -> None:
        ledger.execute(f"ALTER SYSTEM SET {setting} = {value}")
        ledger.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + 10
        while ledger.execute(f"SHOW {setting}") != [(value,)] and time.monotonic() < deadline:
            time.sleep(0.02)

    switch("off")
    try:
        assert f"`{setting}` is off" in refuses(ledger.runner).summary
    finally:
        switch("on")


def test_a_standby_is_refused(ledger: Database, postgres_server: Server) -> None:
    signal_file = postgres_server.folder / "data" / "standby.signal"
    postgres_server.stop("fast")
    signal_file.touch(0o600)
    os.chown(signal_file, *(getattr(signal_file.parent.stat(), name) for name in ("st_uid", "st_gid")))
    postgres_server.start()
    try:
        assert "it is a standby" in refuses(ledger.runner).summary
    finally:
        postgres_server.run("pg_ctl", "-D", "data", "-w", "promote")


def test_an_old_server_is_refused(ledger: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connect, "_OLDEST", 10**6)
    assert "is the oldest that will do" in refuses(ledger.runner).summary


def test_no_password_is_ever_shown(postgres: Database) -> None:
    urls = {
        "postgresql://me:hunter2@/db?host=/nowhere": "DPR-L202",
        "postgresql://me:hunter2@localhost:1/db": "DPR-L202",
        "postgresql://me:hun%zzhunter2@h/db": "DPR-L143",
        "postgresql://me:hunter2@one,two/db": "DPR-L143",
        "host=h password=hunter2": "DPR-L143",
        postgres.runner.replace(f"{RUNNER}@/", "nobody_here:hunter2@/"): "DPR-L140",
    }
    for url, code in urls.items():
        with pytest.raises(DpReleaseError) as refused, PostgresStore(url).reading():
            pass
        error: BaseException | None = refused.value
        assert refused.value.code == code
        while error is not None and not getattr(error, "__suppress_context__", False):
            assert "hunter2" not in str(error) + repr(error) + str(error.args)
            error = error.__cause__ or error.__context__
    assert "hunter2" not in repr(PostgresStore("postgresql://me:hunter2@h/db").__dict__)


def test_without_psycopg_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "dprelease.ledger.postgres_connect")
    with pytest.raises(MissingExtra, match=r"dprelease\[postgres\]"):
        importlib.import_module("dprelease.ledger.postgres_connect")


def test_the_place_names_server_database_and_cluster(ledger: Database, store: PostgresStore) -> None:
    cluster = ledger.execute("SELECT system_identifier FROM pg_control_system()")[0][0]
    assert store.place == f"postgresql:{ledger.server.folder}:5432/{ledger.name}#{cluster}"
    assert PostgresStore(ledger.owner).place == store.place
    ledger.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    hidden = PostgresStore(ledger.runner)
    assert hidden.place.endswith("#" + ask(store, "SELECT ledger FROM meta")[0][0])
    hidden.disconnect()
    assert store.folder is None


# Locks


def test_a_lock_is_held_once_and_says_by_whom(ledger: Database, store: PostgresStore) -> None:
    name = "a */ /* 'b' $$ \u00e9"
    lock = store.lock(name, "2024", "measuring", utc_now)
    with lock:
        with pytest.raises(Locked, match=rf"process {os.getpid()} on .* since .*, doing: measuring") as held:
            store.lock(name, "2024", "planning", utc_now).acquire()
        assert held.value.code == "DPR-L200"
        with store.lock(name, "2025", "planning", utc_now):
            pass
        (who,) = store.holders()
        assert (who.release, who.period, who.process, who.doing, who.alive) == (
            name,
            "2024",
            os.getpid(),
            "measuring",
            True,
        )
    lock.release()
    with store.lock(name, "2024", "planning", utc_now):
        pass
    deadline = time.monotonic() + 5
    while store.holders() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.holders() == ()


def test_a_dead_holder_holds_nothing_though_its_child_lives(ledger: Database, store: PostgresStore) -> None:
    process = start("hold", ledger.runner, "survey", "2024")
    _, holder, child = first(process)
    try:
        with pytest.raises(Locked, match=f"process {holder} on"):
            store.lock("survey", "2024", "planning", utc_now).acquire()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 5
        while True:
            try:
                with store.lock("survey", "2024", "planning", utc_now):
                    break
            except Locked:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        os.kill(child, 0)  # it lives
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_lock_is_broken_by_whom_the_server_lets(ledger: Database, store: PostgresStore) -> None:
    process = start("hold", ledger.runner, "survey", "2024")
    try:
        _, holder, _ = first(process)
        create(ledger.owner)
        other = PostgresStore(ledger.owner)
        (seen,) = other.holders()
        assert (seen.release, seen.process, seen.doing) == ("", holder, "measuring")
        with pytest.raises(LedgerError, match="could not be ended"):
            other.break_lock(seen)
        other.disconnect()
        (who,) = store.holders()
        assert (who.release, who.process) == ("survey", holder)
        store.break_lock(who)
        assert store.holders() == ()
        store.break_lock(who)
        with store.lock("survey", "2024", "planning", utc_now):
            pass
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
