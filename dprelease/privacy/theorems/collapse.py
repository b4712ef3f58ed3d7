"""Many discrete Gaussian draws as one continuous Gaussian, at a proved price.

Discrete Gaussian noise is almost, and not quite, continuous Gaussian noise rounded to integers. Rounding is
post-processing and commutes with whole-number shifts, so whatever the two laws differ by is all that the Gaussian
formula can be wrong by. With s = 1 / scale^2 and t = 1 / (variance of the continuous noise) the root of
t - t^2 / 12 = s, the ratio g(k) = ln(P(k) / R(k)) of the two laws is even, grows with |k|, is at most 0 at k = 0, and
for c = t T <= 1 and all |k| <= T (``docs/proofs/discrete-gaussian-collapse.md``):

    g(k) - g(0) <= eta = c^4 / 2880 + t c^2 / 600,      g(k) - g(k - v) <= |v| gamma, gamma = t (c^3 / 720 + t c / 300).

For draws that are together moved by v, on coordinates that are within T - |v_i| except with probability ``tail``:

    delta(epsilon) <= exp(sum eta_i) delta_Gauss(epsilon - sum |v_i| gamma_i; mu^2 = sum v_i^2 t_i) + tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.rounding import CONTEXT, dyadic_up, real, sqrt_up, upper
from dprelease.privacy.theorems import gaussian

__all__ = ["SMALLEST_SCALE", "Collapsed", "EqualDraws", "Inflation", "collapsed", "inflation"]

SMALLEST_SCALE = 16
"""Below it the constants of the theorem are not proved, and the Gaussian is not a good picture."""


_NEGLIGIBLE = Fraction(1, 10**7)  # a factor of exp(1e-7) on delta is not worth a sharper bound


class EqualDraws(NamedTuple):
    """Equal draws of discrete Gaussian noise; all figures in grid steps.

    Attributes:
        scale: The scale of the noise, at least 16.
        l2_squared: The largest sum of squared changes in one draw.
        l0: The largest number of cells that change in one draw.
        linf: The largest change of one cell.
        times: How often this is drawn, with fresh noise.
        common: Its part of what bounds the squared changes, each over its scale^2, of all parts that have one, added
            up; None: it is bounded by itself.
    """

    scale: Fraction
    l2_squared: Fraction
    l0: int
    linf: int
    times: int = 1
    common: Fraction | None = None

    @property
    def squared(self) -> Fraction:
        """The squared change that counts where those of all draws, each over its scale^2, are added up."""
        return self.l2_squared if self.common is None else self.common

    @property
    def cells(self) -> int:
        """The number of noisy cells that one unit can move, over all draws."""
        return self.l0 * self.times

    @property
    def l1(self) -> Fraction:
        """The largest sum of absolute changes in one draw: whole numbers, so |v| <= v^2; and Cauchy-Schwarz."""
        return min(Fraction(self.l0 * self.linf), self.l2_squared, sqrt_up(self.l0 * self.l2_squared))


PlainPart = tuple[Fraction, Fraction, int, int, int]
"""The same figures in the same order."""


@dataclass(frozen=True)
class Inflation:
    """How far one cell of discrete Gaussian noise can be from rounded continuous noise, within ``reach``.

    Attributes:
        tau: One over the variance of the continuous noise; a little more than 1 / scale^2.
        reach: T, the largest size of noise and shifted noise for which the rest holds.
        eta: The largest g(k) - g(0).
        gamma: The largest change of g from one integer to the next.
    """

    tau: Fraction
    reach: Fraction
    eta: Fraction
    gamma: Fraction


@dataclass(frozen=True)
class Collapsed:
    """delta(epsilon) <= factor * gaussian.delta(mu_squared, epsilon - shift) + tail, for all epsilon."""

    mu_squared: Fraction
    shift: Fraction
    factor: Fraction
    tail: Fraction

    def delta(self, epsilon: Fraction) -> Fraction:
        """Delta at this epsilon, rounded up; at most 1."""
        if self.mu_squared == 0 and epsilon >= 0:
            return Fraction(0)
        return min(Fraction(1), self.factor * gaussian.delta(self.mu_squared, epsilon - self.shift) + self.tail)

    def epsilon(self, delta: Fraction) -> Fraction:
        """The smallest epsilon >= 0 at this delta, rounded up.

        Raises:
            UnsupportedEvent: If delta is not above the tail.
        """
        if delta <= self.tail and self.mu_squared:
            raise UnsupportedEvent(
                f"the Gaussian bound of integer noise has a tail of {float(self.tail):.1e}, which is not below delta",
                hint="give a smaller tail budget, or a larger delta",
            )
        found = gaussian.epsilon(self.mu_squared, (delta - self.tail) / self.factor)
        if found == 0 and self.delta(Fraction(0)) <= delta:
            return found
        return found + self.shift


def inflation(scale: Fraction, reach: Fraction) -> Inflation:
    """The constants of the theorem for one cell, rounded up.

    Raises:
        ValueError: If the scale is below 16, or the reach too large for it (t T > 1).
    """
    if scale < SMALLEST_SCALE:
        raise ValueError(f"scale {float(scale):g} is below {SMALLEST_SCALE}: the Gaussian bound is not proved there")
    s = 1 / real(scale) ** 2
    tau = dyadic_up(upper(2 * s / (1 + CONTEXT.sqrt(1 - s / 3))), 90)
    c = tau * reach
    if c > 1:
        raise ValueError(f"at scale {float(scale):g} the tail budget is too small for the Gaussian bound")
    eta = c**4 / 2880 + tau * c**2 / 600
    gamma = tau * (c**3 / 720 + tau * c / 300)
    return Inflation(tau, reach, dyadic_up(eta, 60), dyadic_up(gamma, 60))


def collapsed(parts: Sequence[EqualDraws | PlainPart], tail_budget: Fraction) -> Collapsed:
    """One Gaussian bound for all these draws together; they may be chosen adaptively, their figures not.

    Half of the tail budget pays for noise that leaves the reach: a discrete Gaussian is sub-Gaussian, so each of
    the N cells that move leaves [-x, x] with probability at most 2 exp(-x^2 / (2 scale^2)) (Canonne, Kamath and
    Steinke 2020). The other half pays for the sum of all g(k_i) - g(0) being larger than ``ln factor``.

    Args:
        parts: Draws; those that move nothing cost nothing.
        tail_budget: An upper bound on ``tail``, in (0, 1).

    Raises:
        ValueError: If a scale is below 16, or too small for this many draws and this tail.
    """
    moving = [part for part in (EqualDraws(*part) for part in parts) if part.cells and part.l2_squared and part.linf]
    if not moving:
        return Collapsed(Fraction(0), Fraction(0), Fraction(1), Fraction(0))
    if not 0 < tail_budget < 1:
        raise ValueError("a tail budget lies between 0 and 1")
    cells = sum(part.cells for part in moving)
    width = upper(CONTEXT.sqrt(2 * CONTEXT.log(real(4 * cells / tail_budget))))
    found = [(part, inflation(part.scale, dyadic_up(width * part.scale) + part.linf)) for part in moving]
    weight = sum((part.cells * cell.eta for part, cell in found), Fraction(0))
    if weight > _NEGLIGIBLE:
        weight = min(weight, _likely_weight(found, tail_budget / 2))
    return Collapsed(
        mu_squared=_short(_mu_squared(found)),
        shift=_short(sum((part.times * part.l1 * cell.gamma for part, cell in found), Fraction(0))),
        factor=upper(CONTEXT.exp(real(weight))),
        tail=tail_budget,
    )


def _mu_squared(found: Sequence[tuple[EqualDraws, Inflation]]) -> Fraction:
    """The largest sum of squared changes, each times its tau, that one unit can make.

    Of parts with a ``common`` square what is known is about the sum of squared change / scale^2. Each tau is at most
    the largest tau scale^2 of them, times 1 / scale^2.
    """
    alone = sum((part.times * part.l2_squared * cell.tau for part, cell in found if part.common is None), Fraction(0))
    together = [(part, cell) for part, cell in found if part.common is not None]
    if not together:
        return alone
    most = max(cell.tau * part.scale * part.scale for part, cell in together)
    return alone + most * sum((part.times * part.squared / part.scale**2 for part, _ in together), Fraction(0))


def _short(value: Fraction) -> Fraction:
    return dyadic_up(value, 110) if value else value


def _likely_weight(found: Sequence[tuple[EqualDraws, Inflation]], tail: Fraction) -> Fraction:
    """A bound on the sum of all g(k_i) - g(0) that holds except with probability ``tail``.

    Every summand h lies in [0, eta], so by convexity E exp(x h) <= 1 + E[h] (exp(x eta) - 1) / eta, and by Markov the
    sum exceeds [sum_i (E[h_i] / eta_i) (exp(x eta_i) - 1) - ln tail] / x with probability at most ``tail``, for any
    x > 0. E[h] <= t^4 E[k^4] / 2880 + t^3 E[k^2] / 600, where E[k^2] <= scale^2 and E[k^4] <= 9.3 scale^4, both from
    E[cosh(y k)] <= exp(y^2 scale^2 / 2).
    """
    means = []
    for part, cell in found:
        square = part.scale * part.scale
        mean = cell.tau**4 * Fraction(93, 10) * square * square / 2880 + cell.tau**3 * square / 600
        means.append(min(mean, cell.eta))
    largest = max(cell.eta for _, cell in found)
    eta = np.array([float(cell.eta / largest) for _, cell in found])
    rate = np.array([float(part.cells * m / c.eta) for (part, c), m in zip(found, means, strict=True)])
    log_tail = math.log(tail.denominator) - math.log(tail.numerator)

    # Which x is best is a float's business; the bound at it is then evaluated in 60 digits.
    tries = [2.0 ** (k / 4) for k in range(-80, 28)]
    x = min(tries, key=lambda x: (float((rate * np.expm1(x * eta)).sum()) + log_tail) / x)
    total = -CONTEXT.log(real(tail))
    for (part, cell), mean in zip(found, means, strict=True):
        total += real(part.cells * mean / cell.eta) * CONTEXT.expm1(real(x) * real(cell.eta / largest))
    return upper(total / real(x) * real(largest))
