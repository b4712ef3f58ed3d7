"""Least squares on a hierarchy in which every node is the sum of its children: two passes, up and down.

One number per node is wanted, theta. At some levels every node has a measurement of it with independent noise, of one
variance o_l for all nodes of the level. Best linear unbiased estimates (Hay, Rastogi, Miklau and Suciu, "Boosting the
Accuracy of Differentially Private Histograms Through Consistency", VLDB 2010, section 4.2, for equal variances; with
any variances it is the Rauch-Tung-Striebel smoother on a tree):

* up: let V and S be the sums over the children of a node of their variances and estimates *from below*. From below the
  node itself has the variance ``u = o V / (o + V)`` and the estimate ``y = S + k (z - S)``, ``k = V / (o + V)``;
  at the lowest level ``u = o`` and ``y = z``;
* down: a root is finished. Given theta of the parent, that of its child has the mean ``y + h (theta' - S')`` and the
  variance ``u (1 - h)``, ``h = u / V'``. The best estimate is therefore ``y* = y + h (y'* - S')``, of variance
  ``v* = u (1 - h) + h^2 v'*``. The h of siblings add up to 1, so that the children add up to the parent.

``o = 0`` is an exact number and ``o = inf`` none. A node whose children are unknown from below passes its number on to
an only child; with more than one child nothing could tell them apart, and the caller has refused that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Floats, Tree

__all__ = ["Passes", "children_summed", "passes", "smooth"]


@dataclass(frozen=True, eq=False)
class Passes:
    """The weights of both passes and the variances that they end with; they depend on no data.

    Attributes:
        gains: For every level above the lowest k of every node, shape (nodes,); 0 where the level is not measured.
        below: Variances from below, shape (nodes,); inf where nothing is known.
        shares: For level 1, 2, ...: h of every node, shape (nodes,).
        variances: The variances of the best estimate, for every level of shape (nodes,).
    """

    gains: tuple[Floats, ...]
    below: tuple[Floats, ...]
    shares: tuple[Floats, ...]
    variances: tuple[Floats, ...]


def passes(tree: Tree, measured: Sequence[float]) -> Passes:
    """The weights and variances of least squares.

    Args:
        tree: The hierarchy.
        measured: For every level the variance of its measurements; 0: exact, inf: there is none. At and above the
            lowest measured level everything is known; below it every node must be an only child.
    """
    levels = tree.levels
    gains, shares, below = [np.ones(0)] * (levels - 1), [np.ones(0)] * (levels - 1), [np.ones(0)] * levels
    below[-1] = np.broadcast_to(float(measured[-1]), tree.sizes[-1:])
    for level in range(levels - 2, -1, -1):
        parents, own, known = tree.parents[level], measured[level], np.isfinite(below[level + 1][0])
        under = _counted(below[level + 1], parents, tree.sizes[level])  # V
        shares[level] = _shares(below[level + 1], under, parents) if known else np.ones(len(parents))
        gains[level] = _gains(own, under)
        below[level] = under if np.isinf(own) else own * gains[level]
    final = [below[0]]
    for level, share in enumerate(shares, 1):
        from_above = share**2 * final[-1][tree.parents[level - 1]]
        known = np.isfinite(below[level][0])
        final.append(below[level] * (1 - share) + from_above if known else from_above)
    return Passes(tuple(gains), tuple(below), tuple(shares), tuple(final))


def smooth(tree: Tree, found: Passes, measured: Sequence[Floats | None]) -> tuple[Floats, ...]:
    """The best estimates of every level; the measurements are overwritten.

    Args:
        tree: The hierarchy.
        found: The weights.
        measured: For every level its measurements, shape (nodes, numbers), or None where there is none: so many
            numbers with the same variances pass at once.
    """
    values = list(measured)
    sums: list[Floats | None] = [None] * tree.levels
    for level in range(tree.levels - 2, -1, -1):
        own, lower = values[level], values[level + 1]
        if lower is None:
            continue
        total = sums[level] = children_summed(lower, tree.parents[level], tree.sizes[level])
        if own is None:
            values[level] = total.copy()
        else:
            own -= total
            own *= found.gains[level][:, None]
            own += total
    for level in range(1, tree.levels):
        parents, above, rest, own = tree.parents[level - 1], values[level - 1], sums[level - 1], values[level]
        if above is None:
            raise ValueError("nothing is measured at or below the top level")
        if own is None or rest is None:
            values[level] = above[parents]
            continue
        rest -= above
        rest = rest[parents]
        rest *= found.shares[level - 1][:, None]
        own -= rest
        sums[level - 1] = None
    return tuple(value for value in values if value is not None)


def children_summed(values: Floats, parents: npt.NDArray[np.int64], above: int) -> Floats:
    """The sum over the children of every node of the level above, shape (above, numbers)."""
    if values.shape[1] == 1:
        return _counted(values[:, 0], parents, above)[:, None]
    if (parents[1:] < parents[:-1]).any():
        order = np.argsort(parents, kind="stable")
        values, parents = values[order], parents[order]
    starts = np.searchsorted(parents, np.arange(above))
    return np.asarray(np.add.reduceat(values, starts, axis=0), dtype=np.float64)


def _counted(numbers: Floats, parents: npt.NDArray[np.int64], above: int) -> Floats:
    return np.asarray(np.bincount(parents, numbers, above), dtype=np.float64)


def _gains(own: float, under: Floats) -> Floats:
    """How much of a node's own measurement is taken, k."""
    if np.isinf(own):
        return np.zeros_like(under)
    if own == 0 or np.isinf(under[0]):
        return np.ones_like(under)
    return under / (own + under)


def _shares(below: Floats, under: Floats, parents: npt.NDArray[np.int64]) -> Floats:
    """The part of a child in what its parent moves, h; equal parts where all children are exact."""
    total, equal = under[parents], 1 / np.bincount(parents)[parents]
    return np.divide(below, total, out=equal, where=total > 0)
