"""The largest budget per release of which so many fit into every account: solved with whole plans, not divided.

Under ``zcdp`` twelve equal releases cost about as much as one of the square root of twelve times its epsilon, not of
twelve times. So a twelfth of what is left is far too little, and :func:`largest_budget` makes whole plans at trial
budgets instead. It keeps one budget that was seen to fit so many times, and a larger one, at most :data:`CLOSE` above
it, that was seen not to. So the answer always fits. Nothing that is more than :data:`CLOSE` larger fits either as long
as a plan never charges an account less at a larger budget. Where another kind of noise becomes the better one it can:
so each noise is tried by itself as well, and the budget is told at which the published numbers have least noise. Where
targets fix the noise, so many may fit from some budget on, at which the one that an account takes best can be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from dprelease.errors import BudgetTooSmall, PlanError, UnsupportedEvent
from dprelease.plan.design.accuracy import mean_noise
from dprelease.plan.document import Measured, PlannedQuery, ReleasePlan
from dprelease.plan.forecast.horizon import Capped, Purse, capped
from dprelease.plan.forecast.other_budgets import Planner, noises_of
from dprelease.plan.resolve.grouping import expected_rows
from dprelease.privacy.budget import Budget, Loss
from dprelease.spec.fields.document import ReleaseSpec

__all__ = ["CLOSE", "Largest", "largest_budget"]

CLOSE = Fraction(1, 2000)  # relative: between a budget that fits and one that does not
_DIGITS = 5  # of a budget that is tried; finer than CLOSE
_LEAST, _MOST = Fraction(1, 10**6), Fraction(10**6)  # budgets that are tried
_TRIALS = 60
_CEILINGS = "the policy's ceilings"
_CHANGES_NOTHING = "a larger budget changes nothing: every query is pinned or has a target"
_LESS = 1e-3  # of a logarithm: less noise than that is worth no other word in the spec
_STEP = 1 + Fraction(1, 10**4)  # of a needed budget, which is told in floats


@dataclass(frozen=True)
class Largest:
    """The largest budget per release of which so many fit.

    Attributes:
        limit: Its epsilon or rho: of five digits, or the spec's or ceiling's own; None: there is none, or no largest.
        plan: The plan at it.
        why: What says no to a larger one; or why there is none.
        noise: What the spec is to say under ``noise`` as well; empty: what it says.
    """

    limit: Fraction | None
    plan: ReleasePlan | None
    why: str
    noise: str = ""


def largest_budget(
    spec: ReleaseSpec,
    planner: Planner,
    purses: Sequence[Purse],
    periods: Sequence[str],
    releases: int,
    ceiling: Loss | None = None,
) -> Largest:
    """The largest budget, at the spec's delta, at which so many releases fit into every account and window.

    Args:
        spec: What is planned at other budgets; in rho where its own is.
        planner: :func:`dprelease.plan.allocate.planner.allocate`, given catalog, accounts and fingerprint.
        purses: The accounts that it debits.
        periods: Theirs, as :func:`dprelease.plan.forecast.horizon.coming` says.
        releases: How many are to fit.
        ceiling: What the policy allows any one release.
    """
    cases = [each for purse in purses for each in capped(purse, periods, releases)]
    for case in cases:
        if case.purse.series is not None:
            return Largest(None, None, f"account {case.purse.account.name} takes only what is in its series")
        if case.purse.account.composition != "pld" and not case.allows(case.amount(case.before)):
            return Largest(None, None, f"{case} is used up already")
    search = _Search(spec, planner, cases, ceiling)
    found = search.run()
    if found.why == _CHANGES_NOTHING:
        return found
    for noise in noises_of(spec)[1:]:
        privacy = spec.privacy.model_copy(update={"noise": noise})
        alone = _Search(spec.model_copy(update={"privacy": privacy}), planner, cases, ceiling)
        if found.limit is not None and found.plan is not None and alone.draws_as(found.plan, found.limit):
            continue
        other = alone.least_or_largest()
        if other.plan is not None and (found.plan is None or _noise(other.plan) < _noise(found.plan) - _LESS):
            found = search.at_its_own(other, noise)
    return found


def _noise(plan: ReleasePlan) -> float:
    """The mean logarithm of the noise of the published numbers, by which the planner compares its candidates."""
    goals = {each.name: each.goal for each in plan.queries} | {each.name: each.goal for each in plan.workloads}
    queries, taken = {each.name: each for each in plan.queries}, {each.id: each for each in plan.measured}
    found: dict[str, list[float]] = {}
    for told in plan.outputs:
        query = queries[told.query]
        if told.measure in query.compare:  # made of the others
            continue
        if query.workload is not None or query.ranges is not None:
            error = float(told.standard_error or 0)
        else:
            error = _error(query, told.measure, taken)
        if error:
            found.setdefault(query.workload or query.name, []).append(error)
    return mean_noise((float(goals[name].share or 1), errors) for name, errors in found.items())


def _error(query: PlannedQuery, label: str, taken: Mapping[str, Measured]) -> float:
    measure, fed = query.measures[label], [(taken[feed.step], feed.part) for feed in query.inputs[label]]
    count = expected_rows(query.expect, query.measures, label)
    return measure.error([step.parts[part] for step, part in fed], [step.law.variance for step, _ in fed], count)


class _Trial(NamedTuple):
    """One budget: the plan at it, how full the fullest cap would be (above 1: too full), and which one that is.

    Where there is no plan: ``short`` says whether a larger budget may have one, and ``needed`` the least one that has,
    where that is known.
    """

    limit: Fraction
    plan: ReleasePlan | None
    load: float
    fits: bool
    why: str
    short: bool = False
    needed: Fraction | None = None


class _Search:
    def __init__(self, spec: ReleaseSpec, planner: Planner, cases: Sequence[Capped], ceiling: Loss | None) -> None:
        self._spec, self._planner, self._cases, self._ceiling = spec, planner, cases, ceiling
        self._in_epsilon = spec.privacy.budget.epsilon is not None
        self._top = min(_MOST, ceiling.epsilon) if ceiling is not None and self._in_epsilon else _MOST

    def draws_as(self, plan: ReleasePlan, limit: Fraction) -> bool:
        """Whether the plan at this budget makes the very draws of another one."""
        trial = self._at(limit)
        return trial.plan is not None and trial.plan.event == plan.event

    def least_or_largest(self) -> Largest:
        """The largest budget; where a larger one changes nothing, the spec's own."""
        found = self.run()
        if found.why != _CHANGES_NOTHING:
            return found
        first = self._at(min(self._spec.privacy.budget.limit, self._top))
        return Largest(first.limit, first.plan, "")

    def at_its_own(self, other: Largest, noise: str) -> Largest:
        """What was found with one noise, without it where the spec's own plan at that budget fits and is no noisier.

        It can be noisier: where only some queries have targets, the planner gives the others the least noise.
        """
        assert other.limit is not None and other.plan is not None  # noqa: S101, PT018 - asked for by the caller
        own = self._at(other.limit)
        if own.fits and own.plan is not None and _noise(own.plan) <= _noise(other.plan) + _LESS:
            return replace(other, plan=own.plan)
        return replace(other, noise=noise)

    def run(self) -> Largest:
        """The largest budget, by halves."""
        first = self._at(min(self._spec.privacy.budget.limit, self._top))
        if first.plan is None and first.short:
            return self._from_the_least(first)
        low, high = self._upward(first) if first.fits else self._downward(first)
        if low is None:
            return Largest(None, None, high.why)
        if high.fits and high is low:
            return Largest(low.limit, low.plan, _CEILINGS if self._top < _MOST else "")
        if high.fits:
            return Largest(None, None, _CHANGES_NOTHING)
        return self._between(low, high)

    def _between(self, low: _Trial, high: _Trial) -> Largest:
        for number in range(1, _TRIALS):
            if high.limit <= low.limit * (1 + CLOSE):
                break
            tried = self._at(_between(low, high, halve=number % 3 == 0))
            low, high = (tried, high) if tried.fits else (low, tried)
        return Largest(low.limit, low.plan, high.why)

    def _from_the_least(self, first: _Trial) -> Largest:
        """Where the spec's own budget buys no plan: from the least one that does, or near it."""
        least = first
        for _ in range(_TRIALS):
            least = self._at(min(self._top, _digits(least.needed * _STEP if least.needed else 2 * least.limit)))
            if not least.short or least.limit == self._top:
                break
        if not least.fits:
            low, high = self._downward(least)
            return Largest(None, None, least.why) if low is None else self._between(low, high)
        low, high = self._upward(least)
        # any larger one fits as well: what is worth telling is from where on
        return Largest(least.limit, least.plan, "") if low is None or high.fits else self._between(low, high)

    def _upward(self, low: _Trial) -> tuple[_Trial | None, _Trial]:
        """A budget that fits and a larger one that does not.

        Where there is none: the largest of all twice, or with a smaller one that has the same plan.
        """
        while low.limit < self._top:
            tried = self._at(min(self._top, _digits(2 * low.limit)))
            if not tried.fits:
                return low, tried
            if _same(low, tried):  # perhaps for ever: no need to double on
                most = self._at(self._top)
                return (tried, most) if not most.fits else (most, tried if _same(tried, most) else most)
            low = tried
        return low, low

    def _downward(self, high: _Trial) -> tuple[_Trial | None, _Trial]:
        """A budget that fits and a larger one that does not; nothing, and why, where none fits."""
        least = _LEAST  # below it nothing is planned
        for _ in range(_TRIALS):
            if high.limit <= least * (1 + CLOSE):
                break
            tried = self._at(max(least, _digits(high.limit / 4 if least == _LEAST else (least + high.limit) / 2)))
            if tried.fits:
                return tried, high
            if tried.plan is None and high.plan is not None:
                least = tried.limit
            elif tried.load == high.load == math.inf:
                break  # deltas of the draws' own, which no smaller budget makes smaller
            else:
                high = tried
        return None, high

    def _at(self, limit: Fraction) -> _Trial:
        delta = self._spec.privacy.budget.delta
        budget = Budget(epsilon=limit, delta=delta) if self._in_epsilon else Budget(rho=limit, delta=delta)
        privacy = self._spec.privacy.model_copy(update={"budget": budget})
        try:
            plan = self._planner(self._spec.model_copy(update={"privacy": privacy}))
        except PlanError as refusal:
            needed = getattr(refusal, "needed", math.inf)
            least = Fraction(needed) if limit < needed < math.inf else None
            short = isinstance(refusal, BudgetTooSmall)
            return _Trial(limit, None, math.inf, fits=False, why=refusal.summary, short=short, needed=least)
        loads = [self._of_ceiling(plan), *(_of_cap(plan, case) for case in self._cases)]
        load, fits, why = max(loads, key=lambda each: (not each[1], each[0]))
        return _Trial(limit, plan, load, fits, why)

    def _of_ceiling(self, plan: ReleasePlan) -> tuple[float, bool, str]:
        certified, ceiling = plan.loss[plan.certified], self._ceiling
        if ceiling is None:
            return 0.0, True, ""
        fits = certified.epsilon <= ceiling.epsilon and certified.delta <= ceiling.delta
        return float(certified.epsilon / ceiling.epsilon), fits, _CEILINGS


def _same(one: _Trial, other: _Trial) -> bool:
    return one.plan is not None and other.plan is not None and one.plan.event == other.plan.event


def _of_cap(plan: ReleasePlan, case: Capped) -> tuple[float, bool, str]:
    try:
        amount = case.last(plan.cost_of(case.purse.account))
    except UnsupportedEvent:
        amount = None
    if amount is None:
        why = "draws with deltas of their own, such as key selection, use up its delta, whatever the epsilon"
        return math.inf, False, f"{case}: {why}"
    return float(amount / case.cap.limit), case.allows(amount), str(case)


def _between(low: _Trial, high: _Trial, *, halve: bool) -> Fraction:
    """The next budget: where the load would be 1 if it grew like a power of the budget, and not too near either end."""
    share = 0.5
    if not halve and 0 < low.load < high.load < math.inf:
        share = -math.log(low.load) / (math.log(high.load) - math.log(low.load))
    width = math.log(high.limit / low.limit)
    # Half of CLOSE from an end, so that a root beside it is enclosed by the very next trial.
    edge = min(0.5, float(CLOSE) / 2 / width)
    return _digits(Fraction(float(low.limit) * math.exp(width * min(max(share, edge), 1 - edge))))


def _digits(value: Fraction) -> Fraction:
    """Rounded down to the digits of a trial."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return value // unit * unit
