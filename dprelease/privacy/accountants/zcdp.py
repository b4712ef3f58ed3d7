"""Zero-concentrated differential privacy: rho adds up, then one tight conversion."""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import atoms, zcdp_rho
from dprelease.privacy.accountants.conversion import best_epsilon
from dprelease.privacy.event import Event
from dprelease.privacy.rounding import real

__all__ = ["Zcdp", "rho_to_epsilon", "total_rho"]


def total_rho(event: Event) -> Fraction:
    """The rho of an event, an exact rational (Bun and Steinke 2016, Lemma 1.7: rho is additive)."""
    return sum((n * zcdp_rho(atom) for atom, n in atoms(event).items()), Fraction(0))


def rho_to_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Epsilon at delta for rho-zCDP, rounded up: the curve is R(a) = a rho for every order a > 1.

    Raises:
        UnsupportedEvent: At delta 0, where zCDP alone implies no finite epsilon.
    """
    if rho == 0:
        return Fraction(0)
    if delta == 0:
        raise UnsupportedEvent(
            "zCDP implies no finite epsilon at delta 0",
            hint="give the budget a delta, such as 1e-9, or write `accounting: basic`",
        )
    quick, exact = float(rho), real(rho)
    guess = 1 + math.sqrt((math.log(delta.denominator) - math.log(delta.numerator)) / quick)
    return best_epsilon(lambda order: order * quick, lambda order: order * exact, delta, (guess,))


class Zcdp:
    """Adds rho over all draws and converts once (Canonne, Kamath and Steinke 2020, Proposition 12)."""

    name = "zcdp"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound at this delta."""
        return rho_to_epsilon(total_rho(event), delta)
