"""The candidates for the draws of a workload: which tables and residuals, with which shares of its budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Axes
from dprelease.plan.design.tree_variance import TreeShape, mean_variances
from dprelease.plan.design.workload_cost import Part, Problem, beside, firm
from dprelease.plan.design.workload_pairs import pairs_of

__all__ = ["even_tables", "given_shares", "joint_tables", "multiply", "residuals", "tables", "whole_parts"]

Reals = npt.NDArray[np.float64]

_PARTS = 10**9  # shares are whole multiples of one part in so many
_TINY = 1e-4  # a draw below this share of its residual, or of the average draw, is not worth making
# Averages over pairs of rows: how much larger than its share the sum of a pair makes that, and when it is enough.
_FIRST_POWER, _POWER, _MET = 32, 4, 2e-3
_PAIR_ROUNDS, _TREE_ROUNDS = 40, 10
_LEAST_PART = 1e-3  # of its own worst case that a draw is charged in an average
_WORK = 10_000  # classes of nodes x residuals up to which a search uses the true tree


def residuals(problem: Problem) -> list[Part]:
    """All residuals of the closure; empty where exact tables say all of them.

    Under replace-one, where all draws are bounded together, the shares for which that costs least. With w the
    precisions, h(w) is to be made least where no pair of rows has a larger sum of w times squared change than 1. For
    any average of the pairs, each draw charged by its average square, the closed form has the least h under a weaker
    bound; divided by the largest sum of any pair its precisions keep to the right one. The first is below the least h,
    the second above it. Pairs with larger sums get larger shares of the average until the two meet.
    """
    live = np.flatnonzero((problem.incidence.p > 0) & ~problem.sure[-1])
    if not len(live):
        return []
    best = shares = _residual_shares(problem, live, problem.residual_costs[:, live])[0]
    axes = [problem.incidence.residuals[at] for at in live]
    pairs = pairs_of(problem)
    if pairs is not None:
        own = problem.residual_costs[:, live]
        parts = [Part(level, one, True, Fraction(1)) for level in range(problem.tree.levels) for one in axes]
        losses = pairs.losses(parts, (shares / own).ravel().tolist())
        average = (losses / losses.max()) ** _FIRST_POWER
        least = math.inf
        for _ in range(_PAIR_ROUNDS if problem.shape.classes == 1 else _TREE_ROUNDS):
            average = average / average.sum()
            costs = np.maximum(pairs.mean_squares(average, parts).reshape(own.shape), own * _LEAST_PART)
            shares, value = _residual_shares(problem, live, costs)
            losses = pairs.losses(parts, (shares / costs).ravel().tolist())
            if value * losses.max() < least:
                least, best = value * float(losses.max()), shares / costs * own
            if losses.max() <= 1 + _MET:
                break
            average = average * (losses / losses.max()) ** _POWER
    return whole_parts(best / best.sum(), axes, True)


def _residual_shares(problem: Problem, live: npt.NDArray[np.intp], costs: Reals) -> tuple[Reals, float]:
    """For each residual its best levels, then the closed form over residuals: shares, and the objective at rho = 1.

    With exact numbers at the upper levels the variances that are left still are homogeneous of degree -1 in the shares
    below, so that nothing else changes.
    """
    losses, sure = problem.losses[:, live], problem.sure[:, live]
    # Residuals whose losses and costs are in the same proportions over the levels have the same best levels.
    forms = np.round(np.vstack([losses / losses[-1], costs / costs[-1], sure]), 12)
    _, first, which = np.unique(forms, axis=1, return_index=True, return_inverse=True)
    few, least, told = costs[:, first], losses[:, first], sure[:, first]

    def of(shape: TreeShape, shares: Reals) -> tuple[Reals, Reals]:
        values, falls = beside(shape, 2 * shares / few, least, told)
        return values, falls * 2 / few

    shares = _search(problem, ~told / np.sum(~told, axis=0), of, axis=0)
    shares[:-1][shares[:-1] < _TINY] = 0
    shares /= shares.sum(axis=0)
    values = np.sum(least * mean_variances(problem.shape, firm(2 * shares / few, told)), axis=0)
    scales = losses[-1] / least[-1][which] * costs[-1] / few[-1][which]
    each = np.sqrt(values[which] * scales)
    return shares[:, which] * (each / each.sum()), float(each.sum()) ** 2


def tables(problem: Problem) -> list[Part]:
    """Independent tables: the shares that are best after the reconciliation; empty where exact ones say them all."""
    left = ~problem.sure_tables
    if not left[-1].any():
        return []
    found, costs = problem.incidence, problem.table_costs
    root, p_zero = np.sqrt(found.spread), found.p == 0

    def of(shape: TreeShape, shares: Reals) -> tuple[Reals, Reals]:
        precisions = problem.from_tables(shares)
        precisions[:, p_zero] = 1
        values, falls = beside(shape, precisions, problem.losses, problem.sure)
        falls[:, p_zero] = 0
        back = [np.bincount(found.table, row[found.residual] * root, found.tables) for row in falls]
        return np.sum(values, keepdims=True), np.array(back) * 2 / costs

    # From the split that is best for each table by itself: Lagrange on sum w c / (2 f).
    start = np.sqrt(problem.weights * costs) * left
    shares = _search(problem, start / start.sum(), of, tolerance=1e-4)
    kept = np.where(shares < _TINY / shares.size, 0, shares)
    if not ((problem.from_tables(kept) > 0) | problem.sure)[-1].all():  # with weights that are very far apart
        kept = shares
    return whole_parts(kept / kept.sum(), problem.workload.sets, False)


def joint_tables(problem: Problem) -> list[Part]:
    """Only the table that contains all others, at the best levels; empty where there is none, or it is exact."""
    sets = problem.workload.sets
    at = max(range(len(sets)), key=lambda i: len(sets[i]))
    left = ~problem.sure_tables[:, [at]]
    if any(not set(axes) <= set(sets[at]) for axes in sets) or not left[-1, 0]:
        return []
    chosen = np.zeros(problem.table_costs.shape)
    chosen[:, at] = 1
    unit = problem.from_tables(chosen)

    def of(shape: TreeShape, shares: Reals) -> tuple[Reals, Reals]:
        values, falls = beside(shape, shares * unit, problem.losses, problem.sure)
        return np.sum(values, keepdims=True), np.sum(falls * unit, axis=1, keepdims=True)

    shares = _search(problem, left / left.sum(), of)
    shares[:-1][shares[:-1] < _TINY] = 0
    return whole_parts(shares / shares.sum(), [sets[at]], False)


def even_tables(problem: Problem) -> list[Part]:
    """Every published table that exact ones do not say, each with the same share."""
    places = np.argwhere(~problem.sure_tables).tolist()
    return [Part(level, problem.workload.sets[at], False, Fraction(1, len(places))) for level, at in places]


def given_shares(
    problem: Problem,
    level_shares: Sequence[Fraction] | None,
    table_shares: Mapping[Axes, Sequence[Fraction | None]] | None,
) -> list[Part]:
    """The published tables with an author's shares, level by level.

    Raises:
        ValueError: If shares do not add up to 1, one is negative, or they are not of these levels and sets.
    """
    levels, sets = problem.tree.levels, problem.workload.sets
    per_level = [Fraction(1, levels)] * levels if level_shares is None else [Fraction(f) for f in level_shares]
    if table_shares is None:
        table_shares = dict.fromkeys(sets, [Fraction(1, len(sets))] * levels)
    if len(per_level) != levels or min(per_level) < 0 or sum(per_level) != 1:
        raise ValueError(f"there is one share for each of {levels} levels, and they add up to 1, not {sum(per_level)}")
    if not set(table_shares) <= set(sets) or any(len(row) != levels for row in table_shares.values()):
        raise ValueError(f"shares are of published tables, one for each of {levels} levels")
    parts = []
    for level in range(levels):
        row = {axes: Fraction(table_shares[axes][level] or 0) for axes in sets if axes in table_shares}
        if min(row.values()) < 0 or sum(row.values()) != 1:
            raise ValueError(f"the shares of level {level} are at least 0 and add up to 1, not {sum(row.values())}")
        parts += [Part(level, axes, False, f * per_level[level]) for axes, f in row.items() if f * per_level[level]]
    return parts


def _search(
    problem: Problem,
    shares: Reals,
    of: Callable[[TreeShape, Reals], tuple[Reals, Reals]],
    axis: int | None = None,
    tolerance: float = 1e-6,
) -> Reals:
    """The best shares: on the average tree, and from there on the true one, unless that is too much work."""
    average = TreeShape.average(problem.tree)
    found = multiply(shares, lambda now: of(average, now), axis, tolerance)
    columns = shares.shape[1] if axis == 0 else problem.losses.shape[1]
    if problem.shape.classes == 1 or problem.shape.classes * columns > _WORK:
        return found
    return multiply(found, lambda now: of(problem.shape, now), axis, tolerance)


def multiply(
    shares: Reals,
    of: Callable[[Reals], tuple[Reals, Reals]],
    axis: int | None,
    tolerance: float,
    rounds: int = 300,
) -> Reals:
    """Shares that add up to 1 along the axis with the least value, to a relative tolerance or as many rounds.

    ``of`` gives values and slopes (minus the derivatives). For a convex value h of degree -1 with
    ``sum share slope = h``, no shares have a value below ``h^2 / max slope``: the tangent at t times the shares bounds
    h at any others by ``2 h / t - max slope / t^2``, largest at ``1 / t = h / max slope``.
    """
    for _ in range(rounds):
        values, falls = of(shares)
        if np.max(1 - values / falls.max(axis=axis)) <= tolerance:
            break
        shares = shares * np.sqrt(falls)
        shares = shares / shares.sum(axis=axis, keepdims=True)
    return shares


def whole_parts(shares: Reals, axes: Sequence[Axes], residual: bool) -> list[Part]:
    """Draws with exact shares: whole numbers of parts, by largest remainders, each at least one."""
    used = np.argwhere(shares > 0)
    wanted = shares[used[:, 0], used[:, 1]]
    scaled = wanted / wanted.sum() * (_PARTS - len(used))
    whole = np.floor(scaled).astype(np.int64)
    order = np.argsort(-(scaled - whole), kind="stable")
    left = _PARTS - len(used) - int(whole.sum())
    whole[order[:left]] += 1
    return [
        Part(int(level), axes[at], residual, Fraction(int(n) + 1, _PARTS))
        for (level, at), n in zip(used, whole, strict=True)
    ]
