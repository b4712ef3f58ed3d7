"""Parquet: columns as they are stored, a batch of rows at a time, and no row group without a row of the period."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dprelease.catalog.table import Column, Table, TimeFilter
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.places.objects import FilePath, StoredObject
from dprelease.engines.files.rows import can_mean, in_period, typed

__all__ = ["parquet_blocks", "parquet_has_rows", "parquet_names", "parquet_runs", "parquet_unread"]

Group = TypeVar("Group")
_ROWS = 1 << 17
_FEW = 1 << 20  # rows, which one thread reads as soon
_RUNS = 2  # a thread, so that one that is slower for a while has less to do
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


def parquet_runs(paths: Sequence[FilePath], threads: int) -> list[list[tuple[int, tuple[int, int]]]]:
    """Runs of parts of some files, about as long as each other, that so many threads can go through at once.

    What a footer says of numbers of rows decides nothing else.

    Args:
        paths: The files.
        threads: How many threads there are.

    Returns:
        Of each part which file it is of, and its ``piece`` of :func:`parquet_blocks`. There are no runs of few rows,
        and none where a row group has more rows than the share of a thread.
    """
    rows = [*in_turn(_rows_of_groups, paths, threads)]
    total = sum(map(sum, rows))
    if total < _FEW or any(each * threads > total for groups in rows for each in groups):
        return []
    runs: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    before = 0
    for number, groups in enumerate(rows):
        pieces = max(1, min(len(groups), -(-_RUNS * threads * sum(groups) // total)))
        for at in range(pieces):
            of_these = sum(_piece(groups, at, pieces))
            middle = before + of_these / 2  # decides of which run a piece is
            runs.setdefault(int(middle * _RUNS * threads / total), []).append((number, (at, pieces)))
            before += of_these
    return [*runs.values()]


def _rows_of_groups(path: FilePath) -> list[int]:
    with _opened(path) as stream, pq.ParquetFile(stream) as file:
        return [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]


def _piece(groups: Sequence[Group], at: int, pieces: int) -> Sequence[Group]:
    """One of so many parts of some row groups."""
    return groups[at * len(groups) // pieces : (at + 1) * len(groups) // pieces]


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
        groups = list(_piece(range(file.num_row_groups), at, pieces))
        if table.time is not None and file.num_row_groups > 1:
            moment = Column(name=table.time.column, type=table.time.type)
            groups = [at for at in groups if _has_row(file, at, table, moment, table.time)]
        # A piece is one of several that are read at once: no thread more for each of its columns.
        batches = file.iter_batches(_ROWS, row_groups=groups, columns=list(wanted), use_threads=pieces == 1)
        for batch in batches:
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
