"""A table of a product over all of its periods: a page with a line for each number and every row, and two files.

Pure. What it shows was published by the bundles; of each period the newest publication. Which tables have a page, and
all names of files, follow from plans and manifests; rows are united by their keys, those of the newest period first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, get_args

from markupsafe import Markup

from dprelease.catalog.table import Column
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import table_names
from dprelease.publish.formats.all_periods import Row, StackedTable, TableOfPeriod, stacked_over_periods
from dprelease.publish.formats.filed import FiledTable, filed_table
from dprelease.publish.products.series import Numbers, Point, SeriesTable, drawn_over, of_all_periods, point_of
from dprelease.publish.site.cells import key_cell
from dprelease.spec.period import Per, containing, is_a, span
from dprelease.words import amount, phrase

__all__ = ["FOLDER", "MOST_TABLES", "OverPeriods", "PeriodOfProduct", "in_order", "tables_of"]

FOLDER = "@periods"  # below that of a product: no period has a folder of this name, for `@` would be written `%40`
MOST_TABLES = 40
_MOST_PANELS = 96
_MOST_LINES = 2_000  # of the table on a page


@dataclass(frozen=True)
class PeriodOfProduct:
    """One period of a product.

    Attributes:
        period: Its name.
        plan: Of its newest publication.
        shown: The same in the words of the language that is spoken.
        numbers: Of its tables what their CSV files have.
        front: The address of its front page.
    """

    period: str
    plan: ReleasePlan
    shown: ReleasePlan
    numbers: Numbers
    front: str

    def filed(self, table: str) -> FiledTable:
        """One of its tables by name."""
        return filed_table(self.plan, table)

    def in_words(self, table: str) -> FiledTable:
        """The same in the words of the language that is spoken."""
        return filed_table(self.shown, table)


def in_order(periods: Sequence[str]) -> list[str]:
    """Periods by their days, the newest first; as they are given where one of them is none of the calendar."""
    days = {period: found for period in periods if (found := span(period)) is not None}
    return sorted(periods, key=lambda each: days[each], reverse=True) if len(days) == len(periods) else list(periods)


def tables_of(plans: Sequence[ReleasePlan]) -> tuple[str, ...]:
    """The tables of a product, those of its newest period first, of a period its queries before those made by SQL.

    Of names that differ in capitals there is only the first one.

    Args:
        plans: The newest first.
    """
    found: dict[str, str] = {}
    for plan in plans:
        for name in table_names(plan):
            found.setdefault(name.lower(), name)
    return tuple(found.values())[:MOST_TABLES]


class OverPeriods:
    """One table of a product over its periods.

    Args:
        name: Of the table.
        periods: Those that have it, the newest first; two or more.
        every: All periods of the product, the newest first.
    """

    def __init__(self, name: str, periods: Sequence[PeriodOfProduct], every: Sequence[str]) -> None:
        self.name, self.periods, self._every = name, tuple(periods), tuple(every)

    @cached_property
    def _filed(self) -> dict[str, FiledTable]:
        """The table as each period's files have it."""
        return {each.period: each.filed(self.name) for each in self.periods}

    @cached_property
    def _in_words(self) -> dict[str, FiledTable]:
        """The same in the words of the language that is spoken."""
        return {each.period: each.in_words(self.name) for each in self.periods}

    @cached_property
    def stacked(self) -> StackedTable:
        """All rows as one table."""
        return stacked_over_periods(
            [TableOfPeriod(each.period, self._filed[each.period], self._rows(each)) for each in self.periods]
        )

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The files with all rows, each with its name."""
        newest = self.periods[0]
        told = {
            "title": of_all_periods(self._filed[newest.period].title, newest.period),
            "release": newest.plan.release.name,
            "periods": ", ".join(each.period for each in reversed(self.periods)),
            "confidence": ", ".join(dict.fromkeys(str(each.plan.publish.confidence) for each in self.periods)),
        }
        yield f"{self.name}.csv", self.stacked.csv()
        yield f"{self.name}.parquet", self.stacked.parquet(told)

    def context(self) -> dict[str, Any]:
        """What the template of the page is given, in the language that is spoken."""
        newest = self.periods[0]
        table = self._in_words[newest.period]
        drawn = self._drawn(table)
        there = sum(len(each.panels) for each in drawn)
        rows = len(self._keys())
        return {
            "title": self.title,
            "drawn": drawn,
            "weak": any(weak for each in drawn for panel in each.panels for _, _, weak in panel.dots),
            "not_drawn": amount(rows * len(self._numbers) - there) if rows * len(self._numbers) > there else "",
            "first": self.periods[-1].period,
            "last": newest.period,
            "count": len(self.periods),
            "shared": table.shared_since,
            "apart": table.stands_alone,
            "made": list(self._made()),
            "files": [(f"{self.name}.csv", "CSV"), (f"{self.name}.parquet", "Parquet")],
            "keys": [column.title or column.name for column in self._columns.values()],
            "numbers": [self._told(name) for name in self._numbers],
            "lines": list(self._lines()),
            "left_out": amount(left)
            if (left := sum(map(len, map(self._rows, self.periods))) - _MOST_LINES) > 0
            else "",
        }

    @property
    def title(self) -> str:
        """Of the table, whatever the period, in the language that is spoken."""
        newest = self.periods[0]
        return of_all_periods(self._in_words[newest.period].title, newest.period)

    def _made(self) -> Iterator[str]:
        """By which SQL it was made, the newest first, with the periods where these differ; nothing of a query."""
        periods: dict[str, list[str]] = {}
        for period, each in self._filed.items():
            periods.setdefault(each.sql, []).append(period)
        for sql, of in periods.items():
            told = sql if len(periods) == 1 else f"{', '.join(reversed(of))}: {sql}"
            if sql:
                yield phrase("Made of published numbers by SQL, after the noise: {derived}", derived=told)

    def _rows(self, period: PeriodOfProduct) -> Sequence[Row]:
        return period.numbers.get(self.name, ())

    @cached_property
    def _columns(self) -> dict[str, Column]:
        """The key columns of all periods, with the labels of all, those of the newest period before others."""
        found: dict[str, Column] = {}
        for each in self._in_words.values():
            for column in each.columns:
                known = found.setdefault(column.name, column)
                labels = {**column.labels, **known.labels}
                found[column.name] = known.model_copy(update={"labels": labels})
        return found

    @cached_property
    def _numbers(self) -> tuple[str, ...]:
        """The names of the numbers of all periods."""
        return tuple(dict.fromkeys(name for each in self._filed.values() for name in each.numbers))

    def _told(self, name: str) -> str:
        """A number in words: of the newest period that has it."""
        for each in self._in_words.values():
            if name in each.numbers:
                return each.shown(name)
        return name

    def _keys_of(self, row: Row) -> tuple[str, ...]:
        return tuple(row.get(name, "") for name in self._columns)

    def _keys(self) -> tuple[tuple[str, ...], ...]:
        """The keys of the rows of all periods, those of the newest one first."""
        return tuple(dict.fromkeys(self._keys_of(row) for each in self.periods for row in self._rows(each)))

    def _drawn(self, table: FiledTable) -> list[SeriesTable]:
        """Lines of declared rows; what noise chose, the ranks of a list, or rows that no key tells apart, are none."""
        names = [column.name for column in table.columns]
        keys = {
            each.period: [tuple(row.get(name, "") for name in names) for row in self._rows(each)]
            for each in self.periods
        }
        if not table.has_declared_rows or any(len(set(each)) < len(each) for each in keys.values()):
            return []
        rows = {each.period: self._rows(each) for each in self.periods}
        rows |= {each: () for each in self._every if each not in rows}
        return drawn_over(table, self._numbers, keys[self.periods[0].period], rows, _MOST_PANELS)

    def _lines(self) -> Iterator[tuple[str, str, list[Markup], list[Point]]]:
        """Every row, the newest first: its period, the address of that, its keys, its numbers; of a gap the first."""
        left = _MOST_LINES
        gaps = _gaps(self._every)
        columns = tuple(self._columns.items())
        for period in self._every:
            each = next((one for one in self.periods if one.period == period), None)
            if period in gaps:
                yield gaps[period], "", [], []
            rows = () if each is None else self._rows(each)
            if not rows:
                yield period, "", [], []
            for row in rows[: max(left, 0)]:
                cells = [Markup(key_cell(column, row.get(name, ""))) for name, column in columns]  # noqa: S704 - inert
                points = [point_of(period, 0.0, row, name) for name in self._numbers]
                yield period, "" if each is None else each.front, cells, points
            left -= len(rows)
            if left <= 0:
                return


def _gaps(periods: Sequence[str]) -> dict[str, str]:
    """What is missing between periods of the calendar, by the one that follows it in a list of the newest first."""
    found: dict[str, str] = {}
    kinds: tuple[Per, ...] = get_args(Per)
    for later, earlier in pairwise(periods):
        one, other = span(earlier), span(later)
        kind = next((each for each in kinds if is_a(each, earlier)), None)
        if one is None or other is None or kind is None or one[1] >= other[0]:
            continue
        first, last = containing(kind, one[1]), containing(kind, other[0] - timedelta(days=1))
        found[earlier] = first if first == last else phrase("{first} to {last}", first=first, last=last)
    return found
