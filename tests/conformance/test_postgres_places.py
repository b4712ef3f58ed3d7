"""The PostgreSQL store on a real server: places that will not do, and locks."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.errors import (
    Corrupt,
    DpReleaseError,
    LedgerError,
    Locked,
    MissingExtra,
)
from dprelease.ledger.model.process import utc_now
from dprelease.ledger.stores import postgres_connect
from dprelease.ledger.stores.postgres import PostgresStore, create_postgres_ledger
from tests.conformance import postgres_support as support
from tests.conformance.postgres_support import ask, first, refuses, start
from tests.postgres import RUNNER, Database, Server

ledger, postgres, postgres_server, store = (
    support.ledger,
    support.postgres,
    support.postgres_server,
    support.store,
)  # fixtures


def test_what_is_no_ledger_or_not_of_this_version_is_refused(postgres: Database) -> None:
    postgres.execute("CREATE SCHEMA dprelease CREATE TABLE entries (a int)")
    postgres.execute(f"GRANT USAGE ON SCHEMA dprelease TO {RUNNER}")
    refused = refuses(postgres.runner)
    assert isinstance(refused, Corrupt)
    assert refused.code == "DPR-L301"
    postgres.execute("DROP SCHEMA dprelease CASCADE")
    create_postgres_ledger(postgres.owner)
    assert "has no right to that" in refuses(postgres.runner).summary
    assert "ledger create --role" in refuses(postgres.runner).hint
    create_postgres_ledger(postgres.owner, RUNNER)
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
    create_postgres_ledger(ledger.owner, RUNNER)
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
    monkeypatch.delitem(sys.modules, "dprelease.ledger.stores.postgres_connect")
    with pytest.raises(MissingExtra, match=r"dprelease\[postgres\]"):
        importlib.import_module("dprelease.ledger.stores.postgres_connect")


def test_the_place_names_server_database_and_cluster(ledger: Database, store: PostgresStore) -> None:
    cluster = ledger.execute("SELECT system_identifier FROM pg_control_system()")[0][0]
    assert store.place == f"postgresql:{ledger.server.folder}:5432/{ledger.name}#{cluster}"
    assert PostgresStore(ledger.owner).place == store.place
    ledger.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    hidden = PostgresStore(ledger.runner)
    assert hidden.place.endswith("#" + ask(store, "SELECT ledger FROM meta")[0][0])
    hidden.disconnect()
    assert store.folder is None


def test_a_lock_that_was_freed_is_free_at_once(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server ends a session some time after it is closed, on a busy machine so late that the next run was refused."""
    lock = store.lock("quarterly", "2024", "measuring", utc_now)
    lock.acquire()
    late: list[postgres_connect.Session] = []

    def close_late(session: postgres_connect.Session) -> None:
        late.append(session)

    with monkeypatch.context() as patch:
        patch.setattr(postgres_connect.Session, "close", close_late)  # the server has not ended it yet
        lock.release()
    assert len(late) == 1
    assert not store.holders()
    with store.lock("quarterly", "2024", "planning", utc_now):
        late[0].close()


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
        create_postgres_ledger(ledger.owner)
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
