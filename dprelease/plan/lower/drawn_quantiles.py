"""Which quantiles of a spec are drawn as counts, where the author does not say (docs/decisions/0113)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dprelease.catalog.aggregate import cells_of
from dprelease.catalog.sensitivity import limits_of
from dprelease.catalog.table import Catalog, Table
from dprelease.measures import Measure, expand_measures
from dprelease.plan.document import Account
from dprelease.plan.resolve.grouping import canonical_measures, grouping_of
from dprelease.spec.checks.keys import MOST_CELLS
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec

__all__ = ["with_quantiles_drawn"]

_TAKE_GAUSSIAN = ("zcdp", "rdp", "pld")


def with_quantiles_drawn(spec: ReleaseSpec, catalog: Catalog, accounts: Sequence[Account]) -> ReleaseSpec:
    """The spec with ``from: counts`` where quantiles say nothing, and counts can be drawn and are the better choice.

    They can be where Gaussian noise can: there is a delta, the spec does not ask for other noise, and the accounts take
    it. They are better from three ranks on, or where every row is a unit and an interval is wanted: where the number of
    values is asked for beside them, from which one follows. Nothing of it looks at data.
    """
    gaussian = spec.privacy.budget.delta > 0 and spec.privacy.noise in ("auto", "gaussian")
    if not gaussian or not all(account.composition in _TAKE_GAUSSIAN for account in accounts):
        return spec
    drawn = {
        name: query.model_copy(update={"measures": found})
        for name, query in spec.queries.items()
        if (found := _drawn(query, catalog)) is not None
    }
    return spec.model_copy(update={"queries": {**spec.queries, **drawn}}) if drawn else spec


def _drawn(query: QuerySpec, catalog: Catalog) -> dict[str, Measure] | None:
    """The measures of a query, some of them drawn as counts; None where none is."""
    if query.keys == "private" or query.marginals is not None or query.ranges is not None or query.top_k is not None:
        return None
    table, found = catalog.tables[query.table], dict(query.measures)
    for label, measure in query.measures.items():
        counted = measure.drawn_as_counts(_counts_beside(query, label, table))
        if counted is not measure and _fits({label: counted}, query, catalog):
            found[label] = counted
    return found if found != query.measures else None


def _counts_beside(query: QuerySpec, label: str, table: Table) -> bool:
    """Whether the number of values of the same column and rows is asked for in the query, by whatever measure.

    Not where a unit has several rows: the noise of counts grows faster with these than the score of a choice.
    """
    if table.unit_id is not None:
        return False
    written = canonical_measures(query, table)
    column, where = written[label].column, written.pop(label).where
    others = (
        each for each in expand_measures({name: each for name, each in written.items() if not each.others}).values()
    )
    needed = (quantity for each in others for quantity in each.quantities(table))
    return any(each.kind == "nonnull" and (each.column, each.where) == (column, where) for each in needed)


def _fits(measures: Mapping[str, Measure], query: QuerySpec, catalog: Catalog) -> bool:
    """Whether the counts of all classes are few enough, and something bounds the rows of a unit."""
    table, grouping = catalog.tables[query.table], grouping_of(query, catalog)
    (first, *_) = expand_measures(measures).values()
    (quantity,) = first.quantities(table)
    cells = cells_of(grouping, catalog) or 1
    return limits_of(grouping, catalog).rows is not None and cells * len(quantity.classes) <= MOST_CELLS
