"""The best candidate for a domain: least noise within what the budget, the accounts and the goals allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from dprelease.errors import BudgetTooSmall, PlanError, UnsupportedEvent
from dprelease.estimate.workloads.tails import is_flat
from dprelease.noise.mechanisms.discrete_gaussian import normal_margin
from dprelease.noise.weighted_sums import widest
from dprelease.plan.allocate.candidates import CANDIDATES, Candidate
from dprelease.plan.allocate.domain import Domain
from dprelease.plan.allocate.planning import Planning
from dprelease.plan.design.workload_joint import JointDraws
from dprelease.plan.document import Account, Considered
from dprelease.privacy.budget import Budget, round_up
from dprelease.privacy.calibrate import LARGEST_SCALE
from dprelease.privacy.event import Event
from dprelease.spec.fields.document import ReleaseSpec

__all__ = ["Choice", "choose", "domains"]

_AS_LIGHT = 1.01  # where the policy prefers the account: a hundredth is no difference
_DEARER = 1.25  # how much more than the candidate that is lightest on an account another one may charge it
_LOSS = 0.01  # how much the loss of a release counts beside its charge
_POWER = 4  # what charges x times as much as that has less noise by this power of x, or is passed over
_NEAR = 0.02  # twice a logarithm: candidates that are no further apart are compared at their certified scales
_EXACT = 1 + 1e-6  # a certified charge that is no further above a limit is that limit
_TIE = 1e-6  # of that: what certified scales leave open, so that the first one stays


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
    def residuals(self) -> bool:
        """Whether it is of a later kind, which is listed where one is taken, or where it has less noise."""
        form = self.domain.candidate.form
        return form.residuals or form.random_scale or form.parts or form.apart

    @cached_property
    def centres(self) -> bool:
        """Whether it centres counts with a condition: of a later kind, too, and also listed where it has less noise."""
        drawn = (part for draft in self.domain.lowered.drafts for part in draft.parts)
        return any(part.kind == "balance" and part.where is not None for part in drawn)

    @property
    def worth(self) -> float:
        """The score, with margins that are known by bounds only as so much more noise."""
        return self.score + 2 * math.log(self.widened)

    def price(self, bearable: float) -> float:
        """The score, and what an account is charged beyond ``bearable``, as so much more noise: nothing jumps there.

        Where targets fix the noise, what an account is charged; and the loss where that is nearly the same.
        """
        if not self.domain.slopes:
            return 2 * math.log(self.burden) + _LOSS * self.worth if 0 < self.burden < math.inf else self.worth
        return self.worth + 2 * _POWER * math.log(max(1.0, self.burden / bearable))

    def certified(self) -> _Option:
        """The same at the scales at which it would be drawn: nothing of it is near any more."""
        multiplier = self.domain.multiplier(exact=True, start=self.multiplier)
        return _option(self.domain, multiplier, exact=True)

    def is_within_caps(self, bearable: float) -> bool:
        """Whether it charges no more than that, or at least no account more than its cap."""
        return self.burden <= bearable or self.domain.is_within_caps(self.domain.scales(self.multiplier))

    @cached_property
    def widened(self) -> float:
        """How many times as wide margins are told as normal ones, where the law of a number is known by bounds only.

        Two plans are compared by their margins then, for one whose margins nobody can tell is no better.
        """
        confidence = self.domain.planning.spec.publish.confidence
        pure = self.domain.lowered.tables_alone(self.domain.queries)
        apart = [each for each in pure if not isinstance(each.pure, JointDraws)]  # margins of the others are exact
        ones = [each.design(each.strategy, [1.0] * len(each.drafts)) for each in apart]
        if all(map(is_flat, ones)):
            return 1.0
        return widest(1.0, confidence) / normal_margin(confidence)

    @cached_property
    def tables_alone(self) -> bool:
        """Whether it draws workloads as tables behind discrete Laplace noise."""
        return bool(self.domain.lowered.tables_alone(self.domain.queries))


def _option(domain: Domain, multiplier: Fraction, *, exact: bool) -> _Option:
    scales = domain.scales(multiplier)
    return _Option(domain, multiplier, domain.score(scales), domain.burden(scales, exact=exact))


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

    With ``noise: auto`` a candidate may charge an account the release's epsilon, or a quarter more than the candidate
    that is lightest on it. One that charges x times as much must have less noise by a factor of x^4: a release that is
    cheap today must not empty the account that later ones live on. The policy can say otherwise (``Account.prefer``).
    Candidates that are near one another are compared at the scales at which they would be drawn, and their charges as
    they would be charged.

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
    bearable = _bearable(planning.accounts, [option.burden for option in usual])
    spared = any(account.prefer == "account" for account in planning.accounts)
    chosen, compared = _best([each for each in options if not spared or each.burden <= bearable], bearable)
    options = [*compared, *(each for each in options if spared and each.burden > bearable)]
    domain = chosen.domain
    scales: Mapping[int, Fraction] = domain.scales(domain.multiplier(exact=True, start=chosen.multiplier))
    divided: tuple[Considered, ...] = ()
    if domain.allocation != "shares":
        domain, scales, divided = _by_shares(domain, chosen.multiplier, scales, bearable)
    if max(scales.values()) > LARGEST_SCALE:
        raise BudgetTooSmall(
            f"the noise would need a scale of {float(max(scales.values())):.1e} grid steps, more than 2^50",
            hint="raise the budget, ask fewer queries, or give the column a coarser `step`",
        )
    charged = chosen.burden if chosen.burden <= bearable else domain.burden(scales)
    considered = divided + tuple(
        Considered(
            name=option.domain.candidate.name,
            noise=round_up(Fraction(math.exp((option.score - chosen.score) / 2)), 4),
            why_not=_why_not(option, chosen, charged, bearable),
        )
        for option in sorted(options, key=lambda option: option.score)
        if option is not chosen
        and (chosen.residuals or chosen.centres or not option.residuals or option.score < chosen.score)
        and (chosen.centres or not option.centres or option.score < chosen.score)
        # Beside Gaussian noise of a workload, discrete Laplace noise is named where it would be less.
        and not (option.tables_alone and not chosen.tables_alone and option.score > chosen.score)
    )
    return Choice(domain, scales, considered if domain.slopes else ())


def _best(options: list[_Option], bearable: float) -> tuple[_Option, list[_Option]]:
    """The option with the least price, and all of them as they were compared."""
    if math.isinf(bearable):
        return min(options, key=lambda option: option.worth), options
    order = sorted(options, key=lambda option: option.price(bearable))
    first = next((option for option in order if option.is_within_caps(bearable)), order[0])
    near = [option for option in options if abs(option.price(bearable) - first.price(bearable)) <= _NEAR]
    if len(near) == 1:
        return first, options
    certified = {id(option): option.certified() for option in near}
    best = min(certified.values(), key=lambda option: option.price(bearable))
    better = best.price(bearable) < certified[id(first)].price(bearable) - _TIE
    if not better or not best.is_within_caps(bearable):
        return first, options
    return best, [certified.get(id(option), option) for option in options]


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
        # A ball changes no division into draws. Beside other draws the pair of one random scale takes seconds to work
        # out, again for every scale that is tried.
        plain = planning.lowering.lower({name: replace(candidate.form, random_scale=False)})
        domain = Domain(planning, plain, candidate, queries, budget, others, planning.allocation)
        if candidate.form.random_scale:
            if not domain.is_one_draw:
                continue
            domain = replace(domain, lowered=planning.lowering.lower({name: candidate.form}))
        try:
            multiplier = domain.multiplier(exact=False)
        except UnsupportedEvent as refusal:
            reasons[f"{candidate.name}: {refusal.summary}; {refusal.hint}"] = None
            continue
        except PlanError as error:
            errors.append(error)
            continue
        options.append(_option(domain, multiplier, exact=False))
    if not options:
        raise _nothing(errors, reasons)
    return options


def _by_shares(
    domain: Domain, near: Fraction, scales: Mapping[int, Fraction], bearable: float
) -> tuple[Domain, Mapping[int, Fraction], tuple[Considered, ...]]:
    """The better of the division for the least error and that by the shares of the spec, and what the other one loses.

    The closed form divides a rho, or an epsilon that adds up. A tighter accountant can prefer another division by a
    little, and shares can then be the better one.
    """
    plain = replace(domain, allocation="shares")
    if plain.slopes == domain.slopes:
        return domain, scales, ()
    multiplier = plain.multiplier(exact=False)
    lost, least = plain.error(plain.scales(multiplier)), domain.error(domain.scales(near))
    if lost <= least * (1 + _NEAR):
        certain = plain.scales(plain.multiplier(exact=True, start=multiplier))
        shared, divided = plain.error(certain), domain.error(scales)
        if shared < divided * (1 - _TIE) and plain.burden(certain) <= max(bearable, domain.burden(scales)) * _EXACT:
            told = Considered(name="the same, divided by least error", noise=_times(divided, shared))
            return plain, certain, (told,)
        lost, least = (lost, least) if lost >= least else (max(shared, divided), divided)
    why_not = _who_loses(domain, scales, plain, multiplier) if domain.allocation == "guarded_least_error" else ""
    told = Considered(name="the same, divided by shares", noise=_times(lost, least), why_not=why_not)
    return domain, scales, (told,)


def _who_loses(domain: Domain, scales: Mapping[int, Fraction], plain: Domain, multiplier: Fraction) -> str:
    """The query that equal shares would give most, where the plan divides the budget unasked."""
    asked = plain.planning.lowering.spec.queries
    equally = plain.scales(multiplier)
    times = {
        at: math.sqrt(plain.error(equally, [at]) / domain.error(scales, [at]))
        for at in domain.queries
        if domain.lowered.goals[at].share is not None
    }
    most = min(times, key=lambda at: times[at])
    return (
        f"its total error is larger, but {list(asked)[most]} would have {times[most]:.3g} times the noise that it has "
        "here; `allocation: shares` takes it"
    )


def _bearable(accounts: Sequence[Account], burdens: Sequence[float]) -> float:
    """How much a candidate may charge an account, as a part of the release's epsilon.

    One account that is to be spared spares all; noise decides alone where every account says so.
    """
    said = {account.prefer for account in accounts}
    if "account" in said:
        return _AS_LIGHT * min(burdens)
    if said == {"accuracy"}:
        return max((burden for burden in burdens if math.isfinite(burden)), default=math.inf)
    return max(1.0, _DEARER * min(burdens))


def _times(error: float, ours: float) -> str:
    return round_up(Fraction(math.sqrt(error / ours)), 4)


def _why_not(option: _Option, chosen: _Option, charged: float, bearable: float) -> str:
    """Why an option was passed over although its noise may be less, or its charge; empty where its noise decided."""
    if math.isinf(option.burden) and not math.isinf(bearable):
        return "an account's composition cannot take it"
    whole = float(option.domain.budget.epsilon or 0)
    words = f"it would charge an account epsilon {option.burden * whole:.3g} for this release"
    if charged > bearable * _EXACT and option.burden < charged:
        return f"{words}, and this plan charges epsilon {charged * whole:.3g}"
    if option.burden > bearable:
        return words
    if option.score < chosen.score and option.widened > chosen.widened:
        return f"its margins are known by bounds alone, {option.widened:.3g} times as wide as normal ones"
    return ""


def _allowed(planning: Planning, queries: Sequence[int]) -> list[Candidate]:
    """The candidates that a domain may take; sums along a column have Gaussian noise, and their budget is a rho."""
    noise, asked = planning.spec.privacy.noise, list(planning.spec.queries.values())
    able = [each for each in CANDIDATES if planning.lowering.takes(each.form, queries)]
    names = list(planning.spec.queries)
    measures = [each for at in queries for each in planning.lowering.measures.get(names[at], {}).values()]
    ranged = any(asked[at].ranges is not None or asked[at].series is not None for at in queries)
    ranged = ranged or any(each.gaussian for each in measures)
    possible = [each for each in able if each.noise == "gaussian" or not ranged]
    if noise in ("auto", "knorm"):
        tables = any("knorm" in planning.lowering.workloads.get(names[at], {}) for at in queries)
        norm = [each for each in possible if each.form.knorm and not each.form.random_scale]
        return possible if noise == "auto" else [each for each in norm if each.form.pure or not tables]
    return [each for each in possible if each.noise == noise and not each.form.knorm]


def _nothing(errors: Sequence[PlanError], reasons: Mapping[str, None]) -> PlanError:
    if errors:
        return min(errors, key=lambda error: getattr(error, "needed", math.inf))
    return PlanError(
        "no noise fits this accounting, budget and account together",
        detail="; ".join(reasons),
        hint="write `noise: gaussian` with a delta, `noise: laplace`, or `accounting: auto`",
        code="DPR-P101",
    )
