"""Which tables a workload draws behind discrete Laplace noise, and which part of its epsilon each gets.

Every draw is a *table*: a published one, or a *merged* one, of the union of attributes of several, which is summed
down. Epsilons of draws add up, so that fewer and larger tables can win: the noise of T tables goes with T^2, and that
of a sum of m cells with m. Afterwards all draws are reconciled by least squares
(:mod:`dprelease.estimate.workloads.reconcile`), which needs their variances and nothing else of their law.

* A draw of the part e of the workload's epsilon, of L1 sensitivity d, has the scale ``d / (e epsilon)`` and the
  variance ``1 / (2 sinh^2(e epsilon / (2 d)))`` per cell, that of two geometric variables' difference; nearly
  ``2 (d / (e epsilon))^2`` where epsilon is small.
* A table A of variance s adds ``1 / (s prod_{j in A - b} n_j)`` to the precision of each residual b within A, merged or
  not (:mod:`dprelease.plan.design.workload_strategy`), at its level; the rest is as for Gaussian noise.

Of tables that nothing ties together the best parts go by the cube root of what each causes (Lagrange on sum c / e^2
under sum e = 1). With reconciliation they are found from there by ``e <- e slope^(1/3)``, which is that rule where
tables are apart, in shorter steps where one does not lower the objective. It is not convex, so that several choices of
tables are tried, pairs are merged as long as that helps, and the least objective is taken, by the exact variances at
about the epsilon that the workload has. All of this is a proposal in floats: what a plan claims is computed from the
scales as rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Axes, Table, Tree
from dprelease.noise import Law
from dprelease.plan.design.tree_variance import mean_variances
from dprelease.plan.design.workload_candidates import given_shares, whole_parts
from dprelease.plan.design.workload_cost import Part, Problem, beside, cost, firm
from dprelease.plan.design.workload_strategy import Strategy
from dprelease.spec.fields.workloads import Minimize

__all__ = ["PureDraws", "problem_of", "pure_strategies"]

Reals = npt.NDArray[np.float64]

_MOST_MERGED = 100_000  # cells of a merged table, at all nodes
_MOST_PAIRS = 16  # tables of which pairs are merged
_BEAM = 4  # choices that are kept while tables are merged,
_BEAM_UP_TO = 10  # where so few are
_TURNS = 200
_FEW = 4
_SETTLED = 1e-9
_LEAST = 1e-4  # of the epsilon: a smaller part is not worth a draw
_LONG = 1 / 3  # the exponent of a step, which is exact where tables are apart
_ROUNDS = 20  # of weights, towards the least largest variance
_STEEPEST = 300.0  # of an epsilon: the squares of what noise gains by more are no floats
_NOTHING = math.exp(-_STEEPEST)  # a variance that is as good as none
_SMALL = 1e-6
_CLOSE = 1.01


@dataclass(frozen=True, eq=False)
class PureDraws:
    """Tables that are drawn for a workload, with what each tells of every residual.

    Attributes:
        problem: The workload; its sizes, weights and what is exact.
        places: The level and attributes of every draw.
        told: ``prod_{j in A - b} 1 / n_j`` for every residual b within the draw's A, else 0, shape (draws, residuals).
        reaches: The L1 sensitivity of each to one row, shape (draws,).
    """

    problem: Problem
    places: tuple[Table, ...]
    told: Reals
    reaches: Reals

    @classmethod
    def of(cls, problem: Problem, places: Iterable[Table], replace_one: bool) -> PureDraws:
        """Of these tables.

        Args:
            problem: The workload.
            places: The level and attributes of every draw.
            replace_one: Whether neighbors replace one row: it leaves one cell and enters another.
        """
        found, sizes = tuple(places), problem.workload.sizes
        count = len(sizes)
        inside = np.array([[i in axes for i in range(count)] for _, axes in found], dtype=np.float64)
        inside = inside.reshape(len(found), count)
        wanted = np.array([[i in b for i in range(count)] for b in problem.incidence.residuals], dtype=np.float64)
        wanted = wanted.reshape(-1, count)
        logs = np.log(np.array(sizes, dtype=np.float64))
        within = (1 - inside) @ wanted.T == 0
        told = np.where(within, np.exp(-((inside @ logs)[:, None] - (wanted @ logs)[None, :])), 0.0)
        nodes = problem.tree.sizes
        # A changed cell changes by one row, so that the squared L2 sensitivity of a table is also its L1 sensitivity.
        reaches = [float(cost(a, sizes, residual=False, replace_one=replace_one, nodes=nodes[k])) for k, a in found]
        return cls(problem, found, told, np.array(reaches))

    def draw_variances(self, laws: Sequence[Law]) -> list[float]:
        """The variance of a cell of each draw, given the laws of their noise."""
        return [law.variance for law in laws]

    def variances(self, noise: Sequence[float] | Reals) -> Reals:
        """Of one cell of every published table, mean over nodes, shape (levels, sets); infinite where one is open.

        Args:
            noise: The variance of a cell of each draw, in order.
        """
        known = np.maximum(np.asarray(noise, dtype=np.float64), _NOTHING)
        nodes = mean_variances(self.problem.shape, self._precisions(1 / known))
        nodes[self.problem.sure] = 0
        return np.array([self.problem.incidence.table_variances(row) for row in nodes])

    def lost(self, noise: Sequence[float] | Reals, minimize: Minimize) -> float:
        """What the aim makes least: the weighted sum of the variances, or the largest."""
        found = self.variances(noise)
        return float(found.max()) if minimize == "worst" else float(np.sum(self.problem.weights * found))

    def noise(self, shares: Reals, epsilon: float) -> Reals:
        """The variances of the draws with these parts of the epsilon, times epsilon^2."""
        half = np.clip(shares * (epsilon / 2) / self.reaches, 1e-150, _STEEPEST / 2)
        return np.asarray(epsilon**2 / (2 * np.sinh(half) ** 2))

    def best(self, shares: Reals, epsilon: float, turns: int = _TURNS) -> Reals:
        """Better parts than these, which add up to 1, for the weighted sum."""
        value, slope = self._slopes(shares, epsilon)
        length = _LONG
        for _ in range(turns):
            tried = shares * (slope / slope.max()) ** length
            tried = tried / tried.sum()
            fresh, falls = self._slopes(tried, epsilon)
            if not fresh < value:
                length /= 2
                if length < _SETTLED:
                    break
                continue
            settled = value - fresh <= _SETTLED * value
            shares, value, slope = tried, fresh, falls
            if settled:
                break
        return shares

    def _slopes(self, shares: Reals, epsilon: float) -> tuple[float, Reals]:
        """The objective, and how fast it falls with each part."""
        problem, near = self.problem, np.minimum(shares * epsilon / self.reaches, _STEEPEST)
        # cosh x - 1, of which floats keep no digit where x is small
        rise = np.where(near < _SMALL, 2 * np.sinh(near / 2) ** 2, np.cosh(near) - 1)
        values, falls = beside(problem.shape, self._precisions(rise / epsilon**2), problem.losses, problem.sure)
        falls[:, problem.incidence.p == 0] = 0
        levels = np.array([level for level, _ in self.places])
        each = np.sum(falls[levels] * self.told, axis=1) * np.sinh(near) / (self.reaches * epsilon)
        return float(values.sum()), np.maximum(each, 1e-300)

    def _precisions(self, own: Reals) -> Reals:
        found = np.zeros_like(self.problem.losses)
        np.add.at(found, [level for level, _ in self.places], self.told * own[:, None])
        found[:, self.problem.incidence.p == 0] = 1  # nothing to estimate
        return firm(found, self.problem.sure)


def pure_strategies(
    sizes: Sequence[int],
    tree: Tree,
    sets: Sequence[Axes],
    minimize: Minimize,
    *,
    epsilon: float,
    replace_one: bool,
    level_shares: Sequence[Fraction] | None = None,
    table_shares: Mapping[Axes, Sequence[Fraction | None]] | None = None,
    known: Sequence[Table] = (),
) -> tuple[Strategy, ...]:
    """The strategies of discrete Laplace noise, best first: parts are of epsilon, variances at epsilon 1.

    Args:
        sizes: The number of keys of each attribute.
        tree: The levels.
        sets: The published sets.
        minimize: What is made least (:func:`dprelease.plan.design.workload_objective.aimed`).
        epsilon: About what the workload has for one row of a unit; variances are those at this epsilon, times its
            square.
        replace_one: The neighbouring relation.
        level_shares: The author's; there is then nothing to choose.
        table_shares: The author's.
        known: Exact tables, each with its level.

    Returns:
        As :func:`dprelease.plan.design.workload_strategy.strategies`. Names are "tables", "merged tables", "joint
        table", "lowest tables" and "given shares", after "Laplace noise, ".
    """
    problem = problem_of(sizes, tree, sets, minimize, known, replace_one)

    def made(name: str, parts: Sequence[Part]) -> Strategy:
        draws = PureDraws.of(problem, [(part.level, part.axes) for part in parts], replace_one)
        noise = draws.noise(np.array([float(part.share) for part in parts]), epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            variances, objective = draws.variances(noise), draws.lost(noise, "tables")
        variances.setflags(write=False)
        return Strategy(f"Laplace noise, {name}", tuple(parts), variances, objective)

    if level_shares is not None or table_shares is not None:
        return (made("given shares", given_shares(problem, level_shares, table_shares)),)
    search = _Search(problem, minimize, epsilon, replace_one, tuple(known))
    found = [made(name, search.parts(places)) for name, places in search.supports() if places]
    if not found:
        return (Strategy("Laplace noise, tables", (), np.zeros((tree.levels, len(sets))), 0.0),)

    def order(one: Strategy) -> tuple[float, int]:
        least = float(one.variances.max()) if minimize == "worst" else one.objective
        return float(f"{least:.9g}"), len(one.parts)

    found.sort(key=order)
    names = [one.name for one in found]
    first = [one for at, one in enumerate(found) if one.name not in names[:at]]
    return tuple(one for at, one in enumerate(first) if one.parts not in [other.parts for other in first[:at]])


def problem_of(
    sizes: Sequence[int],
    tree: Tree,
    sets: Sequence[Axes],
    minimize: Minimize,
    known: Sequence[Table],
    replace_one: bool,
) -> Problem:
    """A workload with the weights of an aim; the largest variance has a weight of 1 for every table."""
    cells = np.array([[float(nodes * prod(sizes[i] for i in axes)) for axes in sets] for nodes in tree.sizes])
    return Problem.of(sizes, tree, sets, replace_one, cells if minimize == "cells" else None, known)


@dataclass(frozen=True, eq=False)
class _Search:
    """Which tables to try, and the best parts of each choice."""

    problem: Problem
    minimize: Minimize
    epsilon: float
    replace_one: bool
    known: tuple[Table, ...]

    def supports(self) -> list[tuple[str, list[Table]]]:
        """Choices of tables: all that are published, the lowest, the largest of these, and merged ones."""
        levels, sets = self.problem.tree.levels, self.problem.workload.sets
        every = [(level, axes) for level in range(levels) for axes in sets if not self._said((level, axes))]
        lowest = [(level, axes) for level, axes in every if level == levels - 1]
        found = [("tables", every), ("lowest tables", lowest)]
        largest = _largest(lowest)
        found.append(("largest tables", largest))
        if not largest:
            return []
        union = tuple(sorted({i for _, axes in largest for i in axes}))
        if self._cells(union) <= _MOST_MERGED:
            found.append(("joint table", [(levels - 1, union)]))
        if 1 < len(largest) <= _MOST_PAIRS:
            found += [("merged tables", places) for places in self._merged(largest)]
        return found

    def parts(self, places: Sequence[Table]) -> list[Part]:
        """The best parts of these tables; those that get next to nothing are left out, if nothing is open then."""
        draws = self._draws(places)
        shares = self._aimed(draws, np.full(len(places), 1 / len(places)))
        kept = [place for place, share in zip(places, shares, strict=True) if share >= _LEAST]
        if len(kept) < len(places) and self._covered(kept):
            draws, shares = self._draws(kept), shares[shares >= _LEAST]
            shares = self._aimed(draws, shares / shares.sum())
        axes = list(dict.fromkeys(axes for _, axes in draws.places))
        table = np.zeros((self.problem.tree.levels, len(axes)))
        for (level, own), share in zip(draws.places, shares, strict=True):
            table[level, axes.index(own)] = share
        return whole_parts(table, axes, False)

    def _aimed(self, draws: PureDraws, shares: Reals) -> Reals:
        shares = draws.best(shares, self.epsilon)
        if self.minimize != "worst":
            return shares
        # Weights on the tables, as for Gaussian noise (``workload_objective._worst``).
        weights = self.problem.weights / self.problem.weights.sum()
        best, kept = np.inf, shares
        for _ in range(_ROUNDS):
            weighed = replace(draws, problem=_weighed(self.problem, weights))
            shares = weighed.best(shares, self.epsilon)
            variances = draws.variances(draws.noise(shares, self.epsilon))
            most = float(variances.max())
            if most < best:
                best, kept = most, shares
            if best <= _CLOSE * float(np.sum(weights * variances)):
                break
            weights = np.maximum(weights * (variances / most) ** 2, 1e-12)
            weights = weights / weights.sum()
        return kept

    def _merged(self, largest: Sequence[Table]) -> list[list[Table]]:
        """The best choices after one merger of two tables, after two, and so on: a beam search."""
        beam, found, level = [list(largest)], [], largest[0][0]
        width = _BEAM if len(largest) <= _BEAM_UP_TO else 1
        while len(beam[0]) > 1:
            fresh = {}
            for places in beam:
                for (_, one), (_, other) in combinations(places, 2):
                    union = tuple(sorted({*one, *other}))
                    if self._cells(union) <= _MOST_MERGED:
                        after = _largest([*places, (level, union)])
                        fresh[frozenset(after)] = after
            if not fresh:
                break
            beam = sorted(fresh.values(), key=self._value)[:width]
            found += beam[:2]
        return found

    def _value(self, places: Sequence[Table]) -> float:
        """About the least objective of these tables: after a few turns."""
        draws = self._draws(places)
        shares = draws.best(np.full(len(places), 1 / len(places)), self.epsilon, turns=_FEW)
        return draws.lost(draws.noise(shares, self.epsilon), "tables")

    def _draws(self, places: Sequence[Table]) -> PureDraws:
        return PureDraws.of(self.problem, places, self.replace_one)

    def _covered(self, places: Sequence[Table]) -> bool:
        lowest = self.problem.tree.levels - 1
        own = [set(axes) for level, axes in places if level == lowest]
        return all(
            self._said((lowest, axes)) or any(set(axes) <= each for each in own) for axes in self.problem.workload.sets
        )

    def _said(self, place: Table) -> bool:
        return any(place[0] <= level and set(place[1]) <= set(axes) for level, axes in self.known)

    def _cells(self, axes: Axes) -> int:
        return self.problem.tree.sizes[-1] * prod(self.problem.workload.sizes[i] for i in axes)


def _largest(places: Sequence[Table]) -> list[Table]:
    """Those of tables of one level that are no sums of others, each once, in order."""
    once = list(dict.fromkeys(places))
    return [(level, axes) for level, axes in once if not any(set(axes) < set(other) for _, other in once)]


def _weighed(problem: Problem, weights: Reals) -> Problem:
    """The same with other weights of the tables."""
    found = problem.incidence
    losses = found.p * np.array([found.over_tables(row[found.table] * found.spread) for row in weights])
    return replace(problem, weights=weights, losses=losses)
