"""What cannot be computed as it is defined is refused before a row is read, by public declarations alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NoReturn

import pyarrow.compute as pc

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.expressions.expression import ExpressionError, parse
from dprelease.catalog.reference import References
from dprelease.catalog.table import Binned, Catalog, Column, ColumnType, Computed, Join, Key, Mapped, PrivateJoin, Table
from dprelease.engines.declared import id_column, needed, types
from dprelease.engines.files.decimals import MOST
from dprelease.engines.files.rows import join_keys
from dprelease.errors import BrokenPromiseError, Unsupported

__all__ = ["refuse_uncomputable", "refuse_within", "require_secret"]

_CELLS = 10**8  # 800 MB of answers: what one entry of a ledger can hold
_KEY_TYPES: dict[str, type] = {"text": str, "date": str, "integer": int, "boolean": bool}


def refuse_uncomputable(
    catalog: Catalog, grouping: Grouping, quantities: Sequence[Quantity], references: References
) -> None:
    """Check, by public declarations alone, that the aggregate can be computed as it is defined.

    Raises:
        Unsupported: Says what cannot be done.
    """
    table = catalog.tables.get(grouping.table)
    if table is None:
        raise Unsupported(f"there is no table {grouping.table!r}", hint="declare it", code="DPR-E201")
    _check_by(catalog, table, grouping)
    declared = {column.name: column for column in table.columns}
    for quantity in quantities:
        _check_quantity(table, declared, quantity)
    for text in (grouping.where, *(quantity.where for quantity in quantities)):
        if text is not None:
            _check_expression(table, text, types(table), "boolean")
    _check_table(catalog, table, references)
    _check_bounds(table, grouping)
    for join in table.private_joins:
        _check_private_join(catalog, table, join, references)


def refuse_within(catalog: Catalog, grouping: Grouping, within: CellSlice, *, counts: bool) -> None:
    """Check that a part of the cells can be asked for; ``counts``: whether they hold numbers of complete rows.

    Raises:
        Unsupported: Says what cannot be done.
    """
    table, nodes = catalog.tables[grouping.table], within.nodes
    if not counts or grouping.private or grouping.excluding is not None or grouping.by[:1] != (within.column,):
        _cannot(
            "E218",
            table,
            f"the cells of some keys of {within.column!r} cannot be counted by themselves",
            "put the column first in `by`, and count complete rows without bounds; or ask for all cells",
        )
    keys = table.column(within.column).cells
    if not nodes or nodes[0] < 0 or nodes[-1] >= keys or any(a >= b for a, b in pairwise(nodes)):
        _cannot("E218", table, f"a part of {within.column!r} is of other keys", "give rising positions of its keys")


def require_secret(table: Table, secret: bytes) -> None:
    """Check that there is what samples of a unit's rows are drawn by, where they are.

    Raises:
        BrokenPromiseError: If a table with units comes without its 32 bytes.
    """
    if table.unit_id is not None and len(secret) != 32:
        raise BrokenPromiseError("samples of a unit's rows are drawn by 32 secret bytes", code="DPR-B201")


def _cannot(code: str, table: Table, what: str, hint: str) -> NoReturn:
    raise Unsupported(f"table {table.name!r}: {what}", hint=hint, code=f"DPR-{code}")


def _check_by(catalog: Catalog, table: Table, grouping: Grouping) -> None:
    declared = {column.name: column for column in table.columns}
    for name in grouping.by:
        _check_declared(table, name)
        _check_keys(table, declared[name], grouping.private)
    if len(set(grouping.by)) != len(grouping.by):
        _cannot("E202", table, "a column appears twice in `by`", "name every column once")
    if grouping.private:
        if not grouping.by or grouping.excluding:
            _cannot("E213", table, "private keys need a `by`, and leave nothing out", "name a column, drop `except`")
        if grouping.complete or grouping.zeros:
            _cannot("E216", table, "rows with a key in every column need public keys", "declare the keys of `by`")
        return
    _check_complete(table, declared, grouping.complete)
    _check_zeros(catalog, table, grouping)
    cells = table.cells(grouping.by)
    if cells > _CELLS:
        _cannot("E203", table, f"more than {_CELLS} cells", "take a column out of `by`")
    if grouping.excluding is not None and grouping.excluding not in catalog.zeros:
        left_out = catalog.exclusions.get(grouping.excluding, (-1,))
        if list(left_out) != sorted({at for at in left_out if 0 <= at < cells}):
            _cannot("E214", table, f"{grouping.excluding!r} leaves out what is no cell", "correct `except`")


def _check_complete(table: Table, declared: Mapping[str, Column], complete: Sequence[str]) -> None:
    """Columns whose keys decide which rows count: each once, in order, with keys as a column of `by` has them."""
    for name in complete:
        _check_declared(table, name)
        _check_keys(table, declared[name], private=False, place="complete")
    if list(complete) != sorted(set(complete)):
        _cannot("E216", table, "the columns that need a key are out of order", "name each once, in order of names")


def _check_zeros(catalog: Catalog, table: Table, grouping: Grouping) -> None:
    """Impossible combinations are of columns that a row needs a key in, and are combinations of their keys."""
    for name, within in ((grouping.zeros, grouping.complete), (grouping.excluding, grouping.by)):
        if name is None or (name == grouping.excluding and name not in catalog.zeros):
            continue
        zeros = catalog.zeros.get(name)
        if zeros is None or not zeros.columns or not set(zeros.columns) <= set(within):
            _cannot("E217", table, f"{name!r} is of columns that have no key there", "name them in `complete`")
        cells = table.cells(zeros.columns)
        if list(zeros.cells) != sorted({at for at in zeros.cells if 0 <= at < cells}):
            _cannot("E214", table, f"{name!r} leaves out what is no cell", "correct `except`")


def _check_declared(table: Table, name: str) -> None:
    if all(column.name != name for column in table.columns):
        _cannot("E201", table, f"there is no column {name!r}", "declare it under `columns` of the table")


def _check_keys(table: Table, column: Column, private: bool, place: str = "by") -> None:
    kind = _KEY_TYPES.get(column.type)
    given = (*(column.keys or ()), *(() if column.null is None else (column.null,)))
    keyless = column.keys is None if private else not column.keys
    if kind is None or (keyless and not private) or any(type(key) is not kind for key in given):
        _cannot(
            "E204",
            table,
            f"{column.name!r} cannot be in `{place}`: it is {column.type} and its keys are not",
            "give it keys of its own type; bin a decimal or a timestamp first",
        )


def _check_quantity(table: Table, declared: Mapping[str, Column], quantity: Quantity) -> None:
    for name in quantity.columns:
        _check_declared(table, name)
    _check_weight(table, declared, quantity)
    if quantity.per == "unit_cell" and quantity.kind in ("distinct", "quantile"):
        _cannot("E205", table, f"a {quantity.kind} is of rows, not of units", "leave out `clip_per`")
    if quantity.kind in ("rows", "units"):
        return
    if quantity.column is None and (quantity.kind not in ("balance", "rest") or quantity.where is None):
        _cannot("E205", table, f"a {quantity.kind} without a column", "name the column")
    if quantity.column is None or quantity.kind in ("nonnull", "balance", "rest", "distinct"):
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


def _check_weight(table: Table, declared: Mapping[str, Column], quantity: Quantity) -> None:
    """A weight is a number on the grid of its column, and no row contributes more than 62 bits."""
    weight = quantity.weight
    if weight is None:
        return
    if declared[weight.column].type not in ("integer", "decimal"):
        _cannot("E205", table, f"{weight.column!r} is no number and weighs nothing", "take an integer or a decimal")
    grid = (weight.step.numerator, weight.step.denominator, *quantity.contribution)
    if max(map(abs, grid)) > MOST:
        _cannot("E206", table, f"the weights of {weight.column!r} do not fit in 62 bits", "take a smaller `clip`")


def _check_expression(table: Table, text: str, known: Mapping[str, ColumnType], wanted: ColumnType) -> None:
    try:
        kind = parse(text, known).type
    except ExpressionError as error:
        _cannot("E212", table, f"{text!r} cannot be computed: {error.summary}", error.hint)
    if kind != wanted and (kind, wanted) != ("integer", "decimal"):
        _cannot("E212", table, f"{text!r} is {kind}, not {wanted}", "CAST it, or correct the type")


def _check_table(catalog: Catalog, table: Table, references: References) -> None:
    """What is checked of every table that is read."""
    declared = {column.name: column for column in table.columns}
    for column in table.columns:
        limits = (column.range.low, column.range.high) if column.range else ()
        if any(abs(limit) >= 2**1023 for limit in limits):
            _cannot("E206", table, f"the range of {column.name!r} is beyond a double", "narrow the range")
    for join in table.joins:
        _check_join(table, declared, join, references)
    for at, column in enumerate(table.columns):
        public = column.reference is None or any(column.name in join.add for join in table.joins)
        lenders = [join for join in table.private_joins if join.table == column.lent_by and column.name in join.add]
        if not public or (column.lent_by is not None and not lenders):
            _cannot("E208", table, f"no join adds {column.name!r}", "add it under `add` of a join")
        _check_derived(table, column, {earlier.name: earlier for earlier in _before(table, at)})
    _check_time(table, declared)
    _check_unit(table)


def _check_time(table: Table, declared: Mapping[str, Column]) -> None:
    time = table.time
    if time is None:
        return
    column = declared.get(time.column)
    if time.column == table.unit_id or (column is not None and not (column.in_source and column.type == time.type)):
        _cannot("E215", table, f"{time.column!r} cannot be the time", "take a date or timestamp column of the source")
    if time.start >= time.end:
        _cannot("E215", table, "the period has no day", "give the first day, and the first day after the last")


def _before(table: Table, at: int) -> list[Column]:
    """The columns that a derived one at that place can be computed from."""
    return [column for place, column in enumerate(table.columns) if place < at or column.derivation is None]


def _check_join(table: Table, declared: Mapping[str, Column], join: Join, references: References) -> None:
    public = references.get(join.reference)
    earlier = table.joins[: table.joins.index(join)]
    added = {name for other in earlier for name in other.add}
    if public is None or not {join.on, *join.add} <= set(public.columns):
        _cannot("E207", table, f"reference {join.reference!r} lacks a joined column", "declare its columns")
    if join.on not in declared or not (declared[join.on].in_source or join.on in added):
        _cannot("E207", table, f"{join.on!r} is no column before its join", "join on a source column")
    for name in join.add:
        if name not in declared or declared[name].reference != join.reference or name in added:
            _cannot("E207", table, f"{name!r} is not added by one join alone", "declare it once, as joined")
    if pc.count_distinct(keys := join_keys(table, join, public)).as_py() != len(keys) - keys.null_count:
        _cannot(
            "E207",
            table,
            f"{join.on!r} is not unique in reference {join.reference!r}: the join would multiply rows",
            "keep one row per key in the reference file",
        )


def _check_derived(table: Table, column: Column, before: Mapping[str, Column]) -> None:
    how = column.derivation
    if how is None:
        return
    if isinstance(how, Computed):
        known = {name: earlier.type for name, earlier in before.items()}
        _check_expression(table, how.sql, known, column.type)
        return
    of = before.get(how.of)
    if of is None:
        _cannot("E212", table, f"{column.name!r} is made from {how.of!r}, which is not there yet", "declare it before")
    if isinstance(how, Binned):
        rising = list(how.edges) == sorted(set(how.edges))
        if of.type not in ("integer", "decimal") or column.type != "text" or not rising:
            _cannot("E212", table, f"{column.name!r} cannot be made of bins", "bin a number, by rising edges, as text")
    else:
        _check_mapped(table, column, of, how)


def _check_mapped(table: Table, column: Column, of: Column, how: Mapped) -> None:
    targets: tuple[Key, ...] = tuple(key for _, key in how.pairs)
    targets += () if how.otherwise is None else (how.otherwise,)
    fit = all(type(value) is _KEY_TYPES.get(of.type) for value, _ in how.pairs)
    if not fit or any(type(key) is not _KEY_TYPES.get(column.type) for key in targets):
        _cannot("E212", table, f"{column.name!r} maps values of other types", "map values of its types")
    if any(isinstance(key, int) and abs(key) >= 2**63 for key in targets):
        _cannot("E212", table, f"{column.name!r} maps to a number beyond 64 bits", "map to smaller numbers")


def _check_unit(table: Table) -> None:
    """The id is read from the source as it is: two clamped to one limit would be one unit with the bounds of one."""
    column = id_column(table)
    if column is None:
        if table.bounds is not None or table.private_joins:
            _cannot("E211", table, "bounds and private joins need a unit id", "declare `unit_id`")
        return
    if not column.in_source or column.type not in _KEY_TYPES or (column.range and column.outside == "clamp"):
        _cannot(
            "E210",
            table,
            f"{column.name!r} cannot be the unit id",
            "take a text, integer, boolean or date column of the source, without a range that clamps",
        )
    if table.bounds is not None:
        sources = {item.name for item in table.columns if item.in_source}
        ordered = table.bounds.truncate != "sample"
        if ordered != bool(table.bounds.order_by) or not set(table.bounds.order_by) <= sources:
            _cannot("E211", table, "`first` and `last` go by columns of the source", "give `order_by`")


def _check_bounds(table: Table, grouping: Grouping) -> None:
    if table.unit_id is None and (grouping.max_groups is not None or grouping.max_rows_per_group is not None):
        _cannot("E211", table, "bounds need a unit id", "declare `unit_id`, or leave `bounds` out")


def _check_private_join(catalog: Catalog, table: Table, join: PrivateJoin, references: References) -> None:
    other = catalog.tables.get(join.table)
    if other is None or other.unit_id is None or join.on != table.unit_id:
        _cannot("E209", table, f"{join.table!r} is no table of the same units", "join on the unit id of both")
    _check_table(catalog, other, references)
    theirs, mine = types(other), {column.name: column for column in table.columns}
    for name in join.add:
        lent = mine.get(name)
        if lent is None or lent.lent_by != join.table or theirs.get(name) != lent.type:
            _cannot("E209", table, f"{name!r} is not lent by {join.table!r}", "declare it with the type it has there")
        if sum(item.add.count(name) for item in table.private_joins) != 1:
            _cannot("E209", table, f"{name!r} is lent more than once", "add it by one join")
    if any(other.column(name).lent_by is not None for name in needed(other, join.add, ())):
        _cannot("E209", table, f"{join.table!r} lends what it has borrowed", "join with the table that it comes from")
