"""Renyi differential privacy: curves add up order by order, then one conversion at the best order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import (
    Accountant,
    Atom,
    Atoms,
    LossClaim,
    Words,
    check_delta,
    check_epsilon,
    pure_epsilon,
    taken,
    unsupported,
)
from dprelease.privacy.accountants.near import NearDraws
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.rho import is_joint, rough_rho, summed_rhos, zcdp_rho
from dprelease.privacy.accountants.zcdp import exact_sum
from dprelease.privacy.event import (
    BoundedRange,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Parallel,
    RandomScale,
    TotalResidual,
)
from dprelease.privacy.rounding import log_of
from dprelease.privacy.theorems import gaussian
from dprelease.privacy.theorems.concentrated import (
    rho_to_delta,
    rho_to_epsilon,
    rough_rho_to_epsilon,
    rough_rho_to_log_delta,
)
from dprelease.privacy.theorems.conversion import (
    renyi_delta,
    renyi_epsilon,
    rough_renyi_epsilon,
)
from dprelease.privacy.theorems.joint.total_residual import replaced_ways, response_pair
from dprelease.privacy.theorems.lattice import knorm_top
from dprelease.privacy.theorems.renyi import Curve, Worst
from dprelease.privacy.unit import Neighboring
from dprelease.words import marked

__all__ = ["Rdp", "curve_of"]

# Two bounds nearer to one another than this are both evaluated exactly; floats tell them apart otherwise.
_NEAR = Fraction(1, 10**6)

Term = tuple[Fraction, Fraction, int]  # epsilon, step of the lattice, how many: see Curve


def curve_of(event: Event) -> Curve:
    """The Renyi curve of an event: an upper bound at every order above 1.

    Laplace noise: the exact curve of each cell's shift, added over the cells of a worst-case shift vector; the
    largest over several such vectors; where none is known, one cell shifted by the whole L1 sensitivity, which is
    never below them. K-norm noise that moves by a norm of 1: the curve of its three losses. A total with residuals:
    its two randomized responses. Other pure draws: randomized response. In parallel: at each order the largest part,
    or under replace-one the sum of the two largest, for one unit leaves one part and enters another. Bounded range:
    the curve of ``curves.renyi``, whose every part is about one draw. Curves add up also where a draw is chosen after
    the answers of those before it, its curve being fixed (Mironov 2017, Proposition 1, is about such sequences).

    Raises:
        UnsupportedEvent: If a draw has a delta of its own, and so no finite Renyi divergence: ``Rdp`` takes it off.
    """
    return _curve(taken("rdp", event))


def _curve(counted: Atoms) -> Curve:
    slopes: list[Fraction] = []
    laplace: list[Term] = []
    ranges: Counter[Fraction] = Counter()
    triples: Counter[tuple[Fraction, Fraction]] = Counter()
    pairs: Counter[tuple[Fraction, Fraction, Fraction]] = Counter()
    worst: list[Worst] = []
    for atom, n in counted.items():
        if isinstance(atom, DiscreteGaussian | Gaussian | RandomScale | Concentrated):
            slopes.append(zcdp_rho(atom) * n if n != 1 else zcdp_rho(atom))
        elif isinstance(atom, DiscreteLaplace | Laplace):
            choices = _laplace(atom)
            if len(choices) == 1:
                laplace += [(epsilon, step, n * m) for epsilon, step, m in choices[0]]
            else:
                worst.append(Worst(tuple(Curve(laplace=_merged(choice)) for choice in choices), 1, n))
        elif isinstance(atom, BoundedRange):
            ranges[atom.epsilon] += n
        elif is_joint(atom):
            triples[1 / atom.scale, knorm_top(atom.ball, atom.dimension, atom.scale)] += n
        elif isinstance(atom, TotalResidual):
            pairs.update({} if atom.replaced else {response_pair(atom): n})
            worst += _replaced(atom, n) if atom.replaced else ()
        elif isinstance(atom, Parallel):
            parts = tuple(curve_of(part) for part in atom.events)
            if parts:
                worst.append(Worst(parts, 1 if atom.neighboring is Neighboring.ADD_REMOVE else 2, n))
        else:
            epsilon = pure_epsilon(atom)
            if epsilon is None:
                raise unsupported("rdp", atom, "a delta above 0 has no finite Renyi divergence")
            laplace.append((epsilon, epsilon, n))
    return Curve(
        exact_sum(slopes),
        _merged(laplace),
        tuple((e, n) for e, n in ranges.items() if e),
        tuple((*pair, n) for pair, n in pairs.items() if pair[0]),
        tuple(worst),
        tuple((*each, n) for each, n in triples.items()),
    )


def _replaced(atom: TotalResidual, n: int) -> tuple[Worst, ...]:
    """The larger one at each order of what a replaced row costs in two cells and in one."""
    row, moved = replaced_ways(atom)
    return (Worst((Curve(pairs=((*row, 2),)), Curve(pairs=((*moved, 1),))), 1, n),)


def _laplace(atom: DiscreteLaplace | Laplace) -> list[list[Term]]:
    """Terms of each worst-case shift vector; a shift below the lattice's step is read as any draw of that epsilon."""
    vectors: list[tuple[int | Fraction, ...]] = [*atom.sensitivity.shifts] or [(atom.sensitivity.l1,)]
    unit = 1 / atom.scale
    found = []
    for vector in vectors:
        terms = []
        for change, m in Counter(vector).items():
            epsilon = change * unit
            terms.append((epsilon, min(unit, epsilon) if isinstance(atom, DiscreteLaplace) else Fraction(0), m))
        found.append(terms)
    return found


def _merged(terms: list[Term]) -> tuple[Term, ...]:
    """Equal terms once; by integers, for rationals are slow to hash."""
    merged: dict[tuple[int, int, int, int], Term] = {}
    for epsilon, step, n in terms:
        if epsilon:
            key = (epsilon.numerator, epsilon.denominator, step.numerator, step.denominator)
            merged[key] = (epsilon, step, n + merged[key][2] if key in merged else n)
    return tuple(merged.values())


def _infinity(counted: Atoms) -> Fraction | None:
    """The curve at order infinity, where it is finite: the sum of pure epsilons."""
    losses = []
    for atom, n in counted.items():
        epsilon = _pure(atom)
        if epsilon is None:
            return None
        losses.append(n * epsilon)
    return exact_sum(losses)


def _pure(atom: Atom) -> Fraction | None:
    epsilon = pure_epsilon(atom)
    return Fraction(0) if epsilon is None and zcdp_rho(atom) == 0 else epsilon  # rho 0: nothing depends on the unit


class Rdp(Accountant):
    """Sums Renyi curves over all draws (Mironov 2017, Proposition 1) and converts at the best order of all.

    Order infinity is one of them: with pure draws alone the sum of epsilons is a valid bound, and the only one at
    delta 0. The zCDP bound is valid too; the smallest one is given. Draws with a delta of their own are taken apart
    first (``reveals``), and the rest is read at what they leave of delta.
    """

    name = "rdp"
    reads_together = True
    words = Words(
        how=marked("adds up the Rényi curve of every draw, and reads the sum as ε at its best order"),
        framework=marked("Rényi differential privacy, mapped to (ε, δ)"),
        theorem=marked(
            "Canonne, Kamath and Steinke 2020, Proposition 12; curves add up by Mironov 2017, Proposition 1"
        ),
    )
    auto = "fast"

    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An upper bound at this delta, over continuous orders.

        Raises:
            UnsupportedEvent: If the draws' own deltas leave less than nothing of ``delta``; if they leave nothing, and
                one draw is not pure.
        """
        check_delta(delta)
        found = peeled(taken("rdp", event))
        left = found.slack(delta)
        if left == 0 < delta and _infinity(found.atoms) is None:
            raise UnsupportedEvent(
                f"the draws' own deltas use up all of {float(delta):.6g}, and Gaussian noise needs a delta",
                hint="give the budget a larger delta, or lower the draws' deltas",
            )
        return _epsilon(found.atoms, left)

    def delta(self, event: Event, epsilon: Fraction) -> Fraction:
        """An upper bound at this epsilon, over continuous orders; the draws' own deltas from the sum of epsilons on."""
        check_epsilon(epsilon)
        found = peeled(taken("rdp", event))
        return found.total(_delta(found.atoms, epsilon))

    def rough_epsilon(self, event: Event | NearDraws, delta: float) -> float:
        """Epsilon in floats, to about 1e-9 relative, not rounded up: for the inside of a root search.

        Infinite where the draws' own deltas leave too little of ``delta``.
        """
        if isinstance(event, NearDraws):
            many, is_laplace = event, event.noise == "discrete_laplace"
            others = many.total(many.epsilons), many.total(many.rhos)
            return _rough_epsilon(others, delta, (lambda: _near_curve(many)) if is_laplace else None)
        found = peeled(taken("rdp", event))
        gaussian_alone = all(
            isinstance(atom, DiscreteGaussian | Gaussian | RandomScale | Concentrated) for atom in found.atoms
        )
        curve = None if gaussian_alone else lambda: _curve(found.atoms)
        return _rough_epsilon(_rough_others(found.atoms), found.rough_slack(delta), curve)

    def holds(self, claim: LossClaim) -> bool:
        """The least over the orders of the summed Renyi curves, from the direction of delta."""
        return claim.by_curves(renyi=True)


def _epsilon(counted: Atoms, delta: Fraction) -> Fraction:
    curve = _curve(counted)
    if delta >= 1 or curve == Curve():
        return Fraction(0)
    if delta == 0:
        at_infinity = _infinity(counted)
        if at_infinity is None:
            raise gaussian.no_delta()
        return at_infinity
    if curve == Curve(slope=curve.slope):
        return rho_to_epsilon(curve.slope, delta)  # the same curve as zCDP's, so the same bound
    found = renyi_epsilon(curve, delta)
    rough = _rough_others(counted)
    if rough[0] <= found * (1 + _NEAR):
        found = min(found, _infinity(counted) or found)
    if rough_rho_to_epsilon(rough[1], log_of(delta)) <= found * (1 + _NEAR):
        found = min(found, rho_to_epsilon(_rho(counted), delta))
    return found


def _delta(counted: Atoms, epsilon: Fraction) -> Fraction:
    curve = _curve(counted)
    if curve == Curve(slope=curve.slope):
        return rho_to_delta(curve.slope, epsilon)
    at_infinity, rho = _rough_others(counted)
    if at_infinity <= epsilon * (1 + _NEAR):
        exact = _infinity(counted)
        if exact is not None and epsilon >= exact:
            return Fraction(0)
    found = renyi_delta(curve, epsilon)
    if rough_rho_to_log_delta(rho, float(epsilon)) <= log_of(found) + float(_NEAR):
        found = min(found, rho_to_delta(_rho(counted), epsilon))
    return found


def _near_curve(event: NearDraws) -> Curve:
    """Of Laplace noise, in floats: to be read by ``quick`` alone."""
    steps = (1 / scale for scale in event.scales.tolist())
    return Curve(laplace=tuple(zip(event.epsilons, steps, event.counts, strict=True)))


def _rough_epsilon(others: tuple[float, float], delta: float, curve: Callable[[], Curve] | None) -> float:
    """From the figures of ``_rough_others``, and the curve where not all noise is Gaussian."""
    if delta < 0:
        return math.inf
    at_infinity, rho = others
    if delta >= 1 or not rho:
        return 0.0
    if delta == 0:
        return at_infinity
    log_delta = math.log(delta)
    concentrated = rough_rho_to_epsilon(rho, log_delta)
    if curve is None:
        return concentrated  # a thousand slopes need not be added up exactly to see that there is nothing else
    return min(at_infinity, concentrated, rough_renyi_epsilon(curve(), log_delta))


def _rho(counted: Atoms) -> Fraction:
    return exact_sum(summed_rhos(counted))


def _rough_others(counted: Atoms) -> tuple[float, float]:
    """In floats the sum of pure epsilons, infinity where there is none, and the sum of rho."""
    pure, rho = [], []
    for atom, n in counted.items():
        epsilon = _pure(atom)
        pure.append(math.inf if epsilon is None else n * float(epsilon))
        rho.append(n * rough_rho(atom))
    return math.fsum(pure), math.fsum(rho)
