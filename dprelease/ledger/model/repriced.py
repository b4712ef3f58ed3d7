"""Errata: prices of the past that were too small though the noise was right, and what these draws really cost.

``key-selection``: until ``group`` kept the threshold of a selection of keys, k units were priced at k times its delta.
A key that k units alone hold is shown with P(k + Z >= T), which is far more (docs/proofs/key-selection.md). Wrong were:
what an account was charged whose unit is made of several of the spec's (``nests``, or another relation); what an
incident charged for a selection; and the rows about groups in what was published. Prices for one unit were right.

Everything is derived from the plan that the ledger keeps, which has had the threshold always.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.ledger.model.fault import UNPROTECTED
from dprelease.plan.document import Account, ReleasePlan, Step
from dprelease.privacy.convert import factor
from dprelease.privacy.event import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KeySelection,
    Repeated,
)
from dprelease.privacy.group import of_event
from dprelease.privacy.unit import Neighboring

__all__ = ["cost_before", "misstated", "repriced"]

_TOLD = (2, 4, 8)  # the groups that every report tells of


def cost_before(plan: ReleasePlan, account: Account) -> Composed | None:
    """What versions with the erratum ``key-selection`` charged an account for a plan; None: what is right.

    Raises:
        PlanError: As ``ReleasePlan.cost_of``.
    """
    steps = _steps_of(plan, account.name)
    if plan.release.revision or not any(_by_threshold(step) for step in steps):
        return None
    times = _times(plan, account)
    if times == 1:
        return None
    copies = 1 + plan.release.revisions
    found = []
    for step in steps:
        each = _grown_before(step, plan.neighboring, times)
        found.append(Repeated(event=each, count=copies) if copies > 1 else each)
    return Composed(events=tuple(found))


def misstated(plan: ReleasePlan) -> bool:
    """Whether what such a version published of groups was too small: k times delta is not what k units show."""
    return any(_more(event, k) for event in plan.events if isinstance(event, KeySelection) for k in _TOLD)


def repriced(event: Event, step: Step, plan: ReleasePlan, account: Account) -> Event:
    """A charged draw of a step as it should have been charged; itself where that is right.

    The charged noise tells by what factor F an incident has found it too small: its scale is 1 / F of the step's.
    """
    if not _by_threshold(step):
        return event
    return _again(event, step, plan.neighboring, _times(plan, account))


def _again(event: Event, step: Step, relation: Neighboring, times: int) -> Event:
    if isinstance(event, Repeated):
        return Repeated(event=_again(event.event, step, relation, times), count=event.count)
    if not isinstance(event, Composed):
        return event
    parts = event.events
    noise = parts[0] if len(parts) == 2 else None
    if not isinstance(noise, DiscreteLaplace | DiscreteGaussian) or not isinstance(parts[1], Approximate):
        return Composed(events=tuple(_again(part, step, relation, times) for part in parts))
    units = times * math.ceil(step.scale / noise.scale)
    whole = step.event_under(relation)
    if units == 1 or not isinstance(whole, KeySelection):
        return event
    try:
        grown = of_event(whole, units)
    except UnsupportedEvent:
        return UNPROTECTED
    shown = max(parts[1].delta, grown.delta) if isinstance(grown, KeySelection) else parts[1].delta
    return KeySelection(noise=noise, threshold=whole.threshold, keys=whole.keys, units=units, delta=shown)


def _steps_of(plan: ReleasePlan, account: str) -> list[Step]:
    return [step for step in plan.steps if plan.catalog.tables[step.aggregate.table].account == account]


def _by_threshold(step: Step) -> bool:
    return step.selecting is not None and step.mechanism != "optimal_selection"


def _times(plan: ReleasePlan, account: Account) -> int:
    return factor(str(plan.unit), plan.neighboring, account.unit, account.neighboring, account.nests)


def _grown_before(step: Step, relation: Neighboring, times: int) -> Event:
    whole = step.event_under(relation)
    if not isinstance(whole, KeySelection):
        return of_event(whole, times)
    unseen = Approximate(epsilon=Fraction(0), delta=times * whole.delta)
    return Composed(events=(of_event(whole.noise, times), unseen))


def _more(event: KeySelection, k: int) -> bool:
    try:
        grown = of_event(event, k)
    except UnsupportedEvent:
        return True
    return isinstance(grown, KeySelection) and grown.delta > k * event.delta
