"""What the author asked for and what was planned, as the accounting page shows it: goals, draws, other ways."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from dprelease.catalog.names import Foreign
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.measures.text import decimal
from dprelease.plan.document import Goal, Output, ReleasePlan, Step
from dprelease.plan.explain.facts import step_facts
from dprelease.privacy.accountants.base import atoms, pure_epsilon
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.event import Approximate
from dprelease.publish.accounting.plan_words import quantity_words, told_by_plan
from dprelease.publish.numbers import at_most, percent
from dprelease.words import amount, marked, number_written, phrase

__all__ = [
    "asked_and_planned",
    "draw_row",
    "has_random_scale",
    "joins",
    "joins_by_total",
    "laws_of_loss",
    "mechanism_words",
    "other_ways",
]

_CHOICE = (
    marked("exponential mechanism"),
    marked("ε = score range / scale"),
    marked("each choice that one unit can move"),
)
_GAUGE, _BY_LENGTH = marked("ε = gauge / scale"), marked("ε = L1 / scale")
_WORDS = {  # by mechanism: the noise, how a loss follows from sensitivity and scale, and what that is said of
    "discrete_laplace": (marked("discrete Laplace"), _BY_LENGTH, marked("Laplace noise")),
    "discrete_gaussian": (marked("discrete Gaussian"), marked("ρ = L2² / (2 · scale²)"), marked("Gaussian noise")),
    "count_knorm": (marked("K-norm (counts)"), _GAUGE, marked("K-norm noise")),
    "linf_knorm": (marked("K-norm (largest change)"), _GAUGE, marked("K-norm noise")),
    "tables_knorm": (marked("K-norm (tables)"), _GAUGE, marked("K-norm noise on tables")),
    "total_residual": (marked("total and residuals"), _GAUGE, marked("noise on a total and residuals")),
    "random_scale": (
        marked("Gaussian of a random scale"),
        marked("ρ = D² / (2 · smallest scale²)"),
        marked("Gaussian noise of a random scale"),
    ),
    "exponential_quantile": _CHOICE,
    "exponential_top_k": _CHOICE,
    "exponential_clip": _CHOICE,
    "laplace_threshold": (
        marked("discrete Laplace, threshold"),
        marked("ε = L1 / scale and δ"),
        marked("a selection of keys with Laplace noise"),
    ),
    "gaussian_threshold": (
        marked("discrete Gaussian, threshold"),
        marked("ρ = L2² / (2 · scale²) and δ"),
        marked("a selection of keys with Gaussian noise"),
    ),
    "optimal_selection": (
        marked("a coin for each key"),
        marked("ε = L1 / scale and δ"),
        marked("a selection of keys by coins"),
    ),
}
_GAUSSIAN = ("discrete_gaussian", "gaussian_threshold")


def asked_and_planned(plan: ReleasePlan, most: int) -> list[dict[str, str]]:
    """The first ``most`` measures: what their query was to get, the target, and the accuracy that was planned."""
    own = {query.name: query.goal for query in plan.queries if query.workload is None}
    asked = own | {each.name: each.goal for each in plan.workloads}
    total = sum((goal.share or Fraction(0) for goal in asked.values()), Fraction(0))
    goals = own | {name: each.goal for each in plan.workloads for name in each.tables}
    exact = {each.query for each in plan.invariants}
    of = phrase("shares") if plan.allocation is None else phrase("weights in the least total error")
    compared = {query.name: query.compare for query in plan.queries}
    rows = [_row(output, goals[output.query], compared[output.query], total, of) for output in plan.outputs[:most]]
    return [{**row, "asked": phrase("exact, unprotected")} if row["query"] in exact else row for row in rows]


def _row(
    output: Output, goal: Goal, compared: Mapping[str, ComparedNumber], total: Fraction, of: str
) -> dict[str, str]:
    target = goal.target_of(output.measure, compared)
    return {
        "query": output.query,
        "measure": output.measure,
        "asked": _asked(goal, total, of),
        "target": "" if target is None else f"± {_short(target)}",
        "standard_error": _readable(output.standard_error),
        "margin": f"± {_readable(output.margin)}" if output.margin is not None else "",
        "why_null": _without_ticks(told_by_plan(output.why_null or "")),
    }


def _without_ticks(text: str) -> str:
    """Words without the marks of code; a text that is marked as English stays so."""
    plain = text.replace("`", "")
    return Foreign(plain, text.tag) if isinstance(text, Foreign) else plain


def _asked(goal: Goal, total: Fraction, of: str) -> str:
    if goal.budget is not None:
        pinned = goal.budget
        size = f"ε = {_short(pinned.epsilon)}" if pinned.epsilon is not None else f"ρ = {_short(pinned.rho)}"
        return phrase("pinned to {size}", size=size)
    if goal.share is None:
        return phrase("what its targets need")
    part = phrase("{share} % of the {of}", share=percent(goal.share / total), of=of)
    return phrase("{part}; no less than its targets need", part=part) if goal.targets else part


def draw_row(step: Step) -> dict[str, str]:
    """One step as a row of the page: what was added up, how it was hidden, and what that cost."""
    each = step.aggregate.quantity.in_each_cell
    several = f" × {amount(max(each, len(step.parts)))}" if step.joined or each > 1 else ""
    return {
        "id": step.id,
        "measured": _what(step),
        "answers": _answers(step),
        "mechanism": mechanism_words(step.mechanism),
        "sensitivity": _reach(step),
        "scale": at_most(step.scale, 6),
        "loss": _loss(step),
        "share": percent(step.share),
        "cells": phrase("keys chosen") if step.cells is None else amount(step.cells // each) + several,
    }


def mechanism_words(mechanism: str) -> str:
    """What a mechanism is called on pages."""
    return phrase(_WORDS[mechanism][0]) if mechanism in _WORDS else mechanism.replace("_", " ")


def _what(step: Step) -> str:
    told = f"{phrase(';')} ".join(map(quantity_words, step.parts))
    if step.mechanism == "optimal_selection" and step.selecting is not None:
        return phrase(
            "{told}, for every key that occurs; from {threshold} on it appears more often than not",
            told=told,
            threshold=amount(step.selecting.threshold),
        )
    if step.selecting is not None:
        return phrase(
            "{told}, for every key that occurs; those with at least {threshold} appear",
            told=told,
            threshold=amount(step.selecting.threshold),
        )
    if step.above is not None:
        return phrase("{told}, so that about {above} rows lie above it", told=told, above=amount(step.above))
    if step.factor is not None:
        counted = step.aggregate.quantity.is_counted
        along = phrase("classes of values") if counted else step.aggregate.by[step.factor.axis]
        kind = phrase("a square root of prefix sums") if step.factor.kind == "root" else phrase("a near-optimal matrix")
        return phrase(
            "{told}, along {along} by {kind}, in steps of 1/{grain}",
            told=told,
            along=along,
            kind=kind,
            grain=amount(step.factor.grain),
        )
    if step.mechanism == "exponential_top_k" and step.choosing is not None:
        return phrase("{told}, for the {rounds} keys with most", told=told, rounds=amount(step.choosing.rounds))
    return told


def _reach(step: Step) -> str:
    if step.choosing is not None:
        return phrase("score range {spread}", spread=at_most(step.choosing.spread, 4))
    if step.gauge is not None:
        return phrase("gauge {gauge}", gauge=at_most(step.gauge, 4))
    norm = "l2" if step.mechanism in _GAUSSIAN else "l1"
    return f"{norm.upper()} {_readable(step_facts(step)['sensitivity'][norm])}"


def _loss(step: Step) -> str:
    """The loss of a draw; of a selection with its delta, of choices for each, and how many there are."""
    if step.mechanism == "optimal_selection" and step.selecting is not None:
        return f"ε = {at_most(step.sensitivity.l1 / step.scale, 4)}, δ = {at_most(step.selecting.delta, 4)}"
    counted = atoms(step.alone)
    (event,) = [each for each in counted if not isinstance(each, Approximate) or step.selecting is None]
    epsilon = pure_epsilon(event)
    loss = (zcdp_rho(event), "ρ") if epsilon is None else (epsilon, "ε")
    text = f"{loss[1]} = {at_most(loss[0] or Fraction(0), 4)}"
    if step.selecting is not None:
        return f"{text}, δ = {at_most(step.selecting.delta, 4)}"
    return f"{amount(counted[event])} × {text}" if counted[event] > 1 else text


def _answers(step: Step) -> str:
    """The measures that a step serves, query by query."""
    served: dict[str, list[str]] = {}
    for each in step.answers:
        served.setdefault(each.query, []).append(each.measure)
    return "; ".join(f"{query}: {', '.join(measures)}" for query, measures in served.items())


def laws_of_loss(plan: ReleasePlan) -> str:
    """How the loss of a step follows from sensitivity and scale, for the kinds of noise that the plan uses."""
    used = dict.fromkeys(_WORDS[step.mechanism][1:] for step in plan.steps if step.mechanism in _WORDS)
    unbroken = {ord(" "): "\u00a0"}
    return ", ".join(
        phrase("{law} for {noise}", law=phrase(law).translate(unbroken), noise=phrase(noise)) for law, noise in used
    )


def joins(plan: ReleasePlan) -> bool:
    """Whether a draw hides several numbers of a cell together, in a norm of their own."""
    by_others = ("total_residual", "random_scale")
    return any(step.gauge is not None and step.joined and step.mechanism not in by_others for step in plan.steps)


def joins_by_total(plan: ReleasePlan) -> bool:
    """Whether a draw hides counts of a cell by way of their total."""
    return any(step.mechanism == "total_residual" for step in plan.steps)


def has_random_scale(plan: ReleasePlan) -> bool:
    """Whether a draw hides counts of a cell by Gaussian noise of one secret scale."""
    return any(step.mechanism == "random_scale" for step in plan.steps)


def other_ways(plan: ReleasePlan) -> list[dict[str, str]]:
    """Other ways to hide the same tables, the naive one first: their noise beside this plan's, and why not."""
    rows = []
    if plan.naive is not None:
        more = phrase("more noise; ") if Decimal(plan.naive.noise) > 1 else ""
        charge = phrase(
            "{more}it would charge an account ε = {charged} at the δ of its cap",
            more=more,
            charged=number_written(plan.naive.charged),
        )
        rows.append(
            {
                "name": phrase("naive: {accounts_for}", accounts_for=told_by_plan(plan.naive.accounts_for)),
                "noise": number_written(plan.naive.noise),
                "why_not": charge,
            }
        )
    for each in plan.considered:
        why = told_by_plan(each.why_not) or (
            phrase("more noise") if Decimal(each.noise) > 1 else phrase("as much noise")
        )
        why += phrase(", at the δ of its cap") if "charge an account epsilon" in why else ""
        rows.append({"name": told_by_plan(each.name), "noise": number_written(each.noise), "why_not": why})
    return rows


def _short(value: Fraction | None) -> str:
    """A figure that an author wrote; six digits where no decimal is exact."""
    if value is None:
        return ""
    exact = Decimal(value.numerator) / value.denominator
    return decimal(exact.normalize()) if Fraction(exact) == value else at_most(value, 6)


def _readable(text: str | None) -> str:
    return decimal(Decimal(text)) if text is not None else ""
