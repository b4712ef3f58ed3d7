"""The best candidate for a domain: least noise within what the budget, the accounts and the goals allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from dprelease.errors import BudgetTooSmall, PlanError, UnsupportedEvent
from dprelease.estimate.workloads.tails import is_flat, widest
from dprelease.plan.allocate.candidates import CANDIDATES, Candidate
from dprelease.plan.allocate.domain import Domain, Planning
from dprelease.plan.design.accuracy import normal_margin
from dprelease.plan.document import Considered
from dprelease.plan.lower.lowered_workload import LoweredWorkload
from dprelease.privacy.budget import Budget, round_up
from dprelease.privacy.calibrate import LARGEST_SCALE
from dprelease.privacy.event import Event
from dprelease.spec.fields.document import ReleaseSpec

__all__ = ["Choice", "choose", "domains"]

_DEARER = 1.25  # how much more than the candidate that is lightest on an account another one may charge it


@dataclass(frozen=True)
class Choice:
    """How one domain is hidden.

    Attributes:
        domain: The domain, as the candidate that was taken hides it.
        scales: The scale of each of its steps.
        considered: Every other candidate that could be accounted, the best first.
    """

    domain: Domain
    scales: Mapping[int, Fraction]
    considered: tuple[Considered, ...]

    @property
    def fixed(self) -> list[tuple[str, Event]]:
        """What the domain costs: (account, event) of each step."""
        return list(zip(self.domain.accounts(self.scales), self.domain.events(self.scales), strict=True))

    @cached_property
    def parts(self) -> Mapping[int, Fraction]:
        """The part of the domain's budget of each step; they add up to exactly one."""
        return self.domain.parts(self.scales)


@dataclass(frozen=True)
class _Option:
    """A candidate that can be accounted: what its numbers would be worth, and what it would charge an account."""

    domain: Domain
    multiplier: Fraction
    score: float
    burden: float

    @property
    def widened(self) -> float:
        """How many times as wide margins are told as normal ones, where the law of a number is known by bounds only.

        Two plans are compared by their margins then, for one whose margins nobody can tell is no better.
        """
        confidence, asked = self.domain.planning.spec.publish.confidence, self.domain.lowered.asked
        pure = [one for at in self.domain.queries if isinstance(one := asked[at], LoweredWorkload) and one.pure]
        ones = [each.design(each.strategy, [1.0] * len(each.drafts)) for each in pure]
        if all(map(is_flat, ones)):
            return 1.0
        return widest(1.0, confidence) / normal_margin(confidence)

    @property
    def tables_alone(self) -> bool:
        """Whether it draws workloads as tables behind discrete Laplace noise."""
        asked = self.domain.lowered.asked
        return any(isinstance(one := asked[at], LoweredWorkload) and one.pure is not None for at in self.domain.queries)


def domains(spec: ReleaseSpec) -> dict[str, list[int]]:
    """Pinned queries each by itself, all others together under ``""``: domain -> places of its queries.

    What is published exactly is in none.
    """
    found: dict[str, list[int]] = {}
    exact = {each.query for each in spec.invariants}
    for at, (name, query) in enumerate(spec.queries.items()):
        if name in exact:
            continue
        found.setdefault(name if query.budget is not None else "", []).append(at)
    return found


def choose(
    planning: Planning, name: str, queries: Sequence[int], budget: Budget, others: Sequence[tuple[str, Event]]
) -> Choice:
    """The best candidate for a domain, with its certified scales.

    With ``noise: auto`` a candidate is passed over where it would charge an account more than the release's
    epsilon, and much more than another candidate would: a release that is cheap today must not empty the account
    that later ones live on.

    Args:
        planning: The release.
        name: The name of a pinned query, or ``""``.
        queries: The places of the domain's queries.
        budget: What the domain and ``others`` may cost together.
        others: What is fixed already: (account, event).

    Raises:
        PlanError: If no candidate can be accounted as asked, or the goals cost more than the budget.
    """
    options = _options(planning, name, queries, budget, others)
    # What an account bears is told by Gaussian noise where a workload can have that: among many tables the lightest
    # charge may come with many times the noise.
    usual = [option for option in options if not option.tables_alone] or options
    bearable = max(1.0, _DEARER * min(option.burden for option in usual))
    options.sort(key=lambda option: option.score + 2 * math.log(option.widened))
    chosen = next(option for option in options if option.burden <= bearable)
    domain = chosen.domain
    divided = _by_shares(domain, domain.scales(chosen.multiplier)) if domain.allocation == "least_error" else ()
    scales = domain.scales(domain.multiplier(exact=True, start=chosen.multiplier))
    if max(scales.values()) > LARGEST_SCALE:
        raise BudgetTooSmall(
            f"the noise would need a scale of {float(max(scales.values())):.1e} grid steps, more than 2^50",
            hint="raise the budget, ask fewer queries, or give the column a coarser `step`",
        )
    considered = divided + tuple(
        Considered(
            name=option.domain.candidate.name,
            noise=round_up(Fraction(math.exp((option.score - chosen.score) / 2)), 4),
            why_not=_why_not(option, chosen, bearable, budget),
        )
        for option in options
        # Beside Gaussian noise of a workload, discrete Laplace noise is named where it would be less.
        if option is not chosen
        and not (option.tables_alone and not chosen.tables_alone and option.score > chosen.score)
    )
    return Choice(domain, scales, considered if domain.slopes else ())


def _options(
    planning: Planning, name: str, queries: Sequence[int], budget: Budget, others: Sequence[tuple[str, Event]]
) -> list[_Option]:
    """Every allowed candidate that can be accounted within the budget; one of two that make the same of the domain."""
    options: list[_Option] = []
    reasons: dict[str, None] = {}
    errors: list[PlanError] = []
    seen: set[object] = set()
    for candidate in _allowed(planning, queries):
        key = (candidate.noise, candidate.unit, planning.lowering.shape(name, candidate.form))
        if key in seen:
            continue
        seen.add(key)
        lowered = planning.lowering.lower({name: candidate.form})
        domain = Domain(planning, lowered, candidate, queries, budget, others, planning.spec.privacy.allocation)
        try:
            multiplier = domain.multiplier(exact=False)
        except UnsupportedEvent as refusal:
            reasons[f"{candidate.name}: {refusal.summary}; {refusal.hint}"] = None
            continue
        except PlanError as error:
            errors.append(error)
            continue
        scales = domain.scales(multiplier)
        options.append(_Option(domain, multiplier, domain.score(scales), domain.burden(scales)))
    if not options:
        raise _nothing(errors, reasons)
    return options


def _by_shares(domain: Domain, scales: Mapping[int, Fraction]) -> tuple[Considered, ...]:
    """What the shares of the spec, taken of the budget, would lose where it was divided for the least error instead."""
    plain = replace(domain, allocation="shares")
    if plain.slopes == domain.slopes:
        return ()
    lost, least = plain.error(plain.scales(plain.multiplier(exact=False))), domain.error(scales)
    return (Considered(name="the same, divided by shares", noise=round_up(Fraction(math.sqrt(lost / least)), 4)),)


def _why_not(option: _Option, chosen: _Option, bearable: float, budget: Budget) -> str:
    if option.burden > bearable:
        return _too_dear(option.burden, budget)
    if option.score < chosen.score and option.widened > chosen.widened:
        return f"its margins are known by bounds alone, {option.widened:.3g} times as wide as normal ones"
    return ""


def _too_dear(burden: float, budget: Budget) -> str:
    if math.isinf(burden):
        return "an account's composition cannot take it"
    return f"it would charge an account epsilon {burden * float(budget.epsilon or 0):.3g} for this release"


def _allowed(planning: Planning, queries: Sequence[int]) -> list[Candidate]:
    """The candidates that a domain may take; ranges have Gaussian noise, and their budget is a rho."""
    noise, asked = planning.spec.privacy.noise, list(planning.spec.queries.values())
    able = [each for each in CANDIDATES if planning.lowering.takes(each.form, queries)]
    if noise == "auto":
        ranged = any(asked[at].ranges is not None for at in queries)
        return [each for each in able if each.noise == "gaussian" or not ranged]
    return [each for each in able if each.noise == noise and not each.form.knorm]


def _nothing(errors: Sequence[PlanError], reasons: Mapping[str, None]) -> PlanError:
    if errors:
        return min(errors, key=lambda error: getattr(error, "needed", math.inf))
    return PlanError(
        "no noise fits this accounting, budget and account together",
        detail="; ".join(reasons),
        hint="write `noise: gaussian` with a delta, `noise: laplace`, or `accounting: auto`",
        code="DPR-P101",
    )
