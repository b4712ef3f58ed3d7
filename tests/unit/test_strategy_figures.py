"""The figures of the bench, measured before this code was written; and how far strategies are from the least error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bench.strategy import DOMAINS, EARLIER, PLANS, error, uniform
from dprelease.estimate.workloads.design import Axes, Tree
from dprelease.plan.design.ranges import optimal_gaussian
from dprelease.plan.design.residuals import Workload, cell_weights, select
from dprelease.plan.design.workload_strategy import strategies
from tests.reference_level_spaces import level_space_bound

BLOCK: tuple[Axes, ...] = ((), (0,), (1,), (0, 1))


@pytest.mark.parametrize("plan", EARLIER)
def test_error_per_cell_is_the_earlier_figure(plan: str) -> None:
    """Three digits, some of them of four digits rounded up: half a last digit and a twentieth of one more."""
    for workload, earlier in zip(DOMAINS.values(), EARLIER[plan], strict=True):
        digit = 10.0 ** (math.floor(math.log10(earlier)) - 2)
        assert PLANS[plan](workload) == pytest.approx(earlier, abs=0.55 * digit)


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_strategies_with_the_weights_of_cells_are_the_paper_plan(domain: str) -> None:
    workload = DOMAINS[domain]
    found = strategies(workload.sizes, Tree.flat(), workload.sets, weights=cell_weights(workload))
    wanted = select(workload, 2, cell_weights(workload))
    assert found[0].name == "residuals"
    assert error(workload, found[0].variances[0]) == pytest.approx(error(workload, wanted.table_variances), rel=1e-6)
    assert PLANS["residuals, by cell"](workload) < PLANS["tables, split for least squares"](workload)
    assert PLANS["tables, split for least squares"](workload) < PLANS["best split + least squares"](workload)


@pytest.mark.parametrize("tree", [Tree.flat(), uniform(1, 3), uniform(2, 4, 8), uniform(1, 2, 2, 6)])
@pytest.mark.parametrize(("sizes", "sets"), [((2, 3), BLOCK), ((2, 3), ((0,), (1,))), ((4,), ((),))])
def test_the_bound_of_level_spaces_is_the_dual_optimum(
    sizes: tuple[int, ...], sets: tuple[Axes, ...], tree: Tree
) -> None:
    """The best Gaussian mechanism of the written-out workload, by a search that knows nothing of levels."""
    weights = np.random.default_rng(5).uniform(0.5, 2, (tree.levels, len(sets)))
    below = [np.eye(tree.sizes[-1])]
    for parent, above in zip(tree.parents[::-1], tree.sizes[-2::-1], strict=True):
        below.insert(0, np.eye(above)[:, parent] @ below[0])
    gram = np.zeros((tree.sizes[-1] * math.prod(sizes),) * 2)
    for level, nodes in enumerate(below):
        for at, axes in enumerate(sets):
            matrix: npt.NDArray[np.floating[Any]] = nodes
            for i, n in enumerate(sizes):
                matrix = np.kron(matrix, np.eye(n) if i in axes else np.ones((1, n)))
            gram += weights[level, at] / len(matrix) * matrix.T @ matrix
    best = optimal_gaussian(gram, tolerance=1e-9)

    bound = level_space_bound(sizes, tree, sets, weights)
    assert bound == pytest.approx(best.error / 2, rel=1e-8)
    for one in strategies(sizes, tree, sets, weights=weights):
        assert one.objective >= bound * (1 - 1e-9)


def test_on_a_uniform_geography_the_best_strategy_is_near_the_bound() -> None:
    """Of states, counties and tracts: even split 1.02 times the least error alone, 1.30 times with sex and 18 ages, of
    which least squares alone gets 1.28; the best strategy gets all but a ten-thousandth."""
    tree = uniform(1, 50, 3000, 72000)
    for sizes, sets, even in (((2,), BLOCK[:1], 1.02), ((2, 18), BLOCK, 1.295)):
        bound = level_space_bound(sizes, tree, sets)
        tables = 4 * len(sets)
        assert math.sqrt(tables * tables / 2 / bound) == pytest.approx(even, abs=0.005)
        found = strategies(sizes, tree, sets)
        assert math.sqrt(found[0].objective / bound) < 1.0001
        assert math.sqrt({one.name: one for one in found}["even tables"].objective / bound) < 1.01


def test_the_bound_is_of_uniform_hierarchies() -> None:
    with pytest.raises(ValueError, match="equally many"):
        level_space_bound((2,), Tree(2, (np.array([0, 1, 1]),)), ((),))


def test_the_default_spares_small_tables() -> None:
    """Weights of cells starve one-way tables; equal weights per table do not."""
    workload = Workload.ways(DOMAINS["Adult-14, 1- to 3-way"].sizes, (1, 2, 3))
    by_table = strategies(workload.sizes, Tree.flat(), workload.sets)[0].variances[0]
    ways = np.array([len(axes) for axes in workload.sets])
    assert by_table[ways == 1].mean() < 1.1 * by_table[ways == 3].mean()
