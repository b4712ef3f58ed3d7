"""Totals that cannot be, each refused before anything is charged; and goals that hold beside totals."""

from __future__ import annotations

import pytest

from dprelease.errors import PlanError, SpecError
from dprelease.plan.verify.whole_plan import verify
from tests.planned import plan_of, planned_anew
from tests.unit.test_totals import MONEY


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("measures: {n: {quantiles: pay, at: [0.5]}}", "DPR-S714"),
        ("measures: {n: {stddev: pay}}", "DPR-S714"),
        ("measures: {n: {count_distinct: pay}}", "DPR-S714"),
        ("measures: {n: {count: rows}}\n    bounds: {max_groups: 1}", "DPR-S712"),
        ("measures: {n: {count: rows}}\n    shares: {tables: {total: 1}}", "DPR-S666"),
        ("measures: {n: {count: rows}}\n    shares: {tables: {total: 1/2, a: 1/4}}", "DPR-S666"),
        ("measures: {n: {count: rows}}\n  more: {table: people, by: [b, a], totals: [[]], measures: {n: {count: rows}}}", "DPR-S715"),
    ],
)  # fmt: skip
def test_what_has_no_totals_is_refused_before_anything_is_charged(said: str, code: str) -> None:
    text = MONEY.format(
        relation="add_remove", keys=3, unit="unit_id: who\n    bounds: {max_rows: 2}", budget="{rho: 1}"
    )
    with pytest.raises(SpecError) as caught:
        plan_of(text[: text.index("    expect:")] + f"    {said}\n")

    assert code in {problem.code for problem in caught.value.problems}


def test_units_have_no_totals_where_one_may_be_in_several_cells() -> None:
    text = MONEY.format(
        relation="add_remove", keys=3, unit="unit_id: who\n    bounds: {max_rows: 2}", budget="{rho: 1}"
    )
    for measure in ("{count: units}", "{sum: pay, clip_per: unit_cell}"):
        with pytest.raises(SpecError) as caught:
            plan_of(text[: text.index("    expect:")] + f"    measures: {{n: {measure}}}\n")
        assert [problem.code for problem in caught.value.problems] == ["DPR-S714"]


def test_a_key_of_a_reference_may_not_be_that_of_totals() -> None:
    text = MONEY.format(relation="add_remove", keys=3, unit="", budget="{rho: 1, delta: 1e-9}")
    text = text.replace("tables:\n", "references: {areas: {file: areas.csv, columns: {a: text}}}\ntables:\n", 1)
    text = text.replace("keys: [x, y]", "keys: {reference: areas}")

    verify(planned_anew(text, {"areas": b"a\nx\ny\n"}))
    with pytest.raises(PlanError, match="_total"):
        planned_anew(text, {"areas": b"a\nx\n_total\n"})


def test_pins_and_targets_hold_with_totals() -> None:
    text = MONEY.format(relation="add_remove", keys=12, unit="", budget="{epsilon: 1, delta: 1e-9}")
    plan = plan_of(text.replace("totals: all", "totals: all\n    budget: {epsilon: 1/2}"))
    verify(plan)
    aimed = plan_of(text.replace("totals: all", "totals: all\n    target: {n: {margin: 30}}"))
    verify(aimed)

    assert float(plan.loss[plan.certified].epsilon) <= 0.5
    assert float(next(each.margin for each in aimed.outputs if each.measure == "n") or 99) <= 30
