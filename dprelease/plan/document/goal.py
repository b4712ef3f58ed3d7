"""What the author asked of the accuracy or the price of a query."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.canonical import Value
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.privacy.budget import Budget

__all__ = ["Goal"]


class Goal(Value):
    """What the author asked of a query's accuracy or price; everything left out: its share of the rest.

    Attributes:
        share: Relative to the other queries that share: of the budget, or with ``least_error`` the weight of its error.
        budget: What the query alone costs, at the release's delta; it then has steps of its own.
        targets: For a measure, or a column that compares, the largest margin of error that is allowed, in its units;
            by the name of all pairs of groups that of each of their columns.
    """

    share: Fraction | None = None
    budget: Budget | None = None
    targets: dict[str, Fraction] = {}

    def target_of(self, name: str, compared: Mapping[str, ComparedNumber]) -> Fraction | None:
        """The margin that is asked of a number of a query with these columns that compare."""
        pairs = compared[name].among if name in compared else None
        return self.targets.get(pairs or name)
