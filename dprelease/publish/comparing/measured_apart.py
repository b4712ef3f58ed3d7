"""Changes and differences of means and ratios where the author takes what is measured for what is proved."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.estimate.intervals import outward_ends
from dprelease.measures import Measure, Possible
from dprelease.measures.comparing.apart import has_coarse_noise, mover, p_values_apart
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.measures.tested.quotients import NoisyQuotient
from dprelease.publish.comparing.levels import Levels, OneLevel
from dprelease.publish.comparing.rows import ComparedRows

__all__ = ["measured_change", "measured_difference"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Side:
    """One of two means or ratios: its two noisy numbers, and what is published of their quotient."""

    quotient: NoisyQuotient
    value: Floats
    error: Floats

    def of(self, rows: npt.NDArray[Any]) -> _Side:
        """The same in some rows."""
        found = self.quotient._replace(above=self.quotient.above[rows], below=self.quotient.below[rows])
        return _Side(found, self.value[rows], self.error[rows])

    def told(self, confidence: Fraction) -> tuple[Floats, Floats, Floats]:
        """The quotient with the ends of its set, none of them cut to what is possible, as numbers are published."""
        made = self.quotient
        low, high = made.tested(confidence, cut=False)
        return tuple(made.start + made.size * each for each in (made.above / made.below, low, high))  # type: ignore[return-value]  # three

    @property
    def limits(self) -> Possible:
        """What the number can be."""
        low, high = (
            None if end is None else Fraction(self.quotient.start + self.quotient.size * end)
            for end in self.quotient.possible
        )
        return low, high


def measured_change(
    now: OneLevel, before: OneLevel, asked: ComparedNumber, measure: Measure, confidence: Fraction
) -> ComparedRows:
    """A mean or a ratio less that of an earlier period, whose noise is independent."""
    one, two = (_side(level, asked, measure, confidence) for level in (now, before))
    return _measured(one, two, confidence)


def _side(level: OneLevel, asked: ComparedNumber, measure: Measure, confidence: Fraction) -> _Side:
    noisy = level.inputs[asked.measure]
    found, made = measure.estimate(noisy, confidence), measure.as_quotient(noisy)
    if made is None:
        raise ValueError("only a quotient of numbers that are linear in their draws is compared so")
    below = np.where(np.isnan(found.value), np.nan, made.below)
    return _Side(made._replace(below=below), found.value, found.standard_error)


def _measured(one: _Side, two: _Side, confidence: Fraction) -> ComparedRows:
    """The difference of two independent numbers by the interval that is measured; cut to what is possible at last.

    Of noise of few values, where that held in 90 of 100 releases, it is the one that is proved.
    """
    if has_coarse_noise(one.quotient) or has_coarse_noise(two.quotient):
        half = 1 - (1 - confidence) / 2
        (_, low_1, high_1), (_, low_2, high_2) = one.told(half), two.told(half)
        low, high = low_1 - high_2, high_1 - low_2
    else:
        low, high = mover(one.told(confidence), two.told(confidence))
    (least, most), (other_least, other_most) = one.limits, two.limits
    possible: Possible = (
        None if least is None or other_most is None else least - other_most,
        None if most is None or other_least is None else most - other_least,
    )
    bottom, top = (
        math.copysign(math.inf, at) if end is None else float(end) for at, end in zip((-1, 1), possible, strict=True)
    )
    low, high = np.clip(low, bottom, top), np.clip(high, bottom, top)
    value = one.value - two.value
    bare = ~(np.isfinite(low) & np.isfinite(high))
    low, high = (np.where(bare, np.nan, each) for each in (np.fmin(low, value), np.fmax(high, value)))
    p_values = p_values_apart(one.quotient, two.quotient, confidence)
    return ComparedRows(value, np.hypot(one.error, two.error), *outward_ends(low, high, possible), p_values)


def measured_difference(
    asked: ComparedNumber, now: Levels, other: npt.NDArray[np.int64], measure: Measure, confidence: Fraction
) -> ComparedRows:
    """Each row less the one of another group, which stands in the same table of totals."""
    sides = [_side(level, asked, measure, confidence) for level in now.levels]
    names = ("above", "below")
    above, below = (now.in_rows([getattr(each.quotient, name) for each in sides]) for name in names)
    value, error = (now.in_rows([getattr(each, name) for each in sides]) for name in ("value", "error"))
    which = now.in_rows([np.full(level.rows, float(at)) for at, level in enumerate(now.levels)])
    found = {each.name: np.full(other.shape, np.nan) for each in fields(ComparedRows) if each.name != "never"}
    for at, side in enumerate(sides):
        rows = np.flatnonzero((other >= 0) & (which == at))
        whole = _Side(side.quotient._replace(above=above, below=below), value, error)
        figures = _measured(whole.of(rows), whole.of(other[rows]), confidence)
        for name, numbers in found.items():
            numbers[rows] = getattr(figures, name)
    return ComparedRows(**found, never=other < 0)
