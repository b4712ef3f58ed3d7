"""The types of PostgreSQL: how each is asked for, so that its values mean what their texts mean.

Each expression is total: it fails on no value, whatever a row holds. What has no number or day (NaN, infinities, days
before year 1 and after 9999) is null, as it is in a file; a number is one text however many zeros it was stored with;
padding is no part of a text.
"""

from __future__ import annotations

from dprelease.engines.databases.postgres_session import sql

__all__ = ["is_day", "is_read", "selected"]

_INTEGER = "{0}::pg_catalog.int8"
_NUMBER = "{0}::pg_catalog.float8"
_TEXT = "{0}::pg_catalog.text"
_DAY = "CASE WHEN {0} BETWEEN '0001-01-01'::pg_catalog.date AND '9999-12-31'::pg_catalog.date THEN {0} END"
_LAST = "'9999-12-31 23:59:59.999999'::pg_catalog.timestamp"
_MOMENT = "CASE WHEN {0} BETWEEN '0001-01-01'::pg_catalog.timestamp AND " + _LAST + " THEN {0} END"
_EXPRESSIONS = {
    "bool": "{0}",
    **dict.fromkeys(("int2", "int4", "int8"), _INTEGER),
    **dict.fromkeys(("float4", "float8"), _NUMBER),
    "numeric": "CASE WHEN {0} > '-Infinity'::pg_catalog.numeric AND {0} < 'Infinity'::pg_catalog.numeric "
    "THEN pg_catalog.trim_scale({0})::pg_catalog.text END",  # NaN is greater than infinity here
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid", "json", "jsonb", "enum"), _TEXT),
    "date": _DAY,
    "timestamp": _MOMENT,
    "timestamptz": _MOMENT.replace("{0}", "({0} AT TIME ZONE 'UTC')"),
}
_DAYS = {"date": "{0}", "timestamp": "{0}", "timestamptz": "({0} AT TIME ZONE 'UTC')"}


def is_read(stored: str) -> bool:
    """Whether values of a type are read."""
    return stored in _EXPRESSIONS


def selected(name: str, stored: str) -> sql.Composed:
    """A column as it is asked for.

    Args:
        name: Of the column, whatever letters it has.
        stored: Its type, one that is read.
    """
    return sql.SQL(_EXPRESSIONS[stored]).format(sql.Identifier(name))


def is_day(name: str, stored: str) -> sql.Composed | None:
    """A column that a period can be compared with in the server, exactly as its text would be; None: it cannot."""
    return sql.SQL(_DAYS[stored]).format(sql.Identifier(name)) if stored in _DAYS else None
