"""Non-negative tables in the metric of the estimates: the nearest ones by a general optimiser, and never worse.

The distance is built again from the draws alone: least squares in matrices over all draws of a level and below.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.linalg import block_diag
from scipy.optimize import minimize

from dprelease.estimate.workloads.conditional import conditionals
from dprelease.estimate.workloads.design import Axes, Design, Floats, Tree, WorkloadDraw, subsets
from dprelease.estimate.workloads.nearest import Problems
from dprelease.estimate.workloads.nonnegative import nonnegative
from dprelease.estimate.workloads.projection import onto_simplex
from dprelease.estimate.workloads.reconcile import reconcile

TREE = Tree(2, (np.array([1, 0, 1]), np.array([0, 1, 2, 2, 0, 2])))
SIZES, JOINT = (2, 3), (0, 1)
SETS: tuple[Axes, ...] = ((), (0,), (1,), JOINT)
TABLES = tuple(
    WorkloadDraw(level, axes, False, variance)
    for level, scale in enumerate((1.0, 2.0, 3.0))
    for axes, variance in (((0,), 3 * scale), ((1,), 5.0), (JOINT, 20.0), ((), 2.0))
    if level != 1 or axes != (1,)
)
RESIDUALS = tuple(
    WorkloadDraw(level, axes, True, variance * (1 + level))
    for level in (0, 2)
    for axes, variance in zip(subsets(JOINT), (6.0, 2.0, 1.0, 3.0), strict=True)
)
MIXED = (*TABLES[:3], *RESIDUALS[4:], WorkloadDraw(1, (1,), True, 0.5))


def above(level: int, lowest: int) -> Floats:
    """Which nodes of the lowest level are in each of this one, as a matrix."""
    found: Floats = np.eye(TREE.sizes[lowest])
    for each in range(lowest, level, -1):
        sums = np.zeros((TREE.sizes[each - 1], TREE.sizes[each]))
        sums[TREE.parents[each - 1], np.arange(TREE.sizes[each])] = 1
        found = sums @ found
    return found


def drawn(design: Design, finest: Floats, rng: np.random.Generator) -> list[Floats]:
    """Noisy values of every draw."""
    found = []
    for take in design.taken:
        exact = (rows_of(take) @ finest.ravel()).reshape(design.shape(take.level, take.axes))
        found.append(exact + rng.normal(0, take.variance**0.5, exact.shape))
    return found


def rows_of(take: WorkloadDraw) -> Floats:
    """What a draw reads, as a matrix over the cells of the lowest level."""
    rows = above(take.level, 2)
    for axis, size in enumerate(SIZES):
        contrast = np.eye(size) - (1 / size if take.residual else 0)
        reads = contrast if axis in take.axes else np.ones((1, size))
        rows = np.asarray(np.kron(rows, reads), dtype=np.float64)
    return rows


def below(design: Design, values: list[Floats], level: int) -> tuple[Floats, Floats]:
    """The best estimates of a level's cells from the draws there and below, and their covariance: least squares."""
    some = [each for each, take in enumerate(design.taken) if take.level >= level]
    rows = np.vstack([rows_of(design.taken[each]) for each in some])
    weights = np.concatenate([np.full(values[each].size, 1 / design.taken[each].variance) for each in some])
    spread = np.linalg.inv(rows.T @ (weights[:, None] * rows))
    best = spread @ rows.T @ (weights * np.concatenate([values[each].ravel() for each in some]))
    sums = np.kron(above(level, 2), np.eye(6))
    return sums @ best, sums @ spread @ sums.T


def sample(taken: tuple[WorkloadDraw, ...], seed: int) -> tuple[Design, list[Floats], list[Floats]]:
    """A design, values of its draws, and the reconciled joint tables."""
    rng = np.random.default_rng(seed)
    finest = rng.poisson(rng.gamma(0.15, 4.0, (6, *SIZES))).astype(float)  # with negative numbers at the top as well
    design = Design(SIZES, TREE, SETS, taken)
    values = drawn(design, finest, rng)
    tables = reconcile(design, values)
    return design, values, [tables[level, JOINT] for level in range(3)]


def of_family(children: list[int]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.arange(6 * child, 6 * child + 6) for child in children])


@pytest.mark.thin
@pytest.mark.parametrize("taken", [TABLES, RESIDUALS, MIXED], ids=["tables", "residuals", "mixed"])
@pytest.mark.parametrize("seed", range(3))
def test_each_family_is_the_nearest_of_a_general_optimiser(taken: tuple[WorkloadDraw, ...], seed: int) -> None:
    design, values, joint = sample(taken, seed)
    found = nonnegative(design, joint, tolerance=1e-9, rounds=20_000)
    assert min(table.min() for table in joint) < -1
    assert seed or joint[0].min() < 0
    for level in range(3):
        best, spread = below(design, values, level)
        families = [[node] for node in range(2)] if level == 0 else children_of(level)
        for parent, children in enumerate(families):
            some = of_family(children)
            precision: Floats = np.asarray(np.linalg.inv(spread[np.ix_(some, some)]), dtype=np.float64)
            estimates = joint[level].reshape(-1, 6)[children]
            sums = block_diag(*[np.ones((1, 6))] * len(children))
            wanted = np.maximum(estimates.sum(axis=1), 0)
            if level:
                over = found[level - 1][parent].ravel()
                wanted = onto_simplex(estimates.sum(axis=1)[None], over[None].sum(axis=1))[0]
                sums = np.vstack([sums[:-1], np.tile(np.eye(6), len(children))])
                wanted = np.concatenate([wanted[:-1], over])
            nearest = optimum(best[some], precision, sums, wanted)
            assert found[level][children].ravel() == pytest.approx(nearest, abs=2e-4)


def children_of(level: int) -> list[list[int]]:
    return [np.flatnonzero(TREE.parents[level - 1] == node).tolist() for node in range(TREE.sizes[level - 1])]


def optimum(best: Floats, precision: Floats, sums: Floats, wanted: Floats) -> Floats:
    found = minimize(
        lambda x: 0.5 * float((x - best) @ precision @ (x - best)),
        np.maximum(best, 0.1),
        jac=lambda x: precision @ (x - best),
        bounds=[(0, None)] * len(best),
        constraints={"type": "eq", "fun": lambda x: sums @ x - wanted, "jac": lambda _: sums},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert np.abs(sums @ found.x - wanted).max() < 1e-6
    return np.asarray(found.x)


def test_the_distance_is_that_of_the_covariance() -> None:
    """Of tables with the right sums, at the top and given the parents, up to a constant of each family."""
    design, values, joint = sample(MIXED, 7)
    rng = np.random.default_rng(8)
    given = conditionals(design, JOINT)[1]
    best, spread = below(design, values, 1)
    children = np.array([[0], [2]])  # of the second node of the top
    precision = np.linalg.inv(spread[np.ix_(some := of_family([0, 2]), some)])
    estimates = joint[1][children[:, 0]]
    targets = np.moveaxis(estimates, 0, -1)[..., None].copy()
    for axis in (0, 1):  # split by hand: the centred part first, then the sum
        total = targets.sum(axis=axis, keepdims=True)
        targets = np.concatenate([(targets - total / SIZES[axis])[(slice(None),) * axis + (slice(-1),)], total], axis)
    problems = Problems(targets, given.weights(children))
    ours, theirs = [], []
    for _ in range(5):
        step = rng.normal(0, 3, (2, 3))
        step -= step.mean()
        x = estimates + np.stack([step, -step])
        ours.append(float(problems.distance(np.moveaxis(x, 0, -1)[..., None])[0]))
        apart = x.ravel() - best[some]
        theirs.append(float(apart @ precision @ apart))
    assert np.diff(ours) == pytest.approx(np.diff(theirs), rel=1e-9)


def test_more_rounds_are_never_farther() -> None:
    """At the top, where nothing but the rounds differs; 0 rounds are least squares."""
    rng = np.random.default_rng(3)
    nodes = 200
    design = Design(
        SIZES, Tree(nodes), SETS, tuple(WorkloadDraw(0, axes, False, 25.0 if axes == JOINT else 1.0) for axes in SETS)
    )
    finest = rng.poisson(rng.gamma(0.3, 5.0, (nodes, *SIZES))).astype(float)
    values = [
        (table := finest.sum(axis=tuple(1 + i for i in JOINT if i not in take.axes)))
        + rng.normal(0, take.variance**0.5, table.shape)
        for take in design.taken
    ]
    joint = reconcile(design, values)[0, JOINT]
    precision = sum(kept(take.axes).T @ kept(take.axes) / take.variance for take in design.taken)

    def distance(found: Floats) -> Floats:
        apart = (found - joint).reshape(nodes, 6)
        return np.asarray(np.einsum("ni,ij,nj->n", apart, precision, apart))

    plain = nonnegative(design, [joint], rounds=0)[0]
    assert plain.reshape(nodes, 6) == pytest.approx(
        onto_simplex(joint.reshape(nodes, 6), np.maximum(joint.sum(axis=(1, 2)), 0)), abs=1e-9
    )
    most = distance(plain)
    for rounds in (1, 2, 5, 300):
        found = nonnegative(design, [joint], rounds=rounds)[0]
        assert found.min() >= 0
        assert found.sum(axis=(1, 2)) == pytest.approx(np.maximum(joint.sum(axis=(1, 2)), 0), abs=1e-9)
        assert (distance(found) <= most + 1e-9).all()
    assert distance(found).sum() < 0.7 * most.sum()


def kept(axes: Axes) -> Floats:
    """Sums over the attributes that are not kept, as a matrix."""
    first, second = (np.eye(size) if axis in axes else np.ones((1, size)) for axis, size in enumerate(SIZES))
    return np.asarray(np.kron(first, second), dtype=np.float64)


def test_families_without_negative_numbers_stay_as_they_are() -> None:
    """To the bit, under a parent that did; the others do not."""
    design, _, joint = sample(TABLES, 1)
    joint = [table - np.minimum(table.min(), 0) + 1 for table in joint]
    for table, found in zip(joint, nonnegative(design, joint), strict=True):
        assert (found == table).all()
    joint[2][3, 0, 1] = -2.0  # of node 2 at level 1, with nodes 2 and 5
    first, second, third = nonnegative(design, joint)
    assert (first == joint[0]).all()
    assert (second == joint[1]).all()
    moved = (third != joint[2]).any(axis=(1, 2))
    assert moved.tolist() == [False, False, True, True, False, True]


def test_exact_tables_stay_and_exact_residuals_nearly() -> None:
    rng = np.random.default_rng(5)
    finest = rng.poisson(rng.gamma(0.4, 6.0, (6, *SIZES))).astype(float)
    exact = Design(SIZES, TREE, SETS, (WorkloadDraw(2, JOINT, False, 0.0),))
    tables = reconcile(exact, [finest])
    for level, found in enumerate(nonnegative(exact, [tables[level, JOINT] for level in range(3)])):
        assert (found == (above(level, 2) @ finest.reshape(6, -1)).reshape(-1, *SIZES)).all()

    margin = finest.sum(axis=2)
    table = Design(SIZES, TREE, SETS, (WorkloadDraw(2, (0,), False, 0.0), WorkloadDraw(2, JOINT, False, 25.0)))
    residual = replace(table, taken=(WorkloadDraw(2, (0,), True, 0.0), WorkloadDraw(2, (), True, 1e-9), table.taken[1]))
    noisy = finest + rng.normal(0, 5, finest.shape)
    for design, values, near in (
        (table, [margin, noisy], 1e-9),
        (residual, [margin, margin.sum(axis=1), noisy], 0.3),
    ):
        tables = reconcile(design, values)
        joint = [tables[level, JOINT] for level in range(3)]
        assert joint[2].min() < -1
        assert np.abs(nonnegative(design, joint)[2].sum(axis=2) - margin).max() < near
    plain = nonnegative(residual, joint, rounds=0)[2].sum(axis=2)
    assert np.abs(plain - margin).max() > 1


def test_an_only_child_is_its_parent() -> None:
    tree = Tree(2, (np.array([1, 0]),))
    design = Design((4,), tree, ((0,),), (WorkloadDraw(0, (0,), False, 9.0),))
    joint = [np.array([[5.0, -3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])]
    joint.append(joint[0][[1, 0]])
    top, low = nonnegative(design, joint)
    assert (low == top[[1, 0]]).all()
    assert (low[0] == joint[1][0]).all()


def test_totals_alone_are_cut_at_zero() -> None:
    design = Design((), Tree(3), ((),), (WorkloadDraw(0, (), False, 9.0),))
    assert nonnegative(design, [np.array([2.0, -1.0, 0.0])])[0].tolist() == [2, 0, 0]


def test_without_a_joint_set_there_is_nothing_to_do() -> None:
    with pytest.raises(ValueError, match="no published set"):
        nonnegative(Design((2, 2), Tree.flat(), ((0,), (1,)), ()), [np.zeros((1, 2))])
