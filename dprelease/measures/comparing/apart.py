"""How far apart two quotients are, by the narrower interval and the p-value that are measured and not proved.

Of two independent means or ratios each has a set of quotients that its noise does not refuse. A difference of their
ends holds the truth whatever the data are, and is far too wide: both sets would have to miss, on opposite sides. MOVER
takes the distances of the ends as two sides of a right angle (Zou and Donner 2008, Stat. Med. 27:1693), by the ends of
the sets before they are cut to what is possible. How often such intervals hold is known from simulation alone
(docs/decisions/0149-differences-of-quotients.md, tests/statistical/test_quotients_apart.py).

>>> one, two = (np.array([each]) for each in (0.5, 0.3))
>>> low, high = mover((one, one - 0.1, one + 0.1), (two, two - 0.1, two + 0.1))
>>> round(float(low[0]), 3), round(float(high[0]), 3)
(0.059, 0.341)
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.measures.tested.quotients import NoisyQuotient
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.mechanisms.knorm import KNormLaw

__all__ = ["has_coarse_noise", "mover", "p_values_apart"]

Floats = npt.NDArray[np.float64]
Told = tuple[Floats, Floats, Floats]
"""A number in each cell with the ends of its interval, infinite where there is none."""

_LEAST = 1e-9  # a p-value below it is given as this
_PULLED = 1.02  # apart: equal scales of a sum of Laplace variables, upwards
_COARSE = 6.0  # a draw with less variance is no continuous one
_FAINT = 1e-4  # of the largest scale: a smaller one is taken for this


def has_coarse_noise(of: NoisyQuotient) -> bool:
    """Whether one of its draws has so few values that no interval which is only measured is taken."""
    return any(each.law.variance < _COARSE for each in of.draws)


def mover(one: Told, two: Told) -> tuple[Floats, Floats]:
    """The ends of the interval of the difference of two independent numbers; NaN where one of the two is."""
    (first, low_1, high_1), (second, low_2, high_2) = one, two
    with np.errstate(invalid="ignore"):
        apart = first - second
        return apart - np.hypot(first - low_1, high_2 - second), apart + np.hypot(high_1 - first, second - low_2)


def p_values_apart(one: NoisyQuotient, two: NoisyQuotient, confidence: Fraction) -> Floats:
    """P(|L| >= |d|) of the difference d of two quotients, if the true ones are the same; NaN where one is blank.

    L is the noise of the difference at first order: with the quotient r of all that is above by all that is below, the
    sum of (a - r b) / B' times each draw of the one number, less that of the other. Draws are taken for continuous
    ones; where they have few values the difference is taken for half a step less. Where a lower number might be 0 it
    is 1.

    Args:
        one: The first quotient.
        two: The other one, whose draws are independent of those of the first.
        confidence: With which a lower number is told from 0.
    """
    from scipy.special import ndtr  # takes longer to import than most releases to publish

    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = (one.above + two.above) / (one.below + two.below)
        least, most = one.possible
        pooled = np.clip(pooled, -np.inf if least is None else least, np.inf if most is None else most)
        parts = [part for made in (one, two) for part in _weighted(made, pooled)]
        size = np.abs(one.above / one.below - two.above / two.below)
        size = np.maximum(size - np.max([_half_step(made, pooled) for made in (one, two)], axis=0), 0.0)
        sure = (one.below > _margin(one, confidence)) & (two.below > _margin(two, confidence)) & ~np.isnan(size)
    result = np.where(np.isnan(one.below) | np.isnan(two.below), np.nan, 1.0)
    spread = np.stack([each[sure] for each, _ in parts])
    kinds = {type(law) for _, law in parts}
    tails = []
    if kinds != {DiscreteLaplaceLaw}:
        tails.append(2 * ndtr(-size[sure] / np.sqrt((spread**2).sum(axis=0))))
    if kinds != {DiscreteGaussianLaw}:
        tails.append(_laplace_tail(spread / math.sqrt(2), size[sure]))
    result[sure] = np.clip(np.max(tails, axis=0), _LEAST, 1.0)
    return result


def _variance(law: Law) -> float:
    """Of a draw; where it has few values that of the draw and a uniform part of a step."""
    return law.variance + (1 / 12 if law.variance < _COARSE else 0.0)


def _weighted(of: NoisyQuotient, at: Floats) -> list[tuple[Floats, Law]]:
    """The standard deviation that each draw gives to the quotient, at one true quotient in each cell.

    Coordinates of one K-norm draw depend on one another: they are one, with standard deviations added up.
    """
    found: list[tuple[Floats, Law]] = []
    joint: dict[str, int] = {}
    for each in of.draws:
        size = np.abs((each.above - at * each.below) / of.below) * math.sqrt(_variance(each.law))
        if each.drawn in joint and isinstance(each.law, KNormLaw):
            place = joint[each.drawn]
            found[place] = found[place][0] + size, each.law
            continue
        joint[each.drawn] = len(found)
        found.append((size, each.law))
    return found


def _half_step(of: NoisyQuotient, at: Floats) -> Floats:
    """Half of what the largest single step of noise moves the quotient by, where draws have few values; else 0."""
    coarse = [each for each in of.draws if each.law.variance < _COARSE]
    steps = [np.abs((each.above - at * each.below) / of.below) for each in coarse]
    found: Floats = np.max([np.zeros(at.shape), *steps], axis=0)
    return found / 2


def _margin(of: NoisyQuotient, confidence: Fraction) -> float:
    """Of the lower number: the margins of its draws, added up."""
    within = [each for each in of.draws if each.below]
    each_at = 1 - (1 - confidence) / max(1, len(within))
    return sum(abs(each.below) * float(each.law.margin(each_at)) for each in within)


def _laplace_tail(scales: Floats, size: Floats) -> Floats:
    """P(|L| >= size) for a sum L of Laplace variables, ``(draws, cells)`` scales, which are pulled apart upwards.

    The density of a sum of Laplace variables with different scales s_i is that of a mixture of them with the weights
    prod_{j != i} s_i^2 / (s_i^2 - s_j^2) (partial fractions of its characteristic function).
    """
    scales = np.sort(scales, axis=0)
    scales = np.maximum(scales, _FAINT * scales[-1])
    for at in range(1, len(scales)):
        scales[at] = np.maximum(scales[at], _PULLED * scales[at - 1])
    squares, found = scales**2, np.zeros(size.shape)
    for at, own in enumerate(squares):
        found += np.prod(own / (own - np.delete(squares, at, axis=0)), axis=0) * np.exp(-size / scales[at])
    return found
