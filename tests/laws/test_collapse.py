"""The collapse of discrete Gaussians into one Gaussian, held against the lattice itself.

True deltas are summed from mass functions alone: for one cell and for equal scales over the integer that the loss
depends on, for unequal scales over all but the last cell, whose best event is a tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from dprelease.privacy.theorems import collapse, gaussian, lattice

Floats = npt.NDArray[np.float64]
CELLS = [
    [(16, 1)],
    [(16, 5)],
    [(32, 2)],
    [(64, 3)],
    [(16, 1), (16, 1)],
    [(16, 2), (24, 1)],
    [(32, 5), (20, 3)],
    [(64, 1), (33, 4)],
    [(16, 1), (16, 1), (16, 1)],
    [(16, 5), (16, 5), (16, 5)],
    [(16, 1), (17, 2), (18, 5)],
    [(20, 3), (16, 1), (24, 2)],
]


def mass(scale: int) -> tuple[npt.NDArray[np.int64], Floats]:
    k = np.arange(-12 * scale, 12 * scale + 1)
    weight = np.exp(-(k.astype(float) ** 2) / (2 * scale * scale))
    return k, weight / weight.sum()


def losses_of_all_but_last(cells: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Loss and probability of every outcome of these cells."""
    loss, chance = np.zeros(1), np.ones(1)
    for scale, shift in cells:
        k, p = mass(scale)
        k, p = k[np.abs(k) <= 9 * scale], p[np.abs(k) <= 9 * scale]
        one = (2 * k * shift + shift * shift) / (2 * scale * scale)
        loss = np.add.outer(loss, one).ravel()
        chance = np.multiply.outer(chance, p).ravel()
    return loss, chance


def true_delta(cells: Sequence[tuple[int, int]], epsilon: float) -> float:
    """Hockey-stick divergence by direct summation; outcomes beyond nine scales are left out (below 1e-18)."""
    *others, (scale, shift) = cells
    loss, chance = losses_of_all_but_last(others)
    k, p = mass(scale)
    last = (2 * k * shift + shift * shift) / (2 * scale * scale)
    # sum over k of p (1 - exp(e - loss))_+ as a function of what the other cells leave of epsilon
    above = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    falling = np.append(np.cumsum((p * np.exp(-last))[::-1])[::-1], 0.0)
    total = 0.0
    for part in np.array_split(np.arange(loss.size), max(1, loss.size // 500_000)):
        left = epsilon - loss[part]
        at = np.searchsorted(last, left, side="right")
        total += float((chance[part] * (above[at] - np.exp(left) * falling[at])).sum())
    return total


def true_delta_by_convolution(scale: int, shift: int, draws: int, epsilon: float) -> float:
    """The same for equal cells, by another road: the loss depends on the sum of the noise alone."""
    k, p = mass(scale)
    total, law = k.copy(), p.copy()
    for _ in range(draws - 1):
        law = np.convolve(law, p)
        total = np.arange(total[0] + k[0], total[-1] + k[-1] + 1)
    loss = (2 * total * shift + draws * shift * shift) / (2 * scale * scale)
    return float((law * np.maximum(0, -np.expm1(epsilon - loss))).sum())


def bound(cells: Sequence[tuple[int, int]], tail: str = "1e-16") -> collapse.Collapsed:
    parts = [collapse.EqualDraws(Fraction(scale), Fraction(shift * shift), 1, shift) for scale, shift in cells]
    return collapse.collapsed(parts, Fraction(tail))


@pytest.mark.parametrize("cells", CELLS, ids=str)
def test_true_delta_is_below_the_claim_and_close_to_it(cells: list[tuple[int, int]]) -> None:
    claimed = bound(cells)
    mu = float(claimed.mu_squared) ** 0.5
    for factor in (0.0, 0.5, 1.0, 2.0, 3.5):
        epsilon = Fraction(round(factor * mu * 1000), 1000)
        true = true_delta(cells, float(epsilon))
        assert true <= float(claimed.delta(epsilon)) * (1 + 1e-11)  # the sum above is right to about 1e-12
        if true > 1e-9:
            assert float(claimed.delta(epsilon)) <= true * 1.02


@pytest.mark.parametrize(("scale", "shift", "draws"), [(16, 1, 2), (16, 5, 3), (40, 2, 3), (64, 1, 2)])
def test_the_two_direct_sums_agree(scale: int, shift: int, draws: int) -> None:
    for epsilon in (0.0, 0.1, 0.5):
        one = true_delta_by_convolution(scale, shift, draws, epsilon)
        if draws == 2:
            assert one == pytest.approx(true_delta([(scale, shift)] * draws, epsilon), rel=1e-9, abs=1e-15)
        assert one <= float(bound([(scale, shift)] * draws).delta(Fraction(epsilon)))


@pytest.mark.parametrize(("scale", "least"), [(1, 2.1), (16, 1.004)])
def test_the_plain_gaussian_formula_undercounts(scale: int, least: float) -> None:
    """The test above has power: without the inflation it fails, at scale 1 by a factor of about two."""
    mu_squared = Fraction(1, scale * scale)
    epsilons = [Fraction(k, 200 * scale) for k in range(0, 1600, 7)]
    ratios = []
    for epsilon in epsilons:
        plain = float(gaussian.delta(mu_squared, epsilon))
        if plain > 1e-9:
            ratios.append(true_delta([(scale, 1)], float(epsilon)) / plain)
    assert least < max(ratios) < least * 1.1
    if scale >= collapse.SMALLEST_SCALE:
        for epsilon in epsilons[:80]:
            assert true_delta([(scale, 1)], float(epsilon)) <= float(bound([(scale, 1)]).delta(epsilon)) * (1 + 1e-11)


@pytest.mark.parametrize("scale", [16, 20, 40, 100])
def test_the_ratio_of_the_two_laws_stays_within_the_proved_constants(scale: int) -> None:
    """Inequalities (3), (4) and (5) of the proof in 50 digits, from erfc; they are within a few percent of tight."""
    context = mpmath.MPContext()
    context.dps = 50
    s = context.mpf(1) / scale**2
    tau = 2 * s / (1 + context.sqrt(1 - s / 3))
    total = 1 + 2 * sum(context.exp(-s * k * k / 2) for k in range(1, 20 * scale))

    def g(k: int) -> mpmath.mpf:
        root = context.sqrt(tau / 2)
        rounded = (context.erfc((k - 0.5) * root) - context.erfc((k + 0.5) * root)) / 2
        return context.log(context.exp(-s * k * k / 2) / total / rounded)

    assert -1e-6 < g(0) < 0
    largest = int(1 / tau)
    points = [1, 2, 5, scale, 4 * scale, 8 * scale, largest // 2, largest]
    eta_used, gamma_used = [], []
    for k in points:
        cell = collapse.inflation(Fraction(scale), Fraction(k))
        eta_used.append(float((g(k) - g(0)) / cell.eta))
        gamma_used.append(float((g(k) - g(k - 1)) / cell.gamma))
    assert all(0 < used < 1 for used in eta_used + gamma_used)
    assert max(eta_used) > 0.97
    assert max(gamma_used) > 0.97


def test_the_sum_of_ratios_stays_below_the_claimed_factor() -> None:
    """For many cells ln(factor) is far below the sum of eta; it must still cover the sum that really occurs."""
    scale, draws = 16, 1000
    many = collapse.collapsed([(Fraction(scale), Fraction(1), 1, 1, draws)], Fraction(1, 10**6))
    cell = collapse.inflation(Fraction(scale), many_reach(scale, draws))
    rng = np.random.default_rng(7)
    k, p = mass(scale)
    c = float(cell.tau) * np.abs(rng.choice(k, size=(2000, draws), p=p))
    ratio = c**4 / 2880 + float(cell.tau) * c**2 / 600
    assert float(ratio.sum(axis=1).max()) <= np.log(float(many.factor))
    assert np.log(float(many.factor)) < draws * float(cell.eta) / 10


def many_reach(scale: int, draws: int) -> Fraction:
    return Fraction(scale * (2 * np.log(4 * draws * 1e6)) ** 0.5) + 1


def test_figures_of_the_issue() -> None:
    """About 4e-10 relative or less at scale 2^16; a shift below 2.5e-5 for 1,000 draws at scale 130."""
    fine = collapse.collapsed([(Fraction(2**16), Fraction(1), 1, 1, 1)], Fraction(1, 10**20))
    plain = gaussian.epsilon(Fraction(1, 2**32), Fraction(1, 10**9))
    assert plain <= fine.epsilon(Fraction(1, 10**9)) <= plain * (1 + Fraction(4, 10**10))
    many = collapse.collapsed([(Fraction(130), Fraction(1), 1, 1, 1000)], Fraction(1, 10**15))
    assert many.shift <= Fraction(25, 10**6)
    assert many.factor - 1 <= Fraction(25, 10**6)
    assert many.tail == Fraction(1, 10**15)


def test_more_changes_and_more_draws_never_cost_less() -> None:
    delta, tail = Fraction(1, 10**8), Fraction(1, 10**14)
    rows = [(1, 1, 1, 1), (1, 1, 1, 2), (2, 2, 1, 2), (4, 2, 2, 2), (4, 2, 2, 50)]
    found = [collapse.collapsed([(Fraction(50), Fraction(q), n, m, t)], tail).epsilon(delta) for q, n, m, t in rows]
    assert all(a <= b for a, b in pairwise(found))


def test_equal_draws_count_like_copies_and_nothing_costs_nothing() -> None:
    one = collapse.EqualDraws(Fraction(40), Fraction(3), 3, 1)
    together = collapse.collapsed([one._replace(times=3)], Fraction(1, 10**12))
    apart = collapse.collapsed([one] * 3, Fraction(1, 10**12))
    assert float(together.epsilon(Fraction(1, 10**6))) == pytest.approx(
        float(apart.epsilon(Fraction(1, 10**6))), rel=1e-12
    )
    nothing = collapse.collapsed([one._replace(l0=0)], Fraction(1, 10**12))
    assert nothing.delta(Fraction(0)) == nothing.epsilon(Fraction(0)) == 0


@pytest.mark.parametrize(("scale", "tail"), [("15.9", "1e-9"), ("1", "1e-9"), ("16", "1e-100"), ("16", "0")])
def test_outside_its_hypotheses_it_is_refused(scale: str, tail: str) -> None:
    with pytest.raises(ValueError, match=r"below 16|too small|between 0 and 1"):
        collapse.collapsed([(Fraction(scale), Fraction(1), 1, 1, 1)], Fraction(tail))


def test_one_cell_agrees_with_the_lattice_curve() -> None:
    for scale in (16, 100, 1000):
        for power in (3, 9):
            exact = lattice.gaussian_epsilon(Fraction(scale), 1, Fraction(1, 10**power))
            claimed = bound([(scale, 1)], "1e-18").epsilon(Fraction(1, 10**power))
            assert exact <= claimed <= exact * (1 + Fraction(1, scale * scale)) + Fraction(1, 10**9)


@pytest.mark.parametrize("scale", [16, 40])
@pytest.mark.parametrize(("place", "expected"), [(Fraction(-1, 2), 1), (Fraction(0), -2)])
def test_the_inflation_of_mu_is_the_midpoint_term_of_the_lattice(scale: int, place: Fraction, expected: int) -> None:
    """The second derivation: relative to mu the lattice differs by +1/24 to -1/12 of scale^-2, and no more."""
    square = scale * scale
    epsilon = (scale + place) / square + Fraction(1, 2 * square)
    plain = gaussian.delta(Fraction(1, square), epsilon)
    nudge = Fraction(1, 10**9)
    slope = (gaussian.delta((1 + nudge) ** 2 / square, epsilon) / plain - 1) / nudge
    implied = (lattice.gaussian_delta(Fraction(scale), 1, epsilon) / plain - 1) / slope
    assert float(implied * 24 * square) == pytest.approx(expected, rel=1e-4)
    inflated = float(collapse.inflation(Fraction(scale), Fraction(1)).tau * square)
    assert (inflated - 1) / 2 == pytest.approx(1 / (24 * square), rel=1e-2)


@pytest.mark.parametrize(("scale", "cells"), [(16, 1), (40, 300)])
def test_the_tail_is_paid_and_covers_the_noise_beyond_the_reach(scale: int, cells: int) -> None:
    tail = 1e-6
    claimed = collapse.collapsed([(Fraction(scale), Fraction(1), 1, 1, cells)], Fraction(tail))
    assert claimed.tail <= claimed.delta(Fraction(50)) <= claimed.tail * (1 + Fraction(1, 10**9))
    k, p = mass(scale)
    reach = scale * (2 * np.log(4 * cells / tail)) ** 0.5
    beyond = cells * float(p[np.abs(k) > reach].sum())
    assert tail / 1000 < beyond <= tail / 2
