"""Which cell is a row in? Public keys give each row one number; private ones its own values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.cells import zero_keys
from dprelease.catalog.table import Column, Key, Table, Zeros
from dprelease.engines.drivers import ibis
from dprelease.engines.duck.columns.computed_columns import Lend, fits
from dprelease.engines.duck.columns.grid_steps import clip
from dprelease.engines.duck.units import length_prefixed, our_name, value_text
from dprelease.engines.files.rows import ARROW

__all__ = [
    "cell_columns",
    "cell_text",
    "celled",
    "chosen",
    "completed",
    "key_places",
    "narrow",
    "place_name",
    "placed",
    "positions",
    "without_zeros",
]

CELL = "cell"


def cell_columns(grouping: Grouping) -> list[str]:
    """The columns that tell cells apart: a position, or the values of the key columns where these are private."""
    return [f"k{at}" for at in range(len(grouping.by))] if grouping.private else [CELL]


def celled(rows: Any, table: Table, grouping: Grouping, excluded: Sequence[int], lend: Lend) -> Any:
    """The rows that are in a cell, with :func:`cell_columns`; every other row is dropped.

    A null takes the key that the column declares for nulls. With public keys the cell is the row-major position in
    their full cross product, left-out cells counted; with private ones a column without keys takes any value.
    """
    for at, name in enumerate(grouping.by):
        rows = _keyed(rows, table, table.column(name), at, grouping.private, lend)
    if grouping.private:
        return rows
    cell: Any = rows["d0"].cast("int64") if grouping.by else ibis.literal(0, type="int64")
    for at, name in enumerate(grouping.by[1:], start=1):
        cell = cell * table.column(name).cells + rows[f"d{at}"].cast("int64")
    rows = rows.mutate(**{CELL: cell.cast(narrow(table.cells(grouping.by)))})
    if excluded:
        left_out = lend(pa.table({"out": pa.array(excluded, pa.int64())}))
        rows = rows.anti_join(left_out, rows[CELL] == left_out["out"])
    return rows


def placed(rows: Any, table: Table, names: Sequence[str], lend: Lend, *, outer: bool = False) -> Any:
    """The rows with a key in every named column, and its position among the public keys of column i as ``d<i>``.

    With ``outer`` all rows, with a null for the position of what is no key.
    """
    for at, name in enumerate(names):
        rows = _keyed(rows, table, table.column(name), at, False, lend, outer=outer)
    return rows


def completed(rows: Any, table: Table, names: Sequence[str], lend: Lend) -> Any:
    """The rows that have one of its public keys in every named column; one row stays one row."""
    for name in names:
        column = table.column(name)
        if (known := place_name(our_name(table, name))) in rows.columns:
            rows = rows.filter(rows[known].notnull())
            continue
        keys = lend(_key_table(column, 0))
        rows = rows.semi_join(keys, _value(rows, table, column) == keys["k0"])
    return rows


def without_zeros(rows: Any, table: Table, zeros: Zeros | None, lend: Lend) -> Any:
    """The rows that have none of the impossible combinations of keys; None: there are none."""
    columns = [table.column(name) for name in zeros.columns] if zeros is not None else []
    listed = [each for each in zero_keys(zeros, table) if all(map(fits, each))] if zeros is not None else []
    if not listed:
        return rows
    parts = zip(columns, zip(*listed, strict=True), strict=True)
    lent = lend(pa.table({f"z{at}": pa.array(keys, ARROW[column.type]) for at, (column, keys) in enumerate(parts)}))
    return rows.anti_join(lent, [_value(rows, table, column) == lent[f"z{at}"] for at, column in enumerate(columns)])


def _value(rows: Any, table: Table, column: Column) -> Any:
    """What a row has in a key column; a null is the key that the column declares for nulls."""
    value = rows[our_name(table, column.name)]
    return value if column.null is None else ibis.coalesce(value, ibis.literal(column.null, type=value.type()))


def _keyed(rows: Any, table: Table, column: Column, at: int, private: bool, lend: Lend, *, outer: bool = False) -> Any:
    """One key column: its position ``d<at>`` among the declared keys, outside which a row is dropped, or has a null.

    Where keys are private, also its value ``k<at>``, and nothing else if it has no declared keys.
    """
    if not private and (known := place_name(our_name(table, column.name))) in rows.columns:
        rows = rows if outer else rows.filter(rows[known].notnull())
        return rows.mutate(**{f"d{at}": rows[known]})
    value = _value(rows, table, column)
    if private and column.keys is None:
        rows = rows.mutate(**{f"k{at}": value})
        return rows.filter(rows[f"k{at}"].notnull())
    if not private and (ends := column.once(_run)) is not None:
        # Clipped first: nothing says that rows are dropped before a position is computed, and none may overflow.
        place = clip(value, *ends) - ibis.literal(ends[0], type="int64")
        if outer:
            return rows.mutate(**{f"d{at}": ibis.ifelse(value.between(*ends), place, ibis.null("int64"))})
        return rows.filter(value.between(*ends)).mutate(**{f"d{at}": place})
    keys = lend(_key_table(column, at))
    return rows.join(keys, value == keys[f"k{at}"], how="left" if outer else "inner")


def _run(column: Column) -> tuple[int, int] | None:
    """The first and the last key of whole numbers that follow one another: their positions need no join."""
    keys = column.keys or ()
    if column.type != "integer" or not keys or not (fits(keys[0]) and fits(keys[-1])):
        return None
    first = int(keys[0])
    return (first, first + len(keys) - 1) if all(key == first + at for at, key in enumerate(keys)) else None


def place_name(name: str) -> str:
    """Our name of the places of a column's values among its keys, from our name of the column."""
    return f"{name}_at"


def narrow(keys: int) -> str:
    """The smallest type of a position among so many keys."""
    return next(f"uint{bits}" for bits in (8, 16, 32, 64) if keys <= 2**bits)


def key_places(column: Column, values: Any) -> Any:
    """The position of every value among the keys of its column, as an Arrow array of the smallest type that has them.

    As :func:`celled` finds it: a null has the key that the column declares for nulls, and what is no key has a null.
    """
    kind = pa.type_for_alias(narrow(column.cells))
    ends, none = column.once(_run), column.null
    if ends is not None:
        # One subtraction, modulo 2^64: what is below the first key comes out above all places, as what is behind them.
        known = values.fill_null(0) if values.null_count else values
        beyond = (known.to_numpy() - np.int64(ends[0])).view(np.uint64)
        outside = beyond > np.uint64(ends[1] - ends[0])
        if values.null_count:
            outside |= values.is_null().to_numpy(zero_copy_only=False)
        places = pa.array(beyond.astype(kind.to_pandas_dtype()), mask=outside if outside.any() else None)
    else:
        codes = column.once(_codes)
        keys, numbers = pa.array(list(codes), ARROW[column.type]), pa.array(codes.values(), kind)
        places = numbers.take(pc.index_in(values, value_set=keys))
    if none is None or none not in column.once(_codes):
        return places
    return pc.if_else(values.is_null(), pa.scalar(column.once(_codes)[none], kind), places)


def _codes(column: Column) -> dict[Key, int]:
    """Keys to their positions; the first of equal keys counts, and what fits no row is left out."""
    codes: dict[Key, int] = {}
    for code, key in enumerate(column.keys or ()):
        if fits(key):
            codes.setdefault(key, code)
    return codes


def _key_table(column: Column, at: int) -> Any:
    codes, kind = column.once(_codes), ARROW[column.type]
    return pa.table({f"k{at}": pa.array(list(codes), kind), f"d{at}": pa.array(codes.values(), pa.int64())})


def cell_text(rows: Any, table: Table, grouping: Grouping) -> Any:
    """A cell as a text that no other cell of the grouping has: its position, or its values."""
    if not grouping.private:
        return rows[CELL].cast("string")
    return length_prefixed([value_text(rows[f"k{at}"], table.column(name).type) for at, name in enumerate(grouping.by)])


def chosen(answer: Any, table: Table, grouping: Grouping, keys: Sequence[tuple[Key, ...]], lend: Lend) -> Any:
    """The rows whose private keys are one of the given keys, with its position among these as the cell."""
    columns = {
        f"s{at}": pa.array([key[at] for key in keys], ARROW[table.column(name).type])
        for at, name in enumerate(grouping.by)
    }
    lent = lend(pa.table({**columns, CELL: pa.array(range(len(keys)), pa.int64())}))
    return answer.join(lent, [answer[f"k{at}"] == lent[f"s{at}"] for at in range(len(grouping.by))])


def positions(cells: npt.NDArray[np.integer[Any]], excluded: Sequence[int]) -> npt.NDArray[np.int64]:
    """Positions in the full cross product, none of them left out, as positions among the cells that remain."""
    wide = cells.astype(np.int64)
    return wide - np.searchsorted(np.asarray(excluded, dtype=np.int64), wide) if excluded else wide
