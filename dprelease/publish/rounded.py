"""Published numbers rounded to multiples of a base, after the noise and for reading: it protects nothing.

The nearest multiple is taken, ties to the even one: it adds b^2/12 to the squared error of a number with a standard
error of half the base and more, random (unbiased) rounding twice that, and the bias that remains is at most
(b/pi) e^(-2 pi^2 sd^2/b^2) for Gaussian noise. The interval is the exact one with its ends moved outward to multiples
of the base, so that it holds whatever the exact one held; and the rounded number is in it where the number was in the
exact one, for rounding is monotone and leaves multiples where they are. The margin of noise and sampling of a weighted
number is likewise the distance of the farther end of its interval moved outward; the sampling error stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.plan.document import ReleasePlan

__all__ = ["error_when_rounded", "rounded_tables"]

Floats = npt.NDArray[np.float64]


def rounded_tables(plan: ReleasePlan, tables: Sequence[PublishedTable]) -> tuple[PublishedTable, ...]:
    """The tables with the numbers rounded that the plan says; derived tables are made of the numbers before.

    Args:
        plan: That was measured.
        tables: Its queries, as they are estimated.
    """
    bases = {} if plan.publish.figures is None else plan.publish.figures.bases
    found = []
    for table in tables:
        asked = {} if table.derived else bases.get(table.name, {})
        measures = tuple(_rounded(each, asked[each.name]) if each.name in asked else each for each in table.measures)
        found.append(replace(table, measures=measures) if asked else table)
    return tuple(found)


def error_when_rounded(error: Floats, base: Fraction, grid: Fraction | None) -> Floats:
    """The root of the mean squared error of a number that is rounded to the nearest multiple of a base.

    A number on a grid g is off by each of its distances from the nearest multiple alike, up to what e^(-2 pi^2
    sd^2/b^2) leaves: (b^2 - g^2)/12 on the mean where b is an odd multiple of g, and (b^2 + 2 g^2)/12 where it is an
    even one, whose ties to even are off by b/2 twice as often as any other distance. Without a grid it is b^2/12.

    Args:
        error: Standard errors, of any shape.
        base: What is rounded to.
        grid: Of which the numbers are multiples; None: of nothing.
    """
    steps = None if grid is None else base / grid
    if grid is None or steps is None or steps.denominator != 1:
        more = base**2
    else:
        more = base**2 - grid**2 if steps.numerator % 2 else base**2 + 2 * grid**2
    return np.sqrt(error**2 + float(more / 12))


def _rounded(measure: PublishedMeasure, base: Fraction) -> PublishedMeasure:
    """Margins are at least half the base more, or the distance of the farther end from a number within its interval."""
    value = _times(np.rint(_steps(measure.value, base)), base)
    lower, upper = _outward(measure.lower, base, up=False), _outward(measure.upper, base, up=True)
    with np.errstate(invalid="ignore"):
        inside = (lower <= value) & (value <= upper)
        farther = np.where(inside, np.maximum(value - lower, upper - value), measure.margin + float(base / 2))
    error, total = measure.standard_error, measure.total_margin
    if total is not None:  # about the rounded number, as the margin is; the sampling error is of the number before
        ends = _outward(measure.value - total, base, up=False), _outward(measure.value + total, base, up=True)
        total = np.maximum(value - ends[0], ends[1] - value)
        total.flags.writeable = False
    if measure.unadjusted is None:
        grid = None if measure.places is None else Fraction(1, 10**measure.places)
        sure = error == 0  # a whole of itself: a multiple of every base
        error = np.where(sure, 0.0, error_when_rounded(error, base, grid))
        margin = _outward(farther, base, up=True)
    else:
        margin = measure.margin.copy()  # of the estimate, which is not rounded
        error = error.copy()
    with np.errstate(invalid="ignore"):
        low = (value == 0) & ((measure.lower > 0) | (measure.upper < 0))
    value, lower, upper = value + 0.0, lower + 0.0, upper + 0.0  # no negative zero
    for each in (value, error, margin, lower, upper):
        each.flags.writeable = False
    return replace(
        measure,
        value=value,
        standard_error=error,
        margin=margin,
        total_margin=total,
        lower=lower,
        upper=upper,
        places=_places(base),
        base=base,
        low=low,
    )


def _steps(numbers: Floats, base: Fraction) -> Floats:
    return numbers * float(base.denominator) / float(base.numerator)


def _times(steps: Floats, base: Fraction) -> Floats:
    """So many times the base: the double that its decimal text reads as, up to 2^53 times the denominator."""
    return steps * float(base.numerator) / float(base.denominator)


def _outward(numbers: Floats, base: Fraction, *, up: bool) -> Floats:
    """The next multiple at or beyond each number; of a quotient that was rounded past it the one before is tried."""
    steps = np.ceil(_steps(numbers, base)) if up else np.floor(_steps(numbers, base))
    inward = steps - 1 if up else steps + 1
    with np.errstate(invalid="ignore"):
        for tried in (inward, steps):
            found = _times(tried, base)
            holds = found >= numbers if up else found <= numbers
            steps = np.where(holds, np.fmin(steps, tried) if up else np.fmax(steps, tried), steps)
        found = _times(steps, base)
        short = found < numbers if up else found > numbers
    return np.where(short, _times(steps + 1 if up else steps - 1, base), found)


def _places(base: Fraction) -> int:
    return next(places for places in range(10) if (base * 10**places).denominator == 1)
