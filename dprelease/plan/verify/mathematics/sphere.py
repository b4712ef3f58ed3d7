"""The loss of noise of one random scale as the verifier sees it: its density, from the radius and the angle.

A point at the distance r from the first centre is at the distance s from the other one, s^2 = r^2 + D^2 + 2 r D t, t
the cosine of the angle, whose density is proportional to (1 - t^2)^((d-3)/2) and has nothing to do with r. The loss is
psi(r) - psi(s), psi the logarithm of the density at a distance; so for each r a loss l has one s and one t, and the
density of the loss is the mean over r of the density of t times s / (r D |psi'(s)|). It is smooth: on a fine grid of
losses its sums are its integrals. Floats with a tolerance, and another way than that of the claim, which splits the
point into what lies along the change and the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dprelease.privacy.event import RandomScale

__all__ = ["SphereGroup", "is_quadrature", "sphere_epsilon"]

Array = Any

_RADII, _LOSSES = 240, 2048  # places of r, and of losses above 0
_FAR = 13.0  # standard deviations
_MOMENT = 2e-3  # relative, for places that are rounded to 1/1024


def is_quadrature(draw: RandomScale) -> bool:
    """Whether the variances of the table have the first moments of the Gamma law that they stand for.

    With x = (d + 1) s^2 / 2 and a = (d - 1) / 2 the mean of x^j is (a + 1) ... (a + j), exactly for j up to 15.
    """
    numbers, whole = draw.dimension + 1, sum(draw.weights)
    power = (numbers - 1) / 2
    places = [(numbers + 1) * float(s) ** 2 / 2 for s in draw.stretches]
    wanted = 1.0
    for j in range(1, 2 * len(places)):
        wanted *= power + j
        found = math.fsum(w * x**j for w, x in zip(draw.weights, places, strict=True)) / whole
        if abs(found / wanted - 1) > _MOMENT * j:
            return False
    return True


@dataclass(frozen=True)
class _LossDensity:
    """Losses 0, h, 2h, ... and the density at them; at minus a loss it is exp(-loss) times as much."""

    losses: Array
    density: Array

    @property
    def step(self) -> float:
        return float(self.losses[1])

    def delta(self, epsilon: float) -> float:
        """The mean of (1 - exp(epsilon - loss))_+, by Simpson's rule from epsilon on."""
        at = np.linspace(epsilon, self.losses[-1], 2 * _LOSSES + 1)
        values = -np.expm1(epsilon - at) * np.exp(np.interp(at, self.losses, self._logs)) * self._correction(at)
        return float((values[0] + values[-1] + 4 * values[1::2].sum() + 2 * values[2:-1:2].sum()) * (at[1] - at[0]) / 3)

    @cached_property
    def _logs(self) -> Array:
        return np.log(np.maximum(self.density, 1e-300))

    @cached_property
    def _bend(self) -> Array:
        """The second differences of the logarithms."""
        logs = self._logs
        bend = np.zeros(len(logs))
        bend[1:-1] = logs[2:] - 2 * logs[1:-1] + logs[:-2]
        bend[0] = bend[1]
        return bend

    def _correction(self, at: Array) -> Array:
        """What a straight line between two logarithms leaves out: half of the second difference times u (1 - u)."""
        part = at / self.step
        inside = part - np.floor(part)
        return np.exp(-np.interp(at, self.losses, self._bend) * inside * (1 - inside) / 2)

    @property
    def both(self) -> tuple[Array, Array]:
        """All losses, rising, and their probabilities."""
        losses = np.concatenate([-self.losses[:0:-1], self.losses])
        mass = np.concatenate([self.density[:0:-1] * np.exp(-self.losses[:0:-1]), self.density]) * self.step
        return losses, mass / mass.sum()


@lru_cache(maxsize=64)
def _density_of(draw: RandomScale) -> _LossDensity:
    numbers, whole = draw.dimension + 1, sum(draw.weights)
    stretches = np.array([float(s) for s in draw.stretches])
    shares = np.array([w / whole for w in draw.weights])
    change = math.sqrt(draw.length_squared) / float(draw.scale)

    def psi(at: Array) -> tuple[Array, Array]:
        """Ln of the density at a distance, but for a factor, and how fast it falls."""
        logs = np.log(shares / stretches**numbers)[:, None] - (at.ravel() / stretches[:, None]) ** 2 / 2
        top = logs.max(axis=0)
        terms = np.exp(logs - top)
        total = terms.sum(axis=0)
        fall = at.ravel() * (terms / stretches[:, None] ** 2).sum(axis=0) / total
        return (top + np.log(total)).reshape(at.shape), fall.reshape(at.shape)

    low = max(0.0, (math.sqrt(numbers) - _FAR) * stretches[0])
    high = (math.sqrt(numbers) + _FAR) * stretches[-1]
    nodes, weights = np.polynomial.legendre.leggauss(_RADII)
    radii, weights = low + (nodes + 1) * (high - low) / 2, weights * (high - low) / 2
    here = psi(radii)[0]
    logs = (numbers - 1) * np.log(radii) + here - math.lgamma(numbers / 2) - (numbers / 2 - 1) * math.log(2)
    likely = weights * np.exp(logs)
    largest = change * (change / 2 / stretches[0] ** 2 + _FAR / stretches[0])
    losses = np.linspace(0, largest, _LOSSES + 1)
    # s from psi(s) = psi(r) - loss: looked up, and bettered by Newton's rule
    grid = np.linspace(1e-9, high + change * 1.5, 20 * _RADII)
    falling = psi(grid)[0]
    # the density of the cosine, at each radius in turn: all of them at once would not stay near
    constant = math.lgamma(numbers / 2) - math.lgamma((numbers - 1) / 2) - math.log(math.pi) / 2
    found = np.zeros(len(losses))
    for r, own, much in zip(radii.tolist(), here.tolist(), likely.tolist(), strict=True):
        other = np.interp(losses - own, -falling, grid)
        for _ in range(2):
            value, fall = psi(other)
            other = np.maximum(other + (value - own + losses) / fall, 1e-9)
        inside = np.maximum(1 - ((other**2 - r**2 - change**2) / (2 * r * change)) ** 2, 0.0)
        found += much * inside ** ((numbers - 3) / 2) * other / (r * change * psi(other)[1])
    return _LossDensity(losses, np.exp(constant) * found)


def sphere_epsilon(draw: RandomScale, delta: float) -> float:
    """The epsilon at this delta of one row, by halving."""
    law = _density_of(draw)
    low, high = 0.0, float(law.losses[-1])
    if law.delta(0.0) <= delta:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if law.delta(middle) > delta else (low, middle)
    return low


@dataclass(frozen=True)
class SphereGroup:
    """One draw of a random scale among the groups of a loss (``plan.verify.mathematics.draws``).

    Attributes:
        draw: What is drawn.
        counts: How often, shape (1,).
        top: What its losses are measured from.
    """

    draw: RandomScale
    counts: Array
    top: float
    kind: str = "sphere"

    def part(self, rows: slice) -> SphereGroup:
        """It is one row."""
        return self

    @property
    def value(self) -> Array:
        """The smallest scale, in rows."""
        return np.array([float(self.draw.scale * min(self.draw.stretches))])

    @property
    def shift(self) -> Array:
        """By how much a row moves it, in rows."""
        return np.array([math.sqrt(self.draw.length_squared)])

    def masses(self, row: int, theta: float, step: float) -> tuple[int, Array]:
        """Of losses on a lattice, which these are not on.

        Raises:
            ValueError: Always.
        """
        raise ValueError("the losses of a draw of one random scale are on no lattice")

    def moments(self, theta: Array) -> Array:
        """Ln E exp(theta (L - top)), shape (1, len(theta))."""
        losses, mass = _density_of(self.draw).both
        logs = np.log(np.maximum(mass, 1e-300))[None, :] + np.multiply.outer(theta, losses - self.top)
        most = logs.max(axis=1)
        found: Array = most + np.log(np.exp(logs - most[:, None]).sum(axis=1))
        return found[None, :]

    def turned(self, theta: float, omega: Array) -> Array:
        """E exp((theta + i omega)(L - top)) / E exp(theta (L - top)); 0 where the grid is too coarse to tell."""
        law = _density_of(self.draw)
        losses, mass = law.both
        logs = np.log(np.maximum(mass, 1e-300)) + theta * losses
        tilted = np.exp(logs - logs.max())
        kept = tilted > 1e-18
        places, weights = losses[kept] - self.top, tilted[kept] / tilted[kept].sum()
        known = np.abs(omega) < math.pi / law.step
        found = np.zeros(len(omega), dtype=complex)
        found[known] = np.exp(1j * np.multiply.outer(omega[known], places)) @ weights
        return found[None, :]
