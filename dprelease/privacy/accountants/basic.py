"""Basic composition: epsilons add up, and so do deltas."""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import atoms, pure_epsilon, zcdp_rho
from dprelease.privacy.accountants.zcdp import rho_to_epsilon
from dprelease.privacy.event import DiscreteLaplace, Event

__all__ = ["Basic"]


class Basic:
    """Sum of epsilons and of deltas (Dwork and Roth 2014, Theorem 3.16).

    A Gaussian draw has no epsilon of its own: each of the g Gaussian draws is read at delta / g through its
    zCDP conversion. With pure draws alone the sum is exact, and optimal at delta 0.
    """

    name = "basic"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound; with pure draws alone it is exact."""
        counted = atoms(event)
        pure = [(atom, n) for atom, n in counted.items() if isinstance(atom, DiscreteLaplace)]
        gaussian = [(atom, n) for atom, n in counted.items() if not isinstance(atom, DiscreteLaplace)]
        total = sum((n * pure_epsilon(atom) for atom, n in pure), Fraction(0))
        if not gaussian:
            return total
        if delta == 0:
            raise UnsupportedEvent(
                "Gaussian noise has no finite epsilon at delta 0",
                hint="give the budget a delta, such as 1e-9, or write `noise: laplace`",
            )
        each = delta / sum(n for _, n in gaussian)
        return total + sum((n * rho_to_epsilon(zcdp_rho(atom), each) for atom, n in gaussian), Fraction(0))
