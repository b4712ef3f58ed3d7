"""The tables of a bundle as columns, from CSV and from Parquet alike, without a Python object for each cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.publish.packed import Data, Packed, whole_of

__all__ = [
    "LARGEST_UNDECLARED",
    "READERS",
    "FileColumns",
    "Kind",
    "csv_columns",
    "csv_names",
    "same_texts",
    "table_parts",
]

Floats = npt.NDArray[np.float64]
Kind = Literal["text", "number", "whole"]
_HEAD = 1 << 20  # bytes among which the header is
_BLOCK = 1 << 24  # bytes that are parsed together; no line is longer
LARGEST_UNDECLARED = 2 << 30
"""Bytes of a file whose number of rows no plan declares, and which is therefore held as a whole."""
_NO_CSV = "it is no CSV file of these columns"


@dataclass(frozen=True, eq=False)
class FileColumns:
    """Some columns of a table.

    Attributes:
        rows: How many the table has.
        texts: By name: Arrow arrays of strings; a key as the CSV file has it.
        values: By name: numbers, NaN where none is published.
    """

    rows: int
    texts: Mapping[str, Any]
    values: Mapping[str, Floats]


def same_texts(one: Any, other: Any) -> bool:
    """Whether two Arrow arrays have the same texts, none of them null."""
    import pyarrow.compute as pc

    if len(one) != len(other) or one.null_count or other.null_count:
        return False
    return bool(pc.all(pc.equal(one, other), min_count=0).as_py())


def table_parts(ending: str, data: Data, names: Sequence[str], kinds: Mapping[str, Kind]) -> Iterator[FileColumns]:
    """Some columns of a table, some rows after the others: one of a hundred million rows is never here as a whole.

    Args:
        ending: Of the file, one of ``READERS``.
        data: The file; of a large CSV file its blocks are read one after the other.
        names: The names of all its columns.
        kinds: What is asked for; at least one column.

    Raises:
        ValueError: It cannot be read, has other columns, or a field is no number or no text; no message names a value.
    """
    parts = _csv_parts(data, names, kinds) if ending == "csv" else _parquet_parts(data, names, kinds)
    for part in parts:
        found = _columns(part, kinds, len(next(iter(part.values()))))
        if found is None:
            raise ValueError("a number or a text is missing")
        yield found


def _csv_parts(data: Data, names: Sequence[str], kinds: Mapping[str, Kind]) -> Iterator[dict[str, Any]]:
    if isinstance(data, Packed):
        yield from _streamed(data, names, kinds)
    else:
        yield csv_columns(data, names, kinds)


def _parquet_parts(data: Data, names: Sequence[str], kinds: Mapping[str, Kind]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = _types()
    try:
        file = pq.ParquetFile(io.BytesIO(whole_of(data)))
        if file.schema_arrow.names != list(names):
            raise ValueError("other columns")
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=list(kinds), use_threads=False)
            yield {
                name: table.column(name).combine_chunks().cast(types[kind], safe=False) for name, kind in kinds.items()
            }
    except (pa.ArrowException, OSError, KeyError, ValueError):
        raise ValueError("it is no Parquet file of these columns") from None


def _types() -> dict[Kind, Any]:
    import pyarrow as pa

    return {"text": pa.string(), "number": pa.float64(), "whole": pa.int64()}


def _read_csv(data: Data, names: Sequence[str], kinds: Mapping[str, Kind]) -> FileColumns | None:
    counted = kinds or {names[0]: "text"}  # how many rows there are can be told of any column
    try:
        found = csv_columns(data, names, counted)
    except ValueError:
        return None
    return _columns(found, kinds, len(found[next(iter(counted))]))


def _read_parquet(data: Data, names: Sequence[str], kinds: Mapping[str, Kind]) -> FileColumns | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = _types()
    try:
        file = pq.ParquetFile(io.BytesIO(whole_of(data)))
        if file.schema_arrow.names != list(names):
            return None
        table = file.read(columns=list(kinds), use_threads=False)
        found = {
            name: table.column(name).combine_chunks().cast(types[kind], safe=False) for name, kind in kinds.items()
        }
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None
    return _columns(found, kinds, file.metadata.num_rows)


def _columns(found: Mapping[str, Any], kinds: Mapping[str, Kind], rows: int) -> FileColumns | None:
    """The columns; None where a number is written that is none, or a text is missing."""
    texts = {name: found[name] for name, kind in kinds.items() if kind == "text"}
    values: dict[str, Floats] = {}
    for name in kinds.keys() - texts.keys():
        numbers = found[name]
        values[name] = np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
        if int(np.isnan(values[name]).sum()) != numbers.null_count:
            return None
    if any(each.null_count for each in texts.values()):
        return None
    return FileColumns(rows, texts, values)


READERS: Mapping[str, Reader] = {"csv": _read_csv, "parquet": _read_parquet}
"""By the ending of a file: its columns by all their names and the kinds of those that are asked for; None where it
cannot be read, has others, or a field is no number or no text."""


Reader = Callable[[Data, Sequence[str], Mapping[str, Kind]], "FileColumns | None"]


def csv_names(data: bytes) -> list[str] | None:
    """The names in the first line; None where it cannot be read."""
    head = io.TextIOWrapper(io.BytesIO(data[:_HEAD]), encoding="utf-8", errors="strict", newline="")
    try:
        return next(csv.reader(head, strict=True), None)
    except (ValueError, csv.Error):
        return None


def csv_columns(data: Data, names: Sequence[str], kinds: Mapping[str, Kind], most: int | None = None) -> dict[str, Any]:
    """Some columns of a CSV file.

    Args:
        data: The file; of one that is not in memory the blocks are read one after the other.
        names: The names of all its columns.
        kinds: What is asked for: texts as they are, none of them null; numbers, null where the field is empty; or whole
            numbers of 64 bits.
        most: How many rows it may have; None: any number.

    Returns:
        By name, as Arrow arrays.

    Raises:
        ValueError: If it is no CSV file in UTF-8 with these columns, a number is none, or it has more rows. No message
            names a value.
    """
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    if isinstance(data, Packed):
        return _together(_streamed(data, names, kinds), kinds, most)
    if csv_names(data) != list(names):
        raise ValueError("other columns")
    try:
        found = arrow_csv.read_csv(pa.py_buffer(data), **_options(kinds))
    except (pa.ArrowException, KeyError):
        raise ValueError(_NO_CSV) from None
    return _complete({name: found.column(name).combine_chunks() for name in kinds}, kinds)


def _together(parts: Iterator[dict[str, Any]], kinds: Mapping[str, Kind], most: int | None) -> dict[str, Any]:
    """The columns of all parts."""
    import pyarrow as pa

    rows, found = 0, {name: list[Any]() for name in kinds}
    for part in parts:
        rows += len(next(iter(part.values()), ()))
        if most is not None and rows > most:
            raise ValueError("more rows than there may be")
        for name, each in part.items():
            found[name].append(each)
    types = _types()
    return {name: pa.chunked_array(found.pop(name), type=types[kind]).combine_chunks() for name, kind in kinds.items()}


def _streamed(data: Packed, names: Sequence[str], kinds: Mapping[str, Kind]) -> Iterator[dict[str, Any]]:
    """Some columns of a large CSV file, block after block; errors as of :func:`csv_columns`."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    blocks = _Stream(data.blocks())
    if csv_names(blocks.ahead(_HEAD)) != list(names):
        raise ValueError("other columns")
    try:
        with arrow_csv.open_csv(pa.PythonFile(blocks, mode="r"), **_options(kinds)) as reader:
            for part in reader:
                yield _complete({name: part.column(name) for name in kinds}, kinds)
    except (pa.ArrowException, KeyError):
        raise ValueError(_NO_CSV) from None
    if blocks.ahead(1):
        raise ValueError(_NO_CSV)


class _Stream:
    """Blocks as a file that is read from its beginning to its end."""

    closed = False

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, b""

    def ahead(self, size: int) -> bytes:
        """The next bytes, which stay; fewer at the end."""
        parts, there = [self._left], len(self._left)
        while there < size and (block := next(self._blocks, b"")):
            parts.append(block)
            there += len(block)
        self._left = b"".join(parts)
        return self._left[:size]

    def read(self, size: int) -> bytes:
        """The next bytes; fewer than asked for at the end alone."""
        found = self.ahead(size)
        self._left = self._left[len(found) :]
        return found

    def close(self) -> None:
        """Nothing is held open."""


def _options(kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """How CSV files are read."""
    import pyarrow.csv as arrow_csv

    types = _types()
    return {
        "read_options": arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
        "parse_options": arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        "convert_options": arrow_csv.ConvertOptions(
            column_types={name: types[kind] for name, kind in kinds.items()},
            include_columns=list(kinds),
            null_values=[""],
            strings_can_be_null=False,
            quoted_strings_can_be_null=False,
        ),
    }


def _complete(columns: dict[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The columns.

    Raises:
        ValueError: If a whole number is missing.
    """
    if any(columns[name].null_count for name, kind in kinds.items() if kind == "whole"):
        raise ValueError("a number is missing")
    return columns
