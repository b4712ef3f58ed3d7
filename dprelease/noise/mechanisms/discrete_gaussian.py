"""Discrete Gaussian noise: P(k) proportional to exp(-k^2 / (2 scale^2)) on the integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.sampler import Sampler, add_noise
from dprelease.privacy.event import DiscreteGaussian, Sensitivity

__all__ = ["DiscreteGaussianLaw", "DiscreteGaussianMechanism"]


@dataclass(frozen=True)
class DiscreteGaussianLaw:
    """The law of one draw, by its own lattice sums (Canonne, Kamath and Steinke 2020, section 3)."""

    scale: Fraction

    @cached_property
    def variance(self) -> float:
        """Sum of k^2 P(k); at most scale^2, and equal to it but for exp(-2 pi^2 scale^2) (CKS20, Fact 18)."""
        sigma = float(self.scale)
        if sigma > 40:
            return sigma * sigma
        k = np.arange(1, int(20 * sigma) + 20, dtype=np.float64)
        mass = np.exp(-(k * k) / (2 * sigma * sigma))
        return float(2 * np.sum(k * k * mass) / (1 + 2 * np.sum(mass)))

    @lru_cache(maxsize=1 << 14)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def margin(self, confidence: Fraction) -> int:
        """The smallest m with P(|noise| <= m) >= confidence.

        Summed from the far tail inwards, so that small tails keep their digits. For scales over 2^14 whole
        blocks of integers are summed at their nearer end, an upper bound that adds at most one block.
        """
        sigma = float(self.scale)
        beta = float(1 - confidence)
        width = 1 << max(0, int(sigma).bit_length() - 14)
        reach = int(sigma * np.sqrt(2 * np.log(4 / beta) + 40)) // width + 2
        at = np.arange(1, reach + 1, dtype=np.float64) * width - (width - 1)
        mass = np.exp(-(at * at) / (2 * sigma * sigma)) * width
        tail = np.cumsum(mass[::-1])[::-1]
        total = 1 + 2 * tail[0] if width == 1 else sigma * np.sqrt(2 * np.pi)
        inside = np.nonzero(2 * tail / total <= beta)[0]
        return int(inside[0]) * width if len(inside) else reach * width


class DiscreteGaussianMechanism:
    """Independent discrete Gaussian noise on every cell; zCDP by the L2 sensitivity."""

    name = "discrete_gaussian"

    def event(self, scale: Fraction, sensitivity: Sensitivity) -> DiscreteGaussian:
        """What it costs."""
        return DiscreteGaussian(scale=scale, sensitivity=sensitivity)

    def law(self, scale: Fraction) -> DiscreteGaussianLaw:
        """The distribution of its noise."""
        return DiscreteGaussianLaw(scale)

    def draw(self, exact: Exact, scale: Fraction, sampler: Sampler = "native") -> npt.NDArray[np.int64]:
        """Noisy values from exact ones; the sum saturates at the limits of 64 bits, after the noise."""
        return add_noise("gaussian", open_exact(exact), scale, sampler)
