"""Do draws of one random scale have the mixture's law? Acceptance at 1e-10, and laws that are a little wrong are seen."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.noise import Exact
from dprelease.noise.mechanisms.random_scale import RandomScaleLaw, RandomScaleMechanism, ScaleTable, scale_table

ALPHA = 1e-10
SCALE = Fraction(5000)
COUNTS, CELLS = 40, 30_000  # of 20,000 the mean's wrong laws would pass once in 10^5 runs
Floats = npt.NDArray[np.float64]


@cache
def drawn() -> Floats:
    """Shape (cells, counts)."""
    zeros = [Exact(np.zeros(CELLS, dtype=np.int64)) for _ in range(COUNTS)]
    return np.stack(RandomScaleMechanism().draw_joint(zeros, SCALE), axis=1).astype(np.float64)


def mixture(table: ScaleTable, at: Floats, freedom: int, factor: float) -> Floats:
    """P(X <= at) for a chi-square variable times factor s_m^2, the mean over the table."""
    shares = np.array(table.weights) / sum(table.weights)
    scales = np.array([float(SCALE * s) for s in table.stretches])
    found: Floats = sum(p * stats.chi2.cdf(at / (factor * s * s), freedom) for p, s in zip(shares, scales, strict=True))
    return found


def spread() -> Floats:
    """Of each cell the squares of its counts about their mean: the noise on the total is not in it."""
    values = drawn()
    return np.asarray(((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))


def test_the_spread_within_a_cell_has_the_law_of_its_secret_scale() -> None:
    """Given the scale, a quarter of its square times a chi-square variable with one degree less than there are counts."""
    table, found = scale_table(COUNTS), spread()

    def chance(other: ScaleTable) -> float:
        return float(stats.kstest(found, lambda at: mixture(other, at, COUNTS - 1, 0.25)).pvalue)

    assert chance(table) > ALPHA
    gaussian = ScaleTable(table.total, (Fraction(1),), (1,))
    fewer = ScaleTable(table.total, table.stretches, (1, 1, *table.weights[2:]))
    smaller = ScaleTable(table.total, tuple(s * Fraction(97, 100) for s in table.stretches), table.weights)
    for wrong in (gaussian, fewer, smaller):
        assert chance(wrong) < ALPHA


def test_the_mean_of_a_cell_has_the_noise_of_the_total_too() -> None:
    """Given the scale the mean of k counts is normal with a quarter of s^2 (1 / k + 1 / kappa^2)."""
    table, means = scale_table(COUNTS), drawn().mean(axis=1) ** 2

    def chance(kappa: float) -> float:
        factor = (1 / COUNTS + kappa**-2) / 4
        return float(stats.kstest(means, lambda at: mixture(table, at, 1, factor)).pvalue)

    assert chance(float(table.total)) > ALPHA
    for wrong in (float(table.total) * 0.9, float(table.total) * 1.1):
        assert chance(wrong) < ALPHA


def test_scales_are_drawn_anew_for_every_cell() -> None:
    found = np.log(spread())
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 6.5 / math.sqrt(CELLS)


@pytest.mark.parametrize("confidence", [Fraction(9, 10), Fraction(99, 100)])
def test_margins_hold_as_often_as_they_say(confidence: Fraction) -> None:
    """Over cells, one count of each: counts of one cell share a scale."""
    law = RandomScaleLaw(SCALE, COUNTS)
    inside = int((np.abs(drawn()[:, 7]) <= law.margin(confidence)).sum())
    assert stats.binomtest(inside, CELLS, float(confidence)).pvalue > ALPHA
    assert stats.binomtest(inside, CELLS, float(confidence) + 0.5 * float(1 - confidence)).pvalue < ALPHA


def test_the_audit_s_best_guess_is_right_as_seldom_as_delta_says() -> None:
    """Empirical epsilon: the likelihood ratio test at a loss of 1, from noise before it is rounded; and half the noise.

    With the cell's scale known to nobody, the best guess is by psi at the two centres; delta is estimated by the mean
    of (1 - e^(1 - loss))_+ over draws, and must agree with the claim's own order.
    """
    from dprelease.privacy.theorems.joint.random_scale import random_scale_delta

    counts, scale = 40, Fraction(6)
    chance, table = np.random.default_rng(20_241), scale_table(counts)
    shares = np.array(table.weights) / sum(table.weights)

    def estimated(actual: float) -> float:
        scales = actual * np.array([float(s) for s in table.stretches])
        place = chance.choice(len(shares), 200_000, p=shares)
        noise = chance.standard_normal((200_000, counts + 1)) * scales[place][:, None]
        change = np.array([*np.ones(counts), float(table.total)])
        here, there = (noise**2).sum(axis=1), ((noise + change) ** 2).sum(axis=1)

        def log_density(square: Floats) -> Floats:
            logs = np.log(shares / scales ** (counts + 1))[:, None] - square / (2 * scales[:, None] ** 2)
            top = logs.max(axis=0)
            return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))

        return float(np.maximum(-np.expm1(1 - (log_density(here) - log_density(there))), 0).mean())

    event = RandomScaleMechanism().event(scale, counts, Fraction(1))
    claimed = float(random_scale_delta(event, Fraction(1)))
    assert 0.95 < estimated(6.0) / claimed < 1.01
    assert estimated(3.0) > 2 * claimed
