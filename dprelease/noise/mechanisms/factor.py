"""Lines of tables of counts behind integer noise: a whole-number matrix times each line, discrete Gaussian noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, ExactHistogram, open_exact, open_histogram
from dprelease.noise.native.lookup import BLOCK
from dprelease.noise.sampler import Sampler, add_noise

if TYPE_CHECKING:  # a sibling: what is declared does not import what hides it, nor the other way round
    from dprelease.catalog.factor import Factor

__all__ = ["counted_classes", "draw_factor"]

Integers = npt.NDArray[np.int64]
_ROWS = 256  # of the matrix, widened at a time
_NUMBERS = 1 << 20  # of the table, multiplied at a time


def draw_factor(exact: Exact, factor: Factor, scale: Fraction, sampler: Sampler = "native") -> Integers:
    """The noisy F x of every line x of a table of counts along the factor's axis.

    Counts are clamped to ``factor.most_rows`` first, so that every exact number, and every partial sum on the way, is
    at most 2^61 in size. Clamping does not raise what one unit can change: clamped, a cell changes by a whole number
    between 0 and what it changed by before, so that a unit's change is one that a unit with fewer rows makes, and
    sensitivities cover all of those. It is whole-number arithmetic throughout.

    Args:
        exact: The counts, row-major, shape ``(prod(factor.shape),)``.
        factor: Which matrix, along which axis.
        scale: The scale of the noise, in steps of the lattice; exactly a 64-bit float.
        sampler: Which implementation draws.

    Returns:
        A new array of the same shape and order (where x has a cell, F x has a number), in steps of the lattice;
        saturated at the limits of 64 bits, after the noise. Beside the exact counts it takes memory for the answer
        and for blocks of it.

    Raises:
        BrokenPromiseError: If the counts are not those of a table of that shape, or the scale is not a positive float.
    """
    counts = open_exact(exact)
    if counts.shape != (prod(factor.shape),):
        raise BrokenPromiseError("a factor is drawn from a table of another shape than planned")
    keys, most = factor.length, factor.most_rows
    after = prod(factor.shape[factor.axis + 1 :])
    numbers = np.empty_like(counts)
    lines = counts.reshape(-1, keys, after)
    answers = numbers.reshape(-1, keys, after)  # a view
    wide = max(1, _NUMBERS // keys)
    if after == 1:
        for first in range(0, len(lines), wide):
            part = np.clip(lines[first : first + wide, :, 0], -most, most)
            answers[first : first + wide, :, 0] = _multiplied(part, factor)
    else:
        for at in range(len(lines)):
            for first in range(0, after, wide):
                part = np.clip(lines[at, :, first : first + wide].T, -most, most)
                answers[at, :, first : first + wide] = _multiplied(part, factor).T
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        block[...] = add_noise("gaussian", block, scale, sampler)
    return numbers


def counted_classes(histogram: ExactHistogram, starts: Sequence[int]) -> Exact:
    """How many values of every cell lie in each class of grid values, as a table of counts; still un-noised.

    Args:
        histogram: The exact values.
        starts: Where each class begins, rising; what is below the first one is in the first, and the last one has no
            end.

    Returns:
        Shape ``(cells * classes,)``, the classes of a cell one after the other.
    """
    cells, cell, value, count = open_histogram(histogram)
    first = np.asarray(starts, dtype=np.int64)
    place = np.clip(np.searchsorted(first, value, side="right") - 1, 0, None)
    found = np.zeros(cells * len(first), dtype=np.int64)
    np.add.at(found, cell * len(first) + place, count)
    return Exact(found)


def _multiplied(lines: Integers, factor: Factor) -> Integers:
    """F times every row of ``lines``, shape ``(lines, keys)``; of a triangle only where it has entries."""
    matrix, held = factor.matrix, np.ascontiguousarray(lines)
    found = np.empty_like(held)
    for first in range(0, factor.length, _ROWS):
        last = min(first + _ROWS, factor.length)
        reach = last if factor.kind == "root" else factor.length
        found[:, first:last] = held[:, :reach] @ matrix[first:last, :reach].astype(np.int64).T
    return found
