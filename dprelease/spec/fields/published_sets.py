"""The tables that a query with `marginals` or `totals` asks for, and their parts of its budget."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dprelease.spec.fields.queries import QuerySpec
from dprelease.spec.fields.workloads import (
    TOTAL,
    Hierarchies,
    PublishedSet,
    WorkloadShares,
    set_of,
)

__all__ = ["all_key_columns", "levels_of", "published_sets", "workload_shares"]


def levels_of(query: QuerySpec, hierarchies: Hierarchies) -> tuple[str, ...]:
    """The level columns of a query, top first; empty where it has none, or means a hierarchy that is not there."""
    return hierarchies.get(query.levels, ()) if query.levels is not None else ()


def all_key_columns(query: QuerySpec, hierarchies: Hierarchies) -> tuple[str, ...]:
    """Every column that is a key of some table of a query: levels first, then attributes; the `by` of another one."""
    if query.marginals is None:
        return query.cells_by
    return (*levels_of(query, hierarchies), *query.marginals.attributes)


def published_sets(name: str, query: QuerySpec, hierarchies: Hierarchies) -> tuple[PublishedSet, ...]:
    """Every published table of a workload: level by level from the top, within it as ``MarginalsSpec.tables``.

    A table is named by the query and its key columns; ``NAME__total`` has none.

    Args:
        name: The name of the query.
        query: With marginals.
        hierarchies: The hierarchies of the spec.

    Raises:
        ValueError: If the query has no marginals.
    """
    if query.marginals is None:
        raise ValueError("only a query with marginals has sets")
    return tuple(_published(name, levels_of(query, hierarchies) or (None,), query.marginals.tables))


def _published(name: str, levels: tuple[str | None, ...], sets: tuple[tuple[str, ...], ...]) -> Iterator[PublishedSet]:
    for level in levels:
        for columns in sets:
            found = PublishedSet(level, columns, "")
            yield found._replace(name="__".join((name, *(found.keys or (TOTAL,)))))


def workload_shares(query: QuerySpec, hierarchies: Hierarchies) -> WorkloadShares | None:
    """The shares of a workload, spelled out; None where the plan is to find them.

    Args:
        query: The query of a spec that was loaded without a problem.
        hierarchies: The hierarchies of the spec.
    """
    if query.shares is None or query.marginals is None:
        return None
    columns, sets = levels_of(query, hierarchies), query.marginals.tables
    depth, given = max(1, len(columns)), query.shares
    levels = tuple(given.levels[column] for column in columns) if given.levels else (Fraction(1, depth),) * depth
    if not given.tables:
        return WorkloadShares(levels, {each: (Fraction(1, len(sets)),) * depth for each in sets})
    attributes = query.marginals.attributes
    named = {_named(label, attributes): parts for label, parts in given.tables.items()}
    found = {each: _spelled(named.get(each, (None,)), depth) for each in sets}
    return WorkloadShares(levels, found)


def _named(label: str, attributes: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a table by its name under `shares`: `total`, or columns with `*` between them in any order."""
    return () if label == TOTAL else set_of(tuple(part.strip() for part in label.split("*")), attributes)


def _spelled(parts: tuple[Fraction | None, ...], depth: int) -> tuple[Fraction, ...]:
    each_level = parts if len(parts) == depth else parts * depth
    return tuple(part or Fraction(0) for part in each_level)
