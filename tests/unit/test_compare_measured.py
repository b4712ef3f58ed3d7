"""``proved: false``: from the spec to the column, its p-values and what is said of them; and where it is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError, PlanError, SpecError
from dprelease.estimate import PublishedTable
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.columns import column_names, table_header
from dprelease.publish.comparing.columns import compared_tables
from dprelease.publish.comparing.words import marks_words
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.publish.rehearsed import rehearse
from dprelease.spec.load import load
from tests.planned import plan_of
from tests.statistical.test_compare_coverage import exact_of
from tests.unit.compared import SPEC, noise_of

MEASURES = '{n: {count: rows}, young: {count: rows, where: "pay < 5"}, share: {ratio: [young, n]}, m: {mean: pay}}'
COMPARE = """
      gap: {measure: share, differences_between: kind, proved: false}
      apart: {measure: m, difference_from: {kind: 1}, proved: false}
      moved: {measure: m, change_from: previous, proved: false}
      wide: {measure: m, difference_from: {kind: 1}}
"""
PLAIN = SPEC.replace("    totals: [[area]]\n", "")


def text(compare: str = COMPARE, spec: str = PLAIN, areas: int = 4, budget: str = "{epsilon: 1}") -> str:
    return spec.format(period=2024, budget=budget, areas=areas, kinds=3, measures=MEASURES, compare=compare)


def published(plan: ReleasePlan, young: list[float], seed: int = 1) -> PublishedTable:
    """Of 300 people in each cell, of whom this part of each kind is young, everybody else having the most pay."""
    chance = np.random.default_rng(seed)
    found = {}
    for step in plan.steps:
        cells = [np.where(np.arange(300) < 300 * part, 0, 10) for _ in range(4) for part in young]
        exact = np.array([exact_of(quantity, pay) for quantity in step.parts for pay in cells])
        found[step.id] = Measurement(step.id, exact + noise_of(step, len(exact), chance))
    inputs = inputs_of(plan, found)
    (table,) = compared_tables(plan, queries_as_tables(plan, inputs), inputs, {})
    return table


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return plan_of(text())


def test_the_column_has_p_values_and_says_that_no_proof_is_behind_it(plan: ReleasePlan) -> None:
    verify(plan)
    rehearse(plan)
    table = published(plan, [0.5, 0.5, 0.8])
    assert table_header(table) == column_names(plan, plan.queries[0])
    columns = {each.name: each for each in table.measures}
    assert columns["wide"].p_value is None
    gap, apart = columns["gap_1"], columns["apart"]
    assert gap.p_value is not None
    assert apart.p_value is not None
    kinds = np.tile([1, 2, 3], 4)
    assert np.isnan(gap.value[kinds == 1]).all()
    assert (gap.p_value[kinds == 3] < 1e-3).all()
    assert [each == "ok" for each in gap.status] == (kinds == 3).tolist()
    assert [each == "not_distinguishable" for each in gap.status] == (kinds == 2).tolist()
    assert (apart.lower[kinds == 3] < -3.0).all()
    assert (apart.upper - apart.lower < 0.8 * (columns["wide"].upper - columns["wide"].lower))[kinds > 1].all()
    said = " ".join(marks_words(table))
    assert "gap_1, gap_2, gap_3, apart, moved: the interval is by the method MOVER" in said
    assert "wide: marked as not distinguishable from 0 where the interval holds 0" in said


def test_of_noise_of_few_values_the_interval_is_the_one_that_is_proved() -> None:
    """At epsilon 4 the counts of a share have noise of a few values only; those of a mean have not."""
    compare = """
      measured: {measure: share, difference_from: {kind: 1}, proved: false}
      wide: {measure: share, difference_from: {kind: 1}}
    """
    columns = {
        each.name: each for each in published(plan_of(text(compare, budget="{epsilon: 9}")), [0.5, 0.4, 0.8]).measures
    }
    measured, wide = columns["measured"], columns["wide"]
    known = ~np.isnan(wide.value)
    assert measured.lower[known] == pytest.approx(wide.lower[known], abs=1e-9)
    assert measured.upper[known] == pytest.approx(wide.upper[known], abs=1e-9)
    assert measured.p_value is not None


def test_a_plan_that_does_not_say_so_has_the_bytes_that_it_had() -> None:
    assert "proved" not in plan_of(text("{wide: {measure: m, difference_from: {kind: 1}}}")).canonical()


@pytest.mark.parametrize(
    "compare",
    [
        "{a: {measure: n, difference_from: {kind: 1}, proved: false}}",
        "{a: {measure: n, change_from: previous, show: percent, proved: false}}",
        "{a: {measure: n, share_of: [area], proved: false}}",
    ],
)
def test_where_there_is_a_proof_it_is_not_given_away(compare: str) -> None:
    with pytest.raises(SpecError, match="DPR-S923"):
        load(text(compare, SPEC), "spec.yaml")


def test_groups_that_share_noise_are_refused_before_anything_is_charged() -> None:
    """Two areas of 40: a total of all is drawn, and cells are fitted to it."""
    drawn = SPEC.replace("totals: [[area]]", "totals: [[]]")
    with pytest.raises(PlanError, match=r"compare\.apart.*share noise") as caught:
        plan_of(text("{apart: {measure: m, difference_from: {kind: 1}, proved: false}}", drawn, areas=40))
    assert caught.value.code == "DPR-P346"
    plan = plan_of(text("{moved: {measure: m, change_from: previous, proved: false}}", drawn, areas=40))
    assert plan.queries[0].totals is not None
    assert plan.queries[0].totals.drawn
    verify(plan)


@pytest.mark.parametrize(
    ("name", "measure", "says"),
    [("apart", "n", "has a proof"), ("moved", "young", "has a proof")],
)
def test_a_plan_that_gives_a_proof_away_is_refused(plan: ReleasePlan, name: str, measure: str, says: str) -> None:
    query = plan.queries[0]
    other = query.compare[name].model_copy(update={"measure": measure})
    changed = query.model_copy(update={"compare": {**query.compare, name: other}})
    with pytest.raises(BrokenPromiseError, match=says):
        verify(plan.model_copy(update={"queries": (changed,)}))


def test_noise_that_is_shared_is_not_taken_for_independent() -> None:
    drawn = plan_of(
        text(
            "{apart: {measure: m, difference_from: {kind: 1}}}",
            SPEC.replace("totals: [[area]]", "totals: [[]]"),
            areas=40,
        )
    )
    query = drawn.queries[0]
    other = query.compare["apart"].model_copy(update={"proved": False})
    changed = query.model_copy(update={"compare": {"apart": other}})
    with pytest.raises(BrokenPromiseError, match="takes noise for independent"):
        verify(drawn.model_copy(update={"queries": (changed,)}))
