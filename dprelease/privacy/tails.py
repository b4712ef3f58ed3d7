"""How likely is a loss above epsilon? More likely than delta, and bounded by the privacy curve alone.

For two neighbouring data sets with laws P and Q of what is published the loss of an outcome is L = ln(P / Q). That a
release is (epsilon, delta)-private does **not** say that P(L > epsilon) <= delta. What a curve delta(.) of proved
pairs says (``docs/proofs/loss-tail.md``), for every two neighbours, in both directions, and for whatever is made of
what is published::

    P(L > epsilon) <= delta(epsilon - t) / (1 - exp(-t))      for every t > 0.

No curve says less: some mechanism with that curve reaches the least of these. Turned round, the loss is at most
``e - ln(1 - delta(e) / delta)`` but for a probability of delta, for every e with delta(e) < delta.

>>> from dprelease.privacy.theorems import gaussian
>>> curve = lambda e: gaussian.delta(Fraction(1, 16), e)
>>> found = chance_above(curve, Fraction(1))
>>> float(curve(Fraction(1))) < 6.7e-6 < float(found) < 3.6e-4
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from dprelease.privacy.rounding import CONTEXT, dyadic_up, log_of, real, upper

__all__ = ["Curve", "chance_above", "largest_but_for"]

Curve = Callable[[Fraction], Fraction]
"""Upper bounds on delta for epsilon >= 0, falling."""

_TRIES = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)  # of the best t, were the curve an exponential: any t is valid
_NEAR = Fraction(1, 32)
_STEEPEST = 1e6


def chance_above(curve: Curve, epsilon: Fraction) -> Fraction:
    """An upper bound on the probability of a loss above epsilon, at most 1; 0 where the curve is 0 there.

    Args:
        curve: The curve of the release.
        epsilon: At least 0.
    """
    here = curve(epsilon)
    if here == 0:
        return here  # then no outcome has a larger loss: its share of delta would be positive
    found = Fraction(1)
    for step in _steps(curve, epsilon, here):
        found = min(found, upper(real(curve(epsilon - step)) / -CONTEXT.expm1(-real(step))))
    return found


def largest_but_for(curve: Curve, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """An epsilon that the loss is above with a probability of at most delta; None where none is found.

    Args:
        curve: The curve of the release.
        epsilon: Where the curve is about delta.
        delta: Above 0.
    """
    here = curve(epsilon)
    if here == 0:
        return epsilon
    rate = _rate(curve, epsilon, here)
    # Above epsilon the curve is about here exp(-rate (e - epsilon)); the best e has 1 / (1 + rate) of delta left.
    best = max(log_of(here) - log_of(delta) + math.log1p(rate), 1e-9) / rate
    found = []
    for stretch in _TRIES:
        at = epsilon + _short(best * stretch)
        left = curve(at)
        if left == 0:
            found.append(at)
        elif left < delta:
            found.append(at + upper(-CONTEXT.log1p(-real(left) / real(delta))))
    return min(found, default=None)


def _steps(curve: Curve, epsilon: Fraction, here: Fraction) -> Iterator[Fraction]:
    best = math.log1p(1 / _rate(curve, epsilon, here))
    for stretch in _TRIES:
        step = min(epsilon, _short(best * stretch))
        if step:
            yield step


def _rate(curve: Curve, epsilon: Fraction, here: Fraction) -> float:
    """How fast ln delta falls, in floats: it chooses among valid bounds, and is part of none."""
    if epsilon == 0:
        return 1.0
    fall = log_of(curve(epsilon * (1 - _NEAR))) - log_of(here)
    return min(max(fall / float(epsilon * _NEAR), 1e-3), _STEEPEST)


def _short(value: float) -> Fraction:
    """A few bits: how it came about does not matter, and it stays the same where floats differ in their last digits."""
    return dyadic_up(Fraction(value), 8)
