"""The privacy loss accountant against exact sums: never below the truth, and hardly above it."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.privacy.accountants.pld import Pld
from dprelease.privacy.event import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.theorems.loss_bound import ComposedLoss
from dprelease.privacy.theorems.total_loss import CellLaw
from tests.tiers import few

MP: Any = mpmath.MPContext()
MP.dps = 60
PLD = Pld()
ONE = Sensitivity.of_one_cell(1)


def mpf(value: Fraction) -> Any:
    return MP.mpf(value.numerator) / value.denominator


def kairouz_oh_viswanath(size: Fraction, count: int, epsilon: Fraction) -> Any:
    """Theorem 3.3, written with the losses (count - 2 l) size."""
    e, total = mpf(size), MP.mpf(0)
    for wrong in range(count + 1):
        excess = (count - 2 * wrong) * e - mpf(epsilon)
        if excess > 0:
            total += MP.binomial(count, wrong) * MP.exp((count - wrong) * e) * -MP.expm1(-excess)
    return total / (1 + MP.exp(e)) ** count


def masses(part: CellLaw) -> list[tuple[Any, Any]]:
    """(probability, loss) of every output of one coordinate, from the definition of the noise."""
    if part.kind == "response":
        top = 1 / (1 + MP.exp(-mpf(part.value)))
        return [(top, mpf(part.value)), (1 - top, -mpf(part.value))]
    scale, shift = mpf(part.value), part.shift
    reach = int(16 * part.value) + shift + 8 if part.kind == "bell" else int(60 * part.value) + shift
    if part.kind == "bell":
        weights = {x: MP.exp(-x * x / (2 * scale**2)) for x in range(-reach, reach + 1)}
        losses = {x: ((x - shift) ** 2 - x * x) / (2 * scale**2) for x in weights}
    else:
        weights = {x: MP.exp(-abs(x) / scale) for x in range(-reach, reach + 1)}
        losses = {x: (abs(x - shift) - abs(x)) / scale for x in weights}
    norm = sum(weights.values())
    found: Counter[Any] = Counter()
    for x, weight in weights.items():
        found[MP.nstr(losses[x], 50)] += weight / norm
    return [(mass, MP.mpf(loss)) for loss, mass in found.items()]


def by_enumeration(parts: list[CellLaw], epsilon: Fraction) -> Any:
    total = MP.mpf(0)
    for outcome in product(*[masses(part) for part in parts]):
        excess = sum(loss for _, loss in outcome) - mpf(epsilon)
        if excess > 0:
            total += MP.fprod(mass for mass, _ in outcome) * -MP.expm1(-excess)
    return total


@pytest.mark.parametrize(
    ("size", "count", "epsilon"),
    [
        (Fraction(1, 20), 1000, Fraction(3, 2)),
        (Fraction(1, 20), 1000, Fraction(71, 10)),
        (Fraction(1, 20), 1000, Fraction(12)),
        (Fraction(1, 20), 1000, Fraction(147, 10)),
        (Fraction(1, 20), 1000, Fraction(15)),
        (Fraction(1, 20), 1000, Fraction(16)),
        (Fraction(1, 20), 1000, Fraction(22)),
        (Fraction(1, 1000), 3000, Fraction(1, 2)),
        (Fraction(2), 7, Fraction(13)),
        (Fraction(1), 1, Fraction(0)),
        (Fraction(1), 2, 2 - Fraction(1, 10**9)),
        (Fraction(3, 7), 20, Fraction(20 * 3, 7) - Fraction(1, 10**12)),
    ],
)
def test_randomized_response_is_exact_at_any_delta(size: Fraction, count: int, epsilon: Fraction) -> None:
    event = Repeated(event=Approximate(epsilon=size), count=count)
    truth, found = kairouz_oh_viswanath(size, count, epsilon), mpf(PLD.delta(event, epsilon))
    assert truth <= found <= truth * (1 + MP.mpf("1e-9"))


@pytest.mark.parametrize("power", [6, 12, 16, 20, 22])
def test_epsilon_of_randomized_response_has_no_floor(power: int) -> None:
    size, count, delta = Fraction(1, 20), 1000, Fraction(1, 10**power)
    found = PLD.epsilon(Repeated(event=Approximate(epsilon=size), count=count), delta)
    assert kairouz_oh_viswanath(size, count, found) <= mpf(delta)
    assert kairouz_oh_viswanath(size, count, found * (1 - Fraction(1, 10**9))) > mpf(delta)


responses = st.builds(
    lambda n, d: CellLaw("response", Fraction(n, d)), st.integers(1, 30), st.sampled_from([3, 7, 10, 64])
)
staircases = st.builds(lambda n, s: CellLaw("staircase", Fraction(n, 5), s), st.integers(3, 40), st.integers(1, 4))
bells = st.builds(lambda n, s: CellLaw("bell", Fraction(n, 8), s), st.integers(2, 12), st.integers(1, 3))


@settings(max_examples=few(25), deadline=None)
@given(
    parts=st.lists(responses | staircases, min_size=1, max_size=4).flatmap(
        lambda some: st.lists(bells, max_size=1).map(lambda more: some + more)
    ),
    share=st.floats(0.01, 0.98),
)
def test_unequal_lattice_laws_agree_with_enumeration(parts: list[CellLaw], share: float) -> None:
    epsilon = Fraction(share) * sum((part.top for part in parts), Fraction(0))
    truth = by_enumeration(parts, epsilon)
    found = mpf(ComposedLoss(Counter(parts)).delta(epsilon))
    # The extra Gaussian draw: one part in 10^7 of epsilon, times the steepness of log delta.
    steep = max(1, float(MP.log(truth) - MP.log(by_enumeration(parts, epsilon * Fraction(1001, 1000)))) * 1000)
    assert truth <= found <= truth * (1 + 2e-6 * steep)


@settings(max_examples=few(25), deadline=None)
@given(parts=st.lists(staircases, min_size=1, max_size=2), power=st.integers(2, 25))
def test_epsilon_is_certified_by_enumeration(parts: list[CellLaw], power: int) -> None:
    delta = Fraction(1, 10**power)
    loss = ComposedLoss(Counter(parts))
    found = loss.epsilon(delta)
    assert found <= loss.largest
    assert found == loss.largest or by_enumeration(parts, found) <= mpf(delta)
    assert loss.delta(found) <= delta


@pytest.mark.parametrize(
    ("case", "event", "delta", "expected", "tolerance"),
    [
        (
            "pld-lap|20|20|1e-6",
            Repeated(event=Laplace(scale=Fraction(20), sensitivity=ONE), count=20),
            6,
            0.8630161775706904,
            2e-4,
        ),
        (
            "pld-mix50lap10_50gauss20|1e-6",
            Composed(
                events=(
                    Repeated(event=Laplace(scale=Fraction(10), sensitivity=ONE), count=50),
                    Repeated(event=Gaussian(scale=Fraction(20), sensitivity=ONE), count=50),
                )
            ),
            6,
            3.600203037625745,
            2e-4,
        ),
        (
            "pld-lap|2|10|1e-5",
            Repeated(event=Laplace(scale=Fraction(2), sensitivity=ONE), count=10),
            5,
            4.989962311196528,
            2e-4,
        ),
        (
            "dgauss-20",
            Repeated(event=DiscreteGaussian(scale=Fraction(10), sensitivity=ONE), count=20),
            6,
            1.994616239293481,
            3e-4,
        ),
        (
            "kov-0.02-1000-1e-09",
            Repeated(event=Approximate(epsilon=Fraction(1, 50)), count=1000),
            9,
            3.7343642099904577,
            1e-9,
        ),
        (
            "kov-0.1-100-1e-06",
            Repeated(event=Approximate(epsilon=Fraction(1, 10)), count=100),
            6,
            4.7745675881079865,
            1e-9,
        ),
        (
            "kov-delta0",
            Repeated(event=Approximate(epsilon=Fraction(1, 10), delta=Fraction(1, 10**9)), count=50),
            6,
            3.1769223179453414,
            1e-9,
        ),
    ],
)
def test_published_figures(case: str, event: Event, delta: int, expected: float, tolerance: float) -> None:
    assert float(PLD.epsilon(event, Fraction(1, 10**delta))) == pytest.approx(expected, rel=tolerance), case


@pytest.mark.parametrize(
    ("scale", "shift", "epsilon", "expected"),
    [(4, 1, 1, 3.0554546492668225e-06), (1, 1, 3, 0.0018491357106529603), (10, 2, 1, 1.7144680076977732e-08)],
)
def test_discrete_gaussian_curve(scale: int, shift: int, epsilon: int, expected: float) -> None:
    event = DiscreteGaussian(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift))
    assert float(PLD.delta(event, Fraction(epsilon))) == pytest.approx(expected, rel=1e-9)


def by_grid(cells: list[tuple[np.ndarray, np.ndarray]], copies: int, step: float, up: bool, epsilon: float) -> float:
    """delta by plain convolution of losses rounded up (an upper bound) or down (a lower bound) to a grid."""
    whole: np.ndarray = np.ones(1)
    lowest = 0
    for mass, loss in cells * copies:
        index = (np.ceil(loss / step - 1e-9) if up else np.floor(loss / step + 1e-9)).astype(int)
        law = np.bincount(index - index.min(), weights=mass)
        whole, lowest = np.convolve(whole, law), lowest + int(index.min())
    losses = (lowest + np.arange(len(whole))) * step
    over = losses > epsilon
    return float(np.sum(whole[over] * -np.expm1(epsilon - losses[over])))


@pytest.mark.parametrize("epsilon", [0.3, 0.9, 1.4])
def test_continuous_laplace_lies_between_two_grids(epsilon: float) -> None:
    size, copies, step = 0.25, 8, 1e-3
    edges = np.linspace(0.0, size, int(2 * size / step) + 1)  # noise between 0 and the shift, in scales
    middle = -np.diff(np.exp(-edges)) / 2

    def cells(up: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        inner = size - 2 * (edges[:-1] if up else edges[1:])
        mass = np.concatenate([[0.5, math.exp(-size) / 2], middle])
        return [(mass, np.concatenate([[size, -size], inner]))]

    low, high = by_grid(cells(False), copies, step, False, epsilon), by_grid(cells(True), copies, step, True, epsilon)
    event = Repeated(event=Laplace(scale=Fraction(4), sensitivity=ONE), count=copies)
    found = float(PLD.delta(event, Fraction(epsilon)))
    assert low <= found <= high
    assert high <= low * 1.2


def test_the_second_opinion_on_unequal_mixes() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    step, delta = 1e-4, 1e-6
    theirs = pld.from_laplace_mechanism(3.0, value_discretization_interval=step)
    theirs = theirs.compose(pld.from_laplace_mechanism(7.0, value_discretization_interval=step).self_compose(3))
    theirs = theirs.compose(pld.from_gaussian_mechanism(9.0, value_discretization_interval=step).self_compose(2))
    theirs = theirs.compose(pld.from_discrete_gaussian_mechanism(5, value_discretization_interval=step))
    theirs = theirs.compose(pld.from_discrete_laplace_mechanism(0.2, sensitivity=3, value_discretization_interval=step))
    event = Composed(
        events=(
            Laplace(scale=Fraction(3), sensitivity=ONE),
            Repeated(event=Laplace(scale=Fraction(7), sensitivity=ONE), count=3),
            Repeated(event=Gaussian(scale=Fraction(9), sensitivity=ONE), count=2),
            DiscreteGaussian(scale=Fraction(5), sensitivity=ONE),
            DiscreteLaplace(scale=Fraction(5), sensitivity=Sensitivity.of_one_cell(3)),
        )
    )
    found, expected = float(PLD.epsilon(event, Fraction(1, 10**6))), theirs.get_epsilon_for_delta(delta)
    assert expected * (1 - 1e-4) <= found <= expected * (1 + 1e-7)
