"""The verifier's variances of a workload are the estimator's, which it does not call, and those of plain least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprelease.estimate.workloads.design import Tree
from dprelease.estimate.workloads.hierarchy import passes
from dprelease.estimate.workloads.zeros import cell_variances
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.verify.accuracy import _smoothed, worst_variances
from tests.planned import plan_of
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of


def test_they_are_those_of_the_estimator_for_every_table_of_a_plan() -> None:
    plan = plan_of(
        spec_of(crosstabs("budget: {epsilon: 1/2}"), areas("target: {count: {margin: 60}}"), ordinary()),
        files={"geo": GEO.encode()},
    )
    steps = {each.id: each for each in plan.measured}
    assert {bool(workload.levels) for workload in plan.workloads} == {True, False}
    for workload in plan.workloads:
        ours = worst_variances(workload, plan.catalog, steps)
        theirs = cell_variances(design_of(workload, plan.catalog, steps))
        assert set(ours) == set(theirs)
        for place, variance in ours.items():
            assert variance == pytest.approx(float(theirs[place].max()), rel=1e-12)


def tree_of(draw: np.random.Generator) -> Tree:
    """Three levels, of which every node above the lowest has one to three children."""
    middle = np.repeat(np.arange(2), draw.integers(1, 4, 2))
    lowest = np.repeat(np.arange(len(middle)), draw.integers(1, 4, len(middle)))
    return Tree(2, (draw.permutation(middle), lowest))


@pytest.mark.parametrize("seed", range(12))
def test_a_residual_on_a_tree_is_plain_least_squares(seed: int) -> None:
    draw = np.random.default_rng(seed)
    tree = tree_of(draw)
    precision = [float(draw.choice([0.0, 0.25, 3.0])) for _ in tree.sizes]
    precision[-1] = precision[-1] or 1.0
    found = _smoothed(precision, tree.sizes, tree.parents)
    maps = [np.eye(tree.sizes[-1])]
    for count, parents in zip(reversed(tree.sizes[:-1]), reversed(tree.parents), strict=True):
        maps.insert(0, np.stack([maps[0][parents == node].sum(axis=0) for node in range(count)]))
    spread = np.linalg.inv(sum(p * m.T @ m for p, m in zip(precision, maps, strict=True)))
    for ours, each in zip(found, maps, strict=True):
        assert ours == pytest.approx(np.diag(each @ spread @ each.T), rel=1e-9)


@pytest.mark.parametrize("own", [(0.0, 2.0, 0.0), (0.0, 0.0, 0.0), (4.0, math.inf, 0.0), (math.inf, 0.0, 1.0)])
def test_what_is_exact_or_open_is_as_the_estimator_has_it(own: tuple[float, ...]) -> None:
    """Precisions by level: nothing is known below a level, or at all, or a level is exact."""
    tree = tree_of(np.random.default_rng(3))
    found = _smoothed(own, tree.sizes, tree.parents)
    assert np.isinf(found[-1]).any() == (own[-1] == 0)
    if all(np.isfinite(each).all() for each in found):
        theirs = passes(tree, tuple(1 / each if each else math.inf for each in own)).variances
        for ours, other in zip(found, theirs, strict=True):
            assert ours == pytest.approx(other, rel=1e-12, abs=1e-300)
