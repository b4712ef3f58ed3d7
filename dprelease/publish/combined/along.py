"""Sums along a column as published tables: of one period, and of the periods of a series.

Of a series every combination of cells that was drawn is estimated for each period (``estimate.series``), the sums of
each period are made of these and rounded to whole parts, and those of several periods are sums of such numbers, so that
all agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column
from dprelease.estimate import PublishedTable, Rows
from dprelease.estimate.counts import table_of_counts
from dprelease.estimate.ranges import line_sums, range_rows, variances_of
from dprelease.estimate.series import PARTS, errors_of_linear, in_parts, sum_of_last
from dprelease.measures import Noisy
from dprelease.noise.mechanisms.discrete_gaussian import normal_margin
from dprelease.plan.document import PlannedQuery, PlannedRanges, ReleasePlan, Step
from dprelease.publish.base import number_names

__all__ = [
    "counts_of_series",
    "length_of",
    "lines_again",
    "lines_of_series",
    "step_of_sums",
    "summed_table",
    "sums_again",
]

Floats = npt.NDArray[np.float64]
Parts = Sequence[npt.NDArray[np.int64]]


def step_of_sums(plan: ReleasePlan, query: PlannedQuery) -> Step:
    """The draw that a query with ranges is made of."""
    return plan.step(next(iter(query.inputs.values()))[0].step)


def summed_table(plan: ReleasePlan, query: PlannedQuery, noisy: Noisy) -> PublishedTable:
    """The published table of a query with ranges.

    Args:
        plan: That was measured.
        query: With ranges.
        noisy: What its step measured, in steps of the lattice.
    """
    ranges, step = _ranges(query), step_of_sums(plan, query)
    (label,) = query.inputs
    keys = plan.catalog.tables[query.table].column(ranges.of).cells
    value, variances = _sums(plan, query, noisy.values), variances_of(step.factor, keys, ranges.which)
    error = np.sqrt(noisy.law.variance * variances)  # the same in all lines
    return table_of_counts(
        query.name,
        query.title,
        plan.keys(query),
        range_rows(plan.keys(query), ranges.which),
        label,
        query.measures[label],
        value,
        value,
        np.tile(error, len(value) // len(error)),
        reach=normal_margin(plan.publish.confidence, step.scale),
        confidence=plan.publish.confidence,
        unreliable_above=plan.publish.unreliable_above,
        unreliable_show=plan.publish.unreliable_show,
        nearest=plan.publish.intervals == "nearest",
        whole=False,
        figures=plan.publish.figures,
    )


def sums_again(plan: ReleasePlan, query: PlannedQuery, noisy: Noisy, replicates: int) -> Floats:
    """The sums of every replicate of a measurement, one replicate after the other.

    Args:
        plan: That was measured.
        query: With ranges.
        noisy: Replicates of what its step measured, one after the other (``derive.replicate.again``).
        replicates: How many.
    """
    each = np.split(noisy.values, replicates)
    return np.concatenate([_sums(plan, query, values) for values in each])


def _sums(plan: ReleasePlan, query: PlannedQuery, values: npt.NDArray[np.int64] | Floats) -> Floats:
    table, ranges = plan.catalog.tables[query.table], _ranges(query)
    shape = tuple(table.column(name).cells for name in query.by)
    factor = step_of_sums(plan, query).factor
    return line_sums(values, shape, query.by.index(ranges.of), factor, ranges.which)


def _ranges(query: PlannedQuery) -> PlannedRanges:
    if query.ranges is None:
        raise ValueError("only a query with ranges has sums along a column")
    return query.ranges


def length_of(query: PlannedQuery, name: str) -> int | None:
    """Of how many periods a number of a series is; None: there is no such sum now."""
    asked = query.compare.get(name)
    which = 1 if asked is None or asked.sum_of is None else asked.sum_of
    return None if query.series is None else query.series.length(which)


def lines_of_series(plan: ReleasePlan, query: PlannedQuery, periods: Mapping[str, Parts]) -> PublishedTable:
    """The published table of a query with ranges and a series, with its sums over periods.

    Args:
        plan: That was measured.
        query: With ranges and a series.
        periods: By the id of a draw every period of it (``measured.Inputs``).
    """
    ranges, step = _ranges(query), step_of_sums(plan, query)
    keys = plan.catalog.tables[query.table].column(ranges.of).cells
    rows = range_rows(plan.keys(query), ranges.which)
    variances = float(step.scale) ** 2 * variances_of(step.factor, keys, ranges.which)

    def errors(length: int) -> Floats:
        draw = step.series
        if draw is None:
            raise ValueError(f"{step.id} is no draw of a series")
        return np.tile(errors_of_linear(variances, keys, step.scale, draw, length), len(rows) // len(variances))

    parts = [in_parts(_sums(plan, query, each / PARTS)) for each in periods.get(step.id, ())]
    reach = normal_margin(plan.publish.confidence, step.scale)
    return counts_of_series(plan, query, plan.keys(query), rows, parts, errors, reach)


def counts_of_series(
    plan: ReleasePlan,
    query: PlannedQuery,
    columns: Sequence[Column],
    rows: Rows,
    parts: Parts,
    errors: Callable[[int], Floats],
    reach: float,
) -> PublishedTable:
    """A table of counts that are linear in draws of a series, with its sums over periods.

    Args:
        plan: That was measured.
        query: With a series and one count.
        columns: Its keys.
        rows: Their values.
        parts: Its numbers of every period, the first one first; none where draws of earlier periods are not there.
        errors: Of the sum of so many periods the standard error of every row.
        reach: A margin in these, at least 1 of them.
    """
    (label,) = query.measures
    made = []
    for name in number_names(plan, query):
        length = length_of(query, name)
        value = sum_of_last(parts, length, len(rows))
        error = np.full(len(rows), np.nan) if length is None or not parts else errors(length)
        made.append(
            table_of_counts(
                query.name,
                query.title,
                columns,
                rows,
                name,
                query.measures[label],
                value,
                value,
                error,
                reach=max(1.0, reach),
                confidence=plan.publish.confidence,
                unreliable_above=plan.publish.unreliable_above,
                unreliable_show=plan.publish.unreliable_show,
                nearest=plan.publish.intervals == "nearest",
                whole=False,
                figures=plan.publish.figures,
            )
        )
    sums = (replace(each.measures[0], measure=None, compared=query.compare[each.measures[0].name]) for each in made[1:])
    return replace(made[0], measures=(made[0].measures[0], *sums))


def lines_again(plan: ReleasePlan, query: PlannedQuery, periods: Mapping[str, Parts]) -> dict[str, Floats]:
    """The numbers of a query with ranges and a series, of replicates of its draws, by name.

    Args:
        plan: That was measured.
        query: With ranges and a series.
        periods: By step replicates of every period, one after the other (``derive.replicate.periods_again``).
    """
    step = step_of_sums(plan, query)
    size = step.cells or 1

    def summed(drawn: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        each = np.split(drawn / PARTS, len(drawn) // size)
        return np.concatenate([in_parts(_sums(plan, query, values)) for values in each])

    parts = [summed(each) for each in periods[step.id]]
    cells = len(parts[0]) if parts else 0
    return {name: sum_of_last(parts, length_of(query, name), cells) for name in number_names(plan, query)}
