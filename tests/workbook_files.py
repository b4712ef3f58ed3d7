"""Excel workbooks for tests: written by ``xlsxwriter``, and read by ``openpyxl`` where a second reader is asked."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import xlsxwriter

__all__ = ["cells_of", "workbook", "write_columns"]


def workbook(*sheets: Sequence[Sequence[Any]], hidden: Sequence[int] = (), date_format: str = "yyyy-mm-dd") -> bytes:
    """Rows of sheets, from the first cell of each: texts, numbers, truth values, days and moments; None is empty."""
    data = io.BytesIO()
    words = {"default_date_format": date_format, "strings_to_formulas": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(data, words) as book:
        for at, rows in enumerate(sheets):
            sheet = book.add_worksheet()
            if at in hidden:
                sheet.hide()
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    return data.getvalue()


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """One sheet with a name above each column."""
    path.write_bytes(
        workbook([list(columns), *zip(*columns.values(), strict=True)], date_format="yyyy-mm-dd hh:mm:ss.000")
    )


def cells_of(path: Path) -> Iterator[list[Any]]:
    """The lines below the first one that have a value: texts, numbers, truth values, days, moments, None."""
    (sheet,) = [each for each in openpyxl.load_workbook(path, data_only=True).worksheets if each.max_row > 1]
    for line in sheet.iter_rows(min_row=2, values_only=True):
        if any(cell is not None for cell in line):
            yield [cell.date() if _is_day(cell) else cell for cell in line]


def _is_day(cell: Any) -> bool:
    return isinstance(cell, dt.datetime) and cell.time() == dt.time()
