"""The same spec at other budgets: one that meets every target, and margins against epsilon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from dprelease.errors import BudgetTooSmall, PlanError, UnsupportedEvent
from dprelease.plan.document import Account, Output, ReleasePlan
from dprelease.plan.forecast.horizon import Capped, Purse
from dprelease.privacy.budget import Budget, round_up
from dprelease.privacy.filters import Spent
from dprelease.spec.fields.document import PrivacySpec, ReleaseSpec

__all__ = ["Aim", "Planner", "Solved", "Way", "WhatIf", "at_epsilon", "noises_of", "solve", "what_if"]

Planner = Callable[[ReleaseSpec], ReleasePlan]
Aim = Literal["charge", "epsilon"]
_AMPLE = Fraction(10**6)
_SHARPLY = Fraction(1, 10**5)  # more than the sixth digit of an epsilon
_TURNS = 4  # how often an epsilon that was a digit too small is raised


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


def noises_of(spec: ReleaseSpec) -> tuple[str, ...]:
    """What the spec may write under ``noise``: its own, or with ``auto`` each of them, that one first."""
    if spec.privacy.noise != "auto":
        return (spec.privacy.noise,)
    return get_args(PrivacySpec.model_fields["noise"].annotation)


@dataclass(frozen=True)
class Way:
    """One noise at the smallest epsilon at which it meets every target.

    Attributes:
        noise: What the spec would say under ``noise``.
        plan: The plan; None where there is none.
        charges: What it would charge each account, in the currency of its lifetime cap and at its delta, as if nothing
            stood on it; None: nothing finite.
        refusal: Why there is none.
    """

    noise: str
    plan: ReleasePlan | None
    charges: tuple[tuple[Account, Fraction | None], ...] = ()
    refusal: str = ""

    @property
    def epsilon(self) -> Fraction:
        """The budget that it needs."""
        return _AMPLE if self.plan is None else self.plan.budget.limit

    @property
    def load(self) -> float:
        """The largest part of a cap that it would take; infinite where nothing finite is proved."""
        parts = (float("inf") if each is None else float(each / of.lifetime.limit) for of, each in self.charges)
        return max(parts, default=0.0)


@dataclass(frozen=True)
class Solved:
    """The plan that meets every target at least cost, and what each noise would have cost.

    Attributes:
        plan: The plan.
        noise: What the spec is to say under ``noise``, beside the plan's epsilon.
        aim: What was made least: what the accounts are charged, or epsilon.
        ways: Each noise that was tried.
    """

    plan: ReleasePlan
    noise: str
    aim: Aim
    ways: tuple[Way, ...]


def solve(spec: ReleaseSpec, planner: Planner, aim: Aim = "charge") -> Solved:
    """The plan that meets every target and pays every pin, at the spec's delta, and costs least.

    The targets fix every scale, so what a noise costs is what those scales cost: the certified loss of the whole. With
    ``noise: auto`` each noise is tried. The least charge is that of the largest part of a cap; the least epsilon can be
    a much larger charge, where the accounts add up in another way than the release is certified.

    Args:
        spec: A spec whose queries all have a target or a budget of their own.
        planner: :func:`dprelease.plan.allocate.planner.allocate`, given catalog, accounts and fingerprint.
        aim: What is to be least.

    Raises:
        PlanError: If a query has neither, or no epsilon meets the targets.
    """
    _check_targets(spec)
    ways = tuple(_way(spec, planner, noise) for noise in noises_of(spec))
    found = [way for way in ways if way.plan is not None]
    if not found:
        planner(at_epsilon(spec, _AMPLE))  # says why
        raise PlanError("no noise meets the targets", detail=ways[0].refusal, hint="take larger ones", code="DPR-P104")
    smaller = tuple(_smaller(spec, planner, min(way.epsilon for way in found)))
    # the spec as it stands comes first, for the author then writes nothing but an epsilon
    asked = [*smaller, *_as_it_stands(spec, planner, {way.epsilon for way in found}), *found]
    drawn = [way.plan.event for way in found if way.plan is not None and way.noise != "auto"]
    known = (way for way in ways if way.noise != "auto" or (way.plan is not None and way.plan.event not in drawn))
    ways = (*smaller[-1:], *known)
    best = min(asked, key=lambda way: (way.load, way.epsilon) if aim == "charge" else (way.epsilon, way.load))
    assert best.plan is not None  # noqa: S101 - only those that have one are compared
    return Solved(best.plan, best.noise, aim, ways)


def _check_targets(spec: ReleaseSpec) -> None:
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


def _way(spec: ReleaseSpec, planner: Planner, noise: str) -> Way:
    """One noise at the epsilon that its targets cost."""
    try:
        return _at_its_price(planner, at_epsilon(spec, _AMPLE, noise=noise))
    except PlanError as refusal:
        return Way(noise, None, refusal=refusal.summary)


def _at_its_price(planner: Planner, spec: ReleaseSpec) -> Way:
    """The plan at what it costs; asked for again at a little more where a digit of that is missing.

    Raises:
        PlanError: If there is none.
    """
    ample = planner(spec)
    least = Fraction(round_up(ample.loss[ample.certified].epsilon, 6))
    for _ in range(_TURNS):
        try:
            break_even = planner(at_epsilon(spec, least))
        except BudgetTooSmall as refusal:
            if not least < refusal.needed < _AMPLE:
                raise
            least = max(Fraction(round_up(Fraction(refusal.needed), 6)), least * (1 + Fraction(1, 10**6)))
        else:
            return _priced(spec.privacy.noise, break_even)
    return _priced(spec.privacy.noise, planner(at_epsilon(spec, least)))


def _smaller(spec: ReleaseSpec, planner: Planner, epsilon: Fraction) -> Iterator[Way]:
    """Plans of the spec as it stands at ever smaller epsilons: where no other noise fits, it takes one that does."""
    while True:
        try:
            way = _at_its_price(planner, at_epsilon(spec, epsilon * (1 - _SHARPLY)))
        except PlanError:
            return
        if way.epsilon >= epsilon:
            return
        yield way
        epsilon = way.epsilon


def _as_it_stands(spec: ReleaseSpec, planner: Planner, epsilons: set[Fraction]) -> Iterator[Way]:
    for epsilon in sorted(epsilons):
        try:
            yield _priced(spec.privacy.noise, planner(at_epsilon(spec, epsilon)))
        except PlanError:
            continue


def _priced(noise: str, plan: ReleasePlan) -> Way:
    charges = []
    for account in plan.accounts:
        case = Capped(Purse(account, account.lifetime), "", account.lifetime, before=Spent(), numbers=(1,))
        try:
            amount = case.last(plan.cost_of(account))
        except UnsupportedEvent:
            amount = None
        charges.append((account, amount))
    return Way(noise, plan, tuple(charges))


def what_if(spec: ReleaseSpec, planner: Planner, epsilons: Sequence[Fraction]) -> tuple[WhatIf, ...]:
    """What each of these epsilons would buy, at the spec's delta; one that is too small says so."""
    found = []
    for epsilon in epsilons:
        try:
            found.append(WhatIf(epsilon, planner(at_epsilon(spec, epsilon)).outputs))
        except PlanError as refusal:
            found.append(WhatIf(epsilon, (), refusal.summary))
    return tuple(found)
