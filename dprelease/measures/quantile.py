"""``{quantiles: COLUMN, at: [...]}``, ``{min: COLUMN}``, ``{max: COLUMN}``: values at given ranks in each cell.

>>> quantile_name("middle", Fraction(1, 4)), quantile_name("middle", Fraction(1, 8)), quantile_name("m", Fraction(1, 3))
('middle_q25', 'middle_q12_5', 'm_q1of3')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np
from pydantic import Field

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import (
    Asked,
    Estimate,
    Expected,
    Floats,
    Measure,
    Noisy,
    Possible,
    Ranged,
    clip_of,
    joint_margins,
)
from dprelease.noise import Law

__all__ = ["Max", "Min", "Quantile", "Quantiles", "quantile_name"]


class Quantiles(Ranged, Asked):
    """Several quantiles of one column, as an author writes them: one published number for each of ``at``."""

    grid_kind: ClassVar[str] = "quantile"
    quantiles: str
    at: tuple[Fraction, ...] = Field(min_length=1)

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """One :class:`Quantile` for each rank, in the order in which they are written."""
        among = tuple(sorted(set(self.at)))
        return {
            quantile_name(name, at): Quantile(
                quantile=self.quantiles, at=at, among=among, clip=self.clip, where=self.where
            )
            for at in self.at
        }


class Min(Ranged, Asked):
    """The least value of a column: its quantile at 0, which noise can only place roughly."""

    grid_kind: ClassVar[str] = "quantile"
    min: str

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """The quantile at 0."""
        zero = Fraction(0)
        return {name: Quantile(quantile=self.min, at=zero, among=(zero,), clip=self.clip, where=self.where)}


class Max(Ranged, Asked):
    """The largest value of a column: its quantile at 1, which noise can only place roughly."""

    grid_kind: ClassVar[str] = "quantile"
    max: str

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """The quantile at 1."""
        one = Fraction(1)
        return {name: Quantile(quantile=self.max, at=one, among=(one,), clip=self.clip, where=self.where)}


class Quantile(Ranged):
    """One quantile of a column's values, rounded to the grid and clipped, in each cell; see :meth:`estimate`.

    A quantile at rank a of n values is any number with at most ``a n`` of them below it and at most ``(1 - a) n``
    above it. Noise chooses a grid value by the exponential mechanism, the likelier the nearer its rank is to a.

    Attributes:
        quantile: The column.
        at: The rank a, from 0 to 1.
        among: The ranks of all quantiles that were asked for together, rising; ``at`` is one of them.
    """

    grid_kind: ClassVar[str] = "quantile"
    quantile: str
    at: Fraction = Field(ge=0, le=1)
    among: tuple[Fraction, ...] = Field(min_length=1)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One for each rank that was asked for together: they are drawn apart, and put in order by each of them."""
        low, high, step = self.limits(table, self.quantile)
        one = Quantity(kind="quantile", column=self.quantile, step=step, low=low, high=high, where=self.where)
        return tuple(one.model_copy(update={"at": at}) for at in self.among)

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Also with the number of values, from which its margin follows: for where that is measured anyway."""
        plain = self.quantities(table)
        return (plain, (*plain, Quantity(kind="nonnull", column=self.quantile, where=self.where)))

    def within(self, quantities: Sequence[Quantity]) -> Possible:
        """The clip: the margin is about every quantile that the clipped values themselves span, and they lie in it."""
        return clip_of(quantities[0])

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """1 of its own draw and 0 of all else: each quantile that is asked for pays for itself."""
        return tuple(1.0 if each.kind == "quantile" and each.at == self.at else 0.0 for each in quantities)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The draws of all ranks in rising order, of which its own place is taken; no standard error.

        Putting the draws in order uses nothing but the draws. The margin holds for all draws together, the count's
        included (Bonferroni over them), and needs the count; without it, it is blank.

        Proof. Let x_j be the draw at rank a_j and n >= 1 the number of values. With the joint confidence every score
        is at most its bound, #{> x_j} - (1 - a_j) n <= E_j and #{< x_j} - a_j n <= E_j, and n >= n_low, the noisy
        count less its margin. Let q be a quantile at a_i and (a_j - a_i) n_low > E_j. If x_j < q, then all values
        that are not above x_j are below q, at most a_i n of them, so that #{> x_j} >= (1 - a_i) n, and the score is
        at least (a_j - a_i) n > E_j: a contradiction. So q <= x_j; and in the same way q >= x_j where
        (a_i - a_j) n_low > E_j. The least of the former and the largest of the latter bound every quantile at a_i,
        and where there is none, the end of the clip does (of the quantiles that the values themselves span). The
        published value lies within that interval or not; the margin reaches from it to the farther end.
        A cell without values has no quantile, and nothing is said of it.
        """
        draws = [part for part in noisy if part.quantity.kind == "quantile"]
        own = draws[[part.quantity.at for part in draws].index(self.at)].quantity
        found = np.stack([part.values for part in draws]).astype(np.float64)
        ranks = [part.quantity.at or Fraction(0) for part in draws]
        value = np.sort(found, axis=0)[sorted(ranks).index(self.at)]
        blank = np.full_like(value, np.nan)
        margin = blank
        if len(noisy) > len(draws):
            least, most = self._interval(noisy, found, ranks, confidence)
            margin = np.maximum(value - least, most - value)
        step = float(own.step)
        return Estimate(value=value * step, standard_error=blank, margin=margin * step)

    def _interval(
        self, noisy: Sequence[Noisy], found: Floats, ranks: Sequence[Fraction], confidence: Fraction
    ) -> tuple[Floats, Floats]:
        """Bounds of the quantile in steps, from the draws ``(ranks, cells)`` and the count, which is the last input."""
        *reaches, m_count = joint_margins([part.law for part in noisy], confidence)
        own, fewest = noisy[0].quantity, noisy[-1].values.astype(np.float64) - m_count
        least, most = np.full_like(found[0], own.low), np.full_like(found[0], own.high)
        for draw, rank, reach in zip(found, ranks, reaches, strict=True):
            # A rank farther away by more than the reach of its score, with a hair for the rounding of doubles.
            apart = float(abs(rank - self.at)) * fewest > reach * (1 + 1e-12)
            if rank > self.at:
                most = np.where(apart, np.minimum(most, draw), most)
            elif rank < self.at:
                least = np.where(apart, np.maximum(least, draw), least)
        return least, most

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """Nothing: how far apart values of neighbouring ranks are is a matter of the data."""
        return Expected(why_null="depends on the data: how far apart the values of neighbouring ranks lie")


def quantile_name(name: str, at: Fraction) -> str:
    """The published name of a quantile: its rank in percent where a decimal can write it, else the fraction."""
    percent = 100 * at
    places = next((n for n in range(19) if (percent * 10**n).denominator == 1), None)
    if places is None:
        return f"{name}_q{at.numerator}of{at.denominator}"
    digits = str(int(percent * 10**places)).rjust(places + 1, "0")
    return f"{name}_q{digits}" if not places else f"{name}_q{digits[:-places]}_{digits[-places:]}"
