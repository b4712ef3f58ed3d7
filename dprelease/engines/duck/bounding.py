"""At most so many rows and cells of one unit: what is left out depends on the unit's own rows and the secret alone.

Stability: every step maps the rows of one unit to a part of them, and reads no row of another. So adding or removing
one unit adds or removes the kept rows of that unit and changes nothing else. Where the rows stand, and in how many
files, plays no part: rows that no order tells apart are equal in everything that is known of them.

Only units and cells that exceed a bound are put in order; a unit within its bounds keeps all of its rows. Where numbers
of rows are all that is asked, none of them has to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Any

import pyarrow as pa

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.table import Table
from dprelease.engines.declared import id_column
from dprelease.engines.drivers import ibis
from dprelease.engines.duck.cells import CELL, cell_columns, cell_text
from dprelease.engines.duck.columns.computed_columns import INT64
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import (
    ALONE,
    keyed,
    length_prefixed,
    our_name,
    row_content,
    unit_columns,
    unit_name,
    unit_text,
)
from dprelease.engines.files.decimals import BY
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.unit_cells import CellCounts, CellOrder, CountBounds, CountedRows, UnitRows, broken_bound
from dprelease.freed_memory import give_back

__all__ = ["bounded_cells", "bounded_counts", "bounded_pairs", "bounded_rows"]

_ID = "id"
_AT_ONCE = 2**21  # rows, or pairs, that are looked at beside the engine at a time
_MANY_PARTS = 9  # of so many, parts are made of larger ones: three times three


def bounded_rows(stage: Stage, rows: Any, table: Table, secret: bytes, limit: int) -> Any:
    """At most ``limit`` rows of every unit, chosen as the table's bounds say; by a sample where it declares none.

    ``first`` and ``last`` go by ``order_by``, in which a null comes after every value either way, so that a row
    without a value is the first to go; rows that are equal in it go by their whole content, in rising order.

    Args:
        stage: Keeps what was chosen.
        rows: The rows of the source, typed; rows without an id are units of their own and all stay.
        table: The declaration.
        secret: What samples are drawn by.
        limit: Rows of one unit.
    """
    unit = unit_name(table)
    present = rows.filter(rows[unit].notnull())
    counts = present.group_by(unit).aggregate(held=present.count())
    crowded = stage.keep(counts.filter(counts["held"] > _capped(limit)).select(unit))
    some = rows.semi_join(crowded, unit)
    some = _told_apart(some, table, [unit])
    chosen = stage.keep(_first(some, [unit], _order(some, table, secret), limit, rows.columns))
    return _with(rows.anti_join(crowded, unit), chosen)


def bounded_cells(
    stage: Stage, rows: Any, table: Table, grouping: Grouping, secret: bytes, columns: Sequence[str]
) -> Any:
    """At most ``max_groups`` cells of every unit, and in each of them at most ``max_rows_per_group`` of its rows.

    Cells are kept in the order of the keyed hash of unit and cell, then rows in that of unit, row content and number
    among equal rows. Two cells of one unit with the same 64 bits would go by themselves, two rows by their content.

    Args:
        stage: Keeps what was chosen.
        rows: With the unit and its cell.
        table: The declaration.
        grouping: The bounds.
        secret: What samples are drawn by.
        columns: What is wanted of the rows, besides the unit and its cell.
    """
    unit, cells = unit_columns(table), cell_columns(grouping)
    kept = [*unit, *cells, *(name for name in columns if name not in unit)]
    most, each = grouping.max_groups, grouping.max_rows_per_group
    if most is None and each is None:
        return rows.select(*kept)
    counted = stage.keep(rows.group_by([*unit, *cells]).aggregate(held=rows.count()))
    pair = [unit[0], *cells]  # no null equals a null: rows without an id are in no join, and exceed no bound
    pairs = counted.filter(counted[unit[0]].notnull())
    if most is not None:
        surplus = _surplus(stage, pairs, table, grouping, secret, most)
        pairs, rows = (_without(each, table, grouping, surplus) for each in (pairs, rows))
    if each is None:
        stage.forget(counted)
        return rows.select(*kept)
    crowded = stage.keep(pairs.filter(pairs["held"] > _capped(each)).select(*pair))
    stage.forget(counted)
    some = rows.semi_join(crowded, pair)
    some = _told_apart(some, table, pair)
    chosen = stage.keep(_first(some, pair, _sampled(some, table, secret), each, kept))
    return _with(rows.anti_join(crowded, pair).select(*kept), chosen)


def bounded_pairs(stage: Stage, pairs: Any, table: Table, grouping: Grouping, secret: bytes) -> Any:
    """Of pairs of a unit and a cell those that ``max_groups`` leaves, with at most ``max_rows_per_group`` rows each.

    What :func:`bounded_cells` leaves, where no row has to be chosen: of the rows of a pair so many are kept as there
    are, or as the bound allows, whichever they are.

    Args:
        stage: Keeps what was chosen.
        pairs: The unit, its cell, the number of its rows as ``held``, and what is totalled of all of them; without a
            ``max_rows_per_group`` alone may there be more than the number.
        table: The declaration.
        grouping: The bounds.
        secret: What samples are drawn by.
    """
    most, each = grouping.max_groups, grouping.max_rows_per_group
    if most is not None:
        pairs = _without(pairs, table, grouping, _surplus(stage, pairs, table, grouping, secret, most))
    return pairs if each is None else pairs.mutate(held=ibis.least(pairs["held"], _capped(each)))


def bounded_counts(stage: Stage, rows: Any, table: Table, grouping: Grouping, secret: bytes) -> CellCounts:
    """How many rows and units each public cell has of what the bounds leave, where nothing else is asked.

    Counted in memory beside the engine's, some units after the others, so that there is never much of it.

    Args:
        stage: Reads rows.
        rows: With the unit and its cell.
        table: The declaration.
        grouping: The bounds.
        secret: What samples are drawn by.

    Raises:
        BrokenPromiseError: If what is left breaks a bound, or some row counts twice or not at all.
    """
    alone = [ALONE] if table.null_id == "unit" else []
    bounds = CountBounds(grouping.max_groups, grouping.max_rows_per_group, table.most_rows)
    counted = CountedRows(table.name, bounds, CellOrder(secret), table.cells(grouping.by))

    def counts(some: Any) -> CellCounts:
        numbers = some.column(ALONE).to_numpy() if alone else None
        return counted.counts(some.column(_ID).combine_chunks(), some.column(CELL).to_numpy(), numbers)

    rows = rows.select(**{_ID: _id(rows, table)}, **{name: rows[name] for name in (CELL, *alone)})
    costly = bool(table.joins or table.private_joins) or any(column.derivation for column in table.columns)
    there, parts = _by_units(stage, rows, costly=costly)
    whole = CellCounts.together(list(in_turn(counts, parts)))
    if whole.looked_at != there:
        raise broken_bound(table.name, "the number of rows")
    return whole


def _by_units(stage: Stage, rows: Any, *, costly: bool = False) -> tuple[int, Iterator[Any]]:
    """How many rows there are, and all of them as Arrow tables, the rows of a unit in one of these.

    Args:
        stage: Reads them.
        rows: With an id.
        costly: Whether more is done for a row than to look at it.
    """
    (counted,) = stage.read(rows.aggregate(held=rows.count())).to_pylist()
    parts = -(-counted["held"] // _AT_ONCE)
    if parts > 1:
        rows = stage.keep(rows) if costly else rows  # so that it is not made as often
        return counted["held"], _in_parts(stage, rows, parts)
    return counted["held"], iter([stage.read(rows)])


def _in_parts(stage: Stage, rows: Any, parts: int) -> Iterator[Any]:
    """All rows in so many parts, or a few more, the rows of a unit in one.

    Whoever takes a part looks at all rows. So many parts are made of a few larger ones, of which one at a time is kept:
    of 50 parts each row is looked at 14 times, and not 50 times.
    """
    among = isqrt(parts) if parts >= _MANY_PARTS else 1
    each = -(-parts // among)
    for place in range(among):
        some = stage.keep_part(rows, _ID, place, among) if among > 1 else rows
        for at in range(each):
            yield stage.read_part(some, _ID, at, each, among)
        if among > 1:
            stage.forget(some)


def _id(rows: Any, table: Table) -> Any:
    """The id of a unit as a whole number, where it is one, or as its canonical text."""
    id_is = id_column(table)
    return rows[unit_name(table)] if id_is is not None and id_is.type == "integer" else unit_text(rows, table)


def _surplus(stage: Stage, pairs: Any, table: Table, grouping: Grouping, secret: bytes, most: int) -> Any:
    """The pairs of a unit and a cell beyond the first ``most`` of each unit: ``id`` and the columns of the cell.

    Public cells are numbers, in the order that :class:`CellOrder` gives them; private ones are values, in that of the
    keyed hash of their text.
    """
    pairs = pairs.filter(pairs[unit_name(table)].notnull())  # rows without an id are units of one row
    if grouping.private:
        ranked = _ranked(
            pairs.semi_join(_wide(pairs, unit_name(table), most), unit_name(table)), table, grouping, secret
        )
        left_out = ranked.filter(ranked["place"] >= _capped(most))
        return stage.keep(
            left_out.select(**{_ID: _id(left_out, table)}, **{name: left_out[name] for name in cell_columns(grouping)})
        )
    _, parts = _by_units(stage, pairs.select(**{_ID: _id(pairs, table), CELL: pairs[CELL]}))
    order, of = CellOrder(secret), table.cells(grouping.by)
    kind = pairs[CELL].type().to_pyarrow()

    def beyond(some: Any) -> Any:
        units = UnitRows(some.column(_ID).combine_chunks(), some.column(CELL).to_numpy(), of)
        left_out = [(each, ~each.kept(most, order)) for each in units.slices()]
        ids = [units.ids(each.unit[out]) for each, out in left_out]
        cells = [pa.array(each.cell[out]).cast(kind) for each, out in left_out]
        return pa.table({_ID: pa.chunked_array(ids, some.schema.field(_ID).type), CELL: pa.chunked_array(cells, kind)})

    surplus = pa.concat_tables(list(in_turn(beyond, parts)))
    give_back()  # the pairs of every part were there
    return stage.lend(surplus)


def _without(rows: Any, table: Table, grouping: Grouping, surplus: Any) -> Any:
    """Rows, or pairs, that are in no pair of the surplus."""
    same = [rows[name] == surplus[name] for name in cell_columns(grouping)]
    return rows.anti_join(surplus, [_id(rows, table) == surplus[_ID], *same])


def _wide(pairs: Any, unit: str, most: int) -> Any:
    """The units in more cells than allowed."""
    counts = pairs.group_by(unit).aggregate(met=pairs.count())
    return counts.filter(counts["met"] > _capped(most)).select(unit)


def _ranked(some: Any, table: Table, grouping: Grouping, secret: bytes) -> Any:
    """Pairs of a unit and a cell with their ``place`` among those of the unit, in the order of the keyed hash."""
    some = some.mutate(key=keyed(some, table, secret, cell_text(some, table, grouping)))
    order = ["key", *cell_columns(grouping)]
    return some.mutate(place=ibis.row_number().over(group_by=unit_name(table), order_by=order))


def _order(some: Any, table: Table, secret: bytes) -> list[Any]:
    """What the rows of a unit are ordered by where the whole table is bounded."""
    bounds = table.bounds
    if bounds is None or bounds.truncate == "sample":
        return _sampled(some, table, secret)
    turn = ibis.asc if bounds.truncate == "first" else ibis.desc
    return [*(turn(some[our_name(table, name)], nulls_first=False) for name in bounds.order_by), *_last(some)]


def _told_apart(some: Any, table: Table, within: Sequence[str]) -> Any:
    """The rows with their content, and a number among rows of equal content.

    Without the number equal rows would have one hash, and a sample would keep or drop all of them together. Which of
    them gets which number makes no difference to anything, for they are equal in everything that is known of them.
    """
    some = some.mutate(whole=row_content(some, table))
    # Two numbers can be one double and not one number of steps: then these decide.
    grids = sorted(name for name in some.columns if BY in name)
    return some.mutate(nth=ibis.row_number().over(group_by=[*within, "whole"], order_by=grids or None))


def _sampled(some: Any, table: Table, secret: bytes) -> list[Any]:
    item = some["whole"] + length_prefixed([some["nth"].cast("string")])
    return [ibis.asc(keyed(some, table, secret, item)), *_last(some)]


def _last(some: Any) -> list[Any]:
    """What decides between rows that are equal so far."""
    return [ibis.asc(some["whole"]), ibis.asc(some["nth"])]


def _first(some: Any, within: Sequence[str], order: Sequence[Any], limit: int, kept: Sequence[str]) -> Any:
    """The first ``limit`` rows of every group."""
    ranked = some.mutate(place=ibis.row_number().over(group_by=list(within), order_by=list(order)))
    return ranked.filter(ranked["place"] < _capped(limit)).select(*kept)


def _with(rest: Any, chosen: Any) -> Any:
    """All rows of both; what was kept has the engine's own widths of integers, and is read as what it was."""
    return ibis.union(rest, chosen.cast(rest.schema()), distinct=False)


def _capped(limit: int) -> int:
    """A bound as a number of 64 bits; no table has more rows."""
    return min(limit, INT64)
