"""From what an author asks of a query to goals and guesses: shares, pins and targets in absolute numbers, rows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.measures import Measure
from dprelease.plan.document.goal import Goal
from dprelease.privacy.budget import Budget
from dprelease.spec.fields.document import QuerySpec

__all__ = ["expected_rows", "goal_of"]


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


def expected_rows(expect: Mapping[str, int], measures: Mapping[str, Measure], label: str) -> int | None:
    """The author's guess of the rows behind a measure: of a count of the same column, else of any count."""
    target = measures[(label, *measures[label].others)[-1]].target
    own = [guess for name, guess in expect.items() if target and measures[name].target == target]
    return next(iter(own or expect.values()), None)
