"""A query of prefixes or ranges as a plan says it: which sums along which ordered column are published."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from dprelease.canonical import Value
from dprelease.catalog.table import Column
from dprelease.spec.fields.queries import end_columns

__all__ = ["PlannedRanges", "rows_of"]


def rows_of(columns: Sequence[Column], ranges: PlannedRanges | None) -> int:
    """How many rows a table with these published key columns has: all combinations, but of ranges only those that rise.

    Args:
        columns: As published; every one has keys.
        ranges: Which sums it has instead of the counts of cells; None: those.
    """
    found = prod(column.cells for column in columns)
    if ranges is None or ranges.which == "prefixes":
        return found
    keys = columns[-1].cells
    return found // keys**2 * (keys * (keys + 1) // 2)


class PlannedRanges(Value):
    """Which sums along an ordered column a table has.

    Attributes:
        of: The ordered column, one of the query's ``by``.
        which: ``prefixes``: up to and with each key; ``all``: from each key to itself and every later one.
    """

    of: str
    which: Literal["prefixes", "all"]

    def columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The key columns of the table: the others of ``by``, then where sums begin or end."""
        others = [column for column in columns if column.name != self.of]
        ordered = next(column for column in columns if column.name == self.of)
        ends = (ordered.model_copy(update={"name": name}) for name in end_columns(self.of, self.which))
        return (*others, *ends)
