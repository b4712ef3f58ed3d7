"""A table split into its residuals, in place, and put together again.

The residual of a set b of attributes is the table summed over the other attributes and centred along each axis of b.
Along an axis of n keys a centred row adds up to 0, so that n - 1 of its numbers say all; the n-th place holds the sum.
A whole table is then taken apart into as many numbers as it has cells, the residuals of all subsets side by side:
residual b is at the first n - 1 places of the axes of b, and at the last place of the others.

>>> import numpy as np
>>> table = np.array([[[10.0, 4.0], [6.0, 8.0]]])  # one node, two attributes of two keys
>>> split_residuals(table)
>>> table[part((0, 1), (0, 1), (2, 2))].tolist(), table[part((0, 1), (), (2, 2))].tolist()
([[[2.0]]], [[[28.0]]])
>>> join(table)
>>> table.tolist()
[[[10.0, 4.0], [6.0, 8.0]]]
"""

from __future__ import annotations

from dprelease.estimate.workloads.design import Axes, Floats

__all__ = ["centre", "join", "part", "split_residuals"]


def split_residuals(table: Floats) -> None:
    """Take a table apart, in place; its first axis is that of the nodes and is left alone."""
    for axis in range(1, table.ndim):
        keys = table.shape[axis]
        total = table.sum(axis=axis, keepdims=True)
        table[_last(axis, keys)] = total
        total /= keys
        table[_but_last(axis, keys)] -= total


def join(table: Floats) -> None:
    """Undo :func:`split_residuals`, in place."""
    for axis in range(1, table.ndim):
        keys = table.shape[axis]
        last, others = _last(axis, keys), _but_last(axis, keys)
        mean = table[last] / keys
        table[last] = mean - table[others].sum(axis=axis, keepdims=True)
        table[others] += mean


def centre(table: Floats) -> Floats:
    """A table centred along every axis but the first, without the last place of each: residual of all its axes."""
    for axis in range(1, table.ndim):
        keys = table.shape[axis]
        table = table[_but_last(axis, keys)] - table.sum(axis=axis, keepdims=True) / keys
    return table


def part(axes: Axes, residual: Axes, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """Where in a split table of ``axes`` the residual of some of them is; nowhere where such an axis has one key."""
    return (slice(None), *(slice(sizes[i] - 1) if i in residual else slice(sizes[i] - 1, None) for i in axes))


def _last(axis: int, keys: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(keys - 1, None))


def _but_last(axis: int, keys: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(keys - 1))
