"""The privacy loss of one noisy number in closed form, and many of them added up, as the verifier sees them.

A pair of neighbours moves some numbers by whole steps; the loss L = ln(P/Q) under P of independent noise adds up. What
is needed of it is E exp(z L) at complex z, on a vertical line (``Loss`` and its groups), written from the mass
functions. ``plan.verify.mathematics.delta`` makes delta of it. Floats: nothing here is a bound.

Where only norms are known (``Norms``), the pair is a vector that has none of them larger: one that may occur for all
that is known. Of a choice by the exponential mechanism, whose loss is known to stay in an interval, it is a pair of two
outputs whose losses are the ends of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from dprelease.plan.verify.mathematics.sphere import SphereGroup
from dprelease.privacy.event import RandomScale

__all__ = ["RANGE_PARTS", "Array", "Cell", "Draw", "Loss", "Norms", "log_moments", "witnesses", "worst"]

Array = Any

_DIRECT = 3  # below this scale a discrete Gaussian is summed over its lattice
_MOST_MOVED = 2**12  # cells of a change vector that are listed one by one
_TABLE = 256  # turns of a short table
_LATTICE = 2**18  # the largest number of different losses that are listed
_BOUNDED = ("pure", "laplace", "range", "triple", "either")

RANGE_PARTS = 1 << 16
"""Of so many parts of its range is the upper loss of a two-point pair a whole number."""

# For many draws the middle is worst, for few of them, and for small deltas, the end.
_UPPER = (*(RANGE_PARTS * k // 16 for k in range(4, 15)), *(RANGE_PARTS - (RANGE_PARTS >> k) for k in range(4, 17)))


class Norms(NamedTuple):
    """What is known of a change vector that is not known itself, in whole steps."""

    l0: int
    l1: Fraction
    l2_squared: Fraction
    linf: Fraction


class Cell(NamedTuple):
    """One noisy number that one unit moves.

    Attributes:
        kind: ``pure``: nothing is known but its epsilon (in ``value``). ``triple``: the loss is ``value`` with chance
            ``mass``, minus that with chance mass exp(-value), else 0. ``laplace``, ``gaussian``: discrete noise of
            scale ``value``. ``normal``: continuous Gaussian noise of scale ``value``. ``range``: the loss stays in an
            interval of length ``value``. ``reveal``: everything shows with probability ``value``. ``either``: a
            response of the loss ``value`` or ``small``, the first with the probability ``alike``. ``sphere``: Gaussian
            noise of one random scale, the smallest of which is ``value``.
        value: As above.
        shift: By how much it moves, in whole steps; of a range where the interval ends, in ``RANGE_PARTS``-ths of it.
        norms: The norms of noise on cells that move by an unknown vector.
        mass: See ``triple``.
        small: See ``either``.
        alike: See ``either``.
        draw: Of a ``sphere``, what is drawn.
    """

    kind: Literal["pure", "triple", "either", "laplace", "gaussian", "normal", "range", "reveal", "sphere"]
    value: Fraction
    shift: int = 1
    norms: Norms | None = None
    mass: float = 0.0
    small: Fraction | int = 0
    alike: Fraction | int = 1
    draw: RandomScale | None = None

    def __hash__(self) -> int:
        """Of what tells most cells apart: a rational is slow to hash, and its two numbers are not."""
        return hash((self.kind, self.value.numerator, self.value.denominator, self.shift))

    @property
    def pure(self) -> Fraction | None:
        """Its epsilon at delta 0 where it does not reveal; None where there is none."""
        if self.kind in ("gaussian", "normal", "sphere"):
            return None
        if self.kind == "laplace":
            return (self.norms.l1 if self.norms else self.shift) / self.value
        return Fraction(0) if self.kind == "reveal" else self.value

    @property
    def rho(self) -> Fraction:
        """A zero-concentrated loss, where it does not reveal: of Gaussian noise and ranges its own, else a bound of it.

        Noise: squared L2 change / (2 scale^2); a range: its square / 8 (Cesar and Rogers 2021); else epsilon^2 / 2.
        What pure noise is charged by now is less: ``plan.verify.mathematics.delta.total_rho``.
        """
        if self.draw is not None:
            return self.draw.length_squared / self.value**2 / 2
        if self.kind in ("laplace", "gaussian", "normal"):
            return (self.norms.l2_squared if self.norms else Fraction(self.shift**2)) / self.value**2 / 2
        return Fraction(0) if self.kind == "reveal" else self.value**2 / (8 if self.kind == "range" else 2)

    @property
    def top(self) -> Fraction:
        """The largest loss; where none is largest the mean loss, of a sphere at its smallest scale."""
        if self.kind == "range":
            return self.value * self.shift / RANGE_PARTS
        if self.kind in ("pure", "triple", "either"):
            return self.value
        one = self.shift / self.value
        return one if self.kind == "laplace" else self.rho if self.draw else one * one / 2

    @property
    def step(self) -> Fraction | None:
        """What the differences of its losses are multiples of; None where they are not."""
        if self.kind in ("range", "triple"):
            return self.value
        if self.kind == "either":
            return _common(self.value - self.small, 2 * self.small)
        if self.kind in ("pure", "laplace"):
            return 2 * (self.value if self.kind == "pure" else 1 / self.value)
        return self.shift / self.value**2 if self.kind == "gaussian" else None


Draw = tuple[tuple[Cell, ...], ...]
"""One draw: the ways in which one unit can move it, each with the cells that move."""


def worst(draw: Draw) -> Draw:
    """The draw without ways that another way dominates.

    Discrete Laplace noise: moving one cell by s1 + s2 dominates moving two cells by s1 <= s2. Proof: with
    q = exp(-1/scale) and beta_s = 1 - delta_s, beta_s(exp(s - 2j)) = q^j at the kinks 0 <= j <= s of delta_s as a
    function of exp(epsilon) (in units of 1/scale; 1 left of them). Of two cells at the kink j <= (s1 + s2)/2 of the
    sum, given the first cell's loss s1 - 2k the second is at its own kink j - k, so that beta is
    [q^j + (1 - q) sum_{0<k<s1} q^max(j, k) + q^max(j, s1)] / (1 + q), which is q^j [2 + (1 - q)(s1 - 1)] / (1 + q)
    for j >= s1, else q^j [1 + q + (1 - q) j] / (1 + q): both at least q^j. So delta of two cells is not above delta
    of one at its kinks for epsilon >= 0, by symmetry for epsilon < 0, and by convexity in between.
    """
    if len(draw) < 2 or draw[0][0].kind != "laplace":
        return draw
    most = max(sum(cell.shift for cell in way) for way in draw)
    alone = tuple(way for way in draw if len(way) == 1 and way[0].shift == most)
    return alone or draw


def witnesses(draw: Draw) -> Draw:
    """The draw with pairs that may occur in the place of ranges and of vectors that are known by their norms alone."""
    ways: list[tuple[Cell, ...]] = []
    for way in draw:
        if len(way) == 1 and way[0].kind == "range":
            ways += [(way[0]._replace(shift=part),) for part in _UPPER]
        else:
            ways.append(tuple(each for cell in way for each in _moved(cell)))
    return tuple(ways)


def _moved(cell: Cell) -> tuple[Cell, ...]:
    """As many cells as possible by as much as possible, and one more by what is left, until a norm is used up.

    Of more cells than ``_MOST_MOVED`` only so many: a pair that moves less is still one that can occur.
    """
    if cell.norms is None:
        return (cell,)
    cells: list[Cell] = []
    free, l1, square, linf = cell.norms
    while free and len(cells) < _MOST_MOVED:
        most = min(math.floor(linf), math.floor(l1), math.isqrt(math.floor(square)))
        if not most:
            break
        cells.append(Cell(cell.kind, cell.value, most))
        free, l1, square = free - 1, l1 - most, square - most * most
    return tuple(cells)


@dataclass(frozen=True)
class _Group:
    """Different cells of one kind: arrays with one entry per cell."""

    kind: str
    counts: Array
    value: Array
    shift: Array
    mass: Array
    small: Array
    alike: Array

    def part(self, rows: slice) -> _Group:
        arrays = (self.counts, self.value, self.shift, self.mass, self.small, self.alike)
        return _Group(self.kind, *(array[rows] for array in arrays))

    @property
    def _either(self) -> tuple[tuple[Array, Array], ...]:
        """The four losses of one of two responses, below the largest, and their probabilities."""
        first, other = self.alike / (1 + np.exp(-self.value)), (1 - self.alike) / (1 + np.exp(-self.small))
        return (
            (0 * self.value, first),
            (self.value - self.small, other),
            (self.value + self.small, other * np.exp(-self.small)),
            (2 * self.value, first * np.exp(-self.value)),
        )

    def _bounded(self, z: Array) -> Array:
        """E exp(z (L - top)) times what ``_whole`` gives, shape (cells, len(z))."""
        if self.kind == "range":
            return self._upper[:, None] + (1 - self._upper)[:, None] * np.exp(np.multiply.outer(-self.value, z))
        if self.kind == "either":
            return sum(mass[:, None] * np.exp(np.multiply.outer(-below, z)) for below, mass in self._either)
        if self.kind == "pure":
            return 1 + np.exp(np.multiply.outer(-self.value, 1 + 2 * z))
        if self.kind == "triple":
            fall = np.exp(np.multiply.outer(-self.value, z))
            top, low = self.mass[:, None], (self.mass * np.exp(-self.value))[:, None]
            return top + (1 - top - low) * fall + low * fall**2
        rate = 1 / self.value
        power = np.multiply.outer(-rate, 1 + 2 * z)
        shift = self.shift[:, None]
        last = np.exp(shift * power)
        between = (last - np.exp(power)) / np.expm1(power)  # the sum of exp(k power), 0 < k < shift, is geometric
        return 1 + last - np.expm1(-rate)[:, None] * between

    @property
    def _upper(self) -> Array:
        """Of two losses r apart the probability of the upper one, t: (1 - exp(t - r)) / (1 - exp(-r)).

        Any loss has E exp(-L) = 1.
        """
        return np.expm1(self.value * (self.shift / RANGE_PARTS - 1)) / np.expm1(-self.value)

    @property
    def _whole(self) -> Array:
        if self.kind in ("range", "triple", "either"):
            return np.ones(len(self.value))
        return 1 + np.exp(-self.value if self.kind == "pure" else -1 / self.value)

    def moments(self, theta: Array) -> Array:
        """Ln E exp(theta (L - top)) for real theta, shape (cells, len(theta))."""
        if self.kind in _BOUNDED:
            return np.log(self._bounded(theta)) - np.log(self._whole)[:, None]
        main = np.multiply.outer(self.shift / self.value, theta) ** 2 / 2
        if self.kind == "gaussian" and self.value.min() < _DIRECT:
            for row, (scale, shift) in enumerate(zip(self.value, self.shift, strict=True)):
                # the sum over all whole numbers only depends on where between two of them the centre lies
                sums = np.array([_lattice(scale, centre)[1].sum() for centre in (theta * shift) % 1])
                main[row] += np.log(sums / _lattice(scale, 0.0)[1].sum())
        return main

    def masses(self, row: int, theta: float, step: float) -> tuple[int, Array]:
        """Where the losses of one cell start, in steps from its top, and their masses, tilted by theta, sum 1."""
        value, shift = float(self.value[row]), float(self.shift[row])
        if self.kind == "either":
            start = -round(2 * value / step)
            spread = np.zeros(1 - start)
            for below, mass in self._either:
                spread[-round(float(below[row]) / step) - start] += mass[row] * math.exp(-float(below[row]) * theta)
            return start, spread / spread.sum()
        if self.kind == "gaussian":
            apart = round(shift / value**2 / step)
            places, found = _lattice(value, theta * shift)
            start = int(places[0]) * apart
        elif self.kind == "range":
            apart, upper = round(value / step), float(self._upper[row])
            found, start = np.array([(1 - upper) * math.exp(-value * theta), upper]), -apart
        elif self.kind == "triple":
            apart, top, fall = round(value / step), float(self.mass[row]), math.exp(-value * theta)
            low = top * math.exp(-value)
            found, start = np.array([low * fall**2, (1 - top - low) * fall, top]), -2 * apart
        else:
            size = value if self.kind == "pure" else 1 / value
            apart = round(2 * size / step)
            k = np.arange(shift + 1)
            found = np.exp(-k * size * (1 + 2 * theta))
            found[1:-1] *= -math.expm1(-size)
            found, start = found[::-1], -int(shift) * apart
        spread = np.zeros((len(found) - 1) * apart + 1)
        spread[::apart] = found / found.sum()
        return start, spread

    def turned(self, theta: float, omega: Array) -> Array:
        """E exp((theta + i omega)(L - top)) / E exp(theta (L - top)), shape (cells, len(omega))."""
        if self.kind in _BOUNDED:
            return self._bounded(theta + 1j * omega) / self._bounded(np.array([theta]))
        turn = np.multiply.outer(self.shift, omega)
        centre, square = (theta * self.shift)[:, None], (self.value**2)[:, None]
        if self.kind == "gaussian" and self.value.min() < _DIRECT:
            found = np.empty(turn.shape, dtype=complex)
            for row, scale in enumerate(self.value):
                places, weights = _lattice(scale, float(centre[row, 0]))
                phase = np.exp(1j * turn[row] / scale**2)
                found[row] = np.polyval(weights[::-1] / weights.sum(), phase) * phase ** places[0]
            return found
        if self.kind == "gaussian":
            # The loss is on a lattice, so the transform is periodic; within one period Poisson summation leaves the
            # term of the continuous Gaussian, the others being below exp(-pi^2 scale^2 / 2) < 1e-19.
            turn = turn - 2 * np.pi * square * np.round(turn / (2 * np.pi * square))
        return _turned(np.exp(-turn * turn / (2 * square)), centre * turn / square)

    def responses(self, theta: float, spacing: float, places: Array) -> Array:
        """``turned`` of a ``pure`` group at whole multiples of a spacing, whose places rise.

        A response weighs its lower loss by w = exp(-value (1 + 2 theta)), so that this is
        (1 + w exp(-2 i value omega)) / (1 + w). The turn by 256 a + b spacings is that by 256 a times that by b: two
        short tables in the place of a sine and a cosine for each.
        """
        first, low = int(places[0]) // _TABLE, np.exp(-self.value * (1 + 2 * theta))[:, None]
        angle, far = -2j * spacing * self.value, np.arange(first, int(places[-1]) // _TABLE + 1)
        fine = np.exp(np.multiply.outer(angle, np.arange(_TABLE)))
        coarse = np.exp(np.multiply.outer(angle, _TABLE * far)) * (low / (1 + low))
        return coarse.take(places // _TABLE - first, axis=1) * fine.take(places % _TABLE, axis=1) + 1 / (1 + low)


def _turned(size: Array, angle: Array) -> Array:
    """The size times exp(i angle): two real functions are several times faster than a complex one."""
    found = np.empty(angle.shape, dtype=complex)
    found.real, found.imag = size * np.cos(angle), size * np.sin(angle)
    return found


def _lattice(scale: float, centre: float) -> tuple[Array, Array]:
    """Whole numbers near the centre with their weights exp(-(x - centre)^2 / (2 scale^2))."""
    reach = math.ceil(10 * scale) + 2
    places = np.arange(round(centre) - reach, round(centre) + reach + 1, dtype=np.float64)
    return places, np.exp(-(((places - centre) / scale) ** 2) / 2)


@dataclass(frozen=True)
class Loss:
    """The summed loss of cells: ``top`` (the largest, or the mean where there is none) and a random rest.

    Where all of the rest are multiples of one number and there are few of them, ``step`` is that number; else 0.
    """

    top: Fraction
    bounded: bool
    groups: tuple[_Group | SphereGroup, ...]
    step: float

    @classmethod
    def of(cls, cells: Mapping[Cell, int]) -> Loss:
        """Of these cells, each so many times."""
        sorts: dict[str, list[Cell]] = {}
        for cell in sorted(cell for cell, n in cells.items() if n and cell.top):
            small = cell.kind == "gaussian" and cell.value < _DIRECT
            alone = cell.kind == "laplace" and cell.shift == 1  # which is randomized response
            sorts.setdefault("pure" if alone else cell.kind + "<" * small, []).append(cell)
        spheres = [(cell.draw, cells[cell], float(cell.top)) for cell in sorts.pop("sphere", []) if cell.draw]
        groups: list[_Group | SphereGroup] = [SphereGroup(draw, np.array([n]), top) for draw, n, top in spheres]
        for name, members in sorts.items():
            small_first = ("pure", "range", "triple", "either")
            members.sort(key=lambda cell: -cell.value if cell.kind in small_first else -cell.shift / cell.value)
            values = [float(1 / c.value if c.kind == "laplace" and name == "pure" else c.value) for c in members]
            counts, shifts = np.array([cells[c] for c in members]), np.array([float(c.shift) for c in members])
            more = ((c.mass, float(c.small), float(c.alike)) for c in members)
            groups.append(_Group(name.rstrip("<"), counts, np.array(values), shifts, *np.array([*more]).T))
        # 250 bits after the point: a sum of a thousand different rationals would have a denominator of 50,000
        whole = sum(n * ((cell.top.numerator << 250) // cell.top.denominator) for cell, n in cells.items())
        bounded = all(group.kind in _BOUNDED for group in groups)
        return cls(Fraction(whole, 1 << 250), bounded, tuple(groups), _common_step(cells))

    def moments(self, theta: Array) -> Array:
        """Ln E exp(theta (L - top)), shape (len(theta),)."""
        return sum((group.counts @ group.moments(theta) for group in self.groups), np.zeros(len(theta)))


def log_moments(cells: Mapping[Cell, int], theta: Array) -> Array:
    """Ln E exp(theta (L - top)) of these cells together; theta is the Renyi order less one."""
    return Loss.of(cells).moments(theta)


def _common(one: Fraction, other: Fraction | int) -> Fraction:
    """The largest number of which both are whole multiples."""
    bottom = one.denominator * other.denominator
    return Fraction(math.gcd(int(one * bottom), int(other * bottom)), bottom)


def _common_step(cells: Mapping[Cell, int]) -> float:
    found = {cell.step for cell in cells if cell.top}
    steps = [step for step in found if step is not None]
    if not steps or len(found) > 8 or None in found:
        return 0.0
    common = Fraction(0)
    for step in steps:
        common = _common(common, step)
    wide = sum(n * _width(cell) for cell, n in cells.items())
    return float(common) if wide <= _LATTICE * common else 0.0


def _width(cell: Cell) -> Fraction:
    """Of the interval in which all but a negligible part of its losses lie."""
    if cell.kind == "range":
        return cell.value
    return 2 * cell.top if cell.kind in _BOUNDED else 40 * cell.shift / cell.value
