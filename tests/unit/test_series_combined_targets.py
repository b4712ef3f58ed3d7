"""Targets of the worst sum along a column, and of the worst cell of any table, in every period that will ever come."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.series_terms import differing_terms
from dprelease.plan.verify.whole_plan import verify

from .series_example import SERIES, problems
from .test_series_combined import AGE, SHORT, combined, crossed

REPLACED = ("  budget:", "  neighboring: replace_one\n  budget:")


def aimed(kind: str, period: str, target: str, *changes: tuple[str, str]) -> ReleasePlan:
    """The plan of sums along an age, or of tables of a workload, with a target."""
    again = (SHORT[1], f"{SHORT[1]}\n    target: {target}")
    return crossed(period, again, *changes) if kind == "tables" else combined(kind, period, again, *changes)


@pytest.mark.parametrize(
    ("kind", "target", "binding", "changes"),
    [
        ("prefixes", "{visits: {margin: 90}}", ("visits", 90), ()),
        ("all", "{visits: {margin: 900}, visits_ytd: {margin: 400}}", ("visits_ytd", 400), (REPLACED,)),
        ("tables", "{visits: {margin: 90}, visits_last_2: {margin: 5000}}", ("visits", 90), (REPLACED,)),
        ("tables", "{visits_ytd: {margin: 400}}", ("visits_ytd", 400), ()),
    ],
)
def test_the_worst_number_of_the_last_period_meets_its_target(
    kind: str, target: str, binding: tuple[str, int], changes: tuple[tuple[str, str], ...]
) -> None:
    name, margin = binding
    plans = [aimed(kind, period, target, *changes) for period in ("2024-01", "2025-12")]
    told = [max(float(each.margin or 0) for each in plan.outputs if each.measure == name) for plan in plans]

    assert len({tuple(step.scale for step in plan.steps) for plan in plans}) == 1
    assert not differing_terms(plans[1], plans[1].queries[0], plans[0])
    assert told[0] < told[1] <= margin
    assert told[1] == pytest.approx(margin, rel=2e-3)
    assert all(verify(plan) == plan.loss[plan.certified] for plan in plans)


@pytest.mark.parametrize("kind", ["prefixes", "tables"])
def test_a_worst_number_that_will_miss_its_target_is_refused(kind: str) -> None:
    plan = aimed(kind, "2024-01", "{visits_ytd: {margin: 400}}")
    changed = {"targets": {"visits_ytd": Fraction(398)}}
    if kind == "tables":
        (workload,) = plan.workloads
        lower = plan.model_copy(
            update={"workloads": (workload.model_copy(update={"goal": workload.goal.model_copy(update=changed)}),)}
        )
    else:
        (query,) = plan.queries
        lower = plan.model_copy(
            update={"queries": (query.model_copy(update={"goal": query.goal.model_copy(update=changed)}),)}
        )

    with pytest.raises(BrokenPromiseError, match="will miss its target"):
        verify(lower)


@pytest.mark.parametrize(
    ("target", "code"),
    [("{visits_last_5: {margin: 9}}", "DPR-S539"), ("{visits_ytd: {relative: 0.1}}", "DPR-S540")],
)
def test_targets_of_a_workload_name_sums_that_it_publishes(target: str, code: str) -> None:
    tables = ("    by: [sex]\n", "    marginals: {sets: [[sex], [sex, age]]}\n")
    found = problems(AGE, tables, (SERIES, f"{SHORT[1]}\n    target: {target}"))

    assert [each.code for each in found] == [code]
