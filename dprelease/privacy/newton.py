"""Polynomials by their forward differences: exact whole numbers, and sums over all whole numbers without truncation.

By Newton's formula p(i) is the sum of d_j C(i, j) with the forward differences d_j of p at 0, and the sum over i of
C(i, j) q^i is q^j / (1 - q)^(j + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from mpmath.libmp import from_int, fzero, mpf_add, mpf_mul, mpf_mul_int

from dprelease.privacy.rounding import CONTEXT

__all__ = ["exact_reals", "forward_differences", "horner", "polynomial_series"]


def forward_differences(values: Sequence[int]) -> list[int]:
    """The forward differences of a sequence at its start: as many as there are values.

    Nothing is remembered, for a sampler asks with numbers that hang on its noise.
    """
    left, found = list(values), []
    while left:
        found.append(left[0])
        left = [after - before for before, after in pairwise(left)]
    return found


@lru_cache(maxsize=64)
def _remembered(values: tuple[int, ...]) -> list[int]:
    """The same of a law: a search for a scale asks for the same ones every time, and of 240 counts they are large."""
    return forward_differences(values)


def exact_reals(terms: Sequence[int]) -> list[Any]:
    """Whole numbers of any length as reals, with all their digits: made once, where they are added again and again."""
    return [CONTEXT.make_mpf(from_int(term)) for term in terms]


def horner(terms: Sequence[Any], x: Any) -> Any:
    """The sum of terms[i] x^i, in 60 digits; of whole numbers, or of :func:`exact_reals` of them."""
    total, at, digits = fzero, CONTEXT.convert(x)._mpf_, CONTEXT.prec
    for term in reversed(terms):
        total = mpf_add(mpf_mul(total, at, digits, "n"), _exactly(term), digits, "n")
    return CONTEXT.make_mpf(total)


def _exactly(term: Any) -> Any:
    return from_int(term) if isinstance(term, int) else term._mpf_


def polynomial_series(values: Sequence[int], rate: Any) -> Any:
    """The sum over i >= 0 of p(i) exp(-rate i), for a polynomial p of which as many values are given as it needs.

    With q = exp(-rate) it is the finite sum d_0 / (1-q) + d_1 q / (1-q)^2 + ... Where none of the differences is
    negative, small sums keep all their digits: nothing is cut off, and nothing cancels.

    Args:
        values: p(0), ..., p(degree).
        rate: A positive 60-digit real.
    """
    q, miss = CONTEXT.exp(-rate), -CONTEXT.expm1(-rate)
    # What the operators of these reals do, without an object for each: 240 counts have as many terms.
    factor, total, ratio = (1 / miss)._mpf_, fzero, (q / miss)._mpf_
    digits = CONTEXT.prec
    for difference in _remembered(tuple(values)):
        total = mpf_add(total, mpf_mul_int(factor, difference, digits, "n"), digits, "n")
        factor = mpf_mul(factor, ratio, digits, "n")
    return CONTEXT.make_mpf(total)
