"""``dp_accounting`` recomputes a plan, where it is installed, with nothing of ours but the plan's own numbers.

Three comparisons, each with the direction in which it has power:

- ``zcdp``, both ways: every draw becomes its rho (a pure draw its own), the same theorem on its list of orders.
  It takes the best of a list, so that its figure is above the least over all orders, which ours is; the list goes as
  far as the best order can lie, and is made finer around the best of a first one.
- ``pld of a real pair`` against the certified epsilon, never above it: every step becomes one pair of neighbours that
  really occurs, all changed cells of one worst-case vector. A figure above ours by more than the tolerance is an
  under-count of ours. A K-norm draw becomes randomized response of its epsilon, the pair by which every accountant
  here counts it: theirs for Laplace noise would be lower, and blind. A choice by the exponential mechanism becomes a
  pair of two outputs whose losses are as far apart as its range, the worst one at the order that decides; an
  (epsilon, delta) box, and a selection of keys, their distribution for such parameters; cells whose worst changes are
  not listed become one vector with norms that are not larger.
- ``pld`` the other way, where each step has just one worst-case vector, so that both sides compose the same pairs: a
  figure below our ``pld`` claim by more than the tolerance is an over-count of ours.

All of its distributions are made by "connect the dots", which is never below the truth and above it by at most about
n h^2 (1 + a) / 8 in epsilon, for n draws, a grid of h and the order a that decides: that much is allowed for. A small
epsilon has a finer grid, a thousandth of itself: on the usual one it would have no power, a being about
2 ln(1 / delta) / epsilon.

Deltas of their own are taken off the delta at which ``zcdp`` is compared, for rho knows nothing of them. What is of no
kind named here (no plan has such a draw) is left out of the pairs, and the opinion says so.

Left out by name, because they under-count there: ``RandomizedResponseDpEvent`` with a count under PLD (randomized
response is made as discrete Laplace noise with a change of one, which it is), and ``ExponentialMechanismDpEvent``
with a count under RDP. Its default orders end at 1,024; the best one is about sqrt(ln(1 / delta) / rho), five million
at epsilon 10^-5, and a list that ends before it says too much.

What it is asked is numbers alone (``privacy/crosscheck.py``), so that another process can answer while this one goes on
(``release/opinion.py``): equal numbers have equal answers there and here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from dprelease.canonical import Value
from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.mathematics.top_loss import top_mass
from dprelease.privacy.accountants.base import Atom, Atoms, atoms
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.rho import as_priced, zcdp_rho
from dprelease.privacy.crosscheck import Figures, Part, Questions, is_installed, peer_figures
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    KNorm,
    Sensitivity,
    TotalResidual,
)

__all__ = ["Opinion", "heard", "second_opinion"]

_GRID, _COARSE, _MANY = 1e-4, 1e-3, 60  # the grid of losses; from so many different parts the coarse one
_FINE, _LESS_FINE = 1e-3, 1e-2  # of epsilon, where that is a finer grid
_NEAR = 2e-3
_AT_ZERO = 1e-6  # of the deviation of the loss, sqrt(2 rho): what the list of orders may miss where epsilon is nearly 0

_SAID = (BoundedRange, DiscreteGaussian, DiscreteLaplace, KNorm, TotalResidual, Approximate)


class Opinion(Value):
    """One comparison: what we say, what the other side says (decimal text), and whether they agree."""

    accountant: str
    ours: str
    theirs: str
    agrees: bool
    rule: str


def second_opinion(plan: ReleasePlan, ask: Callable[[Questions], Figures] = peer_figures) -> tuple[Opinion, ...]:
    """Compare the plan's losses with ``dp_accounting``.

    Args:
        plan: Any.
        ask: Who asks ``dp_accounting``: this process, or another one.

    Raises:
        MissingExtra: If ``dp_accounting`` is not installed.
    """
    if not is_installed():
        raise MissingExtra(
            "dp_accounting is not installed", hint='pip install "dprelease[crosscheck]"', code="DPR-X101"
        )
    delta = float(plan.budget.delta)
    if not delta > 0:
        return ()
    counted = atoms(plan.event)
    rhos, left = _rhos(plan, counted, delta)
    parts, order, same = _all_parts(counted, _certified(plan), delta)
    size = _certified(plan) or 1
    grid = min(_GRID, _FINE * size) if len(parts) < _MANY else min(_COARSE, _LESS_FINE * size)
    asked = Questions(rhos, left, tuple(sorted(parts.items())), grid, delta)
    answer = ask(asked)
    opinions = []
    if answer.curve is not None:
        opinions.append(_same_curve(asked, answer.curve, float(plan.loss["zcdp"].epsilon)))
    if answer.pairs is not None:
        unsaid = sorted({atom.kind for atom in counted if not isinstance(atom, _SAID)})
        opinions += _pairs(plan, asked, answer.pairs, order, unsaid, same=same)
    return tuple(opinions)


def heard(plan: ReleasePlan, ask: Callable[[Questions], Figures] = peer_figures) -> bool:
    """Ask for the second opinion before anything is drawn; False where ``dp_accounting`` is not installed.

    Args:
        plan: Any.
        ask: As for :func:`second_opinion`.

    Raises:
        BrokenPromiseError: If it disagrees. Nothing may be drawn from such a plan.
    """
    try:
        opinions = second_opinion(plan, ask)
    except MissingExtra:
        return False
    for opinion in opinions:
        if not opinion.agrees:
            raise BrokenPromiseError(
                f"dp_accounting finds epsilon {opinion.theirs}, the plan claims {opinion.ours} ({opinion.accountant})",
                detail=opinion.rule,
                hint="nothing was drawn; please report this with the plan file",
            )
    return True


def _certified(plan: ReleasePlan) -> float:
    return float(plan.loss[plan.certified].epsilon)


def _rhos(plan: ReleasePlan, counted: Atoms, delta: float) -> tuple[tuple[tuple[float, int], ...], float]:
    """Every rho with the number of its draws, and the delta that is left for them; 0: there is nothing to compare."""
    if "zcdp" not in plan.loss:
        return (), 0.0
    with as_priced(plan.is_older is True):
        rest = peeled(counted)
        return tuple((float(zcdp_rho(atom)), n) for atom, n in rest.atoms.items()), rest.rough_slack(delta)


def _same_curve(asked: Questions, theirs: float, ours: float) -> Opinion:
    missed = _AT_ZERO * math.sqrt(2 * math.fsum(rho * n for rho, n in asked.rhos))
    agrees = ours * (1 - 1e-6) <= theirs <= ours * (1 + _NEAR) + missed
    return _opinion("zcdp", ours, theirs, agrees, "the same theorem on a list of orders: equal within 0.2 %")


def _all_parts(counted: Atoms, ours: float, delta: float) -> tuple[Counter[Part], float, bool]:
    """The pairs with the number of their draws; the order that decides; whether no neighbour is worse than these."""
    parts: Counter[Part] = Counter()
    order = 1 - 2 * math.log(delta) / (ours or 1e-3)
    same = True
    for atom, n in counted.items():
        found, alone = _parts(atom, order)
        same = same and alone
        for part in found:
            parts[part] += n
    return parts, order, same


def _pairs(
    plan: ReleasePlan, asked: Questions, theirs: float, order: float, unsaid: Sequence[str], *, same: bool
) -> list[Opinion]:
    grid = asked.grid
    dots = sum(n for _, n in asked.parts) * grid * grid * (1 + order) / 8
    words = f"with losses rounded up to a grid of {grid:g}"
    without = f"; without {', '.join(unsaid)}, of which it is told nothing" if unsaid else ""
    ours = _certified(plan)
    most = ours * (1 + _NEAR) + dots
    holds = theirs <= most
    rule = f"a pair that occurs, {words}: at most {_up(most)}, ours and what the rounding may add{without}"
    opinions = [_opinion("pld of a real pair", ours, theirs, holds, rule)]
    if same and "pld" in plan.loss:
        claim = float(plan.loss["pld"].epsilon)
        least = claim * (1 - _NEAR)
        holds = least <= theirs
        rule = f"the same pairs, {words}: at least {least:.6g}, ours less 0.2 %"
        opinions.append(_opinion("pld", claim, theirs, holds, rule))
    return opinions


def _parts(atom: Atom, order: float) -> tuple[list[Part], bool]:
    """The cells that one neighbour moves, and whether no other neighbour is worse in another way."""
    if isinstance(atom, KNorm) and atom.gauge == 1 < atom.dimension:
        return [("triple", float(1 / atom.scale), top_mass(atom.ball, atom.dimension, atom.scale))], True
    if isinstance(atom, KNorm):
        return [("laplace", float(atom.scale / atom.gauge), 1)] if atom.gauge else [], True
    if isinstance(atom, TotalResidual):
        return _independent(atom), atom.rows == 1 and _parity(atom) < _NEAR / 100
    if isinstance(atom, Approximate):
        return [("box", float(atom.epsilon), float(atom.delta))] if atom.epsilon or atom.delta else [], True
    if isinstance(atom, BoundedRange):
        size = float(atom.epsilon)
        return [("range", size, _upper_loss(size, order - 1))] if size else [], False
    if not isinstance(atom, DiscreteLaplace | DiscreteGaussian):
        return [], False
    kind = "laplace" if isinstance(atom, DiscreteLaplace) else "gaussian"
    if isinstance(atom, DiscreteGaussian) and atom.common is not None:  # of all that are bounded together one pair
        return [(kind, float(atom.scale), c) for c in _vector(atom.sensitivity, atom.common)], False
    ways = atom.sensitivity.shifts or (_vector(atom.sensitivity, atom.sensitivity.l2_squared),)
    way = max(ways, key=lambda shift: sum(c * c for c in shift))
    return [(kind, float(atom.scale), c) for c in way if c], len(atom.sensitivity.shifts) == 1


def _independent(draw: TotalResidual) -> list[Part]:
    """Total and residuals as two draws: the noises share a parity, and from twelve counts on hardly anything else.

    Of several rows the total alone, which each of them moves by one; of one in the place of another two cells.
    """
    if draw.replaced:
        return 2 * _independent(draw.model_copy(update={"rows": 1, "replaced": False}))
    if draw.rows != 1:
        return [("laplace", float(draw.scale / draw.share), draw.rows)] if draw.rows else []
    return [("laplace", float(draw.scale / share), 1) for share in (draw.share, 1 - draw.share)]


def _parity(draw: TotalResidual) -> float:
    """At most what the parity that the two noises share makes of independent ones: tanh(e0 / 2) tanh(e1 / 2)^k."""
    total, residual = (math.tanh(float(share / draw.scale) / 2) for share in (draw.share, 1 - draw.share))
    return total * residual**draw.dimension


def _vector(norms: Sensitivity, squared: Fraction) -> tuple[int, ...]:
    """Whole changes, the largest first, that exceed none of the norms; ``squared`` is that of L2."""
    found: list[int] = []
    while len(found) < norms.l0:
        left = math.isqrt(math.floor(squared - sum(c * c for c in found)))
        change = min(math.floor(norms.linf), math.floor(norms.l1 - sum(found)), left)
        if not change:
            break
        found.append(change)
    return tuple(found)


def _upper_loss(size: float, theta: float) -> float:
    """Of two losses ``size`` apart the upper one with which E exp(theta L) is largest.

    As E exp(-L) = 1, with y = exp(upper) and r = exp(-size) the upper one has probability (1 - y r) / (1 - r), and the
    moment is y^theta (a - b y), with b = (1 - r^theta) r / (1 - r) and a = r^theta + b / r: best at
    y = theta a / ((1 + theta) b).
    """
    low = math.exp(-size)
    slope = -math.expm1(-theta * size) * low / -math.expm1(-size)
    start = math.exp(-theta * size) + slope / low
    return min(max(math.log(theta / (1 + theta) * start / slope), 0.0), size)


def _up(value: float) -> str:
    """Six digits, not below the value: so that what is at most the value is at most what is told."""
    return next(text for digits in (6, 7, 9, 17) if float(text := f"{value * (1 + 1e-6):.{digits}g}") >= value)


def _opinion(accountant: str, ours: float, theirs: float, agrees: bool, rule: str) -> Opinion:
    return Opinion(accountant=accountant, ours=f"{ours:.6g}", theirs=f"{theirs:.6g}", agrees=agrees, rule=rule)
