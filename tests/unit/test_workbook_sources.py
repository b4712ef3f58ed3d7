"""Excel workbooks as sources: a cell is read by what it holds itself, and what is no such file is refused unseen."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from dprelease.catalog.table import Column, ColumnType, Source, Table
from dprelease.engines.files.fingerprint import no_rows
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.engines.files.rows import typed
from dprelease.engines.files.statistical import process
from dprelease.errors import MissingExtra
from tests.conformance.reference_values import id_of, text_of, value_of
from tests.workbook_files import cells_of, workbook, write_columns

FORM = FILE_FORMATS["xlsx"]
TYPES: tuple[ColumnType, ...] = get_args(ColumnType)
CELLS = [
    *("06", "6", " 6 ", "true", "2024-02-29", "2024-02-29T10:00:00", "é\u202e", "=1+1", "N", "1,5", "x" * 3000, None),
    *(6, 6.0, -7, 0.1, 2.5, 123456.789, 1e22, -1.7e307, 5e-324, -0.0, 15400, 2.0**53, 2.0**62, 1e-7),
    *(True, False, dt.datetime(2024, 2, 29), dt.datetime(1900, 3, 1), dt.datetime(9999, 12, 31)),
    *(dt.datetime(2024, 2, 29, 10, 0, 0, 500_000), dt.datetime(2024, 3, 31, 2, 30, 0, 123_000)),
]


def table_of(kind: ColumnType = "text", name: str = "c") -> Table:
    source = Source(file="t.xlsx", format="xlsx")
    return Table(name="t", account="a", source=source, columns=(Column(name=name, type=kind),))


def column(path: Path, kind: ColumnType = "text", name: str = "c") -> Any:
    table = table_of(kind, name)
    names = FORM.names(table.files, path)
    assert names is not None, FORM.advice(table.files, path, ())
    return pa.concat_arrays([block[0] for block in FORM.blocks(table, path, names, [name], ())])


def why_not(path: Path) -> str:
    source = table_of().files
    assert FORM.names(source, path) is None
    advice = FORM.advice(source, path, ["c"])
    assert advice is not None
    return " -> ".join(advice)


@pytest.mark.parametrize("kind", TYPES)
def test_every_cell_under_every_declared_type_means_what_its_text_means(kind: ColumnType, tmp_path: Path) -> None:
    """All in one column, so that no cell decides how another is read; ``openpyxl`` says what they hold."""
    path = tmp_path / "t.xlsx"
    write_columns(path, {"other": list(range(len(CELLS))), "c": CELLS})
    cells = [row[1] for row in cells_of(path)]
    assert len(cells) == len(CELLS)
    declared, stored = Column(name="c", type=kind), column(path, kind)
    for nulls in ((), ("N", "6", "2024-02-29")):
        expected = [value_of(declared, _text(cell, declared), nulls) for cell in cells]
        assert typed(declared, stored, nulls).to_pylist() == expected
    as_id = id_of if kind == "text" else _text
    ids = [
        value_of(declared, as_id(cell, declared) if isinstance(cell, str) else _text(cell, declared), ())
        for cell in cells
    ]
    assert typed(declared, stored, unit=True).to_pylist() == ids


def _text(cell: Any, declared: Column) -> str | None:
    """A day is also the moment that it begins."""
    if isinstance(cell, dt.date) and not isinstance(cell, dt.datetime) and declared.type != "date":
        cell = dt.datetime(cell.year, cell.month, cell.day)
    return text_of(float(cell) if type(cell) is int else cell, declared)


def test_a_sheet_may_begin_anywhere_and_lines_without_a_value_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.write_bytes(
        workbook([[], [], [None, "a", "c"], [], [None, 1, "x"], [None] * 3, [None, None, "y", "beyond"], []])
    )
    assert FORM.names(table_of().files, path) == ("a", "c", "")
    assert column(path).to_pylist() == [b"x", b"y"]
    assert process.dictionary_of("xlsx", path).rows == 2
    assert not no_rows(table_of().files, path.read_bytes())
    path.write_bytes(workbook([["a", "c"]]))
    assert no_rows(table_of().files, path.read_bytes())


def test_times_of_day_and_errors_are_null(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    data = workbook([["c", "k"], [dt.time(12, 30), 1], ["ERROR", 1], [3, 1]])
    held = zipfile.ZipFile(io.BytesIO(data))
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as book:
        for name in held.namelist():
            text = held.read(name)
            if name == "xl/worksheets/sheet1.xml":
                at = text.index(b'<c r="A3"')
                text = text[:at] + b'<c r="A3" t="e"><v>#N/A</v></c>' + text[text.index(b"</c>", at) + 4 :]
            book.writestr(name, text)
    path.write_bytes(changed.getvalue())
    assert column(path).to_pylist() == [None, None, b"3"]


def _with_value_at_the_end() -> bytes:
    rows: list[Sequence[Any]] = [["c"]]
    data = workbook(rows)
    held, changed = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(changed, "w") as book:
        for name in held.namelist():
            text = held.read(name)
            if name == "xl/worksheets/sheet1.xml":
                text = text.replace(b"</sheetData>", b'<row r="1048576"><c r="A1048576"><v>7</v></c></row></sheetData>')
                text = text.replace(b'<dimension ref="A1"/>', b'<dimension ref="A1:A1048576"/>')
            book.writestr(name, text)
    return changed.getvalue()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (workbook([["c"], ["CANARY"]], [["CANARY"]], hidden=[1]), "more than one, hidden ones counted"),
        (workbook([], []), "no sheet with values"),
        (workbook([["c", "c"], ["CANARY", 1]]), "two columns of one name"),
        (workbook([["c"], ["CANARY"]])[:-100], "begins like"),
        (b"PK\x03\x04CANARY", "damaged"),
        (b"c\nCANARY\n", "damaged"),
        (b"", "damaged"),
        (_with_value_at_the_end(), "full to its last line"),
    ],
)
def test_what_is_no_such_workbook_is_refused_and_nothing_of_it_is_told(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.write_bytes(data)
    said = why_not(path)
    assert says in said or (says == "begins like" and "damaged" in said)
    assert "CANARY" not in said


def test_a_name_in_other_letters_is_told_by_its_spelling(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    write_columns(path, {"C": [1]})
    advice = FORM.advice(table_of().files, path, ["c"])
    assert advice is not None
    assert "case" in " ".join(advice)


def test_a_missing_package_is_told_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.xlsx"
    write_columns(path, {"c": [1]})
    monkeypatch.setattr(process, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"DPR-X107.*python-calamine"):
        FORM.names(table_of().files, path)
