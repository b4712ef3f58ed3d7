"""A workbook as a public reference: what a CSV of the same table says, or a refusal that quotes nothing."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from dprelease.catalog.reference import ReferenceFileError, ReferenceTable, read_reference
from dprelease.catalog.table import ColumnType
from dprelease.errors import MissingExtra
from tests.workbook_files import workbook

COLUMNS: Mapping[str, ColumnType] = {"code": "text", "size": "integer", "since": "date", "open": "boolean"}
HEADER = ["code", "size", "since", "open", "note"]
ROWS = [["06", 6, dt.date(2024, 2, 29), True, 1.5], ["A", -7, dt.date(1900, 3, 1), False, None]]


def read(data: bytes, columns: Mapping[str, ColumnType] = COLUMNS) -> ReferenceTable:
    return read_reference(data, columns, "places.XLSX")


def test_it_says_what_a_csv_says() -> None:
    text = "code,size,since,open,note\n06,6,2024-02-29,true,x\n\nA,-7,1900-03-01,false,\n"
    assert read(workbook([HEADER, ROWS[0], [], ROWS[1]])) == read_reference(text.encode(), COLUMNS, "places.csv")
    assert read(workbook([HEADER, *ROWS], [])).keys("code") == ("06", "A")


def test_texts_are_read_under_the_declared_type() -> None:
    assert read(workbook([HEADER, ["06", "6", "2024-02-29", "true", ""]])).columns["size"] == (6,)


@pytest.mark.parametrize(
    ("column", "cell", "says"),
    [
        (0, 6, "format the column as text"), (0, True, "a cell that is no text"), (1, 6.5, "no integer"),
        (1, dt.date(2024, 2, 29), "no integer"), (1, "CANARY", "not of type integer"), (2, 45351, "no date"),
        (2, dt.datetime(2024, 2, 29, 5, 6), "no date"), (2, "29.2.2024", "not of type date"), (3, 1, "no boolean"),
        (1, None, "not of type integer"),
    ],
)  # fmt: skip
def test_a_cell_of_another_type_is_refused_by_column_and_line(column: int, cell: Any, says: str) -> None:
    row = [*ROWS[0][:column], cell, *ROWS[0][column + 1 :]]
    with pytest.raises(ReferenceFileError, match=says) as caught:
        read(workbook([HEADER, ROWS[1], row]))
    assert f"column '{HEADER[column]}', line 3" in str(caught.value)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (workbook([HEADER, *ROWS], [["CANARY"]], hidden=[1]), "2 sheets with values, hidden ones counted"),
        (workbook([], []), "0 sheets with values"),
        (workbook([["code", "CANARY"], ["06", 1]]), "no column 'size'"),
        (workbook([HEADER, [*ROWS[0], "CANARY"]]), "line 2 has a value in a column without a name"),
        (b"code,size\n06,CANARY\n", "no Excel workbook"),
        (b"PK\x03\x04CANARY", "no Excel workbook"),
        (b"", "no Excel workbook"),
        (workbook([HEADER, *ROWS])[:-100], "no Excel workbook"),
    ],
)
def test_what_is_no_such_workbook_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ReferenceFileError, match=says) as caught:
        read(data)
    assert "CANARY" not in str(caught.value).replace("the file has: code, CANARY", "")


def test_a_workbook_named_csv_is_no_csv() -> None:
    with pytest.raises(ReferenceFileError, match=r"not UTF-8|not CSV"):
        read_reference(workbook([HEADER, *ROWS]), COLUMNS, "places.csv")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtra) as caught:
        read(workbook([HEADER, *ROWS]))
    assert (caught.value.code, caught.value.exit_code) == ("DPR-X107", 9)
    assert "dprelease[excel]" in caught.value.hint
