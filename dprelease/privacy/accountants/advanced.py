"""Advanced composition of Dwork, Rothblum and Vadhan, for unequal draws."""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import atoms, pure_epsilon, zcdp_rho
from dprelease.privacy.accountants.zcdp import rho_to_epsilon
from dprelease.privacy.event import DiscreteLaplace, Event
from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = ["Advanced"]


class Advanced:
    """``sqrt(2 ln(1/d') sum e_i^2) + sum e_i (exp(e_i) - 1)`` at total delta ``sum d_i + d'``.

    Source: Dwork, Rothblum and Vadhan 2010, Theorem III.3, in its form for unequal epsilons (Dwork and Roth
    2014, Theorem 3.20). Always valid, often far from tight: with few draws basic composition is smaller. With
    Gaussian draws half of delta is the slack d', and the other half is split over them.
    """

    name = "advanced"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound at this delta."""
        counted = atoms(event)
        gaussians = sum(n for atom, n in counted.items() if not isinstance(atom, DiscreteLaplace))
        slack = delta / 2 if gaussians else delta
        losses = []
        for atom, n in counted.items():
            if isinstance(atom, DiscreteLaplace):
                losses.append((real(pure_epsilon(atom)), n))
            else:
                self._needs(delta)
                losses.append((real(rho_to_epsilon(zcdp_rho(atom), slack / gaussians)), n))
        squares = sum(n * epsilon**2 for epsilon, n in losses)
        if squares == 0:
            return Fraction(0)
        self._needs(delta)
        drift = sum(n * epsilon * CONTEXT.expm1(epsilon) for epsilon, n in losses)
        return upper(CONTEXT.sqrt(2 * CONTEXT.log(1 / real(slack)) * squares) + drift)

    @staticmethod
    def _needs(delta: Fraction) -> None:
        if delta == 0:
            raise UnsupportedEvent(
                "advanced composition needs a delta greater than 0",
                hint="give the budget a delta, such as 1e-9, or write `accounting: basic`",
            )
