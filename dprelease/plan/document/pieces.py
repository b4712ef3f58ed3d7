"""A large draw of a level is measured in pieces: one for each top-level unit, each read, drawn and committed by itself.

The units are the keys of the widest level that has more than one: states, where the top level is one nation.

Nothing of the draw changes by that: it is one step, with one sensitivity, scale and event. Proof, with all of its
conditions: docs/proofs/residual-draws.md, section 7. In short: a table or a residual of a level is a list of *slices*,
one for each node (no contrast goes across nodes), and the numbers of a node depend on the rows in it alone. The noise
of every number is independent of all others, with a scale that the plan fixed before anything was read. So the answers
of the nodes are independent given the data, and drawing them node by node, in any order and at any time, is drawing
the same random table as at once, from the same rows: why data that have changed are not accepted while a step has some
of its pieces and not all (``ledger.tables.sources``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dprelease.canonical import Value
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.table import Catalog
from dprelease.errors import BrokenPromiseError
from dprelease.noise import Measurement
from dprelease.plan.document.invariant import Invariant, Measured
from dprelease.plan.document.workload import Workload

__all__ = ["CUT_ABOVE", "MOST_UNITS", "Piece", "assembled", "in_pieces", "pieces_of"]

CUT_ABOVE = 1_000_000
"""Cells of a draw above which it is cut: below it the memory of a draw is small beside that of Python."""

MOST_UNITS = 1_000
"""Units at most: every piece is an entry of the ledger, and one of few cells saves less than it costs."""


class Piece(Value):
    """One part of every cut draw of one level: what lies under one top-level unit. Public, as the tree is.

    Attributes:
        unit: Position of the unit among the keys of its level.
        of: How many units there are.
        column: The level of the units.
        key: The key of the unit, as text.
        level: How many nodes the whole level has.
        within: The nodes under the unit.
    """

    unit: int
    of: int
    column: str
    key: str
    level: int
    within: CellSlice

    def id(self, step: str) -> str:
        """Under which name the ledger has the answer of this piece of a step; they sort as the units do."""
        return f"{step}.piece-{self.unit + 1:0{len(str(self.of))}}"

    def numbers(self, step: Measured) -> int:
        """How many numbers this piece of a step holds."""
        return (step.numbers or 0) // self.level * len(self.within.nodes)


def in_pieces(cells: int | None, level: int, keys: Sequence[int]) -> int | None:
    """In how many pieces a new plan measures a draw of a workload; a plan keeps the number that it was made with.

    Args:
        cells: The cells of the draw.
        level: Its place among the levels; it is cut by a level above it.
        keys: How many each level has, the top one first; none where there are no levels.
    """
    units = _units(keys)
    if cells is None or cells <= CUT_ABOVE or units is None or level <= units:
        return None
    return keys[units] if keys[units] <= MOST_UNITS else None


def _units(keys: Sequence[int]) -> int | None:
    """The place of the widest level with more than one key; None where there is none."""
    return next((level for level, count in enumerate(keys) if count > 1), None)


def pieces_of(
    workloads: Iterable[Workload], catalog: Catalog, measured: Iterable[Measured]
) -> dict[str, tuple[Piece, ...]]:
    """The pieces of every step that is measured in some, by the id of the step, in the order of the units."""
    cut = {each.id for each in measured if not isinstance(each, Invariant) and each.pieces is not None}
    found = {}
    for workload in (each for each in workloads if each.hierarchy is not None):
        takes = [take for take in workload.takes if take.step in cut]
        of_level = {level: _pieces(workload, level, catalog) for level in {take.level for take in takes}}
        found.update({take.step: of_level[take.level] for take in takes})
    return found


def _pieces(workload: Workload, level: int, catalog: Catalog) -> tuple[Piece, ...]:
    """Those of one level of a workload."""
    table = catalog.tables[workload.table]
    first = _units([table.column(name).cells for name in workload.levels]) or 0
    top = table.column(workload.levels[first])
    above = np.arange(top.cells)
    for parents in catalog.hierarchies[workload.hierarchy or ""].parents[first:level]:
        above = above[np.asarray(parents, dtype=np.int64)]
    order = np.argsort(above, kind="stable")  # so that the nodes of a unit rise
    parts = np.split(order, np.searchsorted(above[order], np.arange(1, top.cells)))
    return tuple(
        Piece(
            unit=unit,
            of=top.cells,
            column=top.name,
            key=str(key),
            level=len(above),
            within=CellSlice(column=workload.levels[level], nodes=tuple(nodes.tolist())),
        )
        for unit, (key, nodes) in enumerate(zip(top.keys or (), parts, strict=True))
    )


def assembled(step: Measured, pieces: Sequence[Piece], found: Mapping[str, Measurement]) -> Measurement:
    """The measurement of a whole step from those of its pieces: each node's numbers in the place of the node.

    Args:
        step: The step of the plan.
        pieces: All of it.
        found: The measurements, by their own ids.

    Raises:
        BrokenPromiseError: If they are not all of the step's numbers, each once.
    """
    level = pieces[0].level
    table: npt.NDArray[np.int64] = np.zeros((level, (step.numbers or 0) // level), dtype=np.int64)
    filled = np.zeros(level, dtype=np.int64)
    for piece in pieces:
        values, nodes = found[piece.id(step.id)].values, np.asarray(piece.within.nodes, dtype=np.int64)
        if len(values) != piece.numbers(step):
            raise BrokenPromiseError(f"a piece of {step.id} has another number of cells than planned")
        table[nodes] = values.reshape(len(nodes), -1)
        filled[nodes] += 1
    if not (filled == 1).all():
        raise BrokenPromiseError(f"the pieces of {step.id} are not all of its cells, each once")
    return Measurement(step.id, table.reshape(-1))
