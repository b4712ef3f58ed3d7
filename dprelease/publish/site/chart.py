"""A bar with an error bar for each cell of a small table, as percentages of the drawing's width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.publish.base import key_text
from dprelease.publish.numbers import decimal

__all__ = ["Bar", "Chart", "chart"]

MOST_BARS = 60


@dataclass(frozen=True)
class Bar:
    """One cell; positions are percentages with two decimals, all None where nothing is published."""

    group: str
    label: str
    left: str | None
    width: str | None
    low: str | None
    high: str | None
    unreliable: bool


@dataclass(frozen=True)
class Chart:
    """One measure: its bars, and an axis with a unit (or none), the place of zero, and ticks (place, text)."""

    measure: str
    unit: str
    zero: str
    ticks: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]


def chart(table: PublishedTable, measure: PublishedMeasure) -> Chart | None:
    """The chart of a measure; None where it would not be readable: no key or over two, over 60 cells, no numbers."""
    if not 1 <= len(table.key_columns) <= 2 or table.cells > MOST_BARS or table.cells < 2:
        return None
    known = [
        (value, margin if math.isfinite(margin) else 0.0)
        for value, margin in zip(measure.value.tolist(), measure.margin.tolist(), strict=True)
        if math.isfinite(value)
    ]
    if not known:
        return None
    low = min(0.0, *(value - margin for value, margin in known))
    high = max(0.0, *(value + margin for value, margin in known))
    high = high if high > low else low + 1
    ticks = _ticks(low, high)
    unit, words = _unit(ticks)
    labels = [_labels(table, at) for at in range(table.cells)]

    def place(number: float) -> str:
        return f"{100 * (number - low) / (high - low):.2f}"

    bars = []
    for at, (group, label) in enumerate(labels):
        value, margin = float(measure.value[at]), float(measure.margin[at])
        if not math.isfinite(value):
            bars.append(Bar(group, label, None, None, None, None, measure.status[at] == "unreliable"))
            continue
        reach = margin if math.isfinite(margin) else 0.0
        left, right = min(0.0, value), max(0.0, value)
        width = f"{100 * (right - left) / (high - low):.2f}"
        weak = measure.status[at] == "unreliable"
        bars.append(Bar(group, label, place(left), width, place(value - reach), place(value + reach), weak))
    marks = tuple((place(tick), decimal(_short(tick / unit, ticks[1] / unit - ticks[0] / unit))) for tick in ticks)
    return Chart(measure=measure.name, unit=words, zero=place(0.0), ticks=marks, bars=tuple(bars))


def _labels(table: PublishedTable, at: int) -> tuple[str, str]:
    words = [
        column.labels.get(key_text(keys[at]), key_text(keys[at]))
        for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    return (words[0], words[1]) if len(words) == 2 else ("", words[0])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within [low, high], two to six of them, zero among them."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _unit(ticks: list[float]) -> tuple[float, str]:
    """What an axis counts in, so that its numbers stay short."""
    largest = max(abs(tick) for tick in ticks)
    units = ((1e9, "billions"), (1e6, "millions"), (1e4, "thousands"))
    found = next(((size, words) for size, words in units if largest >= size), (1.0, ""))
    return (1e3, "thousands") if found[0] == 1e4 else found


def _short(tick: float, step: float) -> Decimal:
    """The tick with the decimals that its step has."""
    places = max(0, math.ceil(-math.log10(step) - 1e-9))
    for more in (0, 1):
        if abs(round(step, places + more) - step) < step * 1e-6:
            places += more
            break
    return Decimal(repr(tick)).quantize(Decimal(1).scaleb(-min(places, 12)))
