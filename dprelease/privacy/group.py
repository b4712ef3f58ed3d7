"""What does it cost for k units at once? Group privacy: a family of four, or one person with several ids.

>>> pure(Fraction(1, 2), 3)
Fraction(3, 2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Laplace,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.unit import Neighboring

__all__ = ["approximate", "concentrated", "gaussian", "of_event", "pure", "renyi"]

_MOST_SHIFTS = 12  # group size up to which the worst-case shifts of one cell are listed: 77 of them
_MOST_CASES = 1000  # ways in which k units can fall into parts, up to which they are listed


def pure(epsilon: Fraction, k: int) -> Fraction:
    """Epsilon of k units: ``k epsilon`` (Dwork and Roth 2014, Theorem 2.2)."""
    return _size(k) * epsilon


def approximate(epsilon: Fraction, delta: Fraction, k: int) -> tuple[Fraction, Fraction]:
    """Epsilon and delta of k units: ``k epsilon`` and ``delta (e^(k epsilon) - 1) / (e^epsilon - 1)``, rounded up.

    By induction over the k steps between the two data sets: ``P_0(A) <= e^epsilon P_1(A) + delta <= ...``, so the
    deltas are weighted by 1, e^epsilon, ..., e^((k - 1) epsilon) (Vadhan 2017, Lemma 2.2). At epsilon 0 that
    is k delta. At most 1.
    """
    _size(k)
    if delta == 0 or k == 1:
        return k * epsilon, delta
    if epsilon == 0:
        return epsilon, min(Fraction(1), k * delta)
    one = real(epsilon)
    if (k - 1) * one > CONTEXT.log(1 / real(delta)):  # the last weight alone takes it above 1
        return k * epsilon, Fraction(1)
    return k * epsilon, min(Fraction(1), upper(real(delta) * CONTEXT.expm1(k * one) / CONTEXT.expm1(one)))


def concentrated(rho: Fraction, k: int) -> Fraction:
    """Rho of k units: ``k^2 rho`` (Bun and Steinke 2016, Proposition 1.9)."""
    return _size(k) ** 2 * rho


def gaussian(mu: Fraction, k: int) -> Fraction:
    """The Gaussian-DP parameter of k units: ``k mu`` (Dong, Roth and Su 2022, Theorem 2.14)."""
    return _size(k) * mu


def renyi(order: Fraction, epsilon: Fraction, doublings: int) -> tuple[Fraction, Fraction]:
    """Order and Renyi divergence of 2^c units: ``(order / 2^c, 3^c epsilon)`` (Mironov 2017, Proposition 2).

    Raises:
        PlanError: If the order is below 2^(c + 1), where the theorem says nothing.
    """
    if doublings < 0 or order < 2 ** (doublings + 1):
        raise PlanError(
            f"no Renyi bound for 2^{doublings} units at order {order}",
            hint=f"take an order of at least {2 ** (max(0, doublings) + 1)}",
        )
    return order / 2**doublings, 3**doublings * epsilon


def of_event(event: Event, k: int) -> Event:
    """The event as it is for two data sets that differ in k units: every draw with the sensitivity of k units.

    Between the two data sets lie k steps of one unit each, and a change is the sum of k changes v_1 + ... + v_k:

    * Each norm obeys the triangle inequality: L1, L-infinity, and the K-norm's gauge (a sum of norms over cells)
      grow at most k times, the squared L2 norm k^2 times, and at most k l0 cells change.
    * Shifts: the k changes can overlap or fall on different cells. Where one unit changes one cell by at most c,
      the absolute values of the sum are at most (c a_1, c a_2, ...) where a_j of the k units change cell j and the
      a_j add up to k: so the partitions of k, times c, are a worst-case set. It is given up to k = 12. With more
      cells to a unit, the ways to overlap are too many: the shifts are then unknown, the norms remain.
    * Black boxes: by the formulas above. A bounded range grows to k epsilon: the loss is a sum of k losses, each
      in an interval of length epsilon.
    * Composed and repeated: each draw for itself; composition holds for any two data sets.
    * Parallel: k units can fall into k parts, or 2k under replace-one (every unit leaves one and enters one). Each
      way of falling is a composition of parts with the sensitivity of as many units; all ways, largest first,
      are the events of one parallel event under add_remove, whose largest counts.

    Args:
        event: For one unit.
        k: How many units, at least 1.

    Raises:
        UnsupportedEvent: If a delta reaches 1, or the units can fall into parts in more than 1,000 ways.
    """
    if _size(k) == 1:
        return event
    if isinstance(event, DiscreteLaplace | DiscreteGaussian | Laplace | Gaussian):
        return event.model_copy(update={"sensitivity": _scaled(event.sensitivity, k)})
    if isinstance(event, KNorm):
        return event.model_copy(update={"gauge": k * event.gauge})
    if isinstance(event, Approximate):
        return _approximate(event, k)
    if isinstance(event, BoundedRange):
        return BoundedRange(epsilon=pure(event.epsilon, k))
    if isinstance(event, Concentrated):
        return Concentrated(rho=concentrated(event.rho, k))
    if isinstance(event, Repeated):
        return Repeated(event=of_event(event.event, k), count=event.count)
    if isinstance(event, Composed):
        return Composed(events=tuple(of_event(part, k) for part in event.events))
    return _parallel(event, k)


def _size(k: int) -> int:
    if k < 1:
        raise PlanError("a group has at least one unit", hint="write a whole number from 1 on")
    return k


def _approximate(event: Approximate, k: int) -> Approximate:
    epsilon, delta = approximate(event.epsilon, event.delta, k)
    if delta >= 1:
        raise UnsupportedEvent(
            f"an event with a delta of its own proves nothing for {k} units",
            hint="its delta grows with exp(k epsilon): lower its epsilon, or ask about fewer units",
        )
    return Approximate(epsilon=epsilon, delta=delta)


def _scaled(one: Sensitivity, k: int) -> Sensitivity:
    shifts: tuple[tuple[int, ...], ...] = ()
    if one.shifts and all(len(shift) == 1 for shift in one.shifts) and k <= _MOST_SHIFTS:
        largest = max(shift[0] for shift in one.shifts)
        shifts = tuple(tuple(largest * part for part in parts) for parts in sorted(_partitions(k, k, k)))
    return Sensitivity(
        l0=k * one.l0, l1=k * one.l1, l2_squared=k * k * one.l2_squared, linf=k * one.linf, shifts=shifts
    )


def _partitions(total: int, largest: int, most: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a whole number as a sum of at most that many falling whole numbers."""
    if total == 0:
        yield ()
    elif most:
        for first in range(min(total, largest), (total - 1) // most, -1):
            for rest in _partitions(total - first, first, most - 1):
                yield (first, *rest)


def _parallel(event: Parallel, k: int) -> Parallel:
    touched = k if event.neighboring is Neighboring.ADD_REMOVE else 2 * k
    parts = Counter(event.events)
    ways = list(islice(_ways(list(parts.items()), touched), _MOST_CASES + 1))
    if len(ways) > _MOST_CASES:
        raise UnsupportedEvent(
            f"{touched} units can fall into {len(event.events)} parts in more than {_MOST_CASES} ways",
            hint="ask about fewer units, or write the parts as composed, which costs more",
        )
    cases = (Composed(events=tuple(of_event(part, n) for part, n in way)) for way in ways)
    return Parallel(events=tuple(cases), neighboring=Neighboring.ADD_REMOVE)


def _ways(parts: list[tuple[Event, int]], units: int) -> Iterator[tuple[tuple[Event, int], ...]]:
    """Every way in which that many units can fall into parts, of which equal ones are not told apart."""
    if not parts or units == 0:
        yield ()
        return
    (part, copies), rest = parts[0], parts[1:]
    for here in range(units, -1, -1):
        if here < units and not rest:
            return  # the last kind of part takes all units that are left: fewer would cost less
        for split in _partitions(here, here, copies):
            for others in _ways(rest, units - here):
                yield (*((part, n) for n in split), *others)
