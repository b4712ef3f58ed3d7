"""Parquet: columns as they are stored, a batch of rows at a time, and no row group without a row of the period."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dprelease.catalog.table import Column, Table, TimeFilter
from dprelease.engines.files.places.objects import FilePath, StoredObject
from dprelease.engines.files.rows import can_mean, in_period, typed

__all__ = ["parquet_blocks", "parquet_has_rows", "parquet_names", "parquet_unread"]

_ROWS = 1 << 17
_INSIDE = re.compile(r"[<\[(]")


def parquet_names(path: FilePath) -> tuple[str, ...] | None:
    """The columns of a file; None where its footer is not that of a Parquet file."""
    try:
        with _opened(path) as stream, pq.ParquetFile(stream) as file:
            return tuple(file.schema_arrow.names)
    except pa.ArrowInvalid:
        return None


def parquet_unread(path: FilePath, wanted: Sequence[str]) -> dict[str, str]:
    """Those of the columns whose type no text of ours means anything for, such as lists, and how they are stored.

    A column of nothing but nulls has no type of its own, and is read.
    """
    with _opened(path) as stream, pq.ParquetFile(stream) as file:
        stored = {name: file.schema_arrow.field(name).type for name in wanted}
    unread = {name: kind for name, kind in stored.items() if not (pa.types.is_null(kind) or can_mean(kind))}
    return {name: _INSIDE.split(str(kind))[0] for name, kind in unread.items()}  # names within may be values


def parquet_blocks(
    table: Table, path: FilePath, wanted: Sequence[str], repeated: Sequence[str], piece: tuple[int, int] = (0, 1)
) -> Iterator[list[Any]]:
    """The named columns as they are stored, as Arrow arrays, block by block.

    Where the table has a period, the time of all rows of a row group is read first, and of a group without a row of
    the period nothing else. Its statistics are not asked: what they say is a writer's word, and rows that they deny
    would be gone without one.

    Args:
        table: Whose period, and what its source calls null.
        path: The file.
        wanted: The columns, each once.
        repeated: Those with few different values: texts among them are given as dictionaries of these.
        piece: Which of so many parts of the row groups are read; all parts together are the file.
    """
    with _opened(path) as stream, pq.ParquetFile(stream, read_dictionary=[*repeated], pre_buffer=False) as file:
        at, pieces = piece
        groups = list(range(at * file.num_row_groups // pieces, (at + 1) * file.num_row_groups // pieces))
        if table.time is not None and file.num_row_groups > 1:
            moment = Column(name=table.time.column, type=table.time.type)
            groups = [at for at in groups if _has_row(file, at, table, moment, table.time)]
        for batch in file.iter_batches(batch_size=_ROWS, columns=list(wanted), row_groups=groups):
            yield [batch.column(batch.schema.get_field_index(name)) for name in wanted]


def _opened(path: FilePath) -> Any:
    """A file for Arrow, whose own way to open one knows only names that are UTF-8."""
    return path.for_arrow() if isinstance(path, StoredObject) else pa.OSFile(os.fsencode(path))


def _has_row(file: Any, group: int, table: Table, moment: Column, time: TimeFilter) -> bool:
    """Whether a row group has a row of the period."""
    for batch in file.iter_batches(batch_size=_ROWS, columns=[moment.name], row_groups=[group]):
        stored = batch.column(batch.schema.get_field_index(moment.name))
        if pc.any(in_period(time, typed(moment, stored, table.source.null_values))).as_py():
            return True
    return False


def parquet_has_rows(data: bytes) -> bool:
    """Whether a file has a row: read, not believed, for a footer can say anything. What is no Parquet file has one."""
    try:
        with pq.ParquetFile(io.BytesIO(data)) as file:
            return any(batch.num_rows for batch in file.iter_batches(batch_size=1))
    except Exception:  # the engine will refuse it
        return True
