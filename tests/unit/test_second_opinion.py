"""``dp_accounting`` agrees with what is right, and says so of what is wrong, in both directions."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.second_opinion import Opinion, heard, second_opinion
from dprelease.privacy.accountants import losses
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, KNorm, Sensitivity
from tests.planned import SPEC, plan_of

pytest.importorskip("dp_accounting", reason="the crosscheck extra is not installed")

DELTA = Fraction(1, 10**6)


def made(*events: Any, factor: Fraction = Fraction(1)) -> Any:
    """As much of a plan as is looked at, its losses multiplied by a factor."""
    event = Composed(events=events)
    found = {name: Loss(epsilon=e * factor, delta=DELTA) for name, e in losses(event, DELTA).items()}
    certified = min(found, key=lambda name: found[name].epsilon)
    return SimpleNamespace(event=event, loss=found, certified=certified, budget=SimpleNamespace(delta=DELTA))


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
