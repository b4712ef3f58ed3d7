"""Clips that noise chooses, derived again: each sum is clipped where its own choice says, on a grid of that clip."""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.chosen_clip import ClipGrid
from dprelease.catalog.table import Column
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.reach import require

__all__ = ["CLIP", "check_chosen_grid", "check_clips", "feeds_of_clips"]

CLIP = "(clip)"
_TOLERANCE = 1e-9  # of a root that is taken in floats


def check_chosen_grid(name: str, quantity: Quantity, column: Column) -> None:
    """The candidates lie on the grid of the column; a sum has steps of which the clip has 10^6, whatever it is.

    Raises:
        BrokenPromiseError: If not: then the sum at another clip would be another draw.
    """
    chosen = quantity.chosen
    assert chosen is not None  # noqa: S101 - the caller asks
    plain = quantity.per == "row" and quantity.weight is None and (quantity.grain, quantity.offset) == (1, 0)
    require(plain and quantity.at is None and not quantity.starts, f"{name} has a clip that no noise can choose")
    require(chosen.step == column.grid_of("sum"), f"{name} chooses a clip on another grid than its column has")
    if quantity.kind == "quantile":
        ends = (quantity.low, quantity.high, quantity.step, quantity.centre)
        require(ends == (0, chosen.top, chosen.step, 0), f"{name} chooses among other clips than it says")
        return
    require((quantity.low, quantity.high) == (0, 10**6), f"{name} has another number of steps to its clip")
    require(quantity.centre in (0, 500_000), f"{name} is centred elsewhere than in the middle of its clip")
    require(quantity.step == chosen.top * chosen.step / 10**6, f"{name} has another grid than its largest clip")


def check_clips(plan: ReleasePlan) -> None:
    """Every sum of a chosen clip has a step that chooses it, of the very rows and cells, and each such step a sum.

    Raises:
        BrokenPromiseError: If not, or if a step is said to leave another number of rows above than its sums want.
    """
    by_id = {step.id: step for step in plan.steps}
    served: dict[str, list[Step]] = {step.id: [] for step in plan.steps if step.is_clip}
    for step in plan.steps:
        summed = [part for part in step.parts if part.chosen is not None and not part.is_clip]
        require(bool(summed) == (step.clipped_by is not None), f"{step.id} has a clip that nothing chooses")
        if step.clipped_by is None:
            continue
        require(step.clipped_by in served, f"{step.id} takes its clip from a step that chooses none")
        choice = by_id[step.clipped_by]
        same = choice.aggregate.grouping == step.aggregate.grouping and not step.aggregate.private
        require(same, f"{step.id} takes its clip from other rows or cells")
        alone = len(step.parts) == 1 and step.residual is None and step.factor is None and not step.tables
        require(alone, f"{step.id} has a clip that noise chooses beside what has none")
        wanted = step.aggregate.quantity
        own = choice.aggregate.quantity
        of = (own.column, own.where, own.chosen) == (wanted.column, wanted.where, wanted.chosen)
        require(of, f"{step.id} takes its clip from other values")
        served[step.clipped_by].append(step)
    for name, sums in served.items():
        require(bool(sums), f"{name} chooses a clip of nothing")
        chosen = by_id[name].aggregate.quantity.chosen
        told = chosen is not None and _rows(chosen, sums, by_id[name].above)
        require(told, f"{name} leaves other rows above its clip")
    for step in plan.steps:
        require(step.is_clip == (step.above is not None), f"{step.id} leaves rows above a clip that it does not choose")


def _rows(chosen: ClipGrid, sums: list[Step], above: int | None) -> bool:
    """Whether so many rows are what the noise of the sums wants: its deviation over the clip, for all cells."""
    wanted = max(
        Fraction(step.cells or 1) * chosen.above * Fraction(math.sqrt(step.law.variance)) / 10**6 for step in sums
    )
    low, high = wanted * Fraction(1 - _TOLERANCE), wanted * Fraction(1 + _TOLERANCE) + 1
    return above is not None and low <= above <= max(high, Fraction(1))


def feeds_of_clips(plan: ReleasePlan) -> set[tuple[str, str, str]]:
    """What every step that chooses a clip answers: the queries with a measure that is fed by a sum of that clip."""
    by_id = {step.id: step for step in plan.steps}
    found = set()
    for query in plan.queries:
        for feeds in query.inputs.values():
            for feed in feeds:
                clip = by_id[feed.step].clipped_by if feed.step in by_id else None
                if clip is not None:
                    found.add((query.name, CLIP, clip))
    return found
