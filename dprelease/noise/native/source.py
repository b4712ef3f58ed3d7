"""The one source of entropy: what the operating system gives, used once and wiped.

There is no generator, no seed and no state between calls, so that nothing can be guessed, or be copied into a forked
process and used twice: every call asks the kernel. Make a source for each draw and drop it.
"""

from __future__ import annotations

import ctypes
import os
from types import TracebackType
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["BitSource", "System", "Words", "fresh_bits"]

Words = npt.NDArray[np.uint64]


class BitSource(Protocol):
    """Where uniform bits come from; the tests list all of them instead."""

    def words(self, count: int) -> Words:
        """``count`` independent uniform words, read-only, valid until the next ``wipe``."""
        ...

    def bits(self, count: int) -> int:
        """A uniform integer in 0..2^count - 1."""
        ...

    def wipe(self) -> None:
        """Overwrite every word given out so far."""
        ...


class System:
    """Words from ``os.urandom``; leaving the ``with`` block wipes them.

    >>> with System() as source:
    ...     len(source.words(3)), source.bits(1) < 2
    (3, True)
    """

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: list[bytes] = []

    def words(self, count: int) -> Words:
        """``count`` uniform 64-bit words, read-only, valid until the next ``wipe``."""
        raw = os.urandom(8 * count)
        self._given.append(raw)
        return np.frombuffer(raw, dtype=np.uint64)

    def bits(self, count: int) -> int:
        """A uniform integer in 0..2^count - 1."""
        return fresh_bits(count)

    def wipe(self) -> None:
        """Overwrite every word given out so far with zeros."""
        for raw in self._given:
            _wipe(raw)
        self._given.clear()

    def __enter__(self) -> System:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()


def fresh_bits(count: int) -> int:
    """A uniform integer in 0..2^count - 1, from as many whole bytes as it needs and two more."""
    size = (count + 7) // 8
    raw = os.urandom(size + 2)
    value = int.from_bytes(raw[:size], "big") >> (8 * size - count)
    _wipe(raw)
    return value


def _wipe(raw: bytes) -> None:
    """Zeros over bytes that ``os.urandom`` made and that nobody else holds.

    Python shares the empty bytes and those of one byte among all who have them; those are left alone.
    """
    if len(raw) > 1:
        ctypes.memset(np.frombuffer(raw, dtype=np.uint8).ctypes.data, 0, len(raw))
