"""Residuals of tables of counts behind integer noise: contrasts on a fine lattice, discrete Gaussian noise on it."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.native.lookup import BLOCK
from dprelease.noise.sampler import Sampler, add_noise

if TYPE_CHECKING:  # a sibling: what is declared does not import what hides it, nor the other way round
    from dprelease.catalog.residual import Residual

__all__ = ["draw_residual"]

Integers = npt.NDArray[np.int64]
_LARGEST = 2**61  # so large an exact contrast may be: the noise has the rest of 64 bits


def draw_residual(exact: Exact, residual: Residual, scale: Fraction, sampler: Sampler = "native") -> Integers:
    """The noisy residual of a table of counts: grain (identity (x) (x)_axes (n_i I - 1 1^T)) x plus noise.

    Every exact number is clamped to 2^61 in size, which only counts above ``residual.most_rows`` can exceed. Clamping
    what is answered moves no number further than it moved before. Clamping the counts would do as well for one draw,
    but not for several that are bounded together: each would clamp others (docs/proofs/replaced-pairs.md).

    Args:
        exact: The counts, row-major, shape ``(prod(residual.shape),)``.
        residual: Which contrasts.
        scale: The scale of the noise, in steps of the lattice; exactly a 64-bit float.
        sampler: Which implementation draws.

    Returns:
        A new array of the same shape, in steps of the lattice; saturated at the limits of 64 bits, after the noise.
        Beside the exact counts it takes memory for the answer, for sums along one axis and for one block of noise.

    Raises:
        BrokenPromiseError: If the counts are not those of a table of that shape, or the scale is not a positive float.
    """
    counts = open_exact(exact)
    if counts.shape != (prod(residual.shape),):
        raise BrokenPromiseError("a residual is drawn from a table of another shape than planned")
    if counts.size and max(int(counts.max()), -int(counts.min())) > residual.most_rows:
        numbers = _in_whole_numbers(counts, residual)
    else:
        numbers = counts.copy()
        for axis in residual.axes:
            _contrast(numbers, residual.shape, axis)
        numbers *= residual.grain
    for start in range(0, len(numbers), BLOCK):
        part = numbers[start : start + BLOCK]
        part[...] = add_noise("gaussian", part, scale, sampler)
    return numbers


def _contrast(numbers: Integers, shape: tuple[int, ...], axis: int) -> None:
    """In place: every entry times the number of keys of the axis, less the sum along the axis."""
    keys = shape[axis]
    table = numbers.reshape(prod(shape[:axis]), keys, prod(shape[axis + 1 :]))  # a view: ``numbers`` is contiguous
    sums = table.sum(axis=1, keepdims=True)
    table *= keys
    table -= sums


def _in_whole_numbers(counts: Integers, residual: Residual) -> Integers:
    """The contrasts of counts that 64 bits may have no room for, in integers of any size; then clamped."""
    table = counts.astype(object).reshape(residual.shape)
    for axis in residual.axes:
        table = residual.shape[axis] * table - table.sum(axis=axis, keepdims=True)
    whole = np.clip(table * residual.grain, -_LARGEST, _LARGEST)  # without axes, a number and no array
    return np.asarray(whole, dtype=np.int64).reshape(counts.shape)
