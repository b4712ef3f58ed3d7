"""What a query leaves out or clips of the rows of a table, counted by the steps of a release before any bound acts.

Each bound of units is counted as if it were the only one: how many groups are beyond ``max_groups``, how many rows
beyond ``max_rows_per_group``. Which of them a release keeps is the business of its keyed sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ibis

from dprelease.catalog.aggregate import Grouping, Quantity, left_out_of
from dprelease.catalog.table import Catalog, Table
from dprelease.engines.duck.cells import cell_columns, celled, completed, without_zeros
from dprelease.engines.duck.columns.computed_columns import evaluated
from dprelease.engines.duck.columns.grid_steps import MOST, steps
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import our_name, unit_name

__all__ = ["Beyond", "QueryCounts", "UnitSums", "beyond_bound"]

_MANY = 8  # tables of sums that are kept before they are added up into one


@dataclass
class Beyond:
    """What lies beyond a bound. Confidential.

    Attributes:
        of: How many there are.
        beyond: How many of them are beyond.
    """

    of: int = 0
    beyond: int = 0


class UnitSums:
    """Sums per unit, or per unit and cell, added up over blocks; of a unit nothing else is kept.

    Args:
        stage: Keeps them until it ends.
        keys: The columns that they are sums per.
    """

    def __init__(self, stage: Stage, keys: Sequence[str]) -> None:
        self._stage = stage
        self._keys = list(keys)
        self._kept: list[Any] = []

    def add(self, rows: Any, **sums: Any) -> None:
        """Add the rows of a block; each sum is an Ibis aggregate of them."""
        self._keep(rows.group_by(self._keys).aggregate(**sums))
        if len(self._kept) >= _MANY:
            self.whole()

    def whole(self) -> Any:
        """All of them as one Ibis table; None where there was no block."""
        if len(self._kept) > 1:
            parts, self._kept = self._kept, []
            every = ibis.union(*(part.cast(_plain_types(part)) for part in parts), distinct=False)
            names = [name for name in every.columns if name not in self._keys]
            self._keep(every.group_by(self._keys).aggregate(**{name: every[name].sum() for name in names}))
            for part in parts:
                self._stage.forget(part)
        return self._kept[0].cast(_plain_types(self._kept[0])) if self._kept else None

    def _keep(self, rows: Any) -> None:
        self._kept.append(self._stage.keep(rows))


def _plain_types(rows: Any) -> dict[str, str]:
    """Sums that the engine has in 128 bits, and that fit in 64."""
    return {name: "int64" for name, kind in rows.schema().items() if kind.is_decimal()}


@dataclass
class QueryCounts:
    """One query, or what several have in common, over the rows of a table. Confidential.

    Attributes:
        grouping: Which rows are looked at, and in which cells.
        quantities: That are clipped; sums, squares and quantiles.
        rows: Rows that ``where`` keeps.
        no_cell: Those of them that are in no cell.
        clipped: By quantity the values (with ``per`` unit_cell the sums of a unit in a cell) that the clip moves.
        groups: By unit the groups beyond ``max_groups``.
        rows_in_groups: The rows beyond ``max_rows_per_group``.
    """

    grouping: Grouping
    quantities: tuple[Quantity, ...]
    rows: int = 0
    no_cell: int = 0
    clipped: list[Beyond] = field(default_factory=list)
    groups: Beyond | None = None
    rows_in_groups: Beyond | None = None
    _pairs: UnitSums | None = None

    def begin(self, table: Table, stage: Stage) -> None:
        """Before the first block; what is kept is kept by ``stage``."""
        self.clipped = [Beyond() for _ in self.quantities]
        once = any(each.per == "unit_cell" for each in self.quantities)
        if table.unit_id is not None and (self.grouping.max_groups or self.grouping.max_rows_per_group or once):
            self._pairs = UnitSums(stage, [unit_name(table), *cell_columns(self.grouping)])

    def kept(self, rows: Any, table: Table) -> Any:
        """How many rows of a block ``where`` keeps, as an Ibis aggregate."""
        where = self.grouping.where
        return rows.count() if where is None else _number(evaluated(where, rows, table))

    def add(self, stage: Stage, rows: Any, held: int, table: Table, catalog: Catalog) -> None:
        """Add a block of rows, with all columns that are looked at; ``held``: what :meth:`kept` gives."""
        if self.grouping.where is not None:
            rows = rows.filter(evaluated(self.grouping.where, rows, table))
        apart = [name for name in self.grouping.complete if name not in self.grouping.by]
        placed = completed(rows, table, apart, stage.lend)
        zeros = None if self.grouping.zeros is None else catalog.zeros[self.grouping.zeros]
        placed = without_zeros(placed, table, zeros, stage.lend)
        placed = celled(placed, table, self.grouping, left_out_of(self.grouping, catalog), stage.lend)
        placed = placed if self._pairs is None else stage.keep(placed)
        sums = {"inside": placed.count()}
        for at, quantity in self._each("row"):
            taken, value = _taken(placed, table, quantity)
            moved = (value < quantity.low) | (value > quantity.high)
            sums |= {f"of{at}": _number(taken), f"beyond{at}": _number(taken & moved)}
        found = stage.read(placed.aggregate(**sums)).to_pylist()[0]
        self.rows += held
        self.no_cell += held - int(found["inside"])
        for at, _ in self._each("row"):
            self.clipped[at].of += int(found[f"of{at}"])
            self.clipped[at].beyond += int(found[f"beyond{at}"])
        if self._pairs is not None:
            self._add_pairs(placed, table, self._pairs)
            stage.forget(placed)

    def _each(self, per: str) -> list[tuple[int, Quantity]]:
        return [(at, each) for at, each in enumerate(self.quantities) if each.per == per]

    def _add_pairs(self, placed: Any, table: Table, pairs: UnitSums) -> None:
        known = placed.filter(placed[unit_name(table)].notnull())
        sums = {"held": known.count()}
        for at, quantity in self._each("unit_cell"):
            taken, value = _taken(known, table, quantity)
            sums |= {f"of{at}": _number(taken), f"sum{at}": value.cast("float64").sum(where=taken)}
        pairs.add(known, **sums)

    def end(self, table: Table, stage: Stage) -> None:
        """After the last block: what is told per unit."""
        pairs = None if self._pairs is None else self._pairs.whole()
        most, each = self.grouping.max_groups, self.grouping.max_rows_per_group
        bounded = table.unit_id is not None
        self.groups = Beyond() if bounded and most is not None else None
        self.rows_in_groups = Beyond() if bounded and each is not None else None
        if pairs is None:
            return
        if self.groups is not None:
            met = pairs.group_by(unit_name(table)).aggregate(held=pairs.count())
            self.groups = beyond_bound(stage, met, most or 0)
        if self.rows_in_groups is not None:
            self.rows_in_groups = beyond_bound(stage, pairs, each or 0)
        for at, quantity in self._each("unit_cell"):
            known = pairs.filter(pairs[f"of{at}"] > 0)
            whole = known[f"sum{at}"]
            moved = _number((whole < quantity.low) | (whole > quantity.high))
            (found,) = stage.read(known.aggregate(of=known.count(), beyond=moved)).to_pylist()
            self.clipped[at] = Beyond(int(found["of"]), int(found["beyond"]))


def beyond_bound(stage: Stage, held: Any, most: int) -> Beyond:
    """The sum of a column ``held``, and how much of it is beyond ``most`` in each row."""
    over = ibis.greatest(held["held"] - most, 0)
    of, more = ibis.coalesce(held["held"].sum(), 0), ibis.coalesce(over.sum(), 0)
    (found,) = stage.read(held.aggregate(of=of, beyond=more)).to_pylist()
    return Beyond(int(found["of"]), int(found["beyond"]))


def _taken(rows: Any, table: Table, quantity: Quantity) -> tuple[Any, Any]:
    """Which rows have a value that counts, and the value in grid steps, not clipped."""
    taken = rows[our_name(table, str(quantity.column))].notnull()
    if quantity.where is not None:
        taken = taken & ibis.coalesce(evaluated(quantity.where, rows, table), False)
    free = quantity.model_copy(update={"low": -MOST, "high": MOST, "centre": 0})
    return taken, steps(rows, table, free)


def _number(holds: Any) -> Any:
    return ibis.coalesce(holds.sum(), 0)
