"""The optimal composition against published figures, brute force and an independent formula."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product
from math import comb

import mpmath
import numpy as np
import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants import kov_many
from dprelease.privacy.accountants.kov import (
    kov_closed_epsilon,
    kov_delta_unequal,
    kov_epsilon_unequal,
    kov_slack,
)
from dprelease.privacy.accountants.kov_many import Smoothed, rough_epsilon
from tests.reference_comparisons import kov_delta, kov_epsilon

F = Fraction
MP = mpmath.MPContext()
MP.dps = 80

EIGHT = [F(e) for e in ("0.1", "0.2", "0.3", "0.5", "0.5", "0.7", "0.1", "0.2")]


@pytest.mark.parametrize(
    ("each", "delta_each", "count", "delta", "expected"),
    [
        ("0.02", "0", 1000, "1e-9", 3.7343642099904577),  # kov-0.02-1000-1e-09
        ("0.1", "1e-9", 50, "1e-6", 3.1769223179453414),  # kov-delta0
        ("0.05", "0", 20, "1e-6", 0.8722820210425537),  # kov-0.05-20-1e-06
        ("0.1", "0", 100, "1e-6", 4.7745675881079865),  # kov-0.1-100-1e-06
    ],
)
def test_equal_draws_have_the_golden_epsilon(
    each: str, delta_each: str, count: int, delta: str, expected: float
) -> None:
    assert float(kov_epsilon(F(each), F(delta_each), count, F(delta))) == pytest.approx(expected, rel=1e-14)


def test_unequal_draws_have_the_golden_figures() -> None:
    assert float(kov_delta_unequal(EIGHT, [], F("0.8"))) == pytest.approx(0.2004969367518193, rel=1e-14)  # kov-het-0.8
    assert float(kov_epsilon_unequal(EIGHT, [], F("0.01"))) == pytest.approx(
        2.1670634946530414, rel=1e-9
    )  # kov-het-eps


def test_closed_form_has_the_golden_figures() -> None:
    assert kov_closed_epsilon({F("0.5"): 20}, F("1e-9")) == 10  # kov35-20x.5
    found = float(kov_closed_epsilon({F("0.1"): 100}, F("1e-6")))
    assert found == pytest.approx(5.756105519335733, rel=1e-14)  # kov35-100x.1


def test_draws_that_fail_too_often_are_refused_with_what_they_need() -> None:
    with pytest.raises(UnsupportedEvent, match=r"4\.99999e-06.*1e-06") as caught:  # kov-infeasible
        kov_epsilon(F("0.1"), F("1e-7"), 50, F("1e-6"))
    assert "at least 5.0" in caught.value.hint


def brute(epsilons: list[Fraction], epsilon: Fraction) -> mpmath.mpf:
    """D(epsilon) as a sum over all 2^k outcomes, straight from the definition."""
    total = MP.mpf(0)
    e = [MP.mpf(one.numerator) / one.denominator for one in epsilons]
    bound = MP.exp(MP.mpf(epsilon.numerator) / epsilon.denominator)
    for lies in product((0, 1), repeat=len(e)):
        p = MP.fprod((1 if lie else MP.exp(one)) / (1 + MP.exp(one)) for lie, one in zip(lies, e, strict=True))
        q = MP.fprod((MP.exp(one) if lie else 1) / (1 + MP.exp(one)) for lie, one in zip(lies, e, strict=True))
        total += max(MP.mpf(0), p - bound * q)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_the_subset_sum_equals_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    epsilons = [F(rng.randint(1, 900), 300) for _ in range(rng.randint(1, 8))]
    epsilons += epsilons[: rng.randint(0, 2)]
    deltas = [F(rng.randint(0, 3), 10**5) for _ in epsilons]
    kept = MP.fprod(1 - MP.mpf(d.numerator) / d.denominator for d in deltas)
    for _ in range(4):
        epsilon = F(rng.random()) * sum(epsilons)
        expected = 1 - kept * (1 - brute(epsilons, epsilon))
        found = kov_delta_unequal(epsilons, deltas, epsilon)
        found_real = MP.mpf(found.numerator) / found.denominator
        assert expected <= found_real <= expected * (1 + MP.mpf(10) ** -27)


@pytest.mark.parametrize("delta", ["0.3", "1e-3", "1e-6", "1e-12", "1e-30", "1e-60"])
@pytest.mark.parametrize(("each", "count"), [("0.05", 20), ("0.3", 7), ("0.02", 300), ("2", 5)])
def test_delta_and_epsilon_are_inverse_between_lattice_points_too(each: str, count: int, delta: str) -> None:
    epsilon = kov_epsilon(F(each), F(0), count, F(delta))
    back = kov_delta(F(each), F(0), count, epsilon)
    assert back <= F(delta)
    if 0 < epsilon < F(each) * count * (1 - F(1, 10**9)):  # nearer to the end, epsilon has too few digits
        assert float(back / F(delta)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("epsilon", ["0", "0.013", "0.71", "1.4", "1.99"])
def test_equal_draws_follow_the_printed_formula(epsilon: str) -> None:
    each, count, own, total = MP.mpf("0.1"), 20, MP.mpf("1e-7"), MP.mpf(epsilon)
    inside = sum(
        comb(count, lies) * max(MP.mpf(0), MP.exp((count - lies) * each) - MP.exp(total + lies * each))
        for lies in range(count + 1)
    )
    expected = 1 - (1 - own) ** count * (1 - inside / (1 + MP.exp(each)) ** count)
    found = kov_delta(F("0.1"), F("1e-7"), count, F(epsilon))
    assert float(found) == pytest.approx(float(expected), rel=1e-14)


def test_nothing_is_lost_far_below_the_last_place_of_a_float() -> None:
    # the last outcome alone: D = p^k - exp(epsilon) q^k just below k e
    found = kov_delta(F(1, 10), F(0), 100, F(10) - F(1, 10**6))
    p = MP.exp(MP.mpf("0.1")) / (1 + MP.exp(MP.mpf("0.1")))
    expected = p**100 * -MP.expm1(-(MP.mpf(10) ** -6))
    assert float(found) == pytest.approx(float(expected), rel=1e-14)
    assert found < F(1, 10**33)


def test_edges() -> None:
    assert kov_epsilon(F(1, 10), F(0), 5, F(0)) == F(1, 2)
    assert kov_delta(F(1, 10), F(0), 5, F(1, 2)) == 0
    assert kov_delta(F(1, 10), F(1, 100), 1, F(1, 10)) == F(1, 100)
    assert kov_epsilon(F(1, 10), F(1, 100), 1, F(1, 100)) == F(1, 10)
    assert kov_epsilon(F(1, 10), F(0), 5, F(9, 10)) == 0
    assert kov_epsilon_unequal([], [], F(0)) == 0
    assert kov_epsilon(F(0), F(0), 5, F(0)) == 0
    assert kov_delta_unequal([], [F(1, 4), F(1, 4)], F(0)) == F(7, 16)
    with pytest.raises(ValueError, match="not negative"):
        kov_delta(F(-1), F(0), 1, F(0))


def test_the_slack_is_what_the_product_leaves() -> None:
    assert kov_slack([F(1, 10), F(1, 5)], F(1, 2)) == 1 - F(1, 2) / (F(9, 10) * F(4, 5))
    assert kov_slack({F(1, 10): 2}, F(19, 100)) == 0
    many = {F(1, 3**40 + i): 100 for i in range(200)}  # too many digits for an exact product
    left = kov_slack(many, F(1, 100))
    expected = 1 - MP.mpf("0.99") / MP.fprod((1 - MP.mpf(d.numerator) / d.denominator) ** n for d, n in many.items())
    assert 0 <= float(expected - MP.mpf(left.numerator) / left.denominator) < 1e-30


MANY = {
    "different": {F(1, 50) + F(i * i % 997, 60_000): 1 for i in range(300)},
    "nearly equal": {F(1, 50) + F(i, 10**8): 1 for i in range(200)},
    "a few large ones": {**{F(1, 100) + F(i, 10**4): 1 for i in range(100)}, F(3): 1, F(2): 1},
}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("delta", ["0.05", "1e-6"])
def test_the_bound_for_very_many_is_the_same_in_both_directions(name: str, delta: str) -> None:
    epsilon = kov_epsilon_unequal(MANY[name], [], F(delta))
    back = kov_delta_unequal(MANY[name], [], epsilon)
    assert float(back / F(delta)) == pytest.approx(1, rel=1e-6)
    rough = rough_epsilon({float(e): n for e, n in MANY[name].items()}, float(mpmath.log(delta)))
    # next to a lattice point of nearly equal draws the certified bound is the coarser one
    assert rough == pytest.approx(float(epsilon), rel=1e-4 if name == "nearly equal" else 1e-6)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("delta", ["0.2", "1e-3", "1e-6", "1e-12"])
def test_the_bound_for_very_many_against_a_convolution(delta: str) -> None:
    """200 different multiples of 1/2000, convolved one by one: sums of positive floats, right to 1e-12."""
    steps = np.random.default_rng(5).permutation(np.arange(10, 210))
    p = np.ones(1)
    for step in steps.tolist():
        keep = 1 / (1 + math.exp(-step / 2000))
        wider = np.zeros(len(p) + 2 * step)
        wider[2 * step :] += keep * p
        wider[: len(p)] += (1 - keep) * p
        p = wider
    losses = (np.arange(len(p)) - steps.sum()) / 2000
    draws = {F(step, 2000): 1 for step in steps.tolist()}
    epsilon = kov_epsilon_unequal(draws, [], F(delta))
    above = losses > float(epsilon)
    true = float(np.sum(p[above] * -np.expm1(float(epsilon) - losses[above])))
    claimed = float(kov_delta_unequal(draws, [], epsilon))
    assert true * (1 - 1e-11) <= claimed <= true * (1 + 1e-5)
    assert true <= float(F(delta)) * (1 + 1e-11)
    assert true == pytest.approx(float(F(delta)), rel=1e-5)


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("delta", ["0.3", "1e-6", "1e-15"])
@pytest.mark.parametrize(
    "draws",
    [
        {F("0.02"): 1000},
        {F(3): 2},
        {F(1, 7) + F(i, 97): 1 for i in range(10)},
        {F("0.3"): 30, F("0.011"): 200},
        {F("0.001"): 50, F(1): 3, F("2.5"): 1},
        {F(30): 1, F("0.1"): 20},
    ],
)
def test_the_bound_for_very_many_is_above_the_exact_figure_and_close(draws: dict[Fraction, int], delta: str) -> None:
    exact = kov_epsilon_unequal(draws, [], F(delta))
    log_delta = float(mpmath.log(delta))
    total = sum((e * n for e, n in draws.items()), F(0))
    bound = min(total, Smoothed.at(draws, log_delta=log_delta).epsilon(F(delta)))
    assert exact <= bound + F(1, 10**25)
    assert float(bound - exact) <= 2e-6 * float(exact)
    at = exact * F(9, 10) if exact else total / 7
    true = kov_delta_unequal(draws, [], at)
    claimed = Smoothed.at(draws, epsilon=float(at)).log_delta(at)
    over = float(claimed - MP.log(MP.mpf(true.numerator) / true.denominator))
    assert -1e-25 < over < 2e-6


@pytest.mark.parametrize("places", [range(30), range(0, 60_000, 7)])  # of so many the turns are put together
def test_the_size_of_a_trapezoid_is_that_of_each_draw(places: range) -> None:
    rng, at, gap = np.random.default_rng(3), np.array(places), 0.31
    e, n = rng.uniform(0.02, 0.9, 21), rng.integers(1, 4, 21).astype(float)
    tau = np.tanh(3 * e)
    turn = np.outer(at * gap, e)
    level = np.cos(turn) ** 2 + (tau * np.sin(turn)) ** 2
    found = kov_many._fall(e, n, tau, 1 - tau**2, gap, at)
    assert np.abs(found - np.log(level) @ n / 2).max() < 1e-9
