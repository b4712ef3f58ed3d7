"""Neighbouring data sets of made-up units, and the exact totals of a plan's steps on them, by the product's engine.

The rows in these boxes belong to nobody; no other box is opened by the audit.
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import product, zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dprelease.audit.choices import part_of_the_claim
from dprelease.catalog.reference import References, read_key
from dprelease.catalog.table import Catalog, Key, Source, Table
from dprelease.engines import engine_for
from dprelease.noise import JOINT_MECHANISMS, Exact, ExactHistogram, ExactKeys
from dprelease.noise.mechanisms.clip import clip_levels
from dprelease.noise.mechanisms.factor import counted_classes
from dprelease.noise.truth import true_entries, true_factor, true_keys, true_numbers, true_residual
from dprelease.plan.document import Batch, ReleasePlan, Step
from dprelease.release.data.sources import confidential_tables
from dprelease.starter.extremes import ExtremeUnits, UnitRows

__all__ = ["AuditData", "AuditedStep", "Boxes", "broken_bounds", "change_of", "either_keys", "exact_numbers", "size_of"]

Boxes = tuple[Exact | ExactHistogram | ExactKeys, ...]
Change = npt.NDArray[np.int64]
_SOME_KEYS = 20  # cells of a grouping with private keys


@dataclass(frozen=True)
class AuditedStep:
    """A step, and the pass that it is measured in."""

    step: Step
    batch: Batch


class AuditData:
    """Made-up data sets in a temporary folder, each read by an engine of its own.

    Args:
        plan: Whose tables and steps.
        references: Its public files.
    """

    def __init__(self, plan: ReleasePlan, references: References) -> None:
        self.plan, self.references = plan, references
        self.folder = Path(tempfile.mkdtemp(prefix="dprelease-audit-"))
        self.tables = confidential_tables(plan)
        self.batches = plan.batches(whole=True)
        conditions = [text for each in plan.steps for text in (each.aggregate.where, each.aggregate.quantity.where)]
        seed = plan.fingerprint()
        self.units = ExtremeUnits(self.tables, references, [text for text in conditions if text], seed)
        self.secret = os.urandom(32)
        self._number = 0

    def close(self) -> None:
        """Remove every made-up row."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def steps(self) -> tuple[AuditedStep, ...]:
        """All steps, in the order of the passes; invariants are no draws."""
        return tuple(
            AuditedStep(step, batch) for batch in self.batches for step in batch.steps if isinstance(step, Step)
        )

    def write(self, units: Sequence[UnitRows]) -> tuple[Catalog, Path]:
        """The rows of some units in files of their own: the catalog that names them, and their folder."""
        self._number += 1
        folder = self.folder / str(self._number)
        folder.mkdir()
        made: dict[str, Table] = {}
        for name, table in self.tables.items():
            header = self.units.header(name)
            with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(header)
                rows = [row for unit in units for row in unit.get(name, ())]
                writer.writerows([[row.get(column, "") for column in header] for row in rows])
            source = Source(file=f"{name}.csv", format="csv", null_values=("",))
            columns = tuple(column.model_copy(update={"partition": False}) for column in table.columns)
            made[name] = table.model_copy(update={"source": source, "columns": columns})
        return self.plan.catalog.model_copy(update={"tables": {**self.plan.catalog.tables, **made}}), folder

    def boxes(self, units: Sequence[UnitRows], steps: Sequence[AuditedStep]) -> dict[str, Boxes]:
        """The exact totals of some steps on a data set of these units; as the engine raises."""
        catalog, folder = self.write(units)
        asked = {each.step.id for each in steps}
        tables = [catalog.tables[name] for name in self.tables]
        found: dict[str, Boxes] = {}
        counting = [[each for each in batch.steps if each.id in asked - {batch.selection}] for batch in self.batches]
        passes = [batch.passes(rest) for batch, rest in zip(self.batches, counting, strict=True)]
        with closing(engine_for(tables)(folder, {})) as engine:
            # As a run does: what is expected to be asked decides how it is answered.
            engine.expect(catalog, (each for some in passes for each in some.items()))
            for batch, rest, pass_of in zip(self.batches, counting, passes, strict=True):
                if batch.selection in asked:
                    found[str(batch.selection)] = (
                        engine.units_by_key(catalog, batch.grouping, self.references, secret=self.secret),
                    )
                if not rest:
                    continue
                keys = None if batch.selection is None else self._some_keys(batch)
                totals: dict[tuple[object, object], Exact | ExactHistogram] = {}
                for grouping, quantities in pass_of.items():
                    boxes = engine.aggregate(
                        catalog,
                        grouping,
                        quantities,
                        self.references,
                        secret=self.secret,
                        keys=keys,
                        cube=batch.cube if grouping == batch.grouping else None,
                    )
                    totals.update({(grouping, one): box for one, box in zip(quantities, boxes, strict=True)})
                for step in rest:
                    counted = product(batch.groupings(step), batch.asked(step))
                    found[step.id] = tuple(totals[pair] for pair in counted)
        shutil.rmtree(folder)
        return found

    def _some_keys(self, batch: Batch) -> list[tuple[Key, ...]]:
        """Keys that a selection might have shown: public ones, so that what is counted over them can be attacked."""
        table = self.tables[batch.table]
        texts = [sorted(set(self.units.keys(batch.table, name))) for name in batch.by]
        kinds = [table.column(name).type for name in batch.by]
        found = []
        for parts in product(*texts):
            found.append(tuple(read_key(text, kind) for text, kind in zip(parts, kinds, strict=True)))
            if len(found) == _SOME_KEYS:
                break
        return found


def exact_numbers(step: Step, boxes: Boxes) -> Change:
    """What a step hides, without noise, in the order of its measurement; of keys and of quantiles, see change_of."""
    if step.factor is not None:
        classes = step.aggregate.quantity.classes
        box = boxes[0]
        counted = counted_classes(box, classes) if isinstance(box, ExactHistogram) else box
        return true_factor(counted, step.factor) if isinstance(counted, Exact) else np.zeros(0, dtype=np.int64)
    exact = [box for box in boxes if isinstance(box, Exact)]
    if step.residual is not None:
        return true_residual(exact[0], step.residual)
    return np.concatenate([true_numbers(box) for box in exact])


def change_of(step: Step, first: Boxes, second: Boxes) -> Change:
    """The second data set's numbers less the first one's; of what has none, by how much each cell or key changes."""
    one, other = first[0], second[0]
    if isinstance(one, ExactKeys) and isinstance(other, ExactKeys):
        held, also = true_keys(one), true_keys(other)
        return np.array([also.get(key, 0) - held.get(key, 0) for key in either_keys(one, other)], dtype=np.int64)
    if isinstance(one, ExactHistogram) and isinstance(other, ExactHistogram) and step.factor is None:
        before, after = true_entries(one), true_entries(other)
        if step.is_clip:
            return _moved_scores(step, before, after)
        moved = np.zeros(step.cells or 0, dtype=np.int64)
        for cell, value in {*before, *after}:
            moved[cell] += abs(after.get((cell, value), 0) - before.get((cell, value), 0))
        return moved
    return exact_numbers(step, second) - exact_numbers(step, first)


def _moved_scores(step: Step, *entries: Mapping[tuple[int, int], int]) -> Change:
    """How far the scores of the clips move apart, one number: half of the largest difference, rounded up."""
    grid = step.aggregate.quantity.chosen
    scores = []
    for each in entries:
        values = sorted((value, often) for (_, value), often in each.items())
        candidates = grid.candidates if grid is not None else ()
        levels = clip_levels([v for v, _ in values], [often for _, often in values], candidates, step.above or 1)
        scores.append(np.array(levels, dtype=np.int64))
    moved = scores[1] - scores[0]
    return np.array([-(-(int(moved.max()) - int(moved.min())) // 2)], dtype=np.int64)


def either_keys(first: ExactKeys, second: ExactKeys) -> list[tuple[Key, ...]]:
    """The keys that occur on one of two data sets or on both."""
    return sorted({*true_keys(first), *true_keys(second)}, key=repr)


def size_of(step: Step, change: Change, first: Boxes, second: Boxes) -> float:
    """How near a change is to what the plan states: 1 where it reaches it, in the norm that its noise is for.

    Of a selection a key counts whole that is on one data set alone, and half where others have it; of a quantile it is
    the part of the claimed epsilon that the claimed law shows of the two data sets.
    """
    claim = step.sensitivity
    if isinstance(first[0], ExactKeys) and isinstance(second[0], ExactKeys):
        alone = len(true_keys(first[0]).keys() ^ true_keys(second[0]).keys())
        return (alone + float(np.count_nonzero(change))) / (2 * max(1, claim.l0))
    if step.choosing is not None and step.is_clip:
        return float(2 * int(change[0]) / step.choosing.spread)
    if isinstance(first[0], ExactHistogram) and isinstance(second[0], ExactHistogram) and step.factor is None:
        return part_of_the_claim(step, first[0], second[0])
    if step.choosing is not None:
        return float(np.count_nonzero(change)) / max(1, step.choosing.rounds)
    if "gaussian" in step.mechanism:
        return float(Fraction(_squares(change)) / claim.l2_squared) ** 0.5 if claim.l2_squared else 0.0
    return float(Fraction(_sum(change)) / claim.l1) if claim.l1 else 0.0


def broken_bounds(step: Step, change: Change) -> tuple[str, ...]:
    """Which of the stated bounds a change of one unit exceeds; exact."""
    claim = step.sensitivity
    if step.choosing is not None:
        if step.is_clip:
            moved = 2 * int(change[0])
            stated = step.choosing.spread
            return (f"one unit moves scores apart by {moved}, and {stated} is stated",) if moved > stated else ()
        cells = int(np.count_nonzero(change))
        if step.mechanism == "exponential_top_k" or cells <= step.choosing.rounds:
            return ()
        return (f"one unit moves {cells} choices, and {step.choosing.rounds} are stated",)
    sizes = sorted((abs(int(each)) for each in change if each), reverse=True)
    found: dict[str, tuple[int, Fraction | int]] = {
        "l0": (len(sizes), claim.l0),
        "l1": (sum(sizes), claim.l1),
        "l2 squared": (sum(each * each for each in sizes), claim.l2_squared),
        "linf": (max(sizes, default=0), claim.linf),
    }
    broken = [
        f"one unit moves {name} by {reached}, and {stated} is stated"
        for name, (reached, stated) in found.items()
        if reached > stated
    ]
    if claim.shifts and not any(_within(sizes, shift) for shift in claim.shifts):
        broken.append("one unit moves the cells in a way that no stated worst case covers")
    gauge = _gauge(step, change)
    if gauge is not None and step.gauge is not None and gauge > step.gauge:
        broken.append(f"one unit moves the gauge by {gauge}, and {step.gauge} is stated")
    return tuple(broken)


def _gauge(step: Step, change: Change) -> int | None:
    """The sum over cells of the norm of what changes in it; of the two norms with a ball of their own."""
    ball = getattr(JOINT_MECHANISMS.get(step.mechanism), "ball", None)
    if ball not in ("count", "linf") or step.tables:
        return None
    cells = change.reshape(len(step.parts), -1).T.tolist()
    if ball == "linf":
        return sum(max(map(abs, cell)) for cell in cells)
    return sum(max(0, *cell) + max(0, *(-each for each in cell)) for cell in cells)


def _within(sizes: Sequence[int], shift: Sequence[int]) -> bool:
    return all(size <= most for size, most in zip_longest(sizes, shift, fillvalue=0))


def _sum(change: Change) -> int:
    return sum(abs(int(each)) for each in change)


def _squares(change: Change) -> int:
    return sum(int(each) ** 2 for each in change)
