"""Delta as a function of epsilon for one draw, and back: the smallest that a theorem here proves.

Where several theorems hold for the same draw, the smallest of their bounds holds too. Both functions take any event
but compositions and parallel parts, which are an accountant's business.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import lru_cache, partial
from math import floor, log, sqrt
from typing import TYPE_CHECKING

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Laplace,
    RandomScale,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.theorems import bounded_range, collapse, gaussian, lattice
from dprelease.privacy.theorems.concentrated import rho_to_delta, rho_to_epsilon
from dprelease.privacy.theorems.inverse import SMALLEST, as_delta, certified
from dprelease.privacy.theorems.joint.random_scale import random_scale_delta, random_scale_guess
from dprelease.privacy.theorems.joint.total_residual import (
    total_residual_delta,
    total_residual_guess,
    total_residual_pure,
)

if TYPE_CHECKING:
    from dprelease.privacy.theorems.loss_bound import ComposedLoss

__all__ = [
    "continuous_laplace_delta",
    "continuous_laplace_epsilon",
    "delta",
    "epsilon",
    "near_epsilon",
    "response_delta",
    "response_epsilon",
]

_LARGEST_SUMMED = 2000  # beyond, the collapse loses less than 1e-8 and takes a tenth of the time
_TAIL_SHARE = Fraction(1, 10**7)  # what a tail costs, relative to delta, at most


def delta(atom: Event, epsilon: Fraction) -> Fraction:
    """A delta for which one draw is (epsilon, delta)-differentially private, rounded up; at most 1.

    Which theorem: `curves.lattice` (integer noise on one cell), `continuous_laplace_delta`, `curves.gaussian` (any
    number of cells, by the L2 sensitivity), `curves.collapse` or zCDP (Canonne, Kamath and Steinke 2020, Proposition
    12) for a discrete Gaussian on several cells (where their changes are known by norms alone, too), `bounded_range`,
    `joint.total_residual` and `joint.random_scale` for their own draws, the three losses of K-norm noise
    (`lattice.knorm_top`), randomized response for everything else that is pure. A larger change of a cell never lowers
    a curve, so the worst-case shifts suffice; with several, the largest delta counts.

    Args:
        atom: One draw.
        epsilon: At least 0.

    Raises:
        UnsupportedEvent: For a composition or parallel parts.
        ValueError: If epsilon is negative.
    """
    if epsilon < 0:
        raise ValueError("epsilon is at least 0")
    return _delta(atom, epsilon)


def epsilon(atom: Event, delta: Fraction) -> Fraction:
    """The smallest epsilon >= 0 that the curve of ``delta()`` allows for this delta, rounded up.

    The one returned was itself put into ``delta()``. At delta 0 it is the pure epsilon.

    Raises:
        UnsupportedEvent: If no finite epsilon exists at this delta, and for compositions and parallel parts.
        ValueError: If delta is not in [0, 1].
    """
    if not 0 <= delta <= 1:
        raise ValueError("delta is at least 0 and at most 1")
    return _epsilon(atom, delta)


def near_epsilon(atom: Event, delta: Fraction) -> Fraction:
    """An epsilon that :func:`delta` certifies, at most 1e-4 above :func:`epsilon` and several times faster.

    For discrete Gaussians of scale 64 and more, on one cell or on several of which the norms are known: the continuous
    Gaussian's epsilon, raised by more than the lattice can add, is put into the exact curve. For everything else it is
    ``epsilon``. Meant for hundreds of different draws. Errors as there.
    """
    if not (isinstance(atom, DiscreteGaussian) and atom.scale >= 64 and 0 < delta < 1):
        return epsilon(atom, delta)
    known = atom.sensitivity
    return _near_epsilon(atom, delta) if known.l0 == 1 or not known.shifts else epsilon(atom, delta)


@lru_cache(maxsize=1 << 14)
def _near_epsilon(atom: DiscreteGaussian, delta: Fraction) -> Fraction:
    alone = atom.sensitivity.l0 == 1
    mu = float(atom.sensitivity.linf / atom.scale) if alone else sqrt(atom.sensitivity.l2_squared / atom.scale**2)
    log_delta = log(delta.numerator) - log(delta.denominator)
    # the bound of several cells is raised by its factor and its tail, too
    guess = gaussian.epsilon_quick(mu, log_delta) * (1 + 1 / (8 * float(atom.scale) ** 2) + (1e-9 if alone else 1e-7))
    if guess == 0:
        return _epsilon(atom, delta)
    parts = _parts(atom)
    if len(parts) == 1 and _summed(parts[0]):  # whether delta is small enough is told sooner than delta
        within = partial(lattice.gaussian_within, parts[0].scale, parts[0].linf, delta=delta)
        return certified(lambda e: Fraction(not within(epsilon=e)), delta, Fraction(guess), 36)
    return certified(lambda e: _delta(atom, e), delta, Fraction(guess), 36)


def response_delta(pure: Fraction, epsilon: Fraction) -> Fraction:
    """Delta at epsilon of any mechanism that is ``pure``-differentially private, rounded up.

    (exp(pure) - exp(epsilon)) / (1 + exp(pure)) for epsilon < pure, else 0: the curve of randomized response, which
    dominates every such mechanism (Kairouz, Oh and Viswanath 2015, Theorem 3.3 with one draw).
    """
    if epsilon >= pure:
        return Fraction(0)
    return as_delta(-CONTEXT.expm1(real(epsilon - pure)) / (1 + CONTEXT.exp(-real(pure))))


def response_epsilon(pure: Fraction, delta: Fraction) -> Fraction:
    """The inverse of ``response_delta``, rounded up: pure + ln(1 - delta (1 + exp(-pure))), or 0."""
    kept = 1 - real(delta) * (1 + CONTEXT.exp(-real(pure)))
    if delta == 0 or kept <= 0:
        return Fraction(0) if delta else pure
    return min(pure, upper(real(pure) + CONTEXT.log1p(kept - 1)))


@lru_cache(maxsize=1 << 14)
def _delta(atom: Event, epsilon: Fraction) -> Fraction:
    pure = _pure(atom)
    if pure is not None and epsilon >= pure:
        return Fraction(0)
    match atom:
        case DiscreteLaplace() if atom.sensitivity.l0 <= 1:
            return lattice.laplace_delta(atom.scale, _one_shift(atom.sensitivity), epsilon)
        case Laplace() if atom.sensitivity.l0 <= 1:
            return continuous_laplace_delta(atom.scale, atom.sensitivity.linf, epsilon)
        case BoundedRange():
            return min(bounded_range.delta(atom.epsilon, epsilon), rho_to_delta(atom.epsilon**2 / 8, epsilon))
        case KNorm() if atom.gauge == 1:
            return as_delta(-real(_top(atom)) * CONTEXT.expm1(real(epsilon - 1 / atom.scale)))
        case DiscreteLaplace() | Laplace() | KNorm():
            return response_delta(pure or Fraction(0), epsilon)
        case TotalResidual():
            return total_residual_delta(atom, epsilon)
        case RandomScale():
            return random_scale_delta(atom, epsilon)
        case Approximate():
            return min(Fraction(1), atom.delta + (1 - atom.delta) * response_delta(atom.epsilon, epsilon))
        case Gaussian():
            return gaussian.delta(atom.sensitivity.l2_squared / atom.scale**2, epsilon)
        case DiscreteGaussian():
            return max((_lattice_delta(part, epsilon) for part in _parts(atom)), default=Fraction(0))
        case Concentrated():
            return rho_to_delta(atom.rho, epsilon)
    raise _unsupported(atom)


@lru_cache(maxsize=1 << 14)
def _epsilon(atom: Event, delta: Fraction) -> Fraction:
    pure = _pure(atom)
    if delta == 0:
        if pure is None:
            raise _no_pure(atom)
        return pure
    if not isinstance(atom, Gaussian | DiscreteGaussian) and _delta(atom, Fraction(0)) <= delta:
        return Fraction(0)  # the two left out find that themselves
    if isinstance(atom, Approximate) and delta <= atom.delta:
        # at delta equal to its own, only its whole epsilon is promised; below that nothing is
        if delta == atom.delta:
            return atom.epsilon
        raise _no_pure(atom)
    found = certified(lambda e: _delta(atom, e), delta, _guess(atom, delta))
    return found if pure is None else min(pure, found)


def _guess(atom: Event, delta: Fraction) -> Fraction:
    """An epsilon just about the answer: certified, or refined, by the caller."""
    match atom:
        case DiscreteLaplace() if atom.sensitivity.l0 <= 1:
            return lattice.laplace_epsilon(atom.scale, _one_shift(atom.sensitivity), delta)
        case Laplace() if atom.sensitivity.l0 <= 1:
            return continuous_laplace_epsilon(atom.scale, atom.sensitivity.linf, delta)
        case BoundedRange():
            return min(bounded_range.epsilon(atom.epsilon, delta), rho_to_epsilon(atom.epsilon**2 / 8, delta))
        case KNorm() if atom.gauge == 1:
            return upper(real(1 / atom.scale) + CONTEXT.log1p(-real(delta) / real(_top(atom))))
        case DiscreteLaplace() | Laplace() | KNorm():
            return response_epsilon(_pure(atom) or Fraction(0), delta)
        case TotalResidual():
            return total_residual_guess(atom, delta)
        case RandomScale():
            return random_scale_guess(atom, delta)
        case Approximate():
            return response_epsilon(atom.epsilon, (delta - atom.delta) / (1 - atom.delta))
        case Gaussian():
            return gaussian.epsilon(atom.sensitivity.l2_squared / atom.scale**2, delta)
        case DiscreteGaussian():
            return max((_lattice_epsilon(part, delta) for part in _parts(atom)), default=Fraction(0))
        case Concentrated():
            return rho_to_epsilon(atom.rho, delta)
    raise _unsupported(atom)


def _parts(atom: DiscreteGaussian) -> list[collapse.EqualDraws]:
    """One entry per worst-case change of one unit; without known shifts one that covers all of them.

    Why norms are enough there: the bound of ``curves.collapse`` for a vector v rises in its squared L2 norm, its L1
    norm (at most ``EqualDraws.l1``), its largest change and its number of changes, and zCDP needs the first one alone.
    """
    known = atom.sensitivity
    if known.l0 > 1 and known.shifts:
        return [
            collapse.EqualDraws(atom.scale, Fraction(sum(c * c for c in shift)), len(shift), max(shift))
            for shift in known.shifts
        ]
    if not (known.l0 and known.linf and known.l2_squared):
        return []
    return [collapse.EqualDraws(atom.scale, known.l2_squared, known.l0, floor(known.linf))]


def _summed(part: collapse.EqualDraws) -> bool:
    return part.l0 == 1 and part.scale <= _LARGEST_SUMMED


def _lattice_delta(part: collapse.EqualDraws, epsilon: Fraction) -> Fraction:
    if _summed(part):
        return lattice.gaussian_delta(part.scale, part.linf, epsilon)
    if _several_equal(part):
        return _composed(part).delta(epsilon)
    mu_squared = part.l2_squared / part.scale**2
    coarse = rho_to_delta(mu_squared / 2, epsilon)
    if coarse <= SMALLEST:
        return coarse
    return min([coarse, *(bound.delta(epsilon) for bound in _bounds(part, gaussian.delta(mu_squared, epsilon)))])


def _lattice_epsilon(part: collapse.EqualDraws, delta: Fraction) -> Fraction:
    if _summed(part):
        return lattice.gaussian_epsilon(part.scale, part.linf, delta)
    if _several_equal(part):
        return _composed(part).epsilon(delta)
    found = [bound.epsilon(delta) for bound in _bounds(part, delta)]
    return min(found) if found else rho_to_epsilon(part.l2_squared / part.scale**2 / 2, delta)


def _several_equal(part: collapse.EqualDraws) -> bool:
    """Whether the theorem of the collapse does not reach, and all cells move alike: that composition is exact."""
    return part.l0 > 1 and part.scale < collapse.SMALLEST_SCALE and part.l2_squared == part.l0 * part.linf**2


def _composed(part: collapse.EqualDraws) -> ComposedLoss:
    from dprelease.privacy.theorems.loss_bound import ComposedLoss  # it reads the curves of this package
    from dprelease.privacy.theorems.total_loss import CellLaw

    return ComposedLoss(Counter({CellLaw("bell", part.scale, part.linf): part.l0}))


def _bounds(part: collapse.EqualDraws, delta: Fraction) -> list[collapse.Collapsed]:
    """The Gaussian bounds with one or two neighbouring tails.

    A larger tail has a smaller factor, which shows at small scales only. With both, an epsilon found for a delta and
    the delta read back for it meet in a common tail also where a power of 16 lies between the two.
    """
    tail = _tail(delta)
    small = _collapsed(part, tail)
    if small and small.factor < 1 + _TAIL_SHARE:
        return [small]
    return [bound for bound in (small, _collapsed(part, 16 * tail)) if bound]


def _tail(delta: Fraction) -> Fraction:
    """A power of 16 that is about 1e-8 of delta: there are few of them, and each is prepared once."""
    bits = max(0, delta.denominator.bit_length() - delta.numerator.bit_length())
    bits += delta.numerator << bits < delta.denominator  # now 2^-bits <= delta < 2^(1 - bits)
    return Fraction(1, 16 ** (bits // 4 + 7))


@lru_cache(maxsize=1 << 12)
def _collapsed(part: collapse.EqualDraws, tail: Fraction) -> collapse.Collapsed | None:
    """None where the theorem does not reach: the scale is too small, at all or for so small a tail."""
    try:
        return collapse.collapsed([part], tail)
    except ValueError:
        return None


def _one_shift(sensitivity: Sensitivity) -> int:
    """The largest whole number by which the one cell can move."""
    return floor(sensitivity.linf)


def _top(atom: KNorm) -> Fraction:
    return lattice.knorm_top(atom.ball, atom.dimension, atom.scale)


def _pure(atom: Event) -> Fraction | None:
    """The epsilon of one draw at delta 0, or None where it has none."""
    match atom:
        case DiscreteLaplace() | Laplace():
            return atom.sensitivity.l1 / atom.scale
        case KNorm():
            return atom.gauge / atom.scale
        case TotalResidual():
            return total_residual_pure(atom)
        case BoundedRange():
            return atom.epsilon
        case Approximate() if atom.delta == 0:
            return atom.epsilon
        case Gaussian() | DiscreteGaussian() if atom.sensitivity.l2_squared == 0:
            return Fraction(0)
        case RandomScale() if atom.rows == 0:
            return Fraction(0)
        case Concentrated() if atom.rho == 0:
            return Fraction(0)
    return None


def _unsupported(atom: Event) -> UnsupportedEvent:
    return UnsupportedEvent(
        f"an event of kind {atom.kind!r} has no curve of a single draw",
        hint="give it to an accountant: each takes compositions and parallel parts apart",
    )


def _no_pure(atom: Event) -> UnsupportedEvent:
    if isinstance(atom, Approximate):
        return UnsupportedEvent(
            f"a mechanism with a delta of {float(atom.delta):.3g} has no epsilon at a smaller delta",
            hint=f"give the budget a delta of at least {float(atom.delta):.3g}",
        )
    if atom.kind in ("repeated", "composed", "parallel"):
        return _unsupported(atom)
    return UnsupportedEvent(
        "Gaussian noise and zCDP have no finite epsilon at delta 0",
        hint="give the budget a delta, such as 1e-9, or write `noise: laplace`",
    )


def continuous_laplace_delta(scale: Fraction, shift: Fraction, epsilon: Fraction) -> Fraction:
    """Delta at epsilon >= 0 of Laplace noise of this scale when the cell moves by ``shift``, exact, rounded up.

    With e = shift / scale the loss at x is (|x + shift| - |x|) / scale, which rises from -e to e; it exceeds
    epsilon < e exactly on x > x0 = (epsilon - e) scale / 2 <= 0, and
    P(X > x0) - exp(epsilon) P(X > x0 + shift) = 1 - exp(x0 / scale)/2 - exp(epsilon - (x0 + shift) / scale)/2
    = 1 - exp((epsilon - e) / 2). From e on it is 0.
    """
    gap = abs(shift) / scale - epsilon
    return as_delta(-CONTEXT.expm1(-real(gap) / 2)) if gap > 0 else Fraction(0)


def continuous_laplace_epsilon(scale: Fraction, shift: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon at this delta < 1, rounded up: shift / scale + 2 ln(1 - delta), or 0."""
    pure = abs(shift) / scale
    return min(pure, upper(real(pure) + 2 * CONTEXT.log1p(-real(delta))))
