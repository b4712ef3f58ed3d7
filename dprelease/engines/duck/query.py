"""From bounded rows to integer totals per cell; on tables with units by way of one contribution per unit and cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import Node
from dprelease.catalog.table import Table
from dprelease.engines.drivers import ibis
from dprelease.engines.duck.cells import CELL
from dprelease.engines.duck.columns.computed_columns import evaluated
from dprelease.engines.duck.columns.grid_steps import MOST, clip, squared, steps, weight_steps
from dprelease.engines.duck.units import our_name

__all__ = [
    "PartTotals",
    "cell_totals",
    "dense",
    "different_values",
    "grid_counts",
    "in_62_bits",
    "paired",
    "summed",
]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PartTotals:
    """What some of the rows come to, in a form that can be added up: the totals of all rows are those of any parts.

    Attributes:
        rows: One row per group.
        within: The columns that make a group.
        names: The columns that are added up, as whole numbers that do not overflow: none of them is clamped yet.
    """

    rows: Any
    within: Sequence[str]
    names: Sequence[str] = ()


def cell_totals(rows: Any, table: Table, quantities: Mapping[str, Quantity], within: Sequence[str]) -> PartTotals:
    """One row per group with the exact total of every quantity, where every row is a unit of its own; in 128 bits.

    Args:
        rows: Bounded rows, with the columns of ``within``.
        table: The declaration.
        quantities: Name to what is totalled; neither quantiles nor numbers of different values.
        within: The columns that make a group; none: one group of all rows.
    """
    known: dict[Node, Any] = {}
    totals = {name: _total(rows, table, item, False, known) for name, item in quantities.items()}
    return PartTotals(_grouped(rows, within).aggregate(**totals), within, list(totals))


def paired(rows: Any, table: Table, quantities: Mapping[str, Quantity], within: Sequence[str]) -> Any:
    """One row per unit and cell: the number of its rows as ``held``, and what it contributes to every quantity."""
    known: dict[Node, Any] = {}
    contributions = {name: _total(rows, table, item, True, known) for name, item in quantities.items()}
    return rows.group_by(list(within)).aggregate(held=rows.count(), **contributions)


def summed(parts: Any, names: Sequence[str], within: Sequence[str] = (CELL,)) -> PartTotals:
    """The contributions of :func:`paired`, or the totals of finer groups, summed per group."""
    return PartTotals(_grouped(parts, within).aggregate(**{name: parts[name].sum() for name in names}), within, names)


def _grouped(rows: Any, within: Sequence[str]) -> Any:
    return rows.group_by(list(within)) if within else rows


def grid_counts(rows: Any, table: Table, quantity: Quantity) -> PartTotals:
    """How many rows of a cell have a clipped grid value: columns ``cell``, ``value`` and ``count``."""
    value = rows[our_name(table, str(quantity.column))]
    picked = rows.filter(_present(value, rows, table, quantity))
    picked = picked.mutate(value=steps(picked, table, quantity).cast("int64"))
    within = [CELL, "value"]
    return PartTotals(picked.group_by(within).aggregate(count=picked.count()), within, ["count"])


def different_values(rows: Any, table: Table, quantity: Quantity) -> PartTotals:
    """The values that rows of a cell have, each once: columns ``cell`` and ``value``."""
    value = rows[our_name(table, str(quantity.column))]
    picked = rows.filter(_present(value, rows, table, quantity)).select(CELL, value=value)
    return PartTotals(picked.distinct(), [CELL, "value"])


def _present(value: Any, rows: Any, table: Table, quantity: Quantity) -> Any:
    return value.notnull() if quantity.where is None else value.notnull() & _holds(rows, table, quantity)


def dense(answer: Any, name: str, at: Integers, cells: int) -> Integers:
    """One column of an Arrow answer as an array of shape ``(cells,)``; a cell that is not in it is 0."""
    values = np.zeros(cells, dtype=np.int64)
    values[at] = answer.column(name).fill_null(0).cast(pa.int64()).to_numpy()
    return values


def _holds(rows: Any, table: Table, quantity: Quantity, known: dict[Node, Any] | None = None) -> Any:
    """Whether a row counts for a quantity; None where every row does. Whoever asks takes a null for no."""
    return None if quantity.where is None else evaluated(quantity.where, rows, table, known)


def _number(holds: Any) -> Any:
    """How many rows a condition is true of: a sum, which the engine does in a third of the time of a filtered count."""
    return ibis.coalesce(holds.sum(), 0)


def in_62_bits(total: Any) -> Any:
    """A total in 62 bits; that of no rows is 0."""
    # No row is a total of 0: left null, it would take the limit (LEAST passes over nulls).
    return clip(ibis.coalesce(total, 0), -MOST, MOST).cast("int64")


def _total(rows: Any, table: Table, quantity: Quantity, units: bool, known: dict[Node, Any]) -> Any:
    """One quantity over a group, in 128 bits where it is a sum; ``known`` are the comparisons of those before it."""
    if quantity.weight is not None:
        return _weighted(rows, table, quantity, weight_steps(rows, table, quantity.weight), known)
    once = units and (quantity.per == "unit_cell" or quantity.kind == "units")
    if quantity.kind == "balance" and not once and quantity.where is not None:
        # One sum, not twice the rows that count less all: of a thousand of them most of the time is making statements.
        counts = _holds(rows, table, quantity, known)
        if quantity.column is not None:
            counts = rows[our_name(table, quantity.column)].notnull() & counts
        return ibis.ifelse(counts, *_signs()).sum()
    if quantity.kind == "balance":
        counting = quantity.model_copy(update={"kind": "rows" if quantity.column is None else "nonnull"})
        return 2 * _total(rows, table, counting, units, known) - _times(rows.count(), once)
    holds = _holds(rows, table, quantity, known)
    if quantity.kind == "rest":
        whole, part = _whole_and_part(quantity)
        return _total(rows, table, whole, units, known) - _total(rows, table, part, units, known)
    if quantity.column is None:
        return _times(rows.count() if holds is None else _number(holds), once)
    value = rows[our_name(table, quantity.column)]
    present = value.count() if holds is None else _number(value.notnull() & holds)
    if quantity.kind == "nonnull":
        return _times(present, once)
    taken = value.notnull() if holds is None else value.notnull() & holds
    if once:
        return _clipped_once(rows, table, quantity, taken, present)
    each = steps(rows, table, quantity)
    return ibis.coalesce(_contribution(each, quantity).sum(where=taken), 0)


@cache
def _signs() -> tuple[Any, Any]:
    """One for a row that counts and minus one for any other, made once for all statements."""
    return ibis.literal(1), ibis.literal(-1)


def _weighted(rows: Any, table: Table, quantity: Quantity, weight: Any, known: dict[Node, Any]) -> Any:
    """What every row contributes as often as it weighs; the engine is asked for no product beyond 62 bits."""
    if quantity.kind == "rest":
        whole, part = _whole_and_part(quantity)
        return _weighted(rows, table, whole, weight, known) - _weighted(rows, table, part, weight, known)
    holds = _holds(rows, table, quantity, known)
    if quantity.column is not None:
        present = rows[our_name(table, quantity.column)].notnull()
        holds = present if holds is None else present & holds
    if quantity.kind == "sum":
        weight = weight * _contribution(steps(rows, table, quantity), quantity).cast("int64")
    counted = ibis.coalesce(weight.sum(where=holds), 0)
    return counted if quantity.kind != "balance" else 2 * counted - ibis.coalesce(weight.sum(), 0)


def _whole_and_part(rest: Quantity) -> tuple[Quantity, Quantity]:
    """A rest is the one less the other: a row of which the condition is null is in the whole alone."""
    whole = rest.model_copy(update={"kind": "rows" if rest.column is None else "nonnull", "where": None})
    return whole, whole.model_copy(update={"where": rest.where})


def _times(count: Any, once: bool) -> Any:
    """How often a group counts: once for every row, or once if it has any."""
    return (count > 0).cast("int64") if once else count


def _contribution(each: Any, quantity: Quantity) -> Any:
    centred = each - quantity.centre
    return centred if quantity.kind == "sum" else squared(centred, quantity) - quantity.offset


def _clipped_once(rows: Any, table: Table, quantity: Quantity, taken: Any, present: Any) -> Any:
    """The sum of a unit's grid values in one cell, clipped once; a unit without a value contributes 0.

    Every value is first clamped to 62 bits; fewer than 2^63 of them stay below 2^126, so the sum never overflows.
    """
    free = quantity.model_copy(update={"low": -MOST, "high": MOST, "centre": 0})
    whole = steps(rows, table, free).sum(where=taken)
    each = clip(whole, quantity.low, quantity.high).cast("int64")
    return ibis.ifelse(present > 0, _contribution(each, quantity), 0)
