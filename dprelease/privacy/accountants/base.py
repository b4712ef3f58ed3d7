"""What an accountant is: a pure function from an event to an upper bound on its loss, in both directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from dprelease.errors import UnsupportedEvent
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
    Repeated,
)
from dprelease.privacy.unit import Neighboring

__all__ = [
    "TAKES",
    "Accountant",
    "Atom",
    "Atoms",
    "atoms",
    "check_delta",
    "check_epsilon",
    "pure_epsilon",
    "refused",
    "rest_epsilon",
    "taken",
    "zcdp_rho",
]

Atom = (
    DiscreteLaplace
    | DiscreteGaussian
    | KNorm
    | Laplace
    | Gaussian
    | Approximate
    | BoundedRange
    | Concentrated
    | Parallel
)
Atoms = Counter[Atom]

_EVERY = frozenset(
    {
        "discrete_laplace",
        "discrete_gaussian",
        "knorm",
        "laplace",
        "gaussian",
        "approximate",
        "bounded_range",
        "concentrated",
        "parallel",
    }
)

# Which kinds of event an accountant has a theorem for, by its name; a closed table like all others.
TAKES: dict[str, frozenset[str]] = {
    "basic": _EVERY,
    "advanced": _EVERY,
    "zcdp": _EVERY,
    "rdp": _EVERY,
    "pld": _EVERY - {"concentrated"},
}


class Accountant(Protocol):
    """Turns events whose parameters were fixed before the first draw into (epsilon, delta)."""

    @property
    def name(self) -> str:
        """Its name in a spec."""
        ...

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An epsilon for which the event is (epsilon, delta)-differentially private, rounded up.

        Raises:
            UnsupportedEvent: If no finite epsilon can be proved; says which accountants can.
            ValueError: If delta is not in [0, 1].
        """
        ...

    def rough_epsilon(self, event: Event, delta: float) -> float:
        """A fast float near :meth:`epsilon`; it guides a search and certifies nothing. Errors as there."""
        ...

    def delta(self, event: Event, epsilon: Fraction) -> Fraction:
        """A delta for which the event is (epsilon, delta)-differentially private, rounded up; at most 1.

        Raises:
            UnsupportedEvent: If the accountant has no theorem for the event; says which accountants have.
            ValueError: If epsilon is negative.
        """
        ...


def atoms(event: Event) -> Atoms:
    """The draws in an event and how often each occurs.

    Composition here neither depends on order nor on nesting, so that an event repeated n times, and n copies
    of it, are the same multiset: no accountant can count one of them differently. Parts in parallel stay together. A
    selection of keys is its noise and a (0, delta) event, for as many units as it is about.
    """
    if isinstance(event, Composed):
        total: Atoms = Counter()
        for part in event.events:
            total.update(atoms(part))
        return total
    if isinstance(event, Repeated):
        return Counter({atom: n * event.count for atom, n in atoms(event.event).items()})
    if isinstance(event, KeySelection):
        return Counter({event.noise: 1, Approximate(epsilon=Fraction(0), delta=event.delta): 1})
    return Counter({event: 1})


def taken(name: str, event: Event) -> Atoms:
    """The atoms of an event, all of them of kinds that the accountant of that name has a theorem for.

    Raises:
        UnsupportedEvent: Naming the first kind that it has none for, and the accountants that do.
    """
    counted = atoms(event)
    for atom in counted:
        if atom.kind not in TAKES[name]:
            raise refused(name, atom)
    return counted


def check_delta(delta: Fraction) -> None:
    """Refuse what is no probability.

    Raises:
        ValueError: If delta is not in [0, 1].
    """
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is at least 0 and at most 1, not {float(delta):.6g}")


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse a negative epsilon, at which the formulas here would claim too little.

    Raises:
        ValueError: If epsilon is negative.
    """
    if epsilon < 0:
        raise ValueError(f"epsilon is at least 0, not {float(epsilon):.6g}")


def refused(name: str, atom: Atom, why: str = "") -> UnsupportedEvent:
    """The error for an event that the accountant of that name cannot take; it names those that can, and no other."""
    others = [other for other in TAKES if other != name and _able(other, atom)]
    return UnsupportedEvent(
        f"{name} cannot take an event of kind {atom.kind!r}" + (f": {why}" if why else ""),
        hint=f"accountants that can: {', '.join(others) or 'none'}",
    )


def _able(name: str, atom: Atom) -> bool:
    """Whether the accountant has a figure for this draw alone, at a delta above the draw's own ones."""
    if atom.kind not in TAKES[name]:
        return False
    if name == "pld" and isinstance(atom, Parallel):
        return all(_able(name, inner) for part in atom.events for inner in atoms(part))
    return name not in ("basic", "advanced") or not isinstance(atom, Parallel) or rest_epsilon(atom) is not None


def pure_epsilon(atom: Atom) -> Fraction | None:
    """The exact epsilon of one draw at delta 0, or None where it has none.

    Laplace noise: L1 sensitivity / scale, whichever cells move. K-norm noise: gauge / scale (Hardt and Talwar 2010). A
    bounded range: its length. In parallel: the largest part, or under replace-one the sum of the two largest.
    """
    if isinstance(atom, Approximate) and atom.delta:
        return None
    if isinstance(atom, Parallel):
        return _worst_parts(atom, [_sum(part, pure_epsilon) for part in atom.events])
    return rest_epsilon(atom)


def rest_epsilon(atom: Atom) -> Fraction | None:
    """The exact epsilon of one draw where it does not reveal (see ``reveals``), or None where it has none."""
    if isinstance(atom, DiscreteLaplace | Laplace):
        return atom.sensitivity.l1 / atom.scale
    if isinstance(atom, KNorm):
        return atom.gauge / atom.scale
    if isinstance(atom, BoundedRange | Approximate):
        return atom.epsilon
    if isinstance(atom, Parallel):
        return _worst_parts(atom, [_sum(part, rest_epsilon) for part in atom.events])
    return None


def zcdp_rho(atom: Atom) -> Fraction:
    """The zero-concentrated loss of one draw where it does not reveal (see ``reveals``).

    Gaussian noise: squared L2 sensitivity / (2 scale^2) (Canonne, Kamath and Steinke 2020, Theorem 14). Laplace
    noise, independent on every cell: a cell that moves by c is (c / scale)-private, so it costs c^2 / (2 scale^2),
    and the cells add up to the same formula. Both need the norm alone, not the vector. Bounded range: epsilon^2 / 8
    (Cesar and Rogers 2021). Any other pure draw: epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4 and Lemma
    1.7). All add up also where a draw is chosen after the answers of those before it, its rho being fixed: Lemma 1.7
    is about such sequences.
    """
    if isinstance(atom, DiscreteGaussian | Gaussian | DiscreteLaplace | Laplace):
        return atom.sensitivity.l2_squared / (2 * atom.scale * atom.scale)
    if isinstance(atom, Concentrated):
        return atom.rho
    if isinstance(atom, BoundedRange):
        return atom.epsilon * atom.epsilon / 8
    if isinstance(atom, Parallel):
        return _worst_parts(atom, [_sum(part, zcdp_rho) for part in atom.events]) or Fraction(0)
    epsilon = rest_epsilon(atom)
    if epsilon is None:
        raise TypeError(f"an event of kind {atom.kind!r} is not one draw: `total_rho` takes compositions")
    return epsilon * epsilon / 2


def _sum(event: Event, of: Callable[[Atom], Fraction | None]) -> Fraction | None:
    total = Fraction(0)
    for atom, n in atoms(event).items():
        one = of(atom)
        if one is None:
            return None
        total += n * one
    return total


def _worst_parts(atom: Parallel, parts: list[Fraction | None]) -> Fraction | None:
    known = sorted((part for part in parts if part is not None), reverse=True)
    if len(known) != len(parts):
        return None
    return sum(known[: 1 if atom.neighboring is Neighboring.ADD_REMOVE else 2], Fraction(0))
