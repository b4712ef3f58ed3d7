"""CSV files of a bundle as columns, read without a Python object for each cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

__all__ = ["Kind", "csv_columns", "csv_names"]

Kind = Literal["text", "number", "whole"]
_HEAD = 1 << 20  # bytes among which the header is
_BLOCK = 1 << 24  # bytes that are parsed together; no line is longer


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
        names: Of all its columns.
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
