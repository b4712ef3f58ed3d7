"""Which draws a workload of marginals is made of, and which share of its budget each gets.

The model: attributes i with n_i values, published *sets* of attributes, and a tree of *levels*; every (level, set) is
a table of counts. A draw measures at one level either a *table* with independent noise in every cell, or a *residual*
b: the table of b, centred along each of its axes (Xiao, He, Zhang and Kifer, NeurIPS 2023). Afterwards everything is
reconciled by least squares, so that any mixture has one variance per table, in closed form:

* both kinds of draws say something about the centred table of b, independently for different b, with covariance
  ``(1 / w) (x)_{i in b} (I - 11'/n_i)``: a residual of noise variance s adds ``1 / s`` to w, a table A that contains b
  adds ``1 / (s prod_{j in A - b} n_j)``;
* along the tree each b is estimated by itself (:mod:`dprelease.plan.design.tree_variance`), with variance V of a node;
* a cell of (level, A) has variance ``sum_{b in A} V_b prod_{i in b} (1 - 1/n_i) prod_{j in A - b} n_j^-2``.

A strategy divides the budget rho. A draw of share f with squared sensitivity c has the variance ``c / (2 f rho)`` per
number (Bun and Steinke 2016, Proposition 1.6), so w is linear in the shares and every variance is convex in them and
homogeneous of degree -1. The best shares of residuals split into one small problem per b, over the levels, and then
``share_b ~ sqrt(least value of b)``; without levels that is :func:`dprelease.plan.design.residuals.select`.

Beside exact tables some z_b are known: within their attributes, at their level and above. Nothing is drawn of these
alone, V_b is 0 there, and at the levels below a residual is measured given its parent. That is still linear in w, with
an infinite one in it, and so convex and homogeneous in the shares that are left.

Searches use the multiplicative rule ``share <- share sqrt(slope)``, which never raises a weighted variance (Yu,
"Monotonic convergence of a general algorithm for computing optimal designs", Annals of Statistics 2010, Theorem 1),
and stop at a certified gap. Under replace-one the draws are bounded together, by the worst pair of rows. All of this
is a proposal in floats: what a plan claims is computed from the scales as rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Axes, Table, Tree
from dprelease.plan.design.workload_candidates import even_tables, given_shares, joint_tables, residuals, tables
from dprelease.plan.design.workload_cost import Part, Problem, cost
from dprelease.plan.design.workload_pairs import Worst, cost_together

__all__ = ["Part", "Strategy", "cost", "evaluate", "strategies"]

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Strategy:
    """A way to spend the budget of a workload.

    Attributes:
        name: "residuals", "tables", "even tables", "joint tables" or "given shares".
        parts: The draws, level by level; their shares are above 0 and add up to exactly 1.
        variances: The variances of one cell at rho = 1, in counts, mean over the nodes of the level, shape (levels,
            sets); infinite for a table that the draws do not determine. Divide by rho.
        objective: The weighted sum of the variances.
        together: What all draws cost at their worst pair of a row and what replaces it, over what their own worst cases
            add up to, and that pair (``workload_pairs``); None: every draw is charged its own worst case. The variances
            are those of what all of them cost.
    """

    name: str
    parts: tuple[Part, ...]
    variances: Reals
    objective: float
    together: tuple[float, Worst] | None = None

    @property
    def whole(self) -> float:
        """By what every variance is less than if the draws' own worst cases added up."""
        return 1.0 if self.together is None else self.together[0]

    @property
    def undetermined(self) -> tuple[tuple[int, int], ...]:
        """The tables that the draws do not determine, as (level, position of the set)."""
        return tuple((int(level), int(at)) for level, at in np.argwhere(np.isinf(self.variances)))


def strategies(
    sizes: Sequence[int],
    tree: Tree,
    sets: Sequence[Axes],
    *,
    replace_one: bool = False,
    weights: Sequence[float] | Reals | None = None,
    level_shares: Sequence[Fraction] | None = None,
    table_shares: Mapping[Axes, Sequence[Fraction | None]] | None = None,
    known: Sequence[Table] = (),
    blind: Sequence[Strategy] = (),
    together: bool = True,
) -> tuple[Strategy, ...]:
    """The candidates, best first.

    Args:
        sizes: The number of values of each attribute, at least 1.
        tree: The levels; ``Tree.flat()`` where there are none.
        sets: The published marginals, each a rising tuple of attribute positions.
        replace_one: Whether neighbors replace one row by another.
        weights: The weights of the tables' variances, above 0, shape (sets,) or (levels, sets). Left out: 1 each, so
            that every table counts the same, however many cells it has.
        level_shares: The author's: of each level, adding up to 1. Left out where there are table shares: equal.
        table_shares: The author's: for each set one share per level (None or 0: not measured there), adding up to 1
            at every level. Left out where there are level shares: equal.
        known: Exact tables, each with its level.
        blind: Strategies that know nothing of them. What is left of each (:func:`telling`) is tried as well: no
            variance grows by that, so that nothing that is found is worse.
        together: Whether replace-one is charged for one pair of rows in all draws; else each for its own.

    Returns:
        With an author's shares the one strategy that measures tables with exactly these; there, a table can be
        undetermined. Else up to four; equal ones once. One without draws where exact tables say everything.

    Raises:
        ValueError: If an argument is not as said.
    """
    problem = Problem.of(sizes, tree, sets, replace_one, weights, known, together)
    if level_shares is not None or table_shares is not None:
        return (_strategy(problem, "given shares", given_shares(problem, level_shares, table_shares)),)
    found = _candidates(problem)
    found += [(each.name, telling(each.parts, known)) for each in blind]
    made = [_strategy(problem, name, parts) for name, parts in found if parts]
    if not made:
        return (_strategy(problem, "residuals", ()),)
    best = sorted(made, key=lambda one: (float(f"{one.objective:.9g}"), len(one.parts)))
    first = [one for at, one in enumerate(best) if one.name not in [other.name for other in best[:at]]]
    return tuple(one for at, one in enumerate(first) if one.parts not in [other.parts for other in first[:at]])


def telling(parts: Sequence[Part], known: Sequence[Table]) -> list[Part]:
    """The draws that say more than exact tables do, each with the same part more of what is shared.

    A table of attributes A at a level says every residual, and every table, of attributes within A there and above.
    """

    def said(part: Part) -> bool:
        return any(part.level <= level and set(part.axes) <= set(axes) for level, axes in known)

    left = [part for part in parts if not said(part)]
    whole = sum((part.share for part in left), Fraction(0))
    return [replace(part, share=part.share / whole) for part in left]


def evaluate(
    sizes: Sequence[int], tree: Tree, sets: Sequence[Axes], parts: Sequence[Part], *, replace_one: bool = False
) -> Reals:
    """The variances of any mixture of draws of residuals and tables of the closure of the sets, at rho = 1.

    Returns:
        As ``Strategy.variances``.

    Raises:
        ValueError: If an argument is not as said, or a part is a table that is not among the sets.
    """
    return Problem.of(sizes, tree, sets, replace_one, None).variances(parts)


def _candidates(problem: Problem) -> list[tuple[str, list[Part]]]:
    return [
        ("tables", tables(problem)),
        ("joint tables", joint_tables(problem)),
        ("even tables", even_tables(problem)),
        ("residuals", residuals(problem)),
    ]


def _strategy(problem: Problem, name: str, parts: Sequence[Part]) -> Strategy:
    together = cost_together(problem, parts)
    variances = problem.variances(parts) * (1.0 if together is None else together[0])
    variances.setflags(write=False)
    return Strategy(name, tuple(parts), variances, float(np.sum(problem.weights * variances)), together)
