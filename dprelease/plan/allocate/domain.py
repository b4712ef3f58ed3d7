"""A domain of a plan, hidden as one candidate says: its scales, its score, and what it charges the accounts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from dprelease.errors import BudgetTooSmall, PlanError, UnsupportedEvent
from dprelease.noise import Law
from dprelease.plan.allocate.candidates import Candidate
from dprelease.plan.allocate.planning import Planning
from dprelease.plan.allocate.shared_draws import Division, divided
from dprelease.plan.allocate.shares import Allocation, error_of, score_of, shares_of
from dprelease.plan.allocate.targets import floor_of
from dprelease.plan.document import Account
from dprelease.plan.lower.lowered import Lowered
from dprelease.plan.lower.unscaled import UnscaledStep
from dprelease.privacy.accountants.near import CellDraws, NearDraws, only_change
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import largest_knob, measured_loss, near_knob, rough_loss
from dprelease.privacy.event import Composed, Event, Repeated, Sensitivity
from dprelease.privacy.rounding import dyadic_sqrt_up, log_of
from dprelease.privacy.theorems.concentrated import rough_rho_to_epsilon

__all__ = ["Domain"]

Costs = tuple[UnscaledStep, Fraction, Fraction]
"""What the cost of a step hangs on: its draft, and its slope and floor (``Domain``)."""

_ROUGH = 1e-4  # how far a rough loss may be from the certified one
_MANY = 65  # different draws, from which on floats for all of them at once pay, and are those of their events
_LARGEST = 1 << 26  # changes whose squares are floats
_NO_LOSS = 1e-200  # what a score, which is a logarithm, takes for a loss of 0


@dataclass(frozen=True)
class Domain:
    """The queries that share one budget, hidden as one candidate says.

    All scales follow from one number, the multiplier: each step gets the budget max(slope x multiplier, floor).

    Attributes:
        planning: The release that the domain belongs to.
        lowered: The release in the candidate's form; only this domain's steps of it matter.
        candidate: How the steps are hidden.
        queries: The places of the domain's queries.
        budget: What the domain and ``others`` may cost together.
        others: What is fixed already: (account, event).
        allocation: How the shared budget is divided among the queries.
    """

    planning: Planning
    lowered: Lowered
    candidate: Candidate
    queries: Sequence[int]
    budget: Budget
    others: Sequence[tuple[str, Event]]
    allocation: Allocation

    @cached_property
    def _steps(self) -> list[int]:
        """The places of the domain's steps."""
        return sorted({at for query in self.queries for at in self.lowered.drafts_of(query)})

    @property
    def is_one_draw(self) -> bool:
        """Whether all that is charged is a single draw."""
        return len(self._steps) == 1 and not self.others

    @cached_property
    def _split(self) -> Division:
        """How the budget of each query is divided over its steps."""
        return divided(self.lowered, self.queries, self.candidate)

    @cached_property
    def slopes(self) -> dict[int, Fraction]:
        """The part of the shared budget of each step; absent where nothing is shared out to it."""
        shares = shares_of(self.lowered, self.candidate, self.queries, self._split.paid, self.allocation)
        slopes: dict[int, Fraction] = {}
        for query, parts in self._split.paid.items():
            for at, part in parts.items() if query in shares else ():
                own = shares[query] if part == 1 else shares[query] * part
                slopes[at] = slopes[at] + own if at in slopes else own
        return slopes

    @cached_property
    def floors(self) -> dict[int, Fraction]:
        """The budget that a target needs of a step, whatever the shares are."""
        floors: dict[int, Fraction] = {}
        for query, parts in self._split.needed.items():
            if self.lowered.goals[query].targets:
                confidence = self.planning.spec.publish.confidence
                least = floor_of(self.lowered, query, self.candidate, parts, confidence, self.planning.catalog)
                for at, part in parts.items():
                    floors[at] = max(floors.get(at, Fraction(0)), least * part)
        return floors

    @cached_property
    def _alike(self) -> list[tuple[Costs, list[int]]]:
        """Steps that cost the same at every multiplier, in the order of the first of each: an event is made once."""
        none = Fraction(0)
        found: dict[object, tuple[Costs, list[int]]] = {}
        for at in self._steps:
            draft, slope, floor = self.lowered.drafts[at], self.slopes.get(at, none), self.floors.get(at, none)
            moved = (draft.sensitivity, draft.together, draft.gauge, draft.choosing, draft.delta, len(draft.parts))
            alike = found.setdefault((self.mechanism(at), moved, slope, floor), ((draft, slope, floor), []))
            alike[1].append(at)
        return list(found.values())

    def _budgets(self, multiplier: Fraction) -> Iterator[tuple[UnscaledStep, Fraction, list[int]]]:
        """The budget of the first of steps that cost the same, and the places of all of them."""
        for (draft, slope, floor), places in self._alike:
            yield draft, max(slope * multiplier, floor) if floor else slope * multiplier, places

    def scales(self, multiplier: Fraction) -> dict[int, Fraction]:
        """The scale of every step of the domain, as it will be drawn."""
        found: dict[int, Fraction] = {}
        for draft, budget, places in self._budgets(multiplier):
            found |= dict.fromkeys(places, self.candidate.scale(draft, budget))
        return {at: found[at] for at in self._steps}

    def _scales(self, budgets: Mapping[int, Fraction]) -> dict[int, Fraction]:
        return {at: self.candidate.scale(self.lowered.drafts[at], budget) for at, budget in budgets.items()}

    def _event_at(self, multiplier: Fraction, *, rough: bool = False) -> Event:
        """Everything together at the scales of a multiplier, as it will be drawn; or near that."""
        events: list[Event] = [event for _, event in self.others]
        for draft, budget, places in self._budgets(multiplier):
            event = draft.event(self.candidate.mechanism(draft), self.candidate.scale(draft, budget, rough=rough))
            events.append(event if len(places) == 1 else Repeated(event=event, count=len(places)))
        return Composed(events=tuple(events))

    def mechanism(self, at: int) -> str:
        """The mechanism of a step."""
        return self.candidate.mechanism(self.lowered.drafts[at])

    def events(self, scales: Mapping[int, Fraction]) -> list[Event]:
        """What the steps cost at these scales."""
        return [self.lowered.drafts[at].event(self.mechanism(at), scale) for at, scale in scales.items()]

    def laws(self, scales: Mapping[int, Fraction]) -> dict[int, Law]:
        """The laws of the steps' noise at these scales; of a choice, that of its score."""
        found: dict[int, Law] = {}
        for (first, _, _), places in self._alike:
            mechanism, made = self.candidate.mechanism(first), dict[object, Law]()
            for at in places:
                draft, scale = self.lowered.drafts[at], scales[at]
                if (scale, draft.tables) not in made:
                    made[scale, draft.tables] = draft.law(mechanism, scale)
                found[at] = made[scale, draft.tables]
        return found

    def _together(self, scales: Mapping[int, Fraction]) -> Event:
        return Composed(events=(*(event for _, event in self.others), *self.events(scales)))

    def multiplier(self, *, exact: bool, start: Fraction | None = None) -> Fraction:
        """How much there is to share out; 0 where nothing is shared.

        Raises:
            PlanError: If the goals cost more than the budget, or no accountant takes the events.
        """
        if self.floors or self.others:
            self._check_fixed(exact=exact)
        if not self.slopes:
            return Fraction(0)

        accounting = self.planning.accounting
        if not exact:
            return near_knob(self._roughly_at, accounting, self.budget, start=start)
        return largest_knob(self._exactly_at, accounting, self.budget, start=start, roughly_at=self._roughly_at)

    def _exactly_at(self, multiplier: Fraction) -> Event | CellDraws:
        """As ``_event_at``; no event is made of each of many draws that one number moves."""
        if self._changes is None:
            return self._event_at(multiplier)
        if self._noise == "discrete_gaussian" and not self.floors:
            above, below = multiplier.as_integer_ratio()  # in whole numbers, as a thousand rationals are slow
            scales = [dyadic_sqrt_up(times * below, over * above) for times, over in self._squares]
        else:
            scales = [self.candidate.scale(draft, budget) for draft, budget, _ in self._budgets(multiplier)]
        return CellDraws(self._noise, self._changes, [len(places) for _, places in self._alike], scales)

    @cached_property
    def _squares(self) -> list[tuple[int, int]]:
        """The square of the Gaussian scale of each of many draws, times the multiplier (``Candidate.scale``)."""
        pairs = ((draft.squared, slope) for (draft, slope, _), _ in self._alike)
        return [
            (square.numerator * slope.denominator, 2 * square.denominator * slope.numerator) for square, slope in pairs
        ]

    @property
    def _noise(self) -> Literal["discrete_laplace", "discrete_gaussian"]:
        return "discrete_laplace" if self.candidate.noise == "laplace" else "discrete_gaussian"

    def _roughly_at(self, multiplier: Fraction) -> Event | NearDraws:
        """As ``_event_at``, in floats: at once where there are many draws that one number moves."""
        if self._changes is None:
            return self._event_at(multiplier, rough=True)
        above, below = multiplier.numerator, multiplier.denominator
        budgets = [
            slope.numerator * above / (slope.denominator * below)
            if not floor
            else float(max(slope * multiplier, floor))
            for (_, slope, floor), _ in self._alike
        ]
        changes = np.array(self._changes, dtype=np.float64)
        return NearDraws(
            noise=self._noise,
            changes=self._changes,
            counts=[len(places) for _, places in self._alike],
            scales=self.candidate.rough_scales(changes, np.array(budgets)),
        )

    @cached_property
    def _changes(self) -> list[int] | None:
        """By how much one unit moves the cell of each draw; None unless there are many and nothing else is told."""
        if self.others or len(self._alike) < _MANY:
            return None
        drafts, changes = [draft for (draft, _, _), _ in self._alike], []
        for draft in drafts:
            change = only_change(draft.sensitivity)
            plain = self.candidate.mechanism(draft) == f"discrete_{self.candidate.noise}"
            if not plain or not 0 < change < _LARGEST or draft.sensitivity != Sensitivity.of_one_cell(change):
                return None
            changes.append(change)
        return changes

    def _check_fixed(self, *, exact: bool) -> None:
        """What is pinned and what targets need must fit the budget by itself; in floats where these are clear."""
        least = self._scales(self.floors)
        event, budget, accounting = self._together(least), self.budget, self.planning.accounting
        needed: Fraction | float
        if budget.rho is not None:
            needed = total_rho(event)
        else:
            needed = math.inf if exact else rough_loss(accounting, event, budget.delta)
            if exact or abs(needed / float(budget.limit) - 1) <= _ROUGH:
                needed = measured_loss(accounting, event, budget.delta)
        if needed > budget.limit:
            name = "epsilon" if budget.epsilon is not None else "rho"
            error = BudgetTooSmall(
                f"pinned queries and targets alone need {name} {float(needed):.4g}; "
                f"the budget is {float(budget.limit):.4g}",
                detail="; ".join(filter(None, (self._dearest(least), self._one_more()))),
                hint="`dprelease plan --solve` finds one that is enough; or widen the targets, or raise the budget",
                code="DPR-P103",
            )
            error.needed = float(needed)
            raise error

    def _dearest(self, scales: Mapping[int, Fraction]) -> str:
        """The query whose targets need most, in words; empty where pins alone are too much."""
        if not scales:
            return ""
        spent: dict[str, float] = {}
        for at, event in zip(scales, self.events(scales), strict=True):
            name = self.lowered.drafts[at].answers[0].query
            spent[name] = spent.get(name, 0.0) + float(total_rho(event))
        name = max(spent, key=lambda query: spent[query])
        return f"query {name!r} hurts most: its targets take {spent[name] / sum(spent.values()):.0%} of that"

    def _one_more(self) -> str:
        """What one unit more of epsilon buys, as the factor by which all targets would have to be wider."""
        if self.budget.epsilon is None or not self.floors:
            return ""

        def event_at(multiplier: Fraction) -> Event:
            return self._together(self._scales({at: floor * multiplier for at, floor in self.floors.items()}))

        factors = []
        for epsilon in (self.budget.epsilon, self.budget.epsilon + 1):
            budget = Budget(epsilon=epsilon, delta=self.budget.delta)
            try:
                multiplier = near_knob(event_at, self.planning.accounting, budget)
            except PlanError:
                return "the pinned queries alone take all of it"
            factors.append(float(1 / multiplier) ** (0.5 if self.candidate.unit == "rho" else 1.0))
        now, then = factors
        more = "all of them are met" if then <= 1 else f"{then:.3g} times"
        return f"every target would have to be {now:.3g} times as wide; with one unit of epsilon more, {more}"

    def accounts(self, scales: Mapping[int, Fraction]) -> list[str]:
        """The account of each step, in the order of ``events``."""
        return [self.planning.payer(self.lowered.drafts[at]) for at in scales]

    def burden(self, scales: Mapping[int, Fraction], *, exact: bool = True) -> float:
        """The largest part of the budget's epsilon that an account is charged, in its own composition and unit.

        At scales that are only near those that will be drawn it is not worth a certificate.
        """
        privacy = self.planning.spec.privacy
        if self.budget.epsilon is None or privacy.noise != "auto":
            return 1.0
        if (near := self._near_charge(scales)) is not None:
            return near / float(self.budget.epsilon)
        most = 0.0
        for account, events in self._charged(scales):
            try:
                loss = None if exact else self.planning.near_charge(account, events)
                loss = self.planning.charge(account, events).epsilon if loss is None else loss
            except UnsupportedEvent:
                return math.inf
            most = max(most, float(loss / self.budget.epsilon))
        return most

    def _near_charge(self, scales: Mapping[int, Fraction]) -> float | None:
        """What many draws that one number moves charge the only account, in floats; None where that is not told so."""
        accounts = self.planning.accounts
        if self._changes is None or len(accounts) > 1 or (spent := self.planning.rho_at(accounts[0])) is None:
            return None
        firsts = np.array([float(scales[places[0]]) for _, places in self._alike])
        draws = NearDraws(self._noise, self._changes, [len(places) for _, places in self._alike], firsts)
        return rough_rho_to_epsilon(draws.total(draws.rhos), log_of(spent))

    def is_within_caps(self, scales: Mapping[int, Fraction]) -> bool:
        """Whether no account is charged more than all that it may ever spend."""
        return all(self.planning.can_pay(account, events) for account, events in self._charged(scales))

    def _charged(self, scales: Mapping[int, Fraction]) -> list[tuple[Account, list[Event]]]:
        """What each account pays for, with all that prices a group of units."""
        relation = self.planning.spec.privacy.neighboring
        charged: dict[str, list[Event]] = {account.name: [] for account in self.planning.accounts}
        for name, event in self.others:
            charged.setdefault(name, []).append(event)
        for name, (at, scale) in zip(self.accounts(scales), scales.items(), strict=True):
            charged.setdefault(name, []).append(self.lowered.drafts[at].charged(self.mechanism(at), scale, relation))
        return [(account, charged[account.name]) for account in self.planning.accounts]

    def score(self, scales: Mapping[int, Fraction]) -> float:
        """What ``score_of`` says of the shared measures' noise; where nothing is shared, of the loss itself."""
        if not self.slopes:
            loss = rough_loss(self.planning.accounting, self._together(scales), self.budget.delta)
            return 2 * math.log(max(loss, _NO_LOSS))  # 0 where delta alone pays for all of it
        return score_of(self.lowered, self.queries, self.laws(scales), self.allocation)

    def error(self, scales: Mapping[int, Fraction], queries: Sequence[int] | None = None) -> float:
        """The total error of the queries that share, or of some of them, at these scales."""
        return error_of(self.lowered, self.queries if queries is None else queries, self.laws(scales))

    def parts(self, scales: Mapping[int, Fraction]) -> dict[int, Fraction]:
        """The part of the domain's budget of each step, adding up to one: the shares, or what floors make of them."""
        if not self.floors:
            total = sum((self.slopes[at] for at in scales), Fraction(0))
            return {at: self.slopes[at] / total for at in scales}
        sizes = [max(1, round(float(total_rho(event)) * 2**60)) for event in self.events(scales)]
        return {at: Fraction(size, sum(sizes)) for at, size in zip(scales, sizes, strict=True)}
