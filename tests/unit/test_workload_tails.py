"""How far reconciled numbers of discrete Laplace draws are from the truth: against exact laws, point by point."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.estimate.workloads.design import Design, Tree, WorkloadDraw
from dprelease.estimate.workloads.reconcile import node_variances
from dprelease.estimate.workloads.tails import flat_reach, laplace_reach, weights_of
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.weighted_sums import widest

CONFIDENCES = [Fraction(80, 100), Fraction(95, 100), Fraction(99, 100), Fraction(999, 1000)]
SCALES = [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)]


def law_of_sum(scale: Fraction, draws: int) -> npt.NDArray[np.float64]:
    """P(S = k), k from -n to n, of a sum of so many draws."""
    most = int(60 * scale) + 60
    at = np.abs(np.arange(-most, most + 1))
    one = np.exp(-at / float(scale))
    one /= one.sum()
    law = one
    for _ in range(draws - 1):
        law = np.convolve(law, one)
    return law


def beyond(law: npt.NDArray[np.float64], t: float) -> float:
    middle = len(law) // 2
    return float(law[np.abs(np.arange(len(law)) - middle) > t].sum())


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("cells", [1, 3, 12])
def test_a_sum_of_cells_is_within_its_margin_and_little_nearer(
    scale: Fraction, cells: int, confidence: Fraction
) -> None:
    """A table that is drawn, and its total."""
    variance = DiscreteLaplaceLaw(scale).variance
    design = Design((cells,), Tree.flat(), ((),), (WorkloadDraw(0, (0,), False, variance),))
    error, law, alpha = float(np.sqrt(cells * variance)), law_of_sum(scale, cells), float(1 - confidence)
    reach = flat_reach(design, (), confidence)
    assert beyond(law, reach * error) <= alpha
    assert beyond(law, widest(variance, confidence) * error) <= alpha
    assert reach <= 0.05 or beyond(law, (reach - 0.08) * error - 1e-9) > alpha * 0.8


def test_weights_are_those_of_dense_least_squares() -> None:
    sizes, tables = (2, 3), {(0, 1): 4.0, (0,): 1.5, (1,): 0.5}
    rows = {
        (0, 1): np.eye(6),
        (0,): np.kron(np.eye(2), np.ones((1, 3))),
        (1,): np.kron(np.ones((1, 2)), np.eye(3)),
        (): np.ones((1, 6)),
    }
    design = Design(
        sizes, Tree.flat(), tuple(rows), tuple(WorkloadDraw(0, axes, False, each) for axes, each in tables.items())
    )
    matrix = np.vstack([rows[axes] for axes in tables])
    noise = np.concatenate([np.full(len(rows[axes]), each) for axes, each in tables.items()])
    solved = np.linalg.solve(matrix.T @ (matrix / noise[:, None]), matrix.T / noise)
    for axes, asked in rows.items():
        for line in asked @ solved:
            weights, times, variances = weights_of(design, axes)
            spread = np.repeat(weights, times.astype(int))
            order, other = np.sort(np.abs(spread)), np.sort(np.abs(line))
            assert order == pytest.approx(other, abs=1e-12)
            stated = float(node_variances(design)[0, axes][0])
            assert float((times * weights**2 * variances).sum()) == pytest.approx(stated)


def test_levels_that_are_drawn_at_the_lowest_are_told_by_their_law() -> None:
    tree = Tree(1, (np.array([0, 0, 0]),))
    lowest = Design((2,), tree, ((), (0,)), (WorkloadDraw(1, (0,), False, 8.0),))
    both = Design((2,), tree, ((), (0,)), (*lowest.taken, WorkloadDraw(0, (0,), False, 8.0)))
    confidence = Fraction(95, 100)
    assert laplace_reach(lowest, confidence) == max(
        flat_reach(lowest, axes, confidence, copies) for axes in ((), (0,)) for copies in (1, 3)
    )
    assert laplace_reach(lowest, confidence) < 2.3
    assert laplace_reach(both, confidence) == widest(8.0, confidence) > 4
