"""What a workload of marginals costs and loses, table by table and residual by residual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Axes, Table, Tree
from dprelease.plan.design.residuals import Incidence, Workload
from dprelease.plan.design.tree_variance import TreeShape, mean_variances, slopes

__all__ = ["Part", "Problem", "beside", "cost", "firm"]

Reals = npt.NDArray[np.float64]
Sure = npt.NDArray[np.bool_]

_SURE = 1e12  # how many times the largest other precision of its residual an exact number has, in searches


@dataclass(frozen=True)
class Part:
    """One draw: a table or a residual at a level, and its share of the workload's rho."""

    level: int
    axes: Axes
    residual: bool
    share: Fraction


def cost(axes: Axes, sizes: Sequence[int], *, residual: bool, replace_one: bool = False, nodes: int = 1) -> Fraction:
    """The squared L2 sensitivity of one draw, in counts, to one row.

    Add or remove: one cell moves by 1. As a table that is 1. As a residual the cell is a unit vector, centred along
    each axis; its squared length is ``p = prod (1 - 1/n_i)``, wherever the cell is.

    Replace-one, a row that moves to another cell: 2 as a table. As a residual ``2 (p - q)`` with the inner product q
    of the two centred unit vectors: the product of ``1 - 1/n_i`` over the axes that agree and ``-1/n_i`` over those
    that differ, and 0 between two nodes. For n_i >= 2 the least q has one differing axis, the smallest: an odd number
    must differ for q < 0, and another axis that differs puts ``1/n_i <= 1 - 1/n_i`` in the place of its factor. So
    ``2 (p - q) = 2 p n / (n - 1)``, n the least n_i, which is above both 2 p (another node) and p (a row that was
    not counted before: attributes without a key). For the total: 2 with several nodes, else 1.

    This is the worst case of one draw. That of all draws together can be smaller, since one row cannot attain all of
    them at once: :class:`dprelease.plan.design.workload_pairs.PairLosses`.

    Args:
        axes: The attributes of the draw.
        sizes: n_i of all attributes.
        residual: Whether it is a residual; else a table. In units of one count: the whole-number matrix
            ``(x) (n_i I - 11')`` that is drawn has ``prod n_i`` times this length.
        replace_one: Whether neighbors replace one row by another; else they add or remove one.
        nodes: The nodes of the draw's level.

    Returns:
        0 for a residual with an attribute of one value (it is 0 for all data), else above 0. For a unit
        of up to k rows, k^2 times this is an upper bound (triangle inequality).
    """
    used = [sizes[i] for i in axes]
    if not residual:
        return Fraction(2 if replace_one and nodes * math.prod(used) > 1 else 1)
    length = math.prod((Fraction(n - 1, n) for n in used), start=Fraction(1))
    if not replace_one or not length:
        return length
    if not used:
        return Fraction(2 if nodes > 1 else 1)
    return 2 * length * Fraction(min(used), min(used) - 1)


@dataclass(frozen=True, eq=False)
class Problem:
    """A workload with what all candidates need.

    Attributes:
        workload: Sizes and sets.
        tree: The levels.
        shape: Its classes of nodes.
        incidence: Which residual is in which set.
        weights: The weights of the variance of each table, shape (levels, tables).
        losses: How fast the objective grows with the variance of each residual, shape (levels, residuals).
        residual_costs: Squared sensitivities of residuals, shape (levels, residuals).
        table_costs: Squared sensitivities of tables, shape (levels, tables).
        sure: Which residuals exact tables say, shape (levels, residuals): a table of attributes A at a level says
            every residual within A there and above.
        together: Whether the draws are charged for one pair of rows, where one takes the place of another.
    """

    workload: Workload
    tree: Tree
    shape: TreeShape
    incidence: Incidence
    weights: Reals
    losses: Reals
    residual_costs: Reals
    table_costs: Reals
    sure: Sure
    together: bool

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        tree: Tree,
        sets: Sequence[Axes],
        replace_one: bool,
        weights: Sequence[float] | Reals | None,
        known: Sequence[Table] = (),
        together: bool = True,
    ) -> Problem:
        """Checks the arguments of :func:`dprelease.plan.design.workload_strategy.strategies`."""
        workload = Workload(tuple(sizes), tuple(sets))
        found, form = workload.incidence, (tree.levels, len(sets))
        given = np.asarray(1.0 if weights is None else weights, dtype=np.float64)
        if given.shape not in ((), form, form[1:]) or not (np.isfinite(given).all() and (given > 0).all()):
            raise ValueError("there is one weight above 0 for every set, or for every level and set")
        given = np.broadcast_to(given, form)

        def costs(of: Sequence[Axes], residual: bool) -> Reals:
            rows = {
                several: [float(cost(a, sizes, residual=residual, replace_one=replace_one, nodes=several)) for a in of]
                for several in {min(nodes, 2) for nodes in tree.sizes}
            }
            return np.array([rows[min(nodes, 2)] for nodes in tree.sizes])

        sure = np.zeros((tree.levels, len(found.residuals)), dtype=np.bool_)
        for level, axes in known:
            sure[: level + 1] |= np.array([set(b) <= set(axes) for b in found.residuals]) | (found.p == 0)
        return cls(
            workload,
            tree,
            TreeShape.of(tree),
            found,
            given,
            found.p * np.array([found.over_tables(row[found.table] * found.spread) for row in given]),
            costs(found.residuals, True),
            costs(workload.sets, False),
            sure,
            replace_one and together,
        )

    @property
    def sure_tables(self) -> Sure:
        """Which tables exact ones say, shape (levels, tables)."""
        found = self.incidence
        return np.array([np.bincount(found.table, ~row[found.residual], found.tables) == 0 for row in self.sure])

    def from_tables(self, shares: Reals) -> Reals:
        """The precisions of all residuals at rho = 1 from tables with these shares, (levels, residuals)."""
        found, noise = self.incidence, 2 * shares / self.table_costs
        root = np.sqrt(found.spread)
        return np.array([found.over_tables(row[found.table] * root) for row in noise])

    def variances(self, parts: Sequence[Part]) -> Reals:
        """Of one cell of every table at rho = 1 after reconciliation, mean over nodes, (levels, tables)."""
        shares, own = np.zeros_like(self.table_costs), np.zeros_like(self.residual_costs)
        places = {axes: at for at, axes in enumerate(self.workload.sets)}
        residuals = {axes: at for at, axes in enumerate(self.incidence.residuals)}
        for part in parts:
            known = residuals if part.residual else places
            if part.axes not in known:
                raise ValueError(f"{part.axes} is not {'in the closure of' if part.residual else 'one of'} the sets")
            (own if part.residual else shares)[part.level, known[part.axes]] += float(part.share)
        with np.errstate(divide="ignore", invalid="ignore"):
            precisions = self.from_tables(shares) + np.where(own > 0, 2 * own / self.residual_costs, 0)
        precisions[:, self.incidence.p == 0] = 1  # nothing to estimate
        nodes = mean_variances(self.shape, firm(precisions, self.sure))
        nodes[self.sure] = 0
        return np.array([self.incidence.table_variances(row) for row in nodes])


def firm(precisions: Reals, sure: Sure) -> Reals:
    """Precisions of which those of exact numbers are 10^12 times the largest of their residual, shape as given."""
    return np.where(sure, _SURE * np.maximum(precisions.max(axis=0), 1), precisions) if sure.any() else precisions


def beside(shape: TreeShape, precisions: Reals, losses: Reals, sure: Sure) -> tuple[Reals, Reals]:
    """As ``tree_variance.slopes``, beside exact numbers: what is drawn of them lowers nothing."""
    values, falls = slopes(shape, firm(precisions, sure), losses)
    falls[sure] = 0
    return values, falls
