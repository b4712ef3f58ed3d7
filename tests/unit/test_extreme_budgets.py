"""Budgets at the ends of what may be written: a plan comes out and verifies, or an error says what to write."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import BudgetTooSmall, PlanError
from dprelease.noise.weighted_sums import widest
from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import Account, Composition, ReleasePlan
from dprelease.plan.resolve.catalog import resolve
from dprelease.plan.verify.mathematics.delta import delta_of
from dprelease.plan.verify.mathematics.draws import Cell
from dprelease.plan.verify.mathematics.one_draw import lattice_epsilon, normal_epsilon
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.basic import rough_single
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Gaussian, Sensitivity
from dprelease.privacy.theorems import gaussian, lattice
from dprelease.privacy.unit import Neighboring
from dprelease.spec.load import load

HEAD = """
dprelease: 1
release: {{name: edge, period: once}}
privacy: {{unit: {{entity: person}}, budget: {{{budget}}}, accounting: {accounting}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      region: {{type: text, keys: ["01", "02", "06"]}}
      sex: {{type: integer, keys: [1, 2]}}
      age: {{type: integer, range: [0, 99]}}
queries:
"""
QUERY = "  q{n}: {{table: people, {asked}}}\n"
COUNTS = [f'where: "age >= {n + 1}", measures: {{m: {{count: rows}}}}' for n in range(12)]
SUMS = [f"by: [region], measures: {{m: {{sum: age, clip: [0, {50 + n}]}}}}" for n in range(4)]
MEAN = ["by: [sex], measures: {m: {count: rows}, a: {mean: age, clip: [0, 90]}}"]
WORKLOAD = ["marginals: {of: [region, sex], ways: [0, 1, 2]}, measures: {m: {count: rows}}"]
SHAPES = {"counts": COUNTS, "sums": SUMS, "mean": MEAN, "workload": WORKLOAD}
BUDGETS = (
    "epsilon: 1e-12",
    "epsilon: 1e-12, delta: 1e-300",
    "epsilon: 1e-10, delta: 1e-9",
    "epsilon: 1e-12, delta: 1e-30",
    "epsilon: 1, delta: 1e-300",
    "epsilon: 1e3, delta: 1e-9",
    "epsilon: 1e4",
    "epsilon: 1e6, delta: 1e-300",
)
ENDS = ("epsilon: 1e-18", "epsilon: 1e-18, delta: 1e-9", "epsilon: 1e6", "rho: 1e-36, delta: 1e-9", "rho: 1e6")


_NO_THEOREM = ("DPR-P101", "DPR-P200")


def planned(shape: str, budget: str, accounting: str = "auto", composition: Composition = "pld") -> ReleasePlan:
    text = HEAD.format(budget=budget, accounting=accounting)
    text += "".join(QUERY.format(n=n, asked=asked) for n, asked in enumerate(SHAPES[shape]))
    loaded = load(text, "spec.yaml")
    delta = loaded.spec.privacy.budget.delta
    people = Account(
        name="people",
        unit="person",
        neighboring=Neighboring.ADD_REMOVE,
        composition=composition,
        lifetime=Budget(epsilon=Fraction(10**7), delta=delta),
        selecting=delta / 2 if composition == "zcdp" else Fraction(0),
    )
    return allocate(loaded.spec, resolve(loaded, {}), [people], loaded.fingerprint)


def check(shape: str, budget: str, accounting: str = "auto", composition: Composition = "pld") -> bool:
    """Whether there is a plan; where not, there is too little budget for any, or no theorem, and it is said.

    Anything but an error of the project, a plan that does not verify, and a warning of numpy fail.
    """
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        try:
            plan = planned(shape, budget, accounting, composition)
        except PlanError as refusal:
            if not refusal.hint or not (isinstance(refusal, BudgetTooSmall) or refusal.code in _NO_THEOREM):
                raise
            return False
        loss = verify(plan)
    limit = plan.budget.epsilon
    assert limit is None or loss.epsilon <= limit
    return True


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("shape", ["sums", "workload"])
def test_a_budget_far_out_buys_a_plan_that_verifies(shape: str, budget: str) -> None:
    assert check(shape, budget)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "accounting",
    ["auto", "pld", *(pytest.param(name, marks=pytest.mark.nightly) for name in ACCOUNTANTS if name != "pld")],
)
def test_a_budget_far_out_buys_a_plan_under_every_accounting(shape: str, budget: str, accounting: str) -> None:
    if "delta" not in budget and ACCOUNTANTS.get(accounting) is not None and ACCOUNTANTS[accounting].needs_delta[0]:
        pytest.skip("the accounting needs a delta, as the spec's own checks say")
    assert check(shape, budget, accounting) or accounting != "auto"


@pytest.mark.slow
@pytest.mark.parametrize("composition", ["zcdp", "basic"])
@pytest.mark.parametrize("shape", SHAPES)
def test_at_the_ends_of_what_may_be_written_there_is_a_plan_or_a_clear_error(
    shape: str, composition: Composition
) -> None:
    found = [check(shape, budget, composition=composition) for budget in ENDS]
    assert any(found)
    assert not all(found)


@pytest.mark.parametrize("mu", [1e-6, 1e-9, 1e-12, 1e-20])
@pytest.mark.parametrize("delta", [1e-9, 1e-14, 1e-30, 1e-300])
def test_gaussian_draws_of_tiny_loss_are_read_to_their_digits(mu: float, delta: float) -> None:
    """The floats of the search and those of ``verify`` against 60 digits: Mills' ratios next to one another cancel."""
    exact = float(gaussian.epsilon(Fraction(mu) ** 2, Fraction(delta)))
    draw = Gaussian(sensitivity=Sensitivity(l0=1, l1=1, l2_squared=1, linf=1), scale=1 / Fraction(mu))
    assert rough_single(draw, math.log(delta)) == pytest.approx(exact, rel=1e-6, abs=0)
    assert normal_epsilon(mu, delta) == pytest.approx(exact, rel=1e-6, abs=0)


@pytest.mark.parametrize("delta", [1e-9, 1e-40, 1e-100, 1e-300])
@pytest.mark.parametrize(("scale", "shift"), [(3, 1), (40, 1), (11, 5)])
def test_a_lattice_is_read_as_far_out_as_its_delta(scale: int, shift: int, delta: float) -> None:
    exact = float(lattice.gaussian_epsilon(Fraction(scale), shift, Fraction(delta)))
    assert lattice_epsilon(float(scale), shift, delta) == pytest.approx(exact, rel=1e-9, abs=0)


@pytest.mark.parametrize("left", [1e-3, 1e-12, 1e-25, 1e-31])
def test_delta_is_true_next_to_the_largest_loss_of_bounded_draws(left: float) -> None:
    """Above every loss but the largest, delta is its probability times what epsilon leaves of it."""
    moved, scale = 50, Fraction(2 * 10**14)
    largest = moved / scale
    chance = 1 / (1 + math.exp(-1 / float(scale)))
    gap = Fraction(left) * largest / 10**14
    found = delta_of({((Cell("laplace", scale, moved),),): 1}, largest - gap)
    assert found == pytest.approx(chance * -math.expm1(-float(gap)), rel=1e-4, abs=0)


@pytest.mark.parametrize("least", [1e-200, 1e-5, 1.0, 1e6])
def test_the_margin_of_any_weights_is_as_it_is_between(least: float) -> None:
    """It widens as the least variance falls, from that of a normal-like law to Chebyshev's, and never below the first.

    At a variance of 1e24 and more the losses' own digits are all in what ``1 + x`` forgets.
    """
    confidence = Fraction(19, 20)
    wide = [widest(each, confidence) for each in (1e40, 1e24, least)]
    assert wide[0] == pytest.approx(wide[1], rel=1e-6)
    assert wide[0] <= wide[2] * (1 + 1e-6)
    assert wide[2] <= math.sqrt(20)


@pytest.mark.parametrize("scale", [0.4, 3.0, 70.0, 600.0])
@pytest.mark.parametrize("delta", [0.5, 1e-6, 1e-40, 1e-200])
def test_the_tail_that_the_verifier_leaves_out_is_nothing(scale: float, delta: float) -> None:
    for shift in (1, 5, 400):
        at = np.arange(-shift, math.ceil((math.sqrt(-2 * math.log(delta)) + 30) * scale) + 3 * shift)
        logs = -((at / scale) ** 2) / 2
        tails = np.logaddexp.accumulate(logs[::-1])[::-1]
        tails = tails - np.logaddexp.reduce(np.concatenate([logs, logs[at > shift]]))
        above = tails[:-shift][tails[:-shift] > math.log(delta)]
        lost = above + np.log1p(-np.exp(math.log(delta) - above)) - tails[shift : shift + len(above)]
        assert lattice_epsilon(scale, shift, delta) == pytest.approx(max(0.0, float(lost.max())), rel=1e-9, abs=1e-12)
