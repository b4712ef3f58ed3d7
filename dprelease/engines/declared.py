"""What a pass reads of a table, told by its public declarations alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.table import Column, ColumnType, Computed, Table

__all__ = ["id_column", "needed", "read_by", "types"]


def types(table: Table) -> Mapping[str, ColumnType]:
    """The declared type of every column of a table."""
    return {column.name: column.type for column in table.columns}


def read_by(table: Table, names: Iterable[str], conditions: Iterable[str | None]) -> frozenset[str]:
    """The named columns and those that conditions look at."""
    read = (parse(text, types(table)).columns for text in conditions if text is not None)
    return frozenset(names).union(*read)


def needed(table: Table, names: Iterable[str], conditions: Iterable[str | None]) -> frozenset[str]:
    """Every column that the named ones and the conditions are computed from, themselves included.

    A joined column needs the one that it is joined on.
    """
    wanted = set(read_by(table, names, conditions))
    for column in reversed(table.columns):  # a derived column comes after those that it is computed from
        if column.name in wanted and column.derivation is not None:
            wanted |= _sources(table, column)
    for join in reversed(table.joins):
        if wanted & set(join.add):
            wanted.add(join.on)
    return frozenset(wanted)


def _sources(table: Table, column: Column) -> frozenset[str]:
    if isinstance(column.derivation, Computed):
        return frozenset(parse(column.derivation.sql, types(table)).columns)
    return frozenset() if column.derivation is None else frozenset((column.derivation.of,))


def id_column(table: Table) -> Column | None:
    """The unit id as a column; text where it is not declared; None where every row is a unit."""
    if table.unit_id is None:
        return None
    declared = {column.name: column for column in table.columns}
    return declared.get(table.unit_id, Column(name=table.unit_id, type="text"))
