"""Delta of a Gaussian mixture without direction, whose parts have one centre and different scales: certified, and near.

Split a point into its part along the change and the distance rho of the rest. The rest has the same law under both
data sets, so rho may as well be told, and what is left is a mixture of normal laws on a line. With x the place on the
line, measured from the middle between the two centres, and T = rho^2 + x^2 + D^2 / 4, the loss

    L(T, x) = psi(T - D x) - psi(T + D x),    psi(u) = ln sum_m p_m s_m^-d exp(-u / (2 s_m^2)),

rises with x and falls with T, so that L > epsilon is x > K(T) with a rising K. Where K stays in one cell of rho follows
from a table of K alone; where the sign of L - epsilon is known, a cell's part of delta is a difference of normal tails;
where it is not, it is at most a probability times a small loss. So every number is a bound, in floats whose errors are
taken in (docs/proofs/random-scale.md, sections 2 and 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BEYOND", "REACH", "SphereProfile"]

Floats = npt.NDArray[np.float64]

REACH = 12.0
"""Standard deviations that a norm is followed beyond its usual size."""

BEYOND = math.exp(-(REACH**2) / 2) * (1 + 1e-9)
"""The chance of more."""

_WIDE, _STRIPS = 0.05, 48  # a loss that is worth strips, and how many
_COARSE = 600  # of T, on which K is found; on all of them it is then bettered once
_ROUNDING = 4e-11  # relative: exp, erfc and their arguments, and sums of some hundred of such numbers
_LOSS_ERROR = 1e-10  # of a loss: its exponents are below 10^5


@dataclass(frozen=True)
class SphereProfile:
    """Delta of the continuous mixture in units of its scale, for changes of any length.

    Attributes:
        rest: The numbers that the change leaves as they are, one less than all: the count of counts.
        stretches: s_m.
        weights: p_m, not normed.
        cells: How many cells of rho, and of T, a bound is made of.
    """

    rest: int
    stretches: tuple[float, ...]
    weights: tuple[int, ...]
    cells: int

    @lru_cache(maxsize=4096)  # noqa: B019 - a plan has few tables, and the cache is bounded
    def bound(self, change: float, epsilon: float) -> float:
        """An upper bound on delta at epsilon >= 0 for a change of this length; at most 1."""
        rho, (least_mass, most_mass) = self._rho, self._masses
        farthest = change / 2 + REACH * max(self.stretches)
        top = math.sqrt(rho[-1] ** 2 + farthest**2 + change**2 / 4)
        levels = np.linspace(change / 2, top * (1 + 1e-9), self.cells) ** 2
        low, high = self._boundary(levels, change, epsilon)
        # rho^2 where the boundary lies at a level of this cell: between these, whatever it does inside the cell
        slip = 1e-12 * levels[1:]
        least = levels[:-1] - change**2 / 4 - high[1:] ** 2 - slip
        most = levels[1:] - change**2 / 4 - low[:-1] ** 2 + slip
        first = np.searchsorted(np.maximum.accumulate(most), rho[:-1] ** 2, side="left")
        last = np.searchsorted(np.minimum.accumulate(least[::-1])[::-1], rho[1:] ** 2, side="right") - 1
        never = low[np.minimum(first, self.cells - 1)]  # nearer than this no point loses more than epsilon
        always = np.maximum(np.minimum(high[np.minimum(last + 1, self.cells - 1)], farthest), never)  # farther all do
        lost = self._beyond(most_mass, never - change / 2)
        sure = self._beyond(most_mass, always - change / 2)
        other = self._beyond(least_mass, always + change / 2)
        excess = np.minimum(1.0, change * self._steepest * (always - never) * (1 + _ROUNDING))
        kept = math.exp(epsilon) * (1 - 4 * _ROUNDING)
        total = float(np.sum(sure * (1 + _ROUNDING) - kept * other))
        wide = excess > _WIDE
        total += float(np.sum(((lost - sure + _ROUNDING * lost) * excess)[~wide])) * (1 + _ROUNDING)
        if wide.any():
            total += self._between(wide, never, always, change, epsilon)
        # what the other data set has beyond the farthest place, where the loss may be anything
        total += math.exp(epsilon) * math.erfc((farthest + change / 2) / (max(self.stretches) * math.sqrt(2)))
        return min(1.0, total + _ROUNDING * float(sure.sum()) + 2 * BEYOND)

    def _between(
        self, wide: npt.NDArray[np.bool_], never: Floats, always: Floats, change: float, epsilon: float
    ) -> float:
        """The part of delta between the two places, in cells where these are far apart: in strips of x.

        In a strip the loss is at most that of its far end at the least T of the cell there, as L rises with x and falls
        with T.
        """
        squares = self._rho[:-1][wide] ** 2 + change**2 / 4
        start, width = never[wide], (always - never)[wide] / _STRIPS
        total, before = 0.0, self._beyond(self._masses[1], never - change / 2, wide)[wide]
        for strip in range(_STRIPS):
            near, far = start + strip * width, start + (strip + 1) * width
            most = self._lost(squares + near**2, far, change) + 2 * _LOSS_ERROR
            after = self._beyond(
                self._masses[1], (never + (strip + 1) * (always - never) / _STRIPS) - change / 2, wide
            )[wide]
            total += float(np.sum((before - after + _ROUNDING * before) * -np.expm1(np.minimum(epsilon - most, 0.0))))
            before = after
        return total * (1 + _ROUNDING)

    @cached_property
    def _variances(self) -> Floats:
        return np.array(self.stretches)[:, None] ** 2

    @cached_property
    def _shares(self) -> Floats:
        return np.array([weight / sum(self.weights) for weight in self.weights])[:, None]

    @cached_property
    def _rho(self) -> Floats:
        """The ends of the cells of rho: from 0 to where less than ``BEYOND`` is left."""
        usual = math.sqrt(self.rest)
        start = max(min(self.stretches) * (usual - REACH / 1.2), 0.02)
        return np.concatenate([[0.0], np.linspace(start, max(self.stretches) * (usual + REACH), self.cells)])

    @cached_property
    def _steepest(self) -> Floats:
        """In each cell of rho, the largest mean of 1 / s^2."""
        return self._fall(self._rho[:-1] ** 2)[1]

    @cached_property
    def _masses(self) -> tuple[Floats, Floats]:
        """The probability of each scale with each cell, from below and above: each of shape (scales, cells)."""
        halves = self._rho**2 / (2 * self._variances)
        below, above = _gamma_tails(self.rest, halves)
        lower = halves[:, 1:] < self.rest / 2
        found = np.where(lower, np.diff(below, axis=1), -np.diff(above, axis=1))
        slip = _ROUNDING * np.where(lower, below[:, 1:], above[:, :-1])
        least, most = np.maximum(found - slip, 0.0), np.maximum(found, 0.0) + slip
        return np.asarray(self._shares * least * (1 - _ROUNDING)), np.asarray(self._shares * most * (1 + _ROUNDING))

    def _fall(self, squares: Floats) -> tuple[Floats, Floats]:
        """The logarithm psi at squared norms, and twice how fast it falls: the mean of 1 / s^2, which falls itself."""
        exponents = self._heights - squares[None, :] * self._halves
        top = exponents.max(axis=0)
        exponents -= top
        terms = np.exp(exponents, out=exponents)
        whole = terms.sum(axis=0)
        return top + np.log(whole), 2 * (self._halves[:, 0] @ terms) / whole

    @cached_property
    def _heights(self) -> Floats:
        return np.asarray(np.log(self._shares) - (self.rest + 1) / 2 * np.log(self._variances))

    @cached_property
    def _halves(self) -> Floats:
        return np.asarray(1 / (2 * self._variances))

    def _boundary(self, levels: Floats, change: float, epsilon: float) -> tuple[Floats, Floats]:
        """K(T) from below and from above, shape as the levels: L is at most, and at least, epsilon there."""
        coarse = np.linspace(levels[0], levels[-1], _COARSE)
        place = np.full(_COARSE, epsilon / change * float(self._variances.min()))
        for _ in range(60):
            before, (place, _) = place, self._nearer(coarse, place, change, epsilon)
            if np.abs(place - before).max() <= 1e-7 * (1 + place.max()):
                break
        place, rise = self._nearer(levels, np.interp(levels, coarse, place), change, epsilon)
        wide = 1e-10 * (1 + place) + 4 * _LOSS_ERROR / (change * rise)
        low, high = np.maximum(place - wide, 0.0), place + wide
        for _ in range(20):
            under = (self._lost(levels, low, change) <= epsilon - _LOSS_ERROR) | (low == 0)
            over = self._lost(levels, high, change) >= epsilon + _LOSS_ERROR
            if under.all() and over.all():
                return low, np.maximum.accumulate(high)
            wide = 4 * wide
            low = np.where(under, low, np.maximum(place - wide, 0.0))
            high = np.where(over, high, place + wide)
        return np.where(under, low, 0.0), np.maximum.accumulate(np.where(over, high, math.inf))

    def _nearer(self, levels: Floats, place: Floats, change: float, epsilon: float) -> tuple[Floats, Floats]:
        """One step of Newton's rule towards K(T), and how fast psi falls at the nearer centre, twice."""
        near, rise = self._fall(levels - change * place)
        far, fall = self._fall(levels + change * place)
        return np.maximum(place - (near - far - epsilon) / (change * (rise + fall) / 2), 0.0), rise

    def _lost(self, levels: Floats, place: Floats, change: float) -> Floats:
        return np.asarray(self._fall(levels - change * place)[0] - self._fall(levels + change * place)[0])

    def _beyond(self, mass: Floats, places: Floats, some: npt.NDArray[np.bool_] | None = None) -> Floats:
        """In each cell of rho (in some) the probability of a normal part beyond its place; of next to no mass, 0."""
        scales, cells = self._counted
        if some is not None:
            scales, cells = scales[some[cells]], cells[some[cells]]
        arguments = places[cells] / (np.array(self.stretches)[scales] * math.sqrt(2))
        tails = np.fromiter(map(math.erfc, arguments.tolist()), np.float64, len(cells))
        return np.bincount(cells, mass[scales, cells] * tails / 2, len(places)).astype(np.float64)

    @cached_property
    def _counted(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Scales and cells with a mass above a part in 10^6 of ``BEYOND`` for each of them."""
        most = self._masses[1]
        scales, cells = np.nonzero(most > BEYOND / (10**6 * most.size))
        return np.asarray(scales), np.asarray(cells)

    def near(self, change: float, epsilon: float) -> tuple[float, float]:
        """Delta in floats, about 1e-7 relative, and how fast it falls, by the trapezoidal rule over rho."""
        rho, weights = self._few
        place = np.full(len(rho), epsilon / change)
        for _ in range(12):
            near, rise = self._fall(rho**2 + (place - change / 2) ** 2)
            far, fall = self._fall(rho**2 + (place + change / 2) ** 2)
            slope = (place + change / 2) * fall - (place - change / 2) * rise
            step = (near - far - epsilon) / np.maximum(slope, 1e-3 * change)
            place = np.maximum(place - np.clip(step, -4, 4), 0.0)
            if np.abs(step).max() < 1e-7:
                break
        sides = [place + sign * change / 2 for sign in (-1, 1)]
        scales = np.array(self.stretches)[:, None] * math.sqrt(2)
        tails = (np.array([*map(math.erfc, (side / scales).ravel().tolist())]) for side in sides)
        first, other = (float(weights.ravel() @ tail) / 2 for tail in tails)
        return first - math.exp(epsilon) * other, math.exp(epsilon) * other

    @cached_property
    def _few(self) -> tuple[Floats, Floats]:
        """Places of rho with their probabilities for each scale, shapes (places,) and (scales, places)."""
        rho = np.linspace(0, max(self.stretches) * (math.sqrt(self.rest) + REACH / 1.5), 130)[1:]
        logs = (self.rest - 1) * np.log(rho) - rho**2 * self._halves - self.rest / 2 * np.log(self._variances)
        weights = self._shares * np.exp(logs - math.lgamma(self.rest / 2) + (1 - self.rest / 2) * math.log(2))
        some = weights.max(axis=0) > 1e-22
        return rho[some], weights[:, some] * (rho[1] - rho[0])


def _gamma_tails(freedom: int, halves: Any) -> tuple[Floats, Floats]:
    """P(X < x) where that is the smaller part, and P(X >= x), of a chi-square law, at x / 2; sums of positive terms.

    With a = freedom / 2 the second is erfc(sqrt z) for odd ones, and the sum of e^-z z^i / Gamma(i + 1) over i = a - 1,
    a - 2, ...; the first the same sum over i = a, a + 1, ..., whose terms fall at least as z / i from z < a on.
    """
    a, odd = freedom / 2, freedom % 2
    logs = np.log(np.maximum(halves, 1e-300))
    above = np.zeros_like(halves)
    if odd:
        roots = np.sqrt(halves).ravel().tolist()
        above += np.fromiter(map(math.erfc, roots), np.float64, len(roots)).reshape(halves.shape)
    for i in range(freedom // 2):
        power = i + odd / 2
        above += np.exp(power * logs - halves - math.lgamma(power + 1))
    term = np.exp(a * logs - halves - math.lgamma(a + 1))
    ratio = np.minimum(halves, a)  # beyond the median it is not used
    below = np.zeros_like(halves)
    for i in range(1, 60 + math.ceil(14 * math.sqrt(a))):
        below += term
        term = term * ratio / (a + i)
    return below + term * (a + 1) / (1 + a - ratio) * 20, np.minimum(above, 1.0)
