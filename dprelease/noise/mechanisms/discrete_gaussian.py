"""Discrete Gaussian noise: P(k) proportional to exp(-k^2 / (2 scale^2)) on the integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.sampler import Sampler, add_noise
from dprelease.privacy.event import DiscreteGaussian, Sensitivity

__all__ = ["DiscreteGaussianLaw", "DiscreteGaussianMechanism", "normal_margin"]

_NEARLY_NORMAL = Fraction(2)


@dataclass(frozen=True)
class DiscreteGaussianLaw:
    """The law of one draw, by its own lattice sums (Canonne, Kamath and Steinke 2020, section 3)."""

    scale: Fraction

    @cached_property
    def variance(self) -> float:
        """Sum of k^2 P(k); at most scale^2, and equal to it but for exp(-2 pi^2 scale^2) (CKS20, Fact 18)."""
        sigma = float(self.scale)
        return sigma * sigma if sigma > 40 else _lattice_variance(sigma)

    @lru_cache(maxsize=1 << 14)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def margin(self, confidence: Fraction) -> int:
        """The smallest m with P(|noise| <= m) >= confidence.

        Summed from the far tail inwards, so that small tails keep their digits. For scales over 2^14 whole
        blocks of integers are summed at their nearer end, an upper bound that adds at most one block.
        """
        sigma = float(self.scale)
        beta = float(1 - confidence)
        width = 1 << max(0, int(sigma).bit_length() - 14)
        reach = int(sigma * math.sqrt(2 * math.log(4 / beta) + 40)) // width + 2
        at = np.arange(1, reach + 1, dtype=np.float64) * width - (width - 1)
        mass = np.exp(-(at * at) / (2 * sigma * sigma)) * width
        tail = np.cumsum(mass[::-1])[::-1]
        total = 1 + 2 * tail[0] if width == 1 else sigma * np.sqrt(2 * np.pi)
        inside = np.nonzero(2 * tail / total <= beta)[0]
        return int(inside[0]) * width if len(inside) else reach * width


@lru_cache(maxsize=1 << 14)
def _lattice_variance(sigma: float) -> float:
    """Worked out once: candidates, the plan and its verifier ask for the same scale."""
    k = np.arange(1, int(20 * sigma) + 20, dtype=np.float64)
    mass = np.exp(-(k * k) / (2 * sigma * sigma))
    return float(2 * np.sum(k * k * mass) / (1 + 2 * np.sum(mass)))


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


def normal_margin(confidence: Fraction, smallest: Fraction = _NEARLY_NORMAL) -> float:
    """Half the width of an interval of that confidence, in standard errors, for a sum of many draws.

    A reconciled number is a weighted sum of independent discrete Gaussian draws. Of scale 2 and more such a draw is
    normal but for the rounding to whole numbers, to 10^-15 (Poisson summation: its characteristic function is that of
    the normal law, repeated, and the copies overlap by less than exp(-2 pi^2 scale^2 / 4)); a sum that spreads over
    several cells is nearer. Below that the sub-Gaussian bound P(|X| >= t) <= 2 exp(-t^2 / (2 variance proxy)) is
    taken, whose proxy is the square of the scale (Canonne, Kamath and Steinke 2020, Proposition 3.1 with section 2):
    it holds for every weighted sum, and is wider.

    Args:
        confidence: Above 0 and below 1.
        smallest: The smallest scale of the draws, in steps of their lattices.
    """
    if smallest >= _NEARLY_NORMAL:
        return NormalDist().inv_cdf(float((1 + confidence) / 2))
    return math.sqrt(2 * math.log(2 / float(1 - confidence)))
