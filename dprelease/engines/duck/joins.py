"""Columns from other tables: public references with one row per key, and confidential tables of the same units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Join, PrivateJoin, Table
from dprelease.engines.duck.computed_columns import Lend
from dprelease.engines.duck.units import named, unit_name, unit_text
from dprelease.engines.files.decimals import grid_name
from dprelease.engines.files.rows import _as_texts, join_keys, typed_with_steps

__all__ = ["privately_joined", "publicly_joined"]


def publicly_joined(
    rows: Any, table: Table, wanted: frozenset[str], references: Mapping[str, ReferenceTable], lend: Lend
) -> Any:
    """Left joins with the references that add something wanted; their keys are unique, so no row is doubled."""
    for at, join in enumerate(table.joins):
        if wanted & set(join.add):
            public = lend(_reference_table(table, join, references[join.reference], at))
            matching = rows[named(table, join.on)] == public[f"r{at}"]
            rows = rows.left_join(public, matching).drop(f"r{at}")
    return rows


def _reference_table(table: Table, join: Join, public: ReferenceTable, at: int) -> Any:
    """The key and the added columns of a reference, read as the table declares them."""
    columns = {f"r{at}": join_keys(table, join, public)}
    for name in join.add:
        column = table.column(name)
        found = typed_with_steps(column, _as_texts(public.columns[name]), (), column.grids)
        ours = named(table, name)
        columns |= dict(zip([ours, *(grid_name(ours, step) for step in column.grids)], found, strict=True))
    return pa.table(columns)


def privately_joined(rows: Any, table: Table, join: PrivateJoin, other: Table, matches: Any) -> Any:
    """A left join on the unit id with the rows of another confidential table, at most ``max_matches`` of each unit.

    A row meets only rows of its own unit, so a change of one unit changes joined rows of that unit alone; each of
    its rows becomes at most ``max_matches`` rows. A row without a match, or without an id, stays, with nulls.

    Args:
        rows: Of ``table``.
        table: The declaration.
        join: One of its private joins.
        other: The table that it names.
        matches: Bounded rows of ``other``, with the columns that the join adds.
    """
    place = f"m{table.private_joins.index(join)}"
    left, right = rows[unit_name(table)], matches[unit_name(other)]
    if left.type() != right.type():
        left, right = unit_text(rows, table), unit_text(matches, other)
    added = {named(table, name): matches[named(other, name)] for name in join.add}
    for name in join.add:
        for step in table.column(name).grids:
            if (theirs := grid_name(named(other, name), step)) in matches.columns:
                added[grid_name(named(table, name), step)] = matches[theirs]
    lent = matches.select(**{place: right}, **added)
    return rows.left_join(lent, left == lent[place]).drop(place)
