"""The un-noised numbers themselves, for ``release/tuning/utility.py`` and ``audit/`` and nothing else.

A release never needs them. A comparison of a plan with the truth, on stand-in data, does, and so does an attack on
made-up rows: these functions open what mechanisms open, in one place, so that everything else stays shut.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys, Key, open_exact, open_histogram, open_keys

if TYPE_CHECKING:  # a sibling: what is declared does not import what hides it, nor the other way round
    from dprelease.catalog.factor import Factor
    from dprelease.catalog.residual import Residual

__all__ = [
    "repeated_exact",
    "repeated_histogram",
    "repeated_keys",
    "true_entries",
    "true_factor",
    "true_keys",
    "true_numbers",
    "true_prefixes",
    "true_quantile",
    "true_residual",
]

Integers = npt.NDArray[np.int64]


def true_numbers(exact: Exact) -> Integers:
    """What is in the box, shape ``(cells,)``, in grid steps."""
    return open_exact(exact).copy()


def true_residual(exact: Exact, residual: Residual) -> Integers:
    """Grain (identity (x) (x)_axes (n_i I - 1 1^T)) x, without noise: shape ``(prod(residual.shape),)``.

    Made by itself, not by what draws it: n_i x less the sums along each contrasted axis (``catalog.residual``).
    """
    counts = open_exact(exact)
    wide = counts.size and max(int(counts.max()), -int(counts.min())) > residual.most_rows
    table = (counts.astype(object) if wide else counts).reshape(residual.shape)
    for axis in residual.axes:
        table = residual.shape[axis] * table - table.sum(axis=axis, keepdims=True)
    clamped = np.clip(table * residual.grain, -(2**61), 2**61)
    return np.asarray(clamped, dtype=np.int64).reshape(prod(residual.shape))


def true_factor(exact: Exact, factor: Factor) -> Integers:
    """F x of every line x along the factor's axis, without noise: shape ``(prod(factor.shape),)``.

    Made by itself, not by what draws it: the columns of F, each times its counts (``catalog.factor``).
    """
    clamped = open_exact(exact).clip(-factor.most_rows, factor.most_rows)
    table = np.moveaxis(clamped.reshape(factor.shape), factor.axis, 0)
    found = np.zeros(table.shape, dtype=np.int64)
    for counts, column in zip(table, factor.matrix.T.astype(np.int64), strict=True):
        found += np.multiply.outer(column, counts)
    return np.ascontiguousarray(np.moveaxis(found, 0, factor.axis)).reshape(prod(factor.shape))


def true_prefixes(histogram: ExactHistogram) -> tuple[Integers, npt.NDArray[np.float64]]:
    """How many values of every cell lie up to each class, where every value that occurs in any is a class of its own.

    Between two of them is one more class. Shapes ``(classes,)``, where they begin, rising and in grid steps, and
    ``(cells, classes)``; NaN in a cell without values.
    """
    cells, cell, value, count = open_histogram(histogram)
    starts = np.unique(np.concatenate([value, value + 1, np.zeros(0 if len(value) else 1, dtype=np.int64)]))
    table = np.zeros((cells, len(starts)))
    np.add.at(table, (cell, np.searchsorted(starts, value)), count)
    found = np.cumsum(table, axis=1)
    found[found[:, -1] == 0] = np.nan
    return starts, found


def true_quantile(histogram: ExactHistogram, at: Fraction) -> npt.NDArray[np.float64]:
    """The least value with at least a share ``at`` of its cell's values at or below it; NaN in a cell without values.

    Shape ``(cells,)``, in grid steps. It is a quantile at that rank by the definition of ``measures.quantile``: at
    most ``at n`` values lie below it, and at most ``(1 - at) n`` above.
    """
    cells, cell, value, count = open_histogram(histogram)
    found = np.full(cells, np.nan)
    order = np.lexsort((value, cell))
    order = order[count[order] > 0]
    where, values, often = cell[order], value[order], count[order]
    starts = np.flatnonzero(np.r_[True, where[1:] != where[:-1]]) if len(where) else np.zeros(0, dtype=np.int64)
    for start, end in zip(starts, [*starts, len(where)][1:], strict=True):
        below = np.cumsum(often[start:end])
        needed = max(1, -(-at.numerator * int(below[-1]) // at.denominator))
        found[where[start]] = values[start + int(np.searchsorted(below, needed))]
    return found


def true_entries(histogram: ExactHistogram) -> dict[tuple[int, int], int]:
    """How many values of every cell are at every grid step, where any is: (cell, step) to a number."""
    _, cell, value, count = open_histogram(histogram)
    found: dict[tuple[int, int], int] = {}
    for where, step, often in zip(cell.tolist(), value.tolist(), count.tolist(), strict=True):
        found[where, step] = found.get((where, step), 0) + often
    return {entry: often for entry, often in found.items() if often}


def true_keys(keys: ExactKeys) -> dict[tuple[Key, ...], int]:
    """How many units have each key that occurs."""
    held, count = open_keys(keys)
    return dict(zip(held, count.tolist(), strict=True))


def repeated_exact(exact: Exact, runs: int, cells: Integers) -> Exact:
    """Some cells of a box, so many times one after the other, for that many draws at once."""
    return Exact(np.tile(open_exact(exact)[cells], runs))


def repeated_histogram(histogram: ExactHistogram, runs: int, cells: Integers) -> ExactHistogram:
    """Some cells of a histogram, so many times one after the other, for that many draws at once."""
    _, cell, value, count = open_histogram(histogram)
    kept = np.isin(cell, cells)
    place = np.searchsorted(cells, cell[kept])  # ``cells`` is rising
    each = len(cells) * np.arange(runs)
    where = (each[:, None] + place[None, :]).ravel()
    return ExactHistogram(runs * len(cells), where, np.tile(value[kept], runs), np.tile(count[kept], runs))


def repeated_keys(keys: ExactKeys, runs: int) -> ExactKeys:
    """The keys so many times, each with the number of its draw as a further first part."""
    held, count = open_keys(keys)
    return ExactKeys([(run, *key) for run in range(runs) for key in held], np.tile(count, runs))
