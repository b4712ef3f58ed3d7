"""Sums over rows that are read here: of databases that are files, whose own hashes are not to be had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.base import RowSums
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.rows import in_period, typed
from dprelease.engines.files.source import stored_columns
from dprelease.engines.locked import locked_duckdb

__all__ = ["HashedHere", "sums_of"]


class HashedHere:
    """A part of a ``Snapshot``: its rows are read once for their sums."""

    def columns(self, table: Table) -> dict[str, str]:
        """See ``Snapshot.columns``."""
        raise NotImplementedError

    def blocks(self, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
        """See ``Snapshot.blocks``."""
        raise NotImplementedError

    def _hashed_types(self, table: Table) -> dict[str, str]:
        """The types that are part of what is hashed."""
        types = self.columns(table)
        return {column.name: types[column.name] for column in stored_columns(table)}

    def sums(self, table: Table) -> RowSums:
        """Sums over the rows, which are read once for it."""
        types, hasher = self._hashed_types(table), locked_duckdb()
        try:
            return sums_of(table, types, self.blocks(table, stored_columns(table)), hasher)
        finally:
            hasher.close()


def sums_of(table: Table, types: dict[str, str], blocks: Iterable[Sequence[Any]], hasher: Any) -> RowSums:
    """The sums over the rows of the period, as their values are read before any range or null value.

    Args:
        table: The declaration.
        types: The types that columns are stored with.
        blocks: Of each the ``stored_columns`` of the table.
        hasher: A locked DuckDB of its own, which hashes rows: every value at its place.
    """
    columns = [column.model_copy(update={"range": None}) for column in stored_columns(table)]
    rows, low, high = 0, 0, 0
    names = ", ".join(f"c{at}" for at in range(max(1, len(columns))))
    sums = f"count(*), sum(hash({names})::HUGEINT), sum(hash('2', {names})::HUGEINT)"
    asked = f"SELECT {sums} FROM block"  # noqa: S608 - positions alone
    for arrays in in_turn(lambda block: _typed(table, columns, block), blocks):
        hasher.register("block", pa.table(arrays, names=[f"c{at}" for at in range(len(arrays))]))
        count, lower, upper = hasher.execute(asked).fetchall()[0]
        rows, low, high = rows + count, low + int(lower or 0), high + int(upper or 0)
    return RowSums(rows, (low, high), f"duckdb {duckdb.__version__}", types)


def _typed(table: Table, columns: Sequence[Column], block: Sequence[Any]) -> list[Any]:
    if not columns:
        return [pa.nulls(len(block[0]), pa.bool_())]
    arrays = [typed(column, raw, unit=column.name == table.unit_id) for column, raw in zip(columns, block, strict=True)]
    if table.time is None:
        return arrays
    moments = next(each for column, each in zip(columns, arrays, strict=True) if column.name == table.time.column)
    inside = in_period(table.time, moments)
    return [array.filter(inside) for array in arrays]
