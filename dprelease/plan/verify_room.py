"""Whether noise has room in 64 bits beside the largest total: a question about a plan, not about the data.

Totals are clamped to 2^62 in size before noise is added (``engines.steps.MOST``), and answers to 64 bits after it.
Clamping an answer is post-processing, and moves it no further from the total, so that neither the loss nor a margin
depends on this check. It makes sure that answers are not clamped, and so biased, but by a chance of 2^-80.

The contrasts of a residual are larger than the counts that they are made of, by up to grain prod 2 (n_i - 1). Counts
are clamped so that contrasts are at most 2^61 (``noise.residual``), and a plan where that happens to a count of less
than 2^32 rows is refused. The same is done with the sums of a factor (``noise.factor``).
"""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.catalog.factor import Factor
from dprelease.plan.document import Step

__all__ = ["has_room"]

_LARGEST_TOTAL = 2**62
_LARGEST_CONTRAST = 2**61
_LEAST_COUNT = 2**32
_LARGEST_ANSWER = 2**63 - 1
_REACH = {"discrete_laplace": 57, "laplace_threshold": 57, "discrete_gaussian": 11, "gaussian_threshold": 11}
_JOINT = ("count_knorm", "linf_knorm")
_WITHOUT_NOISE = ("exponential_quantile", "exponential_top_k", "optimal_selection")


def has_room(step: Step) -> bool:
    """Whether a total and its noise fit into 64 bits, but for a chance of 2^-80 a number; choices always do.

    Of a residual: 2^32 grain prod 2 (n_i - 1) <= 2^61, and 2^61 + 11 scale <= 2^63 - 1. Of a factor, in the same way,
    with the largest sum of sizes along a row of its matrix.
    """
    if step.factor is not None:
        return _LEAST_COUNT * _row_sum(step.factor) <= _LARGEST_CONTRAST and _contrast_fits(step)
    if step.residual is None:
        return _LARGEST_TOTAL + _reach(step) <= _LARGEST_ANSWER
    growth = step.residual.grain * math.prod(2 * (step.residual.shape[at] - 1) for at in step.residual.axes)
    return _LEAST_COUNT * growth <= _LARGEST_CONTRAST and _contrast_fits(step)


def _contrast_fits(step: Step) -> bool:
    return _LARGEST_CONTRAST + _reach(step) <= _LARGEST_ANSWER


def _row_sum(factor: Factor) -> int:
    """The largest sum of sizes along a row, for which counts are clamped: one row after the other."""
    return max(int(sum(map(abs, row.tolist()))) for row in factor.matrix)


def _reach(step: Step) -> Fraction:
    """What the noise on one number exceeds with a probability below 2^-80, in grid steps; 0 without noise.

    P(|X| >= t) is at most 2 exp(-t / scale) for discrete Laplace noise, and at most 2 exp(-t^2 / (2 scale^2)) for
    discrete Gaussian noise (Canonne, Kamath and Steinke 2020, section 3). A number of a K-norm draw of k is at most
    the radius, J + G_0 + ... + G_k with J <= k (``noise.knorm``), and E exp(G / (2 scale)) = 1 + exp(-1 / (2 scale))
    is at most 2 for each geometric G: P(sum >= t) <= 2^(k + 1) exp(-t / (2 scale)), which is 2^-80 at
    t = 2 ln 2 (k + 81) scale. 7/5 is above 2 ln 2.
    """
    if step.mechanism in _JOINT:
        number = len(step.parts)
        return number + Fraction(7, 5) * (number + 81) * step.scale
    return Fraction(0) if step.mechanism in _WITHOUT_NOISE else _REACH[step.mechanism] * step.scale
