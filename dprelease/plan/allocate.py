"""From a spec and a catalog to a plan: which steps, which mechanism, how much noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.catalog.aggregate import BoundedAggregate, Quantity, sensitivity
from dprelease.catalog.table import Catalog
from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.measures import Measure
from dprelease.noise import MECHANISMS
from dprelease.plan.document import (
    Account,
    Answer,
    Output,
    PlannedQuery,
    Publish,
    ReleaseInfo,
    ReleasePlan,
    Step,
)
from dprelease.privacy.accountants import losses
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.calibrate import Demand, Family, calibrate
from dprelease.privacy.event import Composed, Event
from dprelease.privacy.filters import account_loss
from dprelease.spec.document import QuerySpec, ReleaseSpec

__all__ = ["allocate"]


@dataclass(frozen=True)
class _Draft:
    """A step before its noise is chosen."""

    id: str
    aggregate: BoundedAggregate
    answers: tuple[Answer, ...]
    share: Fraction
    demand: Demand
    cells: int


def allocate(spec: ReleaseSpec, catalog: Catalog, accounts: Sequence[Account], fingerprint: str) -> ReleasePlan:
    """Choose the steps, the noise family and the scales that use the spec's budget up and never exceed it.

    Args:
        spec: What the author wrote.
        catalog: Its tables, resolved against the public references.
        accounts: The policy's accounts that the spec's tables name.
        fingerprint: Of the spec.

    Returns:
        A plan; the same inputs give the same bytes.

    Raises:
        PlanError: If no noise family can be accounted as asked, or the budget is too small.
    """
    queries, drafts = _lower(spec, catalog)
    family, scales = _choose(spec, drafts, catalog, accounts)
    mechanism = f"discrete_{family}"
    steps = tuple(
        Step(
            id=draft.id,
            answers=draft.answers,
            aggregate=draft.aggregate,
            mechanism=mechanism,
            sensitivity=draft.demand.sensitivity,
            scale=scale,
            share=draft.share,
            cells=draft.cells,
        )
        for draft, scale in zip(drafts, scales, strict=True)
    )
    publish = _publish(spec)
    delta = spec.privacy.budget.delta
    found = losses(Composed(events=tuple(step.event for step in steps)), delta)
    if not found:
        raise PlanError(
            "no accountant can read this budget as (epsilon, delta) at delta 0",
            hint="add a delta to the budget, such as `delta: 1e-9`",
            code="DPR-P102",
        )
    certified = (
        spec.privacy.accounting if spec.privacy.accounting != "auto" else min(found, key=lambda name: found[name])
    )
    return ReleasePlan(
        release=ReleaseInfo(**spec.release.model_dump()),
        spec_fingerprint=fingerprint,
        unit=spec.privacy.unit,
        neighboring=spec.privacy.neighboring,
        budget=spec.privacy.budget,
        accounting=spec.privacy.accounting,
        accounts=tuple(accounts),
        catalog=catalog,
        queries=queries,
        steps=steps,
        loss={name: Loss(epsilon=epsilon, delta=delta) for name, epsilon in found.items()},
        certified=certified,
        outputs=_outputs(queries, steps, publish.confidence),
        publish=publish,
    )


def _publish(spec: ReleaseSpec) -> Publish:
    unreliable = spec.publish.unreliable
    return Publish(
        formats=tuple(spec.publish.formats),
        confidence=spec.publish.confidence,
        unreliable_above=unreliable.relative_error_above if unreliable else None,
        unreliable_show=unreliable.show if unreliable else "flag",
    )


def _lower(spec: ReleaseSpec, catalog: Catalog) -> tuple[tuple[PlannedQuery, ...], tuple[_Draft, ...]]:
    """The queries with the steps that feed their measures; one step for each distinct aggregate of the release."""
    total = sum((query.share for query in spec.queries.values()), Fraction(0))
    steps: dict[BoundedAggregate, str] = {}
    shares: dict[str, Fraction] = {}
    answers: dict[str, list[Answer]] = {}
    planned = []
    for name, query in spec.queries.items():
        table = catalog.tables[query.table]
        inputs: dict[str, tuple[str, ...]] = {}
        for label, measure in query.measures.items():
            ids = []
            for quantity in measure.quantities(table):
                aggregate = BoundedAggregate(table=query.table, by=tuple(query.by), quantity=quantity)
                step = steps.setdefault(aggregate, _step_id(name, quantity, answers))
                answers.setdefault(step, []).append(Answer(query=name, measure=label))
                ids.append(step)
            inputs[label] = tuple(ids)
        used = {step for ids in inputs.values() for step in ids}
        for step in used:
            shares[step] = shares.get(step, Fraction(0)) + query.share / total / len(used)
        planned.append(_planned(name, query, inputs))
    drafts = []
    for aggregate, step in steps.items():
        table = catalog.tables[aggregate.table]
        reach = sensitivity(aggregate, table, spec.privacy.neighboring)
        drafts.append(
            _Draft(
                step,
                aggregate,
                tuple(answers[step]),
                shares[step],
                Demand(reach, shares[step]),
                table.cells(aggregate.by),
            )
        )
    return tuple(planned), tuple(drafts)


def _planned(name: str, query: QuerySpec, inputs: dict[str, tuple[str, ...]]) -> PlannedQuery:
    return PlannedQuery(
        name=name,
        title=query.title or name,
        table=query.table,
        by=tuple(query.by),
        measures=dict(query.measures),
        inputs=inputs,
        expect=dict(query.expect),
    )


def _step_id(query: str, quantity: Quantity, taken: dict[str, Any]) -> str:
    base = f"{query}.rows" if quantity.kind == "rows" else f"{query}.{quantity.column}-{quantity.kind}"
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name


def _choose(
    spec: ReleaseSpec, drafts: Sequence[_Draft], catalog: Catalog, accounts: Sequence[Account]
) -> tuple[Family, tuple[Fraction, ...]]:
    """The family with the smaller noise, of those that the accounting and the accounts can take.

    With ``noise: auto`` a family is passed over where an account's own composition finds it dearer than the
    release's budget: a release that is cheap today must not empty the account that later ones live on.
    The objective is the mean logarithm of the noise variance over steps, which no change of units can move.
    """
    privacy = spec.privacy
    wanted: tuple[Family, ...] = ("laplace", "gaussian") if privacy.noise == "auto" else (privacy.noise,)
    candidates: list[tuple[float, Family, tuple[Fraction, ...]]] = []
    reasons = []
    for family in wanted:
        try:
            scales = calibrate([draft.demand for draft in drafts], family, privacy.accounting, privacy.budget)
        except UnsupportedEvent as error:
            reasons.append(f"{family}: {error.summary}; {error.hint}")
            continue
        mechanism = MECHANISMS[f"discrete_{family}"]
        events = [mechanism.event(scale, draft.demand.sensitivity) for draft, scale in zip(drafts, scales, strict=True)]
        if privacy.noise == "auto" and not _affordable(events, drafts, catalog, accounts, privacy.budget):
            reasons.append(f"{family}: dearer in an account's own composition than the release's budget")
            continue
        variance = sum(math.log(mechanism.law(scale).variance or 1e-300) for scale in scales) / len(scales)
        candidates.append((variance, family, scales))
    if not candidates:
        raise PlanError(
            "no noise fits this accounting, budget and account together",
            detail="; ".join(reasons),
            hint="write `noise: gaussian` with a delta, `noise: laplace`, or `accounting: auto`",
            code="DPR-P101",
        )
    best = min(candidates)
    return best[1], best[2]


def _affordable(
    events: Sequence[Event],
    drafts: Sequence[_Draft],
    catalog: Catalog,
    accounts: Sequence[Account],
    budget: Budget,
) -> bool:
    if budget.epsilon is None:
        return True
    for account in accounts:
        own = [
            event
            for event, draft in zip(events, drafts, strict=True)
            if catalog.tables[draft.aggregate.table].account == account.name
        ]
        delta = budget.delta or account.lifetime.delta
        try:
            loss = account_loss(account.composition, own, delta)
        except UnsupportedEvent:
            return False
        if loss.epsilon > budget.epsilon:
            return False
    return True


def _outputs(queries: Sequence[PlannedQuery], steps: Sequence[Step], confidence: Fraction) -> tuple[Output, ...]:
    by_id = {step.id: step for step in steps}
    outputs = []
    for query in queries:
        for label, measure in query.measures.items():
            fed = [by_id[step] for step in query.inputs[label]]
            outputs.append(_output(query, label, measure, fed, confidence))
    return tuple(outputs)


def _expected_rows(query: PlannedQuery, fed: Sequence[Step]) -> int | None:
    """The author's guess for a count that this measure is fed from, else for any count of the query."""
    steps = {step.id for step in fed}
    own = [guess for label, guess in query.expect.items() if steps & set(query.inputs[label])]
    return next(iter(own or query.expect.values()), None)


def _output(query: PlannedQuery, label: str, measure: Measure, fed: Sequence[Step], confidence: Fraction) -> Output:
    count = _expected_rows(query, fed)
    expected = measure.expected(
        [step.aggregate.quantity for step in fed], [step.law for step in fed], confidence, count
    )

    def text(number: float | None) -> str | None:
        return None if number is None else round_up(Fraction(number), 6)

    return Output(
        query=query.name,
        table=query.table,
        measure=label,
        steps=query.inputs[label],
        standard_error=text(expected.standard_error),
        margin=text(expected.margin),
        why_null=expected.why_null,
    )
