"""Every Renyi curve against the divergence of the two laws themselves, by sums and integrals that know no formula."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.privacy.accountants.rdp import curve_of
from dprelease.privacy.event import (
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Laplace,
    Parallel,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.rounding import real
from dprelease.privacy.theorems import renyi
from dprelease.privacy.theorems.joint.total_residual import response_pair
from dprelease.privacy.theorems.renyi import Curve
from dprelease.privacy.unit import Neighboring
from tests.reference_comparisons import noisy_max_rho, range_divergence, response_divergence, shifted_divergence
from tests.tiers import few

ORDERS = ["1.0001", "1.5", "2", "7.25", "64"]
orders = st.floats(min_value=-9, max_value=9).map(lambda log: float(np.exp(log)))  # order - 1
ratios = st.fractions(min_value=Fraction(1, 1000), max_value=20, max_denominator=1000)


def sum_of(curve: Curve, alpha: str) -> float:
    return float(curve._exact(real(Fraction(alpha) - 1)))


def lattice_divergence(scale: Fraction, shift: int, alpha: str) -> float:
    """Of discrete Laplace noise and itself shifted, by adding up the mass function far into both tails."""
    with mpmath.workdps(60):
        a, b = mpmath.mpf(alpha), mpmath.mpf(scale.numerator) / scale.denominator
        reach = int(160 * b + shift) + 2
        mass = {k: mpmath.exp(-k / b) for k in range(reach + shift + 1)}
        total = 2 * mpmath.fsum(mass.values()) - 1
        moment = mpmath.fsum(mass[abs(k)] ** a * mass[abs(k - shift)] ** (1 - a) for k in range(-reach, reach + 1))
        return float(mpmath.log(moment / total) / (a - 1))


def integrated(density: Any, shift: float, alpha: str, reach: float) -> float:
    with mpmath.workdps(30):
        a = mpmath.mpf(alpha)
        points = [-reach, 0, shift / 2, shift, reach + shift]
        moment = mpmath.quad(lambda z: density(z) ** a * density(z - shift) ** (1 - a), points)
        return float(mpmath.log(moment) / (a - 1))


@pytest.mark.thin
@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize(("scale", "shift"), [("1/2", 1), ("3/2", 1), ("3/2", 2), ("5", 3), ("2/3", 4), ("7", 12)])
def test_discrete_laplace_is_its_lattice_sum(scale: str, shift: int, alpha: str) -> None:
    event = DiscreteLaplace(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift))
    exact = lattice_divergence(Fraction(scale), shift, alpha)
    assert sum_of(curve_of(event), alpha) == pytest.approx(exact, rel=1e-12)
    # power: neither the continuous curve nor randomized response would pass
    e = Fraction(shift) / Fraction(scale)
    assert float(shifted_divergence(Fraction(scale), shift, Fraction(alpha))) < exact * (1 - 1e-5)
    if shift > 1:
        assert sum_of(Curve(laplace=((e, e, 1),)), alpha) > exact * (1 + 1e-6)


@pytest.mark.thin
@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize(("b", "shift"), [(1.0, 1.0), (2.0, 1.0), (0.5, 1.5)])
def test_laplace_is_its_integral(b: float, shift: float, alpha: str) -> None:
    exact = integrated(lambda z: mpmath.exp(-abs(z) / b) / (2 * b), shift, alpha, 70 * b)
    assert float(shifted_divergence(b, Fraction(shift), Fraction(alpha))) == pytest.approx(exact, rel=1e-9)


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("alpha", ["1.5", "2", "7.25"])
@pytest.mark.parametrize(("sigma", "shift"), [(1.0, 1.0), (3.0, 2.0)])
def test_gaussian_is_its_integral(sigma: float, shift: float, alpha: str) -> None:
    exact = integrated(lambda z: mpmath.npdf(z, 0, sigma), shift, alpha, 12 * sigma * float(alpha))
    assert sum_of(Curve(slope=(Fraction(shift) / Fraction(sigma)) ** 2 / 2), alpha) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("alpha", ["1.5", "2", "7.25"])
@pytest.mark.parametrize(("scale", "shift"), [("1", 1), ("3/2", 2), ("4", 1)])
def test_discrete_gaussian_stays_below_its_line(scale: str, shift: int, alpha: str) -> None:
    event = DiscreteGaussian(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift))
    with mpmath.workdps(40):
        a, s = mpmath.mpf(alpha), mpmath.mpf(float(Fraction(scale)))
        mass = {k: mpmath.exp(-k * k / (2 * s * s)) for k in range(-200, 201)}
        moment = mpmath.fsum(mass[k] ** a * mass[k - shift] ** (1 - a) for k in range(-190, 191)) / sum(mass.values())
        exact = float(mpmath.log(moment) / (a - 1))
    assert exact <= sum_of(curve_of(event), alpha) * (1 + 1e-12)
    assert exact >= sum_of(curve_of(event), alpha) * 0.7


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize("p", ["0.55", "0.75", "0.99", "0.2"])
def test_randomized_response_is_its_two_outcomes(p: str, alpha: str) -> None:
    with mpmath.workdps(60):
        a, truth = mpmath.mpf(alpha), mpmath.mpf(p)
        exact = mpmath.log(truth**a * (1 - truth) ** (1 - a) + (1 - truth) ** a * truth ** (1 - a)) / (a - 1)
    assert float(response_divergence(Fraction(p), Fraction(alpha))) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("e", [0.05, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("alpha", [1.001, 1.5, 2.0, 8.0, 60.0])
def test_bounded_range_covers_every_pair_of_two_and_three_outcomes(e: float, alpha: float) -> None:
    claimed = float(range_divergence(e, alpha))
    mass = np.linspace(0, 1, 1001)[1:-1]
    found = 0.0
    for middle in (0.0, 0.3, 0.7):  # of the interval; weight there, the rest at both ends
        for weight in (0.0, 0.1, 0.5):
            upper, inner = mass * (1 - weight), weight
            lower = 1 - upper - inner
            # under P the loss is t, t + middle e, t + e, with E[exp(-loss)] = 1
            t = np.log(lower + inner * np.exp(-middle * e) + upper * np.exp(-e))
            logs = np.stack(
                [
                    np.log(lower) + (alpha - 1) * t,
                    np.log(np.maximum(inner, 1e-300)) + (alpha - 1) * (t + middle * e),
                    np.log(upper) + (alpha - 1) * (t + e),
                ]
            )
            found = max(found, float((np.logaddexp.reduce(logs, axis=0) / (alpha - 1)).max()))
    assert found <= claimed * (1 + 1e-9)
    # power: half of the claim is false everywhere, and nine tenths of it where Hoeffding's lemma is nearly an equation
    assert found > claimed * (0.9 if alpha * e <= 1 else 0.5)


@pytest.mark.parametrize("monotone", [False, True])
def test_noisy_max_stays_below_its_rho(monotone: bool) -> None:
    """Every pair of score vectors with scores moved by -1, 0 or 1, or by 0 or 1 where it is monotone."""
    scale, rho = 1.5, float(noisy_max_rho(1.5, 1, monotone))
    base = np.array([0.0, 0.5, 3.0])
    worst = 0.0
    for move in itertools.product((0, 1) if monotone else (-1, 0, 1), repeat=3):
        p, q = (np.exp(v / scale) / np.exp(v / scale).sum() for v in (base, base + np.array(move)))
        for one, other in ((p, q), (q, p)):
            worst = max(worst, *(float(np.log(np.sum(one**a * other ** (1 - a))) / (a - 1) / a) for a in (1.01, 2, 9)))
    assert rho * 0.5 < worst <= rho


@given(e=ratios, x=orders, more=st.floats(min_value=1.0001, max_value=10))
def test_a_curve_never_falls_with_the_order(e: Fraction, x: float, more: float) -> None:
    for curve in (
        Curve(laplace=((e, e, 1),)),
        Curve(laplace=((e, Fraction(0), 1),)),
        Curve(laplace=((e, e / 3, 1),)),
        Curve(ranges=((e, 1),)),
        Curve(pairs=((e, e / 3, Fraction(3, 5), 1),)),
    ):
        assert curve.certified(x) <= curve.certified(x * more) * (1 + real(Fraction(1, 10**25)))


@given(scale=ratios, shift=st.integers(2, 9), x=orders)
def test_a_lattice_lies_between_the_continuous_law_and_randomized_response(
    scale: Fraction, shift: int, x: float
) -> None:
    e = shift / scale
    below, lattice, above, rho = (
        Curve(laplace=((e, Fraction(0), 1),)).certified(x),
        Curve(laplace=((e, 1 / scale, 1),)).certified(x),
        Curve(laplace=((e, e, 1),)).certified(x),
        (1 + real(x)) * real(e) ** 2 / 2,
    )
    tiny = real(Fraction(1, 10**25))
    assert below <= lattice * (1 + tiny) <= above * (1 + 2 * tiny) <= rho * (1 + 3 * tiny)


@given(scale=ratios, shift=st.lists(st.integers(1, 6), min_size=1, max_size=5), x=orders)
def test_one_cell_is_the_worst_for_laplace_noise(scale: Fraction, shift: list[int], x: float) -> None:
    """So that the L1 sensitivity alone is enough where shifts are unknown; randomized response would cost more."""
    known = Sensitivity.of_shifts(tuple(shift))
    for kind in (DiscreteLaplace, Laplace):
        vector = curve_of(kind(scale=scale, sensitivity=known))
        total = curve_of(kind(scale=scale, sensitivity=known.model_copy(update={"shifts": ()})))
        assert vector.certified(x) <= total.certified(x) * (1 + real(Fraction(1, 10**25)))


@given(scale=ratios, x=orders, shift=st.integers(1, 8))
def test_a_larger_shift_costs_more(scale: Fraction, x: float, shift: int) -> None:
    smaller, larger = (
        curve_of(DiscreteLaplace(scale=scale, sensitivity=Sensitivity.of_one_cell(s))).certified(x)
        for s in (shift, shift + 1)
    )
    assert smaller < larger


EVENTS: list[Event] = [
    DiscreteLaplace(scale=Fraction(7, 3), sensitivity=Sensitivity.of_one_cell(1)),
    DiscreteLaplace(scale=Fraction(40), sensitivity=Sensitivity.of_shifts((3, 2, 1), (4, 1))),
    Laplace(scale=Fraction(9, 2), sensitivity=Sensitivity.of_one_cell(2)),
    Laplace(scale=Fraction(10**9), sensitivity=Sensitivity.of_one_cell(1)),
    KNorm(ball="linf", dimension=3, scale=Fraction(11), gauge=Fraction(2)),
    TotalResidual(dimension=2, share=Fraction(3, 8), scale=Fraction(1, 2), rows=1),
    TotalResidual(dimension=20, share=Fraction(1, 5), scale=Fraction(10**9), rows=1),
    TotalResidual(dimension=20, share=Fraction(1, 5), scale=Fraction(11), rows=2),
    BoundedRange(epsilon=Fraction(1, 3)),
    BoundedRange(epsilon=Fraction(1, 10**9)),
    DiscreteGaussian(scale=Fraction(13), sensitivity=Sensitivity.of_one_cell(2)),
    Parallel(
        events=(
            *(DiscreteLaplace(scale=Fraction(s), sensitivity=Sensitivity.of_one_cell(s - 2)) for s in range(3, 9)),
            Gaussian(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1)),
        ),
        neighboring=Neighboring.REPLACE_ONE,
    ),
]


@pytest.mark.parametrize("event", EVENTS)
def test_floats_are_the_60_digits_and_their_pad_is_above(event: Event) -> None:
    curve = curve_of(event)
    excess = np.exp(np.linspace(-12, 20, 40))
    quick = curve.quick(excess)
    for x, value in zip(excess, quick, strict=True):
        exact = curve._exact(real(float(x)))
        padded = real(float(curve._stack.values(np.array([x]), pad=renyi._PAD)[0, 0]))
        assert value == pytest.approx(float(exact), rel=1e-6)
        assert exact <= padded
        assert padded <= exact * (1 + real(1e-6)) if x * 1e-9 < 1 else True


@settings(max_examples=few(40))
@given(st.lists(ratios, min_size=1, max_size=6), orders)
def test_padded_floats_are_above_and_near(epsilons: list[Fraction], x: float) -> None:
    laplace = tuple((e, step, k + 1) for k, e in enumerate(epsilons) for step in (e, e / 7, Fraction(0)))
    drawn = [TotalResidual(dimension=2, share=Fraction(1, 3), scale=1 / e, rows=n) for e in epsilons for n in (1, 2)]
    pairs = tuple((*response_pair(draw), 3) for draw in drawn)
    curve = Curve(slope=Fraction(1, 77), laplace=laplace, ranges=tuple((e, 2) for e in epsilons), pairs=pairs)
    exact = curve._exact(real(x))
    padded = real(float(curve._stack.values(np.array([x]), pad=renyi._PAD)[0, 0]))
    assert exact <= padded <= exact * (1 + real(1e-9))


def test_many_terms_take_the_padded_way() -> None:
    curve = Curve(laplace=tuple((Fraction(1, 50 + k), Fraction(1, 50 + k), 1) for k in range(300)))
    for x in (1e-3, 0.5, 20.0, 1e5):
        exact, certified = curve._exact(real(x)), curve.certified(x)
        assert exact < certified <= exact * (1 + real(1e-10))


@pytest.mark.parametrize("neighboring", list(Neighboring))
def test_parallel_takes_the_worst_at_each_order(neighboring: Neighboring) -> None:
    """The curves cross, so that neither part is the worst everywhere; the maximum of epsilons would be wrong."""
    small = DiscreteLaplace(scale=Fraction(1), sensitivity=Sensitivity.of_one_cell(1))
    line = Gaussian(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
    tiny = Gaussian(scale=Fraction(100), sensitivity=Sensitivity.of_one_cell(1))
    both = Composed(events=(Parallel(events=(small, line, tiny), neighboring=neighboring), tiny))
    won = set()
    for alpha in ("1.5", "3", "20"):
        alone = sorted((sum_of(curve_of(part), alpha) for part in (small, line, tiny)), reverse=True)
        won.add(alone[0] == sum_of(curve_of(line), alpha))
        expected = sum(alone[: 1 if neighboring is Neighboring.ADD_REMOVE else 2]) + sum_of(curve_of(tiny), alpha)
        assert sum_of(curve_of(both), alpha) == pytest.approx(expected, rel=1e-14)
        assert curve_of(both).quick(np.array([float(alpha) - 1]))[0] == pytest.approx(expected, rel=1e-9)
    assert won == {True, False}
