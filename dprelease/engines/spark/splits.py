"""What does one task read? A part of one file, which must be the very file that was there when the job began.

A task that is done again, because its machine is gone, reads its file again. Within one answer that must be the same
rows: so every task holds what the file system says of its file against what it said to the driver, before its first
row and after its last one. Device numbers are left out, for they are those of a machine. Of an object of a store that
is its version, its ETag, its size and when it was written. A task opens the store as the driver opened it, with the
credentials that it was given: they are sent with what it is to read, and are written nowhere in clear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dprelease.catalog.table import Column, Table
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.places.found import DataFile
from dprelease.engines.files.places.objects import FilePath, StoredObject, threads_for
from dprelease.engines.files.places.partitions import PathValue
from dprelease.engines.files.source import checked_headers, stored_blocks
from dprelease.errors import EngineError

__all__ = ["Split", "bytes_of", "splits_of", "stored_rows"]

_SIZE = 1 << 26  # bytes of a file that one task reads, where a file can be read in parts


@dataclass(frozen=True)
class Split:
    """A part of a file.

    Attributes:
        table: The place of its table among those that are read.
        number: Its own place among the parts of that table.
        file: The path, or an object of a store.
        names: The columns of the file.
        values: What the path says of the rows.
        piece: Which of how many parts of the file.
        size: Its bytes.
        facts: What the file system, or the store, says of it.
    """

    table: int
    number: int
    file: FilePath
    names: tuple[str, ...]
    values: tuple[PathValue, ...]
    piece: tuple[int, int]
    size: int
    facts: tuple[Any, ...]


def splits_of(table: Table, place: int, found: Sequence[DataFile], least: int) -> list[Split]:
    """The parts of all files of a table.

    Args:
        table: The declaration.
        place: Its place among the tables that are read.
        found: Its files.
        least: How many parts there are to be, where the files can be read in so many.

    Raises:
        Unavailable: If a file is not there.
        TableMismatch: If one lacks a column.
    """
    paths = [each.path for each in found]
    names = checked_headers(table, paths)
    looks = in_turn(_look, paths, threads_for(paths))
    in_parts = table.files.file_format == "parquet"
    splits: list[Split] = []
    for file, columns, (size, said) in zip(found, names, looks, strict=True):
        pieces = max(-(-size // _SIZE), -(-least // len(found))) if in_parts else 1
        splits += [
            Split(place, len(splits) + at, file.path, columns, file.values, (at, pieces), size, said)
            for at in range(pieces)
        ]
    return splits


def bytes_of(splits: Sequence[Split]) -> int:
    """The bytes of all their files."""
    return sum(each.size for each in splits if each.piece[0] == 0)


def stored_rows(split: Split, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
    """The stored values of a part, block by block.

    Raises:
        EngineError: If the file is another one than it was (DPR-E105).
    """
    _require_same(split, table)
    yield from stored_blocks(table, split.file, split.names, columns, split.values, split.piece)
    _require_same(split, table)


def _require_same(split: Split, table: Table) -> None:
    if _look(split.file) != (split.size, split.facts):
        raise EngineError(
            f"table {table.name!r}: its files were written to while they were read, or are not those that the driver "
            "sees",
            hint="let no one write to them, in a folder that all machines see; then run the same command again",
            code="DPR-E105",
        )


def _look(path: FilePath) -> tuple[int, tuple[Any, ...]]:
    """The bytes of a file, and by what one that replaced it is known."""
    if isinstance(path, StoredObject):
        look = path.look()
        return look.size, (look.version, look.etag, look.written)
    said = path.stat()
    return said.st_size, (said.st_ino, said.st_mtime_ns, said.st_ctime_ns)
