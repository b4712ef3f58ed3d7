"""The tables of a workload as one draw: K-norm noise on several tables of counts of one sum.

One row is in one cell of every table, so that one draw of norm 1 hides them all
(:mod:`dprelease.noise.mechanisms.tables_knorm`), where draws by table divide the epsilon. Its noise has one total, of
variance V, and is alike and exchangeable in the cells of one table. So its residuals (estimate.workloads.reconcile)
have nothing to do with one another, and the draw says of them what these separate draws would say:

* the total, with variance V;
* of a table of attributes A with n cells and contrast variance w, for each b within A but the empty one, the residual
  of b with variance ``w n / prod_{i in b} n_i``.

Tables without a common attribute agree in their totals alone, and they already do: least squares changes nothing, and
every published cell is a cell of the draw, or the total. That is the case that is drawn; its margins are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.estimate.workloads.design import Axes, Design, Tree, subsets
from dprelease.noise import Law
from dprelease.noise.mechanisms.tables_knorm import TablesKNorm, TablesLaw, is_drawn
from dprelease.plan.design.workload_cost import Part, Problem
from dprelease.plan.design.workload_strategy import Strategy
from dprelease.spec.fields.workloads import Minimize

__all__ = ["JointDraws", "joint_reach", "joint_strategy", "joint_tables_of", "table_with", "variance_of_take"]

Reals = npt.NDArray[np.float64]
_ROUND = 1e-6  # counts: a margin of whole ones stays one beside estimates that are off by their last digits


@dataclass(frozen=True, eq=False)
class JointDraws:
    """Tables that one draw hides.

    Attributes:
        problem: The workload; its sizes and weights.
        tables: The attributes of each.
    """

    problem: Problem
    tables: tuple[Axes, ...]

    @property
    def cells(self) -> tuple[int, ...]:
        """How many cells each has."""
        return tuple(prod(self.problem.workload.sizes[i] for i in axes) for axes in self.tables)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the draw says: its total, and every residual, each an equal part; it is not divided by them."""
        told = [(), *(b for axes in self.tables for b in subsets(axes) if b)]
        return tuple(Part(0, b, bool(b), Fraction(1, len(told))) for b in told)

    def draw_variances(self, laws: Sequence[Law]) -> list[float]:
        """The variance of each of these parts, given the law of the one draw."""
        (law,) = laws
        sizes = self.problem.workload.sizes
        return [variance_of_take(law, part.axes, self.tables, sizes) for part in self.parts]

    def variances(self, noise: Sequence[float]) -> Reals:
        """Of one cell of every published table, shape (1, sets); ``noise`` as :meth:`draw_variances` gives it."""
        known = {part.axes: variance for part, variance in zip(self.parts, noise, strict=True)}
        row = np.array([known[b] for b in self.problem.incidence.residuals])
        return np.array([self.problem.incidence.table_variances(row)])

    def lost(self, noise: Sequence[float], minimize: Minimize) -> float:
        """What the aim makes least: the weighted sum of the variances, or the largest."""
        found = self.variances(noise)
        return float(found.max()) if minimize == "worst" else float(np.sum(self.problem.weights * found))


def joint_tables_of(sizes: Sequence[int], tree: Tree, sets: Sequence[Axes]) -> tuple[Axes, ...]:
    """The tables that one draw can hide for a workload; none where it cannot.

    At least two published tables of several cells, without a common attribute, of a dimension that is not too large;
    what else is published has one cell, and no level is above another.
    """
    found = tuple(axes for axes in sets if prod(sizes[i] for i in axes) > 1)
    apart = all(not {*one} & {*other} for one, other in combinations(found, 2))
    cells = [prod(sizes[i] for i in axes) for axes in found]
    fits = tree.sizes == (1,) and len(found) > 1 and apart and is_drawn(cells, total=len(found) < len(sets))
    return found if fits else ()


def joint_strategy(draws: JointDraws, epsilon: float, replace_one: bool) -> Strategy:
    """The strategy of one draw: variances at epsilon 1, as those of ``workload_pure.pure_strategies``.

    Args:
        draws: The tables.
        epsilon: About what the workload has for one row of a unit.
        replace_one: The neighbouring relation: a replaced row has the norm 2.
    """
    scale = Fraction(2 if replace_one else 1) / Fraction(epsilon)
    noise = [each * epsilon**2 for each in draws.draw_variances([TablesKNorm().law(scale, draws.cells)])]
    variances = draws.variances(noise)
    variances.setflags(write=False)
    return Strategy("K-norm noise, tables", draws.parts, variances, draws.lost(noise, "tables"))


def variance_of_take(law: Law, axes: Axes, tables: Sequence[Axes], sizes: Sequence[int]) -> float:
    """The variance of the total, or of a residual, that a joint draw over tables says.

    Args:
        law: The law of the draw.
        axes: The attributes of the residual; none: the total.
        tables: The attributes of the tables of the draw.
        sizes: The number of keys of each attribute.
    """
    if not isinstance(law, TablesLaw):
        raise BrokenPromiseError("a draw over tables has another law")
    if not axes:
        return law.total_variance
    own = tables[table_with(axes, tables)]
    cells = prod(sizes[i] for i in own)
    return float(law.contrast_variance(cells) * cells / prod(sizes[i] for i in axes))


def table_with(axes: Axes, tables: Sequence[Axes]) -> int:
    """The place of the table that a residual is of; of the total, which is that of all, the first."""
    return next(at for at, table in enumerate(tables) if set(axes) <= set(table))


def joint_reach(law: TablesLaw, design: Design, confidence: Fraction) -> float:
    """A margin of every published number of such a workload, in its standard errors: exact for the widest table."""
    found = []
    for axes in design.sets:
        cells = prod(design.sizes[i] for i in axes)
        if cells == 1:
            found.append((law.total_margin(confidence) + _ROUND) / law.total_variance**0.5)
        else:
            found.append((law.cell_margin(cells, confidence) + _ROUND) / law.cell_variance(cells) ** 0.5)
    return float(max(found))
