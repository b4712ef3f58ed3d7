"""What a workbook is made of: sheets, columns, and text as a cell can hold it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dprelease.publish.formats.cube import numbered
from dprelease.publish.html_text import visible

__all__ = ["Cell", "Field", "Sheet", "headers", "held", "sheet_names", "table_names"]

Cell = str | float | int
_LONGEST = 16_000  # a cell holds 32,767 UTF-16 units, and a sign can be two of them
_LONGEST_HEADER = 200  # of 255
_LONGEST_NAME = 31
_RESERVED = ("History",)  # Excel keeps this name for itself


@dataclass(frozen=True)
class Field:
    """One column of a table.

    Attributes:
        header: Unique in its table where capitals do not count.
        cells: Texts, numbers, or both; no number is NaN or infinite.
        decimals: Shown of its numbers; None: as many as there are.
        links: Names of sheets that the cells lead to, one each; empty: none.
    """

    header: str
    cells: Sequence[Cell]
    decimals: int | None = None
    links: Sequence[str] = ()


@dataclass(frozen=True)
class Sheet:
    """One worksheet: a title in A1, lines below it, then at most one table without a blank line between.

    Attributes:
        name: Of the sheet, as ``sheet_names`` makes it.
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
        shown = f"{shown[:_LONGEST]} [cut: the whole text is in the CSV file]"
    return f"{shown} " if shown.startswith("<r>") and shown.endswith("</r>") else shown


def headers(names: Sequence[str]) -> list[str]:
    """Names of columns as the headers of a table: none empty, none twice where capitals do not count, none an escape.

    >>> headers(["a", "A", "", "_x0041_"])
    ['a', 'A_2', 'column 3', '_ x0041_']
    """
    found = []
    for number, name in enumerate(names, start=1):
        text = re.sub(r"_(x[0-9A-Fa-f]{4}_)", r"_ \1", " ".join(held(name).split()))[:_LONGEST_HEADER]
        found.append(text or f"column {number}")
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


def table_names(names: Sequence[str]) -> list[str]:
    """Names of marked-up tables: letters, digits, ``.`` and ``_``, none like the address of a cell, none twice.

    >>> table_names(["visits-by-day", "visits_by_day", "a1"])
    ['table_visits_by_day', 'table_visits_by_day_2', 'table_a1']
    """
    return numbered([f"table_{re.sub(r'[^A-Za-z0-9._]', '_', name)}"[:_LONGEST_HEADER] for name in names])
