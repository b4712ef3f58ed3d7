"""Strategies of workloads: costs by brute force, variances by dense least squares, shares by a general optimiser."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dprelease.estimate.workloads.design import Axes, Design, Tree, WorkloadDraw
from dprelease.estimate.workloads.reconcile import node_variances
from dprelease.plan.design.residuals import Workload, cell_weights, rmse, select
from dprelease.plan.design.tree_variance import mean_variances
from dprelease.plan.design.workload_cost import Problem
from dprelease.plan.design.workload_pairs import PairLosses
from dprelease.plan.design.workload_strategy import Part, Strategy, cost, evaluate, strategies
from tests.tiers import few

Reals = npt.NDArray[np.float64]
Shares = dict[Axes, list[Fraction | None]]
ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
STATES = Tree(1, (np.zeros(3, dtype=np.int64), np.array([2, 0, 0, 1, 0, 2])))
PAIR = Tree(2, (np.array([0, 1, 1]),))
CASES = [
    ((2, 3), Tree.flat(), ((), (0,), (1,), (0, 1))),
    ((2, 3), STATES, ((), (0,), (0, 1))),
    ((3, 1, 2), PAIR, ((0, 2), (1,), (0, 1))),
    ((2, 2, 3), PAIR, ((0, 1), (1, 2))),
]


def by_name(found: tuple[Strategy, ...]) -> dict[str, Strategy]:
    return {one.name: one for one in found}


def contrast(sizes: tuple[int, ...], axes: Axes) -> Reals:
    """The whole-number matrix of a residual over the product of all attributes."""
    matrix: Reals = np.ones((1, 1))
    for i, n in enumerate(sizes):
        part = n * np.eye(n) - 1 if i in axes else np.ones((1, n))
        matrix = np.asarray(np.kron(matrix, part), dtype=np.float64)
    return matrix


def marginal(sizes: tuple[int, ...], axes: Axes) -> Reals:
    matrix: Reals = np.ones((1, 1))
    for i, n in enumerate(sizes):
        matrix = np.asarray(np.kron(matrix, np.eye(n) if i in axes else np.ones((1, n))), dtype=np.float64)
    return matrix


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("sizes", [(2,), (4,), (2, 2, 2), (2, 3, 4), (3, 3, 5), (1, 2, 3)])
def test_the_cost_is_the_largest_move_of_any_neighbor(sizes: tuple[int, ...], nodes: int) -> None:
    """Every row against every other row, in any node, and against no row (one that was not counted)."""
    for way in range(len(sizes) + 1):
        for axes in combinations(range(len(sizes)), way):
            scale = float(np.prod([sizes[i] for i in axes]))
            for residual, matrix in ((True, contrast(sizes, axes) / scale), (False, marginal(sizes, axes))):
                rows = np.kron(np.eye(nodes), matrix).T
                inner = rows @ rows.T
                lengths = np.diag(inner)
                apart, alone = np.max(lengths[:, None] + lengths - 2 * inner), np.max(lengths)
                one = cost(axes, sizes, residual=residual, nodes=nodes)
                two = cost(axes, sizes, residual=residual, nodes=nodes, replace_one=True)
                assert float(one) == pytest.approx(alone, rel=1e-12, abs=1e-12)
                assert float(two) == pytest.approx(max(alone, apart), rel=1e-12, abs=1e-12)


def dense(sizes: tuple[int, ...], tree: Tree, sets: tuple[Axes, ...], parts: list[Part], replace_one: bool) -> Reals:
    """Least squares over all cells of the lowest level, at rho = 1."""
    below: list[Reals] = [np.eye(tree.sizes[-1])]
    for parent, above in zip(tree.parents[::-1], tree.sizes[-2::-1], strict=True):
        below.insert(0, np.eye(above)[:, parent] @ below[0])
    information = np.zeros((tree.sizes[-1] * int(np.prod(sizes)),) * 2)
    for part in parts:
        scale = np.prod([sizes[i] for i in part.axes]) if part.residual else 1.0
        matrix = contrast(sizes, part.axes) / scale if part.residual else marginal(sizes, part.axes)
        matrix = np.asarray(np.kron(below[part.level], matrix), dtype=np.float64)
        length = cost(part.axes, sizes, residual=part.residual, replace_one=replace_one, nodes=tree.sizes[part.level])
        information += matrix.T @ matrix * (2 * float(part.share) / float(length))
    covariance = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
    rest = np.eye(len(covariance)) - covariance @ information
    found = np.empty((tree.levels, len(sets)))
    for (level, matrix), (at, axes) in product(enumerate(below), enumerate(sets)):
        wanted = np.kron(matrix, marginal(sizes, axes))
        known = np.abs(wanted @ rest).max() < 1e-8
        found[level, at] = np.mean(np.diag(wanted @ covariance @ wanted.T)) if known else np.inf
    return found


@settings(max_examples=few(40), deadline=None)
@given(
    case=st.sampled_from(CASES),
    chosen=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.booleans(), st.integers(1, 9)), min_size=1),
    replace_one=st.booleans(),
)
def test_any_mixture_has_the_variances_of_dense_least_squares(
    case: tuple[tuple[int, ...], Tree, tuple[Axes, ...]],
    chosen: list[tuple[int, int, bool, int]],
    replace_one: bool,
) -> None:
    sizes, tree, sets = case
    closure = [b for b in Workload(sizes, sets).incidence.residuals if all(sizes[i] > 1 for i in b)]
    parts = [
        Part(
            level % tree.levels,
            (closure if residual else sets)[at % len(closure if residual else sets)],
            residual,
            Fraction(n, 40),
        )
        for level, at, residual, n in chosen
    ]
    found = evaluate(sizes, tree, sets, parts, replace_one=replace_one)
    assert found == pytest.approx(dense(sizes, tree, sets, parts, replace_one), rel=1e-7)


@pytest.mark.parametrize("replace_one", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_candidate_adds_up_to_one_and_is_what_the_reconciliation_says(
    case: tuple[tuple[int, ...], Tree, tuple[Axes, ...]], replace_one: bool
) -> None:
    sizes, tree, sets = case
    found = strategies(sizes, tree, sets, replace_one=replace_one)

    assert [one.objective for one in found] == sorted(one.objective for one in found)
    for one in found:
        assert sum(part.share for part in one.parts) == 1
        assert min(part.share for part in one.parts) > 0
        assert one.undetermined == ()
        assert one.objective == pytest.approx(one.variances.sum())
        taken = []
        for part in one.parts:
            length = cost(
                part.axes, sizes, residual=part.residual, replace_one=replace_one, nodes=tree.sizes[part.level]
            )
            taken.append(WorkloadDraw(part.level, part.axes, part.residual, one.whole * float(length / part.share) / 2))
        theirs = node_variances(Design(sizes, tree, sets, tuple(taken)))
        means = [[float(np.mean(theirs[level, axes])) for axes in sets] for level in range(tree.levels)]
        assert one.variances == pytest.approx(np.array(means), rel=1e-9)


def optimum(problem: Problem, residual: bool) -> float:
    """The least objective of such draws, by a general optimiser over the logarithms of the shares."""
    costs = problem.residual_costs if residual else problem.table_costs
    used = np.broadcast_to(problem.incidence.p > 0, costs.shape) if residual else costs > 0

    def loss(x: Reals) -> float:
        shares = np.zeros(costs.shape)
        shares[used] = np.exp(x - x.max())
        shares /= shares.sum()
        precisions = 2 * shares / np.where(used, costs, 1) if residual else problem.from_tables(shares)
        precisions[:, problem.incidence.p == 0] = 1
        return float(np.log(np.sum(problem.losses * mean_variances(problem.shape, precisions))))

    options = {"ftol": 1e-13, "maxiter": 3000, "maxfun": 10**6}
    best = minimize(loss, np.zeros(np.count_nonzero(used)), method="L-BFGS-B", options=options)
    return float(np.exp(best.fun))


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("case", CASES[1:])
def test_shares_of_residuals_and_of_tables_are_the_optimum_of_a_general_optimiser(
    case: tuple[tuple[int, ...], Tree, tuple[Axes, ...]],
) -> None:
    sizes, tree, sets = case
    weights = np.random.default_rng(3).uniform(0.5, 4, (tree.levels, len(sets)))
    found = by_name(strategies(sizes, tree, sets, weights=weights))
    problem = Problem.of(sizes, tree, sets, False, weights)
    for name in ("residuals", "tables"):
        best = optimum(problem, name == "residuals")
        assert found[name].objective <= best * (1 + 3e-4)
        assert found[name].objective >= best * (1 - 1e-4)


def test_without_levels_residuals_are_those_of_the_closed_form() -> None:
    for weights in (None, cell_weights(Workload.ways(ADULT, (1, 2, 3)))):
        workload = Workload.ways(ADULT, (1, 2, 3))
        found = by_name(strategies(ADULT, Tree.flat(), workload.sets, weights=weights))["residuals"]
        wanted = select(workload, 2, weights)
        assert found.objective == pytest.approx(wanted.objective, rel=1e-7)
        assert found.variances[0] == pytest.approx(wanted.table_variances, rel=2e-4)
    cells = cell_weights(workload)
    assert np.sqrt(2 * found.objective / cells.sum()) == pytest.approx(
        10.51526951080805 if False else rmse(workload, 1)
    )


@pytest.mark.parametrize("sizes", [(2, 2, 3), (5, 4, 7, 2)])
def test_residuals_are_never_worse_than_tables_under_add_or_remove(sizes: tuple[int, ...]) -> None:
    for ways in ((1,), (1, 2), (0, 2, 3)):
        sets = Workload.ways(sizes, ways).sets
        for tree in (Tree.flat(), STATES, PAIR):
            found = by_name(strategies(sizes, tree, sets))
            least = found["residuals"].objective if "residuals" in found else np.inf
            assert all(least <= one.objective * (1 + 1e-6) for one in found.values())


def test_under_replace_one_residuals_are_best_where_one_pair_of_rows_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with its own worst case they pay four times their length where attributes have two values."""
    for sizes, ways in (((2, 2, 3), (1, 2)), ((2, 2, 2, 2), (2,)), ((5, 4, 3), (0, 1)), ((6, 6), (1,))):
        sets = Workload.ways(sizes, ways).sets
        now = by_name(strategies(sizes, Tree.flat(), sets, replace_one=True))
        assert min(now.values(), key=lambda one: one.objective).name == "residuals"
        with monkeypatch.context() as patched:
            patched.setattr("dprelease.plan.design.workload_pairs._MOST_COLUMNS", -1)
            apart = by_name(strategies(sizes, Tree.flat(), sets, replace_one=True))
        assert all(one.whole == 1 for one in apart.values())
        assert now["residuals"].objective < 0.98 * min(one.objective for one in apart.values())


def test_precisions_of_residuals_are_within_two_thousandths_of_the_best_for_every_pair_of_rows() -> None:
    """Duality: for any average of the pairs the closed form is below what any precisions have. Levels: of tables."""
    sizes = (4, 3, 2)
    sets = Workload.ways(sizes, (1, 2)).sets
    found = by_name(strategies(sizes, Tree.flat(), sets, replace_one=True))["residuals"]
    pairs, parts = PairLosses(sizes, Tree.flat()), found.parts
    own = [cost(part.axes, sizes, residual=True, replace_one=True) for part in parts]
    weights = np.array([float(part.share / reach) for part, reach in zip(parts, own, strict=True)])
    losses = pairs.losses(parts, weights.tolist())
    incidence = Workload(sizes, sets).incidence
    places = [incidence.residuals.index(part.axes) for part in parts]
    fall = (incidence.p * incidence.over_tables(incidence.spread))[places]

    def least(average: Reals) -> float:  # sum of c_b / (2 w_b) with sum of w_b times the average square at most 1
        return float(np.sqrt(fall * pairs.mean_squares(average / average.sum(), parts)).sum() ** 2 / 2)

    average = (losses / losses.max()) ** 64
    for _ in range(500):
        average = average / average.sum()
        squares = pairs.mean_squares(average, parts)
        best = np.sqrt(fall / squares)
        sums = pairs.losses(parts, (best / float(best @ squares)).tolist())
        average = average * (sums / sums.max()) ** 2
    assert least(average) <= found.objective * (1 + 1e-9)
    assert found.objective <= least(average) * 1.004


def test_an_authors_shares_are_taken_exactly() -> None:
    sizes, sets = (2, 8, 2, 63), ((), (0, 2, 3), (0, 1, 2, 3))
    levels = [Fraction(1, 7), Fraction(6, 7)]
    tables: Shares = {
        (): [Fraction(1, 4), None],
        (0, 2, 3): [Fraction(1, 4), Fraction(1, 3)],
        (0, 1, 2, 3): [Fraction(1, 2), Fraction(2, 3)],
    }
    (found,) = strategies(
        sizes, Tree(1, (np.zeros(9, dtype=np.int64),)), sets, level_shares=levels, table_shares=tables
    )

    assert [(part.level, part.axes, part.share) for part in found.parts] == [
        (0, (), Fraction(1, 28)),
        (0, (0, 2, 3), Fraction(1, 28)),
        (0, (0, 1, 2, 3), Fraction(1, 14)),
        (1, (0, 2, 3), Fraction(2, 7)),
        (1, (0, 1, 2, 3), Fraction(4, 7)),
    ]
    assert not any(part.residual for part in found.parts)
    assert found.undetermined == ()
    (even,) = strategies(sizes, STATES, sets, level_shares=[Fraction(1, 3)] * 3)
    assert {part.share for part in even.parts} == {Fraction(1, 9)}


def test_tables_that_an_authors_shares_leave_open_are_named() -> None:
    sets: tuple[Axes, ...] = ((0,), (1,))
    shares: Shares = {(0,): [Fraction(1), Fraction(1)], (1,): [None, None]}
    (found,) = strategies((2, 3), PAIR, sets, table_shares=shares)
    assert found.undetermined == ((0, 1), (1, 1))
    assert np.isfinite(found.variances[:, 0]).all()

    top: Shares = {(0,): [Fraction(1, 2), None], (1,): [Fraction(1, 2), Fraction(1)]}
    (found,) = strategies((2, 3), PAIR, sets, table_shares=top)
    assert found.undetermined == ((1, 0),)


def test_the_same_workload_has_the_same_strategies() -> None:
    sets = Workload.ways((4, 3, 2), (0, 1, 2)).sets
    first, second = (strategies((4, 3, 2), STATES, sets) for _ in range(2))
    assert [one.parts for one in first] == [one.parts for one in second]


def test_equal_candidates_are_there_once() -> None:
    found = strategies((5,), Tree.flat(), ((0,),))
    assert len({one.parts for one in found}) == len(found)
    assert sum(not one.parts[0].residual for one in found) == 1


def test_wrong_use_is_refused() -> None:
    sets: tuple[Axes, ...] = ((0,), (1,))
    half = Fraction(1, 2)
    with pytest.raises(ValueError, match="weight"):
        strategies((2, 3), PAIR, sets, weights=(1, 0))
    with pytest.raises(ValueError, match="weight"):
        strategies((2, 3), PAIR, sets, weights=np.ones((3, 2)))
    with pytest.raises(ValueError, match="add up to 1, not 5/6"):
        strategies((2, 3), PAIR, sets, level_shares=[half, Fraction(1, 3)])
    with pytest.raises(ValueError, match="level 1 are at least 0 and add up to 1, not 1/2"):
        strategies((2, 3), PAIR, sets, table_shares={(0,): [half, half], (1,): [half, None]})
    with pytest.raises(ValueError, match="published tables"):
        strategies((2, 3), PAIR, sets, table_shares={(0, 1): [Fraction(1)] * 2})
    with pytest.raises(ValueError, match="not one of the sets"):
        evaluate((2, 3), PAIR, sets, [Part(0, (0, 1), False, Fraction(1))])
    with pytest.raises(ValueError, match="not in the closure"):
        evaluate((2, 3), PAIR, sets, [Part(0, (0, 1), True, Fraction(1))])
