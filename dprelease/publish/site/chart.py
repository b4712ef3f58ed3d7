"""The numbers of a small table as drawings, each with its interval: places are percentages of the drawing's width.

Numbers of which parts make up a whole (counts, sums that cannot be negative) are bars from zero; any other is a dot on
the line of its interval, whose axis need not hold zero. Quantiles of one column are panels with one axis, one for each
row of the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.measures.text import decimal
from dprelease.publish.base import key_as_text
from dprelease.publish.numbers import percent, power_of_ten, round_step
from dprelease.words import amount, marked, phrase, phrase_many

__all__ = [
    "MOST_BARS",
    "Bar",
    "Chart",
    "Plotted",
    "chart",
    "charts_of",
    "counted_in",
    "ends",
    "most_bars",
    "tick_text",
    "ticks_within",
]

MOST_BARS = 60
_MOST_CHARTS = 12
_ON_A_SHEET = 24  # rows of a drawing that stay together
_FEW = 8  # rows of a table whose quantiles are a panel for each row
_PARTS = ("count", "count_distinct", "sum")
_NEAR = 0.35  # of the largest number: an axis from a smaller one on begins at zero
_HELD = 0.9  # of the intervals that end within the axis, at least
_LONGER = 1.5
_FROM = 1e4  # from here on an axis counts in thousands or more
_POWERS = {3: marked("thousands"), 6: marked("millions"), 9: marked("billions"), 12: marked("trillions")}


@dataclass(frozen=True)
class Bar:
    """One row of a drawing; positions are percentages with two decimals.

    Attributes:
        group: The words of its first key, where it has two.
        label: The label of the last one.
        at: Where the number is; None: beyond the drawing, or not published.
        left: Where its bar begins.
        width: How long its bar is.
        low: Where the line of its interval begins; None: none is known.
        high: Where it ends.
        less: Whether what it shows goes on below the drawing.
        more: Whether it goes on above.
        unreliable: Whether it is marked.
        published: Whether there is a number.
        possible: Whether there could be one: a group has no difference from itself.
    """

    group: str
    label: str
    at: str | None = None
    left: str = "0.00"
    width: str = "0.00"
    low: str | None = None
    high: str | None = None
    less: bool = False
    more: bool = False
    unreliable: bool = False
    published: bool = True
    possible: bool = True


@dataclass(frozen=True)
class Chart:
    """One measure, or one row of a set of quantiles, with an axis.

    Attributes:
        measure: What it shows.
        dots: Whether it has dots; else bars.
        unit: What the axis counts in; empty: ones.
        zero: The place of zero; None: it is not on the axis.
        ticks: Places and texts.
        bars: Its rows.
        line: What the line of a bar is.
        notes: What is not drawn as it is.
    """

    measure: str
    dots: bool
    unit: str
    zero: str | None
    ticks: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]
    line: str
    notes: tuple[str, ...]

    @property
    def tall(self) -> bool:
        """Whether paper may cut it: an axis above as well then says what the part on the first sheet shows."""
        return len(self.bars) > _ON_A_SHEET


@dataclass(frozen=True)
class Plotted:
    """A row: a number and its interval, both ends its own value where none is known; NaN where none is published."""

    group: str
    label: str
    value: float
    lower: float
    upper: float
    known: bool
    weak: bool
    never: bool = False

    @property
    def there(self) -> bool:
        """Whether a number is published."""
        return math.isfinite(self.value)


def charts_of(table: PublishedTable) -> tuple[Chart, ...]:
    """The charts of a table; none where it would need over twelve: nobody reads them, and every number is in the table.

    Quantiles of one column have one axis: a panel for each row of the table, or where it has over eight or two keys for
    each quantile.
    """
    if not most_bars(table):
        return ()
    found: list[Chart | None] = []
    for family in _families(table):
        found += [chart(table, family[0])] if len(family) == 1 else _panels(table, family)
    return tuple(each for each in found if each is not None)


def most_bars(table: PublishedTable) -> int:
    """How many rows all charts of a table have at most, by its keys and measures alone; 0: it has no charts."""
    charts = sum(len(each) if len(each) == 1 or not _by_rows(table) else table.cells for each in _families(table))
    return table.cells * len(table.measures) if _readable(table) and charts <= _MOST_CHARTS else 0


def _by_rows(table: PublishedTable) -> bool:
    """Whether each row of the table has a panel of its quantiles."""
    return len(table.key_columns) == 1 and table.cells <= _FEW


def chart(table: PublishedTable, measure: PublishedMeasure) -> Chart | None:
    """The chart of a measure; None where it would not be readable: no key or over two, over 60 cells, one number.

    The line of a bar is the published interval, which ends where numbers are not possible. What is not published is a
    row without a bar that says so: an empty one would look like zero.
    """
    shown = _shown(table, measure)
    if not _readable(table) or sum(each.there for each in shown) < 2:
        return None
    return _drawn(measure.shown, shown, shown, _line(measure), dots=_dots(measure))


def _readable(table: PublishedTable) -> bool:
    return 1 <= len(table.key_columns) <= 2 and table.cells <= MOST_BARS


def _families(table: PublishedTable) -> list[list[PublishedMeasure]]:
    """The measures in their order, quantiles of the same values together."""
    found: dict[str, list[PublishedMeasure]] = {}
    for each in table.measures:
        alike = f"={each.name}"
        if each.measure is not None and _rank(each) is not None:
            alike = each.measure.model_copy(update={"at": Fraction(1, 2)}).canonical()  # in the place of its own
        found.setdefault(alike, []).append(each)
    return list(found.values())


def _rank(measure: PublishedMeasure) -> Fraction | None:
    """The share of values that a quantile is above; None of any other number."""
    found = getattr(measure.measure, "at", None)
    return found if isinstance(found, Fraction) else None


def _panels(table: PublishedTable, family: Sequence[PublishedMeasure]) -> Iterator[Chart]:
    """Charts of quantiles of the same values, all on one axis."""
    rows = [_shown(table, each) for each in family]
    every = [each for shown in rows for each in shown]
    if sum(each.there for each in every) < 2:
        return
    if not _by_rows(table):
        for measure, shown in zip(family, rows, strict=True):
            yield _drawn(measure.shown, shown, every, _line(measure), dots=True)
        return
    titled = all(each.title for each in family)
    words = [each.title if titled else f"{percent(_rank(each) or Fraction(0))} %" for each in family]
    name = family[0].name.rpartition("_q")[0] or family[0].name
    if titled and len(words) > 1:
        name = phrase("{first} to {last}", first=words[0], last=words[-1])
    elif titled:
        name = words[0]
    for across in zip(*rows, strict=True):
        shown = [Plotted("", word, *_numbers(each)) for word, each in zip(words, across, strict=True)]
        title = f"{name}{phrase(':')} {across[0].label}"
        yield _drawn(title, shown, every, _line(family[0]), dots=True)


def _numbers(shown: Plotted) -> tuple[float, float, float, bool, bool]:
    return shown.value, shown.lower, shown.upper, shown.known, shown.weak


def _dots(measure: PublishedMeasure) -> bool:
    """Whether a bar from zero would say what is not so: of a mean, a rate, or where a number can be negative."""
    if measure.compared is not None:
        return True
    kind = "count" if measure.measure is None else measure.measure.kind
    return kind not in _PARTS or bool((measure.lower < 0).any())


def _line(measure: PublishedMeasure) -> str:
    before = measure.unadjusted is not None and not measure.held
    return phrase("the interval of the estimate before it was adjusted") if before else phrase("its interval")


def _drawn(title: str, shown: Sequence[Plotted], axis_of: Sequence[Plotted], line: str, *, dots: bool) -> Chart:
    low, high = ends([each for each in axis_of if each.there], dots=dots)
    ticks = ticks_within(low, high)
    unit, words = counted_in(ticks)

    def place(number: float) -> str:
        return f"{100 * (min(max(number, low), high) - low) / (high - low):.2f}"

    bars = tuple(_bar(each, low, high, place) for each in shown)
    marks = tuple((place(tick), decimal(tick_text(tick / unit, ticks[1] / unit - ticks[0] / unit))) for tick in ticks)
    zero = place(0.0) if low <= 0 <= high else None
    return Chart(title, dots, words, zero, marks, bars, line, tuple(_notes(bars, dots=dots)))


def _bar(shown: Plotted, low: float, high: float, place: Callable[[float], str]) -> Bar:
    if not shown.there:
        return Bar(shown.group, shown.label, published=False, possible=not shown.never)
    left, right = place(min(0.0, shown.value)), place(max(0.0, shown.value))
    return Bar(
        group=shown.group,
        label=shown.label,
        at=place(shown.value) if low <= shown.value <= high else None,
        left=left,
        width=f"{float(right) - float(left):.2f}",
        low=place(shown.lower) if shown.known else None,
        high=place(shown.upper) if shown.known else None,
        less=min(shown.value, shown.lower) < low,
        more=max(shown.value, shown.upper) > high,
        unreliable=shown.weak,
    )


def _shown(table: PublishedTable, measure: PublishedMeasure) -> list[Plotted]:
    if not _readable(table):
        return []
    found = []
    numbers = measure.value.tolist(), measure.margin.tolist(), measure.lower.tolist(), measure.upper.tolist()
    never = measure.impossible.tolist()
    for at, (value, margin, lower, upper) in enumerate(zip(*numbers, strict=True)):
        known, weak = math.isfinite(margin) and math.isfinite(lower), measure.status[at] == "unreliable"
        if measure.held and known:  # a number outside of what is possible is shown as the nearest possible one
            value = min(max(value, lower), upper)  # noqa: PLW2901 - what is drawn of it
        reach = (lower, upper) if known else (value, value)
        found.append(Plotted(*_labels(table, at), value, *reach, known, weak, never[at]))
    return found


def ends(known: Sequence[Plotted], *, dots: bool) -> tuple[float, float]:
    """The ends of the axis: what is reliable, and zero where bars begin there or it is near.

    Unreliable numbers do not widen it where a fifth of the numbers and at least two are reliable. Intervals are within
    it, but where that would make it more than half as long again: then at most one of ten ends beyond. A number that is
    off by a thousand times what the others are would make all of them a line at zero.
    """
    sure = [each for each in known if not each.weak]
    if len(sure) < max(2, len(known) / 5):
        sure = list(known)
    lowest, highest = sorted((each.lower for each in sure), reverse=True), sorted(each.upper for each in sure)
    at, values = math.ceil(_HELD * len(sure)) - 1, [each.value for each in sure]
    low, high = min(*values, lowest[at]), max(*values, highest[at])
    if max(high, highest[-1]) - min(low, lowest[-1]) <= _LONGER * (high - low):
        low, high = min(low, lowest[-1]), max(high, highest[-1])
    if not dots or 0 < low < _NEAR * high:
        low = min(low, 0.0)
    if not dots or 0 > high > _NEAR * low:
        high = max(high, 0.0)
    return low, high if high > low else low + 1


def _notes(bars: Sequence[Bar], *, dots: bool) -> Iterator[str]:
    gone = sum(bar.possible and not bar.published for bar in bars)
    if gone:
        all_of_them = amount(sum(bar.possible for bar in bars))
        yield phrase_many(
            "{number} of the {all} numbers is not published.",
            "{number} of the {all} numbers are not published.",
            gone,
            all=all_of_them,
        )
    if any(bar.unreliable for bar in bars):
        yield phrase("A hollow dot is unreliable.") if dots else phrase("A dashed bar is unreliable.")
    if any(bar.less or bar.more for bar in bars):
        yield phrase("An arrow at an end: it goes on beyond the drawing.")


def _labels(table: PublishedTable, at: int) -> tuple[str, str]:
    words = [
        column.labels.get(key_as_text(keys[at]), key_as_text(keys[at]))
        for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    return (words[0], words[1]) if len(words) == 2 else ("", words[0])


def ticks_within(low: float, high: float) -> list[float]:
    """Round numbers within [low, high], two to six of them, zero among them."""
    step = round_step(high - low)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def counted_in(ticks: list[float]) -> tuple[float, str]:
    """What an axis counts in, so that its numbers stay short."""
    largest = max(abs(tick) for tick in ticks)
    if largest < _FROM:
        return 1.0, ""
    power = int(math.log10(largest) + 1e-9) // 3 * 3
    if power in _POWERS:
        return 10.0**power, phrase(_POWERS[power])
    return 10.0**power, phrase("units of {power}", power=power_of_ten(power))


def tick_text(tick: float, step: float) -> Decimal:
    """The tick with the decimals that its step has."""
    places = max(0, math.ceil(-math.log10(step) - 1e-9))
    for more in (0, 1):
        if abs(round(step, places + more) - step) < step * 1e-6:
            places += more
            break
    return Decimal(repr(tick)).quantize(Decimal(1).scaleb(-min(places, 12)))
