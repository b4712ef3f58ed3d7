"""What the author writes of prefix and range counts: along which ordered column, and which sums."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dprelease.spec.fields import Filled
from dprelease.spec.value import SpecValue

__all__ = ["RangesSpec", "Which", "end_columns"]

Which = Literal["prefixes", "all"]


def end_columns(of: str, which: Which) -> tuple[str, ...]:
    """The key columns that take the place of the ordered one, in published order.

    >>> end_columns("age", "prefixes"), end_columns("age", "all")
    (('age_to',), ('age_from', 'age_to'))
    """
    return (f"{of}_to",) if which == "prefixes" else (f"{of}_from", f"{of}_to")


class RangesSpec(SpecValue):
    """Counts up to each key of an ordered column, or from each key to each later one."""

    of: Filled = Field(description="A column of `by` whose keys are in order: numbers, dates or bins.")
    which: Which = Field(description="`prefixes`: up to and with each key; `all`: from each key to each later one.")
