"""What a plan says of the totals of its queries: they are of the rows of the cells, and may be reconciled with them.

No sensitivity rests on this, for every draw is held against the rows that it counts as any other draw is. But an
estimate that takes what does not add up for what does is wrong, and its margin with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.plan.document import Feed, Measured, PlannedQuery, ReleasePlan, Step, TotalTable
from dprelease.plan.verify.reach import require

__all__ = ["feeds_of_totals"]

_ADDED_UP = ("rows", "nonnull", "balance", "sum", "square")  # kinds that are sums of what single rows contribute
_NOISE = ("discrete_laplace", "discrete_gaussian")


def feeds_of_totals(plan: ReleasePlan) -> set[tuple[str, str, str]]:
    """(query, measure, step) for every draw of every table of totals, after all that is said of these was checked.

    Raises:
        BrokenPromiseError: If totals are not sums of the cells of their query, or are fed by something else.
    """
    steps: dict[str, Measured] = {step.id: step for step in plan.measured}
    found = set()
    for query in plan.queries:
        if query.totals is None:
            continue
        _check_query(plan, query)
        _check_draws(query, query.inputs, query.by, steps)
        for table in query.totals.tables:
            _check_table(query, table)
            if table.part is not None:
                _check_draws(query, table.inputs, table.by, steps)
                found |= {(query.name, label, feed.step) for label, feeds in table.inputs.items() for feed in feeds}
    return found


def _check_query(plan: ReleasePlan, query: PlannedQuery) -> None:
    """Its cells are all cells of public keys, of rows that have a key in each column; its tables are told apart."""
    name, totals = query.name, query.totals
    assert totals is not None  # noqa: S101 - asked for by the caller
    plain = not query.private and query.ranking is None and query.ranges is None and query.workload is None
    left = (query.excluding, query.zeros, query.max_groups, query.max_rows_per_group)
    require(plain and left == (None,) * 4, f"{name} has totals, and cells that its rows may be left out of")
    require(totals.by == query.by and set(query.complete) == set(query.by), f"{name} has totals of other rows")
    lists = [frozenset(table.by) for table in totals.tables]
    require(bool(lists) and len(set(lists)) == len(lists), f"{name} has one table of totals twice, or none")
    given = sum((table.part or Fraction(0) for table in totals.tables), totals.part)
    require(given == 1, f"{name} divides more or less than its budget over its tables")
    table = plan.catalog.tables[query.table]
    keys = {str(key) for column in query.by for key in table.column(column).keys or ()}
    require("_total" not in keys, f"{name} has a key that is that of totals")


def _check_table(query: PlannedQuery, table: TotalTable) -> None:
    inside = [column for column in query.by if column in table.by]
    require(
        list(table.by) == inside and len(inside) < len(query.by), f"{query.name} has totals by columns that it has not"
    )
    require(
        set(table.inputs) == (set(query.measures) if table.part is not None else set()),
        f"{query.name} has totals that are fed as others are",
    )


def _check_draws(
    query: PlannedQuery, inputs: Mapping[str, tuple[Feed, ...]], by: tuple[str, ...], steps: Mapping[str, Measured]
) -> None:
    """Each is a plain draw of the quantity that feeds the cells, of the same rows, in the cells of the table."""
    cells = query.grouping.model_copy(update={"by": by})
    for label, feeds in inputs.items():
        name, own = f"{query.name}.{label}", query.inputs[label]
        require(len(feeds) == len(own), f"{name} has a total of other quantities")
        for feed, first in zip(feeds, own, strict=True):
            require(feed.step in steps and first.step in steps, f"{name} needs a step that is not there")
            step, base = steps[feed.step], steps[first.step]
            if not isinstance(step, Step) or not isinstance(base, Step):
                require(False, f"{name} has totals of exact numbers")
                return
            plain = not step.joined and (step.residual, step.factor, step.choosing, step.selecting) == (None,) * 4
            require(plain and not step.tables and step.mechanism in _NOISE, f"{name} has a total of no plain draw")
            require(step.mechanism == base.mechanism, f"{name} has totals of another noise than its cells")
            require(step.aggregate.grouping == cells, f"{name} has a total of other rows")
            require((feed.part, first.part) == (0, 0), f"{name} needs a part that its step does not have")
            quantity = step.aggregate.quantity
            require(quantity == base.aggregate.quantity, f"{name} has a total of another quantity")
            adds = quantity.kind in _ADDED_UP and quantity.per == "row"
            require(adds, f"{name} has a total that is no sum of its cells")
