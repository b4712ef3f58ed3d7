"""From what was measured of a query with totals to its table: each quantity is reconciled, then each measure is made.

What is made of several quantities (means, ratios) is made in each row of the estimates of that row, whose errors are
independent of one another and come from the law of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedTable
from dprelease.estimate.totals import in_rows, put_together, with_totals
from dprelease.measures import Noisy
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import public_rows

__all__ = ["reconciled_inputs", "table_of_totals", "totals_again"]

Floats = npt.NDArray[np.float64]

Fed = Mapping[str, Sequence[Noisy]]


def reconciled_inputs(
    plan: ReleasePlan, query: PlannedQuery, noisy: Mapping[str, tuple[Noisy, ...]]
) -> tuple[dict[str, list[Noisy]], ...]:
    """What the measures of a query are made of in its cells, then in each of its tables of totals.

    Args:
        plan: That was measured.
        query: With totals.
        noisy: By step; of several replicates one behind the other.
    """
    totals = query.totals
    if totals is None:
        raise ValueError("only a query with totals has tables of them")
    table = plan.catalog.tables[query.table]
    sizes, sets = tuple(table.column(name).cells for name in query.by), totals.sets
    fed = {sets[0]: query.inputs}
    fed |= {axes: each.inputs for axes, each in zip(sets[1:], totals.tables, strict=True) if each.part is not None}
    known: dict[tuple[tuple[str, int], ...], dict[tuple[int, ...], Noisy]] = {}
    found: tuple[dict[str, list[Noisy]], ...] = tuple({} for _ in sets)
    for label, feeds in query.inputs.items():
        for at in range(len(feeds)):
            own = {axes: inputs[label][at] for axes, inputs in fed.items()}
            key = tuple((feed.step, feed.part) for feed in own.values())
            if key not in known:  # a quantity that several measures take is estimated once
                drawn = {axes: noisy[feed.step][feed.part] for axes, feed in own.items()}
                known[key] = with_totals(sizes, sets, drawn)
            for axes, inputs in zip(sets, found, strict=True):
                inputs.setdefault(label, []).append(known[key][axes])
    return found


def table_of_totals(
    plan: ReleasePlan,
    query: PlannedQuery,
    noisy: Mapping[str, tuple[Noisy, ...]],
    made: Callable[[Fed], PublishedTable],
) -> PublishedTable:
    """The table of a query with totals.

    Args:
        plan: That was measured.
        query: With totals.
        noisy: By step.
        made: Makes a table of the query's measures, given what these are made of.
    """
    totals, rows = query.totals, public_rows(plan, query)
    if totals is None or rows is None:
        raise ValueError("only a query with totals and public keys has tables of them")
    columns = tuple(map(plan.catalog.tables[query.table].column, query.by))
    tables = [made(inputs) for inputs in reconciled_inputs(plan, query, noisy)]
    return put_together(tables[0], tables, totals.places(columns), rows, totals.left_out(columns))


def totals_again(
    plan: ReleasePlan, query: PlannedQuery, noisy: Mapping[str, tuple[Noisy, ...]], replicates: int
) -> dict[str, Floats]:
    """The values of a query with totals in every replicate of what was measured, one replicate after the other.

    Args:
        plan: That was measured.
        query: With totals.
        noisy: Replicates of what its steps measured (``derive.replicate.again``).
        replicates: How many.
    """
    if query.totals is None:
        raise ValueError("only a query with totals has tables of them")
    columns = tuple(map(plan.catalog.tables[query.table].column, query.by))
    places, left_out = query.totals.places(columns), query.totals.left_out(columns)
    tables, found = reconciled_inputs(plan, query, noisy), dict[str, Floats]()
    for label, measure in query.measures.items():
        values = [measure.estimate(inputs[label], plan.publish.confidence).value for inputs in tables]
        split = [each.reshape(replicates, -1) for each in values]
        found[label] = np.concatenate(
            [in_rows([part[at] for part in split], places, left_out) for at in range(replicates)]
        )
    return found
