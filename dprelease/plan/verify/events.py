"""The draws of a plan as the verifier sees them: every event, composed and repeated, as the numbers that it moves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

import numpy as np

from dprelease.plan.document import Step
from dprelease.plan.verify.mathematics.draws import Array, Cell, Draw, Norms
from dprelease.plan.verify.mathematics.sphere import is_quadrature
from dprelease.plan.verify.mathematics.top_loss import top_mass
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
    RandomScale,
    Repeated,
    TotalResidual,
)

__all__ = ["draws_of", "draws_of_event"]

_KNOWN = KNorm | TotalResidual | RandomScale | DiscreteLaplace | DiscreteGaussian | BoundedRange | Approximate


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
    require(isinstance(event, _KNOWN), f"{name} uses a mechanism that cannot be verified")
    if isinstance(event, Approximate):
        boxes = (Cell("pure", event.epsilon), Cell("reveal", event.delta))
        return Counter({((cell,),): 1 for cell in boxes if cell.value})
    draw = _draw_of(event)
    return Counter({draw: 1} if draw else {})


def _draw_of(event: Event) -> Draw:
    """The cells that one unit moves, in each of its worst ways; where they are not known, the norms of its moves."""
    if isinstance(event, KNorm) and event.gauge == 1:
        mass = top_mass(event.ball, event.dimension, event.scale)
        return ((Cell("triple", 1 / event.scale, mass=mass),),)
    if isinstance(event, KNorm):
        return ((Cell("pure", event.gauge / event.scale),),) if event.gauge else ()
    if isinstance(event, TotalResidual) and event.replaced:
        one = _total_and_residuals(event.model_copy(update={"rows": 1, "replaced": False}))
        return ((one, one), (_moved_residuals(event),))
    if isinstance(event, TotalResidual):
        return ((_total_and_residuals(event),),) if event.rows else ()
    if isinstance(event, RandomScale):
        return ((_random_scale(event),),) if event.rows else ()
    if isinstance(event, BoundedRange):
        return ((Cell("range", event.epsilon),),) if event.epsilon else ()
    if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
        return ()
    kind: Literal["laplace", "gaussian"] = "laplace" if isinstance(event, DiscreteLaplace) else "gaussian"
    known = event.sensitivity
    common = event.common if isinstance(event, DiscreteGaussian) else None
    shifts = known.shifts or (((math.floor(known.linf),),) if known.l0 == 1 and known.linf else ())
    if shifts and common is None:
        return tuple(tuple(Cell(kind, event.scale, c) for c in shift) for shift in shifts)
    # of draws that are bounded together what counts is the sum of all of them (``plan.verify.pairs``)
    norms = Norms(known.l0, known.l1, known.l2_squared if common is None else common, known.linf)
    return ((Cell(kind, event.scale, 1, norms),),) if all(norms) else ()


def _random_scale(event: RandomScale) -> Cell:
    """One row moves the vector of its cell by one length; of several rows all that is told is the smallest scale."""
    require(is_quadrature(event), "the scales of a draw of one random scale are not those of its law")
    least = event.scale * min(event.stretches)
    if event.rows == 1:
        return Cell("sphere", least, draw=event)
    numbers, longest = event.rows * (event.dimension + 1), event.rows * max(Fraction(1), event.total)
    steps = RandomScale.GRAIN
    norms = Norms(numbers, numbers * longest * steps, (event.rows * steps) ** 2 * event.length_squared, longest * steps)
    return Cell("gaussian", least * steps, 1, norms)


def _total_and_residuals(event: TotalResidual) -> Cell:
    """One row up or down: of the four outcomes, counted by the parity of what the noise on residuals is at most.

    Residuals of at most r in size, all of r's parity, are (r+1)^k vectors; (r+1)^k - r^k of them have the largest one
    go up as a row comes. So up from an even r weighs U0 = sum of ((r+1)^k - r^k) q^r, from an odd one U1, and down to
    any r is up from it at the weight q. The noise on the total is beside them with the same parity, s^|m|, and both go
    the same way with the weight (1 + q s)(U0 + s U1), one up and one down with (q + s)(U1 + s U0). Never less than
    independent, and of several rows the largest loss alone, as is claimed.
    """
    large = event.rows / event.scale
    if event.rows != 1:
        return Cell("either", large)
    residual, total = float((1 - event.share) * large), float(event.share * large)
    even, odd = _ways_up(event.dimension, residual)
    q, s = math.exp(-residual), math.exp(-total)
    same, apart = (1 + q * s) * (even + s * odd), (q + s) * (odd + s * even)
    alike = max(same / (same + apart), (1 + q * s) / ((1 + q) * (1 + s)))
    return Cell("either", large, small=(1 - 2 * event.share) * large, alike=Fraction(alike))


def _moved_residuals(event: TotalResidual) -> Cell:
    """One row in the place of another of the same cell: residuals move by two, the total stays.

    Of (r+1)^k vectors of size r the r^k in which no residual is at its far end do not grow. The others do, by two, and
    lose twice the rate of the residuals; e^-2 of that is the chance to shrink by two. The total has the same parity and
    any size. Residuals that do not move leave fewer at a far end. Never less than with a total of its own parity.
    """
    residual, total = float((1 - event.share) / event.scale), float(event.share / event.scale)
    even, odd = _ways_up(event.dimension, residual)
    q, s = math.exp(-residual), math.exp(-total)
    # beside sizes of one parity the total weighs 1 + s^2 or 2 s; what grows from a size is q times as heavy without
    grows = even * (1 + s * s) + odd * 2 * s
    whole = grows + q * (odd * (1 + s * s) + even * 2 * s)
    chance = max(grows / whole, 1 / (1 + q))
    return Cell("either", 2 * (1 - event.share) / event.scale, alike=Fraction(min(1.0, chance * (1 + q * q))))


def _ways_up(dimension: int, rate: float) -> tuple[float, float]:
    """Sums of ((r+1)^k - r^k) exp(-rate r) over even and over odd r, up to one factor.

    Where the rate is small, by Lipschitz' formula: the sum of n^k exp(-n z) over n >= 1 is k! times the sum of
    (z + 2 pi i j)^-(k+1) over all whole j, at z = rate and at z = rate + i pi.
    """
    if rate >= 1:
        r = np.arange(4 * (dimension + 40), dtype=np.float64)
        logs = dimension * np.log1p(r) - rate * r
        weights = np.exp(logs - logs.max()) * -np.expm1(dimension * np.log(r / (r + 1), where=r > 0, out=r * 0 - 1e9))
        return float(weights[::2].sum()), float(weights[1::2].sum())
    turns = np.arange(-2000, 2001)
    both, signed = (_real_powers(np.pi * odd / rate, -dimension - 1) for odd in (2 * turns, 2 * turns + 1))
    summed, difference = -math.expm1(-rate) * both, -(1 + math.exp(-rate)) * signed
    return (summed + difference) / 2, (summed - difference) / 2


def _real_powers(imaginary: Array, power: int) -> float:
    """The sum of the real parts of (1 + i y)^power over all y."""
    size = np.exp(power / 2 * np.log1p(imaginary**2))
    return float((size * np.cos(power * np.arctan(imaginary))).sum())
