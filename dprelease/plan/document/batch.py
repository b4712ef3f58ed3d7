"""Which steps share one pass over a table, and in what order the passes are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dprelease.canonical import Value
from dprelease.catalog.aggregate import Grouping
from dprelease.plan.document.invariant import Measured
from dprelease.plan.document.pieces import Piece

__all__ = ["Batch", "in_one_piece", "in_their_pieces"]

_MOST = 50  # steps of a pass

Pieces = Mapping[str, tuple[Piece, ...]]


class Batch(Value):
    """Steps that share one pass over a table.

    Attributes:
        grouping: What they share.
        selection: The step that selects the keys of all others, the first one; None: keys are public.
        steps: In the order in which they are drawn; invariants are among them.
        piece: Of which piece of the steps it is; None: they are measured as a whole.
    """

    grouping: Grouping
    selection: str | None = None
    steps: tuple[Measured, ...]
    piece: Piece | None = None

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.grouping.table

    @property
    def by(self) -> tuple[str, ...]:
        """Its key columns."""
        return self.grouping.by

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its measurements, in the order of the steps."""
        return tuple(self.id(step) for step in self.steps)

    def id(self, step: Measured) -> str:
        """Under which name the ledger has what this batch measures of a step."""
        return step.id if self.piece is None else self.piece.id(step.id)

    def numbers(self, step: Measured) -> int | None:
        """How many numbers this batch measures of a step; None where a noisy selection decides."""
        return step.numbers if self.piece is None else self.piece.numbers(step)


def in_their_pieces(steps: Sequence[Measured], pieces: Pieces) -> Iterator[Batch]:
    """One batch for each top-level unit and grouping, of the steps in pieces; those of one unit follow one another."""
    units: dict[tuple[str, str, int], dict[tuple[Grouping, Piece], list[Measured]]] = {}
    for step in steps:
        grouping = step.aggregate.grouping
        for piece in pieces.get(step.id, ()):
            of_unit = units.setdefault((grouping.table, piece.column, piece.unit), {})
            of_unit.setdefault((grouping, piece), []).append(step)
    for of_unit in units.values():
        for (grouping, piece), found in of_unit.items():
            yield Batch(grouping=grouping, steps=tuple(found), piece=piece)


def in_one_piece(measured: Sequence[Measured], selections: Mapping[str, str | None]) -> Iterator[Batch]:
    """Batches of the steps that are measured as a whole, in plan order; at most 50 steps each.

    Args:
        measured: Those steps, and invariants.
        selections: By query the step that selects its keys. It is the first one of its pass, which is not cut.
    """
    passes: dict[tuple[Grouping, str | None], list[Measured]] = {}
    for step in measured:
        served = step.answers[0].query if step.answers else ""
        key = (step.aggregate.grouping, selections.get(served))
        passes.setdefault(key, []).append(step)
    for (grouping, selection), steps in passes.items():
        size = len(steps) if selection else _MOST
        for start in range(0, len(steps), size):
            yield Batch(grouping=grouping, selection=selection, steps=tuple(steps[start : start + size]))
