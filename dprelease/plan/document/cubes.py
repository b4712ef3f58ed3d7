"""Which groupings of a table are added up from one finer one, a cube, that is counted once for all of them.

A cube is worth it where at least three groupings ask for the same total, and where it is small: what it takes of time
and memory is bounded by its public keys alone, so that nothing about the rows decides whether there is one. Where there
is one, it also holds what two of them ask for: one more total of its pass takes less than two passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from dprelease.catalog.aggregate import SUMS_OF_ROWS, Quantity, TotalsCube
from dprelease.catalog.table import Catalog, Table
from dprelease.plan.document.batch import Batch

__all__ = ["with_cubes"]

_LEAST = 3  # groupings of a cube: of two the second one costs as much by itself
_MOST_CELLS = 100_000  # combinations of its keys, "no key" among them: a tenth of the rows of a table worth the effort
_MOST_TOTALS = 50  # in a cell: more of them are slow in one statement


def with_cubes(batches: Sequence[Batch], catalog: Catalog) -> tuple[Batch, ...]:
    """The batches, each with the cube that answers some of it; None where there is none."""
    cubes: dict[tuple[str, tuple[str, ...]], TotalsCube] = {}
    for name in dict.fromkeys(batch.table for batch in batches):
        asked: dict[tuple[str, ...], dict[Quantity, None]] = {}
        for batch in batches:
            if batch.table == name and (totals := _totals(batch, catalog.tables[name])):
                asked.setdefault(batch.by, {}).update(totals)
        for members in _families(asked, catalog.tables[name]):
            cube = _cube({by: asked[by] for by in members})
            if cube is not None:
                cubes.update({(name, by): cube for by in members})
    return tuple(_with(batch, cubes.get((batch.table, batch.by))) for batch in batches)


def _with(batch: Batch, cube: TotalsCube | None) -> Batch:
    parts = (part for step in batch.steps for part in batch.asked(step))
    helped = cube is not None and any(cube.answers(batch.grouping, part) for part in parts)
    return batch.model_copy(update={"cube": cube}) if helped else batch


def _totals(batch: Batch, table: Table) -> dict[Quantity, None]:
    """What a cube could hold of a batch."""
    if table.unit_id is not None or batch.first is not None or batch.piece is not None:
        return {}
    if not TotalsCube(by=tuple(sorted(batch.by)), quantities=()).reaches(batch.grouping):
        return {}
    parts = (part for step in batch.steps for part in batch.asked(step))
    return {part: None for part in parts if part.kind in SUMS_OF_ROWS}


def _families(groupings: Iterable[tuple[str, ...]], table: Table) -> list[list[tuple[str, ...]]]:
    """Groupings that fit into one cube, the finest ones first; each goes where the cube grows least."""

    def cells(names: Iterable[str]) -> int:
        return prod(table.column(name).cells + 1 for name in names)

    families: list[tuple[set[str], list[tuple[str, ...]]]] = []
    for by in sorted(groupings, key=lambda by: (-cells(by), by)):
        open_to = [each for each in families if cells(each[0] | set(by)) <= _MOST_CELLS]
        if open_to:
            columns, members = min(open_to, key=lambda each: cells(each[0] | set(by)) / cells(each[0]))
            columns |= set(by)
            members.append(by)
        else:
            families.append((set(by), [by]))
    return [members for _, members in families]


def _cube(asked: dict[tuple[str, ...], dict[Quantity, None]]) -> TotalsCube | None:
    """One cube of what several of these groupings ask for."""
    often: dict[Quantity, int] = {}
    for quantities in asked.values():
        for each in quantities:
            often[each] = often.get(each, 0) + 1
    if max(often.values(), default=0) < _LEAST:
        return None
    shared = sorted((each for each, times in often.items() if times > 1), key=lambda each: -often[each])[:_MOST_TOTALS]
    return TotalsCube(by=tuple(sorted({name for by in asked for name in by})), quantities=tuple(shared))
