"""Exact discrete Gaussian and discrete Laplace noise at the speed of memory.

Small scales are drawn by one table, large ones by a table of blocks; the tables are made once per scale and process.
Memory does not grow with the number of draws. Proofs, and how run time depends on what is drawn:
docs/proofs/native-noise.md.

With blocks of m = 2^c values, the sign is fair, the block y >= 0 has P(y) proportional to exp(-rate (m y)^power), the
offset r is uniform on 0..m-1. The value is m y + r, or -(m y + r + 1) on the other side, so that zero comes once. It is
kept with probability exp(-rate (|x|^power - (m y)^power)), which makes its law exactly the stated one (section 3
there). Nearly all are kept, at once and by integers alone.

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
from dprelease.noise.native.cumulative import Decay
from dprelease.noise.native.entropy import exp_ratio_bounds
from dprelease.noise.native.lookup import BLOCK, Lookup, Scratch
from dprelease.noise.native.source import BitSource, System

__all__ = ["BlockTable", "Kind", "add_native", "discrete_gaussian", "discrete_laplace", "fill"]

Kind = Literal["laplace", "gaussian"]
Integers = npt.NDArray[np.int64]
_LIMITS = np.iinfo(np.int64)
# The least rate with a table of its own: a Gaussian scale of 300, a Laplace scale of 100. A table takes a millisecond
# for each 600 thresholds, so that larger ones are worth it for a million draws of one scale and more.
_LEAST_RATE = {"gaussian": Fraction(1, 2 * 300**2), "laplace": Fraction(1, 100)}
# the widest blocks whose draws fit into 64 bits, but for a chance of 2^-15,000
_WIDEST = 42


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
def sampler_of(kind: Kind, scale: Fraction) -> Lookup | BlockTable:
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
    return BlockTable(law, width) if width else Lookup(law)


def _block(sampler: Lookup | BlockTable, out: Integers, source: BitSource, scratch: Scratch) -> None:
    if isinstance(sampler, BlockTable):
        sampler.fill(out, source, scratch)
    else:
        sampler.fill(source.words(len(out)), out, source, scratch)


def _is_wide(sampler: Lookup | BlockTable) -> TypeGuard[BlockTable]:
    return isinstance(sampler, BlockTable) and sampler.width > _WIDEST


def _add_wide(sampler: BlockTable, values: Integers, noisy: Integers) -> None:
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


_MORE_BITS = 64


_LEAST_COIN = 15


_OFFSET_BITS = 10  # of the offset, for the quick test


class BlockTable:
    """Draws from one law of a large scale; a value once made, safe to share between threads.

    A second word holds the sign (1 bit), the offset (c bits) and the first digits of the coin (the rest). Blocks too
    wide for that, or draws for 64 bits, are for ``integer``.

    Args:
        law: The law, on all integers.
        width: c, with 2^c values in a block.
        bits: Digits of the word for the block, 64 but in tests.
        coin: Digits of the second word that are the coin's; all that are left, but in tests.
    """

    def __init__(self, law: Decay, width: int, bits: int = 64, coin: int | None = None) -> None:
        self._law, self._width = law, width
        self._coin = max(_LEAST_COIN, 63 - width) if coin is None else coin
        size = 1 << width
        self._table = Lookup(Decay(law.power, law.rate * size**law.power, both=False), bits)
        # the exponent is convex, so that inside a block it lies below its chord; exp(-t) >= 1 - t
        self._coarser = max(0, width - _OFFSET_BITS)
        rise = (law.rate.numerator << self._coin + self._coarser) * size ** (law.power - 1)
        below = law.rate.denominator
        slopes = [-(-rise * ((y + 1) ** law.power - y**law.power) // below) for y in range(self._table.size)]
        # after the last comes one that never accepts at once
        self._slopes = np.array([*(min(slope, 1 << self._coin) for slope in slopes), 1 << self._coin], dtype=np.uint64)
        self._slopes.flags.writeable = False

    @property
    def width(self) -> int:
        """c, with 2^c values in a block."""
        return self._width

    def integer(self, source: BitSource, scratch: Scratch) -> int:
        """One draw of any size."""
        block = np.empty(1, dtype=np.int64)
        while True:
            self._table.fill(source.words(1), block, source, scratch)
            value = (int(block[0]) << self._width) + source.bits(self._width)
            if source.bits(1):
                value = ~value
            if self.accepts(value, source.bits(self._coin), source):
                return value

    def fill(self, out: Integers, source: BitSource, scratch: Scratch) -> None:
        """Fill ``out`` with independent draws."""
        again = self._tried(out, source, scratch)
        while len(again):
            part = np.empty(len(again), dtype=np.int64)
            refused = self._tried(part, source, scratch)
            out[again] = part
            part.fill(0)
            again = again[refused]

    def _tried(self, out: Integers, source: BitSource, scratch: Scratch) -> Integers:
        """One draw each, and the positions of those that were refused."""
        size = len(out)
        self._table.fill(source.words(size), out, source, scratch)
        words = source.words(size)
        sign, offset = scratch.bucket[:size], scratch.threshold[:size]
        slope = self._slopes.take(out, mode="clip")
        np.right_shift(words, np.uint64(1), out=offset)
        np.bitwise_and(offset, np.uint64((1 << self._width) - 1), out=offset)
        coin = np.right_shift(words, np.uint64(self._width + 1))
        coin += slope
        slope *= np.right_shift(offset, np.uint64(self._coarser))
        coin += slope  # the coin and a slope for each part of the offset, the one begun included
        np.greater_equal(coin, np.uint64(1 << self._coin), out=scratch.flag[:size])
        np.minimum(out, 1 << 62 - self._width, out=out)  # so that nothing wraps: beyond 2^62, once in 2^15,000 draws
        np.left_shift(out, self._width, out=out)
        np.bitwise_or(out, offset.view(np.int64), out=out)
        np.bitwise_and(words.view(np.int64), 1, out=sign)
        np.negative(sign, out=sign)
        np.bitwise_xor(out, sign, out=out)  # x or -(x + 1)
        unsure = np.flatnonzero(scratch.flag[:size])
        coins = words[unsure] >> np.uint64(self._width + 1)
        kept = [
            self.accepts(value, digits, source)
            for value, digits in zip(out[unsure].tolist(), coins.tolist(), strict=True)
        ]
        coin.fill(0)
        slope.fill(0)
        return unsure[np.logical_not(np.array(kept, dtype=np.bool_))]

    def accepts(self, value: int, digits: int, source: BitSource) -> bool:
        """Whether a value is kept; ``digits`` are the first ones of the uniform real that is its coin."""
        power, reach, bits = self._law.power, abs(value), self._coin
        start = (value if value >= 0 else ~value) >> self._width << self._width
        rate = self._law.rate
        rise = rate.numerator * (reach**power - start**power)
        while True:
            low, high = exp_ratio_bounds(rise, rate.denominator, bits)
            if digits + 1 <= low:
                return True
            if digits >= high:
                return False
            digits, bits = digits << _MORE_BITS | source.bits(_MORE_BITS), bits + _MORE_BITS
