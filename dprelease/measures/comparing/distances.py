"""How far noise alone takes a weighted sum of draws: margins, p-values, and which of many comparisons stand out.

A change or a difference d' of two published numbers is d + W, and W is a weighted sum of draws with public laws. Where
all of them are discrete Laplace, or all discrete Gaussian, and independent, its law is that of ``noise.weighted_sums``;
of two independent draws of different kinds that of ``measures.laws``. Of anything else the margins are added up, which
holds whatever depends on what (Bonferroni).

>>> from dprelease.noise import MECHANISMS
>>> law = MECHANISMS["discrete_laplace"].law(Fraction(4))
>>> noise = noise_of_sum([(1.0, law), (-1.0, law)])
>>> noise.margin(Fraction(95, 100)), [round(p, 4) for p in noise.p_values(np.array([0.0, 17.0, -40.0])).tolist()]
(16.0, [1.0, 0.0491, 0.0003])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.measures.laws import KnownLaw, SumLaw
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.weighted_sums import WeightedLaw, widest

__all__ = ["Distances", "noise_of_sum", "stand_out", "weighted"]

Floats = npt.NDArray[np.float64]
Part = tuple[float, int, float]

_LEAST = 1e-9  # a p-value below it is given as this
_RARE = Fraction(1, 1000)
_PER_DECADE, _DECADES = 24, 9  # of the error probabilities that p-values are read off where no law is summed up


@dataclass(frozen=True)
class _Added:
    """Margins of draws that depend on one another in some way, added up."""

    parts: tuple[tuple[float, Law], ...]

    @property
    def variance(self) -> float:
        """At most: standard deviations add up (Cauchy-Schwarz)."""
        return math.fsum(abs(weight) * math.sqrt(law.variance) for weight, law in self.parts) ** 2

    def margin(self, confidence: Fraction) -> float:
        """Each with its part of the error probability."""
        each = 1 - (1 - confidence) / len(self.parts)
        return math.fsum(abs(weight) * law.margin(each) for weight, law in self.parts)


@dataclass(frozen=True)
class Distances:
    """The noise of a comparison.

    Attributes:
        law: Of the noise, in units of ``unit``.
        unit: What one step of the law is in units of the number.
    """

    law: Law
    unit: float

    @property
    def standard_error(self) -> float:
        """Of the noise, or a bound of it where draws may depend on one another."""
        return self.unit * math.sqrt(self.law.variance)

    def margin(self, confidence: Fraction) -> float:
        """An m with P(|W| <= m) >= confidence."""
        return self.unit * float(self.law.margin(confidence))

    def p_values(self, found: Floats) -> Floats:
        """For each difference d upper bounds of P(|W| >= |d|); NaN stays NaN.

        Of a sum of whole draws it is summed up. Of others it is the least error probability out of some, 24 a decade,
        at which the margin is below |d|: at most 10 % more than need be, or below 0.001
        for weighted sums of Laplace draws what a bound for any weights gives. None is less than 1e-9.
        """
        size = np.abs(found) / self.unit
        known = ~np.isnan(size)
        result = np.where(known, 1.0, np.nan)
        if isinstance(self.law, WeightedLaw) and (beyond := self.law.beyond) is not None:
            steps = np.ceil(size[known] - 1e-6)
            at = np.clip(steps - 1, 0, len(beyond) - 1).astype(np.int64)
            result[known] = np.where(steps <= 0, 1.0, np.clip(beyond[at], _LEAST, 1.0))
            return result
        for exponent in range(1, _PER_DECADE * _DECADES + 1):
            alpha = Fraction(10.0 ** (-exponent / _PER_DECADE))
            passed = known & (size > self._margin_at(alpha))
            if not passed.any():
                break
            result[passed] = float(alpha)
        return result

    def _margin_at(self, alpha: Fraction) -> float:
        """A margin in steps of the law; of Laplace sums at small alphas that of any weights, which takes no series."""
        law = self.law
        if isinstance(law, WeightedLaw) and not law.gaussian and alpha < _RARE:
            least = min(variance for _, _, variance in law.parts)
            return math.sqrt(law.variance) * widest(least, 1 - alpha)
        return float(law.margin(1 - alpha))


def weighted(law: Law, weight: float) -> tuple[tuple[Part, ...], bool] | None:
    """A law as parts of a weighted sum, and whether its draws are Gaussian; None where it is of another kind."""
    if isinstance(law, WeightedLaw):
        return tuple((abs(weight * each), times, variance) for each, times, variance in law.parts), law.gaussian
    if isinstance(law, DiscreteGaussianLaw):
        return ((abs(weight), 1, float(law.scale) ** 2),), True
    if isinstance(law, DiscreteLaplaceLaw):
        return ((abs(weight), 1, law.variance),), False
    return None


def noise_of_sum(parts: Sequence[tuple[float, Law]]) -> Distances:
    """The noise of a weighted sum of independent draws; of those whose law is not known here they may depend.

    Args:
        parts: Weights, in units of the number per step of the draw, and laws; at least one weight is not 0.
    """
    used = [(weight, law) for weight, law in parts if weight]
    sizes = {abs(weight) for weight, _ in used}
    unit = sizes.pop() if len(sizes) == 1 else 1.0
    found = [weighted(law, weight / unit) for weight, law in used]
    told = [each for each in found if each is not None]
    if len(told) == len(found) and len({gaussian for _, gaussian in told}) == 1:
        return Distances(WeightedLaw(tuple(part for each, _ in told for part in each), told[0][1]), unit)
    if len(used) == 1:
        return Distances(used[0][1], unit)
    (first, one), (second, other) = used[0], used[1]
    if len(used) == 2 and abs(first) == abs(second) and isinstance(one, KnownLaw) and isinstance(other, KnownLaw):
        return Distances(SumLaw(one, other), unit)
    return Distances(_Added(tuple((weight / unit, law) for weight, law in used)), unit)


def stand_out(p_values: Floats, rate: float) -> npt.NDArray[np.bool_]:
    """Which comparisons are told apart from noise, if of those at most this part is to be there by noise alone.

    Benjamini and Hochberg 1995 (J. R. Stat. Soc. B 57): the k least p-values, k the largest with p_(k) <= k rate / n.

    >>> stand_out(np.array([0.001, 0.04, 0.9, np.nan, 0.02]), 0.05).tolist()
    [True, False, False, False, True]
    """
    known = np.sort(p_values[~np.isnan(p_values)])
    within = np.flatnonzero(known <= np.arange(1, len(known) + 1) * (rate / max(1, len(known))))
    if not len(within):
        return np.zeros(p_values.shape, dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(p_values <= known[within[-1]])
