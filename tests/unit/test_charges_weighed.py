"""A charge that is a little above the release's epsilon is weighed against the noise, and targets against the account."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.plan.document import Account, Composition, ReleasePlan
from dprelease.plan.forecast.horizon import Purse
from dprelease.plan.forecast.largest_budget import largest_budget
from dprelease.plan.forecast.other_budgets import Planner, solve
from dprelease.plan.resolve.catalog import resolve
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.privacy.filters import account_loss
from dprelease.privacy.unit import Neighboring
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.load import load
from tests.planned import plan_of
from tests.project import SPEC, command, forked, small_project

HEAD = """
dprelease: 1
release: {{name: survey, period: 2024-01}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: {epsilon}, delta: {delta}}}, accounting: {accounting}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      sex: {{type: integer, keys: [1, 2]}}
      region: {{type: text, keys: ["01", "02", "06"]}}
      age: {{type: integer, range: [0, 99]}}
queries:
"""
AIMED = """
  a: {table: people, by: [sex], measures: {n: {count: rows}}, target: {n: {margin: 13}}}
  b: {table: people, by: [region], measures: {n: {count: rows}}, target: {n: {margin: 14}}}
"""


def account(composition: Composition, cap: str = "100", delta: str = "1/100000000") -> Account:
    lifetime = Budget(epsilon=Fraction(cap), delta=Fraction(delta))
    return Account(
        name="people",
        unit="person",
        neighboring=Neighboring.ADD_REMOVE,
        composition=composition,
        lifetime=lifetime,
    )


def counts(number: int, accounting: str) -> str:
    asked = (
        f'  q{at}: {{table: people, where: "age >= {at}", measures: {{n: {{count: rows}}}}}}' for at in range(number)
    )
    return HEAD.format(epsilon=1, delta="1e-6", accounting=accounting) + "\n".join(asked)


def charged(plan: ReleasePlan, people: Account, delta: Fraction) -> float:
    return float(account_loss(people.composition, [plan.cost_of(people)], delta).epsilon)


@pytest.mark.parametrize(
    ("composition", "accounting", "number", "mechanism", "error"),
    [
        ("pld", "advanced", 15, "total_residual", 6.889),
        ("zcdp", "basic", 20, "discrete_laplace", 28.3),
        ("zcdp", "advanced", 40, "discrete_laplace", 36.4),
    ],
)
def test_three_times_the_noise_is_not_paid_for_a_charge_a_little_above(
    composition: Composition, accounting: str, number: int, mechanism: str, error: float
) -> None:
    people = account(composition)
    plan = plan_of(counts(number, accounting), accounts=[people])
    assert {step.mechanism for step in plan.steps} == {mechanism}
    assert float(plan.outputs[0].standard_error or 0) == pytest.approx(error, rel=0.01)
    assert plan.naive is not None
    assert float(plan.naive.noise) >= 1
    gaussian = next(each for each in plan.considered if each.name == "discrete Gaussian")
    assert float(gaussian.noise) > 2.9
    paid = charged(plan, people, Fraction(1, 10**6))
    assert paid < 1.2
    # where it charges more than epsilon, the plan says how much, beside what the lighter one would
    assert ("this plan charges epsilon" in gaussian.why_not) == (paid > 1)
    if paid > 1:
        assert float(gaussian.why_not.rsplit(" ", 1)[1]) == pytest.approx(paid, rel=0.01)
    verify(plan)


def test_a_charge_far_above_is_still_passed_over() -> None:
    plan = plan_of(counts(1, "auto"), accounts=[account("zcdp")])
    assert {step.mechanism for step in plan.steps} == {"discrete_gaussian"}
    assert any("discrete Laplace" in each.name and each.why_not for each in plan.considered)


def test_no_account_is_charged_above_its_cap_for_less_noise() -> None:
    text = counts(20, "basic")
    people = account("zcdp", cap="1.01", delta="1/1000000")  # takes Gaussian noise, and no Laplace noise
    plan = plan_of(text, accounts=[people])
    assert {step.mechanism for step in plan.steps} == {"discrete_gaussian"}
    assert charged(plan, people, people.lifetime.delta) < 1.01
    listed = next(each for each in plan.considered if each.name == "discrete Laplace")
    assert listed.why_not.startswith("it would charge an account epsilon 1.01")


def planner_of(epsilon: str, people: Account) -> tuple[ReleaseSpec, Planner]:
    from dprelease.plan.allocate.planner import allocate

    loaded = load(HEAD.format(epsilon=epsilon, delta="1e-9", accounting="auto") + AIMED, "spec.yaml")
    return loaded.spec, lambda spec: allocate(spec, resolve(loaded, {}), [people], loaded.fingerprint)


def test_solve_spares_the_account_or_the_epsilon_and_lists_each_noise() -> None:
    people = account("zcdp", cap="4")
    spec, planner = planner_of("1", people)
    cheap, small = solve(spec, planner), solve(spec, planner, "epsilon")
    assert [way.noise for way in cheap.ways] == [way.noise for way in small.ways] == ["laplace", "gaussian", "knorm"]
    laplace, gaussian, knorm = cheap.ways
    assert knorm.epsilon == laplace.epsilon  # two tables have no draw in common
    assert laplace.epsilon < gaussian.epsilon
    assert gaussian.load < laplace.load
    assert (cheap.plan, cheap.noise) == (planner_at(planner, spec, gaussian.epsilon), "auto")
    assert small.plan.budget.limit == laplace.epsilon
    for found in (cheap.plan, small.plan):
        margins = [float(output.margin or 99) for output in found.outputs]
        assert margins[0] <= 13
        assert margins[1] <= 14
        verify(found)


def planner_at(planner: Planner, spec: ReleaseSpec, epsilon: Fraction) -> ReleasePlan:
    budget = Budget(epsilon=epsilon, delta=spec.privacy.budget.delta)
    return planner(spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"budget": budget})}))


def test_a_horizon_finds_the_budget_that_pays_for_the_noise_that_the_account_takes_best() -> None:
    people = account("zcdp", cap="4")
    spec, planner = planner_of("1", people)  # Laplace noise alone meets the targets at 1, and charges much
    found = largest_budget(spec, planner, [Purse(people, people.lifetime)], (), 11)
    assert found.limit is not None
    assert 1 < found.limit < Fraction(6, 5)
    assert found.plan is not None
    assert {step.mechanism for step in found.plan.steps} == {"discrete_gaussian"}
    assert found.noise == ""  # the spec as it stands takes it there


def test_what_solve_is_told_and_says(tmp_path: Path) -> None:
    text = SPEC[: SPEC.index("queries:")] + "queries:" + AIMED.replace("by: [sex], ", "").replace("by: [region], ", "")
    small_project(tmp_path, text)
    ended = forked(tmp_path, "plan", "spec.yaml", "--solve", "epsilon", "--json")
    assert ended.code == 0, ended.err
    facts = json.loads(ended.out)["solve"]
    assert facts["least"] == "epsilon"
    assert {each["noise"] for each in facts["noises"]} >= {"laplace", "gaussian"}
    assert all(Fraction(each["charges"][0]["charged"]) > 0 for each in facts["noises"])
    told = command(tmp_path, "plan", "--solve", "spec.yaml")  # what follows is a path, and not what is made least
    assert "the smallest charge that meets every target: epsilon" in told
    assert "noise laplace: epsilon" in told
    assert forked(tmp_path, "plan", "spec.yaml", "--solve=cheap").code == 2
