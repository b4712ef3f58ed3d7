"""Columns computed from others of the same row: bins, maps and expressions. Total: no value makes any of them fail."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, inf, nextafter
from typing import Any

import pyarrow as pa

from dprelease.catalog.expressions.expression import Node, parse
from dprelease.catalog.table import Binned, Column, Key, Mapped, Range, Table
from dprelease.engines.declared import types
from dprelease.engines.drivers import ibis
from dprelease.engines.duck.columns.expressions import double, to_ibis
from dprelease.engines.duck.units import our_name
from dprelease.engines.files.rows import ARROW

__all__ = ["INT64", "evaluated", "fits", "with_derived"]

INT64 = 2**63 - 1
Lend = Callable[[Any], Any]  # an Arrow table to an Ibis table


def evaluated(text: str, rows: Any, table: Table, known: dict[Node, Any] | None = None) -> Any:
    """An expression over the columns of a table, in the row's own terms; null where it has no value.

    Args:
        text: The expression.
        rows: Has the columns.
        table: The declaration.
        known: As of :func:`to_ibis`, where several expressions are asked of the same rows.
    """
    return to_ibis(parse(text, types(table)), lambda name: rows[our_name(table, name)], known)


def with_derived(rows: Any, table: Table, wanted: frozenset[str], lend: Lend) -> Any:
    """Add the wanted derived columns, in the order of their declaration, so that they may feed each other.

    Args:
        rows: Ibis table with every column that is not derived and is needed, under its name of ours.
        table: The declaration.
        wanted: As :func:`needed` says.
        lend: Shows a small Arrow table to the engine.
    """
    for column in table.columns:
        if column.name not in wanted or column.derivation is None:
            continue
        name, how = our_name(table, column.name), column.derivation
        if isinstance(how, Binned):
            rows = rows.mutate(**{name: _binned(rows[our_name(table, how.of)], table.column(how.of), how)})
        elif isinstance(how, Mapped):
            rows = _mapped(rows, table, column, how, lend)
        else:
            rows = rows.mutate(**{name: _within(column, evaluated(how.sql, rows, table))})
    return rows


def _binned(value: Any, column: Column, how: Binned) -> Any:
    """The label of the interval that holds a number: the first edge above it ends that interval."""
    labels: tuple[str | None, ...] = (None, *how.labels)
    pairs = list(zip((_below(value, column, edge) for edge in how.edges), labels, strict=True))
    cases = [(below, ibis.literal(label, type="string")) for below, label in pairs]
    return ibis.cases(*cases, else_=ibis.null("string"))


def _below(value: Any, column: Column, edge: Fraction) -> Any:
    """Whether a number is below an edge, exactly; null is below none.

    An integer is below an edge where it is below the next whole number from the edge upward, and a double where it
    is below the next double from there: no number of that type lies between the two.
    """
    if column.type == "integer":
        whole = ceil(edge)
        if not -INT64 <= whole <= INT64:
            return value.notnull() & ibis.literal(whole > 0)
        return value < ibis.literal(whole, type="int64")
    return value < ibis.literal(repr(_double_from(edge))).cast("float64")


def _double_from(edge: Fraction) -> float:
    """The least double that is at least a rational."""
    try:
        near = float(edge)
    except OverflowError:
        return inf if edge > 0 else -inf
    return near if Fraction(near) >= edge else nextafter(near, inf)


def _mapped(rows: Any, table: Table, column: Column, how: Mapped, lend: Lend) -> Any:
    """A left join with the listed values, each of them once: no row is doubled."""
    name, of = our_name(table, column.name), table.column(how.of)
    pairs: dict[Key, Key] = {}
    for value, key in how.pairs:
        if fits(value):
            pairs.setdefault(value, key)
    listed = {
        f"{name}_of": pa.array(list(pairs), ARROW[of.type]),
        f"{name}_to": pa.array(list(pairs.values()), ARROW[column.type]),
    }
    lent = lend(pa.table(listed))
    value = rows[our_name(table, how.of)]
    joined = rows.left_join(lent, value == lent[f"{name}_of"])
    found = joined[f"{name}_to"]
    if how.otherwise is not None:
        rest = ibis.literal(how.otherwise, type=found.type())
        found = ibis.coalesce(
            found, ibis.ifelse(joined[our_name(table, how.of)].isnull(), ibis.null(found.type()), rest)
        )
    return joined.mutate(**{name: found}).drop(f"{name}_of", f"{name}_to")


def fits(key: Key) -> bool:
    """Whether a key has a place in the engine: an integer beyond 64 bits is no value of any row."""
    return not isinstance(key, int) or abs(key) <= INT64


def _within(column: Column, value: Any) -> Any:
    """A computed value under its column's type and range, as values from the source are; not finite is null."""
    if column.type not in ("integer", "decimal"):
        return value
    if column.type == "decimal":
        value = value.cast("float64")
        # Minus zero plus zero is zero.
        value = ibis.ifelse(value.isnan() | value.isinf(), ibis.null("float64"), value + double(0.0))
    if column.range is None:
        return value
    low, high = _limits(column, column.range)
    if column.outside == "null":
        return ibis.ifelse((value >= low) & (value <= high), value, ibis.null(value.type()))
    return ibis.ifelse(value < low, low, ibis.ifelse(value > high, high, value))


def _limits(column: Column, within: Range) -> tuple[Any, Any]:
    """The ends of a range as the column's type holds them; those of an integer are whole and fit in 64 bits."""
    if column.type == "decimal":
        return double(float(within.low)), double(float(within.high))
    ends = (ceil(within.low), floor(within.high))
    low, high = (ibis.literal(min(max(end, -INT64), INT64), type="int64") for end in ends)
    return low, high
