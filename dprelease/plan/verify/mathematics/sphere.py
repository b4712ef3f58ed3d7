"""The loss of noise of one random scale as the verifier sees it: its density, from the radius and the angle.

A point at the distance r from the first centre is at the distance s from the other one, s^2 = r^2 + D^2 + 2 r D t, t
the cosine of the angle, whose density is proportional to (1 - t^2)^((d-3)/2) and has nothing to do with r. The loss is
psi(r) - psi(s), psi the logarithm of the density at a distance; so for each r a loss l has one u = s^2 and one t, and
the density of the loss is the mean over r of the density of t times (du/dl) / (2 r D). It is smooth: on a fine grid of
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

_PANELS, _NODES = 15, 16  # stretches of r, and places of r in each of them
_LOSSES, _HEIGHTS = 2048, 8192  # places of losses above 0, and of heights at which s is known
_BLOCK = 64  # of losses: what is turned once for all blocks
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

    def delta(self, epsilon: float) -> tuple[float, float]:
        """The mean of (1 - exp(epsilon - loss))_+, by Simpson's rule from epsilon on, and how fast it falls."""
        at = np.linspace(epsilon, self.losses[-1], 2 * _LOSSES + 1)
        density = np.exp(np.interp(at, self.losses, self._logs)) * self._correction(at)
        density[1:-1:2] *= 4
        density[2:-1:2] *= 2
        other, width = np.exp(epsilon - at), (at[1] - at[0]) / 3
        return float(density @ -np.expm1(epsilon - at) * width), float(density @ other * width)

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


@dataclass(frozen=True)
class _Mixture:
    """The density at a squared distance u from its centre.

    Attributes:
        numbers: In how many dimensions.
        stretches: The scales, rising.
        shares: How likely each is.
    """

    numbers: int
    stretches: Array
    shares: Array

    def height(self, squares: Array) -> tuple[Array, Array]:
        """Minus its logarithm, but for a constant, and how fast that rises with u."""
        halves = 0.5 / self.stretches[:, None] ** 2
        logs = np.log(self.shares / self.stretches**self.numbers)[:, None] - squares * halves
        top = logs.max(axis=0)
        terms = np.exp(logs - top)
        total = terms.sum(axis=0)
        return -top - np.log(total), (terms * halves).sum(axis=0) / total

    def inverse(self, farthest: float) -> _Inverse:
        """The squared distance at every height up to that of a distance."""
        low, high = self.height(np.array([0.0, farthest**2]))[0].tolist()
        wanted, grid = np.linspace(low, high, _HEIGHTS + 1), np.linspace(0.0, farthest, 2048) ** 2
        found = np.interp(wanted, self.height(grid)[0], grid)
        for _ in range(4):
            value, rise = self.height(found)
            found = np.maximum(found + (wanted - value) / rise, 0.0)
        return _Inverse(low, (high - low) / _HEIGHTS, found, 1 / self.height(found)[1])


@dataclass(frozen=True)
class _Inverse:
    """U at equally spaced heights, and how fast it rises with the height there."""

    low: float
    spacing: float
    squares: Array
    rises: Array

    def at(self, heights: Array) -> tuple[Array, Array]:
        """U and its rise by cubic pieces, for heights within the table."""
        places = (heights - self.low) / self.spacing
        cells = np.minimum(places.astype(int), _HEIGHTS - 1)
        part = places - cells
        zeroth, first, second, third = (each.take(cells) for each in self._pieces)
        value = zeroth + part * (first + part * (second + part * third))
        return value, (first + part * (2 * second + 3 * part * third)) / self.spacing

    @cached_property
    def _pieces(self) -> tuple[Array, Array, Array, Array]:
        """The coefficients of each cubic piece, which has the values and the slopes of both its ends."""
        start, slopes = self.squares[:-1], self.rises * self.spacing
        over = np.diff(self.squares)
        return start, slopes[:-1], 3 * over - 2 * slopes[:-1] - slopes[1:], slopes[:-1] + slopes[1:] - 2 * over


@lru_cache(maxsize=64)
def _density_of(draw: RandomScale) -> _LossDensity:
    numbers, whole = draw.dimension + 1, sum(draw.weights)
    stretches = np.array([float(s) for s in draw.stretches])
    law = _Mixture(numbers, stretches, np.array([w / whole for w in draw.weights]))
    change = math.sqrt(draw.length_squared) / float(draw.scale)
    low = max(0.0, (math.sqrt(numbers) - _FAR) * stretches[0])
    high = (math.sqrt(numbers) + _FAR) * stretches[-1]
    radii, weights = _places(low, high)
    here, there = law.height(radii**2)[0], law.height((radii + change) ** 2)[0]
    logs = (numbers - 1) * np.log(radii) - here - math.lgamma(numbers / 2) - (numbers / 2 - 1) * math.log(2)
    # the density of the cosine has this factor, and du/dl is divided by 2 r D
    constant = math.lgamma(numbers / 2) - math.lgamma((numbers - 1) / 2) - math.log(math.pi) / 2
    likely = weights * np.exp(logs + constant) / (2 * radii * change)
    largest = change * (change / 2 / stretches[0] ** 2 + _FAR / stretches[0])
    step = largest / _LOSSES
    found, table = np.zeros(_LOSSES + 1), law.inverse(float(radii[-1]) + change)
    reached = np.minimum((there - here) / step, _LOSSES).astype(int) + 1  # losses up to that of s = r + D
    for r, own, much, count in zip(radii.tolist(), here.tolist(), likely.tolist(), reached.tolist(), strict=True):
        squares, rise = table.at(own + step * np.arange(count))
        inside = np.maximum(1 - ((squares - r**2 - change**2) / (2 * r * change)) ** 2, 0.0)
        found[:count] += much * inside ** ((numbers - 3) / 2) * rise
    return _LossDensity(np.linspace(0, largest, _LOSSES + 1), found)


def _places(low: float, high: float) -> tuple[Array, Array]:
    """Gauss' places and weights in each of equal stretches between two numbers."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = (high - low) / _PANELS / 2
    middles = low + half * (2 * np.arange(_PANELS) + 1)
    return (middles[:, None] + half * nodes).ravel(), np.tile(half * weights, _PANELS)


def sphere_epsilon(draw: RandomScale, delta: float) -> float:
    """The epsilon at this delta of one row, by Newton's rule.

    The logarithm of delta bends downwards, so that a step that starts beyond the root does not pass it; one that would
    leave what is known to hold the root is a halving.
    """
    law = _density_of(draw)
    low, high, found = 0.0, float(law.losses[-1]), 0.0
    for _ in range(100):
        value, fall = law.delta(found)
        low, high = (found, high) if value > delta else (low, found)
        if not low < high:  # already at 0
            break
        aim = found + math.log(value / delta) * value / fall if value > 0 and fall > 0 else high
        before, found = found, aim if low < aim < high else (low + high) / 2
        if abs(found - before) <= 1e-13 * found:
            break
    return found


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
        kept = np.flatnonzero(tilted > 1e-18)
        weights = np.zeros(-(-(kept[-1] + 1 - kept[0]) // _BLOCK) * _BLOCK)
        weights[kept - kept[0]] = tilted[kept] / tilted[kept].sum()
        known = np.abs(omega) < math.pi / law.step
        # a loss is the first of its block and one of a few steps more: two short tables in the place of a turn for each
        turn, blocks = omega[known] * law.step, weights.reshape(-1, _BLOCK)
        inside = np.exp(1j * np.multiply.outer(turn, np.arange(_BLOCK)))
        first = np.exp(1j * np.multiply.outer(turn, _BLOCK * np.arange(len(blocks))))
        start = np.exp(1j * omega[known] * (losses[kept[0]] - self.top))
        found = np.zeros(len(omega), dtype=complex)
        found[known] = start * (first * np.einsum("wb,ab->wa", inside, blocks)).sum(axis=1)
        return found[None, :]
