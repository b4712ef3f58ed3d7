"""How accurate the cells and the totals of a query will be, and how accurate they would be by adding up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Catalog
from dprelease.estimate.totals import laws_of_tables
from dprelease.measures import Expected
from dprelease.noise import Law
from dprelease.plan.document import Feed, Measured, PlannedQuery, ReleasePlan, Step
from dprelease.plan.resolve.grouping import expected_rows

__all__ = ["TableAccuracy", "accuracy_of_tables", "drawn_laws", "laws_of_measure", "sizes_of"]

Axes = tuple[int, ...]


@dataclass(frozen=True)
class TableAccuracy:
    """One measure in the cells of a query, or in one of its tables of totals.

    Attributes:
        by: The key columns of the table.
        cells: How many numbers it has.
        measure: The name of the measure.
        part: Its part of the query's budget; None: it is added up.
        expected: How accurate it will be.
        added_up: How accurate it would be if the query had drawn its cells alone, with all of its budget.
    """

    by: tuple[str, ...]
    cells: int
    measure: str
    part: Fraction | None
    expected: Expected
    added_up: Expected


def laws_of_measure(
    query: PlannedQuery, label: str, catalog: Catalog, steps: Mapping[str, Measured]
) -> dict[Axes, list[Law]]:
    """For the cells of a query and each table of totals the laws of what a measure is made of.

    Args:
        query: With totals.
        label: The name of the measure.
        catalog: The catalog of the plan.
        steps: By id.
    """
    if query.totals is None:
        raise ValueError("only a query with totals has tables of them")
    sets, sizes = query.totals.sets, sizes_of(query, catalog)
    found: dict[Axes, list[Law]] = {axes: [] for axes in sets}
    for drawn in drawn_laws(query, label, lambda step: _law(steps[step])):
        for axes, law in laws_of_tables(sizes, sets, drawn).items():
            found[axes].append(law)
    return found


def drawn_laws(query: PlannedQuery, label: str, law_of: Callable[[str], Law]) -> list[dict[Axes, Law]]:
    """For each quantity of a measure the law of a number of each table that is drawn: of the cells, and of totals.

    Args:
        query: The query.
        label: The name of the measure.
        law_of: The law of a step, by its id.
    """
    fed: dict[Axes, tuple[Feed, ...]] = {tuple(range(len(query.by))): query.inputs[label]}
    if query.totals is not None:
        for axes, table in zip(query.totals.sets[1:], query.totals.tables, strict=True):
            if table.part is not None:
                fed[axes] = table.inputs[label]
    several = range(len(query.inputs[label]))
    return [{axes: law_of(feeds[at].step) for axes, feeds in fed.items()} for at in several]


def accuracy_of_tables(plan: ReleasePlan, query: PlannedQuery) -> tuple[TableAccuracy, ...]:
    """Every measure of a query with totals, table by table, the cells first."""
    if query.totals is None:
        return ()
    steps = {each.id: each for each in plan.measured}
    parts = (query.totals.part, *(table.part for table in query.totals.tables))
    sizes, sets, found = sizes_of(query, plan.catalog), query.totals.sets, list[TableAccuracy]()
    for label in query.measures:
        laws = laws_of_measure(query, label, plan.catalog, steps)
        alone = [_alone(steps[feed.step], query.totals.part) for feed in query.inputs[label]]
        summed = [laws_of_tables(sizes, sets, {sets[0]: law}) for law in alone]
        for axes, part in zip(sets, parts, strict=True):
            found.append(
                TableAccuracy(
                    by=tuple(query.by[at] for at in axes),
                    cells=prod(sizes[at] for at in axes),
                    measure=label,
                    part=part,
                    expected=_expected(plan, query, label, steps, laws[axes], axes),
                    added_up=_expected(plan, query, label, steps, [each[axes] for each in summed], axes),
                )
            )
    order = {axes: at for at, axes in enumerate(sets)}
    return tuple(sorted(found, key=lambda each: order[tuple(query.by.index(name) for name in each.by)]))


def sizes_of(query: PlannedQuery, catalog: Catalog) -> tuple[int, ...]:
    """The number of keys of each column of a query."""
    return tuple(catalog.tables[query.table].column(name).cells for name in query.by)


def _law(step: Measured) -> Law:
    if not isinstance(step, Step):
        raise ValueError("an invariant has no totals")
    return step.law


def _alone(step: Measured, part: Fraction) -> Law:
    """The law of the same draw with all of the query's budget: Gaussian noise goes with its root, Laplace with it."""
    if not isinstance(step, Step):
        raise ValueError("an invariant has no totals")
    scale = step.scale * (part if step.mechanism == "discrete_laplace" else Fraction(float(part) ** 0.5))
    return step.model_copy(update={"scale": scale}).law


def _expected(
    plan: ReleasePlan,
    query: PlannedQuery,
    label: str,
    steps: Mapping[str, Measured],
    laws: Sequence[Law],
    axes: Axes,
) -> Expected:
    """The accuracy of a measure, given laws of what it is made of; a guess of rows per cell is one of all its cells."""
    quantities: list[Quantity] = [steps[feed.step].parts[feed.part] for feed in query.inputs[label]]
    count = expected_rows(query.expect, query.measures, label)
    below = prod(size for at, size in enumerate(sizes_of(query, plan.catalog)) if at not in axes)
    rows = None if count is None else count * below
    return query.measures[label].expected_tested(quantities, list(laws), plan.publish.confidence, rows)
