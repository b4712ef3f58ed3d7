"""Renyi divergence curves of one draw and of their sums, at every order above 1.

Each formula is here twice: in the 60-digit context, which is what a certified figure is made of, and as a numpy
function of many orders at once, which is what a search reads. An order ``a`` is always given as its excess
``x = a - 1``, because orders very close to 1 are needed and ``a`` alone would lose their digits.

>>> laplace = Curve(laplace=((Fraction(1), Fraction(0), 1),))
>>> round(float(laplace.certified(4.0)), 12)
0.853078014517
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprelease.privacy.rounding import CONTEXT, real

__all__ = ["Curve", "Floats", "Worst"]

Floats = NDArray[np.float64]
# Up to this many different terms are summed in 60 digits; more of them in floats, with the pad below.
_EXACT_TERMS = 200
# Relative to a term's pure epsilon; see _two_exponentials_float for the error that it covers.
_PAD = 2.0**-44


@dataclass(frozen=True)
class Worst:
    """At each order the sum of the ``take`` largest of some curves, ``count`` times over."""

    choices: tuple[Curve, ...]
    take: int
    count: int = 1


@dataclass(frozen=True)
class Curve:
    """A sum of Renyi curves (Mironov 2017, Proposition 1: they add up order by order).

    Attributes:
        slope: The rho of all terms of the form a * rho: Gaussian noise (Mironov 2017, Proposition 7), discrete
            Gaussian noise (Canonne, Kamath and Steinke 2020, Theorem 14), anything that is rho-zCDP.
        laplace: Terms (epsilon, step, how many): Laplace noise with ratio epsilon = shift / scale, on a lattice of
            step 1 / scale, or continuous with step 0; with step = epsilon it is randomized response, which bounds
            every pure mechanism (Mironov 2017, Proposition 5). See ``_two_exponentials``. Floats only for ``quick``.
        ranges: Terms (epsilon, how many) of bounded range. See ``_bounded_range``.
        pairs: Terms (large, small, probability of the large one, how many): one of two randomized responses,
            the large one at least as probable as of two independent responses that add up so, or the small one 0 and
            the large one as probable as in ``joint.total_residual.replaced_ways``. See ``_response_pair``.
        worst: Pointwise maxima.
        triples: Terms (epsilon, mass of the largest loss, how many) of K-norm noise. See ``_triple``.
    """

    slope: Fraction = Fraction(0)
    laplace: tuple[tuple[Fraction | float, Fraction | float, int], ...] = ()
    ranges: tuple[tuple[Fraction, int], ...] = ()
    pairs: tuple[tuple[Fraction, Fraction, Fraction, int], ...] = ()
    worst: tuple[Worst, ...] = ()
    triples: tuple[tuple[Fraction, Fraction, int], ...] = ()

    def quick(self, excess: Floats) -> Floats:
        """The curve in floats, at orders 1 + excess; for searches.

        Args:
            excess: Positive, of shape (orders,).

        Returns:
            Shape (orders,).
        """
        total: Floats = self._stack.values(excess)[0]
        return total

    @cached_property
    def kinks(self) -> Floats:
        """The excesses at which a bounded range reaches its own epsilon: between two of them x R(1 + x) is convex in x.

        All other terms are logarithms of moments, which are convex everywhere, as are their sums and maxima.
        """
        own = _bounded_range_kinks(np.array([float(e) for e, _ in self.ranges], dtype=np.float64))
        return np.concatenate([own, *(choice.kinks for each in self.worst for choice in each.choices)])

    def certified(self, excess: float) -> Any:
        """A 60-digit real that is not below the curve at the order 1 + excess.

        Up to 200 different terms are summed in 60 digits. More of them are summed in floats and padded upwards: by
        5.7e-14 of each term's pure epsilon, never beyond its rho, and by a few roundings for each addition.
        """
        if self._stack.terms <= _EXACT_TERMS:
            return self._exact(real(excess))
        return real(float(self._stack.values(np.array([excess]), pad=_PAD)[0, 0]))

    def _exact(self, x: Any) -> Any:
        total = (1 + x) * real(self.slope)
        total += sum(count * _two_exponentials(x, real(e), real(step)) for e, step, count in self.laplace)
        total += sum(count * _bounded_range(x, real(e)) for e, count in self.ranges)
        total += sum(count * _triple(x, real(e), real(top)) for e, top, count in self.triples)
        total += sum(count * _response_pair(x, *map(real, pair)) for *pair, count in self.pairs)
        for each in self.worst:
            values = sorted((choice._exact(x) for choice in each.choices), reverse=True)
            total += each.count * sum(values[: each.take])
        return total

    @cached_property
    def _stack(self) -> _Stack:
        return _Stack((self,))


class _Terms(NamedTuple):
    """All terms of one kind, of several curves.

    Attributes:
        curve: From excesses of shape (orders, 1) and the values to the curves, shape (orders, terms).
        values: What a curve follows from, each of shape (terms,); the first one is the pure epsilon.
        counts: How many draws each term stands for, shape (terms,).
        rho: A rho of each term, shape (terms,): no term is above it at any order.
        segments: See ``_segments``.
    """

    curve: Callable[..., Floats]
    values: tuple[Floats, ...]
    counts: Floats
    rho: Floats
    segments: tuple[NDArray[np.intp], NDArray[np.intp]]

    @classmethod
    def of(
        cls, curves: Sequence[Curve], name: str, curve: Callable[..., Floats], rho: Callable[..., Floats]
    ) -> _Terms | None:
        """Those under a name of ``Curve``; None if there are none."""
        each = [getattr(one, name) for one in curves]
        if not any(each):
            return None
        *values, counts = map(_floats, zip(*(term for terms in each for term in terms), strict=True))
        return cls(curve, tuple(values), counts, rho(*values), _segments([len(terms) for terms in each]))


class _Stack:
    """Several curves side by side, so that all terms of all of them are evaluated in a few numpy calls."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        self.slopes = np.array([float(curve.slope) for curve in curves])
        self.kinds = [found for kind in _kinds() if (found := _Terms.of(curves, *kind)) is not None]
        self.worst = [(row, each) for row, curve in enumerate(curves) for each in curve.worst]
        choices = [choice for _, each in self.worst for choice in each.choices]
        self.starts = np.cumsum([0, *(len(each.choices) for _, each in self.worst)])
        self.children: _Stack | None = _Stack(choices) if choices else None
        self.terms: int = sum(len(kind.counts) for kind in self.kinds)
        self.terms += self.children.terms if self.children else 0

    def values(self, excess: Floats, pad: float = 0.0) -> Floats:
        """The curves in floats, shape (curves, orders); with a pad, every value is at least the true one."""
        total = np.outer(self.slopes, 1 + excess)
        column = excess[:, None]
        with np.errstate(over="ignore", under="ignore"):
            for kind in self.kinds:
                each = kind.curve(column, *kind.values)
                _add(total, kind.segments, _padded(each, column, kind.values[0], kind.rho, pad) * kind.counts)
        if self.children:
            self._add_worst(total, self.children.values(excess, pad))
        # one rounding for every addition, and a few for products and for what was rational before
        return total * (1 + pad + self.terms * 2.0**-51) if pad else total

    def _add_worst(self, total: Floats, values: Floats) -> None:
        largest = np.maximum.reduceat(values, self.starts[:-1], axis=0)
        for k, (row, each) in enumerate(self.worst):
            if each.take == 1:
                total[row] += each.count * largest[k]
            else:
                own = np.sort(values[self.starts[k] : self.starts[k + 1]], axis=0)
                total[row] += each.count * own[-each.take :].sum(axis=0)


def _kinds() -> tuple[tuple[str, Callable[..., Floats], Callable[..., Floats]], ...]:
    """By the name in ``Curve``, in the order of adding: the curve, and a rho that it is never above."""
    return (
        ("laplace", _two_exponentials_float, lambda e, _: e**2 / 2),
        ("ranges", _bounded_range_float, lambda e: e**2 / 8),
        ("triples", _triple_float, lambda e, _: e**2 / 2),
        ("pairs", _response_pair_float, _pair_rho),
    )


def _pair_rho(large: Floats, small: Floats, alike: Floats) -> Floats:
    """The mean losses, which bound every order (docs/proofs/total-residual.md, Theorems 3 and 5)."""
    means = (size * np.tanh(size / 2) for size in (large, small))
    return np.asarray(sum(mass * mean for mass, mean in zip((alike, 1 - alike), means, strict=True)))


def _floats(values: Iterable[Fraction | int]) -> Floats:
    return np.array([float(value) for value in values], dtype=np.float64)


def _segments(lengths: list[int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows that have terms, and where the terms of each of them start."""
    counted = np.array(lengths, dtype=np.intp)
    rows = np.flatnonzero(counted)
    return rows, np.concatenate([[0], np.cumsum(counted[rows])])[:-1].astype(np.intp)


def _add(total: Floats, segments: tuple[NDArray[np.intp], NDArray[np.intp]], values: Floats) -> None:
    rows, starts = segments
    total[rows] += np.add.reduceat(values, starts, axis=1).T


def _padded(values: Floats, x: Floats, epsilon: Floats, rho: Floats, pad: float) -> Floats:
    """Moved up by the error of the floats, but not beyond the order times rho, itself rounded up."""
    if not pad:
        return values
    return np.minimum(values + pad * (epsilon + values), (1 + x) * rho * (1 + pad))


def _two_exponentials(x: Any, e: Any, h: Any) -> Any:
    """Renyi divergence of Laplace noise from itself shifted: exact, for the continuous law and for the lattice.

    The discrete law of scale b has mass (1 - t)/(1 + t) t^|k| with t = exp(-h), h = 1/b. With a shift by an
    integer s >= 1 the sum over k of t^(a|k|) t^((1 - a)|k - s|) is a geometric series in each of k <= 0, 0 < k < s
    and k >= s. They add up, with e = s h, to ::

        exp((a - 1) R(a)) = A exp((a - 1) e) + B exp(-a e),
        B = t (1 - t^(2a - 2)) / ((1 + t)(1 - t^(2a - 1))),   A = 1 - B.

    Three cases. h -> 0 gives A = a/(2a - 1): the continuous law (Mironov 2017, Proposition 6). s = 1, h = e gives
    cosh((a - 1/2) e) / cosh(e/2): randomized response, the largest curve of all e-DP mechanisms (Proposition 5).
    So the lattice curve never exceeds the one of randomized response at s / b, for the draw is (s / b)-DP.

    Larger shifts cost more: the law is log-concave, so that the likelihood ratio of two shifts is monotone, the
    best test at every threshold is a half-line, and the hockey-stick divergences (hence all f-divergences, which
    are mixtures of them) are non-decreasing in the shift.

    One cell is the worst: 0 <= B <= 1/2, so ln(A exp((a - 1) e) + B exp(-a e)) is convex in e (a log of a sum of
    exponentials) and zero at e = 0. It is then superadditive: over several cells whose shifts add up to s the
    divergences add up to at most the one of a single cell shifted by s.

    The curve is evaluated as e + ln(1 - B (1 - exp(-(2a - 1) e))) / (a - 1), both parts of which are at most e.
    Below a e = 1e-20 that would cost more than 20 of the 60 digits, and a e^2 / 2 (Bun and Steinke 2016,
    Proposition 1.4), which is never below it, is within a e relative of it.
    """
    order = 1 + x
    if order * e < 1e-20:
        return order * e * e / 2
    if h == 0:
        low = x / (1 + 2 * x)
    else:
        t, expm1 = CONTEXT.exp(-h), CONTEXT.expm1
        low = t * expm1(-2 * x * h) / ((1 + t) * expm1(-(1 + 2 * x) * h))
    return min(e + CONTEXT.log1p(low * CONTEXT.expm1(-(1 + 2 * x) * e)) / x, order * e * e / 2)


def _two_exponentials_float(x: Floats, e: Floats, h: Floats) -> Floats:
    """The same in floats, of shape (orders, terms).

    Error: let z = B (1 - exp(-(2a - 1) e)). As the curve is not negative, 1 - z >= exp(-x e), so z <= x e, and
    z <= 1/2. Elementary functions of numpy are within 4 units in the last place (8 roundings); z takes three
    expm1, one exp and seven operations, under 70 roundings in all, and log1p at most doubles them. Divided by x
    this is under 200 roundings of e, 2.3e-14 e; ``_PAD`` is 5.7e-14 e.
    """
    t = np.exp(-h)
    fall = np.expm1(-(1 + 2 * x) * e)
    step_fall = fall if np.array_equal(h, e) else np.expm1(-(1 + 2 * x) * h)
    if h.all():
        low = t * np.expm1(-2 * x * h) / ((1 + t) * step_fall)
    else:
        lattice = t * np.expm1(-2 * x * h) / np.where(h > 0, (1 + t) * step_fall, 1)
        low = np.where(h > 0, lattice, x / (1 + 2 * x))
    value = e + np.log1p(low * fall) / x
    small = (1 + x) * e**2 / 2
    return np.where((1 + x) * e < 1e-8, small, np.clip(value, 0, np.minimum(small, e)))


def _triple(x: Any, e: Any, top: Any) -> Any:
    """Renyi divergence of a draw that loses e with chance a = ``top``, -e with chance a exp(-e), and 0 else: exact.

    exp(x R) = a exp(x e) + m + a exp(-e) exp(-x e) with m the chance of 0; over exp(x e) that is 1 - (1 - w)(m + a
    exp(-e)(1 + w)), w = exp(-x e): all terms positive. Below a e = 1e-20 the rho of the draw is taken
    (docs/proofs/tight-rho.md, Theorem 1), which is never below it.
    """
    slope = -top * e * CONTEXT.expm1(-e)
    if (1 + x) * e < 1e-20:
        return (1 + x) * slope
    w, lowest = CONTEXT.exp(-x * e), top * CONTEXT.exp(-e)
    low = -CONTEXT.expm1(-x * e) * (1 - top - lowest + lowest * (1 + w))
    return min(e + CONTEXT.log1p(-low) / x, (1 + x) * slope)


def _triple_float(x: Floats, e: Floats, top: Floats) -> Floats:
    """The same in floats, of shape (orders, terms).

    Error: z = (1 - w)(...) is at most 1 - exp(-x e) <= x e, and 1 - z >= a >= 1/4, so that log1p at most quadruples
    the under 60 roundings of z. Divided by x this is under 250 roundings of e, 2.8e-14 e; ``_PAD`` is 5.7e-14 e.
    """
    w, lowest = np.exp(-x * e), top * np.exp(-e)
    low = -np.expm1(-x * e) * (1 - top - lowest + lowest * (1 + w))
    slope = (1 + x) * -top * e * np.expm1(-e)
    return np.where((1 + x) * e < 1e-8, slope, np.clip(e + np.log1p(-low) / x, 0, np.minimum(slope, e)))


def _response_pair(x: Any, large: Any, small: Any, alike: Any) -> Any:
    """Randomized response of ``large`` with probability ``alike``, else of ``small``; both hypotheses know which.

    The moment exp((a - 1) R(a)) is the mean of the two responses' own. Above the smaller curve only what is beyond it
    counts, so that with the difference d of the curves it is R_large + ln(1 + (1 - alike) (exp(-x d) - 1)) / x, which
    grows with both of them: bounds of theirs give one of it.
    """
    top, low = _two_exponentials(x, large, large), _two_exponentials(x, small, small)
    return top + CONTEXT.log1p((1 - alike) * CONTEXT.expm1(-x * (top - low))) / x


def _response_pair_float(x: Floats, large: Floats, small: Floats, alike: Floats) -> Floats:
    """The same in floats, of shape (orders, terms).

    Its derivatives in the two curves add up to 1, so that their error, under 200 roundings of ``large``, goes in once;
    expm1, log1p and what is between them add few roundings of x times the difference, over x: under 40 of ``large``,
    as ``alike`` is at least 1/2. ``_PAD`` is 512 of them.
    """
    top, low = _two_exponentials_float(x, large, large), _two_exponentials_float(x, small, small)
    return top + np.log1p((1 - alike) * np.expm1(-x * (top - low))) / x


def _bounded_range(x: Any, e: Any) -> Any:
    """Any mechanism whose privacy loss stays in an interval of length e: min(e, KL + (a - 1) e^2 / 8).

    KL = t - 1 - ln t with t = e / (exp(e) - 1) (Dong, Durfee and Rogers 2020). Proof of every part:

    * e: the loss L has mean 1 under exp(-L), so its interval holds 0 and L <= e.
    * KL: given E[exp(-L)] = 1, the mean of L is largest when all mass is at the two ends (exp(-L) is then as large
      as an interval allows, for each mean of L). With mass p at the upper one it is ln(1 - p + p exp(-e)) + p e,
      largest at 1 - p (1 - exp(-e)) = (1 - exp(-e)) / e, where it is t - 1 - ln t.
    * the sum: (a - 1) R(a) = ln E[exp((a - 1) L)] <= (a - 1) E[L] + (a - 1)^2 e^2 / 8 (Hoeffding's lemma).

    It is never above a e^2 / 8 (Cesar and Rogers 2021), because KL <= e^2 / 8: Hoeffding's lemma again, on the
    two-point loss. Below e = 1e-12 that bound itself is taken, where it is within e^2 relative.
    """
    pure, square = e, e * e / 8
    if e < 1e-12:
        return min(pure, (1 + x) * square)
    v = CONTEXT.log(CONTEXT.expm1(e) / e)
    return min(pure, CONTEXT.expm1(-v) + v + x * square)


def _bounded_range_float(x: Floats, e: Floats) -> Floats:
    """The same in floats, of shape (orders, terms).

    v is e + ln((1 - exp(-e)) / e), between 0 and e and off by less than 40 roundings of e; the divergence
    exp(-v) - 1 + v inherits that, which ``_PAD`` covers.
    """
    return np.minimum(e, _mean_of_range(e) + x * e**2 / 8)


def _bounded_range_kinks(e: Floats) -> Floats:
    """Where that reaches e, of shape (terms,)."""
    return (1 - _mean_of_range(e) / e) * 8 / e


def _mean_of_range(e: Floats) -> Floats:
    """The divergence of ``_bounded_range`` at order 1, in floats."""
    safe = np.where(e > 0, e, 1)
    v = e + np.log(-np.expm1(-safe) / safe)
    divergence = np.clip(np.expm1(-v) + v, 0, e**2 / 8)
    return np.where(e < 1e-7, e**2 / 8, divergence)
