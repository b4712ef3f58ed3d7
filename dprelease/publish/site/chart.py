"""A bar with its interval for each number of a small table, as percentages of the drawing's width."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.measures.text import decimal
from dprelease.publish.base import key_as_text
from dprelease.publish.numbers import power_of_ten, round_step

__all__ = ["Bar", "Chart", "chart"]

MOST_BARS = 60
_FROM = 1e4  # from here on an axis counts in thousands or more
_POWERS = {3: "thousands", 6: "millions", 9: "billions", 12: "trillions"}


@dataclass(frozen=True)
class Bar:
    """One published number; positions are percentages with two decimals.

    Attributes:
        group: The words of its first key, where it has two.
        label: The label of the last one.
        left: Where its bar begins.
        width: How long its bar is.
        low: Where the line of its interval begins; None: none is known.
        high: Where it ends.
        less: Whether what it shows goes on below the drawing.
        more: Whether it goes on above.
        unreliable: Whether it is marked.
    """

    group: str
    label: str
    left: str
    width: str
    low: str | None
    high: str | None
    less: bool
    more: bool
    unreliable: bool


@dataclass(frozen=True)
class Chart:
    """One measure: its bars, and an axis with a unit (or none), the place of zero, and ticks (place, text).

    Attributes:
        measure: Its name.
        unit: What the axis counts in; empty: ones.
        zero: The place of zero.
        ticks: Places and texts.
        bars: Of what is published.
        line: What the line of a bar is.
        notes: What is not drawn as it is.
    """

    measure: str
    unit: str
    zero: str
    ticks: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]
    line: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Shown:
    """A published number and its interval, both ends its own value where none is known."""

    at: int
    value: float
    lower: float
    upper: float
    known: bool
    weak: bool

    @property
    def least(self) -> float:
        return min(self.value, self.lower)

    @property
    def most(self) -> float:
        return max(self.value, self.upper)


def chart(table: PublishedTable, measure: PublishedMeasure) -> Chart | None:
    """The chart of a measure; None where it would not be readable: no key or over two, over 60 cells, one number.

    The line of a bar is the published interval, which ends where numbers are not possible. What is not published has no
    bar: an empty one would look like zero.
    """
    if not 1 <= len(table.key_columns) <= 2 or table.cells > MOST_BARS:
        return None
    known = _published(measure)
    if len(known) < 2:
        return None
    low, high = _ends(known)
    ticks = _ticks(low, high)
    unit, words = _unit(ticks)

    def place(number: float) -> float:
        return 100 * (min(max(number, low), high) - low) / (high - low)

    bars = []
    for each in known:
        left, right = place(min(0.0, each.value)), place(max(0.0, each.value))
        group, label = _labels(table, each.at)
        bars.append(
            Bar(
                group=group,
                label=label,
                left=f"{left:.2f}",
                width=f"{right - left:.2f}",
                low=f"{place(each.lower):.2f}" if each.known else None,
                high=f"{place(each.upper):.2f}" if each.known else None,
                less=each.least < low,
                more=each.most > high,
                unreliable=each.weak,
            )
        )
    marks = tuple(
        (f"{place(tick):.2f}", decimal(_short(tick / unit, ticks[1] / unit - ticks[0] / unit))) for tick in ticks
    )
    what = (
        "its interval"
        if measure.unadjusted is None or measure.held
        else "the interval of the estimate before it was adjusted"
    )
    notes = tuple(_notes(table.cells, bars))
    return Chart(measure.name, words, f"{place(0.0):.2f}", marks, tuple(bars), what, notes)


def _published(measure: PublishedMeasure) -> list[_Shown]:
    found = []
    numbers = measure.value.tolist(), measure.margin.tolist(), measure.lower.tolist(), measure.upper.tolist()
    for at, (value, margin, lower, upper) in enumerate(zip(*numbers, strict=True)):
        if not math.isfinite(value):
            continue
        known, weak = math.isfinite(margin) and math.isfinite(lower), measure.status[at] == "unreliable"
        if measure.held and known:  # a number outside of what is possible is shown as the nearest possible one
            value = min(max(value, lower), upper)  # noqa: PLW2901 - what is drawn of it
        found.append(_Shown(at, value, *((lower, upper) if known else (value, value)), known, weak))
    return found


def _ends(known: Sequence[_Shown]) -> tuple[float, float]:
    """The ends of the axis: zero and all numbers with their intervals, unreliable ones as far as others leave room.

    One number that is off by a thousand times what the others are would make all of them a line at zero.
    """
    sure = [each for each in known if not each.weak] or known
    low, high = min(0.0, *(each.least for each in sure), 0.0), max(0.0, *(each.most for each in sure), 0.0)
    span = high - low
    if span:
        low = max(low - span, min(low, *(each.least for each in known)))
        high = min(high + span, max(high, *(each.most for each in known)))
    return low, high if high > low else low + 1


def _notes(cells: int, bars: Sequence[Bar]) -> Iterator[str]:
    gone = cells - len(bars)
    if gone:
        yield f"{gone:,} of the {cells:,} numbers {'is' if gone == 1 else 'are'} not published, and not drawn."
    if any(bar.less or bar.more for bar in bars):
        yield "An arrow at an end: what is unreliable goes on beyond the drawing."


def _labels(table: PublishedTable, at: int) -> tuple[str, str]:
    words = [
        column.labels.get(key_as_text(keys[at]), key_as_text(keys[at]))
        for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    return (words[0], words[1]) if len(words) == 2 else ("", words[0])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within [low, high], two to six of them, zero among them."""
    step = round_step(high - low)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _unit(ticks: list[float]) -> tuple[float, str]:
    """What an axis counts in, so that its numbers stay short."""
    largest = max(abs(tick) for tick in ticks)
    if largest < _FROM:
        return 1.0, ""
    power = int(math.log10(largest) + 1e-9) // 3 * 3
    return 10.0**power, _POWERS.get(power) or f"units of {power_of_ten(power)}"


def _short(tick: float, step: float) -> Decimal:
    """The tick with the decimals that its step has."""
    places = max(0, math.ceil(-math.log10(step) - 1e-9))
    for more in (0, 1):
        if abs(round(step, places + more) - step) < step * 1e-6:
            places += more
            break
    return Decimal(repr(tick)).quantize(Decimal(1).scaleb(-min(places, 12)))
