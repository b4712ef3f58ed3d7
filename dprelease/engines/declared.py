"""What a pass reads of a table, told by its public declarations alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.table import Catalog, Column, ColumnType, Computed, Table

__all__ = ["Loading", "counts_alone", "id_column", "loading", "needed", "own_columns", "read_by", "types", "unjoined"]


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


def own_columns(table: Table) -> tuple[Column, ...]:
    """What is read from the source: its declared columns, then the unit id where that is not one of them."""
    unit, own = id_column(table), tuple(column for column in table.columns if column.in_source)
    return own if unit is None or unit in table.columns else (*own, unit)


def counts_alone(quantities: Iterable[Quantity]) -> bool:
    """Whether all that is asked are numbers of rows or of units: which rows of a unit are kept then does not matter."""
    return all(item.kind in ("rows", "units") and not (item.where or item.weight) for item in quantities)


@dataclass(frozen=True)
class Loading:
    """What of a table's own columns an engine keeps in memory.

    Attributes:
        values: Columns with their values.
        places: Columns of which only the position among their public keys is looked at.
    """

    values: frozenset[str]
    places: frozenset[str] = frozenset()

    @classmethod
    def everything(cls, table: Table) -> Self:
        """All columns, as they are."""
        return cls(frozenset(column.name for column in own_columns(table)))

    def __or__(self, other: Loading) -> Loading:
        values = self.values | other.values
        return Loading(values, (self.places | other.places) - values)

    def covers(self, other: Loading) -> bool:
        """Whether what the other one says can be answered from this."""
        return other.values <= self.values and other.places <= self.values | self.places


def loading(catalog: Catalog, grouping: Grouping, quantities: Sequence[Quantity]) -> dict[str, Loading]:
    """By table, what a pass over the rows of ``grouping`` looks at, told by public declarations alone.

    Where rows of a unit are chosen, which ones depends on all that is known of a row: every column is looked at. A key
    column is looked at by its place alone where it is of the source and stands in ``by`` or ``complete`` only: in no
    condition, derivation, join, quantity or list of impossible combinations, and not with private keys.
    """
    table = catalog.tables[grouping.table]
    lending = {join.table: Loading.everything(catalog.tables[join.table]) for join in table.private_joins}
    chosen = grouping.max_rows_per_group is not None and not counts_alone(quantities)
    if table.bounds is not None or chosen or table.name in lending:
        return {**lending, table.name: Loading.everything(table)}
    own = frozenset(column.name for column in own_columns(table))
    zeros = () if grouping.zeros is None else catalog.zeros[grouping.zeros].columns
    keys = {*grouping.by, *grouping.complete}
    places = frozenset() if grouping.private else (own & keys).difference(zeros)
    names = {*(keys - places), *zeros, *(name for item in quantities for name in item.columns)}
    wanted = needed(table, names, [grouping.where, *(item.where for item in quantities)])
    values = own & (wanted if table.unit_id is None else wanted | {table.unit_id})
    return {**lending, table.name: Loading(values, places - values)}


def unjoined(catalog: Catalog, grouping: Grouping, quantities: Sequence[Quantity]) -> bool:
    """Whether a pass meets no other table, public ones included: its keys are places, and all else is of the source."""
    table = catalog.tables[grouping.table]
    if table.private_joins or grouping.zeros is not None or grouping.excluding is not None:
        return False
    named = {name for item in quantities for name in item.columns}
    read = read_by(table, named, [grouping.where, *(item.where for item in quantities)])
    keys = {*grouping.by, *grouping.complete}
    own = {column.name for column in own_columns(table)}
    return keys <= loading(catalog, grouping, quantities)[table.name].places and read <= own
