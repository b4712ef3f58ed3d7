"""Folders that are named ``column=value``: the value is that of every row in the files below, as text.

A value is written as Hive, Spark and Arrow write it: ``%2F`` stands for a slash, as in an address on the web, and
``__HIVE_DEFAULT_PARTITION__`` for null. It is bytes here, as the fields of a CSV are; what it means is said by the one
definition of all stored values (``files.rows``). Which values there are is told by the rows: no error shows one, and
none depends on what a value is, only on which columns a path has folders for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa

from dprelease.catalog.table import Column, Table
from dprelease.engines.files.rows import in_period, typed
from dprelease.errors import TableMismatch

__all__ = ["PathValue", "folder_values", "is_data", "of_other_period", "partition_columns", "with_path_values"]

PathValue = bytes | None
_NULL = b"__HIVE_DEFAULT_PARTITION__"


def partition_columns(table: Table) -> tuple[Column, ...]:
    """The columns whose values stand in the paths of the files."""
    return tuple(column for column in table.columns if column.partition)


def is_data(parts: Sequence[str]) -> bool:
    """Whether folders and a file below a source's own folder hold data: names with ``_`` or ``.`` in front do not.

    Those are of writers: ``_SUCCESS``, ``_temporary``, ``_delta_log``, ``.part-0.crc``. A column may begin with ``_``.

    >>> is_data(["_year=2024", "a.csv"]), is_data(["_temporary", "a.csv"]), is_data([".a.csv"])
    (True, False, False)
    """
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def folder_values(table: Table, folders: Sequence[str], where: str) -> tuple[PathValue, ...]:
    r"""The values that a path has for the partition columns of a table, in the order of these.

    Args:
        table: The declaration.
        folders: The names of the folders that lead to the file.
        where: The file, as an error says it.

    Raises:
        TableMismatch: If there is no folder of a column, or more than one.

    >>> from dprelease.catalog.table import Source
    >>> columns = [Column(name=name, type="text", partition=True) for name in ("town", "year")]
    >>> people = Table(name="t", account="a", source=Source(file="*/*/*.csv", format="csv"), columns=columns)
    >>> folder_values(people, ["year=2024", "town=Bern%2FK%F6niz"], "a file")
    (b'Bern/K\xf6niz', b'2024')
    """
    named: dict[bytes, list[bytes]] = {}
    for folder in folders:
        name, equals, value = os.fsencode(folder).partition(b"=")
        if equals:
            named.setdefault(unquote_to_bytes(name), []).append(value)
    values: list[PathValue] = []
    for column in partition_columns(table):
        found = named.get(column.name.encode(), [])
        if len(found) != 1:
            says = "lies in no folder" if not found else "lies in more than one folder"
            raise TableMismatch(
                f"table {table.name!r}: {where} {says} that is named `{column.name}=...`",
                detail=f"{column.name!r} is declared with `partition: true`, so its value stands in the path of a file",
                hint=f"put every file below one folder `{column.name}=VALUE`, or write a pattern that finds only such "
                "files; where the files have the column themselves, leave `partition: true` out",
                code="DPR-E312",
            )
        values.append(None if found[0] == _NULL else unquote_to_bytes(found[0]))
    return tuple(values)


def of_other_period(table: Table, values: Sequence[tuple[PathValue, ...]]) -> list[bool]:
    """Which paths say themselves that no row below them is of the table's period.

    Only where the time of the rows is a partition column: then it is read from the path as every value is, and it is
    that of all rows in the file. No statistics of a writer are asked.

    Args:
        table: The declaration.
        values: Of every file the values in its path.
    """
    columns = partition_columns(table)
    names = [column.name for column in columns]
    if table.time is None or table.time.column not in names:
        return [False] * len(values)
    at = names.index(table.time.column)
    stored = pa.array([each[at] for each in values], pa.binary())
    moments = typed(columns[at], stored, table.source.null_values)
    return [not inside for inside in in_period(table.time, moments).to_pylist()]


def with_path_values(
    columns: Sequence[Column], values: dict[str, PathValue], blocks: Iterator[list[Any]]
) -> Iterator[list[Any]]:
    """Blocks of the columns that a file has, with those that its path has put between them.

    Args:
        columns: All that are wanted, in order.
        values: What the path says, by the names of columns.
        blocks: Of the others, in the same order; of one array that is nobody's where there are none.
    """
    for block in blocks:
        rows, own = len(block[0]), iter(block)
        yield [_repeated(values[each.name], rows) if each.name in values else next(own) for each in columns]


def _repeated(value: PathValue, rows: int) -> Any:
    """One value for all rows of a block, of which it is typed once."""
    if value is None:
        return pa.nulls(rows, pa.binary())
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.binary()))
