"""Formulas from the literature that no plan is made with: what the package's own figures are held against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.privacy.accountants.kov import kov_delta_unequal, kov_epsilon_unequal
from dprelease.privacy.rounding import CONTEXT, log_of, real, upper
from dprelease.privacy.theorems import gaussian
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.privacy.theorems.conversion import RenyiCurve
from dprelease.privacy.theorems.renyi import Curve

__all__ = [
    "bun_steinke_epsilon",
    "classic_sigma",
    "composed_mu_squared",
    "count_knorm_std",
    "epsilon_to_rho",
    "gaussian_sigma",
    "kov_delta",
    "kov_epsilon",
    "linf_knorm_std",
    "mironov_epsilon",
    "noisy_max_rho",
    "range_divergence",
    "renyi_of_a_group",
    "response_divergence",
    "shifted_divergence",
]

Number = Fraction | int | float


def kov_delta(epsilon_each: Fraction, delta_each: Fraction, count: int, epsilon: Fraction) -> Fraction:
    """Delta at ``epsilon`` of equal boxes (Kairouz, Oh and Viswanath 2017, Theorem 3.3)."""
    return kov_delta_unequal({epsilon_each: count}, {delta_each: count}, epsilon)


def kov_epsilon(epsilon_each: Fraction, delta_each: Fraction, count: int, delta: Fraction) -> Fraction:
    """The smallest epsilon at total ``delta`` of equal boxes, rounded up: the inverse of ``kov_delta``."""
    return kov_epsilon_unequal({epsilon_each: count}, {delta_each: count}, delta)


def classic_sigma(epsilon: Fraction, delta: Fraction, sensitivity: Fraction) -> Fraction:
    """The textbook scale sqrt(2 ln(1.25 / delta)) sensitivity / epsilon, rounded up (Dwork and Roth 2014, Thm 3.22).

    Raises:
        UnsupportedEvent: Unless 0 < epsilon < 1, where it is proved, or at delta 0.
    """
    if not 0 < epsilon < 1:
        raise UnsupportedEvent(
            f"the classic Gaussian formula is proved only for epsilon between 0 and 1, not {float(epsilon):g}",
            hint="use the analytic Gaussian (`gaussian_sigma`): it holds for every epsilon, with less noise",
        )
    if delta <= 0:
        raise UnsupportedEvent("Gaussian noise has no finite epsilon at delta 0", hint="give a delta, such as 1e-9")
    return upper(CONTEXT.sqrt(2 * CONTEXT.log(real(Fraction(5, 4) / delta))) * real(sensitivity / epsilon))


def composed_mu_squared(sigmas: Sequence[Fraction], sensitivities: Sequence[Fraction]) -> Fraction:
    """The mu^2 of Gaussian draws together: the sum of (sensitivity / sigma)^2 (Dong, Roth and Su 2022, Cor. 3.3)."""
    pairs = zip(sigmas, sensitivities, strict=True)
    return sum(((Fraction(d) / Fraction(s)) ** 2 for s, d in pairs), Fraction(0))


def gaussian_sigma(sensitivity: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The smallest scale of Gaussian noise that is (epsilon, delta)-private, within 2^-50: Balle and Wang 2018.

    Raises:
        UnsupportedEvent: At delta 0.
    """
    if delta <= 0:
        raise UnsupportedEvent("Gaussian noise has no finite epsilon at delta 0", hint="give a delta, such as 1e-9")
    low, high = -200.0, 200.0  # binary logarithms of sigma / sensitivity
    while high - low > 1e-3:
        middle = (low + high) / 2
        enough = gaussian.delta(1 / Fraction(2.0**middle) ** 2, epsilon) <= delta
        low, high = (low, middle) if enough else (middle, high)
    small, large = Fraction(2.0**low), Fraction(2.0**high)
    for _ in range(41):
        middle_one = (small + large) / 2
        enough = gaussian.delta(1 / middle_one**2, epsilon) <= delta
        small, large = (small, middle_one) if enough else (middle_one, large)
    return sensitivity * large


def bun_steinke_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """``rho + 2 sqrt(rho ln(1/delta))``, rounded up (Bun and Steinke 2016, Proposition 1.3).

    Raises:
        PlanError: If delta is not above 0.
    """
    if delta <= 0:
        raise PlanError("this conversion needs a delta above 0", hint="write a delta such as 1e-9")
    gap = max(-CONTEXT.log(real(delta)), CONTEXT.mpf(0))
    return upper(real(rho) + 2 * CONTEXT.sqrt(real(rho) * gap))


def epsilon_to_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho whose ``rho_to_epsilon`` at this delta is at most epsilon, rounded down.

    Any order a proves the rho for which its bound is epsilon, ``(epsilon - ln(1 - 1/a) + (ln delta + ln a)/(a - 1))
    / a``. At the best one rho = -ln(a delta) / (a - 1)^2, and there epsilon falls with a: one root.

    Raises:
        PlanError: If delta is 1 or more: any rho would do.
    """
    if delta >= 1:
        raise PlanError("a delta is below 1", hint="write a delta such as 1e-9")
    if delta == 0:
        return Fraction(0)
    log_delta, target = log_of(delta), float(epsilon)

    def excess_epsilon(t: float) -> float:
        x = math.exp(t)
        gap = -(log_delta + math.log1p(x))
        return target - ((1 + x) * gap / x**2 + t - math.log1p(x) + gap / x)

    x = real(math.exp(_root(excess_epsilon)))
    a = 1 + x
    best = (real(epsilon) - CONTEXT.log(x / a) + CONTEXT.log(a * real(delta)) / x) / a
    rho = max(Fraction(0), upper(best) * (1 - Fraction(3, 10**29)))  # ``upper`` moves by at most 2e-29 relative
    # The conversion back finds its own order, not always this one to the last bit of a float.
    slack = Fraction(1, 10**16)
    while rho and rho_to_epsilon(rho, delta) > epsilon:
        rho, slack = rho * (1 - slack), slack * 4
    return rho


def _root(increasing: Callable[[float], float]) -> float:
    low, high = -40.0, 200.0
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return (low + high) / 2


def mironov_epsilon(curve: RenyiCurve, delta: Fraction) -> Fraction:
    """``R(a) + ln(1/delta) / (a - 1)`` at its best order, rounded up (Mironov 2017, Proposition 3).

    Never below ``renyi_epsilon``; many tools still print it.
    """
    log_delta = log_of(delta)
    points = np.linspace(-20.0, 40.0, 241)
    for _ in range(12):
        excess = np.exp(points)
        best = int(np.argmin(curve.quick(excess) - log_delta / excess))
        points = np.linspace(points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)], 33)
    at = float(np.exp(points[len(points) // 2]))
    return upper(curve.certified(at) - CONTEXT.log(real(delta)) / real(at))


def _at_order(curve: Curve, alpha: Number) -> Fraction:
    return upper(curve._exact(real(Fraction(alpha) - 1)))


def shifted_divergence(b: Number, sensitivity: Number, alpha: Number) -> Fraction:
    """Renyi divergence of continuous Laplace noise of scale b, rounded up (Mironov 2017, Proposition 6)."""
    return _at_order(Curve(laplace=((Fraction(sensitivity) / Fraction(b), Fraction(0), 1),)), alpha)


def response_divergence(p: Number, alpha: Number) -> Fraction:
    """Renyi divergence of telling the truth with probability p, rounded up (Mironov 2017, Proposition 5)."""
    e = upper(abs(CONTEXT.log(real(p) / (1 - real(p)))))
    return _at_order(Curve(laplace=((e, e, 1),)), alpha)


def range_divergence(epsilon: Number, alpha: Number) -> Fraction:
    """An upper bound on the Renyi divergence of an exponential mechanism of that range, rounded up."""
    return _at_order(Curve(ranges=((Fraction(epsilon), 1),)), alpha)


def noisy_max_rho(scale: Number, linf: Number, monotone: bool = False) -> Fraction:
    """The rho of reporting which of many scores is largest after Gumbel noise of that scale.

    It is an exponential mechanism of range 2 linf / scale, or linf / scale where one unit moves all scores the same
    way (Durfee and Rogers 2019), and a range of e is (e^2 / 8)-zCDP (Cesar and Rogers 2021).
    """
    epsilon = Fraction(linf) * (1 if monotone else 2) / Fraction(scale)
    return epsilon * epsilon / 8


def renyi_of_a_group(order: Fraction, epsilon: Fraction, doublings: int) -> tuple[Fraction, Fraction]:
    """Order and Renyi divergence of 2^c units: ``(order / 2^c, 3^c epsilon)`` (Mironov 2017, Proposition 2).

    Raises:
        PlanError: If the order is below 2^(c + 1), where the theorem says nothing.
    """
    if doublings < 0 or order < 2 ** (doublings + 1):
        raise PlanError(f"no Renyi bound for 2^{doublings} units at order {order}", hint="take a larger order")
    return order / 2**doublings, 3**doublings * epsilon


def linf_knorm_std(dimension: int, epsilon: float) -> float:
    """sqrt((k+1)(k+2)/3) / epsilon: continuous noise at gauge 1, the limit of the integer one at small epsilon.

    The radius is Gamma(k+1) with E[R^2] = (k+1)(k+2) / epsilon^2; a coordinate uniform on [-R, R] has R^2 / 3.
    """
    return math.sqrt((dimension + 1) * (dimension + 2) / 3) / epsilon


def count_knorm_std(dimension: int, epsilon: float) -> float:
    """sqrt((k+2)(k+3)/6) / epsilon: continuous noise at gauge 1, the limit of the integer one at small epsilon.

    The radius is Gamma(k+1) again; a coordinate of a uniform point of the ball has variance R^2 (k+3) / (6 (k+1)).
    """
    return math.sqrt((dimension + 2) * (dimension + 3) / 6) / epsilon
