"""With which probability a key is shown that one unit, or a group of units, alone holds; and the threshold it needs.

A table holds the keys that occur, and a key is shown when its number of units plus noise is **at least** the threshold
T. For integer noise "above T" is "at least T + 1", and the two differ by a factor of e^(1/scale) for Laplace noise: the
rule is part of the mechanism. The deltas are costs and are rounded up. Proofs are in docs/proofs/key-selection.md.

>>> least_threshold("laplace", Fraction(1), Fraction(1, 10**6), 1)
15
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = [
    "Noise",
    "continuous_tail",
    "gaussian_tail",
    "group_delta",
    "laplace_tail",
    "least",
    "least_threshold",
    "shown_delta",
    "threshold_delta",
]

Noise = Literal["laplace", "gaussian"]
Tail = Callable[[Fraction, int], Any]
"""A scale and a whole number m >= 1 to P(noise >= m), a 60-digit real."""

_LARGEST_SUMMED = 200
_NEGLIGIBLE = CONTEXT.mpf(10) ** -45  # of a sum whose last digit matters is the 30th
_SMOOTH = 4  # from this scale on, the lattice sum is the integral to 130 digits


def threshold_delta(noise: Noise, scale: Fraction, threshold: int, groups: int, units: int = 1) -> Fraction:
    """The probability that one of ``groups`` keys, each held by the same ``units`` alone, is shown; rounded up.

    1 - (1 - p)^groups with p = P(units + noise >= threshold). It is exact but for discrete Gaussians of a scale above
    200, which the continuous one bounds (Canonne, Kamath and Steinke 2020, Proposition 25): one step more at most.
    From the threshold on, where keys of so many units are shown more often than not, it is told as 1.

    Args:
        noise: ``laplace`` or ``gaussian``, both discrete.
        scale: The scale of the noise, positive.
        threshold: At least 2; a key is released when its noisy count is at least that.
        groups: How many such keys.
        units: How many units hold each of them; at least 1.

    Raises:
        ValueError: If an argument is outside its bounds.
    """
    if 2 <= threshold <= units:
        return Fraction(1)
    if noise == "laplace":
        return shown_delta(laplace_tail, scale, threshold, groups, units)
    tail = continuous_tail if scale > _LARGEST_SUMMED else gaussian_tail
    return shown_delta(tail, scale, threshold, groups, units)


def shown_delta(tail: Tail, scale: Fraction, threshold: int, groups: int, units: int = 1) -> Fraction:
    """The same for noise of this tail: 1 - (1 - p)^groups, p = tail(threshold - units).

    What the noisy counts tell besides is the event of the noise itself; the two compose (Korolova, Kenthapadi, Mishra
    and Ntoulas 2009). Arguments and errors as for :func:`threshold_delta`; there are fewer units than the threshold.
    """
    if groups < 1:
        raise ValueError("a unit can hold at least one key")
    if scale <= 0:
        raise ValueError("a scale is above 0")
    if not 1 <= units < threshold:
        raise ValueError("a key has at least one unit, and the threshold is above their number")
    missed = groups * CONTEXT.log1p(-tail(scale, threshold - units))  # without the loss of a small probability
    return min(upper(-CONTEXT.expm1(missed)), Fraction(1))


def laplace_tail(scale: Fraction, least: int) -> Any:
    """P(Z >= m) of discrete Laplace noise, P(k) proportional to e^(-|k| / scale): the geometric series."""
    b = real(scale)
    return CONTEXT.exp(-least / b) / (1 + CONTEXT.exp(-1 / b))


def continuous_tail(scale: Fraction, least: int) -> Any:
    """P(X >= m - 1) of continuous Gaussian noise, which bounds P(Z >= m) of discrete Gaussian noise of that scale.

    Canonne, Kamath and Steinke 2020, Proposition 25. P(X >= m) bounds it not: it is below :func:`gaussian_tail`.
    """
    return CONTEXT.ncdf(-(least - 1) / real(scale))


def gaussian_tail(scale: Fraction, least: int) -> Any:
    """P(Z >= m) of discrete Gaussian noise, P(k) proportional to e^(-k^2 / (2 scale^2)): about 10 scales of terms."""
    # Poisson summation: the whole sum is sigma sqrt(2 pi) (1 + 2 e^(-2 pi^2 sigma^2) + ...), so never below it.
    sigma = real(scale)
    smooth = sigma >= _SMOOTH
    whole = sigma * CONTEXT.sqrt(2 * CONTEXT.pi) if smooth else 1 + 2 * _weights_from(sigma, 1)
    return _weights_from(sigma, least) / whole


def _weights_from(sigma: Any, start: int) -> Any:
    """The sum of e^(-k^2 / (2 sigma^2)) from ``start`` on, with its remainder bounded by a geometric series."""
    step = CONTEXT.exp(-1 / sigma**2)
    term = CONTEXT.exp(-(CONTEXT.mpf(start) ** 2) / (2 * sigma**2))
    ratio = CONTEXT.exp(-(2 * CONTEXT.mpf(start) + 1) / (2 * sigma**2))
    total = CONTEXT.mpf(0)
    while True:
        total += term
        rest = term * ratio / (1 - ratio)  # the ratios fall, so that the rest is below this geometric series
        if rest <= _NEGLIGIBLE * total:
            return total + rest
        term, ratio = term * ratio, ratio * step


@lru_cache(maxsize=4096)
def group_delta(noise: Noise, scale: Fraction, threshold: int, keys: int, units: int) -> Fraction:
    """The largest probability with which a key is shown that a group of so many units alone holds; rounded up.

    Each unit holds at most ``keys`` keys. Of all ways in which the group can hold keys the worst is one of two: all of
    them hold the same ``keys`` keys, or no two of them hold the same one (docs/proofs/key-selection.md, Theorem 4). For
    one unit it is :func:`threshold_delta`.

    Args:
        noise: ``laplace`` or ``gaussian``, both discrete.
        scale: The scale of the noise, positive.
        threshold: At least 2; a key is released when its noisy count is at least that.
        keys: The most keys of one unit.
        units: How many units.

    Raises:
        ValueError: If an argument is outside its bounds.
    """
    together = threshold_delta(noise, scale, threshold, keys, units)
    return max(together, threshold_delta(noise, scale, threshold, keys * units))


@lru_cache(maxsize=4096)
def least_threshold(noise: Noise, scale: Fraction, delta: Fraction, groups: int) -> int:
    """The least integer T, from 2 on, with which :func:`threshold_delta` of one unit is at most ``delta``.

    With T = 1 a key of one unit would be released with a probability above 1/2, whatever the scale.

    Args:
        noise: ``laplace`` or ``gaussian``, both discrete.
        scale: The scale of the noise, positive.
        delta: In (0, 1).
        groups: The most keys of one unit.

    Returns:
        The threshold of the rule "released when the noisy count is at least T".

    Raises:
        ValueError: If an argument is outside its bounds.
    """
    if scale <= 0 or groups < 1 or not 0 < delta < 1:
        raise ValueError("a scale is above 0, a unit has at least one key, and delta is in (0, 1)")
    each = -CONTEXT.expm1(CONTEXT.log1p(-real(delta)) / groups)
    if noise == "laplace":
        guess = 1 - real(scale) * (CONTEXT.log(each) + CONTEXT.log1p(CONTEXT.exp(-1 / real(scale))))
    else:  # P(noise >= m) is about that of the continuous one from m - 1/2 on
        guess = 1.5 - real(scale) * NormalDist().inv_cdf(min(max(float(each), 1e-300), 0.5))
    return least(lambda value: threshold_delta(noise, scale, value, groups) <= delta, int(CONTEXT.ceil(guess)), 2)


def least(holds: Callable[[int], bool], guess: int, first: int) -> int:
    """The least integer >= first for which a monotone condition holds; asked near the guess, in steps that double."""
    high, step = max(guess, first), 1
    while not holds(high):
        high, step = high + step, 2 * step
    low, step = high - 1, 1
    while low >= first and holds(low):
        high, low, step = low, low - step, 2 * step
    low = max(low, first - 1)
    while high - low > 1:
        middle = (low + high) // 2
        high, low = (middle, low) if holds(middle) else (high, middle)
    return high
