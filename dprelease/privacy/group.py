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
    KeySelection,
    KNorm,
    Laplace,
    Parallel,
    RandomScale,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.theorems.threshold import Noise, group_delta, least_threshold
from dprelease.privacy.unit import Neighboring

__all__ = ["approximate", "as_selection", "concentrated", "in_one_cell", "of_event", "pure"]

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


def of_event(event: Event, k: int) -> Event:
    """The event as it is for two data sets that differ in k units: every draw with the sensitivity of k units.

    Between the two data sets lie k steps of one unit each, and a change is the sum of k changes v_1 + ... + v_k:

    * Each norm obeys the triangle inequality: L1, L-infinity, and the K-norm's gauge (a sum of norms over cells)
      grow at most k times, as the rows do of a total with residuals (several replaced rows can be rows of one cell, so
      that they are rows like any others) and of noise of one random scale, the squared L2 norm k^2 times, and at most
      k l0 cells change.
    * Squares that bound several draws together (``DiscreteGaussian.common``): with every draw divided by its scale, all
      of these draws are one vector, whose L2 norm obeys the triangle inequality too: k^2 times.
    * Shifts: the k changes can overlap or fall on different cells. Where one unit changes one cell by at most c,
      the absolute values of the sum are at most (c a_1, c a_2, ...) where a_j of the k units change cell j and the
      a_j add up to k: so the partitions of k, times c, are a worst-case set. It is given up to k = 12. With more
      cells to a unit, the ways to overlap are too many: the shifts are then unknown, the norms remain.
    * Black boxes: by the formulas above. A bounded range grows to k epsilon: the loss is a sum of k losses, each
      in an interval of length epsilon.
    * Selections of keys: noise with the change of k units, and the probability that a key shows which the k units
      alone hold, from the threshold itself: docs/proofs/key-selection.md, Theorems 3 and 4. It grows far faster than k.
    * Composed and repeated: each draw for itself; composition holds for any two data sets. But what reveals with some
      probability and does nothing else may be a part of a selection, which older versions wrote as ``Composed`` of
      noise and ``Approximate(0, delta)``: that is true of one unit, and of k units it is not k delta. Where the parts
      are those of one selection (``as_selection``) its threshold is derived again; anything else is refused.
    * Parallel: k units can fall into k parts, or 2k under replace-one (every unit leaves one and enters one). Each
      way of falling is a composition of parts with the sensitivity of as many units; all ways, largest first,
      are the events of one parallel event under add_remove, whose largest counts.

    Args:
        event: For one unit.
        k: How many units, at least 1.

    Raises:
        UnsupportedEvent: If a delta reaches 1, the units can fall into parts in more than 1,000 ways, or something is
            composed with a reveal of which it is not known what decides about it.
    """
    if _size(k) == 1:
        return event
    if isinstance(event, DiscreteGaussian) and event.common is not None:
        grown = {"sensitivity": _scaled(event.sensitivity, k), "common": k * k * event.common}
        return event.model_copy(update=grown)
    if isinstance(event, DiscreteLaplace | DiscreteGaussian | Laplace | Gaussian):
        return event.model_copy(update={"sensitivity": _scaled(event.sensitivity, k)})
    if isinstance(event, KNorm):
        return event.model_copy(update={"gauge": k * event.gauge})
    if isinstance(event, TotalResidual):
        return event.model_copy(update={"rows": k * event.rows, "replaced": False})
    if isinstance(event, RandomScale):
        return event.model_copy(update={"rows": k * event.rows})
    if isinstance(event, Approximate):
        return _approximate(event, k)
    if isinstance(event, BoundedRange):
        return BoundedRange(epsilon=pure(event.epsilon, k))
    if isinstance(event, Concentrated):
        return Concentrated(rho=concentrated(event.rho, k))
    if isinstance(event, Repeated):
        return Repeated(event=of_event(event.event, k), count=event.count)
    if isinstance(event, KeySelection):
        return _selection(event, k)
    if isinstance(event, Composed):
        return _composed(event, k)
    return _parallel(event, k)


def as_selection(event: Event) -> KeySelection | None:
    """The selection of keys that an older version wrote as noise composed with ``Approximate(0, delta)``, or None.

    The threshold that was drawn with was at least the least one for delta and the keys of one unit, so that the least
    one is the worst: a key is shown the likelier the lower the threshold is. Where two numbers of keys are possible
    (n changes are those of n keys under add_remove, and of n / 2 under replace_one) the threshold is that of the fewer
    keys, which is the lower one, and the keys are the more. Delta is never below k times what it was for one unit.
    """
    if not isinstance(event, Composed) or len(event.events) != 2:
        return None
    noise, unseen = event.events
    if not isinstance(noise, DiscreteLaplace | DiscreteGaussian) or not isinstance(unseen, Approximate):
        return None
    known = noise.sensitivity
    by_one = known.linf == 1 and known.l1 == known.l2_squared == known.l0
    if unseen.epsilon or not unseen.delta or not by_one:
        return None
    fewest = known.l0 // 2 if known.l0 % 2 == 0 else known.l0
    least = least_threshold(_noise(noise), noise.scale, unseen.delta, fewest)
    return KeySelection(noise=noise, threshold=least, keys=known.l0, delta=unseen.delta)


def in_one_cell(event: Event) -> Event:
    """An event that costs at least as much and is read exactly: draws of which one cell takes all changes at once.

    Where a draw's worst-case vectors have one of a single cell that is as long as the L1 norm of all others, the pair
    of that cell dominates those of the others, whatever the accountant (docs/proofs/groups.md, Theorem 2): then it
    stands alone. All other draws stay as they are.
    """
    if isinstance(event, Composed):
        return Composed(events=tuple(in_one_cell(part) for part in event.events))
    if isinstance(event, Repeated):
        return Repeated(event=in_one_cell(event.event), count=event.count)
    if isinstance(event, KeySelection):
        return event.model_copy(update={"noise": in_one_cell(event.noise)})
    if not isinstance(event, DiscreteLaplace | DiscreteGaussian | Laplace | Gaussian):
        return event
    shifts = event.sensitivity.shifts
    longest = max((sum(shift) for shift in shifts), default=0)
    if len(shifts) < 2 or (longest,) not in shifts:
        return event
    return event.model_copy(update={"sensitivity": Sensitivity.of_one_cell(longest)})


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


def _noise(event: DiscreteLaplace | DiscreteGaussian) -> Noise:
    return "laplace" if isinstance(event, DiscreteLaplace) else "gaussian"


def _selection(event: KeySelection, k: int) -> KeySelection:
    units = k * event.units
    shown = group_delta(_noise(event.noise), event.noise.scale, event.threshold, event.keys, units)
    return _shown(event, k, max(event.delta, shown))


def _shown(event: KeySelection, k: int, delta: Fraction) -> KeySelection:
    units = k * event.units
    if delta >= 1:
        raise UnsupportedEvent(
            f"a selection of keys from {event.threshold} units on proves nothing for {units} units",
            hint="a key that so many units alone hold is shown more often than not: ask about fewer units, or raise "
            "the threshold by `min_units`",
            code="DPR-P420",
        )
    noise = event.noise.model_copy(update={"sensitivity": _scaled(event.noise.sensitivity, k)})
    return KeySelection(noise=noise, threshold=event.threshold, keys=event.keys, units=units, delta=delta)


def _composed(event: Composed, k: int) -> Event:
    older = as_selection(event)
    if older is not None:
        grown = _selection(older, k)
        return _shown(older, k, max(grown.delta, min(Fraction(1), k * older.delta)))
    reveals = [isinstance(part, Approximate) and not part.epsilon and part.delta > 0 for part in event.events]
    if any(reveals) and not all(reveals):
        raise UnsupportedEvent(
            f"nothing is proved for {k} units of draws beside a delta of which it is not known what shows with it",
            detail="with a selection of keys it grows much faster than the number of units",
            hint="plan the release again with this version, which keeps the threshold of its selections",
            code="DPR-P421",
        )
    return Composed(events=tuple(of_event(part, k) for part in event.events))


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
