"""Noise for k equal queries of sensitivity 1 under one budget, one function per method: a closed table.

Every figure comes from a public function of ``dprelease``. Rows that start with "L" draw Laplace noise of scale 1/e on
each query, e the largest epsilon per query that the method proves; rows with "G" draw Gaussian noise. A box is a query
that is read as "some (e, d)-differentially private mechanism"; how much of delta the boxes get and how much is left to
the composition is the best of ``SPLITS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.advanced import drv_epsilon
from dprelease.privacy.accountants.kov import kov_closed_epsilon
from dprelease.privacy.accountants.rdp import curve_of
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import largest_knob
from dprelease.privacy.event import Event, Gaussian, Laplace, Repeated, Sensitivity
from tests.reference_comparisons import (
    bun_steinke_epsilon,
    classic_sigma,
    count_knorm_std,
    epsilon_to_rho,
    gaussian_sigma,
    kov_epsilon,
    linf_knorm_std,
    mironov_epsilon,
)
from tests.reference_splits import elliptic_std
from tests.reference_textbook import textbook_epsilon

__all__ = ["EXACT", "JOINT", "METHODS", "SPLITS", "Method", "discrete_laplace", "largest", "textbook_truth"]

Method = Callable[[Fraction, Fraction, int], float | None]

SPLITS = tuple(Fraction(n, 100) for n in (1, 5, 10, 20, 30, 50, 70, 90, 95, 99))
"""The part of delta that the composition gets."""

_ONE = Sensitivity.of_one_cell(1)
_CLOSE = 1e-9


def largest(total: Callable[[Fraction], Fraction], limit: Fraction) -> Fraction:
    """The largest x with ``total(x) <= limit``, to a part in 10^9, itself checked; ``total`` must not fall.

    The secant rule on logarithms inside a bracket, halved where it does not settle: totals grow like a power of x.
    """
    low, high = Fraction(0), Fraction(0)
    low_gap = high_gap = math.nan
    knob, side = limit, 0
    for _ in range(200):
        found = total(knob)
        gap = math.log(found / limit) if found else -50.0
        if found <= limit:
            if side < 0 and high:
                high_gap /= 2  # Illinois: the same side twice
            low, low_gap, side = knob, gap, -1
        else:
            if side > 0 and low:
                low_gap /= 2
            high, high_gap, side = knob, gap, 1
        if low and high:
            if float(high / low) < 1 + _CLOSE:
                break
            width = math.log(high / low)
            part = min(max(low_gap / (low_gap - high_gap), _CLOSE / width / 4), 1 - _CLOSE / width / 4)
            knob = Fraction(float(low) * math.exp(width * part))
        else:
            knob = Fraction(float(knob) * math.exp(-min(max(gap, -3.0), 3.0) + (0.01 if gap <= 0 else -0.01)))
    return low


def _laplace(each: Fraction) -> float:
    return math.sqrt(2) / float(each)


def _of_pure(total: Callable[[Fraction, Fraction, int], Fraction]) -> Method:
    """Laplace noise under ``total(e, delta, k)``, the epsilon of k draws that are e-differentially private."""
    return lambda epsilon, delta, k: _laplace(largest(lambda e: total(e, delta, k), epsilon))


def _laplaces(each: Fraction, k: int) -> Event:
    return Repeated(event=Laplace(scale=1 / each, sensitivity=_ONE), count=k)


def _gaussians(mu: Fraction, k: int) -> Event:
    return Repeated(event=Gaussian(scale=1 / mu, sensitivity=_ONE), count=k)


def _laplace_by(accountant: str) -> Method:
    return lambda epsilon, delta, k: _laplace(
        largest_knob(lambda e: _laplaces(e, k), accountant, Budget(epsilon=epsilon, delta=delta))
    )


def _gaussian_by(accountant: str) -> Method:
    return lambda epsilon, delta, k: (
        1 / float(largest_knob(lambda mu: _gaussians(mu, k), accountant, Budget(epsilon=epsilon, delta=delta)))
    )


def _textbook_each(epsilon: Fraction, slack: Fraction, k: int) -> Fraction | None:
    """The closed inverse of ``textbook_epsilon``, a multiple of its argument; None where the form is not proved."""
    tiny = Fraction(1, 10**9)
    each = epsilon / (textbook_epsilon(tiny, k, slack) / tiny)
    try:
        textbook_epsilon(each, k, slack)
    except UnsupportedEvent:
        return None
    return each


def _laplace_textbook(epsilon: Fraction, delta: Fraction, k: int) -> float | None:
    each = _textbook_each(epsilon, delta, k)
    return None if each is None else _laplace(each)


def textbook_truth(epsilon: Fraction, delta: Fraction, k: int) -> float | None:
    """What k draws really cost, at the epsilon per draw at which the textbook form claims ``epsilon``."""
    each = _textbook_each(epsilon, delta, k)
    return None if each is None else float(kov_epsilon(each, Fraction(0), k, delta))


def _mironov(each: Fraction, delta: Fraction, k: int) -> Fraction:
    return min(k * each, mironov_epsilon(curve_of(_laplaces(each, k)), delta))


def _rho_bun_steinke(epsilon: Fraction, delta: Fraction) -> Fraction:
    return largest(lambda rho: bun_steinke_epsilon(rho, delta), epsilon)


def _gaussian_mironov(epsilon: Fraction, delta: Fraction, k: int) -> float:
    return 1 / float(largest(lambda mu: mironov_epsilon(curve_of(_gaussians(mu, k)), delta), epsilon))


def _classic(epsilon: Fraction, delta: Fraction, k: int) -> float | None:
    try:
        return float(classic_sigma(epsilon / k, delta / k, Fraction(1)))
    except UnsupportedEvent:
        return None


def _sigma(epsilon: Fraction, delta: Fraction) -> float:
    return float(gaussian_sigma(Fraction(1), epsilon, delta))


def _boxes(each: Callable[[Fraction, Fraction, Fraction, int], Fraction | None], plain: bool) -> Method:
    """Gaussian noise on boxes: the best split of delta.

    Args:
        each: Epsilon per box, of (epsilon, slack of the composition, delta per box, k).
        plain: Whether the method includes one box alone, which needs no composition.
    """

    def method(epsilon: Fraction, delta: Fraction, k: int) -> float | None:
        if plain and k == 1:
            return _sigma(epsilon, delta)
        found = []
        for split in SPLITS:
            own = (1 - split) * delta / k
            one = each(epsilon, split * delta, own, k)
            found += [] if one is None else [_sigma(one, own)]
        return min(found, default=None)

    return method


def _drv_each(epsilon: Fraction, slack: Fraction, own: Fraction, k: int) -> Fraction:
    return largest(lambda e: drv_epsilon({e: k}, slack), epsilon)


def _kov_each(epsilon: Fraction, slack: Fraction, own: Fraction, k: int) -> Fraction:
    return largest(lambda e: kov_epsilon(e, own, k, slack + k * own), epsilon)


METHODS: dict[str, Method] = {
    "L basic": lambda epsilon, delta, k: _laplace(epsilon / k),
    "L adv textbook (8k)": _laplace_textbook,
    "L DRV": _of_pure(lambda e, delta, k: drv_epsilon({e: k}, delta)),
    "L KOV closed (Thm3.5)": _of_pure(lambda e, delta, k: kov_closed_epsilon({e: k}, delta)),
    "L KOV optimal": _of_pure(lambda e, delta, k: kov_epsilon(e, Fraction(0), k, delta)),
    "L zCDP BS": lambda epsilon, delta, k: math.sqrt(k / _rho_bun_steinke(epsilon, delta)),
    "L zCDP CKS": lambda epsilon, delta, k: math.sqrt(k / epsilon_to_rho(epsilon, delta)),
    "L RDP Mironov": _of_pure(_mironov),
    "L RDP CKS": _laplace_by("rdp"),
    "L PLD": _laplace_by("pld"),
    "G basic+classic": _classic,
    "G basic+analytic": lambda epsilon, delta, k: _sigma(epsilon / k, delta / k),
    "G adv textbook(8k)": _boxes(lambda epsilon, slack, own, k: _textbook_each(epsilon, slack, k), plain=False),
    "G DRV": _boxes(_drv_each, plain=True),
    "G KOV optimal": _boxes(_kov_each, plain=True),
    "G zCDP BS": lambda epsilon, delta, k: math.sqrt(k / (2 * _rho_bun_steinke(epsilon, delta))),
    "G zCDP CKS": lambda epsilon, delta, k: math.sqrt(k / (2 * epsilon_to_rho(epsilon, delta))),
    "G RDP Mironov": _gaussian_mironov,
    "G RDP CKS": _gaussian_by("rdp"),
    "G exact (analytic)": lambda epsilon, delta, k: math.sqrt(k) * _sigma(epsilon, delta),
    "K-norm Linf pure": lambda epsilon, delta, k: linf_knorm_std(k, float(epsilon)),
}
"""Standard deviation of one query's noise, of (epsilon, delta, k); None where the formula is not proved."""

JOINT: dict[str, Method] = {
    "Laplace eps/k": METHODS["L basic"],
    "K-norm Linf": METHODS["K-norm Linf pure"],
    "K-norm Count": lambda epsilon, delta, k: count_knorm_std(k, float(epsilon)),
    "Gaussian iid": METHODS["G exact (analytic)"],
    "Gaussian elliptic": lambda epsilon, delta, k: elliptic_std(k, 1 / _sigma(epsilon, delta)),
}
"""The same for k counts of the same rows, some of them drawn together."""

EXACT = frozenset({"L basic", "L KOV optimal", "L PLD", "G exact (analytic)", "K-norm Linf pure", *JOINT})
"""Methods that lose nothing: their figures are facts about the noise, and not about a proof of it."""


def discrete_laplace(epsilon: Fraction, delta: Fraction, k: int) -> float:
    """Integer Laplace noise under the exact composition: sqrt(2 q) / (1 - q) with q = exp(-e)."""
    each = float(largest(lambda e: kov_epsilon(e, Fraction(0), k, delta), epsilon))
    return math.sqrt(2 * math.exp(-each)) / -math.expm1(-each)
