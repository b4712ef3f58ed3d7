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


def draw_residual(exact: Exact, residual: Residual, scale: Fraction, sampler: Sampler = "native") -> Integers:
    """The noisy residual of a table of counts: grain (identity (x) (x)_axes (n_i I - 1 1^T)) x plus noise.

    Counts are clamped to ``residual.most_rows`` first, so that every exact number is at most 2^61 in size. Clamping
    does not raise what one unit can change: clamped, a cell changes by a whole number between 0 and what it changed
    by before, so that a unit's change is one that a unit with fewer rows makes, and sensitivities cover all of those.

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
    numbers = np.clip(counts, -residual.most_rows, residual.most_rows)
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
