"""Prefix and range counts from noisy combinations of a table's lines: values, exact variances, and the published table.

A draw y = F x + noise of every line x of n cells says x by F^-1 y, and so all prefixes by B y with B = L F^-1, where L
adds up (1 on and below the diagonal). Noise is independent with one variance v per number, so that a prefix has the
variance v |B_i|^2, and the range from cell a to cell b that of the difference of two prefixes, v |B_b - B_(a - 1)|^2.
Without a factor F is the identity: the counts themselves were drawn.

>>> factor = Factor(shape=(3,), axis=0, kind="root", grain=1024)
>>> noisy = factor.matrix @ np.array([5, 0, 2])
>>> np.rint(line_sums(noisy, (3,), 0, factor, "prefixes")), np.rint(line_sums(noisy, (3,), 0, factor, "all"))
(array([5., 5., 7.]), array([5., 5., 7., 0., 2., 2.]))
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.catalog.factor import Factor
from dprelease.catalog.table import Column, Key
from dprelease.estimate.keys import Coded, Rows
from dprelease.estimate.mirrored import mirrored_prefixes, mirrored_variances
from dprelease.measures import PrefixCounts

__all__ = ["Which", "line_sums", "prefix_counts", "range_rows", "rows_of_a_line", "variances_of"]

Which = Literal["prefixes", "all"]
Floats = npt.NDArray[np.float64]
_HALVED = 64  # cells of a triangle that is inverted at once


def rows_of_a_line(keys: int, which: Which) -> int:
    """How many sums are published of one line: every prefix, or every range.

    >>> rows_of_a_line(4, "prefixes"), rows_of_a_line(4, "all")
    (4, 10)
    """
    return keys if which == "prefixes" else keys * (keys + 1) // 2


@lru_cache(maxsize=2)
def _answering(factor: Factor | None, keys: int) -> Floats:
    """B = L F^-1, shape ``(keys, keys)``, read-only."""
    found: Floats
    if factor is None:
        found = np.tri(keys, dtype=np.float64)
    elif factor.mirror is not None:
        found = mirrored_prefixes(factor)
    elif factor.kind == "root":
        found = np.cumsum(_inverse(factor.matrix.astype(np.float64)), axis=0)
    else:
        solved = np.linalg.solve(factor.matrix.astype(np.float64).T, np.tri(keys).T)
        found = np.asarray(solved.T, dtype=np.float64)
    found.flags.writeable = False
    return found


def _inverse(triangle: Floats) -> Floats:
    """The inverse of a lower triangle without zeros on its diagonal, by halves.

    The inverse of [[P, 0], [Q, R]] is [[P^-1, 0], [-R^-1 Q P^-1, R^-1]].
    """
    size = len(triangle)
    if size <= _HALVED:
        return np.tril(np.linalg.inv(triangle))
    half = size // 2
    found = np.zeros_like(triangle)
    found[:half, :half] = _inverse(triangle[:half, :half])
    found[half:, half:] = _inverse(triangle[half:, half:])
    found[half:, :half] = -found[half:, half:] @ (triangle[half:, :half] @ found[:half, :half])
    return found


@lru_cache(maxsize=8)
def variances_of(factor: Factor | None, keys: int, which: Which) -> Floats:
    """The variance of every published sum of a line, in counts, where the noise on one number has the variance 1.

    Args:
        factor: What was drawn; None: the counts themselves.
        keys: The keys of a line.
        which: Which sums.

    Returns:
        Shape ``(rows_of_a_line(keys, which),)``, read-only; ranges by where they begin, then where they end.
    """
    found: Floats
    if factor is None or factor.mirror is not None:
        found = _rows_of_each(keys, which) if factor is None else mirrored_variances(factor, which)
        found.flags.writeable = False
        return found
    answering = _answering(factor, keys)
    if which == "prefixes":
        found = np.einsum("ij,ij->i", answering, answering)
    else:
        together = answering @ answering.T  # of prefixes; those up to before the first cell are 0
        alone = np.r_[0.0, np.diag(together)]
        first, last = np.triu_indices(keys)
        before = np.vstack([np.zeros(keys), together[:-1]])[first, last]
        found = alone[first] + alone[last + 1] - 2 * before
    found.flags.writeable = False
    return found


def _rows_of_each(keys: int, which: Which) -> Floats:
    """How many cells every sum has: its variance where each cell has noise of its own."""
    cells = np.arange(1.0, keys + 1)
    return cells if which == "prefixes" else np.concatenate([cells[: keys - first] for first in range(keys)])


def line_sums(
    values: npt.NDArray[np.generic], shape: tuple[int, ...], axis: int, factor: Factor | None, which: Which
) -> Floats:
    """Every published sum of every line.

    Args:
        values: What was measured, in steps of the factor's lattice, row-major, shape ``(prod(shape),)``.
        shape: How many keys each column of the step's ``by`` has.
        axis: The position of the ordered one.
        factor: What was drawn; None: the counts themselves.
        which: Which sums.

    Returns:
        Shape ``(lines * rows_of_a_line,)``: the other columns in their order, then the sums of a line.
    """
    keys = shape[axis]
    lines = np.moveaxis(values.reshape(shape), axis, -1).reshape(-1, keys).astype(np.float64)
    prefixes = lines @ _answering(factor, keys).T
    if which == "prefixes":
        return prefixes.reshape(-1)
    first, last = np.triu_indices(keys)
    from_none = np.concatenate([np.zeros((len(prefixes), 1)), prefixes], axis=1)
    return np.asarray(from_none[:, last + 1] - from_none[:, first]).reshape(-1)


def prefix_counts(
    values: npt.NDArray[np.generic], factor: Factor, scale: Fraction, starts: Sequence[int], last: int
) -> PrefixCounts:
    """What a draw of counts of classes of grid values says of how many values lie up to each class.

    Args:
        values: What was measured, in steps of the factor's lattice, the classes of a cell one after the other.
        factor: What was drawn of every cell's line of counts.
        scale: The scale of the noise on one number; its square is not below the variance.
        starts: Where each class begins, in grid steps.
        last: The last grid value of the last class.
    """
    line = factor.model_copy(update={"shape": (len(starts),), "axis": 0})  # the same for any number of cells
    answering, variance = _answering(line, len(starts)), float(scale) ** 2
    return PrefixCounts(
        starts=np.asarray(starts, dtype=np.int64),
        last=last,
        counts=values.reshape(-1, len(starts)).astype(np.float64) @ answering.T,
        variances=variance * np.einsum("ij,ij->i", answering, answering),
        shared=variance * (answering @ answering[-1]),
        scale=scale,
        drawn=answering,
    )


def range_rows(key_columns: Sequence[Column], which: Which) -> Rows:
    """The keys of every row: all keys of the other columns, and in each combination the sums of a line.

    Args:
        key_columns: As they are published: the other columns, then one for where a sum ends (``prefixes``), or one for
            where it begins and one for where it ends (``all``), which have the same keys.
        which: Which sums.
    """
    ordered: tuple[Key, ...] = key_columns[-1].keys or ()
    ends = 1 if which == "prefixes" else 2
    others: list[tuple[Key, ...]] = [column.keys or () for column in key_columns[:-ends]]
    first, last = np.triu_indices(len(ordered)) if which == "all" else (None, np.arange(len(ordered)))
    each = len(last)
    lines = int(np.prod([len(keys) for keys in others], dtype=np.int64))
    found: list[Coded[Key]] = []
    size = lines * each
    repeat = size
    for keys in others:
        repeat //= len(keys)
        found.append(Coded.repeated(keys, repeat, size))
    found += [Coded(ordered, np.tile(part.astype(np.int32), lines)) for part in (first, last) if part is not None]
    return Rows(found, size)
