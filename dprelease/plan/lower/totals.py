"""From a query with totals to the tables that are drawn of it, and what each takes of the query's budget.

A total of K cells that is added up errs sqrt(K) times as much as a cell. Up to ten cells are added up. Of larger ones a
table is drawn, and reconciled with the cells: all such tables together take a fifth of the budget, in even parts, which
costs the cells some 9 % more noise, and takes most of what adding up loses (decision 77). ``shares`` says otherwise.

Tables are drawn, and no residuals: under ``add_remove`` independent Gaussian noise on tables is a strategy of residuals
already, at the same price, for every table tells each residual within it (Xiao, He, Zhang and Kifer 2023, "An optimal
and scalable matrix mechanism for noisy marginals"). What is left to choose is how much each table has.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.table import Catalog
from dprelease.errors import PlanError
from dprelease.plan.document import Feed, PlannedTotals, TotalTable
from dprelease.spec.fields.document import QuerySpec
from dprelease.spec.fields.published_sets import workload_shares
from dprelease.spec.fields.workloads import TOTAL_KEY

__all__ = ["drawn_groupings", "planned_totals", "table_id", "with_feeds"]

_ADDED_UP = 10  # cells
_OF_TOTALS = Fraction(1, 5)


def planned_totals(name: str, query: QuerySpec, catalog: Catalog) -> PlannedTotals | None:
    """Which tables of totals a query draws, with which part of its budget; None where it has no totals.

    Args:
        name: The name of the query.
        query: Of a spec that was loaded without a problem.
        catalog: The catalog of the same spec.

    Raises:
        PlanError: DPR-P170, where a key of a reference is that of totals.
    """
    if query.totals is None:
        return None
    table, shares = catalog.tables[query.table], workload_shares(_as_workload(query), {})
    for column in map(table.column, query.by):
        if TOTAL_KEY in (column.keys or ()):
            raise PlanError(
                f"query {name!r}: column {column.name!r} has a key {TOTAL_KEY!r}, which is that of totals",
                hint="rename the key in the reference",
                code="DPR-P170",
            )
    listed = [tuple(column for column in query.by if column in each) for each in query.totals]
    listed.sort(key=lambda each: (-len(each), [query.by.index(column) for column in each]))
    if shares is None:
        below = {by: prod(table.column(column).cells for column in query.by if column not in by) for by in listed}
        drawn = [by for by in listed if below[by] > _ADDED_UP]
        parts = dict.fromkeys(drawn, _OF_TOTALS / max(1, len(drawn)))
    else:
        parts = {by: part for by in listed if (part := shares.tables[by][0])}
    return PlannedTotals(
        by=query.by,
        part=1 - sum(parts.values(), Fraction(0)),
        tables=tuple(TotalTable(by=by, part=parts.get(by)) for by in listed),
    )


def _as_workload(query: QuerySpec) -> QuerySpec:
    return query.model_copy(update={"marginals": query.with_totals})


def drawn_groupings(planned: PlannedTotals, cells: Grouping) -> tuple[Grouping, ...]:
    """The rows and cells of every table that is drawn: those rows that have a key in every column of the query."""
    return tuple(cells.model_copy(update={"by": table.by}) for table in planned.drawn)


def table_id(name: str, by: tuple[str, ...], cells: Grouping) -> str:
    """What the steps of a table of a query are named after: the query, and of a table of totals its columns."""
    return name if by == cells.by or not cells.complete else f"{name}.{'-'.join(by) or 'total'}"


def with_feeds(planned: PlannedTotals, feeds: dict[tuple[str, ...], dict[str, tuple[Feed, ...]]]) -> PlannedTotals:
    """The same with what feeds every table that is drawn, by its key columns and its measures."""
    tables = (
        each if each.part is None else each.model_copy(update={"inputs": feeds[each.by]}) for each in planned.tables
    )
    return planned.model_copy(update={"tables": tuple(tables)})
