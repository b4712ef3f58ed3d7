"""The privacy loss of one total-and-residual draw: exactly four outcomes, and randomized responses that make them up.

Where one row comes or goes, the residual norm max |2 z - m| moves by one up or down, and |m| too: with e1 and e0 the
rates of the two, the loss is X e1 + Y e0 for signs X and Y, the same for every row. Under both data sets X Y = 1 has
one probability a. So the pair is, with probability a, randomized response of epsilon e1 + e0, and else of |e1 - e0|;
the first of them dominates the second, so that a larger a never costs less. With q = exp(-e1), s = exp(-e0),

    a / (1 - a) = (1 + q s) / (q + s) * (1 + c) / (1 - c),
    c = tanh(e0 / 2) tanh(e1 / 2)^k A_k(-q) / A_k(q),

A_k the Eulerian polynomial. At c = 0 the pair is that of two independent randomized responses of e1 and e0. Where c is
negative, 0 is taken. Where a row is replaced, it goes and comes in two cells, which are two such pairs, or it moves
the residuals of one cell by two and the total not at all, which is randomized response of 2 e1 at most. Proofs:
docs/proofs/total-residual.md. Where more rows change, the draw is taken for randomized response of its epsilon.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dprelease.privacy.event import TotalResidual
from dprelease.privacy.newton import exact_reals
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.theorems.inverse import as_delta

__all__ = [
    "ResponsePair",
    "replaced_ways",
    "response_pair",
    "total_residual_delta",
    "total_residual_guess",
    "total_residual_pure",
    "total_residual_rho",
]

_PAD = CONTEXT.mpf(10) ** -40  # far above the rounding of A_k(-q) / A_k(q) in 60 digits, which is at most 1 in size


class ResponsePair(NamedTuple):
    """Randomized response of ``large`` with probability ``alike``, else of ``small``.

    Attributes:
        large: The larger epsilon, which is that of the draw.
        small: The smaller one, 0 or more.
        alike: At least the probability of the larger one, at most 1.
    """

    large: Fraction
    small: Fraction
    alike: Fraction


def total_residual_pure(draw: TotalResidual) -> Fraction:
    """The epsilon of the draw at delta 0: every row has norm 1, and norms add up."""
    return draw.rows / draw.scale


@lru_cache(maxsize=1 << 12)
def response_pair(draw: TotalResidual) -> ResponsePair:
    """The pair of responses that dominates a draw: its own where one row changes and c is not negative."""
    large = total_residual_pure(draw)
    if draw.replaced:
        return _either_way(*replaced_ways(draw))
    if draw.rows != 1:
        return ResponsePair(large, Fraction(0), Fraction(1))
    total, residual = draw.share * large, (1 - draw.share) * large
    coupled = _coupling(draw.dimension, real(residual), real(total))
    q, s = CONTEXT.exp(-real(residual)), CONTEXT.exp(-real(total))
    apart = (q + s) * (1 - coupled) / ((1 + q * s) * (1 + coupled))
    return ResponsePair(large, residual - total, min(Fraction(1), upper(1 / (1 + apart))))


@lru_cache(maxsize=1 << 12)
def replaced_ways(draw: TotalResidual) -> tuple[ResponsePair, ResponsePair]:
    """What one row in the place of another costs: the pair of one cell of the two that it changes, and that of one.

    In two cells one row comes or goes in each, and the two draws are independent. In one cell x moves by 2 (v' - v)
    and m not at all: the size of x grows by two if one of the moved coordinates is at its far end, which is likeliest
    where all of them move, with the probability P(X = 1) of one row; it shrinks by two with exp(-2 e1) times that, and
    else the loss is 0 (docs/proofs/total-residual.md, section 7).
    """
    row = response_pair(draw.model_copy(update={"rows": 1, "replaced": False}))
    residual, total = (row.large + row.small) / 2, (row.large - row.small) / 2
    q, s = CONTEXT.exp(-real(residual)), CONTEXT.exp(-real(total))
    alike = real(row.alike)
    grows = alike / (1 + q * s) + (1 - alike) * s / (q + s)
    return row, ResponsePair(2 * residual, Fraction(0), min(Fraction(1), upper((1 + q * q) * grows)))


def _either_way(row: ResponsePair, moved: ResponsePair) -> ResponsePair:
    """A pair that dominates two cells with a row's pair each, and the one cell whose residuals are moved.

    Its smaller response alone dominates the one cell. Profiles are straight in exp(epsilon) between the losses, and
    those of this pair are among the losses of two cells: it dominates these too where it is not below them there.
    """
    large, small = 2 * row.large, moved.large
    heads, tails = real(row.alike), 1 - real(row.alike)
    outcomes = [
        (sign * size, mass / (1 + CONTEXT.exp(-real(sign * size))))
        for size, mass in ((row.large, heads), (row.small, tails))
        for sign in (1, -1)
    ]
    both = [(a + b, p * r) for a, p in outcomes for b, r in outcomes]
    needed = []
    for knot in {max(Fraction(0), loss) for loss, _ in both if loss < large}:
        delta = sum(-mass * CONTEXT.expm1(real(knot - loss)) for loss, mass in both if loss > knot)
        low, high = (_response_delta(size, knot) for size in (small, large))
        known = high - low > _PAD**0.5
        needed.append((delta - low) / (high - low) + _PAD**0.25 if known else CONTEXT.mpf(1))
    return ResponsePair(large, small, min(Fraction(1), upper(max(CONTEXT.mpf(0), *needed))))


def _coupling(dimension: int, residual: Any, total: Any) -> Any:
    """The c of the module, or 0 if that is larger; rounded up, and below 1."""
    q = CONTEXT.exp(-residual)
    plus = minus = CONTEXT.mpf(0)
    for coefficient in reversed(_eulerian(dimension)):
        plus, minus = plus * q + coefficient, minus * -q + coefficient
    ratio = min(minus / plus + _PAD, CONTEXT.mpf(1))
    return max(CONTEXT.mpf(0), CONTEXT.tanh(total / 2) * CONTEXT.tanh(residual / 2) ** dimension * ratio)


@lru_cache(maxsize=256)
def _eulerian(n: int) -> tuple[Any, ...]:
    """The Eulerian numbers A(n, 0), ..., A(n, n - 1): A(n+1, j) = (j+1) A(n, j) + (n+1-j) A(n, j-1)."""
    row = [1]
    for m in range(1, n):
        row = [(j + 1) * a + (m + 1 - j) * b for j, (a, b) in enumerate(zip([*row, 0], [0, *row], strict=True))]
    return tuple(exact_reals(row))


def total_residual_delta(draw: TotalResidual, epsilon: Fraction) -> Fraction:
    """Delta at epsilon >= 0: that of each response, weighted; rounded up."""
    pair = response_pair(draw)
    parts = ((pair.large, pair.alike), (pair.small, 1 - pair.alike))
    return as_delta(sum(real(mass) * _response_delta(size, epsilon) for size, mass in parts))


def _response_delta(size: Fraction, epsilon: Fraction) -> Any:
    if epsilon >= size:
        return CONTEXT.mpf(0)
    return -CONTEXT.expm1(real(epsilon - size)) / (1 + CONTEXT.exp(-real(size)))


def total_residual_guess(draw: TotalResidual, delta: Fraction) -> Fraction:
    """An epsilon >= 0 whose delta is about this one: the curve is straight in exp(epsilon) on either side of small."""
    pair = response_pair(draw)
    parts = [(real(pair.alike), pair.large), (real(1 - pair.alike), pair.small)]
    for responses in (parts[:1], parts):
        tops = [share / (1 + CONTEXT.exp(-real(size))) for share, size in responses]
        slope = sum(top * CONTEXT.exp(-real(size)) for top, (_, size) in zip(tops, responses, strict=True))
        left = sum(tops) - real(delta)
        found = CONTEXT.log(left / slope) if left > 0 else CONTEXT.mpf(0)
        if found >= real(pair.small):
            break
    return min(pair.large, upper(found))


@lru_cache(maxsize=1 << 12)
def total_residual_rho(draw: TotalResidual) -> Fraction:
    """Its zero-concentrated loss, rounded up: the mean of the loss, a L tanh(L / 2) + (1 - a) S tanh(S / 2).

    With t = order - 1/2 the moment of the loss is cosh(e1 t) cosh(e0 t) + c sinh(e1 t) sinh(e0 t) over its value at
    1/2. For 0 <= c <= 1 all zeros of that function are imaginary (Lee and Yang 1952, for two spins), so that its
    logarithm is concave in t^2 and lies below its tangent at order 1: Renyi divergences are at most rho times the
    order (docs/proofs/total-residual.md, section 4). Of a replaced row it is the larger one of its two ways: twice that
    of one row, or h 2 e1 tanh(e1), for which the same holds (section 7).
    """
    if draw.replaced:
        row, moved = map(_mean_loss, replaced_ways(draw))
        return upper(max(2 * row, moved))
    return upper(_mean_loss(response_pair(draw)))


def _mean_loss(pair: ResponsePair) -> Any:
    parts = ((pair.large, pair.alike), (pair.small, 1 - pair.alike))
    return sum(real(mass) * real(size) * CONTEXT.tanh(real(size) / 2) for size, mass in parts)
