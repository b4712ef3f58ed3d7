"""The least noise whose total loss fits a budget; the answer is checked again before it is returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dprelease.errors import BrokenPromiseError, BudgetTooSmall, UnsupportedEvent
from dprelease.privacy.accountants import ACCOUNTANTS, smallest
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Event, Sensitivity
from dprelease.privacy.rounding import dyadic_up, sqrt_up

__all__ = ["Demand", "Family", "calibrate", "measured_loss"]

Family = Literal["laplace", "gaussian"]
_LARGEST_SCALE = 2**50


@dataclass(frozen=True)
class Demand:
    """One draw that needs a scale: its sensitivity, and its share of the budget (shares add up to one)."""

    sensitivity: Sensitivity
    share: Fraction


def measured_loss(accounting: str, event: Event, delta: Fraction) -> Fraction:
    """Epsilon of an event under one accountant, or under the best of them for ``auto``."""
    return smallest(event, delta)[1] if accounting == "auto" else ACCOUNTANTS[accounting].epsilon(event, delta)


def calibrate(demands: Sequence[Demand], family: Family, accounting: str, budget: Budget) -> tuple[Fraction, ...]:
    """Scales for all draws, in proportion to their shares, that use the budget up and never exceed it.

    With Laplace noise draw i gets epsilon share_i * t (scale = L1 / (share_i t)); with Gaussian noise it gets
    rho share_i * t (scale = L2 / sqrt(2 share_i t)). The loss grows with t, so the largest t that fits is found
    by bisection on the real accountant with the scales as they will be drawn: rounded up to 40 significant
    bits. What is left unspent is below a part in a million, beside what that rounding costs.

    Returns:
        One scale per draw, in grid steps, each exactly a 64-bit float.

    Raises:
        UnsupportedEvent: If the accountant cannot take the family at this delta.
        BudgetTooSmall: If a scale would exceed 2^50 grid steps.
    """

    def scales(knob: Fraction) -> tuple[Fraction, ...]:
        return tuple(dyadic_up(_scale(demand, family, knob)) for demand in demands)

    def fits(knob: Fraction) -> bool:
        event = Composed(events=tuple(_events(demands, family, scales(knob))))
        if budget.rho is not None:
            return total_rho(event) <= budget.rho
        return budget.epsilon is not None and measured_loss(accounting, event, budget.delta) <= budget.epsilon

    chosen = scales(_largest(fits))
    if max(chosen) > _LARGEST_SCALE:
        raise BudgetTooSmall(
            f"the noise would need a scale of {float(max(chosen)):.1e} grid steps, more than 2^50",
            hint="raise the budget, ask fewer queries, or give the column a coarser `step`",
        )
    return chosen


def _scale(demand: Demand, family: Family, knob: Fraction) -> Fraction:
    if family == "laplace":
        return demand.sensitivity.l1 / (demand.share * knob)
    return sqrt_up(demand.sensitivity.l2_squared / (2 * demand.share * knob))


def _events(demands: Sequence[Demand], family: Family, scales: Sequence[Fraction]) -> list[Event]:
    kind: Callable[..., Event] = DiscreteLaplace if family == "laplace" else DiscreteGaussian
    return [kind(scale=scale, sensitivity=demand.sensitivity) for demand, scale in zip(demands, scales, strict=True)]


def _largest(fits: Callable[[Fraction], bool]) -> Fraction:
    """The largest knob that fits, to a part in a million; the one returned was itself checked."""
    low = high = Fraction(1)
    for _ in range(4000):
        if fits(low):
            break
        low, high = low / 2, low
    else:
        raise BudgetTooSmall("no amount of noise fits this budget", hint="raise epsilon or delta")
    while fits(high):
        low, high = high, high * 2
        if high > 2**60:
            raise BrokenPromiseError("the loss does not grow with the noise removed")
    while high - low > low / 2_000_000:
        middle = (low + high) / 2
        # 53 bits are plenty, and keep the rationals short
        middle = Fraction(float(middle)) if low < Fraction(float(middle)) < high else middle
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def supported(family: Family, accounting: str, delta: Fraction) -> bool:
    """Whether the accountant can take one draw of the family at this delta."""
    probe = _events([Demand(Sensitivity.of_one_cell(1), Fraction(1))], family, [Fraction(1)])[0]
    try:
        measured_loss(accounting, probe, delta)
    except UnsupportedEvent:
        return False
    return True
