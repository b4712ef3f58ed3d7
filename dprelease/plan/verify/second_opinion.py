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
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from dprelease.canonical import Value
from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.draws import top_mass
from dprelease.privacy.accountants.base import Atom, Atoms, atoms
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.rho import as_priced, zcdp_rho
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
_SMOOTH = 100  # from this many lattice points per unit of noise the continuous pair is within 1e-4 of the lattice
_FINE, _LESS_FINE = 1e-3, 1e-2  # of epsilon, where that is a finer grid
_NEAR = 2e-3
_AT_ZERO = 1e-6  # of the deviation of the loss, sqrt(2 rho): what the list of orders may miss where epsilon is nearly 0

_Part = tuple[str, float, float]  # kind, scale (or epsilon, or range), shift (or delta, upper loss, upper chance)
_SAID = (BoundedRange, DiscreteGaussian, DiscreteLaplace, KNorm, TotalResidual, Approximate)


class Opinion(Value):
    """One comparison: what we say, what the other side says (decimal text), and whether they agree."""

    accountant: str
    ours: str
    theirs: str
    agrees: bool
    rule: str


def second_opinion(plan: ReleasePlan) -> tuple[Opinion, ...]:
    """Compare the plan's losses with ``dp_accounting``.

    Raises:
        MissingExtra: If ``dp_accounting`` is not installed.
    """
    try:
        import dp_accounting  # noqa: F401 - only whether it is there
    except ImportError:
        raise MissingExtra(
            "dp_accounting is not installed", hint='pip install "dprelease[crosscheck]"', code="DPR-X101"
        ) from None
    counted = atoms(plan.event)
    delta = float(plan.budget.delta)
    opinions = []
    if "zcdp" in plan.loss and delta > 0:
        with as_priced(plan.is_older is True):
            opinions += _same_curve(counted, float(plan.loss["zcdp"].epsilon), delta)
    if delta > 0:
        opinions += _pairs(plan, counted, delta)
    return tuple(opinions)


def heard(plan: ReleasePlan) -> bool:
    """Ask for the second opinion before anything is drawn; False where ``dp_accounting`` is not installed.

    Raises:
        BrokenPromiseError: If it disagrees. Nothing may be drawn from such a plan.
    """
    try:
        opinions = second_opinion(plan)
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


def _same_curve(counted: Atoms, ours: float, delta: float) -> list[Opinion]:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    rest = peeled(counted)
    left = rest.rough_slack(delta)
    if left <= 0:
        return []
    rhos = [(float(zcdp_rho(atom)), n) for atom, n in rest.atoms.items()]
    total = math.fsum(rho * n for rho, n in rhos)

    def best(orders: list[float]) -> tuple[float, float]:
        accountant = RdpAccountant(orders=orders)
        for rho, n in rhos:
            accountant.compose(dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(rho), n))
        epsilon, order = accountant.get_epsilon_and_optimal_order(left)
        return float(epsilon), float(order)

    coarse, order = best(_orders(total, left))
    theirs = min(coarse, best([1 + (order - 1) * math.exp(0.0006 * k) for k in range(-60, 61)])[0])
    missed = _AT_ZERO * math.sqrt(2 * total)
    agrees = ours * (1 - 1e-6) <= theirs <= ours * (1 + _NEAR) + missed
    return [_opinion("zcdp", ours, theirs, agrees, "the same theorem on a list of orders: equal within 0.2 %")]


def _orders(rho: float, delta: float) -> list[float]:
    """A list that has the best order in it: that is below 1 + 2 sqrt((1 + ln(1 / delta)) / rho).

    Proof: with a = 1 + t the figure is rho (1 + t) + ln(t / (1 + t)) + (ln(1 / delta) - ln(1 + t)) / t, and its slope
    rho + (ln(delta) + ln(1 + t)) / t^2 (the rest cancels) is above 0 where t^2 > ln(1 / delta) / rho.
    """
    top = math.log(2 * math.sqrt((1 - math.log(delta)) / rho)) if rho else 0.0
    return [1 + math.exp(-9 + 0.03 * k) for k in range(max(700, math.ceil((top + 9) / 0.03) + 1))]


def _pairs(plan: ReleasePlan, counted: Atoms, delta: float) -> list[Opinion]:
    parts: Counter[_Part] = Counter()
    ours = float(plan.loss[plan.certified].epsilon)
    order = 1 - 2 * math.log(delta) / (ours or 1e-3)
    same = True
    for atom, n in counted.items():
        found, alone = _parts(atom, order)
        same = same and alone
        for part in found:
            parts[part] += n
    grid = min(_GRID, _FINE * (ours or 1)) if len(parts) < _MANY else min(_COARSE, _LESS_FINE * (ours or 1))
    theirs = _composed(parts, grid, delta)
    dots = sum(parts.values()) * grid * grid * (1 + order) / 8
    words = f"with losses rounded up to a grid of {grid:g}"
    unsaid = sorted({atom.kind for atom in counted if not isinstance(atom, _SAID)})
    without = f"; without {', '.join(unsaid)}, of which it is told nothing" if unsaid else ""
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


def _parts(atom: Atom, order: float) -> tuple[list[_Part], bool]:
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
    ways = atom.sensitivity.shifts or (_vector(atom.sensitivity),)
    way = max(ways, key=lambda shift: sum(c * c for c in shift))
    return [(kind, float(atom.scale), c) for c in way if c], len(atom.sensitivity.shifts) == 1


def _independent(draw: TotalResidual) -> list[_Part]:
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


def _vector(norms: Sensitivity) -> tuple[int, ...]:
    """Whole changes, the largest first, that exceed none of the norms."""
    found: list[int] = []
    while len(found) < norms.l0:
        left = math.isqrt(math.floor(norms.l2_squared - sum(c * c for c in found)))
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


def _composed(parts: Counter[_Part], grid: float, delta: float) -> float:
    """Epsilon of all parts together; two and two, so that large distributions are rarely handled."""
    found = [_pld(part, grid).self_compose(n) for part, n in sorted(parts.items())]
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [one.compose(other) for one, other in pairs] + (found[-1:] if len(found) % 2 else [])
    return float(found[0].get_epsilon_for_delta(delta)) if found else 0.0


def _pld(part: _Part, grid: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    kind, scale, shift = part
    if kind == "box":
        upper = 1 / (1 + math.exp(-scale))
        return _listed([(scale, upper), (-scale, 1 - upper)], shift, grid)
    if kind == "range":
        upper = math.expm1(shift - scale) / math.expm1(-scale)
        return _listed([(shift, upper), (shift - scale, 1 - upper)], 0.0, grid)
    if kind == "triple":
        lower = shift * math.exp(-scale)
        return _listed([(scale, shift), (0.0, 1 - shift - lower), (-scale, lower)], 0.0, grid)
    how = {"value_discretization_interval": grid, "use_connect_dots": True}
    if kind == "laplace":
        if shift <= _SMOOTH:
            return pld.from_discrete_laplace_mechanism(1 / scale, sensitivity=int(shift), **how)
        return pld.from_laplace_mechanism(scale / shift, **how)
    if scale <= _SMOOTH:
        return pld.from_discrete_gaussian_mechanism(scale, sensitivity=int(shift), **how)
    return pld.from_gaussian_mechanism(scale / shift, **how)


def _listed(sizes: list[tuple[float, float]], delta: float, grid: float) -> Any:
    """A loss that is infinite with probability ``delta``, else one of these, each with its probability.

    By connect the dots, at the points of the grid next to the losses: in between the curve is straight.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    points = sorted({turn(loss / grid) for loss, _ in sizes for turn in (math.floor, math.ceil)})
    over = [sum(share * max(0.0, -math.expm1(point * grid - loss)) for loss, share in sizes) for point in points]
    deltas = [delta + (1 - delta) * each for each in over]
    return pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(grid, points, deltas))


def _up(value: float) -> str:
    """Six digits, not below the value: so that what is at most the value is at most what is told."""
    return next(text for digits in (6, 7, 9, 17) if float(text := f"{value * (1 + 1e-6):.{digits}g}") >= value)


def _opinion(accountant: str, ours: float, theirs: float, agrees: bool, rule: str) -> Opinion:
    return Opinion(accountant=accountant, ours=f"{ours:.6g}", theirs=f"{theirs:.6g}", agrees=agrees, rule=rule)
