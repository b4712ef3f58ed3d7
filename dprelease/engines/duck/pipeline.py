"""One pass: from loaded and bounded tables to what is asked about their cells, in boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.catalog.aggregate import Grouping, Quantity, left_out_of
from dprelease.catalog.reference import References, ReferenceTable
from dprelease.catalog.table import Catalog, Join, Key, PrivateJoin, Table, Zeros
from dprelease.engines.declared import counts_alone, needed, read_by
from dprelease.engines.drivers import ibis
from dprelease.engines.duck.bounding import bounded_cells, bounded_counts, bounded_pairs
from dprelease.engines.duck.bounds_check import check_all_counted, check_cell_bounds
from dprelease.engines.duck.cells import CELL, cell_columns, celled, chosen, completed, positions, without_zeros
from dprelease.engines.duck.columns.computed_columns import Lend, evaluated, with_derived
from dprelease.engines.duck.query import (
    PartTotals,
    cell_totals,
    dense,
    different_values,
    grid_counts,
    paired,
    summed,
)
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import our_name, unit_columns, unit_name, unit_text
from dprelease.engines.files.decimals import grid_name
from dprelease.engines.files.rows import _as_texts, join_keys, typed_with_steps
from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys

__all__ = [
    "DIFFERENT",
    "PassQuery",
    "alike",
    "answers",
    "lent_matches",
    "looked_at",
    "occurring",
    "part_keys",
    "part_totals",
    "privately_joined",
    "publicly_joined",
]

DIFFERENT = "different"  # the number of values of a cell, of some of them that were counted already
Keys = Sequence[tuple[Key, ...]]
Named = Mapping[str, Quantity]


@dataclass(frozen=True, repr=False)
class PassQuery:
    """What one pass is to answer; the secret in it is not shown."""

    catalog: Catalog
    grouping: Grouping
    quantities: tuple[Quantity, ...]
    references: References
    secret: bytes

    @property
    def table(self) -> Table:
        """The table that is read."""
        return self.catalog.tables[self.grouping.table]

    @property
    def excluded(self) -> tuple[int, ...]:
        """The cells that are left out."""
        return left_out_of(self.grouping, self.catalog)

    @property
    def zeros(self) -> Zeros | None:
        """The combinations that no row that counts has."""
        name = self.grouping.zeros
        return self.catalog.zeros[name] if name is not None else None

    def of(self, *kinds: str) -> Named:
        """The quantities of some kinds, by the names that they have in a pass."""
        return {f"q{at}": item for at, item in enumerate(self.quantities) if item.kind in kinds}

    def columns(self, asked: Named, rows: Any) -> list[str]:
        """Our names of the columns that some quantities look at; of those of steps where the rows have them."""
        names = {name for item in asked.values() for name in item.columns}
        read = [our_name(self.table, name) for name in sorted(read_by(self.table, names, _conditions(asked.values())))]
        measured = [item for item in asked.values() if item.kind in ("sum", "square", "quantile")]
        grids = [grid_name(our_name(self.table, str(item.column)), item.step) for item in measured]
        weights = [item.weight for item in asked.values() if item.weight is not None]
        grids += [grid_name(our_name(self.table, weight.column), weight.step) for weight in weights]
        return [*read, *(name for name in dict.fromkeys(grids) if name in rows.columns)]


def _conditions(quantities: Iterable[Quantity]) -> list[str | None]:
    return [item.where for item in quantities]


_MANY = 8  # totals of a statement from which on a view is worth its own
_SUMS = ("rows", "nonnull", "balance", "rest", "sum", "square", "units")


def part_totals(stage: Stage, asked: PassQuery, tables: Sequence[Any], keys: Keys | None) -> dict[str, PartTotals]:
    """What some rows come to, which :func:`answers` are made of: totals, values and places on grids, by cell.

    Args:
        stage: Lends and keeps tables.
        asked: The question.
        tables: The loaded rows of the table, then of what each of its private joins adds from, bounded as declared: all
            rows, or all rows of some units.
        keys: The cells, where keys are private.
    """
    rows = _rows(stage, asked, tables)
    sums, distinct, quantiles = asked.of(*_SUMS), asked.of("distinct"), asked.of("quantile")
    by_row = {**distinct, **quantiles}
    if asked.table.unit_id is None:
        rows = _in_cells(stage, asked, rows, keys)
        readings = bool(sums) + len(distinct) + len({_histogram(item) for item in quantiles.values()})
        if readings > 1:
            rows = stage.keep(rows.select(CELL, *asked.columns({**sums, **by_row}, rows)))
        elif len(sums) >= _MANY:
            rows = stage.seen(rows)
        totals = {"sums": cell_totals(rows, asked.table, sums, [CELL])} if sums else {}
    elif _only_counts(asked, by_row):
        totals = {"sums": _counts(stage, asked, rows)}
    else:
        rows, pairs = _bounded(stage, asked, rows, by_row)
        totals = {"sums": summed(_in_cells(stage, asked, pairs, keys), list(sums))} if sums else {}
        rows = _in_cells(stage, asked, rows, keys) if by_row else rows
    values = {name: different_values(rows, asked.table, item) for name, item in distinct.items()}
    grids = {_histogram(item): grid_counts(rows, asked.table, alike(item)) for item in quantiles.values()}
    return {**totals, **values, **grids}


def answers(stage: Stage, asked: PassQuery, totals: Mapping[str, Any], keys: Keys | None) -> tuple[Any, ...]:
    """One box per quantity.

    Args:
        stage: Reads tables.
        asked: The question.
        totals: The rows of :func:`part_totals` of all rows, or of their parts added up.
        keys: As there.
    """
    boxes: dict[str, Any] = {}
    if sums := asked.of(*_SUMS):
        answer = stage.read_totals(totals["sums"], [CELL], list(sums))
        boxes |= {name: _boxed(asked, answer, name, keys) for name in sums}
    for name in asked.of("distinct"):
        answer = stage.read(totals[name].group_by(CELL).aggregate(**{name: _different(totals[name])}))
        boxes[name] = _boxed(asked, answer, name, keys)
    histograms: dict[str, ExactHistogram] = {}  # several quantiles of one column share theirs
    for name, item in asked.of("quantile").items():
        if (place := _histogram(item)) not in histograms:
            histograms[place] = _histogrammed(asked, stage.read(totals[place]), keys)
        boxes[name] = histograms[place]
    return tuple(boxes[f"q{at}"] for at in range(len(asked.quantities)))


def _different(values: Any) -> Any:
    """How many rows there are: each of them is one value, or several parts of the values were counted by themselves."""
    return values[DIFFERENT].sum() if DIFFERENT in values.columns else values.count()


def part_keys(stage: Stage, asked: PassQuery, tables: Sequence[Any]) -> PartTotals:
    """The private keys that some rows have, each with the number of units that have it; see :func:`part_totals`."""
    rows = _rows(stage, asked, tables)
    if asked.table.unit_id is not None:
        _, rows = _bounded(stage, asked, rows, {})
    within = cell_columns(asked.grouping)
    return PartTotals(rows.group_by(within).aggregate(held=rows.count()), within, ["held"])


def occurring(stage: Stage, asked: PassQuery, totals: Any) -> ExactKeys:
    """The private keys that occur, in the order of their texts, with the number of units that have each of them."""
    held_by_key = stage.read(totals)
    parts = [held_by_key.column(name).to_pylist() for name in cell_columns(asked.grouping)]
    units = map(int, held_by_key.column("held").to_pylist())
    held = sorted(zip(zip(*parts, strict=True), units, strict=True), key=_texts)
    return ExactKeys([key for key, _ in held], np.array([number for _, number in held], dtype=np.int64))


def _texts(held: tuple[tuple[Key, ...], int]) -> tuple[str, ...]:
    return tuple(str(part).lower() if isinstance(part, bool) else str(part) for part in held[0])


def _rows(stage: Stage, asked: PassQuery, tables: Sequence[Any]) -> Any:
    """The rows that are looked at, joined and derived, with their cells; nothing of the query is bounded yet."""
    table, grouping = asked.table, asked.grouping
    rows = looked_at(stage, asked, tables)
    rows = completed(rows, table, [name for name in grouping.complete if name not in grouping.by], stage.lend)
    rows = without_zeros(rows, table, asked.zeros, stage.lend)
    return celled(rows, table, grouping, asked.excluded, stage.lend)


def looked_at(stage: Stage, asked: PassQuery, tables: Sequence[Any]) -> Any:
    """The rows that ``where`` keeps, joined and derived, wherever they fall; arguments as for :func:`answers`."""
    table, grouping = asked.table, asked.grouping
    rows = tables[0]
    for join, matches in zip(table.private_joins, lent_matches(stage, asked, tables[1:]), strict=True):
        rows = privately_joined(rows, table, join, asked.catalog.tables[join.table], matches)
    names = {*grouping.by, *grouping.complete, *(name for item in asked.quantities for name in item.columns)}
    wanted = needed(table, names, [grouping.where, *_conditions(asked.quantities)])
    rows = _widened(stage, asked, rows, table, wanted)
    if grouping.where is not None:
        rows = rows.filter(evaluated(grouping.where, rows, table))
    return rows


def lent_matches(stage: Stage, asked: PassQuery, tables: Sequence[Any]) -> list[Any]:
    """What each private join matches rows with: of the bounded rows of its table, with what is made of them there."""
    lenders = [(asked.catalog.tables[join.table], join.add) for join in asked.table.private_joins]
    return [
        _widened(stage, asked, rows, other, needed(other, added, ()))
        for (other, added), rows in zip(lenders, tables, strict=True)
    ]


def _widened(stage: Stage, asked: PassQuery, rows: Any, table: Table, wanted: frozenset[str]) -> Any:
    """Rows with the wanted columns of public joins and derivations."""
    rows = publicly_joined(rows, table, wanted, asked.references, stage.lend)
    return with_derived(rows, table, wanted, stage.lend)


def _bounded(stage: Stage, asked: PassQuery, rows: Any, by_row: Named) -> tuple[Any, Any]:
    """The bounded rows, kept where something is asked of each, and one row per unit and cell; both are checked.

    Whatever is handed on is made of the pairs, or of the very rows that they were counted from. Where nothing is asked
    of single rows, and no row of a pair has to be chosen, the pairs of all rows are bounded, and there are no rows.
    """
    table, grouping, sums = asked.table, asked.grouping, asked.of(*_SUMS)
    within = [*unit_columns(table), *cell_columns(grouping)]
    if not by_row and (grouping.max_rows_per_group is None or counts_alone(sums.values())):
        pairs = _bounded_pairs(stage, asked, rows, sums, within)
        check_cell_bounds(stage, pairs, table, unit_columns(table), grouping)
        return None, _with_counts(pairs, sums)
    wanted = asked.columns({**sums, **by_row}, rows)
    rows = bounded_cells(stage, rows, table, grouping, asked.secret, wanted)
    rows = stage.keep(rows) if by_row else rows
    pairs = stage.keep(paired(rows, table, sums, within))
    check_cell_bounds(stage, pairs, table, unit_columns(table), grouping)
    return rows, pairs


def _only_counts(asked: PassQuery, by_row: Named) -> bool:
    """Whether all that is asked are numbers of rows and of units in public cells."""
    return not (by_row or asked.grouping.private) and counts_alone(asked.quantities)


def _counts(stage: Stage, asked: PassQuery, rows: Any) -> PartTotals:
    """Numbers of bounded rows and units by cell, which were held against the bounds."""
    found = bounded_counts(stage, rows, asked.table, asked.grouping, asked.secret)
    columns = {name: found.units if _once(item) else found.rows for name, item in asked.of(*_SUMS).items()}
    return PartTotals(stage.lend(pa.table({CELL: found.cells, **columns})), [CELL], list(columns))


def _once(quantity: Quantity) -> bool:
    """Whether all rows of a unit in a cell are one."""
    return quantity.per == "unit_cell" or quantity.kind == "units"


def _bounded_pairs(stage: Stage, asked: PassQuery, rows: Any, sums: Named, within: Sequence[str]) -> Any:
    """One row per unit and cell that the bounds leave, with the number of its rows and what is more than a number."""
    table, grouping = asked.table, asked.grouping
    more = {name: item for name, item in sums.items() if not counts_alone([item])}
    pairs = stage.keep(paired(rows, table, more, within))
    if grouping.max_groups is None and grouping.max_rows_per_group is None:
        return pairs
    if grouping.max_rows_per_group is not None:  # what is capped proves nothing of how it was counted
        check_all_counted(stage, rows, pairs, table)
    kept = stage.keep(bounded_pairs(stage, pairs, table, grouping, asked.secret))
    stage.forget(pairs)
    return kept


def _with_counts(pairs: Any, sums: Named) -> Any:
    """Pairs with the contributions that are numbers of their rows, or 1 where all rows of a pair are one."""
    one = ibis.literal(1, type="int64")
    return pairs.mutate(
        **{name: one if _once(item) else pairs["held"] for name, item in sums.items() if counts_alone([item])}
    )


def _in_cells(stage: Stage, asked: PassQuery, rows: Any, keys: Keys | None) -> Any:
    """Rows with the number of their cell; those outside the chosen keys are dropped."""
    return rows if keys is None else chosen(rows, asked.table, asked.grouping, keys, stage.lend)


def _cells(asked: PassQuery, keys: Keys | None) -> int:
    return asked.table.cells(asked.grouping.by) - len(asked.excluded) if keys is None else len(keys)


def _boxed(asked: PassQuery, answer: Any, name: str, keys: Keys | None) -> Exact:
    at = positions(answer.column(CELL).to_numpy(), asked.excluded)
    return Exact(dense(answer, name, at, _cells(asked, keys)))


def _histogrammed(asked: PassQuery, answer: Any, keys: Keys | None) -> ExactHistogram:
    """The box of a quantile, and of all others of its column."""
    counts = answer.column("count").cast(pa.int64()).to_numpy()
    cell, value = (answer.column(name).to_numpy() for name in (CELL, "value"))
    order = np.lexsort((value, cell))
    cell = positions(cell, asked.excluded)
    return ExactHistogram(_cells(asked, keys), cell[order], value[order], counts[order])


def alike(quantity: Quantity) -> Quantity:
    """What a quantile's histogram depends on."""
    return quantity.model_copy(update={"at": None})


def _histogram(quantity: Quantity) -> str:
    """The name of a quantile's histogram among the totals of a pass."""
    return f"grid of {alike(quantity).fingerprint()}"


def publicly_joined(rows: Any, table: Table, wanted: frozenset[str], references: References, lend: Lend) -> Any:
    """Left joins with the references that add something wanted; their keys are unique, so no row is doubled."""
    for at, join in enumerate(table.joins):
        if wanted & set(join.add):
            public = lend(_reference_table(table, join, references[join.reference], at))
            matching = rows[our_name(table, join.on)] == public[f"r{at}"]
            rows = rows.left_join(public, matching).drop(f"r{at}")
    return rows


def _reference_table(table: Table, join: Join, public: ReferenceTable, at: int) -> Any:
    """The key and the added columns of a reference, read as the table declares them."""
    columns = {f"r{at}": join_keys(table, join, public)}
    for name in join.add:
        column = table.column(name)
        arrays = typed_with_steps(column, _as_texts(public.columns[name]), (), column.grids)
        ours = our_name(table, name)
        columns |= dict(zip([ours, *(grid_name(ours, step) for step in column.grids)], arrays, strict=True))
    return pa.table(columns)


def privately_joined(rows: Any, table: Table, join: PrivateJoin, other: Table, matches: Any) -> Any:
    """A left join on the unit id with the rows of another confidential table, at most ``max_matches`` of each unit.

    A row meets only rows of its own unit, so a change of one unit changes joined rows of that unit alone; each of
    its rows becomes at most ``max_matches`` rows. A row without a match, or without an id, stays, with nulls.

    Args:
        rows: The rows of ``table``.
        table: The declaration.
        join: One of its private joins.
        other: The table that it names.
        matches: Bounded rows of ``other``, with the columns that the join adds.
    """
    place = f"m{table.private_joins.index(join)}"
    left, right = rows[unit_name(table)], matches[unit_name(other)]
    if left.type() != right.type():
        left, right = unit_text(rows, table), unit_text(matches, other)
    added = {our_name(table, name): matches[our_name(other, name)] for name in join.add}
    for name in join.add:
        for step in table.column(name).grids:
            if (theirs := grid_name(our_name(other, name), step)) in matches.columns:
                added[grid_name(our_name(table, name), step)] = matches[theirs]
    lent = matches.select(**{place: right}, **added)
    return rows.left_join(lent, left == lent[place]).drop(place)
