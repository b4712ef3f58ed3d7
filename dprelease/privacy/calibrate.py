"""The least noise whose total loss fits a budget; the answer is checked again before it is returned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from dprelease.errors import BudgetTooSmall, UnsupportedEvent
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.near import CellDraws, NearDraws
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import (
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Laplace,
    Parallel,
    RandomScale,
)
from dprelease.privacy.theorems.collapse import SMALLEST_SCALE
from dprelease.privacy.theorems.joint.random_scale import has_curve

__all__ = ["LARGEST_SCALE", "largest_knob", "measured_loss", "near_knob", "rough_loss"]

Number = TypeVar("Number", float, Fraction)

LARGEST_SCALE = 2**50
_CLOSE = 1e-7  # of the budget: where the search stops
_NEAR = 1e-5  # of the budget: how far the fast floats are from the certified loss, so that nearer is of no use
_LONGEST = math.log(1000.0)
_INSIDE = 1 + Fraction(1, 10**9)  # how far from the ends of a bracket a step is inside of it
_LEVEL, _STEEP = 1e-6, 4.0  # the least and the largest power of the knob by which a loss is taken to grow


def measured_loss(accounting: str, event: Event | CellDraws, delta: Fraction) -> Fraction:
    """Epsilon of an event, certified, under one accountant; for ``auto`` under those that no other one beats."""

    def ask(name: str) -> Fraction:
        if isinstance(event, CellDraws):
            return ACCOUNTANTS[name].epsilon_of_cells(event, delta)
        return ACCOUNTANTS[name].epsilon(event, delta)

    return _first(_names(accounting, event), ask)


def rough_loss(accounting: str, event: Event | NearDraws, delta: Fraction) -> float:
    """A fast float near the loss. It certifies nothing.

    Raises:
        UnsupportedEvent: If no accountant that is allowed can take the event at this delta.
    """
    return _rough(_names(accounting, event), event, delta)


def _rough(names: Sequence[Sequence[str]], event: Event | NearDraws, delta: Fraction) -> float:
    least = {name: ACCOUNTANTS[name].rough_least(event, float(delta)) for group in names for name in group}
    best = math.inf

    def ask(name: str) -> float:
        nonlocal best
        if least[name] > best:
            return math.inf
        found = ACCOUNTANTS[name].rough_epsilon(event, float(delta))
        # floats say infinity where the certified figure says why there is none
        found = found if math.isfinite(found) else float(ACCOUNTANTS[name].epsilon(_exactly(event), delta))
        best = min(best, found)
        return found

    return _first([sorted(group, key=least.__getitem__) for group in names], ask)


def _exactly(event: Event | CellDraws | NearDraws) -> Event:
    return event.event if isinstance(event, CellDraws | NearDraws) else event


def _names(accounting: str, event: Event | CellDraws | NearDraws) -> tuple[tuple[str, ...], ...]:
    """Accountants in the order in which to ask; those of one group are asked together, and the least counts.

    A privacy loss distribution is never above the others but for their last digits, where it has the exact law of every
    draw. Where it has not, and reads a draw as randomized response, the others can be well below it.
    """
    if accounting != "auto":
        return ((accounting,),)
    law, fast = _driving("law"), _driving("fast")
    known = isinstance(event, CellDraws | NearDraws) or all(_well_known(atom) for atom in atoms(event))
    return (law, fast) if known else ((*law, *fast),)


def _driving(how: str) -> tuple[str, ...]:
    """The accountants that drive ``auto`` in this way (``Accountant.auto``)."""
    return tuple(name for name, accountant in ACCOUNTANTS.items() if accountant.auto == how)


def _well_known(atom: Event) -> bool:
    """Whether a privacy loss distribution knows as much about a draw as other accountants."""
    if atom.kind == "discrete_gaussian" and atom.scale.numerator >= SMALLEST_SCALE * atom.scale.denominator:
        return True
    if isinstance(atom, DiscreteLaplace | Laplace):
        return atom.sensitivity.l0 <= 1 or len(atom.sensitivity.shifts) == 1
    if isinstance(atom, DiscreteGaussian) and atom.scale < SMALLEST_SCALE:
        return atom.sensitivity.l0 <= 1 or len(atom.sensitivity.shifts) == 1
    if isinstance(atom, RandomScale):
        return has_curve(atom)
    return not isinstance(atom, BoundedRange | Parallel)


def _first(groups: Sequence[Sequence[str]], ask: Callable[[str], Number]) -> Number:
    """The least answer of the first group of accountants in which one has an answer."""
    refusals = []
    for group in groups:
        found = []
        for name in group:
            try:
                found.append(ask(name))
            except UnsupportedEvent as refusal:
                refusals.append(refusal)
        if found:
            return min(found)
    raise refusals[0]


def largest_knob(
    event_at: Callable[[Fraction], Event | CellDraws],
    accounting: str,
    budget: Budget,
    *,
    start: Fraction | None = None,
    roughly_at: Callable[[Fraction], Event | NearDraws] | None = None,
) -> Fraction:
    """The largest knob whose event costs at most the budget, to a part in ten million.

    A search on fast floats brings the knob near; then the certified accountant decides: what is returned was itself
    checked, and is never above the budget. It is the largest where the loss rises with the knob. That of a single
    discrete Gaussian whose scale is below the step of its values does not everywhere: delta is then a sum over few
    values, and their losses rise as their chances fall. There it is one of several knobs that fit.

    Args:
        event_at: The event at a knob greater than 0, or its draws alone, with the scales as they will be drawn.
        accounting: An accountant, or ``auto`` for the best of them.
        budget: Epsilon at delta, or rho.
        start: A knob that is known to be near.
        roughly_at: A faster function near ``event_at``, for the search that needs no proof.

    Raises:
        UnsupportedEvent: If the accountant cannot take the events at this delta.
        BudgetTooSmall: If the loss stays above the budget however small the knob is.
    """

    def certified(knob: Fraction) -> Fraction:
        event = event_at(knob)
        if budget.rho is not None:
            return total_rho(_exactly(event))
        return measured_loss(accounting, event, budget.delta)

    near = near_knob(
        roughly_at or (lambda knob: _exactly(event_at(knob))), accounting, budget, start=start, close=_NEAR
    )
    return _certify(certified, budget.limit, near)


def near_knob(
    event_at: Callable[[Fraction], Event | NearDraws],
    accounting: str,
    budget: Budget,
    *,
    start: Fraction | None = None,
    close: float = 1e-3,
) -> Fraction:
    """A knob at which the loss in fast floats is within ``close`` of the budget, relatively; it certifies nothing.

    It is near :func:`largest_knob` where the loss rises with the knob; where it does not, it can be near another of
    the knobs at which the budget is used up. Arguments and errors as there.
    """
    limit = float(budget.limit)

    def rough(knob: Fraction) -> float:
        event = event_at(knob)
        return (
            float(total_rho(_exactly(event))) if budget.rho is not None else rough_loss(accounting, event, budget.delta)
        )

    if start is None and budget.rho is None and accounting in ("auto", *_driving("law")):
        # a cheap neighbour, a few per cent away
        start = _near(lambda knob: _rough((_driving("fast"),), event_at(knob), budget.delta), limit, Fraction(1), 0.05)
    return _near(rough, limit, start or Fraction(1), close)


def _near(loss: Callable[[Fraction], float], limit: float, start: Fraction, close: float) -> Fraction:
    """A knob whose float loss is within ``close`` of the limit, by the secant rule on logarithms.

    What the knob moves grows like a power of it between its root and its square, and the loss by less where much of it
    is fixed. Where delta alone pays for nearly all of it epsilon is 0 up to some knob, and rises in a line from there:
    then by the secant of that. A bracket is kept for the rare case that this does not settle.
    """
    knob, slope = start, 1.0
    low, high = None, None
    last: tuple[float, float] | None = None
    before: tuple[Fraction, float] | None = None
    for _ in range(300):
        found, steep = loss(knob), False
        gap = math.log(found / limit) if found > 0 else -math.inf
        if abs(gap) <= close:
            return knob
        low, high = (knob, high) if gap < 0 else (low, knob)
        if gap < 0 and knob > start * 2**200:
            return knob  # nothing that this knob moves costs anything
        if gap > 0 and knob < start / 2**400:
            raise BudgetTooSmall("no amount of noise fits this budget", hint="raise epsilon or delta")
        at = math.log(knob.numerator) - math.log(knob.denominator)
        if last is not None and last[0] != at and math.isfinite(gap - last[1]):
            slope = (gap - last[1]) / (at - last[0])
            steep, slope = slope > _STEEP, min(max(slope, _LEVEL), _STEEP)
        step = min(max(-gap / slope, -_LONGEST), _LONGEST)
        aim = knob * Fraction(math.exp(step))
        if steep and before is not None:
            aim = knob + (knob - before[0]) * Fraction((limit - found) / (found - before[1]))
        last, before = (at, gap), (knob, found)
        if low is not None and high is not None:
            if float(high / low) < 1 + close / 100:
                return low
            # a step from a loss of 0 leads back to where the last one came from, but for rounding
            if gap == -math.inf or not low * _INSIDE < aim < high / _INSIDE:
                aim = (low + high) / 2 if high < 4 * low else Fraction(math.sqrt(low) * math.sqrt(high))
        knob = Fraction(float(aim)) if 1e-300 < float(aim) < 1e300 else aim
    return low if low is not None else knob


def _certify(loss: Callable[[Fraction], Fraction], limit: Fraction, knob: Fraction) -> Fraction:
    """The last steps, on the certified loss alone; 53 bits of knob are plenty, and keep the rationals short.

    By the secant rule, to just below the limit, between what is known to fit and what is known not to. Where pins and
    targets take most of a budget the loss is all but level, and no rule that takes the loss for a power of the knob
    gets there.
    """
    best: Fraction | None = None
    above: Fraction | None = None
    last: tuple[Fraction, float] | None = None
    for _ in range(200):
        knob = Fraction(float(knob))
        found = loss(knob)
        gap, fits = float(found / limit - 1), found <= limit
        if fits:
            best = knob if best is None else max(best, knob)
            if found == 0 or gap >= -_CLOSE:
                break
        else:
            above = knob if above is None else min(above, knob)
        if last is not None and (gap - last[1]) * (knob - last[0]) > 0:
            aim = knob - Fraction((gap + _CLOSE / 4) / (gap - last[1])) * (knob - last[0])
            aim = min(max(aim, knob / 2), knob * 2)
        else:  # the loss grows at most like the knob and at least like its root: this cannot overshoot far
            aim = knob * Fraction(float(limit / found)) ** (1 if fits else 2) * Fraction(1 - _CLOSE / 4)
        last = knob, gap
        if best is not None and above is not None:
            if above - best <= best * Fraction(_CLOSE):
                break
            aim = aim if best < aim < above else (best + above) / 2
        knob = aim
    if best is None:
        raise BudgetTooSmall("no amount of noise fits this budget", hint="raise epsilon or delta")
    return best
