"""Tables of a workload behind discrete Laplace noise, merged ones too: every two tiny neighbours, all draws together.

What one unit changes is worked out row by row. No draw moves further than its step claims, some move as far, and the
exact loss of all draws together, ``sum |change| / scale``, is at most the epsilon of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest

from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from tests.planned import plan_of

SPEC = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey}
privacy: {unit: {entity: person}, neighboring: RELATION, noise: NOISE, budget: {epsilon: 1}}
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


def planned(relation: str, units: bool, ways: str, noise: str) -> ReleasePlan:
    spec = SPEC.replace("RELATION", relation).replace("UNIT", UNIT if units else "").replace("NOISE", noise)
    plan = plan_of(spec.replace("WAYS", ways))
    verify(plan)
    return plan


def neighbours(relation: str, units: bool) -> Iterable[tuple[Sequence[Row], Sequence[Row]]]:
    """What rows one unit has, and what other ones."""
    held = [each for rows in range(2 + units) for each in combinations_with_replacement(ROWS, rows)]
    if relation != "replace_one":
        return (((), each) for each in held)
    # a unit with two rows before and after: those that meet, and enough others
    return product(held[::7] if units else held, held)


@pytest.mark.parametrize(("ways", "merged"), [("[2]", True), ("[1]", True), ("[0, 1, 2, 3]", False)])
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_neighbours_are_told_apart_by_more_than_epsilon(relation: str, units: bool, ways: str, merged: bool) -> None:
    plan = planned(relation, units, ways, "laplace")
    published = {query.by for query in plan.queries}
    assert any(step.aggregate.by not in published for step in plan.steps) == merged
    places = [[list(SIZES).index(name) for name in step.aggregate.by] for step in plan.steps]
    shapes = [[SIZES[name] for name in step.aggregate.by] for step in plan.steps]
    farthest, dearest = [0] * len(plan.steps), Fraction(0)
    for old, new in neighbours(relation, units):
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


@pytest.mark.parametrize("ways", ["[1]", "[0, 1]"])
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_neighbours_are_told_apart_by_more_than_epsilon_in_one_draw_for_all_tables(
    relation: str, units: bool, ways: str
) -> None:
    """The loss is the largest sum of changes of a table over the scale, and no total changes alone."""
    plan = planned(relation, units, ways, "knorm")
    (step,) = plan.steps
    assert step.mechanism == "tables_knorm"
    farthest = 0
    widest = [0] * len(step.tables)
    for old, new in neighbours(relation, units):
        moved = []
        for table in step.tables:
            (at,) = (list(SIZES).index(name) for name in table.by)
            change = np.zeros(table.cells, dtype=np.int64)
            for rows, sign in ((old, -1), (new, 1)):
                for row in rows:
                    if row is not None:
                        change[row[at]] += sign
            moved.append(change)
        assert len({int(change.sum()) for change in moved}) == 1
        sizes = [int(np.abs(change).sum()) for change in moved]
        widest = [max(pair) for pair in zip(widest, sizes, strict=True)]
        farthest = max(farthest, *sizes)
    assert step.gauge == farthest
    assert step.sensitivity.l1 == sum(widest)
    assert Fraction(999, 1000) <= farthest / step.scale <= 1
