"""What the planner chooses, and what pins, targets and other budgets do to a plan."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

import pytest

from dprelease.errors import BudgetTooSmall, PlanError
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.explain.facts import compare
from dprelease.plan.forecast.other_budgets import at_epsilon, solve, what_if
from dprelease.plan.resolve.catalog import resolve
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import Composition
from dprelease.privacy.unit import Neighboring
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.load import load
from tests.planned import plan_of


def spec_of(queries: str, privacy: str = "", budget: str = "{epsilon: 1, delta: 1e-6}") -> str:
    asked = sorted(set(re.findall(r"\bc\d+\b", queries)), key=lambda name: int(name[1:]))
    columns = "\n".join(f"      {name}: {{type: integer, range: [0, 100]}}" for name in asked)
    return f"""
dprelease: 1
release: {{name: survey, period: 2024}}
privacy:
  unit: {{entity: person}}
  budget: {budget}
  {privacy}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      sex: {{type: integer, keys: [1, 2]}}
      region: {{type: text, keys: ["01", "02", "06"]}}
{columns}
queries:
{queries}
"""


def counts(number: int, by: str = "sex") -> str:
    measures = ", ".join(f"n{at}: {{count: c{at}}}" for at in range(number))
    return f"  q: {{table: people, by: [{by}], measures: {{{measures}}}}}"


def account(composition: Composition, neighboring: Neighboring = Neighboring.ADD_REMOVE) -> list[Account]:
    return [
        Account(
            name="people",
            unit="person",
            neighboring=neighboring,
            composition=composition,
            lifetime=Budget(epsilon=Fraction(1000), delta=Fraction(1, 10**5)),
        )
    ]


def planner(text: str) -> tuple[ReleaseSpec, Callable[[ReleaseSpec], ReleasePlan]]:
    loaded = load(text, "spec.yaml")

    def plan(spec: ReleaseSpec) -> ReleasePlan:
        from dprelease.plan.allocate.planner import allocate

        return allocate(spec, resolve(loaded, {}), account("zcdp"), loaded.fingerprint)

    return loaded.spec, plan


def margin(plan: ReleasePlan, query: str, measure: str) -> float:
    found = next(each for each in plan.outputs if (each.query, each.measure) == (query, measure))
    return float(found.margin or "nan")


def test_a_few_counts_of_the_same_cells_get_one_k_norm_draw() -> None:
    plan = plan_of(spec_of(counts(5)), accounts=account("basic"))
    (step,) = plan.steps
    assert step.mechanism == "count_knorm"
    assert len(step.parts) == 5
    assert step.gauge == 1
    # planner.md section 2b: 3.06 for five counts at epsilon 1, where Laplace noise needs 7.07
    assert step.law.variance**0.5 == pytest.approx(3.055, rel=0.02)
    assert plan.naive is not None
    assert float(plan.naive.noise) == pytest.approx(7.07 / 3.055, rel=0.03)
    assert verify(plan).epsilon <= 1


def test_a_replaced_row_of_one_cell_takes_the_l_infinity_ball() -> None:
    text = spec_of(counts(5, by=""), "neighboring: replace_one")
    plan = plan_of(text, accounts=account("basic", Neighboring.REPLACE_ONE))
    assert [(step.mechanism, step.gauge) for step in plan.steps] == [("linf_knorm", Fraction(1))]
    several = plan_of(
        spec_of(counts(5), "neighboring: replace_one"), accounts=account("basic", Neighboring.REPLACE_ONE)
    )
    assert [(step.mechanism, step.gauge) for step in several.steps] == [("count_knorm", Fraction(2))]
    assert verify(plan).epsilon <= 1
    assert verify(several).epsilon <= 1


def test_many_counts_of_the_same_cells_are_centred() -> None:
    """The correlated Gaussian: standard deviation (1 + sqrt k) / (2 mu) instead of sqrt(k) / mu."""
    plan = plan_of(spec_of(counts(50)))
    assert {part.kind for step in plan.steps for part in step.parts} == {"balance", "rows"}
    independent = next(each for each in plan.considered if each.name == "discrete Gaussian")
    # planner.md section 2b: 29.9 for 50 independent counts, 17.1 for correlated ones
    assert float(independent.noise) == pytest.approx(29.9 / 17.1, rel=0.02)
    assert float(plan.outputs[0].standard_error or 0) == pytest.approx(17.1, rel=0.01)
    verify(plan)


def test_laplace_and_gaussian_are_taken_as_asked() -> None:
    for noise in ("laplace", "gaussian"):
        plan = plan_of(spec_of(counts(5), f"noise: {noise}"))
        assert {step.mechanism for step in plan.steps} == {f"discrete_{noise}"}


MIXED = """
  pinned: {table: people, by: [sex], measures: {n: {count: rows}}, budget: {epsilon: 0.2}}
  aimed: {table: people, by: [region], measures: {n: {count: rows}}, target: {n: {margin: 60}}}
  floor: {table: people, by: [sex, region], measures: {n: {count: c1}}, share: 1, target: {n: {margin: 40}}}
  shared: {table: people, measures: {total: {sum: c2}, n: {count: c2}}, share: 2}
"""


# Every two of them together on every commit, all three at night.
MIXES = [
    pytest.param(*mix, marks=[pytest.mark.nightly] if (at // 6 + at // 3 + at % 3) % 2 else [])
    for at, mix in enumerate(
        (accounting, noise, neighboring)
        for accounting in ("auto", "basic", "zcdp", "pld")
        for neighboring in ("add_remove", "replace_one")
        for noise in ("auto", "laplace", "gaussian")
    )
]


@pytest.mark.thin(every=4)
@pytest.mark.parametrize(("accounting", "noise", "neighboring"), MIXES)
def test_pins_targets_and_shares_in_one_release(accounting: str, noise: str, neighboring: str) -> None:
    privacy = f"accounting: {accounting}\n  noise: {noise}\n  neighboring: {neighboring}"
    budget = "{epsilon: 3, delta: 1e-6}" if accounting == "basic" else "{epsilon: 2, delta: 1e-6}"
    plan = plan_of(spec_of(MIXED, privacy, budget), accounts=account("zcdp", Neighboring(neighboring)))
    spent = verify(plan).epsilon
    assert plan.budget.epsilon is not None
    assert plan.budget.epsilon * Fraction(999, 1000) <= spent <= plan.budget.epsilon
    alone = Composed(events=tuple(step.event for step in plan.steps if step.answers[0].query == "pinned"))
    names = [plan.certified] if accounting == "auto" else [accounting]
    cost = min(ACCOUNTANTS[name].epsilon(alone, plan.budget.delta) for name in names)
    assert Fraction(199, 1000) <= cost <= Fraction(1, 5)
    assert margin(plan, "aimed", "n") <= 60
    assert margin(plan, "floor", "n") <= 40
    assert sum(step.share for step in plan.steps) == 1


def test_a_pinned_query_shares_no_step_and_keeps_its_price_when_others_come() -> None:
    one = "  pinned: {table: people, by: [sex], measures: {n: {count: rows}}, budget: {rho: 1/500}}"
    more = one + "\n  other: {table: people, by: [sex], measures: {n: {count: rows}}}"
    few, many = plan_of(spec_of(one)), plan_of(spec_of(more))
    assert few.step("pinned.rows").scale == many.step("pinned.rows").scale
    assert len(many.steps) == 2
    assert few.unspent is not None
    assert "pinned" in few.unspent
    assert many.unspent is None


def test_targets_beyond_the_budget_say_what_would_be_needed() -> None:
    text = spec_of(MIXED.replace("margin: 60", "margin: 3").replace("margin: 40", "margin: 400"), "noise: gaussian")
    with pytest.raises(BudgetTooSmall) as caught:
        plan_of(text)
    assert caught.value.code == "DPR-P103"
    assert "'aimed' hurts most" in caught.value.detail
    assert "with one unit of epsilon more" in caught.value.detail
    assert "--solve" in caught.value.hint


TARGETS = """
  a: {table: people, by: [sex], measures: {n: {count: rows}}, target: {n: {margin: 30}}}
  b: {table: people, by: [region], measures: {n: {count: rows}}, target: {n: {margin: 50}}}
"""


def test_solve_finds_the_smallest_epsilon_and_no_smaller_one_does() -> None:
    spec, plan = planner(spec_of(TARGETS, "noise: gaussian"))
    solved = solve(spec, plan).plan
    assert margin(solved, "a", "n") <= 30
    assert margin(solved, "b", "n") <= 50
    least = solved.budget.epsilon
    assert least is not None
    assert verify(solved).epsilon <= least
    with pytest.raises(BudgetTooSmall):
        plan(at_epsilon(spec, least * Fraction(99, 100)))
    # closed form: a margin of 30 at 95 % is a scale of about 30.5 / 1.96, and mu^2 adds up
    from dprelease.privacy.theorems import gaussian

    mu_squared = sum((1 / step.scale**2 for step in solved.steps), Fraction(0))
    assert float(gaussian.epsilon(mu_squared, solved.budget.delta)) == pytest.approx(float(least), rel=1e-3)


def test_solve_takes_the_cheapest_noise_and_wants_a_target_everywhere() -> None:
    spec, plan = planner(spec_of(TARGETS))
    cheapest = solve(spec, plan, "epsilon").plan.budget.epsilon
    for noise in ("laplace", "gaussian"):
        other, plan_other = planner(spec_of(TARGETS, f"noise: {noise}"))
        assert cheapest is not None
        assert cheapest <= (solve(other, plan_other, "epsilon").plan.budget.epsilon or 0)
    shared, plan_shared = planner(spec_of(TARGETS + "\n  c: {table: people, measures: {n: {count: rows}}}"))
    with pytest.raises(PlanError, match="'c' has neither a target nor a budget"):
        solve(shared, plan_shared)


@pytest.mark.slow
def test_what_if_tabulates_margins_against_the_budget() -> None:
    spec, plan = planner(spec_of(counts(2)))
    tried = what_if(spec, plan, [Fraction(1, 2), Fraction(1), Fraction(2)])
    margins = [float(each.outputs[0].margin or 0) for each in tried]
    assert margins[0] > margins[1] > margins[2]
    aimed, plan_aimed = planner(spec_of(TARGETS))
    (small,) = what_if(aimed, plan_aimed, [Fraction(1, 100)])
    assert "need epsilon" in small.refusal


def test_compare_shows_every_accountant_and_the_noise_it_would_need() -> None:
    plan = plan_of(spec_of(counts(20), "noise: gaussian"))
    found = {each.accountant: each for each in compare(plan)}
    assert list(found) == list(ACCOUNTANTS)
    assert found["pld"].noise == pytest.approx(1, rel=1e-4)
    assert found["zcdp"].noise == pytest.approx(1.0725, rel=3e-3)  # planner.md section 2: 20.26 / 18.89
    assert (found["basic"].noise or 0) > 4


def test_what_a_mean_needs_is_measured_once_for_mean_variance_and_sum() -> None:
    query = "  q: {table: people, by: [sex], expect: {n: 5000}, measures: {n: {count: c1}, t: {sum: c1}, m: {mean: c1}, v: {variance: c1}, s: {stddev: c1}}}"
    plan = plan_of(spec_of(query, "noise: gaussian"))
    assert sorted(part.kind for step in plan.steps for part in step.parts) == ["nonnull", "square", "sum"]
    assert verify(plan).epsilon <= 1


def test_sharing_the_moments_beats_asking_for_them_one_by_one() -> None:
    """Mean and variance with one budget, against the same measures as queries of their own that share nothing."""
    joint = plan_of(
        spec_of(
            "  q: {table: people, by: [sex], expect: {n: 5000}, measures: {n: {count: c1}, m: {mean: c1}, v: {variance: c1}}}",
            "noise: gaussian",
        )
    )
    apart = plan_of(
        spec_of(
            "\n".join(
                f"  {name}: {{table: people, by: [sex], expect: {{n: 5000}}, measures: {{n: {{count: c1}}, {name}: {{{kind}: c1}}}}, budget: {{rho: {rho}}}}}"
                for name, kind, rho in (("m", "mean", "1/100"), ("v", "variance", "1/100"))
            ),
            "noise: gaussian",
        )
    )
    together, separately = total_rho(joint.event), total_rho(apart.event)

    def at_equal_cost(plan: ReleasePlan, measure: str, rho: Fraction) -> float:
        error = next(float(each.standard_error or 0) for each in plan.outputs if each.measure == measure)
        return error * math.sqrt(rho)

    assert at_equal_cost(joint, "m", together) < at_equal_cost(apart, "m", separately)
    assert at_equal_cost(joint, "v", together) < at_equal_cost(apart, "v", separately)
