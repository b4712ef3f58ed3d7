"""One plan under every accountant: what it costs, and what noise each would have required."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import largest_knob
from dprelease.privacy.event import Composed, Event
from dprelease.privacy.rounding import dyadic_up

__all__ = ["Compared", "compare"]


@dataclass(frozen=True)
class Compared:
    """One accountant on one plan.

    Attributes:
        accountant: Its name.
        epsilon: What it can prove for the plan at the plan's delta; None: nothing finite.
        noise: By which factor all scales would have to change for it to prove the plan's budget; None: it cannot.
        why_not: Why not, where it cannot.
    """

    accountant: str
    epsilon: Fraction | None
    noise: Fraction | None
    why_not: str = ""


def compare(plan: ReleasePlan) -> tuple[Compared, ...]:
    """Every accountant, in the order of their table."""
    return tuple(_compared(plan, name) for name in ACCOUNTANTS)


def _compared(plan: ReleasePlan, name: str) -> Compared:
    loss = plan.loss.get(name)
    target = plan.loss[plan.certified].epsilon if plan.budget.epsilon is None else plan.budget.epsilon

    def event_at(knob: Fraction) -> Event:
        scaled = (step.model_copy(update={"scale": dyadic_up(step.scale / knob)}) for step in plan.steps)
        return Composed(events=tuple(step.event for step in scaled))

    try:
        knob = largest_knob(event_at, name, Budget(epsilon=target, delta=plan.budget.delta))
    except UnsupportedEvent as refusal:
        return Compared(name, loss.epsilon if loss else None, None, refusal.summary)
    except PlanError as error:
        return Compared(name, loss.epsilon if loss else None, None, error.summary)
    return Compared(name, loss.epsilon if loss else None, 1 / knob)
