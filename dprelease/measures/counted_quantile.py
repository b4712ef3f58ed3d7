"""What ``{quantiles: COLUMN, from: counts}`` becomes in a plan: numbers from noisy counts along the column's grid.

Quantiles, ratios of two of them, shares below a value and the Gini coefficient: all of one column, in the same cells,
follow from one draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.errors import BrokenPromiseError
from dprelease.measures.base import Floats, Possible
from dprelease.measures.clipped import Ranged, clip_of
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.prefix_counts import PrefixCounts
from dprelease.measures.tested.gini import gini
from dprelease.measures.text import Formula, FormulaTerm, exact_text, operand
from dprelease.noise import Law
from dprelease.words import marked, phrase

__all__ = [
    "FEWEST_CLASSES",
    "MOST_CLASSES",
    "CountedGini",
    "CountedQuantile",
    "CountedRatio",
    "CountedShare",
    "counted_along",
]

MOST_CLASSES = 4096  # of the matrix that the draw is made with (``catalog.factor``)
_USUAL_CLASSES = 1024  # of which the noise of a prefix is a third above that of a tenth as many
FEWEST_CLASSES = 2
_COUNTED = marked(
    "The number of values up to each class of values was measured in one draw. A quantile is where these numbers, made "
    "to rise, reach its part of their total; its interval holds every value at which a test by the law of the noise "
    "does not refuse it, and is made of the numbers as they were drawn. It has no standard error."
)


class _Counted(Ranged):
    """What numbers from counts along a grid share.

    Attributes:
        edges: Where each class of values begins, in units of the column, from the low end of the clip on; empty: the
            finest classes of 1, 2 or 5 times a power of ten steps of which there are at most 1,024.
    """

    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["never"]] = "never"
    grid_kind: ClassVar[Literal["quantile"]] = "quantile"
    gaussian: ClassVar[bool] = True
    edges: tuple[Fraction, ...] = ()

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """The counts of classes, which all such numbers of one column share.

        Raises:
            ValueError: If the number needs an edge where none can be; says which.
        """
        return (counted_along(self.clipped("quantile", table), self.edges),)

    def size(self, first: Quantity) -> int:
        """Not told: a ratio of measures takes counts and sums."""
        raise BrokenPromiseError("a number from counts along a grid is no part of a ratio")

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """1: its error is told in ranks, as that of a prefix."""
        return (1.0,)

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """Nothing: how far apart values of neighbouring ranks are, and how many there are, is a matter of the data."""
        return Expected(why_null="depends on the data: how far apart the values of neighbouring ranks lie")


class CountedQuantile(_Counted):
    """One quantile of a column's values, rounded to the grid and clipped, from a draw of counts along the grid.

    A quantile at rank a of n values is any number with at most ``a n`` of them below it and at most ``(1 - a) n``
    above it. All quantiles of one column in the same cells follow from one draw, which costs the same for any number
    of them.

    Attributes:
        counted_quantile: The column.
        at: The rank a, from 0 to 1.
    """

    kind: ClassVar[str] = "counted_quantile"
    plural: ClassVar[str] = marked("Quantiles from counts")
    method: ClassVar[tuple[str, ...]] = (_COUNTED,)
    counted_quantile: str
    at: Fraction = Field(ge=0, le=1)

    def described(self, table: Table, unit: str) -> str:
        """The rank in percent."""
        return self.of_values(
            phrase("quantile at {percent} %", percent=exact_text(100 * self.at)), self.unit_of(table), table, unit
        )

    def grid(self, quantities: Sequence[Quantity]) -> Fraction:
        """The step of the values."""
        return quantities[0].step

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """The clip: the interval is about every quantile that the clipped values themselves span."""
        return clip_of(quantities[0])

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The value where the prefixes reach its rank, within the interval of ``PrefixCounts.between``."""
        prefixes, step = _prefixes(noisy), float(noisy[0].quantity.step)
        lower, upper = (np.asarray(each * step, np.float64) for each in prefixes.between(self.at, confidence))
        value = np.where(np.isnan(prefixes.size), np.nan, prefixes.placed(self.at, confidence) * step)
        return Estimate(
            value=value,
            standard_error=np.full(value.shape, np.nan),
            margin=np.maximum(value - lower, upper - value),
            ends=(lower, upper),
        )

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """What ``recipe.json`` explains under ``classes``."""
        return Formula(f"quantile({terms[0].name}, {operand(self.at)})")


class CountedRatio(_Counted):
    """How many times a lower quantile a higher one is, such as P90 / P10, both from one draw of counts.

    Attributes:
        counted_ratio: The column, whose clip does not begin below 0.
        over: The higher rank.
        under: The lower one.
    """

    kind: ClassVar[str] = "counted_ratio"
    plural: ClassVar[str] = marked("Ratios of quantiles")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "A ratio of two quantiles is that of the two as they are published. Its interval is that of all ratios of "
            "values within the intervals of the two, each at half of what the confidence leaves. It is blank where the "
            "lower quantile could be 0."
        ),
    )
    counted_ratio: str
    over: Fraction = Field(ge=0, le=1)
    under: Fraction = Field(ge=0, le=1)

    @property
    def broken(self) -> str:
        """The higher rank comes first."""
        return "" if self.over > self.under else "is a ratio of a quantile and none below it"

    def described(self, table: Table, unit: str) -> str:
        """Both ranks in percent."""
        over, under = exact_text(100 * self.over), exact_text(100 * self.under)
        ranks = phrase("quantile at {over} % over that at {under} %", over=over, under=under)
        return self.of_values(ranks, "", table, unit)

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """At least 1, as the higher quantile is no smaller; at most the ratio of the ends of the clip."""
        low, high = clip_of(quantities[0])
        return (Fraction(1), high / low if low > 0 else None)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The quotient, and an interval that holds both quantiles together (Bonferroni over the two).

        Proof. With the confidence both quantiles are in their intervals [l1, u1] and [l2, u2], each of which fails with
        half of what it leaves at most; then their quotient is in [l1 / u2, u1 / l2], for l2 > 0.
        """
        prefixes, each = _prefixes(noisy), 1 - (1 - confidence) / 2
        (low, high), (least, most) = (prefixes.between(rank, each) for rank in (self.over, self.under))
        known = (least > 0) & ~np.isnan(prefixes.size)
        below = prefixes.placed(self.under, confidence)

        def where_known(number: Floats) -> Floats:
            return np.asarray(np.where(known, number, np.nan))

        value = where_known(np.maximum(prefixes.placed(self.over, confidence) / np.maximum(below, 1), 1.0))
        lower = where_known(np.maximum(low / np.maximum(most, 1), 1.0))
        upper = where_known(np.maximum(high / np.maximum(least, 1), 1.0))
        margin = np.maximum(np.maximum(value - lower, upper - value), 0.0)
        return Estimate(value, np.full(value.shape, np.nan), margin, (lower, upper))

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The quotient of both, each as it is published."""
        name = terms[0].name
        ranks = [f"quantile({name}, {operand(rank)})" for rank in (self.over, self.under)]
        return Formula(
            f"clip({ranks[0]} / {ranks[1]}, 1, {2**62})", (f"quantile_low({name}, {operand(self.under)}) <= 0",)
        )


class CountedShare(_Counted):
    """Which part of a cell's values lies below a value at which a class begins, from a draw of counts.

    Attributes:
        counted_share: The column.
        below: The value, in units of the column.
        show: ``percent``: the share, its errors and its interval are hundredfold; None: it is from 0 to 1.
    """

    LATER: ClassVar[tuple[str, ...]] = (*_Counted.LATER, "show")
    kind: ClassVar[str] = "counted_share"
    plural: ClassVar[str] = marked("Shares below a value")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "A share below a value is the noisy number of values below it over that of all of them, both of one draw, "
            "from "
            "0 to 1. Its interval holds every share at which a test by the law of the noise does not refuse it "
            "(Fieller). "
            "It is blank where the noisy number of values is below 1."
        ),
    )
    counted_share: str
    below: Fraction
    show: Literal["percent"] | None = None

    @property
    def whole(self) -> int:
        """100 of a percentage."""
        return 100 if self.show == "percent" else 1

    def described(self, table: Table, unit: str) -> str:
        """The value in its unit."""
        words = self.of_values(
            phrase("share below {value}{unit}", value=exact_text(self.below), unit=self.unit_of(table)), "", table, unit
        )
        return phrase("{words}, in percent", words=words) if self.show == "percent" else words

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """The counts of classes, one of which begins at the value; as for all such numbers.

        Raises:
            ValueError: If no class begins there, or the first one does, below which no value can be.
        """
        (counted,) = super().quantities(table)
        if self.below / counted.step not in counted.classes[1:]:
            raise ValueError(f"has a share below {exact_text(self.below)}, where no class of values begins")
        return (counted,)

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """From 0 to 1, or to 100 percent."""
        return (Fraction(0), Fraction(self.whole))

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The quotient of a prefix and the last one, with Fieller's interval (``PrefixCounts.share``)."""
        quantity, prefixes = noisy[0].quantity, _prefixes(noisy)
        value, error, lower, upper = prefixes.share(int(self.below / quantity.step), confidence)
        margin = np.maximum(value - lower, upper - value)
        return Estimate(value, error, margin, (lower, upper)).times(self.whole)

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The quotient, held within 0 and 1."""
        (term,) = terms
        place, last = term.quantity.classes.index(int(self.below / term.quantity.step)), len(term.quantity.classes)
        all_of_them = f"prefix({term.name}, {last})"
        text = f"clip(prefix({term.name}, {place}) / {all_of_them}, 0, 1)"
        return Formula(text if self.whole == 1 else f"{self.whole} * {text}", (f"{all_of_them} < 1",))


class CountedGini(_Counted):
    """The Gini coefficient of a column's values, from a draw of counts along its grid.

    Attributes:
        counted_gini: The column, whose clip does not begin below 0.
    """

    kind: ClassVar[str] = "counted_gini"
    plural: ClassVar[str] = marked("Gini coefficients")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "A Gini coefficient is that of the noisy counts of classes of values, each value in the middle of its "
            "class, with what noise takes from it on average added. Its interval holds every coefficient at which a "
            "test by the law of the noise does not refuse it, wherever in their classes the values lie. It is blank "
            "where the noisy number of values is below 1, or their noisy sum is not above 0."
        ),
    )
    counted_gini: str

    def described(self, table: Table, unit: str) -> str:
        """What it is the coefficient of."""
        return self.of_values(phrase("Gini coefficient"), "", table, unit)

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """From 0, where all values are alike, to 1, which is not reached."""
        return (Fraction(0), Fraction(1))

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The coefficient and its interval (``tested.gini``)."""
        found = gini(_prefixes(noisy), confidence)
        margin = np.maximum(found.value - found.lower, found.upper - found.value)
        return Estimate(found.value, found.error, margin, (found.lower, found.upper))

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """What ``recipe.json`` explains under ``classes``."""
        (term,) = terms
        last = len(term.quantity.classes)
        return Formula(f"gini({term.name})", (f"prefix({term.name}, {last}) < 1", f"total({term.name}) <= 0"))


def counted_along(clipped: Quantity, edges: Sequence[Fraction] = ()) -> Quantity:
    """The counts of classes of a column's grid values: one quantity for all that is made of them.

    Args:
        clipped: The column's quantiles, of which no rank is taken.
        edges: Where the classes begin, in units of the column; none: classes that are all alike, of as few steps as
            1, 2 or 5 times a power of ten allow for 1,024 of them.

    Raises:
        ValueError: If an edge is not on the grid; says which.
    """
    if edges:
        odd = next((edge for edge in edges if (edge / clipped.step).denominator > 1), None)
        if odd is not None:
            raise ValueError(f"has {exact_text(odd)}, no multiple of the column's step, {exact_text(clipped.step)}")
        return clipped.model_copy(update={"starts": tuple(int(edge / clipped.step) for edge in edges)})
    width, grain = clipped.high - clipped.low, 1
    while width // grain >= _USUAL_CLASSES:
        grain = grain * 5 // 2 if str(grain)[0] == "2" else grain * 2
    return clipped.model_copy(update={"grain": grain})


def _prefixes(noisy: Sequence[Noisy]) -> PrefixCounts:
    """The prefixes that a measurement of counts of classes tells.

    Raises:
        BrokenPromiseError: If it is a measurement of something else.
    """
    found = noisy[0].prefixes
    if found is None:
        raise BrokenPromiseError("a quantile from counts is fed by a draw that is none of counts along its grid")
    return found
