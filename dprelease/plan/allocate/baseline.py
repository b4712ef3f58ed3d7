"""What a plan is worth: the noise of the even split that most people would start with, beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dprelease.catalog.aggregate import BoundedAggregate
from dprelease.catalog.sensitivity import choice_reach, sensitivity
from dprelease.noise import MECHANISMS
from dprelease.plan.allocate.domain import Planning
from dprelease.plan.document import Naive, Output, PlannedQuery, Step
from dprelease.plan.lower.queries import Lowered
from dprelease.plan.resolve.goals import expected_rows
from dprelease.privacy.budget import round_up
from dprelease.privacy.event import Approximate, Repeated

__all__ = ["naive"]


def naive(planning: Planning, lowered: Lowered, steps: Sequence[Step], told: Sequence[Output]) -> Naive | None:
    """Every measure by itself, discrete Laplace noise, epsilon cut into equal parts, losses added up.

    None where the budget is given as rho, which that beginner does not know.

    Args:
        planning: What was asked.
        lowered: What it became.
        steps: Of the plan.
        told: What the plan says of the accuracy of every published number.
    """
    epsilon = planning.budget.epsilon
    if epsilon is None:
        return None
    exact = planning.lowering.invariants
    alone = [(query, label) for query in lowered.queries if query.name not in exact for label in query.measures]
    if not alone:
        return None
    each = epsilon / len(alone)
    planned = _planned(lowered, steps, told)
    ratios = []
    for query, label in alone:
        ours, naively = planned.get((query.name, label), 0.0), _alone(planning, query, label, each)
        if ours > 0 and naively > 0:
            ratios.append(0.5 * math.log(naively / ours))
    if not ratios:
        return None
    times = math.exp(sum(ratios) / len(ratios))
    words = (
        f"{len(alone)} measures at epsilon {round_up(epsilon / len(alone), 4)} each, discrete Laplace noise, added up"
    )
    return Naive(accounts_for=words, noise=round_up(Fraction(times), 4), charged=_charged(planning, lowered, each))


def _planned(lowered: Lowered, steps: Sequence[Step], told: Sequence[Output]) -> dict[tuple[str, str], float]:
    """The variance of every published number: to first order, and of a reconciled one as the plan says."""
    laws = [step.law for step in steps]
    names = [each.name if isinstance(each, PlannedQuery) else "" for each in lowered.asked]
    found = {
        (names[term.query], term.label): math.fsum(weight * laws[at].variance for at, weight in term.weights)
        for term in lowered.terms
        if names[term.query]
    }
    tables = {name for workload in lowered.workloads for name in workload.tables}
    return found | {
        (each.query, each.measure): float(each.standard_error or 0) ** 2 for each in told if each.query in tables
    }


def _charged(planning: Planning, lowered: Lowered, epsilon: Fraction) -> str:
    """What the dearest account would be charged."""
    most = Fraction(0)
    for account in planning.accounts:
        tables = {name for name, table in planning.catalog.tables.items() if table.account == account.name}
        drawn = (query for query in lowered.queries if query.name not in planning.lowering.invariants)
        measures = sum(len(query.measures) for query in drawn if query.table in tables)
        events = [Repeated(event=Approximate(epsilon=epsilon), count=measures)] if measures else []
        most = max(most, planning.charge(account, events).epsilon)
    return round_up(most, 4)


def _alone(planning: Planning, planned: PlannedQuery, label: str, epsilon: Fraction) -> float:
    """The first-order variance of one measure in its plain form, its epsilon divided evenly over its draws."""
    table = planning.catalog.tables[planned.table]
    measure = planned.measures[label]
    quantities = measure.quantities(table)
    weights = measure.weights(quantities, expected_rows(planned.expect, planned.measures, label))
    total = 0.0
    relation, needed = planning.spec.privacy.neighboring, sum(1 for weight in weights if weight)
    for quantity, weight in zip(quantities, weights, strict=True):
        if not weight:
            continue
        aggregate = BoundedAggregate(**dict(planned.grouping), quantity=quantity)
        if quantity.kind == "quantile":
            rounds, spread, _ = choice_reach(aggregate, planning.catalog, relation)
            total += weight * float(rounds * spread * needed / epsilon) ** 2
            continue
        reach = sensitivity(aggregate, planning.catalog, relation)
        law = MECHANISMS["discrete_laplace"].law(reach.l1 * needed / epsilon)
        total += weight * law.variance
    return total * _cells_of_a_sum(planning, planned)


def _cells_of_a_sum(planning: Planning, planned: PlannedQuery) -> float:
    """Of how many cells, in the mean, that beginner adds up a number: of prefixes and ranges the noisy counts."""
    if planned.ranges is None:
        return 1.0
    keys = planning.catalog.tables[planned.table].column(planned.ranges.of).cells
    return (keys + 1) / 2 if planned.ranges.which == "prefixes" else (keys + 2) / 3
