"""What of the tables a reader meets first: single numbers as key figures, and a small table of each workload's level.

Which tables these are follows from keys and the plan alone: a page that looked for the largest number would state a
finding that nobody has checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from markupsafe import Markup

from dprelease.estimate import PublishedTable
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import Facts
from dprelease.publish.figure_words import Signs
from dprelease.publish.site.cells import rows
from dprelease.publish.site.chart import MOST_BARS
from dprelease.publish.site.workloads import Crosstabs
from dprelease.spec.period import span
from dprelease.words import day_written

__all__ = ["MOST_ON_FRONT", "KeyFigure", "PlaceInSeries", "key_figures", "series_of", "tables_on_front", "written_day"]

MOST_ON_FRONT = 4  # tables of workloads on the index
_MOST_FIGURES = 4
_CELL = re.compile(r'<td class="num[^"]*">(.*?)</td>')


@dataclass(frozen=True)
class KeyFigure:
    """A number of a table that has one row, as its table shows it: with its margin or its interval.

    Attributes:
        cell: It, as HTML.
        title: Of its table.
        measure: Its name; empty where the table has no other.
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


def key_figures(found: Iterable[tuple[PublishedTable, str, str, Signs | None]]) -> tuple[KeyFigure, ...]:
    """The first four numbers of tables with one row.

    Args:
        found: Every table with its title, where it is, and the signs of its numbers.

    An unreliable number is none, and neither is one that its cell shows without an interval: that of a number which was
    moved by the rules of older plans is about the estimate before.
    """
    figures: list[KeyFigure] = []
    for table, title, href, signs in found:
        if table.cells != 1 or len(figures) >= _MOST_FIGURES:
            continue
        cells = _CELL.findall(rows(table, 0, 1, signs))
        for measure in table.measures:
            cell = cells.pop(0)
            if measure.unadjusted is not None:
                cells.pop(0)  # the estimate before
            beside = (measure.unadjusted is None or measure.held) and measure.lower[0] <= measure.upper[0]
            if beside and measure.status[0] in ("ok", "caution"):
                name = measure.shown if len(table.measures) > 1 or measure.unit else ""
                name += " (%)" if measure.unit else ""
                figures.append(KeyFigure(Markup(cell), title, name, href))  # noqa: S704 - as in its table
    return tuple(figures[:_MOST_FIGURES])


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
