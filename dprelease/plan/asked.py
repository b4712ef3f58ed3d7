"""From what an author asks of a query to goals: shares, pins and targets in absolute numbers."""

from __future__ import annotations

from fractions import Fraction

from dprelease.plan.goal import Goal
from dprelease.privacy.budget import Budget
from dprelease.spec.document import QuerySpec

__all__ = ["goal_of"]


def goal_of(query: QuerySpec, delta: Fraction) -> Goal:
    """What the author asked of a query, with relative targets made absolute by ``expect``."""
    targets = {}
    for label, target in query.target.items():
        margin = target.margin
        if margin is None:
            assert target.relative is not None  # noqa: S101 - the loader wants one of the two
            margin = target.relative * query.expect[label]
        targets[label] = margin
    pinned = query.budget
    budget = Budget(epsilon=pinned.epsilon, rho=pinned.rho, delta=delta) if pinned is not None else None
    return Goal(share=query.weight, budget=budget, targets=targets)
