"""A series over months, for tests that make one thing in it wrong."""

from __future__ import annotations

from dprelease.errors import Problem, SpecError
from dprelease.plan.document import ReleasePlan, Step
from dprelease.spec.load import load
from tests.planned import plan_of

__all__ = ["POLICY", "SERIES", "SPEC", "problems", "series_plan", "swapped", "with_step"]

SPEC = """\
dprelease: 1
release: {name: visits, period: 2024-03, title: "Visits in {{ period }}", curator: Example Office}
privacy:
  unit: {entity: row}
  budget: {epsilon: 1/2, delta: 1e-9}
tables:
  visits:
    account: visits
    source: {file: people.csv}
    time: {column: day, type: date}
    columns:
      sex: {type: text, keys: [f, m]}
      hours: {type: integer, range: [-5, 20]}
queries:
  visits:
    table: visits
    by: [sex]
    measures: {visits: {count: rows}}
    series: {from: 2024-01, sums: [3, 12, ytd]}
"""
SERIES = "series: {from: 2024-01, sums: [3, 12, ytd]}"
POLICY = """\
accounts:
  visits:
    {unit: row, neighboring: add_remove, composition: zcdp, parallel: month, time: {column: day, type: date},
     lifetime: {epsilon: 4, delta: 1e-8}}
ceilings: {epsilon: 2, delta: 1e-8}
approvals: {required: 0}
"""


def swapped(*changes: tuple[str, str]) -> str:
    """The spec with some things changed, each of which must be in it exactly once."""
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def problems(*changes: tuple[str, str]) -> list[Problem]:
    """What is wrong with the changed spec."""
    try:
        load(swapped(*changes), "spec.yaml")
    except SpecError as error:
        return list(error.problems)
    return []


def series_plan(*changes: tuple[str, str]) -> ReleasePlan:
    """The plan of the changed spec."""
    return plan_of(swapped(*changes))


def with_step(plan: ReleasePlan, **changes: object) -> ReleasePlan:
    """The plan with another first step."""
    first: Step = plan.steps[0].model_copy(update=changes)
    return plan.model_copy(update={"steps": (first, *plan.steps[1:])})
