"""delta(epsilon) of a composed loss by one contour integral, never below the truth.

**The integral.** Let L be the composed loss under P and ``delta(e) = E (1 - exp(e - L))_+``. For theta > 0 and
``g(y) = exp(-theta y) (1 - exp(-y))_+``, ``delta(e) = E[exp(theta (L - e)) g(L - e)]``. For a period T let
``G(y) = sum_m g(y + m T)``. Since g >= 0, G >= g, so replacing g by G can only raise delta::

    E[exp(theta (L - e)) G(L - e)] = sum_m exp(-m theta T) delta(e - m T).

The Fourier coefficients of G are ``1 / (T (theta + i w)(theta + 1 + i w))`` at ``w = 2 pi k / T`` (integrate g), they
are summable, and ``E exp((theta + i w) L)`` is a product of closed forms over the draws. Hence, with no grid for the
losses, no cut tail and no window::

    delta(e) <= (1/T) sum_k M(theta + i w_k) exp(-(theta + i w_k) e) / ((theta + i w_k)(theta + 1 + i w_k)).

It is the trapezoidal rule for the inverse Laplace transform of delta, tilted by theta so that it keeps its relative
accuracy at any delta: theta is the saddle point of the integrand.

**Losses on a lattice** ``ref + h Z``: with T = N h the product is periodic in k, so the sum over k folds to N terms
whose weights are geometric sums (``_lattice_weights``). The result is exact but for terms m != 0 and rounding.

**Losses off a lattice**: the sum over k must stop at some K. An extra Gaussian draw of small mu0^2 is added to the
composition. Whoever sees one output more can ignore it, so that delta can only rise; the integrand then falls like
``exp(-mu0^2 w^2 / 2)`` and what lies beyond K is bounded. It raises log delta by about mu0^2 theta (theta + 1) / 2,
hence epsilon by ``ROUGHENING`` of itself or less. Real Gaussian draws in the event serve first.

**Rounding** is carried along: each factor is known to within its ``slack``; ``bounds`` is the product of
(modulus + slack), so that |computed - true| <= bounds - |computed| plus a few units per multiplication. Frequencies
whose bound has become negligible are dropped and their bounds stay in the error. All errors are added to delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dprelease.privacy.theorems.loss_laws import ULP, Family, cis
from dprelease.privacy.theorems.total_loss import Total

__all__ = [
    "FINE",
    "ROUGH",
    "Contour",
    "IntegrationLine",
    "Precision",
    "contour_at",
    "guess_for_delta",
    "line_at",
    "log_delta_guess",
]

Array = Any


@dataclass(frozen=True)
class Precision:
    """How much work a bound is worth.

    Attributes:
        roughening: The relative rise of epsilon that the extra Gaussian draw may cause.
        alias: The relative rise of delta that the period may cause.
        lattice: The largest number of frequencies for an exact lattice sum.
    """

    roughening: float
    alias: float
    lattice: int


FINE = Precision(roughening=1e-7, alias=1e-13, lattice=2**16)
ROUGH = Precision(roughening=1e-5, alias=1e-7, lattice=2**12)

_NOTCHES = 8  # thetas are powers of 2^(1/8): near enough to the saddle, and one choice for a range of epsilon
_LOWEST, _HIGHEST = -60 * _NOTCHES, 200 * _NOTCHES
_REACH = 6.0  # mu0 w at the last frequency: exp(-18), beside a weight that has fallen by (theta / w)^2
_STEEPEST = 0.05  # the largest rise of log delta by the extra draw: next to the largest loss theta has no bound
_CLOSEST = 2.0**-44  # of the largest loss: off a lattice, floats do not resolve the phases of a line for a smaller gap
_NOTHING = -1100  # far below the least float, 2^-1074
_CELLS = 2**16  # complex numbers in one working array
_KNOWN, _SHORT = 16, 2**16  # how many contours a total knows, of at most so many frequencies: 40 MB


def _notch(j: int) -> float:
    return float(2.0 ** (j / _NOTCHES))


def _kernel(theta: float) -> float:
    return 1 / theta + 1 / (1 + theta)


def _tilt(total: Total, gap: float) -> int:
    """The notch next to the saddle point for ``epsilon = ref - gap``: slope(theta) + gap = 1/theta + 1/(1+theta)."""
    low, high = _LOWEST, _HIGHEST
    while high - low > 1:
        middle = (low + high) // 2
        theta = _notch(middle)
        low, high = (middle, high) if total.slope(theta) + gap < _kernel(theta) else (low, middle)
    return low


def guess_for_delta(total: Total, log_delta: float) -> float:
    """The gap ``ref - epsilon`` at which delta is about this, by the saddle-point formula between two notches."""
    low, high = _LOWEST, _HIGHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _saddle(total, _notch(middle))[1] > log_delta else (low, middle)
    (gap, above), (other, below) = _saddle(total, _notch(low)), _saddle(total, _notch(high))
    share = (above - log_delta) / (above - below) if above > below else 0.0
    return gap + (other - gap) * min(1.0, max(0.0, share))


def log_delta_guess(total: Total, gap: float) -> float:
    """About log delta at ``epsilon = ref - gap``; a guess, not a bound."""
    return min(0.0, _near_saddle(total, _notch(_tilt(total, gap)), gap))


def _saddle(total: Total, theta: float) -> tuple[float, float]:
    """(gap, log delta) at which theta is the saddle point."""
    gap = _kernel(theta) - total.slope(theta)
    return gap, _near_saddle(total, theta, gap)


def _near_saddle(total: Total, theta: float, gap: float) -> float:
    """Log delta by the saddle-point formula (Daniels 1954) for the integrand above; theta next to the saddle."""
    curvature = max(0.0, total.slope(theta * 1.001) - total.slope(theta)) / (0.001 * theta)
    width = curvature + theta**-2 + (1 + theta) ** -2
    exponent = total.log_moment(theta) + theta * gap
    return exponent - math.log(theta) - math.log1p(theta) - math.log(2 * math.pi * width) / 2


class IntegrationLine(NamedTuple):
    """Where to integrate; equal lines of one total give equal bounds.

    Attributes:
        theta: Real part.
        period: T above; for a lattice ``points`` times its step.
        points: N above, or 0 off a lattice.
        squared: mu^2 of all Gaussian draws, the extra one included; 0 on a lattice.
    """

    theta: float
    period: float
    points: int
    squared: float

    @property
    def size(self) -> int:
        """How many frequencies it takes."""
        if self.points:
            return self.points // 2 + 1
        return math.ceil(_REACH / math.sqrt(self.squared) * self.period / (2 * math.pi)) + 2


@dataclass(frozen=True)
class Contour:
    """The product of all characteristic functions on one line; good for every epsilon, best near the one it is for.

    Attributes:
        line: Where it was computed.
        step: The lattice's step, exact.
        log_moment: ``log E exp(theta (L - ref))``, the extra Gaussian draw included.
        index: The frequencies k >= 0 that count.
        factor: The product there, 2 for k and -k together.
        error: Bound on the modulus of its error, per frequency.
        lost: Bound on sum |weight| |factor| over the frequencies that were left out.
        moved: ``ref`` moves up by this: the mean of the extra Gaussian draw's loss.
        relative: Relative error of ``exp(log_moment)``.
    """

    line: IntegrationLine
    step: Fraction
    log_moment: float
    index: Array
    factor: Array
    error: Array
    lost: float
    moved: Fraction
    relative: float

    @cached_property
    def _places(self) -> Array:
        """Where the integrand is taken: theta + i omega."""
        return self.line.theta + 1j * (2 * math.pi * self.index / self.line.period)

    @cached_property
    def _weights(self) -> _LatticeWeights:
        return _LatticeWeights(self._places, float(self.step))

    def value(self, gap: Fraction) -> tuple[float, float]:
        """(log of an upper bound on delta, d log delta / d epsilon) at ``epsilon = ref - gap``."""
        theta, period, points, _ = self.line
        gap = gap + self.moved
        if points:
            jumps = math.ceil(gap / self.step) - 1
            exponent = theta * float(jumps * self.step)
            weights, slopes, sizes = self._weights.at(float(gap - jumps * self.step))
            turned = cis(2 * math.pi / points * (self.index * (jumps % points) % points))
            # the two terms of a weight may cancel; each is known to a few units
            blurred = 8 * ULP * sizes
        else:
            exponent = theta * float(gap)
            z = self._places
            omega = z.imag
            slopes = 1 / (z + 1)
            weights = slopes / z
            turned = cis(float(gap) * omega)
            blurred = 4 * ULP * abs(float(gap)) * omega * np.abs(weights)
        terms = self.factor * turned
        errors = (self.error + 64 * ULP * np.abs(self.factor)) * np.abs(weights) + np.abs(self.factor) * blurred
        bound = float((terms * weights).real.sum()) + float(np.sum(errors)) + self.lost
        whole = exponent + self.log_moment
        pad = self.relative + 8 * ULP * (abs(exponent) + abs(self.log_moment) + abs(whole) + 8)
        slope = -float((terms * slopes).real.sum()) / bound
        return whole + math.log(bound) - math.log(period) + pad, slope


class _LatticeWeights:
    """``h sum_j (1 - exp(-y_j)) exp(-z j h)`` over y_j = offset + j h, j >= 0, 0 < offset <= h; slope; size.

    With ``r = exp(-z h)`` the sum is ``((1 - exp(-offset)) + r (exp(-offset) - exp(-h))) / ((1-r)(1-r exp(-h)))``; the
    size is that with the moduli of both terms added up. What no offset changes is worked out once.
    """

    def __init__(self, z: Array, step: float) -> None:
        self._step, self._turn = step, np.exp(-z * step)
        first, self._second = -np.expm1(-z * step), -np.expm1(-(z + 1) * step)
        self._bottom = first * self._second / step
        self._size = np.abs(self._bottom)

    def at(self, offset: float) -> tuple[Array, Array, Array]:
        """The weights, their slopes and their sizes at an offset."""
        start, rest = -math.expm1(-offset), -math.exp(-offset) * math.expm1(offset - self._step)
        turned = self._turn * rest
        slopes = self._step * math.exp(-offset) / self._second
        return (start + turned) / self._bottom, slopes, (start + np.abs(turned)) / self._size


def line_at(total: Total, gap: float, precision: Precision) -> IntegrationLine:
    """Tilt, period and extra Gaussian draw for epsilon near ``ref - gap``."""
    theta = _notch(_tilt(total, gap))
    period = _rounded(_period(total, theta, gap, precision), up=True)
    if period < 2 * precision.lattice * float(total.step):
        points = max(4, math.ceil(period / float(total.step)))
        return IntegrationLine(theta, float(points * total.step), points, 0.0)
    closest = float(total.ref) * _CLOSEST
    if total.bounded and gap < closest:
        return line_at(total, closest, precision)
    epsilon = max(float(total.ref) - gap, 0.0)
    rise = min(precision.roughening * (1 + theta * epsilon), _STEEPEST)
    wanted = 2 * rise / (theta * (1 + theta))
    return IntegrationLine(theta, period, 0, max(_rounded(wanted, up=False), float(total.squared)))


def contour_at(total: Total, line: IntegrationLine) -> Contour:
    """The product of all characteristic functions on this line, with its rounding error.

    A total knows its last ones: neighbouring epsilons share a line.
    """
    known = total.contours
    if (found := known.get(line)) is None:
        found = _contour_at(total, line)
        if line.size <= _SHORT:
            if len(known) >= _KNOWN:
                oldest, *_ = tuple(known)  # a copy, for another thread may be here, too
                known.pop(oldest, None)
            known[line] = found
    return found


def _contour_at(total: Total, line: IntegrationLine) -> Contour:
    theta, period, points, squared = line
    extra = 0.0 if points else squared - float(total.squared)
    index = np.arange(line.size)
    double = np.where((index == 0) | (2 * index == points), 1.0, 2.0)
    omega = 2 * math.pi * index / period
    weight = double * _largest_weight(theta + 1j * omega, float(total.step) if points else 0.0)
    kept, factor, error, lost = _product(total, theta, omega, weight, extra)
    if not points:
        # sum over k > K of 2 exp(-mu^2 w^2 / 2) / w^2, by an integral, with mu w >= _REACH at K
        lost += period / math.pi * math.exp(-(_REACH**2) / 2) / (_REACH**2 * omega[-1])
    units = [(family.counts, family.slack(theta)[0], family.log_moment(theta)) for family in total.families]
    return Contour(
        line=line,
        step=total.step,
        log_moment=total.log_moment(theta) + extra * theta * theta / 2,
        index=index[kept],
        factor=factor * double[kept],
        error=error * double[kept],
        lost=lost,
        moved=Fraction(extra) / 2,
        relative=sum(float(n @ (slack + 4 * ULP * np.abs(moment))) for n, slack, moment in units),
    )


def _rounded(value: float, *, up: bool) -> float:
    """The next power of 2^(1/8): so that neighbouring epsilons share a line."""
    notches = math.log2(value) * _NOTCHES
    return _notch(math.ceil(notches) if up else math.floor(notches))


def _largest_weight(z: Array, step: float) -> Array:
    """A bound on the weight's modulus for every epsilon; tight off a lattice."""
    if not step:
        return 1 / np.abs(z * (z + 1))
    return -step * math.expm1(-step) / np.abs(np.expm1(-z * step) * np.expm1(-(z + 1) * step))


def _period(total: Total, theta: float, gap: float, precision: Precision) -> float:
    """T with which the terms m = 1 and m = -1 of the alias are small beside delta; any T is valid."""
    allowed = min(0.0, _near_saddle(total, theta, gap)) + math.log(precision.alias)
    below = -allowed / theta
    above = math.inf
    for j in range(-12, 13):
        steeper = theta * (1 + 2 ** (j / 2))
        above = min(above, (total.log_moment(steeper) + steeper * gap - allowed) / (steeper - theta))
    return max(below, min(above, gap) if total.bounded else above)


def _product(
    total: Total, theta: float, omega: Array, weight: Array, extra: float
) -> tuple[Array, Array, Array, float]:
    """(indices kept, product of all factors there, bound on its error, bound on what was left out)."""
    squared = float(total.squared) + extra
    kept = np.arange(len(omega))
    factor = np.exp(-squared * omega * omega / 2) * cis(theta * squared * omega)
    bounds = np.abs(factor) * (1 + 16 * ULP + 4 * ULP * squared * omega * (omega + theta))
    cut, lost = 1e-15 * weight[0] / len(omega), 0.0
    for family in total.families:
        row = 0
        while row < len(family.counts):
            keep = bounds * weight[kept] > cut
            if not keep.all():
                lost += float((bounds * weight[kept])[~keep].sum())
                kept, factor, bounds = kept[keep], factor[keep], bounds[keep]
            some = family.take(slice(row, row + max(1, _CELLS // (len(kept) + 1))))
            row += len(some.counts)
            own, own_bounds = _factors(some, theta, omega[kept])
            factor, bounds = factor * own, bounds * own_bounds
    bounds *= 1 + 8 * ULP * (total.draws + 16)
    # The subtraction itself is exact to one unit of bounds, which the line above has room for.
    return kept, factor, np.maximum(bounds - np.abs(factor), 0.0), lost * (1 + 1e-9)


def _factors(family: Family, theta: float, omega: Array) -> tuple[Array, Array]:
    """The product over the family's draws of the tilted characteristic functions, and of their upper bounds."""
    own = family.tilted(theta, omega)
    fixed, growing = family.slack(theta)
    bounds = np.abs(own) + (fixed[:, None] + np.multiply.outer(growing, omega))
    left = family.counts.copy()
    if left.max() == 1:
        return own.prod(axis=0), bounds.prod(axis=0)
    # Of many equal draws most frequencies are 0 in floats, each power of theirs too: no work is done for these.
    some = (bounds > 2.0 ** (_NOTHING / left)[:, None]).all(axis=0)
    powers, of_bounds = np.zeros(len(omega), dtype=complex), np.zeros(len(omega))
    powers[some] = _power(np.compress(some, own, axis=1), left).prod(axis=0)
    of_bounds[some] = (np.compress(some, bounds, axis=1) ** left[:, None]).prod(axis=0)
    return powers, of_bounds


def _power(base: Array, counts: Array) -> Array:
    """Whole powers, row by row, by repeated squaring: the relative error stays below 3 units per draw."""
    result = np.ones_like(base)
    while counts.any():
        odd = (counts & 1).astype(bool)
        result[odd] *= base[odd]
        counts = counts >> 1
        if counts.any():
            base = base * base
    return result
