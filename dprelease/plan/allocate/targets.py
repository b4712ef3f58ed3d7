"""The least budget at which a query's margins of error meet its targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from dprelease.catalog.series.band import lengths_of
from dprelease.catalog.table import Catalog
from dprelease.errors import PlanError
from dprelease.estimate.series import endless_variances, errors_in_the_end, law_in_the_end
from dprelease.estimate.totals import laws_of_tables
from dprelease.estimate.workloads.tails import laplace_reach
from dprelease.measures.comparing.comparison import ComparedNumber, compared_named
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import normal_margin
from dprelease.noise.mechanisms.tables_knorm import TablesLaw
from dprelease.plan.allocate.candidates import Candidate
from dprelease.plan.design.accuracy import error_of_sums
from dprelease.plan.design.comparing import expected_comparison
from dprelease.plan.design.totals import drawn_laws, sizes_of
from dprelease.plan.design.workload_joint import joint_reach
from dprelease.plan.document import PlannedQuery
from dprelease.plan.lower.lowered import Lowered
from dprelease.plan.lower.lowered_workload import LoweredWorkload
from dprelease.plan.lower.unscaled import UnscaledStep
from dprelease.plan.resolve.grouping import expected_rows

__all__ = ["floor_of"]

_CLOSE = 1e-6
_ROUND = 2  # the scale from which on a draw is as good as normal: `normal_margin`


def floor_of(
    lowered: Lowered,
    query: int,
    candidate: Candidate,
    parts: Mapping[int, Fraction],
    confidence: Fraction,
    catalog: Catalog,
) -> Fraction:
    """The least budget (epsilon or rho, as the candidate counts), divided by ``parts``, that meets every target.

    The margin of the worst cell falls as the budget rises, so the answer is found by bisection on the very laws
    that the tables' margins come from. It is right to a part in a million, on the side of the target.

    Raises:
        PlanError: If a target cannot be met at any budget.
    """
    planned = lowered.asked[query]
    if isinstance(planned, LoweredWorkload) and planned.pure is None:
        if planned.queries[0].series is not None:
            return max(_floor_in_the_end(planned, name, candidate, confidence) for name in planned.planned.goal.targets)
        return _workload_floor(planned, confidence)
    if isinstance(planned, LoweredWorkload):
        return _tables_floor(planned, candidate, confidence)
    place = {draft.id: at for at, draft in enumerate(lowered.drafts)}

    def excess(budget: Fraction) -> float:
        """The largest margin divided by its target; at most 1 where all are met."""
        laws = {}
        for at, part in parts.items():
            draft = lowered.drafts[at]
            laws[at] = draft.law(candidate.mechanism(draft), candidate.scale(draft, budget * part))
        worst = 0.0
        for name, target in planned.goal.targets.items():
            asked = compared_named(planned.compare, name)
            label = name if asked is None else asked.measure
            feeds = planned.inputs[label]
            fed = [place[feed.step] for feed in feeds]
            quantities = [lowered.drafts[at].parts[feed.part] for at, feed in zip(fed, feeds, strict=True)]
            count = expected_rows(planned.expect, planned.measures, label)
            measure, sums = planned.measures[label], lowered.drafts[fed[0]].worst
            if planned.series is not None:
                scales = {at: candidate.scale(lowered.drafts[at], budget * parts[at]) for at in set(fed)}
                drawn_so = [(lowered.drafts[at], scales[at]) for at in fed]
                margin = _in_the_end(planned, name, drawn_so, confidence, catalog)
            elif asked is not None:
                known = {lowered.drafts[at].id: laws[at] for at in parts}
                margin = _of_comparison(planned, asked, catalog, known, confidence)
            elif sums is not None:
                scale = candidate.scale(lowered.drafts[fed[0]], budget * parts[fed[0]])
                margin = error_of_sums(sums, laws[fed[0]], scale, confidence).margin
            else:
                used, drawn = [laws[at] for at in fed], [feed.step for feed in feeds]
                margin = measure.expected_tested(quantities, used, confidence, count, drawn).margin
            if margin is None:
                raise PlanError(
                    f"the target of {planned.name}.{name} cannot be planned: its margin depends on the data",
                    hint="give `expect` for a count of the query, or write a share instead of the target",
                    code="DPR-P105",
                )
            worst = max(worst, margin / float(target))
        return worst

    return _least(excess, planned.name)


def _of_comparison(
    query: PlannedQuery, asked: ComparedNumber, catalog: Catalog, laws: Mapping[str, Law], confidence: Fraction
) -> float | None:
    """The margin of a column that compares, by the laws of the steps; an earlier period has the same noise here."""
    drawn = drawn_laws(query, asked.measure, laws.__getitem__)
    cells = [laws[feed.step] for feed in query.inputs[asked.measure]]
    if query.totals is not None:
        sizes, sets = sizes_of(query, catalog), query.totals.sets
        cells = [laws_of_tables(sizes, sets, each)[sets[0]] for each in drawn]
    return expected_comparison(query, asked, catalog, drawn, cells, confidence).margin


def _in_the_end(
    query: PlannedQuery,
    name: str,
    fed: Sequence[tuple[UnscaledStep, Fraction]],
    confidence: Fraction,
    catalog: Catalog,
) -> float | None:
    """The margin of a number of a series, or of a sum of periods, in a series without end: no period has a larger one.

    So all periods of the series have the noise that the first one was planned with. A sum since January has the length
    that errs most: that of a mean is January, when it is of the fewest rows.
    """
    series, asked = query.series, query.compare.get(name)
    draws = [(step.series, scale) for step, scale in fed if step.series is not None]
    if series is None or len(draws) < len(fed):
        return None
    label, lengths = name if asked is None else asked.measure, _lengths(query, name)
    quantities, drawn = [step.aggregate.quantity for step, _ in fed], [step.id for step, _ in fed]
    if query.ranges is not None:
        ((step, scale),) = fed
        keys = catalog.tables[query.table].column(query.ranges.of).cells
        variance = np.array([(step.worst or 1.0) * float(scale) ** 2])
        error = float(errors_in_the_end(variance, keys, scale, series.band, lengths)[0])
        return max(1.0, normal_margin(confidence, scale)) * error
    if len(fed) == 1:
        ((draw, scale),) = draws
        return law_in_the_end(draw, scale, lengths).margin(confidence) * float(quantities[0].grid)
    rows, measure = expected_rows(query.expect, query.measures, label), query.measures[label]
    known = endless_variances(series.band, max(lengths))  # of all its draws: one length is the worst for each of them
    length = max(lengths, key=lambda each: known[each - 1] / each**2)
    laws = [law_in_the_end(draw, scale, (length,)) for draw, scale in draws]
    return measure.expected_tested(quantities, laws, confidence, None if rows is None else rows * length, drawn).margin


def _lengths(query: PlannedQuery, name: str) -> tuple[int, ...]:
    """Of how many periods a number of a series can be, in any of its periods."""
    series, asked = query.series, query.compare.get(name)
    if series is None or asked is None or asked.sum_of is None:
        return (1,)
    return lengths_of(asked.sum_of, series.year or 1, series.horizon)


def _workload_floor(asked: LoweredWorkload, confidence: Fraction) -> Fraction:
    """The least rho at which the worst cell of any table of a workload meets the target: variances go by 1 / rho."""
    (target,) = asked.planned.goal.targets.values()
    error = math.sqrt(asked.worst(asked.strategy)) / float(target)
    rho = Fraction((normal_margin(confidence) * error) ** 2 * (1 + _CLOSE))
    smallest = min(draft.sensitivity.l2_squared / (2 * rho * (draft.part or 1)) for draft in asked.drafts)
    if smallest >= _ROUND**2:
        return rho
    return Fraction((normal_margin(confidence, Fraction(0)) * error) ** 2 * (1 + _CLOSE))  # too coarse to be normal


def _floor_in_the_end(asked: LoweredWorkload, name: str, candidate: Candidate, confidence: Fraction) -> Fraction:
    """The least rho at which the worst cell of any table, or a sum of its periods, meets a target in every period."""
    query, target = asked.queries[0], float(asked.planned.goal.targets[name])
    at_one, lengths = asked.worst(asked.strategy) * float(asked.column), _lengths(query, name)
    numbers = sum(draft.cells or 0 for draft in asked.drafts)

    def excess(rho: Fraction) -> float:
        least = min(candidate.scale(draft, rho * (draft.part or 1)) for draft in asked.drafts)
        variance = np.array([at_one / float(rho) * (1 + _CLOSE)])
        assert query.series is not None  # noqa: S101 - asked for by the caller
        error = float(errors_in_the_end(variance, numbers, least, query.series.band, lengths)[0])
        return max(1.0, normal_margin(confidence, least)) * error / target

    return _least(excess, asked.name)


def _tables_floor(asked: LoweredWorkload, candidate: Candidate, confidence: Fraction) -> Fraction:
    """The least budget at which the worst cell of any table of pure draws meets the target."""
    (target,) = asked.planned.goal.targets.values()

    def excess(budget: Fraction) -> float:
        scales = [candidate.scale(draft, budget * (draft.part or 1)) for draft in asked.drafts]
        laws = [draft.law(candidate.mechanism(draft), scale) for draft, scale in zip(asked.drafts, scales, strict=True)]
        worst, design = asked.worst_at(laws)
        (first, *_) = laws
        reach = joint_reach(first, design, confidence) if isinstance(first, TablesLaw) else None
        return (reach or laplace_reach(design, confidence)) * math.sqrt(worst) / float(target)

    return _least(excess, asked.planned.name)


def _least(excess: Callable[[Fraction], float], name: str) -> Fraction:
    """The least budget at which ``excess`` is at most 1; it falls about like a power of the budget."""
    low: Fraction | None = None
    high: Fraction | None = None
    at = Fraction(1)
    for turn in range(200):
        found = excess(at)
        low, high = (low, at) if found <= 1 else (at, high)
        if low is not None and high is not None and float(high / low) <= 1 + _CLOSE:
            return high
        if at > 2**80:
            raise PlanError(
                f"the target of {name} cannot be met by any budget",
                hint="its margin does not fall to that with the noise: take a larger one",
                code="DPR-P104",
            )
        if at < Fraction(1, 2**120):
            return at
        # A margin is a number of whole steps: near the answer the power says nothing, and halving takes over.
        aim = at * Fraction(min(max(found, 1e-3), 1e3) ** 1.5) * (1 + Fraction(1, 200) * (1 if low == at else -1))
        if low is not None and high is not None and (turn > 6 or not low < aim < high):
            aim = Fraction(math.sqrt(low * high))
        at = Fraction(float(aim))
    raise PlanError(f"the target of {name} cannot be planned", hint="take a larger one", code="DPR-P104")
