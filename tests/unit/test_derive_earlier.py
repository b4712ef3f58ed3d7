"""Derived tables that read earlier periods' published tables: values, margins by both releases' noise, and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.errors import DpReleaseError, PlanError
from dprelease.estimate import PublishedTable
from dprelease.measures.comparing.distances import noise_of_sum
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish.bundle.measurements import recipe_file
from dprelease.publish.comparing.earlier import EarlierRelease, needed_periods, require_alike, taken_from
from dprelease.publish.derive import earlier as reading
from dprelease.publish.derive.tables import check_derived_tables, derived_tables, made_again
from dprelease.publish.measured import inputs_of, queries_as_tables
from tests.planned import plan_of
from tests.unit.compared import measured, noise_of

SPEC = """
dprelease: 1
release: {{name: yearly, period: {period}}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: 2, delta: 1e-9}}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      area: {{type: integer, keys: {{from: 1, to: 4}}}}
      kind: {{type: integer, keys: {{from: 1, to: 3}}}}
      pay: {{type: integer, range: [0, 10]}}
queries:
  people: {query}
{more}
derive:
  apart:
    earlier: {earlier}
    sql: "{sql}"
"""
QUERY = "{table: people, by: [area, kind], measures: {n: {count: rows}}}"
BEFORE = "{before: {query: people, period: previous}}"
SQL = (
    "select now.area, now.kind, now.n - before.n as change from people as now join before "
    "on now.area = before.area and now.kind = before.kind"
)
JOINED = "from people as now join before on now.area = before.area and now.kind = before.kind"


def planned(period: int | str = 2024, query: str = QUERY, more: str = "", earlier: str = BEFORE, sql: str = SQL) -> Any:
    return plan_of(SPEC.format(period=period, query=query, more=more, earlier=earlier, sql=sql))


def cells(seed: int) -> Any:
    return np.random.default_rng(seed).integers(40, 400, (4, 3))


def made(
    plan: ReleasePlan, now: dict[str, Measurement], other: ReleasePlan, before: dict[str, Measurement], seed: int = 5
) -> PublishedTable:
    inputs = inputs_of(plan, now)
    taken = {"2023": taken_from(plan, other, before, "2023", "0" * 64, 1)}
    (table,) = derived_tables(plan, queries_as_tables(plan, inputs), inputs, seed, taken)
    return table


@pytest.fixture(scope="module")
def plans() -> tuple[ReleasePlan, ReleasePlan]:
    return planned(2024), planned(2023)


def test_a_change_is_that_of_the_two_bundles_with_the_margin_of_both_noises(
    plans: tuple[ReleasePlan, ReleasePlan],
) -> None:
    """The margin is that of the exact law of both draws; that of one draw alone would be refused here."""
    chance, (plan, other) = np.random.default_rng(3), plans
    assert needed_periods(plan) == ("2023",)
    now, before = measured(plan, cells(1), chance), measured(other, cells(2), chance)
    (change,) = made(plan, now, other, before).measures
    (one,), (two,) = plan.steps, other.steps
    assert (change.value == now[one.id].values - before[two.id].values).all()
    exact = noise_of_sum([(1.0, one.law), (-1.0, two.law)])
    alone = noise_of_sum([(1.0, one.law)])
    assert change.standard_error == pytest.approx(exact.standard_error, rel=0.12)
    assert change.margin == pytest.approx(exact.margin(Fraction(95, 100)), rel=0.15)
    assert change.margin.mean() == pytest.approx(exact.margin(Fraction(95, 100)), rel=0.05)
    assert change.margin.min() > alone.margin(Fraction(95, 100)) * 1.15


def test_intervals_cover_over_many_pairs_of_releases(plans: tuple[ReleasePlan, ReleasePlan]) -> None:
    """Both years drawn anew each time: of changes, which are linear in both, 95 % and more but for chance (5 sd)."""
    chance, (plan, other), held, numbers = np.random.default_rng(11), plans, 0, 0
    one, two = cells(1), cells(2)
    for seed in range(16):
        (change,) = made(plan, measured(plan, one, chance), other, measured(other, two, chance), seed).measures
        truth = (one - two).reshape(-1)
        held += int(((change.lower <= truth) & (truth <= change.upper)).sum())
        numbers += truth.size
    assert held / numbers >= 0.95 - 5 * (0.95 * 0.05 / numbers) ** 0.5


def test_noise_of_the_earlier_release_that_is_left_out_is_seen(
    plans: tuple[ReleasePlan, ReleasePlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: replicates of the earlier table without noise have a margin that the test above refuses."""

    def still(plan: Any, tables: Any, inputs: Any, used: Any, chance: Any, sizes: Any) -> Any:
        for count in sizes:
            yield [replace(each, measures=tuple(
                replace(one, value=np.tile(one.value, count)) for one in each.measures)) for each in tables]  # fmt: skip

    chance, (plan, other) = np.random.default_rng(3), plans
    now, before = measured(plan, cells(1), chance), measured(other, cells(2), chance)
    monkeypatch.setattr(reading, "replicated", still)
    (change,) = made(plan, now, other, before).measures
    exact = noise_of_sum([(1.0, plan.steps[0].law), (-1.0, other.steps[0].law)])
    assert change.margin.mean() < 0.8 * exact.margin(Fraction(95, 100))


def test_a_table_of_its_own_period_is_the_table_itself_and_one_that_is_not_there_is_blank(
    plans: tuple[ReleasePlan, ReleasePlan],
) -> None:
    plan = planned(2023, earlier="{before: {query: people, period: 2023}}")
    assert needed_periods(plan) == ()
    now = measured(plan, cells(1), np.random.default_rng(1))
    inputs = inputs_of(plan, now)
    (table,) = derived_tables(plan, queries_as_tables(plan, inputs), inputs, 1)
    assert (table.measures[0].value == 0).all()
    assert (table.measures[0].margin == 0).all()
    inputs = inputs_of(plans[0], measured(plans[0], cells(1), np.random.default_rng(1)))
    (table,) = derived_tables(plans[0], queries_as_tables(plans[0], inputs), inputs, 1)
    assert table.cells == 12
    assert np.isnan(table.measures[0].value).all()
    assert set(table.measures[0].status) == {"blank"}


WORKLOAD = "{table: people, marginals: {of: [area, kind], ways: [0, 1, 2]}}"


@pytest.mark.parametrize(
    ("query", "name", "sql"),
    [
        (
            WORKLOAD,
            "people__area",
            "select now.area, now.count - before.count as change from people__area as now join before on now.area = before.area",
        ),
        (
            "{table: people, by: [area, kind], totals: all, measures: {n: {count: rows}}}",
            "people",
            SQL,
        ),
        (
            "{table: people, by: [kind, area], ranges: {of: area, which: prefixes}, measures: {n: {count: rows}}}",
            "people",
            "select now.kind, now.area_to, now.n - before.n as change from people as now join before on "
            "now.area_to = before.area_to and now.kind = before.kind",
        ),
    ],
    ids=["workload", "totals", "prefixes"],
)
def test_every_kind_of_table_is_estimated_as_its_own_release_did(query: str, name: str, sql: str) -> None:
    """Every change is that of the two tables, in their rows; both have as much noise, so that of it is the root of 2."""
    plan, other = (
        planned(year, query, earlier=f"{{before: {{query: {name}, period: previous}}}}", sql=sql)
        for year in (2024, 2023)
    )
    chance = np.random.default_rng(2)
    pair = [
        {step.id: Measurement(step.id, noise_of(step, step.numbers or 0, chance)) for step in each.steps}
        for each in (plan, other)
    ]
    table = made(plan, pair[0], other, pair[1])
    own = [
        next(t for t in queries_as_tables(each, inputs_of(each, draws)) if t.name == name)
        for each, draws in zip((plan, other), pair, strict=True)
    ]
    (change,) = table.measures
    assert table.cells == own[0].cells
    now, before = (each.measures[0] for each in own)
    assert change.value == pytest.approx(now.value - before.value)
    assert change.standard_error / np.hypot(now.standard_error, before.standard_error) == pytest.approx(1, rel=0.12)


def test_the_same_numbers_are_made_again_from_the_files_alone(plans: tuple[ReleasePlan, ReleasePlan]) -> None:
    chance, (plan, other) = np.random.default_rng(3), plans
    now, before = measured(plan, cells(1), chance), measured(other, cells(2), chance)
    taken = {"2023": taken_from(plan, other, before, "2023", "0" * 64, 1)}
    again = EarlierRelease.from_canonical(taken["2023"].canonical())
    (rows,) = made_again(plan, queries_as_tables(plan, inputs_of(plan, now)), {"2023": again})
    (change,) = made(plan, now, other, before).measures
    assert (rows.values[:, 0] == change.value).all()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"earlier": "{people: {query: people, period: previous}}"}, "DPR-S736"),
        ({"period": "spring"}, "DPR-S737"),
        ({"earlier": "{1x: {query: people, period: previous}}"}, "DPR-S502"),
        ({"earlier": "{before: {query: people, period: previous}, more: {query: people, period: 2020}}"}, "DPR-P340"),
        ({"earlier": "{before: {query: persons, period: previous}}"}, "DPR-P341"),
        ({"query": QUERY[:-2] + ", m: {sum: pay, clip: {private: true, within: [0, 9]}}}}",
          "sql": SQL.replace("now.n - before.n", "now.m - before.m")}, "DPR-P341"),
        ({"sql": SQL.replace("before.n", "before.m")}, "DPR-P152"),
        ({"query": "{table: people, by: [area, kind], measures: {n: {sum: pay, clip: {private: true, within: [0, 9]}}}, "
                   "compare: {up: {measure: n, change_from: previous}}}"}, "DPR-S738"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name_before_any_data(changes: dict[str, str], code: str) -> None:
    with pytest.raises(DpReleaseError) as caught:
        check_derived_tables(planned(**changes))
    assert code in str(caught.value) or caught.value.code == code
    assert caught.value.hint or code.startswith("DPR-S")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"query": QUERY.replace("by: [area, kind]", "where: pay > 3, by: [area, kind]")}, "counts other rows"),
        ({"query": QUERY.replace("count: rows", "count: pay")}, "defined otherwise"),
        ({"query": QUERY.replace("n:", "m:"), "sql": SQL.replace(".n", ".m")}, "has no measure 'n'"),
        ({"query": QUERY.replace("[area, kind]", "[kind, area]")}, "its keys are others"),
    ],
)
def test_an_earlier_table_of_another_definition_is_refused(
    plans: tuple[ReleasePlan, ReleasePlan], changes: dict[str, str], says: str
) -> None:
    other = planned(2023, **changes)
    before = measured(other, cells(2), np.random.default_rng(1))
    with pytest.raises(PlanError, match=says) as caught:
        taken_from(plans[0], other, before, "2023", "0" * 64, 1)
    assert caught.value.code == "DPR-P331"


def test_chosen_clips_and_sums_of_draws_are_no_earlier_numbers(plans: tuple[ReleasePlan, ReleasePlan]) -> None:
    """Also of plans from before that was refused: numbers in steps of another clip, or of several draws, are no table."""
    query = "{table: people, by: [area, kind], measures: {n: {sum: pay, clip: {private: true, within: [0, 9]}}}}"
    plan, other = planned(2024, query), planned(2023, query)
    drawn = {step.id: Measurement(step.id, np.zeros(step.numbers or 0, np.int64)) for step in other.steps}
    with pytest.raises(PlanError, match="noise chooses the clip of measure 'n' anew") as caught:
        taken_from(plan, other, drawn, "2023", "0" * 64, 1)
    assert caught.value.code == "DPR-P331"
    plan, other = plans
    series: Any = object()
    of_series = other.queries[0].model_copy(update={"series": series})
    with pytest.raises(PlanError, match="its periods share their noise"):
        require_alike(plan, other.model_copy(update={"queries": (of_series,)}), "2023")


def test_measures_that_the_sql_does_not_name_may_come_and_go(plans: tuple[ReleasePlan, ReleasePlan]) -> None:
    plan = planned(2024, QUERY[:-2] + ", paid: {sum: pay, clip: [0, 9]}}}")
    other, chance = plans[1], np.random.default_rng(4)
    now = {step.id: Measurement(step.id, noise_of(step, step.numbers or 0, chance)) for step in plan.steps}
    table = made(plan, now, other, measured(other, cells(2), chance))
    assert np.isfinite(table.measures[0].margin).all()


def test_an_older_derived_table_keeps_its_text() -> None:
    plan = planned(2024, earlier="{}", sql="select area, kind, n * 2 as twice from people")
    assert "earlier" not in plan.derive[0].canonical()


def test_a_recipe_says_which_publication_of_an_earlier_period_is_taken(plans: tuple[ReleasePlan, ReleasePlan]) -> None:
    """The first one is said by its period alone, as ever; a revised or restated one by its number too."""
    plan, other = plans
    before = measured(other, cells(2), np.random.default_rng(1))
    taken = taken_from(plan, other, before, "2023", "0" * 64, 1)
    assert recipe_file(plan, {"2023": taken}) == recipe_file(plan)
    for told in ({"revision": 2}, {"restatement": 1}, {"revision": 1, "restatement": 3}):
        head = other.release.model_copy(update=told)
        changed = taken.model_copy(update={"plan": other.model_copy(update={"release": head})})
        (derived,) = json.loads(recipe_file(plan, {"2023": changed}))["derived"]
        assert derived["earlier"]["before"] == {"query": "people", "period": "2023", "measurements": "earlier/"} | told
