"""What a selection of keys costs several units at once, derived again: from the tails of its noise, without its proof.

A key that j of k units alone hold is shown with p(j) = P(j + Z >= T). With f(j) = -ln(1 - p(j)) nothing of theirs is
shown with probability exp(-sum f(j_x)) over the keys x that they alone hold, and the j_x add up to at most k times the
keys of one unit. So the sum is at most that number times the largest f(j) / j, of all j from 1 to k: no shape of f is
used, where ``privacy.theorems.threshold`` rests on a proof that the first or the last j is worst.

Floats with a tolerance, for checking; nothing here calls what made the claim.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.reach import keys_of_one, require
from dprelease.plan.verify.units import tail
from dprelease.privacy.convert import factor
from dprelease.privacy.event import KeySelection
from dprelease.privacy.group import of_event

__all__ = ["check_groups"]

_GROUPS = (2, 4, 8)  # that reports tell of
_TOLERANCE = 1e-9


def check_groups(plan: ReleasePlan) -> None:
    """Every selection by noise and a threshold, for the groups of reports and for the units of every account.

    Raises:
        BrokenPromiseError: If one of them would be told, or charged, less than it may show.
    """
    sizes = {*_GROUPS, *(_steps(plan, name) for name in {table.account for table in plan.catalog.tables.values()})}
    for step, event in zip(plan.steps, plan.events, strict=True):
        by_threshold = step.selecting is not None and step.mechanism != "optimal_selection"
        require(by_threshold == isinstance(event, KeySelection), f"{step.id} does not keep what it selects by")
        if isinstance(event, KeySelection):
            keys = keys_of_one(plan, step)
            require(event.keys >= keys, f"{step.id} counts too few keys of one unit")
            for units in sorted(sizes):
                _check(step, event, keys, units)


def _steps(plan: ReleasePlan, account: str) -> int:
    """Of how many units of the spec one unit of an account is made; 1 where the account does not say."""
    sizes = [1]
    for each in plan.accounts:
        if each.name == account:
            with suppress(PlanError):  # of an account that the spec says nothing about nothing is charged
                sizes.append(factor(str(plan.unit), plan.neighboring, each.unit, each.neighboring, each.nests))
    return max(sizes)


def _check(step: Step, one: KeySelection, keys: int, units: int) -> None:
    try:
        grown = of_event(one, units)
    except UnsupportedEvent:
        return  # then nothing is told or charged: it is refused
    whole = isinstance(grown, KeySelection) and grown.threshold == one.threshold and grown.noise.scale == step.scale
    require(whole, f"{step.id} is drawn otherwise than {units} units are charged for")
    if not isinstance(grown, KeySelection):
        return
    was, now = step.sensitivity, grown.noise.sensitivity
    wide = now.l1 >= units * was.l1 and now.l2_squared >= units**2 * was.l2_squared and now.linf >= units * was.linf
    require(wide, f"{step.id} claims less of {units} units than that many changes")
    told = f"{step.id} shows keys that {units} units alone hold with more than the delta that is told"
    require(shown_of(step, keys, units) <= float(grown.delta) * (1 + _TOLERANCE), told)


def shown_of(step: Step, keys: int, units: int) -> float:
    """The largest probability with which a key is shown that some of so many units alone hold; 1 from T units on."""
    threshold = step.selecting.threshold if step.selecting is not None else 0
    if units >= threshold:
        return 1.0
    each = [-math.log1p(-tail(step.mechanism, Fraction(step.scale), threshold - j)) / j for j in range(1, units + 1)]
    return -math.expm1(-units * keys * max(each))
