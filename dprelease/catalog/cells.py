"""Which cells of a table there are: parts of a key column, and structural zeros, which no row can have."""

from __future__ import annotations

import numpy as np

from dprelease.canonical import Value
from dprelease.catalog.table import Key, Table, Zeros

__all__ = ["MOST_CELLS", "CellSlice", "cells_asked", "zero_cells", "zero_keys"]

MOST_CELLS = 10**7
"""Cells of one answer that other machines hand over to one: 80 MB, and several times that on their way."""


def zero_cells(zeros: Zeros, table: Table, by: tuple[str, ...]) -> tuple[int, ...]:
    """The cells of a table over more columns that have an impossible combination: row-major positions, rising.

    Args:
        zeros: The zeros of columns that are all in ``by``.
        table: Declares their keys.
        by: The columns of the cells.

    Raises:
        ValueError: If one of the columns is not in ``by``.
    """
    if not set(zeros.columns) <= set(by):
        raise ValueError(f"the combinations are of columns that the cells have not: {', '.join(zeros.columns)}")
    sizes = {name: table.column(name).cells for name in by}
    places = [by.index(name) for name in zeros.columns]
    marked = np.zeros(tuple(sizes[name] for name in zeros.columns), dtype=bool)
    marked.reshape(-1)[list(zeros.cells)] = True
    order = sorted(range(len(places)), key=places.__getitem__)
    shape = [size if name in zeros.columns else 1 for name, size in sizes.items()]
    whole = np.broadcast_to(marked.transpose(order).reshape(shape), tuple(sizes.values()))
    return tuple(np.flatnonzero(whole).tolist())


def zero_keys(zeros: Zeros, table: Table) -> tuple[tuple[Key, ...], ...]:
    """The impossible combinations as keys, in the order of their positions."""
    keys = [table.column(name).keys or () for name in zeros.columns]
    combinations = []
    for cell in zeros.cells:
        parts, rest = list[Key](), cell
        for known in reversed(keys):
            rest, place = divmod(rest, len(known))
            parts.append(known[place])
        combinations.append(tuple(reversed(parts)))
    return tuple(combinations)


class CellSlice(Value):
    """Only the rows that are in some nodes of a level, and only the cells of these nodes.

    Which rows that are depends on the level's own column alone, whatever the columns above it say: nodes that part a
    level part its rows, so that the counts over all parts are those of the whole level.

    Attributes:
        column: The level: the first column of ``by``.
        nodes: Positions among the keys of the column, rising.
    """

    column: str
    nodes: tuple[int, ...]


def cells_asked(table: Table, by: tuple[str, ...], within: CellSlice | None) -> int:
    """How many cells by some columns an answer has: all, or those of the nodes of a slice."""
    cells = table.cells(by)
    return cells if within is None else cells // table.column(within.column).cells * len(within.nodes)
