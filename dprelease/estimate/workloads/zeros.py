"""Best linear unbiased estimates of a workload of which some key combinations are impossible: structural zeros.

Notation of :mod:`dprelease.estimate.workloads.reconcile`, without levels. E are the attributes of the zeros, Z their
cells in the table of E. What is known is that in every table of the closure with all attributes of E the cells of Z are
0; the estimate given that, with x the reconciled tables, S their covariance and C x the cells that are 0, is

    ``x - S C' (C S C')^+ C x``, of covariance ``S - S C' (C S C')^+ C S``,

the best among all that are linear and unbiased (for the truth has C x = 0; Rao, "Linear Statistical Inference and Its
Applications", 1973, section 4a.9).

It falls apart into small problems, one for each set c of attributes outside E for which E and c together are in the
closure. Proof: to say that all cells of Z are 0 in the table of E and d is to say it of the part of that table that is
centred along c and even along the rest of d, for every c within d; and that part is the same in every such table, up to
a factor. It is a sum of the residuals of a and c, for all a within E, which are independent for different c. With v the
variances of the residuals, the covariance of these parts of the cells (z, k) and (x, l), z and x in E, k and l in c, is

    ``K_c(z, x) P_c(k, l)``,  ``K_c = sum over a in E of v_{a and c} (x)_{i in a} (I - 11'/n_i) (x)_{E - a} 11'/n_j^2``

with the projection P_c, so that ``(C S C')^+`` is ``K_c(Z, Z)^+ (x) P_c`` and no constraint is there twice. K_c is
positive definite unless an exact table says some of it; only then are its eigenvalues below 10^-10 of the largest one
taken for 0: what they are about is known to be 0 already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.contrast import join, part, split_residuals
from dprelease.estimate.workloads.design import Axes, Design, Floats, StructuralZeros, Table, subsets
from dprelease.estimate.workloads.reconcile import PublishedCell, measured_variances, node_variances, reconcile
from dprelease.estimate.workloads.reconcile import covariance_without_zeros as without_zeros

__all__ = ["cell_variances", "covariance", "estimated", "possible_cells"]

_RANK = 1e-10


def estimated(design: Design, values: Sequence[npt.NDArray[np.generic]]) -> dict[Table, Floats]:
    """The best linear unbiased estimate of every published table, given the zeros of the design where it has some.

    All tables agree with one another, and cells that are 0 by declaration are exactly 0.

    Args:
        design: What is published, what was drawn, and what is 0.
        values: As :func:`~dprelease.estimate.workloads.reconcile.reconcile` takes them.

    Raises:
        PlanError: DPR-P160, where the draws leave a published table open.
        ValueError: As ``reconcile`` does.
    """
    tables = reconcile(design, values)
    if design.zeros is None:
        return tables
    problems, sure = tuple(_problems(design, design.zeros)), node_variances(design)
    free = {table: found for table, found in tables.items() if sure[table].any()}
    if not problems:
        return tables
    for _ in range(2):  # the second time takes out what the first one leaves by rounding
        for problem in problems:
            moved = problem.moved(design, tables)
            for level, axes in free:
                if set(problem.rest) <= set(axes):
                    free[level, axes] -= _in_table(design, axes, problem, moved)
    for (_, axes), found in tables.items():
        found[:, ~possible_cells(design, axes)] = 0.0
    return tables


def cell_variances(design: Design) -> dict[Table, Floats]:
    """The variance of the cells of every published table, given the zeros; no data is needed.

    Returns:
        By (level, set), of a shape that spreads to ``(nodes, *keys)``: cells differ along the attributes of the zeros
        alone, and along all others there is one number.

    Raises:
        PlanError: DPR-P160, where the draws leave a published table open.
    """
    found = {}
    for (level, axes), nodes in node_variances(design).items():
        zeroed = design.zeros.axes if design.zeros is not None else ()
        shape = tuple(design.sizes[i] if i in zeroed else 1 for i in axes)
        found[level, axes] = np.broadcast_to(nodes.reshape(-1, *(1 for _ in axes)), (len(nodes), *shape)).copy()
    if design.zeros is None:
        return found
    for problem in _problems(design, design.zeros):
        gained: dict[Axes, Floats] = {}  # tables share them
        solved = problem.solved(problem.rows)
        for (_, axes), variances in found.items():
            if set(problem.rest) <= set(axes):
                kept = tuple(i for i in problem.zeros.axes if i in axes)
                if kept not in gained:
                    gained[kept] = (problem.told(kept) * problem.summed(solved, kept)).sum(axis=0)
                centred = prod(1 - 1 / design.sizes[i] for i in problem.rest)
                share = centred / _spread(design, axes, problem) ** 2
                np.subtract(variances, gained[kept].reshape(variances.shape) * share, out=variances)
    for (_, axes), variances in found.items():
        np.maximum(variances, 0, out=variances)
        if set(design.zeros.axes) <= set(axes):
            variances[:, ~_marked_possible(design, design.zeros, axes)] = 0
    return found


def covariance(design: Design, first: PublishedCell, second: PublishedCell) -> float:
    """The covariance of two published numbers, given the zeros; without any it is that of ``reconcile``.

    Raises:
        PlanError: DPR-P160, where the draws leave a published table open.
    """
    total = without_zeros(design, first, second)
    if design.zeros is None:
        return total
    ours, theirs = dict(zip(first.axes, first.keys, strict=True)), dict(zip(second.axes, second.keys, strict=True))
    for problem in _problems(design, design.zeros):
        if set(problem.rest) <= set(first.axes) & set(second.axes):
            one, two = (problem.told_of(cell) for cell in (ours, theirs))
            same = prod((ours[i] == theirs[i]) - 1 / design.sizes[i] for i in problem.rest)
            spread = _spread(design, first.axes, problem) * _spread(design, second.axes, problem)
            total -= float(one @ problem.solved(two)) * same / spread
    return total


def possible_cells(design: Design, axes: Axes) -> npt.NDArray[np.bool_]:
    """Which cells of a table are not 0 by declaration; shape ``keys``."""
    shape = tuple(design.sizes[i] for i in axes)
    if design.zeros is None or not set(design.zeros.axes) <= set(axes):
        return np.ones(shape, dtype=bool)
    return np.broadcast_to(_marked_possible(design, design.zeros, axes), shape)


def _marked_possible(design: Design, zeros: StructuralZeros, axes: Axes) -> npt.NDArray[np.bool_]:
    """The same with one place along all attributes but those of the zeros."""
    marked = np.ones(tuple(design.sizes[i] for i in zeros.axes), dtype=bool)
    marked.reshape(-1)[list(zeros.cells)] = False
    return marked.reshape([design.sizes[i] if i in zeros.axes else 1 for i in axes])


@dataclass(frozen=True, eq=False)
class _Problem:
    """The zeros of the parts that are centred along some further attributes.

    Attributes:
        zeros: Which combinations.
        rest: The further attributes, c.
        sizes: Keys of the attributes of E.
        scales: ``v_{a and c} / prod_{E - a} n_j`` at the places of a split table of E; shape ``sizes``.
        rows: ``K_c(Z, .)``, shape ``(zeros, *sizes)``.
        inverse: ``K_c(Z, Z)^+``, or the matrix itself where it has an inverse.
        regular: Whether it has one.
    """

    zeros: StructuralZeros
    rest: Axes
    sizes: tuple[int, ...]
    scales: Floats
    rows: Floats
    inverse: Floats
    regular: bool

    def solved(self, right: Floats) -> Floats:
        """``K_c(Z, Z)^+`` times columns of shape ``(zeros, ...)``."""
        flat = right.reshape(len(right), -1)
        found = np.linalg.solve(self.inverse, flat) if self.regular else self.inverse @ flat
        return np.asarray(found.reshape(right.shape))

    def told(self, kept: Axes) -> Floats:
        """The covariance of the zeros with the cells of a table that has just these attributes of E."""
        return self.summed(self.rows, kept)

    def summed(self, numbers: Floats, kept: Axes) -> Floats:
        """Numbers of shape ``(zeros, *sizes)`` added up over the attributes of E that are not kept."""
        return np.asarray(numbers.sum(axis=tuple(at for at, i in enumerate(self.zeros.axes, 1) if i not in kept)))

    def told_of(self, cell: Mapping[int, int]) -> Floats:
        """The same of one cell, by attribute; shape ``(zeros,)``."""
        kept = tuple(i for i in self.zeros.axes if i in cell)
        return np.asarray(np.moveaxis(self.told(kept), 0, -1)[tuple(cell[i] for i in kept)])

    def moved(self, design: Design, tables: Mapping[Table, Floats]) -> Floats:
        """What is to be taken off the part of the table of E and c; shape ``(*keys of c, *sizes)``."""
        both = set(self.zeros.axes) | set(self.rest)
        axes = min((each for each in design.sets if both <= set(each)), key=len)
        gone = tuple(place for place, i in enumerate(axes) if i not in both)
        kept = [i for i in axes if i in both]
        table = tables[0, axes][0].sum(axis=gone).transpose([kept.index(i) for i in (*self.rest, *self.zeros.axes)])
        flat = table.reshape(*table.shape[: len(self.rest)], -1)[..., list(self.zeros.cells)]
        for axis in range(len(self.rest)):
            flat = flat - flat.mean(axis=axis, keepdims=True)
        right = flat.reshape(-1, len(self.zeros.cells))
        found = np.zeros((len(right), prod(self.sizes)))
        found[:, list(self.zeros.cells)] = self.solved(right.T).T
        return _scaled(found.reshape(-1, *self.sizes), self.scales).reshape(table.shape)


def _problems(design: Design, zeros: StructuralZeros) -> Iterator[_Problem]:
    """One for every set c; those with the same variances share the work."""
    variances, closure = measured_variances(design), set(design.closure)
    sizes, cells = tuple(design.sizes[i] for i in zeros.axes), list(zeros.cells)
    known: tuple[tuple[float, ...], Floats, Floats, Floats, bool] | None = None
    for rest in design.closure:
        both = tuple(sorted({*rest, *zeros.axes}))
        if set(rest) & set(zeros.axes) or both not in closure or any(design.sizes[i] == 1 for i in rest):
            continue
        within = {a: tuple(sorted((*a, *rest))) for a in subsets(zeros.axes)}
        own = tuple(variances[b][0] if b in variances else 0.0 for b in within.values())
        if known is None or known[0] != own:
            scales = np.zeros((1, *sizes))
            for a, variance in zip(within, own, strict=True):
                at = tuple(place for place, i in enumerate(zeros.axes) if i in a)
                spread = prod(size for place, size in enumerate(sizes) if place not in at)
                scales[part(tuple(range(len(sizes))), at, sizes)] = variance / spread
            rows = np.zeros((len(cells), prod(sizes)))
            rows[np.arange(len(cells)), cells] = 1
            rows = _scaled(rows.reshape(-1, *sizes), scales)
            square = rows.reshape(len(cells), -1)[:, cells]
            exact = any(variances[b] == (0.0,) for b in within.values() if b in variances)
            known = (own, scales, rows, _pseudo_inverse(square) if exact else square, not exact)
        yield _Problem(zeros, rest, sizes, *known[1:])


def _scaled(tables: Floats, scales: Floats) -> Floats:
    """Tables of E, the first axis that of many, each residual times its scale; overwritten."""
    split_residuals(tables)
    tables *= scales
    join(tables)
    return tables


def _pseudo_inverse(square: Floats) -> Floats:
    """The pseudo-inverse of a positive semidefinite matrix; its rank is as told above."""
    found, vectors = np.linalg.eigh((square + square.T) / 2)
    kept = found > _RANK * max(float(found.max()), 0.0)
    return np.asarray((vectors[:, kept] / found[kept]) @ vectors[:, kept].T)


def _spread(design: Design, axes: Axes, problem: _Problem) -> int:
    """Over how many cells of a table each number of a problem is spread."""
    return prod(design.sizes[i] for i in axes if i not in problem.zeros.axes and i not in problem.rest)


def _in_table(design: Design, axes: Axes, problem: _Problem, moved: Floats) -> Floats:
    """What is taken off a table, of a shape that spreads to that of the table."""
    order = (*problem.rest, *problem.zeros.axes)
    gone = tuple(place for place, i in enumerate(order) if i not in axes)
    kept = [i for i in order if i in axes]
    found = moved.sum(axis=gone).transpose([kept.index(i) for i in axes if i in kept])
    shape = [design.sizes[i] if i in kept else 1 for i in axes]
    return np.asarray(found.reshape(1, *shape) / _spread(design, axes, problem))
