"""Joint tables of a workload without negative numbers, from the top of the hierarchy down.

It works where one published set contains all others (:func:`joint_set`): every other table is then a sum of the joint
one, so that all tables stay consistent. Without such a set, consistent tables without negative numbers need not exist
near the estimates, and the caller refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dprelease.estimate.design import Axes, Floats, Table, Tree, Whole
from dprelease.estimate.projection import onto_simplex, onto_tables

__all__ = ["families", "joint_set", "marginals", "nonnegative"]

_CELLS = 2**22  # of the children that are worked on at a time


def joint_set(sets: Sequence[Axes]) -> Axes | None:
    """The published set that contains all others, or None: such a workload can be neither non-negative nor whole."""
    largest = max(sets, key=len)
    return largest if all(set(axes) <= set(largest) for axes in sets) else None


def nonnegative(tree: Tree, joint: Sequence[Floats]) -> tuple[Floats, ...]:
    """The joint tables of all levels, made non-negative.

    At the top, the nearest table (by squared distance) of {x >= 0, the node's total}. Below, for each parent the
    nearest tables of {x >= 0, in every cell the children add up to the parent, the children's totals}, these totals
    being the nearest ones of {t >= 0, they add up to the parent's total}. A total below 0 at the top becomes 0.

    Totals are kept where they can be, so that they have next to no bias; cells have: a true 0 gains, because its noise
    is cut on one side, and larger cells of the same table lose the same in sum. Clamping at 0 would let the total gain
    as well. Figures: ``docs/measures/workloads.md``. Margins of the unprojected estimates do not describe the result.
    Of exact draws only totals are kept.

    Args:
        tree: The hierarchy.
        joint: For every level the reconciled joint table, shape ``(nodes, *keys)``.

    Returns:
        The same shapes. Cells are at least 0 and children add up to their parents, to rounding.
    """
    flat = [table.reshape(len(table), -1) for table in joint]
    made = [onto_simplex(flat[0], np.maximum(flat[0].sum(axis=1), 0))]
    for level, parents in enumerate(tree.parents, 1):
        estimates, above = flat[level], made[-1]
        totals, found = estimates.sum(axis=1), np.empty(estimates.shape)
        for nodes, children in families(parents, tree.sizes[level - 1], _CELLS // estimates.shape[1]):
            if children.shape[1] == 1:
                found[children[:, 0]] = above[nodes]
                continue
            rows = onto_simplex(totals[children], above[nodes].sum(axis=1))
            found[children] = onto_tables(estimates[children], rows, above[nodes])
        made.append(found)
    return tuple(found.reshape(table.shape) for found, table in zip(made, joint, strict=True))


def marginals(sets: Sequence[Axes], joint: Sequence[npt.NDArray[np.generic]]) -> dict[Table, npt.NDArray[np.generic]]:
    """Every published table as a sum of the joint tables, by (level, set) in the order of a design's tables.

    Args:
        sets: The published sets; one contains all others.
        joint: For every level its table, shape ``(nodes, *keys)``.

    Raises:
        ValueError: If no set contains all others.
    """
    largest = joint_set(sets)
    if largest is None:
        raise ValueError("no published set contains all others")
    found = {}
    for level, table in enumerate(joint):
        for axes in sets:
            gone = tuple(place for place, axis in enumerate(largest, 1) if axis not in axes)
            found[level, axes] = np.asarray(table.sum(axis=gone)) if gone else table
    return found


def families(parents: Whole, above: int, nodes: int) -> Iterator[tuple[Whole, Whole]]:
    """Parents with equally many children, and these, shape ``(parents,)`` and ``(parents, children)``.

    There are at most ``sqrt(2 len(parents))`` different numbers of children. Each group comes in parts of about so
    many nodes, at least one parent.
    """
    order = np.argsort(parents, kind="stable")
    counts = np.bincount(parents, minlength=above)
    starts = np.cumsum(counts) - counts
    for count in np.unique(counts):
        alike, step = np.flatnonzero(counts == count), max(1, nodes // int(count))
        for start in range(0, len(alike), step):
            some = alike[start : start + step]
            yield some, order[starts[some][:, None] + np.arange(count)]
