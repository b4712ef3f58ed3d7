"""Shares as a part and a rest: neighbours by brute force, rows of every kind, lies, and when a plan takes them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.sensitivity import sensitivity_of_parts
from dprelease.errors import BrokenPromiseError
from dprelease.measures import Noisy
from dprelease.measures.count import Count
from dprelease.measures.ratio import PlannedRatio
from dprelease.noise import MECHANISMS
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.shares.parts import are_whole
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.laws.units import Case, aggregate, breaches, catalog, reached
from tests.ledgers import account
from tests.planned import half_sensitivity, planned_anew
from tests.reference_expressions import evaluate

HEAD = """dprelease: 1
release: {name: shares, period: 2024}
privacy: {unit: {entity: person}, neighboring: RELATION, budget: {epsilon: 1DELTA}NOISE}
tables:
  people:
    account: people
    BOUNDS
    source: {file: people.csv}
    columns:
      who: {type: text}
      sex: {type: text, keys: [f, m]}
      end: {type: integer, range: [0, 99]}
      age: {type: integer, range: [0, 99]}
      income: {type: integer, range: [0, 100000]}
queries:
"""
SHARE = """  q: {table: people, by: [sex], expect: {all: 100}, measures: {all: {count: ALL}, some: {count: SOME, where: "WHERE"},
    rate: {ratio: [some, all]}}}
"""
TYPES: dict[str, Any] = {"who": "text", "sex": "text", "end": "integer", "age": "integer", "income": "integer"}


def made(
    whole: str = "income",
    part: str = "rows",
    where: str = "income > 10",
    relation: str = "add_remove",
    *,
    gaussian: bool = False,
    bounds: str = "",
    more: str = "",
) -> ReleasePlan:
    terms = account(
        composition="zcdp" if gaussian else "basic", epsilon="100", delta="1e-5", neighboring=Neighboring(relation)
    )
    head = HEAD.replace("RELATION", relation).replace("BOUNDS", bounds)
    head = head.replace("DELTA", ", delta: 1e-9" if gaussian else "").replace("NOISE", ", noise: gaussian" * gaussian)
    spec = head + SHARE.replace("ALL", whole).replace("SOME", part).replace("WHERE", where) + more
    plan = planned_anew(spec, {}, [terms])
    verify(plan)
    return plan


def parted(plan: ReleasePlan) -> Step:
    (step,) = (each for each in plan.steps if any(part.kind == "rest" for part in each.parts))
    return step


SMALL = [Case(*each) for each in product([1, 2, 3], [None, 1, 2], [None, 1, 2], [1, 2])] + [Case(4, None, 3, 2)]


def vectors(case: Case) -> set[tuple[int, ...]]:
    """The part and the rest in each cell, of every table of one unit: of rows in the part, in the rest, in neither."""
    groups = min(case.cells, case.max_groups or case.cells)
    most = min(case.max_rows or 9, groups * (case.max_rows_per_group or 9))
    found = set()
    for size in range(most + 1):
        for rows in combinations_with_replacement(tuple(product(range(case.cells), (0, 1, None))), size):
            places = [cell for cell, _ in rows]
            full = max((places.count(cell) for cell in places), default=0)
            if len(set(places)) <= groups and full <= (case.max_rows_per_group or size):
                found.add(tuple(rows.count((cell, which)) for which in (0, 1) for cell in range(case.cells)))
    return found


def moved(case: Case, relation: Neighboring) -> frozenset[tuple[int, ...]]:
    held = vectors(case)
    olds = held if relation is Neighboring.REPLACE_ONE else {tuple(0 for _ in next(iter(held)))}
    return frozenset(
        tuple(sorted((abs(a - b) for a, b in zip(new, old, strict=True) if a != b), reverse=True))
        for old, new in product(olds, held)
    )


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("case", SMALL, ids=str)
@pytest.mark.parametrize("relation", list(Neighboring))
def test_no_two_units_differ_by_more_than_claimed_and_some_by_that_much(case: Case, relation: Neighboring) -> None:
    claim = sensitivity_of_parts(aggregate(Quantity(kind="rows", where="x > 0"), case), 2, catalog(case), relation)
    found = moved(case, relation)
    assert breaches(claim, found) == []
    assert reached(claim, found)
    for norm in ("l0", "l1", "l2_squared", "linf"):
        smaller = claim.model_copy(update={norm: getattr(claim, norm) - 1})
        assert norm.removesuffix("_squared") in breaches(smaller, found)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("bounds", ["", "unit_id: who\n    bounds: {max_rows: 3, truncate: sample}"])
@pytest.mark.parametrize("gaussian", [False, True])
def test_half_of_a_sensitivity_is_refused(relation: str, bounds: str, gaussian: bool) -> None:
    plan = made(relation=relation, bounds=bounds, gaussian=gaussian)
    step = parted(plan)
    rows = 3 if bounds else 1
    assert [int(step.sensitivity.l1), int(step.sensitivity.linf)] == [rows * (1 + (relation == "replace_one")), rows]
    for lie in (half_sensitivity(step).sensitivity, Sensitivity.of_shifts()):
        refused(plan, step, sensitivity=lie)
    if relation == "replace_one" or rows > 1:
        refused(plan, step, sensitivity=Sensitivity.of_shifts((1,)))


def refused(plan: ReleasePlan, step: Step, **update: Any) -> None:
    other = step.model_copy(update=update)
    steps = tuple(other if each.id == step.id else each for each in plan.steps)
    with pytest.raises(BrokenPromiseError):
        verify(plan.model_copy(update={"steps": steps}))


def test_what_is_no_rest_of_the_part_is_refused() -> None:
    plan = made()
    step = parted(plan)
    (at, rest), (other, part) = sorted(enumerate(step.parts), key=lambda each: each[1].kind != "rest")
    assert (rest.kind, part.kind, rest.column) == ("rest", "rows", "income")
    assert (step.mechanism, int(step.scale)) == ("discrete_laplace", 1)
    lies: list[tuple[int, Quantity]] = [
        (at, rest.model_copy(update={"where": "income > 11"})),  # rows of 11 in both
        (at, rest.model_copy(update={"where": "age > 10"})),
        (at, rest.model_copy(update={"where": "income > 10 AND age > 5"})),
        (at, rest.model_copy(update={"where": None})),
        (at, rest.model_copy(update={"column": None})),  # more than the whole
        (at, rest.model_copy(update={"column": "age"})),
        (at, Quantity(kind="nonnull", column="income")),
        (at, Quantity(kind="rows", where="NOT income > 10")),  # without rows of which nothing is known
        (other, part.model_copy(update={"where": None})),
        (other, part.model_copy(update={"where": "income > 9"})),
        (other, part.model_copy(update={"where": "income > 10 OR age > 3"})),
    ]
    for place, lie in lies:
        parts = [lie if place == number else each for number, each in enumerate(step.parts)]
        first = step.aggregate.model_copy(update={"quantity": parts[0]})
        refused(plan, step, aggregate=first, joined=tuple(parts[1:]))
    refused(plan, step, gauge=Fraction(1))
    refused(plan, step, cells=4)
    refused(plan, step, scale=step.scale / 2)
    refused(plan, step, mechanism="count_knorm")


CONDITIONS = [
    ("rows", "rows", "age > 20"),
    ("rows", "rows", "age > 20 AND income IS NULL"),
    ("rows", "rows", "NOT (age > 20 OR income < 5)"),
    ("rows", "rows", "COALESCE(age, 0) > 20"),
    ("rows", "income", "age > 20"),
    ("rows", "end", "age > 20 AND income > 0"),
    ("income", "rows", "income > 5 AND age < 50"),
    ("income", "rows", "income BETWEEN 1 AND 9"),
    ("income", "income", "age > 20"),
]


def rows_of_every_kind() -> Iterator[dict[str, Any]]:
    for age, income, odd in product((None, 10, 21, 60), (None, 0, 3, 7, 20), (None, 1)):
        yield {"who": "w", "sex": "f", "end": odd, "age": age, "income": income}


def counts(part: Quantity, row: dict[str, Any]) -> bool:
    """By the definition of each kind."""
    true = part.where is None or evaluate(parse(part.where, TYPES), row) is True
    return (part.column is None or row[part.column] is not None) and true != (part.kind == "rest")


@pytest.mark.parametrize(("whole", "part", "where"), CONDITIONS)
def test_every_row_of_the_whole_is_in_the_part_or_in_the_rest_and_in_one_of_them(
    whole: str, part: str, where: str
) -> None:
    plan_of = made(whole, part, where)
    step = parted(plan_of)
    counted = Quantity(kind="rows") if whole == "rows" else Quantity(kind="nonnull", column=whole)
    inside = {tuple(counts(each, row) for each in (*step.parts, counted)) for row in rows_of_every_kind()}
    assert all(first + second == both for first, second, both in inside)
    assert {(True, False, True), (False, True, True)} <= inside  # each is some row's
    assert are_whole(step.parts, counted, plan_of.catalog.tables["people"])
    for lie in ("age > 22", "age > 20 OR income = 3"):
        moved_rest = [each.model_copy(update={"where": lie}) if each.kind == "rest" else each for each in step.parts]
        assert not are_whole(moved_rest, counted, plan_of.catalog.tables["people"])


@pytest.mark.parametrize(
    ("whole", "part", "where"),
    [
        ("rows", "income", None),
        ("income", "age", "age > 3"),
        ("income", "rows", "age > 3"),
        ("who", "rows", "sex = 'f'"),
    ],
)
def test_a_part_that_may_not_be_one_or_that_has_no_condition(whole: str, part: str, where: str | None) -> None:
    above, below = Count(count=part, where=where), Count(count=whole)
    table = made().catalog.tables["people"]
    ratio = PlannedRatio(ratio=("a", "b"), of=(above, below)).settled(table)
    assert isinstance(ratio, PlannedRatio)
    parts = ratio.parts_of_whole(table)
    assert (parts is not None) == (whole == "rows")  # of which every row with an income is one
    condition = PlannedRatio(ratio=("a", "b"), of=(above, Count(count="rows", where="age > 3")))
    assert condition.parts_of_whole(table) is None


def test_a_plan_takes_the_part_and_the_rest_where_that_is_less_noise() -> None:
    """Half the discrete Laplace noise; of Gaussian noise 1.41 times less for a part of the values of a column."""
    plan = made()
    told = {each.name: float(each.noise) for each in plan.considered}
    assert told["discrete Laplace"] > 2
    assert 1.29 < told["K-norm counts, Laplace"] < 1.32
    errors = {each.measure: float(each.standard_error or 0) for each in plan.outputs}
    one = math.sqrt(MECHANISMS["discrete_laplace"].law(Fraction(1)).variance)
    assert errors == pytest.approx({"some": one, "all": math.sqrt(2) * one, "rate": one / 100}, rel=1e-5)
    gaussian = made(gaussian=True)
    assert parted(gaussian).mechanism == "discrete_gaussian"
    assert float(parted(gaussian).scale) == pytest.approx(5.4998, rel=1e-4)
    # of all rows a balance and the total are the same thing turned: nothing changes
    centred = made(gaussian=True, whole="rows")
    assert not any(part.kind == "rest" for step in centred.steps for part in step.parts)


def test_a_part_is_drawn_once_and_other_queries_share_it() -> None:
    more = """  r: {table: people, by: [sex], measures: {all: {count: income}, some: {count: rows, where: "income > 10"}}}
  s: {table: people, by: [sex], measures: {some: {count: rows, where: "income > 10"}, all: {count: rows},
      rate: {ratio: [some, all]}}}
"""
    plan = made(more=more)
    drawn = [part for step in plan.steps for part in step.parts]
    assert len(set(drawn)) == len(drawn)
    for query in plan.queries:
        if query.name in "qr":
            assert query.inputs["all"] == plan.queries[0].inputs["all"]


@pytest.mark.parametrize("counted", ["", " also: {mean: income, clip: [0, 99]},"])
def test_a_quantile_takes_no_count_that_a_part_and_a_rest_stand_for(counted: str) -> None:
    """The plan had a step that no number was made of, without a scale: the count that the median's margin would use."""
    more = f"""  t: {{table: people, by: [sex], expect: {{all: 100}}, measures: {{middle: {{quantiles: income, at: [0.5], from: ranks,
      clip: [0, 99]}},{counted} some: {{count: rows, where: "income > 10"}}, all: {{count: income}},
      rate: {{ratio: [some, all]}}}}}}
"""
    plan = made(more=more)
    inputs = next(each for each in plan.queries if each.name == "t").inputs
    assert parted(plan).id in {feed.step for feed in inputs["all"]}
    own = {step.id for step in plan.steps if [part.kind for part in step.parts] == ["nonnull"]}
    assert len(inputs["middle_q50"]) == 1 + bool(own)  # a mean draws that count for itself


def test_a_table_without_public_keys_or_with_totals_keeps_its_counts() -> None:
    more = """  t: {table: people, by: [sex], totals: all, measures: {all: {count: rows}, some: {count: rows, where: "age > 10"},
      rate: {ratio: [some, all]}}}
"""
    plan = made(more=more)
    (query,) = (each for each in plan.queries if each.name == "t")
    steps = {step.id: step for step in plan.steps}
    assert not any(
        part.kind == "rest" for feeds in query.inputs.values() for feed in feeds for part in steps[feed.step].parts
    )


def test_the_published_numbers_are_those_of_the_two_draws() -> None:
    plan = made()
    query, step = plan.queries[0], parted(plan)
    values = {part.kind: np.array([30, 0, -2]) if part.kind == "rows" else np.array([70, 5, 9]) for part in step.parts}
    noisy = [Noisy(part, values[part.kind], step.law, step.id) for part in step.parts]
    by_feed = {label: [noisy[feed.part] for feed in query.inputs[label]] for label in query.measures}
    found = {label: each.estimate_tested(by_feed[label], Fraction(95, 100)) for label, each in query.measures.items()}
    assert found["all"].value.tolist() == [100, 5, 7]
    assert found["some"].value.tolist() == [30, 0, -2]
    assert found["rate"].value.tolist() == [0.3, 0, 0]
    deviation = math.sqrt(step.law.variance)
    wanted = [deviation * math.hypot(0.7, 0.3) / 100, deviation / 5, deviation / 7]
    assert found["rate"].standard_error.tolist() == pytest.approx(wanted)
    assert found["rate"].ends is not None
    low, high = found["rate"].ends
    assert 0.27 < low[0] < 0.3 < high[0] < 0.33
    assert (low[1], low[2]) == (0, 0)
