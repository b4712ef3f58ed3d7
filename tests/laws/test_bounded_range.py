"""The profile of a bounded range against every kind of pair that could beat it: docs/proofs/bounded-range.md."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.privacy.theorems import bounded_range

RANGES = [Fraction(1, 50), Fraction(3, 10), Fraction(1), Fraction(7, 2), Fraction(9)]
PLACES = [Fraction(k, 10) for k in range(-13, 14)]  # times the range
Reals = npt.NDArray[np.float64]


def hockey(p: Reals, q: Reals, x: float) -> Reals:
    """sum over outputs of max(P - e^x Q, 0), for a batch of pairs."""
    return np.asarray(np.maximum(p - math.exp(x) * q, 0).sum(axis=-1))


def random_pairs(range_: float, count: int, rng: np.random.Generator) -> tuple[Reals, Reals]:
    """Pairs whose loss lies in an interval of that length; many losses at its ends, where the worst pairs are."""
    outputs = int(rng.integers(2, 7))
    q = rng.dirichlet(np.full(outputs, 0.7), count)
    loss = rng.choice([0.0, 1.0, 2.0], (count, outputs), p=[0.4, 0.4, 0.2])
    loss = np.where(loss == 2, rng.random((count, outputs)), loss) * range_
    p = q * np.exp(loss)
    return p / p.sum(axis=1, keepdims=True), q


def extreme_pair(range_: float, top: float) -> tuple[Reals, Reals]:
    """Two outputs with losses ``top`` and ``top - range``."""
    q = (1 - math.exp(top - range_)) / (math.exp(top) - math.exp(top - range_))
    return np.array([q * math.exp(top), (1 - q) * math.exp(top - range_)]), np.array([q, 1 - q])


@pytest.mark.parametrize("range_", RANGES)
def test_no_random_pair_exceeds_it(range_: Fraction) -> None:
    rng = np.random.default_rng(20240611)
    for _ in range(12):
        p, q = random_pairs(float(range_), 2_000, rng)
        for place in PLACES:
            x = place * range_
            bound = float(bounded_range.delta(range_, x)) + 1e-14
            assert hockey(p, q, float(x)).max() <= bound
            assert hockey(q, p, float(x)).max() <= bound


@pytest.mark.parametrize("range_", RANGES)
def test_the_extreme_pair_reaches_it(range_: Fraction) -> None:
    for place in PLACES:
        if abs(place) >= 1:
            continue
        x = place * range_
        p, q = extreme_pair(float(range_), float(x + range_) / 2)
        wanted = float(bounded_range.delta(range_, x))
        assert p.sum() == pytest.approx(1)
        assert float(hockey(p, q, float(x))) == pytest.approx(wanted, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("range_", RANGES)
def test_the_search_would_find_an_envelope_one_percent_too_small(range_: Fraction) -> None:
    """Power: the best of a coarse grid of two-point pairs exceeds 99 % of the bound, at every place between."""
    tops = np.linspace(0, float(range_), 400)[1:-1]
    for place in PLACES:
        if abs(place) > Fraction(9, 10):
            continue
        x = place * range_
        best = max(float(hockey(*extreme_pair(float(range_), float(top)), float(x))) for top in tops)
        assert 0.99 * float(bounded_range.delta(range_, x)) < best <= float(bounded_range.delta(range_, x)) + 1e-14


@pytest.mark.parametrize("range_", RANGES)
def test_it_is_the_dual_of_the_hyperbola(range_: Fraction) -> None:
    """The second derivation: maximise 1 - T(A) - e^x A over false alarms."""
    c = math.expm1(float(range_))
    alarm = np.expm1(np.linspace(0, float(range_), 200_001)) / c
    miss = (math.exp(float(range_)) / (1 + c * alarm) - 1) / c
    for place in PLACES:
        x = float(place * range_)
        assert np.max(1 - miss - math.exp(x) * alarm) == pytest.approx(
            float(bounded_range.delta(range_, place * range_)), rel=1e-6, abs=1e-12
        )


@pytest.mark.parametrize("range_", RANGES)
def test_every_test_of_a_pair_lies_above_the_hyperbola(range_: Fraction) -> None:
    rng = np.random.default_rng(77)
    p, q = random_pairs(float(range_), 5_000, rng)
    f = rng.choice([0.0, 1.0, 0.5], p.shape)
    alarm, miss = (q * f).sum(axis=1), (p * (1 - f)).sum(axis=1)

    assert ((1 - alarm) * (1 - miss) <= math.exp(float(range_)) * alarm * miss + 1e-13).all()


def test_exponential_mechanisms_stay_below() -> None:
    """Scores moved by at most 1 either way, weights e^(range score / 2): range and pure epsilon are both `range`."""
    rng = np.random.default_rng(5)
    for range_ in RANGES:
        before = rng.integers(0, 8, (3_000, 5)).astype(float)
        after = before + rng.integers(-1, 2, before.shape)
        pair = [np.exp(float(range_) / 2 * score) for score in (before, after)]
        p, q = (weight / weight.sum(axis=1, keepdims=True) for weight in pair)
        for place in PLACES:
            x = place * range_
            assert hockey(p, q, float(x)).max() <= float(bounded_range.delta(range_, x)) + 1e-14


def test_a_pure_mechanism_without_the_range_does_exceed_it() -> None:
    """Randomised response is epsilon-private with range 2 epsilon: it must not be given this profile."""
    p = np.array([math.e, 1]) / (1 + math.e)

    assert float(hockey(p, p[::-1].copy(), 0.0)) > 1.5 * float(bounded_range.delta(Fraction(1), Fraction(0)))


def test_it_is_rounded_up_joined_and_mirrored() -> None:
    one = Fraction(1)
    assert bounded_range.delta(one, one) == 0
    assert bounded_range.delta(one, 3 * one) == 0
    assert bounded_range.delta(Fraction(0), Fraction(0)) == 0
    assert bounded_range.delta(Fraction(0), -one) >= Fraction(632120558828557678, 10**18)
    near = Fraction(1, 10**20)
    assert abs(bounded_range.delta(one, -one) - bounded_range.delta(one, near - one)) < Fraction(1, 10**19)
    for range_ in RANGES:
        for place in PLACES:
            x = place * range_
            mirrored = math.exp(x) * float(bounded_range.delta(range_, -x))
            assert mirrored == pytest.approx(float(bounded_range.delta(range_, x)) - 1 + math.exp(x), abs=1e-12)


@pytest.mark.parametrize("delta", [Fraction(1, 10**30), Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 5)])
@pytest.mark.parametrize("range_", RANGES)
def test_epsilon_is_the_inverse(range_: Fraction, delta: Fraction) -> None:
    found = bounded_range.epsilon(range_, delta)

    assert 0 <= found <= range_
    assert bounded_range.delta(range_, found) <= delta * (1 + Fraction(1, 10**12))
    if found:
        below = found * (1 - Fraction(1, 10**18))
        assert bounded_range.delta(range_, below) > delta
    assert bounded_range.epsilon(range_, Fraction(0)) == range_


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="range"):
        bounded_range.delta(Fraction(-1), Fraction(0))
    with pytest.raises(ValueError, match="delta"):
        bounded_range.epsilon(Fraction(1), Fraction(1))
