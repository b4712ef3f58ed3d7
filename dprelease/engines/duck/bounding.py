"""At most so many rows and cells of one unit: what is left out depends on the unit's own rows and the secret alone.

Stability: every step maps the rows of one unit to a part of them, and reads no row of another. So adding or removing
one unit adds or removes the kept rows of that unit and changes nothing else. Where the rows stand, and in how many
files, plays no part: rows that no order tells apart are equal in everything that is known of them.

Only units and cells that exceed a bound are put in order; a unit within its bounds keeps all of its rows. Where numbers
of rows are all that is asked, none of them has to be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.table import Table
from dprelease.engines.duck.cells import cell_columns, cell_text
from dprelease.engines.duck.computed_columns import INT64
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import keyed, length_prefixed, our_name, row_content, unit_columns, unit_name
from dprelease.engines.files.decimals import BY

__all__ = ["bounded_cells", "bounded_pairs", "bounded_rows"]


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
    pairs = stage.keep(rows.group_by([*unit, *cells]).aggregate(held=rows.count()))
    pair = [unit[0], *cells]  # no null equals a null: rows without an id are in no join, and exceed no bound
    pairs = pairs.filter(pairs[unit[0]].notnull())
    if most is not None:
        surplus = stage.keep(_surplus(pairs, table, grouping, secret, most))
        pairs, rows = pairs.anti_join(surplus, pair), rows.anti_join(surplus, pair)
    if each is None:
        return rows.select(*kept)
    crowded = stage.keep(pairs.filter(pairs["held"] > _capped(each)).select(*pair))
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
    unit, most, each = unit_name(table), grouping.max_groups, grouping.max_rows_per_group
    if most is not None:
        wide = stage.keep(_wide(pairs, unit, most))
        ranked = _ranked(pairs.semi_join(wide, unit), table, grouping, secret)
        chosen = stage.keep(ranked.filter(ranked["place"] < _capped(most)).select(*pairs.columns))
        pairs = _with(pairs.anti_join(wide, unit), chosen)
    return pairs if each is None else pairs.mutate(held=ibis.least(pairs["held"], _capped(each)))


def _wide(pairs: Any, unit: str, most: int) -> Any:
    """The units in more cells than allowed; rows without an id are units of one row."""
    present = pairs.filter(pairs[unit].notnull())
    counts = present.group_by(unit).aggregate(met=present.count())
    return counts.filter(counts["met"] > _capped(most)).select(unit)


def _ranked(some: Any, table: Table, grouping: Grouping, secret: bytes) -> Any:
    """Pairs of a unit and a cell with their ``place`` among those of the unit, in the order of the keyed hash."""
    some = some.mutate(key=keyed(some, table, secret, cell_text(some, table, grouping)))
    order = ["key", *cell_columns(grouping)]
    return some.mutate(place=ibis.row_number().over(group_by=unit_name(table), order_by=order))


def _surplus(pairs: Any, table: Table, grouping: Grouping, secret: bytes, most: int) -> Any:
    """The (unit, cell) pairs beyond the first ``most`` of each unit."""
    unit, cells = unit_name(table), cell_columns(grouping)
    ranked = _ranked(pairs.semi_join(_wide(pairs, unit, most), unit), table, grouping, secret)
    return ranked.filter(ranked["place"] >= _capped(most)).select(unit, *cells)


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
