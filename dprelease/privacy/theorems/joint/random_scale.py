"""The privacy loss of one draw of random-scale Gaussian noise: its certified curve, its pair, and rho.

One row moves the vector behind the noise by a length that is the same for every row, and a sphere has no directions:
there is one pair of laws, whose curve for continuous noise is that of ``sphere_profile``. Noise on the grid is within a
factor of it, point by point (docs/proofs/random-scale.md). Of several rows all that is used is the smallest scale.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import NamedTuple

from dprelease.privacy.event import RandomScale
from dprelease.privacy.rounding import CONTEXT, log_of, real, upper
from dprelease.privacy.theorems import gaussian
from dprelease.privacy.theorems.concentrated import rho_to_delta, rho_to_epsilon, rough_rho_to_epsilon
from dprelease.privacy.theorems.inverse import SMALLEST, as_delta
from dprelease.privacy.theorems.joint.sphere_profile import BEYOND, REACH, SphereProfile

__all__ = [
    "ListedLoss",
    "has_curve",
    "random_scale_delta",
    "random_scale_guess",
    "random_scale_losses",
    "random_scale_near",
    "random_scale_rho",
]

_CELLS = 3000  # of rho, and as many of T: the bound is then less than a hundredth above delta
_COARSE_CELLS = 1500  # for one of many points of a curve
_PARTS, _ROUGH_PARTS = 16, 8  # points of a curve for each standard deviation of the loss, at least; twice that at most
_MOST_LOSSES, _LARGEST_LOSS, _NEGLIGIBLE = 1000, 300.0, 1e-18  # where the points end
_FLOOR = 1e-28  # below it what is beyond counts, and rho may say more
_FEWEST = 40  # counts: of fewer the table is too far from log-concave for a sharp certificate
_LONGEST, _STEEPEST = 16.0, 600.0  # changes, in scales, and epsilons up to which there is a certificate
_NOTCHES = 25  # of e in the length of a change: so far apart the certificate is looked at for searches
_FINEST = 1 << 10  # the least scale in steps of the grid


def random_scale_rho(draw: RandomScale) -> Fraction:
    """(rows D)^2 / 2 over the smallest variance: that of the noise when its scale is told, and the smallest one.

    Renyi divergences of mixtures are at most the largest one of their parts, which are discrete Gaussian noise
    (Canonne, Kamath and Steinke 2020, Theorem 14).
    """
    return draw.rows**2 * draw.length_squared / (2 * (draw.scale * min(draw.stretches)) ** 2)


def random_scale_delta(draw: RandomScale, epsilon: Fraction) -> Fraction:
    """Delta at epsilon >= 0, rounded up: of one row by the certificate, where there is one, else by rho."""
    if not draw.rows:
        return Fraction(0)
    if not has_curve(draw) or epsilon > _STEEPEST:
        return rho_to_delta(random_scale_rho(draw), epsilon)
    return _certified(draw, _profile(draw), epsilon)


def has_curve(draw: RandomScale) -> bool:
    """Whether a curve of its own is certified: of one row, on a fine grid, and of more than next to no noise."""
    least, largest = draw.scale * min(draw.stretches), max(draw.stretches)
    exponents = (largest / min(draw.stretches)) ** 2 * 2 * (draw.dimension + 144)  # at least (sqrt k + 12)^2
    fine = least * RandomScale.GRAIN >= _FINEST and draw.length_squared <= (Fraction(_LONGEST) * draw.scale) ** 2
    return draw.rows == 1 and draw.dimension >= _FEWEST and fine and exponents <= 50_000


def _certified(draw: RandomScale, profile: SphereProfile, epsilon: Fraction) -> Fraction:
    """Of one row."""
    apart, factor = _lattice(draw)
    left = math.nextafter(float(epsilon - apart), -math.inf)
    # a curve falls by less than e^x - 1 from epsilon = -x to 0
    found = profile.bound(_ratio(draw), max(left, 0.0)) + math.expm1(max(-left, 0.0))
    bound = as_delta(real(factor) * real(found) + real(BEYOND))
    return bound if bound > _FLOOR else min(bound, rho_to_delta(random_scale_rho(draw), epsilon))


@lru_cache(maxsize=1 << 12)
def random_scale_near(draw: RandomScale, delta: float) -> float:
    """In floats, about 1e-5 relative, the epsilon that is certified at this delta: for searches, never a result.

    The root of delta itself, and as much more as the certificate is above it at a change of about this length.
    """
    if not draw.rows or delta >= 1:
        return 0.0
    if not has_curve(draw):
        return rough_rho_to_epsilon(float(random_scale_rho(draw)), log(delta))
    ratio, profile = _ratio(draw), _profile(draw)
    near = round(log(ratio) * _NOTCHES), round(log(delta))
    return _root(profile, ratio, delta) * _raised(profile, *near)


@lru_cache(maxsize=1 << 12)
def _raised(profile: SphereProfile, notch: int, log_delta: int) -> float:
    """The certified epsilon over that of delta itself, for a change of the length exp(notch / 25)."""
    ratio, delta = math.exp(notch / _NOTCHES), math.exp(log_delta)
    found = exact = _root(profile, ratio, delta)
    for _ in range(3 if exact else 0):
        value, fall = profile.near(ratio, found)
        found += log(profile.bound(ratio, found) / delta) * value / fall if fall > 0 else 0.0
    return found / exact if exact else 1.0


def _root(profile: SphereProfile, ratio: float, delta: float) -> float:
    """Where delta itself is ``delta``.

    Newton's rule on its logarithm, which bends downwards, from the Gaussian's epsilon: beyond the root it comes back
    without passing it.
    """
    wanted = log(delta)
    found = gaussian.epsilon_quick(ratio, wanted)
    for _ in range(60):
        value, fall = profile.near(ratio, found)
        step = (log(max(value, 1e-300)) - wanted) * value / fall if fall > 0 else -found / 2
        found, before = max(0.0, found + min(step, 1 + found)), found
        if abs(found - before) <= 1e-8 * before:
            break
    return found


def random_scale_guess(draw: RandomScale, delta: Fraction) -> Fraction:
    """At most 1e-6 of delta above the smallest epsilon >= 0 at which :func:`random_scale_delta` gives it; or near that.

    From the root for delta in floats by steps along the logarithm of the certificate, whose slope is nearly theirs.
    """
    if not has_curve(draw):
        return rho_to_epsilon(random_scale_rho(draw), delta)
    wanted = log_of(delta)
    found = random_scale_near(draw, float(delta))
    value, fall = _profile(draw).near(_ratio(draw), found)
    rate = max(1e-3, fall / max(value, 1e-300))
    for _ in range(8):
        above = log_of(max(random_scale_delta(draw, Fraction(found)), SMALLEST)) - wanted
        if -1e-6 <= above <= 0:
            break
        found = max(found + (above + 5e-7) / rate, found / 2)
    return Fraction(found)


class ListedLoss(NamedTuple):
    """A pair of laws whose curve is nowhere below that of a draw.

    Attributes:
        step: The losses are its whole multiples.
        masses: The probabilities of the losses J, J - 1, ..., -J steps, but for a part in 10^9 more.
        beyond: The probability of a loss without limit.
    """

    step: Fraction
    masses: tuple[float, ...]
    beyond: Fraction


@lru_cache(maxsize=256)
def random_scale_losses(draw: RandomScale, *, rough: bool = False) -> ListedLoss:
    """The pair whose curve joins points of the certificate by straight lines, in exp(epsilon), for one row.

    A curve is convex in z = exp(epsilon), so that what joins points above it is above it, and so is the lower hull of
    these. The slope changes at z by the other data set's probability of that loss (docs/proofs/random-scale.md, section
    5). Both data sets have one curve, which says what is below a loss of 0. A rough one joins few points of floats.
    """
    ratio, profile = _ratio(draw), _profile(draw, _COARSE_CELLS)
    step = 2.0 ** math.floor(math.log2(ratio / (_ROUGH_PARTS if rough else _PARTS)))
    points: list[tuple[float, float, int]] = []  # exp(epsilon), delta, epsilon in steps; the lower hull so far
    for j in range(min(_MOST_LOSSES, math.floor(_LARGEST_LOSS / step))):
        delta = profile.near(ratio, j * step)[0] if rough else float(_certified(draw, profile, Fraction(j * step)))
        point = (math.exp(j * step), max(delta, 0.0), j)
        while len(points) > 1 and _slope(points[-2], points[-1]) >= _slope(points[-2], point):
            points.pop()
        points.append(point)
        if delta < _NEGLIGIBLE:
            break
    falls = [-_slope(one, other) for one, other in pairwise(points)]
    other = [before - after for before, after in zip(falls, [*falls[1:], 0.0], strict=True)]
    last = points[-1][2]
    masses = [0.0] * (2 * last + 1)
    for (size, _, j), mass in zip(points[1:], other, strict=True):
        masses[last - j], masses[last + j] = mass * size, mass
    beyond = Fraction(math.nextafter(points[-1][1], 1))
    masses[last] = max(0.0, 1 - math.fsum(masses) - float(beyond))
    return ListedLoss(Fraction(step), tuple(mass * (1 + 1e-9) for mass in masses), beyond)


def _slope(one: tuple[float, float, int], other: tuple[float, float, int]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])


@lru_cache(maxsize=1 << 10)
def _lattice(draw: RandomScale) -> tuple[Fraction, Fraction]:
    """How far noise on the grid is from continuous noise: what is taken off epsilon, and a factor of delta.

    With S the smallest scale in steps of the grid, d numbers and a norm of at most R steps the two masses of a point
    are within exp(-R^2 / (8 S^4) - d 3 exp(-2 pi^2 S^2)) and exp(d / (8 S^2)) (docs/proofs/random-scale.md, section 4).
    """
    steps = real(draw.scale * RandomScale.GRAIN)
    least, largest = steps * real(min(draw.stretches)), steps * real(max(draw.stretches))
    numbers = draw.dimension + 1
    change = CONTEXT.sqrt(real(draw.length_squared)) * RandomScale.GRAIN
    reach = largest * (CONTEXT.sqrt(numbers) + REACH) + change + CONTEXT.sqrt(numbers)
    under = reach**2 / (8 * least**4) + 3 * numbers * CONTEXT.exp(-2 * CONTEXT.pi**2 * least**2)
    over = numbers / (8 * least**2)
    return upper(under + over), upper(CONTEXT.exp(over))


def _ratio(draw: RandomScale) -> float:
    """D over the scale."""
    return float(CONTEXT.sqrt(real(draw.length_squared)) / real(draw.scale))


def _profile(draw: RandomScale, cells: int = _CELLS) -> SphereProfile:
    return _profile_of(draw.dimension, tuple(map(float, draw.stretches)), draw.weights, cells)


@lru_cache(maxsize=64)
def _profile_of(dimension: int, stretches: tuple[float, ...], weights: tuple[int, ...], cells: int) -> SphereProfile:
    return SphereProfile(dimension, stretches, weights, cells)
