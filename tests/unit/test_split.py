"""Closed-form splits against a general optimiser, and against the figures of other implementations."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import norm

from dprelease.errors import PlanError
from dprelease.plan.allocate.shares import blocks
from tests.reference_splits import (
    MomentNoise,
    elliptic_std,
    elliptic_variances,
    gaussian_clipped,
    gaussian_minimax,
    gaussian_weighted,
    laplace_weighted_absolute,
    laplace_weighted_variance,
    moments,
    smallest_mu,
)

Reals = npt.NDArray[np.float64]
Floats = tuple[float, ...]
RNG = np.random.default_rng(31)
CASES: list[tuple[Floats, Floats]] = [
    ((1.0, 2.0, 4.0), (1.0, 1.0, 4.0)),
    ((1.0,), (3.0,)),
    *((tuple(RNG.uniform(0.5, 9, n).tolist()), tuple(RNG.uniform(0.2, 20, n).tolist())) for n in (2, 4, 6)),
]


def array(values: Floats) -> Reals:
    return np.asarray(values, dtype=np.float64)


def profile(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def slsqp(
    error: Callable[[Reals], float], n: int, budget: float, bounds: list[tuple[float, float]] | None = None
) -> float:
    """The least error over spends x > 0 that add up to the budget, by a general optimiser in logarithms."""
    start = np.full(n, budget / n)
    if bounds:
        start = np.clip(start, [low for low, _ in bounds], [high for _, high in bounds])
    found = minimize(
        lambda y: math.log(error(np.exp(y))),
        np.log(start),
        method="SLSQP",
        bounds=[(math.log(low), math.log(high)) for low, high in bounds or [(1e-6 * budget, budget)] * n],
        constraints=[{"type": "ineq", "fun": lambda y: 1 - np.exp(y).sum() / budget}],
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert np.exp(found.x).sum() <= budget * (1 + 1e-9), found.message
    return float(error(np.exp(found.x)))


def test_figures_of_other_implementations() -> None:
    """Golden cases alloc-gauss, alloc-lap, alloc-minimax, alloc-mineps, ell-2, ell-5, ell-20."""
    mu = brentq(lambda m: profile(m, 1.0) - 1e-6, 0.01, 3, xtol=1e-15)
    d, w, t = (1, 2, 4.0), (1, 1, 4.0), (5, 10, 8.0)
    needed = smallest_mu(d, t)

    assert gaussian_weighted(d, w, mu) == pytest.approx(
        [14.011674735632523, 19.815500442691967, 19.815500442691967], rel=1e-9
    )
    assert laplace_weighted_variance(d, w, 1) == pytest.approx(
        [0.15180493674378878, 0.24097531628105626, 0.607219746975155], rel=1e-9
    )
    assert gaussian_minimax(d, t, mu) == pytest.approx(
        [12.134466270622374, 24.268932541244748, 19.415146032995796], rel=1e-9
    )
    assert brentq(lambda e: profile(needed, e) - 1e-6, 0, 50, xtol=1e-14) == pytest.approx(2.6265220296498026, rel=1e-9)
    assert [elliptic_std(k, 1) for k in (2, 5, 20)] == pytest.approx(
        [1.2071067811865475, 1.618033988749895, 2.73606797749979], rel=1e-12
    )


@pytest.mark.parametrize(("d", "w"), CASES)
def test_gaussian_weighted_is_the_optimum(d: Floats, w: Floats) -> None:
    mu = 0.7
    sigma, shift, weight = array(gaussian_weighted(d, w, mu)), array(d), array(w)
    best = (weight * sigma**2).sum()

    assert ((shift / sigma) ** 2).sum() == pytest.approx(mu**2, rel=1e-14)
    assert best == pytest.approx((shift * np.sqrt(weight)).sum() ** 2 / mu**2, rel=1e-14)
    assert best == pytest.approx(slsqp(lambda x: float((weight * shift**2 / x).sum()), len(d), mu**2), rel=1e-7)


@pytest.mark.parametrize(("d", "w"), CASES)
def test_laplace_splits_are_the_optimum(d: Floats, w: Floats) -> None:
    shift, weight = array(d), array(w)

    def squared(e: Reals) -> float:
        return float((weight * 2 * (shift / e) ** 2).sum())

    def absolute(e: Reals) -> float:
        return float((weight * shift / e).sum())

    for error, found in (
        (squared, laplace_weighted_variance(d, w, 1.5)),
        (absolute, laplace_weighted_absolute(d, w, 1.5)),
    ):
        assert math.fsum(found) == pytest.approx(1.5, rel=1e-14)
        assert error(array(found)) == pytest.approx(slsqp(error, len(d), 1.5), rel=1e-7)


@pytest.mark.parametrize(("d", "t"), CASES)
def test_minimax_is_the_optimum(d: Floats, t: Floats) -> None:
    sigma, shift, target = array(gaussian_minimax(d, t, 0.7)), array(d), array(t)

    assert ((shift / sigma) ** 2).sum() == pytest.approx(0.49, rel=1e-14)
    assert np.ptp(sigma / target) < 1e-12
    rng = np.random.default_rng(6)
    for _ in range(200):  # no other split has a smaller largest ratio
        other = shift / np.sqrt(rng.dirichlet(np.ones(len(d))) * 0.49)
        assert (other / target).max() >= (sigma / target).max() * (1 - 1e-12)
    assert gaussian_minimax(d, t, smallest_mu(d, t)) == pytest.approx(t)


@pytest.mark.thin(first=12)
@pytest.mark.parametrize("seed", range(60))
def test_clipped_is_the_optimum_between_its_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, mu = int(rng.integers(1, 7)), float(rng.uniform(0.3, 2))
    d, w = rng.uniform(0.5, 5, n), rng.uniform(0.2, 9, n)
    free = array(gaussian_weighted(d.tolist(), w.tolist(), mu))
    floors = np.where(rng.random(n) < 0.5, free * rng.uniform(0.5, 1.5, n), 0)
    caps = np.where(rng.random(n) < 0.5, np.maximum(floors, free * rng.uniform(0.9, 2.5, n)), np.inf)
    asked = d.tolist(), w.tolist(), mu, floors.tolist(), caps.tolist()
    if ((d / caps) ** 2).sum() >= mu**2:
        with pytest.raises(PlanError, match="mu = "):
            gaussian_clipped(*asked)
        return
    sigma = array(gaussian_clipped(*asked))

    assert (sigma >= floors).all()
    assert (sigma <= caps).all()
    if floors.all() and ((d / floors) ** 2).sum() <= mu**2:
        assert sigma == pytest.approx(floors)
        return
    assert ((d / sigma) ** 2).sum() == pytest.approx(mu**2, rel=1e-13)
    bounds = [(max((a / c) ** 2, 1e-9), (a / f) ** 2 if f else mu**2) for a, f, c in zip(d, floors, caps, strict=True)]
    best = slsqp(lambda x: float((w * d**2 / x).sum()), n, mu**2, bounds)
    assert (w * sigma**2).sum() == pytest.approx(best, rel=1e-6)


def test_clipped_without_bounds_is_the_weighted_split_and_a_fixed_query_stays() -> None:
    d, w = (1.0, 2.0, 4.0), (1.0, 1.0, 4.0)
    none = (0.0,) * 3, (math.inf,) * 3

    assert gaussian_clipped(d, w, 1, *none) == pytest.approx(gaussian_weighted(d, w, 1), rel=1e-15)
    fixed = gaussian_clipped(d, w, 1, (0, 3, 0), (math.inf, 3, math.inf))
    rest = gaussian_weighted((1, 4), (1, 4), math.sqrt(1 - 4 / 9))
    assert fixed == pytest.approx((rest[0], 3, rest[1]), rel=1e-14)
    assert gaussian_clipped(d, w, 1, (9, 9, 9), (9, 9, 9)) == (9, 9, 9)
    assert gaussian_clipped((3.0, 4.0), (1, 1), 1, (0, 0), (5, 5)) == (5, 5)  # the caps use the budget up


def test_caps_that_need_more_than_there_is_say_what_they_need() -> None:
    with pytest.raises(PlanError) as found:
        gaussian_clipped((3.0, 4.0), (1, 1), 0.5, (0, 0), (5, 5))

    assert found.value.code == "DPR-P103"
    assert "mu = 1;" in str(found.value)
    assert "rho = 0.5" in str(found.value)
    assert gaussian_clipped((3.0, 4.0), (1, 1), 1, (0, 0), (5, 5))
    with pytest.raises(PlanError):  # one query may have any noise, the other takes all
        gaussian_clipped((3.0, 4.0), (1, 1), 3 / 5, (0, 0), (5, math.inf))


@pytest.mark.parametrize("power", [1, 2])
def test_blocks_are_the_optimum(power: int) -> None:
    costs = np.array([3.0, 100.0, 0.5, 12.0])
    parts = blocks(costs.tolist(), power)
    given = np.array([float(part) for part in parts])
    total = (costs / given**power).sum()

    assert sum(parts) == 1
    assert total == pytest.approx((costs ** (1 / (1 + power))).sum() ** (1 + power), rel=1e-14)
    assert total == pytest.approx(slsqp(lambda x: float((costs / x**power).sum()), 4, 1), rel=1e-7)


@pytest.mark.parametrize("power", [1, 2])
def test_parts_of_blocks_are_exact(power: int) -> None:
    assert blocks((7.3, 7.3, 7.3), power) == (Fraction(1, 3),) * 3
    assert blocks((1, 2 ** (power + 1)), power) == (Fraction(1, 3), Fraction(2, 3))
    assert blocks((5,), power) == (Fraction(1),)
    tiny = blocks((1e-300, 1e300), power)  # never nothing: what gets no budget cannot be drawn
    assert sum(tiny) == 1
    assert tiny[0] == Fraction(1, 2**40 + 1)
    costs = RNG.uniform(0.001, 50, 40).tolist()
    for cost, part, exact in zip(costs, blocks(costs, power), np.power(costs, 1 / (1 + power)), strict=True):
        assert float(part) == pytest.approx(exact / np.power(costs, 1 / (1 + power)).sum(), rel=1e-11), cost


@pytest.mark.parametrize("k", [1, 2, 5, 30])
def test_the_elliptic_split_is_the_least_and_what_its_algebra_says(k: int) -> None:
    mu = 0.9
    total, centred = elliptic_variances(k, mu)

    assert (total + centred) / 4 == pytest.approx(elliptic_std(k, mu) ** 2, rel=1e-14)
    assert slsqp(lambda x: float((1 / x[0] + k / x[1]) / 4), 2, mu**2) == pytest.approx(
        elliptic_std(k, mu) ** 2, rel=1e-7
    )
    strategy = np.vstack([np.ones(k + 1), np.hstack([np.full((k, 1), -1.0), 2 * np.eye(k)])])
    strategy[0, 1:] = 0
    rows = np.array([[1.0, *map(float, f"{bits:0{k}b}")] for bits in range(min(2**k, 4096))])
    spent = ((strategy @ rows.T) ** 2 / np.array([total] + [centred] * k)[:, None]).sum(axis=0)
    assert spent == pytest.approx(mu**2)  # whatever the row


VARIANCES = [  # mean and variance of values in [0, 1], joint, separate
    (0.05, 0.01, 0.89, 1.74),
    (0.3, 0.04, 0.50, 2.02),
    (0.5, 1 / 12, 0.36, 2.47),
    (0.9, 0.02, 0.80, 3.82),
    (1.0, 0.0, 1.00, 4.24),
]


def worst(noise: Callable[[float, float], float]) -> float:
    """The largest standard deviation over all means and variances of a distribution on [-1, 1]."""
    return max(noise(m, v) for m in np.linspace(-1, 1, 41) for v in np.linspace(0, 1 - m * m, 21))


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (3.0, 0.2)])
def test_the_split_of_moments_is_the_best_in_the_worst_case(a: float, b: float) -> None:
    mu = 0.6

    def error(noise: MomentNoise) -> float:
        return worst(lambda m, v: a * noise.mean_std(m) ** 2 + (b * noise.variance_std(m, v) ** 2 if b else 0.0))

    ours = moments(mu, a, b)
    assert 1 / ours.count**2 + 1 / ours.total**2 + 1 / (4 * ours.squares**2) == pytest.approx(mu**2, rel=1e-14)
    others = [np.array([*point, 0.0][:3]) for point in np.random.default_rng(3).dirichlet(np.ones(3 if b else 2), 60)]
    near = np.array([ours.count**-2, ours.total**-2, ours.squares**-2 / 4]) / mu**2
    for share in [*others, near * [0.98, 1, 1], near * [1, 0.98, 1], near * [1, 1, 0.98]]:
        x = np.maximum(share / share.sum(), 1e-12) * mu**2
        squares = 0.5 / math.sqrt(x[2]) if b else math.inf
        assert error(MomentNoise(x[0] ** -0.5, x[1] ** -0.5, squares)) >= error(ours) * (1 - 1e-9)


def test_mean_alone_is_half_and_half_and_variance_three_four_one() -> None:
    mean, variance = moments(1), moments(1, 0, 1)

    assert (mean.count**-2, mean.total**-2, mean.squares) == pytest.approx((0.5, 0.5, math.inf))
    assert (variance.count**-2, variance.total**-2, variance.squares**-2 / 4) == pytest.approx((3 / 8, 1 / 2, 1 / 8))
    assert worst(lambda m, _: mean.mean_std(m)) == pytest.approx(2)
    assert worst(variance.variance_std) == pytest.approx(4)


def test_what_joint_moments_gain_over_separate_queries() -> None:
    """n times the standard deviation at mu = 1, values in [0, 1]: centred jointly, beside plain sums of equal share.

    Separate queries are count, sum and sum of squares of the values, each of sensitivity 1.
    """
    for mean, ours, separate in ((0.05, 0.95, 1.42), (0.3, 0.76, 1.48), (0.5, 0.71, 1.58), (0.9, 0.91, 1.90)):
        assert moments(1).mean_std(2 * mean - 1) / 2 == pytest.approx(ours, abs=0.005)
        assert math.sqrt(2 + 2 * mean**2) == pytest.approx(separate, abs=0.005)
    for mean, spread, ours, separate in VARIANCES:
        found = moments(1, 0, 1).variance_std(2 * mean - 1, 4 * spread) / 4
        assert found == pytest.approx(ours, abs=0.005)
        square = mean * mean + spread
        assert math.sqrt(3 * (1 + 4 * mean**2 + (2 * mean**2 - square) ** 2)) == pytest.approx(separate, abs=0.005)


def test_the_first_order_errors_are_those_of_a_simulation() -> None:
    rng = np.random.default_rng(12)
    x = np.clip(rng.normal(0.4, 0.5, 4_000), -1, 1)
    n, m, v = len(x), float(x.mean()), float(x.var())
    noise = moments(0.8, 1, 1)
    z = rng.normal(size=(3, 200_000)) * np.array([[noise.count], [noise.total], [noise.squares]])
    count, total, squares = n + z[0], x.sum() + z[1], (x**2 - 0.5).sum() + z[2]
    mean = total / count

    assert n * mean.std() == pytest.approx(noise.mean_std(m), rel=0.01)
    assert n * (squares / count + 0.5 - mean**2).std() == pytest.approx(noise.variance_std(m, v), rel=0.01)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: gaussian_weighted((1, 0), (1, 1), 1),
        lambda: gaussian_weighted((1, 2), (1,), 1),
        lambda: gaussian_weighted((), (), 1),
        lambda: gaussian_weighted((1,), (math.inf,), 1),
        lambda: gaussian_weighted((1,), (1,), 0),
        lambda: laplace_weighted_variance((1,), (1,), math.nan),
        lambda: gaussian_minimax((1,), (-1,), 1),
        lambda: gaussian_clipped((1,), (1,), 1, (2,), (1,)),
        lambda: gaussian_clipped((1,), (1,), 1, (0,), (0,)),
        lambda: gaussian_clipped((1,), (1,), 1, (0, 0), (1,)),
        lambda: blocks((1, 0), 1),
        lambda: blocks((), 1),
        lambda: blocks((1, 2), 3),
        lambda: elliptic_std(0, 1),
        lambda: moments(1, 0, 0),
        lambda: moments(1, -1, 2),
    ],
)
def test_wrong_use_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"above 0|as many|floor"):
        wrong()
