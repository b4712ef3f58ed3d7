"""Parts and rests, derived again: by all cases of their conditions, and by units with one key more."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.table import Table
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.mathematics.truth import counted_in_cases
from dprelease.plan.verify.reach import bounds_of, cells_of_step, check_norms, heaviest, require
from dprelease.plan.verify.units import Bounds

__all__ = ["are_whole", "check_apart", "is_parted"]

_COUNTS = ("rows", "nonnull", "rest")


def is_parted(step: Step) -> bool:
    """Whether a step draws several numbers of which it says that no row is in two."""
    return bool(step.joined) and step.gauge is None and (step.choosing, step.selecting, step.residual) == (None,) * 3


def check_apart(plan: ReleasePlan, step: Step) -> None:
    """Every row is in one of the numbers at most, and a unit moves them no further than is claimed.

    Raises:
        BrokenPromiseError: If not.
    """
    table = plan.catalog.tables[step.aggregate.table]
    require(step.mechanism in ("discrete_laplace", "discrete_gaussian"), f"{step.id} uses an unknown mechanism")
    require(step.factor is None and not step.tables, f"{step.id} is of two kinds")
    require(step.cells == cells_of_step(plan, step.aggregate), f"{step.id} has another number of cells")
    single = all(part.kind in _COUNTS and part.per == "row" for part in step.parts)
    require(single, f"{step.id} has parts that are no counts of rows")
    apart = all(sum(case) <= 1 for case in _cases(step.parts, table))
    require(apart, f"{step.id} hides what one row is in twice as if it were in one of them")
    weights = {heaviest(plan, step, part) for part in step.parts}
    require(len(weights) == 1, f"{step.id} has parts of different weights")
    one, number = bounds_of(plan, step.aggregate, once=False), len(step.parts)
    cells = None if one.cells is None else number * one.cells
    finer = Bounds(min(number * one.groups, one.rows), one.per_group, one.rows, cells)
    check_norms(step, finer, 0, max(weights), plan.neighboring)


def are_whole(parts: Sequence[Quantity], whole: Quantity, table: Table) -> bool:
    """Whether every row that a count has is in just one of several parts, and no other row is in any."""
    alike = len({(part.per, part.weight) for part in (*parts, whole)}) == 1
    counts = all(part.kind in _COUNTS for part in (*parts, whole))
    return alike and counts and all(sum(rest) == first for first, *rest in _cases((whole, *parts), table))


def _cases(parts: Sequence[Quantity], table: Table) -> list[tuple[bool, ...]]:
    said = [None if part.where is None else parse(part.where, table.types).root for part in parts]
    counts = [(part.column, where, part.kind == "rest") for part, where in zip(parts, said, strict=True)]
    return list(counted_in_cases(counts))
