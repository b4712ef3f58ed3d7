"""Sheets, columns and text as a cell can hold it, as the bytes of one XLSX file; nothing in it is ever a formula.

XlsxWriter makes the package, the styles and the table markup. The rows of large tables are written here, straight into
the sheet's XML, because one call for each cell would take minutes for half a million rows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any, Literal

from xlsxwriter import Workbook
from xlsxwriter.utility import xl_col_to_name, xl_range
from xlsxwriter.worksheet import Worksheet

from dprelease.publish.formats.cube import numbered
from dprelease.publish.html_text import moment_of, visible
from dprelease.words import phrase

__all__ = ["Cell", "Field", "Sheet", "headers", "held", "markup_names", "sheet_names", "workbook_bytes"]

_ESCAPED = re.compile(r"_(x[0-9A-Fa-f]{4}_)")
_WIDEST, _NARROWEST, _NUMBER = 50, 10, 14
_SAMPLED = 1000
_A4 = 9  # as the format counts sizes of paper
_UPRIGHT, _ACROSS = 100, 200  # letters beside one another on an upright sheet, and in small print on one turned
_EPOCH = datetime(1980, 1, 1)
_NO_CODE = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
Cell = str | float | int
_LONGEST = 16_000  # a cell holds 32,767 UTF-16 units, and a sign can be two of them
_LONGEST_HEADER = 200  # of 255
_LONGEST_NAME = 31
_RESERVED = ("History",)  # Excel keeps this name for itself


class _Streamed(Worksheet):  # type: ignore[misc]
    """A worksheet whose last rows are made as text while it is written.

    It overrides a method that XlsxWriter does not document, as ``_mark_up`` changes a value that it keeps: tests read
    the file back with another library.
    """

    dim_rowmax: int
    body: Iterator[str] = iter(())
    first_streamed = -1

    def _write_rows(self) -> None:
        last = self.dim_rowmax
        if self.first_streamed >= 0:
            self.dim_rowmax = self.first_streamed - 1
        super()._write_rows()
        self.dim_rowmax = last
        for text in self.body:
            self.fh.write(text)


class _Named(Workbook):  # type: ignore[misc]
    """A workbook that takes the names of its sheets as they are; another method that XlsxWriter does not document.

    XlsxWriter would compare each with all before it, which takes a quarter of the time where there are a thousand.
    """

    def _check_sheetname(self, sheetname: str, _: bool = False) -> str:
        return sheetname  # ``sheet_names`` made it, and none twice


def workbook_bytes(sheets: Sequence[Sheet], *, title: str, author: str, created: str) -> bytes:
    """The file; the same bytes for the same arguments and versions of XlsxWriter and zlib.

    Args:
        sheets: In order.
        title: The title of the document.
        author: The author of the document.
        created: UTC time in ISO form; anything else is written as 1980.
    """
    sink = io.BytesIO()
    workbook = _Named(sink, {"in_memory": True, **_NO_CODE})
    workbook.set_properties({"title": held(title), "author": held(author), "created": _time(created)})
    styles = _Styles(workbook)
    for sheet in sheets:
        _write(workbook.add_worksheet(sheet.name, worksheet_class=_Streamed), sheet, styles)
    workbook.close()
    return sink.getvalue()


def _time(text: str) -> datetime:
    moment = moment_of(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment and moment.tzinfo else _EPOCH


class _Styles:
    """The few formats of the workbook."""

    def __init__(self, workbook: Workbook) -> None:
        self._workbook = workbook
        self.title = workbook.add_format({"bold": True, "font_size": 15})
        self.line = workbook.add_format({})
        self.wrapped = workbook.add_format({"text_wrap": True, "valign": "top"})
        self.header = workbook.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
        self.link = workbook.get_default_url_format()
        self._numbers: dict[int | Literal["code"] | None, Any] = {}

    def number(self, decimals: int | Literal["code"] | None) -> Any:
        """The format of numbers with so many decimals, and of codes, whose digits stand in no groups."""
        if decimals not in self._numbers:
            grouped = "#,##0" + ("." + "0" * decimals if isinstance(decimals, int) and decimals else "")
            shown = "General" if decimals is None else "0" if decimals == "code" else grouped
            self._numbers[decimals] = self._workbook.add_format(
                {"num_format": shown, "valign": "top", "align": "right", "text_wrap": True}
            )
        return self._numbers[decimals]


def _write(made: Any, sheet: Sheet, styles: _Styles) -> None:
    """Write one sheet of the workbook."""
    made.write_string(0, 0, held(sheet.title), styles.title)
    for row, line in enumerate(sheet.lines, start=1):
        made.write_string(row, 0, held(line), styles.line if sheet.fields else styles.wrapped)
    top = 1 + len(sheet.lines)
    if sheet.back:
        made.write_url(top, 0, f"internal:'{sheet.back}'!A1", styles.link, phrase("Back to {sheet}", sheet=sheet.back))
        top += 1
    made.set_paper(_A4)
    made.set_footer("&L&A&R&P / &N")
    if not sheet.fields:
        made.set_column(0, 0, 100)
        made.fit_to_pages(1, 0)
        return
    widths = [*map(_width, sheet.fields)]
    _on_paper(made, sum(widths), top)
    _mark_up(made, sheet, styles, top)
    for at, width in enumerate(widths):
        made.set_column(at, at, width)
    if any(field.links for field in sheet.fields):
        _write_cells(made, sheet, styles, top + 1)
        return
    formats = [(styles.wrapped, styles.number(field.decimals)) for field in sheet.fields]
    made.first_streamed = top + 1
    made.body = _rows(sheet.fields, formats, top + 2)


def _on_paper(made: Any, wide: int, top: int) -> None:
    """Head and first column on every sheet of paper; all columns on one where they stay large enough to be read."""
    made.repeat_rows(top)
    if wide > _UPRIGHT:
        made.set_landscape()
    if wide <= _ACROSS:
        made.fit_to_pages(1, 0)
    else:
        made.repeat_columns(0)


def _mark_up(made: Any, sheet: Sheet, styles: _Styles, top: int) -> None:
    rows, columns = len(sheet.fields[0].cells), len(sheet.fields)
    made.add_table(
        top,
        0,
        top + 1,
        columns - 1,
        {
            "name": sheet.table,
            "style": "Table Style Light 1",
            "autofilter": False,
            "banded_rows": False,
            "columns": [{"header": field.header, "header_format": styles.header} for field in sheet.fields],
        },
    )
    # XlsxWriter would look at every cell of the range, to find tables that overlap.
    made.tables[-1]["range"] = xl_range(top, 0, top + rows, columns - 1)
    # Without this the file would say that the sheet ends with the header.
    made.write_blank(top + rows, columns - 1, None, styles.wrapped)


def _write_cells(made: Any, sheet: Sheet, styles: _Styles, top: int) -> None:
    for at, field in enumerate(sheet.fields):
        for row, cell in enumerate(field.cells):
            if not isinstance(cell, str):
                made.write_number(top + row, at, cell, styles.number(field.decimals))
            elif field.links:
                made.write_url(top + row, at, f"internal:'{field.links[row]}'!A1", styles.link, held(cell))
            else:
                made.write_string(top + row, at, held(cell), styles.wrapped)


def _width(field: Field) -> int:
    """Wide enough for most of its texts, which wrap beyond."""
    texts = [cell for cell in field.cells[:_SAMPLED] if isinstance(cell, str)]
    numbers = len(texts) < min(len(field.cells), _SAMPLED)
    longest = max((len(text) for text in texts), default=0)
    words = max((len(word) for word in field.header.split()), default=0)
    return min(_WIDEST, max(_NARROWEST, longest + 2, words + 2, _NUMBER if numbers else 0))


def _rows(fields: Sequence[Field], formats: Sequence[tuple[Any, Any]], first: int) -> Iterator[str]:
    """The XML of the rows; ``first`` is the number of the first one, as a reader of the sheet counts."""
    columns = []
    for at, (field, (text, number)) in enumerate(zip(fields, formats, strict=True)):
        letter = xl_col_to_name(at)
        # The numbers of styles are given out while the file is written, the same way as for any other cell.
        columns.append((f'<c r="{letter}', _tails(field.cells, text._get_xf_index(), number._get_xf_index())))
    starts = [start for start, _ in columns]
    for row, tails in enumerate(zip(*(tails for _, tails in columns), strict=True), start=first):
        cells = "".join([f"{start}{row}{tail}" for start, tail in zip(starts, tails, strict=True)])
        yield f'<row r="{row}">{cells}</row>'


def _tails(cells: Sequence[Cell], text: int, number: int) -> list[str]:
    """Each cell from behind its row number: a number, or a string inside the cell."""
    known: dict[str, str] = {}
    found = []
    for cell in cells:
        if isinstance(cell, str):
            tail = known.get(cell)
            if tail is None:
                tail = known[cell] = f'" s="{text}" t="inlineStr"><is>{_inline(cell)}</is></c>'
        else:
            tail = f'" s="{number}"><v>{cell!r}</v></c>'
        found.append(tail)
    return found


def _inline(text: str) -> str:
    """A string element: escaped, its outer spaces kept, and ``_x0041_`` not read as the sign that it stands for."""
    shown = held(text)
    kept = ' xml:space="preserve"' if shown != shown.strip() else ""
    literal = _ESCAPED.sub(r"_x005F_\1", escape(shown, quote=False))
    return f"<t{kept}>{literal}</t>"


@dataclass(frozen=True)
class Field:
    """One column of a table.

    Attributes:
        header: Unique in its table where capitals do not count.
        cells: Texts, numbers, or both; no number is NaN or infinite.
        decimals: Shown of its numbers; None: as many as there are; ``code``: whole numbers that count nothing, such as
            keys, so that 1001 is not 1,001.
        links: Names of sheets that the cells lead to, one each; empty: none.
    """

    header: str
    cells: Sequence[Cell]
    decimals: int | Literal["code"] | None = None
    links: Sequence[str] = ()


@dataclass(frozen=True)
class Sheet:
    """One worksheet: a title in A1, lines below it, then at most one table without a blank line between.

    Attributes:
        name: The name of the sheet, as ``sheet_names`` makes it.
        title: What A1 says.
        lines: One each in column A below it.
        table: The name of the table; empty: there is none.
        fields: Its columns, all of the same length, at least one cell each.
        back: The name of the sheet that the last line leads to; empty: none.
    """

    name: str
    title: str
    lines: Sequence[str]
    table: str = ""
    fields: Sequence[Field] = ()
    back: str = ""


def held(text: str) -> str:
    """The text as a cell can hold it: hidden signs written out, no longer than fits, and never markup.

    XlsxWriter takes a text that begins with ``<r>`` and ends with ``</r>`` for XML of its own and copies it into the
    file; a space behind it keeps it text.

    >>> held("=1+1"), held("a" + chr(0xFFFF)), held("<r><t>x</t></r>")
    ('=1+1', 'a[U+FFFF]', '<r><t>x</t></r> ')
    """
    shown = visible(text).replace("\ufffe", "[U+FFFE]").replace("\uffff", "[U+FFFF]")
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]} {phrase('[cut: the whole text is in the CSV file]')}"
    return f"{shown} " if shown.startswith("<r>") and shown.endswith("</r>") else shown


def headers(names: Sequence[str]) -> list[str]:
    """Names of columns as the headers of a table: none empty, none twice where capitals do not count, none an escape.

    >>> headers(["a", "A", "", "_x0041_"])
    ['a', 'A_2', 'column 3', '_ x0041_']
    """
    found = []
    for number, name in enumerate(names, start=1):
        text = re.sub(r"_(x[0-9A-Fa-f]{4}_)", r"_ \1", " ".join(held(name).split()))[:_LONGEST_HEADER]
        found.append(text or phrase("column {number}", number=number))
    return numbered(found)


def sheet_names(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Names of sheets: at most 31 signs, none that Excel refuses, none twice where capitals do not count.

    >>> sheet_names(["visits", "Visits", "history", "a/b", "x" * 40])[1:]
    ['Visits-2', 'history-2', 'a_b', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx']
    """
    seen = {name.lower() for name in (*taken, *_RESERVED)}
    found = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name).strip() or "table"
        made, number = plain[:_LONGEST_NAME], 1
        while made.lower() in seen:
            number += 1
            ending = f"-{number}"
            made = plain[: _LONGEST_NAME - len(ending)] + ending
        seen.add(made.lower())
        found.append(made)
    return found


def markup_names(names: Sequence[str]) -> list[str]:
    """Names of marked-up tables: letters, digits, ``.`` and ``_``, none like the address of a cell, none twice.

    >>> markup_names(["visits-by-day", "visits_by_day", "a1"])
    ['table_visits_by_day', 'table_visits_by_day_2', 'table_a1']
    """
    return numbered([f"table_{re.sub(r'[^A-Za-z0-9._]', '_', name)}"[:_LONGEST_HEADER] for name in names])
