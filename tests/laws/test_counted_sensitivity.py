"""Counts of classes of values: how far one unit can move a draw, by brute force over tiny neighbours.

Units of up to two rows, each in any cell with any value, one that is clipped and none among them. The plan's claim must be
reached and never exceeded, and verification must refuse a half of it.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.factor import factor_sensitivity
from dprelease.catalog.sensitivity import limits_of
from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import ExactHistogram
from dprelease.noise.mechanisms.factor import counted_classes
from dprelease.noise.truth import true_factor, true_numbers
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.factor import check_factor
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.planned import plan_of

Integers = npt.NDArray[np.int64]
Unit = tuple[tuple[int, int | None], ...]
"""The rows of a unit: of each its cell and its value, None where it has none."""

SPEC = """
dprelease: 1
release: {{name: survey, period: 2024, title: A survey}}
privacy:
  unit: {{entity: person}}
  neighboring: {relation}
  budget: {{epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: people
    {units}
    source: {{file: people.csv}}
    columns:
      region: {{type: text, keys: [{regions}]}}
      income: {{type: integer, range: [0, 9]}}
queries:
  income:
    table: people
    by: [region]
    measures:
      middle: {{quantiles: income, at: [0.25, 0.5], clip: [1, 4], from: counts{edges}}}
"""


class Case(NamedTuple):
    relation: str
    rows: int
    cells: int
    edges: str
    bounds: str = ""


CASES = [
    Case(relation, rows, cells, edges)
    for relation, rows, cells, edges in product(
        ("add_remove", "replace_one"), (1, 2), (1, 2), ("", ", edges: [1, 2]", ", edges: [1, 3, 4]")
    )
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))


def planned(case: Case) -> ReleasePlan:
    units = "" if case.rows == 1 else f"unit_id: person\n    bounds: {{max_rows: {case.rows}}}"
    spec = SPEC.format(relation=case.relation, units=units, regions=", ".join("ab"[: case.cells]), edges=case.edges)
    return plan_of(spec)


def units(case: Case) -> list[Unit]:
    """All units with at most so many rows, one without any among them; values from 0 to 5, beyond the clip at both ends."""
    one = [*product(range(case.cells), (None, 0, 1, 2, 3, 4, 5))]
    return [each for held in range(case.rows + 1) for each in combinations_with_replacement(one, held)]


def answer(case: Case, step: Step, unit: Unit) -> Integers:
    """What is drawn of a table with the rows of one unit, before noise: every row by itself, as the engine says it."""
    rows = [(cell, min(max(value, 1), 4)) for cell, value in unit if value is not None]
    cell, value = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
    box = ExactHistogram(case.cells, cell, value, np.ones(len(rows), dtype=np.int64))
    assert step.factor is not None
    return true_factor(counted_classes(box, step.aggregate.quantity.classes), step.factor)


def worst(case: Case, step: Step) -> tuple[Fraction, Fraction, Fraction]:
    """The largest L1, L2^2 and Linf between two neighbours."""
    answers = np.stack([answer(case, step, unit) for unit in units(case)])
    moves = (
        answers if case.relation == "add_remove" else (answers[:, None] - answers[None]).reshape(-1, len(answers[0]))
    )
    sizes = np.abs(moves)
    found = (sizes.sum(axis=1).max(), (sizes**2).sum(axis=1).max(), sizes.max())
    return (Fraction(int(found[0])), Fraction(int(found[1])), Fraction(int(found[2])))


@every_case
def test_no_neighbour_moves_the_draw_further_than_the_plan_claims_and_one_moves_it_as_far(case: Case) -> None:
    (step,) = planned(case).steps
    reach = step.sensitivity
    assert (reach.l1, reach.l2_squared, reach.linf) == worst(case, step)


@every_case
def test_a_half_of_the_sensitivity_is_refused(case: Case) -> None:
    plan = planned(case)
    (step,) = plan.steps
    verify(plan)
    reach = step.sensitivity
    halves = [
        {"l2_squared": reach.l2_squared / 4},
        {"l1": reach.l1 / 2},
        {"linf": reach.linf / 2},
        {"l1": reach.l1 / 2, "l2_squared": reach.l2_squared / 4, "linf": reach.linf / 2},
    ]
    for planted in halves:
        less = Sensitivity(**{**reach.model_dump(), **planted})
        changed = plan.model_copy(update={"steps": (step.model_copy(update={"sensitivity": less}),)})
        with pytest.raises(BrokenPromiseError, match="sensitivity"):
            verify(changed)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("most", "in_cell", "cells"), [(2, 1, 2), (3, 2, 2), (2, 1, 3), (3, 1, 3)])
def test_few_rows_in_a_cell_move_the_draw_less(relation: str, most: int, in_cell: int, cells: int) -> None:
    """Cells are drawn apart: the claim is reached where cells are enough, never exceeded, and less is refused."""
    text = SPEC.format(
        relation=relation,
        units=f"unit_id: person\n    bounds: {{max_rows: {most}}}",
        regions=", ".join("abc"[:cells]),
        edges=", edges: [1, 3, 4]",
    ).replace("by: [region]", f"by: [region]\n    bounds: {{max_rows_per_group: {in_cell}, max_groups: {cells}}}")
    plan = plan_of(text)
    verify(plan)
    (step,) = plan.steps
    case, reach = Case(relation, most, cells, ""), step.sensitivity
    held = [
        unit
        for unit in units(case)
        if max((sum(row[0] == cell for row in unit) for cell in range(cells)), default=0) <= in_cell
    ]
    answers = np.unique(np.stack([answer(case, step, unit) for unit in held]), axis=0)
    moves = answers if relation == "add_remove" else np.concatenate([answers - one for one in answers])
    sizes = np.abs(moves)
    assert (sizes**2).sum(axis=1).max() <= reach.l2_squared
    assert sizes.max() <= reach.linf
    assert sizes.sum(axis=1).max() <= reach.l1
    if relation == "add_remove":
        assert (sizes**2).sum(axis=1).max() == reach.l2_squared
        assert sizes.max() == reach.linf
    full, rest = divmod(most, in_cell)
    assert reach.l2_squared * most**2 == (full * in_cell**2 + rest**2) * whole(plan, step).l2_squared
    check_factor(plan, step.model_copy(update={"sensitivity": whole(plan, step)}))  # as plans from before claim
    for planted in (
        {"l2_squared": reach.l2_squared / 4},
        {"linf": reach.linf / 2},
        {"l2_squared": reach.l2_squared - 1},
    ):
        with pytest.raises(BrokenPromiseError, match="sensitivity"):
            verify(with_reach(plan, step, reach.model_copy(update=planted)))


def whole(plan: ReleasePlan, step: Step) -> Sensitivity:
    """What all rows of a unit move in one cell."""
    assert step.factor is not None
    rows = limits_of(step.aggregate, plan.catalog).rows
    assert rows is not None
    return factor_sensitivity(step.factor, rows, plan.neighboring)


def with_reach(plan: ReleasePlan, step: Step, reach: Sensitivity) -> ReleasePlan:
    """The same plan with another claim."""
    return plan.model_copy(update={"steps": (step.model_copy(update={"sensitivity": reach}),)})


def test_bounds_of_the_query_count() -> None:
    """Two of five rows are left in a cell and one cell of two: as many rows move the draw."""
    text = SPEC.format(
        relation="add_remove", units="unit_id: person\n    bounds: {max_rows: 5}", regions="a, b", edges=""
    ).replace("by: [region]", "by: [region]\n    bounds: {max_groups: 1, max_rows_per_group: 2}")
    plan = plan_of(text)
    (step,) = plan.steps
    assert limits_of(step.aggregate, plan.catalog).rows == 2
    assert (step.sensitivity.l1, step.sensitivity.l2_squared, step.sensitivity.linf) == worst(
        Case("add_remove", 2, 1, ""),
        step.model_copy(update={"factor": planned(Case("add_remove", 2, 1, "")).steps[0].factor}),
    )


def test_values_are_counted_in_the_class_that_they_lie_in() -> None:
    """Against a loop, for values on and beside every edge."""
    starts, values = (-3, 0, 1, 4), np.arange(-3, 8)
    cells = np.arange(len(values)) % 2
    box = ExactHistogram(2, cells, values, np.arange(1, len(values) + 1))
    found = true_numbers(counted_classes(box, starts)).reshape(2, 4)
    expected = np.zeros((2, 4), dtype=np.int64)
    for at, (cell, value) in enumerate(zip(cells.tolist(), values.tolist(), strict=True)):
        place = max(number for number, start in enumerate(starts) if start <= value)
        expected[cell, place] += at + 1
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("relation", Neighboring)
def test_a_row_is_in_one_class_at_most(relation: Neighboring) -> None:
    """It is what the proof rests on: every unit of one row changes one count, by one."""
    case = Case(relation.value, 1, 2, "")
    (step,) = planned(case).steps
    for unit in units(case):
        rows = [(cell, min(max(value, 1), 4)) for cell, value in unit if value is not None]
        cell, value = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
        box = ExactHistogram(2, cell, value, np.ones(len(rows), dtype=np.int64))
        assert true_numbers(counted_classes(box, step.aggregate.quantity.classes)).sum() == len(rows) <= 1
