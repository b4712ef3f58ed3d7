"""Exact discrete Gaussian and discrete Laplace noise at the speed of memory.

Small scales are drawn by one table, large ones by a table of blocks; the tables are made once per scale and process.
Memory does not grow with the number of draws. Proofs, and how run time depends on what is drawn:
docs/proofs/native-noise.md.

>>> int(abs(discrete_gaussian(Fraction(104, 4099), 1000)).max())
0
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeGuard

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.native.blocks import Blocks
from dprelease.noise.native.cumulative import Decay
from dprelease.noise.native.lookup import BLOCK, Lookup, Scratch
from dprelease.noise.native.source import Source, System

__all__ = ["Kind", "add_native", "discrete_gaussian", "discrete_laplace", "fill"]

Kind = Literal["laplace", "gaussian"]
Integers = npt.NDArray[np.int64]
_LIMITS = np.iinfo(np.int64)
# the least rate with a table of its own: a Gaussian scale of 1,500, a Laplace scale of 400
_LEAST_RATE = {"gaussian": Fraction(1, 2 * 1500**2), "laplace": Fraction(1, 400)}
# the widest blocks whose draws fit into 64 bits, but for a chance of 2^-15,000
_WIDEST = 40


def discrete_gaussian(scale: Fraction, count: int) -> Integers:
    """Independent draws with P(k) proportional to exp(-k^2 / (2 scale^2)), exactly.

    Args:
        scale: Any positive rational.
        count: How many.

    Raises:
        BrokenPromiseError: If the scale is not positive, or so large that draws do not fit into 64 bits.
    """
    drawn = np.empty(count, dtype=np.int64)
    fill("gaussian", scale, drawn)
    return drawn


def discrete_laplace(scale: Fraction, count: int) -> Integers:
    """Independent draws with P(k) proportional to exp(-|k| / scale), exactly; otherwise as the Gaussian ones."""
    drawn = np.empty(count, dtype=np.int64)
    fill("laplace", scale, drawn)
    return drawn


def fill(kind: Kind, scale: Fraction, out: Integers) -> None:
    """Overwrite an array with independent draws, block by block: memory is that of one block.

    Args:
        kind: ``laplace`` or ``gaussian``, both discrete.
        scale: Any positive rational.
        out: Type ``int64``, shape ``(draws,)``, contiguous.

    Raises:
        BrokenPromiseError: If the scale is not positive or too large.
    """
    sampler, scratch = sampler_of(kind, scale), Scratch(min(len(out), BLOCK))
    if _is_wide(sampler):
        raise BrokenPromiseError(f"{kind} noise of scale {float(scale):g} does not fit into 64 bits")
    with System() as source, scratch:
        for start in range(0, len(out), BLOCK):
            _block(sampler, out[start : start + BLOCK], source, scratch)
            source.wipe()


def add_native(kind: Kind, values: Integers, scale: Fraction) -> Integers:
    """Values plus independent exact noise, saturated at the limits of 64 bits after the noise.

    Args:
        kind: ``laplace`` or ``gaussian``, both discrete.
        values: Exact integers, shape ``(cells,)``.
        scale: Any positive rational, used exactly.

    Raises:
        BrokenPromiseError: If the scale is not positive.
    """
    noisy = np.empty(len(values), dtype=np.int64)
    sampler = sampler_of(kind, scale)
    if _is_wide(sampler):
        _add_wide(sampler, values, noisy)
        return noisy
    fill(kind, scale, noisy)
    for start in range(0, len(values), BLOCK):
        _add_saturating(values[start : start + BLOCK], noisy[start : start + BLOCK])
    return noisy


@lru_cache(maxsize=64)
def sampler_of(kind: Kind, scale: Fraction) -> Lookup | Blocks:
    """The tables of one scale.

    Raises:
        BrokenPromiseError: If the scale is not positive.
    """
    if scale <= 0:
        raise BrokenPromiseError(f"a noise scale of {scale} is not positive")
    law = Decay.gaussian(scale) if kind == "gaussian" else Decay.laplace(scale)
    width = 0
    while law.rate * 2 ** (width * law.power) < _LEAST_RATE[kind]:
        width += 1
    return Blocks(law, width) if width else Lookup(law)


def _block(sampler: Lookup | Blocks, out: Integers, source: Source, scratch: Scratch) -> None:
    if isinstance(sampler, Blocks):
        sampler.fill(out, source, scratch)
    else:
        sampler.fill(source.words(len(out)), out, source, scratch)


def _is_wide(sampler: Lookup | Blocks) -> TypeGuard[Blocks]:
    return isinstance(sampler, Blocks) and sampler.width > _WIDEST


def _add_wide(sampler: Blocks, values: Integers, noisy: Integers) -> None:
    """Sums of which the noise alone may pass 64 bits: one by one in integers of any size, saturated as sums.

    Noise cut off before the sum would tell the value that it is added to.
    """
    with System() as source, Scratch(1) as scratch:
        for place, value in enumerate(values.tolist()):
            total = value + sampler.integer(source, scratch)
            noisy[place] = min(max(total, int(_LIMITS.min)), int(_LIMITS.max))
            source.wipe()


def _add_saturating(values: Integers, noisy: Integers) -> None:
    """Add ``values`` to ``noisy`` in place.

    A sum has wrapped exactly if its sign differs from those of both parts; they then have one sign, that of the limit.
    """
    total = values + noisy
    wrapped = ((values ^ total) & (noisy ^ total)) < 0
    noisy[...] = np.where(wrapped, np.where(values < 0, _LIMITS.min, _LIMITS.max), total)
