"""Optimal composition of very many different epsilons, in floating point with a proved error.

Let L be the loss of the composed randomized responses, K(t) = log E_P[exp(t L)], and D the divergence to bound. For
every c > 0, with t = c + i w::

    D(epsilon) = 1 / (2 pi) * integral over w of exp(K(t) - t epsilon) / (t (t + 1))

(the Laplace transform of the hockey-stick divergence). Four steps turn it into an upper bound:

1. Smoothing. A Gaussian draw of tiny loss mu is added to the composition. A draw more never lowers D, so that the
   result stays an upper bound; K grows by mu^2 t (t + 1) / 2, which makes the integrand fall like exp(-(mu w)^2 / 2).
   mu is 2^-11 of the spread of the integrand (2^-10 on a near lattice) and costs about 1e-7 of epsilon; up to 1e-4
   where hundreds of draws are equal but for 1e-4 or less and epsilon is next to a point of their lattice.
2. Trapezoids of width 2 pi / W. By Poisson's summation formula their sum is *exactly* the sum over all whole m of
   exp(c m W) D(epsilon + m W). Every term is at least 0 and m = 0 is the one that is wanted: an upper bound for
   every W. W is chosen such that the other terms are below 1e-13 of it.
3. Cut. Trapezoids beyond w = 9 / mu, and those whose size is below exp(-45) of the middle one, are not summed; an upper
   bound of their absolute values is added.
4. Rounding. Epsilons are rounded up to floats first (a larger epsilon never lowers D). The float error of every
   summed trapezoid is bounded next to its size (see ``_terms``) and added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.privacy.rounding import CONTEXT, real

__all__ = ["Smoothed", "root", "rough_epsilon", "saddle"]

Floats = npt.NDArray[np.float64]

_ULP = 2.0**-52
_CUT = -45.0
_MANY = 500_000  # factors to be multiplied
_BLOCK = 1 << 21  # numbers held at once
_TABLE = 256  # turns in a table
_AT_ONCE = 1 << 13  # numbers that are worked on together: they stay near, and are too few for several threads


def _arrays(counted: Mapping[Fraction, int] | Mapping[float, int]) -> tuple[Floats, Floats]:
    # Rounded up, and in an order in which even a few neighbours cover the whole range: trapezoids that such a few
    # draws make small enough need no more of them.
    e, n = np.array([float(one) for one in counted]), np.array([float(many) for many in counted.values()])
    order = np.argsort(e, kind="stable")[np.argsort(np.arange(len(e)) * 0.6180339887498949 % 1, kind="stable")]
    return np.nextafter(e[order], np.inf), n[order]


def _log_moment(e: Floats, n: Floats, c: float) -> float:
    # log(p exp(c e) + q exp(-c e)) with p = 1 / (1 + exp(-e)) and q = 1 - p
    return float(np.sum(n * (c * e - np.log1p(np.exp(-e)) + np.log1p(np.exp(-(2 * c + 1) * e)))))


def _centre(e: Floats, n: Floats, c: float) -> tuple[float, float]:
    # epsilon at which c is the saddle point of the integrand, and the integrand's spread there
    tau = np.tanh((2 * c + 1) * e / 2)
    spread = math.sqrt(float(np.sum(n * e * e * (1 - tau * tau))) + 1 / c**2 + 1 / (c + 1) ** 2)
    return float(np.sum(n * e * tau)) - 1 / c - 1 / (c + 1), spread


def _log_size(e: Floats, n: Floats, c: float) -> float:
    # log of the saddle point estimate of D
    epsilon, spread = _centre(e, n, c)
    return _log_moment(e, n, c) - c * epsilon - math.log(c * (c + 1) * spread * math.sqrt(2 * math.pi))


def _bisect(above: Callable[[float], bool], low: float, high: float) -> float:
    # where a condition that holds at small numbers stops to hold, on a logarithmic scale, to 1e-9
    for _ in range(48):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if above(middle) else (low, middle)
    return high


def saddle(
    counted: Mapping[Fraction, int], *, log_delta: float | None = None, epsilon: float = 0.0
) -> tuple[float, float]:
    """The saddle point c and the epsilon that go with a log delta, or else with an epsilon; an estimate only."""
    e, n = _arrays(counted)
    c = _saddle(e, n, log_delta, epsilon)
    return c, max(0.0, _centre(e, n, c)[0])


def _saddle(e: Floats, n: Floats, log_delta: float | None, epsilon: float) -> float:
    unit = math.sqrt(float(np.sum(n * e * e)))
    low, high = 1e-3 / unit, 1e6 / unit + 1e6
    if log_delta is None:
        return _bisect(lambda one: _centre(e, n, one)[0] < epsilon, low, high)
    wanted = log_delta
    return _bisect(lambda one: _log_size(e, n, one) > wanted, low, high)


def rough_epsilon(epsilons: Mapping[float, int], log_slack: float) -> float:
    """The optimal composition in plain floats, to about 1e-6: to guide a search, never to certify.

    Up to 2^12 outcomes are listed, sorted and summed; more of them are read off ``Smoothed``.
    """
    epsilons = _merged(epsilons)
    if math.prod(n + 1 for n in epsilons.values()) > 1 << 12:
        return Smoothed.at(epsilons, log_delta=log_slack, rough=True).rough_epsilon(log_slack)
    losses, log_p = np.zeros(1), np.zeros(1)
    for one, n in epsilons.items():
        lies = np.arange(n + 1.0)
        ways = np.array([math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) for j in range(n + 1)])
        losses = np.add.outer(losses, (n - 2 * lies) * one).ravel()
        log_p = np.add.outer(log_p, ways - lies * one - n * math.log1p(math.exp(-one))).ravel()
    order = np.argsort(-losses)
    losses, log_p = losses[order], log_p[order]
    left = np.cumsum(np.exp(log_p)) - math.exp(log_slack)
    some = left > 0
    if not some.any():
        return 0.0
    return max(0.0, float(np.max(np.log(left[some]) - np.logaddexp.accumulate(log_p - losses)[some])))


def _merged(epsilons: Mapping[float, int]) -> dict[float, int]:
    # Draws within 1e-4 of each other become so many of their mean, which is wrong by the square of that.
    merged: dict[float, int] = {}
    group: list[float] = []
    for one in [*sorted(one for one in epsilons if one > 0), math.inf]:
        if group and one > group[0] * (1 + 1e-4):
            n = sum(epsilons[each] for each in group)
            merged[sum(each * epsilons[each] for each in group) / n] = n
            group = []
        group.append(one)
    return merged


@dataclass(frozen=True)
class Smoothed:
    """The trapezoids for one composition and one c, ready to be summed at any epsilon.

    Attributes:
        c: Real part of the line that is integrated along.
        log_scale: K(c) + mu^2 c (c + 1) / 2 - log W, with its own float error added.
        frequencies: Imaginary parts of the trapezoids that are summed, the first one 0.
        terms: Their complex values at epsilon 0, over exp(log_scale); all but the first one counted twice.
        errors: A bound on the absolute float error of each, epsilon's phase not included.
        rest: A bound on the sum of the absolute values of all others.
    """

    c: float
    log_scale: float
    frequencies: Floats
    terms: npt.NDArray[np.complex128]
    errors: Floats
    rest: float

    @classmethod
    def at(
        cls,
        counted: Mapping[Fraction, int] | Mapping[float, int],
        *,
        log_delta: float | None = None,
        epsilon: float = 0.0,
        rough: bool = False,
    ) -> Smoothed:
        """Place line and trapezoids for reading the curve near this log delta, or else near this epsilon.

        ``rough`` smooths 32 times as widely and takes the first-order effect of that off again: 20 times as fast,
        closer to the truth, and no bound any more.
        """
        e, n = _arrays(counted)
        c = max(_saddle(e, n, log_delta, epsilon), 1 / math.sqrt(float(np.sum(n * e * e))))
        spread = _centre(e, n, c)[1]
        small = min(0.0, _log_size(e, n, c)) if log_delta is None else log_delta
        width = max(16 * spread, (35 - small) / c)
        gap = 2 * math.pi / width
        few = _MANY // min(len(e), 250)
        for fineness in (64,) if rough else (1024, 2048):
            mu = spread / fineness
            frequencies: Floats = np.arange(math.ceil(9 / mu / gap) + 1, dtype=np.float64) * gap
            kept, rest = _kept(e, n, c, mu, gap, frequencies, few if fineness == 1024 else 0)
            if len(kept) > few:
                break  # a near lattice: almost all trapezoids count, and the wider mu costs next to nothing
        moment = _log_moment(e, n, c)
        slip = 8 * _ULP * (float(np.sum(n * (c * e + 3))) + abs(moment) + 40)
        terms, errors = _terms(e, n, c, mu, frequencies[kept])
        # Beyond the last one: at most (sum over n > N of exp(-(mu w)^2 / 2) / w^2), twice; the sum is below its
        # first term plus an integral.
        end = float(frequencies[-1])
        rest += 2 * math.exp(-((mu * end) ** 2) / 2) * (1 / end**2 + 1 / (gap * end))
        scale = moment + slip + mu * mu * c * (c + 1) / 2 - math.log(width)
        if rough:
            line = c + 1j * frequencies[kept]
            terms = terms * (1 - mu * mu * line * (line + 1) / 2)
        return cls(c, scale, frequencies[kept], terms, errors, rest)

    def log_delta(self, epsilon: Fraction) -> Any:
        """An upper bound on log D(epsilon), as a 60-digit real (so that a delta of 1e-400 is a number too)."""
        quick = float(epsilon)
        if quick > epsilon:
            quick = max(0.0, math.nextafter(quick, 0))  # D falls: its value a little to the left is a bound too
        slip = 8 * _ULP * (abs(self.log_scale) + self.c * quick + 8)
        return CONTEXT.log(real(self._sum(quick))) + real(self.log_scale + slip) - real(self.c) * real(quick)

    def _sum(self, epsilon: float) -> float:
        turned = self.terms * np.exp(-1j * (self.frequencies * epsilon))
        sizes = np.abs(self.terms)
        # frequency, product and cosine: 4 units in the last place of the angle, and 16 for the sums
        wrong = self.errors + sizes * (4 * _ULP * self.frequencies * epsilon + 16 * _ULP)
        return float(np.sum(turned.real)) + float(np.sum(wrong)) + self.rest

    def rough_epsilon(self, log_slack: float) -> float:
        """Where the sum falls to this log delta, in plain floats."""

        def above(epsilon: float) -> float:
            return math.log(max(self._sum(epsilon), 1e-300)) + self.log_scale - self.c * epsilon - log_slack

        low, high = 0.0, 1 / self.c
        if above(low) <= 0:
            return 0.0
        while above(high) > 0:
            low, high = high, 2 * high
        return root(above, low, high, 1e-10)

    def epsilon(self, slack: Fraction) -> Fraction:
        """An epsilon at which the upper bound is at most ``slack``, within 1e-12 of the smallest such."""
        target = CONTEXT.log(real(slack))
        found = self.rough_epsilon(float(target))
        step = max(found, 1 / self.c) * 1e-15
        while (over := self.log_delta(Fraction(found)) - target) > 0:
            found += step + float(over) / self.c  # the sum falls about as fast as exp(-c epsilon)
            step *= 2
        return Fraction(found)


def root(above: Callable[[float], float], low: float, high: float, close: float) -> float:
    """Where a falling function changes its sign, or is closer to 0 than that (regula falsi, Illinois)."""
    at_low, at_high = above(low), above(high)
    for _ in range(100):
        if high - low <= 1e-14 * abs(high):
            break
        middle = min(max((low * at_high - high * at_low) / (at_high - at_low), low), high)
        value = above(middle)
        if abs(value) < close:
            return middle
        if value > 0:
            low, at_low, at_high = middle, value, at_high / 2
        else:
            high, at_high, at_low = middle, value, at_low / 2
    return high


def _base(c: float, mu: float, w: Floats) -> Floats:
    # log of a trapezoid's size, but for the draws
    return -((mu * w) ** 2) / 2 - (np.log(c * c + w * w) + np.log((c + 1) ** 2 + w * w)) / 2


def _shape(e: Floats, c: float) -> tuple[Floats, Floats]:
    half = (2 * c + 1) * e / 2
    return np.tanh(half), 1 / np.cosh(np.minimum(half, 300)) ** 2


def _kept(
    e: Floats, n: Floats, c: float, mu: float, gap: float, w: Floats, few: int
) -> tuple[npt.NDArray[np.intp], float]:
    """The places of the trapezoids that count, and a bound on the sum of the absolute values of the others.

    Where no more than ``few`` are left it ends, for the caller then takes others.
    """
    tau, square = _shape(e, c)
    size = _base(c, mu, w)
    cut, kept, rest, start, wide = size[0] + _CUT, np.arange(len(w)), 0.0, 0, 8
    while start < len(e) and len(kept) > few:
        wide = min(2 * wide, max(1, _BLOCK // max(1, len(kept))))
        part = slice(start, start + wide)
        size = size + _fall(e[part], n[part], tau[part], square[part], gap, kept)
        gone = size < cut
        # Twice, for both signs of w, and twice again for float errors: |z| is not let below 1e-6, where the error of
        # its logarithm is below 1e-4 and far outweighed by the logarithm itself.
        rest += 4 * float(np.sum(np.exp(size[gone])))
        kept, size, start = kept[~gone], size[~gone], start + wide
    return kept, rest


def _fall(e: Floats, n: Floats, tau: Floats, square: Floats, gap: float, places: npt.NDArray[np.intp]) -> Floats:
    """The sum of log |z| of some draws at these multiples of the gap between trapezoids, shape (len(places),).

    The square of a cosine follows from the cosine of twice the turn, and where there are many turns that of 256 a + b
    gaps from two short tables of 256 a and of b: it is wrong by no more than a few units of the turn's last place, as
    a cosine is.
    """
    turn, half, rows = 2 * gap * e, square / 2, max(1, _AT_ONCE // len(e))
    first, many = int(places[0]) // _TABLE, len(places) > 4 * _TABLE
    if many:
        fine = np.outer(np.arange(_TABLE), turn)
        coarse = np.outer(_TABLE * np.arange(first, int(places[-1]) // _TABLE + 1), turn)
        tables = half * np.cos(coarse), np.cos(fine), half * np.sin(coarse), np.sin(fine)
    found = np.empty(len(places))
    for some in (slice(at, at + rows) for at in range(0, len(places), rows)):
        if many:
            at = (places[some] // _TABLE - first, places[some] % _TABLE) * 2
            level, other, sine, both = (table.take(each, axis=0) for table, each in zip(tables, at, strict=True))
            level *= other
            level -= np.multiply(sine, both, out=both)
        else:
            level = half * np.cos(np.outer(places[some], turn))
        level += half + tau * tau
        found[some] = np.log(np.maximum(level, 1e-12, out=level), out=level) @ n / 2
    return found


def _terms(e: Floats, n: Floats, c: float, mu: float, w: Floats) -> tuple[npt.NDArray[np.complex128], Floats]:
    """Trapezoids at epsilon 0 and a bound on the float error of each; the first frequency is 0.

    A draw's factor is z = cos(w e) + i tau sin(w e) with tau = tanh((2 c + 1) e / 2): p exp(t e) + q exp(-t e) over its
    value at w = 0. So |z|^2 = tau^2 + (1 - tau^2) cos^2, a sum without cancellation. Float error: the angle is off by
    at most 3 units of its own last place, hence z by that plus 8 units, and the product of all z by the sum of those
    errors over |z|, relative to its own size. A float sum of m numbers is off by at most m units of the sum of their
    absolute values: the logarithms have one sign, and a phase is at most pi.
    """
    tau, square = _shape(e, c)
    size, relative, angle = _base(c, mu, w), np.zeros(len(w)), np.zeros(len(w))
    wide = max(1, _BLOCK // len(w))
    for start in range(0, len(e), wide):
        part = slice(start, start + wide)
        rows = max(1, _AT_ONCE // len(e[part]))
        for some in (slice(at, at + rows) for at in range(0, len(w), rows)):
            turn = np.outer(w[some], e[part])
            cosine = np.cos(turn)
            level = tau[part] ** 2 + square[part] * cosine**2
            size[some] += np.log(level) @ n[part] / 2
            angle[some] += np.arctan2(tau[part] * np.sin(turn), cosine) @ n[part]
            relative[some] += ((3 * turn + 8) / np.sqrt(level)) @ n[part] * _ULP
    relative += _ULP * (len(e) + 64) * (4 * float(np.sum(n)) + np.abs(size) + 1)
    relative += 4 * _ULP * mu * mu * w * (2 * c + 1)
    angle += mu * mu * w * (2 * c + 1) / 2 - np.arctan2(w, c) - np.arctan2(w, c + 1)
    both = np.where(w == 0, 1.0, 2.0) * np.exp(size)
    return both * np.exp(1j * angle), 2 * both * relative
