"""RDP: one conversion of added curves, in both directions, against other tools and a plain minimum over orders."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.rdp import Rdp, curve_of
from dprelease.privacy.accountants.zcdp import Zcdp
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
    TotalResidual,
)
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.privacy.theorems.conversion import renyi_epsilon
from dprelease.privacy.theorems.renyi import Curve
from dprelease.privacy.unit import Neighboring
from tests.reference_comparisons import (
    mironov_epsilon,
    noisy_max_rho,
    range_divergence,
    response_divergence,
    shifted_divergence,
)
from tests.tiers import few

ONE = Sensitivity.of_one_cell(1)
MILLIONTH = Fraction(1, 10**6)
scales = st.fractions(min_value=Fraction(1, 4), max_value=3000, max_denominator=64)
sensitivities = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(
    lambda shifts: Sensitivity.of_shifts(*shifts)
)
single: st.SearchStrategy[Event] = (
    st.builds(DiscreteLaplace, scale=scales, sensitivity=sensitivities)
    | st.builds(DiscreteGaussian, scale=scales, sensitivity=sensitivities)
    | st.builds(Laplace, scale=scales, sensitivity=sensitivities)
    | st.builds(KNorm, ball=st.just("count"), dimension=st.just(3), scale=scales, gauge=st.just(Fraction(2)))
    | st.builds(
        TotalResidual,
        dimension=st.sampled_from([2, 20]),
        share=st.just(Fraction(1, 4)),
        scale=scales,
        rows=st.sampled_from([1, 2]),
    )
    | st.builds(BoundedRange, epsilon=scales.map(lambda s: 1 / s))
    | st.builds(Approximate, epsilon=scales.map(lambda s: 1 / s))
    | st.builds(Concentrated, rho=scales.map(lambda s: 1 / s))
)
draws = single | st.builds(
    Parallel, events=st.lists(single, min_size=1, max_size=3).map(tuple), neighboring=st.sampled_from(Neighboring)
)
composed = st.lists(draws, min_size=1, max_size=4).map(lambda parts: Composed(events=tuple(parts)))
deltas = st.floats(min_value=-60, max_value=-0.3).map(lambda log: Fraction(math.exp(log)))


def times(event: Event, count: int) -> Event:
    return Repeated(event=event, count=count)


GAUSS100 = times(Gaussian(scale=Fraction(10), sensitivity=ONE), 100)
LAP100 = times(Laplace(scale=Fraction(10), sensitivity=ONE), 100)
MIX = Composed(
    events=(
        times(Laplace(scale=Fraction(10), sensitivity=ONE), 50),
        times(Gaussian(scale=Fraction(20), sensitivity=ONE), 50),
    )
)


@pytest.mark.parametrize(
    ("case", "value", "expected"),
    [
        ("rdp-lap-1.0-5.0", shifted_divergence(1, 1, 5), 0.8530780145169694),
        ("rdp-lap-2.0-32.0", shifted_divergence(2, 1, 32), 0.47814842504542626),
        ("rdp-lap-0.5-1.5", shifted_divergence(0.5, 1, 1.5), 1.4368091584145994),
        ("rdp-rr-0.7311-2.0", response_divergence(0.7310585786300049, 2), 0.7353256640555191),
        ("rdp-expmech", range_divergence(1, 8), 0.9983015614822445),
        ("rnm-zcdp-mono", noisy_max_rho(2, 1, True), 0.03125),
        ("rdp-mironov-gauss100", mironov_epsilon(curve_of(GAUSS100), MILLIONTH), 5.756521769756932),
    ],
)
def test_figures_of_other_tools(case: str, value: Fraction, expected: float) -> None:
    assert float(value) == pytest.approx(expected, rel=1e-12), case


@pytest.mark.parametrize(
    ("case", "event", "expected"),
    [
        ("rdp->dp-gauss100", GAUSS100, 5.22153452479831),
        ("rdp->dp-mix", MIX, 3.826008441814989),
        ("rdp->dp-lap100", LAP100, 4.9841740024932015),
    ],
)
def test_epsilon_of_dense_orders(case: str, event: Event, expected: float) -> None:
    assert float(Rdp().epsilon(event, MILLIONTH)) == pytest.approx(expected, rel=1e-6), case
    assert float(Rdp().epsilon(event, MILLIONTH)) <= expected, case  # continuous orders can only be better


def test_delta_of_dense_orders() -> None:
    found = float(Rdp().delta(GAUSS100, Fraction(3)))  # case rdp->delta-gauss100
    assert found == pytest.approx(0.005143184064389681, rel=1e-5)


@pytest.mark.parametrize("event", [GAUSS100, LAP100, MIX])
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-12"])
def test_against_dp_accounting_on_dense_orders(event: Event, delta: str) -> None:
    dp_event = pytest.importorskip("dp_accounting.dp_event")
    rdp = pytest.importorskip("dp_accounting.rdp")
    orders = 1 + np.exp(np.linspace(-4, 6, 4001))
    accountant = rdp.RdpAccountant(orders=orders)
    parts = event.events if isinstance(event, Composed) else (event,)
    for part in parts:
        assert isinstance(part, Repeated)
        assert isinstance(part.event, Gaussian | Laplace)
        kind = dp_event.GaussianDpEvent if isinstance(part.event, Gaussian) else dp_event.LaplaceDpEvent
        accountant.compose(kind(float(part.event.scale)), part.count)
    assert float(Rdp().epsilon(event, Fraction(delta))) == pytest.approx(accountant.get_epsilon(float(delta)), rel=1e-6)
    for epsilon in (1.0, 3.0):
        theirs = accountant.get_delta(epsilon)
        assert float(Rdp().delta(event, Fraction(epsilon))) == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize(("epsilon", "delta", "most"), [("0.01", "1e-9", 1.07), ("0.001", "1e-12", 1.06)])
def test_orders_do_not_stop_at_a_thousand(epsilon: str, delta: str, most: float) -> None:
    """Gaussian noise that is exactly (epsilon, delta)-DP; orders up to 1024 report 1.5 and 19 times as much."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        e, d = mpmath.mpf(epsilon), mpmath.mpf(delta)
        mu = mpmath.findroot(
            lambda m: mpmath.log((mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)) / d),
            (e / 8, e / 5),
        )
    noise = Gaussian(scale=Fraction(str(1 / mu)), sensitivity=ONE)
    laplace = DiscreteLaplace(scale=Fraction(10**9), sensitivity=ONE)  # so that the search over orders is used
    for event in (noise, Composed(events=(noise, laplace))):
        claimed = float(Rdp().epsilon(event, Fraction(delta)))
        assert float(epsilon) < claimed < most * float(epsilon)


def least(curve: Curve, delta: float) -> float:
    """Over a fine grid of all orders, then over a finer one around its lowest point."""

    def at(points: np.ndarray) -> np.ndarray:
        x = np.exp(points)
        return np.asarray(curve.quick(x) + np.log(x) - np.log1p(x) - (np.log(delta) + np.log1p(x)) / x)

    coarse = np.linspace(-19, 30, 2_001)
    around = coarse[int(at(coarse).argmin())]
    return float(at(np.linspace(around - 0.05, around + 0.05, 4_001)).min())


@settings(max_examples=few(40))
@given(event=composed, delta=deltas)
def test_the_order_is_the_best_of_a_fine_grid(event: Event, delta: Fraction) -> None:
    curve = curve_of(event)
    assert float(renyi_epsilon(curve, delta)) <= max(0.0, least(curve, float(delta))) * (1 + 1e-9) + 1e-15


def test_kinks_and_several_valleys_are_searched() -> None:
    """A maximum of a steep and a flat curve has its kink, a bounded range leaves its line: the best order is there."""
    part = Parallel(events=(Approximate(epsilon=Fraction(3)), Concentrated(rho=Fraction(1, 2))))
    event = Composed(events=(times(part, 3), times(BoundedRange(epsilon=Fraction(2)), 4)))
    for delta in (0.4, 1e-2, 1e-5, 1e-8, 1e-30):
        curve = curve_of(event)
        # the grid may miss a kink by half its step, the search may not
        assert float(renyi_epsilon(curve, Fraction(delta))) == pytest.approx(least(curve, delta), rel=1e-4)
        assert float(renyi_epsilon(curve, Fraction(delta))) <= least(curve, delta) * (1 + 1e-9)


@settings(max_examples=few(40))
@given(event=composed, delta=deltas)
def test_delta_undoes_epsilon(event: Event, delta: Fraction) -> None:
    """To 1e-9, and to the last bits of epsilon where delta falls steeply: just below the sum of pure epsilons."""
    epsilon, bits = Rdp().epsilon(event, delta), Fraction(1, 10**12)
    assert Rdp().delta(event, epsilon * (1 + bits)) <= delta * (1 + Fraction(1, 10**9))
    if 0 < epsilon != sum_of_pure(event):
        assert Rdp().delta(event, epsilon * (1 - bits)) >= delta * (1 - Fraction(1, 10**9))


def sum_of_pure(event: Event) -> Fraction | None:
    try:
        return Rdp().epsilon(event, Fraction(0))
    except UnsupportedEvent:
        return None


@settings(max_examples=few(40))
@given(event=composed, delta=deltas)
def test_never_above_zcdp_nor_above_the_sum(event: Event, delta: Fraction) -> None:
    claimed = Rdp().epsilon(event, delta)
    assert claimed <= Zcdp().epsilon(event, delta)
    assert Rdp().delta(event, claimed) <= Zcdp().delta(event, claimed)
    try:
        assert claimed <= Rdp().epsilon(event, Fraction(0))
    except UnsupportedEvent:
        assert Rdp().delta(event, 1000 * claimed + 1000) > 0


@settings(max_examples=few(40))
@given(event=composed, delta=deltas)
def test_floats_are_near(event: Event, delta: Fraction) -> None:
    exact = float(Rdp().epsilon(event, delta))
    assert Rdp().rough_epsilon(event, float(delta)) == pytest.approx(exact, rel=1e-8, abs=1e-12)


def test_at_delta_zero_and_order_infinity() -> None:
    laplace = DiscreteLaplace(scale=Fraction(7), sensitivity=Sensitivity.of_shifts((2, 1)))
    unmoved = Gaussian(scale=Fraction(1), sensitivity=Sensitivity.of_shifts())
    event = Composed(events=(times(laplace, 3), BoundedRange(epsilon=Fraction(1, 5)), unmoved))
    total = Fraction(9, 7) + Fraction(1, 5)
    assert Rdp().epsilon(event, Fraction(0)) == total
    assert Rdp().epsilon(event, Fraction(1, 10**60)) == total
    assert Rdp().delta(event, total) == 0
    assert Rdp().delta(event, total - Fraction(1, 10**6)) > 0
    assert Rdp().rough_epsilon(event, 0.0) == pytest.approx(float(total))
    for nothing in (Composed(), unmoved, Parallel()):
        assert Rdp().epsilon(nothing, Fraction(0)) == Rdp().delta(nothing, Fraction(0)) == 0
        assert Rdp().rough_epsilon(nothing, 1e-9) == 0
    with pytest.raises(UnsupportedEvent) as caught:
        Rdp().epsilon(MIX, Fraction(0))
    assert "delta" in caught.value.hint
    assert Rdp().rough_epsilon(MIX, 0.0) == math.inf


def test_only_concentrated_is_the_same_as_zcdp() -> None:
    assert Rdp().epsilon(GAUSS100, MILLIONTH) == rho_to_epsilon(Fraction(1, 2), MILLIONTH)


def test_shifts_that_are_known_cost_less_than_their_sum() -> None:
    scale, known = Fraction(5), Sensitivity.of_shifts((1,) * 10)
    total = known.model_copy(update={"shifts": ()})
    loss = [Rdp().epsilon(DiscreteLaplace(scale=scale, sensitivity=each), MILLIONTH) for each in (known, total)]
    ten = Rdp().epsilon(times(DiscreteLaplace(scale=scale, sensitivity=ONE), 10), MILLIONTH)
    assert loss[0] == ten
    assert loss[0] <= loss[1]
    assert Rdp().delta(DiscreteLaplace(scale=scale, sensitivity=known), Fraction(1)) < Rdp().delta(
        DiscreteLaplace(scale=scale, sensitivity=total), Fraction(1)
    )


def test_a_thousand_different_scales_are_certified_above_the_exact_sum() -> None:
    scales_of = [Fraction(50_000 + 37 * k, 16) for k in range(1000)]
    event = Composed(events=tuple(DiscreteLaplace(scale=s, sensitivity=ONE) for s in scales_of))
    claimed = Rdp().epsilon(event, MILLIONTH)
    assert float(claimed) == pytest.approx(least(curve_of(event), 1e-6), rel=1e-8)


@pytest.mark.parametrize(("scale", "shift", "count"), [(3, 2, 30), (20, 5, 40), (1, 4, 6), (8, 1, 100)])
@pytest.mark.parametrize("delta", ["1e-3", "1e-8"])
def test_the_claim_covers_the_exact_loss_of_many_lattice_draws(scale: int, shift: int, count: int, delta: str) -> None:
    """The loss of a draw k is (|k - s| - |k|) / scale, a whole number of steps: so n draws are a convolution."""
    k = np.arange(-60 * scale, 60 * scale + shift + 1)
    weights = np.exp(-np.abs(k) / scale)
    one = np.bincount(np.abs(k - shift) - np.abs(k) + shift, weights=weights / weights.sum())
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, one)
    losses = [Fraction(j - count * shift, scale) for j in range(len(total))]

    def exact(epsilon: Fraction) -> float:
        gaps = np.array([max(0.0, float(loss - epsilon)) for loss in losses])  # exact before it is a float
        return float((total * -np.expm1(-gaps)).sum())

    event = times(DiscreteLaplace(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift)), count)
    claimed = Rdp().epsilon(event, Fraction(delta))
    assert exact(claimed) <= float(delta) * (1 + 1e-11)
    assert exact(claimed * Fraction(85, 100)) > float(delta)
    lower = claimed * Fraction(9, 10)
    assert exact(lower) <= Rdp().delta(event, lower)


@pytest.mark.parametrize("inside", [False, True])
def test_a_delta_of_its_own_is_taken_off(inside: bool) -> None:
    box: Event = Approximate(epsilon=Fraction(1), delta=Fraction(1, 100))
    draws = (box, DiscreteGaussian(scale=Fraction(7), sensitivity=Sensitivity.of_one_cell(2)))
    event = Parallel(events=(Composed(events=draws),)) if inside else Composed(events=draws)
    rest = Composed(events=(Approximate(epsilon=Fraction(1)), draws[1]))
    delta = Fraction(1, 50)
    left = (delta - Fraction(1, 100)) / Fraction(99, 100)
    found = Rdp().epsilon(event, delta)
    assert float(found) == pytest.approx(float(Rdp().epsilon(rest, left)), rel=1e-9)
    assert Rdp().rough_epsilon(event, 0.02) == pytest.approx(float(found), rel=1e-6)
    assert Fraction(1, 100) < Rdp().delta(event, found) <= delta * (1 + Fraction(1, 10**6))
    with pytest.raises(UnsupportedEvent, match="use up"):
        Rdp().epsilon(event, MILLIONTH)
    with pytest.raises(UnsupportedEvent, match="use up all"):
        Rdp().epsilon(event, Fraction(1, 100))
    assert Rdp().rough_epsilon(event, 1e-6) == math.inf
    assert Rdp().epsilon(box, Fraction(1, 100)) == 1
    with pytest.raises(UnsupportedEvent, match="rdp cannot take"):
        curve_of(box)
