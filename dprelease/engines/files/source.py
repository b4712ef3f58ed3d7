"""What the files of a table hold: their columns by name, and their blocks as Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dprelease.catalog.reference import found_names
from dprelease.catalog.table import Column, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.declared import own_columns
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.parquet import parquet_blocks
from dprelease.engines.files.places.objects import FilePath, threads_for
from dprelease.engines.files.places.partitions import PathValue, partition_columns, with_path_values
from dprelease.errors import TableMismatch, Unsupported

__all__ = ["checked_headers", "stored_blocks", "stored_columns"]


_AGAIN = {
    True: "save it as UTF-8 with the column names in the first line, and lines that end in \\n or \\r\\n",
    False: "is the file whole, and is it what its ending says? write it again, or name it by what it is",
}


def stored_columns(table: Table) -> tuple[Column, ...]:
    """What is read of a file: its own columns, then the time of its rows where that is not one of them."""
    own, time = own_columns(table), table.time
    if time is None or any(column.name == time.column for column in own):
        return own
    return (*own, Column(name=time.column, type=time.type))


def checked_headers(table: Table, paths: Sequence[FilePath]) -> tuple[tuple[str, ...], ...]:
    """The column names of every file, after checking that the declared ones are there, each once.

    Raises:
        TableMismatch: Names the declared and the found columns.
        Unavailable: If a file cannot be read.
    """
    named = [(path, f"{table.files.file!r} (file {at} of {len(paths)})") for at, path in enumerate(paths, start=1)]
    return tuple(in_turn(lambda each: _checked(table, *each), named, threads_for(paths)))


def _checked(table: Table, path: FilePath, where: str) -> tuple[str, ...]:
    doing = f"table {table.name!r}, columns of {where}"
    form = FILE_FORMATS[table.files.file_format]
    names = scrubbed(doing, lambda: form.names(table.files, path))
    declared = [column.name for column in stored_columns(table) if not column.partition]
    if table.files.has_log:  # its log says which columns there are; an older file may lack one
        declared = [name for name in declared if name in (names or ())]
    missing = [name for name in declared if name not in (names or ())]
    advice = None
    if missing or names is None:
        advice = scrubbed(doing, lambda: form.advice(table.files, path, declared))
    if names is None or not (names or declared):  # without a column its rows cannot be counted
        raise TableMismatch(
            f"table {table.name!r}: {where} "
            + (
                "has no header line that can be read" if table.files.has_lines else "cannot be read as what it is named"
            ),
            detail=advice[0] if advice else "",
            hint=advice[1] if advice else _AGAIN[table.files.has_lines],
            code="DPR-E303",
        )
    if missing:
        found = f"declared: {', '.join(declared)}\n    found: {found_names(declared, names)}"
        raise TableMismatch(
            f"table {table.name!r}: {where} has no column {', '.join(map(repr, missing))}",
            detail=f"{found}\n    {advice[0]}" if advice else found,
            hint=advice[1] if advice else "correct the names under `columns` of the table, or the file's header",
            code="DPR-E301",
        )
    twice = [name for name in declared if names.count(name) > 1]
    if twice:
        raise TableMismatch(
            f"table {table.name!r}: {where} has more than one column {', '.join(map(repr, twice))}",
            hint="give every column of the file its own name",
            code="DPR-E302",
        )
    unread = scrubbed(doing, lambda: form.unread(path, declared))
    if unread:
        name, kind = next(iter(unread.items()))
        raise Unsupported(
            f"table {table.name!r}: {where} has a column {name!r} of the type {kind}, which is read as no type of ours",
            detail="every value of it would be null, in all rows",
            hint="write what is meant of it as a number, a text, a day or a moment, or leave the column out",
            code="DPR-E146",
        )
    both = [column.name for column in partition_columns(table) if column.name in names]
    if both and not table.files.has_log:
        raise TableMismatch(
            f"table {table.name!r}: {where} has a column {', '.join(map(repr, both))}, and its path says it too",
            detail="of a column with `partition: true` the value is taken from the path, and the two may differ",
            hint="leave `partition: true` out, so that the file's own column is read, or take the column out of it",
            code="DPR-E315",
        )
    return names


def stored_blocks(
    table: Table,
    path: FilePath,
    names: Sequence[str],
    columns: Sequence[Column],
    values: Sequence[PathValue] = (),
    piece: tuple[int, int] = (0, 1),
) -> Iterator[list[Any]]:
    """Columns of one file as they are stored, block by block: a list of Arrow arrays of equal length.

    A CSV column is text, and so is what a path says; a column of any other format has the type that it was written
    with. Where no column of the file is wanted its first one is read, so that its rows can be counted.

    Args:
        table: The declaration.
        path: The file.
        names: Its columns.
        columns: What is wanted of them, and of the path.
        values: What the path says for the partition columns of the table.
        piece: Which of so many parts of a file is read; only a Parquet file has more than one.
    """
    said = {column.name: value for column, value in zip(partition_columns(table), values, strict=True)}
    if table.files.has_log:
        said |= {column.name: None for column in columns if column.name not in {*names, *said}}
    if table.time is not None and table.time.column in said:  # of all rows alike, and of other periods no file is here
        table = table.model_copy(update={"time": None})
    own = [column for column in columns if column.name not in said]
    wanted = [column.name for column in own] or list(names[:1])
    repeated = [column.name for column in own if column.keys]
    form = FILE_FORMATS[table.files.file_format]
    if piece == (0, 1):
        blocks = form.blocks(table, path, names, wanted, repeated)
    else:
        blocks = parquet_blocks(table, path, wanted, repeated, piece)
    return with_path_values(columns, said, blocks) if said and columns else blocks
