"""Tables of a workload whose periods share their noise, with their sums over periods.

Every number that was drawn is estimated for each period (``estimate.series``); from those of a period the tables of
that period are reconciled, as for a workload without a series, and rounded to whole parts. Those of several periods are
sums of such numbers, and so agree with their periods to the last digit; with one another but for the rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedTable
from dprelease.estimate.series import PARTS, errors_of_linear, in_parts
from dprelease.estimate.tables import full_product
from dprelease.estimate.workloads.design import Design
from dprelease.estimate.workloads.zeros import cell_variances, estimated
from dprelease.plan.design.accuracy import reach_of
from dprelease.plan.design.workload_design import design_of, numbers_of_take
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step, Workload
from dprelease.publish.combined.along import Parts, counts_of_series, length_of

__all__ = ["errors_over_periods", "tables_of_series"]

Floats = npt.NDArray[np.float64]


def tables_of_series(
    plan: ReleasePlan, workload: Workload, periods: Mapping[str, Parts], names: Collection[str]
) -> dict[str, PublishedTable]:
    """The tables of a workload with a series by their names, in published order.

    Args:
        plan: That was measured.
        workload: One of it, whose tables are made consistent and no more.
        periods: By the id of a draw every period of it (``measured.Inputs``); none where earlier ones are not there.
        names: The names of the tables that are wanted.
    """
    steps, design = _drawn(plan, workload)
    variances, numbers = cell_variances(design), sum(step.cells or 0 for step in steps.values())
    least = min(step.scale for step in steps.values())
    reach = reach_of(workload, design, steps, plan.publish.confidence)
    told = min((len(periods.get(step, ())) for step in steps), default=0)
    each = [_reconciled(workload, steps, design, {name: periods[name][at] for name in steps}) for at in range(told)]
    queries = {query.name: query for query in plan.queries if query.workload == workload.name}
    table, found = plan.catalog.tables[workload.table], {}
    for name in (one for one in workload.tables if one in names):
        place, query = workload.place(name), queries[name]
        columns = tuple(map(table.column, workload.columns(*place)))
        rows = full_product(columns)
        parts = [in_parts(tables[place].reshape(-1)) for tables in each]
        own = np.broadcast_to(variances[place], design.shape(*place)).reshape(-1)
        errors = partial(_errors, query, next(iter(steps.values())), own, numbers, least)
        found[name] = counts_of_series(plan, query, columns, rows, parts, errors, reach)
    return found


def _drawn(plan: ReleasePlan, workload: Workload) -> tuple[dict[str, Step], Design]:
    """The draws of a workload by their ids, and its design, as if each draw were of one period alone."""
    steps = {take.step: plan.step(take.step) for take in workload.takes}
    return steps, design_of(workload, plan.catalog, steps)


def _errors(query: PlannedQuery, step: Step, variances: Floats, numbers: int, least: Fraction, length: int) -> Floats:
    if step.series is None:
        raise ValueError(f"{step.id} is no draw of the series of {query.name}")
    return errors_of_linear(variances, numbers, least, step.series, length)


def _reconciled(
    workload: Workload, steps: Mapping[str, Step], design: Design, parts: Mapping[str, npt.NDArray[np.int64] | Floats]
) -> Mapping[tuple[int, tuple[int, ...]], Floats]:
    """All tables of numbers that were drawn, which are in parts of a step of their lattice."""
    values = [
        numbers_of_take(workload, take, steps[take.step], parts[take.step] / PARTS, design) for take in workload.takes
    ]
    return estimated(design, values)


def errors_over_periods(
    plan: ReleasePlan,
    workload: Workload,
    wanted: Collection[str],
    errors: Mapping[str, list[npt.NDArray[np.int64]]],
    replicates: int,
) -> dict[str, dict[str, Floats]]:
    """The errors of tables and of their sums under fresh noise on all draws of a series, by table and number.

    Reconciling is linear, so that the errors of a sum are what the errors of its periods, added up, become.

    Args:
        plan: That was measured.
        workload: With a series.
        wanted: Names of its tables.
        errors: By step those of every period, in parts, one replicate after the other.
        replicates: How many.

    Returns:
        Of each number shape ``(replicates * cells,)``.
    """
    steps, design = _drawn(plan, workload)
    queries = {query.name: query for query in plan.queries if query.name in wanted}
    found: dict[str, dict[str, Floats]] = {name: {} for name in queries}
    first = next(iter(queries.values()))
    for number in (*first.measures, *first.compare):
        length = length_of(first, number)
        if length is None or not all(errors.get(name) for name in steps):
            continue
        summed = {name: np.split(np.sum(errors[name][-length:], axis=0), replicates) for name in steps}
        made = [
            _reconciled(workload, steps, design, {name: summed[name][at] for name in steps}) for at in range(replicates)
        ]
        for name in queries:
            place = workload.place(name)
            found[name][number] = np.concatenate([tables[place].reshape(-1) for tables in made])
    return found
