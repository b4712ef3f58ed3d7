"""What a plan publishes exactly is held against what may be exact: one thing is made wrong at a time."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.errors import BrokenPromiseError
from dprelease.measures.count import Count
from dprelease.plan.document import Feed, Goal, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.plan.verify.workloads import _check_invariant, check_invariants
from tests.invariants import exact_states
from tests.planned import plan_of
from tests.workloads import GEO

FILES = {"geo": GEO.encode()}
Lie = Callable[[ReleasePlan], ReleasePlan]


@cache
def good() -> ReleasePlan:
    return plan_of(exact_states(), files=FILES)


def _exact(**update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        (one,) = plan.invariants
        return plan.model_copy(update={"invariants": (one.model_copy(update=update),)})

    return lie


def _counts(**update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        return _exact(aggregate=plan.invariants[0].aggregate.model_copy(update=update))(plan)

    return lie


def _query(**update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        queries = tuple(each.model_copy(update=update) if each.name == "states" else each for each in plan.queries)
        return plan.model_copy(update={"queries": queries})

    return lie


def _table(**update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        table = plan.catalog.tables["persons"].model_copy(update=update)
        return plan.model_copy(update={"catalog": plan.catalog.model_copy(update={"tables": {"persons": table}})})

    return lie


def _other_account(plan: ReleasePlan) -> ReleasePlan:
    """The invariant is of a table that no noisy query reads."""
    tables = {**plan.catalog.tables, "others": plan.catalog.tables["persons"].model_copy(update={"account": "other"})}
    plan = plan.model_copy(update={"catalog": plan.catalog.model_copy(update={"tables": tables})})
    return _query(table="others")(_counts(table="others")(plan))


def _workload(**update: Any) -> Lie:
    def lie(plan: ReleasePlan) -> ReleasePlan:
        return plan.model_copy(update={"workloads": tuple(e.model_copy(update=update) for e in plan.workloads)})

    return lie


def _undrawn(plan: ReleasePlan) -> ReleasePlan:
    takes = tuple(take for take in plan.workloads[0].takes if take.step == "states.exact")
    return _workload(takes=takes)(plan)


def _changed(plan: ReleasePlan) -> ReleasePlan:
    """Two tables with attributes are exact, of which neither says the other, and numbers below zero are taken out."""
    (exact,) = (take for take in plan.workloads[0].takes if take.step == "states.exact")
    takes = (*plan.workloads[0].takes, *(exact.model_copy(update={"axes": axes}) for axes in ((0,), (1,))))
    return _workload(takes=takes, post=("consistent", "nonnegative"))(plan)


def _private(plan: ReleasePlan) -> ReleasePlan:
    return _query(private=True)(_counts(private=True)(plan))


LIES: dict[str, tuple[Lie, str]] = {
    "nothing is drawn": (lambda plan: plan.model_copy(update={"steps": ()}), "everything is published exactly"),
    "one query twice": (
        lambda plan: plan.model_copy(update={"invariants": plan.invariants * 2}),
        "two invariants are one query",
    ),
    "an account that pays nothing": (_other_account, "is of an account that is charged for nothing"),
    "a workload without a draw": (_undrawn, "draws nothing"),
    "an exact table that is changed": (_changed, "changes what is exact"),
    "no reason": (_exact(why="  "), "does not say why"),
    "units": (_counts(quantity=Quantity(kind="units")), "is no count of rows"),
    "a part of the rows": (_counts(quantity=Quantity(kind="rows", where="age > 3")), "is no count of rows"),
    "rows of units": (_table(unit_id="puma"), "counts rows of units that may have several"),
    "bounds": (_counts(max_groups=1), "has bounds, or keys that are not public"),
    "left out cells": (_counts(excluding="geo(state)"), "has bounds, or keys that are not public"),
    "private keys": (_private, "has bounds, or keys that are not public"),
    "other cells": (_exact(cells=4), "has another number of cells"),
    "no table": (_exact(query="nothing"), "is no published table"),
    "another measure": (_exact(measure="people"), "is not the only number of its table"),
    "a sum beside it": (
        _query(
            measures={"persons": Count(count="rows"), "more": Count(count="rows")},
            inputs={"persons": (Feed(step="states.exact"),), "more": (Feed(step="population.rows"),)},
        ),
        "is not the only number of its table",
    ),
    "a table of other draws": (
        _query(inputs={"persons": (Feed(step="population.rows"),)}),
        "is not the only number of its table",
    ),
    "a table of a workload": (_query(workload="areas"), "is not the only number of its table"),
    "other rows": (_query(complete=()), "counts other rows than its table"),
    "a filter": (_counts(where="age > 3"), "counts other rows than its table"),
    "a target": (_query(goal=Goal(targets={"persons": Fraction(10)})), "something is asked of its noise"),
    "suppression": (_query(suppress_below=("persons", Fraction(3))), "something is asked of its noise"),
}


def test_a_plan_that_tells_the_truth_passes() -> None:
    check_invariants(good())
    assert verify(good()) == good().loss[good().certified]


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_caught_by_name(lie: str) -> None:
    change, why = LIES[lie]
    wrong = change(good())
    assert wrong != good()
    with pytest.raises(BrokenPromiseError, match=why):
        check_invariants(wrong)
    with pytest.raises(BrokenPromiseError):
        verify(wrong)


def _messages() -> Iterator[str]:
    for node in ast.walk(ast.parse(inspect.getsource(check_invariants) + inspect.getsource(_check_invariant))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
            message = node.args[1]
            pieces = message.values if isinstance(message, ast.JoinedStr) else [message]
            yield "".join(str(piece.value) for piece in pieces if isinstance(piece, ast.Constant)).strip()


def test_every_requirement_has_a_lie_that_it_meets() -> None:
    messages = list(_messages())
    assert len(messages) > 10
    assert [each for each in messages if not any(why in each for _, why in LIES.values())] == []


def test_a_step_cannot_hide_among_the_invariants_nor_an_invariant_among_the_steps() -> None:
    plan = good()
    (exact,), step = plan.invariants, plan.step("population.rows")
    unclaimed = plan.model_copy(update={"invariants": ()})
    renamed = _exact(id=step.id)(plan)
    second = exact.model_copy(
        update={"id": "population.exact", "query": "population", "aggregate": step.aggregate, "cells": step.cells}
    )
    uncharged = plan.model_copy(
        update={
            "steps": tuple(each for each in plan.steps if each.id != step.id),
            "invariants": (*plan.invariants, second),
        }
    )
    for wrong in (unclaimed, renamed, uncharged):
        with pytest.raises(BrokenPromiseError):
            verify(wrong)


def test_a_workload_cannot_take_exact_counts_of_other_rows() -> None:
    lies = (_counts(complete=("sex",)), _counts(by=("region",)), _counts(where="age > 3"))
    for lie in lies:
        with pytest.raises(BrokenPromiseError):
            verify(lie(good()))
