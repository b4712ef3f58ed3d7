"""Plans are compared by the standard errors that they publish, each query by its share: worked out here from outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import PARTS, Measure
from dprelease.measures.ratio import PlannedRatio
from dprelease.plan.design.accuracy import mean_noise
from dprelease.plan.document import Account, Composition, ReleasePlan
from dprelease.plan.explain.facts import compared_text
from dprelease.plan.forecast import largest_budget
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from tests.measures import measure_of
from tests.planned import plan_of
from tests.project import PLACES, SPEC, command, small_project

HEAD = """
dprelease: 1
release: {name: survey, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}, noise: auto, accounting: auto}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      region: {type: text, keys: ["01", "02"]}
      age: {type: integer, range: [0, 99]}
      hours: {type: integer, range: [0, 60]}
      income: {type: integer, range: [0, 500000]}
queries:
"""
SUMS = ("{ages: {sum: age}}", "{hours: {sum: hours}, all: {sum: income}, most: {sum: income, clip: [0, 9]}}")
COUNTS = ("{n: {count: rows}}", "{aged: {count: age}, paid: {count: income}, hours: {sum: hours}}")
RATIOS = """
  q:
    table: people
    by: [region]
    expect: {n: 1000}
    measures:
      n: {count: rows}
      aged: {count: age}
      some: {ratio: [aged, n]}
      same: {ratio: [aged, n]}
      again: {ratio: [aged, n]}
      more: {ratio: [aged, n]}
"""


def account(composition: Composition) -> Account:
    return Account(
        name="people",
        unit="person",
        neighboring=Neighboring.ADD_REMOVE,
        composition=composition,
        lifetime=Budget(epsilon=Fraction(100), delta=Fraction(1, 10**8)),
    )


def noise_of(plan: ReleasePlan) -> float:
    """The geometric mean that a plan states, from nothing but its outputs and the shares of its queries."""
    total = weight = 0.0
    for query in plan.queries:
        errors = [float(each.standard_error or "nan") for each in plan.outputs if each.query == query.name]
        share = float(query.goal.share or 1)
        total += share * sum(map(math.log, errors)) / len(errors)
        weight += share
    return math.exp(total / weight)


def survey(noise: str, composition: Composition, spec: str = SPEC) -> ReleasePlan:
    text = spec.replace("privacy:\n", f"privacy:\n  noise: {noise}\n")
    return plan_of(text, files={"places": PLACES.encode()}, accounts=[account(composition)])


@pytest.mark.parametrize("composition", ["zcdp", "basic", "pld"])
def test_what_a_survey_publishes_is_no_noisier_than_with_gaussian_noise(composition: Composition) -> None:
    ours, gaussian = survey("auto", composition), survey("gaussian", composition)
    assert noise_of(ours) <= noise_of(gaussian) * (1 + 1e-5)
    told = next(each for each in ours.considered if each.name == "discrete Gaussian")
    assert 0 <= float(told.noise) - noise_of(gaussian) / noise_of(ours) < 2e-3  # rounded up to four digits


def test_a_query_counts_by_its_share_and_not_by_how_many_numbers_it_has() -> None:
    """docs/decisions/0054: joined counts serve the query of one count, which has half the budget and half the weight."""
    ours, gaussian = survey("auto", "zcdp"), survey("gaussian", "zcdp")
    assert "count_knorm" in {step.mechanism for step in ours.steps}
    assert noise_of(gaussian) / noise_of(ours) == pytest.approx(1.007, abs=5e-4)
    errors = [[float(each.standard_error or "nan") for each in plan.outputs] for plan in (gaussian, ours)]
    assert math.prod(a / b for a, b in zip(*errors, strict=True)) ** (1 / 4) == pytest.approx(0.972, abs=5e-4)
    # with as many shares as numbers both means are one, and joined counts are the better choice by it
    plans = [
        survey(noise, "zcdp", SPEC.replace("  income:\n", "  income:\n    share: 3\n"))
        for noise in ("gaussian", "auto")
    ]
    assert "count_knorm" in {step.mechanism for step in plans[1].steps}
    errors = [[float(each.standard_error or "nan") for each in plan.outputs] for plan in plans]
    alike = math.prod(a / b for a, b in zip(*errors, strict=True)) ** (1 / 4)
    assert alike == pytest.approx(noise_of(plans[0]) / noise_of(plans[1])) == pytest.approx(1.033, abs=5e-4)


def unequal(measures: tuple[str, str], shares: tuple[int, int]) -> str:
    """A query of one number beside one of three."""
    first, second = (
        f"{{table: people, by: [region], share: {share}, measures: {each}}}"
        for share, each in zip(shares, measures, strict=True)
    )
    return f"{HEAD}  one: {first}\n  three: {second}\n"


@pytest.mark.parametrize(
    ("noise", "name"), [("laplace", "discrete Laplace"), ("gaussian", "correlated Gaussian counts")]
)
@pytest.mark.parametrize("shares", [(1, 1), (3, 1), (1, 7)])
def test_what_was_passed_over_has_the_noise_that_its_own_plan_publishes(
    noise: str, name: str, shares: tuple[int, int]
) -> None:
    text, people = unequal(COUNTS, shares), [account("pld")]
    ours, other = (plan_of(each, accounts=people) for each in (text, text.replace("noise: auto", f"noise: {noise}")))
    told = next(each for each in ours.considered if each.name == name)
    assert float(told.noise) > 1.1
    assert -1e-5 <= float(told.noise) - noise_of(other) / noise_of(ours) < 2e-3  # rounded up to four digits


@pytest.mark.parametrize("accounting", ["auto", "basic"])
@pytest.mark.parametrize("shares", [(1, 1), (5, 1), (1, 5)])
def test_the_naive_plan_is_no_better_where_losses_add_up(accounting: str, shares: tuple[int, int]) -> None:
    """With each number alike equal parts would be the better division: a query counts by its share, as it is paid."""
    text = unequal(SUMS, shares).replace("accounting: auto", f"accounting: {accounting}")
    plan = plan_of(text, accounts=[account("basic")])
    assert plan.naive is not None
    assert float(plan.naive.charged) == 1
    assert float(plan.naive.noise) >= 1
    one, three = (share / sum(shares) for share in shares)  # of the budget, which the naive plan cuts into four
    lost = one * math.log(4 * one) + three * math.log(4 * three / 3)
    assert float(plan.naive.noise) == pytest.approx(math.exp(lost), rel=2e-3)
    assert (math.log(4 * one) + 3 * math.log(4 * three / 3)) / 4 < -0.02  # by the mean in which each number is alike


def test_ratios_that_share_a_draw_count_as_they_are_published() -> None:
    """By the draws of both: a part and a rest where four ratios count, and a balance about the rows where one does."""
    text = (HEAD + RATIOS).replace("noise: auto", "noise: gaussian")
    plan = plan_of(text, accounts=[account("zcdp")])
    told = {each.name: float(each.noise) for each in plan.considered}
    assert 1 < told["correlated Gaussian counts"] < told["discrete Gaussian"]
    assert {part.kind for step in plan.steps for part in step.parts} == {"rest", "nonnull"}
    once = plan_of(text[: text.index("      same:")], accounts=[account("zcdp")])
    assert {step.aggregate.quantity.kind for step in once.steps} == {"rows", "balance"}
    errors = {each.measure: float(each.standard_error or 0) for each in once.outputs}
    half = math.sqrt(sum(step.law.variance for step in once.steps)) / 2  # of (balance + rows) / 2 - r rows at r = 0, 1
    assert errors["some"] == pytest.approx(half / 1000, rel=1e-4)
    assert errors["aged"] == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize("middle", ["", ", middle: {quantiles: age, at: [0.5], from: ranks}"])
def test_a_forecast_compares_plans_as_the_planner_does(middle: str) -> None:
    """Also where a number has no standard error that a law can tell."""
    text = unequal((COUNTS[0], COUNTS[1].replace("}}", "}" + middle + "}")), (2, 3))
    ours, other = (plan_of(each, accounts=[account("pld")]) for each in (text, text.replace("auto,", "laplace,", 1)))
    told = next(each for each in ours.considered if each.name == "discrete Laplace")
    assert any(each.standard_error is None for each in ours.outputs) == bool(middle)
    times = math.exp(largest_budget._noise(other) - largest_budget._noise(ours))
    assert -1e-5 <= float(told.noise) - times < 2e-3  # rounded up to four digits


TABLE = Table(
    name="t",
    account="a",
    source=Source(file="t.csv", format="csv"),
    columns=(Column(name="pay", type="integer", range=Range(low=Fraction(-5), high=Fraction(95))),),
)
PAIRS = (("count", "rows", "count", "pay"), ("sum", "pay", "count", "pay"), ("sum", "pay", "count", "rows"))


@dataclass(frozen=True)
class Told:
    """A law of which the variance alone counts."""

    variance: float

    def margin(self, confidence: Fraction) -> int:
        return 1


def every_measure() -> list[Measure]:
    found = [measure_of(kind, "pay", clip=(Fraction(0), Fraction(80))) for kind in PARTS]
    found.append(measure_of("count", "rows"))
    for above, first, below, second in PAIRS:
        of = (measure_of(above, first), measure_of(below, second))
        found.append(PlannedRatio.model_validate({"ratio": ("a", "b"), "of": of}))
    return found


def forms() -> list[tuple[Measure, tuple[Quantity, ...]]]:
    return [(each, form) for each in every_measure() for form in each.alternatives(TABLE)]


@pytest.mark.parametrize(("measure", "quantities"), forms())
@pytest.mark.parametrize("count", [1, 40, 10**6])
def test_what_plans_are_compared_by_is_what_every_measure_foresees(
    measure: Measure, quantities: Sequence[Quantity], count: int
) -> None:
    draw, alike = np.random.default_rng(count), [1.0] * len(quantities)
    guess = measure.error(quantities, alike, None) / measure.error(quantities, alike, count)  # the same for all plans
    for _ in range(5):
        variances = [float(each) for each in draw.uniform(0.5, 50, len(quantities))]
        laws = [Told(each) for each in variances]
        foreseen = measure.expected(quantities, laws, Fraction(9, 10), count).standard_error
        if foreseen is None:  # of a ratio of which nothing is known, one of 1 is taken
            assert isinstance(measure, PlannedRatio)
            continue
        found = measure.error(quantities, variances, count)
        if measure.kind == "stddev":  # its worst case is the root of the noise
            half = measure.expected(quantities, [Told(each / 4) for each in variances], Fraction(9, 10), count)
            assert (half.standard_error or 0) ** 2 / foreseen**2 == pytest.approx(0.5, rel=1e-9)
            assert measure.error(quantities, [each / 4 for each in variances], count) == pytest.approx(found / 2)
        else:
            assert found == pytest.approx(foreseen, rel=1e-9)
        assert measure.error(quantities, variances, None) / found == pytest.approx(guess, rel=1e-9)
        if measure.by_weights:
            weights = measure.weights(quantities, count)
            assert found**2 == pytest.approx(math.fsum(map(math.prod, zip(weights, variances, strict=True))))


def test_shares_are_the_division_with_the_least_mean() -> None:
    """Of budgets that add up to one, each noise falling with its own, by any other division."""
    draw = np.random.default_rng(5)
    for _ in range(200):
        shares, other = draw.dirichlet(np.ones(4)), draw.dirichlet(np.ones(4))
        ours, theirs = (
            mean_noise((share, [1 / part]) for share, part in zip(shares, parts, strict=True))
            for parts in (shares, other)
        )
        assert ours < theirs


@pytest.mark.parametrize("composition", ["zcdp", "pld"])
def test_the_plan_says_by_what_noise_is_compared(tmp_path: Path, composition: Composition) -> None:
    plan = survey("auto", composition)
    said = "noise is compared by the geometric mean of the published standard errors, each query by its share"
    assert compared_text(plan) == said
    assert compared_text(plan.model_copy(update={"considered": (), "naive": None})) == ""
    assert "the root of the total error" in compared_text(plan.model_copy(update={"allocation": "least_error"}))
    small_project(tmp_path)
    assert said in command(tmp_path, "plan", "spec.yaml")
