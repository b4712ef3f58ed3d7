"""How the guarantee looks to an attacker: delta at every epsilon, and the errors that no test of theirs can avoid.

*Privacy profile.* delta(epsilon) is the least delta for which a release is (epsilon, delta)-private. The accountants
bound it from above at some epsilons. Between them: for one event A and one ordered pair of neighbours the function
``P(A) - x Q(A)`` is linear in x = e^epsilon, and delta(epsilon) is the largest of all of these and of 0; so it falls,
and is convex in x. Hence with bounds d_1, d_2 at x_1 < x_2 the chord between (x_1, d_1) and (x_2, d_2) is a bound too,
and beyond the last point its delta is. :meth:`Profile.delta` takes the smallest of all chords.

*Trade-off curve.* Whoever tries to tell from the tables which of two neighbouring data sets was used, and is wrong with
probability alpha where it was the first (a false alarm), is wrong with probability at least f(alpha) where it was the
second (a miss). Every (epsilon, delta) that is proved gives, for a test with rejection region A, ``1 - miss = P(A) <=
e^epsilon alpha + delta`` and, with the roles exchanged, ``1 - alpha <= e^epsilon miss + delta`` (Wasserman and Zhou
2010; Kairouz, Oh and Viswanath 2015, Theorem 2.1; Dong, Roth and Su 2022, Proposition 2.5):

    f(alpha) = max over the proved pairs of max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)).

Losses are rounded up and errors down, so that both curves stay promises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from dprelease.errors import UnsupportedEvent
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.event import Composed
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.theorems.concentrated import rho_to_delta

__all__ = ["Point", "Profile", "fewest_misses", "profile", "profile_of", "trade_off"]

Point = tuple[Fraction, Fraction]  # epsilon, delta

_GRID = 24  # points of the profile from 0 to one and a half times the certified epsilon
_WORK = 2400  # different draws, times points, that the slower accountant is asked about
_PAD = 1e-12  # relative: far above what floats lose on a chord
_SMALL = Fraction(1, 10**30)
_DIGITS = Context(prec=6, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Profile:
    """Proved pairs, epsilon rising and delta falling strictly."""

    points: tuple[Point, ...]

    @classmethod
    def of(cls, pairs: Iterable[Point]) -> Profile:
        """The pairs that no other one makes worthless."""
        kept: list[Point] = []
        for epsilon, delta in sorted(pairs):
            if not kept or delta < kept[-1][1]:
                kept.append((epsilon, delta))
        return cls(tuple(kept))

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at any epsilon >= 0: the lowest chord, or the delta of an earlier point."""
        points = [(float(e), float(d) * (1 + _PAD)) for e, d in self.points]
        found = min((d for e, d in points if e <= epsilon), default=1.0)
        after = [point for point in points if point[0] > epsilon]
        for e1, d1 in points:
            if e1 > epsilon:
                break
            found = min([found, *(_chord(epsilon, (e1, d1), point) for point in after)])
        return min(found, 1.0)

    def epsilon(self, delta: Fraction) -> Fraction | None:
        """The least epsilon of a point whose delta is at most this one; None where there is none."""
        return next((e for e, d in self.points if d <= delta), None)


def _chord(epsilon: float, one: tuple[float, float], two: tuple[float, float]) -> float:
    """The value at epsilon of the chord in (e^epsilon, delta); only exponents that are not positive, so no overflow."""
    whole = -math.expm1(one[0] - two[0])
    part = (math.exp(epsilon - two[0]) - math.exp(one[0] - two[0])) / whole
    return (one[1] + (two[1] - one[1]) * part) * (1 + _PAD)


def profile_of(plan: ReleasePlan) -> Profile:
    """The privacy profile of a plan: its certified losses, and more points from the accountants."""
    known = frozenset((loss.epsilon, loss.delta) for loss in plan.loss.values())
    return profile(plan.event, known, plan.loss[plan.certified].epsilon)


@lru_cache(maxsize=16)
def profile(event: Composed, known: frozenset[Point], size: Fraction) -> Profile:
    """The privacy profile of an event.

    zCDP bounds every point of a grid; the whole privacy loss, which is tighter and slower, as many of them as are
    quickly computed, the fewer the more different draws there are.

    Args:
        event: The whole release, for one unit.
        known: Pairs that are proved already.
        size: The epsilon about which the curve is wanted.
    """
    grid = _grid(size)
    counted = atoms(event)
    without, rho = peeled(counted), total_rho(event)
    rough = {e: without.total(rho_to_delta(rho, e)) for e in grid}
    pairs = set(known) | set(rough.items())
    wanted = max(4, min(len(grid), _WORK // max(1, len(counted))))
    try:
        for at in range(wanted):
            epsilon = grid[at * (len(grid) - 1) // (wanted - 1)]
            if 0 < rough[epsilon] <= _SMALL:
                continue  # nothing smaller is told, and a number like e^-1000000 takes long to be worked out
            pairs.add((epsilon, ACCOUNTANTS["pld"].delta(event, epsilon)))
    except UnsupportedEvent:
        pass  # no dominating pair is known for one of the draws: the other bounds remain
    return Profile.of((epsilon, _shorter(delta)) for epsilon, delta in pairs)


def _shorter(delta: Fraction) -> Fraction:
    """Six digits, rounded up; what is below 10^-30 counts as that, so that nothing grows long."""
    if not delta:
        return delta
    kept = max(delta, _SMALL)
    unit = Fraction(10) ** (Decimal(float(kept)).adjusted() - 5)
    return min(Fraction(1), -(-kept // unit) * unit)


def _grid(size: Fraction) -> list[Fraction]:
    """From 0 to 1.5 times the size, in even steps of few digits."""
    top = _DIGITS.create_decimal(repr(float(max(size, Fraction(1, 100)) * 3 / 2 / _GRID)))
    return [Fraction(top) * at for at in range(_GRID + 1)]


def trade_off(points: Sequence[Point], alpha: Fraction) -> Fraction:
    """The least probability of a miss at this probability of a false alarm, rounded down; at least 0."""
    most = Fraction(0)
    for epsilon, delta in points:
        factor = _odds(epsilon)
        found = max(1 - delta - factor * alpha, (1 - delta - alpha) / factor)
        most = max(most, found)
    return Fraction(most * 10**12 // 1, 10**12)


@lru_cache(maxsize=256)
def _odds(epsilon: Fraction) -> Fraction:
    """e^epsilon, rounded up: asked for every point of every curve, and of every page."""
    return upper(CONTEXT.exp(real(epsilon)))


def fewest_misses(points: Sequence[Point]) -> tuple[tuple[float, float], ...]:
    """The corners of the trade-off curve from (0, .) to (1, 0), in floats: between two of them it is a line."""
    lines = [(0.0, 0.0)]  # slope, value at 0
    for epsilon, delta in points:
        factor, rest = math.exp(min(float(epsilon), 700.0)), 1 - float(delta)
        lines += [(-factor, rest), (-1 / factor, rest / factor)]
    hull: list[tuple[float, float]] = []
    for slope, value in sorted(lines):
        if hull and hull[-1][0] == slope:
            hull.pop()  # of parallel lines the higher one, which comes later
        while len(hull) > 1 and _meet(hull[-2], (slope, value)) <= _meet(hull[-2], hull[-1]):
            hull.pop()
        hull.append((slope, value))
    edges = [0.0, *(_meet(one, two) for one, two in pairwise(hull)), 1.0]
    inside = sorted({min(max(edge, 0.0), 1.0) for edge in edges})
    return tuple((alpha, max(0.0, *(value + slope * alpha for slope, value in lines))) for alpha in inside)


def _meet(one: tuple[float, float], two: tuple[float, float]) -> float:
    """Where two lines meet, of which the second one falls less."""
    return (one[1] - two[1]) / (two[0] - one[0])
