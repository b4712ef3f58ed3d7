"""One batch of steps, measured once. The only place where exact values exist: they are made here and die here.

The charge is durable before this is called. Each answer is committed under (release, period, plan, step), that of a
piece of a step under an id of its own, and handed on only as the ledger returned it: the first commit wins, and a later
draw for the same key is thrown away unseen. The answers of a batch are committed in one transaction, all of them or
none, but for a selection of keys and a choice of a clip: what the others count over, and where they clip, is what the
ledger has. Nothing between the read and the commit can fail because of a value. A declared invariant is committed as it
is, once like all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import References
from dprelease.catalog.table import Catalog, Key
from dprelease.engines import Engine
from dprelease.errors import BrokenPromiseError, DpReleaseError
from dprelease.failpoints import hit
from dprelease.ledger import Ledger, StepKey
from dprelease.noise import (
    JOINT_MECHANISMS,
    MECHANISMS,
    SELECTIONS,
    TABLES_MECHANISMS,
    Exact,
    ExactHistogram,
    ExactKeys,
    ExponentialClip,
    ExponentialQuantile,
    ExponentialTopK,
    Measurement,
    OptimalSelection,
    Sampler,
)
from dprelease.noise.mechanisms.factor import counted_classes, draw_factor
from dprelease.noise.mechanisms.residual import draw_residual
from dprelease.noise.mechanisms.shared import draw_together, weighted_together
from dprelease.noise.unprotected import as_they_are
from dprelease.plan.document import Batch, Invariant, Measured, Piece, Step
from dprelease.release.data.earlier_periods import at_period, periods_read
from dprelease.release.data.sources import Pinned, tables_read

__all__ = ["Box", "DataSource", "draw_batch", "hidden", "selected_keys"]

Box = Exact | ExactHistogram
Keys = tuple[tuple[Key, ...], ...]
Identity = tuple[str, str, str]


@dataclass(frozen=True)
class DataSource:
    """Where the rows of a release come from.

    Attributes:
        catalog: The tables, with their sources as the engine shall read them.
        references: Public references, already held against the plan.
        engine: What reads and aggregates.
        pinned: The state of the data that the release is measured from.
        sampler: What draws the noise, as the reservation has recorded it.
    """

    catalog: Catalog
    references: References
    engine: Engine
    pinned: Pinned
    sampler: Sampler = "native"


def draw_batch(
    batch: Batch, source: DataSource, ledger: Ledger, identity: tuple[str, str, str]
) -> tuple[Measurement, ...]:
    """Read, aggregate, add noise and commit every step of a batch that has no answer yet.

    Args:
        batch: Steps that share one pass over a table.
        source: Where the rows come from.
        ledger: What remembers; the reservation must be open.
        identity: (release, period, plan fingerprint).

    Returns:
        The committed measurement of every step, in the order of the batch.

    Raises:
        DpReleaseError: Errors of engine and ledger, which hold no data.
        BrokenPromiseError: For anything else, by class and step only: its own text may hold a value.
    """
    run = _Run(batch, source, ledger, identity)
    known = ledger.stored_all(run.key(step) for step in batch.steps)
    stored = {step.id: known[run.key(step)] for step in batch.steps if run.key(step) in known}
    missing = [step for step in batch.steps if step.id not in stored]
    unexpected = ""
    try:
        if missing:
            stored.update(run.measure(missing, stored))
    except DpReleaseError:
        raise
    except Exception as error:
        unexpected = type(error).__name__
    if unexpected:
        # Outside the except block, so that no traceback carries the first error along.
        raise BrokenPromiseError(
            f"{unexpected} while measuring {', '.join(step.id for step in missing)}",
            hint="the release stays charged; run the same command again to resume it",
        )
    return tuple(stored[step.id] for step in batch.steps)


@dataclass(frozen=True)
class _Run:
    """One batch on its way."""

    batch: Batch
    source: DataSource
    ledger: Ledger
    identity: Identity

    def key(self, step: Measured) -> StepKey:
        return StepKey(*self.identity, self.batch.id(step))

    def measure(self, missing: Sequence[Measured], stored: Mapping[str, Measurement]) -> dict[str, Measurement]:
        hit("draw.begun")
        truncates = self.source.catalog.tables[self.batch.table].unit_id is not None
        secret = self.ledger.secret(*self.identity) if truncates else b""
        committed: dict[str, Measurement] = {}
        keys: Keys | None = None
        if self.batch.selection is not None:
            # What the others count over are the keys as committed, not as drawn: another process may have been first.
            chosen = stored.get(self.batch.selection)
            if chosen is None:
                (first,) = (each for each in missing if each.id == self.batch.selection and isinstance(each, Step))
                chosen = committed[first.id] = self._select(first, secret)
            keys = chosen.keys or ()
        if self.batch.clip is not None:
            # Where the others clip is what was committed, too: a run that goes on after it was killed has that clip.
            return self._clipped(missing, stored, secret)
        return {**committed, **self._drawn(missing, secret, keys)}

    def _clipped(
        self, missing: Sequence[Measured], stored: Mapping[str, Measurement], secret: bytes
    ) -> dict[str, Measurement]:
        """The clip first, committed by itself unless it was, then what is clipped there."""
        first = [step for step in missing if step.id == self.batch.clip]
        alone = replace(self, batch=self.batch.model_copy(update={"clip": None}))
        committed = alone._drawn(first, secret, None) if first else {}
        clip = {**stored, **committed}[str(self.batch.clip)]
        rest = [step for step in missing if step.id != self.batch.clip]
        at_clip = replace(alone, batch=alone.batch.at_clip(int(clip.values[0])))
        return {**committed, **(at_clip._drawn(rest, secret, None) if rest else {})}

    def _drawn(self, missing: Sequence[Measured], secret: bytes, keys: Keys | None) -> dict[str, Measurement]:
        """Read, aggregate, add noise and commit; the keys of the cells where noise has selected them."""
        rest = [step for step in missing if step.id != self.batch.selection]
        passes = self.batch.passes(rest)
        boxes = {grouping: self._aggregate(grouping, asked, secret, keys) for grouping, asked in passes.items()}
        hit("draw.aggregated")
        drawn: dict[StepKey, Measurement] = {}
        for step in rest:
            counted = product(self.batch.groupings(step), self.batch.asked(step))
            exact = [boxes[grouping][quantity] for grouping, quantity in counted]
            if isinstance(step, Step) and step.series is not None:
                exact += self._of_earlier_periods(step, secret)
            noisy = Measurement(self.batch.id(step), hidden(step, exact, self.source.sampler, self.batch.piece))
            hit("draw.drawn")
            numbers = self.batch.numbers(step) if keys is None else len(keys) * len(step.parts)
            if len(noisy.values) != numbers:
                raise BrokenPromiseError(f"step {step.id} has another number of cells than planned")
            drawn[self.key(step)] = noisy
        kept = self.ledger.commit_all(drawn) if drawn else {}
        return {step.id: kept[self.key(step)] for step in rest}

    def _of_earlier_periods(self, step: Step, secret: bytes) -> list[Box]:
        """What a draw of a series reads beside its own period, the newest first: the same of the rows of each."""
        read = () if step.series is None else periods_read(self.identity[1], step.series)
        (grouping,), (quantity,) = self.batch.groupings(step), self.batch.asked(step)
        found = []
        for period in read[1:]:
            catalog = at_period(self.source.catalog, self.batch.table, period)
            found.append(self._aggregate(grouping, [quantity], secret, None, catalog)[quantity])
        if step.series is None or len(found) != len(step.series.read) - 1:
            raise BrokenPromiseError(f"step {step.id} reads periods that there are not")
        return found

    def _aggregate(
        self,
        grouping: Grouping,
        asked: Sequence[Quantity],
        secret: bytes,
        keys: Keys | None,
        catalog: Catalog | None = None,
    ) -> dict[Quantity, Box]:
        source, batch = self.source, self.batch
        within = None if batch.piece is None else batch.piece.within
        with source.pinned.reading(tables_read(source.catalog, batch.table)):
            exact = source.engine.aggregate(
                source.catalog if catalog is None else catalog,
                grouping,
                asked,
                source.references,
                secret=secret,
                keys=keys,
                within=within,
                cube=batch.cube if grouping == batch.grouping else None,
            )
        return dict(zip(asked, exact, strict=True))

    def _select(self, step: Step, secret: bytes) -> Measurement:
        """Which keys appear; the ones that do not are known to nobody afterwards."""
        source = self.source
        with source.pinned.reading(tables_read(source.catalog, self.batch.table)):
            occurring = source.engine.units_by_key(
                source.catalog, self.batch.grouping, source.references, secret=secret
            )
        keys = selected_keys(step, occurring, source.sampler)
        drawn = Measurement(step.id, np.ones(len(keys), dtype=np.int64), keys=keys)
        return self.ledger.commit(self.key(step), drawn)


def selected_keys(step: Step, occurring: ExactKeys, sampler: Sampler) -> Keys:
    """The keys that a noisy selection shows."""
    if step.selecting is None:
        raise BrokenPromiseError(f"step {step.id} selects keys without a threshold")
    if step.mechanism == "optimal_selection":
        each = step.selecting.delta / step.sensitivity.l0
        return OptimalSelection().draw(occurring, 1 / step.scale, each, step.selecting.left_out)
    return SELECTIONS[step.mechanism].draw(occurring, step.scale, step.selecting.threshold, sampler)


def hidden(step: Measured, exact: Sequence[Box], sampler: Sampler, piece: Piece | None = None) -> npt.NDArray[np.int64]:
    """The noisy values of a step, of a joint one quantity after the other; of an invariant the very values.

    Those of a piece are the step's own numbers for the nodes of the piece, at the step's scale
    (``plan.document.pieces``).
    """
    if isinstance(step, Invariant):
        (box,) = exact
        if not isinstance(box, Exact):
            raise BrokenPromiseError(f"invariant {step.id} is no count")
        return as_they_are(box)
    if step.choosing is not None:
        return _chosen(step, exact[0])
    if step.factor is not None:
        classes = step.aggregate.quantity.classes
        exact = [counted_classes(box, classes) if isinstance(box, ExactHistogram) else box for box in exact]
    boxes = [box for box in exact if isinstance(box, Exact)]
    if len(boxes) != len(exact):
        raise BrokenPromiseError(f"step {step.id} adds noise to what is no number")
    if step.tables:
        return np.concatenate(TABLES_MECHANISMS[step.mechanism].draw_tables(boxes, step.scale))
    if step.gauge is not None:
        return np.concatenate(JOINT_MECHANISMS[step.mechanism].draw_joint(boxes, step.scale))
    combined = step.factor or step.residual
    if step.series is not None and combined is not None:
        boxes = [weighted_together(boxes, step.series.read, combined.most_rows // step.series.band.growth)]
    elif step.series is not None:
        return draw_together(boxes, step.series.read, step.series.band.most_rows, step.scale, sampler)
    if step.joined:  # numbers of finer cells: each has noise of its own
        return np.concatenate([MECHANISMS[step.mechanism].draw(box, step.scale, sampler) for box in boxes])
    (only,) = boxes
    if step.residual is not None:
        residual = step.residual if piece is None else step.residual.of_nodes(len(piece.within.nodes))
        return draw_residual(only, residual, step.scale, sampler)
    if step.factor is not None:
        return draw_factor(only, step.factor, step.scale, sampler)
    return MECHANISMS[step.mechanism].draw(only, step.scale, sampler)


def _chosen(step: Step, box: Box) -> npt.NDArray[np.int64]:
    """What a step chose: a grid value for every cell, or a list of positions."""
    quantity = step.aggregate.quantity
    if isinstance(box, ExactHistogram) and quantity.chosen is not None:
        return ExponentialClip().draw(box, quantity.chosen.candidates, step.above or 0, step.scale)
    if isinstance(box, ExactHistogram):
        return ExponentialQuantile().draw(box, quantity.at or Fraction(0), quantity.low, quantity.high, step.scale)
    if step.choosing is None or step.mechanism != "exponential_top_k":
        raise BrokenPromiseError(f"step {step.id} chooses from what it cannot choose from")
    return ExponentialTopK().draw(box, step.choosing.rounds, step.scale)
