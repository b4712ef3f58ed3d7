"""What the draws of a series of periods say of each period and of sums of them, and how far that errs.

In every period t one draw has the noisy ``y_t = c_0 x_t + ... + c_(b-1) x_(t-b+1) + z_t``, z_t independent and of one
variance (``catalog.series.band``). The table of period t is then estimated without bias by

    ``h_0 y_t + h_1 y_(t-1) + ... + h_(t-1) y_1``,   h_0, h_1, ... the power series of ``1 / (c_0 + c_1 z + ...)``,

which is the only such estimate that is linear (the matrix of the series has an inverse), so that nothing that was
published is ever revised. A sum of the last w periods has the weights ``g_k = h_k + ... + h_(k-w+1)``, and its variance
is that of one z times the sum of their squares. Everything here is exact: weights are rationals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dprelease.catalog.series.band import Band, BandDraw
from dprelease.noise.weighted_sums import RoundedLaw, WeightedLaw

__all__ = [
    "PARTS",
    "endless_variances",
    "errors_in_the_end",
    "errors_of_linear",
    "in_parts",
    "law_in_the_end",
    "law_of_change",
    "law_of_sum",
    "newest",
    "periods_from_draws",
    "sum_of_last",
    "sum_variance",
    "sum_weights",
    "weights_of_periods",
]

PARTS = 1000
"""Estimates of periods are whole numbers of so many parts of a grid step, so that sums of them agree exactly."""

_FINE = 40  # bits after the point while periods are worked out


def weights_of_periods(band: Band, periods: int) -> tuple[Fraction, ...]:
    """h_0, ..., h_(t-1): how the newest period is estimated from all draws, the newest first.

    Args:
        band: What is drawn.
        periods: t, the number of draws so far.
    """
    return sum_weights(band, periods, 1)


def sum_weights(band: Band, periods: int, length: int) -> tuple[Fraction, ...]:
    """g_0, ..., g_(t-1): how the sum of the last ``length`` periods is made of the draws, the newest first.

    Args:
        band: What is drawn.
        periods: t, the number of draws so far.
        length: w, from 1 to t.

    Raises:
        ValueError: If there are not so many periods.
    """
    numerators, denominator = _whole_weights(band, periods, length)
    return tuple(Fraction(each, denominator) for each in numerators)


@lru_cache(maxsize=512)
def sum_variance(band: Band, periods: int, length: int) -> Fraction:
    """The variance of the sum of the last ``length`` periods after so many draws, for noise of variance 1 on each draw.

    It rises with the number of periods, towards :func:`endless_variances`.

    Args:
        band: What is drawn.
        periods: t, the number of draws so far.
        length: w, from 1 to t.
    """
    numerators, denominator = _whole_weights(band, periods, length)
    return Fraction(sum(each * each for each in numerators), denominator * denominator)


def _whole_weights(band: Band, periods: int, length: int) -> tuple[list[int], int]:
    """The weights of a sum as whole numbers over one denominator, ``c_0^t``."""
    if not 1 <= length <= periods:
        raise ValueError(f"a sum of {length} periods after {periods} of them")
    each, found, running = _periods_over(band, periods), [], 0
    for k, weight in enumerate(each):
        running += weight - (each[k - length] if k >= length else 0)
        found.append(running)
    return found, band.coefficients[0] ** periods


@lru_cache(maxsize=64)
def _periods_over(band: Band, periods: int) -> tuple[int, ...]:
    """``h_k c_0^t``, by ``n_k = h_k c_0^(k+1)``: n_0 = 1, and ``n_k = -(c_1 n_(k-1) + c_2 c_0 n_(k-2) + ...)``."""
    first, *others = band.coefficients
    scaled = [each * first**lag for lag, each in enumerate(others)]
    found = [1]
    for _ in range(1, periods):
        found.append(-sum(each * earlier for each, earlier in zip(scaled, reversed(found), strict=False)))
    return tuple(each * first ** (periods - 1 - k) for k, each in enumerate(found))


@lru_cache(maxsize=64)
def endless_variances(band: Band, longest: int) -> tuple[Fraction, ...]:
    """Variances of sums of 1 to ``longest`` periods in a series without end, for noise of variance 1 on each draw.

    The noise e_t of period t's estimate satisfies ``c_0 e_t + c_1 e_(t-1) + ... = z_t``. Its autocovariances r_k thus
    satisfy the equations of Yule and Walker, ``sum_i c_i r_|k-i| = 1 / c_0 if k = 0 else 0``, which have one solution,
    and the sum of w of them has the variance ``w r_0 + 2 sum_(k<w) (w - k) r_k``, which is ``r_0 + 2 (r_1 + ... +
    r_(w-1))`` more than that of w - 1.

    Raises:
        ValueError: If the weights of earlier draws do not fade, so that there is no such variance.
    """
    if not _fades(band.coefficients):
        raise ValueError("the weights of earlier draws do not fade")
    covariances = list(_autocovariances(band))
    first, *others = band.coefficients
    while len(covariances) < longest:
        ahead = zip(others, reversed(covariances), strict=False)
        covariances.append(-sum((each * known for each, known in ahead), Fraction(0)) / first)
    more = accumulate((2 * each for each in covariances[1:longest]), initial=covariances[0])
    return tuple(accumulate(more))


@lru_cache(maxsize=64)
def _autocovariances(band: Band) -> tuple[Fraction, ...]:
    """r_0, ..., r_(b-1), by elimination in whole numbers (Bareiss 1968): no rational is shortened on the way."""
    numbers, size = band.coefficients, band.periods
    rows = [[0] * size for _ in range(size)]
    for k in range(size):
        for i, each in enumerate(numbers):
            rows[k][abs(k - i)] += each
    right = [1] + [0] * (size - 1)  # times 1 / c_0, which is divided by in the end
    table = [[*row, entry] for row, entry in zip(rows, right, strict=True)]
    before = 1
    for at in range(size):
        pivot = next(k for k in range(at, size) if table[k][at])
        table[at], table[pivot] = table[pivot], table[at]
        for k in range(size):
            if k != at:
                lead = table[k][at]
                table[k] = [
                    (table[at][at] * mine - lead * other) // before
                    for mine, other in zip(table[k], table[at], strict=True)
                ]
        before = table[at][at]
    return tuple(Fraction(row[size], row[k] * numbers[0]) for k, row in enumerate(table))


def _fades(numbers: Sequence[int]) -> bool:
    """Whether c(z) has no zero in the unit disc or on its rim: the test of Schur and Cohn, in rationals."""
    rest = [Fraction(each) for each in numbers]
    while len(rest) > 1:
        part = rest[-1] / rest[0]
        if abs(part) >= 1:
            return False
        rest = [low - part * high for low, high in zip(rest, reversed(rest), strict=True)][:-1]
    return True


@lru_cache(maxsize=1 << 10)
def law_of_sum(draw: BandDraw, scale: Fraction, length: int = 1) -> RoundedLaw:
    """The law of the sum of the last periods, after a draw of a series.

    Args:
        draw: The newest draw.
        scale: The scale of the discrete Gaussian noise of every draw, in steps of its lattice.
        length: Of how many periods.
    """
    weights = sum_weights(draw.band, draw.number, length)
    variance = float(scale) ** 2
    parts = tuple((abs(float(weight)), 1, variance) for weight in weights if weight)
    return RoundedLaw(WeightedLaw(parts, gaussian=True), length * 0.5 / PARTS * (1 + 1e-6))


def errors_of_linear(
    variances: npt.NDArray[np.float64], numbers: int, least: Fraction, draw: BandDraw, length: int = 1
) -> npt.NDArray[np.float64]:
    """The standard errors of numbers that are linear in several draws of a series, of the last periods together.

    Of one period a number would be B y with y from the draws of that period alone. Of a series, y is estimated from all
    draws, with the same weights for all its numbers, so that the variance of B y is that of one period times that of
    :func:`sum_variance`. Each of the y of each period is rounded to a part, which moves B y by no more than half a part
    times |B|_1 <= (N |B|_2^2)^(1/2), and |B|_2^2 is at most the variance over the square of the least scale; and the
    number of each period is rounded, too.

    Args:
        variances: Of each number, if each draw were of one period alone.
        numbers: N, how many numbers are drawn of which it can be made.
        least: The least scale of their noise, in steps of the lattices.
        draw: The newest draw.
        length: Of how many periods.
    """
    told = float(sum_variance(draw.band, draw.number, length))
    return _with_rounding(variances, told, numbers, least, length)


def errors_in_the_end(
    variances: npt.NDArray[np.float64], numbers: int, least: Fraction, band: Band, lengths: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Standard errors as :func:`errors_of_linear` gives them that no period of a series exceeds, however long it is.

    Args:
        variances: Of each number, if each draw were of one period alone.
        numbers: How many numbers are drawn of which it can be made.
        least: The least scale of their noise, in steps of the lattices.
        band: Of all draws.
        lengths: Of how many periods the sum may be.
    """
    told = float(_worst_in_the_end(band, lengths)) * (1 + 1e-9)  # what is lost in doubles is far less
    return _with_rounding(variances, told, numbers, least, max(lengths))


def _with_rounding(
    variances: npt.NDArray[np.float64], told: float, numbers: int, least: Fraction, length: int
) -> npt.NDArray[np.float64]:
    noise = np.sqrt(variances * told)
    rounding = length * 0.5 / PARTS * (1 + 1e-6) * (1 + np.sqrt(numbers * variances) / float(least))
    return np.asarray(noise + rounding, dtype=np.float64)


def _worst_in_the_end(band: Band, lengths: Sequence[int]) -> Fraction:
    """The largest variance; the longest sum need not have it, where a band is made for one of them above all."""
    known = endless_variances(band, max(lengths))
    return max(known[length - 1] for length in lengths)


def in_parts(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Numbers of a period as whole parts; those beyond 2^52 parts are that."""
    return np.clip(np.rint(numbers * PARTS), -(2.0**52), 2.0**52).astype(np.int64)


def law_in_the_end(draw: BandDraw, scale: Fraction, lengths: Sequence[int] = (1,)) -> RoundedLaw:
    """The law of a sum of the last periods that errs as much as any in a series without end.

    The error of each rises from period to period, towards that in a series without end.

    Args:
        draw: Any draw of the series.
        scale: Of the noise of every draw.
        lengths: Of how many periods the sum may be.
    """
    error = math.sqrt(_worst_in_the_end(draw.band, lengths)) * (1 + 1e-9)  # what is lost in doubles is far less
    law = WeightedLaw(((error, 1, float(scale) ** 2),), gaussian=True)
    return RoundedLaw(law, max(lengths) * 0.5 / PARTS * (1 + 1e-6))


def law_of_change(
    draws: tuple[BandDraw, BandDraw], scale: Fraction, lengths: tuple[int, int], common: int
) -> RoundedLaw:
    """The law of a sum of the last periods after one draw of a series less that after another one.

    Both are linear in the draws, so that the noise of a draw that both are made of counts with the difference of its
    two weights. That is exact: two margins added up take no account of it.

    Args:
        draws: The newest draw of each, of one series: of one band and one scale.
        scale: Of the noise of every draw, in steps of its lattice.
        lengths: Of how many periods each sum is.
        common: How many draws both are made of, from the first one on; the others are of each alone.
    """
    weights = [
        [float(weight) for weight in reversed(sum_weights(draw.band, draw.number, length))]
        for draw, length in zip(draws, lengths, strict=True)
    ]
    shared = [one - other for one, other in zip(*(each[:common] for each in weights), strict=True)]
    parts = [*shared, *weights[0][common:], *weights[1][common:]]
    law = WeightedLaw(tuple((abs(each), 1, float(scale) ** 2) for each in parts if each), gaussian=True)
    return RoundedLaw(law, sum(lengths) * 0.5 / PARTS * (1 + 1e-6))


def periods_from_draws(band: Band, draws: Sequence[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.int64]]:
    """Every period of a series, estimated from its draws up to then, in ``PARTS`` of a grid step.

    ``x_t = (y_t - c_1 x_(t-1) - c_2 x_(t-2) - ...) / c_0``, in whole numbers with 40 bits after the point, each
    rounded down, and rounded to the parts in the end: the same on every machine. What is rounded on the way is below
    2^-30 of a step, for the weights of earlier draws fade.

    Args:
        band: Of the series.
        draws: What was measured, the first period first, each of shape ``(cells,)``, in steps of the lattice.

    Returns:
        As many arrays of that shape; an estimate beyond 2^52 is that.
    """
    first, *others = band.coefficients
    exact: list[npt.NDArray[np.object_]] = []
    for drawn in draws:
        left = drawn.astype(object) * (1 << _FINE)
        for each, earlier in zip(others, reversed(exact), strict=False):
            left = left - each * earlier
        exact.append(left // first)
    half, most = 1 << (_FINE - 1), 1 << 52
    shown = [(each * PARTS + half) // (1 << _FINE) for each in exact]
    return [np.clip(each, -most, most).astype(np.int64) for each in shown]


def newest(periods: Sequence[npt.NDArray[np.int64]] | None, cells: int) -> npt.NDArray[np.float64]:
    """The newest period in grid steps; NaN where draws of earlier ones are not there."""
    return np.full(cells, np.nan) if periods is None else _in_steps(periods[-1])


def _in_steps(parts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """A number of parts in grid steps: the double whose shortest text is that number, if it is not huge."""
    return np.asarray(parts / PARTS, dtype=np.float64)


def sum_of_last(periods: Sequence[npt.NDArray[np.int64]], length: int | None, cells: int) -> npt.NDArray[np.float64]:
    """The sum of the last periods in grid steps; NaN where there are none such."""
    if length is None or length > len(periods):
        return np.full(cells, np.nan)
    return _in_steps(np.sum(periods[-length:], axis=0, dtype=np.int64))
