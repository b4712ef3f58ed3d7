"""How much noise is enough for a quotient: a q(r) such that |W(r)| is larger with probability alpha at most.

W(r) = A' - r B' at the true quotient r is the sum of (a_i - r b_i) x_i over the draws behind two noisy numbers
(``tested.quotients``). For every bracket of quotients one q is found that is enough for each r in it: the least of
several that are proved, by adding margins up, by the normal law, and by the exact laws of two draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.measures.laws import KnownLaw, SharedLaw, draw_blocks, tail_above
from dprelease.measures.tested.knorm_pairs import KNormPair
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.knorm import KNormLaw
from dprelease.noise.weighted_sums import RoundedLaw, WeightedLaw, normal_reach

__all__ = ["Draw", "box_margins", "reaches"]

Floats = npt.NDArray[np.float64]

_WIDE = 50  # scales from which the lattice sum of exp(-k^2 / (2 s^2)) is s sqrt(2 pi) to more than 1e-10,000
_HALVINGS = 20  # of the search for q, from 0 to what is surely enough
_ROOT = 1e-6  # relative; a weight this near to 0 counts as 0
_BRACKETS = 64  # beside all values of a draw
_PAD = 1e-9  # relative; what doubles lose in a coefficient or a sum is less than a thousandth of it
_SMALL = Fraction(1, 100)  # of alpha: spent on the upper number in the box


class Draw(NamedTuple):
    """One independent draw behind a quotient.

    Attributes:
        law: Of its noise, in its own steps; symmetric about 0.
        above: How often it is in the upper number.
        below: How often it is in the lower number.
        drawn: Which draw of several numbers it is one of; empty: of none that is known.
    """

    law: Law
    above: float
    below: float
    drawn: str = ""


def box_margins(draws: Sequence[Draw], alpha: Fraction) -> tuple[float, float]:
    """Margins of the two numbers' noise that hold together: nearly all of alpha is the lower one's."""
    above = _added([(each.law, each.above) for each in draws], alpha * _SMALL)
    return above, _added([(each.law, each.below) for each in draws], alpha * (1 - _SMALL))


def _added(parts: Sequence[tuple[Law, float]], alpha: Fraction) -> float:
    """A margin of a number with error probability alpha: those of its draws, added up."""
    known = [(law, abs(weight)) for law, weight in parts if weight]
    return math.fsum(weight * law.margin(1 - alpha / len(known)) for law, weight in known)


def reaches(draws: tuple[Draw, ...], first: Floats, last: Floats, confidence: Fraction) -> Floats:
    """For each bracket a q with P(|W(r)| > q) <= alpha for every r in it: the least of those that are proved."""
    weights = [np.stack([each.above - border * each.below for border in (first, last)]) for each in draws]
    sizes = [np.abs(each).max(axis=0) for each in weights]
    m_above, m_below = box_margins(draws, 1 - confidence)
    box = m_above + np.maximum(np.abs(first), np.abs(last)) * m_below
    enough = np.min([box, *(_split(draws, sizes, shares, 1 - confidence) for shares in _shares(len(draws)))], axis=0)
    if all(isinstance(each.law, DiscreteGaussianLaw) and each.law.scale >= _WIDE for each in draws):
        enough = np.minimum(enough, _coupled(draws, weights, confidence))
    sums = [found for each in draws if (found := _sum_of_gaussians(each.law)) is not None]
    if len(sums) == len(draws):
        moved = sum(size * rounding for size, (_, rounding) in zip(sizes, sums, strict=True))
        enough = np.minimum(enough, _nearly_normal([law for law, _ in sums], weights, 1 - confidence) + moved)
    if len(draws) == 2:
        enough = np.minimum(enough, _exact(draws, weights, enough, 1 - confidence))
    return np.asarray(enough * (1 + _PAD))


def _shares(count: int) -> Iterator[tuple[Fraction, ...]]:
    """Ways to divide alpha among some draws: alike, or nearly all of it for one of them."""
    yield (Fraction(1, count),) * count
    if count == 2:
        for part in (Fraction(1, 100), Fraction(1, 20), Fraction(1, 5), Fraction(1, 3)):
            yield from ((part, 1 - part), (1 - part, part))


def _split(draws: Sequence[Draw], sizes: Sequence[Floats], shares: Sequence[Fraction], alpha: Fraction) -> Floats:
    """The margins of the draws added up, each with its share of alpha, for draws that depend as they like.

    Of a bracket the largest size of each weight counts, which is at one of its two ends.
    """
    parts = zip(draws, sizes, shares, strict=True)
    return np.asarray(sum(size * each.law.margin(1 - alpha * share) for each, size, share in parts))


def _coupled(draws: Sequence[Draw], weights: Sequence[Floats], confidence: Fraction) -> Floats:
    """Of independent discrete Gaussian draws: that of the normal law with their scales, and each weight's size more.

    Q((k + 1) / s) <= P(x > k) <= Q(k / s) for k >= 0, Q the tail of the standard normal law, so that x can be coupled
    with a normal variable of scale s that is never farther than 1 from it (the falling summands of the lattice lie
    between integrals; Canonne, Kamath and Steinke 2020, Fact 18 for the sum of all of them).
    """
    z = NormalDist().inv_cdf(1 - float(1 - confidence) / 2) * (1 + _PAD)
    scales = [float(each.law.scale) for each in draws if isinstance(each.law, DiscreteGaussianLaw)]
    variance = sum((weight * scale) ** 2 for weight, scale in zip(weights, scales, strict=True))
    slack = sum(np.abs(weight) for weight in weights)
    return np.asarray((z * np.sqrt(variance) + slack).max(axis=0))


def _sum_of_gaussians(law: Law) -> tuple[WeightedLaw, float] | None:
    """A sum of discrete Gaussian draws, and how far it was moved by rounding at most; None of every other law."""
    sums, rounding = (law.noise, law.rounding) if isinstance(law, RoundedLaw) else (law, 0.0)
    return (sums, rounding) if isinstance(sums, WeightedLaw) and sums.gaussian else None


def _nearly_normal(laws: Sequence[WeightedLaw], weights: Sequence[Floats], alpha: Fraction) -> Floats:
    """Of sums of discrete Gaussian draws, each independent of the others: as far from normal as all of them together.

    The standard deviation of W(r) is convex in r, so that it is largest at an end of the bracket.
    """
    variance = sum(weight**2 * law.variance for weight, law in zip(weights, laws, strict=True))
    reach = normal_reach([math.fsum(each) for each in zip(*(law.ripples for law in laws), strict=True)], float(alpha))
    return np.asarray((reach * np.sqrt(variance)).max(axis=0))


def _exact(draws: Sequence[Draw], weights: Sequence[Floats], enough: Floats, alpha: Fraction) -> Floats:
    """Of two independent draws x and y of known laws, by bisection on an upper bound of 2 P(W(r) > q).

    W(r) = c x + d y, where c may be taken as positive, for the laws are symmetric. Given y, W(r) > q means
    x > (q - d(r) y) / c(r). That is a quotient of two linear functions of r, and so monotone where c has no root:
    over a bracket it is least at one of its two ends, and over a block of y at one of its two ends. So

        P(W(r) > q) <= sum over blocks of P(y in block) P(x > the least of four) + P(y beyond all blocks)

    for every r in the bracket. The draw with more values is x where its weight has no root there; else it is y. One
    number of a draw of several can be y, beside a draw of its own, which is then of another step. Two numbers that are
    known to be of one K-norm draw have their joint law, in which (-x, -y) is as likely as (x, y).
    """
    found = enough.copy()
    order = sorted(range(2), key=lambda at: draws[at].law.variance, reverse=True)
    left = np.ones(enough.shape, dtype=bool)
    pair = _pair_of(draws)
    for at in order:
        joint = _joint(draws[at].law, draws[1 - at].law, pair, alpha)
        if joint is None:
            continue
        weight, other = weights[at], weights[1 - at]
        scale = np.abs(weight).max(axis=0) + 1e-300
        rooted = (np.sign(weight[0]) != np.sign(weight[1])) | (np.abs(weight).min(axis=0) < _ROOT * scale)
        rooted |= np.abs(weight).min(axis=0) < _ROOT * abs(draws[at].above)  # what doubles leave of a difference
        use = left & ~rooted
        left &= rooted
        for start in range(0, int(use.sum()), _BRACKETS):
            these = np.flatnonzero(use)[start : start + _BRACKETS]
            # Where c is negative x is taken for -x, or W(r) for -W(r) where x and y are of one draw.
            turned = other[:, these] if pair is None else other[:, these] * np.sign(weight[:, these])
            found[these] = _bisected(joint, np.abs(weight[:, these]), turned, enough[these], alpha)
    return found


class _Joint(NamedTuple):
    """Two draws x and y for the bisection.

    Attributes:
        first: The first value of y of each block.
        last: Its last one.
        beyond: P(y > all blocks).
        above: From a border of x for each block an upper bound of the sum of P(x > border, y in block).
    """

    first: Floats
    last: Floats
    beyond: float
    above: Callable[[Floats], Floats]


def _pair_of(draws: Sequence[Draw]) -> KNormPair | None:
    """Two numbers of one K-norm draw; None where they are not, or where their sums would take too long."""
    one, other = draws
    if not one.drawn or one.drawn != other.drawn or one.law != other.law or not isinstance(one.law, KNormLaw):
        return None
    return KNormPair.of(one.law)


def _joint(law: Law, given: Law, pair: KNormPair | None, alpha: Fraction) -> _Joint | None:
    """A draw of the first law as x and one of the other as y; None where nothing is known of them together."""
    if pair is not None and isinstance(given, KNormLaw):
        reach = given.margin(1 - alpha / 10**6)
        each = np.arange(-reach, reach + 1, dtype=np.float64)
        return _Joint(each, each, given.tail(reach) / 2, lambda x: pair.at_least(np.floor(x) + 1, each).sum(axis=-1))
    if not isinstance(law, KnownLaw) or not isinstance(given, KnownLaw | SharedLaw):
        return None
    blocks = draw_blocks(given, alpha)
    return _Joint(blocks.first, blocks.last, blocks.beyond, lambda x: tail_above(law, x) @ blocks.mass)


def _bisected(joint: _Joint, weight: Floats, factor: Floats, enough: Floats, alpha: Fraction) -> Floats:
    """A q for each bracket, at most ``enough``; ``weight`` and ``factor`` are c > 0 and d at its two ends."""
    # factor / weight at both ends of the brackets with both ends of every block: (2, brackets, blocks)
    slope = (factor / weight)[:, :, None]
    moved = np.stack([slope * joint.first, slope * joint.last]).max(axis=0)
    budget = float(alpha) / 2 * (1 - _PAD) - joint.beyond
    low, high = np.zeros_like(enough), enough.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        least = (middle / weight)[:, :, None] - moved
        at = (least - _PAD * ((middle / weight)[:, :, None] + np.abs(moved))).min(axis=0)
        within = joint.above(at) <= budget
        low, high = np.where(within, low, middle), np.where(within, middle, high)
    return high
