"""Plans that hide many counts by Gaussian noise of one random scale: when they do, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.explain.exchanges import exchanged
from dprelease.plan.verify.whole_plan import has_room, verify
from dprelease.privacy.event import RandomScale
from dprelease.privacy.filters import Composition
from dprelease.privacy.group import of_event
from dprelease.privacy.unit import Neighboring
from dprelease.publish import render
from dprelease.publish.accounting.choices import draw_row, laws_of_loss
from dprelease.publish.derive.replicate import noise_of
from tests.planned import plan_of
from tests.unit.publish_example import facts
from tests.unit.test_allocate import account, counts, spec_of
from tests.unit.test_publish_pages import Outline

F = Fraction
B1 = "{epsilon: 1, delta: 1e-6}"


def planned(number: int, privacy: str = "", budget: str = B1, composition: Composition = "pld") -> ReleasePlan:
    relation = Neighboring.REPLACE_ONE if "replace_one" in privacy else Neighboring.ADD_REMOVE
    accounts = [each.model_copy(update={"composition": composition}) for each in account("zcdp", relation)]
    return plan_of(spec_of(counts(number, "sex"), privacy, budget), accounts=accounts)


@pytest.mark.parametrize(
    ("number", "budget", "deviation", "gaussian"),
    [
        (50, B1, 15.8714, 17.0488),
        pytest.param(100, B1, 22.4035, 23.2357, marks=pytest.mark.slow),
        pytest.param(100, "{epsilon: 0.5, delta: 1e-9}", 55.1807, 58.7064, marks=pytest.mark.slow),
        pytest.param(100, "{epsilon: 4, delta: 1e-10}", 7.9301, 8.6642, marks=pytest.mark.slow),
    ],
)
def test_many_counts_get_one_draw_with_less_noise_than_a_gaussian(
    number: int, budget: str, deviation: float, gaussian: float
) -> None:
    """Figures of another program, of the law that the table stands for: within a part in a thousand, from above."""
    plan = planned(number, budget=budget)
    (step,) = plan.steps
    assert (step.mechanism, len(step.parts), step.gauge) == ("random_scale", number, F(1))
    assert isinstance(step.event, RandomScale)
    found = float(plan.outputs[0].standard_error or 0)
    assert deviation * 0.9999 < found < deviation * 1.0015
    other = next(each for each in plan.considered if each.name == "correlated Gaussian counts")
    assert float(other.noise) == pytest.approx(gaussian / found, rel=2e-3)
    assert verify(plan).epsilon <= F(str(plan.budget.epsilon))
    assert has_room(step)


def test_fewer_counts_and_named_noise_go_without() -> None:
    def mechanisms(plan: ReleasePlan) -> set[str]:
        return {step.mechanism for step in plan.steps}

    for plan in (
        planned(39),
        planned(50, "noise: gaussian"),
        planned(50, "noise: knorm"),
        planned(50, "neighboring: replace_one"),
        planned(50, composition="zcdp"),
    ):
        assert "random_scale" not in mechanisms(plan)
        taken = mechanisms(plan) & {"random_scale", "total_residual"}
        listed = [float(each.noise) for each in plan.considered if "random-scale" in each.name]
        assert taken or all(noise < 1 for noise in listed), "listed where one is taken, or has less noise"


def changed(**fields: object) -> Callable[[Step], Step]:
    return lambda step: step.model_copy(update=fields)


FAULTS: dict[str, tuple[Callable[[Step], Step], str]] = {
    "half the gauge": (changed(gauge=F(1, 2)), "gauge"),
    "twice the gauge": (changed(gauge=F(2)), "gauge"),
    "half the noise": (lambda step: step.model_copy(update={"scale": step.scale / 2}), "loss"),
    "a part in a hundred less noise": (lambda step: step.model_copy(update={"scale": step.scale * F(99, 100)}), "loss"),
    "a count less": (lambda step: step.model_copy(update={"joined": step.joined[:-1]}), "sensitivity|part"),
    "a count twice": (lambda step: step.model_copy(update={"joined": (*step.joined, step.joined[0])}), "twice"),
    "another noise": (changed(mechanism="total_residual"), "loss|accura"),
}


@pytest.fixture(scope="module")
def fifty() -> ReleasePlan:
    return planned(50)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused(fault: str, fifty: ReleasePlan) -> None:
    change, why = FAULTS[fault]
    broken = fifty.model_copy(update={"steps": tuple(change(step) for step in fifty.steps)})
    with pytest.raises(BrokenPromiseError, match=why):
        verify(broken)


def test_rows_that_are_replaced_do_not_move_it_equally_far(fifty: ReleasePlan) -> None:
    with pytest.raises(BrokenPromiseError):
        verify(fifty.model_copy(update={"neighboring": Neighboring.REPLACE_ONE}))


def test_another_table_of_scales_is_refused(fifty: ReleasePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the code that draws had another table than the law says: the plan's event is what is drawn."""
    from dprelease.noise.mechanisms import random_scale

    right = random_scale.scale_table(50)
    heavier = (right.weights[0] * 64, *right.weights[1:])
    monkeypatch.setattr(random_scale, "scale_table", lambda _: right._replace(weights=heavier))
    with pytest.raises(BrokenPromiseError, match="scales"):
        verify(fifty)


def test_half_a_loss_is_refused(fifty: ReleasePlan) -> None:
    for name, loss in fifty.loss.items():
        half = {**fifty.loss, name: loss.model_copy(update={"epsilon": loss.epsilon / 2})}
        with pytest.raises(BrokenPromiseError, match="loss"):
            verify(fifty.model_copy(update={"loss": half}))


def test_another_unit_in_its_place_and_a_group_are_several_rows(fifty: ReleasePlan) -> None:
    (event,) = exchanged(fifty)
    assert isinstance(event, RandomScale)
    assert event.rows == 2
    (own,) = fifty.events
    assert of_event(own, 3) == own.model_copy(update={"rows": 3})


def test_noise_that_does_not_fit_its_grid_into_64_bits_is_refused(fifty: ReleasePlan) -> None:
    (step,) = fifty.steps
    assert has_room(step.model_copy(update={"scale": F(2**36)}))
    assert not has_room(step.model_copy(update={"scale": F(2**39)}))


def test_fresh_noise_of_the_kind_has_its_deviation(fifty: ReleasePlan) -> None:
    (step,) = fifty.steps
    found = noise_of(step.law, 50, 4000, np.random.default_rng(3))
    assert found.shape == (50, 4000)
    assert found.std() == pytest.approx(step.law.variance**0.5, rel=0.02)


def test_the_accounting_page_says_how_it_hides(fifty: ReleasePlan) -> None:
    (step,) = fifty.steps
    row = draw_row(step)
    assert (row["mechanism"], row["sensitivity"], row["cells"]) == ("Gaussian of a random scale", "gauge 1", "2 × 50")
    assert row["loss"].startswith("ρ = ")
    assert "Gaussian noise of a random scale" in laws_of_loss(fifty)
    found = {step.id: Measurement(step.id, np.arange(1, (step.numbers or 0) + 1) * 1000)}
    page = Outline(render(fifty, found, facts(fifty, accounts=(), history=())).files["accounting.html"].decode()).text
    assert "one of eight scales is drawn and kept secret" in page
    assert "K-norm noise hides" not in page
