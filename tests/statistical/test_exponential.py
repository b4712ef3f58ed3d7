"""Do the choices have the stated law? Acceptance at 1e-10, and a scale wrong by 3 % is rejected.

Wide gaps make high scores as likely as low ones, which is what gives 50,000 draws that power: neither a sound choice
nor a wrong scale is taken for the other with a chance above 1e-9.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.noise import Exact, ExactHistogram, ExponentialQuantile, ExponentialTopK

ALPHA = 1e-10
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
CELLS = 50_000
ROWS = {0: 4, 7: 2, 60: 3, 500: 2, 4_000: 3, 30_000: 2}
"""How often each value occurs; the gaps grow as fast as scores to the right of the quantile fall."""
SETTINGS = [(Fraction(1, 10), Fraction(5, 4)), (Fraction(1, 10), Fraction(4, 3)), (Fraction(1, 3), Fraction(1))]
LOW, HIGH = -3, 200_000


@cache
def drawn(at: Fraction, scale: Fraction) -> Integers:
    values, counts = np.array(list(ROWS)), np.array(list(ROWS.values()))
    cell = np.repeat(np.arange(CELLS), len(values))
    return ExponentialQuantile().draw(
        ExactHistogram(CELLS, cell, np.tile(values, CELLS), np.tile(counts, CELLS)), at, LOW, HIGH, scale
    )


def masses(at: Fraction, scale: float) -> Floats:
    """P(x) for every grid value, from the definition of the score."""
    x = np.arange(LOW, HIGH + 1)
    below = sum((x > value) * count for value, count in ROWS.items())
    above = sum((x < value) * count for value, count in ROWS.items())
    n = sum(ROWS.values())
    score = np.maximum(np.maximum(below - float(at) * n, above - float(1 - at) * n), 0)
    weight = np.exp(-score / scale)
    return np.asarray(weight / weight.sum())


def fit(observed: Integers | list[int], expected: Floats) -> float:
    """Chi-square; bins that expect fewer than 50 are one bin, which is left out where it is as small."""
    counts, wanted = np.asarray(observed), expected * np.sum(observed)
    few = wanted < 50
    if few.any():
        counts, wanted = np.append(counts[~few], counts[few].sum()), np.append(wanted[~few], wanted[few].sum())
        counts, wanted = counts[wanted >= 50], wanted[wanted >= 50]
    return float(stats.chisquare(counts, wanted * counts.sum() / wanted.sum()).pvalue)


def quantile_fit(at: Fraction, scale: Fraction, assumed: float) -> float:
    """Every data value on its own, every gap in four parts: the inside of a gap is tested too."""
    edges = [LOW]
    for value in [*ROWS, HIGH + 1]:
        inner = edges[-1] + (value - edges[-1]) * np.arange(1, 5) // 4
        edges += [int(edge) for edge in inner if edge > edges[-1]]
        edges += [value + 1] if value <= HIGH else []
    bins = np.array(edges)
    mass = masses(at, assumed)
    expected = np.add.reduceat(mass, bins[:-1] - LOW)
    return fit(np.histogram(drawn(at, scale), bins - 0.5)[0], expected)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(("at", "scale"), SETTINGS)
def test_a_quantile_has_the_stated_law_and_a_wrong_scale_is_seen(at: Fraction, scale: Fraction) -> None:
    assert quantile_fit(at, scale, float(scale)) > ALPHA
    for wrong in (0.97, 1.03):
        assert quantile_fit(at, scale, float(scale) * wrong) < ALPHA


@cache
def firsts(runs: int) -> Integers:
    """One key counted 12 times, 54 keys counted 8 times, scale 1: the one is drawn about every second time."""
    counts = Exact(np.array([8] * 20 + [12] + [8] * 34))
    mechanism = ExponentialTopK()
    return np.array([mechanism.draw(counts, 1, Fraction(1))[0] for _ in range(runs)])


@pytest.mark.parametrize(("runs", "wrong"), [(15_000, 0.10), pytest.param(60_000, 0.03, marks=pytest.mark.slow)])
def test_the_most_frequent_key_has_the_stated_law_and_a_wrong_scale_is_seen(runs: int, wrong: float) -> None:
    seen = firsts(runs)
    hits = int((seen == 20).sum())

    def p_value(scale: float) -> float:
        return float(stats.binomtest(hits, len(seen), 1 / (1 + 54 * np.exp(-4 / scale))).pvalue)

    assert p_value(1.0) > ALPHA
    assert p_value(1 - wrong) < ALPHA
    assert p_value(1 + wrong) < ALPHA
    others = np.delete(np.bincount(seen, minlength=55), 20)
    assert fit(others, np.full(54, 1 / 54)) > ALPHA


@pytest.mark.parametrize(("runs", "wrong"), [(6_000, 3.0), pytest.param(20_000, 2.4, marks=pytest.mark.slow)])
def test_the_order_of_several_keys_has_the_stated_law(runs: int, wrong: float) -> None:
    counts, scale, k = np.array([3, 1, 0, 4]), Fraction(2), 3
    mechanism, box = ExponentialTopK(), Exact(counts)
    orders = list(permutations(range(4), k))
    place = {order: i for i, order in enumerate(orders)}
    found = np.bincount([place[tuple(mechanism.draw(box, k, scale).tolist())] for _ in range(runs)], minlength=24)

    def law(assumed: float) -> Floats:
        weight = np.exp(counts / assumed)
        chances = []
        for order in orders:
            left, chance = weight.sum(), 1.0
            for key in order:
                chance, left = chance * weight[key] / left, left - weight[key]
            chances.append(chance)
        return np.array(chances)

    assert fit(found, law(2.0)) > ALPHA
    assert fit(found, law(wrong)) < ALPHA
