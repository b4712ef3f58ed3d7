"""Which errors a workload makes least: of every table the same, of all cells together, or the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np
import numpy.typing as npt

from dprelease.estimate.design import Axes, Tree
from dprelease.plan.workload_strategy import Strategy, strategies
from dprelease.spec.workloads import Minimize

__all__ = ["aimed"]

Reals = npt.NDArray[np.float64]
_ROUNDS = 20
_CLOSE = 1.01  # how near the largest variance is to the least that it can be


def aimed(
    sizes: Sequence[int],
    tree: Tree,
    sets: Sequence[Axes],
    minimize: Minimize,
    *,
    replace_one: bool,
    level_shares: Sequence[Fraction] | None = None,
    table_shares: Mapping[Axes, Sequence[Fraction | None]] | None = None,
) -> tuple[Strategy, ...]:
    """The strategies of :func:`strategies`, best first, for one of three aims.

    ``tables``: the sum of the variances of a cell of every table, one each. ``cells``: the sum over all cells, which
    is ResidualPlanner's usual objective, and leaves small tables with large errors. ``worst``: the largest variance of
    any table, by multiplicative weights: with weights w that add up to 1 the least weighted mean is a lower bound of
    the least maximum, and ``w <- w r^2``, r the variance over the largest, raises it (``plan.strategy.minimax``). It
    stops within 1 % of that bound, or after 20 rounds with the best that was found. Variances are means over the nodes
    of a level.

    Args:
        sizes: The number of keys of each attribute.
        tree: The levels.
        sets: The published sets.
        minimize: The aim.
        replace_one: The neighbouring relation.
        level_shares: The author's; there is then nothing to choose.
        table_shares: The author's.
    """
    if minimize == "tables" or level_shares is not None or table_shares is not None:
        return strategies(
            sizes, tree, sets, replace_one=replace_one, level_shares=level_shares, table_shares=table_shares
        )
    if minimize == "cells":
        cells = np.array([[float(nodes * prod(sizes[i] for i in axes)) for axes in sets] for nodes in tree.sizes])
        return strategies(sizes, tree, sets, replace_one=replace_one, weights=cells)
    return _worst(sizes, tree, sets, replace_one)


def _worst(sizes: Sequence[int], tree: Tree, sets: Sequence[Axes], replace_one: bool) -> tuple[Strategy, ...]:
    weights: Reals = np.full((tree.levels, len(sets)), 1 / (tree.levels * len(sets)))
    best: tuple[float, tuple[Strategy, ...]] | None = None
    for _ in range(_ROUNDS):
        found = strategies(sizes, tree, sets, replace_one=replace_one, weights=weights)
        variances = found[0].variances
        most = float(variances.max())
        if best is None or most < best[0]:
            best = most, found
        if best[0] <= _CLOSE * found[0].objective:
            break
        weights = np.maximum(weights * (variances / most) ** 2, 1e-12)
        weights /= weights.sum()
    assert best is not None  # noqa: S101 - there is at least one round
    return best[1]
