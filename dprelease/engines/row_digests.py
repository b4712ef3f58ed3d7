"""A keyed hash of all rows of a stretch of time, whatever their order: whether they are still the same.

Every row is hashed with SHA-256 behind the key, of the texts of some of its columns, each with its length before it;
of the hashes of a stretch four parts of 60 bits are added up, and the sums with the number of rows are hashed with the
key again. Without the key nobody can tell which rows it is of; with it, other rows with the same sums are not to be
found by trying (128 bits and more of each sum are hidden behind the last hash).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import date

from dprelease.catalog.table import Column, Table
from dprelease.engines.declared import own_columns
from dprelease.errors import BrokenPromiseError

__all__ = ["STRETCH", "SUMS", "digest_query", "digests", "table_of_rows"]

_PARTS = ((1, 15), (16, 15), (31, 15), (46, 15))  # of 64 hexadecimal digits
STRETCH = "stretch"
SUMS = ("held", *(f"sum{at}" for at in range(len(_PARTS))))
"""What is added up of the rows of a stretch: how many there are, and the parts of their hashes."""


def table_of_rows(table: Table, columns: Sequence[str], days: Sequence[tuple[date, date]]) -> Table:
    """The declaration of what is hashed: some columns, and the time, of the rows of all stretches.

    Args:
        table: With a time.
        columns: The names of its own columns that are hashed.
        days: Of each stretch its first day, and the first one after it.

    Raises:
        BrokenPromiseError: If the table has no time.
    """
    if table.time is None:
        raise BrokenPromiseError(f"table {table.name!r} has no time")
    kept = tuple(column for column in own_columns(table) if column.name in {*columns, table.time.column})
    if all(column.name != table.time.column for column in kept):
        kept += (Column(name=table.time.column, type=table.time.type),)
    ends = {"start": min(first for first, _ in days), "end": max(after for _, after in days)}
    alone = {"columns": kept, "time": table.time.model_copy(update=ends), "unit_id": None, "bounds": None}
    return table.model_copy(update={**alone, "joins": (), "private_joins": (), "weight": None})


def digest_query(table: str, columns: Sequence[str], time: str, days: Sequence[tuple[date, date]]) -> str:
    """SQL for DuckDB that adds up the hashes of rows by stretch; its one parameter is the key in hexadecimal digits.

    Args:
        table: The name of the loaded table.
        columns: Those that are hashed, as they are called there.
        time: The column with the time of a row, as ISO text.
        days: Of each stretch its first day, and the first one after it.
    """
    texts = [f"coalesce(length(v{at}) || ':' || v{at}, '-')" for at in range(len(columns))]
    named = [f'CAST("{name}" AS VARCHAR) AS v{at}' for at, name in enumerate(columns)]
    stretches = " ".join(
        f"WHEN moment >= '{first.isoformat()}' AND moment < '{after.isoformat()}' THEN {at}"
        for at, (first, after) in enumerate(days)
    )
    added = [
        "count(*)",
        *(f"sum(('0x' || substr(hash, {start}, {length}))::BIGINT::HUGEINT)" for start, length in _PARTS),
    ]
    sums = ", ".join(f"{each} AS {name}" for each, name in zip(added, SUMS, strict=True))
    chosen = ", ".join([f'CAST("{time}" AS VARCHAR) AS moment', *named])
    row = " || ".join(["?", *texts])
    return (
        f"SELECT {STRETCH}, {sums} FROM (SELECT CASE {stretches} END AS {STRETCH}, "  # noqa: S608 - names are ours
        f'sha256({row}) AS hash FROM (SELECT {chosen} FROM "{table}")) WHERE {STRETCH} IS NOT NULL GROUP BY {STRETCH}'
    )


def digests(found: Sequence[Sequence[int]], stretches: int, key: bytes) -> tuple[str, ...]:
    """The hash of every stretch, from the rows of such a query.

    Args:
        found: Of each stretch that has rows its number, how many rows, and the sums.
        stretches: How many there are.
        key: The key.
    """
    by_number: Mapping[int, Sequence[int]] = {int(row[0]): [int(each) for each in row[1:]] for row in found}
    texts = [",".join(map(str, by_number.get(at, [0] * (1 + len(_PARTS))))) for at in range(stretches)]
    return tuple(hmac.new(key, b"dprelease rows\0" + text.encode(), hashlib.sha256).hexdigest() for text in texts)
