"""Best linear unbiased estimates of a workload of marginals, from all of its draws together.

Notation: attributes i of n_i keys; at level l the table of a set A of attributes has the residuals z_{l,b} of all b
within A: summed over the other attributes, centred along each axis of b. With P_b = (x)_{i in b} (I - 11^T / n_i),

* a draw of the residual b at level l, centred, has covariance ``s2 P_b`` at every node, s2 its variance;
* a drawn table A at level l has independent noise of variance s2 per cell. Its residual b has covariance
  ``s2 prod_{j in A - b} n_j P_b``, and residuals of different b are uncorrelated, since sums and centred parts are
  orthogonal.

So each residual b is a problem of its own: at every level a precision ``w_{l,b}``, the sum of the precisions of its
draws, between the levels "a node is the sum of its children" (:mod:`dprelease.estimate.workloads.hierarchy`). Least
squares over all draws is least squares over each b (the noise covariance and the linear map are block diagonal in the
same basis). With z* and v* its solution, the tables and their variances are (Xiao, He, Zhang and Kifer, "An Optimal and
Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions", NeurIPS 2023, section 4, for one level)

    ``T_{l,A} = sum_{b in A} z*_{l,b} / prod_{j in A - b} n_j``, spread evenly over the other axes,
    ``Var(cell of T_{l,A}) = sum_{b in A} v*_{l,b} prod_{i in b} (1 - 1/n_i) prod_{j in A - b} n_j^-2``.

All tables are sums of the same residuals, so they agree with one another; noise of any law with these variances will
do, and nothing is assumed to be normal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError
from dprelease.estimate.workloads.contrast import centre, join, part, split_residuals
from dprelease.estimate.workloads.design import Axes, Design, Floats, Table, WorkloadDraw, subsets
from dprelease.estimate.workloads.hierarchy import Passes, passes, smooth

__all__ = [
    "PublishedCell",
    "covariance_without_zeros",
    "node_variances",
    "reconcile",
    "require_determined",
    "undetermined",
]


def reconcile(design: Design, values: Sequence[npt.NDArray[np.generic]]) -> dict[Table, Floats]:
    """The best linear unbiased estimate of every published table.

    Every marginal of a table equals the smaller published table and children add up to their parents, to rounding. A
    table of which nothing is uncertain (exact draws fix it) is whole numbers.

    Args:
        design: What is published and what was drawn.
        values: The values of every draw, in order, in counts: shape ``(nodes, *keys of its axes)``; a residual divided
            by its grain and sizes, centred or not.

    Returns:
        By (level, set), shape ``(nodes, *keys)``.

    Raises:
        PlanError: DPR-P160, where the draws leave a published table open (:func:`undetermined`).
        ValueError: If there are not as many values as draws, or one has another shape.
    """
    require_determined(design)
    if len(values) != len(design.taken):
        raise ValueError(f"{len(design.taken)} draws have as many arrays of values, not {len(values)}")
    measured = measured_variances(design)
    residuals = _combined(design, values, measured)
    for b, own in measured.items():
        at_levels = [residuals.pop((level, b), None) for level in range(design.tree.levels)]
        weights = passes(design.tree, own)
        residuals.update(((level, b), each) for level, each in enumerate(smooth(design.tree, weights, at_levels)))
    sure = _sure(design)
    return {table: _assembled(design, table, residuals, sure.get(table)) for table in design.tables}


def node_variances(design: Design) -> dict[Table, Floats]:
    """The variance of one cell of every published table, by (level, set), shape ``(nodes,)``; no data is needed.

    All attribute cells of a node have the same one. It is the variance of the noise, before anything is made
    non-negative or whole.

    Raises:
        PlanError: DPR-P160, where the draws leave a published table open.
    """
    require_determined(design)
    found = {(level, axes): np.zeros(design.tree.sizes[level]) for level, axes in design.tables}
    known: dict[tuple[float, ...], Passes] = {}
    within: dict[Axes, list[Axes]] = {}
    for axes in design.sets:
        for b in subsets(axes):
            within.setdefault(b, []).append(axes)
    for b, own in measured_variances(design).items():
        if own not in known:
            known = {own: passes(design.tree, own)}  # neighbours often agree; all of them together may not fit
        for axes in within[b]:
            for level, variances in enumerate(known[own].variances):
                found[level, axes] += variances * _cell_factor(design.sizes, axes, b)
    return found


@dataclass(frozen=True)
class PublishedCell:
    """One number of a published table.

    Attributes:
        level: The level of the hierarchy.
        axes: The attributes of the table, rising.
        node: Position in the level.
        keys: Position of its key along each axis.
    """

    level: int
    axes: Axes
    node: int
    keys: tuple[int, ...]


def covariance_without_zeros(design: Design, first: PublishedCell, second: PublishedCell) -> float:
    """The covariance of two published numbers, of any tables, levels and nodes.

    ``sum_{b in A and A'} c_b prod_{i in b} ([x_i = x'_i] - 1/n_i) / (prod_{A - b} n_j prod_{A' - b} n_j)`` with c_b the
    covariance of the residual b at the two nodes: given its parent a child moves by h, so that below the lowest common
    ancestor a every step down multiplies by h; at a itself c_b = v*, and two children c, d of a have
    ``h_c h_d v*_a - u_c u_d / V_a`` (the second term: independent numbers of variances u_c and u_d, given their sum).
    Nodes under different roots are independent.

    Raises:
        PlanError: DPR-P160, where the draws leave a published table open.
    """
    require_determined(design)
    total, key = 0.0, dict(zip(second.axes, second.keys, strict=True))
    for b, own in measured_variances(design).items():
        if set(b) <= set(first.axes) & set(second.axes):
            same = [x == key[i] for i, x in zip(first.axes, first.keys, strict=True) if i in b]
            factor = prod(one - 1 / design.sizes[i] for i, one in zip(b, same, strict=True))
            spread = prod(design.sizes[j] for axes in (first.axes, second.axes) for j in axes if j not in b)
            total += _node_covariance(design, passes(design.tree, own), first, second) * factor / spread
    return total


def undetermined(design: Design) -> tuple[Table, ...]:
    """Which residuals, each with the highest level at which nothing tells it; empty: all tables are determined.

    A residual is known at the lowest level that measures it and above, and below that as long as every node is an only
    child. One with an attribute of one key is 0 for all data.
    """
    sizes, found = design.tree.sizes, []
    for b, own in measured_variances(design).items():
        lowest = max((level for level, variance in enumerate(own) if variance < inf), default=None)
        if lowest is None:
            found.append((0, b))
        elif sizes[lowest] < sizes[-1]:
            found.append((next(level for level, size in enumerate(sizes) if size > sizes[lowest]), b))
    return tuple(found)


def require_determined(design: Design) -> None:
    """Refuse a design whose draws leave a published table open.

    Raises:
        PlanError: DPR-P160; it names the first residual.
    """
    found = undetermined(design)
    if found:
        level, b = found[0]
        raise PlanError(
            f"nothing measures the residual of the attributes {b} at level {level} or below",
            detail=f"{len(found)} residuals of the published tables are left open",
            hint="measure it, or a table that contains these attributes, at that level or a lower one",
            code="DPR-P160",
        )


def measured_variances(design: Design) -> dict[Axes, tuple[float, ...]]:
    """The variance of what measures each residual that is not always 0, level by level; inf: nothing does."""
    needed = [b for b in design.closure if all(design.sizes[i] > 1 for i in b)]
    precision = {b: [0.0] * design.tree.levels for b in needed}
    for take in design.taken:
        for b in _told(take, precision):
            own = _residual_variance(design.sizes, take, b)
            precision[b][take.level] += 1 / own if own else inf
    return {b: tuple(1 / each if each else inf for each in own) for b, own in precision.items()}


def _told(take: WorkloadDraw, needed: Collection[Axes]) -> Iterator[Axes]:
    """The residuals that a draw tells something about."""
    if take.residual:
        yield from (b for b in (take.axes,) if b in needed)
    elif 2 ** len(take.axes) < len(needed):
        yield from (b for b in subsets(take.axes) if b in needed)
    else:
        yield from (b for b in needed if set(b) <= set(take.axes))


def _residual_variance(sizes: tuple[int, ...], take: WorkloadDraw, b: Axes) -> float:
    return take.variance * prod(sizes[j] for j in take.axes if j not in b)


def _cell_factor(sizes: tuple[int, ...], axes: Axes, b: Axes) -> float:
    """What one unit of v*_b is in a cell of the table."""
    return prod(1 - 1 / sizes[i] if i in b else sizes[i] ** -2.0 for i in axes)


def _combined(
    design: Design, values: Sequence[npt.NDArray[np.generic]], measured: dict[Axes, tuple[float, ...]]
) -> dict[Table, Floats]:
    """The mean of what the draws of a level say of each residual, weighted by precision; shape (nodes, numbers)."""
    found: dict[Table, Floats] = {}
    for take, given in zip(design.taken, values, strict=True):
        shape = design.shape(take.level, take.axes)
        if given.shape != shape:
            raise ValueError(f"a draw of {take.axes} at level {take.level} has values of shape {shape}")
        residuals = list(_told(take, measured))
        if not residuals:
            continue
        table = np.array(given, dtype=np.float64)
        if take.residual:
            table = centre(table)
        else:
            split_residuals(table)
        for b in residuals:
            own, combined = _residual_variance(design.sizes, take, b), measured[b][take.level]
            if combined == 0 < own:  # beside an exact one nothing else counts
                continue
            each = table if take.residual else table[part(take.axes, b, design.sizes)]
            weighted = (each * (combined / own if own else 1.0)).reshape(shape[0], -1)
            place = (take.level, b)
            found[place] = found[place] + weighted if own and place in found else weighted
    return found


def _assembled(
    design: Design, table: Table, residuals: dict[Table, Floats], sure: npt.NDArray[np.bool_] | None
) -> Floats:
    """A published table as the sum of its residuals."""
    level, axes = table
    made = np.zeros(design.shape(level, axes))
    for b in subsets(axes):
        if (level, b) in residuals:
            place = made[part(axes, b, design.sizes)]
            place[...] = residuals[level, b].reshape(place.shape)
    join(made)
    if sure is not None and sure.any():
        made[sure] = np.rint(made[sure])
    return made


def _sure(design: Design) -> dict[Table, npt.NDArray[np.bool_]]:
    """The nodes of every table of which nothing is uncertain; nothing is said where no draw is exact."""
    if all(take.variance > 0 for take in design.taken):
        return {}
    return {table: variances == 0 for table, variances in node_variances(design).items()}


def _node_covariance(design: Design, found: Passes, first: PublishedCell, second: PublishedCell) -> float:
    """The covariance of one residual at two nodes, times P_b; as told in :func:`covariance_without_zeros`."""
    one, two, factor = (first.level, first.node), (second.level, second.node), 1.0

    def up(node: tuple[int, int]) -> tuple[int, int]:
        return node[0] - 1, int(design.tree.parents[node[0] - 1][node[1]])

    def share(node: tuple[int, int]) -> float:
        return float(found.shares[node[0] - 1][node[1]])

    while one[0] != two[0]:
        one, two = (one, two) if one[0] > two[0] else (two, one)
        factor, one = factor * share(one), up(one)
    while one != two and one[0] > 0:
        both, apart = share(one) * share(two), share(one) * float(found.below[two[0]][two[1]])
        one, two = up(one), up(two)
        if one == two:
            return factor * (both * float(found.variances[one[0]][one[1]]) - apart)
        factor *= both
    return factor * float(found.variances[one[0]][one[1]]) if one == two else 0.0
