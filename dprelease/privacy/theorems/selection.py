"""What it costs to let noise decide which keys appear: the deltas of thresholds.

Everywhere here a table holds the keys that occur, neighbours differ by one unit that is added or removed, the unit
holds at most ``l0`` keys, and a key is released when its noisy count is **above** the threshold. With integer noise
"at least t" is "above t - 1": the two differ by a factor of e^(1/scale) for Laplace noise, so that the rule is part
of the mechanism. The deltas are costs and are rounded up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = ["discrete_gaussian_threshold_delta", "gaussian_threshold_delta", "laplace_threshold_delta"]

_NEGLIGIBLE = CONTEXT.mpf(10) ** -45  # of a sum whose last digit matters is the 30th
_SMOOTH = 4  # from this scale on, the lattice sum is the integral to 130 digits


def laplace_threshold_delta(scale: Fraction, threshold: int, l0: int, linf: int = 1) -> Fraction:
    """The probability that a key which one unit alone holds is released: discrete Laplace noise.

    The noise is integer-valued, P(k) proportional to e^(-|k| / scale), and a key is released when count + noise is
    above the threshold: ``1 - (1 - p)^l0``, ``p = P(noise >= threshold + 1 - linf)``. For ``linf`` 1 that is
    ``p = e^(-threshold / scale) / (1 + e^(-1 / scale))``. What the noisy counts tell besides is the discrete Laplace
    event of the same scale; the two compose.

    Args:
        scale: The scale of the noise, above 0.
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


def _check_l0(l0: int) -> None:
    if l0 < 1:
        raise ValueError("a unit can hold at least one key")


def _check_threshold(scale: Fraction, threshold: int, l0: int, linf: int) -> None:
    _check_l0(l0)
    if scale <= 0:
        raise ValueError("a scale is above 0")
    if not 1 <= linf <= threshold:
        raise ValueError("linf is at least 1, and the threshold at least linf")
