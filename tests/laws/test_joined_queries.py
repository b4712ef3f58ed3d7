"""Counts of several queries behind one draw: every row that there can be, every neighbour, and lies about the rows."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.whole_plan import verify
from tests.ledgers import account
from tests.planned import planned_anew
from tests.reference_expressions import evaluate

TYPES: Any = {"sex": "text", "age": "integer", "income": "integer"}
ROWS = [
    {"sex": sex, "age": age, "income": income}
    for sex, age, income in product(("f", "m", None), (None, 5, 18, 40, 70), (None, 0, 999, 95_000))
]
HEAD = """dprelease: 1
release: {{name: joined, period: 2024}}
privacy: {{unit: {{entity: person}}, neighboring: {relation}, budget: {{epsilon: 1, delta: 1e-6}}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      sex: {{type: text, keys: [f, m]}}
      age: {{type: integer, range: [0, 99]}}
      income: {{type: integer, range: [0, 100000]}}
queries:
"""
QUERIES = """
  adults: {{table: people, by: [{by}], where: "age >= 18", measures: {{n: {{count: rows}}}}}}
  old: {{table: people, by: [{by}], where: "age >= 65", measures: {{n: {{count: rows}}, paid: {{count: income}}}}}}
  poor: {{table: people, by: [{by}], where: "income < 1000 or age is null", measures: {{n: {{count: rows}}}}}}
  part: {{table: people, by: [{by}], where: "age < 18", measures: {{n: {{count: income, where: "income > 10"}}}}}}
  all: {{table: people, by: [{by}], measures: {{n: {{count: rows}}}}}}
"""


def made(by: str = "", relation: str = "add_remove", queries: str = QUERIES) -> ReleasePlan:
    terms = account(composition="basic", epsilon="10", delta="1e-6", neighboring=relation)  # type: ignore[arg-type]
    return planned_anew(HEAD.format(relation=relation) + queries.format(by=by), None, [terms])


def counted(part: Quantity, row: dict[str, Any]) -> int:
    passes = part.where is None or evaluate(parse(part.where, TYPES), row) is True
    return int(passes and (part.kind == "rows" or row[str(part.column)] is not None))


def asked(plan: ReleasePlan, query: str, measure: str, row: dict[str, Any]) -> int:
    """By the words of the plan's query and measure, not of its steps."""
    of = next(each for each in plan.queries if each.name == query)
    kind: Any = of.measures[measure]
    filters = [each for each in (of.where, kind.where) if each is not None]
    passes = all(evaluate(parse(each, TYPES), row) is True for each in filters)
    return int(passes and (kind.count == "rows" or row[kind.count] is not None))


def norm(ball: str, change: tuple[int, ...]) -> int:
    return max(0, *change) + max(0, *(-c for c in change)) if ball == "count_knorm" else max(map(abs, change))


def moves(step: Step, by: str, relation: str) -> Iterator[tuple[tuple[int, ...], ...]]:
    """What the cells of a step change by when one row comes, goes, or is another one."""
    cells: list[Any] = ["f", "m"] if by else [None]
    nothing = (0,) * len(step.parts)

    def vectors(row: dict[str, Any] | None) -> list[tuple[int, ...]]:
        return [
            nothing if row is None or (by and row["sex"] != cell) else tuple(counted(part, row) for part in step.parts)
            for cell in cells
        ]

    rows = [vectors(row) for row in ROWS]
    pairs = product(rows, rows) if relation == "replace_one" else ((vectors(None), row) for row in rows)
    for one, other in pairs:
        for before, after in ((one, other), (other, one)):
            yield tuple(tuple(b - a for a, b in zip(x, y, strict=True)) for x, y in zip(before, after, strict=True))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("by", ["", "sex"])
def test_no_row_moves_a_joined_draw_further_than_is_claimed_and_one_moves_it_so_far(by: str, relation: str) -> None:
    plan = made(by, relation)
    (step,) = plan.steps
    assert step.gauge is not None
    assert {each.query for each in step.answers} == {"adults", "old", "poor", "part", "all"}
    found = list(moves(step, by, relation))
    assert max(sum(norm(step.mechanism, cell) for cell in change) for change in found) == step.gauge
    (shift,) = step.sensitivity.shifts
    for change in found:
        sizes = sorted((abs(c) for cell in change for c in cell if c), reverse=True)
        assert len(sizes) <= len(shift)
        assert all(a <= b for a, b in zip(sizes, shift, strict=False))


@pytest.mark.parametrize("by", ["", "sex"])
def test_each_query_is_fed_by_the_count_that_it_asks_for(by: str) -> None:
    plan = made(by)
    for query in plan.queries:
        for measure, (feed,) in query.inputs.items():
            part = plan.step(feed.step).parts[feed.part]
            for row in ROWS:
                assert counted(part, row) == asked(plan, query.name, measure, row), (query.name, measure, row)


def test_lies_about_the_rows_of_a_query_are_refused() -> None:
    plan = made()
    verify(plan)
    (step,) = plan.steps
    moved = [at for at, part in enumerate(step.parts) if part.where is not None]
    for at in moved:
        for where in (None, "age >= 17", "NOT age >= 18"):
            parts = [*step.parts]
            parts[at] = parts[at].model_copy(update={"where": where})
            if len(set(parts)) < len(parts):
                continue
            first = step.aggregate.model_copy(update={"quantity": parts[0]})
            lie = step.model_copy(update={"aggregate": first, "joined": tuple(parts[1:])})
            with pytest.raises(BrokenPromiseError, match="other quantities"):
                verify(plan.model_copy(update={"steps": (lie,)}))
    for at, query in enumerate(plan.queries):
        other = query.model_copy(update={"where": "age >= 19"})
        queries = (*plan.queries[:at], other, *plan.queries[at + 1 :])
        with pytest.raises(BrokenPromiseError, match="other quantities"):
            verify(plan.model_copy(update={"queries": queries}))
    half = step.model_copy(update={"gauge": Fraction(1, 2)})
    with pytest.raises(BrokenPromiseError, match="gauge"):
        verify(plan.model_copy(update={"steps": (half,)}))


def test_a_draw_of_other_cells_feeds_no_query() -> None:
    """All rows stand for a query's own where one filter alone is between them, and for nothing else."""
    plan = made()
    (step,) = plan.steps
    for update in ({"by": ("sex",)}, {"where": "age >= 18"}):
        lie = step.model_copy(update={"aggregate": step.aggregate.model_copy(update=update)})
        with pytest.raises(BrokenPromiseError):
            verify(plan.model_copy(update={"steps": (lie,)}))


def test_a_filter_too_long_to_write_twice_joins_nothing_and_is_no_error() -> None:
    long = " or ".join(f"income = {n}" for n in range(120))
    queries = f"""
  one: {{{{table: people, by: [], where: "age >= 18 and ({long})", measures: {{{{n: {{{{count: rows, where: "{long}"}}}}}}}}}}}}
  two: {{{{table: people, by: [], where: "age >= 18", measures: {{{{n: {{{{count: rows}}}}}}}}}}}}
"""
    plan = made(queries=queries)
    verify(plan)
    assert len(plan.steps) == 2


def test_more_counts_than_fit_into_one_draw_have_equal_errors() -> None:
    queries = "".join(
        f'\n  q{n}: {{{{table: people, by: [], where: "income = {n}", measures: {{{{n: {{{{count: rows}}}}}}}}}}}}'
        for n in range(250)
    )
    plan = made(queries=queries)
    joint = [step for step in plan.steps if step.gauge is not None]
    if joint:
        assert [len(step.parts) for step in joint] == [125, 125]
    errors = [float(each.standard_error or 0) for each in plan.outputs]
    assert max(errors) <= min(errors) * (1 + 1e-9)
