"""Prefix and range workloads against their matrices, and the optimum against its dual bound and known mechanisms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.errors import PlanError
from dprelease.plan.design.ranges import (
    binary_tree,
    optimal_gaussian,
    prefix_gram,
    range_gram,
    total_error,
    tree_information,
)

Reals = npt.NDArray[np.float64]


def prefixes(cells: int) -> Reals:
    return np.tril(np.ones((cells, cells)))


def ranges(cells: int) -> Reals:
    return np.array(
        [[float(i <= at <= j) for at in range(cells)] for i in range(cells) for j in range(i, cells)], dtype=np.float64
    )


@pytest.mark.parametrize("cells", [1, 2, 5, 12])
def test_gram_matrices_are_those_of_the_queries(cells: int) -> None:
    assert np.array_equal(prefix_gram(cells), prefixes(cells).T @ prefixes(cells))
    assert np.array_equal(range_gram(cells), ranges(cells).T @ ranges(cells))


@pytest.mark.parametrize("cells", [1, 2, 3, 8, 13])
def test_a_binary_tree_has_every_cell_once_in_every_level(cells: int) -> None:
    levels = binary_tree(cells)
    rows = np.array([[float(first <= at < last) for at in range(cells)] for level in levels for first, last in level])
    for level in levels:
        assert [at for first, last in level for at in range(first, last)] == list(range(cells))
    assert tree_information(cells) == pytest.approx(rows.T @ rows / len(levels))
    assert np.diag(tree_information(cells)) == pytest.approx(np.ones(cells))

    # Least squares from the tree, as an estimator.
    noise = float(len(levels))
    solved = prefixes(cells) @ np.linalg.pinv(rows)
    assert total_error(prefix_gram(cells), tree_information(cells)) == pytest.approx(noise * np.sum(solved**2))


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(
    ("gram", "queries", "histogram", "tree", "least"),
    [(prefix_gram, 100, 7.11, 2.71, 2.236), (range_gram, 5050, 5.83, 3.33, 2.492)],
)
def test_figures_of_a_hundred_cells(gram: object, queries: int, histogram: float, tree: float, least: float) -> None:
    matrix = gram(100)  # type: ignore[operator]
    assert np.sqrt(np.trace(matrix) / queries) == pytest.approx(histogram, abs=0.005)
    assert np.sqrt(total_error(matrix, tree_information(100)) / queries) == pytest.approx(tree, abs=0.005)
    best = optimal_gaussian(matrix, tolerance=1e-4)
    assert np.sqrt(best.error / queries) == pytest.approx(least, rel=1e-3)
    assert best.gap <= 1e-4


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("cells", [2, 9, 30])
def test_the_optimum_is_feasible_says_its_error_and_meets_its_bound(cells: int) -> None:
    for gram in (prefix_gram(cells), range_gram(cells)):
        best = optimal_gaussian(gram, tolerance=1e-8)
        assert np.diag(best.matrix).max() <= 1 + 1e-12
        assert np.linalg.eigvalsh(best.matrix).min() > 0
        assert total_error(gram, best.matrix) == pytest.approx(best.error, rel=1e-9)
        assert best.lower_bound <= best.error
        assert best.gap <= 1e-8
        for other in (np.eye(cells), tree_information(cells)):
            assert total_error(gram, other) >= best.lower_bound * (1 - 1e-12)
        rng = np.random.default_rng(cells)
        for _ in range(200):  # no mechanism, however made, is below the bound
            near = best.matrix + 0.01 * (noise := rng.normal(size=(cells, cells))) @ noise.T
            near /= np.diag(near).max()
            assert total_error(gram, near) >= best.lower_bound * (1 - 1e-12)


def test_queries_that_leave_a_part_of_the_table_open_have_an_optimum() -> None:
    total = np.ones((4, 4))
    best = optimal_gaussian(total)
    assert best.error == pytest.approx(1)
    assert total_error(total, best.matrix) == pytest.approx(1)
    assert total_error(np.eye(4), best.matrix) == np.inf


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="square"):
        optimal_gaussian(np.ones((2, 3)))
    with pytest.raises(ValueError, match="some query"):
        optimal_gaussian(np.diag([1.0, 0.0]))
    with pytest.raises(ValueError, match="at least one value"):
        binary_tree(0)
    with pytest.raises(PlanError, match="after 1 rounds") as found:
        optimal_gaussian(prefix_gram(5), tolerance=1e-9, rounds=1)
    assert found.value.code == "DPR-P104"
