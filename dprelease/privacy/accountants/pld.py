"""Privacy loss distributions: the exact composed loss, where every draw has a known worst-case pair."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, combinations
from math import ceil, floor, isqrt
from typing import Literal, Protocol

from dprelease.privacy.accountants.base import (
    EVERY_KIND,
    Accountant,
    Atom,
    Atoms,
    LossClaim,
    Words,
    atoms,
    check_delta,
    check_epsilon,
    pure_epsilon,
    taken,
    unsupported,
)
from dprelease.privacy.accountants.near import CellDraws, NearDraws, only_change
from dprelease.privacy.accountants.rho import is_joint
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Parallel,
    RandomScale,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.theorems import single
from dprelease.privacy.theorems.collapse import SMALLEST_SCALE, EqualDraws
from dprelease.privacy.theorems.joint.random_scale import has_curve, random_scale_losses, random_scale_near
from dprelease.privacy.theorems.joint.total_residual import response_pair
from dprelease.privacy.theorems.lattice import knorm_top
from dprelease.privacy.theorems.loss_bound import ComposedLoss, rough_epsilon_of
from dprelease.privacy.theorems.total_loss import CellLaw, Total, total_of_floats
from dprelease.privacy.unit import Neighboring
from dprelease.words import marked

__all__ = ["Pld"]

_MOST_PARTS = 20


class Pld(Accountant):
    """delta(epsilon) of the composed privacy loss, by one tilted contour integral (``privacy.theorems.inversion``).

    Each draw stands for a pair of laws that dominates it, and dominating pairs compose, also when draws are chosen
    adaptively with fixed parameters (Zhu, Dong and Wang 2022, Theorem 10):

    - K-norm noise that moves by a norm of 1: its own three losses (``docs/proofs/tight-rho.md``, section 3);
    - a total with residuals where one row changes: its own two randomized responses, one of which is drawn; exactly,
      but that they are never taken for less than independent (``docs/proofs/total-residual.md``);
    - noise of one random scale, where one row changes, alone: its certified curve; beside other draws the pair that
      joins points of that curve (``docs/proofs/random-scale.md``). Of several rows Gaussian noise of its smallest
      scale;
    - any other pure draw: randomized response (Kairouz, Oh and Viswanath 2015); with a delta of its own, that much on
      an infinite loss, as ``accountants.reveals`` takes it apart for the other accountants;
    - bounded range: the pair whose profile is the envelope of all of that range (``docs/proofs/bounded-range.md``);
    - Laplace and discrete Laplace with one worst-case change vector: one exact law per changed cell; a larger change
      of a cell dominates a smaller one, as the noise is log-concave. Else randomized response by the L1 sensitivity;
    - Gaussian: all draws are one, exactly (Dong, Roth and Su 2022, Corollary 3.3);
    - discrete Gaussian with one worst-case change vector: its lattice laws, exactly. With several or unknown
      vectors: the proved Gaussian bound of ``curves.collapse``, which needs the norms alone and a scale of 16 steps;
      below, one vector that covers all of them, by its lattice laws. From 4,096 steps on every discrete Gaussian is
      read by the Gaussian bound, to 1e-8 of itself. Several with a common bound: by the Gaussian bound, together, or
      each by itself where the scale of one of them is below 16 steps (``docs/proofs/replaced-pairs.md``);
    - parts in parallel: alone, the largest of their curves. Beside other draws: a part that covers all others,
      randomized response if all are pure, one Gaussian if all are Gaussian; else refused.
    """

    name = "pld"
    reads_together = True
    words = Words(
        how=marked("composes the whole law of the loss, rounded up; tight where every draw's worst case is known"),
        framework=marked("approximate differential privacy, by the law of the privacy loss"),
        theorem=marked(
            "dominating pairs of laws compose (Zhu, Dong and Wang 2022, Theorem 10), and δ is read off at ε"
        ),
    )
    takes = EVERY_KIND - {"concentrated"}
    most_draws = 200
    auto = "law"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """The least epsilon >= 0 that ``delta`` confirms, a few parts in 10^7 above the true one at most.

        Raises:
            UnsupportedEvent: For an event without a known dominating pair, or if no finite epsilon exists at delta.
        """
        check_delta(delta)
        return max(loss.epsilon(delta) for loss in _losses(event))

    def epsilon_of_cells(self, draws: CellDraws, delta: Fraction) -> Fraction:
        """As of their event, whose cells have these very laws."""
        kind: Literal["staircase", "bell"] = "staircase" if draws.noise == "discrete_laplace" else "bell"
        if kind == "bell" and max(draws.scales) >= _WIDE:
            return self.epsilon(draws.event, delta)
        parts: Counter[CellLaw] = Counter()
        for scale, change, n in zip(draws.scales, draws.changes, draws.counts, strict=True):
            parts[CellLaw(kind, scale, change)] += n
        check_delta(delta)
        return ComposedLoss(parts).epsilon(delta)

    def delta(self, event: Event, epsilon: Fraction) -> Fraction:
        """An upper bound on delta at this epsilon >= 0; relative accuracy does not depend on its size.

        Raises:
            UnsupportedEvent: For an event without a known dominating pair.
            ValueError: If epsilon is negative.
        """
        check_epsilon(epsilon)
        draw = _only_draw(counted := taken("pld", event, Pld.takes))
        if isinstance(draw, DiscreteLaplace | Laplace) and draw.sensitivity.l0 <= 1:
            return single.delta(draw, epsilon)  # one line, where a profile would take dozens of integrals
        return max(loss.delta(epsilon) for loss in _losses_of(counted))

    def rough_epsilon(self, event: Event | NearDraws, delta: float) -> float:
        """Epsilon in float, quickly and uncertified, within about one part in 10^5; infinity if there is none.

        Raises:
            UnsupportedEvent: For an event without a known dominating pair.
        """
        if isinstance(event, NearDraws) and (total := _near_total(event)) is not None:
            return rough_epsilon_of(total, delta)
        return max(loss.rough_epsilon(delta) for loss in _losses(event, rough=True))

    def holds(self, claim: LossClaim) -> bool:
        """Not below the exact loss of all draws, by a transform of the verifier's own."""
        return claim.is_true()

    def takes_alone(self, atom: Atom) -> bool:
        """Parts in parallel where it takes all that is in them."""
        if isinstance(atom, Parallel):
            return all(self.takes_alone(inner) for part in atom.events for inner in atoms(part))
        return atom.kind in self.takes


def _only_draw(counted: Atoms) -> Atom | None:
    """The draw of an event that has no other one."""
    return next(iter(counted)) if counted.total() == 1 else None


# From this scale on one Gaussian bounds a discrete one to 1e-8 of itself, and the lattice sum loses digits in floats.
_WIDE = 1 << 12


def _near_total(event: NearDraws) -> Total | None:
    """All draws as one loss; None where it is no sum of the laws of cells, or its losses may be on a lattice."""
    if event.noise == "discrete_gaussian" and event.scales.max() >= _WIDE:
        return None
    kind: Literal["staircase", "bell"] = "staircase" if event.noise == "discrete_laplace" else "bell"
    return total_of_floats(kind, event.scales, event.changes, event.counts)


class _Curve(Protocol):
    """What a loss says of itself."""

    def delta(self, epsilon: Fraction) -> Fraction: ...

    def epsilon(self, delta: Fraction) -> Fraction: ...

    def rough_epsilon(self, delta: float) -> float: ...


@dataclass(frozen=True)
class _Alone:
    """The curve of one draw of noise of a random scale, of which there are only points beside other draws."""

    draw: RandomScale

    def delta(self, epsilon: Fraction) -> Fraction:
        return single.delta(self.draw, epsilon)

    def epsilon(self, delta: Fraction) -> Fraction:
        return single.epsilon(self.draw, delta)

    def rough_epsilon(self, delta: float) -> float:
        return random_scale_near(self.draw, delta) if delta else math.inf


def _losses(event: Event | NearDraws, *, rough: bool = False) -> Sequence[_Curve]:
    """The losses of which the largest curve bounds the event: one, unless the event is a single parallel one.

    A rough one is only near that: for searches.
    """
    return _losses_of(taken("pld", event, Pld.takes), rough=rough)


def _losses_of(counted: Atoms, *, rough: bool = False) -> Sequence[_Curve]:
    """The same of draws that were counted."""
    draw = _only_draw(counted)
    if isinstance(draw, Parallel):
        return _choices(draw)
    if isinstance(draw, RandomScale) and has_curve(draw):
        return [_Alone(draw)]
    return [_known(tuple(counted.items()), rough)]


@lru_cache(maxsize=4)
def _known(counted: tuple[tuple[Atom, int], ...], rough: bool) -> ComposedLoss:
    """As ``_composed``, with all that was worked out of it: a curve is asked for its points one after the other.

    The order of the draws counts, for their factors are multiplied in it.
    """
    return _composed(Counter(dict(counted)), rough=rough)


def _composed(counted: Atoms, *, rough: bool = False) -> ComposedLoss:
    """All draws as one loss; of those that move one cell in one known way, straight to their law."""
    parts: Counter[CellLaw] = Counter()
    others: list[tuple[ComposedLoss, int]] = []
    for atom, n in _bounded_together(counted).items():
        if (part := _one_part(atom)) is None:
            others.append((_random_scale(atom, rough) if isinstance(atom, RandomScale) else _dominating(atom), n))
        else:
            parts[part] += n
    return ComposedLoss.of([(ComposedLoss(parts), 1), *others]) if others else ComposedLoss(parts)


def _bounded_together(counted: Atoms) -> Atoms:
    """The draws, each by itself where those that are bounded together cannot all be read by the Gaussian bound.

    What bounds them together holds for all of them and for no part of them, and lattice laws know nothing of it.
    """
    together = [atom for atom in counted if isinstance(atom, DiscreteGaussian) and atom.common is not None]
    if all(atom.scale >= SMALLEST_SCALE for atom in together):
        return counted
    found: Atoms = Counter()
    for atom, n in counted.items():
        alone = isinstance(atom, DiscreteGaussian) and atom.common is not None
        found[atom.model_copy(update={"common": None}) if alone else atom] += n
    return found


def _one_part(atom: Atom) -> CellLaw | None:
    """The law of a draw on one cell that one known change moves, as ``_dominating`` has it; None for all others."""
    if atom.kind == "discrete_laplace":
        change = _change(atom.sensitivity)
        return CellLaw("staircase", atom.scale, change) if change else None
    narrow = atom.kind == "discrete_gaussian" and atom.scale.numerator < _WIDE * atom.scale.denominator
    if atom.kind == "discrete_gaussian" and narrow and atom.common is None:
        change = _change(atom.sensitivity)
        return CellLaw("bell", atom.scale, change) if change else None
    return None


_change = lru_cache(maxsize=1 << 10)(only_change)


def _dominating(atom: Atom) -> ComposedLoss:
    """The worst-case loss of one draw; raises UnsupportedEvent where none is known."""
    if isinstance(atom, Gaussian):
        return ComposedLoss(squared=atom.sensitivity.l2_squared / atom.scale**2)
    if isinstance(atom, DiscreteGaussian):
        return _discrete_gaussian(atom)
    if isinstance(atom, RandomScale):
        return _random_scale(atom, rough=False)
    if isinstance(atom, Parallel):
        return _beside_others(atom)
    if isinstance(atom, DiscreteLaplace | Laplace):
        found = atom.sensitivity
        if len(found.shifts) == 1 and sum(found.shifts[0]) <= found.l1:
            changes = Counter(found.shifts[0])
            if isinstance(atom, DiscreteLaplace):
                return ComposedLoss(Counter({CellLaw("staircase", atom.scale, c): n for c, n in changes.items() if c}))
            return ComposedLoss(Counter({CellLaw("smooth", c / atom.scale): n for c, n in changes.items() if c}))
    if isinstance(atom, TotalResidual):
        large, small, alike = response_pair(atom)
        return ComposedLoss(Counter({CellLaw("pair", large, small=small, alike=alike): 1} if large else {}))
    if isinstance(atom, BoundedRange):
        return ComposedLoss(Counter({CellLaw("ramp", atom.epsilon): 1} if atom.epsilon else {}))
    if is_joint(atom):
        mass = knorm_top(atom.ball, atom.dimension, atom.scale)
        return ComposedLoss(Counter({CellLaw("triple", 1 / atom.scale, mass=mass): 1}))
    failures = ((atom.delta, 1),) if isinstance(atom, Approximate) and atom.delta else ()
    size = atom.epsilon if isinstance(atom, Approximate) else pure_epsilon(atom)
    if size is None:
        raise unsupported("pld", atom)
    return ComposedLoss(Counter({CellLaw("response", size): 1} if size else {}), failures=failures)


def _random_scale(atom: RandomScale, rough: bool) -> ComposedLoss:
    """Of one row the losses of its own curve; of several discrete Gaussian noise of the smallest scale.

    Told the scale, none is worse than that. All figures of ``curves.collapse`` fall as the scale grows, so that those
    of the smallest one hold for a mixture.
    """
    if not atom.rows:
        return ComposedLoss()
    if has_curve(atom):
        found = random_scale_losses(atom, rough=rough)
        part = CellLaw("listed", found.step, len(found.masses) // 2, listed=found.masses)
        return ComposedLoss(Counter({part: 1}), failures=((found.beyond, 1),))
    steps = atom.rows * RandomScale.GRAIN
    scale = atom.scale * min(atom.stretches) * RandomScale.GRAIN
    farthest = ceil(steps * max(Fraction(1), atom.total))
    bundle = EqualDraws(scale, steps**2 * atom.length_squared, atom.rows * (atom.dimension + 1), farthest)
    return ComposedLoss(bundles=(bundle,))


def _discrete_gaussian(atom: DiscreteGaussian) -> ComposedLoss:
    found = atom.sensitivity
    if not found.l2_squared or not found.l0 or not found.linf:
        return ComposedLoss()
    known = atom.scale < _WIDE and atom.common is None and _is_known(found)
    if atom.scale >= SMALLEST_SCALE and not known:
        bundle = EqualDraws(atom.scale, found.l2_squared, found.l0, ceil(found.linf), common=atom.common)
        return ComposedLoss(bundles=(bundle,))
    return ComposedLoss(Counter({CellLaw("bell", atom.scale, c): n for c, n in Counter(_covering(found)).items() if c}))


def _is_known(found: Sensitivity) -> bool:
    """Whether the covering vector is no larger than the worst one: its lattice laws are then exact.

    An unknown vector of many cells is larger after a few of them, so that it is not made to its end.
    """
    squares = (c * c for c in _covering(found))
    return all(total <= found.l2_squared for total in accumulate(squares))


def _covering(found: Sensitivity) -> Iterator[int]:
    """A change vector that is nowhere below any that one unit can make; the worst one itself where just one is known.

    A larger change of a cell dominates a smaller one, so its law dominates theirs. Of several known vectors the largest
    in every place. Of an unknown one, sorted downwards, the first i changes are each at least the i-th, c: hence
    i c <= l1, i c^2 <= l2_squared, and c <= linf; changes are whole numbers.
    """
    if found.shifts:
        longest = max(map(len, found.shifts))
        yield from (max(shift[i] for shift in found.shifts if i < len(shift)) for i in range(longest))
        return
    largest, l1, l2_squared = floor(found.linf), floor(found.l1), floor(found.l2_squared)
    for i in range(1, found.l0 + 1):
        most = min(largest, l1 // i, isqrt(l2_squared // i))
        if not most:
            return  # nor is there anything in the places after it
        yield most


def _choices(atom: Parallel) -> list[ComposedLoss]:
    """What one unit can touch: one part, or under replace-one two of them, composed."""
    parts = [_sum(part) for part in atom.events]
    one_only = atom.neighboring is Neighboring.ADD_REMOVE or len(parts) == 1
    needed = 1 if one_only else 2
    # A part that this many others cover is never among the worst; of equal ones the first count.
    kept = [
        loss
        for i, loss in enumerate(parts)
        if sum(other.covers(loss) and (j < i or not loss.covers(other)) for j, other in enumerate(parts) if j != i)
        < needed
    ]
    if not kept:
        return [ComposedLoss()]
    if one_only:
        return kept
    if len(kept) > _MOST_PARTS:
        raise unsupported(
            "pld", atom, f"more than {_MOST_PARTS} different parts, of which a replaced unit can touch two"
        )
    return [ComposedLoss.of([(a, 1), (b, 1)]) for a, b in combinations(kept, 2)]


def _sum(event: Event) -> ComposedLoss:
    return ComposedLoss.of((_dominating(atom), n) for atom, n in _bounded_together(atoms(event)).items())


def _beside_others(atom: Parallel) -> ComposedLoss:
    """One loss whose curve is nowhere below any part's, for parts that are composed with something else."""
    choices = _choices(atom)
    for loss in choices:
        if all(loss.covers(other) for other in choices):
            return loss
    if all(loss.bounded for loss in choices):
        worst, size = max(loss.failure for loss in choices), max(loss.largest for loss in choices)
        return ComposedLoss(
            Counter({CellLaw("response", size): 1} if size else {}), failures=((worst, 1),) if worst else ()
        )
    raise unsupported(
        "pld", atom, "beside other draws it needs one part that costs at least as much as every other one"
    )
