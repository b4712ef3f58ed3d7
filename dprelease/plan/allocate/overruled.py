"""What `noise: auto` would have taken, where a spec names the noise and an account pays much more for that."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dprelease.errors import PlanError
from dprelease.plan.allocate.best_candidate import Choice, choose
from dprelease.plan.allocate.planning import Planning
from dprelease.plan.document import Considered
from dprelease.privacy.budget import round_up

__all__ = ["overruled"]

_SUMS = ("zcdp", "rdp")  # accounts that pure noise costs more than its epsilon says
_MORE = 1.01  # from which ratio of charges on there is something to tell


def overruled(choice: Choice) -> tuple[Considered, ...]:
    """One other way: what the planner would have taken, its noise, and what both are charged.

    Nothing where the spec leaves the noise open or asks for Gaussian noise, or where the noise that it names is charged
    no more than a hundredth above that.

    Args:
        choice: What the shared queries get, by the noise of the spec.
    """
    domain, planning = choice.domain, choice.domain.planning
    sums = any(account.composition in _SUMS for account in planning.accounts)
    if planning.spec.privacy.noise not in ("knorm", "laplace") or domain.budget.epsilon is None or not sums:
        return ()
    privacy = planning.spec.privacy.model_copy(update={"noise": "auto"})
    spec = planning.spec.model_copy(update={"privacy": privacy})
    open_noise = Planning(replace(planning.lowering, spec=spec), planning.accounts)
    try:
        auto = choose(open_noise, "", domain.queries, domain.budget, domain.others)
    except PlanError:
        return ()
    charged = [replace(domain, planning=open_noise).burden(choice.scales), auto.domain.burden(auto.scales)]
    if not charged[0] > charged[1] * _MORE:
        return ()
    ours, other = (_epsilon(each, domain.budget.epsilon) for each in charged)
    noise = math.exp((auto.domain.score(auto.scales) - domain.score(choice.scales)) / 2)
    why = f"the spec asks for `noise: {planning.spec.privacy.noise}`, for which an account is charged {ours}; it would "
    name = f"noise: auto, which is {auto.domain.candidate.name}"
    why_not = f"{why}charge an account epsilon {other} for this release"
    return (Considered(name=name, noise=round_up(Fraction(noise), 4), why_not=why_not),)


def _epsilon(burden: float, epsilon: Fraction) -> str:
    return "what it cannot take" if math.isinf(burden) else f"{burden * float(epsilon):.3g}"
