"""A plan is a pure function, uses its budget up, and claims nothing that cannot be derived again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError, PlanError
from dprelease.plan.document import Account, ReleasePlan, Step
from dprelease.plan.explain.facts import plan_facts
from dprelease.plan.verify.second_opinion import heard, second_opinion
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from tests.accountants import ANY_NOISE
from tests.planned import SPEC, plan_of, planned_anew

REPLACE = SPEC.replace("unit: {entity: person}", "unit: {entity: person}\n  neighboring: replace_one")


BASIC = Account(
    name="people",
    unit="person",
    neighboring=Neighboring.ADD_REMOVE,
    composition="basic",
    lifetime=Budget(epsilon=Fraction(100), delta=Fraction(1, 10**8)),
)


def with_privacy(line: str) -> str:
    return SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "budget: {epsilon: 1, delta: 1e-9}\n  " + line)


def test_the_same_inputs_give_the_same_bytes() -> None:
    assert planned_anew().canonical() == planned_anew().canonical()


def test_a_plan_survives_its_own_text() -> None:
    plan = plan_of()
    assert ReleasePlan.from_canonical(plan.canonical()) == plan


def test_a_changed_spec_is_another_plan_and_a_comment_is_not() -> None:
    assert plan_of(SPEC.replace("200000", "100000")).fingerprint() != plan_of().fingerprint()
    assert plan_of("# a comment\n" + SPEC).fingerprint() == plan_of().fingerprint()


def test_no_float_is_in_a_plan() -> None:
    def walk(value: Any) -> None:
        assert not isinstance(value, float)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(item)

    walk(plan_of().model_dump(mode="json"))


NOISES = [
    *((SPEC, noise) for noise in ("auto", "laplace", "gaussian")),
    (REPLACE, "auto"),
    *(pytest.param(REPLACE, noise, marks=pytest.mark.nightly) for noise in ("laplace", "gaussian")),
]


@pytest.mark.thin
@pytest.mark.parametrize(("text", "noise"), NOISES)
@pytest.mark.parametrize("accounting", ["auto", *ANY_NOISE])
def test_every_accounting_uses_the_budget_up_and_verifies(text: str, accounting: str, noise: str) -> None:
    old = "budget: {epsilon: 1, delta: 1e-9}"
    spec = text.replace(old, f"{old}\n  accounting: {accounting}\n  noise: {noise}")
    plan = plan_of(spec)
    loss = verify(plan)
    assert Fraction(999, 1000) <= loss.epsilon <= 1
    assert sum(step.share for step in plan.steps) == 1
    if accounting != "auto":
        assert plan.certified == accounting


def test_one_step_serves_every_measure_that_needs_it() -> None:
    plan = plan_of(with_privacy("noise: laplace"))
    assert [step.id for step in plan.steps] == [
        "population.rows",
        "income.rows",
        "income.income-sum",
        "income.income-nonnull",
    ]
    assert [(a.query, a.measure) for a in plan.step("income.income-sum").answers] == [
        ("income", "total"),  # the sum comes from the centred sum and the count that the mean needs anyway
        ("income", "average"),
    ]
    both = SPEC.replace("persons: {count: rows}\n", "persons: {count: rows}\n      earners: {count: income}\n")
    shared = plan_of(both.replace("delta: 1e-9}", "delta: 1e-9}\n  noise: laplace")).step("income.income-nonnull")
    assert [(a.query, a.measure) for a in shared.answers] == [
        ("income", "earners"),
        ("income", "total"),
        ("income", "average"),
    ]


def test_auto_noise_spares_an_account_that_composes_in_rho() -> None:
    """Laplace noise would be smaller for few queries, and three times dearer in a zCDP account: the plan says so."""
    zcdp = plan_of()
    assert "discrete_gaussian" in {step.mechanism for step in zcdp.steps}
    passed_over = [each for each in zcdp.considered if each.why_not]
    assert all("would charge an account epsilon" in each.why_not for each in passed_over)
    assert float(passed_over[0].noise) < 1  # it would have been the best but for that
    pure = plan_of(accounts=[BASIC])
    assert {step.mechanism for step in pure.steps} <= {"discrete_laplace", "count_knorm"}
    assert pure.loss["basic"].epsilon == pytest.approx(1, rel=1e-6)


def test_a_pure_budget_takes_pure_noise_whatever_the_account() -> None:
    plan = plan_of(SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "budget: {epsilon: 1}"))
    assert {step.mechanism for step in plan.steps} <= {"discrete_laplace", "count_knorm"}
    assert verify(plan).delta == 0


def test_a_combination_that_cannot_be_accounted_says_what_to_do() -> None:
    pure = SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "budget: {rho: 1/10}\n  accounting: basic")
    with pytest.raises(PlanError) as caught:
        plan_of(pure)
    assert "delta" in caught.value.hint


def test_a_budget_of_rho_needs_a_delta_to_be_read() -> None:
    with pytest.raises(PlanError, match="delta 0"):
        plan_of(SPEC.replace("{epsilon: 1, delta: 1e-9}", "{rho: 1/10}"))


def lie(plan: ReleasePlan, **changed: Any) -> ReleasePlan:
    """The plan with its last sum step changed."""
    step = plan.step("income.income-sum")
    other: Step = step.model_copy(update=changed)
    return plan.model_copy(update={"steps": tuple(other if each.id == step.id else each for each in plan.steps)})


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("text", [SPEC, REPLACE])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_plan_that_lies_is_refused(mechanism: str, text: str) -> None:
    plan = plan_of(
        text.replace("budget: {epsilon: 1, delta: 1e-9}", f"budget: {{epsilon: 1, delta: 1e-9}}\n  noise: {mechanism}")
    )
    verify(plan)
    step = plan.step("income.income-sum")
    reach = step.sensitivity
    lies = [
        lie(plan, scale=step.scale / 2),
        lie(plan, scale=step.scale * Fraction(95, 100)),
        lie(plan, sensitivity=reach.model_copy(update={"l1": reach.l1 / 2})),
        lie(plan, sensitivity=reach.model_copy(update={"l2_squared": reach.l2_squared / 2})),
        lie(plan, cells=(step.cells or 0) - 1),
        lie(plan, share=step.share / 2),
        lie(plan, aggregate=step.aggregate.model_copy(update={"by": ("sex",)})),
        lie(
            plan,
            aggregate=step.aggregate.model_copy(
                update={"quantity": step.aggregate.quantity.model_copy(update={"high": 300_000})}
            ),
        ),
        plan.model_copy(update={"steps": plan.steps[:-1]}),
        plan.model_copy(update={"neighboring": next(n for n in Neighboring if n != plan.neighboring)}),
        plan.model_copy(update={"budget": Budget(epsilon=Fraction(9, 10), delta=plan.budget.delta)}),
        plan.model_copy(update={"budget": Budget(epsilon=Fraction(1), delta=plan.budget.delta / 2)}),
        *(
            plan.model_copy(
                update={
                    "loss": {**plan.loss, name: loss.model_copy(update={"epsilon": loss.epsilon * Fraction(97, 100)})}
                }
            )
            for name, loss in plan.loss.items()
        ),
    ]
    for false in lies:
        with pytest.raises(BrokenPromiseError):
            verify(false)


@pytest.mark.thin
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("text", [SPEC, REPLACE])
def test_dp_accounting_agrees_and_sees_a_factor_of_two(text: str, mechanism: str) -> None:
    pytest.importorskip("dp_accounting", reason="the crosscheck extra is not installed")
    plan = plan_of(
        text.replace("budget: {epsilon: 1, delta: 1e-9}", f"budget: {{epsilon: 1, delta: 1e-9}}\n  noise: {mechanism}")
    )
    assert all(opinion.agrees for opinion in second_opinion(plan))
    halved = plan.model_copy(update={"steps": tuple(s.model_copy(update={"scale": s.scale / 2}) for s in plan.steps)})
    assert not all(opinion.agrees for opinion in second_opinion(halved))
    assert heard(plan)
    with pytest.raises(BrokenPromiseError, match="dp_accounting"):
        heard(halved)


def test_the_facts_keep_their_shape() -> None:
    facts = plan_facts(plan_of())
    assert {"release", "period", "budget", "loss", "steps", "outputs"} <= set(facts)
    assert {"id", "answers", "mechanism", "sensitivity", "scale", "share", "cells", "event"} <= set(facts["steps"][0])
    assert set(facts["steps"][0]["sensitivity"]) == {"l1", "l2", "linf"}
    assert set(facts["outputs"][0]) == {"query", "table", "measure", "steps", "standard_error", "margin", "why_null"}
    assert facts["loss"]["certified"]["epsilon"] == min(
        (loss["epsilon"] for name, loss in facts["loss"].items() if name != "certified"), key=Fraction
    )


def test_a_mean_without_an_expected_size_says_why_it_has_no_margin() -> None:
    outputs = {o.measure: o for o in plan_of(SPEC.replace("    expect: {persons: 12000}\n", "")).outputs}
    assert outputs["average"].margin is None
    assert "expect" in str(outputs["average"].why_null)
    assert outputs["total"].margin is not None
