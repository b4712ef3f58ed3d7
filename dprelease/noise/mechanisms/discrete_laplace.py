"""Discrete Laplace noise: P(k) proportional to exp(-|k| / scale) on the integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.sampler import Sampler, add_noise
from dprelease.privacy.event import DiscreteLaplace, Sensitivity
from dprelease.privacy.rounding import CONTEXT, real

__all__ = ["DiscreteLaplaceLaw", "DiscreteLaplaceMechanism"]


@dataclass(frozen=True)
class DiscreteLaplaceLaw:
    """The law of one draw; with q = exp(-1/scale), P(k) = (1 - q) / (1 + q) * q^|k|."""

    scale: Fraction

    @property
    def variance(self) -> float:
        """2 q / (1 - q)^2 (the variance of the difference of two geometric variables)."""
        return _variance(self.scale)

    @lru_cache(maxsize=1 << 14)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def margin(self, confidence: Fraction) -> int:
        """The smallest m with P(|noise| <= m) >= confidence, from P(|noise| > m) = 2 q^(m+1) / (1 + q)."""
        rate = 1 / real(self.scale)
        log_tail = CONTEXT.log(2) - CONTEXT.log1p(CONTEXT.exp(-rate))
        log_beta = CONTEXT.log(real(1 - confidence))
        margin = max(0, int(CONTEXT.ceil((log_tail - log_beta) / rate)) - 3)
        while log_tail - rate * (margin + 1) > log_beta:
            margin += 1
        return margin


@lru_cache(maxsize=1 << 14)
def _variance(scale: Fraction) -> float:
    q = CONTEXT.exp(-1 / real(scale))
    return float(2 * q / (1 - q) ** 2)


class DiscreteLaplaceMechanism:
    """Independent discrete Laplace noise on every cell; pure differential privacy by the L1 sensitivity."""

    name = "discrete_laplace"

    def event(self, scale: Fraction, sensitivity: Sensitivity) -> DiscreteLaplace:
        """What it costs."""
        return DiscreteLaplace(scale=scale, sensitivity=sensitivity)

    def law(self, scale: Fraction) -> DiscreteLaplaceLaw:
        """The distribution of its noise."""
        return DiscreteLaplaceLaw(scale)

    def draw(self, exact: Exact, scale: Fraction, sampler: Sampler = "native") -> npt.NDArray[np.int64]:
        """Noisy values from exact ones; the sum saturates at the limits of 64 bits, after the noise."""
        return add_noise("laplace", open_exact(exact), scale, sampler)
