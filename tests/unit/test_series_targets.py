"""Targets for periods of a series and for their sums: one noise for all periods, which meets them for ever."""

from __future__ import annotations

import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify

from .series_example import SERIES, problems, series_plan

TOTAL = ("sums: [3, 12, ytd]", "sums: [12, total], horizon: 36")
FIRST, LATER, LAST = "2024-01", "2024-03", "2025-12"
QUOTIENT = (
    "{visits: {count: rows}}",
    "{visits: {count: rows}, wait: {mean: hours, clip: [0, 10]}}\n    expect: {visits: 2000}",
)


def _plan(period: str, target: str, *changes: tuple[str, str]) -> ReleasePlan:
    at = () if period == LATER else (("period: 2024-03", f"period: {period}"),)
    return series_plan((SERIES, f"{SERIES}\n    target: {target}"), *at, *changes)


def _margins(plan: ReleasePlan) -> dict[str, float]:
    return {each.measure: float(each.margin) for each in plan.outputs if each.margin is not None}


@pytest.mark.thin(first=3)
@pytest.mark.parametrize(
    ("target", "binding", "changes"),
    [
        ("{visits: {margin: 40}}", ("visits", 40.0), ()),
        ("{visits_last_12: {margin: 100}}", ("visits_last_12", 100.0), ()),
        ("{visits_ytd: {margin: 100}, visits: {margin: 60}}", ("visits_ytd", 100.0), ()),
        ("{visits: {margin: 30}, visits_last_3: {margin: 500}}", ("visits", 30.0), ()),
        ("{visits_total: {margin: 200}}", ("visits_total", 200.0), (TOTAL,)),
        ("{wait_ytd: {margin: 0.5}}", ("wait_ytd", 0.5), (QUOTIENT,)),
    ],
)
def test_every_period_has_the_noise_with_which_the_last_one_meets_its_target(
    target: str, binding: tuple[str, float], changes: tuple[tuple[str, str], ...]
) -> None:
    last = "2026-12" if "total" in target else LAST
    between = () if changes or len(target) > 24 else (LATER,)  # one of these is enough for a month amid the others
    plans = [_plan(period, target, *changes) for period in (FIRST, *between, last)]

    assert len({tuple(step.scale for step in plan.steps) for plan in plans}) == 1
    assert all(verify(plan) == plan.loss[plan.certified] for plan in plans)
    name, margin = binding
    told = _margins(plans[0 if name == "wait_ytd" else -1])[name]  # a mean errs most of the fewest rows, in January
    assert told <= margin
    assert told == pytest.approx(margin, rel={"wait_ytd": 0.08, "visits_total": 0.03}.get(name, 2e-3))
    assert all(_margins(plan).get(name, 0.0) <= margin for plan in plans)
    assert float(plans[0].loss[plans[0].certified].epsilon) < 0.5


def test_noise_that_will_miss_its_target_in_the_end_is_refused() -> None:
    plan = _plan(FIRST, "{visits: {margin: 40}}")
    (query,) = plan.queries
    target = query.goal.model_copy(update={"targets": {"visits": query.goal.targets["visits"] * 97 / 100}})

    assert _margins(plan)["visits"] < 0.97 * 40  # as it is told for the first period, it meets it
    with pytest.raises(BrokenPromiseError, match="will miss its target"):
        verify(plan.model_copy(update={"queries": (query.model_copy(update={"goal": target}),)}))


def test_a_sum_since_january_that_errs_most_before_december_meets_its_target() -> None:
    """A band that is made for twelve months alone: eleven of them err more."""
    weights = ("sums: [3, 12, ytd]", "sums: [12, ytd], minimize: {period: 1, 12: 10000}")
    plans = [_plan(period, "{visits_ytd: {margin: 100}}", weights) for period in ("2025-11", "2025-12")]
    told = [_margins(plan)["visits_ytd"] for plan in plans]

    assert told[1] < told[0] <= 100
    assert told[0] == pytest.approx(100, rel=2e-3)
    assert all(verify(plan) == plan.loss[plan.certified] for plan in plans)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("{visits_last_5: {margin: 40}}", "DPR-S539"),
        ("{visits_ytd: {relative: 0.1}}", "DPR-S541"),
        ("{visits_ytd: {margin: 40}}", ""),
    ],
)
def test_targets_name_sums_that_are_published(target: str, code: str) -> None:
    found = problems((SERIES, f"{SERIES}\n    target: {target}"))

    assert [each.code for each in found] == ([code] if code else [])


def test_a_mean_of_periods_needs_a_guess_of_rows() -> None:
    mean = ("{visits: {count: rows}}", "{visits: {mean: hours, clip: [0, 10]}}")
    found = problems((SERIES, f"{SERIES}\n    target: {{visits_ytd: {{margin: 2}}}}"), mean)

    assert [each.code for each in found] == ["DPR-S542"]
