"""Renyi differential privacy: curves add up order by order, then one conversion at the best order."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import atoms, pure_epsilon, zcdp_rho
from dprelease.privacy.accountants.conversion import best_epsilon
from dprelease.privacy.accountants.zcdp import rho_to_epsilon
from dprelease.privacy.event import DiscreteLaplace, Event
from dprelease.privacy.rounding import CONTEXT, real

__all__ = ["Rdp"]


class Rdp:
    """Sums Renyi curves over all draws (Mironov 2017, Proposition 1).

    Discrete Gaussian: R(a) = a rho (Canonne, Kamath and Steinke 2020). Discrete Laplace: the curve of randomized
    response with the draw's pure epsilon (Mironov 2017, Proposition 5), which bounds every pure mechanism and is
    exact for discrete Laplace with an L1 sensitivity of 1. Order infinity is included: with pure draws alone
    the sum of epsilons is always a valid bound.
    """

    name = "rdp"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound at this delta, over continuous orders."""
        rho = Fraction(0)
        pure: Counter[Fraction] = Counter()
        for atom, n in atoms(event).items():
            if isinstance(atom, DiscreteLaplace):
                pure[pure_epsilon(atom)] += n
            else:
                rho += n * zcdp_rho(atom)
        pure.pop(Fraction(0), None)
        at_infinity = sum((n * epsilon for epsilon, n in pure.items()), Fraction(0)) if rho == 0 else None
        if at_infinity == 0:
            return Fraction(0)
        if delta == 0:
            if at_infinity is None:
                raise UnsupportedEvent(
                    "Gaussian noise has no finite epsilon at delta 0",
                    hint="give the budget a delta, such as 1e-9, or write `noise: laplace`",
                )
            return at_infinity
        if not pure:
            return rho_to_epsilon(rho, delta)  # the same curve, so the same bound
        found = best_epsilon(_quick(rho, pure), _exact(rho, pure), delta)
        return found if at_infinity is None else min(found, at_infinity)


def _quick(rho: Fraction, pure: Counter[Fraction]) -> Any:
    slope = float(rho)
    terms = [(n, float(epsilon)) for epsilon, n in pure.items()]

    def curve(order: float) -> float:
        total = order * slope
        for n, epsilon in terms:
            # log(e^(a eps) + e^((1 - a) eps)) - log(1 + e^eps), divided by a - 1, without overflow
            peak = order * epsilon + math.log1p(math.exp(-(2 * order - 1) * epsilon))
            total += n * (peak - epsilon - math.log1p(math.exp(-epsilon))) / (order - 1)
        return total

    return curve


def _exact(rho: Fraction, pure: Counter[Fraction]) -> Any:
    exp, log1p = CONTEXT.exp, CONTEXT.log1p

    def curve(order: Any) -> Any:
        total = order * real(rho)
        for value, n in pure.items():
            epsilon = real(value)
            peak = order * epsilon + log1p(exp(-(2 * order - 1) * epsilon))
            total += n * (peak - epsilon - log1p(exp(-epsilon))) / (order - 1)
        return total

    return curve
