"""What so many runs prove: ends of a probability that hold with a stated confidence, and the loss that they need.

Clopper and Pearson (1934): with ``hits`` of ``runs`` the lower end is the p at which so many or more have probability
``miss``, the upper one the p at which so many or fewer have. From an event with probability at least p on one data set
and at most q on its neighbour follows epsilon >= ln((p - delta) / q) (Dwork and Roth 2014, definition 2.4), and, if the
loss is that of a Gaussian, mu >= Phi^-1(p) - Phi^-1(q) (Dong, Roth and Su 2022, definition 2.6).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

__all__ = [
    "epsilon_of_event",
    "epsilon_of_guesses",
    "epsilon_of_mu",
    "least_probability",
    "most_probability",
    "mu_of_event",
]

_NORMAL = NormalDist()
_HALVINGS = 60
_STEPS = 400
_HAIR = 1e-9  # of rounding
_FAR = 25  # deviations, at least twice so many as there are


def least_probability(hits: int, runs: int, miss: float) -> float:
    """The probability of a hit is above it, but for a chance of ``miss``.

    >>> round(least_probability(10, 10, 0.025), 4)  # 0.025 ** (1 / 10)
    0.6915
    """
    if not hits:
        return 0.0
    low, high = 0.0, hits / runs
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(hits, runs, middle) <= miss else (low, middle)
    return low


def most_probability(hits: int, runs: int, miss: float) -> float:
    """The probability of a hit is below it, but for a chance of ``miss``."""
    return 1.0 - least_probability(runs - hits, runs, miss)


def epsilon_of_event(above: float, below: float, delta: float) -> float:
    """The epsilon that an event needs, of probability ``above`` or more here and ``below`` or less on the neighbour."""
    return max(0.0, math.log((above - delta) / below)) if above > delta and below > 0 else 0.0


def mu_of_event(above: float, below: float) -> float:
    """The mu that it needs, if the loss is that of a Gaussian; 0 where nothing is proved."""
    if not (above > 0 and below < 1):
        return 0.0
    ends = (_NORMAL.inv_cdf(min(above, 1 - 1e-15)), _NORMAL.inv_cdf(max(below, 1e-300)))
    return max(0.0, ends[0] - ends[1])


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon at which mu-Gaussian differential privacy has this delta, rounded down (Balle and Wang 2018, eq. 6).

    >>> round(epsilon_of_mu(0.237, 1e-6), 2)
    1.0
    """
    low, high = 0.0, 700.0
    if mu <= 0 or delta <= 0 or _delta_of(mu, low) <= delta:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta_of(mu, middle) > delta else (low, middle)
    return low


def epsilon_of_guesses(right: int, guesses: int, canaries: int, delta: float, miss: float) -> float:
    """The epsilon that right guesses prove of whole releases with many canaries, each in by a fair coin.

    With p = e^epsilon / (1 + e^epsilon) and B binomial of that many guesses, a mechanism that keeps (epsilon, delta)
    has so many right ones with probability P(B >= right) + 2 canaries delta max_i P(right > B >= right - i) / i at
    most, whatever its answers have to do with one another (Steinke, Nasr and Jagielski 2023, Theorem 5.2). What is
    returned is below the first epsilon at which that exceeds ``miss``.

    >>> round(epsilon_of_guesses(1100, 1400, 1400, 0.0, 0.05), 2), epsilon_of_guesses(700, 1400, 1400, 0.0, 0.05)
    (1.19, 0.0)

    Args:
        right: Guesses that were right.
        guesses: How many were made; which canaries are guessed at may depend on the answers.
        canaries: How many could have been guessed at.
        delta: Of the claim.
        miss: The chance that more is returned than is true.
    """
    if 2 * right <= guesses:
        return 0.0
    most = math.log(right / (guesses - right)) if right < guesses else 20.0
    last = 0.0
    for step in range(_STEPS):  # upward, for nobody has proved that the bound only rises
        if _chance_of_guesses(right, guesses, canaries, delta, most * step / _STEPS) > miss:
            break
        last = most * step / _STEPS
    return last


def _chance_of_guesses(right: int, guesses: int, canaries: int, delta: float, epsilon: float) -> float:
    p = 1 / (1 + math.exp(-epsilon))
    known, counts = _log_factorials(guesses), np.arange(right)
    logs = known[guesses] - known[counts] - known[guesses - counts]
    below = np.exp(logs + counts * math.log(p) + (guesses - counts) * math.log1p(-p))[::-1]
    windows = np.cumsum(below) / np.arange(1, right + 1)
    beside = 2 * canaries * delta * float(windows.max(initial=0.0)) * (1 + _HAIR)
    return _tail(right, guesses, p) + beside


def _delta_of(mu: float, epsilon: float) -> float:
    first, second = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return 0.5 * math.erfc(first / math.sqrt(2)) - 0.5 * math.exp(epsilon) * math.erfc(second / math.sqrt(2))


def _tail(hits: int, runs: int, p: float) -> float:
    """P(at least so many of so many), of independent ones with probability p below hits / runs, rounded up.

    The probabilities fall from ``hits`` on. Far beyond it each is taken to be the last one that was worked out.
    """
    if not 0 < p < 1:
        return float(p >= 1)
    last = min(runs, hits + _FAR + int(_FAR * math.sqrt(runs)))
    counts = np.arange(hits, last + 1)
    known = _log_factorials(runs)
    logs = known[runs] - known[counts] - known[runs - counts] + counts * math.log(p) + (runs - counts) * math.log1p(-p)
    top = float(logs.max())
    total = float(np.exp(logs - top).sum()) + (runs - last) * math.exp(float(logs[-1]) - top)
    return math.exp(min(0.0, top + math.log(total)))


@lru_cache(maxsize=4)
def _log_factorials(most: int) -> npt.NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
