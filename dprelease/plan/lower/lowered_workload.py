"""What a query with marginals became, before its noise is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.estimate.workloads.design import Axes, Design, StructuralZeros, Tree, WorkloadDraw
from dprelease.estimate.workloads.zeros import cell_variances
from dprelease.noise import Law
from dprelease.plan.design.workload_joint import JointDraws
from dprelease.plan.design.workload_pairs import square_of_pair
from dprelease.plan.design.workload_pure import PureDraws
from dprelease.plan.design.workload_strategy import Strategy, cost
from dprelease.plan.document import PlannedQuery
from dprelease.plan.document.workload import Workload
from dprelease.plan.lower.invariants import Known
from dprelease.plan.lower.unscaled import Together, UnscaledStep
from dprelease.spec.fields.workloads import Minimize

__all__ = ["LoweredWorkload", "at_rho_one", "bounded_together", "draws_of"]

_MORE = Fraction(1, 10**9)


@dataclass(frozen=True)
class LoweredWorkload:
    """A workload before its noise is chosen.

    Attributes:
        planned: What the plan says of it; its steps are named as the drafts are.
        queries: One for each published table, in published order.
        drafts: One for each draw; of a joint draw over tables the one, which says all parts of the strategy.
        strategies: What was chosen, then what was passed over, the best first.
        weights: For each draft how its variance, in squared steps of its lattice, enters the mean variance of a table;
            of tables behind pure noise about so (``variance``).
        sizes: The number of keys of each attribute.
        tree: The tree of the levels.
        replace_one: The neighbouring relation.
        rows: The rows of one unit, at most.
        known: Its tables that are invariants.
        gain: How many times the noise it would have without them, the root of how much more of what is made least;
            None where it has none, or would leave a table open without them.
        zeros: Its impossible key combinations.
        spared: How many times the noise it would have without them; None where they are worth nothing.
        minimize: What is made least.
        pure: Its draws, where they are tables behind discrete Laplace noise, or behind one K-norm draw.
        exchange: The mean variance of a table over what is made least, of the Gaussian strategy, where there is one.
        column: How many times the square of what a unit moves in one period it moves in all draws of a series.
    """

    planned: Workload
    queries: tuple[PlannedQuery, ...]
    drafts: tuple[UnscaledStep, ...]
    strategies: tuple[Strategy, ...]
    weights: tuple[float, ...]
    sizes: tuple[int, ...]
    tree: Tree
    replace_one: bool
    rows: int
    known: tuple[Known, ...] = ()
    gain: float | None = None
    zeros: StructuralZeros | None = None
    spared: float | None = None
    minimize: Minimize = "tables"
    pure: PureDraws | JointDraws | None = None
    exchange: float = 1.0
    column: Fraction = Fraction(1)

    @property
    def name(self) -> str:
        """The query's name."""
        return self.planned.name

    @property
    def strategy(self) -> Strategy:
        """The one that was chosen."""
        return self.strategies[0]

    def worst(self, strategy: Strategy) -> float:
        """The largest variance of a cell of any table at rho = 1, in counts; at another rho divided by it."""
        return _worst(self.design(strategy, at_rho_one(strategy, self.sizes, self.tree, self.replace_one, self.rows)))

    def worst_at(self, laws: Sequence[Law]) -> tuple[float, Design]:
        """The largest variance of a cell of any table, with draws of these laws, in counts; and the design."""
        design = self.design(self.strategy, self.draw_variances(laws))
        return _worst(design), design

    def draw_variances(self, laws: Sequence[Law]) -> list[float]:
        """The variance of each part of the strategy, given the laws of the drafts, in squared steps of its lattice."""
        return [law.variance for law in laws] if self.pure is None else self.pure.draw_variances(laws)

    def design(self, strategy: Strategy, variances: Sequence[float]) -> Design:
        """The draws of a strategy with these variances, in counts, beside what is exact."""
        taken = draws_of(strategy, variances)
        exact = (WorkloadDraw(each.level, each.axes, False, 0.0) for each in self.known)
        return Design(self.sizes, self.tree, self.planned.sets, (*taken, *exact), self.zeros)

    def variance(self, laws: Sequence[Law]) -> float:
        """What the workload counts as beside others: the mean variance of a table that a Gaussian strategy would have.

        Strategies of both noises are compared by what the author makes least, exactly: that of this one, at these
        variances of its draws, times the mean variance of the Gaussian one over what that makes least.

        Args:
            laws: Of the noise of each draft.
        """
        if self.pure is None:
            return math.fsum(weight * law.variance for weight, law in zip(self.weights, laws, strict=True))
        return self.pure.lost(self.pure.draw_variances(laws), self.minimize) * self.exchange


def _worst(design: Design) -> float:
    return max(float(each.max()) for each in cell_variances(design).values())


def draws_of(strategy: Strategy, variances: Sequence[float]) -> tuple[WorkloadDraw, ...]:
    """The draws of a strategy, as the estimators take them.

    Args:
        strategy: The strategy.
        variances: Of one number of each draw, in counts.
    """
    return tuple(
        WorkloadDraw(part.level, part.axes, part.residual and bool(part.axes), variance)
        for part, variance in zip(strategy.parts, variances, strict=True)
    )


def at_rho_one(strategy: Strategy, sizes: Axes, tree: Tree, replace_one: bool, rows: int = 1) -> list[float]:
    """The variance of a number of each draw at rho = 1: its squared sensitivity over twice its share (zCDP).

    Where draws are bounded together, so many times less as these cost together.
    """
    reaches = [
        cost(each.axes, sizes, residual=each.residual, replace_one=replace_one, nodes=tree.sizes[each.level])
        for each in strategy.parts
    ]
    pairs = zip(strategy.parts, reaches, strict=True)
    return [strategy.whole * float(reach * rows**2 / (2 * part.share)) for part, reach in pairs]


def bounded_together(strategy: Strategy, sizes: Axes, tree: Tree) -> tuple[Together | None, ...]:
    """For each draw what bounds all of them together, in counts, for a unit of one row; None: each is by itself.

    The squares of the worst pair, exact, and a billionth more: that pair was found in floats, and scales are rounded.
    """
    if strategy.together is None:
        return (None,) * len(strategy.parts)
    squares = [square_of_pair(part, sizes, strategy.together[1]) * (1 + _MORE) for part in strategy.parts]
    own = (
        cost(part.axes, sizes, residual=part.residual, replace_one=True, nodes=tree.sizes[part.level])
        for part in strategy.parts
    )
    costs = zip(strategy.parts, squares, own, strict=True)
    whole = sum((part.share * square / most for part, square, most in costs), Fraction(0))
    return tuple(Together(square, whole) for square in squares)
