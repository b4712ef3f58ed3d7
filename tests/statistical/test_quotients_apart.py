"""Differences of means and shares by MOVER: how often the interval holds, how wide it is, and what p-values say."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from _pytest.mark.structures import ParameterSet

from dprelease.measures.comparing.apart import has_coarse_noise, mover, p_values_apart
from dprelease.measures.tested.quotients import Draw, NoisyQuotient
from dprelease.noise import MECHANISMS

Floats = npt.NDArray[np.float64]
CONFIDENCE = Fraction(95, 100)
NOISE = {"Laplace 2": ("laplace", 2), "Laplace 4": ("laplace", 4), "Gaussian 6": ("gaussian", 6)}
PAIRS = [
    ((0, 100), (0, 100)), ((0, 100), (20, 100)), ((5, 100), (20, 100)), ((50, 100), (30, 100)), ((97, 100), (50, 100)),
    ((1, 3), (50, 100)), ((10, 20), (30, 100)), ((300, 1000), (50, 100)), ((97, 100), (97, 100)), ((10, 20), (10, 20)),
    ((300, 1000), (300, 1000)), ((1, 3), (1, 3)),
]  # fmt: skip
SAME = [((50, 100), (50, 100)), ((30, 100), (300, 1000)), ((5, 100), (5, 100)), ((20, 40), (50, 100))]
MEANS = [((-25, 10), (5, 100)), ((5, 30), (5, 30)), ((25, 100), (-5, 1000)), ((0, 300), (0, 300))]  # mean, values


def drawn(kind: str, scale: int, size: int, chance: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draws of the law by its probabilities."""
    at = np.arange(-40 * scale - 5, 40 * scale + 6)
    mass = np.exp(-((at / scale) ** 2) / 2 if kind == "gaussian" else -np.abs(at) / scale)
    total = np.cumsum(mass)
    return np.asarray(at[np.searchsorted(total / total[-1], chance.random(size) * (1 - 1e-12))])


def share(noise: tuple[str, int], true: tuple[int, int], size: int, chance: np.random.Generator) -> NoisyQuotient:
    """So many releases of one share, blank where the lower number is below 1."""
    law = MECHANISMS[f"discrete_{noise[0]}"].law(Fraction(noise[1]))
    part, whole = (each + drawn(*noise, size, chance).astype(np.float64) for each in true)
    draws = (Draw(law, 1.0, 0.0), Draw(law, 0.0, 1.0))
    return NoisyQuotient(part, np.where(whole >= 1, whole, np.nan), draws, (0.0, 1.0), 1.0, 0.0, 1.0)


def mean(noise: tuple[str, int], true: tuple[int, int], size: int, chance: np.random.Generator) -> NoisyQuotient:
    """So many releases of a mean within 60 of which the middle is 0: the sum has 30 times the noise of the count."""
    kind, scale = noise
    laws = [MECHANISMS[f"discrete_{kind}"].law(Fraction(each)) for each in (30 * scale, scale)]
    summed = true[0] * true[1] + drawn(kind, 30 * scale, size, chance).astype(np.float64)
    count = true[1] + drawn(kind, scale, size, chance).astype(np.float64)
    draws = (Draw(laws[0], 1.0, 0.0), Draw(laws[1], 0.0, 1.0))
    return NoisyQuotient(summed, np.where(count >= 1, count, np.nan), draws, (-30.0, 30.0), 0.0, 0.0, 1.0)


def told(of: NoisyQuotient, *, cut: bool = False) -> tuple[Floats, Floats, Floats]:
    low, high = of.tested(CONFIDENCE, cut=cut)
    value = of.above / of.below
    return (np.clip(value, *of.possible) if cut else value), low, high


def ends(one: NoisyQuotient, two: NoisyQuotient, *, cut: bool = False) -> tuple[Floats, Floats]:
    """Where both numbers are published."""
    low, high = mover(told(one, cut=cut), told(two, cut=cut))
    known = ~np.isnan(low)
    return low[known], high[known]


def held(low: Floats, high: Floats, true: float, most: float) -> float:
    return float(((np.clip(low, -most, most) <= true + 1e-12) & (np.clip(high, -most, most) >= true - 1e-12)).mean())


def of_shares(noise: tuple[str, int], size: int) -> Iterator[tuple[str, float, float]]:
    chance = np.random.default_rng(149)
    for one, two in PAIRS:
        low, high = ends(share(noise, one, size, chance), share(noise, two, size, chance))
        true = one[0] / one[1] - two[0] / two[1]
        yield (
            f"{one} - {two}",
            held(low, high, true, 1.0),
            float(np.median(np.clip(high, None, 1) - np.clip(low, -1, 1))),
        )


def tiers() -> Iterator[ParameterSet]:
    for name in NOISE:
        yield pytest.param(name, 2_000, 0.0, id=name, marks=[] if name == "Laplace 4" else pytest.mark.slow)
        yield pytest.param(name, 40_000, 0.0, id=f"{name}, in full", marks=pytest.mark.nightly)


@pytest.mark.parametrize(("name", "size", "_"), list(tiers()))
def test_intervals_hold_as_often_as_they_say(name: str, size: int, _: float) -> None:
    """Never more than five standard deviations below 0.945, of 12 pairs of shares; no proof says so."""
    found = {pair: often for pair, often, _ in of_shares(NOISE[name], size)}
    least = 0.945 - 5 * (0.95 * 0.05 / size) ** 0.5
    assert min(found.values()) >= least, found
    assert found["(50, 100) - (30, 100)"] <= 0.96 + 5 * (0.95 * 0.05 / size) ** 0.5


def test_the_interval_is_three_fifths_of_two_that_are_proved() -> None:
    """50/100 less 30/100 with Laplace noise of scale 4: 0.365 and 0.628 (two sets at the root of 0.95, subtracted)."""
    chance = np.random.default_rng(3)
    one, two = (share(NOISE["Laplace 4"], each, 4_000, chance) for each in ((50, 100), (30, 100)))
    low, high = ends(one, two)
    assert float(np.mean(high - low)) == pytest.approx(0.365, rel=0.02)
    root = Fraction(0.95**0.5)
    (low_1, high_1), (low_2, high_2) = (each.tested(root) for each in (one, two))
    assert float(np.mean((high_1 - low_2) - (low_1 - high_2))) == pytest.approx(0.628, rel=0.02)


@pytest.mark.parametrize("name", [pytest.param("Gaussian 6"), pytest.param("Laplace 2", marks=pytest.mark.slow)])
def test_intervals_of_means_hold(name: str) -> None:
    chance = np.random.default_rng(150)
    for one, two in MEANS:
        low, high = ends(mean(NOISE[name], one, 2_000, chance), mean(NOISE[name], two, 2_000, chance))
        assert held(low, high, one[0] - two[0], 60.0) >= 0.945 - 5 * (0.95 * 0.05 / 2_000) ** 0.5, (one, two)


def test_ends_that_were_cut_hold_too_little() -> None:
    """The pitfall: 0/100 less 20/100 by sets that were cut to [0, 1] holds in less than 94.4 %."""
    chance = np.random.default_rng(5)
    one, two = (share(NOISE["Gaussian 6"], each, 40_000, chance) for each in ((0, 100), (20, 100)))
    low, high = ends(one, two, cut=True)
    assert held(low, high, -0.2, 1.0) < 0.944 < held(*ends(one, two), -0.2, 1.0)


LEVELS = (0.05, 0.01, 0.001)


@pytest.mark.parametrize("name", NOISE)
def test_p_values_have_their_levels(name: str) -> None:
    """In 60,000 releases of each of four pairs of equal shares, within 0.85 to 1.1 of the level but for chance."""
    chance, size = np.random.default_rng(151), 60_000
    for one, two in SAME:
        found = p_values_apart(share(NOISE[name], one, size, chance), share(NOISE[name], two, size, chance), CONFIDENCE)
        for level in LEVELS:
            often, spread = float(np.nanmean(found <= level)), 5 * (level / size) ** 0.5
            assert 0.8 * level - spread <= often <= 1.06 * level + spread, (one, two, level, often)


def test_a_normal_p_value_of_laplace_noise_would_be_wrong_in_the_tail() -> None:
    """What the law of Laplace sums is for: by the normal law the level 0.001 is that of 4 in 1,000 or more."""
    chance, size = np.random.default_rng(7), 60_000
    one, two = (share(NOISE["Laplace 2"], (50, 100), size, chance) for _ in range(2))
    gaussian = MECHANISMS["discrete_gaussian"].law(Fraction(277, 100))  # of the same standard deviation
    normal = [each._replace(draws=tuple(draw._replace(law=gaussian) for draw in each.draws)) for each in (one, two)]
    found = p_values_apart(normal[0], normal[1], CONFIDENCE)
    assert float(np.nanmean(found <= 0.001)) >= 0.004 - 5 * (0.004 / size) ** 0.5


def test_where_the_lower_number_may_be_0_nothing_is_told_apart() -> None:
    law = MECHANISMS["discrete_laplace"].law(Fraction(2))
    draws = (Draw(law, 1.0, 0.0), Draw(law, 0.0, 1.0))
    one = NoisyQuotient(np.array([5.0, 90.0, 90.0]), np.array([5.0, 100.0, np.nan]), draws, (0.0, 1.0), 1.0, 0.0, 1.0)
    two = NoisyQuotient(np.array([0.0, 0.0, 0.0]), np.full(3, 100.0), draws, (0.0, 1.0), 1.0, 0.0, 1.0)
    found = p_values_apart(one, two, CONFIDENCE)
    assert found[0] == 1.0
    assert found[1] == pytest.approx(1e-9, abs=1e-7)
    assert np.isnan(found[2])


COARSE = {"Laplace 1": ("laplace", 1), "Gaussian 1": ("gaussian", 1), "Gaussian 2": ("gaussian", 2)}


@pytest.mark.parametrize("name", COARSE)
def test_noise_of_few_values_is_taken_as_such(name: str) -> None:
    """By the law of continuous noise 0.077 of equal shares would have a p-value of 0.05 or less."""
    chance, size = np.random.default_rng(152), 40_000
    one, two = (share(COARSE[name], (50, 100), size, chance) for _ in range(2))
    assert has_coarse_noise(one)
    found = p_values_apart(one, two, CONFIDENCE)
    for level in LEVELS:
        assert float(np.nanmean(found <= level)) <= level, (name, level)
    assert not has_coarse_noise(share(NOISE["Laplace 2"], (50, 100), 1, chance))
