"""The formats of files: which columns one has, its rows as Arrow arrays, and whether it has any.

``FILE_FORMATS`` is closed, for what reads the data must be audited. Another format is one more file with such a class,
one line here, and its ending in ``catalog.source.SOURCE_FORMATS``: finding, fingerprinting and checking files is the
same for all of them (``files.reader``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dprelease.catalog.dialect import STATISTICAL
from dprelease.catalog.table import Source, Table
from dprelease.engines.files.csv_lines import column_blocks, csv_header, decompresses
from dprelease.engines.files.header_shape import shape_advice
from dprelease.engines.files.parquet import parquet_blocks, parquet_has_rows, parquet_names, parquet_unread
from dprelease.engines.files.statistical.files import StatisticalFile
from dprelease.engines.files.statistical.workbooks import WorkbookFile

__all__ = ["FILE_FORMATS", "FileFormat"]

_COMPRESSION = {"csv": None, "csv.gz": "gzip", "csv.zst": "zstd"}
_LARGE = 1 << 24  # bytes; so many have a row, or a header that no engine takes
_EMPTY_LINES = re.compile(rb"(?:\r?\n)*\r?")


class FileFormat(Protocol):
    """What a file of one format holds."""

    def names(self, source: Source, path: Path) -> tuple[str, ...] | None:
        """The names of its columns, in their order; None where they cannot be read, or the file is surely not whole.

        Raises:
            MissingExtra: If what reads the format is not installed.
        """
        ...

    def unread(self, path: Path, wanted: Sequence[str]) -> dict[str, str]:
        """Those of its columns that are stored as a type that means nothing here, and how it is called."""
        ...

    def blocks(
        self, table: Table, path: Path, names: Sequence[str], wanted: Sequence[str], repeated: Sequence[str]
    ) -> Iterator[list[Any]]:
        """The wanted columns as they are stored, block by block: a list of Arrow arrays of equal length.

        What a value is depends on its own place in the file alone, and on nothing that another row holds. Rows that are
        surely of no period of the table may be left out.

        Args:
            table: The declaration.
            path: The file.
            names: Its columns, as :meth:`names` gives them.
            wanted: Some of them, each once.
            repeated: Those of them with few different values, which may be given as dictionaries of these.
        """
        ...

    def no_rows(self, source: Source, data: bytes) -> bool:
        """Whether a whole file surely has no row; when in doubt, it has one."""
        ...

    def advice(self, source: Source, path: Path, declared: Sequence[str]) -> tuple[str, str] | None:
        """What to say of a file without some declared columns: what it looks like, and what to do."""
        ...


class _Csv:
    """Lines of text, compressed or not: a column is text, whatever is declared."""

    def names(self, source: Source, path: Path) -> tuple[str, ...] | None:
        names = csv_header(path, source.dialect) if decompresses(path) else None
        return None if names is None else tuple(names)

    def unread(self, path: Path, wanted: Sequence[str]) -> dict[str, str]:
        return {}

    def blocks(
        self, table: Table, path: Path, names: Sequence[str], wanted: Sequence[str], repeated: Sequence[str]
    ) -> Iterator[list[Any]]:
        at, few = [names.index(name) for name in wanted], {names.index(name) for name in repeated}
        return column_blocks(path, len(names), at, dialect=table.files.dialect, repeated=few)

    def no_rows(self, source: Source, data: bytes) -> bool:
        compression = _COMPRESSION[source.format]
        if compression is not None:
            try:
                with pa.input_stream(pa.BufferReader(data), compression=compression) as stream:
                    data = stream.read(_LARGE)
            except OSError:  # the engine will refuse it
                return False
        lines = data.split(b"\n", source.dialect.lines_before)
        return len(lines) <= source.dialect.lines_before or _EMPTY_LINES.fullmatch(lines[-1]) is not None

    def advice(self, source: Source, path: Path, declared: Sequence[str]) -> tuple[str, str] | None:
        return shape_advice(source, path, declared)


class _Parquet:
    """Columns with a type of their own."""

    def names(self, source: Source, path: Path) -> tuple[str, ...] | None:
        return parquet_names(path)

    def unread(self, path: Path, wanted: Sequence[str]) -> dict[str, str]:
        return parquet_unread(path, wanted)

    def blocks(
        self, table: Table, path: Path, names: Sequence[str], wanted: Sequence[str], repeated: Sequence[str]
    ) -> Iterator[list[Any]]:
        return parquet_blocks(table, path, wanted, repeated)

    def no_rows(self, source: Source, data: bytes) -> bool:
        return not parquet_has_rows(data)

    def advice(self, source: Source, path: Path, declared: Sequence[str]) -> tuple[str, str] | None:
        return None


FILE_FORMATS: dict[str, FileFormat] = {
    **dict.fromkeys(_COMPRESSION, _Csv()),
    "parquet": _Parquet(),
    **{kind: StatisticalFile(kind) for kind in STATISTICAL},
    "xlsx": WorkbookFile("xlsx"),
}
