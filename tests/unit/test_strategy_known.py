"""Strategies beside exact tables: their variances in matrices, the best shares by a general optimiser, never worse."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.optimize import minimize

from dprelease.estimate.workloads.design import Axes, Design, Table, Tree, WorkloadDraw, subsets
from dprelease.estimate.workloads.reconcile import node_variances
from dprelease.plan.design.workload_cost import Part, cost
from dprelease.plan.design.workload_objective import aimed
from dprelease.plan.design.workload_strategy import Strategy, strategies, telling
from dprelease.spec.fields.workloads import Minimize

SIZES, SETS = (2, 3), ((), (0,), (1,), (0, 1))
TREE = Tree(2, (np.array([0, 1, 0, 1]), np.array([0, 1, 2, 3, 3, 2, 0])))  # the second node of the middle: one child
KNOWN: tuple[tuple[Table, ...], ...] = (
    ((1, ()),),
    ((2, ()),),
    ((1, (0,)),),
    ((2, (1,)),),
    ((0, (0, 1)),),
    ((1, (0, 1)),),
    ((0, (0,)), (2, (1,))),
)


def variances(parts: list[Part] | tuple[Part, ...], known: tuple[Table, ...]) -> np.ndarray:
    """Of every table, level by level, mean over nodes, at rho = 1: by the estimators, exact draws among the others."""
    taken = []
    for part in parts:
        nodes = TREE.sizes[part.level]
        reach = cost(part.axes, SIZES, residual=part.residual, nodes=nodes)
        taken.append(
            WorkloadDraw(part.level, part.axes, part.residual and bool(part.axes), float(reach / (2 * part.share)))
        )
    taken += [WorkloadDraw(level, axes, False, 0.0) for level, axes in known]
    found = node_variances(Design(SIZES, TREE, SETS, tuple(taken)))
    return np.array([[found[level, axes].mean() for axes in SETS] for level in range(3)])


@pytest.mark.parametrize("known", KNOWN)
def test_the_variances_are_those_of_the_estimates(known: tuple[Table, ...]) -> None:
    for found in strategies(SIZES, TREE, SETS, known=known):
        expected = variances(found.parts, known)
        assert found.variances == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert ((found.variances == 0) == (expected == 0)).all()
        assert found.objective == pytest.approx(expected.sum(), rel=1e-9)
        assert sum((part.share for part in found.parts), Fraction(0)) == 1
        assert telling(found.parts, known) == list(found.parts)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("known", KNOWN[::3])
@pytest.mark.parametrize("name", ["residuals", "tables"])
def test_no_shares_are_better(known: tuple[Table, ...], name: str) -> None:
    """A general optimiser over all draws of a kind, on a logarithmic scale; the objective is convex in the shares."""
    (found,) = (each for each in strategies(SIZES, TREE, SETS, known=known) if each.name == name)
    kind = name == "residuals"
    draws = [Part(level, axes, kind, Fraction(1, 12)) for level, axes in product(range(3), subsets((0, 1)))]
    draws = telling(draws, known)

    def objective(logs: np.ndarray) -> float:
        shares = np.exp(logs) / np.exp(logs).sum()
        parts = [Part(p.level, p.axes, p.residual, Fraction(float(s))) for p, s in zip(draws, shares, strict=True)]
        return float(variances(parts, known).sum())

    start, bounds = np.zeros(len(draws)), [(-9, 3)] * len(draws)
    best = float(minimize(objective, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40}).fun)
    assert found.objective <= best * (1 + 1e-3)
    assert found.objective >= best * (1 - 2e-2)  # the optimiser stops early, and a draw of nothing it cannot make


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("known", KNOWN[::2])
@pytest.mark.parametrize(("aim", "replace_one"), [("tables", False), ("cells", False), ("tables", True)])
def test_what_is_known_never_makes_it_worse(known: tuple[Table, ...], aim: Minimize, replace_one: bool) -> None:
    """Not even than leaving the draws out that say nothing more, where no variance grows."""
    blind = aimed(SIZES, TREE, SETS, aim, replace_one=replace_one)
    found = aimed(SIZES, TREE, SETS, aim, replace_one=replace_one, known=known, blind=blind)
    weights = np.array(
        [[float(n * prod(SIZES[i] for i in a)) if aim == "cells" else 1.0 for a in SETS] for n in TREE.sizes]
    )
    assert found[0].objective < blind[0].objective
    if not replace_one:
        for each in blind:
            left = variances(telling(each.parts, known), known)
            assert (left <= each.variances * (1 + 1e-9)).all()
            assert found[0].objective <= float((weights * left).sum()) * (1 + 1e-9)


def test_the_largest_variance_is_made_least_beside_what_is_known() -> None:
    known: list[Table] = [(0, (0,))]
    tree = Tree(1, (np.array([0, 0, 0]),))
    (worst, *_), (even, *_) = (aimed(SIZES, tree, SETS, a, replace_one=False, known=known) for a in ("worst", "tables"))
    assert worst.variances.max() < 0.95 * even.variances.max()
    assert worst.variances.max() < 1.02 * worst.objective  # a lower bound


def test_where_a_level_has_only_children_their_share_is_found() -> None:
    """Leaving draws out, and giving their share to the others, would lose 4 % of variance or more."""
    nodes = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, 14, 14, 15, 15])
    tree = Tree(4, (np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]), nodes))
    sizes, sets = (9, 2, 2, 3), ((), (0,), (1,), (2,), (3,), (0, 1, 2), (0, 1, 2, 3))
    known: list[Table] = [(1, (3,))]
    blind, found = strategies(sizes, tree, sets)[0], strategies(sizes, tree, sets, known=known)[0]
    left = Strategy("left", tuple(telling(blind.parts, known)), blind.variances, 0.0)
    design = strategies(sizes, tree, sets, known=known)
    assert blind.name == found.name == "residuals"
    assert _objective(left, sizes, tree, sets, known) > 1.04 * found.objective
    assert min(each.objective for each in design) == found.objective


def _objective(
    strategy: Strategy, sizes: tuple[int, ...], tree: Tree, sets: tuple[Axes, ...], known: list[Table]
) -> float:
    taken = [
        WorkloadDraw(p.level, p.axes, bool(p.axes), float(cost(p.axes, sizes, residual=True) / (2 * p.share)))
        for p in strategy.parts
    ]
    taken += [WorkloadDraw(level, axes, False, 0.0) for level, axes in known]
    return float(sum(each.mean() for each in node_variances(Design(sizes, tree, sets, tuple(taken))).values()))


def test_an_authors_shares_stay_as_told() -> None:
    shares = [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    told, beside = (strategies(SIZES, TREE, SETS, level_shares=shares, known=known)[0] for known in ((), ((1, (0,)),)))
    assert told.parts == beside.parts
    assert beside.objective < told.objective
    assert beside.variances == pytest.approx(variances(beside.parts, ((1, (0,)),)), rel=1e-9, abs=1e-9)


def test_where_everything_is_known_nothing_is_drawn() -> None:
    (found,) = strategies(SIZES, TREE, SETS, known=[(2, (0, 1))])
    assert found.parts == ()
    assert (found.variances == 0).all()
