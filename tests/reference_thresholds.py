"""Thresholds and coins from the literature that no release uses: what the package's own are held against."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.theorems.threshold import shown_delta

__all__ = ["above_delta", "gshm_delta", "gshm_sides", "laplace_tau", "partition_pi"]

_DIGITS = 30


def above_delta(
    tail: Callable[[Fraction, int], Any], scale: Fraction, threshold: int, l0: int, linf: int = 1
) -> Fraction:
    """The delta of ``shown_delta`` under the rule that other tools have: shown when **above** the threshold."""
    return shown_delta(tail, scale, threshold + 1, l0, linf)


def laplace_tau(epsilon: Fraction, delta: Fraction, l0: int) -> Fraction:
    """The threshold that continuous Laplace noise of scale ``l0 / epsilon`` needs, for counts of units.

    ``1 + (l0 / epsilon) ln(1 / (2 p))`` with ``p = 1 - (1 - delta)^(1 / l0)``, so that l0 keys, each held by one
    unit alone, stay below it with probability at least ``1 - delta``.

    Args:
        epsilon: Above 0.
        delta: Above 0, and so small that p is at most 1/2, where the formula of the tail holds.
        l0: The number of keys that one unit can hold.

    Returns:
        The threshold, rounded up.

    Raises:
        ValueError: If an argument is outside its bounds.

    Source:
        Korolova et al. 2009; Wilson et al. 2020, section 3.
    """
    if l0 < 1:
        raise ValueError("a unit can hold at least one key")
    if epsilon <= 0 or not 0 < delta < 1:
        raise ValueError("epsilon is above 0, delta above 0 and less than 1")
    p = -CONTEXT.expm1(CONTEXT.log1p(-real(delta)) / l0)
    if 2 * p > 1:
        raise ValueError("delta is so large that one key in two would be released; no threshold is needed")
    return 1 + upper(-CONTEXT.log(2 * p) * l0 / real(epsilon))


def partition_pi(epsilon: Fraction, delta: Fraction, n: int) -> Fraction:
    """The best probability with which a key held by n units may be released under (epsilon, delta).

    ``pi(0) = 0`` and ``pi(n) = min(e^epsilon pi(n-1) + delta, 1 - e^-epsilon (1 - pi(n-1) - delta), 1)``. No
    (epsilon, delta) rule that never releases an absent key releases more, for any n.

    Args:
        epsilon: At least 0.
        delta: Above 0 and less than 1.
        n: How many units hold the key; at least 0.

    Returns:
        A probability to draw with. It is not a cost, so it is **rounded to the nearest** 30 digits, not up: a coin of
        that bias meets (epsilon, delta) up to 1e-29.

    Raises:
        ValueError: If an argument is outside its bounds.

    Source:
        Desfontaines, Voss, Gipson and Mandayam, "Differentially private partition selection", PoPETs 2022.
    """
    if n < 0 or epsilon < 0 or not 0 < delta < 1:
        raise ValueError("n and epsilon are at least 0, delta is above 0 and less than 1")
    grow, d = CONTEXT.exp(real(epsilon)), real(delta)
    pi = CONTEXT.mpf(0)
    for _ in range(n):
        pi = min(grow * pi + d, 1 - (1 - pi - d) / grow, CONTEXT.mpf(1))
        if pi >= 1:
            return Fraction(1)
    return _nearest(pi)


def gshm_delta(epsilon: Fraction, sigma: Fraction, tau_minus_1: Fraction, k: int) -> Fraction:
    """The exact delta of the Gaussian sparse histogram: noise and threshold accounted together.

    The keys that occur get N(0, sigma^2) noise and are released when above tau. Of the k keys of one unit let j be
    held by others too; with ``F = Phi((tau - 1) / sigma)``, ``g = (k - j) ln F`` and the Gaussian profile ``dG`` at
    ``mu = sqrt(j) / sigma`` it is the largest, over j from 0 to k, of ``(1 - F^(k-j)) + F^(k-j) dG(mu, epsilon - g)``
    (unit added) and ``dG(mu, epsilon + g)`` (unit removed).

    Args:
        epsilon: At least 0.
        sigma: Standard deviation of the continuous noise, above 0. Integer noise is not covered.
        tau_minus_1: The threshold less 1, the count that one unit alone gives to a key; may be negative.
        k: The number of keys that one unit can hold, each once.

    Returns:
        A rational in [0, 1], rounded up.

    Raises:
        ValueError: If an argument is outside its bounds.

    Source:
        Wilkins, Kifer, Zhang and Karrer 2024; proved again in ``docs/proofs/sparse-histogram.md``, Theorem 1.
    """
    if k < 1:
        raise ValueError("a unit can hold at least one key")
    return max(max(gshm_sides(epsilon, sigma, tau_minus_1, j, k - j)) for j in range(k + 1))


def gshm_sides(
    epsilon: Fraction, sigma: Fraction, tau_minus_1: Fraction, shared: int, own: int
) -> tuple[Fraction, Fraction]:
    """The delta of the Gaussian sparse histogram for a unit with so many keys of each kind.

    Args:
        epsilon: At least 0.
        sigma: Standard deviation of the continuous noise, above 0.
        tau_minus_1: The threshold less 1.
        shared: How many of the unit's keys others hold too, in numbers far above the threshold (the worst case).
        own: How many it alone holds.

    Returns:
        The delta where the unit is added, and where it is removed; rationals in [0, 1], rounded up. The second is
        never above the first.

    Raises:
        ValueError: If an argument is outside its bounds.

    Source:
        As :func:`gshm_delta`.
    """
    if epsilon < 0 or sigma <= 0 or shared < 0 or own < 0:
        raise ValueError("epsilon and the numbers of keys are at least 0, sigma is above 0")
    e, mu = real(epsilon), CONTEXT.sqrt(shared) / real(sigma)
    g = own * CONTEXT.log1p(-CONTEXT.ncdf(-real(tau_minus_1) / real(sigma)))
    added = -CONTEXT.expm1(g) + CONTEXT.exp(g) * _gaussian_profile(mu, e - g)
    return min(upper(added), Fraction(1)), min(upper(_gaussian_profile(mu, e + g)), Fraction(1))


def _gaussian_profile(mu: Any, x: Any) -> Any:
    """Balle and Wang 2018, Theorem 8; it holds for negative x as well, and for mu 0 as the limit."""
    if mu == 0:
        return max(-CONTEXT.expm1(x), CONTEXT.mpf(0))
    return CONTEXT.ncdf(mu / 2 - x / mu) - CONTEXT.exp(x) * CONTEXT.ncdf(-mu / 2 - x / mu)


def _nearest(value: Any) -> Fraction:
    if value == 0:
        return Fraction(0)
    unit = Fraction(10) ** (int(CONTEXT.floor(CONTEXT.log10(value))) + 1 - _DIGITS)
    return int(CONTEXT.nint(value / real(unit))) * unit
