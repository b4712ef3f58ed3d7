"""The best candidate for a domain of drafts: least noise within what the budget, the accounts and the goals allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.catalog.table import Catalog
from dprelease.errors import BudgetTooSmall, PlanError, UnsupportedEvent
from dprelease.plan.allocate.candidates import CANDIDATES, Candidate, Scaling, even_split
from dprelease.plan.allocate.shares import Allocation, error_of, score_of, shares_of
from dprelease.plan.allocate.targets import floor_of
from dprelease.plan.document import Account, Considered
from dprelease.plan.lower.queries import Lowered, Lowering
from dprelease.plan.lower.unscaled import Draft
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.calibrate import LARGEST_SCALE, largest_knob, measured_loss, near_knob, rough_loss
from dprelease.privacy.convert import converted, factor
from dprelease.privacy.event import Composed, Event
from dprelease.privacy.filters import account_loss
from dprelease.spec.fields.document import ReleaseSpec

__all__ = ["Choice", "Problem", "charge_of", "choose", "domains"]

_ROUGH = 1e-4  # how far a rough loss may be from the certified one
_DEARER = 1.25  # how much more than the candidate that is lightest on an account another one may charge it


@dataclass(frozen=True)
class Problem:
    """What is to be planned, and the walls around it."""

    lowering: Lowering
    accounts: Sequence[Account]

    @property
    def spec(self) -> ReleaseSpec:
        """What the author wrote."""
        return self.lowering.spec

    @property
    def catalog(self) -> Catalog:
        """The tables of the spec."""
        return self.lowering.catalog

    @property
    def accounting(self) -> str:
        """The accountant that drives the plan, or ``auto``."""
        return self.spec.privacy.accounting

    @property
    def budget(self) -> Budget:
        """Of the whole release."""
        return self.spec.privacy.budget


@dataclass(frozen=True)
class Choice:
    """How one domain is hidden.

    Attributes:
        candidate: The one taken.
        lowered: The release in the candidate's form; only this domain's drafts of it matter.
        scales: By draft.
        parts: Of the domain's budget, by draft; they add up to exactly one.
        considered: Every other candidate that could be accounted, the best first.
    """

    candidate: Candidate
    lowered: Lowered
    scales: Mapping[int, Fraction]
    parts: Mapping[int, Fraction]
    considered: tuple[Considered, ...]

    @property
    def events(self) -> list[Event]:
        """What the domain costs."""
        return Scaling(self.lowered, self.candidate, tuple(self.scales)).events(self.scales)

    def accounts(self, catalog: Catalog) -> list[str]:
        """The account of each draft, in the order of ``events``."""
        return [account_of(self.lowered.drafts[at], catalog) for at in self.scales]


def account_of(draft: Draft, catalog: Catalog) -> str:
    """Who pays for a draft."""
    return catalog.tables[draft.aggregate.table].account


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
    problem: Problem, domain: str, queries: Sequence[int], budget: Budget, others: Sequence[tuple[str, Event]]
) -> Choice:
    """The best candidate for a domain, with its certified scales.

    With ``noise: auto`` a candidate is passed over where it would charge an account more than the release's
    epsilon, and much more than another candidate would: a release that is cheap today must not empty the account
    that later ones live on.

    Args:
        problem: The release.
        domain: The name of a pinned query, or ``""``.
        queries: The places of the domain's queries.
        budget: What the domain and ``others`` may cost together.
        others: What is fixed already: (account, event).

    Raises:
        PlanError: If no candidate can be accounted as asked, or the goals cost more than the budget.
    """
    found: list[tuple[float, int, Candidate, Scaling, Fraction, float]] = []
    reasons: dict[str, None] = {}
    errors: list[PlanError] = []
    seen: set[object] = set()
    for order, candidate in enumerate(_allowed(problem, queries)):
        key = (candidate.noise, candidate.unit, problem.lowering.shape(domain, candidate.form))
        if key in seen:
            continue
        seen.add(key)
        lowered = problem.lowering.lower({domain: candidate.form})
        try:
            scaling = _scaling(problem, lowered, candidate, queries, problem.spec.privacy.allocation)
            knob = _knob(problem, scaling, budget, others, exact=False)
        except UnsupportedEvent as refusal:
            reasons[f"{candidate.name}: {refusal.summary}; {refusal.hint}"] = None
            continue
        except PlanError as error:
            errors.append(error)
            continue
        scales = scaling.scales(knob)
        burden = _burden(problem, budget, scaling, scales, others)
        score = _score(problem, scaling, scales, queries, others)
        found.append((score, order, candidate, scaling, knob, burden))
    if not found:
        raise _nothing(errors, reasons)
    bearable = max(1.0, _DEARER * min(burden for *_, burden in found))
    found.sort(key=lambda each: each[:2])
    best, _, candidate, scaling, knob, _ = next(each for each in found if each[-1] <= bearable)
    divided: tuple[Considered, ...] = ()
    if problem.spec.privacy.allocation == "least_error":
        divided = _by_shares(problem, scaling, scaling.scales(knob), queries, budget, others)
    scales = scaling.scales(_knob(problem, scaling, budget, others, exact=True, start=knob))
    if max(scales.values()) > LARGEST_SCALE:
        raise BudgetTooSmall(
            f"the noise would need a scale of {float(max(scales.values())):.1e} grid steps, more than 2^50",
            hint="raise the budget, ask fewer queries, or give the column a coarser `step`",
        )
    considered = divided + tuple(
        Considered(
            name=each.name,
            noise=round_up(Fraction(math.exp((score - best) / 2)), 4),
            why_not="" if burden <= bearable else _too_dear(burden, budget),
        )
        for score, _, each, _, _, burden in found
        if each is not candidate
    )
    return Choice(candidate, scaling.lowered, scales, _parts(scaling, scales), considered if scaling.slopes else ())


def _by_shares(
    problem: Problem,
    scaling: Scaling,
    scales: Mapping[int, Fraction],
    queries: Sequence[int],
    budget: Budget,
    others: Sequence[tuple[str, Event]],
) -> tuple[Considered, ...]:
    """What the shares of the spec, taken of the budget, would lose where it was divided for the least error instead."""
    plain = _scaling(problem, scaling.lowered, scaling.candidate, queries, "shares")
    if plain.slopes == scaling.slopes:
        return ()
    instead = plain.laws(plain.scales(_knob(problem, plain, budget, others, exact=False)))
    lost, least = (error_of(scaling.lowered, queries, laws) for laws in (instead, scaling.laws(scales)))
    return (Considered(name="the same, divided by shares", noise=round_up(Fraction(math.sqrt(lost / least)), 4)),)


def _too_dear(burden: float, budget: Budget) -> str:
    if math.isinf(burden):
        return "an account's composition cannot take it"
    return f"it would charge an account epsilon {burden * float(budget.epsilon or 0):.3g} for this release"


def _allowed(problem: Problem, queries: Sequence[int]) -> list[Candidate]:
    """The candidates that a domain may take; workloads and ranges have Gaussian noise, and their budget is a rho."""
    noise, asked = problem.spec.privacy.noise, list(problem.spec.queries.values())
    if noise == "auto":
        gaussian = any(asked[at].marginals is not None or asked[at].ranges is not None for at in queries)
        return [each for each in CANDIDATES if each.noise == "gaussian" or not gaussian]
    return [each for each in CANDIDATES if each.noise == noise and not each.form.knorm]


def _drafts(lowered: Lowered, queries: Sequence[int]) -> list[int]:
    wanted = set(queries)
    return sorted({draft for term in lowered.terms if term.query in wanted for draft, _ in term.weights})


def _scaling(
    problem: Problem, lowered: Lowered, candidate: Candidate, queries: Sequence[int], allocation: Allocation
) -> Scaling:
    """Slopes from the shares and floors from the targets of a domain."""
    split = {at: even_split(lowered, at, candidate) for at in queries}
    shares = shares_of(lowered, candidate, queries, split, allocation)
    slopes: dict[int, Fraction] = {}
    floors: dict[int, Fraction] = {}
    for at, parts in split.items():
        for draft, part in parts.items() if at in shares else ():
            slopes[draft] = slopes.get(draft, Fraction(0)) + shares[at] * part
        if lowered.goals[at].targets:
            least = floor_of(lowered, at, candidate, parts, problem.spec.publish.confidence)
            for draft, part in parts.items():
                floors[draft] = max(floors.get(draft, Fraction(0)), least * part)
    return Scaling(lowered, candidate, tuple(_drafts(lowered, queries)), slopes, floors)


def _knob(
    problem: Problem,
    scaling: Scaling,
    budget: Budget,
    others: Sequence[tuple[str, Event]],
    *,
    exact: bool,
    start: Fraction | None = None,
) -> Fraction:
    """How much there is to share out; 0 where nothing is shared."""
    rest = [event for _, event in others]

    def event_at(knob: Fraction) -> Event:
        return Composed(events=(*rest, *scaling.events(scaling.scales(knob))))

    def roughly_at(knob: Fraction) -> Event:
        return Composed(events=(*rest, *scaling.events(scaling.scales(knob, rough=True))))

    if scaling.floors or others:
        _check_fixed(problem, scaling, budget, rest, exact=exact)
    if not scaling.slopes:
        return Fraction(0)
    if not exact:
        return near_knob(roughly_at, problem.accounting, budget, start=start)
    return largest_knob(event_at, problem.accounting, budget, start=start, roughly_at=roughly_at)


def _check_fixed(problem: Problem, scaling: Scaling, budget: Budget, rest: Sequence[Event], *, exact: bool) -> None:
    """What is pinned and what targets need must fit the budget by itself; if not exactly, then nearly."""
    floors = Scaling(scaling.lowered, scaling.candidate, tuple(scaling.floors), {}, scaling.floors)
    least = floors.scales(Fraction(0))
    event = Composed(events=(*rest, *scaling.events(least)))
    limit = budget.limit
    needed: Fraction | float
    if budget.rho is not None:
        needed = total_rho(event)
    elif exact:
        needed = measured_loss(problem.accounting, event, budget.delta)
    else:
        needed = rough_loss(problem.accounting, event, budget.delta) * (1 - _ROUGH)
    if needed > limit:
        name = "epsilon" if budget.epsilon is not None else "rho"
        error = BudgetTooSmall(
            f"pinned queries and targets alone need {name} {float(needed):.4g}; the budget is {float(limit):.4g}",
            detail="; ".join(filter(None, (_dearest(scaling, least), _one_more(problem, scaling, budget, rest)))),
            hint="`dprelease plan --solve` finds the smallest epsilon; or widen the targets, or raise the budget",
            code="DPR-P103",
        )
        error.needed = float(needed)
        raise error


def _dearest(scaling: Scaling, scales: Mapping[int, Fraction]) -> str:
    """The query whose targets need most, in words; empty where pins alone are too much."""
    if not scales:
        return ""
    spent: dict[str, float] = {}
    for at, event in zip(scales, scaling.events(scales), strict=True):
        name = scaling.lowered.drafts[at].answers[0].query
        spent[name] = spent.get(name, 0.0) + float(total_rho(event))
    name = max(spent, key=lambda query: spent[query])
    return f"query {name!r} hurts most: its targets take {spent[name] / sum(spent.values()):.0%} of that"


def _one_more(problem: Problem, scaling: Scaling, budget: Budget, rest: Sequence[Event]) -> str:
    """What one unit more of epsilon buys, as the factor by which all targets would have to be wider."""
    if budget.epsilon is None or not scaling.floors:
        return ""

    def event_at(knob: Fraction) -> Event:
        wider = {at: floor * knob for at, floor in scaling.floors.items()}
        loose = Scaling(scaling.lowered, scaling.candidate, tuple(wider), {}, wider)
        return Composed(events=(*rest, *loose.events(loose.scales(Fraction(0)))))

    factors = []
    for epsilon in (budget.epsilon, budget.epsilon + 1):
        try:
            knob = near_knob(event_at, problem.accounting, Budget(epsilon=epsilon, delta=budget.delta))
        except PlanError:
            return "the pinned queries alone take all of it"
        factors.append(float(1 / knob) ** (0.5 if scaling.candidate.unit == "rho" else 1.0))
    now, then = factors
    more = "all of them are met" if then <= 1 else f"{then:.3g} times"
    return f"every target would have to be {now:.3g} times as wide; with one unit of epsilon more, {more}"


def _burden(
    problem: Problem,
    budget: Budget,
    scaling: Scaling,
    scales: Mapping[int, Fraction],
    others: Sequence[tuple[str, Event]],
) -> float:
    """The largest part of the budget's epsilon that an account would be charged, in its own composition and unit."""
    if budget.epsilon is None or problem.spec.privacy.noise != "auto":
        return 1.0
    own = [account_of(scaling.lowered.drafts[at], problem.catalog) for at in scales]
    charged = [*others, *zip(own, scaling.charged(scales, problem.spec.privacy.neighboring), strict=True)]
    most = 0.0
    for account in problem.accounts:
        try:
            loss = charge_of(problem, account, [event for name, event in charged if name == account.name])
        except UnsupportedEvent:
            return math.inf
        most = max(most, float(loss.epsilon / budget.epsilon))
    return most


def charge_of(problem: Problem, account: Account, events: Sequence[Event]) -> Loss:
    """What these draws cost an account once, for one step of its own relation: as ``ReleasePlan.cost_of`` says."""
    privacy = problem.spec.privacy
    steps = factor(str(privacy.unit), privacy.neighboring, account.unit, account.neighboring, account.nests)
    deltas = (problem.budget.delta, account.lifetime.delta)
    # The release's delta is about one unit of the spec; several of them together have more than that.
    delta = next(filter(None, deltas if steps == 1 else reversed(deltas)), Fraction(0))
    return account_loss(
        account.composition,
        [converted(event, steps) for event in events],
        delta,
        kept=min(account.selecting, delta / 2) if steps == 1 else account.selecting,
        order=account.order,
    )


def _score(
    problem: Problem,
    scaling: Scaling,
    scales: Mapping[int, Fraction],
    queries: Sequence[int],
    others: Sequence[tuple[str, Event]],
) -> float:
    """What ``score_of`` says of the shared measures' noise; where nothing is shared, the loss itself."""
    if not scaling.slopes:
        event = Composed(events=(*(event for _, event in others), *scaling.events(scales)))
        return rough_loss(problem.accounting, event, problem.budget.delta)
    return score_of(scaling.lowered, queries, scaling.laws(scales), problem.spec.privacy.allocation)


def _parts(scaling: Scaling, scales: Mapping[int, Fraction]) -> dict[int, Fraction]:
    """Of the domain's budget, by draft, adding up to exactly one: the shares, or what floors make of them."""
    if not scaling.floors:
        total = sum((scaling.slopes[at] for at in scales), Fraction(0))
        return {at: scaling.slopes[at] / total for at in scales}
    events = scaling.events(scales)
    sizes = [max(1, round(float(total_rho(event)) * 2**60)) for event in events]
    return {at: Fraction(size, sum(sizes)) for at, size in zip(scales, sizes, strict=True)}


def _nothing(errors: Sequence[PlanError], reasons: Mapping[str, None]) -> PlanError:
    if errors:
        return min(errors, key=lambda error: getattr(error, "needed", math.inf))
    return PlanError(
        "no noise fits this accounting, budget and account together",
        detail="; ".join(reasons),
        hint="write `noise: gaussian` with a delta, `noise: laplace`, or `accounting: auto`",
        code="DPR-P101",
    )
