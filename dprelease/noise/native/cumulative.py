"""Distribution functions of discrete noise between integers: every step rounded outwards.

A ``Decay`` is a law on the integers with P(x) proportional to exp(-rate |x|^power): discrete Laplace noise (power 1,
rate 1 / scale) and discrete Gaussian noise (power 2, rate 1 / (2 scale^2)). Proofs: docs/proofs/native-noise.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from dprelease.errors import BrokenPromiseError
from dprelease.noise.native.entropy import exp_bounds

__all__ = ["Cumulative", "Decay", "cumulative", "separated"]

_GUARD_BITS = 64


@dataclass(frozen=True)
class Decay:
    """P(x) proportional to exp(-rate |x|^power).

    Attributes:
        power: 1 (Laplace) or 2 (Gaussian).
        rate: A positive rational.
        both: Whether on all integers, or on 0, 1, 2, ... alone.
    """

    power: int
    rate: Fraction
    both: bool = True

    @staticmethod
    def gaussian(scale: Fraction) -> Decay:
        """exp(-x^2 / (2 scale^2))."""
        return Decay(2, 1 / (2 * scale * scale))

    @staticmethod
    def laplace(scale: Fraction) -> Decay:
        """exp(-|x| / scale)."""
        return Decay(1, 1 / scale)


@dataclass(frozen=True)
class Cumulative:
    """Bounds of 2^bits P(X < first + i) for i = 0, 1, ...: low[i] <= that <= high[i], both rising."""

    first: int
    low: list[int]
    high: list[int]


def cumulative(law: Decay, bits: int, guard: int = _GUARD_BITS) -> Cumulative:
    """The distribution function but for less than 2^-bits of mass in each tail that goes on for ever.

    Args:
        law: The law.
        bits: How many binary digits are wanted.
        guard: How many more the sums are made with.
    """
    low, high, tail = _weights(law, bits, guard)
    # beyond[k]: bounds of the sum of all weights from k + 1 on
    beyond_low = _suffixes(low, tail[0])
    beyond_high = _suffixes(high, tail[1])
    sides = 2 if law.both else 1
    total_low = low[0] + sides * beyond_low[0]
    total_high = high[0] + sides * beyond_high[0]
    # P(X > k) = beyond / total, and P(X < -k) is the same
    above_low = [(part << bits) // total_high for part in beyond_low]
    above_high = [-((-part << bits) // total_low) for part in beyond_high]
    one = 1 << bits
    upper_low, upper_high = [one - part for part in above_high], [one - part for part in above_low]
    if not law.both:
        return Cumulative(0, [0, *upper_low], [0, *upper_high])
    return Cumulative(1 - len(low), above_low[::-1] + upper_low, above_high[::-1] + upper_high)


def separated(law: Decay, bits: int) -> tuple[int, list[int]]:
    """The first value, and integers t with t <= 2^bits P(X < first + i) <= t + 1 for i = 0, 1, ...

    Of several zeros at the lower end only the last is kept, and at the upper end only the first of those that are
    2^bits - 1.

    Raises:
        BrokenPromiseError: If two roundings differ at every precision tried; a matter of the scale alone.
    """
    for guard in (_GUARD_BITS, 4 * _GUARD_BITS, 16 * _GUARD_BITS):
        found = cumulative(law, bits, guard)
        if all(high - low <= 1 for low, high in zip(found.low, found.high, strict=True)):
            start = bisect_right(found.low, 0) - 1
            return found.first + start, found.low[start : bisect_left(found.low, (1 << bits) - 1) + 1]
    raise BrokenPromiseError(f"the thresholds of noise with rate {law.rate} cannot be told from whole numbers")


def _suffixes(parts: list[int], last: int) -> list[int]:
    """For every k the sum of parts[k + 1:] and ``last``."""
    return list(accumulate(parts[:0:-1], initial=last))[::-1]


def _weights(law: Decay, bits: int, guard: int) -> tuple[list[int], list[int], tuple[int, int]]:
    """Bounds of exp(-rate k^power) for k = 0..K in units of 2^-fine, and two of the sum of all after K.

    The weights are products of ratios, which themselves fall by a constant factor, 1 for power 1. As ratios never
    rise, all after K sum to at most weight(K + 1) / (1 - ratio(K)), and for power 1 to just that; for power 2 the lower
    bound is 0, so that K must leave out less.
    """
    spread = (law.rate.denominator // law.rate.numerator).bit_length()
    fine = bits + guard + 2 * spread + 16
    ratio_low, ratio_high = exp_bounds(law.rate, fine)
    fall_low, fall_high = exp_bounds(2 * law.rate, fine)
    left_out = bits + 1 if law.power == 1 else bits + guard
    one = 1 << fine
    low, high = [one], [one]
    while True:
        next_low, next_high = low[-1] * ratio_low >> fine, -(-high[-1] * ratio_high >> fine)
        if next_high << left_out <= one - ratio_high:
            tail_low = (next_low << fine) // (one - ratio_low) if law.power == 1 else 0
            return low, high, (tail_low, -((-next_high << fine) // (one - ratio_high)))
        low.append(next_low)
        high.append(next_high)
        if law.power == 2:
            ratio_low = ratio_low * fall_low >> fine
            ratio_high = -(-ratio_high * fall_high >> fine)
