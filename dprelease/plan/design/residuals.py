"""Which residuals of a workload of marginals to measure, and with how much noise: ResidualPlanner's selection.

Xiao, He, Zhang and Kifer, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions"
(NeurIPS 2023), written from the mathematics. This is the selection step alone, for one level and under add or remove;
:mod:`dprelease.plan.design.workload_strategy` adds hierarchies, replace-one and other strategies.

Attributes i have n_i values; a marginal is named by its set A of attributes, the empty set being the total. The
marginals that occur in a workload need the *residuals* b of its closure, all subsets of its sets: the marginal of b,
centred along each of its axes, so that residuals are orthogonal. Measured with independent noise of variance s_b per
cell of the marginal before centring, and centred again,

* one record costs ``p_b / s_b``, ``p_b = prod_{i in b} (1 - 1/n_i)``, the same for every record: it is the squared
  length of a centred unit vector. All together are a Gaussian of ``mu^2 = sum_b p_b / s_b``;
* the marginal of A is the sum of its residuals, each spread over the other axes, and so has per cell
  ``Var(A) = sum_{b subset A} s_b p_b prod_{j in A - b} n_j^-2``.

All figures are floats: what a plan claims is computed by an accountant from the variances as rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError

__all__ = ["Incidence", "Selection", "Workload", "cell_weights", "max_variance", "minimax", "rmse", "select"]

Reals = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """Marginals to publish over one table of records.

    Attributes:
        sizes: The number of values of each attribute, at least 1.
        sets: The marginals, each a rising tuple of attribute positions; no set twice.

    Raises:
        ValueError: If a size is below 1, a set is not rising or out of range, or there is no set or one twice.
    """

    sizes: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.sizes):
            raise ValueError("an attribute has at least one value")
        if not self.sets or len(set(self.sets)) != len(self.sets):
            raise ValueError("a workload has at least one marginal, and none twice")
        limit = len(self.sizes)
        for axes in self.sets:
            if list(axes) != sorted(set(axes)) or (axes and not 0 <= axes[0] <= axes[-1] < limit):
                raise ValueError(f"a marginal is a rising tuple of attribute positions below {limit}, not {axes}")

    @classmethod
    def ways(cls, sizes: Sequence[int], ways: Sequence[int]) -> Workload:
        """All marginals over so many attributes at a time; 0 is the total."""
        axes = range(len(sizes))
        return cls(tuple(sizes), tuple(found for way in sorted(set(ways)) for found in combinations(axes, way)))

    @cached_property
    def incidence(self) -> Incidence:
        """Which residual is in which marginal."""
        return _incidence(self)


@dataclass(frozen=True, eq=False)
class Selection:
    """How much noise each residual gets, and what the marginals then have.

    Attributes:
        residuals: The closure of the workload, by size and then in rising order.
        variances: Noise variance of each residual, per cell before centring, shape (residuals,). 0 for a residual
            with an attribute of one value: it is 0 for all data, and is not measured.
        table_variances: Variance of one cell of each marginal, shape (sets,), in the order of the workload.
        objective: What was minimised.
        lower_bound: Below which no choice of variances gets the objective; equal to it for :func:`select`.
        rounds: How many rounds the search took; 1 for a closed form.
    """

    residuals: tuple[tuple[int, ...], ...]
    variances: Reals
    table_variances: Reals
    objective: float
    lower_bound: float
    rounds: int = 1

    @property
    def gap(self) -> float:
        """How far, relative to itself, the objective can at most be from the least."""
        return max(0.0, 1 - self.lower_bound / self.objective)


def select(workload: Workload, mu_squared: float, weights: Sequence[float] | Reals | None = None) -> Selection:
    """The variances that minimise the weighted sum ``sum_A weight_A Var(A)``, in closed form.

    With ``v_b = p_b sum_{A containing b} weight_A prod_{j in A - b} n_j^-2`` the objective is ``sum_b v_b s_b`` and
    the budget ``sum_b p_b / s_b = mu^2``: Lagrange gives ``s_b = sqrt(p_b / v_b) sum sqrt(v p) / mu^2`` and the
    optimum ``(sum sqrt(v p))^2 / mu^2``. The paper proves it optimal among all Gaussian matrix mechanisms; the tests
    confirm that by the dual bound on small domains.

    Args:
        workload: The marginals.
        mu_squared: The Gaussian budget, mu^2 = 2 rho; above 0. The paper calls it privacy cost.
        weights: One per marginal, above 0. Left out: 1 each, so that every table counts the same. Weights by cells
            (:func:`cell_weights`) are the paper's default and starve small tables.

    Returns:
        The selection; its objective is the weighted sum.

    Raises:
        ValueError: If the budget or a weight is not above 0 and finite, or there are not as many as marginals.
    """
    found = workload.incidence
    given = np.ones(len(workload.sets)) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (len(workload.sets),) or not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError("there is one weight above 0 for every marginal")
    _check_budget(mu_squared)
    times, total = found.shares(given)
    objective = total * total / mu_squared
    return found.selection(workload, times * (total / mu_squared), objective, objective)


def minimax(
    workload: Workload,
    mu_squared: float,
    targets: Sequence[float] | Reals | None = None,
    tolerance: float = 1e-6,
    rounds: int = 10_000,
) -> Selection:
    """The variances that minimise the largest ``Var(A) / target_A^2``, with a certified gap.

    For weights ``l`` that add up to 1 the optimum of :func:`select` with ``l / target^2`` is a lower bound, because a
    mean is at most the maximum; the largest ratio at its variances is an upper bound. The bound ``f(l)^2 / mu^2``,
    ``f = sum_b sqrt(p_b v_b(l))``, is raised by ``l_A <- l_A r_A^2`` (rescaled), r_A the ratio of A. It rises in
    every round: each v_b is a sum of terms ``l_A g_A``, and with the current shares ``o_A = l_A g_A / v_b`` the
    Cauchy-Schwarz inequality gives ``sqrt(v_b(l')) >= sum_A sqrt(o_A l'_A g_A)``, equal at l' = l; the sum of these
    minorants over b is proportional to ``sum_A sqrt(l_A l'_A) r_A`` and largest at that update.

    Args:
        workload: The marginals.
        mu_squared: The Gaussian budget, mu^2 = 2 rho; above 0.
        targets: Standard deviations to be met in proportion, one per marginal, above 0. Left out: 1 each.
        tolerance: The gap at which to stop.
        rounds: How many rounds to try.

    Returns:
        The selection; its objective is the largest ratio, and its gap at most the tolerance.

    Raises:
        PlanError: DPR-P104, if the gap is not reached in so many rounds.
        ValueError: If the budget or a target is not above 0 and finite, or there are not as many as marginals.
    """
    found, count = workload.incidence, len(workload.sets)
    given = np.ones(count) if targets is None else np.asarray(targets, dtype=np.float64)
    if given.shape != (count,) or not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError("there is one target above 0 for every marginal")
    wanted = given * given
    _check_budget(mu_squared)
    weights, best, bound = np.full(count, 1 / count), np.inf, 0.0
    for done in range(1, rounds + 1):
        times, total = found.shares(weights / wanted)
        variances = times * (total / mu_squared)
        ratios = found.table_variances(variances) / wanted
        bound = max(bound, total * total / mu_squared)
        if ratios.max() < best:
            best, kept = float(ratios.max()), variances
        if best - bound <= tolerance * best:
            return found.selection(workload, kept, best, bound, done)
        weights = np.maximum(weights * (ratios / ratios.max()) ** 2, 1e-200)
        weights /= weights.sum()
    raise PlanError(
        f"the largest variance is within {1 - bound / best:.2g} of the least after {rounds} rounds, not {tolerance:g}",
        hint="allow more rounds, or a larger tolerance",
        code="DPR-P104",
    )


def cell_weights(workload: Workload) -> Reals:
    """The number of cells of every marginal: as weights, the objective is the total squared error of all cells."""
    return np.array([float(np.prod([float(workload.sizes[i]) for i in axes])) for axes in workload.sets])


def rmse(workload: Workload, mu_squared: float) -> float:
    """The least root mean squared error over all cells of all marginals, in counts.

    Raises:
        ValueError: If the budget is not above 0 and finite.
    """
    cells = cell_weights(workload)
    return float(np.sqrt(select(workload, mu_squared, cells).objective / cells.sum()))


def max_variance(workload: Workload, mu_squared: float) -> float:
    """The least largest variance of a cell, to 1e-6 relative, from above.

    Raises:
        PlanError: DPR-P104, if the search does not end.
        ValueError: If the budget is not above 0 and finite.
    """
    return minimax(workload, mu_squared).objective


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which residual is in which marginal.

    Attributes:
        residuals: The closure of the workload, by size and then in rising order.
        p: ``prod_{i in b} (1 - 1/n_i)`` of every residual b.
        table: With ``residual`` and ``spread`` one row for every residual b of every marginal A: which marginal.
        residual: Which residual.
        spread: ``prod_{j in A - b} n_j^-2``.
        tables: How many marginals there are.
    """

    residuals: tuple[tuple[int, ...], ...]
    p: Reals
    table: Whole
    residual: Whole
    spread: Reals
    tables: int

    def over_tables(self, parts: Reals) -> Reals:
        """The sum of something known of every (marginal, residual), over the marginals of each residual."""
        return np.asarray(np.bincount(self.residual, parts, len(self.p)), dtype=np.float64)

    def shares(self, weights: Reals) -> tuple[Reals, float]:
        """``sqrt(p / v)`` of every residual (0 where p is 0), and ``sum sqrt(v p)``."""
        v = self.p * self.over_tables(weights[self.table] * self.spread)
        if not ((v > 0) | (self.p == 0)).all():  # a variance would be infinite, and its cost forgotten
            raise ValueError("weights or targets are too far apart for floating-point numbers")
        root = np.sqrt(np.divide(self.p, v, out=np.zeros_like(v), where=v > 0))
        return root, float(np.sum(np.sqrt(v * self.p)))

    def table_variances(self, variances: Reals) -> Reals:
        """Of a cell of every marginal, where z_b has these variances (times its centring)."""
        parts = (variances * self.p)[self.residual] * self.spread
        return np.asarray(np.bincount(self.table, parts, self.tables), dtype=np.float64)

    def selection(self, of: Workload, variances: Reals, value: float, bound: float, rounds: int = 1) -> Selection:
        """These variances with what the marginals then have."""
        tables = self.table_variances(variances)
        variances.setflags(write=False)
        tables.setflags(write=False)
        return Selection(self.residuals, variances, tables, value, bound, rounds)


def _incidence(workload: Workload) -> Incidence:
    sizes = np.array(workload.sizes, dtype=np.float64)
    places: dict[int, list[int]] = {}
    for place, axes in enumerate(workload.sets):
        places.setdefault(len(axes), []).append(place)
    groups = {way: np.array([workload.sets[i] for i in at], dtype=np.int64) for way, at in places.items()}
    residuals: list[tuple[int, ...]] = []
    p, table, column, spread = [], [], [], []
    for low in range(max(groups) + 1):
        parts = list(_parts(groups, low))
        rows = np.concatenate([rows for _, rows, _ in parts])
        first, inverse = _distinct(rows, len(sizes))
        column.append(inverse + len(residuals))
        table += [np.array(places[way]) for way, _, _ in parts]
        spread += [np.prod(sizes[rest] ** -2.0, axis=1) for _, _, rest in parts]
        p.append(np.prod(1 - 1 / sizes[rows[first]], axis=1))
        residuals += map(tuple, rows[first].tolist())
    return Incidence(
        residuals=tuple(residuals),
        p=np.concatenate(p),
        table=np.concatenate(table),
        residual=np.concatenate(column),
        spread=np.concatenate(spread),
        tables=len(workload.sets),
    )


def _parts(groups: dict[int, Whole], low: int) -> Iterator[tuple[int, Whole, Whole]]:
    """Every way to leave ``low`` attributes of the marginals: how many they had, those left, those gone."""
    for way, rows in groups.items():
        for keep in combinations(range(way), low):
            gone = [i for i in range(way) if i not in keep]
            yield way, rows[:, list(keep)], rows[:, gone]


def _distinct(rows: Whole, base: int) -> tuple[Whole, Whole]:
    """Where the distinct rows first occur, in rising order, and which of them each row is."""
    code = np.zeros(len(rows), dtype=np.int64)
    for axis in rows.T:
        if code.max(initial=0) >= 2**62 // max(base, 1):
            code = np.unique(code, return_inverse=True)[1]
        code = code * base + axis
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first, inverse


def _check_budget(mu_squared: float) -> None:
    if not (np.isfinite(mu_squared) and mu_squared > 0):
        raise ValueError("a budget is above 0 and finite")
