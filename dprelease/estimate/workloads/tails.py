"""How far a reconciled number is from the truth, in its standard errors, where draws have discrete Laplace noise.

Such a number is S = sum c_j X_j, of independent discrete Laplace X_j with variances v_j, and public weights c_j. Its
tails are heavier than normal ones. Two bounds hold; the smaller is taken.
They are those of any weighted sum of such draws (``noise.weighted_sums``); the second one is worked out for a
workload that is drawn at its lowest level alone, without impossible combinations (:func:`flat_reach`).

The weights of a cell of a table A (:mod:`dprelease.estimate.workloads.reconcile`): residual b of the cell is measured
by each draw D that contains it, which enters by its part p of the precision of b, so that a cell of D has the weight

    sum_{b in A and D} p_{D,b} prod_{i in b} ([same key] - 1 / n_i) / prod_{j in A - b} n_j.

A cell of a node above is the sum of that of the nodes at the lowest level that it has, which are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dprelease.estimate.workloads.design import Axes, Design, Floats, Tree, WorkloadDraw, subsets
from dprelease.estimate.workloads.reconcile import measured_variances
from dprelease.noise.weighted_sums import reach_of_sum, widest

__all__ = ["flat_reach", "is_flat", "laplace_reach", "weights_by_keys", "weights_of"]

_MOST_WORK = 200_000  # weights of all tables together; beyond, only the first bound is worked out


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


def flat_reach(design: Design, axes: Axes, confidence: Fraction, copies: int = 1) -> float:
    """The bound for the cells of one published table, which all have one law.

    Args:
        design: Drawn at its lowest level alone, without impossible combinations.
        axes: The attributes of the table.
        confidence: Above 0 and below 1.
        copies: How many nodes of the lowest level are added up.
    """
    weights, times, variances = weights_of(design, axes)
    return reach_of_sum(weights, times * copies, variances, confidence)


def weights_of(design: Design, axes: Axes) -> tuple[Floats, Floats, Floats]:
    """The weights of the draws' cells in one cell of a published table, how many cells have each, and their variances.

    Args:
        design: As for :func:`flat_reach`; exact draws are left out.
        axes: The attributes of the table.
    """
    sizes, found = design.sizes, list[tuple[float, float, float]]()
    for take, by_keys in weights_by_keys(design, axes):
        both = tuple(i for i in axes if i in take.axes)
        others = math.prod(sizes[j] for j in take.axes if j not in both)
        kinds = ((weight, others * _apart(same, both, sizes)) for same, weight in by_keys.items())
        found += [(weight, times, take.variance) for weight, times in kinds if times]
    return tuple(np.array(column) for column in zip(*found, strict=True)) if found else (np.zeros(0),) * 3  # type: ignore[return-value]


def weights_by_keys(design: Design, axes: Axes) -> list[tuple[WorkloadDraw, dict[Axes, float]]]:
    """For each draw that is not exact the weight of one of its cells in a cell of a published table.

    It goes by the attributes of both in which the two cells have the same key, all of which are listed.

    Args:
        design: As for :func:`flat_reach`.
        axes: The attributes of the table.
    """
    sizes, measured = design.sizes, measured_variances(design)
    found = []
    for take in design.taken:
        if not take.variance:
            continue
        both = tuple(i for i in axes if i in take.axes)
        own = {}
        for b in subsets(both):
            told = measured[b][-1] if b in measured else 0.0
            alone = take.variance * math.prod(sizes[j] for j in take.axes if j not in b)
            own[b] = told / alone / math.prod(sizes[j] for j in axes if j not in b)
        found.append((take, {same: _weight(own, same, sizes) for same in subsets(both)}))
    return found


def _weight(own: dict[Axes, float], same: Axes, sizes: Sequence[int]) -> float:
    """The weight of a cell that has the keys of these attributes in common."""
    return sum(part * math.prod((1.0 if i in same else 0.0) - 1 / sizes[i] for i in b) for b, part in own.items())


def _apart(same: Axes, both: Axes, sizes: Sequence[int]) -> int:
    """How many cells have just these keys in common, of all attributes that both cells have."""
    return math.prod(sizes[i] - 1 for i in both if i not in same)
