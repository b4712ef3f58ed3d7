"""Basic, advanced and the textbook form: golden figures, the planner's table of noise, and both directions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.advanced import Advanced, _smallest, drv_epsilon
from dprelease.privacy.accountants.basic import Basic, rough_single
from dprelease.privacy.accountants.kov import kov_closed_epsilon, kov_epsilon_unequal, kov_slack
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
from dprelease.privacy.theorems import single
from tests.reference_comparisons import kov_epsilon
from tests.reference_textbook import textbook_epsilon, textbook_holds

F = Fraction
ONE = Sensitivity.of_one_cell(1)
BASIC, ADVANCED = Basic(), Advanced()


def gaussians(std: float, count: int) -> Event:
    return Repeated(event=Gaussian(scale=F(std), sensitivity=ONE), count=count)


def laplaces(std: float, count: int) -> Event:
    return Repeated(event=Laplace(scale=F(std / math.sqrt(2)), sensitivity=ONE), count=count)


@pytest.mark.parametrize(
    ("each", "count", "slack", "expected"),
    [
        ("0.5", 20, "1e-12", 23.10979406969238),  # drv-0.5-20-1e-12
        ("0.01", 1000, "1e-9", 2.136343798166214),  # drv-0.01-1000-1e-09
        ("0.1", 100, "1e-6", 6.308230950513408),  # drv-0.1-100-1e-06
    ],
)
def test_drv_has_the_golden_figures(each: str, count: int, slack: str, expected: float) -> None:
    assert float(drv_epsilon({F(each): count}, F(slack))) == pytest.approx(expected, rel=1e-14)
    assert drv_epsilon([F(each)] * count, F(slack)) == drv_epsilon({F(each): count}, F(slack))


def test_drv_takes_unequal_draws() -> None:
    found = drv_epsilon([F(e) for e in ("0.1", "0.2", "0.05", "0.3")], F("1e-6"))  # drv-het
    assert float(found) == pytest.approx(2.1466122938842624, rel=1e-14)
    assert drv_epsilon([], F(0)) == 0
    with pytest.raises(UnsupportedEvent, match="greater than 0"):
        drv_epsilon([F(1)], F(0))


@pytest.mark.parametrize(("each", "count"), [("1", 1000), ("0.5", 1000), ("2", 200)])  # textbook-*-1e-06
def test_the_textbook_form_is_refused_where_it_claims_too_little(each: str, count: int) -> None:
    with pytest.raises(UnsupportedEvent, match="not proved") as caught:
        textbook_epsilon(F(each), count, F("1e-6"))
    assert "accounting: advanced" in caught.value.hint


def test_the_textbook_form_inside_its_guard() -> None:
    found = float(textbook_epsilon(F("0.1"), 100, F("1e-6")))
    assert found == pytest.approx(0.1 * math.sqrt(800 * math.log(1e6)), rel=1e-14)
    edge = math.log1p(math.sqrt(2 * math.log(1e6) / 100))
    assert textbook_holds(F(edge * (1 - 1e-12)), 100, F("1e-6"))
    assert not textbook_holds(F(edge * (1 + 1e-12)), 100, F("1e-6"))
    assert not textbook_holds(F("0.1"), 10, F(0))


def test_basic_adds_epsilons_and_deltas() -> None:  # basic-1
    parts = [("0.1", "1e-7"), ("0.2", "2e-7"), ("0.3", "0")]
    event = Composed(events=tuple(Approximate(epsilon=F(e), delta=F(d)) for e, d in parts))
    assert BASIC.epsilon(event, F("3e-7")) == F("0.6")
    assert BASIC.delta(event, F("0.6")) == F("3e-7")
    assert BASIC.delta(event, F("0.59")) == 1
    with pytest.raises(UnsupportedEvent, match="3e-07") as caught:
        BASIC.epsilon(event, F("2e-7"))
    assert "at least 3e-07" in caught.value.hint


# Noise at total (1, 1e-6): rows "L basic", "L DRV", "L KOV closed", "L KOV optimal", to the four digits printed.
@pytest.mark.parametrize(
    ("count", "basic", "drv", "closed", "optimal"),
    [
        (1, 1.414, 7.718, 1.414, 1.414),
        (5, 7.071, 17.23, 7.071, 7.071),
        (20, 28.28, 34.43, 28.28, 24.83),
        (100, 141.4, 76.96, 71.26, 58.9),
        (1000, 1414, 243.3, 225.3, 188.7),
    ],
)
def test_noise_of_laplace_draws(count: int, basic: float, drv: float, closed: float, optimal: float) -> None:
    delta = F("1e-6")

    def each(std: float) -> dict[Fraction, int]:
        return {F(math.sqrt(2) / std): count}

    close = pytest.approx(1, rel=2e-3)
    assert float(BASIC.epsilon(laplaces(basic, count), delta)) == close
    assert float(drv_epsilon(each(drv), delta)) == close
    assert float(kov_closed_epsilon(each(closed), delta)) == close
    assert float(ADVANCED.epsilon(laplaces(optimal, count), delta)) == close


# Rows "G basic+analytic", "G DRV", "G KOV optimal"; those two optimise the split over a small grid of their own.
@pytest.mark.parametrize(
    ("count", "basic", "drv", "optimal"),
    [
        (1, 4.225, 4.225, 4.225),
        (5, 20.72, 50.88, 20.83),
        (20, 82.55, 105.2, 75.61),
        (100, 412.4, 244.2, 191),
        (1000, 4123, 811.4, 641.7),
    ],
)
def test_noise_of_gaussian_draws(count: int, basic: float, drv: float, optimal: float) -> None:
    delta = F("1e-6")
    assert float(BASIC.epsilon(gaussians(basic, count), delta)) == pytest.approx(1, rel=1e-3)
    assert 0.99 < float(ADVANCED.epsilon(gaussians(optimal, count), delta)) < 1.003
    if count > 1:
        atom = Gaussian(scale=F(drv), sensitivity=ONE)
        splits = [F(n, 100) for n in (1, 5, 10, 20, 30, 50, 70, 90)]
        found = [drv_epsilon({single.epsilon(atom, s * delta / count): count}, (1 - s) * delta) for s in splits]
        assert float(min(found)) == pytest.approx(1, rel=5e-3)


MIXES: dict[str, Event] = {
    "pure": Composed(
        events=(
            Repeated(event=DiscreteLaplace(scale=F(7), sensitivity=ONE), count=12),
            Laplace(scale=F(9), sensitivity=ONE),
            KNorm(ball="count", dimension=3, scale=F(11), gauge=F(1)),
            BoundedRange(epsilon=F(1, 20)),
        )
    ),
    "boxes": Repeated(event=Approximate(epsilon=F(1, 10), delta=F(1, 10**8)), count=30),
    "gaussians": Repeated(event=DiscreteGaussian(scale=F(20), sensitivity=ONE), count=50),
    "one gaussian": DiscreteGaussian(scale=F(3), sensitivity=ONE),
    "everything": Composed(
        events=(
            Repeated(event=DiscreteLaplace(scale=F(15), sensitivity=ONE), count=20),
            Approximate(epsilon=F(1, 10), delta=F(1, 10**8)),
            Concentrated(rho=F(1, 5000)),
            Repeated(event=Gaussian(scale=F(25), sensitivity=Sensitivity.of_shifts((2, 1))), count=4),
            DiscreteGaussian(scale=F(30), sensitivity=ONE),
        )
    ),
}


@pytest.mark.thin
@pytest.mark.parametrize("accountant", [BASIC, ADVANCED], ids=lambda one: one.name)
@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("delta", ["1e-5", "1e-6"])
def test_both_directions_agree(accountant: Basic | Advanced, name: str, delta: str) -> None:
    event = MIXES[name]
    epsilon = accountant.epsilon(event, F(delta))
    back = accountant.delta(event, epsilon)
    if accountant is BASIC and name in ("pure", "boxes"):
        assert back == {"pure": 0, "boxes": F(3, 10**7)}[name]
    else:
        assert float(back) == pytest.approx(float(delta), rel=1e-4)
    assert accountant.rough_epsilon(event, float(delta)) == pytest.approx(float(epsilon), rel=1e-6)
    assert accountant.delta(event, epsilon * 2) <= back
    assert accountant.delta(event, epsilon / 2) >= back


@pytest.mark.parametrize("name", MIXES)
def test_advanced_is_not_above_basic(name: str) -> None:
    for delta in (F(1, 10**5), F(1, 10**9) + F(3, 10**7)):
        basic = BASIC.epsilon(MIXES[name], delta)
        assert ADVANCED.epsilon(MIXES[name], delta) <= basic * (1 + F(1, 10**9))


def test_delta_0_is_refused_by_advanced_and_for_gaussians_by_basic() -> None:
    with pytest.raises(UnsupportedEvent) as caught:
        ADVANCED.epsilon(MIXES["pure"], F(0))
    assert "accounting: basic" in caught.value.hint
    assert ADVANCED.epsilon(Composed(), F(0)) == 0
    with pytest.raises(UnsupportedEvent, match="no finite epsilon") as caught:
        BASIC.epsilon(MIXES["gaussians"], F(0))
    assert "noise: laplace" in caught.value.hint
    assert BASIC.epsilon(MIXES["pure"], F(0)) == F(12, 7) + F(1, 9) + F(1, 11) + F(1, 20)
    for accountant in (BASIC, ADVANCED):
        assert accountant.delta(MIXES["gaussians"], F(0)) <= 1
        assert math.isinf(accountant.rough_epsilon(MIXES["gaussians"], 0.0))


def test_advanced_refuses_parallel_parts_without_an_epsilon_of_their_own() -> None:
    pure = Parallel(events=(Laplace(scale=F(2), sensitivity=ONE), Laplace(scale=F(4), sensitivity=ONE)))
    assert ADVANCED.epsilon(Repeated(event=pure, count=20), F("1e-6")) == kov_epsilon(F(1, 2), F(0), 20, F("1e-6"))
    with pytest.raises(UnsupportedEvent, match="parallel"):
        ADVANCED.epsilon(Parallel(events=(Gaussian(scale=F(2), sensitivity=ONE),)), F("1e-6"))


def test_a_draw_that_tells_nothing_costs_nothing() -> None:
    nothing = Repeated(event=Gaussian(scale=F(2), sensitivity=Sensitivity.of_shifts()), count=3)
    assert BASIC.epsilon(nothing, F(0)) == 0
    assert ADVANCED.epsilon(nothing, F(0)) == 0


@pytest.mark.parametrize("delta", [0.01, 1e-6, 1e-14])
@pytest.mark.parametrize(
    "atom",
    [
        Gaussian(scale=F(1, 2), sensitivity=ONE),
        Gaussian(scale=F(4000), sensitivity=ONE),
        DiscreteGaussian(scale=F(1, 2), sensitivity=ONE),
        DiscreteGaussian(scale=F(5), sensitivity=Sensitivity.of_one_cell(3)),
        DiscreteGaussian(scale=F(300), sensitivity=ONE),
    ],
    ids=repr,
)
def test_the_rough_curve_of_one_draw(atom: Gaussian | DiscreteGaussian, delta: float) -> None:
    exact = float(single.epsilon(atom, F(delta)))
    assert rough_single(atom, math.log(delta)) == pytest.approx(exact, rel=1e-7, abs=1e-9)


def test_many_different_gaussians_are_read_by_a_fit() -> None:
    event = Composed(events=tuple(Gaussian(scale=F(100 + 7 * i), sensitivity=ONE) for i in range(100)))
    expected = sum(rough_single(one, math.log(1e-6 / 100)) for one in event.events)  # type: ignore[arg-type,misc]
    assert BASIC.rough_epsilon(event, 1e-6) == pytest.approx(expected, rel=1e-9)
    exact = sum((single.epsilon(one, F("1e-8")) for one in event.events), F(0))
    assert BASIC.epsilon(event, F("1e-6")) == exact


@pytest.mark.parametrize("delta", [F("1e-30"), F("1e-9"), F("1e-2"), F("0.9")])
@pytest.mark.parametrize("size", [F("1e-12"), F("1e-3"), F("0.2"), F(3), F(40)])
@pytest.mark.parametrize("count", [1, 2, 30, pytest.param(300, marks=pytest.mark.nightly)])
def test_a_theorem_that_is_not_worked_out_would_not_have_been_the_smallest(count: int, size: F, delta: F) -> None:
    epsilons = [size * (1 + F(n, count)) for n in range(count)]
    deltas = {delta / (3 * count): count}
    slack = kov_slack(deltas, delta)
    all_of_them = (
        kov_epsilon_unequal(epsilons, deltas, delta),
        kov_closed_epsilon(epsilons, slack),
        drv_epsilon(epsilons, delta - delta / 3),
    )
    assert _smallest(epsilons, deltas, delta) == min(all_of_them)
