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
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Self

from pydantic import model_validator

from dprelease.canonical import Value
from dprelease.errors import UnsupportedEvent
from dprelease.ledger.model.entry import Incident
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    KeySelection,
    Parallel,
    Repeated,
)
from dprelease.privacy.group import approximate, as_selection, of_event

__all__ = ["ERRATA", "UNPROTECTED", "Fault", "events_corrected", "is_unprotected"]

ERRATA = {
    "key-selection": "several units at once were priced at so many times the delta of a selection of keys, and keys "
    "that they alone hold are shown far more often than that"
}
"""Prices of the past that were too small, by name, and why."""


# Draws that protected nothing. A delta of 1 is no event; this one is as near as it needs to be for every cap and every
# float, and what is charged for it is a delta of exactly 1.
UNPROTECTED = Approximate(epsilon=Fraction(0), delta=1 - Fraction(1, 2**512))


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
        told = (body.why, body.mechanism, body.package, body.version, body.factor, body.erratum)
        return told == (self.why, self.mechanism, self.package, self.version, self.factor, self.erratum)


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
