"""``dp_accounting`` agrees with what is right, and says so of what is wrong, in both directions."""

from __future__ import annotations

import re
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import mpmath
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.second_opinion import Opinion, heard, second_opinion
from dprelease.privacy.accountants import losses
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, KNorm, Sensitivity, TotalResidual
from tests.planned import SPEC, plan_of

pytest.importorskip("dp_accounting", reason="the crosscheck extra is not installed")

DELTA = Fraction(1, 10**6)


def made(*events: Any, factor: Fraction = Fraction(1)) -> Any:
    """As much of a plan as is looked at, its losses multiplied by a factor."""
    event = Composed(events=events)
    found = {name: Loss(epsilon=e * factor, delta=DELTA) for name, e in losses(event, DELTA).items()}
    certified = min(found, key=lambda name: found[name].epsilon)
    return SimpleNamespace(
        event=event, loss=found, certified=certified, budget=SimpleNamespace(delta=DELTA), is_older=False
    )


def laplace(scale: int, *shifts: tuple[int, ...]) -> DiscreteLaplace:
    return DiscreteLaplace(scale=Fraction(scale), sensitivity=Sensitivity.of_shifts(*shifts))


def gaussian(scale: int, *shifts: tuple[int, ...]) -> DiscreteGaussian:
    return DiscreteGaussian(scale=Fraction(scale), sensitivity=Sensitivity.of_shifts(*shifts))


def by_name(plan: Any) -> dict[str, Opinion]:
    return {opinion.accountant: opinion for opinion in second_opinion(plan)}


MIXES: dict[str, tuple[Any, ...]] = {
    "laplace": (laplace(20, (1,)),) * 20,
    "laplace, two cells": (laplace(20, (3, 2)),) * 6,
    "gaussian": (gaussian(10, (1,)),) * 20,
    "gaussian, two cells": (gaussian(10, (2, 1)),) * 5,
    "large steps": (laplace(500_000, (100_000,)), gaussian(500_000, (100_000,))),
    "knorm": (KNorm(ball="count", dimension=4, scale=Fraction(7), gauge=Fraction(1)),) * 9,
    "total and residuals": (TotalResidual(dimension=20, share=Fraction(49, 256), scale=Fraction(7), rows=1),) * 9,
    "all": (laplace(9, (1,)), gaussian(8, (2,)), KNorm(ball="linf", dimension=3, scale=Fraction(9), gauge=Fraction(2))),
}


@pytest.mark.parametrize("name", MIXES)
def test_both_sides_agree_and_a_false_claim_is_seen_either_way(name: str) -> None:
    assert all(opinion.agrees for opinion in second_opinion(made(*MIXES[name])))
    low = by_name(made(*MIXES[name], factor=Fraction(98, 100)))
    assert not low["pld of a real pair"].agrees
    assert not low["zcdp"].agrees
    high = by_name(made(*MIXES[name], factor=Fraction(102, 100)))
    assert not high["pld"].agrees
    assert not high["zcdp"].agrees


def test_with_several_ways_only_an_under_count_is_looked_for() -> None:
    several = by_name(made(gaussian(40, (6,), (5, 5)), gaussian(40, (6,), (5, 5))))
    assert set(several) == {"zcdp", "pld of a real pair"}
    assert several["pld of a real pair"].agrees


@pytest.mark.slow
def test_a_thousand_different_draws_take_the_coarse_grid_and_say_so() -> None:
    plan = made(*(laplace(40 * m + i, (m,)) for m in range(1, 26) for i in range(8)))
    opinions = by_name(plan)
    assert all(opinion.agrees for opinion in opinions.values())
    assert "0.001" in opinions["pld"].rule
    low = made(*plan.event.events, factor=Fraction(99, 100))
    assert not by_name(low)["pld of a real pair"].agrees


def test_a_plan_is_heard_and_a_false_one_refused() -> None:
    plan: ReleasePlan = plan_of(SPEC)
    assert heard(plan)
    halved = plan.model_copy(update={"steps": tuple(s.model_copy(update={"scale": s.scale / 2}) for s in plan.steps)})
    with pytest.raises(BrokenPromiseError, match="dp_accounting"):
        heard(halved)


def test_at_delta_zero_there_is_nothing_to_compare() -> None:
    plan = plan_of(SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "budget: {epsilon: 1}\n  noise: laplace"))
    assert second_opinion(plan) == ()


TINY: dict[str, tuple[Any, ...]] = {
    "gaussian": (gaussian(10**6, (1,)),) * 20,
    "laplace": (laplace(10**6, (1,)),) * 20,
    "two cells": (gaussian(10**5, (2, 1)),) * 5,
    "all": (gaussian(10**6, (1,)), laplace(10**6, (2,)), gaussian(2 * 10**5, (1,))),
}


@pytest.mark.parametrize("name", TINY)
def test_at_a_tiny_epsilon_both_sides_agree_and_a_false_claim_is_seen_either_way(name: str) -> None:
    """The best order is far above a hundred thousand there, and a grid of losses of 10^-4 above epsilon itself."""
    plan = made(*TINY[name])
    assert 0 < plan.loss[plan.certified].epsilon < Fraction(1, 1000)
    assert [opinion for opinion in second_opinion(plan) if not opinion.agrees] == []
    low, high = (by_name(made(*TINY[name], factor=Fraction(percent, 100))) for percent in (98, 102))
    assert not low["pld of a real pair"].agrees
    assert not low["zcdp"].agrees
    assert not high["pld"].agrees
    assert not high["zcdp"].agrees


def test_a_spec_of_a_tiny_budget_is_heard_and_half_its_noise_refused() -> None:
    plan = plan_of(SPEC.replace("epsilon: 1,", "epsilon: 1e-5,"))
    assert heard(plan)
    halved = plan.model_copy(update={"steps": tuple(s.model_copy(update={"scale": s.scale / 2}) for s in plan.steps)})
    with pytest.raises(BrokenPromiseError, match="dp_accounting"):
        heard(halved)


def _least(rho: Fraction, delta: Fraction) -> Any:
    """The least epsilon of Canonne, Kamath and Steinke 2020, Proposition 12, in 50 digits: by halving its slope."""
    with mpmath.workdps(50):
        r, d = (mpmath.mpf(each.numerator) / each.denominator for each in (rho, delta))

        def slope(t: Any) -> Any:
            return r + (mpmath.log(d) + mpmath.log1p(t)) / t**2

        low, high = mpmath.mpf("1e-30"), 2 * mpmath.sqrt((1 - mpmath.log(d)) / r)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        epsilon = r * (1 + low) + mpmath.log(low / (1 + low)) - mpmath.log(d * (1 + low)) / low
        return max(mpmath.mpf(0), epsilon)


@pytest.mark.parametrize("scale", [3, 10**3, 10**5, 10**6, 10**7, 10**9])
def test_the_figure_that_is_right_is_the_least_over_all_orders(scale: int) -> None:
    """Ours is, to the last digit of a float; theirs is above it by what a list of orders misses."""
    plan = made(gaussian(scale, (1,)))
    true = float(_least(Fraction(1, 2 * scale * scale), DELTA))
    assert float(plan.loss["zcdp"].epsilon) == pytest.approx(true, rel=1e-12, abs=1e-300)
    opinion = by_name(plan)["zcdp"]
    assert opinion.agrees
    assert float(opinion.theirs) == pytest.approx(true, rel=6e-6, abs=1e-12 / scale)  # six digits


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("factor", [Fraction(1), Fraction(999, 1000), Fraction(9, 10), Fraction(11, 10)])
@pytest.mark.parametrize("name", MIXES)
def test_what_is_said_of_the_two_figures_is_true_of_them(name: str, factor: Fraction) -> None:
    """A figure that is a little above ours, as rounding to a grid may make it, is not called "never above ours"."""
    for opinion in second_opinion(made(*MIXES[name], factor=factor)):
        theirs, ours = float(opinion.theirs), float(opinion.ours)
        assert "never" not in opinion.rule
        if match := re.search(r"at (most|least) ([\d.e-]+), ours", opinion.rule):
            limit = float(match[2])
            assert opinion.agrees == (theirs <= limit if match[1] == "most" else theirs >= limit * (1 - 1e-5))
            assert (
                ours <= limit <= 1.02 * ours if match[1] == "most" else limit == pytest.approx(0.998 * ours, rel=1e-5)
            )
        else:
            assert opinion.accountant == "zcdp"
            assert opinion.agrees == (ours * (1 - 1e-5) <= theirs <= ours * 1.00201)
