"""Epsilon of one Gaussian draw at a delta, for the verifier: by other forms than those that plans are made with."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

__all__ = ["lattice_epsilon", "normal_epsilon"]


@lru_cache(maxsize=1 << 13)
def lattice_epsilon(scale: float, shift: int, delta: float) -> float:
    """Of discrete noise on a cell that moves by ``shift``, in floats: at most a part in 10^9 from the truth.

    Where P(x >= t) - exp(epsilon) P(x >= t + shift), the best tail, is delta; the largest over t, never < -shift. The
    tail from there has more than delta, so that t is at most scale sqrt(2 ln(1 / delta)), and what is left out beyond
    is less than exp(-32) of what is added up.
    """
    reach = math.ceil(math.sqrt(max(0.0, -2 * math.log(delta)) + 64) * scale) + 2 * shift + 2
    heights = -((np.arange(-shift, reach + 1) / scale) ** 2) / 2
    masses = np.exp(heights)
    whole = 2 * masses[shift + 1 :].sum() + 1
    if heights[-1] > -600:  # no mass is lost among the floats: they are added up as they stand
        tails = np.cumsum(masses[::-1])[::-1]
        return math.log(max(1.0, float(((tails[: len(tails) - shift] - delta * whole) / tails[shift:]).max())))
    tails = np.logaddexp.accumulate(heights[::-1])[::-1] - math.log(whole)
    kept = tails[: len(tails) - shift][tails[: len(tails) - shift] > math.log(delta)]  # the first ones, for they fall
    lost = kept + np.log(-np.expm1(math.log(delta) - kept)) - tails[shift : shift + len(kept)]
    return max(0.0, float(lost.max(initial=-math.inf)))


@lru_cache(maxsize=1 << 13)
def normal_epsilon(mu: float, delta: float) -> float:
    """Of continuous noise at sensitivity / scale mu, by halving (Balle and Wang 2018, Theorem 8)."""
    low, high = 0.0, mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
    if _normal_log_delta(mu, 0.0) <= math.log(delta):
        return 0.0
    for _ in range(48):
        middle = (low + high) / 2
        low, high = (middle, high) if _normal_log_delta(mu, middle) > math.log(delta) else (low, middle)
    return high


def _normal_log_delta(mu: float, epsilon: float) -> float:
    """Ln of Phi(-z) - exp(epsilon) Phi(-z - mu), z = epsilon / mu - mu / 2, by Mills ratios, or mu times a slope."""
    z = epsilon / mu - mu / 2
    if z < -30:
        return 0.0
    near = _mills(z) - _mills(z + mu) if mu > 1e-6 else mu * (1 - (z + mu / 2) * _mills(z + mu / 2))
    return -z * z / 2 - math.log(2 * math.pi) / 2 + math.log(max(near, 1e-300))


def _mills(x: float) -> float:
    if x < 10:
        return math.sqrt(math.pi / 2) * math.erfc(x / math.sqrt(2)) * math.exp(x * x / 2)
    tail = x
    for k in range(60, 0, -1):
        tail = x + k / tail
    return 1 / tail
