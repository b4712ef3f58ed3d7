"""What is done after the noise beside an exact table: it stays to the digit, and the rest is the nearest there is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.stats import norm

from dprelease.estimate.adjust import adjusted, whole
from dprelease.estimate.workloads.blocks import Blocks
from dprelease.estimate.workloads.conditional import saying_all
from dprelease.estimate.workloads.design import Axes, Design, Floats, Table, Tree, WorkloadDraw, subsets
from dprelease.estimate.workloads.nonnegative import nonnegative
from dprelease.estimate.workloads.projection import onto_simplex
from dprelease.estimate.workloads.reconcile import reconcile
from tests.tiers import few
from tests.unit.test_estimate_nearest import JOINT, SETS, SIZES, TABLES, TREE, above, below, drawn, of_family, optimum

WIDE = (2, 3, 2)
WIDE_SETS: tuple[Axes, ...] = ((), (0,), (1,), (0, 2), (0, 1, 2))


def tables_of(finest: Floats, design: Design) -> dict[Table, Floats]:
    """The true tables of a workload."""
    found = {}
    for level, axes in design.tables:
        gone = tuple(1 + axis for axis in range(finest.ndim - 1) if axis not in axes)
        found[level, axes] = np.tensordot(above(level, 2), finest, 1).sum(axis=gone)
    return found


@settings(deadline=None, max_examples=few(30))
@given(
    seed=st.integers(0, 2**32 - 1),
    level=st.integers(0, 2),
    axes=st.sampled_from(subsets((0, 1, 2))),
    mean=st.sampled_from([0.02, 0.5, 20.0]),
    key=st.binary(min_size=32, max_size=32),
)
def test_an_exact_table_stays_to_the_digit_whatever_the_noise(
    seed: int, level: int, axes: Axes, mean: float, key: bytes
) -> None:
    """And there is always a solution: also where nearly all exact cells are 0 and half of the estimates below."""
    rng = np.random.default_rng(seed)
    finest = rng.poisson(rng.gamma(0.15, mean / 0.15, (6, *WIDE))).astype(float)
    noisy = tuple(WorkloadDraw(at, each, False, 9.0) for at in range(3) for each in ((1,), (0, 1, 2)))
    design = Design(WIDE, TREE, WIDE_SETS, (*noisy, WorkloadDraw(level, axes, False, 0.0)))
    truth = tables_of(finest, replace(design, sets=subsets((0, 1, 2))))
    values = [truth[take.level, take.axes] for take in design.taken]
    values = [
        each + rng.normal(0, take.variance**0.5, each.shape) for each, take in zip(values, design.taken, strict=True)
    ]
    tables = reconcile(design, values)
    for non_negative, integer in ((True, False), (False, True), (True, True)):
        found = adjusted(design, tables, non_negative=non_negative, integer=integer, key=key)
        for (at, each), table in found.items():
            if at <= level and set(each) <= set(axes):
                assert (table == truth[at, each]).all()
            assert not non_negative or table.min() >= 0
            assert not integer or table.dtype == np.int64
            if at:
                sums = np.zeros_like(found[at - 1, each])
                np.add.at(sums, TREE.parents[at - 1], table)
                assert sums == pytest.approx(found[at - 1, each], rel=1e-9, abs=1e-9)


@pytest.mark.thin
@pytest.mark.parametrize(("level", "axes"), [(2, (0,)), (1, (0,)), (1, (1,)), (0, JOINT), (2, ())])
@pytest.mark.parametrize("seed", range(2))
def test_beside_it_each_family_is_the_nearest_of_a_general_optimiser(level: int, axes: Axes, seed: int) -> None:
    """The distance is that of the noisy draws alone, in matrices; the exact cells are conditions."""
    rng = np.random.default_rng(seed)
    finest = rng.poisson(rng.gamma(0.15, 4.0, (6, *SIZES))).astype(float)
    noisy = Design(SIZES, TREE, SETS, TABLES)
    design = replace(noisy, taken=(*TABLES, WorkloadDraw(level, axes, False, 0.0)))
    values = drawn(design, finest, rng)
    tables = reconcile(design, values)
    joint = [tables[at, JOINT] for at in range(3)]
    found = nonnegative(design, joint, tolerance=1e-9, rounds=20_000)
    assert min(table.min() for table in joint) < -1
    for at in range(3):
        best, spread = below(noisy, values[:-1], at)
        one = _margin(axes if at <= level else ())
        for parent in range(2 if at == 0 else TREE.sizes[at - 1]):
            children = [parent] if at == 0 else np.flatnonzero(TREE.parents[at - 1] == parent).tolist()
            some = of_family(children)
            sums, wanted = block_diag(*[one] * len(children)), joint[at][children].reshape(len(children), -1) @ one.T
            over = None if at == 0 else found[at - 1][parent].ravel()
            if at > level:  # totals that are not exact: the nearest that add up
                wanted = onto_simplex(wanted.T, np.array([0.0 if over is None else over.sum()])).T
            wanted = np.maximum(wanted.ravel(), 0)
            if over is not None:
                sums, wanted = np.vstack([sums, np.tile(np.eye(6), len(children))]), np.concatenate([wanted, over])
            kept = _independent(sums)
            precision: Floats = np.asarray(np.linalg.inv(spread[np.ix_(some, some)]), dtype=np.float64)
            nearest = optimum(best[some], precision, sums[kept], wanted[kept])
            assert found[at][children].ravel() == pytest.approx(nearest, abs=5e-4)


def _margin(axes: Axes) -> Floats:
    """The sums over a table by the cells of these attributes, as a matrix."""
    first, second = (np.eye(size) if axis in axes else np.ones((1, size)) for axis, size in enumerate(SIZES))
    return np.asarray(np.kron(first, second), dtype=np.float64)


def _independent(rows: Floats) -> list[int]:
    """Rows that say what all of them say, none twice."""
    kept: list[int] = []
    for row in range(len(rows)):
        if np.linalg.matrix_rank(rows[[*kept, row]]) > len(kept):
            kept.append(row)
    return kept


@settings(deadline=None, max_examples=few(40))
@given(
    seed=st.integers(0, 2**32),
    key=st.binary(min_size=32, max_size=32),
    kept=st.integers(0, 2),
    axes=st.sampled_from(subsets((0, 1, 2))),
)
def test_whole_tables_stay_when_cells_are_rounded(seed: int, key: bytes, kept: int, axes: Axes) -> None:
    rng = np.random.default_rng(seed)
    tree = Tree(2, (np.array([0, 1, 0, 1, 0]), np.array([4, 0, 1, 2, 3, 3, 0])))
    finest, blocks = rng.uniform(0, 9, (7, *WIDE)), Blocks(WIDE, axes)
    parts, nodes = blocks.apart(finest.reshape(7, -1)), np.arange(7)
    for level in range(2, kept, -1):
        nodes = tree.parents[level - 1][nodes]
    for node in range(tree.sizes[kept]):  # the last cell of a block of a child makes the sum of the node whole
        last = int(np.flatnonzero(nodes == node)[-1])
        parts[last, :, -1] += 1 - parts[nodes == node].sum(axis=(0, 2)) % 1
    finest = blocks.together(parts).reshape(7, *WIDE)
    made = whole(tree, finest, key, kept, axes)
    wanted = np.zeros((tree.sizes[kept], blocks.count))
    np.add.at(wanted, nodes, parts.sum(axis=2))
    assert (blocks.apart(made[kept].reshape(len(wanted), -1)).sum(axis=2) == np.rint(wanted)).all()
    for level, parents in enumerate(tree.parents):
        sums = np.zeros_like(made[level])
        np.add.at(sums, parents, made[level + 1])
        assert (sums == made[level]).all()
    assert np.abs(made[2] - finest).max() < 1
    assert made[2].min() >= 0


def test_rounding_beside_an_exact_table_has_no_bias() -> None:
    """4,000 copies of a hierarchy, each with offsets of its own: every cell against its number, at 1e-6 in all; a
    number that is another by 0.05 is refused."""
    rng, copies = np.random.default_rng(9), 4000
    finest = rng.random((6, 2, 3)) * rng.choice([0.2, 1.0, 5.0], (6, 2, 3))
    finest[..., -1] += 1 - finest.sum(axis=2) % 1
    times = np.arange(copies)[:, None]
    parents = tuple((each + times * size).ravel() for each, size in zip(TREE.parents, TREE.sizes[:-1], strict=True))
    found = whole(Tree(2 * copies, parents), np.tile(finest, (copies, 1, 1)), bytes(32), 2, (0,))
    limit = norm.isf(1e-6 / finest.size / 2)
    mean = found[2].reshape(copies, *finest.shape).mean(axis=0)
    part = finest - np.floor(finest)
    error = np.sqrt(part * (1 - part) / copies)
    assert (np.abs(mean - finest) <= limit * error + 1e-9).all()
    assert (np.abs(mean - (finest + 0.05)) > limit * error + 1e-9).any()
    assert (found[2].sum(axis=2) == np.tile(np.rint(finest.sum(axis=2)), (copies, 1))).all()


def test_exact_tables_that_say_different_things_do_not_stay_together() -> None:
    """For two at one node numbers would exist; for three, no non-negative whole ones need to."""
    exact = (WorkloadDraw(2, (0,), False, 0.0), WorkloadDraw(2, (1,), False, 0.0))
    design = Design(SIZES, TREE, SETS, (*TABLES, *exact))
    assert saying_all((take.level, take.axes) for take in exact) is None
    tables = {(level, axes): np.zeros(design.shape(level, axes)) for level, axes in design.tables}
    with pytest.raises(ValueError, match="no exact table says all others"):
        adjusted(design, tables, non_negative=True, integer=False)
    assert saying_all([(1, ()), (2, (0,)), (2, ()), (0, (0,))]) == (2, (0,))
    assert saying_all([]) is None


@pytest.mark.parametrize("axes", subsets((0, 1, 2)))
def test_blocks_are_put_together_as_they_were(axes: Axes) -> None:
    table = np.arange(24.0).reshape(2, 12)
    blocks = Blocks(WIDE, axes)
    parts = blocks.apart(table)
    assert parts.shape == (2, blocks.count, 12 // blocks.count)
    assert (blocks.together(parts) == table).all()
    gone = tuple(1 + axis for axis in range(3) if axis not in axes)
    assert (parts.sum(axis=2) == table.reshape(2, *WIDE).sum(axis=gone).reshape(2, -1)).all()
