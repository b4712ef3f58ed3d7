"""Do the drawn vectors have the stated law? Acceptance at 1e-10, and a scale that is a little wrong is rejected.

Each case draws once, 10^5 vectors and more where one coordinate shall have that power, and tests them several times.
``make nightly`` draws so many that a scale wrong by 3 % is rejected; every commit has 0.36 of them, which reject one wrong
by 5 %: the expected statistic grows with the draws and with the square of the error, and 0.36 = (3 / 5)^2. Neither a
sound sampler nor a wrong scale is taken for the other with a chance above 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from dprelease.noise import JOINT_MECHANISMS, Exact
from dprelease.noise.mechanisms.knorm import KNormLaw
from dprelease.noise.mechanisms.lattice_ball import Ball

ALPHA = 1e-10
# so many that the expected statistic of a wrong scale is seven deviations and more above the limit
DRAWS = {1: 525_000, 2: 350_000, 5: 260_000, 12: 52_000}
FEW, FULL = (Fraction(36, 100), Fraction(5, 100)), (Fraction(1), Fraction(3, 100))  # part of these draws, and the error
BINS = 12
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
SETTINGS = ((1, Fraction(15, 2)), (2, Fraction(3, 2)), (5, Fraction(200, 3)), (12, Fraction(5000)))
CASES = [
    pytest.param(
        ball, k, scale, *run, marks=pytest.mark.nightly if run is FULL else [pytest.mark.slow] if k != 2 else []
    )
    for run in (FEW, FULL)
    for ball in ("count", "linf")
    for k, scale in SETTINGS
    if run is FULL or k != 5
]


@cache
def drawn(ball: Ball, k: int, scale: Fraction, part: Fraction) -> Integers:
    """Shape (draws, k)."""
    zeros = [Exact(np.zeros(int(DRAWS[k] * part), dtype=np.int64)) for _ in range(k)]
    return np.stack(JOINT_MECHANISMS[f"{ball}_knorm"].draw_joint(zeros, scale), axis=1)


def norms(ball: Ball, vectors: Integers) -> Integers:
    top, bottom = np.maximum(vectors.max(axis=1), 0), np.maximum(-vectors.min(axis=1), 0)
    length: Integers = top + bottom if ball == "count" else np.maximum(top, bottom)
    return length


def norm_above(ball: Ball, k: int, scale: Fraction) -> Callable[[Integers], Floats]:
    """P(||z|| > n) by shells, in 64-bit floats: the sizes of shells by their own formulas, scaled to avoid overflow."""
    reach = int((k + 60) * 1.6 * float(scale)) + 80
    n = np.arange(1, reach, dtype=np.float64)
    power = k if ball == "linf" else k + 1
    if ball == "linf":
        size = power * np.log(2 * n + 1) + np.log(-np.expm1(power * np.log1p(-2 / (2 * n + 1))))
    else:
        # (n+1)^p - 2 n^p + (n-1)^p as a sum of positive terms 2 C(p, 2i) n^(p-2i)
        terms = [np.log(2 * special.comb(power, i)) + (power - i) * np.log(n) for i in range(2, power + 1, 2)]
        size = special.logsumexp(np.stack(terms), axis=0)
    weights = np.concatenate([[0.0], size]) - np.arange(reach) / float(scale)
    mass = np.exp(weights - special.logsumexp(weights))
    tail = np.concatenate([np.cumsum(mass[::-1])[::-1][1:], [0.0]])
    return lambda at: np.asarray(tail[np.minimum(at, reach - 1)], dtype=np.float64)


def p_value(sample: Integers, above: Callable[[Integers], Floats]) -> float:
    """Chi-square over about BINS bins of equal mass, chosen from the law and not from the sample."""
    low, high = 0, 1
    while above(np.array([high]))[0] > 1e-4:
        high *= 2
    edges = np.unique(np.linspace(low, high, 400).astype(np.int64))
    tails = above(edges)
    wanted = np.linspace(1, 0, BINS + 1)[1:-1]
    edges = np.unique(edges[np.searchsorted(-tails, -wanted).clip(0, len(edges) - 1)])
    tails = above(edges)
    expected = np.diff(np.concatenate([[1.0], tails, [0.0]])) * -len(sample)
    observed = np.histogram(sample, np.concatenate([[-1], edges, [np.iinfo(np.int64).max - 1]]) + 0.5)[0]
    keep = expected >= 50
    assert keep.sum() >= 3
    observed, expected = observed[keep], expected[keep]
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


def coordinate_above(ball: Ball, k: int, scale: Fraction) -> Callable[[Integers], Floats]:
    law = KNormLaw(ball, scale, k)
    return lambda at: np.array([law.tail(int(value)) for value in at])


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(("ball", "k", "scale", "part", "error"), CASES)
def test_the_norm_has_the_stated_law_and_a_wrong_scale_is_seen(
    ball: Ball, k: int, scale: Fraction, part: Fraction, error: Fraction
) -> None:
    sample = norms(ball, drawn(ball, k, scale, part))
    assert p_value(sample, norm_above(ball, k, scale)) > ALPHA
    for wrong in (1 - error, 1 + error):
        assert p_value(sample, norm_above(ball, k, scale * wrong)) < ALPHA


@pytest.mark.parametrize(("ball", "k", "scale", "part", "error"), CASES)
def test_every_coordinate_has_the_stated_law_and_a_wrong_scale_is_seen(
    ball: Ball, k: int, scale: Fraction, part: Fraction, error: Fraction
) -> None:
    vectors = drawn(ball, k, scale, part)
    for i in {0, k // 2, k - 1}:
        assert p_value(np.abs(vectors[:, i]), coordinate_above(ball, k, scale)) > ALPHA
        assert stats.binomtest(int((vectors[:, i] > 0).sum()), int((vectors[:, i] != 0).sum())).pvalue > ALPHA
    for wrong in (1 - error, 1 + error) if k < 12 else ():  # at 12 the norm has the power
        assert p_value(np.abs(vectors[:, 0]), coordinate_above(ball, k, scale * wrong)) < ALPHA


@pytest.mark.parametrize("ball", ["count", "linf"])
def test_whole_vectors_have_the_stated_law_and_the_other_ball_is_seen(ball: Ball) -> None:
    """Every vector of norm at most 5 on its own, all others together."""
    scale = Fraction(3, 2)
    vectors = drawn(ball, 2, scale, FEW[0])

    def fit(other: Ball) -> float:
        box = np.array(list(product(range(-90, 91), repeat=2)), dtype=np.int64)
        length = norms(other, box)
        mass = np.exp(-length / float(scale))
        near = length <= 5
        keys, chances = box[near] @ [1000, 1], mass[near] / mass.sum()
        found, counts = np.unique(vectors @ [1000, 1], return_counts=True)
        seen = dict(zip(found.tolist(), counts.tolist(), strict=True))
        observed = np.array([seen.get(int(key), 0) for key in keys])
        return float(
            stats.chisquare(
                [*observed, len(vectors) - observed.sum()], np.append(chances, 1 - chances.sum()) * len(vectors)
            ).pvalue
        )

    assert fit(ball) > ALPHA
    assert fit("linf" if ball == "count" else "count") < ALPHA
