"""The inverse of a distribution function by table: one word of entropy a draw, more digits only where it ties.

A word u stands for all reals in [u, u + 1) / 2^64. Lies it strictly between two neighbouring thresholds
floor(2^64 F), the value is the same for all of them and decided. Where it equals one, digits are added and the bounds
of F made closer until they decide. The answer is that of the exact inverse, so its law is exactly the stated one
(docs/proofs/native-noise.md, section 2).
"""

from __future__ import annotations

from bisect import bisect_right
from types import TracebackType

import numpy as np
import numpy.typing as npt

from dprelease.noise.native.cumulative import Decay, cumulative, separated
from dprelease.noise.native.source import BitSource, Words

__all__ = ["BLOCK", "Lookup", "Scratch"]

Integers = npt.NDArray[np.int64]
BLOCK = 65_536
"""Draws at a time: what they need fits into the cache."""
_MORE_BITS = 64
_MOST_BUCKET_BITS = 16
_SEVERAL = np.int32(-(1 << 30))  # marks a bucket with several thresholds


class Scratch:
    """Room for one block of draws, kept over the blocks of one call; leaving the ``with`` block wipes it."""

    __slots__ = ("bucket", "count", "flag", "other", "threshold")

    def __init__(self, size: int) -> None:
        self.bucket = np.empty(size, dtype=np.int64)
        self.threshold = np.empty(size, dtype=np.uint64)
        self.count = np.empty(size, dtype=np.int32)
        self.flag = np.empty(size, dtype=np.bool_)
        self.other = np.empty(size, dtype=np.bool_)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self.__slots__:
            getattr(self, name).fill(0)


class Lookup:
    """Draws from one law; a value once made, safe to share between threads.

    The top bits of a word name a bucket. ``_passed`` says how many thresholds lie before it; most buckets hold one
    threshold at most, which ``_threshold`` has, and are decided by one comparison. The few with several (they lie in
    the tails) are searched.

    Args:
        law: The law.
        bits: Digits of a word, 64 but in tests.
        more: Digits added when they do not decide.
    """

    def __init__(self, law: Decay, bits: int = 64, more: int = _MORE_BITS) -> None:
        self._law, self._bits, self._more = law, bits, more
        self.first, thresholds = separated(law, bits)
        self.size = len(thresholds) - 1
        self._all = np.array(thresholds, dtype=np.uint64)
        top = min(_MOST_BUCKET_BITS, bits, len(thresholds).bit_length() + 4)
        self._shift = np.uint64(bits - top)
        starts = np.arange(1 << top, dtype=np.uint64) << self._shift
        passed = np.searchsorted(self._all, starts, side="left")
        held = np.diff(passed, append=len(thresholds))
        self._passed = np.where(held > 1, _SEVERAL, passed).astype(np.int32)
        last = np.uint64((1 << bits) - 1)  # above every word but one, which is a threshold itself
        self._threshold = np.where(held == 1, self._all[np.minimum(passed, len(thresholds) - 1)], last)
        for table in (self._all, self._passed, self._threshold):
            table.flags.writeable = False

    def fill(self, words: Words, out: Integers, source: BitSource, scratch: Scratch) -> None:
        """One value for each word; ``source`` gives the digits for ties.

        Args:
            words: Uniform in 0..2^bits - 1.
            out: Receives the values, same shape.
            source: Further digits.
            scratch: At least as long as ``words``.
        """
        size = len(words)
        bucket, threshold, count = scratch.bucket[:size], scratch.threshold[:size], scratch.count[:size]
        flag, other = scratch.flag[:size], scratch.other[:size]
        np.right_shift(words, self._shift, out=bucket.view(np.uint64))
        self._threshold.take(bucket, out=threshold, mode="clip")
        self._passed.take(bucket, out=count, mode="clip")
        np.greater(words, threshold, out=flag)
        np.add(count, flag.view(np.int8), out=count)
        np.add(count, self.first - 1, out=out)
        np.equal(words, threshold, out=flag)
        np.less(count, 0, out=other)
        np.logical_or(flag, other, out=flag)
        rest = np.flatnonzero(flag)
        if len(rest):
            out[rest] = self._searched(words[rest], source)

    def _searched(self, words: Words, source: BitSource) -> Integers:
        """Values by search in all thresholds, and by more digits for the words that equal one."""
        passed = np.searchsorted(self._all, words, side="left")
        values = passed + (self.first - 1)
        for tie in np.flatnonzero(self._all[passed] == words).tolist():
            values[tie] = self.refined(int(words[tie]), source)
        return values

    def refined(self, digits: int, source: BitSource) -> int:
        """The value for a word that the thresholds do not decide, with as many further digits as it takes."""
        bits = self._bits
        while True:
            digits, bits = digits << self._more | source.bits(self._more), bits + self._more
            found = cumulative(self._law, bits)
            index = bisect_right(found.high, digits) - 1
            if 0 <= index < len(found.low) - 1 and digits + 1 <= found.low[index + 1]:
                return found.first + index
