"""What of the tables a reader meets first: single numbers as key figures, and a small table of each workload's level.

Which tables these are follows from keys and the plan alone: a page that looked for the largest number would state a
finding that nobody has checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice

from markupsafe import Markup

from dprelease.estimate import PublishedTable
from dprelease.plan.document import KeyFigure, ReleasePlan
from dprelease.publish.base import Facts, key_as_text
from dprelease.publish.figure_words import Signs
from dprelease.publish.site.cells import rows
from dprelease.publish.site.chart import MOST_BARS
from dprelease.publish.site.workloads import Crosstabs
from dprelease.spec.period import span
from dprelease.words import day_written

__all__ = [
    "MOST_ON_FRONT",
    "PlaceInSeries",
    "ShownFigure",
    "key_figures",
    "series_of",
    "tables_on_front",
    "written_day",
]

MOST_ON_FRONT = 4  # tables of workloads on the index
_MOST_FIGURES = 4
_CELL = re.compile(r'<td class="num[^"]*">(.*?)</td>')


@dataclass(frozen=True)
class ShownFigure:
    """A key figure as its table shows it: with its margin or its interval.

    Attributes:
        cell: It, as HTML.
        title: Of its table.
        measure: Its name, where the table has others, and the labels of its row; empty: none.
        href: Where the table is, from the folder of the bundle.
    """

    cell: Markup
    title: str
    measure: str
    href: str


@dataclass(frozen=True)
class PlaceInSeries:
    """Where a period stands among others, as far as it can be known when it is published; a later one is not.

    Attributes:
        first: Its first day, in words; empty: it is no period of the calendar.
        last: Its last day.
        next: The day of the release after it; empty: nobody says.
        before: The last period before it that was charged before it; empty: none. It may have been given up since, so
            that the page of the product is linked, which lists what was published.
    """

    first: str
    last: str
    next: str
    before: str


def series_of(plan: ReleasePlan, facts: Facts) -> PlaceInSeries:
    """What plan and ledger say: the days of the period, the next one, and the one before.

    The period before is taken from the charges that ``facts`` has up to the release's own, so that a release that is
    published again says the same, whatever was released since.
    """
    release = plan.release
    days = span(release.period)
    if days is None:
        return PlaceInSeries("", "", written_day(release.next), "")
    charged = {each.period for each in facts.history if each.release == release.name}
    starts = {period: held[0] for period in charged if (held := span(period)) is not None}
    earlier = [period for period, start in starts.items() if start < days[0]]
    before = max(earlier, key=lambda period: starts[period], default="")
    first, last = days[0], days[1] - timedelta(days=1)
    return PlaceInSeries(day_written(first), day_written(last), written_day(release.next), before)


def written_day(day: str) -> str:
    """A day as the spoken language writes it; empty where there is none."""
    return day_written(date.fromisoformat(day)) if day else ""


def key_figures(
    found: Iterable[tuple[PublishedTable, str, str, Signs | None]], chosen: Sequence[KeyFigure] = ()
) -> tuple[ShownFigure, ...]:
    """The numbers that the author chose, in that order; where none is chosen the first four of tables with one row.

    Args:
        found: Every table with its title, where it is, and the signs of its numbers.
        chosen: What the author chose.

    An unreliable number is none, and neither is one that its cell shows without an interval: that of a number which was
    moved by the rules of older plans is about the estimate before.
    """
    if chosen:
        tables = {each[0].name: each for each in found}
        of_chosen = (
            _figure(*tables[each.table], _row(tables[each.table][0], each.keys), each.measure)
            for each in chosen
            if each.table in tables
        )
        return tuple(each for each in of_chosen if each is not None)
    figures = (_figure(*each, 0, measure.name) for each in found if each[0].cells == 1 for measure in each[0].measures)
    return tuple(islice((each for each in figures if each is not None), _MOST_FIGURES))


def _row(table: PublishedTable, wanted: Mapping[str, str]) -> int | None:
    """The place of a row by its keys; None: there is none."""
    places: Sequence[int] = range(table.cells)
    for column, keys in zip(table.key_columns, table.keys, strict=True):
        places = [at for at in places if key_as_text(keys[at]) == wanted.get(column.name)]
    return places[0] if len(places) == 1 else None


def _figure(
    table: PublishedTable, title: str, href: str, signs: Signs | None, row: int | None, name: str
) -> ShownFigure | None:
    """A number of a row as its table shows it; None where it is no key figure."""
    measure = next((each for each in table.measures if each.name == name), None)
    if row is None or measure is None or measure.status[row] not in ("ok", "caution"):
        return None
    if (measure.unadjusted is not None and not measure.held) or not measure.lower[row] <= measure.upper[row]:
        return None
    before = table.measures[: [each.name for each in table.measures].index(name)]
    place = len(before) + sum(each.unadjusted is not None for each in before)  # beside it the estimate before
    words = [measure.shown] if len(table.measures) > 1 or measure.unit or table.key_columns else []
    unit = " (%)" if measure.unit else ""
    labels = [
        column.labels.get(key_as_text(keys[row]), key_as_text(keys[row]))
        for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    cell = _CELL.findall(rows(table, row, row + 1, signs))[place]
    told = ", ".join([*(f"{each}{unit}" for each in words), *labels])
    return ShownFigure(Markup(cell), title, told, href)  # noqa: S704 - as in its table


def tables_on_front(workloads: Iterable[Crosstabs]) -> Mapping[str, Crosstabs]:
    """The tables of workloads that the index shows: of each level the first with 2 to 60 rows, four tables in all.

    Returns:
        The workload of each, by the name of the table.
    """
    found: dict[str, Crosstabs] = {}
    for each in workloads:
        levels: set[int] = set()
        for name in each.workload.tables:
            level, _ = each.workload.place(name)
            if level not in levels and 2 <= each.tables[name].cells <= MOST_BARS and len(found) < MOST_ON_FRONT:
                levels.add(level)
                found[name] = each
    return found
