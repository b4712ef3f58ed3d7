"""The tables of prefixes and ranges, from the one draw that each is made of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedTable
from dprelease.estimate.ranges import range_table, sums_of, variances_of
from dprelease.measures import Noisy
from dprelease.plan.design.accuracy import normal_margin
from dprelease.plan.document import PlannedQuery, PlannedRanges, ReleasePlan, Step

__all__ = ["step_of_sums", "summed_table", "sums_again"]

Floats = npt.NDArray[np.float64]


def step_of_sums(plan: ReleasePlan, query: PlannedQuery) -> Step:
    """The draw that a query with ranges is made of."""
    ((feed,),) = query.inputs.values()
    return plan.step(feed.step)


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
    return range_table(
        query.name,
        query.title,
        plan.keys(query),
        label,
        query.measures[label],
        _sums(plan, query, noisy.values),
        noisy.law.variance * variances_of(step.factor, keys, ranges.which),
        which=ranges.which,
        reach=normal_margin(plan.publish.confidence, step.scale),
        confidence=plan.publish.confidence,
        unreliable_above=plan.publish.unreliable_above,
        unreliable_show=plan.publish.unreliable_show,
        nearest=plan.publish.intervals == "nearest",
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


def _sums(plan: ReleasePlan, query: PlannedQuery, values: npt.NDArray[np.int64]) -> Floats:
    table, ranges = plan.catalog.tables[query.table], _ranges(query)
    shape = tuple(table.column(name).cells for name in query.by)
    factor = step_of_sums(plan, query).factor
    return sums_of(values, shape, query.by.index(ranges.of), factor, ranges.which)


def _ranges(query: PlannedQuery) -> PlannedRanges:
    if query.ranges is None:
        raise ValueError("only a query with ranges has sums along a column")
    return query.ranges
