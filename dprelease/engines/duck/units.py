"""Whose row is it, and which of a unit's rows or cells come first? One text per value, one keyed order per unit.

An id is compared as it is typed; two ids are equal exactly where their canonical texts are. Different bytes of ids that
are text have different texts, UTF-8 or not (``values.id_text``). Everything that a unit's rows are ordered by is a
function of the secret, the id and the row, and of no other row and no place in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dprelease.catalog.table import ColumnType, Table
from dprelease.engines.declared import id_column
from dprelease.engines.drivers import ibis

__all__ = [
    "ALONE",
    "UNIT",
    "keyed",
    "length_prefixed",
    "our_name",
    "row_content",
    "unit_columns",
    "unit_name",
    "unit_text",
    "value_text",
]

UNIT = "unit"  # the id where it is no declared column
ALONE = "alone"  # 0, or the number that keeps a row without an id apart from every other row


def our_name(table: Table, name: str) -> str:
    """The name of ours for a declared column: its place, so that no name of a spec meets an identifier rule."""
    return f"c{[column.name for column in table.columns].index(name)}"


def unit_name(table: Table) -> str:
    """The name of ours for the unit id."""
    declared = any(column.name == table.unit_id for column in table.columns)
    return our_name(table, str(table.unit_id)) if declared else UNIT


def unit_columns(table: Table) -> list[str]:
    """The columns that tell units apart: none, the id, or the id and the number of a row without one.

    No number is an id and no id a number, for they are in two columns: a row without an id meets no real unit.
    """
    if table.unit_id is None:
        return []
    return [unit_name(table), *([ALONE] if table.null_id == "unit" else [])]


def value_text(value: Any, kind: ColumnType) -> Any:
    """The one text of a typed value: equal where the values are, different where they differ, null for null."""
    return value if kind in ("text", "date", "timestamp") else value.cast("string")


def unit_text(rows: Any, table: Table) -> Any:
    """The canonical text of the ids of a table with units."""
    column = id_column(table)
    return value_text(rows[unit_name(table)], "text" if column is None else column.type)


def length_prefixed(texts: Sequence[Any]) -> Any:
    """Several texts as one, without ambiguity: each with its length before it, a null as a dash.

    Reading from the left, a dash or the digits up to a colon say where the next text ends; so no two different
    sequences of the same length give the same text.
    """
    whole: Any = ibis.literal("")
    for text in texts:
        whole = whole + ibis.coalesce(text.length().cast("string") + ":" + text, ibis.literal("-"))
    return whole


def row_content(rows: Any, table: Table) -> Any:
    """Everything that is known of a row, as one text: the id, the columns of the source, and what a private join lent.

    What public joins and derivations add is a function of these, so rows of equal content are interchangeable.
    """
    taken = [column for column in table.columns if column.in_source or column.lent_by is not None]
    places = [(our_name(table, column.name), column.type) for column in taken]
    texts = [value_text(rows[name], kind) for name, kind in places if name in rows.columns]
    return length_prefixed([*([rows[UNIT]] if UNIT in rows.columns else []), *texts])


def keyed(rows: Any, table: Table, secret: bytes, item: Any) -> Any:
    """The place of an item among those of its unit: the first 64 bits of sha256(secret, unit, item), as hexadecimal.

    Args:
        rows: Has the unit's id.
        table: Its declaration.
        secret: Makes the order unpredictable to whoever writes the rows; its bytes enter as hexadecimal digits.
        item: A text.
    """
    whole = ibis.literal(secret.hex()) + length_prefixed([unit_text(rows, table)]) + item
    return whole.hexdigest("sha256").substr(0, 16)
