"""The residual of a table of counts, derived again: what it contrasts, and how far one unit can move it.

Nothing here is shared with ``catalog.residual`` but the claim. Small tables: every column of the query is written out
as a Kronecker product, and the norms are read off all columns and all differences of two. Larger ones: only one
slice, its columns as products of few different entries, each with the number of cells that have it, for every set of
axes along which two cells can differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.reach import bounds_of, heaviest, require
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["check_residual", "one_unit_comes_to_residual"]

_WRITTEN_OUT = 48  # cells of a table of which every pair of columns is compared

Norms = tuple[int, int, int]
"""L1, L2^2 and Linf of one row, for grain 1."""


def check_residual(plan: ReleasePlan, step: Step) -> None:
    """Derive what a residual contrasts and its sensitivity again.

    Rows of a unit may be in any cells. Its change is a sum of at most ``rows`` columns less a sum of at most ``rows``
    others, so that a norm of it is at most ``rows`` times that of a column, or of the difference of two: pair the
    rows of the old and the new unit, as far as they go, and use the triangle inequality.

    Raises:
        BrokenPromiseError: If the step claims anything else, or is no count of rows behind discrete Gaussian noise.
    """
    require(
        step.sensitivity == _of_step(plan, step, plan.neighboring),
        f"{step.id} claims another sensitivity than its contrasts have",
    )


def one_unit_comes_to_residual(plan: ReleasePlan, step: Step) -> tuple[Sensitivity, int]:
    """How far one unit that comes or goes moves the contrasts of one table, and by how much these grow.

    Raises:
        BrokenPromiseError: It is no residual, as for :func:`check_residual`.
    """
    found = _of_step(plan, step, Neighboring.ADD_REMOVE)
    assert step.residual is not None  # noqa: S101 - just derived
    return found, step.residual.grain * math.prod(2 * (step.residual.shape[at] - 1) for at in step.residual.axes)


def _of_step(plan: ReleasePlan, step: Step, relation: Neighboring) -> Sensitivity:
    """The sensitivity of a step that is a residual, and no other thing."""
    residual, aggregate = step.residual, step.aggregate
    require(residual is not None, f"{step.id} is no residual")
    assert residual is not None  # noqa: S101 - just required
    require(step.mechanism == "discrete_gaussian", f"{step.id} is a residual behind another noise than planned for it")
    alone = not step.joined and step.gauge is None and step.choosing is None and step.selecting is None
    require(alone, f"{step.id} is a residual and of another kind, too")
    require(aggregate.quantity.kind == "rows", f"{step.id} is a residual of something else than rows")
    whole = not aggregate.private and aggregate.excluding is None
    require(whole, f"{step.id} is a residual of a table with cells left out")
    table = plan.catalog.tables[aggregate.table]
    shape = tuple(len(table.column(name).keys or ()) for name in aggregate.by)
    require(residual.shape == shape, f"{step.id} is a residual of a table of another shape")
    require(step.cells == math.prod(shape), f"{step.id} has another number of cells")
    rising = all(a < b for a, b in zip((-1, *residual.axes), (*residual.axes, len(shape)), strict=True))
    require(rising, f"{step.id} is contrasted along columns that it does not have")
    require(all(shape[at] > 1 for at in residual.axes), f"{step.id} is contrasted along a column with one key")
    require(residual.grain >= 1, f"{step.id} has a lattice without a grain")
    rows = bounds_of(plan, aggregate, once=False).rows
    each = heaviest(plan, step, aggregate.quantity)
    return _derived(shape, residual.axes, residual.grain, rows, each, relation)


def _derived(
    shape: tuple[int, ...], axes: tuple[int, ...], grain: int, rows: int, each: int, neighboring: Neighboring
) -> Sensitivity:
    replaced = neighboring is Neighboring.REPLACE_ONE
    if math.prod(shape) <= _WRITTEN_OUT:
        l1, l2_squared, linf = _written_out(shape, axes, replaced)
    else:
        contrasted = tuple(sorted(shape[at] for at in axes))
        l1, l2_squared, linf = _summed_up(contrasted, math.prod(shape) > math.prod(contrasted), replaced)
    # Every entry of a column is n - 1 or -1 to its own slice, never 0: rows change whole slices, each row one at most.
    touched = min(rows * (2 if replaced else 1), math.prod(n for at, n in enumerate(shape) if at not in axes))
    moved = rows * each * grain  # a row that weighs w is w rows of its cell
    return Sensitivity(
        l0=touched * math.prod(shape[at] for at in axes),
        l1=Fraction(moved * l1),
        l2_squared=Fraction(moved) ** 2 * l2_squared,
        linf=Fraction(moved * linf),
    )


@lru_cache(maxsize=1024)
def _written_out(shape: tuple[int, ...], axes: tuple[int, ...], replaced: bool) -> Norms:
    """Of all columns of the query, and with ``replaced`` of the differences of any two."""
    query = np.ones((1, 1), dtype=np.int64)
    for at, n in enumerate(shape):
        one = np.eye(n, dtype=np.int64)
        query = np.kron(query, n * one - 1 if at in axes else one)
    moves = query.T
    if replaced:
        moves = np.concatenate([moves, *(moves - move for move in moves)])
    sizes = np.abs(moves)
    return int(sizes.sum(axis=1).max()), int((sizes * sizes).sum(axis=1).max()), int(sizes.max())


@lru_cache(maxsize=1024)
def _summed_up(contrasted: tuple[int, ...], slices: bool, replaced: bool) -> Norms:
    """The same of one slice of any size; ``slices``: whether there is another one."""
    found = [_norms(*_columns(contrasted, (False,) * len(contrasted)), against=False)]
    if replaced:
        l1, l2_squared, linf = found[0]
        found += [(2 * l1, 2 * l2_squared, linf)] if slices else []
        for differs in _sets(contrasted):
            found.append(_norms(*_columns(contrasted, differs), against=True))
    one, two, three = zip(*found, strict=True)
    return max(one), max(two), max(three)


def _sets(contrasted: tuple[int, ...]) -> Iterator[tuple[bool, ...]]:
    """The sets of axes along which two cells of a slice can differ; of those with equal sizes one."""
    seen = set()
    for differs in product((False, True), repeat=len(contrasted)):
        sizes = tuple(n for n, differ in zip(contrasted, differs, strict=True) if differ)
        if sizes and sizes not in seen:
            seen.add(sizes)
            yield differs


def _columns(contrasted: tuple[int, ...], differs: tuple[bool, ...]) -> tuple[Any, Any, Any]:
    """The columns of two cells a and c of a slice, and how many cells have each pair of entries.

    Along one axis a cell has the key of a, that of c, or another one; those of a and c are the same where the cells do
    not differ. Whole numbers of any size.
    """
    first, second, often = (np.ones((), dtype=object) for _ in range(3))
    for n, differ in zip(contrasted, differs, strict=True):
        one, two, count = (
            ([n - 1, -1, -1], [-1, n - 1, -1], [1, 1, n - 2]) if differ else ([n - 1, -1],) * 2 + ([1, n - 1],)
        )
        first, second, often = (
            np.multiply.outer(whole, np.array(part, dtype=object))
            for whole, part in ((first, one), (second, two), (often, count))
        )
    return first, second, often


def _norms(first: Any, second: Any, often: Any, *, against: bool) -> Norms:
    move = np.abs(first - second if against else first)
    there = np.where(often > 0, move, 0)
    return int(np.sum(move * often)), int(np.sum(move * move * often)), int(np.max(there))
