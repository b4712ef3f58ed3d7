"""Advanced composition of (epsilon, delta) boxes: the smallest of the theorems about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import Accountant, Atom, LossClaim, Words, check_delta, check_epsilon
from dprelease.privacy.accountants.basic import Basic, Draws, Rough, as_floats, deltas_of_sum, exp_of
from dprelease.privacy.accountants.kov import (
    Counts,
    as_counts,
    kov_closed_epsilon,
    kov_delta_unequal,
    kov_epsilon_unequal,
    kov_kept,
    kov_slack,
)
from dprelease.privacy.accountants.kov_many import root, rough_epsilon
from dprelease.privacy.accountants.near import NearDraws
from dprelease.privacy.event import Event
from dprelease.privacy.rounding import CONTEXT, log_of, real, upper
from dprelease.words import marked

__all__ = ["Advanced", "drv_epsilon"]

_AGREE = Fraction(1, 10**7)  # relative; how near the floats' delta and the certified one should be
# How much of delta the boxes of curved draws get; the rest is the slack of the composition. The smallest of all is
# a bound, so a closed list is as valid as any search. With 1 epsilons add up, which is best for few draws.
_SPLITS = tuple(Fraction(n, 100) for n in (1, 2, 5, 10, 20, 35, 50, 70, 90, 100))
_HAIR = 1 - Fraction(1, 10**28)
_FAINT = -70.0  # log of a delta whose square is nothing beside it
_MOST = 1 - 1e-15  # the largest delta of a search


def drv_epsilon(epsilons: Counts, slack: Fraction) -> Fraction:
    """``sqrt(2 ln(1/d') sum e_i^2) + sum e_i (exp(e_i) - 1)``, rounded up, at total delta ``sum d_i + d'``.

    Source: Dwork, Rothblum and Vadhan 2010, Theorem III.3, in its form for unequal epsilons (Dwork and Roth 2014,
    Theorem 3.20). Always valid, often far from tight: with few draws the plain sum is smaller.

    Args:
        epsilons: One per draw, or a mapping from epsilon to how many draws have it.
        slack: The d' of the theorem.

    Raises:
        UnsupportedEvent: At slack 0.
    """
    counted = as_counts(epsilons)
    if not counted:
        return Fraction(0)
    _needs(slack)
    reals = [(real(e), n) for e, n in counted.items()]
    squares = sum(n * e * e for e, n in reals)
    drift = sum(n * e * CONTEXT.expm1(e) for e, n in reals)
    return upper(CONTEXT.sqrt(max(CONTEXT.mpf(0), -2 * CONTEXT.log(real(slack))) * squares) + drift)


_PROMISING = 3


class Advanced(Accountant):
    """The smallest of the composition theorems for (epsilon, delta) boxes, which know nothing else about a draw.

    Dwork, Rothblum and Vadhan (``drv_epsilon``), the closed form of Kairouz, Oh and Viswanath, and the exact optimum
    (``kov``) that neither can beat. A draw without an epsilon of its own is read as a box on its exact curve: several
    splits of delta between the boxes and the composition are tried, with each box getting the same share.

    A bounded range is a box of its epsilon: that it is narrower is not used. All of these theorems are about boxes
    chosen one after the other, with epsilons and deltas fixed beforehand.
    """

    name = "advanced"
    words = Words(
        how=marked("finds the exact optimum for draws of which only ε and δ are known"),
        framework=marked("approximate differential privacy, composed as a whole"),
        theorem=marked(
            "the optimum for what is known of the draws, or a bound just above it (Kairouz, Oh and Viswanath 2015, "
            "Theorem 3.3; Murtagh and Vadhan 2018, Theorem 1.5)"
        ),
    )
    needs_delta = ("DPR-S546", "is advanced, a theorem that needs a delta greater than 0")
    most_draws = 0

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound at this delta, rounded up.

        Raises:
            UnsupportedEvent: At delta 0, or if the draws' own deltas leave too little of ``delta``.
        """
        check_delta(delta)
        return _epsilon_of(_Ordered(Draws.of(self.name, event)), delta)

    def delta(self, event: Event, epsilon: Fraction) -> Fraction:
        """A delta at which this epsilon is proved, rounded up; at most 1."""
        check_epsilon(epsilon)
        draws = Draws.of(self.name, event)
        if not draws.curved:
            return kov_delta_unequal(draws.epsilons, draws.deltas, epsilon)
        if draws.spent >= 1:
            return Fraction(1)
        search = _Search.of(draws)
        log_left, split = search.delta(float(epsilon))
        if log_left < 0:
            search = search.refined(log_left, split)
            log_left, split = search.delta(float(epsilon))
        if log_left >= 0:
            return Fraction(1)
        # Any split of any delta gives a proof: the floats above only decide how small it is. Plain sums are one more.
        left, found = exp_of(log_left), _sums(draws, epsilon) if split == 1 else Fraction(1)
        for _ in range(3):
            each = _share(draws, draws.spent + left, split)
            found = min(found, kov_delta_unequal(draws.at(each), _with(draws, each), epsilon))
            last, left = left, found - draws.spent
            if left <= 0 or abs(left - last) <= last * _AGREE:
                break
        return found

    def rough_epsilon(self, event: Event | NearDraws, delta: float) -> float:
        """``epsilon`` in plain floats, to about 1e-6, to guide a search; infinite where there is none."""
        draws = Draws.of(self.name, event)
        left = delta - float(draws.spent)
        if draws.curved:
            return _Search.of(draws).best(math.log(left))[0] if left > 0 else math.inf
        try:
            slack = kov_slack(draws.deltas, Fraction(delta))
        except UnsupportedEvent:
            return math.inf
        return _rough(as_floats(draws.epsilons), log_of(slack) if slack else -math.inf)

    def holds(self, claim: LossClaim) -> bool:
        """Not below the optimum for boxes, which every other theorem about them claims at least."""
        return claim.composes_boxes()

    def takes_alone(self, atom: Atom) -> bool:
        """As for basic composition: it reads the same boxes."""
        return Basic().takes_alone(atom)


@dataclass(frozen=True, eq=False)
class _Ordered:
    """Draws that are equal where they come in one order, too: floats of sums hang on it."""

    draws: Draws

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return tuple(tuple(each.items()) for each in (self.draws.epsilons, self.draws.deltas, self.draws.curved))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=4)  # a search for a scale ends on the loss that the plan then tells
def _epsilon_of(ordered: _Ordered, delta: Fraction) -> Fraction:
    draws = ordered.draws
    if delta == 1 or (not draws.curved and not any(draws.epsilons) and not draws.deltas):
        return Fraction(0)
    _needs(delta)
    if not draws.curved:
        return _smallest(draws.epsilons, draws.deltas, delta)
    split = _Search.of(draws).best(log_of(draws.left(delta)))[1]
    each = _share(draws, delta, split)
    return _smallest(draws.at(each), _with(draws, each), delta)


def _needs(delta: Fraction) -> None:
    if delta == 0:
        raise UnsupportedEvent(
            "advanced composition needs a delta greater than 0",
            hint="give the budget a delta, such as 1e-9, or write `accounting: basic`",
        )


def _with(draws: Draws, each: Fraction) -> dict[Fraction, int]:
    # all deltas, when every curved draw is read at this one
    return {**draws.deltas, each: draws.deltas.get(each, 0) + draws.shares}


def _share(draws: Draws, delta: Fraction, split: Fraction) -> Fraction:
    """The delta of each curved draw, when all of them together get this part of what the boxes leave of delta.

    All of it means that one of the boxes fails with probability delta, ``1 - prod (1 - d_i) = delta``. With shares
    that add up to what is left, nobody would use about half the square of it: at a delta of 1e-4 that costs a part in
    10^6 of epsilon.
    """
    # a hair less than delta, which is more than ``upper`` adds here and in ``kov_kept``
    left = 1 - (1 - delta * _HAIR) / kov_kept(draws.deltas)
    if split < 1 or left <= 0:
        return draws.left(delta) * split / draws.shares
    return upper(-CONTEXT.expm1(CONTEXT.log1p(-real(left)) / draws.shares))


def _sums(draws: Draws, epsilon: Fraction) -> Fraction:
    """Delta where the draws' epsilons add up to this one: not the sum of their deltas, but that one of them fails."""
    deltas = deltas_of_sum(draws, epsilon)
    return Fraction(1) if any(d >= 1 for d in deltas) else kov_delta_unequal({}, deltas, epsilon)


def _smallest(epsilons: Counts, deltas: Counts, delta: Fraction) -> Fraction:
    """The smallest of the theorems for these boxes at this total delta, rounded up."""
    found, slack = kov_epsilon_unequal(epsilons, deltas, delta), kov_slack(deltas, delta)
    if _is_clear(epsilons, slack, found):
        return found
    others = [kov_closed_epsilon(epsilons, slack)]
    rest = delta - sum((d * n for d, n in as_counts(deltas).items()), Fraction(0))
    if rest > 0:
        others.append(drv_epsilon(epsilons, rest))
    return min(found, *others)


def _is_clear(epsilons: Counts, slack: Fraction, found: Fraction) -> bool:
    """Whether floats tell that neither closed form is below what was found, by a million times their own errors.

    That of Dwork, Rothblum and Vadhan has a root no smaller than the ``sqrt(2 S ln(1 / dt))`` of
    ``kov_closed_epsilon``, and a larger drift, for exp(e) - 1 > tanh(e / 2): so only the other one is told here.
    """
    if not 0 < slack < 1:
        return False
    boxes, log_slack = as_floats(as_counts(epsilons)), log_of(slack)
    squares = math.fsum(e * e * n for e, n in boxes.items())
    if squares == 0:
        return False
    drift = math.fsum(e * math.tanh(e / 2) * n for e, n in boxes.items())
    least = max(0.0, min(float(np.logaddexp(1.0, math.log(squares) / 2 - log_slack)), -log_slack))
    closed = min(math.fsum(e * n for e, n in boxes.items()), drift + math.sqrt(2 * squares * least))
    return closed > float(found) * (1 + 1e-6)


@dataclass(frozen=True)
class _Search:
    """Floats that find a good split of delta between curved draws and the composition."""

    draws: Draws
    rough: Rough
    log_kept: float
    spent: float
    _read: dict[float, dict[float, int]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, draws: Draws) -> _Search:
        kept = sum(n * math.log1p(-float(d)) for d, n in draws.deltas.items())
        return cls(draws, Rough.of(draws), kept, float(draws.spent))

    def refined(self, log_left: float, split: Fraction) -> _Search:
        """The same with curves that are exact where these figures read them."""
        rough = self.rough.refined(log_left + math.log(split / self.draws.shares))
        return _Search(self.draws, rough, self.log_kept, self.spent)

    def at(self, log_left: float, split: Fraction) -> float:
        """Epsilon when the boxes' own deltas leave this much, and curved draws get this part of it."""
        return _rough(*self._boxes(log_left, split))

    def _boxes(self, log_left: float, split: Fraction) -> tuple[dict[float, int], float]:
        shares = self.draws.shares
        if split == 1:
            return self._at(self._all(log_left)), -math.inf
        log_each = log_left + math.log(split / shares)
        fails = -math.expm1(self.log_kept + shares * math.log1p(-math.exp(log_each)))
        slack = (self.spent + math.exp(log_left) - fails) / (1 - fails)
        # it may be all but 0; floats cannot tell
        return self._at(log_each), math.log(slack) if slack > 0 else -math.inf

    def _at(self, log_each: float) -> dict[float, int]:
        """All boxes with the curved draws read there: of the promising splits they are asked for twice."""
        if log_each not in self._read:
            self._read[log_each] = self.rough.at(log_each)
        return self._read[log_each]

    def _all(self, log_left: float) -> float:
        """The log of ``_share`` when the boxes get all."""
        log_left -= self.log_kept
        if log_left < _FAINT:
            return log_left - math.log(self.draws.shares)
        return math.log(-math.expm1(math.log1p(-min(math.exp(log_left), _MOST)) / self.draws.shares))

    def best(self, log_left: float) -> tuple[float, Fraction]:
        """The smallest of these over the most promising splits, and its split; any split gives a proof."""
        promising = sorted(_SPLITS, key=lambda split: self._closed(log_left, split))[:_PROMISING]
        return min((self.at(log_left, split), split) for split in promising)

    def _closed(self, log_left: float, split: Fraction) -> float:
        """About the same by the closed form, which ranks splits as the optimum does but for near ties."""
        boxes, log_slack = self._boxes(log_left, split)
        total = sum(e * n for e, n in boxes.items())
        if log_slack == -math.inf:
            return total
        squares, drift = (
            sum(e * e * n for e, n in boxes.items()),
            sum(e * math.tanh(e / 2) * n for e, n in boxes.items()),
        )
        return min(total, drift + math.sqrt(-2 * squares * min(0.0, log_slack)))

    def _over(self, epsilon: float, log_left: float) -> float:
        return self.best(log_left)[0] - epsilon

    def delta(self, epsilon: float) -> tuple[float, Fraction]:
        """The smallest log of what must be left for this epsilon, and its split; 0 where nothing is enough."""
        most = math.log1p(-self.spent) - 1e-6
        high, low = most, min(most - 1, -14.0)
        if self.best(high)[0] > epsilon:
            return 0.0, _SPLITS[-1]
        while self.best(low)[0] <= epsilon and low > -2000:
            high, low = low, 2 * low
        found = root(partial(self._over, epsilon), low, high, 1e-9 * epsilon)
        return found, self.best(found)[1]


def _rough(boxes: dict[float, int], log_slack: float) -> float:
    total = sum(epsilon * n for epsilon, n in boxes.items())
    if total == 0 or log_slack == -math.inf:
        return total
    return 0.0 if log_slack >= 0 else min(total, rough_epsilon(boxes, log_slack))
