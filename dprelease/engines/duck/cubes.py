"""Totals of a coarse grouping, added up from those of a finer one (``catalog.aggregate.TotalsCube``).

Exact: the total of a cell is the sum of what its rows contribute, in any order; here it is made in two sums, both of
128 bits, and only the last one is clamped. Every row is in one combination of the cube: where it has no key in a column
it has null there, is left out of the groupings with that column, and counts in all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dprelease.catalog.aggregate import Quantity, TotalsCube
from dprelease.engines.duck.cells import narrow, placed
from dprelease.engines.duck.combinations import in_their_cells
from dprelease.engines.duck.pipeline import PassQuery, looked_at
from dprelease.engines.duck.query import PartTotals, cell_totals, dense, summed
from dprelease.engines.duck.temp_tables import Stage
from dprelease.noise.exact import Exact

__all__ = ["added_up", "cube_of"]


def cube_of(stage: Stage, asked: PassQuery, tables: Sequence[Any]) -> PartTotals:
    """A row for each combination of positions ``p<i>`` among the keys, null for none of them, with totals ``q<i>``.

    Args:
        stage: Keeps what is needed on the way.
        asked: The cube as a question: all rows of a table without units.
        tables: As for ``pipeline.part_totals``.
    """
    table, names = asked.table, asked.grouping.by
    rows = placed(looked_at(stage, asked, tables), table, names, stage.lend, outer=True)
    sizes = [table.column(name).cells for name in names]
    places = {f"p{at}": rows[f"d{at}"].cast(narrow(size)) for at, size in enumerate(sizes)}
    totals = {f"q{at}": item for at, item in enumerate(asked.quantities)}
    return cell_totals(rows.mutate(**places), table, totals, list(places))


def added_up(
    stage: Stage, asked: PassQuery, cube: TotalsCube, kept: Any, quantities: Sequence[Quantity]
) -> list[Exact]:
    """One box per quantity that the cube answers, from what :func:`cube_of` kept."""
    places = [f"p{cube.by.index(name)}" for name in asked.grouping.by]
    for place in places:
        kept = kept.filter(kept[place].notnull())
    names = [f"q{cube.quantities.index(item)}" for item in quantities]
    answer, at = in_their_cells(stage.read_totals(summed(kept, names, places).rows, places, names), asked, places)
    cells = asked.table.cells(asked.grouping.by) - len(asked.excluded)
    return [Exact(dense(answer, name, at, cells)) for name in names]
