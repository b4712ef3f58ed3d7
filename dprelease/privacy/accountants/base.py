"""What an accountant is: a pure function from an event to an upper bound on its loss."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Protocol

from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Event, Repeated

__all__ = ["Accountant", "Atom", "Atoms", "atoms", "pure_epsilon", "zcdp_rho"]

Atom = DiscreteLaplace | DiscreteGaussian
Atoms = Counter[Atom]


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
        """
        ...


def atoms(event: Event) -> Atoms:
    """The draws in an event and how often each occurs.

    Composition here neither depends on order nor on nesting, so that an event repeated n times, and n copies
    of it, are the same multiset: no accountant can count one of them differently.
    """
    if isinstance(event, Composed):
        total: Atoms = Counter()
        for part in event.events:
            total.update(atoms(part))
        return total
    if isinstance(event, Repeated):
        return Counter({atom: n * event.count for atom, n in atoms(event.event).items()})
    return Counter({event: 1})


def pure_epsilon(atom: DiscreteLaplace) -> Fraction:
    """L1 sensitivity / scale: exact, for integer-valued queries with discrete Laplace noise."""
    return atom.sensitivity.l1 / atom.scale


def zcdp_rho(atom: Atom) -> Fraction:
    """The zero-concentrated loss of one draw.

    Discrete Gaussian: squared L2 sensitivity / (2 scale^2) (Canonne, Kamath and Steinke 2020, Theorem 14).
    Discrete Laplace: epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4).
    """
    if isinstance(atom, DiscreteGaussian):
        return atom.sensitivity.l2_squared / (2 * atom.scale * atom.scale)
    epsilon = pure_epsilon(atom)
    return epsilon * epsilon / 2
