"""Differences between all pairs of groups, and margins that are asked of columns that compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError, PlanError, SpecError
from dprelease.estimate import PublishedTable, coded
from dprelease.measures.comparing.comparison import compared_named
from dprelease.measures.comparing.distances import noise_of_sum, stand_out
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.comparing.columns import compared_tables
from dprelease.publish.comparing.words import marks_words
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.spec.load import load
from tests.planned import plan_of
from tests.unit.compared import SPEC, measured, noise_of, planned

PAIRS = "{gap: {measure: n, differences_between: kind}}"
COUNT = "{n: {count: rows}}"
MEAN = "{n: {count: rows}, m: {mean: pay, clip: [0, 10]}}"
GAUSS = "{rho: 1/20, delta: 1e-9}"


def text(compare: str, more: str = "", measures: str = COUNT, budget: str = "{epsilon: 2}", kinds: int = 4) -> str:
    made = SPEC.format(period=2024, budget=budget, areas=3, kinds=kinds, measures=measures, compare=compare)
    return made.rstrip() + f"\n    {more}\n"


def published(plan: ReleasePlan, cells: Any, chance: np.random.Generator) -> PublishedTable:
    inputs = inputs_of(plan, measured(plan, cells, chance))
    (table,) = compared_tables(plan, queries_as_tables(plan, inputs), inputs, {})
    return table


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return planned(GAUSS, 3, 4, 2024, PAIRS)


def test_every_group_is_subtracted_from_every_other_one(plan: ReleasePlan) -> None:
    verify(plan)
    chance = np.random.default_rng(24)
    table = published(plan, chance.integers(0, 60, (3, 4)), chance)
    columns = {each.name: each for each in table.measures}
    areas, kinds = (list(coded(each)) for each in table.keys)
    places = {key: at for at, key in enumerate(zip(areas, kinds, strict=True))}
    assert list(columns) == ["n", "gap_1", "gap_2", "gap_3", "gap_4"]
    pairs = 0
    for (area, kind), at in places.items():
        for other in ("1", "2", "3", "4"):
            one = columns[f"gap_{other}"]
            if kind in ("_total", other):
                assert np.isnan(one.value[at])
                assert one.never is not None
                assert one.never[at]
                continue
            two, there = columns[f"gap_{kind}"], places[area, other]
            assert one.value[at] == columns["n"].value[at] - columns["n"].value[there] == -two.value[there]
            assert one.p_value is not None is not two.p_value
            assert (one.p_value[at], one.lower[at]) == (two.p_value[there], -two.upper[there])
            assert one.status[at] == two.status[there]
            pairs += 1
    assert pairs == 3 * 4 * 3


def test_all_pairs_are_judged_together(plan: ReleasePlan) -> None:
    """By the p-values of all columns at once; column by column other marks come out."""
    chance, apart, others = np.random.default_rng(7), 0, 0
    for _ in range(8):
        table = published(plan, np.full((3, 4), 40) + np.arange(4) * 4, chance)
        columns = [each for each in table.measures if each.compared is not None]
        p_values = np.stack([each.p_value for each in columns if each.p_value is not None])
        told = stand_out(p_values, 0.05)
        alone = np.stack([stand_out(each, 0.05) for each in p_values])
        shown = np.array([[status == "ok" for status in each.status] for each in columns])
        assert (shown == told).all()
        apart += int(told.sum())
        others += int((told != alone).sum())
    assert apart > 10
    assert others > 0


def test_of_pairs_of_equal_groups_hardly_a_release_has_any_that_stands_out(plan: ReleasePlan) -> None:
    """All 30 groups alike, in 1,500 releases; and where ten of them differ few of the pairs told apart are equal ones."""
    (query,) = plan.queries
    law = plan.step(query.inputs["n"][0].step).law
    noise, chance = noise_of_sum([(1.0, law), (-1.0, law)]), np.random.default_rng(11)
    at = np.triu_indices(30, 1)
    true = np.concatenate([np.zeros(20), np.linspace(8, 60, 10)])
    drawn = noise_of(plan.steps[0], 1500 * 30, chance).reshape(1500, 30)
    wrong, shares = 0, []
    for each in drawn:
        alike, other = (numbers[at[0]] - numbers[at[1]] for numbers in (each, each + true))
        wrong += bool(stand_out(noise.p_values(alike), 0.05).any())
        told = stand_out(noise.p_values(other), 0.05)
        shares.append((told & (true[at[0]] == true[at[1]])).sum() / max(told.sum(), 1))
    assert wrong <= 1500 * 0.05
    assert np.mean(shares) <= 0.05
    assert np.mean(shares) > 0  # so that it can be seen


def test_a_page_says_that_pairs_are_judged_together(plan: ReleasePlan) -> None:
    table = published(plan, np.full((3, 4), 40), np.random.default_rng(1))
    (words,) = marks_words(table)
    assert words.startswith("gap_1, gap_2, gap_3, gap_4: all pairs of groups, each from both sides.")


def test_columns_are_named_by_their_groups() -> None:
    keys = 'kind: {type: text, keys: ["North East", "Île", "a-b"]}'
    old = "kind: {type: integer, keys: {from: 1, to: 4}}"
    assert old in text(PAIRS)
    named = plan_of(text(PAIRS).replace(old, keys)).queries[0].compare
    assert list(named) == ["gap_North_East", "gap_Ile", "gap_a_b"]
    same = plan_of(text(PAIRS).replace(old, keys.replace("Île", "a b"))).queries[0].compare
    assert list(same) == ["gap_1", "gap_2", "gap_3"]
    assert {each.difference_from for each in same.values()} == {("kind", key) for key in ("North East", "a b", "a-b")}


@pytest.mark.parametrize(
    ("compare", "kinds", "code"),
    [
        (PAIRS, 21, "DPR-S780"),
        ("{gap: {measure: n, differences_between: age}}", 4, "DPR-S435"),
        ("{gap: {measure: n, differences_between: kind, change_from: previous}}", 4, "DPR-S431"),
        ("{gap: {measure: n, differences_between: kind, show: percent}}", 4, "DPR-S431"),
        ("{gap: {measure: m, differences_between: kind}}", 4, "DPR-S434"),
    ],
)
def test_pairs_that_cannot_be_are_refused(compare: str, kinds: int, code: str) -> None:
    with pytest.raises(SpecError) as error:
        load(text(compare, kinds=kinds), "spec.yaml")
    assert {each.code for each in error.value.problems} == {code}


def test_a_column_that_would_have_the_name_of_another_one_is_refused_before_anything_is_charged() -> None:
    for compare in (
        "{gap: {measure: n, differences_between: kind}, gap_2: {measure: n, change_from: previous}}",
        "{pay: {measure: n, differences_between: kind}, pay_3: {measure: n, change_from: previous}}",
    ):
        with pytest.raises(PlanError, match="DPR-P345"):
            plan_of(text(compare))


def lied(plan: ReleasePlan, **fields: Any) -> ReleasePlan:
    (query,) = plan.queries
    return plan.model_copy(update={"queries": (query.model_copy(update=fields),)})


def test_plans_that_lie_about_pairs_are_refused(plan: ReleasePlan) -> None:
    (query,) = plan.queries
    one = query.compare["gap_2"]
    for lie in (
        {"difference_from": ("kind", "1")},
        {"difference_from": ("area", "2")},
        {"among": "others"},
        {"difference_from": None, "change_from": "previous"},
    ):
        with pytest.raises(BrokenPromiseError):
            verify(lied(plan, compare={**query.compare, "gap_2": one.model_copy(update=lie)}))
    with pytest.raises(BrokenPromiseError):
        verify(lied(plan, compare={name: each for name, each in query.compare.items() if name != "gap_2"}))


CHANGE, GROWTH = (
    "{change: {measure: n, change_from: previous}}",
    "{growth: {measure: n, change_from: previous, show: percent}}",
)
SHARE, APART = (
    "{share: {measure: n, share_of: [area], show: percent}}",
    "{apart: {measure: m, difference_from: {kind: 1}}}",
)
INDEX = "{index: {measure: n, index_to: 2023}}"


@pytest.mark.parametrize(
    ("compare", "name", "margin", "nearly", "budget"),
    [
        (PAIRS, "gap", 30, 0.05, "{epsilon: 2}"),
        (PAIRS, "gap", 30, 0.05, GAUSS),
        (CHANGE, "change", 30, 0.05, "{epsilon: 2}"),
        (SHARE, "share", 15, 0.05, GAUSS),
        (GROWTH, "growth", 40, 0.1, "{epsilon: 2}"),
        (INDEX, "index", 60, 0.1, GAUSS),
        (APART, "apart", 5, 0.1, "{rho: 1, delta: 1e-9}"),
    ],
)
def test_a_margin_is_met_by_a_column_that_compares(
    compare: str, name: str, margin: float, nearly: float, budget: str
) -> None:
    measures = MEAN if name == "apart" else COUNT
    plan = plan_of(text(compare, f"target: {{{name}: {{margin: {margin}}}}}", measures, budget))
    verify(plan)
    (query,) = plan.queries
    told = {each.measure: float(each.margin) for each in plan.outputs if each.margin is not None}
    asked = [label for label in query.compare if query.compare[label] is not None]
    assert compared_named(query.compare, name) is query.compare[asked[0]]
    for label in asked:
        assert margin * (1 - nearly) <= told[label] <= margin
    goal = query.goal.model_copy(update={"targets": {name: query.goal.targets[name] * 9 / 10}})
    with pytest.raises(BrokenPromiseError, match="misses its target"):
        verify(lied(plan, goal=goal))


@pytest.mark.parametrize(
    ("compare", "target", "code"),
    [
        (CHANGE, "{change: {relative: 0.1}}", "DPR-S541"),
        (PAIRS, "{gap_2: {margin: 10}}", "DPR-S539"),
        ("{share: {measure: pay, share_of: [area]}}", "{share: {margin: 1}}", "DPR-S585"),
    ],
)
def test_margins_that_cannot_be_planned_are_refused(compare: str, target: str, code: str) -> None:
    measures = "{n: {count: rows}, pay: {sum: pay}}" if "pay" in compare else COUNT
    with pytest.raises(SpecError) as error:
        load(text(compare, f"target: {target}", measures), "spec.yaml")
    assert {each.code for each in error.value.problems} == {code}


def test_a_growth_without_a_guess_of_rows_has_no_margin_to_meet() -> None:
    bare = text(GROWTH, "target: {growth: {margin: 40}}").replace("    expect: {n: 40}\n", "")
    with pytest.raises(SpecError) as error:
        load(bare, "spec.yaml")
    assert {each.code for each in error.value.problems} == {"DPR-S542"}
