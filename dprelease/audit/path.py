"""The function that measures a release, ``draw_batch``, on made-up data sets: with rows read once, and read anew."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dprelease.audit.pairs import AuditData, Boxes, change_of
from dprelease.audit.search import NeighbourPair, crowd
from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.engines import Engine, engine_for
from dprelease.ledger import Ledger
from dprelease.noise import Measurement
from dprelease.plan.document import Step
from dprelease.release.data.sources import Pinned
from dprelease.release.draw import DataSource, draw_batch
from dprelease.release.tuning.utility import ForgettingLedger, Unpinned
from dprelease.starter.extremes import UnitRows

__all__ = ["answers_of", "answers_read", "joint_steps", "measured_anew"]

Answers = npt.NDArray[np.int64]
_CROWD, _CROWDED = (24, 400), 2_000  # units whose rows are put into another order, and about how many rows in all
_TURNS, _TURNING = 4, 0.3  # such data sets at most; further ones than the first in this part of the time alone
_ORDER = "keys are shown in an order that is not that of their texts"
_READINGS = 1  # of each data set: a large plan takes half a minute
_IDENTITY = ("audit", "", "")


def joint_steps(data: AuditData, pair: NeighbourPair) -> list[Step]:
    """The steps that are attacked together: those of numbers, over public keys."""
    return [
        each.step
        for each in data.steps
        if each.step.id in pair.first and each.step.choosing is None and each.batch.selection is None
    ]


def answers_of(
    data: AuditData, boxes: Mapping[str, Boxes], parts: Sequence[tuple[Step, Answers]], runs: int
) -> Answers:
    """So many answers of some steps by ``draw_batch``, from totals that are handed out again: one row for each run."""
    handing, ledger = _Handing(data, boxes), ForgettingLedger(data.secret)
    source = DataSource(data.plan.catalog, data.references, cast(Engine, handing), cast(Pinned, Unpinned()))
    wanted = {step.id: places for step, places in parts}
    batches = [batch for batch in data.batches if any(step.id in wanted for step in batch.steps)]
    cut = [  # without the choice of a clip its sums are counted at the largest one: the same noise at every clip
        batch.model_copy(update={"steps": tuple(s for s in batch.steps if s.id in wanted), "clip": None})
        for batch in batches
    ]
    found = np.empty((runs, sum(map(len, wanted.values()))), dtype=np.int64)
    for run in range(runs):
        drawn = {
            each.step: each for batch in cut for each in draw_batch(batch, source, cast(Ledger, ledger), _IDENTITY)
        }
        found[run] = np.concatenate([drawn[name].values[places] for name, places in wanted.items()])
    return found


def answers_read(data: AuditData, pair: NeighbourPair, seconds: float) -> list[str]:
    """Read, count and hide both data sets a few times, from their files on: what outsiders could tell apart at once.

    Args:
        data: Makes and reads rows.
        pair: The data sets.
        seconds: About how long data sets of more units are read in two orders; it is done once at least.
    """
    shapes, found = [], []
    for units in pair.units:
        read = [_read(data, units) for _ in range(_READINGS)]
        shapes.append({tuple((name, _shape(each)) for name, each in sorted(drawn.items())) for drawn in read})
        if any(_out_of_order(each) for drawn in read for each in drawn.values()):
            found.append(_ORDER)
    if not (all(len(shape) == 1 for shape in shapes) and shapes[0] == shapes[1]):
        found.append("answers on neighbouring data sets have different shapes")
    begun = time.monotonic()
    for _ in range(_TURNS):
        found += _by_place(data, pair)
        if found or time.monotonic() - begun > _TURNING * seconds:
            break
    return list(dict.fromkeys(found))


def _by_place(data: AuditData, pair: NeighbourPair) -> list[str]:
    """What changes where nothing but the order of rows in the files does: others' rows then have a say in it.

    An engine that puts rows in no order has one by chance with many of them, and with a few often none.
    """
    steps, found = [each for each in data.steps if each.step.id in pair.second], []
    table = steps[0].step.aggregate.table
    bounds = data.tables[table].bounds
    fewest, most = _CROWD
    number = max(fewest, min(most, _CROWDED // (bounds.max_rows if bounds else 1)))
    units = [*pair.units[1], *crowd(data, table, number)]
    turned = [{name: rows[::-1] for name, rows in unit.items()} for unit in units[::-1]]
    first, second = data.boxes(units, steps), data.boxes(turned, steps)
    if any(change_of(each.step, first[each.step.id], second[each.step.id]).any() for each in steps):
        found.append("totals depend on the order of rows in the files")
    if any(each.batch.selection for each in steps) and any(map(_out_of_order, _read(data, units).values())):
        found.append(_ORDER)
    return found


def _out_of_order(answer: Measurement) -> bool:
    """Of keys that noise selects: an order by their counts would tell of these."""
    texts = [tuple(map(str, key)) for key in answer.keys or ()]
    return texts != sorted(texts)


def measured_anew(data: AuditData, units: Sequence[UnitRows]) -> dict[str, Answers]:
    """The answers of every step to a data set of these units, by ``draw_batch``, from its files on."""
    return {name: each.values for name, each in _read(data, units).items()}


def _shape(answer: Measurement) -> tuple[object, ...]:
    """Of keys that noise selects the number says nothing, for it is noisy."""
    return (None if answer.keys is not None else answer.values.shape, str(answer.values.dtype))


def _read(data: AuditData, units: Sequence[UnitRows]) -> dict[str, Measurement]:
    catalog, folder = data.write(units)
    ledger = ForgettingLedger(os.urandom(32))
    selected = {batch.selection for batch in data.batches}
    with closing(engine_for([catalog.tables[name] for name in data.tables])(folder, {})) as engine:
        source = DataSource(catalog, data.references, engine, cast(Pinned, Unpinned()))
        drawn = [
            (batch, each)
            for batch in data.batches
            for each in draw_batch(batch, source, cast(Ledger, ledger), _IDENTITY)
        ]
    return {each.step: each for batch, each in drawn if batch.selection is None or each.step in selected}


@dataclass(frozen=True)
class _Handing:
    """In place of an engine: hands out the totals of a data set that was read."""

    data: AuditData
    boxes: Mapping[str, Boxes]

    def aggregate(self, catalog: Any, grouping: Grouping, quantities: Sequence[Quantity], *_: Any, **__: Any) -> Boxes:
        """The very boxes that the engine has made."""
        return tuple(self._known[grouping, quantity] for quantity in quantities)

    @cached_property
    def _known(self) -> dict[tuple[Grouping, Quantity], Any]:
        found = {}
        for batch in self.data.batches:
            for step in batch.steps:
                if step.id in self.boxes:
                    pairs = product(batch.groupings(step), batch.asked(step))
                    found.update(dict(zip(pairs, self.boxes[step.id], strict=True)))
        return found
