"""Workloads of marginals: the closed forms against dense least squares, draws and the planner's own figures."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from dprelease.errors import PlanError
from dprelease.estimate.workloads.contrast import join, part, split_residuals
from dprelease.estimate.workloads.design import Axes, Design, Floats, Tree, WorkloadDraw, subsets
from dprelease.estimate.workloads.reconcile import (
    PublishedCell,
    covariance_without_zeros,
    node_variances,
    reconcile,
    undetermined,
)
from dprelease.plan.design.residuals import Workload, select
from tests.tiers import few

Matrix = Floats


def tree_of(roots: int, counts: list[list[int]], rng: np.random.Generator) -> Tree:
    """A hierarchy with so many children of every node, in a random order."""
    return Tree(roots, tuple(rng.permutation(np.repeat(np.arange(len(level)), level)) for level in counts))


def leaves_of(tree: Tree, level: int) -> Matrix:
    """The matrix from leaves to the nodes of a level."""
    matrix: Matrix = np.eye(tree.sizes[-1])
    for parents in reversed(tree.parents[level:]):
        above = np.zeros((parents.max() + 1, len(parents)))
        above[parents, np.arange(len(parents))] = 1
        matrix = np.asarray(above @ matrix, dtype=np.float64)
    return matrix


def table_of(design: Design, level: int, axes: Axes, centred: bool = False) -> Matrix:
    """The matrix from the cells of the finest table of all attributes to a published table, or to its residual."""
    matrix = leaves_of(design.tree, level)
    for i, n in enumerate(design.sizes):
        one = np.eye(n) - (1 / n if centred else 0) if i in axes else np.ones((1, n))
        matrix = np.asarray(np.kron(matrix, one), dtype=np.float64)
    return matrix


def dense(design: Design) -> tuple[Matrix, Matrix]:
    """By generalised least squares: the matrix from all draws (residuals centred) to the cells, and its covariance.

    The cells themselves need not be determined; the pseudo-inverse gives the least of what fits.
    """
    rows, whitened = [], []
    for take in design.taken:
        matrix = table_of(design, take.level, take.axes, centred=take.residual)
        rows.append(matrix / np.sqrt(take.variance))  # a centred residual has covariance s2 P, and P M = M
        whitened.append(np.eye(len(matrix)) / np.sqrt(take.variance))
    stacked = np.vstack(rows)
    information = np.linalg.pinv(stacked.T @ stacked, rcond=1e-11, hermitian=True)
    blocks = np.zeros((len(stacked), len(stacked)))
    at = 0
    for block in whitened:
        blocks[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return information @ stacked.T @ blocks, information


@st.composite
def designs(draw: st.DrawFn) -> tuple[Design, int]:
    """Small workloads with draws of both kinds at some levels, and a seed."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    roots, counts, nodes = draw(st.integers(1, 2)), [], 0
    nodes = roots
    for _ in range(draw(st.integers(0, 2))):
        counts.append(draw(st.lists(st.integers(1, 3), min_size=nodes, max_size=nodes)))
        nodes = sum(counts[-1])
        if nodes > 6:
            break
    tree = tree_of(roots, counts, rng)
    every = subsets(tuple(range(len(sizes))))
    sets = tuple(draw(st.lists(st.sampled_from(every), min_size=1, max_size=3, unique=True)))
    variance = st.sampled_from([0.25, 1.0, 3.0, 40.0])
    take = st.builds(WorkloadDraw, st.integers(0, tree.levels - 1), st.sampled_from(every), st.booleans(), variance)
    taken = draw(st.lists(take, max_size=5))
    for axes in {b for chosen in sets for b in subsets(chosen)}:
        if draw(st.integers(0, 5)):
            taken.append(WorkloadDraw(tree.levels - 1, axes, draw(st.booleans()), draw(variance)))
    return Design(sizes, tree, sets, tuple(taken)), seed


def cells_of(design: Design) -> list[PublishedCell]:
    return [
        PublishedCell(level, axes, at[0], at[1:])
        for level, axes in design.tables
        for at in np.ndindex(design.shape(level, axes))
    ]


@settings(max_examples=few(50), deadline=None)
@given(designs())
def test_estimates_variances_and_covariances_are_those_of_dense_least_squares(found: tuple[Design, int]) -> None:
    design, seed = found
    assume(prod(design.sizes) * design.tree.sizes[-1] <= 200)
    gain, information = (None, None) if not design.taken else dense(design)
    wanted = np.vstack([table_of(design, level, axes) for level, axes in design.tables])
    open_tables = gain is None or not np.allclose(
        wanted @ gain @ np.vstack([table_of(design, t.level, t.axes, t.residual) for t in design.taken]),
        wanted,
        atol=1e-7,
    )
    assert bool(undetermined(design)) == open_tables
    if gain is None or information is None or open_tables:
        with pytest.raises(PlanError, match="nothing measures the residual"):
            node_variances(design)
        return

    rng = np.random.default_rng(seed)
    values = [rng.normal(0, 10, design.shape(take.level, take.axes)) for take in design.taken]
    centred = np.concatenate(
        [
            centring(design, take) @ value.ravel() if take.residual else value.ravel()
            for take, value in zip(design.taken, values, strict=True)
        ]
    )
    tables = reconcile(design, values)
    assert list(tables) == list(design.tables)
    flat = np.concatenate([table.ravel() for table in tables.values()])
    assert flat == pytest.approx(wanted @ gain @ centred, rel=1e-9, abs=1e-7)

    expected = wanted @ information @ wanted.T
    variances = np.concatenate(
        [np.repeat(each, prod(design.sizes[i] for i in axes)) for (_, axes), each in node_variances(design).items()]
    )
    assert variances == pytest.approx(np.diag(expected), rel=1e-9)
    cells = cells_of(design)
    for _ in range(8):
        i, j = rng.integers(0, len(cells), 2)
        assert covariance_without_zeros(design, cells[i], cells[j]) == pytest.approx(expected[i, j], rel=1e-9, abs=1e-9)
        assert covariance_without_zeros(design, cells[j], cells[i]) == pytest.approx(expected[i, j], rel=1e-9, abs=1e-9)


def centring(design: Design, take: WorkloadDraw) -> Matrix:
    matrix: Matrix = np.eye(design.tree.sizes[take.level])
    for i in take.axes:
        matrix = np.asarray(np.kron(matrix, np.eye(design.sizes[i]) - 1 / design.sizes[i]), dtype=np.float64)
    return matrix


TREE = Tree(2, (np.array([1, 0, 1, 1]), np.array([0, 1, 2, 3, 3, 2, 0])))
SETS: tuple[Axes, ...] = ((), (1,), (0, 1))
MIXED = Design(
    (2, 3),
    TREE,
    SETS,
    (
        *(WorkloadDraw(level, b, True, 0.5 * 4**level) for level in (0, 2) for b in subsets((0, 1))),
        WorkloadDraw(0, (), False, 2.0),
        WorkloadDraw(1, (0, 1), False, 30.0),
        WorkloadDraw(2, (1,), False, 9.0),
    ),
)


def counts_of(design: Design, rng: np.random.Generator) -> dict[int, Floats]:
    """By level the joint table of made-up people."""
    lowest = design.tree.levels - 1
    shape = design.shape(lowest, tuple(range(len(design.sizes))))
    found: dict[int, Floats] = {lowest: rng.poisson(20.0, shape).astype(float)}
    for level in reversed(range(lowest)):
        found[level] = np.zeros((design.tree.sizes[level], *design.sizes))
        np.add.at(found[level], design.tree.parents[level], found[level + 1])
    return found


def reduced(table: Floats, axes: Axes) -> Floats:
    return np.asarray(table.sum(axis=tuple(i for i in range(1, table.ndim) if i - 1 not in axes)))


def contrasted(table: Floats) -> Floats:
    """The whole-number contrast (n I - 11^T) along each axis but the first."""
    for axis in range(1, table.ndim):
        table = np.asarray(table.shape[axis] * table - table.sum(axis=axis, keepdims=True), dtype=np.float64)
    return table


def drawn(design: Design, counts: dict[int, Floats], rng: np.random.Generator) -> list[Floats]:
    """Every draw as a release makes it: whole noise on residuals, divided by grain and sizes."""
    found = []
    for take in design.taken:
        exact = reduced(counts[take.level], take.axes)
        if take.residual:
            unit = 512 * prod(design.sizes[i] for i in take.axes)
            noisy = 512 * contrasted(exact) + np.rint(rng.normal(0, unit * take.variance**0.5, exact.shape))
            found.append(noisy / unit)
        else:
            found.append(exact + rng.normal(0, take.variance**0.5, exact.shape))
    return found


def test_draws_err_as_stated_and_their_margins_cover() -> None:
    """2,000 releases: one cell of each table; variance by chi-square, coverage by the binomial, at 1e-6 in all."""
    rng, releases = np.random.default_rng(20), 2000
    times = np.arange(releases)[:, None]
    side_by_side = tuple(
        (parents + times * above).ravel() for parents, above in zip(TREE.parents, TREE.sizes[:-1], strict=True)
    )
    many = Design(MIXED.sizes, Tree(TREE.roots * releases, side_by_side), SETS, MIXED.taken)
    counts = counts_of(many, rng)
    found = reconcile(many, drawn(many, counts, rng))
    errors = {}
    for (level, axes), variances in node_variances(MIXED).items():
        wrong = found[level, axes] - reduced(counts[level], axes)
        errors[level, axes] = wrong.reshape(releases, len(variances), -1)[:, -1, 0] / np.sqrt(variances[-1])
    chance = 1e-6 / len(errors)
    for scores in errors.values():
        assert abs(scores.mean()) < 5.5 / releases**0.5
        squares, held = (scores**2).sum(), int((np.abs(scores) < 1.959964).sum())
        assert chi2.ppf(chance / 2, releases) < squares < chi2.isf(chance / 2, releases)
        assert binom.ppf(chance / 2, releases, 0.95) <= held <= binom.isf(chance / 2, releases, 0.95)
        narrow = int((np.abs(scores) < 0.85 * 1.959964).sum())  # power: variances wrong by a quarter are refused
        assert squares / 0.75 > chi2.isf(chance / 2, releases)
        assert narrow < binom.ppf(chance / 2, releases, 0.95)


def test_tables_agree_with_one_another_and_children_with_their_parents() -> None:
    rng = np.random.default_rng(3)
    tables = reconcile(MIXED, drawn(MIXED, counts_of(MIXED, rng), rng))
    for level, axes in MIXED.tables:
        for smaller in SETS:
            if set(smaller) <= set(axes):
                gone = tuple(place for place, i in enumerate(axes, 1) if i not in smaller)
                assert tables[level, axes].sum(axis=gone) == pytest.approx(tables[level, smaller], rel=1e-9)
        if level:
            above = np.zeros_like(tables[level - 1, axes])
            np.add.at(above, TREE.parents[level - 1], tables[level, axes])
            assert above == pytest.approx(tables[level - 1, axes], rel=1e-9)


@pytest.mark.parametrize(
    ("sizes", "ways"), [((2, 3, 4), (1, 2)), ((5, 2), (0, 1, 2)), ((2, 2, 2, 2), (0, 3)), ((3, 1, 4), (2,))]
)
def test_residuals_of_the_planner_give_the_variances_that_it_states(
    sizes: tuple[int, ...], ways: tuple[int, ...]
) -> None:
    workload = Workload.ways(sizes, ways)
    chosen = select(workload, 0.7)
    taken = tuple(
        WorkloadDraw(0, b, True, float(s)) for b, s in zip(chosen.residuals, chosen.variances, strict=True) if s > 0
    )
    found = node_variances(Design(sizes, Tree.flat(), workload.sets, taken))
    assert [float(each[0]) for each in found.values()] == pytest.approx(chosen.table_variances, rel=1e-12)


def test_exact_draws_are_kept_and_known_tables_are_whole() -> None:
    rng = np.random.default_rng(5)
    counts = counts_of(MIXED, rng)
    exact = (WorkloadDraw(1, (), False, 0.0), WorkloadDraw(2, (1,), False, 0.0), WorkloadDraw(2, (1,), False, 0.0))
    design = Design((2, 3), TREE, SETS, (*MIXED.taken, *exact))
    values = [*drawn(MIXED, counts, rng), *(reduced(counts[take.level], take.axes) for take in exact)]
    tables, variances = reconcile(design, values), node_variances(design)
    for level in range(3):
        for axes in ((), (1,)):
            assert (tables[level, axes] == reduced(counts[level], axes)).all()
            assert not variances[level, axes].any()
        assert tables[level, (0, 1)].sum(axis=1) == pytest.approx(reduced(counts[level], (1,)), rel=1e-12)
        assert (variances[level, (0, 1)] > 0).all()
    nearly = tuple(WorkloadDraw(take.level, take.axes, False, 1e-9) for take in exact)
    close = reconcile(Design((2, 3), TREE, SETS, (*MIXED.taken, *nearly)), values)
    for table in design.tables:
        assert close[table] == pytest.approx(tables[table], abs=1e-6)


def test_an_exact_total_above_moves_the_children_and_no_more() -> None:
    tree = Tree(1, (np.zeros(3, dtype=np.int64),))
    design = Design((), tree, ((),), (WorkloadDraw(0, (), False, 0.0), WorkloadDraw(1, (), False, 2.0)))
    tables = reconcile(design, [np.array([30.0]), np.array([9.0, 12.0, 15.0])])
    assert tables[0, ()].tolist() == [30]
    assert tables[1, ()] == pytest.approx([7, 10, 13])
    assert node_variances(design)[1, ()] == pytest.approx(np.full(3, 2 * (1 - 1 / 3)))


def test_what_nothing_measures_is_named() -> None:
    design = Design((2, 3), TREE, ((0, 1),), (WorkloadDraw(2, (0,), False, 1.0), WorkloadDraw(1, (0, 1), True, 1.0)))
    assert undetermined(design) == ((0, (1,)), (2, (0, 1)))
    with pytest.raises(PlanError, match=r"residual of the attributes \(1,\) at level 0") as found:
        reconcile(design, [np.zeros((7, 2)), np.zeros((4, 2, 3))])
    assert found.value.code == "DPR-P160"
    assert undetermined(Design((1, 3), Tree.flat(), ((0, 1),), (WorkloadDraw(0, (1,), False, 1.0),))) == ()


def test_only_children_need_no_draws_of_their_own() -> None:
    tree = Tree(2, (np.array([1, 0]),))
    design = Design((), tree, ((),), (WorkloadDraw(0, (), False, 3.0),))
    assert reconcile(design, [np.array([5.0, 8.0])])[1, ()].tolist() == [8, 5]
    assert node_variances(design)[1, ()].tolist() == [3, 3]


def test_a_measured_table_may_be_larger_than_any_published_one() -> None:
    design = Design((2, 3), Tree.flat(), ((0,),), (WorkloadDraw(0, (0, 1), False, 1.0),))
    assert reconcile(design, [np.arange(6.0).reshape(1, 2, 3)])[0, (0,)].tolist() == [[3, 12]]
    assert node_variances(design)[0, (0,)] == pytest.approx([3])


def test_splitting_is_undone_by_joining() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(0, 100, (3, 4, 1, 2))
    copy = table.copy()
    split_residuals(copy)
    assert copy[part((0, 1, 2), (), (4, 1, 2))].ravel() == pytest.approx(table.sum(axis=(1, 2, 3)))
    join(copy)
    assert copy == pytest.approx(table, rel=1e-12, abs=1e-12)


def test_wrong_use_is_refused() -> None:
    for parents in (np.array([0, 2]), np.array([-1, 0, 1]), np.array([0, 0]), np.array([0.0, 1.0]), np.zeros(0, int)):
        with pytest.raises(ValueError, match="level"):
            Tree(2, (parents,))
    with pytest.raises(ValueError, match="at least one node"):
        Tree(0)
    for sizes, sets, taken in [
        ((0,), ((0,),), ()),
        ((2,), (), ()),
        ((2,), ((0,), (0,)), ()),
        ((2,), ((1,),), ()),
        ((2, 2), ((1, 0),), ()),
        ((2,), ((0,),), (WorkloadDraw(1, (0,), False, 1.0),)),
        ((2,), ((0,),), (WorkloadDraw(0, (0,), False, -1.0),)),
        ((2,), ((0,),), (WorkloadDraw(0, (0,), False, float("inf")),)),
        ((2,), ((0,),), (WorkloadDraw(0, (3,), False, 1.0),)),
    ]:
        with pytest.raises(ValueError, match=r"attribute|marginal|level|variance"):
            Design(sizes, Tree.flat(), sets, taken)
    design = Design((2,), Tree.flat(), ((0,),), (WorkloadDraw(0, (0,), False, 1.0),))
    with pytest.raises(ValueError, match="1 draws"):
        reconcile(design, [])
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        reconcile(design, [np.zeros(2)])
