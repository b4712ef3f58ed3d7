"""From the declared invariants to what is measured exactly, and to the workloads that take it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity, cells_of
from dprelease.catalog.table import Catalog
from dprelease.errors import PlanError
from dprelease.estimate.workloads.design import Axes
from dprelease.plan.document.invariant import Invariant
from dprelease.plan.resolve.grouping import canonical_text, grouping_of
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.published_sets import all_key_columns, levels_of

__all__ = ["Known", "invariants_of", "known_to"]


class Known(NamedTuple):
    """A table of a workload that is an invariant: which, at which level, of which attributes."""

    step: str
    level: int
    axes: Axes


def invariants_of(spec: ReleaseSpec, catalog: Catalog) -> dict[str, Invariant]:
    """What is published exactly, by query, in the order of the spec.

    Where an invariant is a table of just one kind of rows that workloads count, it counts these rows: those with a key
    in every column of the workload, and with none of its impossible combinations. Else the two would not add up.

    Args:
        spec: That was loaded without a problem.
        catalog: The catalog of the same spec.

    Raises:
        PlanError: DPR-P107, where the keys of one are those of a table of a workload in another order.
    """
    found = {}
    for each in spec.invariants:
        grouping = grouping_of(spec.queries[each.query], catalog)
        rows = {
            (_complete(query, spec), name if name in catalog.zeros else None)
            for name, query in spec.queries.items()
            if _place(each.query, grouping, query, spec, catalog)
        }
        if len(rows) == 1:
            complete, zeros = rows.pop()
            grouping = grouping.model_copy(update={"complete": complete, "zeros": zeros})
        found[each.query] = Invariant(
            id=f"{each.query}.exact",
            query=each.query,
            measure=each.measure,
            aggregate=BoundedAggregate(**dict(grouping), quantity=Quantity(kind="rows")),
            cells=cells_of(grouping, catalog) or 1,
            why=each.why,
        )
    return found


def known_to(
    workload: str, query: QuerySpec, spec: ReleaseSpec, catalog: Catalog, invariants: Mapping[str, Invariant]
) -> tuple[Known, ...]:
    """The invariants that are tables of a workload, of the rows that it counts.

    Args:
        workload: The name of the query.
        query: With marginals.
        spec: Its spec.
        catalog: The catalog of the same spec.
        invariants: As :func:`invariants_of` gives them.
    """
    found, rows = [], (_complete(query, spec), workload if workload in catalog.zeros else None)
    for name, invariant in invariants.items():
        place = _place(name, invariant.aggregate.grouping, query, spec, catalog)
        if place is not None and (invariant.aggregate.complete, invariant.aggregate.zeros) == rows:
            found.append(Known(invariant.id, *place))
    return tuple(found)


def _complete(query: QuerySpec, spec: ReleaseSpec) -> tuple[str, ...]:
    """The columns that must have a key for a row to count in a workload, as ``Grouping.complete`` has them."""
    return tuple(sorted(all_key_columns(query, spec.hierarchies)))


def _place(
    name: str, grouping: Grouping, query: QuerySpec, spec: ReleaseSpec, catalog: Catalog
) -> tuple[int, Axes] | None:
    """The level and the attributes of the table of a workload that has the keys of the grouping; None: there is none.

    Raises:
        PlanError: DPR-P107, where it has them in another order.
    """
    if query.marginals is None or query.table != grouping.table:
        return None
    if canonical_text(query.where, catalog.tables[query.table]) != grouping.where:
        return None
    attributes, sets = query.marginals.attributes, query.marginals.tables
    for level, column in enumerate(levels_of(query, spec.hierarchies) or (None,)):
        if column is not None and column not in grouping.by:
            continue
        rest = tuple(each for each in grouping.by if each != column)
        if not any(set(rest) <= set(columns) for columns in sets):
            continue
        axes = tuple(sorted(attributes.index(each) for each in rest))
        columns = (*(() if column is None else (column,)), *(attributes[at] for at in axes))
        if columns != grouping.by:
            raise PlanError(
                f"the invariant {name} has the keys of a table of a workload in another order",
                hint=f"write `by: [{', '.join(columns)}]` in query {name}",
                code="DPR-P107",
            )
        return level, axes
    return None
