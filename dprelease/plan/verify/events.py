"""The draws of a plan as the verifier sees them: every event, composed and repeated, as the numbers that it moves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from dprelease.plan.document import Step
from dprelease.plan.verify.draws import Cell, Draw, Norms
from dprelease.plan.verify.reach import require
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KeySelection,
    KNorm,
    Repeated,
)

__all__ = ["draws_of", "draws_of_event"]


def draws_of(steps: Iterable[Step]) -> Counter[Draw]:
    """Every draw of these steps and how often it occurs; steps that nothing moves are left out.

    Raises:
        BrokenPromiseError: If a step costs something that is not known here.
    """
    found: Counter[Draw] = Counter()
    for step in steps:
        found.update(draws_of_event(step.event, step.id))
    return found


def draws_of_event(event: Event, name: str = "an event") -> Counter[Draw]:
    """The draws of one event, what is composed and repeated written out; ``name`` is for the refusal."""
    if isinstance(event, Repeated):
        return Counter({draw: n * event.count for draw, n in draws_of_event(event.event, name).items()})
    if isinstance(event, KeySelection):
        event = Composed(events=(event.noise, Approximate(epsilon=Fraction(0), delta=event.delta)))
    if isinstance(event, Composed):
        found: Counter[Draw] = Counter()
        for part in event.events:
            found.update(draws_of_event(part, name))
        return found
    known = isinstance(event, KNorm | DiscreteLaplace | DiscreteGaussian | BoundedRange | Approximate)
    require(known, f"{name} uses a mechanism that cannot be verified")
    if isinstance(event, Approximate):
        boxes = (Cell("pure", event.epsilon), Cell("reveal", event.delta))
        return Counter({((cell,),): 1 for cell in boxes if cell.value})
    draw = _draw_of(event)
    return Counter({draw: 1} if draw else {})


def _draw_of(event: Event) -> Draw:
    """The cells that one unit moves, in each of its worst ways; where they are not known, the norms of its moves."""
    if isinstance(event, KNorm):
        return ((Cell("pure", event.gauge / event.scale),),) if event.gauge else ()
    if isinstance(event, BoundedRange):
        return ((Cell("range", event.epsilon),),) if event.epsilon else ()
    if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
        return ()
    kind: Literal["laplace", "gaussian"] = "laplace" if isinstance(event, DiscreteLaplace) else "gaussian"
    known = event.sensitivity
    shifts = known.shifts or (((math.floor(known.linf),),) if known.l0 == 1 and known.linf else ())
    if shifts:
        return tuple(tuple(Cell(kind, event.scale, c) for c in shift) for shift in shifts)
    norms = Norms(known.l0, known.l1, known.l2_squared, known.linf)
    return ((Cell(kind, event.scale, 1, norms),),) if all(norms) else ()
