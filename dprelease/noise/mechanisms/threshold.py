"""Which keys may be shown, when the keys themselves are private: noisy counts with a threshold, or one biased coin.

Only keys that occur are drawn for, so the keys that one unit alone holds must stay unseen but for a probability
delta. A key is released when its noisy count of units is **at least** the threshold. The cost is the noise event on
keys that others hold too, composed with (0, delta) for those that one unit alone holds: proved for integer noise and
both neighbouring relations in docs/proofs/key-selection.md.

>>> least_threshold("laplace", Fraction(1), Fraction(1, 10**6), 1)
15
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import ExactKeys, Key, open_keys
from dprelease.noise.native.entropy import Below, Entropy, exp_bounds
from dprelease.noise.sampler import Sampler, add_noise
from dprelease.privacy.rounding import CONTEXT, real
from dprelease.privacy.theorems.threshold import Noise, least, least_threshold, threshold_delta

__all__ = ["GaussianThreshold", "LaplaceThreshold", "OptimalSelection", "least_threshold", "threshold_delta"]

Keys = tuple[tuple[Key, ...], ...]
_FIRST_BITS = 64
_MORE_BITS = 128


class _Threshold:
    name: str
    noise: Noise

    def draw(self, keys: ExactKeys, scale: Fraction, threshold: int, sampler: Sampler = "native") -> Keys:
        """The keys whose count plus fresh discrete noise is at least the threshold.

        Args:
            keys: The keys that occur, with their numbers of units.
            scale: The scale of the noise, in units; exactly a 64-bit float.
            threshold: At least what :func:`least_threshold` gives for the delta that is charged.
            sampler: Which implementation draws the noise.

        Returns:
            The selected keys in the order of their text, which depends on nothing but the selection.

        Raises:
            BrokenPromiseError: If the scale is not positive or not exactly a float, or the threshold is below 2.
        """
        if threshold < 2:
            raise BrokenPromiseError("a threshold is at least 2: a key of one unit would be more likely seen than not")
        held, counts = open_keys(keys)
        noisy = add_noise(self.noise, counts, scale, sampler)
        return _selected(held, noisy >= threshold)


class LaplaceThreshold(_Threshold):
    """Keys whose count plus discrete Laplace noise is at least a threshold (Korolova et al. 2009)."""

    name = "laplace_threshold"
    noise: Noise = "laplace"


class GaussianThreshold(_Threshold):
    """Keys whose count plus discrete Gaussian noise is at least a threshold."""

    name = "gaussian_threshold"
    noise: Noise = "gaussian"


class OptimalSelection:
    """One coin per key, as biased as (epsilon, delta) allows: the optimal partition selection, drawn exactly.

    No rule that decides each key by its own count releases more keys at the (epsilon, delta) of one key (Desfontaines,
    Voss, Gipson and Mandayam 2022). Over several keys of a unit the cost composes.
    """

    name = "optimal_selection"

    def draw(self, keys: ExactKeys, epsilon: Fraction, delta: Fraction, shift: int = 0) -> Keys:
        """The keys whose own coins say so; ``shift`` units of each key are left out of account.

        Leaving a fixed number out never makes two counts differ by more, so that it costs nothing; it moves the half
        point up to a declared least number of units.

        Args:
            keys: The keys that occur, with their numbers of units.
            epsilon: The epsilon of one key, at least 0.
            delta: The delta of one key, in (0, 1).
            shift: At least 0.

        Returns:
            The selected keys in the order of their text.

        Raises:
            BrokenPromiseError: If an argument is outside its bounds.
        """
        if epsilon < 0 or not 0 < delta < 1 or shift < 0:
            raise BrokenPromiseError("a selection needs epsilon and shift from 0 on, and delta in (0, 1)")
        held, counts = open_keys(keys)
        coins = Coins(epsilon, delta)
        with Entropy() as entropy:
            shown = [coins.toss(entropy.below, count - shift) for count in counts.tolist()]
        return _selected(held, np.array(shown, dtype=bool))

    def half_point(self, epsilon: Fraction, delta: Fraction) -> int:
        """The least number of units with which a key is shown with probability 1/2 or more.

        As long as pi(n - 1) <= c = (1 - delta) / (1 + e^epsilon) the first branch of the recursion is the smaller one,
        pi(n) = f(n) = delta (e^(n epsilon) - 1) / (e^epsilon - 1). With pi(n) > c the second one gives
        pi(n + 1) > 1 - c >= 1/2. So the half point is the first m with f(m) > c, or the next.
        """
        e, d = real(epsilon), real(delta)
        grow = CONTEXT.expm1(e)
        crossing = (1 - d) / (1 + CONTEXT.exp(e))

        def first(value: int) -> bool:
            return bool(delta * value > Fraction(1, 2) * (1 - delta) if not epsilon else chance(value) > crossing)

        def chance(value: int) -> CONTEXT.mpf:
            return d * CONTEXT.expm1(value * e) / grow if epsilon else d * value

        guess = crossing / d if not epsilon else CONTEXT.log1p(crossing * grow / d) / e
        found = least(first, max(1, int(guess)), 1)
        return found if 2 * chance(found) >= 1 else found + 1


class Coins:
    """Coins that show 1 with probability pi(count), exactly, for one (epsilon, delta).

    pi(0) = 0 and pi(n) = min(e^epsilon pi(n-1) + delta, 1 - e^-epsilon (1 - pi(n-1) - delta), 1), between bounds that
    are rounded outwards; a uniform real is drawn digit by digit until it lies on one side of both.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        self._epsilon, self._delta = epsilon, delta
        self._tables: dict[int, list[tuple[int, int]]] = {}

    def toss(self, below: Below, count: int, bits: int = _FIRST_BITS) -> bool:
        """One coin; ``bits`` is the number of digits to begin with. A count below 1 never shows."""
        if count < 1:
            return False
        digits = below(1 << bits)
        while (shown := self.certain(digits, bits, count)) is None:
            digits = digits << _MORE_BITS | below(1 << _MORE_BITS)
            bits += _MORE_BITS
        return shown

    def certain(self, digits: int, bits: int, count: int) -> bool | None:
        """Whether every real in [digits, digits + 1) / 2^bits is below pi(count), or None if the bounds do not tell."""
        low, high, fine = self.chance(count, bits)
        if digits + 1 << fine - bits <= low:
            return True
        return False if digits << fine - bits >= high else None

    def chance(self, count: int, bits: int) -> tuple[int, int, int]:
        """Bounds (low, high, fine) with low <= 2^fine pi(count) <= high, about good to ``bits`` digits."""
        # what is lost in a step grows as pi does, so by less than 1 / delta until pi is 1
        fine = bits + 64 + 4 * ceil(self._epsilon) + 2 * self._delta.denominator.bit_length()
        table = self._tables.setdefault(bits, [(0, 0)])
        if len(table) <= count and table[-1][0] < 1 << fine:
            self._extend(table, count, fine)
        return *table[min(count, len(table) - 1)], fine

    def _extend(self, table: list[tuple[int, int]], count: int, fine: int) -> None:
        one = 1 << fine
        delta_low, rest = divmod(self._delta.numerator << fine, self._delta.denominator)
        delta_high = delta_low + (rest > 0)
        fall_low, fall_high = exp_bounds(self._epsilon, fine)
        while len(table) <= count and table[-1][0] < one:
            low, high = table[-1]
            rise_low = (low << fine) // fall_high + delta_low
            rise_high = -(-(high << fine) // fall_low) + delta_high
            miss_high = max(0, one - low - delta_low) * fall_high
            miss_low = max(0, one - high - delta_high) * fall_low
            least, most = one - -(-miss_high >> fine), one - (miss_low >> fine)
            table.append((min(rise_low, least), min(rise_high, most)))


def _selected(held: Keys, shown: npt.NDArray[np.bool_]) -> Keys:
    return tuple(sorted((key for key, seen in zip(held, shown.tolist(), strict=True) if seen), key=_text))


def _text(key: tuple[Key, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((str(part), type(part).__name__) for part in key)
