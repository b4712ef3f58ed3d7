"""Rows with impossible combinations are left out: every two tiny neighbouring tables, draw by draw of whole plans.

No draw moves further than its step claims, with any list, and each norm is reached by some neighbours unless the list
takes what would reach it. What counts is worked out here row by row; that engines count the same is in
``tests/conformance/test_engines_complete.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.cells import zero_keys
from dprelease.noise.exact import Exact
from dprelease.noise.truth import true_numbers, true_residual
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.whole_plan import verify
from tests.planned import plan_of

SPEC = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey}
privacy:
  unit: {entity: person}
  neighboring: RELATION
  budget: {epsilon: 1, delta: 1e-9}
references:
  never: {file: never.csv, columns: {COLUMNS}}
tables:
  people:
    account: people
    source: {file: people.csv}UNIT
    columns:
      a: {type: integer, keys: [1, 2]}
      b: {type: integer, keys: [1, 2, 3]}
queries:
  people:
    table: people
    marginals: {of: [a, b], ways: WAYS}
    EXCEPT
"""
UNIT = "\n    unit_id: who\n    bounds: {max_rows: 2, truncate: sample}"
LISTS = {
    "one": ("a: integer, b: integer", "a,b\n1,2\n"),
    "a key but one": ("a: integer, b: integer", "a,b\n1,1\n1,2\n"),
    "all but one": ("a: integer, b: integer", "a,b\n1,1\n1,2\n1,3\n2,1\n2,3\n"),
    "a whole key": ("b: integer", "b\n2\n"),
}
Row = tuple[int | None, int | None]
VALUES: list[Row] = [*product((1, 2), (1, 2, 3)), (None, 1), (2, None), (7, 7)]
Numbers = npt.NDArray[np.int64]


@cache
def made(name: str, relation: str, units: bool, ways: str, listed: bool = True) -> ReleasePlan:
    columns, lines = LISTS[name]
    text = SPEC.replace("RELATION", relation).replace("UNIT", UNIT if units else "").replace("WAYS", ways)
    text = text.replace("COLUMNS", columns).replace("EXCEPT", "except: {reference: never}" if listed else "")
    return plan_of(text, {"never": lines.encode()})


def answer(plan: ReleasePlan, step: Step, rows: tuple[Row, ...]) -> Numbers:
    """The exact numbers that a step measures of these rows."""
    table, zeros = plan.catalog.tables["people"], plan.catalog.zeros.get("people")
    gone = [dict(zip(zeros.columns, each, strict=True)) for each in zero_keys(zeros, table)] if zeros else []
    counts = np.zeros([table.column(name).cells for name in step.aggregate.by] or [1], dtype=np.int64)
    for row in rows:
        named = dict(zip("ab", row, strict=True))
        keyed = named["a"] in (1, 2) and named["b"] in (1, 2, 3)
        if keyed and not any(all(named[name] == key for name, key in each.items()) for each in gone):
            counts[tuple((named[name] or 0) - 1 for name in step.aggregate.by) or 0] += 1
    box = Exact(counts.ravel())
    return true_numbers(box) if step.residual is None else true_residual(box, step.residual)


def neighbours(relation: str, rows: int) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    """Of one unit before and after: nothing and its rows, or two times its rows; others add the same to both."""
    some = [each for held in range(rows + 1) for each in combinations_with_replacement(VALUES, held)]
    if relation == "add_remove":
        yield from (((), each) for each in some)
    else:
        yield from product(some, some)


@pytest.mark.thin
@pytest.mark.parametrize("ways", ["[0, 1, 2]", "[0, 2]", "[1]"])
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", LISTS)
def test_no_neighbour_moves_a_draw_further_than_its_step_claims(
    name: str, relation: str, units: bool, ways: str
) -> None:
    plan = made(name, relation, units, ways)
    verify(plan)
    far: dict[str, list[float]] = {}
    for step in plan.steps:
        known = {rows: answer(plan, step, rows) for pair in neighbours(relation, 1 + units) for rows in pair}
        norms = np.array(
            [
                [np.count_nonzero(d), np.abs(d).sum(), (d.astype(float) ** 2).sum(), np.abs(d).max()]
                for d in (known[new] - known[old] for old, new in neighbours(relation, 1 + units))
            ]
        )
        claimed = step.sensitivity
        limits = [float(each) for each in (claimed.l0, claimed.l1, claimed.l2_squared, claimed.linf)]
        assert (norms.max(axis=0) <= limits).all(), step.id
        far[step.id] = [float(most) / limit for most, limit in zip(norms.max(axis=0), limits, strict=True)]
    # One unit can put all of its rows into one cell that is possible, so that L2 of tables by themselves is reached.
    whole = [step.id for step in plan.steps if step.residual is None]
    assert relation == "replace_one" or all(far[step][2] == 1 for step in whole)


def test_every_table_counts_the_same_rows_whatever_its_columns() -> None:
    plan = made("a key but one", "add_remove", False, "[0, 1, 2]")
    tables = [step.model_copy(update={"residual": None}) for step in plan.steps]
    assert len(tables) == 4
    assert {int(answer(plan, step, tuple(VALUES)).sum()) for step in tables} == {4}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_claims_are_those_without_a_list(relation: str) -> None:
    """Also where fewer cells are possible and a smaller claim would be right: what is claimed is a bound."""
    for name in LISTS:
        one, two = (made(name, relation, False, "[0, 1, 2]", listed) for listed in (True, False))
        assert [step.sensitivity for step in one.steps] == [step.sensitivity for step in two.steps]
        assert one.loss == two.loss
