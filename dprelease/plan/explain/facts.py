"""A plan as facts that people and machines read; it walks the very steps that the runner walks.

It also says what one plan costs under every accountant, and what noise each would have required.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isqrt
from typing import Any

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.plan.document import Output, PlannedQuery, ReleasePlan, Step, Workload
from dprelease.plan.explain.rounding import grid_facts
from dprelease.plan.explain.shared_noise import series_facts
from dprelease.plan.explain.totals import totals_facts
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.calibrate import largest_knob
from dprelease.privacy.event import Composed, Event
from dprelease.privacy.rounding import dyadic_up, sqrt_up
from dprelease.words import phrase

__all__ = [
    "Compared",
    "allocation_text",
    "budget_facts",
    "compare",
    "compared_text",
    "invariant_facts",
    "left_text",
    "loss_facts",
    "passes_texts",
    "pieces_texts",
    "plan_facts",
    "relative_error",
    "step_facts",
    "unprotected",
]


def loss_facts(loss: Loss) -> dict[str, str]:
    """(epsilon, delta) as decimal text, rounded up."""
    return {"epsilon": round_up(loss.epsilon, 8), "delta": round_up(loss.delta, 8)}


def budget_facts(budget: Budget) -> dict[str, str]:
    """A budget as exact rationals."""
    named = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta}
    return {name: str(value) for name, value in named.items() if value is not None}


def left_text(cap: Budget, spent: Loss) -> str:
    """What an account has left at its cap's delta, rounded down; losses compose, so it is no price of a release."""
    rest = max(Fraction(0), (cap.epsilon or Fraction(0)) - spent.epsilon)
    return str(floor(rest * 10**6) / 10**6)


def step_facts(step: Step) -> Mapping[str, Any]:
    """One step: what it answers, and the triple (sensitivity, scale, event) that makes its loss checkable."""
    return step.once(_step_facts)


def _step_facts(step: Step) -> Mapping[str, Any]:
    reach = step.sensitivity
    return {
        "id": step.id,
        "answers": [answer.model_dump() for answer in step.answers],
        "mechanism": step.mechanism,
        "sensitivity": {
            "l1": round_up(reach.l1, 12),
            "l2": round_up(_root_up(reach.l2_squared), 12),
            "linf": round_up(reach.linf, 12),
        },
        "scale": str(step.scale),
        "gauge": None if step.gauge is None else str(step.gauge),
        "quantities": [quantity.model_dump(mode="json") for quantity in step.parts],
        "grid": str(step.aggregate.quantity.grid),
        "share": str(step.share),
        "cells": step.cells,
        "choosing": None if step.choosing is None else step.choosing.model_dump(mode="json"),
        "selecting": None if step.selecting is None else step.selecting.model_dump(mode="json"),
        "event": step.event.model_dump(mode="json"),
        **({} if step.residual is None else {"residual": step.residual.model_dump(mode="json")}),
        **({} if step.factor is None else {"factor": step.factor.model_dump(mode="json")}),
        **({} if not step.tables else {"tables": [each.model_dump(mode="json") for each in step.tables]}),
        **({} if step.pieces is None else {"pieces": step.pieces}),
    }


def plan_facts(plan: ReleasePlan) -> dict[str, Any]:
    """The part of ``plan --json`` and of ``accounting.json`` that keeps its shape."""
    losses: dict[str, Any] = {name: loss_facts(loss) for name, loss in plan.loss.items()}
    return {
        "release": plan.release.name,
        "period": plan.release.period,
        "budget": budget_facts(plan.budget),
        "accounting": plan.accounting,
        "loss": {**losses, "certified": {"accountant": plan.certified, **losses[plan.certified]}},
        "steps": [
            {**step_facts(step), "event": event.model_dump(mode="json")}
            for step, event in zip(plan.steps, plan.events, strict=True)
        ],
        "outputs": [output.model_dump(mode="json") for output in plan.outputs],
        "goals": {each.name: each.goal.model_dump(mode="json") for each in _asked(plan)},
        "considered": [each.model_dump(mode="json") for each in plan.considered],
        "naive": None if plan.naive is None else plan.naive.model_dump(mode="json"),
        "unspent": plan.unspent,
        **({"series": series_facts(plan)} if plan.series else {}),
        **_revisions(plan),
        **({"grids": grids} if (grids := grid_facts(plan)) else {}),
        **({"allocation": plan.allocation} if plan.allocation else {}),
        **({"workloads": [each.model_dump(mode="json") for each in plan.workloads]} if plan.workloads else {}),
        **({"totals": totals} if (totals := totals_facts(plan)) else {}),
        **({"invariants": invariant_facts(plan), "unprotected": unprotected(plan)} if plan.invariants else {}),
    }


def invariant_facts(plan: ReleasePlan) -> list[dict[str, Any]]:
    """What is published exactly, in the order of the spec."""
    return [
        {
            "id": each.id,
            "query": each.query,
            "measure": each.measure,
            "table": each.aggregate.table,
            "by": list(each.aggregate.by),
            "where": each.aggregate.where,
            "complete": list(each.aggregate.complete),
            **({"zeros": each.aggregate.zeros} if each.aggregate.zeros is not None else {}),
            "cells": each.cells,
            "why": each.why,
        }
        for each in plan.invariants
    ]


def unprotected(plan: ReleasePlan) -> str:
    """The one sentence that stands beside every loss of a release with invariants; empty where there are none."""
    if not plan.invariants:
        return ""
    named = (
        f"{each.query}.{each.measure}{_by(each.aggregate.by)} ({each.why.strip().rstrip('.')})"
        for each in plan.invariants
    )
    told = {"totals": "; ".join(named), "again": _again(plan.release.revisions)}
    return phrase(
        "The noisy measurements are (epsilon, delta)-differentially private; these totals are published exactly and "
        "unprotected, at no epsilon: {totals}{again}.",
        **told,
    )


def _again(revisions: int) -> str:
    """A revision that was paid for beforehand is no surprise, and says exactly who came late."""
    if not revisions:
        return ""
    return phrase(
        "; and again in each planned revision ({revisions}), from the data as they are then", revisions=revisions
    )


def allocation_text(plan: ReleasePlan) -> str:
    """What each query got of a budget that is divided for the least error; empty where shares divide it."""
    if plan.allocation is None:
        return ""
    parts: dict[str, Fraction] = {}
    for step in plan.steps:
        served = " with ".join(dict.fromkeys(answer.query for answer in step.answers))
        parts[served] = parts.get(served, Fraction(0)) + step.share
    told = ", ".join(f"{served} {float(part):.1%}" for served, part in parts.items())
    guard = ", with a least part for every query" if plan.allocation == "guarded_least_error" else ""
    return f"the budget is divided for the least total error{guard}: {told}"


def compared_text(plan: ReleasePlan) -> str:
    """By what the noise of other ways is told beside the plan's; empty where there are none."""
    if plan.naive is None and not plan.considered:
        return ""
    mean = "the geometric mean of the published standard errors, each query by its share"
    if plan.allocation is None:
        return f"noise is compared by {mean}"
    return f"noise is compared by the root of the total error, that of the naive plan by {mean}"


def pieces_texts(plan: ReleasePlan) -> tuple[str, ...]:
    """What of each workload is measured in pieces; nothing of those that are measured as they are."""
    pieces = plan.pieces
    cut = ((each.name, [pieces[take.step] for take in each.takes if take.step in pieces]) for each in plan.workloads)
    return tuple(
        f"{name}: {len(found)} large draw{'s are' if len(found) > 1 else ' is'} measured in {len(found[0])} pieces"
        f"{' each' if len(found) > 1 else ''}, one for each {found[0][0].column}"
        for name, found in cut
        if found
    )


def passes_texts(plan: ReleasePlan) -> tuple[str, ...]:
    """How the draws of each table share passes over it, where some look at other rows or come from other groupings."""
    found = []
    batches = plan.batches()
    for table in dict.fromkeys(batch.table for batch in batches):
        own = [batch for batch in batches if batch.table == table]
        if any(batch.moved or batch.cube for batch in own):
            draws = len({step.id for batch in own for step in batch.steps})
            found.append(f"table {table}: {draws:,} draws in {len(own):,} passes")
        for cube in dict.fromkeys(batch.cube for batch in own if batch.cube is not None):
            sums = len({batch.by for batch in own if batch.cube == cube})
            found.append(f"table {table}: {sums} groupings are added up from one count{_by(cube.by)}")
    return tuple(found)


def _by(columns: Sequence[str]) -> str:
    return f" by {', '.join(columns)}" if columns else ""


def _asked(plan: ReleasePlan) -> list[PlannedQuery | Workload]:
    """What has goals: queries of their own, and workloads as one."""
    return [*(query for query in plan.queries if query.workload is None), *plan.workloads]


def _revisions(plan: ReleasePlan) -> dict[str, int]:
    """How many revisions are planned, and which one this is; nothing where there are none, as it always was."""
    release = plan.release
    return {"revisions": release.revisions, "revision": release.revision} if release.revisions else {}


def relative_error(query: PlannedQuery, output: Output) -> Fraction | None:
    """The margin beside the author's guess of that very count; None without one."""
    guess = query.expect.get(output.measure)
    return None if guess is None or output.margin is None else Fraction(output.margin) / guess


def _root_up(square: Fraction) -> Fraction:
    """The square root, exact where it is rational, else rounded up."""
    root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    return root if root * root == square else sqrt_up(square)


@dataclass(frozen=True)
class Compared:
    """One accountant on one plan.

    Attributes:
        accountant: Its name.
        epsilon: What it can prove for the plan at the plan's delta; None: nothing finite.
        noise: By which factor all scales would have to change for it to prove the plan's budget; None: it cannot.
        why_not: Why not, where it cannot.
    """

    accountant: str
    epsilon: Fraction | None
    noise: Fraction | None
    why_not: str = ""


def compare(plan: ReleasePlan) -> tuple[Compared, ...]:
    """Every accountant, in the order of their table."""
    return tuple(_compared(plan, name) for name in ACCOUNTANTS)


def _compared(plan: ReleasePlan, name: str) -> Compared:
    loss = plan.loss.get(name)
    target = plan.loss[plan.certified].epsilon if plan.budget.epsilon is None else plan.budget.epsilon

    def event_at(knob: Fraction) -> Event:
        scaled = (step.model_copy(update={"scale": dyadic_up(step.scale / knob)}) for step in plan.steps)
        return Composed(events=tuple(step.event for step in scaled))

    try:
        knob = largest_knob(event_at, name, Budget(epsilon=target, delta=plan.budget.delta))
    except UnsupportedEvent as refusal:
        return Compared(name, loss.epsilon if loss else None, None, refusal.summary)
    except PlanError as error:
        return Compared(name, loss.epsilon if loss else None, None, error.summary)
    return Compared(name, loss.epsilon if loss else None, 1 / knob)
