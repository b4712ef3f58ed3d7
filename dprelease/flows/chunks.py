"""How the batches of a release become tasks: few enough for Prefect, many enough for every thread.

A task costs Prefect's server 17 ms and 19 KB, whatever it does; a batch can be one query of a second. So batches of
one table that follow one another share a task. Threads take the chunks in order, and the chunks become smaller
towards the end, each a share of what is left, so that all threads end at about the same time: guided self-scheduling
(Polychronopoulos and Kuck, IEEE Transactions on Computers C-36, 1987).

Steps in pieces are the longest, and come first: one task for each top-level unit, with its pieces of all such steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dprelease.plan.document import Batch

__all__ = ["LARGEST", "Chunk", "chunks"]

LARGEST = 50
"""Steps of a chunk at most, but for a batch that has more."""

_LEAST = 5  # steps of a chunk, if every thread still has one: a smaller one would save less than its task costs

_NAMED = 3  # queries in a label
_LONGEST = 40  # letters of a name in a label


@dataclass(frozen=True)
class Chunk:
    """Batches of one table that are one task.

    Attributes:
        label: Public, and of no other chunk: the table and the first of its queries.
        batches: In plan order.
    """

    label: str
    batches: tuple[Batch, ...]

    @property
    def size(self) -> int:
        """The number of steps."""
        return sum(len(batch.steps) for batch in self.batches)


def chunks(batches: Sequence[Batch], threads: int) -> tuple[Chunk, ...]:
    """One chunk for each unit of the steps in pieces; the others by half of each thread's share of the steps left.

    Of these there is one for every thread, if batches are enough.

    Args:
        batches: What is to be measured, in plan order.
        threads: That measure at once.
    """
    whole = [batch for batch in batches if batch.piece is None]
    wanted = min(threads, len(whole))
    cut: list[list[Batch]] = []
    for largest in range(LARGEST, 0, -1):
        cut = _cut(whole, largest, threads)
        if len(cut) >= wanted:
            break
    cut = [*_units(batches), *cut]
    labels = [_label(part) for part in cut]
    again = Counter(labels)
    seen: Counter[str] = Counter()
    found = []
    for label, part in zip(labels, cut, strict=True):
        seen[label] += 1
        found.append(Chunk(f"{label} #{seen[label]}" if again[label] > 1 else label, tuple(part)))
    return tuple(found)


def _units(batches: Sequence[Batch]) -> list[list[Batch]]:
    """The batches of each top-level unit together, wherever they stand: what is left of a unit is one task again."""
    units: dict[tuple[str, str, int], list[Batch]] = {}
    for batch in batches:
        if batch.piece is not None:
            units.setdefault((batch.table, batch.piece.column, batch.piece.unit), []).append(batch)
    return list(units.values())


def _cut(batches: Sequence[Batch], largest: int, threads: int) -> list[list[Batch]]:
    parts: list[list[Batch]] = []
    left = sum(len(batch.steps) for batch in batches)
    for _, of_table in groupby(batches, key=lambda batch: batch.table):
        room = 0
        for batch in of_table:
            size = len(batch.steps)
            if size > room:
                parts.append([])
                room = min(largest, max(_LEAST, -(-left // (2 * threads))))
            parts[-1].append(batch)
            room -= size
            left -= size
    return parts


def _label(batches: Sequence[Batch]) -> str:
    """``persons: income, visits_by_state, ...``, or ``persons: areas in region South``: what a person looks for."""
    queries = dict.fromkeys(answer.query for batch in batches for step in batch.steps for answer in step.answers)
    named = [_short(name) for name in queries]
    more = ["..."] if len(named) > _NAMED else []
    piece = batches[0].piece
    where = f" in {_short(piece.column)} {_short(piece.key)}" if piece is not None else ""
    return f"{batches[0].table}: {', '.join([*named[:_NAMED], *more])}{where}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
