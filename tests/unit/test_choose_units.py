"""``noise: auto`` weighs a release by what its accounts are charged, in their own unit and relation."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.errors import PlanError
from dprelease.plan.document import Account, Composition, ReleasePlan
from dprelease.privacy.budget import Budget
from dprelease.privacy.filters import account_loss
from dprelease.privacy.unit import Neighboring
from tests.planned import SPEC, plan_of

DELTA = Fraction(1, 10**5)
GAUSSIAN = {"discrete_gaussian", "count_knorm"}
LAPLACE = SPEC.replace("delta: 1e-9}", "delta: 1e-9}\n  noise: laplace")
PRIVATE = """
dprelease: 1
release: {name: survey, period: 2024}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-6}
tables:
  people:
    account: people
    unit_id: person
    bounds: {max_rows: 3}
    source: {file: people.csv}
    columns:
      word: {type: text}
queries:
  words: {table: people, by: [word], keys: private, measures: {persons: {count: units}}}
"""


def household(
    composition: Composition,
    persons: int,
    order: int | None = None,
    relation: Neighboring = Neighboring.ADD_REMOVE,
    unit: str = "household",
) -> Account:
    return Account(
        name="people",
        unit=unit,
        neighboring=relation,
        composition=composition,
        lifetime=Budget(epsilon=Fraction(1000), delta=DELTA),
        selecting=DELTA / 2 if composition in ("zcdp", "rdp") else Fraction(0),
        order=None if order is None else Fraction(order),
        nests={"person": persons} if unit == "household" else {},
    )


def charged(plan: ReleasePlan, account: Account) -> float:
    """The epsilon that the account would be charged for a plan."""
    kept = account.selecting or None
    loss = account_loss(account.composition, [plan.cost_of(account)], DELTA, kept=kept, order=account.order)
    return float(loss.epsilon)


def kinds(plan: ReleasePlan) -> set[str]:
    return {step.mechanism for step in plan.steps}


CASES = [
    household("zcdp", 5),
    household("zcdp", 12),
    household("rdp", 5, 4),
    household("rdp", 1, 8, Neighboring.REPLACE_ONE, "person"),
]


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("account", CASES, ids=["zcdp 5", "zcdp 12", "rdp 5", "rdp replaced"])
def test_what_is_passed_over_would_be_charged_what_the_plan_says(account: Account) -> None:
    plan, other = plan_of(accounts=[account]), plan_of(LAPLACE, accounts=[account])
    (laplace,) = (each for each in plan.considered if each.name == "discrete Laplace, sums from means")
    told = float(laplace.why_not.split("epsilon ")[1].split()[0])
    assert told == pytest.approx(charged(other, account), rel=0.01)
    assert kinds(other) == {"discrete_laplace"}
    assert kinds(plan) <= GAUSSIAN
    assert charged(plan, account) < told / 1.25


def test_the_unit_of_the_account_decides_which_noise_is_dear() -> None:
    """At order 4 Laplace noise is the cheaper one for a person, and Gaussian noise for a household of five."""
    person = household("rdp", 1, 4, unit="person")
    assert kinds(plan_of(accounts=[person])) <= {"discrete_laplace", "count_knorm"}
    assert kinds(plan_of(accounts=[household("rdp", 5, 4)])) == GAUSSIAN


def test_key_selections_of_several_units_are_weighed_at_the_delta_of_the_account() -> None:
    """Five persons have five times the delta of one, which is more than the release's, and the account has it."""
    account = household("zcdp", 5)
    plan = plan_of(PRIVATE, accounts=[account])
    assert kinds(plan) == {"gaussian_threshold", "discrete_gaussian"}
    (laplace,) = plan.considered
    told = float(laplace.why_not.split("epsilon ")[1].split()[0])
    assert told == pytest.approx(
        charged(plan_of(PRIVATE.replace("1e-6}", "1e-6}\n  noise: laplace")), account), rel=0.01
    )
    # Where no noise can be charged, the noise itself decides; the ledger refuses the release.
    small = account.model_copy(update={"selecting": Fraction(1, 10**8)})
    assert kinds(plan_of(PRIVATE, accounts=[small])) == {"optimal_selection", "discrete_laplace"}


def test_a_unit_that_says_nothing_about_the_account_is_told_when_it_is_planned() -> None:
    with pytest.raises(PlanError, match="DPR-P410"):
        plan_of(accounts=[household("zcdp", 5).model_copy(update={"nests": {}})])
