"""One Ibis expression per batch: from typed rows to integer totals per cell, on any engine that Ibis speaks to.

Columns and tables have names of our own (``c0``, ``k1`` ...), so that no name of a spec meets an identifier rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Column, Join, Key, Table
from dprelease.engines.rows import ARROW, typed
from dprelease.errors import Unsupported

__all__ = ["MOST", "dense", "refuse", "totals"]

MOST = 2**62  # no total leaves [-MOST, MOST]
_INT64 = 2**63 - 1
_CELLS = 10**9
_KEY_TYPES: dict[str, type] = {"text": str, "date": str, "integer": int, "boolean": bool}

Lend = Callable[[Any], Any]  # an Arrow table to an Ibis table


def refuse(
    table: Table, by: Sequence[str], quantities: Sequence[Quantity], references: Mapping[str, ReferenceTable]
) -> None:
    """Check, by public declarations alone, that the aggregate can be computed as it is defined.

    Raises:
        Unsupported: Says what cannot be done.
    """
    declared = {column.name: column for column in table.columns}
    for name in (*by, *(quantity.column for quantity in quantities if quantity.column is not None)):
        if name not in declared:
            _cannot("E201", table, f"there is no column {name!r}", "declare it under `columns` of the table")
    if len(set(by)) != len(by):
        _cannot("E202", table, "a column appears twice in `by`", "name every column once")
    for name in by:
        _check_keys(table, declared[name])
    if table.cells(tuple(by)) > _CELLS:
        _cannot("E203", table, f"more than {_CELLS} cells", "take a column out of `by`")
    for quantity in quantities:
        _check_quantity(table, declared, quantity)
    for column in table.columns:
        limits = (column.range.low, column.range.high) if column.range else ()
        if any(abs(limit) >= 2**1023 for limit in limits):
            _cannot("E206", table, f"the range of {column.name!r} is beyond a double", "narrow the range")
    for join in table.joins:
        _check_join(table, declared, join, references)
    for column in table.columns:
        if column.reference is not None and not any(column.name in join.add for join in table.joins):
            _cannot("E208", table, f"no join adds {column.name!r}", "add it under `add` of a join")


def _cannot(code: str, table: Table, what: str, hint: str) -> None:
    raise Unsupported(f"table {table.name!r}: {what}", hint=hint, code=f"DPR-{code}")


def _check_keys(table: Table, column: Column) -> None:
    kind = _KEY_TYPES.get(column.type)
    given = (*(column.keys or ()), *(() if column.null is None else (column.null,)))
    if kind is None or not column.keys or any(type(key) is not kind for key in given):
        _cannot(
            "E204",
            table,
            f"{column.name!r} cannot be in `by`: it is {column.type} and its keys are not",
            "give it keys of its own type; bin a decimal or a timestamp first",
        )


def _check_quantity(table: Table, declared: Mapping[str, Column], quantity: Quantity) -> None:
    if quantity.kind == "rows":
        return
    if quantity.column is None:
        _cannot("E205", table, f"a {quantity.kind} without a column", "name the column")
        return
    if quantity.kind in ("nonnull", "balance"):
        return
    if declared[quantity.column].type not in ("integer", "decimal"):
        _cannot("E205", table, f"{quantity.column!r} is no number and has no sum", "sum an integer or a decimal")
    grid = (quantity.low, quantity.high, quantity.centre, quantity.step.numerator, quantity.step.denominator)
    wide = quantity.kind == "square" and (quantity.squares[1] > 2**30 or quantity.grain >= 2**60)
    if max(map(abs, (*grid, *quantity.contribution))) > MOST or quantity.step <= 0 or wide:
        _cannot(
            "E206",
            table,
            f"the grid of {quantity.column!r} does not fit in 62 bits",
            "take a larger `step` or a narrower `clip`",
        )


def _check_join(
    table: Table, declared: Mapping[str, Column], join: Join, references: Mapping[str, ReferenceTable]
) -> None:
    public = references.get(join.reference)
    earlier = table.joins[: table.joins.index(join)]
    added = {name for other in earlier for name in other.add}
    if public is None or not {join.on, *join.add} <= set(public.columns):
        _cannot("E207", table, f"reference {join.reference!r} lacks a joined column", "declare its columns")
        return
    if join.on not in declared or not (declared[join.on].reference is None or join.on in added):
        _cannot("E207", table, f"{join.on!r} is no column before its join", "join on a source column")
    for name in join.add:
        if name not in declared or declared[name].reference != join.reference or name in added:
            _cannot("E207", table, f"{name!r} is not added by one join alone", "declare it once, as joined")
    if pc.count_distinct(keys := _join_keys(table, join, public)).as_py() != len(keys) - keys.null_count:
        _cannot(
            "E207",
            table,
            f"{join.on!r} is not unique in reference {join.reference!r}: the join would multiply rows",
            "keep one row per key in the reference file",
        )


def _join_keys(table: Table, join: Join, public: ReferenceTable) -> Any:
    """The keys of a reference as the table reads them, not clamped: two at one limit would double a row."""
    free = table.column(join.on).model_copy(update={"range": None})
    return _as_declared(free, public.columns[join.on])


def totals(
    rows: Any,
    table: Table,
    by: Sequence[str],
    quantities: Sequence[Quantity],
    references: Mapping[str, ReferenceTable],
    lend: Lend,
) -> Any:
    """The expression: a column ``cell`` and one column ``q<i>`` per quantity, in no order, absent cells missing.

    Args:
        rows: Ibis table of typed rows; column ``c<i>`` is the i-th column of ``table``, joined ones missing.
        table: Its declaration.
        by: The key columns.
        quantities: What to sum.
        references: Public tables for the joins.
        lend: Shows a small Arrow table to the engine.
    """
    wanted = {*by, *(quantity.column for quantity in quantities if quantity.column is not None)}
    joined = _joined(rows, table, wanted, references, lend)
    for at, name in enumerate(by):
        column = table.column(name)
        keys = lend(_key_table(column, at))
        value = joined[_name(table, name)]
        if column.null is not None:
            value = ibis.coalesce(value, ibis.literal(column.null))
        joined = joined.join(keys, value == keys[f"k{at}"], how="inner")
    cell: Any = ibis.literal(0, type="int64")
    for at, name in enumerate(by):
        cell = cell * table.column(name).cells + joined[f"d{at}"]
    sums = {f"q{at}": _total(joined, table, item) for at, item in enumerate(quantities)}
    return joined.group_by(cell=cell).aggregate(**sums) if by else joined.aggregate(**sums)


def dense(answer: Any, cells: int, quantities: int, by: bool) -> list[npt.NDArray[np.int64]]:
    """The Arrow answer of :func:`totals` as one array of shape ``(cells,)`` per quantity; absent cells are 0."""
    at = answer.column("cell").to_numpy() if by else np.zeros(1, dtype=np.int64)
    found = []
    for number in range(quantities):
        values = np.zeros(cells, dtype=np.int64)
        values[at] = answer.column(f"q{number}").fill_null(0).cast(pa.int64()).to_numpy()
        found.append(values)
    return found


def _name(table: Table, name: str) -> str:
    return f"c{[column.name for column in table.columns].index(name)}"


def _joined(rows: Any, table: Table, wanted: set[str], references: Mapping[str, ReferenceTable], lend: Lend) -> Any:
    """Left joins with the references that add something wanted; their keys are unique, so no row is doubled."""
    needed: list[Join] = []
    for join in reversed(table.joins):
        if wanted & set(join.add):
            needed.insert(0, join)
            wanted = wanted | {join.on}
    for at, join in enumerate(needed):
        public = lend(_reference_table(table, join, references[join.reference], at))
        rows = rows.left_join(public, rows[_name(table, join.on)] == public[f"r{at}"])
    return rows


def _reference_table(table: Table, join: Join, public: ReferenceTable, at: int) -> Any:
    """The key and the added columns of a reference, read as the table declares them."""
    columns = {f"r{at}": _join_keys(table, join, public)}
    for name in join.add:
        columns[_name(table, name)] = _as_declared(table.column(name), public.columns[name])
    return pa.table(columns)


def _as_declared(column: Column, keys: Sequence[Key]) -> Any:
    texts = [str(key).lower() if isinstance(key, bool) else str(key) for key in keys]
    return typed(column, pa.array(texts, pa.string()))


def _key_table(column: Column, at: int) -> Any:
    """Keys to their positions; the first of equal keys counts, and what fits no row is left out."""
    codes: dict[Key, int] = {}
    for code, key in enumerate(column.keys or ()):
        if not isinstance(key, int) or abs(key) <= _INT64:
            codes.setdefault(key, code)
    kind = ARROW[column.type]
    return pa.table({f"k{at}": pa.array(list(codes), kind), f"d{at}": pa.array(codes.values(), pa.int64())})


def _total(rows: Any, table: Table, quantity: Quantity) -> Any:
    """One quantity summed over a group: exact, then clamped."""
    if quantity.column is None:
        return rows.count()
    value = rows[_name(table, quantity.column)]
    if quantity.kind == "nonnull":
        return value.count()
    if quantity.kind == "balance":
        return 2 * value.count() - rows.count()
    each = _steps(value, table.column(quantity.column), quantity) - quantity.centre
    if quantity.kind == "square":
        each = _squared(each, quantity) - quantity.offset
    # 128 bits wide. No row is a total of 0: left null, it would take the limit (LEAST passes over nulls).
    total = ibis.coalesce(each.sum(where=value.notnull()), 0)
    return ibis.greatest(ibis.least(total, MOST), -MOST)


def _steps(value: Any, column: Column, quantity: Quantity) -> Any:
    """A number to clipped grid steps; only looked at where it is not null.

    Integers on a grid of 1 stay integers. Everything else goes through one double multiplication and one
    division, which is a function of the row alone; clipping to the ends as doubles comes before rounding, so
    that the cast to 64 bits always fits, and once more after it, so that the clip holds exactly.
    """
    low, high = quantity.low, quantity.high
    if column.type == "integer" and quantity.step == 1:
        return _clip(value, low, high)
    if column.type == "integer":
        # Nothing outside these limits lands inside the clip, and the limits keep the product small.
        least, most = floor(low * quantity.step), ceil(high * quantity.step)
        value = _clip(value, max(min(least, _INT64), -_INT64), max(min(most, _INT64), -_INT64))
    ratio = Fraction(quantity.step)
    scaled = value.cast("float64") * _double(ratio.denominator) / _double(ratio.numerator)
    nearest = ibis.greatest(ibis.least(scaled, _double(high)), _double(low)).round()
    return _clip(nearest, low, high)


def _squared(centred: Any, quantity: Quantity) -> Any:
    """The square of a centred number of steps in grains, halves upward, in 64 bits and without integer division.

    Engines differ in what they make of the division of two integers. A double quotient below 2^31 is wrong by far
    less than 1, so its floor is the quotient or one beside it, and the exact remainder tells which.
    """
    grain = quantity.grain
    if grain == 1:
        return centred * centred
    size = centred.abs()
    double = size.cast("float64")
    near = (double * double / _double(grain) + _double(1) / _double(2)).floor().cast("int64")
    left = _remainder(size, near, quantity) + grain // 2
    return near + (left >= grain).cast("int64") - (left < 0).cast("int64")


def _remainder(size: Any, near: Any, quantity: Quantity) -> Any:
    """``size^2 - near * grain``, which is less than two grains in size.

    Squares beyond 2^61 are taken apart in base B = 2^31: with size = aB + b and grain = cB + d the remainder is
    (a^2 B + 2ab - near c) B + (b^2 - near d), where a < 2^15, near < 2^31 and grain < 2^60 keep every part in 64 bits.
    """
    base, grain = 2**31, quantity.grain
    if max(quantity.low - quantity.centre, quantity.high - quantity.centre, key=abs) ** 2 <= 2**61:
        return size * size - near * grain
    above = (size.cast("float64") / _double(base)).floor().cast("int64")  # exact: size is below 2^53
    below = size - above * base
    upper = above * above * base + 2 * above * below - near * (grain // base)
    return upper * base + (below * below - near * (grain % base))


def _clip(value: Any, low: int, high: int) -> Any:
    return ibis.greatest(ibis.least(value, high), low)


def _double(number: int) -> Any:
    """A whole number as a double of the engine; a bare literal such as 100.0 would be a decimal there."""
    return ibis.literal(number, type="int64").cast("float64")
