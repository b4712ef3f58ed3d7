"""From a spec and a catalog to a plan: which steps, which mechanism, how much noise, and what that is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from dprelease.catalog.aggregate import BoundedAggregate
from dprelease.catalog.sensitivity import choice_reach, sensitivity
from dprelease.catalog.table import Catalog
from dprelease.errors import BudgetTooSmall, PlanError
from dprelease.noise import MECHANISMS
from dprelease.plan.allocate.best_candidate import Choice, choose, domains
from dprelease.plan.allocate.overruled import overruled
from dprelease.plan.allocate.planning import Planning
from dprelease.plan.allocate.shown import derived_as, publish_as, release_info
from dprelease.plan.design.accuracy import mean_noise, outputs
from dprelease.plan.design.comparing import check_independent
from dprelease.plan.document import (
    Account,
    Considered,
    Measured,
    Naive,
    Output,
    PlannedQuery,
    ReleasePlan,
    Selecting,
    Step,
)
from dprelease.plan.lower.clips import with_rows_above
from dprelease.plan.lower.drawn_quantiles import with_quantiles_drawn
from dprelease.plan.lower.lowered import Lowered
from dprelease.plan.lower.lowered_workload import LoweredWorkload
from dprelease.plan.lower.queries import Lowering
from dprelease.plan.lower.ranges import LoweredRanges
from dprelease.plan.lower.unscaled import UnscaledStep
from dprelease.plan.resolve.grouping import expected_rows
from dprelease.plan.resolve.local import local_loss
from dprelease.privacy.accountants import losses
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.event import Approximate, Composed, Event, Repeated
from dprelease.spec.fields.document import ReleaseSpec

__all__ = ["allocate", "naive"]

_SPENT = Fraction(999, 1000)


def allocate(spec: ReleaseSpec, catalog: Catalog, accounts: Sequence[Account], fingerprint: str) -> ReleasePlan:
    """Choose the steps, the mechanisms and the scales that use the spec's budget up and never exceed it.

    Pinned queries come first, each at its own price; then targets; what is left is shared out, scaled by one
    root on the certified loss of everything together.

    Args:
        spec: What the author wrote.
        catalog: Its tables, resolved against the public references.
        accounts: The policy's accounts that the spec's tables name.
        fingerprint: The fingerprint of the spec.

    Returns:
        A plan; the same inputs give the same bytes.

    Raises:
        PlanError: If no noise can be accounted as asked, or the budget is too small.
    """
    spec = with_quantiles_drawn(spec, catalog, accounts)
    planning = Planning(Lowering.of(spec, catalog), accounts)
    choices: dict[str, Choice] = {}
    fixed: list[tuple[str, Event]] = []
    parts = domains(spec)
    for domain in sorted(parts, key=lambda name: name == ""):  # the pinned ones first, the rest in what they leave
        pinned = spec.queries[domain].budget if domain else None
        budget = spec.privacy.budget
        if pinned is not None:
            budget = Budget(epsilon=pinned.epsilon, rho=pinned.rho, delta=budget.delta)
        choice = choose(planning, domain, parts[domain], budget, () if domain else tuple(fixed))
        fixed += choice.fixed
        choices[domain] = choice
    lowered = planning.lowering.lower({domain: choice.domain.candidate.form for domain, choice in choices.items()})
    steps = _steps(lowered, choices)
    rest = choices.get("")
    considered = (*overruled(rest), *rest.considered) if rest is not None else ()
    passed_over = _strategies(lowered, planning.lowering.ranges.values())
    return _plan(planning, lowered, steps, fingerprint, (*passed_over, *considered))


def _strategies(lowered: Lowered, ranges: Iterable[LoweredRanges]) -> tuple[Considered, ...]:
    """What workloads and ranges passed over, and would lack: the root of how much larger their mean variance is."""
    workloads = [asked for asked in lowered.asked if isinstance(asked, LoweredWorkload)]
    passed_over = (
        Considered(
            name=f"{asked.name}: {passed.name}",
            noise=round_up(Fraction(math.sqrt(passed.objective / asked.strategy.objective)), 4),
        )
        for asked in workloads
        for passed in asked.strategies[1:]
    )
    unaided = (
        Considered(name=f"{asked.name}: without its invariants", noise=round_up(Fraction(asked.gain), 4))
        for asked in workloads
        if asked.gain is not None
    )
    unspared = (
        Considered(name=f"{asked.name}: without its structural zeros", noise=round_up(Fraction(asked.spared), 4))
        for asked in workloads
        if asked.spared is not None
    )
    return (*unaided, *unspared, *passed_over, *(each for asked in ranges for each in asked.considered))


def _steps(lowered: Lowered, choices: Mapping[str, Choice]) -> tuple[Step, ...]:
    """The drafts of all domains in published order, with what each domain chose for its own."""
    chosen = {}
    for choice in choices.values():
        for at, scale in choice.scales.items():
            draft = choice.domain.lowered.drafts[at]
            own = draft.answers[0].query if draft.answers[0].query in choices else ""
            chosen[own, *_identity(draft)] = (choice.domain.mechanism(at), scale, choice.parts[at])
    found = []
    for draft in lowered.drafts:
        own = draft.answers[0].query if draft.answers[0].query in choices else ""
        found.append((draft, *chosen[own, *_identity(draft)]))
    shares = _shares([(draft.event(mechanism, scale), part) for draft, mechanism, scale, part in found], choices)
    steps = tuple(
        _step(draft, mechanism, scale, share) for (draft, mechanism, scale, _), share in zip(found, shares, strict=True)
    )
    return tuple(with_rows_above(step, steps) for step in steps)


def _identity(draft: UnscaledStep) -> tuple[object, ...]:
    """What tells a draft from all others of its domain, in any form of the measures; lists and workloads share none."""
    own = draft.answers[0].query if draft.list_of is not None or draft.part is not None else ""
    return draft.aggregate, draft.parts, draft.delta, draft.residual, own


def _step(draft: UnscaledStep, mechanism: str, scale: Fraction, share: Fraction) -> Step:
    selecting = None
    if draft.delta is not None:
        threshold, least = draft.threshold(mechanism, scale)
        coin = mechanism == "optimal_selection"
        selecting = Selecting(threshold=threshold, delta=draft.delta, left_out=threshold - least if coin else 0)
    return Step(
        id=draft.id,
        answers=draft.answers,
        aggregate=draft.aggregate,
        joined=draft.joined,
        mechanism=mechanism,
        sensitivity=draft.sensitivity,
        gauge=draft.gauge,
        replaced=draft.replaced,
        scale=scale,
        share=share,
        cells=draft.cells,
        choosing=draft.choosing,
        selecting=selecting,
        residual=draft.residual,
        pieces=draft.pieces,
        factor=draft.factor,
        tables=draft.tables,
        common=None if draft.together is None or mechanism != "discrete_gaussian" else draft.together.common,
        clipped_by=draft.clipped_by,
        series=draft.series,
    )


def _shares(costs: Sequence[tuple[Event, Fraction]], choices: Mapping[str, Choice]) -> list[Fraction]:
    """The steps' parts of the budget, adding up to exactly one; of several domains by their rho."""
    if len(choices) == 1:
        return [part for _, part in costs]
    sizes = [max(1, round(float(total_rho(event)) * 2**60)) for event, _ in costs]
    return [Fraction(size, sum(sizes)) for size in sizes]


def _plan(
    planning: Planning,
    lowered: Lowered,
    steps: tuple[Step, ...],
    fingerprint: str,
    considered: tuple[Considered, ...],
) -> ReleasePlan:
    spec = planning.spec
    delta = spec.privacy.budget.delta
    event = Composed(events=tuple(step.event for step in steps))
    found = losses(event, delta)
    if not found:
        raise PlanError(
            "no accountant can read this budget as (epsilon, delta) at delta 0",
            hint="add a delta to the budget, such as `delta: 1e-9`",
            code="DPR-P102",
        )
    certified = planning.accounting if planning.accounting != "auto" else min(found, key=lambda name: found[name])
    _check_spent(spec.privacy.budget, event, found[certified])
    invariants = tuple(planning.lowering.invariants.values())
    by_id: dict[str, Measured] = {step.id: step for step in steps}
    by_id |= {each.id: each for each in invariants}
    for query in lowered.queries:
        check_independent(query)
    told = outputs(lowered.queries, lowered.workloads, planning.catalog, by_id, spec.publish.confidence)
    return ReleasePlan(
        release=release_info(spec),
        spec_fingerprint=fingerprint,
        unit=spec.privacy.unit,
        neighboring=spec.privacy.neighboring,
        budget=spec.privacy.budget,
        accounting=spec.privacy.accounting,
        accounts=tuple(planning.accounts),
        catalog=planning.catalog,
        queries=lowered.queries,
        steps=steps,
        loss={name: Loss(epsilon=epsilon, delta=delta) for name, epsilon in found.items()},
        certified=certified,
        outputs=told,
        considered=considered,
        naive=naive(planning, lowered, steps, told),
        derive=tuple(derived_as(spec, name) for name in spec.derive),
        unspent=_unspent(spec.privacy.budget, event, found[certified], lowered),
        publish=publish_as(spec, lowered.queries, told),
        workloads=lowered.workloads,
        invariants=invariants,
        allocation=planning.allocation if planning.allocation != "shares" else None,
        office=spec.office,
        local=local_loss(planning.catalog),
    )


def _check_spent(budget: Budget, event: Event, epsilon: Fraction) -> None:
    """Only pins can add up to more than the budget: everything else was scaled to fit it."""
    limit, spent = budget.limit, epsilon if budget.epsilon is not None else total_rho(event)
    if spent > limit:
        kind = "epsilon" if budget.epsilon is not None else "rho"
        raise BudgetTooSmall(
            f"the pinned queries together need {kind} {float(spent):.4g}; the budget is {float(limit):.4g}",
            hint="lower a pin, or raise the budget",
            code="DPR-P103",
        )


def _unspent(budget: Budget, event: Event, epsilon: Fraction, lowered: Lowered) -> str | None:
    limit, spent = budget.limit, epsilon if budget.epsilon is not None else total_rho(event)
    if spent >= limit * _SPENT:
        return None
    shared = zip(lowered.asked, lowered.goals, strict=True)
    names = ", ".join(each.name for each, goal in shared if goal.share is not None)
    kind = "epsilon" if budget.epsilon is not None else "rho"
    why = "every query is pinned or has a target" if not names else f"more would not change the noise of {names}"
    return f"{kind} {float(spent):.6g} of {float(limit):.6g} is used: {why}"


def naive(planning: Planning, lowered: Lowered, steps: Sequence[Step], told: Sequence[Output]) -> Naive | None:
    """Every measure by itself, discrete Laplace noise, epsilon cut into equal parts, losses added up.

    None where the budget is given as rho, which that beginner does not know.

    Args:
        planning: What was asked.
        lowered: What it became.
        steps: The steps of the plan.
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
    found: dict[int, list[tuple[float, float]]] = {}
    for query, label in alone:
        at, ours = planned[query.name, label]
        naively = _alone(planning, query, label, each)
        if ours > 0 and naively > 0:
            found.setdefault(at, []).append((ours, naively))
    if not found:
        return None
    shares = {at: float(lowered.goals[at].share or 1) for at in found}
    ours, theirs = (mean_noise((shares[at], [pair[of] for pair in found[at]]) for at in found) for of in (0, 1))
    words = (
        f"{len(alone)} measures at epsilon {round_up(epsilon / len(alone), 4)} each, discrete Laplace noise, added up"
    )
    times = Fraction(math.exp((theirs - ours) / 2))
    return Naive(accounts_for=words, noise=round_up(times, 4), charged=_charged(planning, lowered, each))


def _planned(
    lowered: Lowered, steps: Sequence[Step], told: Sequence[Output]
) -> dict[tuple[str, str], tuple[int, float]]:
    """The query of the spec, and the variance, of every published number; of a reconciled one as the plan says."""
    laws = {at: step.law for at, step in enumerate(steps)}
    found = {
        (asked.name, term.label): (term.query, lowered.variance(term, laws))
        for term in lowered.terms
        if isinstance(asked := lowered.asked[term.query], PlannedQuery)
    }
    errors = {(each.query, each.measure): float(each.standard_error or 0) for each in told}
    for at, asked in enumerate(lowered.asked):
        for table in asked.queries if isinstance(asked, LoweredWorkload) else ():
            (measure,) = table.measures
            found[table.name, measure] = (at, errors[table.name, measure] ** 2)
    return found


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


_MEDIAN = Fraction(1, 2)  # the rank of which a choice errs least, for one who knows no other way to a quantile


def _alone(planning: Planning, planned: PlannedQuery, label: str, epsilon: Fraction) -> float:
    """The variance of one published number in its plain form, its epsilon divided evenly over its draws."""
    table = planning.catalog.tables[planned.table]
    measure = planned.measures[label]
    quantities = measure.quantities(table)
    count = expected_rows(planned.expect, planned.measures, label)
    weights = measure.weights(quantities, count)
    variances = []
    relation, needed = planning.spec.privacy.neighboring, sum(1 for weight in weights if weight)
    for quantity, weight in zip(quantities, weights, strict=True):
        alone = quantity.model_copy(update={"at": _MEDIAN}) if quantity.is_counted else quantity
        aggregate = BoundedAggregate(**dict(planned.grouping), quantity=alone)
        if not weight:
            variances.append(0.0)
        elif quantity.kind == "quantile":
            rounds, spread, _ = choice_reach(aggregate, planning.catalog, relation)
            variances.append(float(rounds * spread * needed / epsilon) ** 2)
        else:
            reach = sensitivity(aggregate, planning.catalog, relation)
            variances.append(MECHANISMS["discrete_laplace"].law(reach.l1 * needed / epsilon).variance)
    return measure.error(quantities, variances, count) ** 2 * _cells_of_a_sum(planning, planned)


def _cells_of_a_sum(planning: Planning, planned: PlannedQuery) -> float:
    """Of how many cells, in the mean, that beginner adds up a number: of prefixes and ranges the noisy counts."""
    if planned.ranges is None:
        return 1.0
    keys = planning.catalog.tables[planned.table].column(planned.ranges.of).cells
    return (keys + 1) / 2 if planned.ranges.which == "prefixes" else (keys + 2) / 3
