"""A plan whose noise can leave 64 bits beside the largest total is refused; noise that fits is not."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

from dprelease.engines.duck.columns.grid_steps import MOST
from dprelease.errors import BrokenPromiseError
from dprelease.noise import CHOICES, JOINT_MECHANISMS, MECHANISMS, SELECTIONS, OptimalSelection
from dprelease.plan.document import Step
from dprelease.plan.verify.whole_plan import has_room, verify
from dprelease.privacy.calibrate import LARGEST_SCALE
from dprelease.privacy.event import RandomScale, TotalResidual
from tests.planned import plan_of

ROOM = 2**63 - 1 - MOST
RARE = 1 - Fraction(1, 2**80)

planned = cache(plan_of)


def of(mechanism: str, scale: Fraction, parts: int = 1) -> Step:
    step = planned().steps[0]
    joined = tuple(step.aggregate.quantity.model_copy(update={"column": str(i)}) for i in range(parts - 1))
    gauge = Fraction(1) if mechanism in JOINT_MECHANISMS else None
    return step.model_copy(update={"mechanism": mechanism, "scale": scale, "joined": joined, "gauge": gauge})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_fits_exactly_as_long_as_its_law_says(mechanism: str) -> None:
    """The law of the mechanism at the widest scale that is let through fits, and at one 8 % wider does not."""
    low, high = Fraction(1), Fraction(ROOM)
    while high - low > 1:
        middle = (low + high) / 2
        low, high = (middle, high) if has_room(of(mechanism, middle)) else (low, middle)
    law = MECHANISMS[mechanism]
    assert law.law(low).margin(RARE) <= ROOM < law.law(low * Fraction(108, 100)).margin(RARE)


@pytest.mark.parametrize(
    ("mechanism", "parts"),
    [(name, parts) for name in JOINT_MECHANISMS for parts in (1, 2, 12, 60) if parts > 1 or name.endswith("_knorm")],
)
def test_joint_noise_that_is_let_through_fits(mechanism: str, parts: int) -> None:
    """Its bound is that of the radius, and of a total besides: a few times that of one number."""
    event, times = of(mechanism, Fraction(1), parts).event, 4
    number, widest = parts, Fraction(7, 5) * (parts + 81)
    if isinstance(event, TotalResidual):
        number, widest, times = parts + 2, Fraction(7, 5) * (parts + 82) + Fraction(57, 2) / event.share, 8
    if isinstance(event, RandomScale):  # its steps are those of its grid
        number, widest, times = 0, 12 * max(event.stretches) * RandomScale.GRAIN, 8 * RandomScale.GRAIN
    scale = Fraction(ROOM - number) / widest
    assert has_room(of(mechanism, scale, parts))
    assert not has_room(of(mechanism, scale + 1, parts))
    margin = JOINT_MECHANISMS[mechanism].law(scale, parts).margin(RARE)
    assert ROOM / times < margin <= ROOM


@pytest.mark.parametrize("mechanism", ["laplace_threshold", "gaussian_threshold"])
def test_a_noisy_count_that_selects_is_held_to_the_same(mechanism: str) -> None:
    assert has_room(of(mechanism, Fraction(10**16)))
    assert not has_room(of(mechanism, Fraction(10**18)))


def test_choices_add_no_noise() -> None:
    for mechanism in (*CHOICES, OptimalSelection.name):
        assert has_room(of(mechanism, Fraction(2**100)))


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *JOINT_MECHANISMS, *SELECTIONS])
def test_the_widest_noise_that_is_ever_planned_fits(mechanism: str) -> None:
    widest = 2**37 if mechanism == "random_scale" else LARGEST_SCALE  # half of what its sampler takes
    assert has_room(of(mechanism, Fraction(widest), 60))


def test_verification_refuses_noise_without_room() -> None:
    plan = planned()
    verify(plan)
    for step in plan.steps:
        for scale, words in ((Fraction(10**15), "does not verify"), (Fraction(10**18), "64 bits")):
            wide = step.model_copy(update={"scale": scale})
            steps = tuple(wide if each.id == step.id else each for each in plan.steps)
            with pytest.raises(BrokenPromiseError, match=words) as told:
                verify(plan.model_copy(update={"steps": steps}))
            assert ("64 bits" in str(told.value)) == (words == "64 bits")
