"""The PostgreSQL store on a real server: what a role may do, and what the server refuses by itself."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.canonical import fingerprint, sha256
from dprelease.errors import (
    BrokenPromiseError,
    LedgerError,
)
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.stores.postgres import PostgresStore, create_postgres_ledger
from dprelease.ledger.stores.postgres_schema import findings
from tests.conformance import postgres_support as support
from tests.conformance.postgres_rows import append, end, measure, reserve
from tests.conformance.postgres_support import as_role, ask, failed, psycopg
from tests.postgres import OWNER, RUNNER, SUPERUSER, Database

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

full, ledger, postgres, postgres_server, store = (
    support.full,
    support.ledger,
    support.postgres,
    support.postgres_server,
    support.store,
)  # fixtures


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
    for url, *earlier in ((ledger.owner,), (ledger.superuser, "SET session_replication_role = replica")):
        for statement in CHANGES:
            with pytest.raises(psycopg.errors.RaiseException):
                as_role(url, *earlier, statement)


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
        def do(rows: Transaction) -> None:
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
    create_postgres_ledger(ledger.owner, RUNNER)
    create_postgres_ledger(ledger.owner)
    assert ask(full, "SELECT ledger FROM meta") == before
    for role, why in (("nobody_here", "no role"), (OWNER, "could change"), (SUPERUSER, "could change")):
        with pytest.raises(LedgerError, match=why):
            create_postgres_ledger(ledger.owner, role)
    with pytest.raises(LedgerError, match="may not make or share"):
        create_postgres_ledger(ledger.runner, RUNNER)


def test_who_may_not_make_one_is_told(postgres: Database) -> None:
    with pytest.raises(LedgerError, match="GRANT CREATE ON DATABASE"):
        create_postgres_ledger(postgres.runner)
    assert postgres.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'dprelease'") == [(0,)]


def test_two_that_make_it_at_once_make_one(postgres: Database) -> None:
    threads = [threading.Thread(target=create_postgres_ledger, args=(postgres.owner, RUNNER)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = PostgresStore(postgres.runner)
    assert ask(store, "SELECT count(*) FROM meta") == [(1,)]
    assert store.findings() == []
    store.disconnect()
