"""With which probability a key is shown that one unit, or a group of units, alone holds; and the threshold it needs.

A key is shown when its number of units plus integer noise is **at least** the threshold T. The curves of ``selection``
know the rule "above", which for integers is "at least" one more: they are asked about T - 1. Proofs are in
docs/proofs/key-selection.md.

>>> least_threshold("laplace", Fraction(1), Fraction(1, 10**6), 1)
15
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

from dprelease.privacy.rounding import CONTEXT, real
from dprelease.privacy.theorems import selection

__all__ = ["Noise", "group_delta", "least", "least_threshold", "threshold_delta"]

Noise = Literal["laplace", "gaussian"]
_LARGEST_SUMMED = 200


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
        return selection.laplace_threshold_delta(scale, threshold - 1, groups, units)
    if scale > _LARGEST_SUMMED:
        return selection.gaussian_threshold_delta(scale, threshold - 1, groups, units)
    return selection.discrete_gaussian_threshold_delta(scale, threshold - 1, groups, units)


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
