"""Plans of specs made at random: the budget is used up and never exceeded, and a plan is a function."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.errors import BudgetTooSmall
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Composed
from dprelease.privacy.unit import Neighboring
from dprelease.spec.load import load
from tests.laws.generated import generated_spec, generated_units_spec
from tests.planned import plan_of

OFTEN, FULL = 18, 2000  # plans on every commit, and in `make nightly`
THIRD = 3  # on every commit every third of them is planned twice, in `make nightly` all are


def plan_at(seed: int, most: int, *, units: bool = False) -> ReleasePlan | None:
    """The plan of a generated spec; None where its goals cost more than its budget and the planner says so."""
    text = generated_units_spec(seed, most) if units else generated_spec(seed, most)
    spec = load(text, "spec.yaml").spec
    account = Account(
        name="people",
        unit="person",
        neighboring=Neighboring(spec.privacy.neighboring),
        composition="zcdp",
        lifetime=Budget(epsilon=Fraction(10**6), delta=Fraction(1, 10**4)),
    )
    try:
        return plan_of(text, accounts=[account])
    except BudgetTooSmall as error:
        if error.code != "DPR-P103":
            raise
        return None


def costs_too_much(plan: ReleasePlan, times: Fraction) -> bool:
    """Whether its accountant jumps over the budget between the plan's scales and these times them."""
    events = tuple(each.model_copy(update={"scale": each.scale * times}) for each in plan.event.events)  # type: ignore[union-attr]
    smaller = ACCOUNTANTS[plan.certified].epsilon(Composed(events=events), plan.budget.delta)
    assert plan.budget.epsilon is not None
    return smaller > plan.budget.epsilon


def check(seed: int, most: int, *, units: bool = False, twice: bool = True) -> bool:
    """Whether the seed made a plan; every law is asserted on it, and with ``twice`` that it is planned alike again."""
    plan = plan_at(seed, most, units=units)
    if plan is None:
        return False
    budget, certified = plan.budget, plan.loss[plan.certified]
    assert budget.epsilon is not None
    assert certified.epsilon <= budget.epsilon
    assert verify(plan) == certified
    assert sum(step.share for step in plan.steps) == 1
    fixed = all(query.goal.share is None for query in plan.queries)
    used_up = certified.epsilon >= budget.epsilon * Fraction(999, 1000)
    assert used_up or (plan.unspent and (fixed or costs_too_much(plan, Fraction(999, 1000)))), seed
    if twice:
        again = plan_at(seed, most, units=units)
        assert again is not None
        assert again.canonical() == plan.canonical()
    return True


@pytest.mark.slow
def test_generated_specs_use_their_budget_up_and_never_more() -> None:
    made = sum(check(seed, 30, twice=seed % THIRD == 0) for seed in range(OFTEN))
    assert made >= OFTEN * 0.8  # most of them are plans, not refusals


@pytest.mark.slow
def test_generated_specs_of_units_with_many_rows() -> None:
    made = sum(check(seed, 6, units=True, twice=seed % THIRD == 0) for seed in range(OFTEN // 3))
    assert made >= OFTEN // 3 * 0.8


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_five_hundred_generated_specs_of_units(block: int) -> None:
    seeds = range(block * 50, (block + 1) * 50)
    assert sum(check(seed, 12, units=True) for seed in seeds) >= len(seeds) * 0.8


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_two_thousand_generated_specs(block: int) -> None:
    seeds = range(block * FULL // 20, (block + 1) * FULL // 20)
    assert sum(check(seed, 200) for seed in seeds) >= len(seeds) * 0.8
