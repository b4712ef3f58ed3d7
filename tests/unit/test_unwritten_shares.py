"""Where no shares are written beside a workload, the budget is divided for the least total error, with a guard."""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from dprelease.plan.allocate.shares import blocks, least_part
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import allocation_text, plan_facts
from dprelease.plan.verify.whole_plan import verify
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.load import load
from tests.planned import plan_of

COUNT = "measures: {n: {count: rows}}"
TABLES = "marginals: {of: [region, sex, age], ways: [0, 1, 2, 3]}"
MANY = "marginals: {of: [region, sex, age, band, size], ways: [1, 2, 3, 4, 5]}"
BESIDE = {"persons": f"by: [region], {COUNT}", "w": TABLES}
GAUSSIAN = "noise: gaussian\n  accounting: zcdp"
LAPLACE = "noise: laplace\n  accounting: basic"


def text_of(queries: dict[str, str], privacy: str = GAUSSIAN, after: str = "") -> str:
    asked = "\n".join(f"  {name}: {{table: people, {query}}}" for name, query in queries.items())
    return f"""
dprelease: 1
release: {{name: survey, period: 2024}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: 1, delta: 1e-9}}
  {privacy}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      region: {{type: text, keys: ["01", "02", "06"]}}
      sex: {{type: integer, keys: [1, 2]}}
      age: {{type: integer, keys: {{from: 1, to: 9}}}}
      band: {{type: integer, keys: {{from: 1, to: 5}}}}
      size: {{type: integer, keys: {{from: 1, to: 6}}}}
queries:
{asked}
{after}"""


def spec_of(text: str) -> ReleaseSpec:
    return load(text, "spec.yaml").spec


def part(plan: ReleasePlan, name: str) -> Fraction:
    return sum((step.share for step in plan.steps if step.answers[0].query == name), Fraction(0))


def squared_errors(plan: ReleasePlan) -> dict[str, float]:
    """By query: a count's variance, and the sum over the tables of a workload; as they are published."""
    told = {each.query: float(each.standard_error or 0) ** 2 for each in plan.outputs}
    tables = {each.name: each.tables for each in plan.workloads}
    names = dict.fromkeys(each.workload or each.name for each in plan.queries)
    return {name: math.fsum(told[each] for each in tables.get(name, (name,))) for name in names}


@pytest.mark.parametrize(("privacy", "power"), [(GAUSSIAN, 1), (LAPLACE, 2)])
def test_unwritten_shares_beside_a_workload_follow_the_errors(privacy: str, power: int) -> None:
    ours, equal = plan_of(text_of(BESIDE, privacy)), plan_of(text_of(BESIDE, f"{privacy}\n  allocation: shares"))
    verify(ours)
    assert (ours.allocation, equal.allocation) == ("guarded_least_error", None)
    assert part(equal, "persons") == Fraction(1, 2)
    assert least_part(power, 2) <= part(ours, "persons") < Fraction(1, 2)
    errors = {name: squared_errors(plan) for name, plan in (("ours", ours), ("equal", equal))}
    assert sum(errors["ours"].values()) < 0.95 * sum(errors["equal"].values())
    ratio = (errors["equal"]["w"] / errors["equal"]["persons"]) ** (1 / (power + 1))
    if part(ours, "persons") > least_part(power, 2):  # the square root and the cube root, from the plan of equal shares
        assert float(part(ours, "w") / part(ours, "persons")) == pytest.approx(ratio, rel=0.02)
    else:
        assert ratio > (1 - least_part(power, 2)) / least_part(power, 2)


@pytest.mark.parametrize("seed", range(6))
def test_the_total_error_is_no_more_than_with_equal_shares(seed: int) -> None:
    draw = random.Random(seed)
    by = draw.sample(["[]", "[sex]", "[region, sex]", "[age]", "[age, size]", "[band]"], draw.randint(1, 4))
    queries = {f"q{at}": f"by: {columns}, {COUNT}" for at, columns in enumerate(by)}
    for at in range(draw.randint(1, 2)):
        columns = ", ".join(draw.sample(["region", "sex", "age", "band", "size"], draw.randint(2, 3)))
        ways = draw.choice(["[1]", "[0, 1, 2]", "[1, 2]"])
        queries[f"w{at}"] = f"marginals: {{of: [{columns}], ways: {ways}}}"
    privacy, power = draw.choice([(GAUSSIAN, 1), (LAPLACE, 2)])
    ours, equal = plan_of(text_of(queries, privacy)), plan_of(text_of(queries, f"{privacy}\n  allocation: shares"))
    verify(ours)
    assert sum(part(ours, name) for name in queries) == 1
    assert all(part(ours, name) >= least_part(power, len(queries)) for name in queries)
    errors = [squared_errors(plan) for plan in (ours, equal)]
    assert sum(errors[0].values()) <= sum(errors[1].values()) * (1 + 1e-3)
    assert max(errors[0][name] / errors[1][name] for name in queries) <= 4.1  # to first order 4 in squares


def test_the_plan_says_who_loses_by_it_and_how_to_have_it_otherwise() -> None:
    ours, equal = plan_of(text_of(BESIDE)), plan_of(text_of(BESIDE, f"{GAUSSIAN}\n  allocation: shares"))
    (told,) = [each for each in ours.considered if each.name == "the same, divided by shares"]
    found = re.fullmatch(
        r"its total error is larger, but (\w+) would have ([\d.]+) times the noise that it has here; "
        r"`allocation: shares` takes it",
        told.why_not,
    )
    assert found is not None
    assert found[1] == "persons"
    ours_errors, equal_errors = squared_errors(ours), squared_errors(equal)
    assert float(found[2]) == pytest.approx(math.sqrt(equal_errors["persons"] / ours_errors["persons"]), rel=2e-3)
    lost = math.sqrt(sum(equal_errors.values()) / sum(ours_errors.values()))
    assert float(told.noise) == pytest.approx(lost, rel=2e-3)
    assert allocation_text(ours).startswith(
        "the budget is divided for the least total error, with a least part for every query: persons "
    )
    assert plan_facts(ours)["allocation"] == "guarded_least_error"


@pytest.mark.parametrize(
    ("privacy", "least"), [(GAUSSIAN, Fraction(1, 8)), (LAPLACE.replace("basic", "pld"), Fraction(1, 4))]
)
def test_no_query_gets_far_less_than_an_equal_part(privacy: str, least: Fraction) -> None:
    queries = {"persons": f"by: [], {COUNT}", "w": MANY}
    plan = plan_of(text_of(queries, privacy))
    assert part(plan, "persons") == least
    unguarded = plan_of(text_of(queries, f"{privacy}\n  allocation: least_error"))
    assert part(unguarded, "persons") < least * Fraction(9, 10)


@pytest.mark.parametrize(
    "queries",
    [
        {name: f"{query}, share: 1" for name, query in BESIDE.items()},
        {**BESIDE, "w": f"{TABLES}, share: 3/2"},
        {**BESIDE, "w": f"{TABLES}, share: 1"},
        {"w": TABLES},
        {"persons": BESIDE["persons"], "w": "marginals: {sets: [[sex]]}"},
        {"persons": f"{BESIDE['persons']}, budget: {{epsilon: 0.1}}", "w": TABLES},
        {"persons": f"{BESIDE['persons']}, target: {{n: {{margin: 60}}}}", "w": TABLES},
        {"persons": BESIDE["persons"], "ages": f"by: [age], {COUNT}, ranges: {{of: age, which: all}}"},
    ],
)
def test_what_is_written_stands_and_what_is_alone_stays(queries: dict[str, str]) -> None:
    plan = plan_of(text_of(queries))
    told = plan_of(text_of(queries, f"{GAUSSIAN}\n  allocation: shares"))
    assert plan.allocation is None
    assert plan == told  # and the spec has the same fingerprint


def test_what_is_published_exactly_shares_nothing() -> None:
    exact = "invariants: [{query: persons, measure: n, why: law}]\n"
    assert not spec_of(text_of({"persons": f"by: [], {COUNT}", "w": TABLES}, after=exact)).leaves_division_open


def test_specs_keep_the_fingerprint_that_they_had() -> None:
    """Only equal shares that are written beside a workload must be told from shares that are left out."""
    left_out, written = spec_of(text_of(BESIDE)), spec_of(text_of({**BESIDE, "w": f"{TABLES}, share: 1"}))
    differing = spec_of(text_of({**BESIDE, "w": f"{TABLES}, share: 2"}))
    assert '"allocation"' not in left_out.canonical() + differing.canonical()
    assert written.privacy.allocation == "shares"
    assert written.fingerprint() != left_out.fingerprint()
    for spec in (left_out, written, differing):
        again = ReleaseSpec.from_canonical(spec.canonical())
        assert again == spec
        assert again.leaves_division_open is (spec is left_out)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_least_parts_leave_the_optimum_of_what_is_left(seed: int, power: int) -> None:
    """Against a general optimiser with bounds."""
    draw = random.Random(seed)
    costs = [10 ** draw.uniform(-4, 4) for _ in range(draw.randint(2, 6))]
    least = Fraction(draw.choice([0, 1, 2, 4]), 4 * len(costs))
    ours = blocks(costs, power, least)
    assert sum(ours) == 1
    assert min(ours) >= least
    largest = max(costs)

    def error(parts: np.ndarray) -> float:
        return float(sum(cost / largest / at**power for cost, at in zip(costs, parts, strict=True)))

    best = minimize(
        lambda parts: math.log(error(parts)),
        [1 / len(costs)] * len(costs),
        method="SLSQP",
        bounds=[(max(float(least), 1e-9), 1)] * len(costs),
        constraints=[{"type": "eq", "fun": lambda parts: parts.sum() - 1}],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    found = np.array([float(at) for at in ours])
    assert error(found) <= error(np.maximum(best.x / best.x.sum(), float(least))) * (1 + 1e-6)
    with pytest.raises(ValueError, match="at most an equal part"):
        blocks(costs, power, Fraction(1, len(costs) - 1))
