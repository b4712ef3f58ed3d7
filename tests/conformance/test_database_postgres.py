"""Every stored value of PostgreSQL is read as its text says, whatever session, locale and collation it is read under."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")
pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed: dprelease[postgres]")

from dprelease.catalog.table import Column, DatabaseSource, Table
from dprelease.engines.databases.reader import DatabaseReader
from dprelease.engines.files.rows import typed
from dprelease.engines.files.values import LIMIT, READ
from tests import postgres as servers
from tests.conformance.database_values import EDGES
from tests.conformance.reference_values import text_of
from tests.postgres import RUNNER, Database, Server

postgres_server = servers.postgres_server

TYPES = ("text", "integer", "decimal", "boolean", "date", "timestamp")


@pytest.fixture(scope="module")
def hostile(postgres_server: Server) -> Iterator[Database]:
    """A database with another locale, where letters of either case are equal, and a role whose sessions are odd."""
    name = "hostile"
    postgres_server.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' LOCALE 'C'"
    )
    database = Database(postgres_server, name)
    for setting in ("TimeZone = 'America/New_York'", "DateStyle = 'German, DMY'", "extra_float_digits = -15", "IntervalStyle = 'sql_standard'", "bytea_output = 'escape'", "standard_conforming_strings = off", "search_path = traps, public", "client_encoding = 'LATIN1'"):  # fmt: skip
        postgres_server.execute(f"ALTER ROLE {RUNNER} IN DATABASE {name} SET {setting}")
    database.execute("CREATE SCHEMA traps")
    database.execute("CREATE FUNCTION traps.trim_scale(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 666::numeric'")
    database.execute(f"GRANT USAGE ON SCHEMA traps TO {RUNNER}")
    database.execute("CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
    database.execute("CREATE TYPE mood AS ENUM ('sad', '7')")
    database.execute("CREATE DOMAIN amount AS numeric CHECK (VALUE > 0)")
    yield database
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def table(database: Database, name: str, columns: tuple[Column, ...], **more: Any) -> Table:
    source = DatabaseSource(database=database.runner, table=name, null_values=(), **more)
    return Table(name="t", account="a", source=source, columns=columns)


def meaning(stored: Any, kind: Any) -> Any:
    """What ``values.READ`` says of the text of a stored value, where it has a place in 64 bits."""
    text = text_of(stored, Column(name="x", type=kind))
    value = None if text is None else READ[kind](text)
    return None if kind == "integer" and value is not None and not -LIMIT <= value < LIMIT else value  # type: ignore[operator]


@pytest.mark.parametrize("stored", EDGES)
def test_a_stored_value_is_read_as_its_text_says(hostile: Database, stored: str, tmp_path: Path) -> None:
    name = "edges of " + stored.replace(chr(34), "")
    hostile.execute(f'CREATE TABLE public."{name}" (n int, x {stored})')
    hostile.execute(f'GRANT SELECT ON public."{name}" TO {RUNNER}')
    edges: list[tuple[str | None, Any]] = [*EDGES[stored].items(), (None, None)]
    import psycopg

    with psycopg.connect(hostile.superuser, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for at, (text, _) in enumerate(edges):
            connection.execute(f'INSERT INTO public."{name}" VALUES (%s, %s::text::{stored})', (at, text))
    columns = (Column(name="n", type="integer"), Column(name="x", type="text"))
    reader = DatabaseReader(tmp_path, {})
    blocks = [*reader.blocks(table(hostile, name, columns), columns)]
    order = [n for block in blocks for n in block[0].to_pylist()]
    assert sorted(order) == [*range(len(edges))]
    values = [value for _, value in edges]
    for kind in TYPES:
        found = [each for block in blocks for each in typed(Column(name="x", type=kind), block[1]).to_pylist()]
        expected = [meaning(values[n], kind) for n in order]
        odd = [(values[n], mine, theirs) for n, mine, theirs in zip(order, found, expected, strict=True) if repr(mine) != repr(theirs)]  # fmt: skip
        assert odd == [], kind
    reader.close()
