"""Prefix and range counts of an ordered attribute, and the best Gaussian noise for any linear counts of one table.

A workload is a matrix W (queries x cells): query q of a table x of counts is ``(W x)_q``. Only its Gram matrix
``W'W`` (cells x cells) is needed, which for all ranges of n cells is small where W is not. A mechanism with Gaussian
noise is known by its *information*, the symmetric matrix X of what one measures, ``X = A' S^-1 A`` for measurements A x
with noise covariance S: a row in cell i costs ``mu^2 = X_ii``, and least squares answers W with the total squared error
``trace(W'W X^-1)``. Neighbors add or remove one row.

Plans draw by an invertible matrix (``plan.lower.ranges``), never a tree: what is here says how near the best that is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError

__all__ = [
    "Information",
    "binary_tree",
    "optimal_gaussian",
    "prefix_gram",
    "range_gram",
    "total_error",
    "tree_information",
]

Reals = npt.NDArray[np.float64]


def prefix_gram(cells: int) -> Reals:
    """``W'W`` of all prefixes, n queries: cells i and j are both in ``n - max(i, j)`` of them (from 0)."""
    at = np.arange(cells)
    return np.asarray(cells - np.maximum.outer(at, at), dtype=np.float64)


def range_gram(cells: int) -> Reals:
    """``W'W`` of all ranges, n (n + 1) / 2 queries: both are in ``(min(i, j) + 1) (n - max(i, j))`` (from 0)."""
    at = np.arange(cells)
    return np.asarray((np.minimum.outer(at, at) + 1) * (cells - np.maximum.outer(at, at)), dtype=np.float64)


def total_error(gram: Reals, information: Reals) -> float:
    """The sum over the queries of the variance of least squares, in counts.

    Args:
        gram: ``W'W``, shape (cells, cells).
        information: Of what was measured, shape (cells, cells).

    Returns:
        Infinite where a query is not determined.
    """
    values, vectors = np.linalg.eigh(information)
    weights = np.einsum("ij,ij->j", vectors, gram @ vectors)
    known = values > values[-1] * len(values) * 1e-14
    if np.any(weights[~known] > 1e-9 * np.trace(gram)):
        return float("inf")
    return float(np.sum(weights[known] / values[known]))


def binary_tree(cells: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The intervals (first, one past the last) of a tree of halves, level by level from the top.

    The tree is that of the next power of two, cut at the number of cells.

    Raises:
        ValueError: If there is no cell.
    """
    if cells < 1:
        raise ValueError("an attribute has at least one value")
    depth = (cells - 1).bit_length()
    return tuple(
        tuple((start, min(start + width, cells)) for start in range(0, cells, width))
        for width in (1 << level for level in range(depth, -1, -1))
    )


def tree_information(cells: int) -> Reals:
    """The information of all nodes of :func:`binary_tree`, with equal noise, at mu = 1.

    A row is in one node of every level, so that each node gets noise of variance ``levels``. With least squares
    afterwards (Hay, Rastogi, Miklau and Suciu, VLDB 2010).
    """
    levels = binary_tree(cells)
    found = np.zeros((cells, cells))
    for level in levels:
        for first, last in level:
            found[first:last, first:last] += 1 / len(levels)
    return found


@dataclass(frozen=True, eq=False)
class Information:
    """A Gaussian mechanism at mu = 1, and how far it can be from the best.

    Attributes:
        matrix: Its information, shape (cells, cells); no diagonal entry is above 1.
        error: The total squared error of the workload.
        lower_bound: Below which no Gaussian mechanism gets it.
        rounds: How many rounds the search took.
    """

    matrix: Reals
    error: float
    lower_bound: float
    rounds: int

    @property
    def gap(self) -> float:
        """How far, relative to itself, the error can at most be from the least."""
        return max(0.0, 1 - self.lower_bound / self.error)


def optimal_gaussian(gram: Reals, tolerance: float = 1e-4, rounds: int = 2000) -> Information:
    """The Gaussian noise with the least total squared error for a workload, with a certified gap.

    Duality (Edmonds, Nikolov and Ullman, "The Power of Factorization Mechanisms in Local and Central Differential
    Privacy", STOC 2020; the squared error form of the factorization norm). For weights l of the cells that add up to 1,
    let ``K = (D W'W D)^(1/2)``, ``D = diag(sqrt l)``:

    * every mechanism at mu = 1 has an error of at least ``trace(K)^2``. For its noise covariance S on the answers,
      ``sum_i l_i w_i' S^-1 w_i <= 1``, so ``trace(M S^-1) <= 1`` with ``M = W diag(l) W'``, and by Cauchy and Schwarz
      ``trace(M^(1/2))^2 <= trace(M S^-1) trace(S)``; M and ``K^2`` have the same eigenvalues;
    * the covariance ``c M^(1/2)`` costs a row of cell i ``g_i / c``, ``g_i = K_ii / l_i``. With ``c = max g`` it is
      within mu = 1, and has the error ``max g trace(K)``. Its information is ``D^-1 K D^-1 / c``.

    Since ``sum l_i g_i = trace(K)`` the two meet where all g are equal; ``l_i <- l_i g_i`` moves there, and the best of
    all rounds is kept on both sides. One round is one eigendecomposition: 2,000 cells take seconds each.

    Args:
        gram: ``W'W``, shape (cells, cells), with a positive diagonal.
        tolerance: The gap at which to stop.
        rounds: How many rounds to try.

    Raises:
        PlanError: DPR-P104, if the gap is not reached in so many rounds.
        ValueError: If the matrix is not square or symmetric, or a cell is in no query.
    """
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not np.allclose(gram, gram.T) or np.diag(gram).min() <= 0:
        raise ValueError("a Gram matrix is square and symmetric, and every cell is in some query")
    weights = np.full(len(gram), 1 / len(gram))
    best, bound = np.inf, 0.0
    for done in range(1, rounds + 1):
        root = np.sqrt(weights)
        values, vectors = np.linalg.eigh(gram * np.outer(root, root))
        # What is 0 but for rounding has a root that is not.
        values = np.where(values > values[-1] * len(gram) * np.finfo(float).eps, values, 0)
        half = (vectors * np.sqrt(values)) @ vectors.T
        total, costs = float(np.trace(half)), np.diag(half) / weights
        bound = max(bound, total * total)
        if costs.max() * total < best:
            best, kept = float(costs.max() * total), half / np.outer(root, root) / costs.max()
        if best - bound <= tolerance * best:
            return Information(kept, best, bound, done)
        weights = np.maximum(weights * costs, 1e-200)
        weights /= weights.sum()
    raise PlanError(
        f"the error is within {1 - bound / best:.2g} of the least after {rounds} rounds, not {tolerance:g}",
        hint="allow more rounds, or a larger tolerance",
        code="DPR-P104",
    )
