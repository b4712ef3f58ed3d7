"""The PostgreSQL store on a real server: its transactions."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.errors import (
    BrokenPromiseError,
    LedgerError,
    Locked,
)
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.stores import postgres_connect
from dprelease.ledger.stores.postgres import PostgresStore, create_postgres_ledger
from tests.conformance import postgres_support as support
from tests.conformance.postgres_rows import append, keep, reserve
from tests.conformance.postgres_support import ask, failed, psycopg, require_chain, said, start
from tests.postgres import RUNNER, Database

ledger, postgres, postgres_server, store = (
    support.ledger,
    support.postgres,
    support.postgres_server,
    support.store,
)  # fixtures


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
    create_postgres_ledger(postgres.owner, RUNNER)
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
    def opened(rows: Transaction) -> None:
        append(rows, "open")

    def swallowed(rows: Transaction) -> None:
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

    def wait(_: Transaction) -> None:
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


@pytest.mark.slow
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
