"""What a plan's draws cost, derived again: each accountant's figure by another form of its theorem, in floats.

Two kinds of check. Whether a claim is *true*: the smallest claimed epsilon is held against the exact loss of all
draws (``delta``), whatever the accountant. Whether it is *that accountant's*: basic and advanced must not
claim less than their theorems give; the figures of zcdp and rdp must be what theirs give, neither less nor more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.events import draws_of
from dprelease.plan.verify.mathematics.delta import delta_of, revealed, total_rho
from dprelease.plan.verify.mathematics.draws import Array, Cell, Draw, log_moments, witnesses, worst
from dprelease.plan.verify.mathematics.one_draw import lattice_epsilon, normal_epsilon
from dprelease.plan.verify.mathematics.sphere import sphere_epsilon
from dprelease.plan.verify.reach import require
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget

__all__ = ["check_losses", "cost_within"]

Draws = Mapping[Draw, int]
Truths = dict[tuple[Fraction, Fraction], bool]

_NEAR = 1e-6  # relative, where the same theorem is evaluated twice
_TRUE = 1e-4  # relative in delta, where a claim is held against the exact loss
_SPLITS = (0.5, 0.35, 0.7, 0.2, 0.9, 0.1, 1.0, 0.05, 0.02, 0.01)  # of delta: what advanced composition gives to boxes
_SMALL = 16  # the scale below which several cells are not read as continuous
_FIRST, _LAST = math.log(1e-7), math.log(1e18)  # of theta, the Renyi order less one
_APART = 0.25  # between two points at first, at most, in ln theta
_CLOSELY = 16  # stretches that are looked at closely
_WITHIN = 1e-5  # in ln theta: what lies between is off by the square of that
_SUMMED = 2000  # the largest scale of one discrete Gaussian that is summed over its lattice


def check_losses(plan: ReleasePlan) -> None:
    """Every claimed loss of a plan.

    Raises:
        BrokenPromiseError: If one of them is not what its accountant proves, or the smallest is not true.
    """
    draws, truths = draws_of(plan.steps), Truths()
    smallest: dict[Fraction, Fraction] = {}
    for name, loss in plan.loss.items():
        holds = loss.epsilon >= 0 and 0 <= loss.delta < 1 and _holds(name, draws, loss.epsilon, loss.delta, truths)
        require(holds, f"the loss under {name} is not what that accountant proves")
        smallest[loss.delta] = min(loss.epsilon, smallest.get(loss.delta, loss.epsilon))
    for delta, epsilon in smallest.items():
        require(_Claim(draws, epsilon, delta, truths=truths).is_true(), "the smallest loss is larger than claimed")


def cost_within(steps: Iterable[Step], budget: Budget, delta: Fraction, accounting: str) -> bool:
    """Whether these steps alone cost at most a budget, read at this delta by the plan's accounting."""
    draws = draws_of(steps)
    if budget.rho is not None:
        return total_rho(draws) <= float(budget.rho) * (1 + _NEAR) and revealed(draws) <= delta
    epsilon = budget.epsilon or Fraction(0)
    if accounting == "auto":
        return _true(draws, epsilon, delta)
    return ACCOUNTANTS[accounting].holds(_Claim(draws, epsilon, delta, at_most=True))


@dataclass(frozen=True)
class _Claim:
    """A loss and its draws, for the accountant that claims it: ``Accountant.holds`` says by which of these it stands.

    Attributes:
        draws: Read anew from the events of the plan.
        epsilon: As claimed.
        delta: As claimed.
        at_most: The draws may cost less: the epsilon is a limit, and not the figure of a theorem.
        truths: Which pairs of epsilon and delta are known to be true of the same draws, or not to be.
    """

    draws: Draws
    epsilon: Fraction
    delta: Fraction
    at_most: bool = False
    truths: Truths = field(default_factory=dict)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of all cells that move."""
        return frozenset(cell.kind for draw in self.draws for way in draw for cell in way)

    @property
    def rho(self) -> float:
        """See :func:`total_rho`."""
        return total_rho(self.draws)

    def is_true(self) -> bool:
        """Against the exact loss of all draws (``delta``)."""
        asked = (self.epsilon, self.delta)
        if asked not in self.truths:
            self.truths[asked] = _true(self.draws, *asked)
        return self.truths[asked]

    def adds_boxes(self) -> bool:
        """Epsilons and deltas added up."""
        return _basic(self.draws, self.epsilon, self.delta)

    def composes_boxes(self) -> bool:
        """The optimum for boxes."""
        return _advanced(self.draws, self.epsilon, self.delta)

    def by_curves(self, *, renyi: bool) -> bool:
        """What the curves give: enough, and but for a limit no more than that; today's curves, or those before them."""
        low, high = (self.epsilon * (1 + sign * Fraction(_NEAR)) for sign in (-1, 1))

        def proves(epsilon: Fraction, plain: bool) -> bool:
            return _curve_proves(self.draws, epsilon, self.delta, renyi=renyi, plain=plain)

        if not proves(high, False):
            return False
        return self.at_most or not self.epsilon or not proves(low, False) or (proves(high, True) != proves(low, True))


def _true(draws: Draws, epsilon: Fraction, delta: Fraction) -> bool:
    return delta_of(draws, epsilon) <= float(delta) * (1 + _TRUE)


def _holds(name: str, draws: Draws, epsilon: Fraction, delta: Fraction, truths: Truths | None = None) -> bool:
    accountant, known = ACCOUNTANTS.get(name), {} if truths is None else truths
    return accountant is not None and accountant.holds(_Claim(draws, epsilon, delta, truths=known))


def _pure(draw: Draw) -> Fraction | None:
    """Epsilon at delta 0, where nothing is revealed: the largest loss of the worst way."""
    losses = [[cell.pure for cell in way] for way in draw]
    if any(loss is None for way in losses for loss in way):
        return None
    return max(sum((loss or Fraction(0) for loss in way), Fraction(0)) for way in losses)


def _sum_pure(draws: Draws) -> float:
    """Infinite where a draw is not pure."""
    found = [(_pure(draw), n) for draw, n in draws.items()]
    return math.fsum(math.inf if one is None else float(one) * n for one, n in found)


def _basic(draws: Draws, epsilon: Fraction, delta: Fraction) -> bool:
    """Epsilons and deltas add up, each Gaussian draw read at an equal part of the delta that is left."""
    curved = sum(n for draw, n in draws.items() if _pure(draw) is None)
    left = delta - sum((size * n for size, n in _own_deltas(draws)), Fraction(0))
    if left < 0 or (curved and not left):
        return False
    sums = math.fsum(float(size) * n for size, n in _boxes(draws, float(left) / max(1, curved)))
    return float(epsilon) >= sums * (1 - _NEAR)


def _own_deltas(draws: Draws) -> list[tuple[Fraction, int]]:
    return [(draw[0][0].value, n) for draw, n in draws.items() if draw[0][0].kind == "reveal"]


def _boxes(draws: Draws, delta: float) -> list[tuple[Fraction, int]]:
    """Every draw as an (epsilon, delta) box, and how often; a pure one at delta 0.

    Exact where it is pure: close to the sum of all, delta is proportional to what epsilon leaves of it.
    """
    found = []
    for draw, n in draws.items():
        pure = _pure(draw)
        if pure == 0:
            continue
        found.append((Fraction(_least_epsilon(draw, delta)) if pure is None else pure, n))
    return found


def _advanced(draws: Draws, epsilon: Fraction, delta: Fraction) -> bool:
    """The optimum for boxes: 1 - delta = (1 - d_1) ... (1 - d_n) (1 - delta of randomized responses).

    Kairouz, Oh and Viswanath 2015, Theorem 3.3, and Murtagh and Vadhan 2016, Theorem 1.5 for unequal boxes; every
    other theorem about boxes claims at least as much.
    """
    curved = sum(n for draw, n in draws.items() if _pure(draw) is None)
    own = revealed(draws)
    if delta <= own:
        return delta == own and not curved and float(epsilon) >= _sum_pure(draws) * (1 - _NEAR)
    left = float((delta - own) / (1 - own))
    shared = float(max(delta - sum(size * n for size, n in _own_deltas(draws)), Fraction(0)))
    for split in (0.0,) if not curved else _SPLITS if shared else (1.0,):
        each = shared * split / max(1, curved)  # any share is a proof; this is the one that is claimed
        if split == 1 and left < 1:  # that one of the boxes fails has this probability
            each = -math.expm1(math.log1p(-left) / curved)
        responses: Counter[Draw] = Counter()
        for size, n in _boxes(draws, each):
            responses[((Cell("pure", size),),)] += n
        rest = delta_of(responses, epsilon) if split < 1 or epsilon < Fraction(_sum(responses)) else 0.0
        if rest < 1 and -math.expm1(curved * math.log1p(-each) + math.log1p(-rest)) <= left * (1 + _NEAR):
            return True
        if split == 1 and float(epsilon) >= _sum(responses) * (1 - _NEAR):
            return True
    return False


def _sum(responses: Draws) -> float:
    return math.fsum(float(way[0].value) * n for (way,), n in responses.items())


def _curve_proves(draws: Draws, epsilon: Fraction, delta: Fraction, *, renyi: bool, plain: bool = False) -> bool:
    """Whether summed zCDP or Renyi losses prove (epsilon, delta): the other direction of CKS 2020, Proposition 12.

    ln delta is the least over theta > 0 (order 1 + theta) of K(theta) - theta epsilon - theta ln(1 + 1/theta)
    - ln(1 + theta), where K(theta) is theta times the Renyi divergence of that order.
    """
    own = revealed(draws)
    draws = {draw: n for draw, n in draws.items() if _pure(draw) != 0}
    if not draws or delta < own:
        return delta >= own
    if renyi and float(epsilon) >= _sum_pure(draws) * (1 - 1e-12):
        return True
    delta = (delta - own) / (1 - own)  # of what does not reveal; see verify_delta.delta_of
    if not delta:
        return False
    if plain:
        draws = _plain(draws)
    rho = _plain_rho(draws) if plain else total_rho(draws)
    curves = [_concentrated(rho, epsilon)] + ([_renyi(draws, epsilon)] if renyi else [])
    return any(each.reaches(math.log(delta.numerator) - math.log(delta.denominator)) for each in curves)


class _Summed(NamedTuple):
    """What summed losses prove at one epsilon.

    Attributes:
        curve: K less theta times a number.
        gap: That number less epsilon.
        kinks: Where a bounded range reaches its own epsilon: between two of these thetas K is convex.
    """

    curve: Callable[[Array], Array]
    gap: float
    kinks: tuple[float, ...] = ()

    def _height(self, at: Array) -> Array:
        theta = np.exp(at)
        return self.curve(theta) + theta * self.gap - theta * np.log1p(1 / theta) - np.log1p(theta)

    def reaches(self, log_delta: float) -> bool:
        """Whether the least over theta > 0 of ln delta is at most this.

        Between two kinks it is convex in theta, for -theta ln(1 + 1/theta) - ln(1 + theta) has the second derivative
        1 / (theta (1 + theta)): what lies around the least of some points holds the least of all. Of many stretches
        the lowest are looked at closely.
        """
        ends = np.array([_FIRST, *sorted({math.log(kink) for kink in self.kinks}), _LAST])
        ends = ends[(ends >= _FIRST) & (ends <= _LAST)]
        counts = np.ceil(np.diff(ends) / _APART).astype(int) + 2
        points = [np.linspace(low, high, n) for low, high, n in zip(ends, ends[1:], counts, strict=False)]
        found = self._height(np.concatenate(points))
        starts = np.cumsum([0, *counts])
        best, least = float(np.min(found)), np.minimum.reduceat(found, starts[:-1])
        for each in np.argsort(least)[:_CLOSELY]:
            at, values = points[each], found[starts[each] : starts[each + 1]]
            while best > log_delta and at[-1] - at[0] > _WITHIN:
                lowest = int(np.argmin(values))
                at = np.linspace(at[max(0, lowest - 1)], at[min(len(at) - 1, lowest + 1)], 41)
                values = self._height(at)
                best = min(best, float(np.min(values)))
        return best <= log_delta


def _concentrated(rho: float, epsilon: Fraction) -> _Summed:
    return _Summed(lambda theta: rho * theta * theta, rho - float(epsilon))


def _renyi(draws: Draws, epsilon: Fraction) -> _Summed:
    """K less theta times a number, and that number less epsilon; of a draw's ways the largest at each order.

    A discrete Gaussian counts by its rho, as the theorem has it: its own curve is lower by a hair.
    """
    single: Counter[Cell] = Counter()
    several: list[tuple[int, float, Draw]] = []
    ranges: list[tuple[float, int]] = []
    rho, whole = 0.0, Fraction(0)
    for all_ways, n in draws.items():
        draw = worst(tuple(tuple(map(_in_one_cell, way)) for way in all_ways))
        if draw[0][0].kind == "range":
            whole += n * _quick(draw[0][0].value)
            ranges.append((float(draw[0][0].value), n))
        elif _pure(draw) is None:
            rho += total_rho({draw: n})
        else:
            whole += n * _quick(_pure(draw) or Fraction(0))
            if len(draw) > 1:
                several.append((n, float(_pure(draw) or 0), draw))
            else:
                single.update({cell: n * m for cell, m in Counter(draw[0]).items()})

    def curve(theta: Array) -> Array:
        total = log_moments(single, theta) + rho * theta * theta
        for n, top, draw in several:
            ways = [log_moments(Counter(w), theta) + theta * (float(sum(c.top for c in w)) - top) for w in draw]
            total = total + n * np.max(ways, axis=0)
        for size, n in ranges:
            total = total + n * np.minimum(0, theta * (_mean_loss(size) - size) + (theta * size) ** 2 / 8)
        return total

    kinks = (8 * (size - _mean_loss(size)) / size**2 for size, _ in ranges)
    return _Summed(curve, float(whole - epsilon) + rho, tuple(kinks))


def _in_one_cell(cell: Cell) -> Cell:
    """Laplace noise on an unknown vector: none has a larger moment than its L1 norm in one cell (see ``worst``)."""
    if cell.kind == "laplace" and cell.norms is not None:
        return Cell("laplace", cell.value, math.floor(cell.norms.l1))
    return cell


def _mean_loss(size: float) -> float:
    """The largest mean of a loss in an interval of this length (Dong, Durfee and Rogers 2020).

    K(theta) / theta is at most that and theta size^2 / 8 more (Hoeffding's lemma), and never above the size.
    """
    if size < 1e-3:
        return size * size / 8  # within 1e-8 of itself
    share = size / math.expm1(size)
    return share - 1 - math.log(share)


def _quick(value: Fraction) -> Fraction:
    """250 bits after the point: the sum of a thousand different rationals has a very long denominator."""
    return Fraction((value.numerator << 250) // value.denominator, 1 << 250)


def _least_epsilon(draw: Draw, delta: float) -> float:
    """Epsilon of one Gaussian draw at this delta: one cell over its lattice, several by the continuous formula.

    Every proof for several cells of a wide scale claims at least what is true of continuous noise; of a small one
    the cells are composed exactly.
    """
    found = 0.0
    if draw[0][0].draw is not None:
        return sphere_epsilon(draw[0][0].draw, delta)
    if draw[0][0].norms is not None:
        # A wide scale is read as continuous noise of that norm, or dearer; a small one by zCDP, above any pair.
        found = normal_epsilon(math.sqrt(2 * float(draw[0][0].rho)), delta) if draw[0][0].value >= _SMALL else 0.0
    for way in witnesses(draw):
        scale = float(way[0].value)
        if len(way) == 1 and scale <= _SUMMED:
            found = max(found, lattice_epsilon(scale, way[0].shift, delta))
        elif scale < _SMALL:
            found = max(found, _composed_epsilon(way, delta))
        else:
            found = max(found, normal_epsilon(math.sqrt(sum(2 * float(cell.top) for cell in way)), delta))
    return found


@lru_cache(maxsize=1 << 10)
def _composed_epsilon(way: tuple[Cell, ...], delta: float) -> float:
    """Of all cells of one way together, by halving; from below."""
    low, high = 0.0, 2 * normal_epsilon(math.sqrt(sum(2 * float(cell.top) for cell in way)), delta) + 1
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of({(way,): 1}, Fraction(middle)) > delta else (low, middle)
    return low


def _plain_rho(draws: Draws) -> float:
    """What pure noise counted for before its losses were read exactly: see ``Cell.rho``."""
    return math.fsum(n * max(math.fsum(float(cell.rho) for cell in way) for way in draw) for draw, n in draws.items())


def _plain(draws: Draws) -> Draws:
    """The draws with K-norm noise as any pure draw of its epsilon, as it was read before."""
    found: Counter[Draw] = Counter()
    for draw, n in draws.items():
        ways = (tuple(Cell("pure", cell.value) if cell.kind == "triple" else cell for cell in way) for way in draw)
        found[tuple(ways)] += n
    return found
