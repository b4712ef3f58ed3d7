"""How far a reconciled number is from the truth, in its standard errors, where draws have discrete Laplace noise.

Such a number is S = sum c_j X_j, of independent discrete Laplace X_j with variances v_j, and public weights c_j. Its
tails are heavier than normal ones. Two bounds hold; the smaller is taken.

**Of any weights** (:func:`widest`). The moment generating function of X_j is ``1 / (1 - v_j (cosh l - 1))``, which is
that of the difference of two geometric variables. With the parts ``a_j = c_j^2 v_j`` of a variance of 1, and v the
least of the v_j, ``v_j (cosh(l c_j) - 1) <= a_j v (cosh(l / sqrt(v)) - 1)``, because ``(cosh(x sqrt(a)) - 1) / a``
rises in a and ``v (cosh(l / sqrt(v)) - 1)`` falls in v (power series). As ``prod (1 - y_j) >= 1 - sum y_j``,

    P(|S| > t) <= 2 exp(-l t) / (1 - v (cosh(l / sqrt(v)) - 1)),

and it is at most ``1 / t^2`` (Chebyshev).

**Of a workload that is drawn at its lowest level alone, without impossible combinations** (:func:`flat_reach`): by its
characteristic function ``prod 1 / (1 + v_j (1 - cos(c_j u)))``. Let Z be normal of standard deviation h. Where S is
above t + 3 h, S + Z is above t with a probability of Phi(3) at least, so that ``P(|S| > t + 3 h) <= P(|S + Z| > t) /
Phi(3)``. Wrapped around a circle of length 2 L, S + Z has the Fourier series ``1 / (2 L) + sum_k cos(pi k x / L)
phi(pi k / L) / L``, whose sum over [-t, t] exceeds P(|S + Z| <= t) by P(|S + Z| > 2 L - t) at most; that is taken off
by the first bound.

The weights of a cell of a table A (:mod:`dprelease.estimate.workloads.reconcile`): residual b of the cell is measured
by each draw D that contains it, which enters by its part p of the precision of b, so that a cell of D has the weight

    sum_{b in A and D} p_{D,b} prod_{i in b} ([same key] - 1 / n_i) / prod_{j in A - b} n_j.

A cell of a node above is the sum of that of the nodes at the lowest level that it has, which are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from dprelease.estimate.workloads.design import Axes, Design, Floats, Tree, subsets
from dprelease.estimate.workloads.reconcile import measured_variances

__all__ = ["flat_reach", "is_flat", "laplace_reach", "weights_of", "widest"]

_H = 0.01  # the standard deviation of Z, in standard errors of S
_MOST_WORK = 200_000  # weights of all tables together; beyond, only the first bound is worked out
_ENDS = 6.0  # standard deviations of the characteristic function of Z, beyond which it is below 2e-8
_TINY, _SLIGHT = 1e-10, 1e-6
_MOST_TERMS = 10**7
_FAR = 30.0  # what is wrapped around is below exp(-30)


def laplace_reach(design: Design, confidence: Fraction) -> float:
    """A margin of every number of a workload at this confidence, in standard errors of the number.

    Args:
        design: The workload; all draws that are not exact have discrete Laplace noise on counts.
        confidence: Above 0 and below 1.
    """
    noisy = [take.variance for take in design.taken if take.variance]
    if not noisy:  # so little noise that its variance is 0 in floats
        return 0.0
    most, copies = widest(min(noisy), confidence), _copies(design.tree)
    work = sum(2 ** len({*axes} & {*take.axes}) for axes in design.sets for take in design.taken)
    if not is_flat(design) or work * len(copies) > _MOST_WORK:
        return most
    return min(most, max(flat_reach(design, axes, confidence, each) for axes in design.sets for each in copies))


def is_flat(design: Design) -> bool:
    """Whether all is drawn at the lowest level, and no combination is impossible."""
    return design.zeros is None and all(take.level == design.tree.levels - 1 for take in design.taken)


def _copies(tree: Tree) -> list[int]:
    """How many nodes of the lowest level a node of any level can have, each number once."""
    counts = np.ones(tree.sizes[-1], dtype=np.int64)
    found = {1}
    for level in range(tree.levels - 2, -1, -1):
        counts = np.bincount(tree.parents[level], counts, tree.sizes[level]).astype(np.int64)
        found |= set(counts.tolist())
    return sorted(found)


def widest(least: float, confidence: Fraction) -> float:
    """The bound for any weights.

    Args:
        least: The least variance of a draw.
        confidence: Above 0 and below 1.
    """
    alpha, found = float(1 - confidence), 1 / math.sqrt(float(1 - confidence))
    for step in range(1, 200):
        rate, left = _moment(least, step / 200)
        found = min(found, math.log(2 / (alpha * left)) / rate)
    return found


def _moment(least: float, part: float) -> tuple[float, float]:
    """The l at which ``v (cosh(l / sqrt(v)) - 1)`` is this part of 1, and 1 less that part."""
    times = part / least
    if times < _TINY:
        rate = 2 * math.asinh(math.sqrt(times / 2))  # the same, of which 1 + times keeps few digits
    else:
        rate = math.acosh(1 + times) if times < math.inf else math.log(2 * part) - math.log(least)
    return math.sqrt(least) * rate, 1 - part


def flat_reach(design: Design, axes: Axes, confidence: Fraction, copies: int = 1) -> float:
    """The bound for the cells of one published table, which all have one law.

    Args:
        design: Drawn at its lowest level alone, without impossible combinations.
        axes: The attributes of the table.
        confidence: Above 0 and below 1.
        copies: How many nodes of the lowest level are added up.
    """
    weights, times, variances = weights_of(design, axes)
    times = times * copies
    total = float(np.sum(times * weights**2 * variances))
    if not total:
        return 0.0
    alpha, weights = float(1 - confidence), weights / math.sqrt(total)
    rate, left = _moment(float(variances.min()), 0.5)
    most = 1 / math.sqrt(alpha)
    beyond = 2 / left * math.exp(min(0.0, (rate * _H) ** 2 / 2 - _FAR))
    half = (most + _FAR / rate) / 2 + 1
    count = math.ceil(_ENDS / _H * half / math.pi)
    if count > _MOST_TERMS:  # nearly all of the law is in one point, and the series has no end
        return most
    at = np.arange(1, count + 1) * (math.pi / half)
    logs = -((at * _H) ** 2) / 2
    for weight, number, variance in zip(weights.tolist(), times.tolist(), variances.tolist(), strict=True):
        turn = weight * at
        # where the cosine keeps few digits of what it lacks of 1, the square of the sine of half the angle has them
        lacks = np.where(np.abs(turn) < _SLIGHT, 2 * np.sin(turn / 2) ** 2, 1 - np.cos(turn))
        logs -= number * np.log1p(variance * lacks)
    law = np.exp(logs) * 2 / (at * half)

    def outside(t: float) -> float:
        return 1 - t / half - float(np.sum(np.sin(at * t) * law)) + beyond

    low, high, allowed = 0.0, most, alpha * NormalDist().cdf(3) * (1 - 1e-6)
    if outside(high) > allowed:
        return most
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if outside(middle) <= allowed else (middle, high)
    return high + 3 * _H


def weights_of(design: Design, axes: Axes) -> tuple[Floats, Floats, Floats]:
    """The weights of the draws' cells in one cell of a published table, how many cells have each, and their variances.

    Args:
        design: As for :func:`flat_reach`; exact draws are left out.
        axes: The attributes of the table.
    """
    sizes, measured = design.sizes, measured_variances(design)
    found: list[tuple[float, float, float]] = []
    for take in design.taken:
        if not take.variance:
            continue
        both = tuple(i for i in axes if i in take.axes)
        own = {}
        for b in subsets(both):
            told = measured[b][-1] if b in measured else 0.0
            alone = take.variance * math.prod(sizes[j] for j in take.axes if j not in b)
            own[b] = told / alone / math.prod(sizes[j] for j in axes if j not in b)
        others = math.prod(sizes[j] for j in take.axes if j not in both)
        found += [(*each, take.variance) for each in _kinds(own, both, sizes, others)]
    return tuple(np.array(column) for column in zip(*found, strict=True)) if found else (np.zeros(0),) * 3  # type: ignore[return-value]


def _kinds(own: dict[Axes, float], both: Axes, sizes: Sequence[int], others: int) -> list[tuple[float, int]]:
    """The weight of each kind of cell of a draw, told by which keys it has in common, and how many there are."""
    found = []
    for same in subsets(both):
        weight = sum(part * math.prod((1.0 if i in same else 0.0) - 1 / sizes[i] for i in b) for b, part in own.items())
        found.append((weight, others * math.prod(sizes[i] - 1 for i in both if i not in same)))
    return [each for each in found if each[1]]
