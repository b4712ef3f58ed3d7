"""Every stored value of PostgreSQL is read as its text says, whatever session, locale and collation it is read under."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")
pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed: dprelease[postgres]")

from dprelease.catalog.table import Column, DatabaseSource, Range, Table
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


def bounded_columns(edges: list[tuple[str | None, Any]]) -> list[Column]:
    """A column of every type that has a range, with what lies outside of it moved, or made null."""
    limits = Range(low=Fraction(-5, 2), high=Fraction(10**6))
    return [
        Column(name="x", type=kind, range=limits, outside=outside)
        for kind in ("integer", "decimal")
        for outside in ("clamp", "null")
    ]


def bounded(column: Column, stored: Any) -> Any:
    """What plain Python makes of a stored value: null values by their text, then the number, then the range."""
    text = text_of(stored, column)
    if text is None or text.strip() in ("7", "sad", "true"):
        return None
    value = READ[column.type](text)
    if value is None or column.range is None:
        return value
    assert not isinstance(value, str)
    low, high = column.range.low, column.range.high
    if column.type == "integer":
        low, high = Fraction(math.ceil(low)), Fraction(math.floor(high))
    if low <= Fraction(value) <= high:
        return value
    if column.outside == "null":
        return None
    limit = low if value < low else high
    return int(limit) if column.type == "integer" else float(limit)


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
    for column in bounded_columns(edges):
        read = [each for block in blocks for each in typed(column, block[1], ("7", "sad", "true")).to_pylist()]
        known = [bounded(column, values[n]) for n in order]
        assert list(map(repr, read)) == list(map(repr, known)), column
    for kind in TYPES:
        found = [each for block in blocks for each in typed(Column(name="x", type=kind), block[1]).to_pylist()]
        expected = [meaning(values[n], kind) for n in order]
        odd = [(values[n], mine, theirs) for n, mine, theirs in zip(order, found, expected, strict=True) if repr(mine) != repr(theirs)]  # fmt: skip
        assert odd == [], kind
    reader.close()
