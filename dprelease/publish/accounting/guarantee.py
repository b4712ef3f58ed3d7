"""The guarantee told: what an attacker can come to believe, what each change of the data costs, and the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dprelease.errors import UnsupportedEvent
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step, Workload
from dprelease.plan.document.ranges import rows_of
from dprelease.plan.explain.facts import loss_facts
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Loss, round_up
from dprelease.privacy.event import Composed, Event
from dprelease.privacy.filters import Spent, Terms, spent_on
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.tails import Curve, chance_above, largest_but_for
from dprelease.privacy.theorems.concentrated import rho_to_delta
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.curves import profile_of, trade_off
from dprelease.publish.accounting.drawings import ALPHAS
from dprelease.publish.accounting.respondents import local_facts, local_losses
from dprelease.publish.accounting.semantics import Meaning, semantics
from dprelease.publish.numbers import at_most, beliefs, odds_factor, percent, percent_at_most, sure_after
from dprelease.words import amount, marked, phrase

__all__ = [
    "allocation",
    "allocation_before",
    "chances_told",
    "factor_text",
    "guarantee",
    "loss_totals",
    "meanings",
    "readable",
    "shares",
    "worked_example",
]

NO_BOUND = marked("no bound is proved")
PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
_MOST_DIGITS = 60  # of an exact rational on a page
_MOST_SHARES = 20  # bars
_MOST_BITS = 2000  # of a denominator, as in an account (``privacy.filters.Spent``)
_GRAIN = 10**60
_MOST_DRAWS = 200  # of different draws: from here on the quicker accountant alone


def guarantee(plan: ReleasePlan) -> dict[str, Any]:
    """What ``accounting.json`` says of all this; it follows from the plan alone."""
    points = profile_of(plan).points
    return {
        "totals": loss_totals(plan),
        "chances": chances_facts(plan),
        "worked_example": [
            {"before_percent": before, "after_at_least_percent": least, "after_at_most_percent": most}
            for before, _, least, most in worked_example(plan.loss[plan.certified])
        ],
        "semantics": [_meaning_facts(plan, each) for each in semantics(plan)],
        **local_facts(plan),
        "allocation": allocation(plan),
        "profile": [{"epsilon": round_up(epsilon, 8), "delta": round_up(delta, 8)} for epsilon, delta in points],
        "trade_off": [{"false_alarms": str(at), "misses_at_least": str(trade_off(points, at))} for at in ALPHAS],
    }


def worked_example(loss: Loss) -> list[tuple[str, str, str, str]]:
    """For somebody who believed so much before: the odds then, and the belief after, at least and at most; percent."""
    found = []
    for before in PRIORS:
        odds = (1 - before) / before
        found.append((percent(before), f"1 : {odds}", *beliefs(before, loss.epsilon)))
    return found


def loss_totals(plan: ReleasePlan) -> dict[str, str]:
    """The certified loss and the sum of rho as rationals: exact, or the next one above that has a readable length."""
    certified = plan.loss[plan.certified]
    spent = spent_on(Terms(composition="zcdp"), plan.event)
    figures = {"epsilon": certified.epsilon, "delta": certified.delta, "rho": spent.loss, "reveals": spent.reveals}
    return {name: _rational(value) for name, value in figures.items()}


def _rational(value: Fraction) -> str:
    if value.denominator.bit_length() > _MOST_BITS:
        value = Fraction(-(-value.numerator * _GRAIN // value.denominator), _GRAIN)
    return str(value)


def readable(text: str) -> str:
    """A rational for the page; empty where it is too long to read."""
    return text if len(text) <= _MOST_DIGITS else ""


def meanings(plan: ReleasePlan) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The rows of the two tables of the page: units, rows and groups; then attributes."""
    every = semantics(plan)
    told = [(_row(plan, each), each.kind == "attribute") for each in every]
    rows = [row for row, attribute in told if not attribute]
    rows += [{"what": what, "steps": "1", "draws": "", **loss_row(loss)} for what, loss in local_losses(plan)]
    return rows, [row for row, attribute in told if attribute]


def _row(plan: ReleasePlan, each: Meaning) -> dict[str, str]:
    draws = amount(each.draws)
    return {"what": _what(plan, each), "steps": str(each.steps), "draws": draws, **loss_row(each.loss)}


def loss_row(loss: Loss | None) -> dict[str, str]:
    """A loss as a page shows it, with its factor; None: nothing is proved."""
    return {
        "epsilon": at_most(loss.epsilon, 6) if loss is not None else phrase(NO_BOUND),
        "delta": at_most(loss.delta) if loss is not None else "",
        "factor": factor_text(loss.epsilon) if loss is not None else "",
    }


def factor_text(epsilon: Fraction) -> str:
    """e^epsilon rounded up; of a large one only the order, for more says nothing."""
    return odds_factor(epsilon) if epsilon < 40 else phrase("beyond 10¹⁷")


def _what(plan: ReleasePlan, each: Meaning) -> str:
    unit = str(plan.unit)
    if each.kind == "attribute" and each.attribute is not None:
        return phrase("{column} of {table}", column=each.attribute[1], table=each.attribute[0])
    if each.kind == "unit" and plan.neighboring is Neighboring.ADD_REMOVE:
        return phrase("one {unit} more or less", unit=unit)
    told = {
        "unit": phrase("one {unit} in the place of another one", unit=unit),
        "other_unit": phrase("one {unit} in the place of another one", unit=unit),
        "row": phrase("one row of one {unit} that has others too: more, less or changed", unit=unit),
    }
    return told.get(each.kind, phrase("{size} at once, each of them as in the first line", size=each.size))


def _meaning_facts(plan: ReleasePlan, each: Meaning) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": each.kind, "what": _what(plan, each), "steps": each.steps, "draws": each.draws}
    if each.kind == "group":
        found["size"] = each.size
    if each.attribute is not None:
        found |= {"table": each.attribute[0], "column": each.attribute[1]}
    return {**found, "loss": None if each.loss is None else loss_facts(each.loss)}


def allocation(plan: ReleasePlan) -> list[dict[str, Any]]:
    """For every query its share of the release, and what its draws alone cost.

    A draw that serves several queries counts for each of them in equal parts in ``share``, so that the shares add up
    to one; ``rho`` is of all draws that the query needs, as if it had been released alone.
    """
    return [dict(row) for row in plan.once(_allocation)]


def _allocation(plan: ReleasePlan) -> tuple[Mapping[str, Any], ...]:
    served = _served(plan)
    needed: dict[str, list[Step]] = {}
    for step in plan.steps:
        for name in served[step.id]:
            needed.setdefault(name, []).append(step)
    found = []
    exact = {each.query for each in plan.invariants}
    for query in (each for each in plan.queries if each.workload is None and each.name not in exact):
        steps = needed.get(query.name, [])
        parts = (step.share / len(served[step.id]) for step in steps)
        spent = _rho(tuple(step.event for step in steps))
        found.append(
            {
                "query": query.name,
                "level": "all",
                "steps": [step.id for step in steps],
                "cells": _cells(plan, query, steps),
                "share": str(sum(parts, Fraction(0))),
                "rho": str(spent.loss),
                "reveals": str(spent.reveals),
            }
        )
    return (*found, *(row for workload in plan.workloads for row in _of_workload(plan, workload)))


def _of_workload(plan: ReleasePlan, workload: Workload) -> Iterator[dict[str, Any]]:
    """One row for each draw of a workload, which no other query shares: named as its shares are written."""
    exact = {each.id for each in plan.invariants}
    draws = {each.step: each for each in reversed(workload.takes) if each.step not in exact}
    for take in reversed(draws.values()):
        step = plan.step(take.step)
        tables = "; ".join("*".join(table.by) for table in step.tables)
        name = tables or "*".join(workload.attributes[at] for at in take.axes) or "total"
        spent = _rho((step.alone,))
        yield {
            "query": f"{workload.name}: {name}",
            "level": workload.levels[take.level] if workload.levels else "all",
            "steps": [step.id],
            "cells": step.cells,
            "share": str(step.share),
            "rho": str(spent.loss),
            "reveals": str(spent.reveals),
        }


def _served(plan: ReleasePlan) -> dict[str, tuple[str, ...]]:
    """By the id of every step the queries that need it, each once."""
    known = {query.name for query in plan.queries}
    found = {step.id: {each.query: None for each in step.answers if each.query in known} for step in plan.steps}
    for query in plan.queries:
        for step in (query.selection, query.ranking.step if query.ranking else None):
            if step is not None:
                found[step][query.name] = None
    return {step: tuple(names) for step, names in found.items()}


def _cells(plan: ReleasePlan, query: PlannedQuery, steps: list[Step]) -> int | None:
    """The rows of its table; None where noise decides."""
    if query.ranking is not None:
        return query.ranking.k
    if query.ranges is not None:
        return rows_of(plan.keys(query), query.ranges)
    return None if query.private else max(map(_published, steps), default=0)


def _published(step: Step) -> int:
    """The cells that a step is published in; of quantiles from counts each has a number for every class."""
    return (step.cells or 0) // step.aggregate.quantity.in_each_cell


def allocation_before(plan: ReleasePlan) -> list[dict[str, Any]]:
    """The same as wordings before the eighth had it: the rows of quantiles from counts were cells times classes."""
    drawn = {step.id: step.cells or 0 for step in plan.steps}
    every = {query.name: query for query in plan.queries if query.ranking is None and query.ranges is None}
    return [
        {**row, "cells": max((drawn[step] for step in row["steps"]), default=0)}
        if row["query"] in every and row["cells"] is not None
        else row
        for row in allocation(plan)
    ]


@lru_cache(maxsize=1 << 10)
def _rho(events: tuple[Event, ...]) -> Spent:
    """What draws cost together; many queries of a release have equal ones."""
    return spent_on(Terms(composition="zcdp"), Composed(events=events))


def shares(plan: ReleasePlan) -> list[dict[str, str]]:
    """The bars of the chart of shares: the largest first, the rest as one."""
    found = sorted(((Fraction(each["share"]), each) for each in allocation(plan)), key=lambda pair: -pair[0])
    largest = found[0][0] if found else Fraction(1)
    rest = found[_MOST_SHARES:]
    bars = [_bar(_named(each), share, Fraction(each["rho"]), largest) for share, each in found[:_MOST_SHARES]]
    if rest:
        total = sum((share for share, _ in rest), Fraction(0))
        bars.append(_bar(phrase("{count} others", count=len(rest)), total, None, max(largest, total)))
    return bars


def _named(row: dict[str, Any]) -> str:
    return str(row["query"]) if row["level"] == "all" else f"{row['query']} ({row['level']})"


def _bar(name: str, share: Fraction, rho: Fraction | None, largest: Fraction) -> dict[str, str]:
    width = float(100 * share / largest) if largest else 0.0
    told = "" if rho is None else at_most(rho, 4)
    return {"name": name, "share": percent(share), "width": f"{width:.2f}", "rho": told}


@dataclass(frozen=True)
class Chances:
    """Upper bounds, exact.

    Attributes:
        apart: The largest difference of a probability between two neighbours: delta at epsilon 0.
        above: The probability of a loss above the certified epsilon.
        passed: The probability that a belief passes the limits that hold up to a loss of epsilon.
        but_for: What the loss is above with a probability of at most the certified delta; None: nothing is proved, or
            that delta is 0.
    """

    apart: Fraction
    above: Fraction
    passed: Fraction
    but_for: Fraction | None


def chances(plan: ReleasePlan) -> Chances:
    """Of the certified loss of a plan; equal plans give equal figures."""
    return _chances(plan.event, plan.loss[plan.certified])


@lru_cache(maxsize=64)
def _chances(event: Composed, loss: Loss) -> Chances:
    curve = _curve(event)

    def known(epsilon: Fraction) -> Fraction:
        found = curve(epsilon)
        return min(found, loss.delta) if epsilon >= loss.epsilon else found

    above = chance_above(known, loss.epsilon)
    passed = min(Fraction(1), upper(real(above) * (1 + CONTEXT.exp(-real(loss.epsilon)))))
    but_for = largest_but_for(known, loss.epsilon, loss.delta) if loss.delta else None
    return Chances(apart=known(Fraction(0)), above=above, passed=passed, but_for=but_for)


def _curve(event: Composed) -> Curve:
    """The smallest delta of two accountants at every epsilon; each is a theorem about the same draws."""
    counted = atoms(event)
    without, rho = peeled(counted), total_rho(event)

    def rough(epsilon: Fraction) -> Fraction:
        return without.total(rho_to_delta(rho, epsilon))

    def fine(epsilon: Fraction) -> Fraction:
        return min(rough(epsilon), ACCOUNTANTS["pld"].delta(event, epsilon))

    if len(counted) > _MOST_DRAWS:
        return rough
    try:
        fine(Fraction(0))
    except UnsupportedEvent:  # no dominating pair is known for one of the draws
        return rough
    return fine


def chances_facts(plan: ReleasePlan) -> dict[str, str | None]:
    """The same for ``accounting.json``, as decimals rounded up."""
    found, loss = chances(plan), plan.loss[plan.certified]
    return {
        "guess_at_most_percent": percent_at_most((1 + found.apart) / 2),
        "worst_outcome_at_most_percent": sure_after(loss.epsilon),
        "loss_above_epsilon_at_most": at_most(found.above),
        "limits_passed_at_most": at_most(found.passed),
        "loss_at_most_but_for_delta": None if found.but_for is None else at_most(found.but_for, 6),
    }


def chances_told(plan: ReleasePlan) -> dict[str, str]:
    """The same for the pages; empty where a chance is 0, or nothing is proved."""
    found, facts, loss = chances(plan), chances_facts(plan), plan.loss[plan.certified]
    return {
        "guess": facts["guess_at_most_percent"] or "",
        "worst": facts["worst_outcome_at_most_percent"] or "",
        "above": at_most(found.above) if found.above else "",
        "times": at_most(found.above / loss.delta, 2) if loss.delta else "",
        "passed": at_most(found.passed) if found.passed else "",
        "but_for": facts["loss_at_most_but_for_delta"] or "",
    }
