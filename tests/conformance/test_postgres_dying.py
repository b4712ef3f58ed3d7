"""The PostgreSQL store on a real server: servers, connections and processes that die."""

from __future__ import annotations

import os
import signal
import time

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.errors import (
    Locked,
    Retryable,
)
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.stores.postgres import PostgresStore
from tests.conformance import postgres_support as support
from tests.conformance.postgres_rows import append, reserve
from tests.conformance.postgres_support import ask, failed, first, require_chain, said, start
from tests.postgres import Database, Server

ledger, postgres, postgres_server, store = (
    support.ledger,
    support.postgres,
    support.postgres_server,
    support.store,
)  # fixtures


def _await_more(store: PostgresStore, more: int) -> None:
    """Until so many reservations more are committed; how long six writers take hangs on what else the machine does."""
    seen, ends = len(ask(store, "SELECT release FROM reservations")), time.monotonic() + 60
    while len(ask(store, "SELECT release FROM reservations")) < seen + more:
        assert time.monotonic() < ends, "nobody writes"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_server_that_crashes_forgets_nothing_that_it_called_committed(
    ledger: Database, store: PostgresStore, postgres_server: Server
) -> None:
    process = start("write", ledger.runner, "6")
    assert first(process)[0] == "written"
    for _ in range(2):
        _await_more(store, 8)
        postgres_server.restart("immediate")
    _await_more(store, 8)
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


@pytest.mark.slow
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
    def cut(rows: Transaction) -> None:
        backend = rows.execute("SELECT pg_backend_pid()")[0][0]
        ledger.execute(f"SELECT pg_terminate_backend({backend}, 5000)")

    lost = failed(store.writing(), lambda rows: reserve(rows, "lost", "2024"), cut)
    assert lost.code == "DPR-L202"
    assert isinstance(lost, Retryable)
    assert ask(store, "SELECT count(*) FROM entries") == [(0,)]


@pytest.mark.slow
def test_a_forked_child_connects_anew(ledger: Database) -> None:
    (parent, one, first_backend), (child, two, second_backend), (again, three, third_backend) = said(
        start("fork", ledger.runner)
    )
    assert (one, two, three) == (True, True, False)
    assert parent == again != child
    assert first_backend == third_backend != second_backend
