"""What it costs to let noise decide which keys appear: thresholds, and the optimal single decision.

Everywhere here a table holds the keys that occur, neighbours differ by one unit that is added or removed, the unit
holds at most ``l0`` keys, and a key is released when its noisy count is **above** the threshold. With integer noise
"at least t" is "above t - 1": the two differ by a factor of e^(1/scale) for Laplace noise, so that the rule is part
of the mechanism. The deltas are costs and are rounded up.

Nothing here is wired into the product yet: no release selects keys. :func:`gshm_delta` is proved in
``docs/proofs/sparse-histogram.md``.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = [
    "discrete_gaussian_threshold_delta",
    "gaussian_threshold_delta",
    "gshm_delta",
    "gshm_sides",
    "laplace_tau",
    "laplace_threshold_delta",
    "partition_pi",
]

_DIGITS = 30
_NEGLIGIBLE = CONTEXT.mpf(10) ** -45  # of a sum whose last digit matters is the 30th
_SMOOTH = 4  # from this scale on, the lattice sum is the integral to 130 digits


def laplace_threshold_delta(scale: Fraction, threshold: int, l0: int, linf: int = 1) -> Fraction:
    """The probability that a key which one unit alone holds is released: discrete Laplace noise.

    The noise is integer-valued, P(k) proportional to e^(-|k| / scale), and a key is released when count + noise is
    above the threshold: ``1 - (1 - p)^l0``, ``p = P(noise >= threshold + 1 - linf)``. For ``linf`` 1 that is
    ``p = e^(-threshold / scale) / (1 + e^(-1 / scale))``. What the noisy counts tell besides is the discrete Laplace
    event of the same scale; the two compose.

    Args:
        scale: Of the noise, above 0.
        threshold: Keys with a noisy count above it are released; at least ``linf``.
        l0: The number of keys that one unit can hold.
        linf: The largest count that one unit can give to a key.

    Returns:
        A rational in [0, 1], rounded up.

    Raises:
        ValueError: If an argument is outside its bounds.

    Source:
        Korolova, Kenthapadi, Mishra and Ntoulas 2009; the tail is the geometric series.
    """
    _check_threshold(scale, threshold, l0, linf)
    b = real(scale)
    tail = CONTEXT.exp(-(threshold + 1 - linf) / b) / (1 + CONTEXT.exp(-1 / b))
    return _any_of(tail, l0)


def gaussian_threshold_delta(sigma: Fraction, threshold: int, l0: int, linf: int = 1) -> Fraction:
    """The probability that a key which one unit alone holds is released: continuous Gaussian noise.

    ``1 - (1 - p)^l0``, ``p = 1 - Phi((threshold - linf) / sigma)``. It also bounds integer noise of that scale under
    the rule "above", by Canonne, Kamath and Steinke 2020, Proposition 25 (P(discrete >= m) <= P(continuous >= m - 1));
    it does **not** bound integer noise under the rule "at least":
    :func:`discrete_gaussian_threshold_delta` is exact for both.

    Args:
        sigma: Standard deviation of the noise, above 0.
        threshold: Keys with a noisy count above it are released; at least ``linf``.
        l0: The number of keys that one unit can hold.
        linf: The largest count that one unit can give to a key.

    Returns:
        A rational in [0, 1], rounded up.

    Raises:
        ValueError: If an argument is outside its bounds.
    """
    _check_threshold(sigma, threshold, l0, linf)
    return _any_of(CONTEXT.ncdf(-(threshold - linf) / real(sigma)), l0)


def discrete_gaussian_threshold_delta(sigma: Fraction, threshold: int, l0: int, linf: int = 1) -> Fraction:
    """The probability that a key which one unit alone holds is released: discrete Gaussian noise.

    ``1 - (1 - p)^l0``, ``p = P(noise >= threshold + 1 - linf)`` summed over the lattice, P(k) proportional to
    e^(-k^2 / (2 sigma^2)).

    Args:
        sigma: Scale of the noise, above 0. The sum has about 10 sigma terms.
        threshold: Keys with a noisy count above it are released; at least ``linf``.
        l0: The number of keys that one unit can hold.
        linf: The largest count that one unit can give to a key.

    Returns:
        A rational in [0, 1], rounded up.

    Raises:
        ValueError: If an argument is outside its bounds.
    """
    _check_threshold(sigma, threshold, l0, linf)
    return _any_of(_lattice_tail(real(sigma), threshold + 1 - linf), l0)


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
    _check_l0(l0)
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
    _check_l0(k)
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


def _lattice_tail(sigma: Any, start: int) -> Any:
    """P(Z >= start), start at least 1, as a series with its remainder bounded by a geometric one."""
    # Poisson summation: the whole sum is sigma sqrt(2 pi) (1 + 2 e^(-2 pi^2 sigma^2) + ...), so never below it.
    smooth = sigma >= _SMOOTH
    whole = sigma * CONTEXT.sqrt(2 * CONTEXT.pi) if smooth else 1 + 2 * _weights_from(sigma, 1)
    return _weights_from(sigma, start) / whole


def _weights_from(sigma: Any, start: int) -> Any:
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


def _any_of(probability: Any, count: int) -> Fraction:
    """1 - (1 - probability)^count, without the loss of a small probability, rounded up."""
    return min(upper(-CONTEXT.expm1(count * CONTEXT.log1p(-probability))), Fraction(1))


def _nearest(value: Any) -> Fraction:
    if value == 0:
        return Fraction(0)
    unit = Fraction(10) ** (int(CONTEXT.floor(CONTEXT.log10(value))) + 1 - _DIGITS)
    return int(CONTEXT.nint(value / real(unit))) * unit


def _check_l0(l0: int) -> None:
    if l0 < 1:
        raise ValueError("a unit can hold at least one key")


def _check_threshold(scale: Fraction, threshold: int, l0: int, linf: int) -> None:
    _check_l0(l0)
    if scale <= 0:
        raise ValueError("a scale is above 0")
    if not 1 <= linf <= threshold:
        raise ValueError("linf is at least 1, and the threshold at least linf")
