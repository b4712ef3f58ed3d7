"""Counts that no row is in together: conditions against rows of every kind, neighbours by brute force, and lies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.exclusive import are_exclusive, cases_at_most
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.sensitivity import sensitivity_of_parts
from dprelease.errors import BrokenPromiseError
from dprelease.noise import MECHANISMS
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.mathematics.truth import counted_in_cases
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.laws.units import Case, aggregate, breaches, catalog, reached
from tests.ledgers import account
from tests.planned import half_sensitivity, planned_anew
from tests.reference_expressions import evaluate

TYPES: dict[str, Any] = {"age": "integer", "pay": "decimal", "kind": "text", "ill": "boolean", "born": "date"}
CONDITIONS = [
    "age < 18", "age <= 18", "age = 18", "age BETWEEN 18 AND 64", "age > 64", "age >= 64", "age IN (3, 70)", "age <> 18",
    "NOT age < 18", "age >= 5 AND age < 18", "age < 5 AND kind = 'a'", "age * 2 < 10", "age * 2 >= 10", "age > 17.5",
    "pay < 2", "pay >= 2", "pay > 1.5 AND pay < 2.5", "pay = 2.5", "kind = 'a'", "kind IN ('b', 'c')", "kind <> 'a'",
    "kind = 'A'", "ill", "NOT ill", "ill = TRUE", "ill = FALSE", "age IS NULL", "NOT age IS NULL", "age < 18 OR age > 64",
    "born = DATE '2000-01-01'", "born = DATE '2000-01-02'", "pay < 9007199254740993", "age + pay > 7",
]  # fmt: skip
#: What nobody would miss: pairs that exclude one another, and that the planner finds.
FOUND = [
    ("age < 18", "age BETWEEN 18 AND 64"), ("age = 18", "age > 64"), ("age <= 18", "age > 64"), ("age < 18", "NOT age < 18"),
    ("age >= 5 AND age < 18", "age BETWEEN 18 AND 64"), ("age * 2 < 10", "age * 2 >= 10"), ("pay < 2", "pay >= 2"),
    ("kind = 'a'", "kind IN ('b', 'c')"), ("ill", "NOT ill"), ("ill = TRUE", "ill = FALSE"), ("age IN (3, 70)", "age = 18"),
    ("age IS NULL", "NOT age IS NULL"), ("kind = 'a'", "kind = 'A'"), ("pay < 2", "pay = 2.5"), ("age < 18", "age IN (3, 70) AND age > 64"),
]  # fmt: skip
ROWS = [
    {"age": age, "pay": pay, "kind": kind, "ill": ill, "born": born}
    for age, pay, kind, (ill, born) in product(
        (None, 3, 4, 5, 17, 18, 64, 65, 70),
        (None, 1.75, 2.0, 2.5),
        (None, "a", "b", "A"),
        ((None, None), (True, "2000-01-01"), (False, "2000-01-02")),
    )
]


def true_in(condition: str) -> frozenset[int]:
    tree = parse(condition, TYPES)
    return frozenset(at for at, row in enumerate(ROWS) if evaluate(tree, row) is True)


def test_no_row_makes_two_conditions_true_that_are_said_to_exclude_one_another() -> None:
    """And what the planner finds the verifier finds by going through values; what rows fulfil together neither does."""
    rows = {each: true_in(each) for each in CONDITIONS}
    for one, two in combinations(CONDITIONS, 2):
        trees = [parse(each, TYPES).root for each in (one, two)]
        apart = are_exclusive(*trees)
        assert apart == are_exclusive(*reversed(trees))
        cases = list(counted_in_cases([(None, tree, False) for tree in trees]))
        together = any(all(case) for case in cases)
        assert not (apart and rows[one] & rows[two]), (one, two)
        assert not (apart and together), (one, two)
        assert together or not rows[one] & rows[two], (one, two)
        assert len(cases) <= cases_at_most(trees)
    for one, two in FOUND:
        assert are_exclusive(parse(one, TYPES).root, parse(two, TYPES).root), (one, two)


def vectors(case: Case, parts: int) -> set[tuple[int, ...]]:
    """Each count in each cell, of every table of one unit: a row is in one of the counts, or in none."""
    groups = min(case.cells, case.max_groups or case.cells)
    most = min(case.max_rows or 9, groups * (case.max_rows_per_group or 9))
    found = set()
    for size in range(most + 1):
        for rows in combinations_with_replacement(tuple(product(range(case.cells), (*range(parts), None))), size):
            places = [cell for cell, _ in rows]
            full = max((places.count(cell) for cell in places), default=0)
            if len(set(places)) <= groups and full <= (case.max_rows_per_group or size):
                found.add(tuple(rows.count((cell, which)) for which in range(parts) for cell in range(case.cells)))
    return found


@pytest.mark.parametrize(("case", "parts"), [(Case(1, None, None, 1), 3), (Case(2, None, 2, 2), 3), (Case(2, 1, 3, 2), 3), (Case(1, None, 2, 2), 4)])  # fmt: skip
@pytest.mark.parametrize("relation", list(Neighboring))
def test_no_two_units_differ_by_more_than_claimed_and_some_by_that_much(
    case: Case, parts: int, relation: Neighboring
) -> None:
    claim = sensitivity_of_parts(aggregate(Quantity(kind="rows", where="x > 0"), case), parts, catalog(case), relation)
    held = vectors(case, parts)
    olds = held if relation is Neighboring.REPLACE_ONE else {tuple(0 for _ in next(iter(held)))}
    found = frozenset(
        tuple(sorted((abs(a - b) for a, b in zip(new, old, strict=True) if a != b), reverse=True))
        for old, new in product(olds, held)
    )
    assert breaches(claim, found) == []
    assert reached(claim, found)


HEAD = """dprelease: 1
release: {name: bands, period: 2024}
privacy: {unit: {entity: person}, neighboring: RELATION, budget: {epsilon: 1DELTA}NOISE}
tables:
  people:
    account: people
    BOUNDS
    source: {file: people.csv}
    columns:
      who: {type: text}
      sex: {type: text, keys: [f, m]}
      age: {type: integer, range: [0, 99]}
queries:
"""
BANDS = {"young": "age < 18", "middle": "age BETWEEN 18 AND 64", "old": "age > 64"}


def made(
    relation: str = "add_remove", bands: Mapping[str, str] = BANDS, *, gaussian: bool = False, bounds: str = ""
) -> ReleasePlan:
    terms = account(
        composition="zcdp" if gaussian else "basic", epsilon="100", delta="1e-5", neighboring=Neighboring(relation)
    )
    head = HEAD.replace("RELATION", relation).replace("BOUNDS", bounds)
    head = head.replace("DELTA", ", delta: 1e-9" if gaussian else "").replace("NOISE", ", noise: gaussian" * gaussian)
    counts = ", ".join(f'{name}: {{count: rows, where: "{where}"}}' for name, where in bands.items())
    plan = planned_anew(f"{head}  q: {{table: people, by: [sex], measures: {{{counts}}}}}\n", {}, [terms])
    verify(plan)
    return plan


def test_counts_of_disjoint_rows_are_one_draw_where_that_is_less_noise() -> None:
    plan = made()
    (step,) = plan.steps
    assert (step.mechanism, len(step.parts), step.gauge) == ("discrete_laplace", 3, None)
    assert (int(step.scale), int(step.sensitivity.l1)) == (1, 1)
    error = math.sqrt(MECHANISMS["discrete_laplace"].law(Fraction(1)).variance)
    assert [float(each.standard_error or 0) for each in plan.outputs] == pytest.approx([error] * 3, rel=1e-5)
    told = {each.name: float(each.noise) for each in plan.considered}
    assert told["K-norm counts, Laplace"] > 1.5
    assert told["discrete Laplace"] > 3
    gaussian = made(gaussian=True)
    assert [len(each.parts) for each in gaussian.steps] == [3]
    assert float(gaussian.steps[0].scale) == pytest.approx(5.4998, rel=1e-4)


def test_what_overlaps_or_is_not_known_to_be_apart_is_not_in_one_draw() -> None:
    overlapping = {"young": "age < 18", "adult": "age >= 17"}
    assert all(not (each.joined and each.gauge is None) for each in made(bands=overlapping).steps)
    two = {**BANDS, "most": "age < 90", "last": "age >= 90"}
    found = [
        {part.where for part in each.parts} for each in made(bands=two).steps if each.joined and each.gauge is None
    ]
    assert sorted(map(len, found)) in ([2, 3], [])


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("bounds", ["", "unit_id: who\n    bounds: {max_rows: 3, truncate: sample}"])
@pytest.mark.parametrize("gaussian", [False, True])
def test_halves_and_overlaps_are_refused(relation: str, bounds: str, gaussian: bool) -> None:
    plan = made(relation, gaussian=gaussian, bounds=bounds)
    (step,) = (each for each in plan.steps if each.joined)
    rows = 3 if bounds else 1
    assert [int(step.sensitivity.l1), int(step.sensitivity.linf)] == [rows * (1 + (relation == "replace_one")), rows]
    for lie in (half_sensitivity(step).sensitivity, Sensitivity.of_shifts()):
        refused(plan, step, sensitivity=lie)
    first, second, third = step.parts
    for where in ("age BETWEEN 17 AND 64", "age <> 3", None):
        refused(plan, step, joined=(second.model_copy(update={"where": where}), third))
    refused(plan, step, joined=(first, second, third))  # one of them twice


def refused(plan: ReleasePlan, step: Step, **update: Any) -> None:
    other = step.model_copy(update=update)
    steps = tuple(other if each.id == step.id else each for each in plan.steps)
    with pytest.raises(BrokenPromiseError):
        verify(plan.model_copy(update={"steps": steps}))
