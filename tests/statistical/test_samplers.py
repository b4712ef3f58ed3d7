"""Is the noise the noise? Fit with power: the claimed scale is accepted, a wrong one is rejected.

Every commit draws 10^5 per sampler and scale and must reject a scale wrong by 10 %; ``make nightly`` draws 10^6 and must
reject 3 %. Acceptance is at 1e-10 of the chi-square law, where bins of 50 and more have a chance of 1e-9 at most, so that
a sound sampler never fails by chance; a wrong scale is missed with a chance below 1e-9, too: the expected statistic is
ten of its deviations above the limit.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.noise import MECHANISMS, Exact

ALPHA = 1e-10
LEAST = 50  # that a bin expects: with fewer the chi-square law is too light at ALPHA
Floats = npt.NDArray[np.float64]


def mass(name: str, scale: float, k: npt.NDArray[np.int64]) -> Floats:
    if name == "discrete_laplace":
        q = np.exp(-1 / scale)
        return np.asarray((1 - q) / (1 + q) * q ** np.abs(k))
    everything = np.arange(-int(12 * scale) - 12, int(12 * scale) + 13)
    whole = np.exp(-(everything.astype(float) ** 2) / (2 * scale**2)).sum()
    return np.asarray(np.exp(-(k.astype(float) ** 2) / (2 * scale**2)) / whole)


def p_value(name: str, draws: npt.NDArray[np.int64], scale: float) -> float:
    """Chi-square over about 200 bins of equal width in the middle and one bin for each tail."""
    width = max(1, int(np.ceil(scale / 25)))
    reach = int(np.ceil(4 * scale / width)) * width + width // 2
    edges = np.arange(-reach, reach + width, width)
    lattice = np.arange(edges[0], edges[-1])
    inside = mass(name, scale, lattice).reshape(-1, width).sum(axis=1)
    tail = np.arange(1, int(60 * scale) + 60)
    # each tail by itself: for even widths the bins are not symmetric about zero
    low, high = mass(name, scale, edges[0] - tail).sum(), mass(name, scale, edges[-1] - 1 + tail).sum()
    expected = np.concatenate([[low], inside, [high]])
    below, above = (draws < edges[0]).sum(), (draws >= edges[-1]).sum()
    observed = np.concatenate([[below], np.histogram(draws, bins=edges - 0.5)[0], [above]])
    keep = expected * len(draws) >= LEAST
    observed, wanted = observed[keep], expected[keep] * len(draws)
    return float(stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


def draws_of(name: str, scale: Fraction, count: int) -> npt.NDArray[np.int64]:
    return MECHANISMS[name].draw(Exact(np.zeros(count, dtype=np.int64)), scale)


def check(name: str, scale: Fraction, count: int, wrong: float) -> None:
    draws = draws_of(name, scale, count)
    assert p_value(name, draws, float(scale)) > ALPHA
    assert p_value(name, draws, float(scale) * (1 + wrong)) < ALPHA
    assert p_value(name, draws, float(scale) * (1 - wrong)) < ALPHA


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(15, 2), Fraction(1000)])
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_noise_has_the_claimed_law_and_a_wrong_scale_is_seen(name: str, scale: Fraction) -> None:
    check(name, scale, 100_000, 0.10)


@pytest.mark.nightly
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(15, 2), Fraction(30), Fraction(1000)])
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_a_scale_wrong_by_three_percent_is_seen(name: str, scale: Fraction) -> None:
    check(name, scale, 1_000_000, 0.03)


@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000), 1 - Fraction(1, 10**9)])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(40), Fraction(12345, 7)])
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_a_margin_is_the_smallest_that_holds(name: str, scale: Fraction, confidence: Fraction) -> None:
    margin = int(MECHANISMS[name].law(scale).margin(confidence))
    beta = float(1 - confidence)
    far = np.arange(margin + 1, margin + int(60 * float(scale)) + 60)
    outside = 2 * mass(name, float(scale), far).sum()
    assert outside <= beta * (1 + 1e-6)
    if margin > 0:
        assert outside + 2 * mass(name, float(scale), np.array([margin]))[0] > beta * (1 - 1e-6)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(30), Fraction(50)])
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_the_stated_variance_is_that_of_the_mass_function(name: str, scale: Fraction) -> None:
    k = np.arange(-int(80 * scale) - 80, int(80 * scale) + 81)
    assert MECHANISMS[name].law(scale).variance == pytest.approx(
        float((k**2 * mass(name, float(scale), k)).sum()), rel=1e-9
    )


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_draw_is_fresh(name: str) -> None:
    first, second = (draws_of(name, Fraction(1000), 200) for _ in range(2))
    assert (first != second).sum() > 150
