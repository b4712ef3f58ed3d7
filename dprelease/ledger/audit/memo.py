"""Results that one check needs repeatedly, for the releases of a series share their draws."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from json import JSONEncoder

from pydantic_core import from_json

from dprelease.canonical import dumps
from dprelease.ledger.model.balance import Balance, Charged
from dprelease.plan.document import Account
from dprelease.plan.document.account import AccountLosses
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import Spent, Terms, read_total, spent_before, spent_on
from dprelease.privacy.periods import EVERY
from dprelease.privacy.rounding import log_of
from dprelease.privacy.theorems.concentrated import rough_rho_to_epsilon
from dprelease.privacy.unit import Neighboring

__all__ = ["SLACK", "Memo", "is_canonical", "totals_of"]

# A conversion searches its order in floats, so another machine may prove a bound that differs far behind the point.
SLACK = Fraction(1, 10**9)
_SURE = float(SLACK) / 2
# Where a float may stand in JSON: numbers of a ledger are whole, or in quotes.
_FLOAT = re.compile(r"(?:^|[:,\[])-?[0-9]+[.eE]")
_again = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def is_canonical(text: str) -> bool:
    """Whether a JSON text is what `dumps` would write.

    Raises:
        ValueError: It is no JSON.
        TypeError: It has a float.
    """
    plain = from_json(text)
    return (dumps(plain) if _FLOAT.search(text) else _again(plain)) == text


def totals_of(
    account: Account, before: Balance, charge: Charged, price: Spent
) -> Iterator[tuple[AccountLosses, tuple[Spent, Spent]]]:
    """What an account and each of its stretches of time had before a charge, and have with it, beside what was told."""
    if account.parallel is None:
        yield charge.facts, (before.spent, before.spent.plus(price))
        if not charge.windows:
            return
    touched = [facts.window for facts in charge.windows]
    now = {name: before.windows.get(name, Spent()) for name in (*before.windows, *touched)}
    then = {name: spent.plus(price) if name in touched else spent for name, spent in now.items()}
    if account.parallel is not None:
        yield charge.facts, (_largest(account, now, touched), _largest(account, then, touched))
    for facts in charge.windows:
        more = before.windows.get(EVERY, Spent())
        yield facts, (now[facts.window].plus(more), then[facts.window].plus(more))


def _largest(account: Account, sums: Mapping[str, Spent], touched: Iterable[str]) -> Spent:
    """Not by sorting, as ``privacy.periods`` does it: every stretch, or every two, of which one is touched."""
    none = Spent()
    others = sums if account.neighboring is Neighboring.REPLACE_ONE else ()
    steps = [(sums[name], *(sums[other] for other in others if other != name)) for name in touched]
    loss = max(own.loss + max((each.loss for each in rest), default=none.loss) for own, *rest in steps)
    reveals = max(own.reveals + max((each.reveals for each in rest), default=none.reveals) for own, *rest in steps)
    return Spent(loss=loss, reveals=reveals)


Told = tuple[Terms, Spent, Loss, Budget]


class Memo:
    """Remembers by content, so that nothing here can be out of date."""

    def __init__(self) -> None:
        self._prices: dict[tuple[Terms, str, bool], Spent] = {}
        self._losses: dict[tuple[Terms, Spent, Fraction], Loss] = {}
        self._told: dict[tuple[str, str], Told] = {}
        self._logs: dict[tuple[Terms, Budget], float | None] = {}

    def price(self, terms: Terms, digest: str, events: Composed, told: Spent | None) -> Spent:
        """What draws add to an account: as they were charged, where that is today's price or the higher one before it.

        An entry that leaves it to be worked out is older than today's price. Where ``told`` is right it comes back.
        """
        now = self._price(terms, digest, events, before=False)
        if told is not None and told == now:
            return told
        before = self._price(terms, digest, events, before=True)
        return before if told is None else told if told == before else now

    def _price(self, terms: Terms, digest: str, events: Composed, *, before: bool) -> Spent:
        key = (terms, digest, before)
        if key not in self._prices:
            self._prices[key] = (spent_before if before else spent_on)(terms, events)
        return self._prices[key]

    def loss(self, terms: Terms, spent: Spent, delta: Fraction) -> Loss:
        """A total as (epsilon, delta)."""
        key = (terms, spent, delta)
        if key not in self._losses:
            self._losses[key] = read_total(terms, spent, delta)
        return self._losses[key]

    def agreed(self, key: tuple[str, str], before: Told, after: Told) -> bool:
        """Whether what was told of an account before and behind a charge agrees.

        Args:
            key: The account and a stretch of time: what was told of it last, and agreed, is told again by the next.
            before: Terms, total, told loss and cap.
            after: The same behind the charge.
        """
        last = self._told.pop(key, None)
        if not ((before == last or self.agrees(*before)) and self.agrees(*after)):
            return False
        self._told[key] = after
        return True

    def agrees(self, terms: Terms, spent: Spent, told: Loss, cap: Budget) -> bool:
        """Whether a loss that was told is that of a total at a cap's delta.

        By floats where they are sure, else in sixty digits.
        """
        if told.delta is not cap.delta and told.delta != cap.delta:
            return False
        left = self._left(terms, cap)
        if left is not None and not spent.reveals:
            rough = _rough_epsilon(float(spent.loss), left)
            if abs(rough - float(told.epsilon)) <= _SURE * rough:
                return True
        epsilon = self.loss(terms, spent, cap.delta).epsilon
        return abs(told.epsilon - epsilon) <= SLACK * epsilon

    def _left(self, terms: Terms, cap: Budget) -> float | None:
        """The logarithm of what a cap's delta leaves for noise; None: nothing, or the account adds up otherwise."""
        key = (terms, cap)
        if key not in self._logs:
            takes = terms.composition == "zcdp" and cap.delta > terms.selecting
            self._logs[key] = log_of(cap.delta - terms.selecting) if takes else None
        return self._logs[key]

    def inside(self, terms: Terms, spent: Spent, told: Loss, cap: Budget) -> bool:
        """Whether a total is inside a cap.

        Args:
            terms: The account's terms.
            spent: The total.
            told: Its loss at some delta, which was found to agree.
            cap: In epsilon at a delta, or in rho.
        """
        if cap.rho is not None:
            return spent.loss <= cap.rho * (1 + SLACK) and spent.reveals <= min(terms.selecting, cap.delta)
        loss = told if told.delta == cap.delta else self.loss(terms, spent, cap.delta)
        return loss.epsilon <= cap.limit or loss.epsilon <= cap.limit * (1 + SLACK)  # the first is the quicker one


def _rough_epsilon(rho: float, log_delta: float) -> float:
    """``rough_rho_to_epsilon``, whose best order is found by a few steps of Newton's method instead of many halvings.

    With t the logarithm of the order less 1, it is the root of the ``derivative`` in ``best_excess``, which is nearly
    a straight line. The bound is flat there: an order that is a billionth off changes it by the square of that.
    """
    if rho > 0 and math.isfinite(rho) and -math.inf < log_delta < 0:
        log_rho = math.log(rho)
        t = (math.log(-log_delta) - log_rho) / 2
        for _ in range(20):
            x = math.exp(min(t, 200.0))
            gap = -(log_delta + math.log1p(x))
            if gap <= 0:
                break
            step = (log_rho + 2 * t - math.log(gap)) / (2 + x / ((1 + x) * gap))
            t -= step
            if abs(step) < 1e-9:
                x = math.exp(t)
                return max(0.0, (1 + x) * rho + math.log(x) - math.log1p(x) - (log_delta + math.log1p(x)) / x)
    return rough_rho_to_epsilon(rho, log_delta)
