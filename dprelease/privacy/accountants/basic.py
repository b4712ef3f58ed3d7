"""Basic composition: epsilons add up, and so do deltas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import (
    Accountant,
    Atom,
    LossClaim,
    Words,
    check_delta,
    check_epsilon,
    rest_epsilon,
    taken,
    unsupported,
)
from dprelease.privacy.accountants.near import NearDraws, exp_of
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.accountants.zcdp import exact_sum
from dprelease.privacy.event import DiscreteGaussian, Event, Gaussian, Parallel, RandomScale
from dprelease.privacy.theorems import single
from dprelease.privacy.theorems.collapse import SMALLEST_SCALE
from dprelease.privacy.theorems.concentrated import rough_rho_to_epsilon
from dprelease.privacy.theorems.joint.random_scale import random_scale_near
from dprelease.words import marked

__all__ = ["Basic", "Draws", "Rough", "as_floats", "deltas_of_sum", "exp_of", "rough_single"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Draws:
    """An event as boxes: what is (epsilon, delta)-private as it stands, and what is so at any delta one likes.

    Attributes:
        epsilons: Epsilons of pure draws and of (epsilon, delta) boxes, and how often each occurs.
        deltas: Deltas of those boxes and of draws that do nothing but reveal, and how often each occurs.
        curved: The other draws, whose epsilon depends on the delta at which one reads it.
    """

    epsilons: Mapping[Fraction, int]
    deltas: Mapping[Fraction, int]
    curved: Mapping[Atom, int]

    @classmethod
    def of(cls, name: str, event: Event | NearDraws) -> Draws:
        """Sort the draws of an event for the accountant of that name.

        Raises:
            UnsupportedEvent: If the accountant has no theorem for one of them.
        """
        epsilons: dict[Fraction, int] = {}
        curved: dict[Atom, int] = {}
        found = peeled(taken(name, event))
        for atom, n in found.atoms.items():
            epsilon = rest_epsilon(atom)
            if epsilon is not None:
                epsilons[epsilon] = epsilons.get(epsilon, 0) + n
            elif isinstance(atom, Parallel):
                raise unsupported(name, atom, "its parts have no epsilon at delta 0")
            elif atom.sensitivity.l2_squared if isinstance(atom, DiscreteGaussian) else zcdp_rho(atom):  # else no word
                curved[atom] = n
        return cls(epsilons, found.reveals, curved)

    @property
    def total(self) -> Fraction:
        """The sum of the epsilons."""
        return exact_sum(epsilon * n for epsilon, n in self.epsilons.items())

    @property
    def spent(self) -> Fraction:
        """The sum of the deltas."""
        return sum((delta * n for delta, n in self.deltas.items()), Fraction(0))

    @property
    def shares(self) -> int:
        """The number of curved draws: each gets an equal share of what is left of delta."""
        return sum(self.curved.values())

    def left(self, delta: Fraction) -> Fraction:
        """What the boxes leave of delta when deltas add up.

        Raises:
            UnsupportedEvent: If they leave less than nothing, or nothing for a curved draw.
        """
        left = delta - self.spent
        if left < 0:
            raise UnsupportedEvent(
                f"the draws' own deltas add up to {float(self.spent):.6g}, more than delta {float(delta):.6g}",
                hint=f"give the budget a delta of at least {float(self.spent):.6g}, or lower the draws' deltas",
            )
        if self.curved and not left:
            why = "at delta 0" if not delta else f"at delta 0, and the other draws use up all of {float(delta):.6g}"
            raise UnsupportedEvent(
                f"Gaussian noise has no finite epsilon {why}",
                hint="give the budget a delta, such as 1e-9, or write `noise: laplace`"
                if not delta
                else "give the budget a larger delta, or write `noise: laplace`",
            )
        return left

    def at(self, each: Fraction) -> dict[Fraction, int]:
        """All epsilons, each curved draw read at this delta by its exact curve.

        Of many different ones the figures are up to 1e-4 larger than they need be, and several times faster.
        """
        boxes = dict(self.epsilons)
        read = single.epsilon if len(self.curved) <= _FEW else single.near_epsilon
        for atom, n in self.curved.items():
            epsilon = read(atom, each)
            boxes[epsilon] = boxes.get(epsilon, 0) + n
        return boxes


_FEW = 64  # different curved draws, up to which each is worth a curve of its own


@dataclass(frozen=True)
class Rough:
    """The same in floats, to guide a search.

    Attributes:
        boxes: The epsilons that do not depend on delta.
        mus: Sensitivity over scale of draws that are read as a continuous Gaussian.
        gaussians: Those draws, in the same order.
        others: All other curved draws.
        counts: How often each curved draw occurs, Gaussians first.
        ratios: By what each curved draw's figure is multiplied; empty for 1.
    """

    boxes: Mapping[float, int]
    mus: Floats
    gaussians: list[Atom]
    others: list[Atom]
    counts: list[int]
    ratios: tuple[float, ...] = ()

    @classmethod
    def of(cls, draws: Draws) -> Rough:
        """Turn draws into floats.

        A few discrete Gaussians on one cell are read on their own curve, and those of a scale below 16 on several
        cells on zCDP's, as in ``curves.single``; all others as continuous ones, which is off by about
        1 / (40 scale^2) relative.
        """
        mus: list[float] = []
        gaussians: list[Atom] = []
        others: list[Atom] = []
        few = len(draws.curved) <= _FEW
        for atom in draws.curved:
            if isinstance(atom, Gaussian) or (isinstance(atom, DiscreteGaussian) and not _own_curve(atom, few)):
                mus.append(math.sqrt(atom.sensitivity.l2_squared) / float(atom.scale))
                gaussians.append(atom)
            else:
                others.append(atom)
        counts = [draws.curved[atom] for atom in (*gaussians, *others)]
        return cls(as_floats(draws.epsilons), np.array(mus), gaussians, others, counts)

    def curved(self, log_each: float) -> list[tuple[float, int]]:
        """Epsilon and number of the curved draws, read at the delta with this logarithm; Gaussians come first."""
        found = _gaussians(self.mus, log_each) + [rough_single(atom, log_each) for atom in self.others]
        if self.ratios:
            found = [epsilon * ratio for epsilon, ratio in zip(found, self.ratios, strict=True)]
        return list(zip(found, self.counts, strict=True))

    def above(self, epsilon: float, log_each: float) -> float:
        """By how much the curved draws are above this epsilon together."""
        return _sum(self.curved(log_each)) - epsilon

    def refined(self, log_each: float) -> Rough:
        """The same, exact at this delta and so more than exact enough near it; many draws stay as they are."""
        atoms = [*self.gaussians, *self.others]
        if len(atoms) > _FEW:
            return self
        each = min(exp_of(log_each), Fraction(1))
        plain = [epsilon for epsilon, _ in replace(self, ratios=()).curved(log_each)]
        exact = [float(single.epsilon(atom, each)) for atom in atoms]
        ratios = [right / rough if right and rough else 1.0 for right, rough in zip(exact, plain, strict=True)]
        return replace(self, ratios=tuple(ratios))

    def at(self, log_each: float) -> dict[float, int]:
        """All epsilons, and how often each occurs."""
        boxes = dict(self.boxes)
        for one, n in self.curved(log_each):
            boxes[one] = boxes.get(one, 0) + n
        return boxes


class Basic(Accountant):
    """Sum of epsilons and of deltas (Dwork and Roth 2014, Theorem 3.16; also for draws chosen one after the other).

    A draw without an epsilon is read on its exact curve at an equal share of what is left of delta; pure draws add up.
    """

    name = "basic"
    words = Words(
        how=marked("adds up the ε of every draw, and their δ"),
        framework=marked("pure or approximate differential privacy, added up"),
        theorem=marked("none: ε and δ of the draws are added (Dwork and Roth 2014, Theorem 3.16)"),
    )
    most_draws = 16
    auto = "fast"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound, rounded up; exact with pure draws alone.

        Raises:
            UnsupportedEvent: The draws' own deltas leave too little of ``delta``.
        """
        check_delta(delta)
        draws = Draws.of(self.name, event)
        left = draws.left(delta)
        if not draws.curved:
            return draws.total
        return exact_sum(e * n for e, n in draws.at(left / draws.shares).items())

    def delta(self, event: Event, epsilon: Fraction) -> Fraction:
        """The smallest delta at which basic composition proves ``epsilon``, rounded up; 1 if there is none."""
        check_epsilon(epsilon)
        draws = Draws.of(self.name, event)
        return min(Fraction(1), sum((d * n for d, n in deltas_of_sum(draws, epsilon).items()), Fraction(0)))

    def rough_epsilon(self, event: Event | NearDraws, delta: float) -> float:
        """``epsilon`` in plain floats, to guide a search; infinite where there is none."""
        if isinstance(event, NearDraws) and len(event.counts) > _FEW and delta > 0:
            if event.noise == "discrete_laplace":
                return event.total(event.epsilons)
            mus = np.array(event.changes) / event.scales
            return event.total(_gaussians(mus, math.log(delta / sum(event.counts))))
        draws = Draws.of(self.name, event)
        left = delta - float(draws.spent)
        if left < 0 or (draws.curved and left <= 0):
            return math.inf
        if not draws.curved:
            return float(draws.total)
        return _sum(list(Rough.of(draws).at(math.log(left / draws.shares)).items()))

    def rough_least(self, event: Event | NearDraws, delta: float) -> float:
        """Of many Gaussian draws on one cell each: as often that of the one that loses least."""
        if not (delta and isinstance(event, NearDraws) and event.noise == "discrete_gaussian"):
            return 0.0
        least, n = float((np.array(event.changes) / event.scales).min()), sum(event.counts)
        return n * _gaussian(least, math.log(delta / n)) * (1 - 1e-9) if len(event.counts) > _FEW else 0.0

    def holds(self, claim: LossClaim) -> bool:
        """Not below the sums, each curved draw read at an equal part of the delta that is left."""
        return claim.adds_boxes()

    def takes_alone(self, atom: Atom) -> bool:
        """Parts in parallel only where each has an epsilon."""
        return not isinstance(atom, Parallel) or rest_epsilon(atom) is not None


def deltas_of_sum(draws: Draws, epsilon: Fraction) -> dict[Fraction, int]:
    """The deltas of draws whose epsilons add up to this one, and how often each occurs; a delta of 1 if none do."""
    left = epsilon - draws.total
    if left < 0 or draws.spent >= 1 or (draws.curved and not left):
        return {Fraction(1): 1}
    deltas = dict(draws.deltas)
    if not draws.curved:
        return deltas
    # Any epsilons that add up are a proof: floats find them, and are made to; each draw's curve gives its delta.
    rough = Rough.of(draws)
    for _ in range(2):
        log_each = _falling(partial(rough.above, float(left)), -1500.0, 0.0)
        rough = rough.refined(log_each)
    found = rough.curved(log_each)
    scale = left / sum((Fraction(e) * n for e, n in found), Fraction(0)) if _sum(found) else Fraction(0)
    for atom, (e, n) in zip((*rough.gaussians, *rough.others), found, strict=True):
        delta = single.delta(atom, Fraction(e) * scale if scale else left / draws.shares)
        deltas[delta] = deltas.get(delta, 0) + n
    return deltas


def _sum(pairs: list[tuple[float, int]]) -> float:
    return math.fsum(e * n for e, n in pairs)


def as_floats(epsilons: Mapping[Fraction, int]) -> dict[float, int]:
    """The same in floats; different rationals may become the same float."""
    found: dict[float, int] = {}
    for epsilon, n in epsilons.items():
        found[float(epsilon)] = found.get(float(epsilon), 0) + n
    return found


def _falling(function: Callable[[float], float], low: float, high: float) -> float:  # its sign changes there
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return high


def rough_single(atom: Atom, log_delta: float) -> float:
    """Epsilon of one draw at a delta in plain floats, each kind by the curve that ``Rough.of`` says."""
    if isinstance(atom, DiscreteGaussian) and _own_curve(atom):
        return _integer(atom, log_delta)
    if isinstance(atom, DiscreteGaussian | Gaussian):
        return _gaussian(math.sqrt(atom.sensitivity.l2_squared) / float(atom.scale), log_delta)
    if isinstance(atom, RandomScale):
        return random_scale_near(atom, math.exp(max(log_delta, -650.0)))
    return float(single.epsilon(atom, min(exp_of(log_delta), Fraction(1))))


def _own_curve(atom: DiscreteGaussian, few: bool = True) -> bool:
    """Whether a discrete Gaussian is not read as a continuous one."""
    if atom.sensitivity.l0 <= 1:
        return few and atom.scale <= 1000
    return atom.scale < SMALLEST_SCALE


def _integer(atom: DiscreteGaussian, log_delta: float) -> float:
    # cells that move alike: the lattice of their sum; others: zCDP; the worst change counts
    known, scale = atom.sensitivity, float(atom.scale)
    alike = [(len(shift), shift[0]) for shift in known.shifts if len(set(shift)) == 1]
    squares = [float(sum(c * c for c in shift)) for shift in known.shifts if len(set(shift)) > 1]
    if known.l0 <= 1 or not known.shifts:
        reach = int(known.linf)
        same = known.l0 <= 1 or known.l2_squared == known.l0 * reach**2
        alike, squares = ([(max(1, known.l0), reach)], []) if same else ([], [float(known.l2_squared)])
    found = [_lattice(scale, cells, shift, log_delta) for cells, shift in alike if shift]
    return max([0.0, *found, *(rough_rho_to_epsilon(square / scale**2 / 2, log_delta) for square in squares)])


def _lattice(scale: float, cells: int, shift: int, log_delta: float) -> float:
    # The loss depends on the sum of the noise alone; from a scale of 2 on that is discrete Gaussian too, to 1e-15.
    one, scale, shift = scale, scale * math.sqrt(cells), shift * cells
    # delta(epsilon) = P[z >= m - shift] - exp(epsilon) P[z >= m], where m is the first z whose loss is above epsilon;
    # with m held, this is solved for epsilon, and so on until m stays. The continuous one is the first guess.
    epsilon = _gaussian(shift / scale, log_delta)
    reach = math.ceil(40 * scale) + shift
    weights = np.exp(-((np.arange(-reach, reach + 1) / scale) ** 2) / 2)
    if one < 2:
        near = np.exp(-((np.arange(-reach, reach + 1) / one) ** 2) / 2)
        weights = near
        for _ in range(min(cells, 16) - 1):
            weights = np.convolve(weights, near, "same")
    tails = np.cumsum(weights[::-1])[::-1] / np.sum(weights)
    delta, last = math.exp(log_delta), None
    for _ in range(50):
        m = math.floor(epsilon * scale * scale / shift + shift / 2) + 1
        if m == last or m >= reach or tails[m + reach] < 1e-300:  # the quotient by less need not be a float
            break
        kept = tails[m - shift + reach] - delta
        epsilon = max(0.0, math.log(kept / tails[m + reach])) if kept > 0 else 0.0
        last = m
    return epsilon


def _gaussians(mus: Floats, log_delta: float) -> list[float]:
    # epsilon / mu is smooth in log mu: for many, a Chebyshev fit of degree 48 (1e-10) replaces most of the roots
    if len(mus) <= 64:
        return [_gaussian(mu, log_delta) for mu in mus.tolist()]
    low, high = math.log(float(mus.min())) - 1e-9, math.log(float(mus.max())) + 1e-9
    nodes = np.cos(math.pi * (np.arange(49) + 0.5) / 49)
    values = [_gaussian(mu, log_delta, -math.inf) / mu for mu in np.exp((low + high + nodes * (high - low)) / 2)]
    fit = np.polynomial.chebyshev.chebfit(nodes, values, 48)
    places = (2 * np.log(mus) - low - high) / (high - low)
    found: list[float] = np.maximum(0.0, mus * np.polynomial.chebyshev.chebval(places, fit)).tolist()
    return found


def _gaussian(mu: float, log_delta: float, least: float = 0.0) -> float:
    # With z = epsilon / mu - mu / 2 and R Mills' ratio, delta = density(z) (R(z) - R(z + mu)) and its derivative by
    # epsilon is -density(z) R(z + mu): Balle and Wang 2018, Theorem 8. log delta is concave, so Newton converges; where
    # it is all but level, the first step is cut by delta <= 1 - Phi(z) <= exp(-z^2 / 2), which holds from z = 0 on.
    most = mu * (mu / 2 + math.sqrt(max(0.0, -2 * log_delta)))
    start = epsilon = max(0.0, mu * (mu / 2 - 36))  # left of that delta is 1 in floats
    for _ in range(60):
        z = epsilon / mu - mu / 2
        far = _mills(z + mu)
        near = _mills(z) - far if mu > 1e-8 else mu * (1 - (z + mu / 2) * _mills(z + mu / 2))  # -R'(x) = 1 - x R(x)
        step = (-z * z / 2 - 0.9189385332046727 + math.log(near) - log_delta) * near / far
        if epsilon == start and step <= 0 and not least:
            return start
        epsilon = max(least, min(most, epsilon + step))
        if abs(step) <= 1e-13 * abs(epsilon):
            break
    return epsilon


def _mills(z: float) -> float:  # (1 - Phi(z)) / density(z)
    if z < 12:
        return 1.2533141373155003 * math.erfc(z / 1.4142135623730951) * math.exp(z * z / 2)
    tail = z
    for k in range(40, 0, -1):
        tail = z + k / tail
    return 1 / tail
