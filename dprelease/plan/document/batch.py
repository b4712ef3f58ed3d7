"""Which steps share one pass over a table, and in what order the passes are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dprelease.canonical import Value
from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.expressions.expression import ExpressionError, both_hold
from dprelease.catalog.table import Catalog
from dprelease.plan.document.invariant import Measured
from dprelease.plan.document.pieces import Piece
from dprelease.plan.document.step import Step

__all__ = ["Batch", "in_one_piece", "in_their_pieces", "step_of_clip"]

_MOST = 50  # steps of a pass, and of a transaction of the ledger
_NUMBERS = 2_000_000  # that these steps hold together, unless it is one step alone: all of them are in memory at once

Pieces = Mapping[str, tuple[Piece, ...]]


class Batch(Value):
    """Steps that share one pass over a table.

    Attributes:
        grouping: What they share. Where they differ in nothing but their ``where``, it has none, and ``moved`` has it.
        selection: The step that selects the keys of all others, the first one; None: keys are public.
        clip: The step that chooses the clip of all others, the first one; None: no clip is chosen.
        steps: In the order in which they are drawn; invariants are among them.
        piece: Of which piece of the steps it is; None: they are measured as a whole.
        cube: What totals of it are added up from; None: all are counted from the rows.
        moved: By the id of a step what the pass counts for it, where its ``where`` is now one of its quantities.
    """

    grouping: Grouping
    selection: str | None = None
    clip: str | None = None
    steps: tuple[Measured, ...]
    piece: Piece | None = None
    cube: TotalsCube | None = None
    moved: dict[str, tuple[Quantity, ...]] = {}

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

    @property
    def first(self) -> str | None:
        """The step that must be drawn and committed before the others, for it decides what these count."""
        return self.selection if self.selection is not None else self.clip

    def at_clip(self, clip: int) -> Batch:
        """The same pass, its sums clipped where it was chosen, in steps of the column."""
        moved = {step.id: tuple(part.at_clip(clip) for part in step.parts) for step in self.steps}
        return self.model_copy(update={"moved": moved})

    def asked(self, step: Measured) -> tuple[Quantity, ...]:
        """What the pass counts for a step: its parts, each with the conditions that the grouping does not have."""
        return self.moved.get(step.id, step.parts)

    def groupings(self, step: Measured) -> tuple[Grouping, ...]:
        """In which cells they are counted: those of the pass; of a step over tables those of each, by its own pass."""
        return step.groupings if len(step.groupings) > 1 else (self.grouping,)

    def passes(self, steps: Iterable[Measured]) -> dict[Grouping, tuple[Quantity, ...]]:
        """All that is counted for some of its steps, once each, by the cells that it is counted in."""
        found: dict[Grouping, dict[Quantity, None]] = {}
        for step in steps:
            for grouping in self.groupings(step):
                found.setdefault(grouping, {}).update(dict.fromkeys(self.asked(step)))
        return {grouping: tuple(quantities) for grouping, quantities in found.items()}

    @property
    def questions(self) -> dict[Grouping, tuple[Quantity, ...]]:
        """All that an engine is asked, but which keys there are; of a pass without anything else, its cells alone."""
        rest = [step for step in self.steps if step.id != self.selection]
        return self.passes(rest) or {self.grouping: ()}

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


def in_one_piece(
    measured: Sequence[Measured], selections: Mapping[str, str | None], catalog: Catalog
) -> Iterator[Batch]:
    """Batches of the steps that are measured as a whole, in plan order; at most 50 steps each.

    Args:
        measured: Those steps, and invariants.
        selections: By query the step that selects its keys. It is the first one of its pass, which is not cut.
        catalog: What is declared.
    """
    passes: dict[tuple[Grouping, str | None, str | None], list[tuple[Measured, tuple[Quantity, ...]]]] = {}
    for step in measured:
        served = step.answers[0].query if step.answers else ""
        clip = step_of_clip(step)
        grouping, parts = _shared(step, catalog) if clip is None else (step.aggregate.grouping, step.parts)
        passes.setdefault((grouping, selections.get(served), clip), []).append((step, parts))
    for (grouping, selection, clip), found in passes.items():
        for part in [found] if selection or clip else _cut(found):
            steps = tuple(step for step, _ in part)
            own = {step.aggregate.grouping for step in steps}
            if len(own) == 1:  # rows that nobody looks at are left out once, and not for each number
                yield Batch(grouping=own.pop(), selection=selection, clip=clip, steps=steps)
            else:
                moved = {step.id: parts for step, parts in part}
                yield Batch(grouping=grouping, selection=selection, steps=steps, moved=moved)


def step_of_clip(step: Measured) -> str | None:
    """The step that chooses the clip of a step, itself where that is what it does; None: no clip is chosen."""
    if not isinstance(step, Step):
        return None
    return step.id if step.is_clip else step.clipped_by


def _shared(step: Measured, catalog: Catalog) -> tuple[Grouping, tuple[Quantity, ...]]:
    """The grouping of a step without its ``where``, and its quantities with it; as they are where it must stay.

    Moving it changes no number where the keys are public and no bound of the query acts between it and the cells: then
    all that follows looks at one row at a time, and a row that does not count adds nothing to any total
    (docs/decisions/0060-shared-passes.md). A table of complete rows is counted in another way, and a balance weighs the
    rows that count against others, as a rest leaves them out: they keep the rows that are looked at as they are.
    """
    grouping = step.aggregate.grouping
    bounded = grouping.max_groups is not None or grouping.max_rows_per_group is not None
    balanced = any(part.kind in ("balance", "rest") for part in step.parts)
    if grouping.where is None or grouping.private or grouping.complete or bounded or balanced:
        return grouping, step.parts
    types = {column.name: column.type for column in catalog.tables[grouping.table].columns}
    try:
        moved = [part.model_copy(update={"where": both_hold(grouping.where, part.where, types)}) for part in step.parts]
    except ExpressionError:  # the two together are too long to write
        return grouping, step.parts
    return grouping.model_copy(update={"where": None}), tuple(moved)


def _cut(found: Sequence[tuple[Measured, tuple[Quantity, ...]]]) -> list[list[tuple[Measured, tuple[Quantity, ...]]]]:
    """Parts of few enough steps, and few enough numbers, to be measured at once."""
    parts: list[list[tuple[Measured, tuple[Quantity, ...]]]] = []
    held = 0
    for step, quantities in found:
        held += step.numbers or 0
        if not parts or len(parts[-1]) == _MOST or held > _NUMBERS:
            parts.append([])
            held = step.numbers or 0
        parts[-1].append((step, quantities))
    return parts
