"""Every claim of a plan about a workload has a lie that must be caught: one thing is made wrong at a time."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.residual import Residual
from dprelease.catalog.weight import RowWeight
from dprelease.errors import BrokenPromiseError
from dprelease.measures.count import Count
from dprelease.plan.document import Answer, Feed, ReleasePlan, Step
from dprelease.plan.verify import workloads as checked
from dprelease.plan.verify.whole_plan import verify
from dprelease.plan.verify.workloads import check_workloads
from dprelease.privacy.budget import Budget
from tests.planned import plan_of
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of

FILES = {"geo": GEO.encode()}
Lie = Callable[[ReleasePlan], ReleasePlan]


@cache
def good() -> ReleasePlan:
    """A workload without levels and a budget of its own, one with levels and a target, and a query that is neither."""
    target = "target: {count: {margin: 60}}"
    return plan_of(spec_of(crosstabs("budget: {epsilon: 1/2}"), areas(target), ordinary()), files=FILES)


def _all(plan: ReleasePlan, name: str, **update: Any) -> ReleasePlan:
    """Every query of a workload, changed alike."""
    queries = tuple(each.model_copy(update=update) if each.workload == name else each for each in plan.queries)
    return plan.model_copy(update={"queries": queries})


def _query(name: str, **update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        assert any(each.name == name for each in plan.queries)
        queries = tuple(each.model_copy(update=update) if each.name == name else each for each in plan.queries)
        return plan.model_copy(update={"queries": queries})

    return lie


def _workload(name: str, **update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        return plan.model_copy(
            update={"workloads": tuple(e.model_copy(update=update) if e.name == name else e for e in plan.workloads)}
        )

    return lie


def _goal(name: str, **update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        (workload,) = (each for each in plan.workloads if each.name == name)
        return _workload(name, goal=workload.goal.model_copy(update=update))(plan)

    return lie


def _step(step_id: str, **update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        plan.step(step_id)
        steps = tuple(each.model_copy(update=update) if each.id == step_id else each for each in plan.steps)
        return plan.model_copy(update={"steps": steps})

    return lie


def _grouped(step_id: str, **update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        return _step(step_id, aggregate=plan.step(step_id).aggregate.model_copy(update=update))(plan)

    return lie


def _tree(**update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        tree = plan.catalog.hierarchies["geography"].model_copy(update=update)
        return plan.model_copy(update={"catalog": plan.catalog.model_copy(update={"hierarchies": {"geography": tree}})})

    return lie


def _outputs(name: str, **update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        outputs = tuple(each.model_copy(update=update) if each.query == name else each for each in plan.outputs)
        return plan.model_copy(update={"outputs": outputs})

    return lie


def _twice(plan: ReleasePlan) -> ReleasePlan:
    return plan.model_copy(update={"workloads": (*plan.workloads, plan.workloads[0])})


def _unpublished(plan: ReleasePlan) -> ReleasePlan:
    queries = tuple(each for each in plan.queries if each.name != "crosstabs__sex")
    return plan.model_copy(update={"queries": queries})


def _short(plan: ReleasePlan) -> ReleasePlan:
    plan = _unpublished(plan)
    tables = tuple(each for each in plan.workloads[0].tables if each != "crosstabs__sex")
    return _workload("crosstabs", tables=tables)(plan)


def _swapped(plan: ReleasePlan) -> ReleasePlan:
    """Two tables of one workload in each other's place."""
    first, second, *rest = plan.workloads[0].tables
    return _workload("crosstabs", tables=(second, first, *rest))(plan)


def _take(name: str, at: int, **update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        (workload,) = (each for each in plan.workloads if each.name == name)
        takes = list(workload.takes)
        takes[at] = takes[at].model_copy(update=update)
        return _workload(name, takes=tuple(takes))(plan)

    return lie


def _undrawn(plan: ReleasePlan) -> ReleasePlan:
    """The draw of the joint table is left out."""
    return _workload("crosstabs", takes=plan.workloads[0].takes[:-1])(plan)


def _crossed(plan: ReleasePlan) -> ReleasePlan:
    """The draws of two places exchanged."""
    first, second, third, *rest = plan.workloads[0].takes
    second, third = (a.model_copy(update={"step": b.step}) for a, b in ((second, third), (third, second)))
    return _workload("crosstabs", takes=(first, second, third, *rest))(plan)


def _scaled(factor: Fraction) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        own = {take.step for each in plan.workloads for take in each.takes if each.name == "areas"}
        steps = tuple(
            each.model_copy(update={"scale": each.scale * factor}) if each.id in own else each for each in plan.steps
        )
        return plan.model_copy(update={"steps": steps})

    return lie


SEX, TOTAL = "crosstabs.sex.residual", "crosstabs.total"
WHERE = {"count": Count(count="rows", where="age > 3")}
LIES: dict[str, tuple[Lie, str]] = {
    "a workload twice": (_twice, "two workloads publish one table"),
    "a table that is not published": (_unpublished, "belongs to no workload, or is not published"),
    "a table that no workload has": (_query("population", workload="crosstabs"), "belongs to no workload"),
    "a table too few": (_short, "another number of tables"),
    "a table of part of the rows": (_query("crosstabs__sex", measures=WHERE), "no table of counts of a workload"),
    "another measure": (
        _query("crosstabs__sex", measures={"other": Count(count="rows")}, inputs={"other": ()}),
        "no table of counts of a workload",
    ),
    "a table of units": (
        _query("crosstabs__sex", measures={"count": Count(count="units")}),
        "no table of counts of a workload",
    ),
    "a table with a draw of its own": (
        _query("crosstabs__sex", inputs={"count": (Feed(step=SEX),)}),
        "no table of counts of a workload",
    ),
    "the table of another workload": (_query("crosstabs__sex", workload="areas"), "belongs to another workload"),
    "other columns": (_query("crosstabs__sex", by=("race",)), "other columns than its place says"),
    "tables in each other's place": (_swapped, "other columns than its place says"),
    "another condition": (_query("crosstabs__sex", where="age > 3"), "counts other rows than its workload"),
    "rows without a race": (_query("crosstabs__sex", complete=("sex",)), "counts other rows than its workload"),
    "another table": (lambda plan: _all(plan, "crosstabs", table="others"), "counts other rows than its workload"),
    "bounds": (_query("crosstabs__sex", max_groups=1), "bounds or keys that a workload cannot have"),
    "rows per group": (_query("crosstabs__sex", max_rows_per_group=1), "bounds or keys that a workload cannot have"),
    "private keys": (_query("crosstabs__sex", private=True), "bounds or keys that a workload cannot have"),
    "rows that are in some tables only": (
        lambda plan: _all(plan, "crosstabs", complete=("race", "sex")),
        "in some of its tables only",
    ),
    "people of no area": (
        lambda plan: _all(plan, "areas", complete=("race", "sex")),
        "in some of its tables only",
    ),
    "levels of no hierarchy": (_workload("areas", hierarchy=None), "levels of no hierarchy"),
    "levels in another order": (_tree(levels=("state", "region", "puma")), "other levels than its hierarchy"),
    "a level without parents": (_tree(parents=((0, 1, 0),)), "levels without parents"),
    "a node without a parent": (_tree(parents=((0, 1, 0), (0, 1, 0, 2))), "without a parent, or one without children"),
    "a node without children": (_tree(parents=((0, 1, 0), (0, 1, 0, 1, 1))), "or one without children"),
    "a parent that is not there": (_tree(parents=((0, 1, 2), (0, 1, 0, 2, 1))), "without a parent"),
    "a draw that is not there": (_take("crosstabs", 0, step="crosstabs.none"), "needs a step that is not there"),
    "a draw at another level": (_take("areas", 0, level=1), "other cells than its place says"),
    "a draw of other attributes": (_take("crosstabs", 1, axes=(1,)), "other cells than its place says"),
    "draws in each other's place": (_crossed, "other cells than its place says"),
    "a draw by other columns": (_grouped(SEX, by=("race",)), "other cells than its place says"),
    "a draw of part of the rows": (_grouped(SEX, where="age > 3"), "counts other rows than its workload"),
    "a draw of more rows": (_grouped(SEX, complete=("sex",)), "counts other rows than its workload"),
    "a draw with bounds": (_grouped(SEX, max_groups=1), "bounds or keys that a workload cannot have"),
    "a draw of units": (_grouped(TOTAL, quantity=Quantity(kind="units")), "counts something else than rows"),
    "a draw of part of the count": (
        _grouped(TOTAL, quantity=Quantity(kind="rows", where="age > 3")),
        "counts something else than rows",
    ),
    "a draw of weighted rows": (
        _grouped(TOTAL, quantity=Quantity(kind="rows", weight=RowWeight(column="age", step=Fraction(1), clip=2))),
        "counts rows more or less often than",
    ),
    "a private list": (_grouped(SEX, min_units=2), "bounds or keys that a workload cannot have"),
    "a draw too few": (_undrawn, "draws too little for its tables"),
    "another noise": (_step(TOTAL, mechanism="discrete_laplace"), "has draws of two kinds of noise"),
    "no noise of a workload": (_step(TOTAL, mechanism="optimal_selection"), "is no draw of a workload"),
    "a draw with more parts": (_step(TOTAL, joined=(Quantity(kind="units"),)), "is no draw of a workload"),
    "the residual of a total": (
        _step(TOTAL, residual=Residual(shape=(), axes=(), grain=1)),
        "the residual of other attributes",
    ),
    "a residual along other columns": (
        _step("crosstabs.sex-race.residual", residual=Residual(shape=(2, 3), axes=(1,), grain=1)),
        "the residual of other attributes",
    ),
    "a step that answers another query, too": (
        _step(TOTAL, answers=(Answer(query="crosstabs", measure="count"), Answer(query="population", measure="n"))),
        "shares a step",
    ),
    "a budget at another delta": (
        _goal("crosstabs", budget=Budget(epsilon=Fraction(1, 2), delta=Fraction(1, 100))),
        "reads its budget at another delta",
    ),
    "a smaller budget": (
        _goal("crosstabs", budget=Budget(epsilon=Fraction(49, 100), delta=Fraction(1, 10**9))),
        "costs more than its own budget",
    ),
    "a table without an accuracy": (_outputs("crosstabs__sex", standard_error=None), "has no accuracy"),
    "a table without a margin": (_outputs("areas__puma", margin=None), "has no accuracy"),
    "a smaller error": (_outputs("crosstabs__sex", standard_error="1"), "told to be more accurate than it is"),
    "a smaller margin": (_outputs("areas__puma__sex", margin="1"), "told to be more accurate than it is"),
    "the error of other draws": (_outputs("areas__puma", steps=(SEX,)), "is told of other steps"),
    "a target that is missed": (_goal("areas", targets={"count": Fraction(59)}), "misses its target"),
    "a target of no measure": (_goal("areas", targets={"other": Fraction(1000)}), "misses its target"),
    "more noise than told": (_scaled(Fraction(101, 100)), "told to be more accurate than it is"),
}


def test_a_plan_that_tells_the_truth_passes() -> None:
    check_workloads(good())
    assert verify(good()) == good().loss[good().certified]


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_caught_by_name(lie: str) -> None:
    change, why = LIES[lie]
    wrong = change(good())
    assert wrong != good()
    with pytest.raises(BrokenPromiseError, match=why):
        check_workloads(wrong)
    with pytest.raises(BrokenPromiseError):
        verify(wrong)


def _messages() -> Iterator[str]:
    """What each requirement of the check says when it is not met, without what differs from plan to plan."""
    ours = ("check_workloads", "_check_tables", "_check_tree", "_check_take", "_check_goal")
    source = "\n".join(inspect.getsource(getattr(checked, name)) for name in ours)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
            message = node.args[1]
            pieces = message.values if isinstance(message, ast.JoinedStr) else [message]
            yield "".join(str(piece.value) for piece in pieces if isinstance(piece, ast.Constant)).strip()


def test_every_requirement_has_a_lie_that_it_meets() -> None:
    messages = list(_messages())
    assert len(messages) > 20
    assert [each for each in messages if not any(why in each for _, why in LIES.values())] == []


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(99, 100)])
def test_a_draw_with_less_noise_is_refused(factor: Fraction) -> None:
    for workload in good().workloads:
        for take in workload.takes:
            step = good().step(take.step)
            with pytest.raises(BrokenPromiseError):
                verify(_step(step.id, scale=step.scale * factor)(good()))


def test_a_draw_with_a_smaller_sensitivity_or_grain_is_refused() -> None:
    for step in _residuals(good().steps):
        assert step.residual is not None
        reach = step.sensitivity
        smaller = reach.model_copy(update={"l2_squared": reach.l2_squared - 1})
        other = step.residual.model_copy(update={"grain": step.residual.grain + 1})
        for update in ({"sensitivity": smaller}, {"residual": other}):
            with pytest.raises(BrokenPromiseError):
                verify(_step(step.id, **update)(good()))


def _residuals(steps: Iterable[Step]) -> list[Step]:
    return [step for step in steps if step.residual is not None]


EPSILON, RHO = "{epsilon: 1, delta: 1e-9}", "{rho: 1/10, delta: 1e-9}"


@pytest.mark.thin(every=3)
@pytest.mark.parametrize(
    ("relation", "units", "budget"),
    [
        ("add_remove", False, EPSILON),
        ("add_remove", True, RHO),
        ("replace_one", False, RHO),
        ("replace_one", True, EPSILON),
    ],
)
def test_two_workloads_and_a_query_in_one_release_spend_the_budget(relation: str, units: bool, budget: str) -> None:
    plan = plan_of(
        spec_of(crosstabs("share: 2"), areas(), ordinary(), relation=relation, units=units, budget=budget), files=FILES
    )
    assert verify(plan) == plan.loss[plan.certified]
    assert plan.unspent is None
    assert sum(step.share for step in plan.steps) == 1
    assert _share_of(plan, "crosstabs") == Fraction(1, 2)
    assert _share_of(plan, "areas") == Fraction(1, 4)


def _share_of(plan: ReleasePlan, query: str) -> Fraction:
    return sum((step.share for step in plan.steps if step.answers[0].query == query), Fraction(0))


def test_shares_are_the_published_products_and_one_table_has_none_where_null() -> None:
    shares = (
        "shares:\n  levels: {region: 1/7, state: 2/7, puma: 4/7}\n"
        '  tables: {total: [null, 1/4, 1/4], sex: [1/2, 1/4, 1/4], "sex*race": 1/2}'
    )
    plan = plan_of(spec_of(areas(shares)), files=FILES)
    found = {step.id: step.share for step in plan.steps}
    assert found == {
        "areas.region.sex": Fraction(1, 14),
        "areas.region.sex-race": Fraction(1, 14),
        "areas.state.total": Fraction(1, 14),
        "areas.state.sex": Fraction(1, 14),
        "areas.state.sex-race": Fraction(1, 7),
        "areas.puma.total": Fraction(1, 7),
        "areas.puma.sex": Fraction(1, 7),
        "areas.puma.sex-race": Fraction(2, 7),
    }
    assert verify(plan) == plan.loss[plan.certified]
    assert [each.name for each in plan.queries][:3] == [
        "areas__region",
        "areas__region__sex",
        "areas__region__sex__race",
    ]


def test_a_plan_of_workloads_is_a_function_and_survives_its_json() -> None:
    again = plan_of(
        spec_of(crosstabs("budget: {epsilon: 1/2}"), areas("target: {count: {margin: 60}}"), ordinary()), FILES
    )
    assert again.canonical() == good().canonical()
    assert ReleasePlan.model_validate_json(good().canonical()).canonical() == good().canonical()


@pytest.mark.slow
def test_a_workload_more_leaves_the_draws_of_pinned_ones_as_they_are() -> None:
    """What is pinned costs what it says, whatever stands beside it."""
    alone = plan_of(spec_of(crosstabs("budget: {epsilon: 1/2}"), ordinary()), files=FILES)
    beside = plan_of(spec_of(crosstabs("budget: {epsilon: 1/2}"), areas(), ordinary()), files=FILES)
    own = [step for step in alone.steps if step.answers[0].query == "crosstabs"]
    assert [(s.id, s.scale) for s in own] == [(s.id, beside.step(s.id).scale) for s in own]
    assert alone.step("population.rows").scale < beside.step("population.rows").scale
    assert list(alone.queries) == [q for q in beside.queries if q.workload != "areas"]
