"""A budget divided for the least total error: no other division has less, and shares stay what they were."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from dprelease.errors import PlanError, SpecError
from dprelease.plan.allocate.candidates import CANDIDATES, Candidate
from dprelease.plan.allocate.shares import even_split, reach_of, shares_of
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.explain.facts import allocation_text, plan_facts
from dprelease.plan.lower.alternatives import Form
from dprelease.plan.lower.lowered import Lowered
from dprelease.plan.lower.queries import Lowering
from dprelease.plan.resolve.catalog import resolve
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.accounting.choices import asked_and_planned
from dprelease.spec.load import load
from tests.laws.generated import generated_spec, generated_units_spec
from tests.planned import plan_of

GAUSSIAN = "noise: gaussian\n  accounting: zcdp"
LAPLACE = "noise: laplace\n  accounting: basic"
TOP = 60000  # of the clip of incomes, from 0
BY = ("[]", "[sex]", "[region]", "[region, sex]", "[age]", "[age, sex]", "[age, region]")


def text_of(
    queries: Mapping[str, str], privacy: str = GAUSSIAN, allocation: str = "least_error", bounds: str = ""
) -> str:
    asked = "\n".join(f"  {name}: {{table: people, {query}}}" for name, query in queries.items())
    return f"""
dprelease: 1
release: {{name: survey, period: 2024}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: 1, delta: 1e-9}}
  allocation: {allocation}
  {privacy}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    {bounds}
    columns:
      region: {{type: text, keys: ["01", "02", "06"]}}
      sex: {{type: integer, keys: [1, 2]}}
      age: {{type: integer, keys: {{from: 1, to: 9}}}}
      income: {{type: decimal, range: [0, 500000], step: 1}}
queries:
{asked}
"""


def planned(queries: Mapping[str, str], privacy: str = GAUSSIAN, allocation: str = "least_error") -> ReleasePlan:
    return plan_of(text_of(queries, privacy, allocation))


COUNT = "measures: {n: {count: rows}}"
SUM = f"measures: {{total: {{sum: income, clip: [0, {TOP}]}}}}"
MEAN = f"measures: {{average: {{mean: income, clip: [0, {TOP}]}}}}"
SPREAD = f"measures: {{spread: {{variance: income, clip: [0, {TOP}]}}}}"
MIDDLE = f"measures: {{middle: {{quantiles: income, at: [0.25, 0.5], clip: [0, {TOP}]}}}}"
TOTALS = "measures: {n: {count: rows}, known: {count: income}}"


def some_queries(seed: int, *, workload: bool) -> dict[str, str]:
    """Counts, sums, means and quantiles of different cells, each with a weight; maybe a workload."""
    draw = random.Random(seed)
    kinds = [COUNT, COUNT, SUM, MEAN, MIDDLE, TOTALS][: draw.randint(2, 6)]
    cells = draw.sample(BY, len(kinds))
    found = {
        f"q{at}": f"by: {by}, {kind}, share: {draw.choice(['1', '1', '3', '1/5'])}"
        for at, (by, kind) in enumerate(zip(cells, kinds, strict=True))
    }
    if workload:
        found["w"] = f"marginals: {{of: [region, sex, age], ways: {draw.choice(['[1]', '[0, 1, 2]', '[1, 2, 3]'])}}}"
    return found


def variance(step: Step) -> float:
    """Of continuous noise of the scale; a choice by a quantile has that of Gaussian noise of its rho on a count."""
    factor = {"discrete_laplace": 2, "exponential_quantile": 4}.get(step.mechanism, 1)
    return factor * float(step.scale) ** 2


def error(plan: ReleasePlan, name: str) -> float:
    """The error of one query in largest contributions of one person, by hand from what is drawn."""
    if name == "w":
        told = {each.query: each for each in plan.outputs}
        return sum(float(told[table].standard_error or 0) ** 2 for table in plan.workload("w").tables)
    query = next(each for each in plan.queries if each.name == name)
    found = 0.0
    for label, feeds in query.inputs.items():
        steps = [plan.step(feed.step) for feed in feeds]
        if label == "average":  # (dS - r dN) / n with |r| half the clip; one person moves it by the whole clip over n
            found += (variance(steps[0]) + (TOP / 2) ** 2 * variance(steps[1])) / TOP**2
        elif label.startswith("middle"):
            at = Fraction(int(label.removeprefix("middle_q")), 100)
            own = next(step for step in steps if step.aggregate.quantity.at == at)
            assert own.choosing is not None
            found += variance(own) / float(own.choosing.spread) ** 2
        elif len(steps) == 2:  # a count as half the sum of two draws
            found += sum(map(variance, steps)) / 4
        else:
            found += variance(steps[0]) / {"total": TOP, "n": 1, "known": 1}[label] ** 2
    return found


def weight(plan: ReleasePlan, name: str) -> float:
    goals = {each.name: each.goal for each in plan.queries} | {each.name: each.goal for each in plan.workloads}
    return float(goals[name].share or 0)


def part(plan: ReleasePlan, name: str) -> Fraction:
    return sum((step.share for step in plan.steps if step.answers[0].query == name), Fraction(0))


def total(plan: ReleasePlan, names: Sequence[str]) -> float:
    return math.fsum(weight(plan, name) * error(plan, name) for name in names)


@pytest.mark.parametrize(("privacy", "power"), [(GAUSSIAN, 1), (LAPLACE, 2)])
@pytest.mark.parametrize("seed", range(5))
def test_no_other_division_has_less_total_error(seed: int, privacy: str, power: int) -> None:
    queries = some_queries(seed, workload=power == 1)
    plan, names = planned(queries, privacy), list(queries)
    ours = np.array([float(part(plan, name)) for name in names])
    errors = np.array([weight(plan, name) * error(plan, name) for name in names])
    assert ours.sum() == pytest.approx(1)
    rng = np.random.default_rng(seed)
    others = [rng.dirichlet(np.full(len(names), shape)) for shape in (0.5, 1, 3, 20) for _ in range(50)]
    near = [ours * rng.uniform(0.97, 1.03, len(names)) for _ in range(50)]
    for other in [*others, *(each / each.sum() for each in near)]:
        assert (errors * (ours / np.maximum(other, 1e-9)) ** power).sum() >= errors.sum() * (1 - 1e-7)
    # and its slope is the same in every query, within what whole-number noise of a workload and rounding move
    assert np.ptp(errors / ours) < 1e-4 * (errors / ours).max()


@pytest.mark.parametrize("privacy", [GAUSSIAN, LAPLACE])
def test_the_same_shares_written_out_are_the_same_plan_and_others_are_worse(privacy: str) -> None:
    queries = {"a": f"by: [sex], {COUNT}", "b": f"by: [age], {TOTALS}", "c": f"by: [region], {MEAN}"}
    plan = planned(queries, privacy)

    def shared(moved: str = "", by: Fraction = Fraction(1)) -> ReleasePlan:
        parts = {name: part(plan, name) * (by if name == moved else 1) for name in queries}
        return planned({name: f"{queries[name]}, share: {parts[name]}" for name in queries}, privacy, "shares")

    assert [step.scale for step in shared().steps] == [step.scale for step in plan.steps]
    least = sum(error(plan, name) for name in queries)
    for name, by in (("a", Fraction(9, 10)), ("b", Fraction(10, 9)), ("b", Fraction(9, 10)), ("c", Fraction(10, 9))):
        assert sum(error(shared(name, by), each) for each in queries) > least


def test_equal_blocks_get_what_equal_shares_give() -> None:
    queries = {"a": f"by: [sex], {COUNT}", "b": f"by: [age], {COUNT}", "c": f"by: [], {COUNT}"}
    for privacy in (GAUSSIAN, LAPLACE, "noise: auto"):
        least, equal = (planned(queries, privacy, allocation) for allocation in ("least_error", "shares"))
        assert least.steps == equal.steps
        assert {part(least, name) for name in queries} == {Fraction(1, 3)}
        assert not [each for each in least.considered if each.name.startswith("the same")]


def test_shares_weigh_errors_by_the_square_root_or_the_cube_root() -> None:
    queries = {"a": f"by: [sex], {COUNT}, share: 8", "b": f"by: [age], {COUNT}"}
    assert part(planned(queries, LAPLACE), "a") == Fraction(2, 3)
    queries["a"] = queries["a"].replace("8", "4")
    assert part(planned(queries), "a") == Fraction(2, 3)
    assert part(planned(queries, allocation="shares"), "a") == Fraction(4, 5)


def test_a_sum_a_mean_and_a_variance_count_like_a_count() -> None:
    """With Gaussian noise one measure has the error (sum sqrt(w) D)^2 / 2 at rho 1, which is half its reach squared."""
    queries = {
        "a": f"by: [], {COUNT}",
        "b": f"by: [sex], {SUM}",
        "c": f"by: [age], {MEAN}",
        "d": f"by: [region], {SPREAD}",
    }
    plan = planned(queries)
    assert [float(part(plan, name)) for name in queries] == pytest.approx([0.25] * 4, rel=1e-5)
    guessed = planned(
        {**queries, "c": f"by: [age], {MEAN.replace('{average', '{n: {count: income}, average')}, expect: {{n: 9}}"}
    )
    assert part(guessed, "c") > part(guessed, "a")  # for it has two measures now, whatever the guess
    other = planned(
        {**queries, "c": f"by: [age], {MEAN.replace('{average', '{n: {count: income}, average')}, expect: {{n: 900}}"}
    )
    assert [step.share for step in other.steps] == [step.share for step in guessed.steps]


def test_a_workload_counts_once_for_every_table() -> None:
    """At the parts x and 1 - x of rho a table alone has 1 / (2 x), and a workload of one table as much."""
    queries = {"n": f"by: [], {COUNT}", "w": "marginals: {sets: [[age]]}"}
    assert float(part(planned(queries), "n")) == pytest.approx(0.5, rel=1e-6)
    several = planned({"n": f"by: [], {COUNT}", "w": "marginals: {sets: [[age], [sex], [region], [sex, region]]}"})
    cost = error(several, "w") * float(part(several, "w"))
    alone = error(several, "n") * float(part(several, "n"))
    assert float(part(several, "w") / part(several, "n")) == pytest.approx(math.sqrt(cost / alone), rel=1e-4)


def test_units_of_several_rows_move_a_workload_as_they_move_a_count() -> None:
    bounds = "unit_id: who\n    bounds: {max_rows: 3}"
    for sets, by in (("[[]]", "[]"), ("[[age]]", "[age]")):
        queries = {"n": f"by: {by}, {COUNT}", "w": f"marginals: {{sets: {sets}}}"}
        plan = plan_of(text_of(queries, bounds=bounds))
        assert float(part(plan, "n")) == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize(("bounds", "rows"), [("", 1), ("unit_id: who\n    bounds: {max_rows: 3}", 3)])
def test_all_prefixes_count_once_with_their_mean_variance(bounds: str, rows: int) -> None:
    queries = {"n": f"by: [age], {COUNT}", "up": f"by: [age], ranges: {{of: age, which: prefixes}}, {COUNT}"}
    plan = plan_of(text_of(queries, bounds=bounds))
    told = {each.name: lowered(text_of(queries, bounds=bounds)).terms[at] for at, each in enumerate(plan.queries)}
    ((_, mean),) = told["up"].weights
    steps = {step.answers[0].query: step for step in plan.steps}
    errors = {name: float(step.sensitivity.l2_squared) / 2 / rows**2 for name, step in steps.items()}
    ratio = math.sqrt(errors["n"] / (errors["up"] * mean))
    assert float(part(plan, "n") / part(plan, "up")) == pytest.approx(ratio, rel=1e-6)
    assert 0.4 < ratio < 1  # a prefix has more noise than a count has, and not so much as all counts before it


def lowered(text: str, form: Form = Form()) -> Lowered:  # noqa: B008 - frozen
    loaded = load(text, "spec.yaml")
    return Lowering.of(loaded.spec, resolve(loaded, {})).lower({"": form})


def test_the_reach_of_a_measure_is_the_same_in_every_form() -> None:
    both = f"{{total: {{sum: income, clip: [-10, {TOP}]}}, average: {{mean: income, clip: [-10, {TOP}]}}}}"
    text = text_of({"a": f"by: [sex], measures: {both}", "b": f"by: [age], {TOTALS}"})
    text = text.replace("[0, 500000]", "[-20, 500000]")
    plain, joint = lowered(text), lowered(text, Form(joint_sums=True, centred_counts=True))
    assert plain.drafts != joint.drafts
    reaches = [{(term.query, term.label): reach_of(each, term) for term in each.terms} for each in (plain, joint)]
    assert reaches[0] == pytest.approx(reaches[1])
    assert reaches[0] == pytest.approx({(0, "total"): TOP, (0, "average"): TOP + 10, (1, "n"): 1, (1, "known"): 1})


SHARED = [
    {"a": f"by: [sex], {COUNT}", "b": f"by: [sex], {TOTALS}", "c": f"by: [age], {MEAN}"},
    {
        "a": f"by: [sex], {TOTALS}, share: 3",
        "b": f"by: [sex], {MEAN}",
        "c": f"by: [sex], {SUM}, share: 1/9",
        "d": f"by: [age], {COUNT}",
    },
]


@pytest.mark.parametrize("candidate", CANDIDATES[:4], ids=lambda each: each.name)
@pytest.mark.parametrize("queries", SHARED)
def test_queries_that_share_draws_have_the_least_error_too(queries: dict[str, str], candidate: Candidate) -> None:
    """Against a general optimiser, on the error of the draws with what all queries together give them."""
    found = lowered(text_of(queries), candidate.form)
    places = range(len(queries))
    parts = {at: even_split(found, at, candidate) for at in places}
    used = sorted({draft for each in parts.values() for draft in each})
    assert sum(map(len, parts.values())) > len(used)
    given = np.array([[float(parts[at].get(draft, 0)) for draft in used] for at in places])
    spread = {at: float(found.drafts[at].sensitivity.l2_squared) / 2 for at in used}
    if candidate.unit == "epsilon":
        spread = {at: 2 * float(found.drafts[at].sensitivity.l1) ** 2 for at in used}
    caused = np.zeros(len(used))
    for term in found.terms:
        for draft, size in term.weights:
            share = float(found.goals[term.query].share or 0)
            caused[used.index(draft)] += share * size * spread[draft] / reach_of(found, term) ** 2

    def of(shares: Sequence[float] | npt.NDArray[np.float64]) -> float:
        return float((caused / (np.asarray(shares) @ given) ** candidate.power).sum())

    ours = shares_of(found, candidate, list(places), parts, "least_error")
    assert sum(ours.values()) == 1
    start = [1 / len(queries)] * len(queries)
    best = minimize(
        lambda x: math.log(of(x)),
        start,
        method="SLSQP",
        bounds=[(1e-9, 1)] * len(queries),
        constraints=[{"type": "eq", "fun": lambda x: x.sum() - 1}],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert of([float(ours[at]) for at in places]) <= of(best.x / best.x.sum()) * (1 + 1e-6)


PINNED = {
    "pinned": f"by: [region], {COUNT}, budget: {{epsilon: 0.2}}",
    "aimed": f"by: [sex, region], {COUNT}, target: {{n: {{margin: 60}}}}",
    "floor": f"by: [sex], {COUNT}, share: 1, target: {{n: {{margin: 13}}}}",
    "free": f"by: [age], {TOTALS}",
    "more": f"by: [], {MEAN}",
}


@pytest.mark.parametrize(("privacy", "power"), [(GAUSSIAN, 1), (LAPLACE, 2)])
def test_pins_and_targets_come_first_and_the_rest_is_divided(privacy: str, power: int) -> None:
    """Targets are least parts: of all divisions that meet them the one that is found has the least error."""
    plan = planned(PINNED, privacy)
    verify(plan)
    shares = planned(PINNED, privacy, "shares")
    scale = {step.answers[0].query: step.scale for step in plan.steps}
    for name in ("pinned", "aimed"):
        assert scale[name] == next(step.scale for step in shares.steps if step.answers[0].query == name)
    margins = {(each.query, each.measure): float(each.margin or 0) for each in plan.outputs}
    assert 12 < margins["floor", "n"] <= 13  # bound by its target
    names = ["floor", "free", "more"]
    # in the candidate's unit: rho is L2^2 / (2 scale^2), epsilon L1 / scale
    spent = dict.fromkeys(names, 0.0)
    for step in plan.steps:
        if (name := step.answers[0].query) in spent:
            reach = float(step.sensitivity.l2_squared) ** 0.5 if power == 1 else float(step.sensitivity.l1)
            spent[name] += (reach / float(step.scale)) ** 2 / 2 if power == 1 else reach / float(step.scale)
    ours = np.array(list(spent.values()))
    errors = np.array([error(plan, name) for name in names])
    slopes = power * errors / ours
    assert slopes[0] < slopes[1] == pytest.approx(slopes[2], rel=1e-4)
    rng = np.random.default_rng(2)
    for _ in range(200):
        other = rng.dirichlet(np.ones(3)) * (ours.sum() - ours[0]) + np.array([ours[0], 0, 0])
        other = np.maximum(other, 1e-9)
        assert (errors * (ours / other) ** power).sum() >= errors.sum() * (1 - 1e-7)


def test_what_shares_would_lose_is_considered() -> None:
    queries = {"n": f"by: [], {COUNT}", "w": "marginals: {of: [region, sex, age], ways: [0, 1, 2, 3]}"}
    plan, shares = planned(queries), planned(queries, allocation="shares")
    (told,) = (each for each in plan.considered if each.name == "the same, divided by shares")
    assert float(told.noise) == pytest.approx(
        math.sqrt(total(shares, list(queries)) / total(plan, list(queries))), rel=1e-3
    )
    assert float(told.noise) > 1.1
    assert not [each for each in shares.considered if each.name == told.name]


def test_the_candidate_with_the_least_total_error_is_taken() -> None:
    """Of those that no account would pay too dearly for."""
    queries = {"a": f"by: [sex], {COUNT}", "b": f"by: [age], {TOTALS}"}
    names = list(queries)
    free, gaussian = (planned(queries, each) for each in ("noise: auto", GAUSSIAN))
    passed = [each for each in free.considered if not each.why_not and not each.name.startswith("the same")]
    assert passed
    assert all(float(each.noise) >= 1 for each in passed)
    assert total(free, names) <= total(gaussian, names) * (1 + 1e-6)


def test_a_plan_says_how_its_budget_is_divided_and_another_one_keeps_its_text() -> None:
    queries = {"n": f"by: [], {COUNT}", "b": f"by: [age], {TOTALS}, share: 3"}
    plan, shares = planned(queries), planned(queries, allocation="shares")
    n, b = (f"{float(part(plan, name)):.1%}" for name in queries)
    assert allocation_text(plan) == f"the budget is divided for the least total error: n {n}, b {b}"
    assert plan_facts(plan)["allocation"] == "least_error"
    assert asked_and_planned(plan, 9)[0]["asked"] == "25 % of the weights in the least total error"
    assert allocation_text(shares) == ""
    assert "allocation" not in plan_facts(shares)
    assert "allocation" not in shares.model_dump()
    assert asked_and_planned(shares, 9)[0]["asked"] == "25 % of the shares"
    assert ReleasePlan.model_validate_json(plan.model_dump_json()) == plan
    assert planned(queries).canonical() == plan.canonical()


def test_leaving_the_allocation_out_and_writing_shares_are_the_same_spec() -> None:
    text = text_of({"n": f"by: [], {COUNT}"})
    out = load(text.replace("  allocation: least_error\n", ""), "s")
    written = load(text.replace("least_error", "shares"), "s")
    assert out.fingerprint == written.fingerprint
    assert "allocation" not in out.spec.canonical()
    assert load(text, "s").fingerprint != out.fingerprint


@pytest.mark.parametrize("wrong", ["least-error", "equal", "1", "[shares]", "", "{least_error: 1}"])
def test_another_allocation_is_refused_with_the_two_that_there_are(wrong: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(text_of({"n": f"by: [], {COUNT}"}, allocation=wrong), "spec.yaml")
    (problem,) = caught.value.problems
    assert "`privacy.allocation`" in problem.summary
    assert "shares, least_error" in problem.summary or "leave the line out" in problem.hint


@pytest.mark.parametrize("seed", [20, 28, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(40))])
def test_whatever_is_planned_by_shares_is_planned_for_the_least_error(seed: int) -> None:
    for text in (generated_spec(seed, 30), generated_units_spec(seed, 8)):
        try:
            plan_of(text)
        except PlanError as error:
            with pytest.raises(type(error)):
                plan_of(text.replace("privacy:\n", "privacy:\n  allocation: least_error\n", 1))
            continue
        plan = plan_of(text.replace("privacy:\n", "privacy:\n  allocation: least_error\n", 1))
        verify(plan)
        assert sum(step.share for step in plan.steps) == 1
        assert all(float(each.noise) >= 0.9999 for each in plan.considered if each.name.startswith("the same"))
