"""Workloads made non-negative and whole: optimality against other solvers, exact sums, no bias of the rounding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from dprelease.errors import PlanError
from dprelease.estimate.adjust import adjusted, whole
from dprelease.estimate.workloads.design import Axes, Design, Floats, Tree, WorkloadDraw
from dprelease.estimate.workloads.nonnegative import families, joint_set, marginals, nonnegative
from dprelease.estimate.workloads.projection import onto_simplex, onto_tables
from tests.tiers import few

TREE = Tree(2, (np.array([1, 0, 1, 1, 1]), np.array([0, 1, 2, 3, 3, 2, 0, 4, 3, 3])))


def design_of(*sizes: int) -> Design:
    """The total and the joint table, both drawn at every level."""
    sets: tuple[Axes, ...] = ((), tuple(range(len(sizes))))
    return Design(
        sizes, TREE, sets, tuple(WorkloadDraw(level, axes, False, 9.0) for level in range(3) for axes in sets)
    )


def levels_of(finest: npt.NDArray[np.generic], tree: Tree) -> list[Floats]:
    """The tables of all levels, from those of the lowest."""
    found = [finest.astype(np.float64)]
    for level in reversed(range(tree.levels - 1)):
        above = np.zeros((tree.sizes[level], *finest.shape[1:]))
        np.add.at(above, tree.parents[level], found[0])
        found.insert(0, above)
    return found


def nearest(y: Floats, rows: Floats, columns: Floats) -> Floats:
    """The nearest table by a general optimiser."""
    shape = y.shape

    def sums(flat: Floats) -> Floats:
        table = flat.reshape(shape)
        return np.concatenate([table.sum(axis=1) - rows, table.sum(axis=0)[:-1] - columns[:-1]])

    found = minimize(
        lambda flat: 0.5 * float(((flat - y.ravel()) ** 2).sum()),
        np.outer(rows, columns).ravel() / columns.sum(),
        jac=lambda flat: flat - y.ravel(),
        bounds=[(0, None)] * y.size,
        constraints={"type": "eq", "fun": sums},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert found.success
    return np.asarray(found.x.reshape(shape))


@pytest.mark.parametrize("seed", range(8))
def test_the_nearest_table_is_that_of_a_general_optimiser(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, 2))
    truth = rng.poisson(4.0, shape) * (rng.random(shape) < 0.6) + 0.5
    y = truth + rng.normal(0, 4, shape)
    rows, columns = truth.sum(axis=1), truth.sum(axis=0)
    found = onto_tables(y[None], rows[None], columns[None], tolerance=1e-9, rounds=10_000)[0]

    assert found.min() >= 0
    assert found.sum(axis=1) == pytest.approx(rows, rel=1e-12)
    assert found.sum(axis=0) == pytest.approx(columns, rel=1e-12)
    assert found == pytest.approx(nearest(y, rows, columns), abs=1e-4)


@pytest.mark.parametrize("shape", [(40, 3, 5), (2, 8, 50), (9, 2, 2)])
def test_the_nearest_tables_satisfy_the_conditions_of_karush_kuhn_and_tucker(shape: tuple[int, ...]) -> None:
    """Where x > 0, x - y is a number of the row plus one of the column; where x = 0, it is at least that."""
    rng = np.random.default_rng(4)
    truth = rng.poisson(rng.gamma(0.5, 6, shape)) + 0.01
    y = truth + rng.normal(0, 5, shape)
    found = onto_tables(y, truth.sum(axis=2), truth.sum(axis=1), tolerance=1e-9, rounds=20_000)
    for x, given_y in zip(found, y, strict=True):
        inside = np.argwhere(x > 1e-6)
        system = np.zeros((len(inside), sum(x.shape)))
        system[np.arange(len(inside)), inside[:, 0]] = 1
        system[np.arange(len(inside)), x.shape[0] + inside[:, 1]] = 1
        wanted = (x - given_y)[x > 1e-6]
        shifts = np.linalg.lstsq(system, wanted, rcond=None)[0]
        assert system @ shifts == pytest.approx(wanted, abs=1e-4)


def test_unfinished_rounds_are_repaired_to_exact_sums() -> None:
    rng = np.random.default_rng(6)
    truth = rng.poisson(rng.gamma(0.2, 4, (300, 3, 6))).astype(float)
    y = truth + rng.normal(0, 5, truth.shape)
    rows, columns = truth.sum(axis=2), truth.sum(axis=1)
    best = ((onto_tables(y, rows, columns, tolerance=1e-9, rounds=5000) - y) ** 2).sum()
    for rounds in (1, 3, 100):
        found = onto_tables(y, rows, columns, rounds=rounds)
        assert found.min() >= 0
        assert np.abs(found.sum(axis=2) - rows).max() < 1e-9
        assert np.abs(found.sum(axis=1) - columns).max() < 1e-9
        assert ((found - y) ** 2).sum() >= best - 1e-6
    assert ((found - y) ** 2).sum() < best * (1 + 1e-4)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.floats(0, 1e6))
@settings(max_examples=few(100), deadline=None)
def test_the_nearest_point_of_a_simplex_is_one_shift_cut_at_zero(values: list[float], total: float) -> None:
    y = np.array(values)
    x = onto_simplex(y[None], np.array([total]))[0]
    assert x.min() >= 0
    assert x.sum() == pytest.approx(total, rel=1e-9, abs=1e-9)
    inside = x > 1e-5
    if inside.any():
        shift = (x - y)[inside]
        assert shift == pytest.approx(np.full(len(shift), shift[0]), abs=1e-4)
        assert (y[~inside] + shift[0] <= 1e-4).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=few(20), deadline=None)
def test_nonnegative_tables_keep_totals_and_add_up(seed: int, mean: float) -> None:
    rng = np.random.default_rng(seed)
    joint = levels_of(rng.poisson(mean, (10, 2, 3)) + rng.normal(0, 3, (10, 2, 3)), TREE)
    found = nonnegative(design_of(2, 3), joint)
    scale = 1e-9 * max(1, float(max(np.abs(table).max() for table in joint)))

    for level, table in enumerate(found):
        assert table.shape == joint[level].shape
        assert table.min() >= 0
    for level in (1, 2):
        above = np.zeros_like(found[level - 1])
        np.add.at(above, TREE.parents[level - 1], found[level])
        assert above == pytest.approx(found[level - 1], abs=scale)
        totals, wanted = found[level].sum(axis=(1, 2)), joint[level].sum(axis=(1, 2))
        for node in range(TREE.sizes[level - 1]):
            children = TREE.parents[level - 1] == node
            of_node = found[level - 1][node].sum()
            assert totals[children] == pytest.approx(
                onto_simplex(wanted[children][None], of_node[None])[0], abs=1e3 * scale
            )
    assert found[0].sum(axis=(1, 2)) == pytest.approx(np.maximum(joint[0].sum(axis=(1, 2)), 0), abs=scale)


def test_tables_that_are_nonnegative_stay_as_they_are() -> None:
    joint = levels_of(np.random.default_rng(2).random((10, 4)), TREE)
    for table, found in zip(joint, nonnegative(design_of(4), joint), strict=True):
        assert (found == table).all()


@given(st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32))
@settings(max_examples=few(50), deadline=None)
def test_whole_numbers_add_up_and_are_next_to_what_they_round(seed: int, key: bytes) -> None:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, (10, 7))
    finest = np.where(kind == 0, np.rint(rng.normal(0, 5, (10, 7))), rng.normal(3, 4, (10, 7)) * (kind == 1))
    joint, found = levels_of(finest, TREE), whole(TREE, finest, key)

    for level, (real, rounded) in enumerate(zip(joint, found, strict=True)):
        assert rounded.dtype == np.int64
        assert (np.abs(rounded - real) < 1 + 1e-9).all()
        assert (rounded == levels_of(found[-1], TREE)[level]).all()
    assert (found[-1][finest == np.rint(finest)] == finest[finest == np.rint(finest)]).all()
    assert (np.abs(found[0].sum(axis=1) - joint[0].sum(axis=1)) < 1 + 1e-9).all()
    for again, before in zip(whole(TREE, finest, key), found, strict=True):
        assert (again == before).all()


def test_rounding_has_no_bias() -> None:
    """5,000 copies of a hierarchy, each with offsets of its own: every cell of every level against its number, at 1e-6
    in all; a number that is another by 0.05 is refused."""
    rng, copies = np.random.default_rng(9), 5000
    finest = rng.random((10, 6)) * rng.choice([0.2, 1.0, 5.0], (10, 6))
    times = np.arange(copies)[:, None]
    parents = tuple((each + times * above).ravel() for each, above in zip(TREE.parents, TREE.sizes[:-1], strict=True))
    found = whole(Tree(2 * copies, parents), np.tile(finest, (copies, 1)), bytes(32))
    joint = levels_of(finest, TREE)
    limit = norm.isf(1e-6 / sum(table.size for table in joint) / 2)
    for rounded, real in zip(found, joint, strict=True):
        mean = rounded.reshape(copies, *real.shape).mean(axis=0)
        part = real - np.floor(real)
        error = np.sqrt(part * (1 - part) / copies)
        assert (np.abs(mean - real) <= limit * error + 1e-12).all()
        assert (np.abs(mean - (real + 0.05)) > limit * error).any()


def test_totals_move_little_when_cells_are_rounded() -> None:
    rng = np.random.default_rng(11)
    tree = Tree(1, (np.repeat(0, 30),))
    finest = rng.gamma(0.3, 5, (30, 400))
    top, children = whole(tree, finest, bytes(32))
    moved = children.sum(axis=1) - finest.sum(axis=1)
    assert abs(top.sum() - finest.sum()) < 1
    assert moved.std() < 0.5 * np.sqrt(400 / 6)  # cells rounded one by one would move it by about 8


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        whole(Tree.flat(), np.zeros((1, 2)), b"short")


@pytest.mark.parametrize(
    ("sets", "largest"),
    [
        (((),), ()),
        (((), (0, 2)), (0, 2)),
        (((0,), (1,)), None),
        (((0, 1), (1, 2), (0, 1, 2)), (0, 1, 2)),
        (((0, 1), (2,)), None),
    ],
)
def test_the_joint_set_contains_all_others(sets: tuple[Axes, ...], largest: Axes | None) -> None:
    assert joint_set(sets) == largest


def test_adjusted_tables_agree_and_leave_the_given_ones_alone() -> None:
    rng = np.random.default_rng(12)
    sets: tuple[Axes, ...] = ((), (1,), (0, 1))
    taken = tuple(WorkloadDraw(level, axes, False, 4.0) for level in range(3) for axes in sets)
    design = Design((2, 3), TREE, sets, taken)
    joint = levels_of(rng.poisson(1.0, (10, 2, 3)) + rng.normal(0, 2, (10, 2, 3)), TREE)
    tables = {table: np.asarray(each, dtype=np.float64) for table, each in marginals(sets, joint).items()}
    before = {table: each.copy() for table, each in tables.items()}
    assert adjusted(design, tables, non_negative=False, integer=False) == tables
    for non_negative, integer in [(True, False), (False, True), (True, True)]:
        found = adjusted(design, tables, non_negative=non_negative, integer=integer, key=bytes(range(32)))
        assert list(found) == list(design.tables)
        for (level, axes), each in found.items():
            joined = found[level, (0, 1)]
            assert each.dtype == (np.int64 if integer else np.float64)
            assert not non_negative or each.min() >= 0
            gone = tuple(place for place in (1, 2) if place - 1 not in axes)
            assert (each == (joined.sum(axis=gone) if gone else joined)).all()
    for table, each in tables.items():
        assert (each == before[table]).all()


def test_without_a_joint_set_it_is_refused() -> None:
    design = Design((2, 2), Tree.flat(), ((0,), (1,)), ())
    tables = {table: np.zeros((1, 2)) for table in design.tables}
    with pytest.raises(PlanError, match="no published marginal contains all others") as found:
        adjusted(design, tables, non_negative=True, integer=False)
    assert found.value.code == "DPR-P161"
    with pytest.raises(ValueError, match="no published set"):
        marginals(design.sets, [np.zeros((1, 2, 2))])


def test_families_are_all_parents_once_with_their_children() -> None:
    rng = np.random.default_rng(13)
    parents = np.concatenate([np.arange(50), rng.integers(0, 50, 300)])
    rng.shuffle(parents)
    seen = []
    for nodes, children in families(parents, 50, 20):
        assert (parents[children] == nodes[:, None]).all()
        assert len(nodes) == 1 or children.size <= 20
        seen += [*children.ravel()]
    assert sorted(seen) == list(range(350))
