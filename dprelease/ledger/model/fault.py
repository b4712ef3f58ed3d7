"""What was wrong with past draws, and the draws as they really were.

Noise that was too small by a factor F is noise whose scale was s / F. For a draw that is bounded by a norm of its
change over its scale (all noise here: epsilon = l1 / s, rho = l2^2 / (2 s^2), gauge / s, range) that is the same as a
sensitivity that was F times as large. Where the two differ, on the lattice under ``pld``, and F is whole, s / F is the
worse one for Laplace noise: discrete Laplace noise of scale s, on a query that changes by F c, is F times noise of
scale s / F on a query that changes by c, plus independent noise X - X' with X in 0, ..., F - 1 and weights
exp(-X / s); for ``(1 - p) sum_j p^j e^(i j t) / (1 - p^F)`` is the characteristic function of X, p = exp(-1 / s), and
its squared modulus is that of discrete Laplace noise of scale s over that of F times such noise of scale s / F. And
whoever adds independent noise learns no more.

A selection of keys by noise and a threshold is charged as k = ceil(F) units at once (``group.of_event``): a key that
one unit alone holds, counted F times, is shown as one of at most k units would be; noise that was too small shows it
less often. One by a coin for each key is told by (epsilon, delta) alone, which k units raise to k epsilon and a delta
weighted accordingly (``group.approximate``).

Errata are prices of the past that were too small though the noise was right. ``key-selection``: until ``group`` kept
the threshold of a selection of keys, k units were priced at k times its delta. A key that k units alone hold is shown
with P(k + Z >= T), which is far more (docs/proofs/key-selection.md). Wrong were: what an account was charged whose unit
is made of several of the spec's (``nests``, or another relation); what an incident charged for a selection; and the
rows about groups in what was published. Prices for one unit were right. What these draws really cost is derived from
the plan that the ledger keeps, which has had the threshold always.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Self

from pydantic import model_validator

from dprelease.canonical import Value
from dprelease.errors import UnsupportedEvent
from dprelease.ledger.model.entry import Incident
from dprelease.plan.document import Account, ReleasePlan, Step
from dprelease.privacy.convert import factor
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KeySelection,
    Parallel,
    Repeated,
)
from dprelease.privacy.group import approximate, as_selection, of_event
from dprelease.privacy.unit import Neighboring

__all__ = [
    "ERRATA",
    "UNPROTECTED",
    "Fault",
    "cost_before",
    "events_corrected",
    "is_unprotected",
    "misstated",
    "repriced",
]

ERRATA = {
    "key-selection": "several units at once were priced at so many times the delta of a selection of keys, and keys "
    "that they alone hold are shown far more often than that"
}
"""Prices of the past that were too small, by name, and why."""


# Draws that protected nothing. A delta of 1 is no event; this one is as near as it needs to be for every cap and every
# float, and what is charged for it is a delta of exactly 1.
UNPROTECTED = Approximate(epsilon=Fraction(0), delta=1 - Fraction(1, 2**512))

_TOLD = (2, 4, 8)  # the groups that every report tells of


class Fault(Value):
    """What was wrong, and which draws it was wrong in; every condition that is given must hold.

    Attributes:
        why: In words; with all that follows but ``release`` and ``period`` it says which incident this is.
        mechanism: Name of a mechanism of a plan's steps; empty: all.
        package: A package of the environment that the reservation recorded; ``version``: its version, empty: any.
        release: Name of the release; ``period``: its period, empty: any.
        factor: By how much the noise was too small, above 1; 0: it protected nothing.
        erratum: A name in ``ERRATA``: the noise was right (factor 1), and a price was too small.
    """

    why: str
    mechanism: str = ""
    package: str = ""
    version: str = ""
    release: str = ""
    period: str = ""
    factor: Fraction
    erratum: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.erratum:
            if self.erratum not in ERRATA or self.factor != 1:
                raise ValueError("an erratum has a name that is known, and the noise was right")
        elif self.factor != 0 and self.factor <= 1:
            raise ValueError("the factor by which noise was too small is above 1, or 0 where it protected nothing")
        return self

    def is_of(self, body: Incident) -> bool:
        """Whether an entry records this very fault, whatever it corrected."""
        recorded = (body.why, body.mechanism, body.package, body.version, body.factor, body.erratum)
        return recorded == (self.why, self.mechanism, self.package, self.version, self.factor, self.erratum)


def events_corrected(event: Event, factor: Fraction) -> Event:
    """An event as it really was, its noise having been too small by this factor; 0: it protected nothing.

    A selection of keys is ceil(F) units at once; its noise is as small as it was.

    Raises:
        UnsupportedEvent: Of the event only rho is known: what less noise would have meant cannot be said.
    """
    older = as_selection(event)
    if older is not None and factor:
        return _selection(older, factor)
    if isinstance(event, Composed):
        return Composed(events=tuple(events_corrected(part, factor) for part in event.events))
    if not factor:
        return UNPROTECTED
    match event:
        case Repeated():
            return event.model_copy(update={"event": events_corrected(event.event, factor)})
        case Parallel():
            return event.model_copy(update={"events": tuple(events_corrected(part, factor) for part in event.events)})
        case BoundedRange():
            return BoundedRange(epsilon=factor * event.epsilon)
        case Approximate():
            epsilon, delta = approximate(event.epsilon, event.delta, math.ceil(factor))
            return UNPROTECTED if delta >= 1 else Approximate(epsilon=epsilon, delta=delta)
        case KeySelection():
            return _selection(event, factor)
        case Concentrated():
            raise UnsupportedEvent(
                "of a draw only rho is known, and what less noise would have cost cannot be said",
                hint="`--unprotected` charges that it protected nothing",
            )
        case _:
            return event.model_copy(update={"scale": event.scale / factor})


def _selection(event: KeySelection, factor: Fraction) -> Event:
    try:
        grown = of_event(event, math.ceil(factor))
    except UnsupportedEvent:
        return UNPROTECTED
    noise = event.noise.model_copy(update={"scale": event.noise.scale / factor})
    return grown.model_copy(update={"noise": noise})


def is_unprotected(event: Event) -> bool:
    """Whether any draw protected nothing."""
    if isinstance(event, Composed | Parallel):
        return any(map(is_unprotected, event.events))
    return is_unprotected(event.event) if isinstance(event, Repeated) else event == UNPROTECTED


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
    events = []
    for step in steps:
        each = _grown_before(step, plan.neighboring, times)
        events.append(Repeated(event=each, count=copies) if copies > 1 else each)
    return Composed(events=tuple(events))


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
