"""The band of whole numbers with which sums of periods err least, equal on every machine, and the least there is.

Noise of variance 1 on every draw gives period estimates with the spectral density ``1 / R``, where
``R(w) = |c_0 + c_1 e^iw + ...|^2 = r_0 + 2 sum r_k cos kw`` and r are the autocorrelations of the band; one row costs
``mu^2 = r_0``. With the weights of an :class:`Aim`, ``G(w) = g_0 + 2 sum g_k cos kw``, the weighted mean variance at
mu = 1 is

    ``r_0 mean(G / R)``,  which is convex in r_1, ..., r_(b-1) where r_0 = 1 and R > 0,

for 1 / R is convex in R and R is linear in r. Newton's method finds its only minimum. The band is then the factor of R
without a zero in the unit disc (Fejer and Riesz), by Wilson's method (1969, "Factorization of the covariance
generating function of a pure moving average process"), times the grain, rounded. Without a limit to its length the
least is (Cauchy and Schwarz) ``(mean of the root of G)^2``, where R is proportional to that root.

Everything is decimal arithmetic of 50 digits, whose results the standard fixes to the last digit: no plan depends on
the machine. That the band is the best one matters to errors alone; what it costs follows from the whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dprelease.catalog.series.aims import Aim
from dprelease.catalog.series.band import GRAIN, MOST_PERIODS, Band
from dprelease.errors import BrokenPromiseError

__all__ = ["best_band", "least_objective", "least_variance"]

_CONTEXT = Context(prec=50, rounding=ROUND_HALF_EVEN)
_POINTS = 512  # frequencies of a whole turn; means over them are exact up to what fades within so many periods
_SMALL = Decimal(10) ** -36
_ROUNDS = 200

Reals = list[Decimal]


def best_band(aim: Aim, periods: int) -> Band:
    """The band of at most so many periods with the least objective, its numbers rounded to the grain.

    Args:
        aim: What the errors of sums weigh.
        periods: How many periods one draw may read, from 1 to ``MOST_PERIODS``.

    Raises:
        ValueError: If one draw may read none, or too many.
    """
    if not 1 <= periods <= MOST_PERIODS:
        raise ValueError(f"a draw reads one period at least and {MOST_PERIODS} at most")
    return _best_band(aim.correlation, periods)


@lru_cache(maxsize=32)
def _best_band(correlation: tuple[Fraction, ...], periods: int) -> Band:
    with localcontext(_CONTEXT):
        numbers = _factor(_correlations(correlation, periods))
        whole = [int((GRAIN * each).to_integral_value()) for each in numbers]
    while len(whole) > 1 and whole[-1] == 0:
        whole.pop()
    return Band(coefficients=tuple(whole))


@lru_cache(maxsize=32)
def _roots(correlation: tuple[Fraction, ...]) -> tuple[Decimal, ...]:
    """The root of G at every frequency of half a turn."""
    return tuple(each.sqrt() for each in _at_frequencies(_decimals(correlation)))


def least_objective(aim: Aim) -> Decimal:
    """``(mean of the root of G)^2``: below it no noise has the objective that is alike in all periods, at mu = 1."""
    with localcontext(_CONTEXT):
        return _mean(list(_roots(aim.correlation))) ** 2


def least_variance(aim: Aim, length: int) -> Decimal:
    """The variance of a sum of ``length`` periods under the noise that reaches :func:`least_objective`, at mu = 1.

    ``mean(D^2 / R)`` with R the root of G over its mean, and D^2 that of the sum.
    """
    with localcontext(_CONTEXT):
        roots = list(_roots(aim.correlation))
        squares = _at_frequencies([Decimal(length - lag) for lag in range(length)])
        terms = [square / root for square, root in zip(squares, roots, strict=True)]
        return _mean(terms) * _mean(roots)


def _decimals(numbers: Sequence[Fraction]) -> Reals:
    return [Decimal(each.numerator) / Decimal(each.denominator) for each in numbers]


@lru_cache(maxsize=1)
def _cosines() -> tuple[Decimal, ...]:
    """cos(2 pi k / points) for a whole turn: by half angles, then by adding angles."""
    half, cosine, parts = _POINTS // 2, Decimal(-1), 1
    while parts < half:
        cosine, parts = ((1 + cosine) / 2).sqrt(), parts * 2
    found = [Decimal(1), cosine]
    while len(found) <= half:
        found.append(2 * cosine * found[-1] - found[-2])
    return (*found, *reversed(found[1:-1]))


def _at_frequencies(correlation: Sequence[Decimal]) -> Reals:
    """``a_0 + 2 sum a_k cos kw`` for the frequencies of half a turn."""
    cosines = _cosines()
    twice = [2 * each for each in correlation[1:]]
    return [
        correlation[0] + sum((each * cosines[at * lag % _POINTS] for lag, each in enumerate(twice, 1)), Decimal(0))
        for at in range(_POINTS // 2 + 1)
    ]


def _mean(values: Sequence[Decimal]) -> Decimal:
    """Over a whole turn, of what is even: the ends of half a turn count once and all else twice."""
    return (values[0] + values[-1] + 2 * sum(values[1:-1], Decimal(0))) / _POINTS


def _mean_cosine(values: Sequence[Decimal], lag: int) -> Decimal:
    cosines = _cosines()
    return _mean([each * cosines[at * lag % _POINTS] for at, each in enumerate(values)])


def _correlations(correlation: Sequence[Fraction], periods: int) -> Reals:
    """The autocorrelations 1, r_1, ..., r_(b-1) with the least mean of G / R, by Newton's method with halved steps."""
    weights = _at_frequencies(_decimals(correlation))
    found = [Decimal(1)] + [Decimal(0)] * (periods - 1)
    density = _at_frequencies(found)
    value = _mean([g / r for g, r in zip(weights, density, strict=True)])
    for _ in range(_ROUNDS):
        step, falls = _newton_step(weights, density, periods)
        if falls < _SMALL:
            return found
        part = Decimal(1)
        while True:
            tried = [found[0], *(old + part * new for old, new in zip(found[1:], step, strict=True))]
            there = _at_frequencies(tried)
            if min(there) > 0:
                reached = _mean([g / r for g, r in zip(weights, there, strict=True)])
                if reached <= value - part * falls / 4:
                    break
            part /= 2
            if part < _SMALL:
                return found  # what is left to gain is below the last digits
        found, density, value = tried, there, reached
    raise BrokenPromiseError("the search for the band of a series does not end")


def _newton_step(weights: Sequence[Decimal], density: Sequence[Decimal], periods: int) -> tuple[Reals, Decimal]:
    """The step to the minimum of the quadratic that touches the objective, and twice what it falls by there.

    The derivatives of mean(G / R): ``-2 mean(G cos kw / R^2)``, and
    ``8 mean(G cos jw cos kw / R^3) = 4 mean(G (cos (j + k)w + cos (j - k)w) / R^3)``.
    """
    squared = [g / (r * r) for g, r in zip(weights, density, strict=True)]
    cubed = [each / r for each, r in zip(squared, density, strict=True)]
    down = [2 * _mean_cosine(squared, lag) for lag in range(1, periods)]
    moments = [_mean_cosine(cubed, lag) for lag in range(2 * periods - 1)]
    inner = range(1, periods)
    step = _solved([[4 * (moments[j + k] + moments[abs(j - k)]) for k in inner] for j in inner], down)
    return step, sum((each * slope for each, slope in zip(step, down, strict=True)), Decimal(0))


def _factor(correlation: Sequence[Decimal]) -> Reals:
    """The c_0 > 0, c_1, ... with these autocorrelations and no zero in the unit disc, by Wilson's method.

    From a c without such zeros ``sum_i (c_i d_(i+k) + d_i c_(i+k)) = r_k + sum_i c_i c_(i+k)`` leads to a d without
    any, and so on; the errors fall quadratically.
    """
    size = len(correlation)
    found = [(correlation[0] + 2 * sum(map(abs, correlation[1:]), Decimal(0))).sqrt()] + [Decimal(0)] * (size - 1)
    for _ in range(_ROUNDS):
        rows = [
            [
                (found[j - k] if j >= k else Decimal(0)) + (found[j + k] if j + k < size else Decimal(0))
                for j in range(size)
            ]
            for k in range(size)
        ]
        right = [
            correlation[k] + sum((found[i] * found[i + k] for i in range(size - k)), Decimal(0)) for k in range(size)
        ]
        nearer = _solved(rows, right)
        change = max(abs(new - old) for new, old in zip(nearer, found, strict=True))
        found = nearer
        if change < _SMALL:
            return found
    raise BrokenPromiseError("the factor of a band is not found")


def _solved(rows: Sequence[Sequence[Decimal]], right: Sequence[Decimal]) -> Reals:
    """The solution of a system of linear equations, by elimination with the largest pivot of a column."""
    table = [[*row, entry] for row, entry in zip(rows, right, strict=True)]
    size = len(table)
    for at in range(size):
        best = max(range(at, size), key=lambda k: abs(table[k][at]))
        table[at], table[best] = table[best], table[at]
        for k in range(at + 1, size):
            part = table[k][at] / table[at][at]
            if part:
                table[k] = [mine - part * other for mine, other in zip(table[k], table[at], strict=True)]
    found = [Decimal(0)] * size
    for at in reversed(range(size)):
        known = sum((table[at][k] * found[k] for k in range(at + 1, size)), Decimal(0))
        found[at] = (table[at][size] - known) / table[at][at]
    return found
