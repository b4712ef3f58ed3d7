"""The same spec at other budgets: the least one that meets every target, and margins against epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.errors import PlanError
from dprelease.plan.document import Output, ReleasePlan
from dprelease.privacy.budget import Budget, round_up
from dprelease.spec.fields.document import ReleaseSpec

__all__ = ["Planner", "WhatIf", "at_epsilon", "solve", "what_if"]

Planner = Callable[[ReleaseSpec], ReleasePlan]
_AMPLE = Fraction(10**6)


@dataclass(frozen=True)
class WhatIf:
    """The accuracy that another epsilon would buy, or why it buys nothing."""

    epsilon: Fraction
    outputs: tuple[Output, ...]
    refusal: str = ""


def at_epsilon(spec: ReleaseSpec, epsilon: Fraction, *, noise: str | None = None) -> ReleaseSpec:
    """The same spec with another epsilon at its delta."""
    budget = Budget(epsilon=epsilon, delta=spec.privacy.budget.delta)
    update: dict[str, object] = {"budget": budget}
    if noise is not None:
        update["noise"] = noise
    return spec.model_copy(update={"privacy": spec.privacy.model_copy(update=update)})


def solve(spec: ReleaseSpec, planner: Planner) -> ReleasePlan:
    """The plan at the smallest epsilon, at the spec's delta, that meets every target and pays every pin.

    The targets fix every scale, so the answer is what those scales cost: closed form where everything is
    Gaussian (mu^2 adds up), the certified loss of the whole otherwise. With ``noise: auto`` the cheapest
    noise is taken of those that the accounts can take.

    Args:
        spec: A spec whose queries all have a target or a budget of their own.
        planner: :func:`dprelease.plan.allocate.planner.allocate`, given catalog, accounts and fingerprint.

    Raises:
        PlanError: If a query has neither, or no epsilon meets the targets.
    """
    exact = {each.query for each in spec.invariants}
    asked = {name: query for name, query in spec.queries.items() if name not in exact}
    without = [name for name, query in asked.items() if query.budget is None and not query.target]
    shared = [name for name, query in asked.items() if query.target and query.weight is not None]
    if without or shared:
        name, has = (without[0], "neither a target nor a budget") if without else (shared[0], "a share")
        raise PlanError(
            f"query {name!r} has {has}, so no epsilon is enough or too much for it",
            hint=f"with --solve every query has a target: write `target: {{MEASURE: {{margin: 100}}}}` in {name!r}"
            + (" instead of the share" if shared and not without else ""),
            code="DPR-P106",
        )
    noises = ("auto", "gaussian", "laplace") if spec.privacy.noise == "auto" else (spec.privacy.noise,)
    plans: list[ReleasePlan] = []
    refusals: list[PlanError] = []
    for noise in noises:
        try:
            ample = planner(at_epsilon(spec, _AMPLE, noise=noise))
            least = Fraction(round_up(ample.loss[ample.certified].epsilon, 6))
            plans.append(planner(at_epsilon(spec, least, noise=noise)))
        except PlanError as refusal:
            refusals.append(refusal)
    if not plans:
        raise refusals[0]
    return min(plans, key=lambda plan: plan.budget.epsilon or _AMPLE)


def what_if(spec: ReleaseSpec, planner: Planner, epsilons: Sequence[Fraction]) -> tuple[WhatIf, ...]:
    """What each of these epsilons would buy, at the spec's delta; one that is too small says so."""
    found = []
    for epsilon in epsilons:
        try:
            found.append(WhatIf(epsilon, planner(at_epsilon(spec, epsilon)).outputs))
        except PlanError as refusal:
            found.append(WhatIf(epsilon, (), refusal.summary))
    return tuple(found)
