"""The privacy loss of one draw as a random variable, by its exact moment generating function.

A draw's worst-case pair of output laws (P, Q) gives the loss ``L = log(P/Q)`` under P; independent draws add
their losses (Zhu, Dong and Wang 2022, Theorem 10: dominating pairs compose). Each family here holds many draws of
one shape, as arrays, and knows in closed form, at a complex point ``z = theta + i omega``:

- ``log_moment(theta)``: ``log E exp(theta (L - ref))`` with real theta, one number per draw;
- ``tilted(theta, omega)``: ``E exp(z (L - ref)) / E exp(theta (L - ref))``, the characteristic function of the
  loss under the law tilted by theta; its modulus is at most 1;
- ``slack(theta)``: two numbers (c, d) per draw: rounding moves ``tilted`` by at most ``c + d omega``, and
  ``exp(log_moment)`` by a relative c.

``ref`` is an exact rational that the caller keeps: the largest loss where there is one, so that nothing cancels
close to it. Losses that are bounded have losses below ``ref`` only; so exponents are then never positive, and a
relative error of few units in a parameter moves ``exp(-x)`` by few units times ``x exp(-x) < 0.4``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

__all__ = ["ULP", "Bell", "Family", "LossList", "Pair", "Ramp", "Response", "Smooth", "Staircase", "Triple", "cis"]

Array = Any  # numpy arrays of float64 or complex128

# Twice the unit roundoff of float64. numpy's exp, sin, cos and expm1 stay within 4 of these units.
ULP = 2.0**-52
_WIDE = 2  # from this sigma on a dual sum is 1 and less than 1e-33, which is 1 in these floats


def cis(angle: Array, where: Array | bool = True) -> Array:
    """``exp(i angle)`` for real angles: two real functions are several times faster than one complex one.

    Args:
        angle: Of any shape.
        where: Where it is wanted; elsewhere the result is 0.
    """
    result = np.zeros(np.shape(angle), dtype=np.complex128)
    np.cos(angle, out=result.real, where=where)
    np.sin(angle, out=result.imag, where=where)
    return result


@dataclass(frozen=True)
class Family(ABC):
    """Draws of one shape; every array has one entry, or one row, per draw.

    Attributes:
        counts: How often each draw occurs.
    """

    counts: Array

    def take(self, rows: slice) -> Self:
        """Only these draws."""
        return type(self)(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    @abstractmethod
    def log_moment(self, theta: float) -> Array:
        """``log E exp(theta (L - ref))``, shape (draws,)."""

    @abstractmethod
    def tilted(self, theta: float, omega: Array) -> Array:
        """The tilted characteristic function at these frequencies, shape (draws, len(omega))."""

    @abstractmethod
    def slack(self, theta: float) -> tuple[Array, Array]:
        """Rounding bound ``c + d omega`` of ``tilted``; each of shape (draws,)."""


@dataclass(frozen=True)
class Response(Family):
    """Randomized response with losses +-size: it dominates every pure size-DP draw (Kairouz, Oh, Viswanath 2015).

    Top mass ``1 / (1 + exp(-size))``; discrete Laplace noise with a change of one is exactly this.
    """

    size: Array

    def log_moment(self, theta: float) -> Array:
        """``log((1 + v) / (1 + r))`` with ``r = exp(-size)`` and ``v = exp(-size (1 + 2 theta))``."""
        return np.log1p(np.exp(-self.size * (1 + 2 * theta))) - np.log1p(np.exp(-self.size))

    def tilted(self, theta: float, omega: Array) -> Array:
        """``(1 + v exp(-2 i size omega)) / (1 + v)``."""
        low = np.exp(-self.size * (1 + 2 * theta))
        turned = cis(np.multiply.outer(-2 * self.size, omega))
        turned *= (low / (1 + low))[:, None]
        turned += (1 / (1 + low))[:, None]
        return turned

    def slack(self, theta: float) -> tuple[Array, Array]:
        """Few units, and the phase ``2 size omega`` to a few units of itself."""
        return 24 * ULP + 0 * self.size, 6 * ULP * self.size


class _Summed(Family):
    """A family whose moment is a sum of few terms."""

    @abstractmethod
    def _sum(self, theta: float, omega: Array) -> Array:
        """The sum at ``theta + i omega``, shape (draws, len(omega))."""

    def tilted(self, theta: float, omega: Array) -> Array:
        """The same sum at ``theta + i omega``, over its value at theta."""
        return self._sum(theta, omega) / self._sum(theta, np.zeros(1)).real


@dataclass(frozen=True)
class Triple(_Summed):
    """Losses ``size`` with mass a (``top``, at least 1/4), ``-size`` with mass a exp(-size), and 0: K-norm noise.

    The pair of docs/proofs/tight-rho.md, section 3.
    """

    size: Array
    top: Array

    @property
    def _masses(self) -> tuple[Array, Array]:
        """Of the losses 0 and ``-size``."""
        lowest = self.top * np.exp(-self.size)
        return np.maximum(1 - self.top - lowest, 0.0), lowest

    def _sum(self, theta: float, omega: Array) -> Array:
        none, lowest = self._masses
        turned = cis(np.multiply.outer(-self.size, omega)) * np.exp(-self.size * theta)[:, None]
        return self.top[:, None] + turned * (none[:, None] + lowest[:, None] * turned)

    def log_moment(self, theta: float) -> Array:
        """``log(a + m v + a exp(-size) v^2)`` with ``v = exp(-size theta)`` and m the mass of the loss 0."""
        return np.log(self._sum(theta, np.zeros(1))[:, 0].real)

    def slack(self, theta: float) -> tuple[Array, Array]:
        """A few units of 1 over a sum that is at least 1/4, and the phases ``size omega`` and twice that."""
        return 96 * ULP + 0 * self.size, 24 * ULP * self.size


@dataclass(frozen=True)
class LossList(_Summed):
    """Losses ``top``, ``top - step``, ``top - 2 step``, ... with the masses of a row of ``masses``."""

    top: Array
    step: Array
    masses: Array

    def _sum(self, theta: float, omega: Array) -> Array:
        below = np.multiply.outer(self.step, np.arange(self.masses.shape[1]))
        found = np.empty((len(self.step), len(omega)), dtype=np.complex128)
        for row, far in enumerate(below):
            tilted = self.masses[row] * np.exp(-theta * far)
            kept = tilted > 0
            found[row] = cis(np.multiply.outer(-omega, far[kept])) @ tilted[kept]
        return found

    def log_moment(self, theta: float) -> Array:
        """The log of the sum of the tilted masses."""
        return np.log(self._sum(theta, np.zeros(1))[:, 0].real)

    def slack(self, theta: float) -> tuple[Array, Array]:
        """A few units for each mass and each addition, relative to their sum; phases up to the length of the list."""
        number = self.masses.shape[1]
        return (64 + number) * ULP + 0 * self.top, 12 * ULP * number * self.step


@dataclass(frozen=True)
class Pair(Family):
    """Randomized response of ``size`` with probability ``alike``, else (``apart``) of ``small``; which one, both know.

    The losses are +-size and +-small; ``gap`` is the difference of the two, which floats would not get from them. A
    total with residuals is one such pair (docs/proofs/total-residual.md).
    """

    size: Array
    small: Array
    gap: Array
    alike: Array
    apart: Array

    def _outcomes(self, theta: float) -> tuple[tuple[Array, Array], ...]:
        """How far each outcome's loss is below ``size``, and its mass times exp(-theta times that)."""
        large, small = self.alike / (1 + np.exp(-self.size)), self.apart / (1 + np.exp(-self.small))
        both = self.size + self.small
        return (
            (0 * self.size, large),
            (2 * self.size, large * np.exp(-self.size * (1 + 2 * theta))),
            (self.gap, small * np.exp(-self.gap * theta)),
            (both, small * np.exp(-self.small - both * theta)),
        )

    def log_moment(self, theta: float) -> Array:
        """The log of the sum of the four tilted masses."""
        return np.log(sum(mass for _, mass in self._outcomes(theta)))

    def tilted(self, theta: float, omega: Array) -> Array:
        """The four tilted masses, each turned by its loss."""
        total = np.zeros((len(self.size), len(omega)), dtype=np.complex128)
        whole = sum(mass for _, mass in self._outcomes(theta))
        for below, mass in self._outcomes(theta):
            total += (mass / whole)[:, None] * cis(np.multiply.outer(-below, omega))
        return total

    def slack(self, theta: float) -> tuple[Array, Array]:
        """Few units for each of the four masses, as exp(-x) x < 0.4, and phases up to ``2 size omega`` to few units."""
        return 96 * ULP + 0 * self.size, 12 * ULP * self.size


@dataclass(frozen=True)
class Staircase(_Summed):
    """Discrete Laplace noise of one cell that moves by ``shift >= 2`` whole steps; ``rate`` is 1 / scale.

    With ``r = exp(-rate)``: loss ``shift rate`` has mass ``1/(1+r)``, ``(shift - 2k) rate`` has
    ``(1-r) r^k / (1+r)`` for 0 < k < shift, and ``-shift rate`` has ``r^shift / (1+r)``. The middle is a
    geometric sum, so a shift of millions costs no more than one of two.
    """

    rate: Array
    shift: Array

    def _sum(self, theta: float, omega: Array) -> Array:
        fall = -self.rate[:, None] * (1 + 2 * theta)
        turn = np.multiply.outer(-2 * self.rate, omega)
        # 1 - v without cancellation: (1 - |v|) + |v| (1 - exp(i turn))
        size = np.exp(fall)
        rest = -np.expm1(fall) + size * (2 * np.sin(turn / 2) ** 2 - 1j * np.sin(turn))
        last = np.exp(self.shift[:, None] * fall) * cis(self.shift[:, None] * turn)
        return 1 + last - np.expm1(-self.rate)[:, None] * ((1 - rest - last) / rest)

    def log_moment(self, theta: float) -> Array:
        """The log of ``(1 + v^shift + (1-r) (v - v^shift)/(1-v)) / (1+r)`` with ``v = r exp(-2 rate theta)``."""
        return np.log(self._sum(theta, np.zeros(1))[:, 0].real) - np.log1p(np.exp(-self.rate))

    def slack(self, theta: float) -> tuple[Array, Array]:
        """Phases as everywhere; ``1 - v`` loses a relative ``|log v| / |1 - v| <= |1 + 2z| (rate + 1/(1+2 theta))``."""
        return 64 * ULP + 8 * ULP * self.rate, ULP * (
            6 * self.rate * self.shift + 16 * self.rate + 16 / (1 + 2 * theta)
        )


@dataclass(frozen=True)
class Smooth(_Summed):
    """Continuous Laplace noise of one cell that moves by ``size`` scales.

    Loss ``size`` has mass 1/2, ``-size`` has ``exp(-size)/2``, and ``size - 2t`` has density ``exp(-t)/2`` between.
    """

    size: Array

    def _sum(self, theta: float, omega: Array) -> Array:
        low = np.exp(-self.size * (1 + 2 * theta))[:, None] * cis(np.multiply.outer(-2 * self.size, omega))
        return 1 + low + (1 - low) / (1 + 2 * theta + 2j * omega)

    def log_moment(self, theta: float) -> Array:
        """The log of ``(1 + w + (1 - w)/(1 + 2 theta)) / 2`` with ``w = exp(-size (1 + 2 theta))``."""
        return np.log(self._sum(theta, np.zeros(1))[:, 0].real / 2)

    def slack(self, theta: float) -> tuple[Array, Array]:
        """Few units, and the phase ``2 size omega`` to a few units of itself."""
        return 48 * ULP + 0 * self.size, 12 * ULP * self.size


@dataclass(frozen=True)
class Ramp(Family):
    """The pair that dominates every mechanism whose loss stays in an interval of length ``size``.

    Its profile is the envelope D of ``docs/proofs/bounded-range.md``. As a function of z = exp(x) a profile has the
    second derivative of the likelihood ratio's density under Q (E_Q (Z - z)_+, differentiated twice), here
    ``exp(size/2) z^(-3/2) / (2 (exp(size) - 1))`` on [exp(-size), exp(size)]. So the loss has, under P, a density
    proportional to exp(x/2) on [-size, size] and nothing outside.
    """

    size: Array

    def log_moment(self, theta: float) -> Array:
        """The log of ``(1 - w) / ((1 + 2 theta)(1 - exp(-size)))`` with ``w = exp(-size (1 + 2 theta))``."""
        steep = 1 + 2 * theta
        return np.log(-np.expm1(-self.size * steep) / (steep * -np.expm1(-self.size)))

    def tilted(self, theta: float, omega: Array) -> Array:
        """The same at ``theta + i omega``, over its value at theta; 1 - w without cancellation as in ``Staircase``."""
        steep = 1 + 2 * theta
        fall = (-self.size * steep)[:, None]
        turn = np.multiply.outer(-2 * self.size, omega)
        rest = -np.expm1(fall) + np.exp(fall) * (2 * np.sin(turn / 2) ** 2 - 1j * np.sin(turn))
        return rest * (steep / (steep + 2j * omega)) / -np.expm1(fall)

    def slack(self, theta: float) -> tuple[Array, Array]:
        """Few units, and the phase ``2 size omega`` to a few units of itself.

        With y = size (1 + 2 theta) the second part of ``rest`` is at most 2 size omega exp(-y); over 1 - exp(-y) and
        times (1 + 2 theta) / |1 + 2 theta + 2 i omega| it is at most y / (exp(y) - 1) <= 1, so that nothing grows.
        """
        return 64 * ULP + 0 * self.size, 12 * ULP * self.size


@dataclass(frozen=True)
class Bell(Family):
    """Discrete Gaussian noise of one cell that moves by ``shift`` whole steps; ``scale`` is sigma.

    The loss is ``shift^2 / (2 sigma^2) + shift x / sigma^2`` with x the noise itself, and ``ref`` its first term.
    Poisson summation turns ``sum_x exp(-x^2 / (2 sigma^2) + u x)`` into
    ``sigma sqrt(2 pi) sum_m exp(sigma^2 (u - 2 pi i m)^2 / 2)``, whose terms beyond |m| = 2 are below 1e-100 for
    sigma >= 1 and a phase reduced to [-pi, pi]; smaller sigmas are summed as they stand. Both sums are complete to
    far below one unit of float64: no tail is cut.
    """

    scale: Array
    shift: Array

    def _small(self) -> bool:
        return bool(self.scale[0] < 1)

    def _places(self, theta: float) -> tuple[Array, Array, Array]:
        """Values of the noise near the tilted centre, their weights over the largest one, and the log of that one."""
        centre = theta * self.shift
        reach = 10  # 10 sigma and more, since sigma < 1: what lies beyond is below 1e-22 of the sum
        places = np.round(centre)[:, None] + np.arange(-reach, reach + 1)
        logs = -(((places - centre[:, None]) / self.scale[:, None]) ** 2) / 2
        top = logs.max(axis=1)
        return places, np.exp(logs - top[:, None]), top

    def _dual(self, theta: float) -> Array:
        """``sum_m exp(-2 pi^2 sigma^2 m^2) cos(2 pi m theta shift)``, shape (draws,)."""
        total = np.ones_like(self.scale)
        for m in (1, 2) if self.scale.min() < _WIDE else ():
            total += 2 * np.exp(-2 * (np.pi * self.scale * m) ** 2) * np.cos(2 * np.pi * m * theta * self.shift)
        return total

    def log_moment(self, theta: float) -> Array:
        """``theta^2 shift^2 / (2 sigma^2)`` and the log of a ratio of two lattice sums."""
        main = (theta * self.shift / self.scale) ** 2 / 2
        if self._small():
            _, weights, top = self._places(theta)
            return main + top + np.log(weights.sum(axis=1)) - np.log(self._places(0.0)[1].sum(axis=1))
        return main + np.log(self._dual(theta)) - np.log(self._dual(0.0))

    def tilted(self, theta: float, omega: Array) -> Array:
        """Sum over the noise's places (sigma < 1), or over the dual lattice."""
        phase = np.multiply.outer(self.shift / self.scale**2, omega)
        if self._small():
            places, weights, _ = self._places(theta)
            total = np.zeros(phase.shape, dtype=complex)
            for k in range(places.shape[1]):
                total += weights[:, k, None] * cis(places[:, k, None] * phase)
            return total / weights.sum(axis=1)[:, None]
        phase -= 2 * np.pi * np.round(phase / (2 * np.pi))
        total = self._dampened(theta, phase)
        for m in (1, 2) if self.scale.min() < 4 else ():
            for turn in (phase - 2 * np.pi * m, phase + 2 * np.pi * m):
                total += self._dampened(theta, turn)
        if self.scale.min() < _WIDE:  # else the dual sum is 1
            total /= self._dual(theta)[:, None]
        return total

    def _dampened(self, theta: float, phase: Array) -> Array:
        """``exp(-(sigma phase)^2 / 2 + i theta shift phase)``, one row per draw."""
        size = self.scale[:, None] * phase  # and then in its own place: most of a search's time is spent here
        size *= size
        size /= -2
        np.exp(size, out=size)
        turned = cis((theta * self.shift)[:, None] * phase, where=size > 0)
        turned.real *= size
        turned.imag *= size
        return turned

    def slack(self, theta: float) -> tuple[Array, Array]:
        """Phases ``shift omega / sigma^2`` times the places that count, and what reducing them by 2 pi loses."""
        centre = theta * self.shift
        lever = self.scale + centre + 12
        return ULP * (64 + 32 * lever + 40 * centre / self.scale), 8 * ULP * lever * self.shift / self.scale**2
