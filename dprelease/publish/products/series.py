"""The numbers of a product over its periods: a line through the estimates, and a band that is their intervals.

Only calendar periods have a place on the line: each stands in the middle of its days, so that a period that is missing
is a gap. The band is what was published of each period by itself; it is no band for the whole line at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dprelease.measures.text import decimal
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import measure_names
from dprelease.publish.formats.filed import FiledTable, filed_table
from dprelease.publish.numbers import with_margin
from dprelease.publish.site.cells import between
from dprelease.publish.site.chart import Plotted, counted_in, ends, tick_text, ticks_within
from dprelease.spec.period import span
from dprelease.words import phrase

__all__ = [
    "MOST_ROWS",
    "Numbers",
    "Panel",
    "Point",
    "SeriesTable",
    "drawn_over",
    "of_all_periods",
    "panels_of",
    "point_of",
]

MOST_ROWS = 8  # of a table whose numbers are shown over the periods
_MOST_PANELS = 12
_BAR = 0.7  # half of the width of the interval of a period that stands alone
Numbers = Mapping[str, Sequence[Mapping[str, str]]]  # by table its rows, each by the names of its columns


@dataclass(frozen=True)
class Point:
    """A number of one period, as text for the table beside the drawing; empty where none is published.

    Attributes:
        period: The period.
        x: Its place, in hundredths of the width.
        value: The estimate; NaN: none is published.
        lower: The lower end of its interval; the value itself where none is known.
        upper: The upper end.
        weak: Whether it is unreliable.
        places: 0 where files hold whole numbers; None: where they do not.
    """

    period: str
    x: float
    value: float
    lower: float
    upper: float
    weak: bool
    places: int | None = None

    @property
    def there(self) -> bool:
        """Whether a number is published."""
        return math.isfinite(self.value)

    @property
    def texts(self) -> tuple[str, str]:
        """The number and its interval, the second empty where none is known."""
        margin = max(self.upper - self.value, self.value - self.lower) if self.there else 0.0
        number = with_margin(self.value, margin, self.places)[0] or phrase("not published")
        return number, f"({between(self.lower, self.upper, margin, self.places)})" if margin > 0 else ""


@dataclass(frozen=True)
class Panel:
    """One number over the periods; all places are in hundredths of the drawing.

    Attributes:
        title: The labels of its row.
        points: The oldest first.
        bands: Corners of each stretch of periods without a gap, as SVG has them.
        lines: The same of the estimates.
        dots: Place, place, and whether it is unreliable, of each.
        ticks: Places and texts of the axis.
        zero: The place of zero; None: it is not on the axis.
    """

    title: str
    points: tuple[Point, ...]
    bands: tuple[str, ...]
    lines: tuple[str, ...]
    dots: tuple[tuple[str, str, bool], ...]
    ticks: tuple[tuple[str, str], ...]
    zero: str | None


@dataclass(frozen=True)
class SeriesTable:
    """A measure of a small table over the periods: its rows are panels of one axis."""

    title: str
    measure: str
    unit: str
    panels: tuple[Panel, ...]

    @property
    def periods(self) -> tuple[str, ...]:
        """The newest first."""
        return tuple(point.period for point in reversed(self.panels[0].points))

    def row(self, period: str) -> list[Point]:
        """The numbers of a period."""
        return [next(point for point in panel.points if point.period == period) for panel in self.panels]


def panels_of(plan: ReleasePlan, periods: Sequence[tuple[str, Numbers]]) -> tuple[SeriesTable, ...]:
    """What is shown over the periods: the first tables with one to eight rows, twelve panels in all.

    Args:
        plan: Of the newest period; it decides what is shown.
        periods: Each period once, with the numbers of its small tables.
    """
    placed = _placed([period for period, _ in periods])
    if len(placed) < 2:
        return ()
    numbers = dict(periods)
    found: list[SeriesTable] = []
    left = _MOST_PANELS
    for query in plan.queries:
        newest = numbers[max(placed, key=lambda each: placed[each])].get(query.name, ())
        if query.private or query.ranking is not None or not 1 <= len(newest) <= min(MOST_ROWS, left):
            continue
        keys = [tuple(row.get(column.name, "") for column in plan.keys(query)) for row in newest]
        rows = {period: each.get(query.name, ()) for period, each in numbers.items()}
        drawn = drawn_over(filed_table(plan, query.name), measure_names(plan, query), keys, rows, left)
        found += drawn
        left -= sum(len(table.panels) for table in drawn)
    return tuple(found)


def drawn_over(
    table: FiledTable,
    measures: Sequence[str],
    keys: Sequence[tuple[str, ...]],
    rows: Mapping[str, Sequence[Mapping[str, str]]],
    most: int,
) -> list[SeriesTable]:
    """Numbers of a table over the periods, for each of them a panel for each row; none of which no line can be drawn.

    Args:
        table: Of the newest period, in the language that is spoken.
        measures: The names of its numbers.
        keys: Which rows.
        rows: By period its rows.
        most: How many panels there may be.
    """
    placed = _placed([*rows])
    if len(placed) < 2:
        return []
    names = [column.name for column in table.columns]
    known = {period: {tuple(row.get(name, "") for name in names): row for row in rows[period]} for period in placed}
    titles = [
        ", ".join(column.labels.get(key, key) for column, key in zip(table.columns, each, strict=True)) for each in keys
    ]
    found: list[SeriesTable] = []
    for measure in measures:
        lines = [
            [point_of(period, x, known[period].get(each, {}), measure) for period, x in placed.items()] for each in keys
        ]
        if len(keys) <= most and any(sum(each.there for each in line) > 1 for line in lines):
            title = of_all_periods(table.title, table.plan.release.period)
            found.append(_drawn(title, table.shown(measure), titles, lines))
            most -= len(keys)
    return found


def of_all_periods(title: str, period: str) -> str:
    """A title of the newest period as it stands above all of them: without the period, and the short word before it.

    >>> of_all_periods("Delays in 2013-12 by airport", "2013-12"), of_all_periods("2013-12", "2013-12")
    ('Delays by airport', '2013-12')
    """
    return re.sub(rf"(?: \w{{1,3}})? {re.escape(period)}(?!\w)", "", title).strip(" ,:") or title


def _placed(periods: Sequence[str]) -> dict[str, float]:
    """The place of each calendar period: the middle of its days, from 2 to 98, the first and the last at the ends."""
    days = {period: found for period in periods if (found := span(period)) is not None}
    middles = {period: (first.toordinal() + after.toordinal()) / 2 for period, (first, after) in days.items()}
    low, high = min(middles.values(), default=0.0), max(middles.values(), default=0.0)
    if high <= low:
        return {}
    return {period: 2 + 96 * (each - low) / (high - low) for period, each in sorted(middles.items(), key=_second)}


def _second(item: tuple[str, float]) -> float:
    return item[1]


def point_of(period: str, x: float, row: Mapping[str, str], measure: str) -> Point:
    """A number of one period, from its row as published; an empty one: there is none.

    Args:
        period: The period.
        x: Its place.
        row: By the names of columns their texts.
        measure: The name of the number.
    """
    value, lower, upper = (_number(row.get(f"{measure}{end}", "")) for end in ("", "_lower", "_upper"))
    known = math.isfinite(lower) and math.isfinite(upper)
    if known and row.get(f"{measure}_status") != "blank":  # what is impossible is shown as the nearest possible
        value = min(max(value, lower), upper)
    weak = row.get(f"{measure}_status") == "unreliable"
    places = None if "." in row.get(measure, "") else 0
    return Point(period, x, value, *((lower, upper) if known else (value, value)), weak, places)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _drawn(title: str, measure: str, titles: Sequence[str], lines: Sequence[Sequence[Point]]) -> SeriesTable:
    every = [Plotted("", "", p.value, p.lower, p.upper, True, p.weak) for line in lines for p in line if p.there]
    low, high = ends(every, dots=True)
    ticks = ticks_within(low, high)
    unit, words = counted_in(ticks)

    def place(number: float) -> str:
        return f"{100 - 100 * (min(max(number, low), high) - low) / (high - low):.2f}"

    step = ticks[1] / unit - ticks[0] / unit
    marks = tuple((place(tick), decimal(tick_text(tick / unit, step))) for tick in ticks)
    panels = []
    for words_of, line in zip(titles, lines, strict=True):
        runs = list(_runs(line))
        there = [point for point in line if point.there]
        panels.append(
            Panel(
                title=words_of,
                points=tuple(line),
                bands=tuple(_band(run, place) for run in runs),
                lines=tuple(" ".join(f"{p.x:.2f},{place(p.value)}" for p in run) for run in runs),
                dots=tuple((f"{point.x:.2f}", place(point.value), point.weak) for point in there),
                ticks=marks,
                zero=place(0.0) if low <= 0 <= high else None,
            )
        )
    return SeriesTable(title, measure, words, tuple(panels))


def _band(run: Sequence[Point], place: Callable[[float], str]) -> str:
    if len(run) == 1:  # a period alone has no width: its interval is a bar behind the dot
        ((x, upper, lower),) = ((p.x, place(p.upper), place(p.lower)) for p in run)
        left, right = f"{x - _BAR:.2f}", f"{x + _BAR:.2f}"
        return f"{left},{upper} {right},{upper} {right},{lower} {left},{lower}"
    there = [f"{p.x:.2f},{place(p.upper)}" for p in run]
    return " ".join([*there, *(f"{p.x:.2f},{place(p.lower)}" for p in reversed(run))])


def _runs(line: Sequence[Point]) -> Iterator[list[Point]]:
    """Stretches of periods that follow on one another and are published."""
    run: list[Point] = []
    for point in line:
        if run and (not point.there or not _follows(run[-1].period, point.period)):
            yield run
            run = []
        if point.there:
            run.append(point)
    if run:
        yield run


def _follows(one: str, other: str) -> bool:
    first, second = span(one), span(other)
    ended: date | None = first[1] if first else None
    return second is not None and ended == second[0]
