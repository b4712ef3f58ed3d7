"""Tables with impossible combinations: against dense least squares within the constraints, and against draws."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.stats import chi2

from dprelease.estimate.adjust import adjusted
from dprelease.estimate.workloads.design import Axes, Design, Floats, StructuralZeros, Tree, WorkloadDraw, subsets
from dprelease.estimate.workloads.reconcile import PublishedCell, node_variances, reconcile
from dprelease.estimate.workloads.reconcile import covariance_without_zeros as without_zeros
from dprelease.estimate.workloads.zeros import cell_variances, covariance, estimated, possible_cells
from tests.tiers import few


def matrix_of(sizes: tuple[int, ...], axes: Axes, centred: bool = False) -> Floats:
    """From the cells of the table of all attributes to those of another one, or to its residual."""
    found: Floats = np.ones((1, 1))
    for i, n in enumerate(sizes):
        one = np.eye(n) - (1 / n if centred else 0) if i in axes else np.ones((1, n))
        found = np.asarray(np.kron(found, one), dtype=np.float64)
    return found


def constraints(design: Design) -> Floats:
    """One row for every cell that is 0, in every table of the closure: many say the same."""
    rows = [
        matrix_of(design.sizes, axes)[~possible_cells(design, axes).ravel()]
        for axes in design.closure
        if design.zeros is not None and set(design.zeros.axes) <= set(axes)
    ]
    return np.vstack([*rows, np.zeros((1, prod(design.sizes)))])


def dense(design: Design) -> tuple[Floats, Floats]:
    """The matrix from all draws to the finest cells, and their covariance: least squares over the tables that fit.

    No formula of the closed form is used: what fits is written with a basis of its own.
    """
    basis = null_space(constraints(design), rcond=1e-12)
    rows = [matrix_of(design.sizes, take.axes, take.residual) / np.sqrt(take.variance) for take in design.taken]
    scale = np.concatenate(
        [np.full(len(row), take.variance**-0.5) for row, take in zip(rows, design.taken, strict=True)]
    )
    stacked = np.vstack(rows) @ basis
    information = np.linalg.pinv(stacked.T @ stacked, rcond=1e-12, hermitian=True)
    return basis @ information @ stacked.T * scale, basis @ information @ basis.T


@st.composite
def designs(draw: st.DrawFn) -> tuple[Design, int]:
    """Small workloads without levels, with draws of both kinds that tell everything, and some impossible cells."""
    seed = draw(st.integers(0, 2**32 - 1))
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    every = subsets(tuple(range(len(sizes))))
    sets = tuple(draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True)))
    variance = st.sampled_from([0.25, 1.0, 3.0, 40.0])
    closure = sorted({b for chosen in sets for b in subsets(chosen)})
    taken = [WorkloadDraw(0, axes, draw(st.booleans()), draw(variance)) for axes in closure]
    taken += draw(
        st.lists(st.builds(WorkloadDraw, st.just(0), st.sampled_from(every), st.booleans(), variance), max_size=3)
    )
    axes = draw(st.sampled_from(every[1:]))
    cells = prod(sizes[i] for i in axes)
    assume(cells > 1)
    zeros = draw(st.sets(st.integers(0, cells - 1), min_size=1, max_size=cells - 1))
    return Design(sizes, Tree.flat(), sets, tuple(taken), StructuralZeros(axes, tuple(sorted(zeros)))), seed


@settings(max_examples=few(120), deadline=None)
@given(designs())
def test_estimates_and_covariances_are_those_of_dense_least_squares_within_the_constraints(
    found: tuple[Design, int],
) -> None:
    design, seed = found
    assume(prod(design.sizes) <= 100)
    rng = np.random.default_rng(seed)
    gain, information = dense(design)
    wanted = np.vstack([matrix_of(design.sizes, axes) for _, axes in design.tables])
    values = [rng.normal(0, 10, design.shape(take.level, take.axes)) for take in design.taken]
    centred = np.concatenate(
        [
            (centring(design, take.axes) @ value.ravel()) if take.residual else value.ravel()
            for take, value in zip(design.taken, values, strict=True)
        ]
    )
    tables = estimated(design, values)
    assert list(tables) == list(design.tables)
    flat = np.concatenate([table.ravel() for table in tables.values()])
    assert flat == pytest.approx(wanted @ gain @ centred, rel=1e-9, abs=1e-7)

    expected = wanted @ information @ wanted.T
    shapes = {table: design.shape(*table) for table in design.tables}
    variances = [np.broadcast_to(each, shapes[table]).ravel() for table, each in cell_variances(design).items()]
    assert np.concatenate(variances) == pytest.approx(np.diag(expected), rel=1e-9, abs=1e-8)
    cells = [PublishedCell(0, axes, 0, at) for _, axes in design.tables for at in np.ndindex(*shapes[0, axes][1:])]
    for _ in range(8):
        i, j = rng.integers(0, len(cells), 2)
        assert covariance(design, cells[i], cells[j]) == pytest.approx(expected[i, j], rel=1e-9, abs=1e-8)


def centring(design: Design, axes: Axes) -> Floats:
    found: Floats = np.ones((1, 1))
    for i in axes:
        found = np.asarray(np.kron(found, np.eye(design.sizes[i]) - 1 / design.sizes[i]), dtype=np.float64)
    return found


MIXED = Design(
    (3, 2, 4),
    Tree.flat(),
    ((), (0,), (2,), (0, 1), (0, 2), (1, 2)),
    (
        WorkloadDraw(0, (), False, 4.0),
        WorkloadDraw(0, (0, 1), False, 9.0),
        WorkloadDraw(0, (0, 2), False, 9.0),
        WorkloadDraw(0, (1, 2), False, 16.0),
        WorkloadDraw(0, (2,), True, 2.0),
    ),
    StructuralZeros((0, 2), (0, 1, 2, 7)),
)
JOINT = Design(
    (3, 2, 4),
    Tree.flat(),
    ((), (0,), (0, 2), (0, 1, 2)),
    (*MIXED.taken, WorkloadDraw(0, (0, 1, 2), False, 25.0)),
    MIXED.zeros,
)


@pytest.mark.parametrize("design", [MIXED, JOINT])
def test_all_tables_agree_and_impossible_cells_are_0_to_the_digit(design: Design) -> None:
    rng = np.random.default_rng(5)
    for size in (1.0, 1e7):
        values = [rng.normal(size, size, design.shape(take.level, take.axes)) for take in design.taken]
        tables = estimated(design, values)
        for (_, one), (_, two) in product(tables, repeat=2):
            if set(one) <= set(two):
                gone = tuple(place for place, i in enumerate(two, 1) if i not in one)
                assert np.abs(tables[0, two].sum(axis=gone) - tables[0, one]).max() <= 1e-9 * size * 24
        zeroed = {axes for _, axes in design.tables if {0, 2} <= set(axes)}
        assert zeroed
        for axes in zeroed:
            inside = possible_cells(design, axes)
            assert (tables[0, axes][:, ~inside] == 0).all()
            assert (tables[0, axes][:, inside] != 0).all()
            assert (np.broadcast_to(cell_variances(design)[0, axes], tables[0, axes].shape)[:, inside] > 0).all()


def test_no_variance_grows_and_those_beside_a_zero_fall() -> None:
    before, after = node_variances(JOINT), cell_variances(JOINT)
    for table in JOINT.tables:
        assert (after[table] <= before[table][0] * (1 + 1e-12)).all()
    row = after[0, (0, 2)][0, 0]  # three of four cells of the first key are 0: the fourth is its total
    assert row.tolist() == pytest.approx([0, 0, 0, float(after[0, (0,)][0, 0])])
    assert row[3] < before[0, (0, 2)][0] * 0.7
    assert before[0, (0,)][0] == pytest.approx(node_variances(JOINT)[0, (0,)][0])


def test_without_zeros_nothing_changes() -> None:
    design = Design(MIXED.sizes, MIXED.tree, MIXED.sets, MIXED.taken)
    values = [
        np.arange(prod(design.shape(0, take.axes)), dtype=float).reshape(design.shape(0, take.axes))
        for take in design.taken
    ]
    for table, found in reconcile(design, values).items():
        assert (estimated(design, values)[table] == found).all()
        assert cell_variances(design)[table].ravel().tolist() == node_variances(design)[table].tolist()
    one, two = PublishedCell(0, (0, 1), 0, (1, 1)), PublishedCell(0, (2,), 0, (3,))
    assert covariance(design, one, two) == without_zeros(design, one, two)


def test_zeros_of_attributes_that_no_table_has_together_say_nothing() -> None:
    design = Design(
        (3, 2),
        Tree.flat(),
        ((0,), (1,)),
        (WorkloadDraw(0, (0,), False, 1), WorkloadDraw(0, (1,), False, 1)),
        StructuralZeros((0, 1), (2,)),
    )
    plain = Design(design.sizes, design.tree, design.sets, design.taken)
    values = [np.array([[5.0, 1.0, 2.0]]), np.array([[4.0, 4.5]])]
    for table, found in estimated(design, values).items():
        assert (found == reconcile(plain, values)[table]).all()
    assert possible_cells(design, (0,)).all()


TRUTH = np.array([[0, 0, 0, 9], [0, 0, 0, 4], [3, 5, 8, 0], [1, 0, 2, 6.0]])
SURE = Design(
    (4, 4),
    Tree.flat(),
    ((), (0,), (1,), (0, 1)),
    (WorkloadDraw(0, (0, 1), False, 25.0), WorkloadDraw(0, (1,), False, 4.0), WorkloadDraw(0, (0,), False, 0.0)),
    StructuralZeros((0, 1), (0, 1, 2, 3, 4, 5, 6, 11)),
)


def test_beside_an_exact_table_what_is_known_already_is_left_out() -> None:
    """The first key has no possible cell although its exact total is 9: such a list is wrong, and harmless here.

    Where the list is right, exact tables stay exact, and so does what follows from them together with the zeros.
    """
    truth = np.where(possible_cells(SURE, (0, 1)), TRUTH, 0)
    rng = np.random.default_rng(3)
    values = [truth[None] + rng.normal(0, 5, (1, 4, 4)), truth.sum(axis=0)[None] + rng.normal(0, 2, (1, 4))]
    values.append(truth.sum(axis=1)[None])
    found, variances = estimated(SURE, values), cell_variances(SURE)
    assert found[0, (0,)].tolist() == [[0, 4, 16, 9]]
    assert np.abs(found[0, (0, 1)].sum(axis=2) - found[0, (0,)]).max() < 1e-9
    assert np.abs(found[0, (0, 1)].sum(axis=1) - found[0, (1,)]).max() < 1e-9
    assert found[0, (0, 1)][0, 1].tolist() == pytest.approx([0, 0, 0, 4], abs=1e-9)
    assert variances[0, (0, 1)][0, :2] == pytest.approx(np.zeros((2, 4)), abs=1e-9)
    assert (variances[0, (0, 1)][0, 3] > 1).all()
    nearly = tuple(WorkloadDraw(0, take.axes, False, take.variance or 1e-5) for take in SURE.taken)
    close = cell_variances(Design(SURE.sizes, SURE.tree, SURE.sets, nearly, SURE.zeros))
    assert variances[0, (0, 1)] == pytest.approx(close[0, (0, 1)], abs=1e-4)
    assert variances[0, (1,)] == pytest.approx(close[0, (1,)], abs=1e-4)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("design", [MIXED, JOINT])
def test_the_covariance_of_500_draws_is_the_one_that_is_said(design: Design) -> None:
    """Chi-square of whitened sums; a variance that is 20 % off is found out (the last line)."""
    rng, number = np.random.default_rng(11), 500
    cells = [
        PublishedCell(0, axes, 0, at)
        for _, axes in design.tables
        for at in np.ndindex(*design.shape(0, axes)[1:])
        if possible_cells(design, axes)[at]
    ]
    picked = [cells[at] for at in rng.choice(len(cells), 6, replace=False)]
    seen = []
    for _ in range(number):
        values = [rng.normal(0, take.variance**0.5, design.shape(0, take.axes)) for take in design.taken]
        tables = estimated(design, values)
        seen.append([tables[0, each.axes][(0, *each.keys)] for each in picked])
    said = np.array([[covariance(design, one, two) for two in picked] for one in picked])
    turned, lengths = np.linalg.eigh(said)[1], np.linalg.eigvalsh(said)
    kept = lengths > 1e-9 * lengths.max()
    white = np.array(seen) @ turned[:, kept] / np.sqrt(lengths[kept])
    low, high = chi2.ppf([1e-6, 1 - 1e-6], white.size)
    assert low < (white**2).sum() < high
    assert not low < (white**2).sum() * 1.2 < high
    loose = np.array(seen) @ turned[:, ~kept]
    assert np.abs(loose).max(initial=0) < 1e-6


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("non_negative", [False, True])
def test_impossible_cells_stay_0_where_tables_are_made_non_negative_or_whole(non_negative: bool, integer: bool) -> None:
    rng = np.random.default_rng(17)
    inside, forced = possible_cells(JOINT, (0, 1, 2)), 0
    for turn in range(40):
        truth = np.where(inside, rng.integers(0, 4, inside.shape), 0).astype(float)
        values = []
        for take in JOINT.taken:
            gone = tuple(i for i in range(3) if i not in take.axes)
            table = truth.sum(axis=gone)[None]
            values.append(table + rng.normal(0, take.variance**0.5, table.shape))
        estimates = estimated(JOINT, values)
        found = adjusted(JOINT, estimates, non_negative=non_negative, integer=integer, key=bytes([turn] * 32))
        joint = found[0, (0, 1, 2)][0]
        assert (joint[~inside] == 0).all()
        assert np.abs(joint.sum(axis=1) - found[0, (0, 2)][0]).max() < 1e-9
        forced += int((estimates[0, (0, 1, 2)][0] < 0).sum())
        if non_negative:
            assert joint.min() >= 0
            total = max(0.0, float(estimates[0, ()][0]))
            assert float(found[0, ()][0]) == pytest.approx(total, abs=1 if integer else 1e-9)
    assert forced > 40


def test_the_nearest_table_beside_zeros_is_nearer_than_any_other_that_was_tried() -> None:
    """In the metric of the conditional covariance, over all that is possible, not negative, and has the total."""
    rng, design = np.random.default_rng(2), JOINT
    inside = possible_cells(design, (0, 1, 2)).ravel()
    cells = [PublishedCell(0, (0, 1, 2), 0, at) for at in np.ndindex(3, 2, 4)]
    said = np.array([[covariance(design, one, two) for two in cells] for one in cells])
    weight = np.linalg.pinv(said, rcond=1e-10, hermitian=True)
    values = [rng.normal(1, take.variance**0.5, design.shape(0, take.axes)) for take in design.taken]
    estimates = estimated(design, values)
    aim = estimates[0, (0, 1, 2)].ravel()
    total = float(aim.sum())
    if total <= 0:
        total = 5.0
        aim = aim + np.where(inside, (total - aim.sum()) / inside.sum(), 0)
        estimates[0, (0, 1, 2)] = aim.reshape(1, 3, 2, 4)
    best = adjusted(design, estimates, non_negative=True, integer=False)[0, (0, 1, 2)].ravel().astype(float)
    assert (aim < 0).sum() >= 4

    def distance(table: Floats) -> float:
        apart = table - aim  # the total stays: the distance within tables of one total
        return float(apart @ weight @ apart)

    for _ in range(3000):
        one, two = rng.choice(np.flatnonzero(inside), 2, replace=False)
        moved = best.copy()
        step = min(moved[one], rng.choice([0.02, 0.1, 0.5]))
        moved[one] -= step
        moved[two] += step
        assert distance(moved) >= distance(best) - 1e-2


@pytest.mark.parametrize(
    "zeros",
    [
        StructuralZeros((0, 2), ()),
        StructuralZeros((0, 2), (3, 1)),
        StructuralZeros((0, 2), (12,)),
        StructuralZeros((2, 0), (1,)),
        StructuralZeros((), (0,)),
    ],
)
def test_a_design_refuses_zeros_that_are_no_cells(zeros: StructuralZeros) -> None:
    with pytest.raises(ValueError, match=r"rising"):
        Design(MIXED.sizes, MIXED.tree, MIXED.sets, MIXED.taken, zeros)


def test_a_design_refuses_zeros_beside_levels() -> None:
    with pytest.raises(ValueError, match="beside no levels"):
        Design((2,), Tree(1, (np.array([0, 0]),)), ((0,),), (), StructuralZeros((0,), (0,)))
