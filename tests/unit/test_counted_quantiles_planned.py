"""Specs and plans of quantiles from counts: what they may ask for, what becomes of it, and that every lie is caught."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.factor import Factor
from dprelease.errors import BrokenPromiseError, SpecError
from dprelease.measures import PrefixCounts
from dprelease.measures.counted_quantile import counted_along
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.accounting.choices import draw_row
from dprelease.publish.accounting.guarantee import allocation, allocation_before
from dprelease.spec.load import load
from tests.ledgers import account
from tests.planned import plan_of

HEAD = """
dprelease: 1
release: {name: incomes, period: 2024, title: Incomes}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: text, keys: [f, m]}
      area: {type: integer, keys: {from: 1, to: 20000}}
      name: {type: text}
      income: {type: decimal, range: [-1000, 500000], step: 10}
queries:
"""
COUNTED = """
  middle:
    table: people
    by: [sex]
    measures:
      earners: {count: income}
      income: {quantiles: income, at: [0.1, 0.5, 0.9], clip: [0, 200000], from: counts}
"""


@cache
def planned(queries: str = COUNTED) -> ReleasePlan:
    return plan_of(HEAD + queries)


def counted(plan: ReleasePlan) -> list[Step]:
    return [step for step in plan.steps if step.factor is not None]


def test_all_ranks_are_one_draw_of_gaussian_noise() -> None:
    plan = planned()
    (step,) = counted(plan)
    assert step.mechanism == "discrete_gaussian"
    assert [answer.measure for answer in step.answers] == ["income_q10", "income_q50", "income_q90"]
    assert step.factor == Factor(shape=(2, 1001), axis=1, kind="root", grain=2**14)
    assert step.cells == step.numbers == 2002
    assert verify(plan).epsilon <= 1


def test_other_queries_of_the_same_cells_share_the_draw_and_more_ranks_cost_nothing() -> None:
    more = COUNTED.replace("middle:", "again:").replace("at: [0.1, 0.5, 0.9]", "at: [0.01, 0.25]")
    plan = planned(COUNTED + more)
    (step,) = counted(plan)
    assert {answer.query for answer in step.answers} == {"middle", "again"}
    several = planned(COUNTED.replace("      earners: {count: income}\n", ""))
    one = planned(COUNTED.replace("      earners: {count: income}\n", "").replace("[0.1, 0.5, 0.9]", "[0.5]"))
    assert counted(several)[0].scale == counted(one)[0].scale


def test_a_gini_coefficient_is_of_the_same_draw_and_costs_nothing() -> None:
    alone = COUNTED.replace("      earners: {count: income}\n", "")
    plan = planned(alone.replace("counts}", "counts, gini: true}"))
    (step,) = counted(plan)
    assert [answer.measure for answer in step.answers][-1] == "income_gini"
    assert step.scale == counted(planned(alone))[0].scale
    assert ReleasePlan.from_canonical(plan.canonical()) == plan
    assert verify(plan).epsilon <= 1


@pytest.mark.parametrize(
    ("clip", "edges", "classes"),
    [
        ("[0, 10230]", "", 1024),
        ("[0, 10240]", "", 513),
        ("[-1000, 499000]", "", 1001),
        ("[0, 500000]", "", 1001),
        ("[0, 100]", "", 11),
        ("[0, 500]", ", edges: [0, 10, 500]", 3),
    ],
)
def test_classes_are_the_finest_of_which_there_are_at_most_1024(clip: str, edges: str, classes: int) -> None:
    plan = planned(COUNTED.replace("clip: [0, 200000]", f"clip: {clip}").replace("counts}", f"counts{edges}}}"))
    (step,) = counted(plan)
    quantity = step.aggregate.quantity
    assert step.factor is not None
    assert len(quantity.classes) == step.factor.length == classes
    low, high = (int(float(each) / 10) for each in clip.strip("[]").split(","))
    assert (quantity.classes[0], quantity.low, quantity.high) == (low, low, high)
    widths = set(np.diff(quantity.classes).tolist())
    assert edges or (len(widths) == 1 and str(next(iter(widths))).rstrip("0") in ("1", "2", "5"))


REFUSED = [
    ("counts}", "counts, edges: [0, 10, 10]}", "DPR-S587"),
    ("counts}", "counts, edges: [0]}", "DPR-S587"),
    ("counts}", "counts, edges: [10, 20]}", "DPR-S587"),
    ("counts}", "counts, edges: [0, 200010]}", "DPR-S587"),
    ("counts}", "counts, edges: [0, 15]}", "DPR-S587"),
    ("counts}", "counts, below: [0]}", "DPR-S587"),
    ("counts}", "counts, below: [12100]}", "DPR-S587"),
    ("counts}", "counts, ratio_of: [0.1, 0.9]}", "DPR-S580"),
    ("counts}", "counts, ratio_of: [0.9]}", "DPR-S"),
    ("clip: [0, 200000], from: counts}", "clip: [-1000, 200000], from: counts, ratio_of: [0.9, 0.1]}", "DPR-S587"),
    ("counts}", "ranks, below: [12000]}", "DPR-S587"),
    ("counts}", "ranks, gini: true}", "DPR-S587"),
    ("counts}", "counts, gini: 1}", "DPR-S"),
    ("clip: [0, 200000], from: counts}", "clip: [-1000, 200000], from: counts, gini: true}", "DPR-S587"),
    ("clip: [0, 200000], from: counts}", "from: counts, gini: true}", "DPR-S587"),
    ("counts}", "ranks, ratio_of: [0.9, 0.1]}", "DPR-S587"),
    ("counts}", "ranks, edges: [0, 10]}", "DPR-S587"),
    (", clip: [0, 200000], from: counts", ", from: counts, edges: [0, 10]", "DPR-S587"),
    ("counts}", f"counts, edges: {[*range(0, 40970, 10)]}}}", "DPR-S588"),
    ("by: [sex]", "by: [area]", "DPR-S588"),
    ("by: [sex]", "by: [name]\n    keys: private", "DPR-S589"),
    ("from: counts", "from: draws", "DPR-S"),
]


@pytest.mark.parametrize(("old", "new", "code"), REFUSED)
def test_what_cannot_be_drawn_is_refused_with_a_place_and_a_hint(old: str, new: str, code: str) -> None:
    assert old in COUNTED
    with pytest.raises(SpecError) as told:
        plan_of(HEAD + COUNTED.replace(old, new))
    found = [problem for problem in told.value.problems if problem.code.startswith(code)]
    assert found
    assert all(problem.where is not None and problem.hint for problem in found)


@pytest.mark.parametrize(
    ("old", "new"), [("delta: 1e-9", "delta: 0"), ("budget:", "noise: laplace\n  budget:")], ids=["no delta", "laplace"]
)
def test_they_need_gaussian_noise(old: str, new: str) -> None:
    with pytest.raises(SpecError) as told:
        load((HEAD + COUNTED).replace(old, new), "spec.yaml")
    (problem,) = [each for each in told.value.problems if each.code == "DPR-S589"]
    assert "from: ranks" in problem.hint


def test_a_spec_without_the_word_keeps_its_fingerprint_and_draws_what_is_better() -> None:
    silent = load(HEAD + COUNTED.replace(", from: counts", ""), "spec.yaml").spec
    dumped = silent.queries["middle"].measures["income"].model_dump(mode="json", by_alias=True)
    assert set(dumped) == {"where", "clip", "quantiles", "at"}
    said = load(HEAD + COUNTED, "spec.yaml").spec
    assert '"from":"counts"' in said.canonical()
    assert type(said).from_canonical(said.canonical()) == said
    assert planned(COUNTED.replace(", from: counts", "")).steps == planned().steps


SILENT = COUNTED.replace(", from: counts", "")
EARNERS = "      earners: {count: income}\n"
LONE = SILENT.replace(EARNERS, "").replace("at: [0.1, 0.5, 0.9]", "at: [0.5]")


def beside(measure: str) -> str:
    return SILENT.replace("earners: {count: income}", measure).replace("at: [0.1, 0.5, 0.9]", "at: [0.5, 0.9]")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (SILENT.replace(EARNERS, ""), True),
        (SILENT.replace("at: [0.1, 0.5, 0.9]", "at: [0.1, 0.5, 0.9], from: ranks"), False),
        (LONE, False),  # one rank whose interval nobody asked for
        (LONE.replace("at: [0.5]", "at: [0.25, 0.75]"), False),
        (LONE.replace("at: [0.5]", "at: [0, 0.5, 1]"), False),  # extremes hang on one unit
        (beside("n: {count: income}"), True),
        (beside("m: {mean: income, clip: [0, 9000]}"), True),
        (beside("n: {count: rows}"), False),
        (beside('n: {count: income, where: "income > 1"}'), False),
        (SILENT.replace("by: [sex]", "by: [area]"), False),  # 20,000 cells of 1,001 classes
        (SILENT.replace("by: [sex]", "by: [name]\n    keys: private"), False),
    ],
)
def test_what_is_drawn_where_nothing_is_said(text: str, counts: bool) -> None:
    """Counts from three ranks on, or where the number of values gives an interval; ranks where counts cannot be."""
    drawn = {part.is_counted for step in planned(text).steps for part in step.parts if part.kind == "quantile"}
    assert drawn == {counts}
    verify(planned(text))


@pytest.mark.parametrize(("old", "new"), [("delta: 1e-9", "delta: 0"), ("budget:", "noise: laplace\n  budget:")])
def test_ranks_are_drawn_without_gaussian_noise(old: str, new: str) -> None:
    drawn = [part for step in plan_of(HEAD.replace(old, new) + SILENT).steps for part in step.parts]
    assert [part.at for part in drawn if part.kind == "quantile"] == [Fraction(n, 10) for n in (1, 5, 9)]


@pytest.mark.parametrize("ranks", [2, 3])
def test_two_ranks_of_units_of_several_rows_are_drawn_by_themselves(ranks: int) -> None:
    head = HEAD.replace("    source:", "    unit_id: name\n    bounds: {max_rows: 3}\n    source:", 1)
    head = head.replace("      name: {type: text}\n", "")
    text = SILENT if ranks == 3 else beside("n: {count: income}")
    drawn = {part.is_counted for step in plan_of(head + text).steps for part in step.parts if part.kind == "quantile"}
    assert drawn == {ranks == 3}


def test_ranks_are_drawn_where_an_account_takes_no_gaussian_noise() -> None:
    plan = plan_of(HEAD + SILENT, accounts=[account(composition="basic", epsilon="100", delta="1/1000")])
    assert not any(part.is_counted for step in plan.steps for part in step.parts)


def test_plans_and_their_canonical_text_are_the_same_again() -> None:
    plan = planned(COUNTED.replace("counts}", "counts, edges: [0, 10, 500]}"))
    assert ReleasePlan.from_canonical(plan.canonical()) == plan
    assert '"starts"' not in planned().canonical()


def changed(plan: ReleasePlan, **fields: Any) -> ReleasePlan:
    (old,) = counted(plan)
    new = old.model_copy(update=fields)
    return plan.model_copy(update={"steps": tuple(new if step is old else step for step in plan.steps)})


def with_quantity(plan: ReleasePlan, **fields: Any) -> ReleasePlan:
    (step,) = counted(plan)
    quantity = step.aggregate.quantity.model_copy(update=fields)
    return changed(plan, aggregate=step.aggregate.model_copy(update={"quantity": quantity}))


def factor(**fields: Any) -> Factor:
    return Factor(**{"shape": (2, 1001), "axis": 1, "kind": "root", "grain": 2**14, **fields})


LIES: dict[str, Callable[[ReleasePlan], ReleasePlan]] = {
    "another matrix": lambda plan: changed(plan, factor=factor(grain=2**13)),
    "across cells": lambda plan: changed(plan, factor=factor(axis=0)),
    "more cells": lambda plan: changed(plan, factor=factor(shape=(3, 1001)), cells=3003),
    "fewer classes": lambda plan: changed(plan, factor=factor(shape=(2, 1000)), cells=2000),
    "another number of cells": lambda plan: changed(plan, cells=2001),
    "no matrix": lambda plan: changed(plan, factor=None),
    "another noise": lambda plan: changed(plan, mechanism="discrete_laplace"),
    "other classes than are published": lambda plan: with_quantity(plan, grain=10),
    "classes that overlap": lambda plan: with_quantity(plan, grain=1, starts=(0, 5, 5)),
    "classes beyond the clip": lambda plan: with_quantity(plan, grain=1, starts=(0, 5, 30000)),
    "a rank": lambda plan: with_quantity(plan, at=Fraction(1, 2)),
    "sums of units": lambda plan: with_quantity(plan, per="unit_cell"),
}


@pytest.mark.parametrize("lie", LIES)
def test_verification_refuses_what_is_not_so(lie: str) -> None:
    plan = planned()
    verify(plan)
    with pytest.raises(BrokenPromiseError):
        verify(LIES[lie](plan))


def test_a_choice_has_no_classes() -> None:
    plan = planned(COUNTED.replace(", from: counts", ", from: ranks"))
    step = next(step for step in plan.steps if step.choosing is not None)
    quantity = step.aggregate.quantity.model_copy(update={"starts": (0, 4)})
    lied = step.model_copy(update={"aggregate": step.aggregate.model_copy(update={"quantity": quantity})})
    steps = tuple(lied if each is step else each for each in plan.steps)
    with pytest.raises(BrokenPromiseError, match="classes of values and counts none"):
        verify(plan.model_copy(update={"steps": steps}))


def prefixes(counts: list[list[float]], starts: list[int], last: int, error: float = 0.0) -> PrefixCounts:
    n = len(starts)
    return PrefixCounts(
        np.array(starts), last, np.array(counts), np.full(n, error**2), np.full(n, error**2), Fraction(5000), np.eye(n)
    )


def test_without_noise_the_interval_is_what_the_definition_says() -> None:
    """Every quantile of these values, by the definition, for many ranks."""
    values = np.array([0, 0, 2, 3, 3, 3, 7, 9])
    exact = prefixes([np.searchsorted(values, range(10), side="right").tolist()], [*range(10)], 9)
    for rank in (Fraction(at, 24) for at in range(1, 24)):
        allowed = [q for q in range(10) if (values < q).sum() <= rank * 8 <= (values <= q).sum()]
        lower, upper = exact.between(rank, Fraction(95, 100))
        assert (lower[0], upper[0]) == (allowed[0], allowed[-1])
        assert exact.quantile(rank)[0] == allowed[0]


def test_values_rise_with_their_ranks_whatever_the_noise() -> None:
    chance = np.random.default_rng(7)
    noisy = prefixes(np.cumsum(chance.normal(1, 30, (50, 40)), axis=1).tolist(), [*range(0, 80, 2)], 79)
    found = np.stack([noisy.quantile(Fraction(at, 20)) for at in range(21)])
    assert (np.diff(found, axis=0) >= 0).all()
    assert ((found >= 0) & (found <= 79)).all()


def test_a_place_within_a_class_is_in_proportion_and_ends_are_those_of_classes() -> None:
    exact = prefixes([[10.0, 30.0]], [0, 10], 30)
    assert exact.quantile(Fraction(2, 3)).tolist() == [20]  # half of the second class
    assert [each.tolist() for each in exact.between(Fraction(2, 3), Fraction(95, 100))] == [[10], [30]]


def test_a_cell_that_is_said_to_have_less_than_nothing_has_the_whole_clip() -> None:
    none = prefixes([[-50.0, -80.0, -100.0]], [0, 1, 2], 2)
    assert [each.tolist() for each in none.between(Fraction(1, 2), Fraction(95, 100))] == [[0], [2]]


def test_classes_of_a_clip_that_no_width_divides_end_at_the_clip() -> None:
    quantity = Quantity(kind="quantile", column="x", low=-3, high=2045)
    found = counted_along(quantity)
    assert (found.grain, found.classes[:2], found.classes[-1]) == (5, (-3, 2), 2042)
    assert found.grid == 1


def test_the_accounting_tells_the_cells_that_they_are_published_in_and_what_is_drawn_of_each() -> None:
    plan = planned()
    rows = {row["query"]: row for row in allocation(plan)}
    before = {row["query"]: row for row in allocation_before(plan)}
    for step in counted(plan):
        classes = len(step.aggregate.quantity.classes)
        assert step.cells is not None
        for query in {each.query for each in step.answers}:
            columns = plan.keys(next(each for each in plan.queries if each.name == query))
            assert rows[query]["cells"] == prod(len(column.keys or ()) for column in columns)
            assert before[query]["cells"] == step.cells == rows[query]["cells"] * classes
        assert draw_row(step)["cells"] == f"{step.cells // classes} × {classes:,}"
