"""What one published number is beside another one: a share, a change, an index, a difference between groups."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Literal

from dprelease.canonical import GrownValue
from dprelease.catalog.series.band import SumOf
from dprelease.words import phrase

__all__ = ["ALIKE_KINDS", "PREVIOUS", "TOTAL_WORD", "ComparedKind", "ComparedNumber", "compared_named"]

PREVIOUS, TOTAL_WORD = "previous", "total"
ALIKE_KINDS = ("change", "growth", "difference")  # which can be not distinguishable from 0
ComparedKind = Literal["share", "change", "growth", "index", "difference", "sum"]
_NO_TITLES: Mapping[str, str] = MappingProxyType({})


class ComparedNumber(GrownValue):
    """One further column of a query, made of its published numbers; it draws nothing.

    Attributes:
        measure: The measure of the query that is compared.
        share_of: The key columns of the total that each number is a share of; none of them: the total of all.
        change_from: The period that is subtracted: ``previous``, or one by name.
        index_to: The period whose numbers are 100.
        difference_from: A key column, and the key (as text) of the group that is subtracted.
        show: ``percent``: a share hundredfold, and of a change by how many percent the number grew.
        sum_of: Of a series: the sum of its last so many periods, or ``ytd``.
        among: Of differences between all pairs of groups: the name that the author gave them, by which the columns of
            all groups are judged together.
        proved: False: of means and ratios, the narrower interval and the p-value that are measured and not proved.
    """

    LATER: ClassVar[tuple[str, ...]] = (
        "share_of",
        "change_from",
        "index_to",
        "difference_from",
        "show",
        "sum_of",
        "among",
        "proved",
    )
    measure: str
    share_of: tuple[str, ...] | None = None
    change_from: str | None = None
    index_to: str | None = None
    difference_from: tuple[str, str] | None = None
    show: Literal["percent"] | None = None
    sum_of: SumOf | None = None
    among: str | None = None
    proved: bool = True

    @property
    def kind(self) -> ComparedKind:
        """What it is."""
        if self.share_of is not None:
            return "share"
        if self.index_to is not None:
            return "index"
        if self.difference_from is not None:
            return "difference"
        if self.sum_of is not None:
            return "sum"
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
        """Whether a p-value stands beside it, where the measure is linear in its draws, or where it is asked for."""
        return self.kind in ALIKE_KINDS

    def described(self, measures: Mapping[str, str] = _NO_TITLES, columns: Mapping[str, str] = _NO_TITLES) -> str:
        """The number in words, in the language that is spoken.

        Args:
            measures: By the names of published numbers what readers see in their place.
            columns: The same of key columns.
        """
        measure = measures.get(self.measure, self.measure)
        if self.share_of is not None:
            within = phrase(" and ").join(columns.get(each, each) for each in self.share_of)
            words = (
                phrase("share of {measure} in the total within {columns}", measure=measure, columns=within)
                if within
                else phrase("share of {measure} in the total of all", measure=measure)
            )
            return phrase("{words}, in percent", words=words) if self.show == "percent" else words
        if self.index_to is not None:
            return phrase("{measure}, where that of {period} is 100", measure=measure, period=self.index_to)
        if self.difference_from is not None:
            column, key = self.difference_from
            return phrase(
                "{measure} less that of the row with {column} {key} and otherwise the same keys",
                measure=measure,
                column=columns.get(column, column),
                key=key,
            )
        if self.sum_of is not None:
            words = (
                phrase("{measure} since the beginning of the year", measure=measure)
                if self.sum_of == "ytd"
                else phrase("{measure} since the first period", measure=measure)
                if self.sum_of == "total"
                else phrase("{measure} of the last {count} periods together", measure=measure, count=self.sum_of)
            )
            return phrase("{words}, in percent", words=words) if self.show == "percent" else words
        if self.change_from == PREVIOUS:
            if self.show == "percent":
                return phrase("by how many percent {measure} has grown since the period before", measure=measure)
            return phrase("change of {measure} since the period before", measure=measure)
        if self.show == "percent":
            return phrase(
                "by how many percent {measure} has grown since {period}", measure=measure, period=self.change_from
            )
        return phrase("change of {measure} since {period}", measure=measure, period=self.change_from)


def compared_named(compared: Mapping[str, ComparedNumber], name: str) -> ComparedNumber | None:
    """The column of a name; of the name of all pairs of groups the first of their columns, which all err alike."""
    pairs = (each for each in compared.values() if each.among == name)
    return compared.get(name) or next(pairs, None)
