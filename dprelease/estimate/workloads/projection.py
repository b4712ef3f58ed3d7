"""Nearest non-negative tables with given sums: one simplex, or the rows and columns of many small tables at once.

All of it is after the noise: numbers in, numbers out, no privacy to lose.

>>> onto_simplex(np.array([[5.0, 1.0, -3.0]]), np.array([3.0])).tolist()
[[3.0, 0.0, 0.0]]
>>> found = onto_tables(np.array([[[4.0, -1.0], [1.0, 2.0]]]), np.array([[3.0, 3.0]]), np.array([[4.0, 2.0]]))
>>> found.round(6).tolist()
[[[3.0, 0.0], [1.0, 2.0]]]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Floats

__all__ = ["onto_simplex", "onto_tables"]

_STEPS = 100  # of one threshold; each ends with fewer positive numbers, and few are ever needed
_ROUNDING = 1e-11  # relative: sums that differ by less are equal
_BLOCK = 2**18  # cells that are worked on at a time: they stay near the processor


def onto_simplex(values: Floats, totals: Floats) -> Floats:
    """The nearest points, by squared distance, of {x >= 0, sum x = total}: ``x = max(0, y + b)`` with one b for all.

    Args:
        values: y, shape ``(problems, numbers)``.
        totals: At least 0, shape ``(problems,)``.
    """
    block = _Block(values.T, totals)
    block.solve(0)
    return _with_sums(block.x, totals, axis=0).T


def onto_tables(values: Floats, rows: Floats, columns: Floats, *, tolerance: float = 1e-3, rounds: int = 100) -> Floats:
    """The nearest tables, by squared distance, of {x >= 0, row sums, column sums}.

    The dual of ``min 1/2 |x - y|^2`` over that set is the concave, differentiable function
    ``sum rows a + sum columns b - 1/2 |max(0, y + a + b)|^2`` (+ a constant) of one number a per row and one number b
    per column, and ``x = max(0, y + a + b)``. It is maximised over all b, then over all a, and so on, each exactly (one
    threshold per column or row: its sum becomes right). Ascent over two blocks of a concave differentiable function
    converges to its maximum (Grippo and Sciandrone 2000), here to the only nearest table; the same iteration is
    Dykstra's with the two simplices. It stops where the row sums together are wrong by no more than the tolerance, or
    after so many rounds.

    What is left is repaired: rows with too much give the same part of each of their cells, and rows with too little
    take it, column by column in equal parts (Altschuler, Weed and Rigollet, NIPS 2017, algorithm 2). Column sums stay,
    row sums become right, nothing becomes negative, and it moves no more than the row sums were wrong. So the result
    always has both sums, and it is the nearest table up to the tolerance.

    Args:
        values: y, shape ``(problems, rows, columns)``.
        rows: Row sums, at least 0, shape ``(problems, rows)``.
        columns: Column sums, at least 0, shape ``(problems, columns)``, adding up to the same.
        tolerance: In counts.
        rounds: After which the repair does the rest.
    """
    made = np.empty(values.shape)
    at_once = max(1, _BLOCK // max(1, values[0].size)) if len(values) else 1
    for start in range(0, len(values), at_once):
        some = slice(start, start + at_once)
        block = _Block(np.moveaxis(values[some], 0, -1), columns[some].T, rows[some].T)
        made[some] = np.moveaxis(_alternated(block, tolerance, rounds), -1, 0)
    return _repaired(_with_sums(made, columns, axis=1), rows)


class _Block:
    """Problems side by side, along the last axis: y, the sums along the first and the second axis, and x as it is."""

    def __init__(self, y: Floats, *totals: Floats) -> None:
        # Many problems: theirs is the fastest axis, so that sums run along it. Few: the order that they came in.
        self.y = np.ascontiguousarray(y) if y.shape[-1] >= 8 else y
        self.totals = totals
        self.shifts = [np.zeros(total.shape) for total in totals]
        self.x = np.maximum(self.y, 0)

    def wrong(self, axis: int) -> Floats:
        """How far the sums along an axis are off, shape as they."""
        return np.asarray(self.x.sum(axis=axis) - self.totals[axis])

    def solve(self, axis: int) -> None:
        """Shift all numbers of a sum by one b so that ``sum max(0, y + shifts) = total``; where that is 0, x is 0.

        Newton's method on a convex, piecewise linear, increasing function: after one step from anywhere the sum is at
        least the total, and from there every step lowers b to the root of a piece with fewer positive numbers, until
        none drops out (Michelot 1986).
        """
        total, shift = self.totals[axis], self.shifts[axis]
        near = _ROUNDING * (1 + total)
        for _ in range(_STEPS):
            sums = self.x.sum(axis=axis)
            if (np.abs(sums - total) <= near).all():
                return
            count = np.add.reduce(self.x > 0, axis=axis, dtype=np.int64)
            shift += (total - sums) / np.maximum(count, 1)
            stuck = (count == 0) & (total > 0)
            if stuck.any():
                shift[stuck] = (total + shift - self._shifted().max(axis=axis))[stuck]
            self.refresh()

    def refresh(self) -> None:
        """Make x of y and the shifts."""
        np.maximum(self._shifted(), 0, out=self.x)

    def only(self, kept: npt.NDArray[np.bool_]) -> _Block:
        """The problems that are kept, with their shifts."""
        block = _Block(self.y[..., kept], *(total[..., kept] for total in self.totals))
        block.shifts = [shift[..., kept] for shift in self.shifts]
        block.refresh()
        return block

    def _shifted(self) -> Floats:
        shifted = self.y
        for axis, shift in enumerate(self.shifts):
            shifted = shifted + np.expand_dims(shift, axis)
        return shifted


def _alternated(block: _Block, tolerance: float, rounds: int) -> Floats:
    """Thresholds of columns and rows in turns, as told in :func:`onto_tables`; the columns are right at the end."""
    made, left = np.empty_like(block.x), np.arange(block.x.shape[-1])
    for done in range(1, rounds + 1):
        block.solve(0)
        finished = (np.abs(block.wrong(1)).sum(axis=0) <= tolerance) | (done == rounds)
        if finished.all():
            break
        if 2 * np.count_nonzero(finished) > len(left):
            made[..., left[finished]] = block.x[..., finished]
            block, left = block.only(~finished), left[~finished]
        block.solve(1)
    made[..., left] = block.x
    return made


def _with_sums(values: Floats, totals: Floats, axis: int) -> Floats:
    """Rounding taken out of sums that are right up to it."""
    sums = values.sum(axis=axis)
    values *= np.expand_dims(np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0), axis)
    return values


def _repaired(values: Floats, rows: Floats) -> Floats:
    """Row sums put right within each column, as told in :func:`onto_tables`."""
    sums = values.sum(axis=2)
    over, under = np.maximum(sums - rows, 0), np.maximum(rows - sums, 0)
    given = np.divide(over, sums, out=np.zeros_like(sums), where=sums > 0)
    short = under.sum(axis=1, keepdims=True)
    part = np.divide(under, short, out=np.zeros_like(under), where=short > 0)
    given[(short == 0)[:, 0]] = 0
    pool = np.einsum("prc,pr->pc", values, given)
    values *= 1 - given[:, :, None]
    values += part[:, :, None] * pool[:, None, :]
    return values
