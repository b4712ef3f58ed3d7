"""The verifier's own exact loss, held against brute force: convolved mass functions, binomial sums, the normal law.

And the accountants held against the verifier: two derivations that share no code.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpmath import binomial, exp, mp, mpf
from scipy.stats import norm

from dprelease.errors import BrokenPromiseError
from dprelease.plan.verify.events import draws_of_event
from dprelease.plan.verify.loss import _advanced, check_losses
from dprelease.plan.verify.mathematics import delta
from dprelease.plan.verify.mathematics.delta import delta_of
from dprelease.plan.verify.mathematics.draws import Cell, Draw, worst
from dprelease.privacy.accountants import losses
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    KNorm,
    Repeated,
    Sensitivity,
)
from tests.accountants import ANY_NOISE

DELTA = Fraction(1, 10**6)


def pure(epsilon: Fraction | float) -> Draw:
    return ((Cell("pure", Fraction(epsilon)),),)


def cells(kind: Any, scale: float, *shift: int) -> Draw:
    return (tuple(Cell(kind, Fraction(scale), c) for c in shift),)


def loss_law(cell: Cell) -> dict[float, float]:
    """The privacy loss of one cell with its masses, from the mass function of the noise alone."""
    if cell.kind == "pure":
        top = 1 / (1 + math.exp(-float(cell.value)))
        return {float(cell.value): top, -float(cell.value): 1 - top}
    scale, shift = float(cell.value), cell.shift
    reach = int((45 if cell.kind == "laplace" else 13) * scale) + 2 * shift
    k = np.arange(-reach, reach + 1)
    log = -np.abs(k) / scale if cell.kind == "laplace" else -(k * k) / (2 * scale * scale)
    moved = -np.abs(k + shift) / scale if cell.kind == "laplace" else -((k + shift) ** 2) / (2 * scale * scale)
    masses = np.exp(log) / np.exp(log).sum()
    law: dict[float, float] = {}
    for loss, mass in zip(np.round(log - moved, 14).tolist(), masses.tolist(), strict=True):
        law[loss] = law.get(loss, 0.0) + mass
    return law


def brute(draws: list[Draw], epsilon: float) -> float:
    """Delta by listing every combination of losses."""
    values, masses = np.zeros(1), np.ones(1)
    for draw in draws:
        for cell in draw[0]:
            law = loss_law(cell)
            values = np.add.outer(values, list(law)).ravel()
            masses = np.multiply.outer(masses, list(law.values())).ravel()
            keep = masses > 1e-22
            values, masses = values[keep], masses[keep]
    above = values > epsilon
    return float((masses[above] * -np.expm1(epsilon - values[above])).sum())


@pytest.mark.parametrize(
    ("epsilon", "count", "at"),
    [
        (Fraction(1, 10), 100, Fraction(47745675881, 10**10)),  # kov-0.1-100-1e-06
        (Fraction(1, 20), 20, Fraction(8722820210425537, 10**16)),  # kov-0.05-20-1e-06
        (Fraction(1, 50), 1000, Fraction(37343642099904577, 10**16)),  # kov-0.02-1000-1e-09
        (Fraction(1), 2, Fraction(1, 2)),
        (Fraction(1, 5), 5, 1 - Fraction(2, 10**8)),
        (Fraction(1, 2), 60, Fraction(12)),  # just on a step of the curve
        (Fraction(3), 4, Fraction(7)),
    ],
)
def test_equal_pure_draws_are_a_binomial_sum(epsilon: Fraction, count: int, at: Fraction) -> None:
    mp.dps = 50
    e, x = mpf(epsilon.numerator) / epsilon.denominator, mpf(at.numerator) / at.denominator
    terms = (binomial(count, k) * max(exp(e * (count - k)) - exp(x + e * k), 0) for k in range(count + 1))
    expected = float(sum(terms) / (1 + exp(e)) ** count)
    assert delta_of({pure(epsilon): count}, at) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("mu", "epsilon"), [(1, 1.0), (3, 8.0), (Fraction(1, 4), 1.0), (Fraction(1, 20), 0.4)])
def test_continuous_gaussian_noise_has_the_analytic_curve(mu: Fraction, epsilon: float) -> None:
    m = float(mu)
    expected = norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m)
    assert delta_of({((Cell("normal", 1 / Fraction(mu)),),): 1}, Fraction(epsilon)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("draws", "epsilon"),
    [
        ([cells("laplace", 2, 3)], 1.0),
        ([cells("laplace", 10, 3)] * 3, 0.85),
        ([cells("laplace", 7, 20)] * 2, 3.0),
        ([cells("laplace", 5, 2, 3)], 0.7),
        ([cells("gaussian", 4, 1)], 1.0),
        ([cells("gaussian", 0.6, 1)], 4.1),
        ([cells("gaussian", 3, 2)] * 3, 4.0),
        ([cells("gaussian", 6, 2, 1)], 1.3),
        ([pure(0.3), pure(0.7)], 0.81),
        ([pure(0.31), pure(0.7), pure(0.13), pure(0.011)], 0.813),
        ([cells("laplace", 3.3, 2), pure(0.4)], 0.65),
        ([cells("laplace", 3.3, 2), cells("laplace", 4.7, 5)], 1.23),
        ([cells("gaussian", 3.7, 1), cells("laplace", 4.7, 5), pure(0.2)], 1.71),
        ([cells("gaussian", 3.7, 1), cells("gaussian", 5.1, 2)], 1.57),
        ([cells("gaussian", 0.9, 1), cells("gaussian", 2.3, 1), pure(0.25)], 4.57),
    ],
)
def test_lattice_draws_agree_with_listing_every_loss(draws: list[Draw], epsilon: float) -> None:
    assert delta_of(Counter(draws), Fraction(epsilon)) == pytest.approx(brute(draws, epsilon), rel=2e-7)


def test_nothing_is_lost_beyond_the_largest_loss_and_nothing_without_draws() -> None:
    assert delta_of({pure(Fraction(1, 5)): 5}, Fraction(1)) == 0
    assert delta_of({}, Fraction(0)) == 0


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("scale", [0.7, 3, 20])
def test_one_cell_that_moves_by_the_sum_dominates_two(scale: float) -> None:
    """What ``worst`` proves, at every kink and between kinks, on both sides of 0."""
    for first, second in product((1, 2, 3, 7), repeat=2):
        for at in np.linspace(-1.1, 1.1, 45) * (first + second) / scale:
            one, two = (brute([cells("laplace", scale, *s)], at) for s in ((first + second,), (first, second)))
            assert one >= two - 1e-13
    both = (*cells("laplace", scale, 3, 3), *cells("laplace", scale, 6))
    assert worst(both) == cells("laplace", scale, 6)
    neither = (*cells("laplace", scale, 3, 3), *cells("laplace", scale, 5))
    assert worst(neither) == neither


def test_the_worst_way_of_a_draw_counts() -> None:
    draw = (*cells("gaussian", 9, 3, 3), *cells("gaussian", 9, 4))
    for epsilon in (0.5, 1.0, 2.5):
        ways = [delta_of({(way,): 3}, Fraction(epsilon)) for way in draw]
        assert delta_of({draw: 3}, Fraction(epsilon)) == pytest.approx(max(ways), rel=1e-9)


def steps_of(kind: str, count: int, ways: str) -> list[Any]:
    """Different steps with the fields that the loss depends on."""
    found = []
    for i in range(count):
        mechanism = kind if kind != "mixed" else ("discrete_laplace", "discrete_gaussian", "count_knorm")[i % 3]
        m, scale = 1 + 7 * i % 50, Fraction(31 * i % 40 + 30) + Fraction(1, 3 + i)
        choices: dict[str, list[tuple[int, ...]]] = {
            "one": [(m,)],
            "both": [(m, m), (2 * m,)],
            "odd": [(m, m), (m + m // 3 + 1,)],
        }
        facts = {"id": f"s{i}", "mechanism": mechanism, "scale": m * scale, "gauge": None}
        if mechanism == "count_knorm":
            facts |= {"gauge": Fraction(1), "scale": scale}
        found.append(SimpleNamespace(**facts, sensitivity=Sensitivity.of_shifts(*choices[ways])))
    return found


def event_of(step: Any) -> Any:
    if step.gauge is not None:
        return KNorm(ball="count", dimension=3, scale=step.scale, gauge=step.gauge)
    kind = {"discrete_laplace": DiscreteLaplace, "discrete_gaussian": DiscreteGaussian}[step.mechanism]
    return kind(scale=step.scale, sensitivity=step.sensitivity)


def every_step(steps: list[Any], loss: dict[str, Loss]) -> Any:
    made = [SimpleNamespace(id=step.id, event=event_of(step)) for step in steps]
    return SimpleNamespace(steps=made, loss=loss)


def planned(steps: list[Any], claimed: dict[str, Fraction]) -> Any:
    return every_step(steps, {name: Loss(epsilon=epsilon, delta=DELTA) for name, epsilon in claimed.items()})


@pytest.mark.thin
@pytest.mark.parametrize("ways", ["one", "both", "odd"])
@pytest.mark.parametrize("kind", ["discrete_laplace", "discrete_gaussian", "mixed"])
@pytest.mark.parametrize("count", [2, 12])
def test_every_accountant_is_confirmed_and_a_claim_one_percent_lower_refused(count: int, kind: str, ways: str) -> None:
    steps = steps_of(kind, count, ways)
    claimed = losses(Composed(events=tuple(event_of(step) for step in steps)), DELTA)
    assert set(ANY_NOISE) <= set(claimed)
    check_losses(planned(steps, claimed))
    for name, epsilon in claimed.items():
        lie = {name: epsilon * Fraction(99, 100)}
        if name == "pld" and ways != "one" and kind != "discrete_gaussian":
            continue  # Laplace noise of several ways is counted as any pure draw: one per cent less may be true
        with pytest.raises(BrokenPromiseError, match="loss"):
            check_losses(planned(steps, lie))


def test_claims_next_to_the_sum_of_all_are_confirmed_to_the_last_digit() -> None:
    """There delta falls from 1e-9 to 0 within 1e-8 of epsilon: sizes that are floats would decide."""
    delta = Fraction(1, 10**12)
    steps = [
        SimpleNamespace(
            id=str(i),
            gauge=Fraction(1),
            mechanism="count_knorm",
            scale=Fraction(3 * i + 1, 7),
            sensitivity=Sensitivity.of_one_cell(1),
        )
        for i in range(1, 8)
    ]
    claimed = losses(Composed(events=tuple(event_of(step) for step in steps)), delta)
    assert 0 < claimed["basic"] - claimed["advanced"] < Fraction(1, 10**9)
    every = {name: Loss(epsilon=epsilon, delta=delta) for name, epsilon in claimed.items()}
    check_losses(every_step(steps, every))
    lie = Loss(epsilon=claimed["basic"] - 2 * (claimed["basic"] - claimed["advanced"]), delta=delta)
    with pytest.raises(BrokenPromiseError):
        check_losses(every_step(steps, {"advanced": lie}))


def test_boxes_that_use_up_all_of_a_large_delta_are_confirmed() -> None:
    """Their deltas do not add up: that one of them fails has this probability."""
    delta = Fraction(1, 10**4)
    facts = {"gauge": None, "mechanism": "discrete_gaussian", "sensitivity": Sensitivity.of_one_cell(1)}
    steps = [SimpleNamespace(id=str(i), scale=Fraction(8), **facts) for i in range(2)]
    epsilon = losses(Composed(events=tuple(event_of(step) for step in steps)), delta)["advanced"]
    check_losses(every_step(steps, {"advanced": Loss(epsilon=epsilon, delta=delta)}))
    with pytest.raises(BrokenPromiseError, match="loss"):
        check_losses(every_step(steps, {"advanced": Loss(epsilon=epsilon * (1 - Fraction(1, 10**4)), delta=delta)}))


@pytest.mark.parametrize("revealed", [Fraction(3, 10**5), Fraction(1, 10**7)])
def test_boxes_beside_draws_that_reveal_are_confirmed(revealed: Fraction) -> None:
    """Of a delta much of which is spent otherwise: what is left is shared as the accountant shares it."""
    delta = Fraction(1, 10**4)
    noise = DiscreteGaussian(scale=Fraction(30), sensitivity=Sensitivity.of_one_cell(1))
    event = Composed(
        events=(Repeated(event=noise, count=40), *[Approximate(epsilon=Fraction(1, 5), delta=revealed)] * 2)
    )
    draws, epsilon = draws_of_event(event, "it"), losses(event, delta)["advanced"]
    assert _advanced(draws, epsilon, delta)
    assert not _advanced(draws, epsilon * (1 - Fraction(1, 10**4)), delta)


@pytest.mark.parametrize("name", ["zcdp", "rdp"])
def test_a_figure_that_the_named_theorem_does_not_give_is_refused_though_it_is_true(name: str) -> None:
    steps = steps_of("mixed", 9, "one")
    claimed = losses(Composed(events=tuple(event_of(step) for step in steps)), DELTA)
    for factor in (Fraction(101, 100), Fraction(100001, 100000)):
        with pytest.raises(BrokenPromiseError, match=name):
            check_losses(planned(steps, {name: claimed[name] * factor}))


@pytest.mark.slow
def test_a_thousand_different_draws_are_checked_in_reasonable_time() -> None:
    steps = [
        SimpleNamespace(
            id=str(i),
            gauge=None,
            mechanism="discrete_gaussian" if i % 2 else "discrete_laplace",
            scale=Fraction(40 * (1 + i % 97)) + Fraction(i, 7),
            sensitivity=Sensitivity.of_one_cell(1 + i % 97),
        )
        for i in range(1000)
    ]
    event = Composed(events=tuple(event_of(step) for step in steps))
    claimed = {name: e for name, e in losses(event, DELTA).items() if name in ("zcdp", "rdp", "pld")}
    check_losses(planned(steps, claimed))
    with pytest.raises(BrokenPromiseError):
        check_losses(planned(steps, {"pld": claimed["pld"] * Fraction(99, 100)}))


@pytest.mark.parametrize("part", [0.97, 0.9, 0.7])
def test_near_their_largest_loss_few_unequal_responses_are_known_to_all_digits(part: float) -> None:
    """All 2^12 outcomes listed: near the top the masses lie apart, where an integral knows five digits only."""
    sizes = [Fraction(3 * k * k + 7, 251 + k) for k in range(12)]
    epsilon = sum(sizes) * Fraction(part)
    signs = np.array(list(product((1, -1), repeat=12)))
    losses = signs @ np.array([float(size) for size in sizes])
    masses = np.prod(1 / (1 + np.exp(-signs * np.array([float(size) for size in sizes]))), axis=1)
    truth = float(np.sum(masses * np.maximum(0, -np.expm1(float(epsilon) - losses))))
    draws = {pure(size): 1 for size in sizes}
    assert delta_of(draws, epsilon) == pytest.approx(truth, rel=1e-8)


def test_hundreds_of_equal_responses_beside_others_are_not_listed() -> None:
    """The number of ways to choose some of 5,000 is no float."""
    draws = {pure(Fraction(1, 1000)): 5000, pure(Fraction(1, 3)): 1, pure(Fraction(2, 7)): 1}
    assert 0 < delta_of(draws, Fraction(1, 2)) < 1


@pytest.mark.parametrize("number", [60, 200])
def test_frequencies_that_are_told_to_be_nothing_change_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = {pure(0.4 / math.sqrt(number) * (1 + at / number)): 1 + at % 2 for at in range(number)}
    kept: list[int] = []
    possible = delta._possible

    def counted(*given: Any) -> Any:
        found = possible(*given)
        kept.append(len(given[3]) - len(found))
        return found

    epsilons = [Fraction(1, 10), Fraction(1), Fraction(5, 2)]
    monkeypatch.setattr(delta, "_possible", counted)
    quick = [delta_of(draws, epsilon) for epsilon in epsilons]
    assert max(kept) > 1000
    monkeypatch.setattr(delta, "_possible", lambda *given: np.arange(len(given[3])))
    assert quick == pytest.approx([delta_of(draws, epsilon) for epsilon in epsilons], rel=1e-9)
