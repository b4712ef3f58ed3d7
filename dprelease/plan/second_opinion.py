"""``dp_accounting`` recomputes a plan, where it is installed, with nothing of ours but the plan's own numbers.

What it lacks is translated so that its figure can be above ours and never below by more than the tolerance:
a discrete Gaussian becomes its rho; a pure draw becomes rho = epsilon^2 / 2. The PLD comparison runs the other
way: it composes, for every step, one pair of neighbours that really occurs (a single cell that moves by the
Linf sensitivity), so a certified epsilon below it by more than the tolerance is an under-count of ours.

Left out by name, because they under-count there: ``RandomizedResponseDpEvent`` with a count under PLD, and
``ExponentialMechanismDpEvent`` with a count under RDP; orders go to 200,000, not to its default of 1,024.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import reduce
from typing import Any

from dprelease.canonical import Value
from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants.base import Atom, atoms, pure_epsilon, zcdp_rho
from dprelease.privacy.event import DiscreteLaplace

__all__ = ["Opinion", "heard", "second_opinion"]

_GRID = 1e-4
_SMOOTH = 100  # from this many lattice points per unit of noise the continuous pair is within 1e-4 of the lattice


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
        opinions.append(_same_curve(counted.items(), float(plan.loss["zcdp"].epsilon), delta))
    if delta > 0:
        opinions.append(_real_pair(counted, float(plan.loss[plan.certified].epsilon), delta))
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


def _same_curve(counted: Iterable[tuple[Atom, int]], ours: float, delta: float) -> Opinion:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    orders = [1 + math.exp(-9 + 0.03 * k) for k in range(700)]
    accountant = RdpAccountant(orders=orders)
    for atom, n in counted:
        accountant.compose(dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(float(zcdp_rho(atom))), n))
    theirs = float(accountant.get_epsilon(delta))
    agrees = ours * (1 - 1e-6) <= theirs <= ours * (1 + 2e-3)
    return _opinion("zcdp", ours, theirs, agrees, "the same theorem on a grid of orders: equal within 0.2 %")


def _real_pair(counted: Counter[Atom], ours: float, delta: float) -> Opinion:
    parts = [_pld(atom).self_compose(n) for atom, n in counted.items() if atom.sensitivity.linf > 0]
    theirs = float(reduce(lambda a, b: a.compose(b), parts).get_epsilon_for_delta(delta)) if parts else 0.0
    allowed = ours * (1 + 2e-3) + _GRID * sum(counted.values())
    return _opinion("pld of a real pair", ours, theirs, theirs <= allowed, "a pair that occurs: never above ours")


def _pld(atom: Atom) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    shift, scale = int(atom.sensitivity.linf), float(atom.scale)
    if isinstance(atom, DiscreteLaplace):
        if shift <= _SMOOTH:
            return pld.from_discrete_laplace_mechanism(
                1 / scale, sensitivity=shift, value_discretization_interval=_GRID
            )
        one_cell = float(pure_epsilon(atom)) * shift / float(atom.sensitivity.l1)
        return pld.from_laplace_mechanism(1 / one_cell, value_discretization_interval=_GRID)
    if scale <= _SMOOTH:
        return pld.from_discrete_gaussian_mechanism(scale, sensitivity=shift, value_discretization_interval=_GRID)
    return pld.from_gaussian_mechanism(scale / shift, value_discretization_interval=_GRID)


def _opinion(accountant: str, ours: float, theirs: float, agrees: bool, rule: str) -> Opinion:
    return Opinion(accountant=accountant, ours=f"{ours:.6g}", theirs=f"{theirs:.6g}", agrees=agrees, rule=rule)
