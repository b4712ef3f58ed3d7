"""What the privacy loss accountant makes of each kind of event, and what it refuses."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.pld import Pld, _composed, _dominating
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Laplace,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.theorems import bounded_range, gaussian, loss_bound
from dprelease.privacy.theorems.loss_bound import ComposedLoss
from dprelease.privacy.theorems.loss_laws import ULP, Bell
from dprelease.privacy.theorems.total_loss import CellLaw, total_of
from dprelease.privacy.unit import Neighboring

PLD = Pld()
DELTA = Fraction(1, 10**6)
ONE = Sensitivity.of_one_cell(1)
UNKNOWN = Sensitivity(l0=3, l1=Fraction(4), l2_squared=Fraction(6), linf=Fraction(2))


def laplace(scale: int | Fraction, shift: int = 1) -> DiscreteLaplace:
    return DiscreteLaplace(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift))


def discrete_gaussian(scale: Fraction | int, *shifts: tuple[int, ...]) -> Event:
    return DiscreteGaussian(scale=Fraction(scale), sensitivity=Sensitivity.of_shifts(*(shifts or ((1,),))))


@pytest.mark.parametrize(
    "events",
    [
        [laplace(3), laplace(3), laplace(5, 2), discrete_gaussian(40), discrete_gaussian(40, (3,))],
        [
            discrete_gaussian(5000),
            discrete_gaussian(7, (2, 1)),
            laplace(9),
            KNorm(ball="count", dimension=2, scale=4, gauge=1),
        ],
        [
            DiscreteLaplace(scale=Fraction(7), sensitivity=UNKNOWN),
            DiscreteGaussian(scale=Fraction(90), sensitivity=UNKNOWN),
        ],
        [DiscreteLaplace(scale=Fraction(7), sensitivity=ONE.model_copy(update={"l1": Fraction(1, 2)})), laplace(2, 0)],
    ],
)
def test_draws_on_one_cell_go_to_the_law_that_the_long_way_finds(events: list[Event]) -> None:
    counted = atoms(Composed(events=tuple(events)))
    long_way = ComposedLoss.of((_dominating(atom), n) for atom, n in counted.items())
    assert _composed(counted) == long_way
    tops = [n * part.top for part, n in long_way.parts.items()]
    found = total_of(long_way.parts)
    assert sum(tops) <= found.ref <= sum(tops) + len(tops) * Fraction(1, 2**200)


def test_a_wide_bell_has_a_dual_sum_of_one_and_a_narrow_one_has_not() -> None:
    wide, narrow = (Bell(np.ones(2), np.array(scales), np.ones(2)) for scales in ([2.0, 90.0], [0.3, 90.0]))
    for theta in (0.0, 0.25, 0.5):
        terms = [2 * np.exp(-2 * (np.pi * wide.scale * m) ** 2) * np.cos(2 * np.pi * m * theta) for m in (1, 2)]
        assert (wide._dual(theta) == 1 + sum(terms)).all()
        assert abs(narrow._dual(theta)[0] - 1) > 1e-2 or theta == 0.25


def masses(part: CellLaw) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and losses above the reference, by listing what the noise can be."""
    value, shift, top = float(part.value), part.shift, float(part.top)
    if part.kind == "response":
        return np.array([1.0, math.exp(-value)]) / (1 + math.exp(-value)), np.array([0.0, -2 * value])
    if part.kind == "smooth":
        t = (np.arange(200_000) + 0.5) * value / 200_000
        inner = np.exp(-t) * value / 200_000 / 2
        return np.concatenate([[0.5, math.exp(-value) / 2], inner]), np.concatenate([[0.0, -2 * value], -2 * t])
    if part.kind == "pair":
        small, alike = float(part.small), float(part.alike)
        outcomes = np.array([value, -value, small, -small])
        return np.array([alike, alike, 1 - alike, 1 - alike]) / (1 + np.exp(-outcomes)), outcomes - top
    if part.kind == "ramp":
        at = value * (2 * (np.arange(200_000) + 0.5) / 200_000 - 1)
        return np.exp(at / 2) / np.exp(at / 2).sum(), at - top
    x = np.arange(-int(60 * value) - shift - 20, int(60 * value) + shift + 20).astype(float)
    if part.kind == "bell":
        weights, losses = np.exp(-(x**2) / (2 * value**2)), ((x - shift) ** 2 - x**2) / (2 * value**2)
    else:
        weights, losses = np.exp(-np.abs(x) / value), (np.abs(x - shift) - np.abs(x)) / value
    return weights / weights.sum(), losses - top


@pytest.mark.parametrize("theta", [0.03, 0.9, 6.5])
@pytest.mark.parametrize(
    "part",
    [
        CellLaw("response", Fraction(7, 10)),
        CellLaw("pair", Fraction(7, 10), small=Fraction(3, 10), alike=Fraction(53, 100)),
        CellLaw("pair", Fraction(9), small=Fraction(1, 1000), alike=Fraction(99, 100)),
        CellLaw("pair", Fraction(1, 500), small=Fraction(1, 800), alike=Fraction(1, 2)),
        CellLaw("ramp", Fraction(3, 2)),
        CellLaw("ramp", Fraction(1, 500)),
        CellLaw("smooth", Fraction(3, 2)),
        CellLaw("staircase", Fraction(5, 2), 1),
        CellLaw("staircase", Fraction(5, 2), 2),
        CellLaw("staircase", Fraction(40), 7),
        CellLaw("staircase", Fraction(1, 3), 5),
        CellLaw("bell", Fraction(1, 4), 1),
        CellLaw("bell", Fraction(9, 10), 3),
        CellLaw("bell", Fraction(1), 1),
        CellLaw("bell", Fraction(7, 3), 2),
        CellLaw("bell", Fraction(30), 4),
    ],
)
def test_closed_forms_are_the_sums_over_all_outputs(part: CellLaw, theta: float) -> None:
    """Also at frequencies beyond one turn of the lattice, where a wrong reduction would show."""
    (family,) = total_of(Counter({part: 1})).families
    mass, loss = masses(part)
    mass, loss = mass[mass > 0], loss[mass > 0]
    logs = np.log(mass) + theta * loss
    tilted = np.exp(logs - logs.max())
    omega = np.array([0.0, 0.01, 0.7, 3.0, 11.0, 47.0])
    expected = (tilted[:, None] * np.exp(1j * np.outer(loss, omega))).sum(axis=0) / tilted.sum()
    allowed = 1e-7 if part.kind in ("smooth", "ramp") else 2e-12
    assert family.log_moment(theta)[0] == pytest.approx(logs.max() + math.log(tilted.sum()), abs=allowed, rel=1e-11)
    assert np.abs(family.tilted(theta, omega)[0] - expected).max() < allowed
    fixed, growing = family.slack(theta)
    assert 0 < fixed[0] < 1e5 * ULP
    assert 0 < growing[0] < 1e5 * ULP


def test_a_shift_of_ten_million_steps_costs_no_more_than_one() -> None:
    event = laplace(10**6, 10**7)
    smooth = Laplace(scale=Fraction(1), sensitivity=Sensitivity.of_one_cell(10))
    assert float(PLD.epsilon(event, DELTA)) == pytest.approx(float(PLD.epsilon(smooth, DELTA)), rel=1e-5)


def test_pure_draws_at_delta_zero_and_never_above_their_sum() -> None:
    event = Composed(
        events=(
            laplace(3),
            KNorm(ball="linf", dimension=2, scale=Fraction(2), gauge=Fraction(1)),
            BoundedRange(epsilon=Fraction(1, 7)),
        )
    )
    total = Fraction(1, 3) + Fraction(1, 2) + Fraction(1, 7)
    assert PLD.epsilon(event, Fraction(0)) == total
    assert PLD.epsilon(event, Fraction(1, 10**60)) <= total
    assert PLD.delta(event, total) == 0
    assert 0 < PLD.delta(event, total - Fraction(1, 10**6)) < DELTA


@pytest.mark.parametrize("event", [Gaussian(scale=Fraction(1), sensitivity=ONE), discrete_gaussian(3)])
def test_gaussian_noise_needs_a_delta(event: Event) -> None:
    with pytest.raises(UnsupportedEvent) as caught:
        PLD.epsilon(event, Fraction(0))
    assert "give the budget a delta" in caught.value.hint


def test_own_deltas_beyond_the_budget_are_refused() -> None:
    event = Repeated(event=Approximate(epsilon=Fraction(1, 10), delta=Fraction(1, 10**7)), count=50)
    with pytest.raises(UnsupportedEvent, match=r"use up 4\.99999e-06"):
        PLD.epsilon(event, DELTA)
    assert PLD.rough_epsilon(event, 1e-6) == math.inf


def test_gaussian_draws_are_one() -> None:
    event = Composed(events=tuple(Gaussian(scale=Fraction(s), sensitivity=ONE) for s in (3, 4, 12)))
    squared = Fraction(1, 9) + Fraction(1, 16) + Fraction(1, 144)
    assert PLD.epsilon(event, DELTA) == gaussian.epsilon(squared, DELTA)
    # the integral, which other mixes use, gives the same figure
    tiny = Approximate(epsilon=Fraction(1, 10**12))
    assert float(PLD.epsilon(Composed(events=(event, tiny)), DELTA)) == pytest.approx(
        float(gaussian.epsilon(squared, DELTA)), rel=1e-10
    )


def test_changed_cells_cost_like_draws_of_their_own() -> None:
    both = DiscreteLaplace(scale=Fraction(9), sensitivity=Sensitivity.of_shifts((2, 1, 1)))
    apart = Composed(events=(laplace(9, 2), laplace(9), laplace(9)))
    assert PLD.epsilon(both, DELTA) == PLD.epsilon(apart, DELTA)
    several = DiscreteLaplace(scale=Fraction(9), sensitivity=Sensitivity.of_shifts((2, 1, 1), (3,)))
    assert PLD.epsilon(several, DELTA) == PLD.epsilon(Approximate(epsilon=Fraction(4, 9)), DELTA)


def test_discrete_gaussian_without_one_worst_vector() -> None:
    small = PLD.epsilon(discrete_gaussian(3, (3, 1), (2, 2)), DELTA)
    assert small == PLD.epsilon(discrete_gaussian(3, (3, 2)), DELTA)  # which covers both
    norms = Sensitivity(l0=5, l1=Fraction(6), l2_squared=Fraction(9), linf=Fraction(3))
    unlisted = PLD.epsilon(DiscreteGaussian(scale=Fraction(3), sensitivity=norms), DELTA)
    assert unlisted == PLD.epsilon(discrete_gaussian(3, (3, 2, 1, 1, 1)), DELTA)
    # what covers them is no dearer than they are, and so exact; else the Gaussian bound of the norms
    norms = UNKNOWN.model_copy(update={"l2_squared": Fraction(5)})
    for known, vector in ((UNKNOWN, (2, 1, 1)), (norms, (2, 1))):
        unknown = DiscreteGaussian(scale=Fraction(20), sensitivity=known)
        exact = DiscreteGaussian(scale=Fraction(20), sensitivity=Sensitivity.of_shifts(vector))
        assert PLD.epsilon(unknown, DELTA) >= PLD.epsilon(exact, DELTA)
    assert PLD.epsilon(DiscreteGaussian(scale=Fraction(20), sensitivity=UNKNOWN), DELTA) == PLD.epsilon(
        DiscreteGaussian(scale=Fraction(20), sensitivity=Sensitivity.of_shifts((2, 1, 1))), DELTA
    )
    found, least = (PLD.epsilon(Repeated(event=e, count=10), DELTA) for e in (unknown, exact))
    assert least < found < least * Fraction(1001, 1000)
    mixed = Composed(events=(Repeated(event=unknown, count=10), laplace(10)))
    assert PLD.epsilon(mixed, DELTA) > found
    assert PLD.delta(mixed, PLD.epsilon(mixed, DELTA)) <= DELTA


def test_concentrated_is_refused() -> None:
    with pytest.raises(UnsupportedEvent, match="concentrated"):
        PLD.epsilon(Concentrated(rho=Fraction(1, 10)), DELTA)


def test_parts_in_parallel() -> None:
    a, b, c = Repeated(event=laplace(5), count=4), discrete_gaussian(6), laplace(50)
    alone = {id(x): PLD.epsilon(x, DELTA) for x in (a, b, c)}
    assert PLD.epsilon(Parallel(events=(a, b, c)), DELTA) == max(alone.values())
    replaced = Parallel(events=(a, b, c), neighboring=Neighboring.REPLACE_ONE)
    assert PLD.epsilon(replaced, DELTA) == max(
        PLD.epsilon(Composed(events=pair), DELTA) for pair in ((a, b), (a, c), (b, c))
    )
    same = Parallel(events=(b, b, b), neighboring=Neighboring.REPLACE_ONE)
    assert PLD.epsilon(same, DELTA) == PLD.epsilon(Repeated(event=b, count=2), DELTA)
    with pytest.raises(UnsupportedEvent, match="beside other draws"):
        PLD.epsilon(Composed(events=(Parallel(events=(a, b)), c)), DELTA)
    covered = Composed(events=(Parallel(events=(a, laplace(5))), c))
    assert PLD.epsilon(covered, DELTA) == PLD.epsilon(Composed(events=(a, c)), DELTA)
    pure = Composed(events=(Parallel(events=(laplace(5, 2), laplace(9))), c))
    assert PLD.epsilon(pure, DELTA) == PLD.epsilon(Composed(events=(Approximate(epsilon=Fraction(2, 5)), c)), DELTA)


def test_no_event_and_draws_that_move_nothing_cost_nothing() -> None:
    still = Sensitivity.of_shifts()
    nothing = Composed(
        events=(
            DiscreteGaussian(scale=Fraction(1), sensitivity=still),
            DiscreteLaplace(scale=Fraction(1), sensitivity=still),
            Gaussian(scale=Fraction(1), sensitivity=still),
            Approximate(epsilon=Fraction(0)),
            Parallel(),
        )
    )
    for event in (Composed(), nothing):
        assert PLD.epsilon(event, Fraction(0)) == 0
        assert PLD.epsilon(event, DELTA) == 0
        assert PLD.delta(event, Fraction(0)) == 0
        assert PLD.rough_epsilon(event, 1e-6) == 0


def test_what_epsilon_returns_delta_confirms() -> None:
    for event in (
        Composed(events=(laplace(7), laplace(9), laplace(11, 2), discrete_gaussian(Fraction(7, 3)))),
        Repeated(event=Laplace(scale=Fraction(20), sensitivity=ONE), count=20),
        Composed(events=tuple(laplace(100 + i) for i in range(50))),
    ):
        for delta in (Fraction(1, 2), DELTA, Fraction(1, 10**40)):
            found = PLD.epsilon(event, delta)
            assert PLD.delta(event, found) <= delta
            assert PLD.rough_epsilon(event, float(delta)) == pytest.approx(float(found), rel=2e-4)


@pytest.mark.parametrize(
    "draw",
    [
        laplace(1),
        laplace(3, 2),
        laplace(Fraction(1, 3), 5),
        laplace(400_000, 200_000),
        Laplace(scale=Fraction(7, 2), sensitivity=Sensitivity.of_one_cell(3)),
    ],
)
def test_a_laplace_draw_alone_has_the_curve_of_its_integral(draw: DiscreteLaplace | Laplace) -> None:
    """The closed form is never above the integral, which is an upper bound, and as near to it as that is tight."""
    pure = draw.sensitivity.l1 / draw.scale
    loss = _dominating(draw)
    for part in range(9):
        epsilon = pure * part / 8
        closed, integral = PLD.delta(Composed(events=(draw,)), epsilon), loss.delta(epsilon)
        assert closed <= integral <= closed + max(closed, Fraction(1, 10**6)) / 10**6
    assert PLD.delta(draw, pure) == 0 < PLD.delta(draw, pure * Fraction(7, 8))
    for delta in (Fraction(1, 5), DELTA):
        assert PLD.delta(draw, PLD.epsilon(draw, delta)) <= delta


def test_order_does_not_matter() -> None:
    events = (*(laplace(100 + i) for i in range(40)), discrete_gaussian(30))
    forth, back = Composed(events=events), Composed(events=events[::-1])
    assert PLD.epsilon(forth, DELTA) == PLD.epsilon(back, DELTA)


def test_one_more_draw_never_lowers_epsilon() -> None:
    """From an exact lattice sum to one with an extra Gaussian draw, and to one with a real one."""
    events: list[Event] = [Repeated(event=Approximate(epsilon=Fraction(1, 10)), count=20)]
    before = Fraction(0)
    for extra in (
        Approximate(epsilon=Fraction(1, 10**7)),
        laplace(10**9),
        Gaussian(scale=Fraction(10**6), sensitivity=ONE),
        Gaussian(scale=Fraction(10**3), sensitivity=ONE),
        Laplace(scale=Fraction(17, 2), sensitivity=ONE),
        discrete_gaussian(Fraction(40, 3)),
        DiscreteGaussian(scale=Fraction(1000), sensitivity=UNKNOWN),
    ):
        events.append(extra)
        after = PLD.epsilon(Composed(events=tuple(events)), DELTA)
        assert after >= before * (1 - Fraction(1, 10**9))
        before = after


def test_a_negative_epsilon_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        PLD.delta(laplace(1), Fraction(-1))


def test_a_loss_covers_another_with_fewer_draws() -> None:
    small, large = (
        ComposedLoss(Counter({CellLaw("response", Fraction(1)): 1})),
        ComposedLoss(Counter({CellLaw("response", Fraction(1)): 2})),
    )
    assert large.covers(small)
    assert not small.covers(large)


@pytest.mark.parametrize("scale", [2**12, 10**6, 2 * 10**12, 2 * 10**14])
def test_wide_discrete_noise_costs_what_the_gaussian_costs(scale: int) -> None:
    """On a fine lattice the two agree, and floats lose nothing however fine it is."""
    shift = max(1, scale // 10**5)
    event = DiscreteGaussian(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift))
    delta = Fraction(1, 10**12)
    found = Pld().epsilon(event, delta)
    exact = gaussian.epsilon(Fraction(shift, scale) ** 2, delta)
    assert exact <= found <= exact * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize("size", ["1/1000", "1/10", "1", "8"])
def test_a_bounded_range_has_the_profile_of_its_proof(size: str) -> None:
    """Found by the integral over its transform, and in closed form."""
    whole = Fraction(size)
    for part in (Fraction(0), Fraction(1, 3), Fraction(9, 10), Fraction(999, 1000)):
        near = bounded_range.delta(whole, whole * part * (1 - Fraction(5, 10**7))) * (1 + Fraction(2, 10**6))
        claim = PLD.delta(BoundedRange(epsilon=whole), whole * part)
        assert bounded_range.delta(whole, whole * part) <= claim <= near
    assert PLD.delta(BoundedRange(epsilon=whole), whole) == 0
    assert PLD.epsilon(BoundedRange(epsilon=whole), Fraction(0)) == whole


@pytest.mark.parametrize("delta", [1e-6, 1e-9, 1e-12])
def test_epsilon_next_to_a_largest_loss_takes_a_few_readings(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One unit in the last place of epsilon moves delta by more than the search aims for: it went back to 0 for that."""
    readings: list[float] = []
    usual = loss_bound._Curve.log_bound

    def counted(curve: loss_bound._Curve, epsilon: float) -> tuple[float, float]:
        readings.append(epsilon)
        return usual(curve, epsilon)

    monkeypatch.setattr(loss_bound._Curve, "log_bound", counted)
    loss = ComposedLoss(Counter({CellLaw("staircase", Fraction(10, 13), 1): 1}))

    found = loss.rough_epsilon(delta)

    top = 1.3
    assert found == pytest.approx(top + math.log1p(-delta * (1 + math.exp(-top))), rel=1e-9)
    assert len(readings) <= 12
