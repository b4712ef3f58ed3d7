"""Further columns of a query that compare its numbers, put behind its measures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedMeasure, PublishedTable, Rows, estimate, interval, statuses
from dprelease.estimate.figures import ShowRules
from dprelease.estimate.series import law_of_sum, sum_of_last
from dprelease.measures import Noisy, Possible
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.measures.comparing.distances import stand_out
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import number_names
from dprelease.publish.comparing.earlier import EarlierRelease, period_of
from dprelease.publish.comparing.figures import ComparedRows, figures_of
from dprelease.publish.comparing.levels import Levels
from dprelease.publish.measured import Inputs

__all__ = ["compared_tables"]

Floats = npt.NDArray[np.float64]


def compared_tables(
    plan: ReleasePlan,
    tables: Sequence[PublishedTable],
    inputs: Inputs,
    earlier: Mapping[str, EarlierRelease],
) -> tuple[PublishedTable, ...]:
    """The queries of a plan with the columns that compare their numbers.

    Args:
        plan: That was measured.
        tables: Its queries as they are estimated, or some of them.
        inputs: What was measured.
        earlier: By period, the releases that it looks back to; of one that is not there the columns are blank.
    """
    queries = {query.name: query for query in plan.queries}
    if not any(query.compare for query in queries.values()):
        return tuple(tables)
    looked = {period_of(plan, each) for query in queries.values() for each in query.compare.values()}
    known = {period: (each.plan, each.inputs) for period, each in earlier.items() if period in looked}
    return tuple(
        _with_columns(plan, queries[table.name], table, inputs, known) if queries[table.name].compare else table
        for table in tables
    )


def _with_columns(
    plan: ReleasePlan,
    query: PlannedQuery,
    table: PublishedTable,
    inputs: Inputs,
    known: Mapping[str, tuple[ReleasePlan, Inputs]],
) -> PublishedTable:
    if query.series is not None:
        return replace(table, measures=(*table.measures, *_sums(plan, query, table, inputs)))
    now = Levels.of(plan, query, inputs)
    before: dict[str, Levels] = {}
    for period, (other, measured) in known.items():
        same = next((each for each in other.queries if each.name == query.name), None)
        if same is not None and any(period_of(plan, each) == period for each in query.compare.values()):
            before[period] = Levels.of(other, same, measured)
    shown = {each.name: each for each in table.measures}
    made = []
    for name in (each for each in number_names(plan, query) if each in query.compare):
        asked = query.compare[name]
        looked = period_of(plan, asked)
        figures = figures_of(asked, now, before.get(looked or ""), table)
        if asked.index_to is not None and looked == plan.release.period:
            figures = _at_the_base(table.cells)
        made.append(_column(plan, name, asked, looked, figures, shown[asked.measure]))
    return replace(table, measures=(*table.measures, *made))


def _sums(plan: ReleasePlan, query: PlannedQuery, table: PublishedTable, inputs: Inputs) -> Iterator[PublishedMeasure]:
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
            value=_held(value, hidden),
            standard_error=_held(error, hidden),
            margin=_held(margin, hidden),
            lower=_held(lower, hidden),
            upper=_held(upper, hidden),
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


def _held(numbers: Floats, hidden: npt.NDArray[np.bool_]) -> Floats:
    """The numbers that are shown, never a negative zero; read-only."""
    made = np.where(hidden, np.nan, numbers) + 0.0
    made.flags.writeable = False
    return made


def _at_the_base(rows: int) -> ComparedRows:
    """An index is 100 in its base period, by definition."""
    full, none = np.full(rows, 100.0), np.zeros(rows)
    return ComparedRows(full, none, full, full)


def _column(
    plan: ReleasePlan,
    name: str,
    asked: ComparedNumber,
    period: str | None,
    found: ComparedRows,
    own: PublishedMeasure,
) -> PublishedMeasure:
    """A number that is blank where the one that it compares is not published either."""
    blank = np.isnan(found.value) | np.isnan(own.value)
    publish = plan.publish
    lower, upper = found.lower, found.upper
    margin = np.fmax(found.value - lower, upper - found.value)
    unreliable = caution = np.zeros(blank.shape, dtype=bool)
    alike = None
    if asked.kind in ("share", "index"):
        rules = ShowRules(publish.unreliable_above, publish.unreliable_show, False, publish.figures)
        whole = asked.whole if asked.kind == "share" else 1
        bounds: Possible = (Fraction(0), Fraction(1)) if asked.kind == "share" else (Fraction(0), None)
        value, off, low, high = (each / whole for each in (found.value, margin, lower, upper))
        caution, unreliable, hidden = rules.judged(value, off, low, high, bounds, blank, counts=False)
    else:
        hidden, alike = blank, _alike(found, blank, publish.confidence)
    whole_steps = asked.kind in ("change", "difference") and own.integer and own.places == 0

    def shown(numbers: Floats) -> Floats:
        return _held(numbers, hidden)

    return PublishedMeasure(
        name=name,
        measure=None,
        value=shown(found.value),
        standard_error=shown(found.error),
        margin=shown(margin),
        lower=shown(lower),
        upper=shown(upper),
        status=statuses(blank, unreliable, caution, alike),
        places=0 if whole_steps else None,
        integer=whole_steps,
        tested=True,
        held=publish.figures is not None,
        p_value=None if found.p_value is None else shown(found.p_value),
        compared=asked if period is None else asked.at(period),
        never=found.never,
    )


def _alike(found: ComparedRows, blank: npt.NDArray[np.bool_], confidence: Fraction) -> npt.NDArray[np.bool_]:
    """Which changes or differences noise alone may have made.

    By p-values with at most the error probability of the margins as the part of all that are told apart which noise
    alone has made; where no law gives p-values, by whether the interval of each by itself holds 0.
    """
    if found.p_value is None:
        with np.errstate(invalid="ignore"):
            return np.asarray(~blank & ~((found.lower > 0) | (found.upper < 0)))
    p_value = np.where(blank, np.nan, found.p_value)
    return np.asarray(~blank & ~stand_out(p_value, float(1 - confidence)))
