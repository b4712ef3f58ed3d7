"""Integer K-norm noise: k quantities of one cell share one draw, P(z) proportional to exp(-||z|| / scale) on Z^k.

Pure differential privacy by the largest norm of what one unit can change (Hardt and Talwar 2010; the L-infinity
ball: Steinke and Ullman 2015; the count ball: Joseph and Yu, COLT 2024, arXiv 2309.15790). For k counts that one row
can all change by 1 the noise has about 0.41 (``linf``) or 0.29 (``count``) of the standard deviation of k separate
Laplace draws at the same cost. The sampler and every formula here are proved in docs/proofs/integer-knorm.md.

>>> round(CountKNorm().law(Fraction(10), 5).variance, 3)
933.167
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.mechanisms import lattice_ball
from dprelease.noise.mechanisms.lattice_ball import Ball
from dprelease.noise.native.entropy import Below, Entropy, TiltedChoice, geometric
from dprelease.privacy.event import KNorm
from dprelease.privacy.newton import polynomial_series
from dprelease.privacy.rounding import CONTEXT, real
from dprelease.privacy.unit import Neighboring

__all__ = [
    "CountKNorm",
    "KNormLaw",
    "LinfKNorm",
    "gauge",
    "hidden_jointly",
    "least_margin",
    "saturated",
]

Integers = npt.NDArray[np.int64]
_LIMITS = np.iinfo(np.int64)
# Everything summed below is positive, so a few hundred operations in 60 digits stay far inside this.
_PAD = CONTEXT.mpf(10) ** -50


@dataclass(frozen=True)
class KNormLaw:
    """The law of one coordinate of one draw, in grid steps; all coordinates have the same.

    Attributes:
        ball: The norm.
        scale: In grid steps, positive.
        dimension: How many quantities share a draw.
    """

    ball: Ball
    scale: Fraction
    dimension: int

    @cached_property
    def variance(self) -> float:
        """The sum of z_1^2 over the ball of each radius, against the number of its points."""
        return float(self._sum(lattice_ball.squares, 0, self.dimension + 2) / self._total)

    def mass(self, value: int) -> float:
        """P(z_1 = value): the share of the ball with that coordinate, over the radii from ``|value|`` on."""

        def with_value(ball: Ball, dimension: int, radius: int) -> int:
            return lattice_ball.coordinate_points(ball, dimension, radius, value)

        return float(self._sum(with_value, abs(value), self.dimension) / self._total)

    def tail(self, margin: int) -> float:
        """P(|z_1| > margin), for a margin >= 0."""
        return float(self._tail(margin))

    @lru_cache(maxsize=4096)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def margin(self, confidence: Fraction) -> int:
        """The smallest m with P(|z_1| <= m) >= confidence, by bisection of the exact tail.

        Raises:
            BrokenPromiseError: If the confidence is not below 1.
        """
        return least_margin(lambda margin: self._tail(margin) * (1 + _PAD), confidence)

    @cached_property
    def _total(self) -> Any:
        return self._sum(lattice_ball.points, 0, self.dimension)

    def _tail(self, margin: int) -> Any:
        def over(ball: Ball, dimension: int, radius: int) -> int:
            return lattice_ball.tail_points(ball, dimension, radius, margin)

        return 2 * self._sum(over, margin + 1, self.dimension) / self._total

    def _sum(self, count: Callable[[Ball, int, int], int], start: int, degree: int) -> Any:
        """Sum over r >= start of count(r) exp(-r / scale), for a polynomial of a given degree."""
        values = [count(self.ball, self.dimension, start + i) for i in range(degree + 1)]
        rate = 1 / real(self.scale)
        return polynomial_series(values, rate) * CONTEXT.exp(-rate * start)


class _KNormMechanism:
    name: str
    ball: Ball

    def event(self, scale: Fraction, dimension: int, gauge: Fraction) -> KNorm:
        """What it costs; ``gauge`` as :func:`gauge` gives it, in grid steps."""
        return KNorm(ball=self.ball, dimension=dimension, scale=scale, gauge=gauge)

    def law(self, scale: Fraction, dimension: int) -> KNormLaw:
        """The distribution of the noise on one coordinate."""
        return _law(self.ball, scale, dimension)

    def draw_joint(self, exacts: Sequence[Exact], scale: Fraction) -> tuple[Integers, ...]:
        """Noisy values of k quantities, with one fresh noise vector per cell from operating-system entropy.

        The sum saturates at the limits of 64 bits, after the noise; that is post-processing.

        Args:
            exacts: k boxes, each of shape ``(cells,)``.
            scale: In grid steps, any positive rational; used exactly.

        Returns:
            k arrays of type ``int64``, each of shape ``(cells,)``, in the order of the boxes.

        Raises:
            BrokenPromiseError: If there is no box, their lengths differ or the scale is not positive.
        """
        return hidden_jointly(exacts, scale, lambda cells: draw_noise(self.ball, len(exacts), scale, cells))


class CountKNorm(_KNormMechanism):
    """Noise for k counts that one row changes by 0 or 1, all in the same direction."""

    name = "count_knorm"
    ball: Ball = "count"


class LinfKNorm(_KNormMechanism):
    """Noise for k quantities of which one unit changes each by at most 1, in any direction."""

    name = "linf_knorm"
    ball: Ball = "linf"


@lru_cache(maxsize=1024)
def _law(ball: Ball, scale: Fraction, dimension: int) -> KNormLaw:
    return KNormLaw(ball, scale, dimension)


def hidden_jointly(
    exacts: Sequence[Exact], scale: Fraction, noise_of: Callable[[int], list[list[int]]]
) -> tuple[Integers, ...]:
    """Several boxes with one noise vector per cell added, saturated at the limits of 64 bits after the noise.

    Args:
        exacts: k boxes, each of shape ``(cells,)``.
        scale: Of the noise.
        noise_of: From a number of cells to as many vectors of k integers.

    Returns:
        k arrays of type ``int64``, each of shape ``(cells,)``, in the order of the boxes.

    Raises:
        BrokenPromiseError: If there is no box, their lengths differ or the scale is not positive.
    """
    values = [open_exact(exact) for exact in exacts]
    if scale <= 0 or len({len(cells) for cells in values}) != 1:
        raise BrokenPromiseError("joint noise needs a positive scale and at least one box, all of one length")
    noise = noise_of(len(values[0]))
    return tuple(
        np.array([saturated(exact + vector[i]) for exact, vector in zip(cells.tolist(), noise, strict=True)], "i8")
        for i, cells in enumerate(values)
    )


def least_margin(tail: Callable[[int], Any], confidence: Fraction) -> int:
    """The smallest m >= 0 at which a falling bound on P(|noise| > m) is at most 1 - confidence.

    By the secant of its logarithm, and by halves where that does not settle: a bound may add up hundreds of counts.

    Raises:
        BrokenPromiseError: If the confidence is not below 1.
    """
    if confidence >= 1:
        raise BrokenPromiseError(f"no finite margin holds with confidence {confidence}")
    beta, known = real(1 - confidence), list[tuple[int, float]]()

    def fits(margin: int) -> bool:
        value = tail(margin)
        known.append((margin, float(CONTEXT.log(value / beta)) if value > 0 else -math.inf))
        return bool(value <= beta)

    low, high = -1, 0
    while not fits(high):
        low, high = high, 8 * high + 7
    step = 0
    while high - low > 1:
        step += 1
        at = (low + high) // 2 if step % 3 == 0 else _crossing(known[-2], known[-1], low, high)
        low, high = (low, at) if fits(at) else (at, high)
    return high


def _crossing(before: tuple[int, float], last: tuple[int, float], low: int, high: int) -> int:
    """The first whole number at which the line through two points is not above 0; inside of the two ends."""
    rise = (last[1] - before[1]) / (last[0] - before[0])
    if not -math.inf < rise < 0:
        return (low + high) // 2
    return min(max(math.ceil(last[0] - last[1] / rise), low + 1), high - 1)


def saturated(value: int) -> int:
    """The nearest integer of 64 bits."""
    return min(max(value, int(_LIMITS.min)), int(_LIMITS.max))


def draw_noise(ball: Ball, dimension: int, scale: Fraction, cells: int) -> list[list[int]]:
    """Independent noise vectors of ``dimension`` integers, one per cell, from operating-system entropy."""
    shift = TiltedChoice(lattice_ball.numerator(ball, dimension), scale)
    with Entropy() as entropy:
        return [noise_vector(entropy.below, ball, dimension, scale, shift) for _ in range(cells)]


def noise_vector(below: Below, ball: Ball, dimension: int, scale: Fraction, shift: TiltedChoice) -> list[int]:
    """One vector with P(z) proportional to exp(-||z|| / scale), without rejection over radii or points.

    The radius R has P(R = r) proportional to M(r) exp(-r / scale), M(r) the number of points of the ball. With the
    numbers h of :func:`lattice_ball.numerator` it is J + G_0 + ... + G_k: J on 0..k with weights h_j exp(-j / scale)
    and k + 1 geometric variables. A uniform number below M(R) then names a point of that ball.
    """
    radius = shift.draw(below) + sum(geometric(below, scale) for _ in range(dimension + 1))
    return lattice_ball.unrank(ball, dimension, radius, below(lattice_ball.points(ball, dimension, radius)))


def gauge(
    ball: Ball | Literal["total", "sphere"], dimension: int, neighboring: Neighboring, cells: int, rows: int = 1
) -> Fraction:
    """The largest sum over cells of norms that one unit can change, for k counts of rows.

    A row belongs to one cell and counts 0 or 1 in each of the k counts of that cell. One unit added or removed
    changes at most ``rows`` rows, each with norm 1: by the triangle inequality the sum is at most ``rows``. A
    replaced unit takes away as many and brings as many, at most ``2 * rows``. In one and the same cell every
    coordinate changes by at most ``rows``, and that is the norm if it is ``linf`` or if there is one coordinate.
    Each value is reached (docs/proofs/integer-knorm.md, section 4).

    A total with residuals (``total``) gives a row the norm 1, too: a replaced one has 2 in two cells, and is given 2 in
    one (docs/proofs/total-residual.md, section 2). So does Gaussian noise of one random scale (``sphere``).

    Args:
        ball: The norm.
        dimension: The number k of counts.
        neighboring: What one unit more or other means.
        cells: The number of cells that a row can fall into.
        rows: The most rows that one unit has in the table.
    """
    one_place = cells == 1 and (ball == "linf" or (ball == "count" and dimension == 1))
    sides = 1 if neighboring is Neighboring.ADD_REMOVE or one_place else 2
    return Fraction(sides * rows)
