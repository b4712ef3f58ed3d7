"""What the tests of the PostgreSQL store share: fixtures of a real server, and what they do with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.canonical import fingerprint  # noqa: E402 - only where psycopg is
from dprelease.ledger.model.store import Transaction  # noqa: E402 - only where psycopg is
from dprelease.ledger.stores.postgres import PostgresStore, create_postgres_ledger  # noqa: E402 - only where psycopg is
from tests import postgres as servers  # noqa: E402 - only where psycopg is
from tests.conformance.postgres_rows import append, end, measure, reserve  # noqa: E402 - only where psycopg is
from tests.postgres import RUNNER, Database  # noqa: E402 - only where psycopg is

postgres_server, postgres = servers.postgres_server, servers.postgres  # fixtures

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("postgres_worker.py")


@pytest.fixture
def ledger(postgres: Database) -> Database:
    create_postgres_ledger(postgres.owner, RUNNER)
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


def failed(transaction: AbstractContextManager[Transaction | None], *do: Callable[[Transaction], object]) -> Any:
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
