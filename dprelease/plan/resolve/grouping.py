"""From a query to the rows and cells that its steps share, its measures, its goals and its guesses of rows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.expressions.expression import both_hold, parse
from dprelease.catalog.table import Catalog, Table
from dprelease.measures import Measure, expand_measures
from dprelease.plan.document.goal import Goal
from dprelease.privacy.budget import Budget
from dprelease.spec.fields.document import QuerySpec

__all__ = [
    "both",
    "canonical_measures",
    "canonical_text",
    "exclusion_name",
    "expected_rows",
    "goal_of",
    "grouping_of",
    "planned_measures",
]


def exclusion_name(query: QuerySpec) -> str | None:
    """The name in ``Catalog.exclusions`` of the cells that a query leaves out; None where it leaves none out."""
    if query.except_ is None:
        return None
    return f"{query.table}.{query.except_.reference}({','.join(query.by)})"  # tables may have other keys of one name


def canonical_text(text: str | None, table: Table) -> str | None:
    """The canonical text of a filter over a table's columns; None stays None."""
    if text is None:
        return None
    return parse(text, table.types).text


def both(first: str | None, second: str | None, table: Table) -> str | None:
    """What both filters over a table's columns keep (``catalog.expressions.expression.both_hold``)."""
    return both_hold(first, second, table.types)


def grouping_of(query: QuerySpec, catalog: Catalog) -> Grouping:
    """Which rows of its table a query reads, and the cells that they fall into.

    Two queries that mean the same have the same grouping, and share one pass. The cells of a list of keys are the
    keys of its column.

    Args:
        query: The query of a spec that was loaded without a problem.
        catalog: The catalog of the same spec.
    """
    bounds = query.bounds
    return Grouping(
        table=query.table,
        by=query.cells_by,
        where=canonical_text(query.where, catalog.tables[query.table]),
        max_groups=bounds.max_groups if bounds is not None else None,
        max_rows_per_group=bounds.max_rows_per_group if bounds is not None else None,
        excluding=exclusion_name(query),
        private=query.keys == "private",
        min_units=query.min_units,
        complete=() if query.totals is None else query.by,
    )


def canonical_measures(query: QuerySpec, table: Table) -> dict[str, Measure]:
    """The measures as the author wrote them, each filter as its canonical text.

    Args:
        query: The query of a spec that was loaded without a problem.
        table: Its table.
    """
    return {
        label: measure.model_copy(update={"where": canonical_text(measure.where, table)})
        for label, measure in query.measures.items()
    }


def planned_measures(query: QuerySpec, table: Table) -> dict[str, Measure]:
    """One measure for every published number of a query, by its published name, in published order."""
    found = expand_measures(canonical_measures(query, table))
    return {label: each.settled(table) for label, each in found.items()}


def goal_of(query: QuerySpec, delta: Fraction) -> Goal:
    """What the author asked of a query, with relative targets made absolute by ``expect``."""
    targets = {}
    for label, target in query.target.items():
        margin = target.margin
        if margin is None:
            assert target.relative is not None  # noqa: S101 - the loader wants one of the two
            margin = target.relative * query.expect[label]
        targets[label] = margin
    pinned = query.budget
    budget = Budget(epsilon=pinned.epsilon, rho=pinned.rho, delta=delta) if pinned is not None else None
    return Goal(share=query.weight, budget=budget, targets=targets)


def expected_rows(expect: Mapping[str, int], measures: Mapping[str, Measure], label: str) -> int | None:
    """The author's guess of the rows behind a measure: of a count of the same column, else of any count."""
    target = measures[(label, *measures[label].others)[-1]].target
    own = [guess for name, guess in expect.items() if target and measures[name].target == target]
    return next(iter(own or expect.values()), None)
