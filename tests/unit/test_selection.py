"""Thresholds and selection probabilities against the mechanisms themselves: docs/proofs/sparse-histogram.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from dprelease.privacy.theorems.threshold import continuous_tail, gaussian_tail, laplace_tail
from tests.reference_thresholds import above_delta, gshm_delta, gshm_sides, laplace_tau, partition_pi

Reals = npt.NDArray[np.float64]
MILLIONTH = Fraction(1, 10**6)


def close(found: Fraction, expected: float, tolerance: float) -> bool:
    return abs(float(found) / expected - 1) <= tolerance


def test_figures_of_other_implementations() -> None:
    """Golden cases gthr-4.0-30-1, gthr-10.0-60-1, lthr-1.0-15-1, laptau, piopt-1, piopt-5, piopt-18, gshm."""
    one = Fraction(1)
    assert close(above_delta(continuous_tail, Fraction(4), 30, 1), 2.0838886172214188e-13, 1e-4)
    assert close(above_delta(continuous_tail, Fraction(10), 60, 1), 1.8175106974993582e-09, 1e-4)
    assert close(above_delta(laplace_tail, one, 15, 1), 2.2363251572787846e-07, 1e-6)
    assert close(laplace_tau(one, MILLIONTH, 1), 14.122363377404328, 1e-12)
    assert close(partition_pi(one, MILLIONTH, 1), 1e-06, 1e-9)
    assert close(partition_pi(one, MILLIONTH, 5), 8.579102488372157e-05, 1e-9)
    assert close(partition_pi(one, MILLIONTH, 18), 0.9945038117966537, 1e-9)
    assert close(gshm_delta(one, Fraction("13.8"), Fraction(72), 10), 9.073028528592909e-07, 1e-9)


def lattice_above(weight: Reals, start: int) -> float:
    reach = len(weight) // 2
    return float(weight[np.arange(-reach, reach + 1) >= start].sum() / weight.sum())


@pytest.mark.parametrize(("threshold", "l0", "linf"), [(1, 1, 1), (5, 1, 1), (9, 4, 1), (9, 3, 4), (7, 1, 7)])
def test_integer_thresholds_are_what_the_mechanism_releases(threshold: int, l0: int, linf: int) -> None:
    """Release when count + noise is above the threshold, for counts up to linf: summed over the lattice."""
    for scale in (Fraction(1, 2), Fraction(1), Fraction(39, 10), Fraction(4), Fraction(30)):
        k = np.arange(-1500, 1501, dtype=np.float64)
        for found, weight in (
            (above_delta(laplace_tail, scale, threshold, l0, linf), np.exp(-np.abs(k) / float(scale))),
            (above_delta(gaussian_tail, scale, threshold, l0, linf), np.exp(-(k**2) / 2 / float(scale) ** 2)),
        ):
            released = lattice_above(weight, threshold - linf + 1)
            assert close(found, -math.expm1(l0 * math.log1p(-released)), 1e-11)


def test_the_rule_is_part_of_the_mechanism() -> None:
    """With "at least t" a key appears e times as often as with "above t" at scale 1: one delta is not the other's.

    OpenDP 0.16.0, whose delta for scale 1 and threshold 15 is the golden one, releases integer counts of at least 15.
    """
    at_least = lattice_above(np.exp(-np.abs(np.arange(-200.0, 201.0))), 15 - 1)

    assert close(above_delta(laplace_tail, Fraction(1), 14, 1), at_least, 1e-11)
    assert at_least > 2.7 * float(above_delta(laplace_tail, Fraction(1), 15, 1))


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(4), Fraction(25)])
def test_the_continuous_tail_bounds_the_integer_one_above_but_not_at_least(sigma: Fraction) -> None:
    for threshold in (2, 5, 20):
        continuous = above_delta(continuous_tail, sigma, threshold, 3)
        assert above_delta(gaussian_tail, sigma, threshold, 3) <= continuous
        assert above_delta(gaussian_tail, sigma, threshold - 1, 3) > continuous


def test_a_tail_beyond_floating_point_is_not_zero() -> None:
    found = above_delta(gaussian_tail, Fraction(1), 50, 1)

    assert Fraction(1, 10**545) < found < Fraction(1, 10**542)


@pytest.mark.parametrize("l0", [1, 3, 100])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_laplace_tau_is_the_least_threshold(epsilon: Fraction, l0: int) -> None:
    tau, scale = float(laplace_tau(epsilon, MILLIONTH, l0)), float(l0 / epsilon)

    def released(threshold: float) -> float:
        return -math.expm1(l0 * math.log1p(-0.5 * math.exp(-(threshold - 1) / scale)))

    assert released(tau) == pytest.approx(1e-6, rel=1e-9)
    assert released(tau - scale / 100) > 1.005e-6


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.01), (0.3, 0.05), (2.0, 0.001), (0.0, 0.1)])
def test_partition_pi_is_the_optimum_of_a_linear_program(epsilon: float, delta: float) -> None:
    """All (epsilon, delta) constraints between neighbouring counts, and the sum of probabilities maximised."""
    last, grow = 14, math.exp(epsilon)
    rows, limits = [], []
    for n in range(last):
        for low, high in ((n, n + 1), (n + 1, n)):
            row = np.zeros(last + 1)
            row[high], row[low] = 1, -grow  # p(high) <= e^eps p(low) + delta
            rows.append(row)
            limits.append(delta)
            rows.append(-row)  # 1 - p(high) <= e^eps (1 - p(low)) + delta
            limits.append(grow - 1 + delta)
    bounds = [(0.0, 0.0)] + [(0.0, 1.0)] * last
    best = linprog(-np.ones(last + 1), A_ub=np.array(rows), b_ub=limits, bounds=bounds, method="highs").x
    ours = [float(partition_pi(Fraction(str(epsilon)), Fraction(str(delta)), n)) for n in range(last + 1)]

    assert ours == pytest.approx(best, abs=1e-9)


def key(c: int, sigma: float, tau: float, new: bool) -> tuple[Reals, Reals]:
    """Masses of what is published about one key, without and with the unit: withheld, then bins of the noisy count."""
    edges = np.linspace(tau, max(tau + 1e-9, c + 9 * sigma), 1_200)

    def masses(count: int) -> Reals:
        below = norm.cdf((edges - count) / sigma)
        return np.concatenate([below[:1], np.diff(below), [1 - below[-1]]])

    without = np.concatenate([[1.0], np.zeros(len(edges))]) if new else masses(c)
    return without, masses(1 if new else c + 1)


def sticks(keys: list[tuple[Reals, Reals]], epsilon: float) -> tuple[float, float]:
    """The hockey-stick where the unit is added, and where it is removed."""
    without, added = np.ones(1), np.ones(1)
    for before, after in keys:
        without, added = np.outer(without, before).ravel(), np.outer(added, after).ravel()
    grow = math.exp(epsilon)
    return float(np.maximum(added - grow * without, 0).sum()), float(np.maximum(without - grow * added, 0).sum())


SPLITS = [(0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]
NOISES = [(0.5, 1.5, 3.0), (1.0, 0.8, 4.5), (0.2, 3.0, 2.0), (0.1, 2.0, 3.25)]


@pytest.mark.parametrize(("shared", "own"), SPLITS)
@pytest.mark.parametrize(("epsilon", "sigma", "tau"), NOISES)
def test_gshm_against_the_mechanism_itself(shared: int, own: int, epsilon: float, sigma: float, tau: float) -> None:
    """Bins only lose (data processing), so that every figure is below the true one, and 1,200 lose little."""
    exact = Fraction(str(epsilon)), Fraction(str(sigma)), Fraction(str(tau)) - 1
    added, removed = map(float, gshm_sides(*exact, shared, own))
    whole = float(gshm_delta(*exact, shared + own))
    for c in (1, 3, 60):
        found = sticks([key(c, sigma, tau, False)] * shared + [key(1, sigma, tau, True)] * own, epsilon)
        assert found[0] <= added * (1 + 1e-12) + 1e-15
        assert found[1] <= removed * (1 + 1e-12) + 1e-15
    assert found[0] > added * (1 - 1e-3)  # so 99 % of the formula would be exceeded
    assert found[1] >= removed * (1 - 1e-3) - 1e-15
    assert removed <= added <= whole


@pytest.mark.parametrize("sigma", [Fraction(2), Fraction(4), Fraction(12)])
def test_gshm_takes_the_worst_division_of_the_keys(sigma: Fraction) -> None:
    exact = Fraction(1), sigma, Fraction(14)
    sides = [gshm_sides(*exact, j, 12 - j) for j in range(13)]

    assert gshm_delta(*exact, 12) == max(side for pair in sides for side in pair)
    assert all(removed <= added for added, removed in sides)
    fewer = [gshm_delta(*exact, k) for k in range(1, 13)]
    assert fewer == sorted(fewer)


def test_gshm_delta_is_never_above_adding_the_two_deltas() -> None:
    for k in (1, 7, 30):
        sigma, tau_minus_1 = Fraction(5), Fraction(25)
        both = above_delta(continuous_tail, sigma, 26, k) + Fraction(
            norm.cdf(math.sqrt(k) / 10 - 5 / math.sqrt(k)) - math.e * norm.cdf(-math.sqrt(k) / 10 - 5 / math.sqrt(k))
        )
        assert gshm_delta(Fraction(1), sigma, tau_minus_1, k) <= both * (1 + Fraction(1, 10**9))


def test_wrong_use_is_refused() -> None:
    one = Fraction(1)
    wrong: list[Callable[[], Fraction]] = [
        lambda: above_delta(laplace_tail, one, 0, 1),
        lambda: above_delta(laplace_tail, Fraction(0), 5, 1),
        lambda: above_delta(continuous_tail, one, 5, 0),
        lambda: above_delta(gaussian_tail, one, 5, 1, 6),
        lambda: laplace_tau(one, Fraction(9, 10), 1),
        lambda: laplace_tau(Fraction(0), MILLIONTH, 1),
        lambda: partition_pi(one, MILLIONTH, -1),
        lambda: partition_pi(one, Fraction(0), 3),
        lambda: gshm_delta(-one, one, one, 1),
        lambda: gshm_delta(one, one, one, 0),
    ]
    for refused in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            refused()
