"""What all Gaussian draws of a workload cost together where one row takes the place of another, derived again.

Few cells: a row is tried in every cell of all attributes at the lowest level, and in none, and every pair of these is
gone through, each draw's answer to a single row being written out. More cells: one pair for every set of attributes
that can differ and every level at which the nodes part, and of each draw the product over its attributes of the inner
product of two columns. Neither uses the matrices, the fractions or the search of ``plan.design.workload_pairs``.

Floats with a tolerance, for checking; nothing here calls what made the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dprelease.plan.document import ReleasePlan, Step, Workload
from dprelease.plan.verify.reach import bounds_of, heaviest, require
from dprelease.privacy.unit import Neighboring

__all__ = ["check_pairs"]

_WRITTEN_OUT = 48  # cells of which every pair is gone through
_MOST_SETS = 2**16  # of attributes that differ
_TOLERANCE = 1e-12

Array = Any


class _Drawn(NamedTuple):
    """One draw: its level, its attributes, whether it contrasts them, and grain and scale of its lattice."""

    level: int
    axes: tuple[int, ...]
    contrasted: bool
    weight: float  # (grain / scale)^2


def check_pairs(plan: ReleasePlan) -> None:
    """Draws that are bounded together are all draws of one workload, and no pair of rows costs more than they claim.

    A unit has at most t rows before and after. What changes is a sum of t pairs of an old and a new row at most (or of
    a row and none), of each of which the vector of all answers, every one over its scale, moves by at most the largest
    length of a pair: by the triangle inequality at most t times that.

    Raises:
        BrokenPromiseError: If a step claims such a bound and is no such draw, or the bound is too small.
    """
    claimed = {step.id for step in plan.steps if step.common is not None}
    found: set[str] = set()
    for workload in plan.workloads:
        own = {take.step for take in workload.takes} & {step.id for step in plan.steps}
        if own & claimed:
            require(own <= claimed, f"{workload.name} has draws that are bounded together, and others")
            _check(plan, workload)
            found |= own
    require(found == claimed, "a step is bounded together with others, and is no draw of a workload")


def _check(plan: ReleasePlan, workload: Workload) -> None:
    require(plan.neighboring is Neighboring.REPLACE_ONE, f"{workload.name} bounds its draws together without pairs")
    draws, claimed, rows = [], 0.0, set()
    for take in workload.takes:
        step = next((each for each in plan.steps if each.id == take.step), None)
        if step is None:
            continue  # what is exact is the same for both rows, or no neighbour
        require(sum(other.step == take.step for other in workload.takes) == 1, f"{step.id} is taken twice")
        draws.append(_drawn(workload, take.level, take.axes, step))
        claimed += float((step.common or 0) / step.scale**2)
        rows.add(bounds_of(plan, step.aggregate, once=False).rows * heaviest(plan, step, step.aggregate.quantity))
    require(len(rows) == 1, f"{workload.name} bounds the rows of a unit in several ways")
    table = plan.catalog.tables[workload.table]
    sizes = tuple(len(table.column(name).keys or ()) for name in workload.attributes)
    nodes, parents = [1], []
    if workload.hierarchy is not None:
        nodes = [len(table.column(name).keys or ()) for name in workload.levels]
        parents = [np.asarray(each) for each in plan.catalog.hierarchies[workload.hierarchy].parents]
    if nodes[-1] * math.prod(sizes) <= _WRITTEN_OUT:
        worst = _every_pair(draws, sizes, nodes, parents)
    else:
        worst = _every_set(draws, sizes, parents, nodes[0])
    enough = claimed * (1 + _TOLERANCE) >= rows.pop() ** 2 * worst
    require(enough, f"one row in the place of another costs {workload.name} more than its draws are bounded by")


def _drawn(workload: Workload, level: int, axes: tuple[int, ...], step: Step) -> _Drawn:
    residual = step.residual
    plain = step.mechanism == "discrete_gaussian" and residual is not None
    require(plain, f"{step.id} is bounded together with others behind another noise, or on no lattice")
    assert residual is not None  # noqa: S101 - just required
    require(step.aggregate.table == workload.table, f"{step.id} counts rows of another table")
    return _Drawn(level, axes, bool(residual.axes), float(residual.grain / step.scale) ** 2)


def _every_pair(draws: Sequence[_Drawn], sizes: Sequence[int], nodes: Sequence[int], parents: Sequence[Array]) -> float:
    """The largest sum of squares of two rows, or of a row and none, of which every answer is written out."""
    cells = np.array(list(np.ndindex(nodes[-1], *sizes)), dtype=np.int64).reshape(-1, 1 + len(sizes))
    node_at = [cells[:, 0]]
    for above in reversed(parents):
        node_at.insert(0, above[node_at[0]])
    answers = []
    for draw in draws:
        one = np.eye(nodes[draw.level])[node_at[draw.level]]
        for axis in draw.axes:
            place = np.eye(sizes[axis])[cells[:, 1 + axis]]
            factor = sizes[axis] * place - 1 if draw.contrasted else place
            one = (one[:, :, None] * factor[:, None, :]).reshape(len(cells), -1)
        answers.append(one * math.sqrt(draw.weight))
    every = np.concatenate([*answers, np.zeros((len(cells), 1))], axis=1)
    every = np.concatenate([every, np.zeros((1, every.shape[1]))])
    return max(float(((every - one) ** 2).sum(axis=1).max()) for one in every)


def _every_set(draws: Sequence[_Drawn], sizes: Sequence[int], parents: Sequence[Array], roots: int) -> float:
    """The same by sets of attributes that differ, for rows of which nothing else can be told.

    Of one draw the inner product of two columns is the product over its attributes of n (n - 1) where they agree and -n
    where not (of a table 1, and 0); of different nodes it is 0, and of a column with itself its square.
    """
    free = [at for at, n in enumerate(sizes) if n > 1]
    require(2 ** len(free) <= _MOST_SETS, "a workload has more attributes than its pairs of rows can be gone through")
    differs = np.array(list(np.ndindex(*(2,) * len(free))), dtype=bool).reshape(-1, len(free))
    same_level = np.zeros((1 + len(parents), len(differs)))  # what a level costs where the nodes agree
    lengths = np.zeros(1 + len(parents))
    for draw in draws:
        inner, length = np.full(len(differs), draw.weight), draw.weight
        for axis in draw.axes:
            n = sizes[axis]
            alike, apart = (n * (n - 1), -n) if draw.contrasted else (1, 0)
            inner = inner * (np.where(differs[:, free.index(axis)], apart, alike) if axis in free else alike)
            length *= alike
        same_level[draw.level] += 2 * (length - inner)
        lengths[draw.level] += length
    worst = max(float(lengths.sum()), float(same_level.sum(axis=0).max()))
    for first in range(1 + len(parents)):
        siblings = roots > 1 if first == 0 else len(set(parents[first - 1].tolist())) < len(parents[first - 1])
        if siblings:
            own = float(same_level[:first].sum(axis=0).max()) if first else 0.0
            worst = max(worst, own + 2 * float(lengths[first:].sum()))
    return worst
