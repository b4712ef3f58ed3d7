"""What one published number is beside another one: a share, a change, an index, a difference between groups."""

from __future__ import annotations

from typing import ClassVar, Literal

from dprelease.canonical import GrownValue

__all__ = ["ALIKE_KINDS", "PREVIOUS", "TOTAL_WORD", "ComparedKind", "ComparedNumber"]

PREVIOUS, TOTAL_WORD = "previous", "total"
ALIKE_KINDS = ("change", "growth", "difference")  # which can be not distinguishable from 0
ComparedKind = Literal["share", "change", "growth", "index", "difference"]


class ComparedNumber(GrownValue):
    """One further column of a query, made of its published numbers; it draws nothing.

    Attributes:
        measure: The measure of the query that is compared.
        share_of: The key columns of the total that each number is a share of; none of them: the total of all.
        change_from: The period that is subtracted: ``previous``, or one by name.
        index_to: The period whose numbers are 100.
        difference_from: A key column, and the key (as text) of the group that is subtracted.
        show: ``percent``: a share hundredfold, and of a change by how many percent the number grew.
    """

    LATER: ClassVar[tuple[str, ...]] = ("share_of", "change_from", "index_to", "difference_from", "show")
    measure: str
    share_of: tuple[str, ...] | None = None
    change_from: str | None = None
    index_to: str | None = None
    difference_from: tuple[str, str] | None = None
    show: Literal["percent"] | None = None

    @property
    def kind(self) -> ComparedKind:
        """What it is."""
        if self.share_of is not None:
            return "share"
        if self.index_to is not None:
            return "index"
        if self.difference_from is not None:
            return "difference"
        return "growth" if self.show == "percent" else "change"

    @property
    def period(self) -> str | None:
        """The period that it looks back to; None: to none."""
        return self.change_from or self.index_to

    def at(self, period: str) -> ComparedNumber:
        """The same with the name of the period that it looks back to."""
        return self.model_copy(update={"change_from" if self.change_from is not None else "index_to": period})

    @property
    def whole(self) -> int:
        """What a quotient of 1 is published as."""
        return 100 if self.show == "percent" or self.index_to is not None else 1

    @property
    def says_p(self) -> bool:
        """Whether a p-value stands beside it, where the measure is linear in its draws."""
        return self.kind in ALIKE_KINDS

    def described(self) -> str:
        """The number in words."""
        percent = ", in percent" if self.show == "percent" else ""
        if self.share_of is not None:
            within = f"within {' and '.join(self.share_of)}" if self.share_of else "of all"
            return f"share of {self.measure} in the total {within}{percent}"
        if self.index_to is not None:
            return f"{self.measure}, where that of {self.index_to} is 100"
        if self.difference_from is not None:
            column, key = self.difference_from
            return f"{self.measure} less that of the row with {column} {key} and otherwise the same keys"
        since = "the period before" if self.change_from == PREVIOUS else str(self.change_from)
        if self.show == "percent":
            return f"by how many percent {self.measure} has grown since {since}"
        return f"change of {self.measure} since {since}"
