"""Variances on a tree in closed form, against dense least squares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.estimate.workloads.design import Tree
from dprelease.plan.design.tree_variance import TreeShape, mean_variances, slopes

Reals = npt.NDArray[np.float64]


def random_tree(seed: int) -> Tree:
    """One to four levels, children in any order, from only children to five."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(1, 4))
    tree, parents = nodes, []
    for _ in range(int(rng.integers(0, 4))):
        below = np.repeat(np.arange(nodes), rng.integers(1, int(rng.integers(2, 6)), nodes))
        parents.append(rng.permutation(below))
        nodes = len(below)
    return Tree(tree, tuple(parents))


def sums(tree: Tree) -> list[Reals]:
    """For every level the matrix from the lowest nodes to its nodes."""
    found = [np.eye(tree.sizes[-1])]
    for parent, above in zip(tree.parents[::-1], tree.sizes[-2::-1], strict=True):
        matrix = np.zeros((above, len(parent)))
        matrix[parent, np.arange(len(parent))] = 1
        found.insert(0, matrix @ found[0])
    return found


def dense(tree: Tree, precisions: Reals) -> Reals:
    matrices = sums(tree)
    information = sum(w * m.T @ m for w, m in zip(precisions, matrices, strict=True))
    covariance = np.linalg.pinv(information, hermitian=True)
    known = np.eye(len(covariance)) - covariance @ information
    return np.array(
        [np.mean(np.diag(m @ covariance @ m.T)) if np.abs(m @ known).max() < 1e-8 else np.inf for m in matrices]
    )


@given(seed=st.integers(0, 10**6), unmeasured=st.integers(0, 15))
def test_mean_variances_are_those_of_dense_least_squares(seed: int, unmeasured: int) -> None:
    tree = random_tree(seed)
    rng = np.random.default_rng(seed + 1)
    precisions = 10.0 ** rng.uniform(-2, 2, (tree.levels, 3))
    precisions[:, 1] *= [(unmeasured >> level) & 1 == 0 for level in range(tree.levels)]
    found = mean_variances(TreeShape.of(tree), precisions)

    for column in range(3):
        assert found[:, column] == pytest.approx(dense(tree, precisions[:, column]), rel=1e-7)


@given(seed=st.integers(0, 10**6))
def test_slopes_are_the_derivatives(seed: int) -> None:
    tree = random_tree(seed)
    rng = np.random.default_rng(seed + 1)
    precisions, weights = rng.uniform(0.5, 2, (tree.levels, 2)), rng.uniform(0.1, 3, (tree.levels, 2))
    shape = TreeShape.of(tree)
    values, falls = slopes(shape, precisions, weights)

    assert values == pytest.approx(np.sum(weights * mean_variances(shape, precisions), axis=0))
    assert np.sum(precisions * falls, axis=0) == pytest.approx(values)
    for level in range(tree.levels):
        step = np.zeros_like(precisions)
        step[level] = 1e-5
        up, down = slopes(shape, precisions + step, weights)[0], slopes(shape, precisions - step, weights)[0]
        assert (down - up) / 2e-5 == pytest.approx(falls[level], rel=1e-6)


def test_a_large_tree_has_few_classes_and_columns_pass_in_blocks() -> None:
    rng = np.random.default_rng(4)
    tree = Tree(1, (np.zeros(50, dtype=np.int64), rng.permutation(np.repeat(np.arange(50), 60)), np.arange(3000)))
    shape = TreeShape.of(tree)
    assert shape.classes == 1
    assert shape.each[1].tolist() == [60]

    uneven = Tree(50, (np.concatenate([np.arange(50), rng.integers(0, 50, 5000)]),))
    shape = TreeShape.of(uneven)
    assert shape.classes <= 50
    assert [int(count.sum()) for count in shape.counts] == [50, 5050]
    precisions = rng.uniform(0.5, 2, (2, 20_000))
    found = mean_variances(shape, precisions)
    few = np.array([0, 9_999, 19_999])
    assert found[:, few] == pytest.approx(mean_variances(shape, precisions[:, few]), rel=1e-12)


def test_the_average_tree_of_a_uniform_tree_is_the_tree() -> None:
    tree = Tree(2, (np.repeat(np.arange(2), 3), np.repeat(np.arange(6), 4)))
    precisions = np.array([[1.0], [0.3], [2.0]])
    shapes = (TreeShape.of(tree), TreeShape.average(tree))
    assert mean_variances(shapes[0], precisions) == pytest.approx(mean_variances(shapes[1], precisions), rel=1e-14)
