"""Impossible key combinations beside `marginals`: what a spec may say, what a plan becomes, what verifying refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprelease.canonical import Value
from dprelease.catalog.aggregate import Grouping, Quantity, cells_of, left_out_of
from dprelease.catalog.cells import zero_cells, zero_keys
from dprelease.catalog.table import Catalog, Column, Computed, Source, Table, Zeros
from dprelease.errors import BrokenPromiseError, Problem, SpecError
from dprelease.estimate.workloads.zeros import cell_variances
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.accounting.semantics import reads
from dprelease.publish.bundle.compare import _same_rows
from tests.planned import plan_of

SPEC = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
references:
  never: {file: never.csv, columns: {status: text, band: text}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: integer, keys: [1, 2]}
      age: {type: integer, range: [0, 99]}
      band: {bin: age, edges: [0, 16, 30, 65, 100]}
      status: {type: text, keys: [single, married, widowed], null: single}
queries:
  people:
    table: people
    marginals: {of: [sex, band, status], ways: [0, 1, 2, 3]}
    except: {reference: never}
"""
NEVER = 'status,why,band\nwidowed,law,"[0,16)"\nmarried,law,"[0,16)"\n'
WAYS = "ways: [0, 1, 2, 3]"


def made(text: str = SPEC, never: str = NEVER) -> ReleasePlan:
    return plan_of(text, {"never": never.encode()})


def problems_of(text: str, never: str = NEVER) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        made(text, never)
    return list(caught.value.problems)


PLAN = made()


def test_rows_are_left_out_of_every_table_and_cells_of_those_that_have_the_columns() -> None:
    assert PLAN.catalog.zeros == {"people": Zeros(reference="never", columns=("band", "status"), cells=(1, 2))}
    verify(PLAN)
    for query in PLAN.queries:
        assert query.zeros == "people"
        full = PLAN.catalog.tables["people"].cells(query.by)
        has = {"band", "status"} <= set(query.by)
        assert query.excluding == ("people" if has else None)
        assert cells_of(query, PLAN.catalog) == full - has * 2 * (2 if "sex" in query.by else 1)
    for step in PLAN.steps:
        assert (step.aggregate.zeros, step.aggregate.excluding) == ("people", None)
        assert step.cells == PLAN.catalog.tables["people"].cells(step.aggregate.by)
    assert left_out_of(PLAN.queries[-1], PLAN.catalog) == (1, 2, 13, 14)


def test_the_draws_are_those_without_zeros_and_every_table_is_more_accurate() -> None:
    plain = made(SPEC.replace("    except: {reference: never}\n", ""))
    facts = [(step.id, step.scale, step.sensitivity, step.share, step.event) for step in PLAN.steps]
    assert facts == [(step.id, step.scale, step.sensitivity, step.share, step.event) for step in plain.steps]
    for ours, theirs in zip(PLAN.outputs, plain.outputs, strict=True):
        assert float(ours.standard_error or 0) < float(theirs.standard_error or 0)
    worth = {each.name: float(each.noise) for each in PLAN.considered}
    assert 1.01 < worth["people: without its structural zeros"] < 1.2
    assert not any("zeros" in each.name for each in plain.considered)
    assert {each for each in worth if "zeros" not in each} == {each.name for each in plain.considered}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("minimize", ["tables", "cells", "worst"])
def test_what_they_are_worth_is_the_root_of_what_is_made_least(minimize: str) -> None:
    text = SPEC.replace(WAYS, f"{WAYS}, minimize: {minimize}")
    plans = [made(text), made(text.replace("    except: {reference: never}\n", ""))]
    lost = []
    for plan in plans:
        (workload,) = plan.workloads
        found = cell_variances(design_of(workload, plan.catalog, {step.id: step for step in plan.steps}))
        sums = []
        for query in plans[0].queries:
            table, place = plan.catalog.tables["people"], workload.place(query.name)
            shape = tuple(table.column(name).cells for name in query.by)
            whole = [float(each) for each in np.broadcast_to(found[place], (1, *shape)).reshape(-1)]
            out = set(left_out_of(query, plans[0].catalog))
            kept = [each for at, each in enumerate(whole) if at not in out]
            sums.append({"tables": sum(kept) / len(kept), "cells": sum(kept), "worst": max(kept)}[minimize])
        lost.append(max(sums) if minimize == "worst" else sum(sums))
    worth = {each.name: float(each.noise) for each in plans[0].considered}
    assert worth["people: without its structural zeros"] == pytest.approx((lost[1] / lost[0]) ** 0.5, abs=2e-3)


def test_a_target_is_met_with_less_budget_beside_zeros() -> None:
    target = SPEC.replace("    except:", "    target: {count: {margin: 60}}\n    except:")
    plan = made(target)
    verify(plan)
    assert max(float(each.margin or 0) for each in plan.outputs) == pytest.approx(60, rel=1e-3)
    plain = made(target.replace("    except: {reference: never}\n", ""))
    assert plan.loss[plan.certified].epsilon < plain.loss[plain.certified].epsilon


def test_a_file_without_lines_and_a_spec_without_such_a_file_make_no_zeros() -> None:
    empty, plain = made(never="status,band\n"), made(SPEC.replace("    except: {reference: never}\n", ""))
    assert empty.catalog.zeros == plain.catalog.zeros == {}
    assert "zeros" not in str(plain.canonical())
    assert "zeros" in str(PLAN.canonical())
    assert [query.grouping for query in empty.queries] == [query.grouping for query in plain.queries]


def test_zeros_of_columns_that_no_table_has_together_leave_rows_out_and_are_worth_nothing() -> None:
    plan = made(SPEC.replace(WAYS, "ways: [0, 1]"))
    verify(plan)
    assert {query.zeros for query in plan.queries} == {"people"}
    assert {query.excluding for query in plan.queries} == {None}
    assert not any("zeros" in each.name for each in plan.considered)


def test_one_column_alone_can_have_impossible_keys() -> None:
    text = SPEC.replace("{status: text, band: text}", "{status: text}")
    plan = made(text, "status\nwidowed\n")
    verify(plan)
    assert plan.catalog.zeros["people"] == Zeros(reference="never", columns=("status",), cells=(2,))


WRONG = [
    # a level is no column of `marginals`; what is left out of one node would be missing above
    ("    except:", "    levels: places\n    except:", NEVER, "DPR-S653", "in the place of `levels`"),
    ("band: text}}", "age: integer}}", "status,age\n", "DPR-S666", "none of the workload's: 'age'"),
    ("band: text}}", "band: integer}}", NEVER, "DPR-S519", "one type"),
    ("{reference: never}", "{reference: nver}", NEVER, "DPR-S517", "`never`"),
    ("{reference: never}", "{reference: never}", 'status,band\nwidowed,"[0,15)"\n', "DPR-S606", "[0,15)"),
    (
        "{reference: never}",
        "{reference: never}",
        "status,band\n"
        + "".join(
            f'{s},"{b}"\n'
            for s in ("single", "married", "widowed")
            for b in ("[0,16)", "[16,30)", "[30,65)", "[65,100)")
        ),
        "DPR-S607",
        "every cell",
    ),
]


@pytest.mark.parametrize(("old", "new", "never", "code", "says"), WRONG)
def test_what_is_no_list_of_combinations_is_refused(old: str, new: str, never: str, code: str, says: str) -> None:
    text = SPEC.replace(old, new)
    if "levels" in new:
        text = text.replace("queries:\n", "hierarchies: {places: [band, sex]}\nqueries:\n", 1)
    found = [each for each in problems_of(text, never) if each.code == code]
    assert found
    assert says in f"{found[0].summary} {found[0].hint}"


def test_a_list_that_is_too_long_to_be_worked_out_is_refused_with_its_numbers() -> None:
    keys = ", ".join(map(str, range(3000)))
    text = SPEC.replace("sex: {type: integer, keys: [1, 2]}", f"sex: {{type: integer, keys: [{keys}]}}").replace(
        "{status: text, band: text}", "{sex: integer, band: text}"
    )
    lines = "".join(f'{at},"{band}"\n' for at in range(2500) for band in ("[0,16)", "[16,30)"))
    (problem,) = problems_of(text, "sex,band\n" + lines)
    assert (problem.code, "5000 of 12000 combinations" in problem.summary) == ("DPR-S667", True)
    assert "leave `except` out" in (problem.hint or "")


def test_positions_are_those_of_the_columns_in_any_order() -> None:
    table = PLAN.catalog.tables["people"]
    zeros = PLAN.catalog.zeros["people"]
    assert zero_keys(zeros, table) == (("[0,16)", "married"), ("[0,16)", "widowed"))
    assert zero_cells(zeros, table, ("status", "band")) == (4, 8)
    assert zero_cells(zeros, table, ("status", "sex", "band")) == (8, 12, 16, 20)
    with pytest.raises(ValueError, match="of columns that the cells have not"):
        zero_cells(zeros, table, ("status",))


def _list(**changes: Any) -> Any:
    zeros = PLAN.catalog.zeros["people"].model_copy(update=changes)
    return {"catalog": PLAN.catalog.model_copy(update={"zeros": {"people": zeros}})}


def _tables(at: int, **changes: Any) -> dict[str, Any]:
    found = list(PLAN.queries)
    found[at] = found[at].model_copy(update=changes)
    return {"queries": tuple(found)}


def _draws(at: int, **changes: Any) -> dict[str, Any]:
    found: list[Value] = list(PLAN.steps)
    step = PLAN.steps[at]
    found[at] = step.model_copy(update={"aggregate": step.aggregate.model_copy(update=changes)})
    return {"steps": tuple(found)}


TAMPERED: dict[str, tuple[dict[str, Any], str]] = {
    "a cell twice": (_list(cells=(1, 1, 2)), "no cell, or every cell"),
    "out of order": (_list(cells=(2, 1)), "no cell, or every cell"),
    "beyond": (_list(cells=(1, 12)), "no cell, or every cell"),
    "below": (_list(cells=(-1, 2)), "no cell, or every cell"),
    "none": (_list(cells=()), "no cell, or every cell"),
    "every": (_list(cells=tuple(range(12))), "no cell, or every cell"),
    "other columns": (_list(columns=("status", "band")), "is of other columns"),
    "fewer columns": (_list(columns=("band",)), "is of other columns"),
    "no reference": (_list(reference="nowhere"), "of no reference"),
    "no workload": (
        {
            "catalog": PLAN.catalog.model_copy(
                update={"zeros": {**PLAN.catalog.zeros, "else": PLAN.catalog.zeros["people"]}}
            )
        },
        "is no workload",
    ),
    "one more cell": (_list(cells=(1, 2, 5)), "more accurate"),
    "a table of all rows": (_tables(0, zeros=None), "counts rows that its workload does not"),
    "a table with all cells": (_tables(-1, excluding=None), "has not the cells that are possible"),
    "a table without some": (_tables(0, excluding="people"), "has not the cells that are possible"),
    "a draw of all rows": (_draws(0, zeros=None), "counts other rows than its workload"),
    "a draw without some cells": (_draws(-1, excluding="people"), "cells left out"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_plan_that_was_changed_does_not_verify(name: str) -> None:
    changes, says = TAMPERED[name]
    plan = PLAN.model_copy(update=changes)
    if name == "one more cell":  # fewer cells are published than the plan's own numbers are about
        outputs = tuple(
            each.model_copy(update={"standard_error": "0.5"}) if each.query == plan.queries[-1].name else each
            for each in plan.outputs
        )
        plan = plan.model_copy(update={"outputs": outputs})
    with pytest.raises(BrokenPromiseError, match=says):
        verify(plan)


def test_a_step_that_is_no_draw_of_the_workload_does_not_leave_its_rows_out() -> None:
    text = SPEC + "  ages: {table: people, by: [band], measures: {persons: {count: rows}}}\n"
    plan = made(text)
    verify(plan)
    place = next(at for at, step in enumerate(plan.steps) if step.answers[0].query == "ages")
    step = plan.steps[place]
    aggregate = step.aggregate.model_copy(update={"zeros": "people", "complete": ("band", "status")})
    steps = tuple(
        step.model_copy(update={"aggregate": aggregate}) if at == place else each for at, each in enumerate(plan.steps)
    )
    queries = tuple(
        each.model_copy(update={"zeros": "people", "complete": ("band", "status")}) if each.name == "ages" else each
        for each in plan.queries
    )
    with pytest.raises(BrokenPromiseError, match="none of its workload's"):
        verify(plan.model_copy(update={"steps": steps, "queries": queries}))


def test_whether_a_row_counts_reads_every_column_of_the_zeros() -> None:
    """Columns that have a key whatever they hold do not matter to ``complete``; their combinations do."""
    whole = {"keys": (False, True), "null": False}
    columns = (
        Column(name="x", type="integer"),
        Column(name="y", type="integer"),
        Column(name="a", type="boolean", derivation=Computed(sql="x > 0"), **whole),
        Column(name="b", type="boolean", derivation=Computed(sql="y > 0"), **whole),
    )
    table = Table(name="t", account="p", source=Source(file="t.csv", format="csv"), columns=columns)
    catalog = Catalog(tables={"t": table}, zeros={"w": Zeros(reference="never", columns=("a", "b"), cells=(3,))})
    asked = Grouping(table="t", by=("a",), complete=("a", "b"))
    assert reads(asked, (Quantity(kind="rows"),), catalog) == {("t", "x")}
    beside = asked.model_copy(update={"zeros": "w"})
    assert reads(beside, (Quantity(kind="rows"),), catalog) == {("t", "x"), ("t", "y")}


def test_tables_of_two_releases_with_different_lists_are_not_compared() -> None:
    other = made(never='status,band\nwidowed,"[0,16)"\n')
    query: PlannedQuery = PLAN.queries[0]
    assert _same_rows(PLAN, query, PLAN, query)
    assert not _same_rows(PLAN, query, other, other.queries[0])
