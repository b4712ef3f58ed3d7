"""Optimal composition of (epsilon, delta) boxes: Kairouz, Oh and Viswanath; Murtagh and Vadhan.

A box is "any mechanism that is (e, d)-differentially private". The worst one of that kind fails openly with
probability d and is randomized response otherwise: P says the truth with probability exp(e) / (1 + exp(e)). What is
computed here is the exact loss of many of these, which is therefore the best bound that holds for all boxes.

With N the product of all (1 - d_i) and D(epsilon) the hockey-stick divergence of the randomized responses::

    delta(epsilon) = 1 - N (1 - D(epsilon)),    D(epsilon) = sum over outcomes of max(0, P - exp(epsilon) Q)

(Kairouz, Oh and Viswanath 2017, Theorem 3.3, for equal boxes, at every epsilon and not only on their lattice;
Murtagh and Vadhan 2018, Theorem 1.5, for unequal ones.) Equal epsilons collapse to a count. What is left is cut into
two halves, one of which is sorted with its tail sums, so that all 2^22 outcomes of 22 different draws cost 2 * 2^11
steps in 60 digits. Where even the halves are too large, ``kov_many`` gives a certified upper bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import inf, log, prod
from typing import Any

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.kov_many import Smoothed, saddle
from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = [
    "Counts",
    "as_counts",
    "kov_closed_epsilon",
    "kov_delta_unequal",
    "kov_epsilon_unequal",
    "kov_kept",
    "kov_slack",
]

Counts = Mapping[Fraction, int] | Sequence[Fraction]

_SMALL_HALF, _LARGE_HALF = 1 << 13, 1 << 15  # outcomes per half: at most about half a second
_FIXED = 1 << 220  # losses are whole multiples of 1 / _FIXED while they are sorted
_PAD = CONTEXT.mpf(10) ** -48  # relative; every sum below is right to 1e-52
_EXACT_BITS = 1 << 17


def as_counts(values: Counts) -> dict[Fraction, int]:
    """How often each value occurs; zeros are dropped, because a draw with epsilon or delta 0 adds nothing there."""
    if isinstance(values, Mapping):
        if all(value.numerator > 0 and n > 0 for value, n in values.items()):
            return dict(values)
        pairs = list(values.items())
    else:
        pairs = list(Counter(values).items())
    if any(value < 0 or n < 0 for value, n in pairs):
        raise ValueError("epsilons, deltas and counts are not negative")
    return {value: n for value, n in pairs if value and n}


def kov_delta_unequal(epsilons: Counts, deltas: Counts, epsilon: Fraction) -> Fraction:
    """Delta at ``epsilon >= 0`` of boxes with these epsilons and deltas, rounded up; at most 1.

    Args:
        epsilons: One per box, or a mapping from epsilon to how many boxes have it.
        deltas: Likewise; which delta belongs to which epsilon does not matter. Zeros may be left out.
        epsilon: The total epsilon at which to read the curve.

    Exact up to rounding for up to 2^13 times 2^15 outcomes (always for 26 different epsilons), otherwise the
    upper bound of ``kov_many``, whose price is mostly about 1e-7 relative in epsilon. Source: Murtagh and Vadhan 2018,
    Theorem 1.5.
    """
    counted, kept = as_counts(epsilons), kov_kept(deltas)
    total = _total(counted)
    if epsilon >= total:
        fails = 1 - kept
        return fails if fails.denominator.bit_length() <= 256 else min(Fraction(1), upper(real(fails)))
    table = _table(counted)
    excess = table.excess(epsilon) if table else CONTEXT.exp(_smoothed(counted, epsilon=epsilon).log_delta(epsilon))
    return _with_failures(kept, excess)


def kov_epsilon_unequal(epsilons: Counts, deltas: Counts, delta: Fraction) -> Fraction:
    """The smallest epsilon at total ``delta`` of boxes with these epsilons and deltas, rounded up.

    Arguments and exactness as in ``kov_delta_unequal``.

    Raises:
        UnsupportedEvent: If 1 - prod(1 - d_i) is more than ``delta``.
    """
    counted, slack = as_counts(epsilons), kov_slack(deltas, delta)
    total = _total(counted)
    if not slack or not total:
        return total
    if slack >= 1:
        return Fraction(0)
    table = _table(counted)
    if table:
        found = table.epsilon(slack, _guess(counted, slack))
        # so that kov_delta_unequal, itself rounded up, agrees to the last digit
        step, kept = max(found, Fraction(1, 10**20)) / 10**28, kov_kept(deltas)
        while found < total and _with_failures(kept, table.excess(found)) > delta:
            found, step = found + step, 2 * step
        return min(total, found)
    return min(total, _smoothed(counted, slack=slack).epsilon(slack))


def kov_slack(deltas: Counts, delta: Fraction) -> Fraction:
    """What the boxes' own deltas leave of the total: the largest dt with 1 - (1 - dt) prod(1 - d_i) <= delta.

    Raises:
        UnsupportedEvent: If they leave less than nothing.
    """
    kept = kov_kept(deltas)
    slack = 1 - (1 - delta) / kept if kept else Fraction(-1)
    if slack < 0:
        least = min(Fraction(1), upper(real(1 - kept)))
        raise UnsupportedEvent(
            f"the draws' own deltas use up {float(least):.6g}, which is more than delta {float(delta):.6g}",
            hint=f"give the budget a delta of at least {float(least) * (1 + 1e-5):.6g}, or lower the draws' deltas",
        )
    return slack


def kov_closed_epsilon(epsilons: Counts, slack: Fraction) -> Fraction:
    """The closed form ``min{sum e_i, M + sqrt(2 S ln(e + sqrt(S) / dt)), M + sqrt(2 S ln(1 / dt))}``, rounded up.

    Here dt is ``slack``, S = sum e_i^2, M = sum e_i tanh(e_i / 2), and the e in the logarithm is Euler's number. The
    total delta is 1 - (1 - dt) prod(1 - d_i): see ``kov_slack``. Source: Kairouz, Oh and Viswanath 2017, Theorem 3.5.
    """
    counted = as_counts(epsilons)
    total = _total(counted)
    if not slack or not total:
        return total
    reals = [(real(e), n) for e, n in counted.items()]
    squares = sum(n * e * e for e, n in reals)
    drift = sum(n * e * CONTEXT.tanh(e / 2) for e, n in reals)
    first = CONTEXT.log(CONTEXT.e + CONTEXT.sqrt(squares) / real(slack))
    least = max(CONTEXT.mpf(0), min(first, -CONTEXT.log(real(slack))))
    return min(total, upper(drift + CONTEXT.sqrt(2 * squares * least)))


def _with_failures(kept: Fraction, excess: Any) -> Fraction:
    return min(Fraction(1), upper(real(1 - kept) + real(kept) * excess))


def _total(counted: Mapping[Fraction, int]) -> Fraction:
    # The sum of the epsilons: exact, or rounded up where its denominator would have thousands of digits.
    if sum(e.denominator.bit_length() for e in counted) <= 1 << 12:
        return sum((e * n for e, n in counted.items()), Fraction(0))
    return upper(sum(real(e) * n for e, n in counted.items()))


def kov_kept(deltas: Counts) -> Fraction:
    """A rational not above prod(1 - d_i), and equal to it unless it had more than ``_EXACT_BITS`` bits.

    Raises:
        ValueError: If a delta is 1 or more, or negative.
    """
    counted = as_counts(deltas)
    if any(d >= 1 for d in counted):
        raise ValueError("a delta is below 1")
    if sum(d.denominator.bit_length() * n for d, n in counted.items()) <= _EXACT_BITS:
        return prod(((1 - d) ** n for d, n in counted.items()), start=Fraction(1))
    fails = -CONTEXT.expm1(sum(n * CONTEXT.log1p(-real(d)) for d, n in counted.items()))
    return max(Fraction(0), 1 - upper(fails))


def _guess(counted: Mapping[Fraction, int], slack: Fraction) -> float:
    return saddle(counted, log_delta=log(slack.numerator) - log(slack.denominator))[1]


def _smoothed(
    counted: Mapping[Fraction, int], *, epsilon: Fraction | None = None, slack: Fraction | None = None
) -> Smoothed:
    if slack is not None:
        return Smoothed.at(counted, log_delta=log(slack.numerator) - log(slack.denominator))
    return Smoothed.at(counted, epsilon=float(epsilon or 0))


# One outcome, or all that are alike: (loss in units of 1 / _FIXED, probability under P, probability under Q).
_State = tuple[int, Any, Any]


@dataclass(frozen=True)
class _Table:
    """All outcomes as pairs of one outer and one inner state; the inner ones sorted, with their tail sums."""

    outer: list[_State]
    losses: list[int]
    above_p: list[Any]
    above_q: list[Any]
    margin: int

    def tails(self, threshold: int) -> tuple[Any, Any]:
        """P and Q of all outcomes whose loss is above the threshold."""
        p, q = CONTEXT.mpf(0), CONTEXT.mpf(0)
        for loss, one_p, one_q in self.outer:
            first = bisect_right(self.losses, threshold - loss)
            p += one_p * self.above_p[first]
            q += one_q * self.above_q[first]
        return p, q

    def _above(self, epsilon: Any) -> int:
        # Sorted losses are off by at most ``margin`` units. Going that much lower misses no outcome above epsilon,
        # and counts none that is more than 2 margins below it; such a one takes off at most 2 margins of its own P.
        return int(CONTEXT.floor(epsilon * _FIXED)) - self.margin

    def excess(self, epsilon: Fraction) -> Any:
        """D(epsilon), rounded up: sum of P minus exp(epsilon) Q over the outcomes above epsilon."""
        p, q = self.tails(self._above(real(epsilon)))
        return max(CONTEXT.mpf(0), p - CONTEXT.exp(real(epsilon)) * q) + _PAD * p

    def epsilon(self, slack: Fraction, guess: float) -> Fraction:
        """The smallest epsilon with D(epsilon) <= slack.

        D is the largest of P(S) - exp(epsilon) Q(S) over all sets S of outcomes, and convex and piecewise linear in
        exp(epsilon). Newton's steps ``exp(epsilon) = (P(S) - slack) / Q(S)`` therefore rise to the root and stop
        there after finitely many. The caller checks it with ``excess``.
        """
        target, one = real(slack), CONTEXT.mpf(1)
        x = CONTEXT.exp(real(guess)) if 0 < guess < inf else one
        for _ in range(500):
            p, q = self.tails(self._above(CONTEXT.log(x)))
            new = max(one, (p - target) / q) if q else one
            if abs(new - x) <= _PAD * x:
                break
            x = new
        return upper(CONTEXT.log(x))


def _table(counted: Mapping[Fraction, int]) -> _Table | None:
    """The table of these randomized responses, or None where a half would be too large."""
    halves: tuple[list[tuple[Fraction, int]], list[tuple[Fraction, int]]] = ([], [])
    sizes = [1, 1]
    for e, n in sorted(counted.items(), key=lambda pair: (-pair[1], float(pair[0]))):
        into = 0 if sizes[0] <= sizes[1] else 1
        halves[into].append((e, n))
        sizes[into] *= n + 1
        if min(sizes) > _SMALL_HALF or max(sizes) > _LARGE_HALF:
            return None
    small, large = sorted((_states(half) for half in halves), key=len)
    large.sort(key=lambda state: state[0])
    zero = [CONTEXT.mpf(0)]
    above_p = [*accumulate((p for _, p, _ in reversed(large)), initial=zero[0])][::-1]
    above_q = [*accumulate((q for _, _, q in reversed(large)), initial=zero[0])][::-1]
    return _Table(small, [loss for loss, _, _ in large], above_p, above_q, sum(counted.values()) + 2)


def _states(groups: Sequence[tuple[Fraction, int]]) -> list[_State]:
    states: list[_State] = [(0, CONTEXT.mpf(1), CONTEXT.mpf(1))]
    for e, n in groups:
        one = _alike(e, n)
        states = [(loss + more, p * u, q * v) for loss, p, q in states for more, u, v in one]
    return states


def _alike(e: Fraction, n: int) -> list[_State]:
    # j of n responses lie: P is binomial, and Q is P with truth and lie exchanged.
    ratio = CONTEXT.exp(-real(e))
    p, fixed = (1 + ratio) ** -n, round(e * _FIXED)
    under_p = []
    for j in range(n + 1):
        under_p.append(p)
        p = p * ratio * (n - j) / (j + 1)
    return [((n - 2 * j) * fixed, under_p[j], under_p[n - j]) for j in range(n + 1)]
