"""Sums over the periods of a series: what is published of them, and what fresh noise makes of them.

A count or a sum of several periods is the sum of their estimates, in whole parts of a grid step, so that all of them
agree. A mean or a ratio is what its kind makes of such sums of what it takes. All are made of the draws of the series,
so that fresh noise on every draw, taken through the same matrix, errs together as they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.series.band import BandDraw
from dprelease.estimate import PublishedMeasure, PublishedTable, Rows, estimate, interval, statuses
from dprelease.estimate.figures import ShowRules
from dprelease.estimate.series import law_of_change, law_of_sum, sum_of_last
from dprelease.measures import Noisy
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step
from dprelease.plan.explain.series_terms import differing_terms
from dprelease.publish.base import number_names
from dprelease.publish.measured import Inputs

__all__ = ["held_back", "period_sums", "values_again", "with_sums"]

Floats = npt.NDArray[np.float64]
Periods = Mapping[str, Sequence[npt.NDArray[np.int64]]]


def with_sums(plan: ReleasePlan, tables: Sequence[PublishedTable], inputs: Inputs) -> tuple[PublishedTable, ...]:
    """The tables, those of a series with their sums; other tables as they are.

    Args:
        plan: That was measured.
        tables: Some of its queries, as they are estimated.
        inputs: What was measured, the draws of earlier periods with it.
    """
    shared = {query.name: query for query in plan.queries if query.series is not None}
    return tuple(
        replace(table, measures=(*table.measures, *period_sums(plan, shared[table.name], table, inputs)))
        if table.name in shared and len(table.measures) == len(shared[table.name].measures)  # else it has them already
        else table
        for table in tables
    )


def period_sums(
    plan: ReleasePlan, query: PlannedQuery, table: PublishedTable, inputs: Inputs
) -> Iterator[PublishedMeasure]:
    """Every measure of a series of the last periods together.

    A count or a sum in whole parts of a grid step, so that all of them agree; a mean or a ratio is what its kind makes
    of the sums that it takes.
    """
    rules = ShowRules(
        plan.publish.unreliable_above,
        plan.publish.unreliable_show,
        plan.publish.intervals == "nearest",
        plan.publish.figures,
    )
    shown, series = {each.name: each for each in table.measures}, query.series
    for name in (each for each in number_names(plan, query) if each in query.compare):
        asked = query.compare[name]
        step, measure = plan.step(query.inputs[asked.measure][0].step), query.measures[asked.measure]
        length = None if series is None or asked.sum_of is None else series.length(asked.sum_of)
        if len(query.inputs[asked.measure]) > 1:
            fed = _of_periods(plan, query, asked.measure, inputs, length, table.cells)
            yield _of_sums(plan, query, table, name, fed)
            continue
        grid, periods = float(step.parts[0].grid), inputs.periods.get(step.id, ())
        value = sum_of_last(periods, length, table.cells) * grid
        law = None if length is None or step.series is None else law_of_sum(step.series, step.scale, length)
        blank = np.isnan(value) | np.isnan(shown[asked.measure].value)
        error = np.full(table.cells, np.nan if law is None else math.sqrt(law.variance) * grid)
        margin = np.full(table.cells, np.nan if law is None else law.margin(plan.publish.confidence) * grid)
        bounds = measure.bounds(step.parts)
        lower, upper = interval(value, margin, bounds, nearest=rules.nearest)
        caution, weak, hidden = rules.judged(value, margin, lower, upper, bounds, blank, counts=measure.is_count)
        yield PublishedMeasure(
            name=name,
            measure=None,
            value=held_back(value, hidden),
            standard_error=held_back(error, hidden),
            margin=held_back(margin, hidden),
            lower=held_back(lower, hidden),
            upper=held_back(upper, hidden),
            status=statuses(blank, weak, caution),
            places=None,
            integer=False,
            held=plan.publish.figures is not None,
            compared=asked,
        )


def _of_periods(
    plan: ReleasePlan, query: PlannedQuery, label: str, inputs: Inputs, length: int | None, cells: int
) -> list[Noisy]:
    """What a measure takes, of so many of the last periods together."""
    found = []
    for feed, own in zip(query.inputs[label], inputs.of(query)[label], strict=True):
        step = plan.step(feed.step)
        law = own.law if length is None or step.series is None else law_of_sum(step.series, step.scale, length)
        values: Any = sum_of_last(inputs.periods.get(step.id, ()), length, cells)  # no whole numbers, unlike all else
        found.append(replace(own, values=values, law=law))
    return found


def _of_sums(
    plan: ReleasePlan, query: PlannedQuery, table: PublishedTable, name: str, fed: Sequence[Noisy]
) -> PublishedMeasure:
    """A mean or a ratio of the last periods together, by the estimator of its kind."""
    asked = query.compare[name]
    taken, confidence = query.measures[asked.measure], plan.publish.confidence
    made = estimate(
        query.name,
        query.title,
        (),
        {name: taken},
        {name: fed},
        confidence=confidence,
        rows=Rows([], table.cells),
        unreliable_above=plan.publish.unreliable_above,
        unreliable_show=plan.publish.unreliable_show,
        nearest=plan.publish.intervals == "nearest",
        tested=(name,) if plan.publish.tests(taken) else (),
        figures=plan.publish.figures,
    )
    return replace(made.measures[0], measure=None, compared=asked)


def held_back(numbers: Floats, hidden: npt.NDArray[np.bool_]) -> Floats:
    """The numbers that are shown, never a negative zero; read-only."""
    made = np.where(hidden, np.nan, numbers) + 0.0
    made.flags.writeable = False
    return made


def values_again(
    plan: ReleasePlan, query: PlannedQuery, inputs: Inputs, periods: Periods, rows: int
) -> dict[str, Floats]:
    """The numbers of a query with a series, of given periods, by name; its sums with them.

    Args:
        plan: That was measured.
        query: With a series.
        inputs: What was measured.
        periods: By step (``derive.replicate.periods_again``).
        rows: How many numbers each of them has.
    """
    drawn = {step: periods[step] for feeds in query.inputs.values() for step in (feed.step for feed in feeds)}
    fresh = replace(inputs, periods=drawn)
    found = {}
    for name in number_names(plan, query):
        asked = query.compare.get(name)
        label, length = (name, 1) if asked is None else (asked.measure, None)
        if asked is not None and asked.sum_of is not None and query.series is not None:
            length = query.series.length(asked.sum_of)
        fed = _of_periods(plan, query, label, fresh, length, rows)
        found[name] = query.measures[label].estimate(fed, plan.publish.confidence).value
    return found


def margin_of_change(
    one: tuple[ReleasePlan, Inputs], two: tuple[ReleasePlan, Inputs], table: str, name: str, confidence: Fraction
) -> float | None:
    """How far noise moves the difference of a number of two periods of one series; None where they are no such two.

    Args:
        one: The plan of one release, and what was measured for it.
        two: Those of the other one.
        table: The query.
        name: One of its counts or sums, or a sum of periods of one.
        confidence: How often the noise of the difference is within it, at least.
    """
    found = [_made_of(plan, inputs, table, name) for plan, inputs in (one, two)]
    if found[0] is None or found[1] is None:
        return None
    mine, other = found[0], found[1]
    if mine.step.id != other.step.id or _of_other_series((mine.query, other.query), (one[0], two[0])):
        return None
    common = 0
    for (period, drawn), (same, again) in zip(mine.periods.items(), other.periods.items(), strict=False):
        if period != same or not np.array_equal(drawn, again):
            break  # it was skipped or drawn again; what comes after it is of each alone
        common += 1
    law = law_of_change((mine.draw, other.draw), mine.step.scale, (mine.length, other.length), common)
    return law.margin(confidence) * float(mine.step.parts[0].grid)


@dataclass(frozen=True, eq=False)
class _MadeOf:
    """One number that is linear in the draws of a series: which one, of how many periods, and all of these."""

    query: PlannedQuery
    step: Step
    draw: BandDraw
    length: int
    periods: Mapping[str, npt.NDArray[np.int64]]


def _made_of(plan: ReleasePlan, inputs: Inputs, table: str, name: str) -> _MadeOf | None:
    query = next((each for each in plan.queries if each.name == table), None)
    if query is None or query.series is None:
        return None
    asked = query.compare.get(name)
    feeds = query.inputs[name if asked is None else asked.measure]
    length = 1 if asked is None or asked.sum_of is None else query.series.length(asked.sum_of)
    if len(feeds) != 1 or query.ranges is not None or length is None:
        return None
    step = plan.step(feeds[0].step)
    if step.series is None or step.id not in inputs.periods:
        return None
    periods = dict(zip(query.series.periods, inputs.periods[step.id], strict=True))
    return _MadeOf(query, step, step.series, length, periods)


def _of_other_series(queries: tuple[PlannedQuery, PlannedQuery], plans: tuple[ReleasePlan, ReleasePlan]) -> bool:
    """Whether two periods are of different series: by the later one's terms."""
    later = 0 if plans[0].release.period >= plans[1].release.period else 1
    return bool(differing_terms(plans[later], queries[later], plans[1 - later]))
