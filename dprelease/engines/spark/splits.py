"""What does one task read? A part of one file, which must be the very file that was there when the job began.

A task that is done again, because its machine is gone, reads its file again. Within one answer that must be the same
rows: so every task holds what the file system says of its file against what it said to the driver, before its first
row and after its last one. Device numbers are left out, for they are those of a machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.catalog.table import Column, Table
from dprelease.engines.files.places.found import data_files
from dprelease.engines.files.places.partitions import PathValue
from dprelease.engines.files.source import checked_headers, stored_blocks
from dprelease.errors import EngineError, Unsupported

__all__ = ["Split", "bytes_of", "splits_of", "stored_rows"]

_SIZE = 1 << 26  # bytes of a file that one task reads, where a file can be read in parts


@dataclass(frozen=True)
class Split:
    """A part of a file.

    Attributes:
        table: The place of its table among those that are read.
        number: Its own place among the parts of that table.
        file: The path.
        names: The columns of the file.
        values: What the path says of the rows.
        piece: Which of how many parts of the file.
        facts: What the file system says of it.
    """

    table: int
    number: int
    file: str
    names: tuple[str, ...]
    values: tuple[PathValue, ...]
    piece: tuple[int, int]
    facts: tuple[int, ...]


def splits_of(table: Table, place: int, folder: Path, environment: Mapping[str, str], least: int) -> list[Split]:
    """The parts of all files of a table.

    Args:
        table: The declaration.
        place: Its place among the tables that are read.
        folder: What paths are relative to.
        environment: What ``${env:NAME}`` in it may name.
        least: How many parts there are to be, where the files can be read in so many.

    Raises:
        Unavailable: If a file is not there.
        TableMismatch: If one lacks a column.
        Unsupported: If the files are in an object store (DPR-E139).
    """
    found = data_files(table, folder, environment)
    paths = [each.path for each in found if isinstance(each.path, Path)]
    if len(paths) < len(found):
        raise Unsupported(
            f"table {table.name!r}: Spark reads no files from an object store yet",
            hint="mount the store as a folder that all machines see, or leave `engine: spark` out",
            code="DPR-E139",
        )
    names, facts = checked_headers(table, paths), [_facts(path) for path in paths]
    in_parts = table.files.file_format == "parquet"
    splits: list[Split] = []
    for file, columns, said in zip(found, names, facts, strict=True):
        pieces = max(-(-said[1] // _SIZE), -(-least // len(found))) if in_parts else 1
        splits += [
            Split(place, len(splits) + at, str(file.path), columns, file.values, (at, pieces), said)
            for at in range(pieces)
        ]
    return splits


def bytes_of(splits: Sequence[Split]) -> int:
    """The bytes of all their files."""
    return sum(each.facts[1] for each in splits if each.piece[0] == 0)


def stored_rows(split: Split, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
    """The stored values of a part, block by block.

    Raises:
        EngineError: If the file is another one than it was (DPR-E105).
    """
    _require_same(split, table)
    yield from stored_blocks(table, Path(split.file), split.names, columns, split.values, split.piece)
    _require_same(split, table)


def _require_same(split: Split, table: Table) -> None:
    if _facts(Path(split.file)) != split.facts:
        raise EngineError(
            f"table {table.name!r}: its files were written to while they were read, or are not those that the driver "
            "sees",
            hint="let no one write to them, in a folder that all machines see; then run the same command again",
            code="DPR-E105",
        )


def _facts(path: Path) -> tuple[int, ...]:
    said = path.stat()
    return (said.st_ino, said.st_size, said.st_mtime_ns, said.st_ctime_ns)
