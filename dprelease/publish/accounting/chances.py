"""What can happen beside the certified pair: the chance of a larger loss, of a belief past its limits, of a guess.

All of it follows from the privacy curve of the release (``privacy.tails``, ``docs/proofs/loss-tail.md``), so that it
holds for every two neighbours and for whatever is made of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.errors import UnsupportedEvent
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.tails import Curve, chance_above, largest_but_for
from dprelease.privacy.theorems.concentrated import rho_to_delta
from dprelease.publish.numbers import at_most, percent_at_most, sure_after

__all__ = ["Chances", "chances", "chances_facts", "chances_told"]

_MOST_DRAWS = 200  # of different draws: from here on the quicker accountant alone


@dataclass(frozen=True)
class Chances:
    """Upper bounds, exact.

    Attributes:
        apart: The largest difference of a probability between two neighbours: delta at epsilon 0.
        above: The probability of a loss above the certified epsilon.
        passed: The probability that a belief passes the limits that hold up to a loss of epsilon.
        but_for: What the loss is above with a probability of at most the certified delta; None: nothing is proved, or
            that delta is 0.
    """

    apart: Fraction
    above: Fraction
    passed: Fraction
    but_for: Fraction | None


def chances(plan: ReleasePlan) -> Chances:
    """Of the certified loss of a plan; equal plans give equal figures."""
    return _chances(plan.event, plan.loss[plan.certified])


@lru_cache(maxsize=64)
def _chances(event: Composed, loss: Loss) -> Chances:
    curve = _curve(event)

    def known(epsilon: Fraction) -> Fraction:
        found = curve(epsilon)
        return min(found, loss.delta) if epsilon >= loss.epsilon else found

    above = chance_above(known, loss.epsilon)
    passed = min(Fraction(1), upper(real(above) * (1 + CONTEXT.exp(-real(loss.epsilon)))))
    but_for = largest_but_for(known, loss.epsilon, loss.delta) if loss.delta else None
    return Chances(apart=known(Fraction(0)), above=above, passed=passed, but_for=but_for)


def _curve(event: Composed) -> Curve:
    """The smallest delta of two accountants at every epsilon; each is a theorem about the same draws."""
    counted = atoms(event)
    without, rho = peeled(counted), total_rho(event)

    def rough(epsilon: Fraction) -> Fraction:
        return without.total(rho_to_delta(rho, epsilon))

    def fine(epsilon: Fraction) -> Fraction:
        return min(rough(epsilon), ACCOUNTANTS["pld"].delta(event, epsilon))

    if len(counted) > _MOST_DRAWS:
        return rough
    try:
        fine(Fraction(0))
    except UnsupportedEvent:  # no dominating pair is known for one of the draws
        return rough
    return fine


def chances_facts(plan: ReleasePlan) -> dict[str, str | None]:
    """The same for ``accounting.json``, as decimals rounded up."""
    found, loss = chances(plan), plan.loss[plan.certified]
    return {
        "guess_at_most_percent": percent_at_most((1 + found.apart) / 2),
        "worst_outcome_at_most_percent": sure_after(loss.epsilon),
        "loss_above_epsilon_at_most": at_most(found.above),
        "limits_passed_at_most": at_most(found.passed),
        "loss_at_most_but_for_delta": None if found.but_for is None else at_most(found.but_for, 6),
    }


def chances_told(plan: ReleasePlan) -> dict[str, str]:
    """The same for the pages; empty where a chance is 0, or nothing is proved."""
    found, facts, loss = chances(plan), chances_facts(plan), plan.loss[plan.certified]
    return {
        "guess": facts["guess_at_most_percent"] or "",
        "worst": facts["worst_outcome_at_most_percent"] or "",
        "above": at_most(found.above) if found.above else "",
        "times": at_most(found.above / loss.delta, 2) if loss.delta else "",
        "passed": at_most(found.passed) if found.passed else "",
        "but_for": facts["loss_at_most_but_for_delta"] or "",
    }
