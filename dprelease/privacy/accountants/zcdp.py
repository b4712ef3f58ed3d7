"""Zero-concentrated differential privacy: rho adds up, then one tight conversion.

Draws with a delta of their own (key selection, black boxes) are taken apart first (``reveals``): rho is that of what
they do where they do not reveal, and epsilon is read at what they leave of delta. This is approximate zCDP (Bun and
Steinke 2016, Definition 8.1), with the deltas composed exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import Accountant, LossClaim, Words, check_delta, check_epsilon, taken
from dprelease.privacy.accountants.near import NearDraws
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.rho import rough_rho, summed_rhos
from dprelease.privacy.event import Event
from dprelease.privacy.theorems.concentrated import rho_to_delta, rho_to_epsilon, rough_rho_to_epsilon
from dprelease.words import marked

__all__ = ["Zcdp", "exact_sum", "total_rho"]


def exact_sum(values: Iterable[Fraction]) -> Fraction:
    """The sum of rationals, pairwise and reduced once: one by one a thousand different ones take ten times longer.

    Remembered, as every accountant asks for that of the same plan. Powers of two below are one denominator from the
    start.
    """
    return _sum_of(tuple((value.numerator, value.denominator) for value in values))


@lru_cache(maxsize=8)
def _sum_of(terms: tuple[tuple[int, int], ...]) -> Fraction:
    common = max((below for _, below in terms), default=1)
    if all(below & (below - 1) == 0 for _, below in terms):
        return Fraction(sum(above * (common // below) for above, below in terms), common)
    parts = list(terms)
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [(a * d + c * b, b * d) for (a, b), (c, d) in pairs] + rest
    return Fraction(*parts[0])


def total_rho(event: Event) -> Fraction:
    """The rho of an event, a rational (Bun and Steinke 2016, Lemma 1.7: rho is additive): of Gaussian noise exact.

    A draw with a delta of its own counts as it is where it does not reveal: ``Approximate(0, d)`` as 0 and
    ``Approximate(epsilon, d)`` as randomized response. **Rho alone then promises nothing**: the deltas are a second
    cost, to be checked apart, as `Zcdp.epsilon` and `filters.account_loss` do (``reveals.total_reveal`` adds them up).
    """
    return exact_sum(summed_rhos(taken("zcdp", event)))


class Zcdp(Accountant):
    """Adds rho over all draws and converts once (Canonne, Kamath and Steinke 2020, Proposition 12).

    Draws may be chosen after the answers of those before them (the rounds of a top list, say) as long as the rho and
    the delta of each are fixed beforehand: Lemma 1.7 of Bun and Steinke 2016 composes such sequences.
    """

    name = "zcdp"
    reads_together = True
    words = Words(
        how=marked("adds up the ρ of every draw, and reads the sum as ε once"),
        framework=marked("zero-concentrated differential privacy, mapped to (ε, δ)"),
        theorem=marked(
            "Canonne, Kamath and Steinke 2020, Proposition 12; ρ adds up by Bun and Steinke 2016, Lemma 1.7"
        ),
    )
    needs_delta = ("DPR-S545", "is zcdp, which by itself proves no epsilon at delta 0")

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound at this delta.

        Raises:
            UnsupportedEvent: At delta 0, or if the draws' own deltas leave nothing of it.
        """
        check_delta(delta)
        found = peeled(taken(self.name, event))
        rho = total_rho(event)
        if found.reveals and found.slack(delta) == 0 and rho:
            raise UnsupportedEvent(
                f"the draws' own deltas use up all of {float(delta):.6g}: zCDP implies no finite epsilon at delta 0",
                hint="give the budget a larger delta, or lower the draws' deltas",
            )
        return rho_to_epsilon(rho, found.slack(delta))

    def delta(self, event: Event, epsilon: Fraction) -> Fraction:
        """An upper bound at this epsilon."""
        check_epsilon(epsilon)
        return peeled(taken(self.name, event)).total(rho_to_delta(total_rho(event), epsilon))

    def rough_epsilon(self, event: Event | NearDraws, delta: float) -> float:
        """Epsilon in floats, to about 1e-12 relative, not rounded up: for the inside of a root search.

        Infinite where the draws' own deltas leave too little of ``delta``.
        """
        counted = taken("zcdp", event)
        rho, left = sum(n * rough_rho(atom) for atom, n in counted.items()), peeled(counted).rough_slack(delta)
        if left < 0:
            return math.inf
        return rough_rho_to_epsilon(rho, math.log(left) if left else -math.inf)

    def holds(self, claim: LossClaim) -> bool:
        """The least over the orders of the summed rho, from the direction of delta."""
        return claim.by_curves(renyi=False)
