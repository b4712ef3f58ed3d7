"""Secret bits from counts of subsets: least squares, and all candidates that answers about every subset leave.

Dinur and Nissim, "Revealing information while preserving privacy" (PODS 2003): Theorems 3 (all subsets) and 5 (random
subsets). The solver here is least squares in place of the paper's linear programme, as in Dwork and Yekhanin (2008).
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.attacks.base import Bits, Floats, normal_share

__all__ = [
    "bits_by_least_squares",
    "bits_by_shrinking",
    "consistent_candidates",
    "every_subset",
    "expected_share",
    "random_subsets",
    "worst_answers",
]


def every_subset(people: int) -> Bits:
    """All subsets of so many people, one row each: shape (2^people, people)."""
    return np.arange(2**people)[:, None] >> np.arange(people) & 1


def worst_answers(subsets: Bits, bits: Bits, error: int) -> Floats:
    """Answers within ``error`` of the truth that leave 4 ``error`` bits open, for 2 ``error`` ones and zeros or more.

    Half way between the truth and the truth with 2 ``error`` ones and as many zeros exchanged: no subset's count moves
    by more than 2 ``error`` between the two.
    """
    other = bits.copy()
    for value in (0, 1):
        other[np.flatnonzero(bits == value)[: 2 * error]] = 1 - value
    return (subsets @ bits + subsets @ other) / 2


def consistent_candidates(subsets: Bits, answers: Floats, error: int) -> Bits:
    """Every vector of bits whose counts are within ``error`` of the answers about all subsets, one row each.

    By Dinur and Nissim's Theorem 3 each is wrong in at most 4 ``error`` bits where the answers are within ``error`` of
    the truth: among the people who are 1 in one of the two and 0 in the other the counts differ by at most 2 ``error``.
    """
    apart = np.abs((subsets @ subsets.T) - answers[:, None]).max(axis=0)
    candidates: Bits = subsets[apart <= error]
    return candidates


def random_subsets(source: np.random.Generator, count: int, people: int) -> Floats:
    """So many subsets in which each person is with probability 1/2: zeros and ones, shape (count, people)."""
    return source.integers(0, 2, (count, people)).astype(float)


def bits_by_least_squares(subsets: Floats, answers: Floats) -> Bits:
    """The numbers that explain the answers best, rounded at 1/2 to bits; answers that are NaN are suppressed.

    Raises:
        ValueError: There are fewer answers than people, so that several vectors explain them.
    """
    shown = np.isfinite(answers)
    kept = subsets[shown]
    if len(kept) < subsets.shape[1]:
        raise ValueError(f"{len(kept)} answers cannot determine {subsets.shape[1]} bits")
    return (np.linalg.solve(kept.T @ kept, kept.T @ answers[shown]) > 0.5).astype(np.int64)


def bits_by_shrinking(subsets: Floats, answers: Floats, standard_error: float) -> Bits:
    """The most likely bits where the error is normal and known, as it is of a release, and fair bits are expected.

    Ridge regression about 1/2: a bit has a prior variance of 1/4, an answer one of ``standard_error`` squared.
    """
    apart = answers - subsets.sum(axis=1) / 2
    within = subsets.T @ subsets + 4 * standard_error**2 * np.eye(subsets.shape[1])
    return (np.linalg.solve(within, subsets.T @ apart) > 0).astype(np.int64)


def expected_share(factor: float, error: float) -> float:
    """The share of bits that least squares gets right, from ``factor`` n counts with an error of ``error`` sqrt n.

    The estimate of a bit is off by a normal error of variance 4 sigma^2 / (m - n) for m counts about n people with
    standard deviation sigma (the inverse of a Wishart matrix of fair +-1/2 entries); it is right where that is below
    1/2: Phi(sqrt(factor - 1) / (4 error)), whatever n is. The tests hold it against what comes out.
    """
    return normal_share(math.sqrt(factor - 1) / (4 * error))
