"""Combinations of keys that the cluster keeps: a workload's draws are added up from them, and no row is read again.

A draw in pieces asks for the cells under some keys of a level, one piece after the other. The rows are read once; what
they come to (``combinations_of``) is kept on the executors' disks, encrypted as all that Spark stores
(``spark.io.encryption.enabled``, which is read back). For each level that is asked in pieces it is kept a second time,
parted by ranges of that level's own keys, so that a piece reads the ranges that its keys are in and no other. A row
counts by its own key of the level: what it has in the columns above says nothing of where it is kept.

What an executor lost is made again from the files, which must be the very same ones (``splits``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.catalog.cells import CellSlice
from dprelease.engines.duck.combinations import HELD, added_to_cells, counted_columns
from dprelease.engines.duck.pipeline import PassQuery
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.spark.jobs import TaskTotals, arrived, job_of, quietly
from dprelease.engines.spark.session import on_disks
from dprelease.engines.spark.splits import Split
from dprelease.engines.spark.tasks import (
    Sent,
    Work,
    guarded,
    own_duckdb,
    packed,
    part_added_up,
    parted,
    spread,
    unpacked,
)

__all__ = ["KeptCombinations"]


class KeptCombinations:
    """The combinations that the rows of one table have, on a cluster. Nothing is done before the first question.

    Args:
        context: The session.
        work: What tasks are told, with what the rows come to.
        splits: What they read.
    """

    def __init__(self, context: Any, work: Work, splits: Sequence[Split]) -> None:
        self._context = context
        self._work = work
        self._all = on_disks(job_of(context, work, splits))
        self._of_level: dict[str, Any] = {}

    def serves(self, context: Any, work: Work) -> bool:
        """Whether it is of this session, of so many parts, and of the same public references."""
        mine, theirs = self._work, work
        same = (mine.groups, dict(mine.asked.references)) == (theirs.groups, dict(theirs.asked.references))
        return self._context is context and same

    def cells(self, asked: PassQuery, within: CellSlice | None) -> Mapping[str, TaskTotals]:
        """The cells of a question that has rows, each of them once; errors as of ``jobs.run_job``.

        Args:
            asked: The question; the same rows count in it.
            within: Of which keys of its first column; None: all.
        """
        work, doing = replace(self._work, asked=asked), f"table {asked.table.name!r}, a job of Spark"
        if within is None:
            sent = self._all.mapPartitions(partial(kept_cells, work, None)).partitionBy(work.groups, int)
            return arrived(quietly(doing, sent.mapPartitions(partial(part_added_up, work)).collect))
        column = asked.grouping.by[0]
        if column not in self._of_level:
            parting = self._all.mapPartitions(partial(by_ranges, work)).partitionBy(work.groups, int)
            self._of_level[column] = on_disks(parting.mapPartitions(partial(part_added_up, work)))
        level, alone = self._of_level[column], partial(kept_cells, replace(work, groups=0), within)
        places = np.unique(_ranges(np.asarray(within.nodes), asked, work.groups)).tolist()
        found = arrived(quietly(doing, lambda: self._context.runJob(level, alone, places)))
        return found or {"kept": _nothing(asked)}  # where no row is in any of these ranges

    def forget(self) -> None:
        """Have the cluster drop all of it; a session that is gone has done so."""
        for each in (self._all, *self._of_level.values()):
            with suppress(Exception):
                each.unpersist()


def by_ranges(work: Work, sent: Iterable[Sent]) -> Iterator[Sent]:
    """Combinations on their way to the range that their key of the first column that is asked for is in."""
    return guarded(work, lambda: _by_ranges(work, sent))


def kept_cells(work: Work, within: CellSlice | None, sent: Iterable[Sent]) -> Iterator[Sent]:
    """Combinations added up to the cells of a question."""
    return guarded(work, lambda: _kept_cells(work, within, sent))


def _place(asked: PassQuery) -> str:
    """The column of positions among the keys of the first column of ``by``."""
    return f"p{counted_columns(asked.grouping).index(asked.grouping.by[0])}"


def _ranges(positions: npt.NDArray[Any], asked: PassQuery, ranges: int) -> npt.NDArray[np.int64]:
    """In which of so many ranges each position among the keys of the first column is."""
    found: npt.NDArray[np.int64] = positions.astype(np.int64) * ranges // asked.table.column(asked.grouping.by[0]).cells
    return found


def _nothing(asked: PassQuery) -> TaskTotals:
    places = [f"p{counted_columns(asked.grouping).index(name)}" for name in asked.grouping.by]
    empty = pa.table({name: pa.array([], pa.int64()) for name in (*places, HELD)})
    return TaskTotals(empty, tuple(places), (HELD,))


def _by_ranges(work: Work, sent: Iterable[Sent]) -> Iterator[Sent]:
    for _, (name, within, sums, data) in sent:
        rows = unpacked(data)
        places = _ranges(rows.column(_place(work.asked)).to_numpy(), work.asked, work.groups)
        for part, some in parted(rows, places, work.groups):
            yield part, (name, within, sums, packed(some))


def _kept_cells(work: Work, within: CellSlice | None, sent: Iterable[Sent]) -> Iterator[Sent]:
    with own_duckdb(work.memory) as backend:
        for _, (_, _, _, data) in sent:
            with Stage(backend, count(1)) as stage:
                cells = added_to_cells(stage, work.asked, stage.lend(unpacked(data)), within)
                yield from spread(work, stage, {"kept": (stage.keep(cells.rows), cells)})
