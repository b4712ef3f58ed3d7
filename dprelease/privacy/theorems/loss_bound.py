"""Certified (epsilon, delta) of a composed loss: exact rationals, rounded up, in both directions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.rounding import CONTEXT, dyadic_up, real
from dprelease.privacy.theorems import collapse, gaussian
from dprelease.privacy.theorems.inverse import as_delta
from dprelease.privacy.theorems.inversion import (
    FINE,
    ROUGH,
    Contour,
    Precision,
    contour_at,
    guess_for_delta,
    line_at,
    log_delta_guess,
)
from dprelease.privacy.theorems.total_loss import CellLaw, Total, total_of

__all__ = ["ComposedLoss", "rough_epsilon_of"]

_TAIL = 9  # decimal digits by which the tail of a Gaussian bound stays below delta
_LONGEST = 2**19  # frequencies that are worth their time
_NEAR = 1e-12  # how far below the target, in log delta, the root search aims


@dataclass(frozen=True)
class ComposedLoss:
    """Everything that one release draws, as one composed privacy loss.

    Attributes:
        parts: One-dimensional laws and how often each occurs.
        squared: mu^2 of the continuous Gaussian draws.
        bundles: Discrete Gaussian draws that are bounded by one Gaussian (``curves.collapse``) instead.
        failures: (delta, count): with this probability, each time, anything may be revealed.
    """

    parts: Counter[CellLaw] = field(default_factory=Counter)
    squared: Fraction = Fraction(0)
    bundles: tuple[collapse.EqualDraws, ...] = ()
    failures: tuple[tuple[Fraction, int], ...] = ()

    @classmethod
    def of(cls, draws: Iterable[tuple[ComposedLoss, int]]) -> ComposedLoss:
        """Independent draws, each with how often it occurs."""
        parts: Counter[CellLaw] = Counter()
        squared = Fraction(0)
        bundles: list[collapse.EqualDraws] = []
        failures: list[tuple[Fraction, int]] = []
        for loss, n in draws:
            for part, count in loss.parts.items():
                parts[part] += n * count
            squared += n * loss.squared
            bundles += [bundle._replace(times=n * bundle.times) for bundle in loss.bundles]
            failures += [(delta, n * count) for delta, count in loss.failures]
        return cls(parts, squared, tuple(sorted(bundles)), tuple(sorted(failures)))

    def covers(self, other: ComposedLoss) -> bool:
        """Whether this draws all that the other does, and perhaps more; or both are Gaussian, and it has less noise."""
        return (
            all(n <= self.parts[part] for part, n in other.parts.items())
            and other.squared <= self.squared
            and Counter(other.bundles) <= Counter(self.bundles)  # with how often: the same entry may occur twice
            and Counter(other.failures) <= Counter(self.failures)
        )

    @property
    def bounded(self) -> bool:
        """Whether there is a largest loss."""
        return not (self.squared or self.bundles or any(part.kind == "bell" for part in self.parts))

    @cached_property
    def largest(self) -> Fraction:
        """The largest loss of a bounded one, exact."""
        items = [n * part.top for part, n in self.parts.items()]
        while len(items) > 1:  # in halves: the denominators of thousands of scales then meet late
            items = [sum(items[i : i + 2], Fraction(0)) for i in range(0, len(items), 2)]
        return items[0] if items else Fraction(0)

    def _reaches(self, epsilon: Fraction) -> bool:
        """Whether no loss is above epsilon. The exact sum of thousands of fractions is taken only when it matters."""
        return self.bounded and epsilon * (1 + Fraction(1, 10**9)) >= self._plain.total.ref and epsilon >= self.largest

    @cached_property
    def failure(self) -> Fraction:
        """``1 - prod (1 - delta_i)``, rounded up."""
        if not self.failures:
            return Fraction(0)
        kept = sum(n * CONTEXT.log1p(-real(delta)) for delta, n in self.failures)
        return as_delta(-CONTEXT.expm1(kept))

    def delta(self, epsilon: Fraction) -> Fraction:
        """An upper bound on delta at this epsilon >= 0: ``d + (1 - d) delta_finite``; at most 1."""
        if self._reaches(epsilon):
            return self.failure
        if not self.parts and not self.bundles:
            finite = gaussian.delta(self.squared, epsilon)
        else:
            curve = self._curve(epsilon)
            # Far below any likely loss delta is all but 1, and its line millions of frequencies long.
            finite = Fraction(1) if curve.line.size > _LONGEST else curve.bound(epsilon)
        return min(Fraction(1), as_delta(real(self.failure) + real(1 - self.failure) * real(finite)))

    def epsilon(self, delta: Fraction) -> Fraction:
        """An epsilon >= 0 with ``self.delta(epsilon) <= delta``, the least but for the precision of the bound.

        Raises:
            UnsupportedEvent: If no finite epsilon exists at this delta.
        """
        if delta >= self.failure and self._reaches(Fraction(0)):
            return Fraction(0)
        if delta <= self.failure:
            return self._at_failure(delta)
        target = (delta - self.failure) / (1 - self.failure)
        if not self.parts and not self.bundles:
            return gaussian.epsilon(self.squared, target)
        return _epsilon_of(self, target, delta)

    def __hash__(self) -> int:
        return hash((frozenset(self.parts.items()), self.squared, self.bundles, self.failures))

    def _at_failure(self, delta: Fraction) -> Fraction:
        if delta == self.failure and self.bounded:
            return self.largest
        if delta < self.failure:
            raise UnsupportedEvent(
                f"the draws' own deltas use up {float(self.failure):.6g}, which is more than delta {float(delta):.6g}",
                hint=f"give the budget a delta of at least {float(self.failure) * (1 + 1e-5):.6g}, "
                "or lower the draws' deltas",
            )
        raise gaussian.no_delta()

    def _search(self, target: Fraction, delta: Fraction) -> Fraction:
        mixed = self._mixed(_log(target))
        curve = _Curve(mixed, mixed.epsilon_guess(_log(target)), FINE)
        found = curve.root(target)
        for _ in range(4):
            if self._reaches(found):
                return found
            # What `delta` says at this epsilon counts: it may choose another line than the one that led here.
            own = self._curve(found, curve.mixed)
            own = curve if own.same(curve) else own
            if own.bound(found) <= target:
                return found
            curve, found = own, own.root(target)
        step = Fraction(1, 2**44)
        while self.delta(found) > delta:
            found, step = dyadic_up(found * (1 + step) + step / 2**20, 64), step * 4
        return found

    def rough_epsilon(self, delta: float) -> float:
        """Epsilon to about one part in 10^5, not certified; infinity if there is none."""
        top = float(self._plain.total.ref) if self.bounded else math.inf
        if delta < float(self.failure):
            return math.inf
        if top == 0 or delta == float(self.failure):
            return top
        target = (delta - float(self.failure)) / (1 - float(self.failure))
        if target <= 0:
            return math.inf
        return min(top, _rough_root(self._mixed(math.log(target)), target))

    def _curve(self, epsilon: Fraction, known: _Mixed | None = None) -> _Curve:
        """The line that belongs to this epsilon, and to nothing else: so that `delta` is a function."""
        mixed = self._plain
        if self.bundles:
            log_delta = log_delta_guess(mixed.total, float(mixed.gap(epsilon)))
            mixed = known if known is not None and known.tail == _tail(log_delta) else self._provable(log_delta)
        return _Curve(mixed, epsilon, FINE)

    @cached_property
    def _plain(self) -> _Mixed:
        """The bundles as if they were continuous: for guesses only."""
        squared = sum((each.times * each.squared / each.scale**2 for each in self.bundles), self.squared)
        return _Mixed(total_of(self.parts, squared))

    def _provable(self, log_delta: float) -> _Mixed:
        """As ``_mixed``, but with a larger tail where none so small is proved: a bound, if not a sharp one."""
        while True:
            try:
                return self._mixed(log_delta)
            except UnsupportedEvent:
                if log_delta > -1:
                    raise
                log_delta *= 0.9

    def _mixed(self, log_delta: float) -> _Mixed:
        if not self.bundles:
            return self._plain
        tail = _tail(log_delta)
        try:
            one = collapse.collapsed(self.bundles, tail)
        except ValueError as error:
            raise UnsupportedEvent(
                f"no Gaussian bound for integer noise at this delta: {error}", hint="accountants that can: zcdp, rdp"
            ) from error
        return _Mixed(total_of(self.parts, self.squared + one.mu_squared), one.shift, one.factor, tail)


@lru_cache(maxsize=4)  # a search for a scale ends on the loss that the plan then tells
def _epsilon_of(loss: ComposedLoss, target: Fraction, delta: Fraction) -> Fraction:
    found = loss._search(target, delta)
    return loss.largest if loss._reaches(found) else found


class _Curve:
    """delta(epsilon) of the finite part of a loss, on one line of integration.

    The Gaussian bound of the bundles: their law P is, but for an event of probability ``tail``, at most ``factor``
    times one with the loss of a Gaussian draw, and its loss is at most ``shift`` larger (``curves.collapse``). Other
    draws are independent of it, so ``delta(e) <= factor delta_of_all(e - shift) + tail``.
    """

    def __init__(self, mixed: _Mixed, epsilon: Fraction | float, precision: Precision) -> None:
        self.mixed = mixed
        self.line = line_at(mixed.total, float(mixed.gap(Fraction(epsilon))), precision)

    @cached_property
    def contour(self) -> Contour:
        return contour_at(self.mixed.total, self.line)

    def same(self, other: _Curve) -> bool:
        """Whether both give the same bounds."""
        return self.line == other.line and self.mixed.tail == other.mixed.tail

    def log_bound(self, epsilon: float) -> tuple[float, float]:
        """(log of the bound without the bundles' tail and factor, its slope)."""
        return self.contour.value(self.mixed.gap(Fraction(epsilon)))

    def bound(self, epsilon: Fraction) -> Fraction:
        """The upper bound on delta, exact and at most 1."""
        log, _ = self.contour.value(self.mixed.gap(epsilon))
        return as_delta(real(self.mixed.factor) * CONTEXT.exp(CONTEXT.mpf(log)) + real(self.mixed.tail))

    def root(self, target: Fraction) -> Fraction:
        """The smallest epsilon >= 0 found, a float, at which the bound is at most the target, or next to it."""
        aim = _log((target - self.mixed.tail) / self.mixed.factor) - 2 * _NEAR
        low, high = 0.0, self.mixed.ceiling
        epsilon = self.mixed.epsilon_guess(aim)
        epsilon = epsilon if epsilon < high else high / 2
        reach = 1.0  # in units of the last place
        for _ in range(200):
            value, slope = self.log_bound(epsilon)
            if value > aim:
                low = epsilon
            elif epsilon == 0:
                return Fraction(0)
            else:
                high = epsilon
            if aim - _NEAR <= value <= aim or math.nextafter(low, high) >= high:
                break
            step = max(0.0, epsilon + (aim - _NEAR / 2 - value) / slope) if slope < 0 else math.nan
            if step == epsilon > 0:
                # Next to the largest loss floats are too coarse for that aim: the neighbours of this one tell.
                down, up = epsilon - reach * math.ulp(epsilon), epsilon + reach * math.ulp(epsilon)
                step, reach = max((low + high) / 2, down) if epsilon == high else min((low + high) / 2, up), 2 * reach
            if not (low < step < high or low == step == 0.0 != epsilon):
                step = 2 * epsilon + 1e-9 if high == math.inf else (low + high) / 2
            epsilon = step
        return Fraction(high)


@dataclass(frozen=True)
class _Mixed:
    """A total in which the bundles stand as one Gaussian draw, and what that costs."""

    total: Total
    shift: Fraction = Fraction(0)
    factor: Fraction = Fraction(1)
    tail: Fraction = Fraction(0)

    @property
    def ceiling(self) -> float:
        """A float not below the largest loss."""
        return math.nextafter(float(self.total.ref), math.inf) if self.total.bounded else math.inf

    def gap(self, epsilon: Fraction) -> Fraction:
        return self.total.ref - (epsilon - self.shift)

    def epsilon_guess(self, log_delta: float) -> float:
        return max(float(self.total.ref) - guess_for_delta(self.total, log_delta), 0.0) + float(self.shift)


def _tail(log_delta: float) -> Fraction:
    """A power of ten well below delta, so that a range of epsilon has the same."""
    return Fraction(10) ** (round(log_delta / math.log(10)) - _TAIL)


def _log(value: Fraction) -> float:
    return float(CONTEXT.log(real(value)))


def rough_epsilon_of(total: Total, delta: float) -> float:
    """``ComposedLoss.rough_epsilon`` of one that has neither bundles nor failures, and is this total."""
    top = float(total.ref) if total.bounded else math.inf
    return min(top, _rough_root(_Mixed(total), delta)) if delta > 0 and top > 0 else top


def _rough_root(mixed: _Mixed, target: float) -> float:
    return float(_Curve(mixed, mixed.epsilon_guess(math.log(target)), ROUGH).root(Fraction(target)))
