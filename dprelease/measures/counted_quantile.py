"""A quantile from noisy counts along the grid: what ``{quantiles: COLUMN, from: counts}`` becomes in a plan."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.errors import BrokenPromiseError
from dprelease.measures.base import Estimate, Expected, Noisy, Possible
from dprelease.measures.clipped import Ranged, clip_of
from dprelease.measures.prefix_counts import PrefixCounts
from dprelease.measures.text import Formula, FormulaTerm, exact_text, operand
from dprelease.noise import Law

__all__ = ["FEWEST_CLASSES", "MOST_CLASSES", "USUAL_CLASSES", "CountedQuantile", "counted_along", "prefixes_of"]

MOST_CLASSES = 4096  # of the matrix that the draw is made with (``catalog.factor``)
USUAL_CLASSES = 1024  # of which the noise of a prefix is some 10 % above that of a tenth as many
FEWEST_CLASSES = 2


class CountedQuantile(Ranged):
    """One quantile of a column's values, rounded to the grid and clipped, from a draw of counts along the grid.

    A quantile at rank a of n values is any number with at most ``a n`` of them below it and at most ``(1 - a) n``
    above it. All quantiles of one column in the same cells follow from one draw, which costs the same for any number
    of them.

    Attributes:
        counted_quantile: The column.
        at: The rank a, from 0 to 1.
        edges: Where each class of values begins, in units of the column, from the low end of the clip on; empty: the
            finest classes of 1, 2 or 5 times a power of ten steps of which there are at most 1,024.
    """

    kind: ClassVar[str] = "counted_quantile"
    plural: ClassVar[str] = "Quantiles from counts"
    method: ClassVar[tuple[str, ...]] = (
        "The number of values up to each class of values was measured in one draw. A quantile is where these numbers, "
        "made to rise, reach its part of their total; its interval holds every value at which a test by the law of the "
        "noise does not refuse it, and is made of the numbers as they were drawn. It has no standard error.",
    )
    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["never"]] = "never"
    grid_kind: ClassVar[Literal["quantile"]] = "quantile"
    gaussian: ClassVar[bool] = True
    counted_quantile: str
    at: Fraction = Field(ge=0, le=1)
    edges: tuple[Fraction, ...] = ()

    def described(self, table: Table, unit: str) -> str:
        """The rank in percent."""
        return self.of_values(f"quantile at {exact_text(100 * self.at)} %", self.unit_of(table), table, unit)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """The counts of classes, which the quantiles of one column at all ranks share."""
        return (counted_along(self.clipped("quantile", table), self.edges),)

    def size(self, first: Quantity) -> int:
        """Not told: no ratio can be of a quantile, which has no error of its own."""
        raise BrokenPromiseError("a quantile has no size that its first quantity tells")

    def grid(self, quantities: Sequence[Quantity]) -> Fraction:
        """The step of the values."""
        return quantities[0].step

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """The clip: the interval is about every quantile that the clipped values themselves span."""
        return clip_of(quantities[0])

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """1: its error is told in ranks, as that of a prefix."""
        return (1.0,)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The value where the prefixes reach its rank, within the interval of ``PrefixCounts.between``.

        A value outside of the interval would be one that the test refuses, and is moved to the nearer end.
        """
        prefixes, step = prefixes_of(noisy[0]), float(noisy[0].quantity.step)
        lower, upper = (each.astype(np.float64) for each in prefixes.between(self.at, confidence))
        value = np.clip(prefixes.quantile(self.at).astype(np.float64), lower, upper)
        value = np.where(np.isnan(prefixes.size), np.nan, value)  # of a cell of which nothing is known
        margin = np.maximum(value - lower, upper - value)
        return Estimate(
            value=value * step,
            standard_error=np.full(value.shape, np.nan),
            margin=margin * step,
            ends=(lower * step, upper * step),
        )

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """What ``recipe.json`` explains under ``classes``."""
        (term,) = terms
        return Formula(f"quantile({term.name}, {operand(self.at)})")

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """Nothing: how far apart values of neighbouring ranks are is a matter of the data."""
        return Expected(why_null="depends on the data: how far apart the values of neighbouring ranks lie")


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
    while width // grain >= USUAL_CLASSES:
        grain = grain * 5 // 2 if str(grain)[0] == "2" else grain * 2
    return clipped.model_copy(update={"grain": grain})


def prefixes_of(noisy: Noisy) -> PrefixCounts:
    """The prefixes that a measurement of counts of classes tells.

    Raises:
        BrokenPromiseError: If it is a measurement of something else.
    """
    if noisy.prefixes is None:
        raise BrokenPromiseError("a quantile from counts is fed by a draw that is none of counts along its grid")
    return noisy.prefixes
