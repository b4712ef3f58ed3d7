"""The tables of a bundle as columns, from CSV and from Parquet alike, without a Python object for each cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["READERS", "FileColumns", "Kind", "csv_columns", "csv_names", "same_texts"]

Floats = npt.NDArray[np.float64]
Kind = Literal["text", "number", "whole"]
_HEAD = 1 << 20  # bytes among which the header is
_BLOCK = 1 << 24  # bytes that are parsed together; no line is longer


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


def _read_csv(data: bytes, names: Sequence[str], kinds: Mapping[str, Kind]) -> FileColumns | None:
    counted = kinds or {names[0]: "text"}  # how many rows there are can be told of any column
    try:
        found = csv_columns(data, names, counted)
    except ValueError:
        return None
    return _columns(found, kinds, len(found[next(iter(counted))]))


def _read_parquet(data: bytes, names: Sequence[str], kinds: Mapping[str, Kind]) -> FileColumns | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"text": pa.string(), "number": pa.float64(), "whole": pa.int64()}
    try:
        file = pq.ParquetFile(io.BytesIO(data))
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


Reader = Callable[[bytes, Sequence[str], Mapping[str, Kind]], "FileColumns | None"]


def csv_names(data: bytes) -> list[str] | None:
    """The names in the first line; None where it cannot be read."""
    head = io.TextIOWrapper(io.BytesIO(data[:_HEAD]), encoding="utf-8", errors="strict", newline="")
    try:
        return next(csv.reader(head, strict=True), None)
    except (ValueError, csv.Error):
        return None


def csv_columns(data: bytes, names: Sequence[str], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Some columns of a CSV file.

    Args:
        data: The file.
        names: The names of all its columns.
        kinds: What is asked for: texts as they are, none of them null; numbers, null where the field is empty; or whole
            numbers of 64 bits.

    Returns:
        By name, as Arrow arrays.

    Raises:
        ValueError: If it is no CSV file in UTF-8 with these columns, or a number is none. No message names a value.
    """
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    if csv_names(data) != list(names):
        raise ValueError("other columns")
    types = {"text": pa.string(), "number": pa.float64(), "whole": pa.int64()}
    try:
        found = arrow_csv.read_csv(
            pa.py_buffer(data),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: types[kind] for name, kind in kinds.items()},
                include_columns=list(kinds),
                null_values=[""],
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, KeyError):
        raise ValueError("it is no CSV file of these columns") from None
    columns = {name: found.column(name).combine_chunks() for name in kinds}
    if any(columns[name].null_count for name, kind in kinds.items() if kind == "whole"):
        raise ValueError("a number is missing")
    return columns
