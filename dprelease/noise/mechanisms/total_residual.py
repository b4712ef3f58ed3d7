"""Total-and-residual noise: k counts of one cell share one draw, by way of the cell's rows n and of 2 c - n.

One row moves the total n by 1 and every 2 c_i - n by 1 or -1, so that the residuals are hidden best by a cube, whose
exact sensitivity they have, and the total by itself. The noise (z, m) on (c, n) has P(z, m) proportional to
exp(-N / scale) on all integers, N = (1 - f) max_i |2 z_i - m| + f |m| with the share f of :func:`total_share`; c + z is
published, and n + m is dropped, so that n need not even be counted. A row has N = 1 whatever it counts: it costs
1 / scale. From 12 counts on the noise is less than that of ``count_knorm``, at 50 counts by a sixth. The sampler, its
law and what it costs are proved in docs/proofs/total-residual.md; the construction is the project's own.

>>> round(TotalResidualMechanism().law(Fraction(1), 20).variance ** 0.5, 2)
8.51
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms import lattice_ball
from dprelease.noise.mechanisms.knorm import hidden_jointly, least_margin
from dprelease.noise.native.entropy import Below, Entropy, TiltedChoice, geometric
from dprelease.privacy.event import TotalResidual
from dprelease.privacy.newton import polynomial_series
from dprelease.privacy.rounding import CONTEXT, real

__all__ = [
    "FEWEST",
    "TotalResidualLaw",
    "TotalResidualMechanism",
    "TotalResidualSampler",
    "total_residual_std",
    "total_share",
]

FEWEST = 12
"""The number of counts from which on the noise is less than that of ``count_knorm`` at a small epsilon."""

_PARTS = 256  # shares are whole parts of this many
_FINE = 1024  # cube roots are known to a part in this many
# Of the sizes of all terms of a tail: 60 digits leave far less after some hundred operations.
_PAD = CONTEXT.mpf(10) ** -50


@lru_cache(maxsize=1024)
def total_share(dimension: int) -> Fraction:
    """The share f of the total, in parts of 256: near the one with the least variance of a count.

    A continuous draw has the variance (k+1)(k+2) / (12 (1-f)^2) + 1 / (2 f^2) at epsilon 1, which is least where
    (1 - f) / f is the cube root of (k+1)(k+2) / 6; half a part from there it is larger by less than 3 in 1,000 for up
    to 100 counts. The share is always below 1/2, and is worked out in integers.

    Raises:
        BrokenPromiseError: If there are fewer than two counts.
    """
    if dimension < 2:
        raise BrokenPromiseError("a total and residuals need at least two counts")
    cube = _FINE**3 * (dimension + 1) * (dimension + 2)
    root = bisect_left(range(_FINE * (dimension + 2)), cube, key=lambda at: 6 * at**3)
    return Fraction(max(1, (2 * _PARTS * _FINE + _FINE + root) // (2 * (_FINE + root))), _PARTS)


@dataclass(frozen=True)
class TotalResidualLaw:
    """The law of the noise on one count, in grid steps; all counts of a draw have the same.

    With q = exp(-(1 - f) / scale) and s = exp(-f / scale): x = 2 z - m and m have one parity p; given it m has a mass
    proportional to s^|m|, and a coordinate of x is uniform on -R, -R + 2, ..., R with P(R) proportional to
    (R+1)^k q^R, R of parity p.

    Attributes:
        scale: In grid steps, positive.
        dimension: How many counts share a draw, at least two.
        share: The share f of the total, above 0 and below 1/2.
    """

    scale: Fraction
    dimension: int
    share: Fraction

    @cached_property
    def variance(self) -> float:
        """(E x^2 + E m^2) / 4: x has R (R + 2) / 3 given R, and m has 8 s^2 / (1 - s^2)^2, and 1 more if it is odd."""
        k, y = self.dimension, CONTEXT.exp(-2 * self._total_rate)
        residual = sum(
            self._parity_mass(parity) * self._even(lambda r: (r + 1) ** k * r * (r + 2), parity, k + 2) / 3
            for parity in (0, 1)
        )
        odd = self._parity_mass(1) * self._even(lambda r: (r + 1) ** k, 1, k)
        total = 8 * y / self._miss**2 + odd / self._whole
        return float((residual / self._whole + total) / 4)

    def mass(self, value: int) -> float:
        """P(z_1 = value)."""
        if value == 0:
            return float(1 - self._tail(0)[0])
        return float((self._tail(abs(value) - 1)[0] - self._tail(abs(value))[0]) / 2)

    def tail(self, margin: int) -> float:
        """P(|z_1| > margin), for a margin >= 0."""
        return float(self._tail(margin)[0])

    @lru_cache(maxsize=4096)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def margin(self, confidence: Fraction) -> int:
        """The smallest m with P(|z_1| <= m) >= confidence, by bisection of the tail, rounded up.

        Raises:
            BrokenPromiseError: If the confidence is not below 1.
        """
        return least_margin(lambda margin: sum(self._tail(margin)), confidence)

    @property
    def _residual_rate(self) -> Any:
        return real((1 - self.share) / self.scale)

    @property
    def _total_rate(self) -> Any:
        return real(self.share / self.scale)

    @cached_property
    def _miss(self) -> Any:
        """1 - s^2."""
        return -CONTEXT.expm1(-2 * self._total_rate)

    def _parity_mass(self, parity: int) -> Any:
        """The sum of s^|m| over all m of a parity."""
        s = CONTEXT.exp(-self._total_rate)
        return (2 * s if parity else 1 + s * s) / self._miss

    @cached_property
    def _whole(self) -> Any:
        k = self.dimension
        return sum(self._parity_mass(p) * self._even(lambda r: (r + 1) ** k, p, k) for p in (0, 1))

    def _even(self, polynomial: Any, start: int, degree: int) -> Any:
        """The sum of polynomial(r) q^r over r = start, start + 2, ..."""
        values = [polynomial(start + 2 * i) for i in range(degree + 1)]
        return polynomial_series(values, 2 * self._residual_rate) * CONTEXT.exp(-self._residual_rate * start)

    def _powers(self, start: int, rate: Any) -> Any:
        """The sum of (r+1)^(k-1) exp(-rate r) over r >= start."""
        values = [(start + i + 1) ** (self.dimension - 1) for i in range(self.dimension)]
        return polynomial_series(values, rate) * CONTEXT.exp(-rate * start)

    @cached_property
    def _from_zero(self) -> tuple[Any, Any]:
        return (
            self._powers(0, self._residual_rate - self._total_rate),
            self._powers(0, self._residual_rate + self._total_rate),
        )

    def _tail(self, margin: int) -> tuple[Any, Any]:
        """P(|z_1| > t) at t = margin, and what rounding may take from it.

        Given R there are (R+1)^(k-1) points for each value of x_1, and summed over it and over m the masses s^|m|
        with x_1 + m > 2 t are (R - 2t)_+ T / 2 + (s^(|R - 2t| + 2) - s^(R + 2t + 4)) / (1 - s^2)^2, T the sum of all
        s^|m| of R's parity (docs/proofs/total-residual.md, section 5).
        """
        k, t, s = self.dimension, margin, self._total_rate
        straight = sum(
            self._parity_mass(p) * self._even(lambda r: (r - 2 * t) * (r + 1) ** (k - 1), 2 * t + p, k) / 2
            for p in (0, 1)
        )
        below, above = self._residual_rate - s, self._residual_rate + s
        terms = [
            CONTEXT.exp(-2 * s * t) * self._from_zero[0],
            -CONTEXT.exp(-2 * s * t) * self._powers(2 * t, below),
            CONTEXT.exp(2 * s * t) * self._powers(2 * t, above),
            -CONTEXT.exp(-2 * s * (t + 1)) * self._from_zero[1],
        ]
        factor = CONTEXT.exp(-2 * s) / self._miss**2
        value = 2 * (straight + factor * sum(terms)) / self._whole
        size = 2 * (straight + factor * sum(map(abs, terms))) / self._whole
        return value, size * _PAD


class TotalResidualMechanism:
    """Noise for k counts that one row changes by 0 or 1, all in the same direction: at least 12 for it to pay."""

    name = "total_residual"

    def event(self, scale: Fraction, dimension: int, gauge: Fraction) -> TotalResidual:
        """What it costs; ``gauge`` is the number of rows that one unit changes, a replaced one twice."""
        return TotalResidual(
            dimension=dimension,
            share=total_share(dimension),
            scale=scale,
            rows=-(-gauge.numerator // gauge.denominator),
        )

    def law(self, scale: Fraction, dimension: int) -> TotalResidualLaw:
        """The distribution of the noise on one count."""
        return _law(scale, dimension)

    def draw_joint(self, exacts: Sequence[Exact], scale: Fraction) -> tuple[npt.NDArray[np.int64], ...]:
        """Noisy values of k counts, with one fresh noise vector per cell from operating-system entropy.

        The sum saturates at the limits of 64 bits, after the noise; that is post-processing.

        Args:
            exacts: k boxes, each of shape ``(cells,)``.
            scale: In grid steps, any positive rational; used exactly.

        Returns:
            k arrays of type ``int64``, each of shape ``(cells,)``, in the order of the boxes.

        Raises:
            BrokenPromiseError: If there are fewer than two boxes, their lengths differ or the scale is not positive.
        """

        def noise(cells: int) -> list[list[int]]:
            sampler = TotalResidualSampler(scale, len(exacts), total_share(len(exacts)))
            with Entropy() as entropy:
                return [sampler.vector(entropy.below) for _ in range(cells)]

        return hidden_jointly(exacts, scale, noise)


@lru_cache(maxsize=1024)
def _law(scale: Fraction, dimension: int) -> TotalResidualLaw:
    return TotalResidualLaw(scale, dimension, total_share(dimension))


class _Term(NamedTuple):
    """One term of the weight of all noise: its integer, the parity, J of the radius, and where m begins and goes."""

    weight: int
    parity: int
    jump: int
    start: int
    sign: int


class TotalResidualSampler:
    """One vector after the other with P(z) = sum over m of exp(-N(z, m) / scale), without rejection.

    All noise together weighs, with y = q^2 and h^B, A the Eulerian numbers of type B and A,

        sum_j y^j (h^B_j (1 + s^2) + 2^(k+1) A(k, j) q s) / ((1 - y)^(k+1) (1 - s^2)),

    and q s = exp(-1 / scale): a term says the parity, J, and whether m goes up from 0, down from -2, up from 1 or
    down from -1 in steps of 2. The exponents are multiples of one rate, so that ``TiltedChoice`` draws the term. Then
    R = 2 (J + G_0 + ... + G_k) + parity, x uniform on the cube of R, and m one more geometric variable.

    Args:
        scale: Positive.
        dimension: The number k of counts.
        share: The share f of the total.
    """

    def __init__(self, scale: Fraction, dimension: int, share: Fraction) -> None:
        own, parts = share.numerator, share.denominator
        radius, total, odd = 2 * (parts - own), 2 * own, parts
        common = gcd(radius, total, odd)
        self._dimension = dimension
        self._terms: dict[int, list[_Term]] = {}
        even_jumps = lattice_ball.numerator("linf", dimension)
        odd_jumps = lattice_ball.numerator("count", dimension - 1)
        found = [(radius * j, _Term(weight, 0, j, 0, 1)) for j, weight in enumerate(even_jumps)]
        found += [(radius * j + total, _Term(weight, 0, j, -2, -1)) for j, weight in enumerate(even_jumps)]
        for sign in (1, -1):
            found += [
                (radius * j + odd, _Term(weight << dimension, 1, j, sign, sign)) for j, weight in enumerate(odd_jumps)
            ]
        for exponent, term in found:
            self._terms.setdefault(exponent // common, []).append(term)
        weights = [0] * (max(self._terms) + 1)
        for exponent, terms in self._terms.items():
            weights[exponent] = sum(term.weight for term in terms)
        unit = parts * scale
        self._choice = TiltedChoice(weights, unit / common)
        self._radius_scale, self._total_scale = unit / radius, unit / total

    def vector(self, below: Below) -> list[int]:
        """One vector of k integers; ``below(n)`` is uniform on 0..n-1."""
        term = self._term(below)
        jumps = term.jump + sum(geometric(below, self._radius_scale) for _ in range(self._dimension + 1))
        radius = 2 * jumps + term.parity
        total = term.start + 2 * term.sign * geometric(below, self._total_scale)
        # x = 2 u - R for a uniform u in 0..R; x and m have one parity, so that the half is whole
        return [(2 * below(radius + 1) - radius + total) // 2 for _ in range(self._dimension)]

    def _term(self, below: Below) -> _Term:
        terms = self._terms[self._choice.draw(below)]
        place = below(sum(term.weight for term in terms))
        for term in terms:
            place -= term.weight
            if place < 0:
                return term
        raise BrokenPromiseError("a uniform integer was not below its limit")


def total_residual_std(dimension: int, epsilon: float) -> float:
    """Of a count, with continuous noise and the best share at one row: the limit of the integer one at small epsilon.

    (((k+1)(k+2) / 12)^(1/3) + (1/2)^(1/3))^(3/2) / epsilon, by Hoelder's inequality.
    """
    return sqrt((((dimension + 1) * (dimension + 2) / 12) ** (1 / 3) + 0.5 ** (1 / 3)) ** 3) / epsilon
