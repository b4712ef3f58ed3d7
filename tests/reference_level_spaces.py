"""The least error that any Gaussian mechanism can have on a uniform hierarchy: how far a strategy can be from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Axes, Tree
from dprelease.plan.design.workload_cost import Problem

__all__ = ["level_space_bound"]


def level_space_bound(
    sizes: Sequence[int],
    tree: Tree,
    sets: Sequence[Axes],
    weights: Sequence[float] | npt.NDArray[np.float64] | None = None,
) -> float:
    """The least objective of :func:`dprelease.plan.design.workload_strategy.strategies` at rho = 1, add or remove.

    Where all nodes of a level have equally many children, with s_l lowest nodes in one node of level l, the counts of
    the lowest nodes are a sum of orthogonal spaces: k = 0, what the top level tells; k > 0, what level k tells beyond
    level k - 1. A unit vector projected on space k has the squared length ``d_k = 1/s_k - 1/s_(k-1)``
    (``d_0 = 1/s_0``). A draw of the residual b in the space k, with noise variance t per number, costs a row
    ``d_k p_b / t`` and adds ``s_l^2 d_k p_b t prod_{j in A - b} n_j^-2`` to the variance of a cell of (l, A), for
    k <= l and b in A. Both are as in :func:`dprelease.plan.design.residuals.select`, and so is the optimum: with
    ``v = d_k sum_{l >= k} s_l^2 loss_{l,b}``, loss_{l,b} being the weighted sum over A of what multiplies the variance
    of z_b, it is ``(sum_{k,b} sqrt(v d_k p_b))^2 / mu^2``, ``mu^2 = 2 rho``.

    It is the optimum among all Gaussian mechanisms because the workload is unchanged by permutations of the keys of an
    attribute and of the children of a node, so that one best mechanism is as well, and such a mechanism has one noise
    level per space (Xiao and others, NeurIPS 2023, for the attributes). The tests confirm it by the dual bound.

    Args:
        sizes: The number of values of each attribute.
        tree: The levels, uniform.
        sets: The published marginals, each at every level.
        weights: As of ``strategies``.

    Raises:
        ValueError: If two nodes of a level have different numbers of children, or an argument is not as said.
    """
    problem = Problem.of(sizes, tree, sets, False, weights)
    if problem.shape.classes > 1:
        raise ValueError("the bound is of a hierarchy in which all nodes of a level have equally many children")
    leaves = tree.sizes[-1] / np.array(tree.sizes, dtype=np.float64)
    d = np.diff(1 / leaves, prepend=0.0)
    below = np.cumsum((leaves[:, None] ** 2 * problem.losses)[::-1], axis=0)[::-1]
    parts = d[:, None] * np.sqrt(below * problem.incidence.p)
    return float(np.sum(parts)) ** 2 / 2
