"""What the author asked of the accuracy or the price of a query."""

from __future__ import annotations

from fractions import Fraction

from dprelease.canonical import Value
from dprelease.privacy.budget import Budget

__all__ = ["Goal"]


class Goal(Value):
    """What the author asked of a query's accuracy or price; everything left out: its share of the rest.

    Attributes:
        share: Relative to the other queries that share: of the budget, or with ``least_error`` the weight of its error.
        budget: What the query alone costs, at the release's delta; it then has steps of its own.
        targets: For a measure the largest margin of error that is allowed, in units of the measure.
    """

    share: Fraction | None = None
    budget: Budget | None = None
    targets: dict[str, Fraction] = {}
