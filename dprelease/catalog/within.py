"""A part of the keys of one column: what is read of a level where it is measured in pieces."""

from __future__ import annotations

from dprelease.canonical import Value

__all__ = ["Within"]


class Within(Value):
    """Only the rows that are in some nodes of a level, and only the cells of these nodes.

    Which rows that are depends on the level's own column alone, whatever the columns above it say: nodes that part a
    level part its rows, so that the counts over all parts are those of the whole level.

    Attributes:
        column: The level: the first column of ``by``.
        nodes: Positions among the keys of the column, rising.
    """

    column: str
    nodes: tuple[int, ...]
