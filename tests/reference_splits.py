"""How to divide one budget among several queries so that the error is least: closed forms.

Each is the one stationary point of a convex problem: in the shares of the budget (``x = D^2 / sigma^2`` or
``x = epsilon_i``) the budget is linear and every error below is convex and falls, so that the point where the
gradient of the error is a multiple of the gradient of the budget (Lagrange) is the minimum. With bounds the same
holds between them and a bound binds outside (Karush, Kuhn and Tucker).

These are floats (``blocks`` alone is exact): they propose scales. What a plan claims is computed afterwards, by an
accountant, from the scales as rounded; a last digit lost here can only lose accuracy.

Throughout, ``D`` are sensitivities (L2 for Gaussian noise, L1 for Laplace), ``w`` weights of one query's error (times
its number of cells, where the cells' errors are summed), ``mu`` the Gaussian budget: ``sum D^2 / sigma^2 = mu^2``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from dprelease.errors import PlanError

__all__ = [
    "MomentNoise",
    "elliptic_std",
    "elliptic_variances",
    "gaussian_clipped",
    "gaussian_minimax",
    "gaussian_weighted",
    "laplace_weighted_absolute",
    "laplace_weighted_variance",
    "moments",
    "smallest_mu",
]

Floats = tuple[float, ...]


def gaussian_weighted(D: Sequence[float], w: Sequence[float], mu: float) -> Floats:  # noqa: N803 - as in the formula
    """Noise with the least weighted squared error: minimise ``sum w sigma^2`` at ``sum D^2 / sigma^2 = mu^2``.

    Lagrange, in ``v = sigma^2``: ``w = theta D^2 / v^2``, so ``v = sqrt(theta) D / sqrt(w)``; the budget gives
    ``sqrt(theta) = sum_j D_j sqrt(w_j) / mu^2``. Optimum ``(sum D sqrt(w))^2 / mu^2``; query i gets the share
    ``D_i sqrt(w_i) / sum`` of mu^2.

    Args:
        D: L2 sensitivities, above 0.
        w: Weights, above 0, as many.
        mu: The Gaussian budget, above 0.

    Returns:
        The standard deviations, one per query, in the units of D.

    Raises:
        ValueError: If an argument is not above 0 and finite, or the lengths differ.
    """
    _paired(D, w)
    _positive(mu)
    total = math.fsum(d * math.sqrt(u) for d, u in zip(D, w, strict=True))
    return tuple(math.sqrt(d / math.sqrt(u) * total) / mu for d, u in zip(D, w, strict=True))


def laplace_weighted_variance(D: Sequence[float], w: Sequence[float], epsilon: float) -> Floats:  # noqa: N803 - as in the formula
    """Budgets with the least weighted squared error: minimise ``sum w 2 (D / e)^2`` at ``sum e = epsilon``.

    Lagrange: ``4 w D^2 / e^3 = theta``, so e is proportional to ``(w D^2)^(1/3)`` (the cube-root rule). Optimum
    ``2 (sum (w D^2)^(1/3))^3 / epsilon^2``. Query i gets noise of scale ``D_i / e_i``.

    Args:
        D: L1 sensitivities, above 0.
        w: Weights, above 0, as many.
        epsilon: The pure budget, above 0.

    Returns:
        The epsilons, one per query; they add up to ``epsilon``.

    Raises:
        ValueError: If an argument is not above 0 and finite, or the lengths differ.
    """
    _paired(D, w)
    _positive(epsilon)
    return _proportional([(u * d * d) ** (1 / 3) for d, u in zip(D, w, strict=True)], epsilon)


def laplace_weighted_absolute(D: Sequence[float], w: Sequence[float], epsilon: float) -> Floats:  # noqa: N803 - as in the formula
    """Budgets with the least weighted mean absolute error: minimise ``sum w D / e`` at ``sum e = epsilon``.

    Lagrange: ``w D / e^2 = theta``, so e is proportional to ``sqrt(w D)``. Optimum ``(sum sqrt(w D))^2 / epsilon``.

    Args:
        D: L1 sensitivities, above 0.
        w: Weights, above 0, as many.
        epsilon: The pure budget, above 0.

    Returns:
        The epsilons, one per query; they add up to ``epsilon``.

    Raises:
        ValueError: If an argument is not above 0 and finite, or the lengths differ.
    """
    _paired(D, w)
    _positive(epsilon)
    return _proportional([math.sqrt(u * d) for d, u in zip(D, w, strict=True)], epsilon)


def gaussian_minimax(D: Sequence[float], t: Sequence[float], mu: float) -> Floats:  # noqa: N803 - as in the formula
    """Noise with the least largest ratio to its target: minimise ``max sigma / t`` at ``sum D^2 / sigma^2 = mu^2``.

    With the largest ratio c, ``sigma <= c t`` for all, and more noise saves budget, so all are equal: ``sigma = c t``;
    the budget gives ``c = sqrt(sum D^2 / t^2) / mu``.

    Args:
        D: L2 sensitivities, above 0.
        t: Target standard deviations, above 0, as many (a margin of error divided by its normal quantile).
        mu: The Gaussian budget, above 0.

    Returns:
        The standard deviations, one per query.

    Raises:
        ValueError: If an argument is not above 0 and finite, or the lengths differ.
    """
    _positive(mu)
    worst = smallest_mu(D, t) / mu
    return tuple(worst * target for target in t)


def smallest_mu(D: Sequence[float], t: Sequence[float]) -> float:  # noqa: N803 - as in the formula
    """The smallest Gaussian budget with which every query meets its target: ``sqrt(sum D^2 / t^2)``.

    The cost of a query falls with its noise, so that the noise is at the target everywhere. The epsilon at some delta
    follows from the analytic Gaussian of this mu; both are monotone, so it is the smallest as well.

    Args:
        D: L2 sensitivities, above 0.
        t: Target standard deviations, above 0, as many.

    Raises:
        ValueError: If an argument is not above 0 and finite, or the lengths differ.
    """
    _paired(D, t)
    return math.hypot(*(d / target for d, target in zip(D, t, strict=True)))


def gaussian_clipped(
    D: Sequence[float],  # noqa: N803 - as in the formula
    w: Sequence[float],
    mu: float,
    floors: Sequence[float],
    caps: Sequence[float],
) -> Floats:
    """As :func:`gaussian_weighted`, with every standard deviation between its floor and its cap.

    Karush-Kuhn-Tucker: ``sigma = clip(sqrt(theta D / sqrt(w)), floor, cap)`` with one theta. The cost falls in theta.
    Between two neighbouring values of theta at which some query reaches a bound it is ``fixed + free / theta``:
    bisection over these values finds the interval, and the root in it is exact. Equal floor and cap fix a query.

    Args:
        D: L2 sensitivities, above 0.
        w: Weights, above 0, as many.
        mu: The Gaussian budget, above 0.
        floors: Least standard deviations; 0 where there is none.
        caps: Largest standard deviations; ``math.inf`` where there is none.

    Returns:
        The standard deviations. Where all floors together cost no more than mu, they are the floors, and budget is
        left.

    Raises:
        PlanError: DPR-P103, if even all caps together cost more than mu; says which mu they need.
        ValueError: If D, w or mu is not above 0 and finite, a floor is not in [0, cap], or the lengths differ.
    """
    _paired(D, w)
    _positive(mu)
    if not (len(D) == len(floors) == len(caps)) or not all(
        0 <= low <= high and high > 0 and math.isfinite(low) for low, high in zip(floors, caps, strict=True)
    ):
        raise ValueError("every query has a floor of at least 0 and a cap that is not below it")
    needed = math.sqrt(_cost(D, caps))
    if needed >= mu and all(map(math.isfinite, caps)) and needed <= mu * (1 + 1e-12):
        return tuple(caps)  # the caps use the budget up, but for a last digit
    if needed >= mu:
        raise PlanError(
            f"the largest noise allowed already needs a Gaussian budget of mu = {needed:.6g}; there is {mu:.6g}",
            hint=f"raise the budget to mu = {needed:.6g} (rho = {needed * needed / 2:.6g}), or allow margins "
            f"{needed / mu:.4g} times as large",
            code="DPR-P103",
        )
    theta = _theta(D, w, mu, floors, caps)
    return tuple(
        min(max(math.sqrt(theta * d / math.sqrt(u)), low), high)
        for d, u, low, high in zip(D, w, floors, caps, strict=True)
    )


def elliptic_variances(k: int, mu: float) -> tuple[float, float]:
    """Noise for k counts of the same rows, measured as their total and k centred counts.

    A row adds 1 to the total ``x_0`` and 0 or 1 to each count ``x_i``, so every ``2 x_i - x_0`` moves by exactly 1, up
    or down, whatever the row: the budget spent is ``1 / s0^2 + k / s1^2`` for every row. The estimate
    ``x_i = (w_i + w_0) / 2`` is unbiased with variance ``(s0^2 + s1^2) / 4``. That is :func:`gaussian_weighted` with D
    = (1, sqrt(k)) and equal weights: ``s0^2 = (1 + sqrt k) / mu^2``, ``s1^2 = sqrt(k) (1 + sqrt k) / mu^2``.

    Args:
        k: The number of counts, at least 1.
        mu: The Gaussian budget, above 0.

    Returns:
        The variances of the total's noise and of each centred count's.

    Raises:
        ValueError: If an argument is outside its bounds.

    Source:
        Joseph and Yu, COLT 2024; Lebeda, SOSA 2025 (arXiv 2408.06853): the same covariance.
    """
    _positive(k, mu)
    total, centred = gaussian_weighted((1.0, math.sqrt(k)), (1.0, 1.0), mu)
    return total * total, centred * centred


def elliptic_std(k: int, mu: float) -> float:
    """The standard deviation of each of k counts of the same rows: ``(1 + sqrt k) / (2 mu)``.

    Independent noise needs ``sqrt(k) / mu``. See :func:`elliptic_variances` for the derivation.

    Args:
        k: The number of counts, at least 1.
        mu: The Gaussian budget, above 0.

    Raises:
        ValueError: If an argument is outside its bounds.
    """
    _positive(k, mu)
    return (1 + math.sqrt(k)) / (2 * mu)


@dataclass(frozen=True)
class MomentNoise:
    """Standard deviations of the noise on count, centred sum and centred sum of squares.

    A value v of [L, U] enters as ``x = (v - middle) / half`` in [-1, 1]. ``count`` sums 1, ``total`` sums x and
    ``squares`` sums ``x^2 - 1/2``; sensitivities 1, 1 and 1/2, all three reached by one row at a bound, so that the
    budget spent is exactly ``1 / count^2 + 1 / total^2 + 1 / (4 squares^2)``.

    Attributes:
        count: Noise of the number of values.
        total: Noise of the sum of x.
        squares: Noise of the sum of ``x^2 - 1/2``; ``math.inf`` where it is not measured.
    """

    count: float
    total: float
    squares: float

    def mean_std(self, mean: float) -> float:
        """Standard deviation of ``n`` times the estimated mean of x, to first order in noise / n.

        ``S / N`` moves by ``(dS - mean dN) / n``.

        Args:
            mean: Of x, in [-1, 1].
        """
        return math.hypot(self.total, mean * self.count)

    def variance_std(self, mean: float, variance: float) -> float:
        """Standard deviation of ``n`` times the estimated variance of x, to first order in noise / n.

        ``Q / N + 1/2 - (S / N)^2`` moves by ``(dQ - 2 mean dS + (mean^2 - variance + 1/2) dN) / n``.

        Args:
            mean: Of x, in [-1, 1].
            variance: Of x, in [0, 1 - mean^2].
        """
        return math.hypot(self.squares, 2 * mean * self.total, (mean * mean - variance + 0.5) * self.count)


def moments(mu: float, mean: float = 1.0, variance: float = 0.0) -> MomentNoise:
    """One split of a Gaussian budget for mean and variance of one column, least in the worst case.

    Minimises ``mean * Var(n mean) + variance * Var(n variance)`` for the worst distribution on [-1, 1]. For any noise
    each coefficient of :class:`MomentNoise` is largest where all values are at one bound (mean +-1, variance 0): the
    squares there are (1, 1, 0) for the mean and (9/4, 4, 1) for the variance. So the worst case is
    :func:`gaussian_weighted` with D = (1, 1, 1/2) and ``w = mean (1, 1, 0) + variance (9/4, 4, 1)``: 50/50 for the
    mean alone (worst n std 2 / mu), 3/8, 1/2, 1/8 of mu^2 for the variance alone (worst n std 4 / mu).

    Subtracting 1/2 from the square halves its sensitivity. Any constant from 0 to 1/2 has the same worst case; 1/2 has
    the least noise, and so the least error away from it.

    Args:
        mu: The Gaussian budget, above 0.
        mean: Weight of the mean's squared error, at least 0.
        variance: Weight of the variance's squared error, at least 0; with 0, squares are not measured.

    Returns:
        The noise of the three measurements, in units of x.

    Raises:
        ValueError: If mu is not above 0, or no weight is, or one is negative.
    """
    _positive(mu)
    if min(mean, variance) < 0 or not 0 < mean + variance < math.inf:
        raise ValueError("the weights of mean and variance are at least 0, and one is above 0")
    weights = (mean + 2.25 * variance, mean + 4 * variance, variance)
    used = 3 if variance else 2
    count, total, *squares = gaussian_weighted((1.0, 1.0, 0.5)[:used], weights[:used], mu)
    return MomentNoise(count, total, squares[0] if squares else math.inf)


def _positive(*values: float) -> None:
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError("sensitivities, weights, targets, costs and budgets are above 0 and finite")


def _paired(first: Sequence[float], second: Sequence[float]) -> None:
    _positive(*first, *second)
    if len(first) != len(second) or len(first) == 0:
        raise ValueError("there are as many weights or targets as sensitivities, and at least one")


def _proportional(parts: Sequence[float], total: float) -> Floats:
    whole = math.fsum(parts)
    return tuple(total * part / whole for part in parts)


def _cost(D: Sequence[float], sigmas: Sequence[float]) -> float:  # noqa: N803 - as in the formula
    return math.fsum((d / sigma) ** 2 if sigma else math.inf for d, sigma in zip(D, sigmas, strict=True))


def _theta(
    D: Sequence[float],  # noqa: N803 - as in the formula
    w: Sequence[float],
    mu: float,
    floors: Sequence[float],
    caps: Sequence[float],
) -> float:
    """The theta at which the clipped noise costs mu^2; 0 where the floors cost no more. The caps cost less."""
    slopes = [d / math.sqrt(u) for d, u in zip(D, w, strict=True)]
    bounds = [(low * low / a, high * high / a) for a, low, high in zip(slopes, floors, caps, strict=True)]

    def saved(theta: float) -> float:
        clipped = [math.sqrt(min(max(theta, low), high) * a) for a, (low, high) in zip(slopes, bounds, strict=True)]
        return -_cost(D, clipped)

    turns = sorted({theta for pair in bounds for theta in pair if math.isfinite(theta)} | {0.0})
    after = bisect_left(turns, -mu * mu, key=saved)
    if after == 0:
        return 0.0
    low = turns[after - 1]
    free = [i for i, (first, last) in enumerate(bounds) if first <= low < last]
    fixed = [
        (D[i], math.sqrt(slopes[i] * (first if low < first else last)))
        for i, (first, last) in enumerate(bounds)
        if not first <= low < last
    ]
    left = mu * mu - _cost([d for d, _ in fixed], [sigma for _, sigma in fixed])
    return math.fsum(D[i] * math.sqrt(w[i]) for i in free) / left
