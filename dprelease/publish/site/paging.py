"""What of the tables stands on ``index.html``, and what on pages of their own; known from keys and the plan alone.

The limits: no page is planned to be larger than 2 MB, and none of one table than 1 MB. A page holds at most 2,000 rows
of one table. On the index stands every table of up to 200 rows whole and the first 50 rows of every longer one, as long
as there are at most 40 tables and the page stays small enough; else the index lists the tables by name, and every one
of them has a page. The tables of a workload always have pages of their own; up to four small ones stand on the index
as well. A table that is not whole on the index is on ``pages/<table>.html``, ``pages/<table>-2.html`` and so on: whole,
if it has at most 100,000 rows, else with its first 2,000 rows; its files have the others. In all tables together there
are at most 500,000 rows on such pages: where there would be more, the limit of 100,000 is lowered step by step, to 50
in the end.

Sizes are estimated from above, not measured, so that noise decides neither the number of pages nor their names: a
number with its margin is taken to need 200 bytes, which is enough for numbers of up to 15 digits. A page has at least
one row, however many measures that row has; the list of the index can hold about 4,000 tables.

From the third layout on (``publish.layout`` of the plan), tables of up to 200 rows that the index only lists share
pages: ``pages/1.html`` and so on, each with up to 50 of them. No name of a table begins with a digit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedTable
from dprelease.estimate.keys import coded
from dprelease.publish.base import key_as_text
from dprelease.publish.html_text import inert
from dprelease.publish.site.chart import most_bars

__all__ = [
    "FIRST", "LARGEST_OF_TABLE", "LARGEST_PAGE", "MOST_IN_ALL", "MOST_ROWS", "MOST_TABLES", "MOST_WHOLE", "WHOLE",
    "Page", "Paged", "page_path", "paged",
]  # fmt: skip

LARGEST_PAGE = 2_000_000
LARGEST_OF_TABLE = 1_000_000
MOST_ROWS = 2_000
WHOLE, FIRST, MOST_TABLES = 200, 50, 40
MOST_SHARING = 50  # tables of a page
MOST_IN_ALL = 500_000  # rows on pages of tables, in all of them together
# Rows of a table that is whole on its pages.
MOST_WHOLE = (100_000, 50_000, 10_000, MOST_ROWS, 1_000, 500, 200, 100, FIRST)
_LONGEST_NAME = 80  # of a file, before its ending; with it a bundle's path may have 100 signs
_FRAME = 120_000  # of a page without tables: style sheet, explanations, a list of files
_FRONT = 300_000  # of the index: four tables of workloads with up to 60 rows, with their charts
_NUMBER, _BAR, _WORDS, _MEANING = 200, 900, 6_000, 400


@dataclass(frozen=True)
class Page:
    """Rows of one table on a page of their own: from ``first`` to ``last`` (from 0, ``last`` not among them)."""

    path: str
    first: int
    last: int


@dataclass(frozen=True)
class Paged:
    """Where a table is: so many rows on the index (None: only its name), and its pages (none: it is whole there).

    ``shared``: its one page holds other tables as well.
    """

    rows: int | None
    pages: tuple[Page, ...]
    shared: bool = False


def paged(tables: Sequence[PublishedTable], apart: Collection[str] = (), *, sharing: bool = False) -> tuple[Paged, ...]:
    """The place of every table, in their order.

    Args:
        tables: All of them.
        apart: Names of those that stand on pages of their own, whatever their size.
        sharing: Whether small tables that the index does not show share pages.
    """
    shown = _on_pages([table.cells for table in tables])
    widths = [_width(table, rows) for table, rows in zip(tables, shown, strict=True)]
    on_index = [0 if table.name in apart else table.cells if table.cells <= WHOLE else FIRST for table in tables]
    others = [table for table in tables if table.name not in apart]
    size = sum(map(_around, others)) + sum(width * rows for width, rows in zip(widths, on_index, strict=True))
    first = _FRONT if apart else 0
    listed = len(others) > MOST_TABLES or size > LARGEST_PAGE - _FRAME - first
    names = {table.name.lower() for table in tables}
    found = []
    for table, width, here, there in zip(tables, widths, on_index, shown, strict=True):
        named = listed or table.name in apart
        room = LARGEST_OF_TABLE - _FRAME - _around(table)
        most = max(1, min(MOST_ROWS, room // width))
        pages = _pages(table.name, there, most, names) if named or here < table.cells else ()
        found.append(Paged(None if named else here, pages))
    if sharing and listed:
        small = [at for at, table in enumerate(tables) if table.cells <= WHOLE and table.name not in apart]
        sizes = {at: _around(tables[at]) + widths[at] * tables[at].cells for at in small}
        for number, run in enumerate(_runs(sizes), start=1):
            for at in run:
                found[at] = Paged(None, (Page(page_path(str(number)), 0, tables[at].cells),), shared=True)
    return tuple(found)


def _runs(sizes: Mapping[int, int]) -> list[list[int]]:
    """Places of tables that share a page each, by their bytes: as many as there is room for."""
    runs: list[list[int]] = []
    room = 0
    for at, size in sizes.items():
        if not runs or len(runs[-1]) == MOST_SHARING or size > room:
            runs.append([])
            room = LARGEST_PAGE - _FRAME
        runs[-1].append(at)
        room -= size
    return runs


def page_path(name: str, mark: str = "") -> str:
    """The page of a name; a long one is cut, and told from others by its hash.

    >>> page_path("income"), page_path("income", "-2")
    ('pages/income.html', 'pages/income-2.html')
    >>> page_path(80 * "a" + "b")
    'pages/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.e3edc30f.html'
    """
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 10]}.{sha256(name.encode()).hexdigest()[:8]}"
    return f"pages/{name}{mark}.html"


def _on_pages(cells: Sequence[int]) -> list[int]:
    """How many rows of each table its pages hold: all of them, or the first ones."""
    for whole in MOST_WHOLE:
        found = [each if each <= whole else min(whole, MOST_ROWS) for each in cells]
        if sum(found) <= MOST_IN_ALL:
            break
    return found


def _pages(name: str, shown: int, rows: int, names: set[str]) -> tuple[Page, ...]:
    starts = range(0, max(shown, 1), rows)
    taken = any(f"{name}-{at}".lower() in names for at in range(2, len(starts) + 1))
    mark = "." if taken else "-"  # a query can be called a-2; none has a dot in its name
    return tuple(
        Page(page_path(name, f"{mark}{at}" if at > 1 else ""), start, min(start + rows, shown))
        for at, start in enumerate(starts, start=1)
    )


def _width(table: PublishedTable, shown: int) -> int:
    """Bytes of a row, at most, of the first ``shown`` ones."""
    keys = sum(_widest(column, keys[:shown]) for column, keys in zip(table.key_columns, table.keys, strict=True))
    numbers = sum(1 if each.unadjusted is None else 2 for each in table.measures)
    return (40 + keys) * max(1, len(table.measures)) + _NUMBER * numbers  # keys stand again in each part


def _widest(column: Column, keys: Sequence[Key]) -> int:
    """Bytes of a header cell, at most; a sign that is written out takes up to eight for each of its own."""
    part = coded(keys)
    codes = {key_as_text(part.keys[code]) for code in set(part.codes.tolist())}
    texts = [f"{column.labels[code]}{code}" if code in column.labels else code for code in codes]
    together = "".join(texts)
    longest = max((len(text.encode()) for text in texts), default=0)
    return 70 + longest * (1 if inert(together) == together else 8)


def _around(table: PublishedTable) -> int:
    """Bytes of what stands around the rows of a table, its charts above all, at most."""
    return _WORDS + _MEANING * len(table.measures) + _BAR * most_bars(table)
