"""Tables of a workload behind discrete Laplace noise, merged ones too: every two tiny neighbours, all draws together.

What one unit changes is worked out row by row. No draw moves further than its step claims, some move as far, and the
exact loss of all draws together, ``sum |change| / scale``, is at most the epsilon of the plan.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest

from dprelease.plan.verify.whole_plan import verify
from tests.planned import plan_of

SPEC = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey}
privacy: {unit: {entity: person}, neighboring: RELATION, budget: {epsilon: 1}}
tables:
  people:
    account: people
    source: {file: people.csv}UNIT
    columns:
      a: {type: integer, keys: [1, 2]}
      b: {type: integer, keys: [1, 2, 3]}
      c: {type: integer, keys: [1, 2]}
queries:
  people:
    table: people
    marginals: {of: [a, b, c], ways: WAYS}
"""
UNIT = "\n    unit_id: who\n    bounds: {max_rows: 2, truncate: sample}"
SIZES = {"a": 2, "b": 3, "c": 2}
Row = tuple[int, int, int] | None
ROWS: list[Row] = [None, *product(range(2), range(3), range(2))]  # None: a row without a key, which counts nowhere


@pytest.mark.parametrize(("ways", "merged"), [("[2]", True), ("[1]", True), ("[0, 1, 2, 3]", False)])
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_neighbours_are_told_apart_by_more_than_epsilon(relation: str, units: bool, ways: str, merged: bool) -> None:
    plan = plan_of(SPEC.replace("RELATION", relation).replace("UNIT", UNIT if units else "").replace("WAYS", ways))
    verify(plan)
    published = {query.by for query in plan.queries}
    assert any(step.aggregate.by not in published for step in plan.steps) == merged
    held = [each for rows in range(2 + units) for each in combinations_with_replacement(ROWS, rows)]
    changes = product(held, held) if relation == "replace_one" else (((), each) for each in held)
    if units and relation == "replace_one":  # a unit with two rows before and after: those that meet, and enough others
        changes = product(held[::7], held)
    places = [[list(SIZES).index(name) for name in step.aggregate.by] for step in plan.steps]
    shapes = [[SIZES[name] for name in step.aggregate.by] for step in plan.steps]
    farthest, dearest = [0] * len(plan.steps), Fraction(0)
    for old, new in changes:
        loss = Fraction(0)
        for at, step in enumerate(plan.steps):
            change = np.zeros(prod(shapes[at]), dtype=np.int64)
            for rows, sign in ((old, -1), (new, 1)):
                for row in rows:
                    if row is not None:
                        change[np.ravel_multi_index([row[i] for i in places[at]], shapes[at]) if places[at] else 0] += (
                            sign
                        )
            moved = int(np.abs(change).sum())
            assert moved <= step.sensitivity.l1, step.id
            farthest[at] = max(farthest[at], moved)
            loss += moved / step.scale
        dearest = max(dearest, loss)
    assert farthest == [int(step.sensitivity.l1) for step in plan.steps]
    assert dearest <= 1
    # A replaced row that stays counted moves two cells and no total, so that no two draws may be at their worst at once.
    assert dearest >= Fraction(999, 1000) or (relation == "replace_one" and len(plan.steps) > 1)
