"""Which keys do rows have together? Found once for all tables that count the same rows, then added up for each.

The tables of a workload count the rows that have a key in each of some columns (``Grouping.complete``). Nothing of such
a row is needed but the places of its keys: small whole numbers, found by the same joins as everywhere else. Where rows
repeat, the different combinations are kept, each with the number of its rows, and a table is added up from these: the
number of rows in a cell is the sum over the combinations in it, so that every count is that of a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import CellSlice
from dprelease.engines.drivers import ibis
from dprelease.engines.duck.bounds_check import check_cell_bounds
from dprelease.engines.duck.cells import narrow, placed, positions, without_zeros
from dprelease.engines.duck.columns.grid_steps import weight_steps
from dprelease.engines.duck.pipeline import PassQuery, looked_at
from dprelease.engines.duck.query import PartTotals, dense, in_62_bits
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import unit_columns
from dprelease.engines.files.decimals import grids_read
from dprelease.noise.exact import Exact

__all__ = [
    "added_to_cells",
    "cell_counts",
    "combinations_identity",
    "combined",
    "counted_columns",
    "in_their_cells",
    "passes_of",
    "rows_identity",
    "suits",
]

HELD = "held"  # the number of rows of a combination, or what they weigh; without it every row stands for itself
_MOST = 5_000_000  # combinations; of more of them the rows are kept as they are
_FITS = 2**62  # the longest number of a combination, before a remainder is taken of it
_PRIME = 2**31 - 1


def suits(asked: PassQuery) -> bool:
    """Whether what is asked are numbers of complete rows, of which no bound of the query leaves any out."""
    grouping = asked.grouping
    unbounded = grouping.max_groups is None and grouping.max_rows_per_group is None
    counts = all(item == Quantity(kind="rows", weight=item.weight) for item in asked.quantities)
    return bool(grouping.complete) and unbounded and counts and len({item.weight for item in asked.quantities}) == 1


def counted_columns(grouping: Grouping) -> tuple[str, ...]:
    """The columns that a row needs a key in to be counted, with those of ``by``, in order of their names."""
    return tuple(sorted({*grouping.complete, *grouping.by}))


def rows_identity(asked: PassQuery) -> tuple[Any, ...]:
    """What the bounded rows that a question is about depend on, and the steps beside their decimals."""
    names = [asked.table.name, *(join.table for join in asked.table.private_joins)]
    tables = [asked.catalog.tables[name] for name in names]
    grids = [tuple(grids_read(asked.catalog, table).items()) for table in tables]
    return (*(table.fingerprint() for table in tables), *grids, asked.secret)


def combinations_identity(asked: PassQuery) -> tuple[Any, ...]:
    """What the combinations that answer a question depend on, but for public references."""
    grouping, weight = asked.grouping, asked.quantities[0].weight
    return (*rows_identity(asked), grouping.where, counted_columns(grouping), asked.zeros, weight)


def passes_of(asked: PassQuery) -> set[Any]:
    """What tells a question's passes over rows from those of others; combinations are found once for all."""
    if suits(asked):
        return {combinations_identity(asked)}
    keys = {(asked.grouping, None)} if asked.grouping.private else set()  # which there are is found before
    return {(asked.grouping, asked.quantities), *keys}


def combined(stage: Stage, asked: PassQuery, tables: Sequence[Any], whole: bool) -> PartTotals:
    """The rows that count, as positions ``p<i>`` among the keys of the i-th of :func:`counted_columns`.

    Combinations with their number of rows, or what these weigh; where all rows are here and these are not few, the rows
    themselves: which of the two decides how long a count takes and nothing else.

    Args:
        stage: Keeps what is needed on the way.
        asked: The table, ``where`` and the columns.
        tables: As for ``pipeline.part_totals``.
        whole: Whether these are all rows, and not a part of them.

    Raises:
        BrokenPromiseError: If the bounded rows of some unit are more than declared; it tells no number.
    """
    table, names, unit = asked.table, counted_columns(asked.grouping), unit_columns(asked.table)
    sizes = [table.column(name).cells for name in names]
    rows = without_zeros(looked_at(stage, asked, tables), table, asked.zeros, stage.lend)
    rows = placed(rows, table, names, stage.lend)
    places = {f"p{at}": rows[f"d{at}"].cast(narrow(size)) for at, size in enumerate(sizes)}
    weight = asked.quantities[0].weight
    held = {} if weight is None else {HELD: weight_steps(rows, table, weight)}
    kept = stage.keep(rows.select(*unit, **places, **held))
    if unit:  # what is counted is made of the very rows that are checked here
        check_cell_bounds(stage, kept.group_by(unit).aggregate(held=kept.count()), table, unit, asked.grouping)
    if whole and not _repeat(stage, kept, sizes):
        return PartTotals(kept.select(*places, *held), list(places), list(held))
    number = kept[HELD].sum() if held else kept.count()
    return PartTotals(kept.group_by(list(places)).aggregate(**{HELD: number}), list(places), [HELD])


def added_to_cells(stage: Stage, asked: PassQuery, kept: Any, within: CellSlice | None) -> PartTotals:
    """The combinations added up to those of the columns of ``by``: :func:`cell_counts` makes the same counts of them.

    Args:
        stage: Lends what is needed.
        asked: The question.
        kept: Combinations with their numbers of rows.
        within: As for :func:`cell_counts`.
    """
    places = _places(asked)
    kept = kept if within is None else _inside(stage, kept, places[0], within.nodes)
    grouped = kept.group_by(places) if places else kept
    return PartTotals(grouped.aggregate(**{HELD: kept[HELD].sum()}), places, [HELD])


def _places(asked: PassQuery) -> list[str]:
    """The columns of positions among the keys of ``by``."""
    names = counted_columns(asked.grouping)
    return [f"p{names.index(name)}" for name in asked.grouping.by]


def cell_counts(stage: Stage, asked: PassQuery, kept: Any, within: CellSlice | None = None) -> tuple[Exact, ...]:
    """One box per quantity: the number of rows in every cell, from what :func:`combined` kept.

    With ``within`` only rows in its nodes are grouped, and only their cells are there: what that takes of memory grows
    with these cells, and not with those of the level.

    The engine groups by the small columns themselves, which it does in half the time that a number of the cell takes;
    that number is made of what it answers: below 10^9, for a grouping has no more cells.
    """
    grouping, places = asked.grouping, _places(asked)
    kept = kept if within is None else _inside(stage, kept, places[0], within.nodes)
    number = in_62_bits(kept[HELD].sum()) if HELD in kept.columns else kept.count()
    answer = stage.read((kept.group_by(places) if places else kept).aggregate(rows=number))
    if within is not None:  # it leaves no cell out
        cell = _cell_numbers(answer, asked, places)
        return tuple(_of_nodes(answer, cell, asked, within.nodes) for _ in asked.quantities)
    answer, at = in_their_cells(answer, asked, places)
    cells = asked.table.cells(grouping.by) - len(asked.excluded)
    return tuple(Exact(dense(answer, "rows", at, cells)) for _ in asked.quantities)


def in_their_cells(answer: Any, asked: PassQuery, places: Sequence[str]) -> tuple[Any, npt.NDArray[np.int64]]:
    """An Arrow answer without what is in no cell, and the positions of its rows among the cells.

    Args:
        answer: One row per combination of positions among the keys of ``by``.
        asked: The question.
        places: The columns of these positions, in the order of ``by``.
    """
    cell = _cell_numbers(answer, asked, places)
    left_out = np.isin(cell, asked.excluded)
    return answer.filter(pa.array(~left_out)), positions(cell[~left_out], asked.excluded)


def _cell_numbers(answer: Any, asked: PassQuery, places: Sequence[str]) -> npt.NDArray[np.int64]:
    """The row-major number of every combination, left-out cells counted."""
    cell = np.zeros(len(answer), dtype=np.int64)
    for name, place in zip(asked.grouping.by, places, strict=True):
        cell *= asked.table.column(name).cells
        cell += answer.column(place).to_numpy()
    return cell


def _inside(stage: Stage, kept: Any, place: str, nodes: Sequence[int]) -> Any:
    """The rows with one of these positions."""
    if nodes[-1] - nodes[0] == len(nodes) - 1:  # they follow one another
        return kept.filter(kept[place].between(nodes[0], nodes[-1]))
    lent = stage.lend(pa.table({"node": pa.array(nodes, pa.int64())}))
    return kept.semi_join(lent, kept[place].cast("int64") == lent.node)


def _of_nodes(answer: Any, cell: npt.NDArray[np.int64], asked: PassQuery, nodes: Sequence[int]) -> Exact:
    """The cells of these nodes alone, from the numbers of cells among all."""
    each = asked.table.cells(asked.grouping.by) // asked.table.column(asked.grouping.by[0]).cells
    node, rest = np.divmod(cell, each)
    at = np.searchsorted(np.asarray(nodes, dtype=np.int64), node) * each + rest
    return Exact(dense(answer, "rows", at, len(nodes) * each))


def _repeat(stage: Stage, kept: Any, sizes: Sequence[int]) -> bool:
    """Whether there are few combinations, and at most half as many as rows, by an estimate.

    Combinations are told apart by their number in the cross product, or by a remainder of it where that is long.
    """
    number: Any = ibis.literal(0, type="int64")
    most = 1
    for at, size in enumerate(sizes):
        if most * size > _FITS:
            number, most = number % _PRIME, _PRIME
        number = number * ibis.literal(size, type="int64") + kept[f"p{at}"].cast("int64")
        most *= size
    (row,) = stage.read(kept.aggregate(some=number.approx_nunique(), rows=kept.count())).to_pylist()
    return bool(row["some"] <= min(_MOST, row["rows"] / 2))
