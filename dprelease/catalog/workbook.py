"""A public reference in an Excel workbook: the rows of its only sheet as the texts that a CSV would have.

A workbook is read as strictly as a CSV. A cell has a type of its own, which may not be the one that a reader sees: what
is shown as 06 can be the number 6. So a number is no text, and a column of codes must be formatted as text. No formula
is worked out: what counts is the value that was saved with it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time

from dprelease.catalog.table import ColumnType
from dprelease.errors import MissingExtra

__all__ = ["WORKBOOK", "WorkbookError", "workbook_rows"]

WORKBOOK = ".xlsx"
"""The ending of the workbooks that are read."""


class WorkbookError(ValueError):
    """A workbook is not read as a reference; the message quotes nothing of it."""


def workbook_rows(data: bytes, columns: Mapping[str, ColumnType]) -> list[list[str]]:
    """The rows of the sheet as texts, the names of the columns first; a row without a value is an empty list.

    Args:
        data: The bytes of the file.
        columns: The declared columns; what others hold does not matter.

    Raises:
        WorkbookError: If it is no workbook, has not exactly one sheet with values, or a cell of a declared column is of
            another type than the column.
        MissingExtra: If ``python-calamine`` is not installed (DPR-X107).
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError as error:
        raise MissingExtra(
            "a reference that is an Excel workbook is read by python-calamine, which is not installed",
            hint='pip install "dprelease[excel]", or save the sheet as CSV in UTF-8 and name that file',
            code="DPR-X107",
        ) from error
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        sheets = [book.get_sheet_by_index(at).to_python(skip_empty_area=False) for at in range(len(book.sheet_names))]
    except CalamineError as error:
        raise WorkbookError("no Excel workbook") from error
    filled = [sheet for sheet in sheets if any(cell != "" for row in sheet for cell in row)]
    if len(filled) != 1:
        raise WorkbookError(f"{len(filled)} sheets with values, hidden ones counted: a reference has one")
    header = [cell if isinstance(cell, str) else "" for cell in filled[0][0]]
    width = max((at for at, name in enumerate(header, start=1) if name), default=0)
    rows = [header[:width]]
    for number, row in enumerate(filled[0][1:], start=2):
        if any(cell != "" for cell in row[width:]):
            raise WorkbookError(f"line {number} has a value in a column without a name")
        blank = all(cell == "" for cell in row)
        rows.append([] if blank else _texts(row[:width], header, columns, number))
    return rows


def _texts(row: Sequence[object], header: Sequence[str], columns: Mapping[str, ColumnType], number: int) -> list[str]:
    texts = []
    for name, cell in zip(header, row, strict=False):
        kind = columns.get(name)
        text = "" if kind is None else _text(cell, kind)
        if text is None:
            hint = ": format the column as text, for a number keeps no zeros before it" if kind == "text" else ""
            raise WorkbookError(f"column {name!r}, line {number}: a cell that is no {kind}{hint}")
        texts.append(text)
    return texts


def _text(cell: object, kind: ColumnType) -> str | None:
    """What a CSV would have in a column of this type; None where the cell is of another one."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower() if kind == "boolean" else None
    if isinstance(cell, int | float):
        return str(int(cell)) if kind == "integer" and cell == int(cell) else None
    if kind != "date" or not isinstance(cell, date):
        return None
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else None
    return cell.isoformat()
