"""The three aims of a workload, against ResidualPlanner's own figures."""

from __future__ import annotations

from itertools import combinations
from math import prod, sqrt

import numpy as np
import pytest

from dprelease.estimate.workloads.design import Tree
from dprelease.plan.design.residuals import Workload, minimax, rmse, select
from dprelease.plan.design.workload_objective import aimed

SIZES = (16, 15, 9, 7, 6, 5, 2, 2)
SETS = tuple(found for ways in (1, 2, 3) for found in combinations(range(len(SIZES)), ways))
CELLS = np.array([prod(SIZES[i] for i in axes) for axes in SETS])
WORKLOAD = Workload(SIZES, SETS)


def test_all_cells_together_have_the_least_error_that_gaussian_noise_allows() -> None:
    (best, *_) = aimed(SIZES, Tree.flat(), SETS, "cells", replace_one=False)
    error = sqrt(float(np.sum(best.variances[0] * CELLS) / CELLS.sum()))
    assert error == pytest.approx(rmse(WORKLOAD, 2.0), rel=1e-4)  # rho = 1 is mu^2 = 2


def test_every_table_counts_the_same_where_nothing_is_said() -> None:
    (best, *_) = aimed(SIZES, Tree.flat(), SETS, "tables", replace_one=False)
    assert best.objective == pytest.approx(select(WORKLOAD, 2.0).objective, rel=1e-4)


def test_the_worst_table_is_within_a_hundredth_of_the_least_worst_one() -> None:
    (best, *_) = aimed(SIZES, Tree.flat(), SETS, "worst", replace_one=False)
    assert float(best.variances.max()) <= 1.01 * minimax(WORKLOAD, 2.0).objective


def test_the_aims_differ_and_each_is_best_at_its_own() -> None:
    found = {
        aim: aimed(SIZES, Tree.flat(), SETS, aim, replace_one=False)[0].variances[0]
        for aim in ("tables", "cells", "worst")
    }
    told = {
        "tables": {aim: float(each.sum()) for aim, each in found.items()},
        "cells": {aim: float(np.sum(each * CELLS)) for aim, each in found.items()},
        "worst": {aim: float(each.max()) for aim, each in found.items()},
    }
    for aim, by in told.items():
        assert min(by, key=lambda other: by[other]) == aim


def test_levels_have_the_aim_over_all_of_their_tables() -> None:
    tree = Tree(2, (np.array([0, 0, 1, 1, 1]),))
    (best, *_) = aimed((3, 4), tree, ((), (0,), (0, 1)), "worst", replace_one=True)
    (even, *_) = aimed((3, 4), tree, ((), (0,), (0, 1)), "tables", replace_one=True)
    assert best.variances.max() < even.variances.max()
