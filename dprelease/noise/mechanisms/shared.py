"""Tables of several periods behind one draw of integer noise: each times a whole number of its own, added up."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.native.lookup import BLOCK
from dprelease.noise.sampler import Sampler, add_noise

__all__ = ["draw_together", "weighted_together"]

Integers = npt.NDArray[np.int64]


def draw_together(
    exacts: Sequence[Exact], numbers: Sequence[int], most: int, scale: Fraction, sampler: Sampler = "native"
) -> Integers:
    """The noisy ``c_0 x_0 + c_1 x_1 + ...`` of tables x of one shape.

    Every number of a table is clamped to ``most`` in size first, so that no sum on the way exceeds 2^61. Clamped, a
    number moves by no more than it moved before, for one unit as for several.

    Args:
        exacts: The tables, each of shape ``(cells,)``.
        numbers: c, as many.
        most: The largest number of a table; the sum of the sizes of ``numbers`` times it is at most 2^61.
        scale: The scale of the noise; exactly a 64-bit float.
        sampler: Which implementation draws.

    Returns:
        A new array, shape ``(cells,)``; saturated at the limits of 64 bits, after the noise.

    Raises:
        BrokenPromiseError: If there are not as many numbers as tables, or the tables have different sizes.
    """
    total = _weighted(exacts, numbers, most)
    for start in range(0, len(total), BLOCK):
        block = total[start : start + BLOCK]
        block[...] = add_noise("gaussian", block, scale, sampler)
    return total


def weighted_together(exacts: Sequence[Exact], numbers: Sequence[int], most: int) -> Exact:
    """The same without noise, still un-noised: for a draw of combinations of its cells."""
    return Exact(_weighted(exacts, numbers, most))


def _weighted(exacts: Sequence[Exact], numbers: Sequence[int], most: int) -> Integers:
    tables = [open_exact(each) for each in exacts]
    if len(tables) != len(numbers) or len({each.shape for each in tables}) != 1 or tables[0].ndim != 1:
        raise BrokenPromiseError("the tables of a series are not as planned")
    total = np.zeros_like(tables[0])
    for table, number in zip(tables, numbers, strict=True):
        total += number * np.clip(table, -most, most)
    return total
