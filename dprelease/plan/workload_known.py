"""What a strategy becomes where some tables of the workload are known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dprelease.estimate.design import Axes, Design, Taken, Tree
from dprelease.estimate.reconcile import node_variances, undetermined
from dprelease.plan.lower_invariants import Known
from dprelease.plan.workload_strategy import Part, Strategy, cost

__all__ = ["helped"]

GIVEN = "given shares"  # as ``workload_strategy.strategies`` names an author's own


def helped(
    strategy: Strategy,
    known: Sequence[Known],
    sizes: tuple[int, ...],
    tree: Tree,
    sets: tuple[Axes, ...],
    *,
    replace_one: bool,
) -> Strategy:
    """The strategy beside exact tables: without the draws that say nothing more, and with the variances that remain.

    A table of attributes A at a level says for certain what every residual of attributes within A is there and above,
    where nodes are sums of its nodes. A draw of nothing else is left out, and the shares of the others are scaled up to
    1, so that each of them gets more: no variance grows. An author's shares stay as told. The objective stays that
    without exact tables, for comparisons with other strategies.

    Args:
        strategy: Chosen without them.
        known: The exact tables.
        sizes: The number of keys of each attribute.
        tree: Of the levels.
        sets: The published marginals.
        replace_one: The neighbouring relation.
    """
    parts = strategy.parts
    if strategy.name != GIVEN:
        kept = [part for part in parts if not any(_says(each, part) for each in known)]
        whole = sum((part.share for part in kept), Fraction(0))
        parts = tuple(replace(part, share=part.share / whole) for part in kept)
    taken = tuple(_taken(part, sizes, tree, replace_one) for part in parts)
    exact = tuple(Taken(each.level, each.axes, False, 0.0) for each in known)
    design = Design(sizes, tree, sets, (*taken, *exact))
    if undetermined(design):
        return replace(strategy, parts=parts)
    found = node_variances(design)
    variances = np.array([[float(found[level, axes].mean()) for axes in sets] for level in range(tree.levels)])
    variances.setflags(write=False)
    return replace(strategy, parts=parts, variances=variances)


def _says(known: Known, part: Part) -> bool:
    return part.level <= known.level and set(part.axes) <= set(known.axes)


def _taken(part: Part, sizes: tuple[int, ...], tree: Tree, replace_one: bool) -> Taken:
    """A draw at rho = 1: squared sensitivity over twice its share (zCDP)."""
    nodes = tree.sizes[part.level]
    reach = cost(part.axes, sizes, residual=part.residual, replace_one=replace_one, nodes=nodes)
    variance = float(reach / (2 * part.share))
    return Taken(part.level, part.axes, part.residual and bool(part.axes), variance)
