"""What one unit has lost where every unit has its rows in one stretch of time: parallel composition over periods.

A release about January reads no row of a unit of February, so it costs that unit nothing. So the sums of an account
are kept by stretch (month, say), and what a unit loses is the sum of its own; under ``replace_one``, where a unit of
one month may be replaced by a unit of another one, the sum of two. Proof, with what it needs and what it does not
promise: docs/proofs/parallel-periods.md.

>>> sums = {"2024-01": Spent(loss=Fraction(3)), "2024-02": Spent(loss=Fraction(2)), "2024-03": Spent(loss=Fraction(1))}
>>> int(most_lost(sums, ("2024-03",), Neighboring.ADD_REMOVE).loss), leading(sums, sums, Neighboring.ADD_REMOVE)
(1, ('2024-01',))
>>> march, replaced = ("2024-03",), Neighboring.REPLACE_ONE
>>> int(most_lost(sums, march, replaced).loss), leading(sums, march, replaced)
(4, ('2024-03', '2024-01'))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from heapq import nlargest

from dprelease.privacy.filters import Spent
from dprelease.privacy.unit import Neighboring

__all__ = ["EVERY", "leading", "most_lost", "raised", "within_one"]

_NOTHING = Spent()
EVERY = "every"
"""Among sums by window: what counts in each one, for nobody knows in which of them its rows were."""


def within_one(sums: Mapping[str, Spent], name: str) -> Spent:
    """What stands charged to one window: its own sum, and what is charged to every one.

    >>> sums = {"2023": Spent(loss=Fraction(3)), EVERY: Spent(loss=Fraction(2))}
    >>> int(within_one(sums, "2023").loss), int(within_one(sums, "2024").loss)
    (5, 2)
    """
    everywhere = sums.get(EVERY)
    own = sums.get(name, _NOTHING)
    return own if everywhere is None or name == EVERY else own.plus(everywhere)


def most_lost(sums: Mapping[str, Spent], about: Collection[str], relation: Neighboring) -> Spent:
    """The most that a step of the relation which concerns one of these stretches has lost.

    Losses and the draws' own deltas are each the most of any such step. A cap limits the two apart from one another
    (``filters.within``), so that it holds for this exactly where it holds for every step.

    Args:
        sums: What stands charged, by stretch; those that are not named have nothing.
        about: The stretches.
        relation: The relation of the account.
    """
    return Spent(
        loss=_most(sums, about, relation, lambda spent: spent.loss),
        reveals=_most(sums, about, relation, lambda spent: spent.reveals),
    )


def leading(sums: Mapping[str, Spent], about: Iterable[str], relation: Neighboring) -> tuple[str, ...]:
    """The stretches whose losses :func:`most_lost` has: one, or under ``replace_one`` two where a second one lost any.

    Of equals the earliest by name.
    """

    def size(name: str) -> Fraction:
        return sums.get(name, _NOTHING).loss

    first = min(about, key=lambda name: (-size(name), name), default="")
    others = [name for name in sums if name != first and size(name)]
    if not first or relation is Neighboring.ADD_REMOVE or not others:
        return (first,) if first else ()
    return first, min(others, key=lambda name: (-size(name), name))


def raised(sums: Mapping[str, Spent], about: Iterable[str], spent: Spent) -> dict[str, Spent]:
    """The sums behind a release, which is charged in full to every stretch that it touches."""
    return {**sums, **{name: sums.get(name, _NOTHING).plus(spent) for name in about}}


def _most(
    sums: Mapping[str, Spent], about: Collection[str], relation: Neighboring, part: Callable[[Spent], Fraction]
) -> Fraction:
    first = max((part(sums.get(name, _NOTHING)) for name in about), default=Fraction(0))
    if relation is Neighboring.ADD_REMOVE or not about:
        return first
    # The largest one of these stretches is beside the largest of all others: no other pair with one of these is larger.
    everything = nlargest(2, (part(spent) for spent in sums.values()))
    if everything and everything[0] > first:
        return first + everything[0]
    return first + (everything[1] if len(everything) > 1 else Fraction(0))
