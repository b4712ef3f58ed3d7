"""What of the tables stands on ``index.html``, and what on pages of their own; known from keys and the plan alone.

The limits: no page is planned to be larger than 2 MB. A page holds at most 2,000 rows of one table. On the index stands
every table of up to 200 rows whole and the first 50 rows of every longer one, as long as there are at most 40 tables
and the page stays small enough; else the index lists the tables by name, and every one of them has a page. A table that
is not whole on the index is whole on ``pages/<table>.html``, ``pages/<table>-2.html`` and so on.

Sizes are estimated from above, not measured, so that noise decides neither the number of pages nor their names: a
number with its margin is taken to need 200 bytes, which is enough for numbers of up to 15 digits. A page has at least
one row, however many measures that row has; the list of the index can hold about 4,000 tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedTable
from dprelease.publish.base import key_text
from dprelease.publish.site.chart import MOST_BARS
from dprelease.publish.site.pages import inert

__all__ = ["FIRST", "LARGEST_PAGE", "MOST_ROWS", "MOST_TABLES", "WHOLE", "Page", "Paged", "paged"]

LARGEST_PAGE = 2_000_000
MOST_ROWS = 2_000
WHOLE, FIRST, MOST_TABLES = 200, 50, 40
_FRAME = 120_000  # of a page without tables: style sheet, explanations, a list of files
_NUMBER, _BAR, _WORDS, _MEANING = 200, 900, 6_000, 400


@dataclass(frozen=True)
class Page:
    """Rows of one table on a page of their own: from ``first`` to ``last`` (from 0, ``last`` not among them)."""

    path: str
    first: int
    last: int


@dataclass(frozen=True)
class Paged:
    """Where a table is: so many rows on the index (None: only its name), and its pages (none: it is whole there)."""

    rows: int | None
    pages: tuple[Page, ...]


def paged(tables: Sequence[PublishedTable]) -> tuple[Paged, ...]:
    """The place of every table, in their order."""
    widths = [_width(table) for table in tables]
    on_index = [table.cells if table.cells <= WHOLE else FIRST for table in tables]
    size = sum(map(_around, tables))
    size += sum(width * rows for width, rows in zip(widths, on_index, strict=True))
    listed = len(tables) > MOST_TABLES or size > LARGEST_PAGE - _FRAME
    names = {table.name.lower() for table in tables}
    found = []
    for table, width, rows in zip(tables, widths, on_index, strict=True):
        room = LARGEST_PAGE - _FRAME - _around(table)
        pages = _pages(table, max(1, min(MOST_ROWS, room // width)), names) if listed or rows < table.cells else ()
        found.append(Paged(None if listed else rows, pages))
    return tuple(found)


def _pages(table: PublishedTable, rows: int, names: set[str]) -> tuple[Page, ...]:
    starts = range(0, max(table.cells, 1), rows)
    taken = any(f"{table.name}-{at}".lower() in names for at in range(2, len(starts) + 1))
    mark = "." if taken else "-"  # a query can be called a-2; none has a dot in its name
    return tuple(
        Page(f"pages/{table.name}{f'{mark}{at}' if at > 1 else ''}.html", start, min(start + rows, table.cells))
        for at, start in enumerate(starts, start=1)
    )


def _width(table: PublishedTable) -> int:
    """Bytes of a row, at most."""
    keys = sum(map(_widest, table.key_columns, table.keys))
    return 40 + keys + _NUMBER * len(table.measures)


def _widest(column: Column, keys: Sequence[Key]) -> int:
    """Bytes of a header cell, at most; a sign that is written out takes up to eight for each of its own."""
    codes = {key_text(key) for key in keys}
    texts = [f"{column.labels[code]}{code}" if code in column.labels else code for code in codes]
    together = "".join(texts)
    longest = max((len(text.encode()) for text in texts), default=0)
    return 70 + longest * (1 if inert(together) == together else 8)


def _around(table: PublishedTable) -> int:
    """Bytes of what stands around the rows of a table, its charts above all, at most."""
    charts = _BAR * table.cells * len(table.measures) if table.cells <= MOST_BARS else 0
    return _WORDS + _MEANING * len(table.measures) + charts
