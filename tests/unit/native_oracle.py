"""The laws of native noise by lattice sums in many digits, apart from the code that draws, and sources that list bits."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

DIGITS = 330
Kind = str


class Tied(Exception):
    """More digits were asked for than the list holds."""


class Again(Exception):
    """A draw was refused, and another one begun."""


class Listed:
    """A source whose words and further digits are given; it raises where they end."""

    def __init__(self, words: Iterable[Iterable[int]] = (), digits: Iterable[int] = ()) -> None:
        self._words, self._digits = iter(words), iter(digits)
        self.asked = 0

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        found = next(self._words, None)
        if found is None:
            raise Again
        words = np.array(list(found), dtype=np.uint64)
        assert len(words) == count
        return words

    def bits(self, count: int) -> int:
        self.asked += 1
        found = next(self._digits, None)
        if found is None:
            raise Tied
        assert 0 <= found < 1 << count
        return found

    def wipe(self) -> None:
        """Nothing is secret."""


class Watched:
    """The operating system's words, kept by reference: how many were asked for, and are they zero afterwards?"""

    def __init__(self, system: Any) -> None:
        self.system = system
        self.given: list[Any] = []
        self.first: list[Any] = []

    def words(self, count: int) -> Any:
        words = self.system.words(count)
        self.given.append(words)
        self.first.append(words.copy())
        return words

    def bits(self, count: int) -> int:
        return int(self.system.bits(count))

    def wipe(self) -> None:
        self.system.wipe()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.system.__exit__(None, None, None)


def exponent(kind: Kind, scale: Fraction, value: int) -> Fraction:
    return Fraction(value * value) / (2 * scale * scale) if kind == "gaussian" else abs(value) / scale


def weight(kind: Kind, scale: Fraction, value: int) -> Any:
    part = exponent(kind, scale, value)
    return mpmath.exp(-mpmath.mpf(part.numerator) / part.denominator)


@cache
def _sums(kind: Kind, scale: Fraction, both: bool) -> tuple[int, list[Any]]:
    """The first value and all P(X < value) from there on, until less than 10^-DIGITS is left."""
    with mpmath.workdps(DIGITS + 20):
        reach = 1
        while exponent(kind, scale, reach) < 2.31 * DIGITS:
            reach = reach * 2
        values = range(-reach, reach + 1) if both else range(reach + 1)
        weights = [weight(kind, scale, value) for value in values]
        total, running, sums = mpmath.fsum(weights), mpmath.mpf(0), []
        for each in weights:
            sums.append(running / total)
            running += each
    return values[0], sums


def before(kind: Kind, scale: Fraction, value: int, both: bool = True) -> Any:
    """P(X < value)."""
    first, sums = _sums(kind, scale, both)
    if value <= first:
        return mpmath.mpf(0)
    return sums[value - first] if value - first < len(sums) else mpmath.mpf(1)


def digits_before(kind: Kind, scale: Fraction, value: int, bits: int, both: bool = True) -> int:
    """floor(2^bits P(X < value)); that value is no whole number, but for 0."""
    with mpmath.workdps(DIGITS + 20):
        return int(mpmath.floor(before(kind, scale, value, both) * mpmath.mpf(2) ** bits))


def value_at(kind: Kind, scale: Fraction, digits: int, bits: int) -> int:
    """The value of every real in [digits, digits + 1) / 2^bits.

    Raises:
        Tied: If there are several.
    """
    first, sums = _sums(kind, scale, True)
    with mpmath.workdps(DIGITS + 20):
        low, high = mpmath.mpf(digits) / 2**bits, mpmath.mpf(digits + 1) / 2**bits
        for index, sum_before in enumerate(sums):
            if sum_before > low:
                if sum_before < high:
                    raise Tied
                return first + index - 1
    raise Tied
