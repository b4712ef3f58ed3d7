"""A table that does not fit in memory is looked at in parts, which nothing is written to disk for.

Rows of a table with units are parted by a hash of the unit, so that every row of a unit is in one part, with all that
private joins lend it. Bounds act within a unit and read no row of another (``bounding``), so the bounded rows of all
parts together are the bounded rows of the table. Rows of a table without units stand alone, and any parts will do.

What is asked is a function of totals that are sums over bounded rows, of the values that they have, or of how many have
each of them (:class:`~dprelease.engines.duck.query.PartTotals`). So the totals of the parts, added up in 128 bits, are
those of the table, and every answer is the same however many parts there were. The source is read once for each part:
its fingerprint, taken before the first reading and after the last one, is that of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeVar

from dprelease.catalog.table import Key, Table
from dprelease.engines.base import MEMORY
from dprelease.engines.duck.combinations import combined
from dprelease.engines.duck.cubes import cube_of
from dprelease.engines.duck.loading import Layout
from dprelease.engines.duck.pipeline import PassQuery, part_keys, part_totals
from dprelease.engines.duck.query import PartTotals
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import ALONE, our_name, unit_name
from dprelease.engines.row_digests import STRETCH, SUMS, digest_query
from dprelease.errors import BrokenPromiseError, EngineError, NotEnoughMemory

__all__ = [
    "ALL",
    "AddedUp",
    "ComeTo",
    "UnitPart",
    "check_parts",
    "combinations_of",
    "cube_cells_of",
    "dense_totals",
    "hashes_of_rows",
    "last_step",
    "more_parts",
    "occurring_keys",
]

Result = TypeVar("Result")
ComeTo = Callable[[Stage, Sequence[Any], bool], Mapping[str, PartTotals]]
"""Of a stage, the loaded tables, and whether these are all rows: what they come to, by name. One with its first
arguments given (``functools.partial``) pickles by name, and can be sent to another process."""
_MOST = 256  # parts: each of them is one more reading of the source


@dataclass(frozen=True)
class UnitPart:
    """One of 2, 4, 8, ... parts of the units, by the first bits of a hash; or all of them."""

    number: int = 0
    parts: int = 1

    def condition(self, layout: Layout, *, by_text: bool) -> str | None:
        """Which rows are in it, as SQL; None: all.

        The hash is taken twice, so that it shares no bits with those by which DuckDB groups and joins. A row without an
        id is a unit of its own, which meets no other row: its part is that of all that is known of it, and not of its
        number, which another reading may give to another row.

        Args:
            layout: The columns of the rows, of a table with units.
            by_text: Whether an id is told by its text, for it meets ids of another type.
        """
        if self.parts == 1:
            return None
        return f"{self.number_of_row(layout, by_text=by_text)} = {self.number}"

    def number_of_row(self, layout: Layout, *, by_text: bool) -> str:
        """The number of the part that a row is in, as SQL; arguments as above. There are two parts or more."""
        unit = f'"{unit_name(layout.table)}"'
        whole = ", ".join(f'"{name}"' for name in layout.schema.names if name != ALONE)
        own = f"CAST({unit} AS VARCHAR)" if by_text else unit
        bits = 64 - (self.parts - 1).bit_length()
        return f"hash(CASE WHEN {unit} IS NULL THEN hash({whole}) ELSE hash({own}) END) >> {bits}"


ALL = UnitPart()


def more_parts(parts: int, table: Table) -> int:
    """So many parts where this number of them took too much memory.

    Raises:
        EngineError: If that is more than is reasonable.
    """
    if parts >= _MOST:
        raise _too_much(table)
    return 2 * parts


def last_step(table: Table, action: Callable[[], Result]) -> Result:
    """Do what is left when all parts are added up, for which no number of parts makes room.

    Raises:
        EngineError: If there is not enough memory for it.
    """
    try:
        return action()
    except NotEnoughMemory:
        pass
    raise _too_much(table)


def _too_much(table: Table) -> EngineError:
    return EngineError(
        f"table {table.name!r}: there is not enough memory, even with the table read in parts",
        detail="what is asked has very many cells or different values, or some unit has very many rows",
        hint=f"allow more memory (`export {MEMORY}=8GB`, the container's limit), then run the same command again: it "
        "goes on where it stopped",
        code="DPR-E006",
    )


def dense_totals(
    asked: PassQuery, keys: Sequence[tuple[Key, ...]] | None, stage: Stage, tables: Sequence[Any], whole: bool
) -> Mapping[str, PartTotals]:
    """The totals of a pass (``pipeline.part_totals``)."""
    return part_totals(stage, asked, tables, keys)


def occurring_keys(asked: PassQuery, stage: Stage, tables: Sequence[Any], whole: bool) -> Mapping[str, PartTotals]:
    """The private keys that occur (``pipeline.part_keys``)."""
    return {"keys": part_keys(stage, asked, tables)}


def combinations_of(asked: PassQuery, stage: Stage, tables: Sequence[Any], whole: bool) -> Mapping[str, PartTotals]:
    """The combinations of keys that rows have (``combinations.combined``)."""
    return {"kept": combined(stage, asked, tables, whole)}


def cube_cells_of(asked: PassQuery, stage: Stage, tables: Sequence[Any], whole: bool) -> Mapping[str, PartTotals]:
    """The cells of a cube (``cubes.cube_of``)."""
    return {"kept": cube_of(stage, asked, tables)}


def hashes_of_rows(
    asked: PassQuery, days: Sequence[tuple[date, date]], stage: Stage, tables: Sequence[Any], whole: bool
) -> Mapping[str, PartTotals]:
    """The sums of keyed hashes of the rows of some stretches of time (``row_digests``); the secret is their key."""
    table = asked.table
    time = our_name(table, str(table.time and table.time.column))
    query = digest_query(tables[0].get_name(), [our_name(table, each.name) for each in table.columns], time, days)
    return {"hashes": PartTotals(stage.keep_query(query, [asked.secret.hex()]), [STRETCH], SUMS)}


class AddedUp:
    """What parts come to, added up one after the other.

    Args:
        stage: Keeps it.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.totals: dict[str, Any] = {}

    def take(self, totals: Mapping[str, PartTotals]) -> None:
        """Add what one more part comes to."""
        for name, each in totals.items():
            kept = self._stage.keep(each.rows)
            if name in self.totals:
                both = [self.totals[name], kept]
                kept = self._stage.add_up(both, each.within, each.names)
                for table in both:
                    self._stage.forget(table)
            self.totals[name] = kept


def check_parts(found: Sequence[Mapping[str, tuple[int, int]]]) -> None:
    """Hold the rows of all parts against those of the source: none may be in two of them, or in none.

    Where two readings did not have the same number of rows the source was written to meanwhile; that is told by its
    fingerprint, which is taken again before anything of it is handed on.

    Raises:
        BrokenPromiseError: If it is not so; says how many of nothing.
    """
    for name in {name for each in found for name in each}:
        pairs = [each[name] for each in found]
        there = {rows for rows, _ in pairs}
        if len(there) == 1 and sum(kept for _, kept in pairs) != there.pop():
            raise BrokenPromiseError(
                f"table {name!r}: its parts are not all of its rows; nothing was drawn",
                hint="report this as a bug of dprelease; the budget of this step stays reserved",
                code="DPR-B201",
            )
