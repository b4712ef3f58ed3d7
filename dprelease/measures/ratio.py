"""``{ratio: [a, b]}``: one measure of a query over another one, in each cell; it draws nothing of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Annotated, Any

import numpy as np
from pydantic import Discriminator, SerializerFunctionWrapHandler, Tag, field_validator, model_serializer

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Asked, Estimate, Expected, Floats, Measure, Noisy, Possible
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance
from dprelease.noise import Law

__all__ = ["PARTS", "PlannedRatio", "Ratio"]

PARTS: dict[str, type[Measure]] = {
    "count": Count,
    "count_distinct": CountDistinct,
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
    "stddev": Stddev,
}
"""What a ratio can be of: every kind that has margins of its own."""


def _kind(value: Any) -> str | None:
    names = value if isinstance(value, Mapping) else type(value).model_fields if isinstance(value, Measure) else ()
    return next((kind for kind in PARTS if kind in names), None)


Part = Annotated[
    Annotated[Count, Tag("count")]
    | Annotated[CountDistinct, Tag("count_distinct")]
    | Annotated[Sum, Tag("sum")]
    | Annotated[Mean, Tag("mean")]
    | Annotated[Variance, Tag("variance")]
    | Annotated[Stddev, Tag("stddev")],
    Discriminator(_kind),
]


class Ratio(Asked):
    """One measure of the query over another one, by their names."""

    ratio: tuple[str, str]

    @field_validator("where")
    @classmethod
    def _no_where(cls, where: str | None) -> str | None:
        if where is not None:
            raise ValueError("a ratio has no `where` of its own: give it to its two measures")
        return where

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """The same with its two measures spelled out, so that a plan can be read without its neighbours."""
        first, second = (others[each] for each in self.ratio)
        return {name: PlannedRatio.model_validate({"ratio": self.ratio, "of": (first, second)})}


class PlannedRatio(Measure):
    """A quotient of two estimates; its quantities are the first one's, followed by the second one's.

    Attributes:
        ratio: The names of the two measures.
        of: What they are.
        implied: Both are counts, and the condition of the first can only be true in rows where the column that the
            second one counts has a value (``plan.grouping`` finds it; plans from before it was looked for do not say
            so).
    """

    ratio: tuple[str, str]
    of: tuple[Part, Part]
    implied: bool = False

    @model_serializer(mode="wrap")
    def _without_later_fields(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Ratios that do not need it keep the text that they had before there was such a field."""
        fields: dict[str, Any] = written(self)
        return {name: each for name, each in fields.items() if each or name != "implied"}

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """Those of the two measures, one after the other."""
        return (*self.of[0].quantities(table), *self.of[1].quantities(table))

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Every form of the one beside every form of the other."""
        first, second = (each.alternatives(table) for each in self.of)
        return tuple((*one, *other) for one, other in product(first, second))

    def within(self, quantities: Sequence[Quantity]) -> Possible:
        """[0, 1] for a part of a whole; else on one side of 0 where the two measures' own limits say so.

        A part of a whole is a count of some of the rows that are counted below (see :attr:`is_share`), both of the
        same bounded rows, so that 0 <= A <= B. Of other ratios the sign is known where A is on one side of 0 and B is
        at least 0: the ratio of two counts is at least 0, and it can be above 1. Where B is 0 there is no ratio, and
        nothing is said of it.
        """
        if self.is_share:
            return (Fraction(0), Fraction(1))
        above, below = self._split(quantities)
        low, high = self.of[0].within(above)
        least, _ = self.of[1].within(below)
        if least is None or least < 0:
            return (None, None)
        zero = Fraction(0)
        return (zero if low is not None and low >= 0 else None, zero if high is not None and high <= 0 else None)

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """Of A / B at the largest ratio r that is likely: 1 / B^2 times those of A, r^2 / B^2 times those of B.

        B is ``count`` where it is a count, else 1 per row; r is 1 for a part of a whole, and for a sum over a count
        the farther end of the clip.
        """
        size = float(count or 1)
        above, below = self._split(quantities)
        worst = max(map(abs, self._ends(above) or (1.0, 1.0)))
        first = [weight / size**2 for weight in self.of[0].weights(above, count)]
        second = [worst**2 * weight / size**2 for weight in self.of[1].weights(below, count)]
        return (*first, *second)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """Quotients; blank where the number below is smaller than one step of its grid, or not above 0.

        The margin holds whatever the data: with a joint confidence (Bonferroni) both true numbers lie within their
        own margins, and the number below is at least one step where it is a whole number of steps and cannot be
        negative; the quotient of the two then lies in its range over that box, for the box is all on one side of 0.
        Where the box holds 0, no margin is known and it is blank. A part of a whole (rows of the same kind, the
        ones above being among the ones below) lies between 0 and 1, and so are value and range held.
        The standard error is first order (delta method); where both numbers share a draw it is the sum of their two
        parts, which is never less (Cauchy-Schwarz).
        """
        above, below = self._split(noisy)
        half = 1 - (1 - confidence) / 2
        top, bottom = self.of[0].estimate(above, half), self.of[1].estimate(below, half)
        floor = self._floor(below[0].quantity)
        least_below = floor if floor is not None else 0.0
        known = np.where((bottom.value >= least_below) & (bottom.value > 0), bottom.value, np.nan)
        fewest = bottom.value - bottom.margin if floor is None else np.maximum(bottom.value - bottom.margin, floor)
        value = top.value / known
        least, most = _range(top.value, top.margin, np.where(fewest > 0, fewest, np.nan), known + bottom.margin)
        if self.is_share:
            value, least, most = (np.clip(each, 0.0, 1.0) for each in (value, least, most))
        shared = {part.quantity for part in above} & {part.quantity for part in below}
        error = _error(top.standard_error, np.abs(value) * bottom.standard_error, bool(shared)) / known
        return Estimate(value=value, standard_error=error, margin=np.maximum(value - least, most - value))

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """For a cell of ``count`` below, at the worst ratio: of a part of a whole, or of a sum, over a count."""
        above, below = self._split(quantities)
        ends = self._ends(above)
        if ends is None:
            return Expected(why_null="depends on the data: how large the two numbers are")
        if count is None:
            return Expected(why_null="depends on the cell's size: give `expect` for a count of the query")
        half = 1 - (1 - confidence) / 2
        top = self.of[0].expected(above, laws[: len(above)], half, count)
        bottom = self.of[1].expected(below, laws[len(above) :], half, count)
        m_top, m_bottom = top.margin or 0.0, bottom.margin or 0.0
        fewest = max(count - m_bottom, 1.0)
        # Of a part of a whole the margin is largest at an end, or where the range begins to be held at 1.
        turn = min(max((fewest - m_top) / count, 0.0), 1.0)
        ratios = np.array([*ends, turn] if self.is_share else ends)
        full = np.full_like(ratios, 1.0)
        least, most = _range(ratios * count, m_top * full, fewest * full, (count + m_bottom) * full)
        if self.is_share:
            least, most = np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)
        worst = max(map(abs, ends))
        shared = bool(set(above) & set(below))
        error = _error(top.standard_error or 0.0, worst * (bottom.standard_error or 0.0), shared) / count
        return Expected(float(error), float(np.maximum(ratios - least, most - ratios).max()))

    @property
    def is_share(self) -> bool:
        """Whether what is counted above is always among what is counted below, so that the ratio is within [0, 1].

        Every row of the first is one of the second where the second one counts rows, the same column, or a column that
        has a value wherever the condition of the first is true; and where it has no condition, or the same one.
        """
        above, below = self.of
        if not isinstance(above, Count) or not isinstance(below, Count):
            return False
        counted = self.implied or below.count in ("rows", above.count)
        return counted and below.where in (None, above.where)

    def _split(self, parts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """What belongs to the first measure and what to the second: quantities, or noisy ones."""
        first = parts[0].quantity if isinstance(parts[0], Noisy) else parts[0]
        fixed = {"mean": 2, "variance": 3, "stddev": 3}
        # A plain sum is never centred, and of a column's count only the form of two draws begins with a balance.
        own = 2 if first.kind == "balance" or (first.kind == "sum" and first.centre) else 1
        length = fixed.get(_kind(self.of[0]) or "", own)
        return parts[:length], parts[length:]

    def _floor(self, below: Quantity) -> float | None:
        """The least that the number below can be where it is not 0; None: it may be anything."""
        if isinstance(self.of[1], Count | CountDistinct):
            return 1.0
        return float(below.step) if isinstance(self.of[1], Sum) and below.low >= 0 else None

    def _ends(self, above: Sequence[Quantity]) -> tuple[float, float] | None:
        """The least and the largest ratio, where something is known of them."""
        if self.is_share:
            return (0.0, 1.0)
        if not isinstance(self.of[1], Count) or not isinstance(self.of[0], Sum):
            return None
        step = float(above[0].step)
        return (above[0].low * step, above[0].high * step)


def _range(top: Floats, margin: Floats, fewest: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The least and the largest quotient over a box, whose lower side ``[fewest, most]`` is above 0."""
    low, high = top - margin, top + margin
    return np.minimum(low / fewest, low / most), np.maximum(high / fewest, high / most)


def _error(first: Any, second: Any, shared: bool) -> Any:
    return first + second if shared else np.sqrt(first**2 + second**2)
