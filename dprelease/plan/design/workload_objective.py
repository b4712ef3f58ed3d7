"""Which errors a workload makes least: of every table the same, of all cells together, or the largest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Axes, Table, Tree
from dprelease.plan.design.workload_strategy import Strategy, strategies
from dprelease.spec.fields.workloads import Minimize

__all__ = ["aimed", "lost"]

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
    known: Sequence[Table] = (),
    blind: Sequence[Strategy] = (),
    together: bool = True,
) -> tuple[Strategy, ...]:
    """The strategies of :func:`strategies`, best first, for one of three aims.

    ``tables``: the sum of the variances of a cell of every table, one each. ``cells``: the sum over all cells, which
    is ResidualPlanner's usual objective, and leaves small tables with large errors. ``worst``: the largest variance of
    any table, by multiplicative weights: with weights w that add up to 1 the least weighted mean is a lower bound of
    the least maximum, and ``w <- w r^2``, r the variance over the largest, raises it
    (``plan.design.residuals.minimax``). It stops within 1 % of that bound, or after 20 rounds with the best that was
    found. Variances are means over the nodes of a level.

    Args:
        sizes: The number of keys of each attribute.
        tree: The levels.
        sets: The published sets.
        minimize: The aim.
        replace_one: The neighbouring relation.
        level_shares: The author's; there is then nothing to choose.
        table_shares: The author's.
        known: Exact tables, each with its level.
        blind: The same without them, of which nothing that is found is worse for the first two aims.
        together: Whether replace-one is charged for one pair of rows in all draws; else each for its own.
    """
    of = partial(strategies, sizes, tree, sets, replace_one=replace_one, known=known, blind=blind, together=together)
    if minimize == "tables" or level_shares is not None or table_shares is not None:
        return of(level_shares=level_shares, table_shares=table_shares)
    if minimize == "cells":
        cells = np.array([[float(nodes * prod(sizes[i] for i in axes)) for axes in sets] for nodes in tree.sizes])
        return of(weights=cells)
    return _worst(tree.levels, len(sets), of)


def lost(strategy: Strategy, minimize: Minimize) -> float:
    """What the aim makes least, of one of its strategies: a variance, or a sum of variances."""
    return float(strategy.variances.max()) if minimize == "worst" else strategy.objective


def _worst(levels: int, tables: int, of: Callable[..., tuple[Strategy, ...]]) -> tuple[Strategy, ...]:
    weights: Reals = np.full((levels, tables), 1 / (levels * tables))
    best: tuple[float, tuple[Strategy, ...]] | None = None
    for _ in range(_ROUNDS):
        found = of(weights=weights)
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
