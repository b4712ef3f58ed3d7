"""ResidualPlanner's selection against dense linear algebra, a dual bound, and the figures of the authors' code."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from dprelease.errors import PlanError
from dprelease.plan.design.residuals import Workload, cell_weights, max_variance, minimax, rmse, select
from tests.reference_splits import elliptic_std

Reals = npt.NDArray[np.float64]
ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
CPS = (50, 100, 7, 4, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
SMALL = [
    Workload((2, 3), ((0,), (1,))),
    Workload.ways((2, 3, 4), (0, 1, 2)),
    Workload((4, 2, 3), ((), (0, 2), (1,))),
    Workload((3, 3, 2, 2), ((0, 1, 2), (2, 3), (3,))),
]


@pytest.mark.parametrize(
    ("sizes", "ways", "expected"),
    [
        (ADULT, (1,), 3.0468232175613394),
        (ADULT, (2,), 6.358720131533941),
        (ADULT, (3,), 10.51526951080805),
        (ADULT, (0, 1, 2, 3), 10.665008050725904),
        (CPS, (1,), 1.743944635214825),
        (LOANS, (3,), 8.701935181268082),
    ],
)
def test_rmse_of_the_authors_code(sizes: tuple[int, ...], ways: tuple[int, ...], expected: float) -> None:
    """Golden cases rp-Adult-*, rp-CPS-(1,) and rp-Loans-(3,)."""
    assert rmse(Workload.ways(sizes, ways), 1) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("ways", "expected"), [((2,), 67.80212604160047), ((3,), 236.8428074930888), ((0, 1, 2, 3), 253.60515597344883)]
)
def test_largest_variance_of_the_authors_code(ways: tuple[int, ...], expected: float) -> None:
    """Golden cases rp-maxvar-*; theirs is a numerical solver."""
    found = minimax(Workload.ways(ADULT, ways), 1, tolerance=1e-9)

    assert found.objective == pytest.approx(expected, rel=3e-9)
    assert found.rounds < 100
    assert max_variance(Workload.ways(ADULT, ways), 1) == pytest.approx(expected, rel=5e-6)


def axes_of(workload: Workload, centred: tuple[int, ...], kept: tuple[int, ...]) -> Reals:
    """The matrix from records to the marginal of ``kept``, centred along some of its axes."""
    matrix: Reals = np.ones((1, 1))
    for i, n in enumerate(workload.sizes):
        part = np.eye(n) if i in kept else np.ones((1, n))
        matrix = np.asarray(np.kron(matrix, part - 1 / n if i in centred else part), dtype=np.float64)
    return matrix


@pytest.mark.parametrize("workload", SMALL)
def test_cost_and_variances_by_dense_linear_algebra(workload: Workload) -> None:
    """Least squares from all residual measurements: every record's cost, every cell's variance, no bias."""
    found = select(workload, 0.8, np.arange(1.0, len(workload.sets) + 1))
    residuals = [axes_of(workload, b, b) for b in found.residuals]
    records = residuals[0].shape[1]

    # A centred residual has noise covariance s P; its rows lie in the range of P, where the inverse is 1 / s.
    information = sum(r.T @ r / s for r, s in zip(residuals, found.variances, strict=True))
    assert np.diag(information) == pytest.approx(np.full(records, 0.8))
    covariance = np.linalg.pinv(information, rcond=1e-12)
    for axes, variance in zip(workload.sets, found.table_variances, strict=True):
        marginal = axes_of(workload, (), axes)
        assert marginal @ covariance @ information == pytest.approx(marginal, abs=1e-9)
        assert np.diag(marginal @ covariance @ marginal.T) == pytest.approx(np.full(len(marginal), variance))


@pytest.mark.parametrize("workload", SMALL)
def test_no_gaussian_mechanism_does_better(workload: Workload) -> None:
    """Duality (Edmonds, Nikolov and Ullman 2020): the squared nuclear norm of W over the square root of the number of
    records is below the total squared error of every Gaussian mechanism at mu = 1, whatever its strategy."""
    weights = np.linspace(1, 2, len(workload.sets))
    stacked = np.vstack([axes_of(workload, (), a) * np.sqrt(w) for a, w in zip(workload.sets, weights, strict=True)])
    bound = np.linalg.norm(stacked / np.sqrt(stacked.shape[1]), "nuc") ** 2
    found = select(workload, 1, weights * cell_weights(workload))

    assert found.objective == pytest.approx(bound, rel=1e-12)
    assert found.gap == 0


@pytest.mark.parametrize("workload", SMALL)
def test_the_closed_form_is_the_optimum_of_a_general_optimiser(workload: Workload) -> None:
    weights = np.linspace(1, 3, len(workload.sets))
    found = select(workload, 1, weights)
    n, counts = np.array(workload.sizes, dtype=float), len(found.residuals)
    p = np.array([np.prod(1 - 1 / n[list(b)]) for b in found.residuals])
    loss = np.array(
        [
            [
                p[i] * np.prod(n[sorted(set(a) - set(b))] ** -2.0) * (set(b) <= set(a))
                for i, b in enumerate(found.residuals)
            ]
            for a in workload.sets
        ]
    )
    assert loss @ found.variances == pytest.approx(found.table_variances)
    best = minimize(
        lambda x: float(weights @ loss @ (p / x)),
        np.full(counts, 1 / counts),
        method="SLSQP",
        bounds=[(1e-9, None)] * counts,
        constraints=[{"type": "eq", "fun": lambda x: x.sum() - 1}],
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert found.objective == pytest.approx(best.fun, rel=1e-6)
    assert found.objective == pytest.approx(weights @ found.table_variances)
    assert (p / found.variances).sum() == pytest.approx(1)


@pytest.mark.parametrize("workload", SMALL)
def test_minimax_has_a_true_gap_and_nothing_near_is_better(workload: Workload) -> None:
    targets = np.linspace(1, 4, len(workload.sets))
    found = minimax(workload, 0.5, targets, tolerance=1e-8)

    assert (found.table_variances / targets**2).max() == pytest.approx(found.objective, rel=1e-14)
    assert found.gap <= 1e-8
    assert found.objective * (1 - 1e-8) <= found.lower_bound * (1 + 1e-12)
    rng = np.random.default_rng(8)
    for _ in range(300):  # the optimum of any weights is on the boundary of what can be had
        other = select(workload, 0.5, rng.dirichlet(np.ones(len(targets))) + 1e-9)
        assert (other.table_variances / targets**2).max() >= found.lower_bound * (1 - 1e-12)


def test_one_way_counts_of_binary_attributes_are_the_elliptic_mechanism() -> None:
    for k in (1, 2, 5, 20):
        found = select(Workload.ways((2,) * k, (1,)), 0.7**2)
        assert found.table_variances == pytest.approx(np.full(k, elliptic_std(k, 0.7) ** 2))


def test_equal_weights_spare_small_tables_and_cells_starve_them() -> None:
    workload = Workload.ways(ADULT, (1, 2, 3))
    ways = np.array([len(axes) for axes in workload.sets])
    by_table, by_cell = (select(workload, 1, w).table_variances for w in (None, cell_weights(workload)))

    assert np.sqrt(by_cell[ways == 1].mean() / by_cell[ways == 3].mean()) > 2
    assert np.sqrt(by_table[ways == 1].mean() / by_table[ways == 3].mean()) < 1.1
    largest = minimax(workload, 1).table_variances.max()
    assert largest < by_table.max()
    assert largest < by_cell.max()


def test_an_attribute_of_one_value_changes_nothing() -> None:
    plain, padded = Workload.ways((3, 4), (1, 2)), Workload((3, 1, 4), ((0,), (2,), (0, 2), (0, 1, 2)))
    found = select(padded, 1, (1, 1, 0.5, 0.5))

    assert found.objective == pytest.approx(select(plain, 1).objective)
    assert found.table_variances == pytest.approx(select(plain, 1).table_variances[[0, 1, 2, 2]])
    assert [b for b, s in zip(found.residuals, found.variances, strict=True) if s == 0] == [
        b for b in found.residuals if 1 in b
    ]


def test_the_closure_is_all_subsets_in_order_and_many_attributes_do_not_overflow() -> None:
    sets = ((0, 1, 3), (2,), tuple(range(4, 16)))
    workload = Workload((1_000_003,) * 2 + (3,) * 118, sets)
    found = select(workload, 1)

    wanted = {c for axes in sets for way in range(len(axes) + 1) for c in combinations(axes, way)}
    assert set(found.residuals) == wanted
    assert list(found.residuals) == sorted(wanted, key=lambda b: (len(b), b))
    assert np.isfinite(found.variances).all()
    assert (found.variances > 0).all()


def test_noise_scales_with_the_budget() -> None:
    workload = Workload.ways(CPS, (1, 2))
    for of in (select, minimax):
        assert of(workload, 4).table_variances == pytest.approx(of(workload, 1).table_variances / 4)


def test_a_hundred_attributes_are_planned_in_seconds() -> None:
    workload = Workload.ways((10,) * 50 + (5,) * 50, (0, 1, 2, 3))
    found = select(workload, 1)

    assert len(found.residuals) == len(workload.sets) == 166_751
    assert np.isfinite(found.table_variances).all()


def test_wrong_use_is_refused() -> None:
    good = Workload((2, 3), ((0,), (1,)))
    for sizes, sets in product([(2, 3)], [(), ((0,), (0,)), ((1, 0),), ((2,),), ((-1,),), ((0, 0),)]):
        with pytest.raises(ValueError, match="marginal"):
            Workload(sizes, sets)
    with pytest.raises(ValueError, match="at least one value"):
        Workload((2, 0), ((0,),))
    with pytest.raises(ValueError, match="weight"):
        select(good, 1, (1, 0))
    with pytest.raises(ValueError, match="weight"):
        select(good, 1, (1,))
    with pytest.raises(ValueError, match="target"):
        minimax(good, 1, (1, -1))
    with pytest.raises(ValueError, match="budget"):
        select(good, 0)
    with pytest.raises(ValueError, match="too far apart"):
        select(Workload((100, 100, 100), ((0, 1, 2),)), 1, (1e-320,))
    with pytest.raises(PlanError, match="after 1 rounds") as found:
        minimax(Workload.ways(ADULT, (0, 1, 2)), 1, rounds=1)
    assert found.value.code == "DPR-P104"
