"""What one row in the place of another costs all Gaussian draws of a workload together.

Under ``replace_one`` the old and the new row are the same two rows in all draws. A draw sees of them in which of its
attributes they differ, and whether they are of different nodes of its level, and no more (``workload_cost.cost``): the
squared change of a residual of A is 2 (p - q), q the product of 1 - 1/n over the attributes of A that agree and -1/n
over those that differ, 0 between two nodes, and p is q where all agree; that of a table is 2 where anything differs.
Where one of the two rows is counted nowhere it is p, or 1. So all pairs of rows are told apart by the set D of
attributes that differ and the first level at which the nodes do, and a weighted sum over draws is worst at one of
these. For one level the sum over draws of w q(D) is a product of 2 by 2 matrices, one for each attribute, applied to
the weights as an array with one axis of length 2 for each attribute (draws with it, draws without it): m 2^m steps for
all D of m attributes. Proofs: docs/proofs/replaced-pairs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Axes, Tree
from dprelease.plan.design.workload_cost import Part, Problem, cost

__all__ = ["PairLosses", "Worst", "cost_together", "pairs_of", "square_of_pair"]

Reals = npt.NDArray[np.float64]
Worst = tuple[int, frozenset[int]] | None
"""A pair: the first level at which the nodes differ, and the attributes that do; None: one row is counted nowhere."""
_LEAST_GAIN = 1e-3  # of the budget; for less every draw is charged its own worst case
_MOST_COLUMNS = 16  # with two keys or more; with more of them every draw is charged its own worst case


@dataclass(frozen=True)
class PairLosses:
    """All kinds of pairs of rows, for the draws of a workload.

    Attributes:
        sizes: The number of keys of each attribute.
        tree: The levels.
    """

    sizes: Axes
    tree: Tree

    @property
    def is_few(self) -> bool:
        """Whether all pairs can be gone through."""
        return len(self._live) <= _MOST_COLUMNS

    @cached_property
    def _live(self) -> list[int]:
        """The attributes in which two rows can differ."""
        return [at for at, size in enumerate(self.sizes) if size > 1]

    @cached_property
    def _parted(self) -> list[int]:
        """The levels at which the nodes of two rows can be the first that differ; the last one: nowhere."""
        above, found = 1, []
        for level, nodes in enumerate(self.tree.sizes):
            if nodes > above:  # every node has a child, so that one of them then has two
                found.append(level)
            above = nodes
        return [*found, self.tree.levels]

    @property
    def _form(self) -> tuple[int, ...]:
        return (2,) * len(self._live)

    def _arrays(self, parts: Sequence[Part], weights: Sequence[float]) -> tuple[Reals, Reals]:
        """The weights of residuals, and of tables, at every level, by which attributes they have."""
        found = np.zeros((2, self.tree.levels, *self._form))
        for part, weight in zip(parts, weights, strict=True):
            place = tuple(int(at in part.axes) for at in self._live)
            found[(0 if part.residual else 1, part.level, *place)] += weight
        return found[0], found[1]

    def _alike(self, parts: Sequence[Part], weights: Sequence[float]) -> Reals:
        """The sum over draws of weight times q(D), shape (levels, 2, ..., 2): 1 where an attribute differs."""
        residuals, tables = self._arrays(parts, weights)
        for place, at in enumerate(self._live, 1):
            n = self.sizes[at]
            residuals = _applied(residuals, place, ((1, 1 - 1 / n), (1, -1 / n)))
            tables = _applied(tables, place, ((1, 1), (1, 0)))
        return residuals + tables

    def losses(self, parts: Sequence[Part], weights: Sequence[float]) -> Reals:
        """The weighted sum of squared changes, in counts, of every kind of pair.

        Shape (1 + kinds of levels, 2^attributes): in the first row one of the two rows is counted nowhere.
        """
        alike = self._alike(parts, weights).reshape(self.tree.levels, -1)
        whole = alike[:, :1]
        rows = [np.full((1, alike.shape[1]), whole.sum())]
        for first in self._parted:
            same = 2 * (whole - alike)[:first].sum(axis=0)
            rows.append((same + 2 * whole[first:].sum())[None, :])
        return np.concatenate(rows)

    def mean_squares(self, shares: Reals, parts: Sequence[Part]) -> Reals:
        """The squared change of every draw, in counts, averaged over the pairs with these shares.

        Args:
            shares: As :meth:`losses` has them; they add up to 1.
            parts: Draws.
        """
        nowhere, others = float(shares[0].sum()), shares[1:]
        found = np.zeros(len(parts))
        for level in range(self.tree.levels):
            same = sum(
                (row for first, row in zip(self._parted, others, strict=True) if first > level),
                np.zeros(others.shape[1]),
            )
            residuals = tables = same.reshape(self._form)
            for place, at in enumerate(self._live):
                n = self.sizes[at]
                residuals = _applied(residuals, place, ((1, 1), (1 - 1 / n, -1 / n)))
                tables = _applied(tables, place, ((1, 1), (1, 0)))
            for number, part in enumerate(parts):
                if part.level == level:
                    columns = tuple(int(at in part.axes) for at in self._live)
                    own = float(cost(part.axes, self.sizes, residual=part.residual))  # p, or 1
                    mean = float((residuals if part.residual else tables)[columns])
                    found[number] = nowhere * own + 2 * (own * float(others.sum()) - mean)
        return found

    def worst(self, parts: Sequence[Part], weights: Sequence[float]) -> tuple[float, Worst]:
        """The largest weighted sum, and its pair."""
        losses = self.losses(parts, weights)
        row, column = divmod(int(np.argmax(losses)), losses.shape[1])
        if row == 0:
            return float(losses.max()), None
        bits = f"{column:0{len(self._live)}b}"  # the first attribute is the highest one
        differ = frozenset(at for at, bit in zip(self._live, bits, strict=bool(self._live)) if bit == "1")
        return float(losses.max()), (self._parted[row - 1], differ)


def _applied(array: Reals, axis: int, matrix: Sequence[Sequence[float]]) -> Reals:
    """The matrix, applied along one axis of length 2."""
    found = np.tensordot(np.asarray(matrix, dtype=np.float64), array, axes=(1, axis))
    return np.moveaxis(found, 0, axis)


def square_of_pair(part: Part, sizes: Axes, pair: Worst) -> Fraction:
    """The exact squared change of a draw, in counts, at a pair as :meth:`PairLosses.worst` has it."""
    own = cost(part.axes, sizes, residual=part.residual)
    if pair is None:
        return own
    first, differ = pair
    if part.level >= first:
        return 2 * own
    if not part.residual:
        return Fraction(2 if differ & set(part.axes) else 0)
    alike = Fraction(1)
    for at in part.axes:
        alike *= Fraction(-1, sizes[at]) if at in differ else 1 - Fraction(1, sizes[at])
    return 2 * (own - alike)


def pairs_of(problem: Problem) -> PairLosses | None:
    """The pairs of a workload under ``replace_one``; None where every draw is charged its own worst case."""
    found = PairLosses(problem.workload.sizes, problem.tree)
    return found if problem.together and found.is_few else None


def cost_together(problem: Problem, parts: Sequence[Part]) -> tuple[float, Worst] | None:
    """What draws cost at their worst pair over what their own worst cases add up to, and that pair; None: no less."""
    pairs = pairs_of(problem)
    if pairs is None or len(parts) < 2:
        return None
    whole, worst = pairs.worst(parts, [float(part.share / _own(problem, part)) for part in parts])
    return (whole, worst) if whole < 1 - _LEAST_GAIN else None


def _own(problem: Problem, part: Part) -> Fraction:
    nodes = problem.tree.sizes[part.level]
    return cost(part.axes, problem.workload.sizes, residual=part.residual, replace_one=True, nodes=nodes)
