"""Exact random choices from operating-system entropy: integers below a limit, geometric and tilted ones.

Every function draws through one argument, ``below``: ``below(n)`` is uniform on 0..n-1. Nothing here computes with
floats, so the laws stated are the laws of the code, not approximations of them. Run times depend on what is drawn,
as with every sampler of this kind (no timing side channel is closed).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from types import TracebackType

import numpy as np

from dprelease.noise.native.source import System

__all__ = ["Below", "Entropy", "TiltedChoice", "bernoulli_exp", "exp_bounds", "exp_ratio_bounds", "geometric"]

Below = Callable[[int], int]
_POOL = 8  # words: a larger integer is slower to shift, a smaller one is filled more often
_FIRST_BUFFER = 32  # words, so that one draw asks for little
_LARGEST_BUFFER = 8192
_FIRST_BITS = 128
_MORE_BITS = 128


class Entropy:
    """Uniform integers from the one source of entropy; leaving the ``with`` block wipes it.

    Words are asked for in buffers, the first of 256 bytes and each twice as long as the one before, up to 64 KiB; each
    bit is used at most once. A buffer is overwritten when it is used up, and at the end. What Python holds as integers
    cannot be overwritten: the 64 bytes in use, and what was drawn. There is no generator and no seed. Make one for each
    draw and drop it: a pool that lives inside one call is never copied into a forked process that goes on with it.

    >>> with Entropy() as entropy:
    ...     entropy.below(1), entropy.below(6) < 6
    (0, True)
    """

    __slots__ = ("_buffer", "_left", "_pool", "_source", "_unread", "_words")

    def __init__(self) -> None:
        self._source = System()
        self._buffer = _FIRST_BUFFER
        self._words = np.empty(0, dtype=np.uint64)
        self._unread = self._pool = self._left = 0

    def below(self, limit: int) -> int:
        """A uniform integer in 0..limit-1: enough bits for the largest, drawn again while over the limit."""
        width = (limit - 1).bit_length()
        mask = (1 << width) - 1
        while True:
            if self._left < width:
                self._refill(width)
            value = self._pool & mask
            self._pool >>= width
            self._left -= width
            if value < limit:
                return value

    def _refill(self, width: int) -> None:
        """A pool of fresh words, for at least ``width`` bits; what was left of the old one is dropped, unused."""
        count = max(_POOL, -(-width // 64))
        if self._unread < count:
            self._source.wipe()
            self._words = self._source.words(max(self._buffer, count))
            self._unread = len(self._words)
            self._buffer = min(2 * self._buffer, _LARGEST_BUFFER)
        taken = self._words[self._unread - count : self._unread]
        self._unread -= count
        self._pool, self._left = int.from_bytes(taken.tobytes(), "big"), 64 * count

    def wipe(self) -> None:
        """Forget the pool, and overwrite the buffer with zeros; what is drawn next is fresh."""
        self._source.wipe()
        self._unread = self._pool = self._left = 0

    def __enter__(self) -> Entropy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()


def bernoulli_exp(below: Below, numerator: int, denominator: int) -> bool:
    """True with probability exp(-numerator / denominator), for a rate in [0, 1].

    Canonne, Kamath and Steinke 2020, Algorithm 1 with Proposition 31: the run of successes of Bernoulli(rate / K),
    K = 1, 2, ..., reaches length n with probability rate^n / n!, and ends even with probability exp(-rate).
    """
    turn = 2 if numerator == denominator else 1  # the first of these is certain, and not drawn
    while below(denominator * turn) < numerator:
        turn += 1
    return turn % 2 == 1


def geometric(below: Below, scale: Fraction) -> int:
    """An integer g >= 0 with P(g) = (1 - q) q^g, q = exp(-1 / scale).

    Canonne, Kamath and Steinke 2020, Algorithm 2 without its sign. With scale = t / s in lowest terms, u uniform on
    0..t-1 kept with probability exp(-u / t) and v geometric with q = 1/e make u + t v geometric with q = exp(-1 / t);
    the integer part of its s-th is geometric with q = exp(-s / t).
    """
    steps, divisor = scale.numerator, scale.denominator
    rest = below(steps)
    while not bernoulli_exp(below, rest, steps):
        rest = below(steps)
    turns = 0
    while bernoulli_exp(below, 1, 1):
        turns += 1
    return (rest + steps * turns) // divisor


def exp_bounds(rate: Fraction, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^bits exp(-rate) <= high, for a rate >= 0.

    The rate is halved until it is at most 1, where the terms of the alternating series fall, so that what is left
    out is at most the last term taken; then the bounds are squared as often, the lower one rounded down and the
    upper one up.
    """
    return exp_ratio_bounds(rate.numerator, rate.denominator, bits)


def exp_ratio_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """The bounds of :func:`exp_bounds` for the rate numerator / denominator, which need not be in lowest terms."""
    halvings = max(0, numerator.bit_length() - denominator.bit_length() + 1)
    denominator <<= halvings
    fine = bits + 2 * halvings + 16
    one = 1 << fine
    term_low = term_high = low = high = one
    index = 0
    while term_high > 1:
        index += 1
        divisor = denominator * index
        term_low = term_low * numerator // divisor
        term_high = -(-term_high * numerator // divisor)
        low, high = (low - term_high, high - term_low) if index % 2 else (low + term_low, high + term_high)
    low, high = max(0, low - term_high), min(one, high + term_high)
    for _ in range(halvings):
        low, high = low * low >> fine, -(-high * high >> fine)
    shift = fine - bits
    return low >> shift, -(-high >> shift)


class TiltedChoice:
    """An index j with P(j) proportional to weights[j] exp(-j / scale), exactly.

    The distribution function is inverted: of a uniform real in [0, 1) only as many binary digits are drawn, and of
    the distribution function only as many are computed, as are needed to know the index for certain. The answer is
    therefore that of the exact inverse, whose law is the stated one; more digits are needed once in about 2^120.

    Args:
        weights: Non-negative integers, the first one positive.
        scale: A positive rational.
    """

    def __init__(self, weights: Sequence[int], scale: Fraction) -> None:
        self._weights = tuple(weights)
        self._scale = scale
        self._tables: dict[int, tuple[list[int], list[int]]] = {}

    def draw(self, below: Below, bits: int = _FIRST_BITS) -> int:
        """One index; ``bits`` is the number of digits to begin with."""
        digits = below(1 << bits)
        while True:
            index = self._certain(digits, bits)
            if index is not None:
                return index
            digits = digits << _MORE_BITS | below(1 << _MORE_BITS)
            bits += _MORE_BITS

    def _certain(self, digits: int, bits: int) -> int | None:
        """The index of every real in [digits, digits + 1) / 2^bits, or None if the bounds do not decide."""
        if bits not in self._tables:
            self._tables[bits] = self.bounds(bits)
        low, high = self._tables[bits]
        index = bisect_right(high, digits)  # at most the last one, whose bounds are both 2^bits
        return index if digits + 1 <= low[index] else None

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        """Lower and upper bounds of 2^bits P(index <= j) for every j, rounded outwards."""
        fine = bits + max(self._weights).bit_length() + 64
        step_low, step_high = exp_bounds(1 / self._scale, fine)
        low, high = [], []
        power_low = power_high = 1 << fine
        for weight in self._weights:
            low.append(weight * power_low)
            high.append(weight * power_high)
            power_low = power_low * step_low >> fine
            power_high = -(-power_high * step_high >> fine)
        head_low, head_high = list(accumulate(low)), list(accumulate(high))
        rest_low = [head_low[-1] - head for head in head_low]
        rest_high = [head_high[-1] - head for head in head_high]
        # head / (head + rest) grows with the head and falls with the rest
        return (
            [(head << bits) // (head + rest) for head, rest in zip(head_low, rest_high, strict=True)],
            [-((-head << bits) // (head + rest)) for head, rest in zip(head_high, rest_low, strict=True)],
        )
