"""The exponential mechanism without floats: quantiles on a declared grid, and the most frequent keys.

A candidate x is drawn with P(x) proportional to exp(-score(x) / scale), by inverting the distribution function as far
as needed to be certain, so that the law is exactly the stated one. What it costs is an event of bounded range; the
ranges are proved in docs/proofs/exponential-mechanism.md, and ``catalog.sensitivity.choice_reach`` gives them.

>>> ScoreLaw(Fraction(2), 100).margin(Fraction(19, 20))
16
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, ExactHistogram, open_exact, open_histogram
from dprelease.noise.native.entropy import Below, Entropy, exp_bounds
from dprelease.privacy.rounding import CONTEXT, real

__all__ = ["ExponentialQuantile", "ExponentialTopK", "LevelChoice", "Powers", "ScoreLaw", "pieces"]

Integers = npt.NDArray[np.int64]
_FIRST_BITS = 64
_MORE_BITS = 128
_GUARD_BITS = 32
_DIGIT = 8  # bits of a level that are looked up at once
_MOST_KNOWN = 1 << 17


class Powers:
    """Bounds of exp(-level / scale) for many whole levels, at one scale.

    exp(-level / scale) is the product over the base-256 digits d of the level of exp(-d 256^i / scale); each factor is
    bounded once, and the product is rounded outwards after every step.

    Args:
        scale: A positive rational.
    """

    def __init__(self, scale: Fraction) -> None:
        self._scale = scale
        self._factors: dict[tuple[int, int], tuple[int, int]] = {}
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def cut(self, bits: int) -> int:
        """A level from which on ``bounds`` is (0, 1): exp(-bits) is below 2^-bits."""
        return ceil(bits * self._scale)

    def bounds(self, level: int, bits: int) -> tuple[int, int]:
        """Integers (low, high) with low <= 2^bits exp(-level / scale) <= high, a dozen apart at most."""
        found = self._known.get((level, bits))
        if found is None:
            found = (0, 1) if level >= self.cut(bits) else self._product(level, bits)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[level, bits] = found
        return found

    def _product(self, level: int, bits: int) -> tuple[int, int]:
        low = high = 1 << bits
        place = 0
        while level >> place:
            part = level & ((1 << _DIGIT) - 1) << place
            if part:
                if (part, bits) not in self._factors:
                    self._factors[part, bits] = exp_bounds(part / self._scale, bits)
                factor_low, factor_high = self._factors[part, bits]
                low, high = low * factor_low >> bits, -(-high * factor_high >> bits)
            place += _DIGIT
        return low, high


class LevelChoice:
    """An index i with P(i) proportional to weights[i] exp(-levels[i] / scale), exactly.

    The distribution function is inverted as in ``TiltedChoice``: of a uniform real in [0, 1) only as many binary digits
    are drawn, and of the sums only as many are computed, as are needed to know the index for certain. Levels count
    from the least one, so that the largest factor is 1; a level so high that its factor is below the last digit has
    the bounds 0 and 1 of that digit and stays possible.

    Args:
        weights: Non-negative integers, shape ``(indices,)``, at least one of them positive.
        levels: Integers, same shape, in units of which ``powers`` knows the scale.
        powers: The scale.

    Raises:
        ValueError: If no weight is positive.
    """

    def __init__(self, weights: Sequence[int], levels: Sequence[int], powers: Powers) -> None:
        least = min(level for level, weight in zip(levels, weights, strict=True) if weight > 0)
        self._terms = [(weight, level - least if weight else 0) for weight, level in zip(weights, levels, strict=True)]
        self._guard = sum(weights).bit_length() + _GUARD_BITS
        self._powers = powers
        self._sums: dict[int, tuple[list[int], list[int]]] = {}

    def draw(self, below: Below, bits: int = _FIRST_BITS) -> int:
        """One index; ``bits`` is the number of digits to begin with."""
        digits = below(1 << bits)
        while (index := self.certain(digits, bits)) is None:
            digits = digits << _MORE_BITS | below(1 << _MORE_BITS)
            bits += _MORE_BITS
        return index

    def certain(self, digits: int, bits: int) -> int | None:
        """The index of every real in [digits, digits + 1) / 2^bits, or None if the bounds do not decide."""
        low, high = self.sums(bits)
        # only a guess, and at most the last index, because digits < 2^bits: what follows is the proof
        index = bisect_right(low, digits * low[-1] >> bits)
        # P(<= index) = head / (head + rest) grows with the head and falls with the rest
        if (digits + 1) * (low[index] + high[-1] - high[index]) > low[index] << bits:
            return None
        if index and digits * (high[index - 1] + low[-1] - low[index - 1]) < high[index - 1] << bits:
            return None
        return index

    def sums(self, bits: int) -> tuple[list[int], list[int]]:
        """Lower and upper bounds of the running sums of weights times factors, in units fine enough for ``bits``."""
        if bits not in self._sums:
            fine, of = bits + self._guard, self._powers.bounds
            bounds = [(weight, *of(level, fine)) for weight, level in self._terms]
            self._sums[bits] = (
                list(accumulate(weight * low for weight, low, _ in bounds)),
                list(accumulate(weight * high for weight, _, high in bounds)),
            )
        return self._sums[bits]


def pieces(
    values: Sequence[int], counts: Sequence[int], at: Fraction, low: int, high: int
) -> tuple[list[int], list[int], list[int]]:
    """The score of every grid value, as pieces on which it is constant.

    score(x) = max(#{< x} - at n, #{> x} - (1 - at) n, 0), the distance in ranks between x and the ``at``-quantile of
    the n values. Between two neighbouring values it is |#{< x} - at n|, and at a value with l below it and c on it
    max(l - at n, at n - l - c, 0).

    Args:
        values: Distinct values in rising order, each in low..high.
        counts: How often each occurs, same length.
        at: The fraction, in [0, 1].
        low: The first grid value.
        high: The last.

    Returns:
        The first grid value of each piece, the number of its grid values, and its score times ``at.denominator``.
    """
    step, wanted = at.denominator, at.numerator * sum(counts)
    starts: list[int] = []
    widths: list[int] = []
    levels: list[int] = []
    start, rank = low, -wanted  # rank is `step` times the number of values below, less the wanted one
    for value, count in zip(values, counts, strict=True):
        if value > start:
            starts.append(start)
            widths.append(value - start)
            levels.append(abs(rank))
        after = rank + step * count
        starts.append(value)
        widths.append(1)
        levels.append(max(rank, -after, 0))
        start, rank = value + 1, after
    if start <= high:
        starts.append(start)
        widths.append(high - start + 1)
        levels.append(abs(rank))
    return starts, widths, levels


class ExponentialQuantile:
    """A quantile of each cell by the exponential mechanism over the values of a grid; the score is that of `pieces`."""

    name = "exponential_quantile"

    def draw(self, histogram: ExactHistogram, at: Fraction, low: int, high: int, scale: Fraction) -> Integers:
        """One fresh draw per cell from operating-system entropy.

        An empty cell has score 0 everywhere, and its draw is uniform on low..high.

        Args:
            histogram: The values of each cell, clipped to low..high.
            at: The fraction, in [0, 1].
            low: The first grid value, in 64 bits.
            high: The last, at least ``low``, in 64 bits.
            scale: In ranks, any positive rational; used exactly.

        Returns:
            Grid values, shape ``(cells,)``, type ``int64``.

        Raises:
            BrokenPromiseError: If an argument or a value is outside its bounds; no value is told.
        """
        cells, cell, value, count = open_histogram(histogram)
        if scale <= 0 or not 0 <= at <= 1 or low > high:
            raise BrokenPromiseError("a quantile needs a positive scale, a fraction in [0, 1] and a grid")
        if ((value < low) | (value > high)).any():
            raise BrokenPromiseError("a histogram holds values that were not clipped to its grid")
        powers = Powers(scale * at.denominator)
        drawn = np.empty(cells, dtype=np.int64)
        with Entropy() as entropy:
            for index, (values, counts) in enumerate(_by_cell(cells, cell, value, count)):
                starts, widths, levels = pieces(values, counts, at, low, high)
                chosen = LevelChoice(widths, levels, powers).draw(entropy.below)
                drawn[index] = starts[chosen] + entropy.below(widths[chosen])
        return drawn


class ExponentialTopK:
    """The keys with the largest counts, drawn one after the other without replacement."""

    name = "exponential_top_k"

    def draw(self, counts: Exact, k: int, scale: Fraction) -> Integers:
        """Positions of k different counts in order of draw, P(i) proportional to exp(count_i / scale) in each round.

        Args:
            counts: One count per public key, shape ``(keys,)``.
            k: How many, from 1 to the number of keys.
            scale: In units of the counts, any positive rational; used exactly.

        Returns:
            Positions, shape ``(k,)``, type ``int64``.

        Raises:
            BrokenPromiseError: If an argument is outside its bounds.
        """
        values = open_exact(counts)
        if scale <= 0 or not 1 <= k <= len(values):
            raise BrokenPromiseError("k is from 1 to the number of keys, and the scale is positive")
        powers = Powers(scale)
        left = list(range(len(values)))
        levels = [-value for value in values.tolist()]
        drawn = []
        with Entropy() as entropy:
            for _ in range(k):
                place = LevelChoice([1] * len(left), levels, powers).draw(entropy.below)
                drawn.append(left.pop(place))
                del levels[place]
        return np.array(drawn, dtype=np.int64)


def _by_cell(cells: int, cell: Integers, value: Integers, count: Integers) -> Iterator[tuple[list[int], list[int]]]:
    """Distinct values in rising order with their counts, cell after cell; entries without a row are left out."""
    there = count > 0
    cell, value, count = cell[there], value[there], count[there]
    order = np.lexsort((value, cell))
    cell, value, count = cell[order], value[order], count[order]
    new = np.flatnonzero(np.diff(cell, prepend=-1) | (np.diff(value, prepend=0) != 0))
    counts = np.add.reduceat(count, new) if len(new) else count
    ends = np.searchsorted(cell[new], np.arange(cells + 1)).tolist()
    values, often = value[new].tolist(), counts.tolist()
    for first, last in pairwise(ends):
        yield values[first:last], often[first:last]


@dataclass(frozen=True)
class ScoreLaw:
    """P(x) proportional to exp(-score(x) / scale) over ``candidates`` values, of which one has score 0."""

    scale: Fraction
    candidates: int

    @property
    def variance(self) -> float:
        """That of an exponential variable of the scale: planning compares choices by it; it is of no values."""
        return float(self.scale) ** 2

    def margin(self, confidence: Fraction) -> int:
        """A whole number m with P(score <= m) >= confidence: scale ln(candidates / (1 - confidence)), rounded up.

        Every candidate of a score above m has at most exp(-m / scale) times the probability of the one with score 0,
        so all of them together have at most candidates exp(-m / scale) (McSherry and Talwar 2007, Lemma 7).
        """
        beta = 1 - confidence
        return max(0, ceil(float(real(self.scale) * CONTEXT.log(real(self.candidates / beta))) * (1 + 1e-12)))
