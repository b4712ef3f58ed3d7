"""What the author asked for and what was planned, as the accounting page shows it: goals, draws, other ways."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dprelease.measures.text import decimal
from dprelease.plan.document import Goal, Output, ReleasePlan, Step
from dprelease.plan.explain.facts import step_facts
from dprelease.privacy.accountants.base import atoms, pure_epsilon
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.event import Approximate
from dprelease.publish.accounting.glossary import quantity_words
from dprelease.publish.numbers import at_most, percent

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

_CHOICE = ("ε = score range / scale", "each choice that one unit can move")
_RHO, _SELECTION = "ρ = L2² / (2 · scale²)", "a selection of keys"
_WORDS = {  # by mechanism: the noise, how a loss follows from sensitivity and scale, and what that is said of
    "discrete_laplace": ("discrete Laplace", "ε = L1 / scale", "Laplace noise"),
    "discrete_gaussian": ("discrete Gaussian", _RHO, "Gaussian noise"),
    "count_knorm": ("K-norm (counts)", "ε = gauge / scale", "K-norm noise"),
    "linf_knorm": ("K-norm (largest change)", "ε = gauge / scale", "K-norm noise"),
    "tables_knorm": ("K-norm (tables)", "ε = gauge / scale", "K-norm noise on tables"),
    "total_residual": ("total and residuals", "ε = gauge / scale", "noise on a total and residuals"),
    "random_scale": (
        "Gaussian of a random scale",
        "ρ = D² / (2 · smallest scale²)",
        "Gaussian noise of a random scale",
    ),
    "exponential_quantile": ("exponential mechanism", *_CHOICE),
    "exponential_top_k": ("exponential mechanism", *_CHOICE),
    "exponential_clip": ("exponential mechanism", *_CHOICE),
    "laplace_threshold": ("discrete Laplace, threshold", "ε = L1 / scale and δ", f"{_SELECTION} with Laplace noise"),
    "gaussian_threshold": ("discrete Gaussian, threshold", f"{_RHO} and δ", f"{_SELECTION} with Gaussian noise"),
    "optimal_selection": ("a coin for each key", "ε = L1 / scale and δ", f"{_SELECTION} by coins"),
}
_GAUSSIAN = ("discrete_gaussian", "gaussian_threshold")


def asked_and_planned(plan: ReleasePlan, most: int) -> list[dict[str, str]]:
    """The first ``most`` measures: what their query was to get, the target, and the accuracy that was planned."""
    own = {query.name: query.goal for query in plan.queries if query.workload is None}
    asked = own | {each.name: each.goal for each in plan.workloads}
    total = sum((goal.share or Fraction(0) for goal in asked.values()), Fraction(0))
    goals = own | {name: each.goal for each in plan.workloads for name in each.tables}
    exact = {each.query for each in plan.invariants}
    of = "shares" if plan.allocation is None else "weights in the least total error"
    rows = [_row(output, goals[output.query], total, of) for output in plan.outputs[:most]]
    return [{**row, "asked": "exact, unprotected"} if row["query"] in exact else row for row in rows]


def _row(output: Output, goal: Goal, total: Fraction, of: str) -> dict[str, str]:
    target = goal.targets.get(output.measure)
    return {
        "query": output.query,
        "measure": output.measure,
        "asked": _asked(goal, total, of),
        "target": "" if target is None else f"± {_short(target)}",
        "standard_error": _readable(output.standard_error),
        "margin": f"± {_readable(output.margin)}" if output.margin is not None else "",
        "why_null": (output.why_null or "").replace("`", ""),
    }


def _asked(goal: Goal, total: Fraction, of: str) -> str:
    if goal.budget is not None:
        pinned = goal.budget
        size = f"ε = {_short(pinned.epsilon)}" if pinned.epsilon is not None else f"ρ = {_short(pinned.rho)}"
        return f"pinned to {size}"
    if goal.share is None:
        return "what its targets need"
    part = f"{percent(goal.share / total)} % of the {of}"
    return f"{part}; no less than its targets need" if goal.targets else part


def draw_row(step: Step) -> dict[str, str]:
    """One step as a row of the page: what was added up, how it was hidden, and what that cost."""
    several = f" × {len(step.parts)}" if step.joined else ""
    return {
        "id": step.id,
        "measured": _what(step),
        "answers": _answers(step),
        "mechanism": mechanism_words(step.mechanism),
        "sensitivity": _reach(step),
        "scale": at_most(step.scale, 6),
        "loss": _loss(step),
        "share": percent(step.share),
        "cells": "keys chosen" if step.cells is None else f"{step.cells:,}{several}",
    }


def mechanism_words(mechanism: str) -> str:
    """What a mechanism is called on pages."""
    return _WORDS[mechanism][0] if mechanism in _WORDS else mechanism.replace("_", " ")


def _what(step: Step) -> str:
    told = "; ".join(map(quantity_words, step.parts))
    if step.mechanism == "optimal_selection" and step.selecting is not None:
        return f"{told}, for every key that occurs; from {step.selecting.threshold:,} on it appears more often than not"
    if step.selecting is not None:
        return f"{told}, for every key that occurs; those with at least {step.selecting.threshold:,} appear"
    if step.above is not None:
        return f"{told}, so that about {step.above:,} rows lie above it"
    if step.factor is not None:
        counted = step.aggregate.quantity.is_counted
        along = "classes of values" if counted else step.aggregate.by[step.factor.axis]
        kind = "a square root of prefix sums" if step.factor.kind == "root" else "a near-optimal matrix"
        return f"{told}, along {along} by {kind}, in steps of 1/{step.factor.grain:,}"
    if step.mechanism == "exponential_top_k" and step.choosing is not None:
        return f"{told}, for the {step.choosing.rounds:,} keys with most"
    return told


def _reach(step: Step) -> str:
    if step.choosing is not None:
        return f"score range {at_most(step.choosing.spread, 4)}"
    if step.gauge is not None:
        return f"gauge {at_most(step.gauge, 4)}"
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
    return f"{counted[event]:,} × {text}" if counted[event] > 1 else text


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
    return ", ".join(f"{law.translate(unbroken)} for {noise}" for law, noise in used)


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
        more = "more noise; " if Decimal(plan.naive.noise) > 1 else ""
        charge = f"{more}it would charge an account ε = {plan.naive.charged} at the δ of its cap"
        rows.append({"name": f"naive: {plan.naive.accounts_for}", "noise": plan.naive.noise, "why_not": charge})
    for each in plan.considered:
        why = each.why_not or ("more noise" if Decimal(each.noise) > 1 else "as much noise")
        why += ", at the δ of its cap" if "charge an account epsilon" in why else ""
        rows.append({"name": each.name, "noise": each.noise, "why_not": why})
    return rows


def _short(value: Fraction | None) -> str:
    """A figure that an author wrote; six digits where no decimal is exact."""
    if value is None:
        return ""
    exact = Decimal(value.numerator) / value.denominator
    return decimal(exact.normalize()) if Fraction(exact) == value else at_most(value, 6)


def _readable(text: str | None) -> str:
    return decimal(Decimal(text)) if text is not None else ""
