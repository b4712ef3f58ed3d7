"""What ``{quantiles: COLUMN, from: ranks}`` becomes in a plan: values that noise chose by their ranks."""

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
from dprelease.measures.clipped import Ranged, clip_of, joint_margins
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.text import Formula, FormulaTerm, exact_text, operand
from dprelease.noise import Law
from dprelease.words import marked, phrase

__all__ = ["Quantile"]


class Quantile(Ranged):
    """One quantile of a column's values, rounded to the grid and clipped, in each cell; see :meth:`estimate`.

    A quantile at rank a of n values is any number with at most ``a n`` of them below it and at most ``(1 - a) n``
    above it. Noise chooses a grid value by the exponential mechanism, the likelier the nearer its rank is to a.

    Attributes:
        quantile: The column.
        at: The rank a, from 0 to 1.
        among: The ranks of all quantiles that were asked for together, rising; ``at`` is one of them.
    """

    kind: ClassVar[str] = "quantile"
    plural: ClassVar[str] = marked("Quantiles")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "Quantiles that were asked for together are put in rising order. The margin of one follows from the others "
            "beside it and a noisy count of the column; it is blank where no such count was measured. It has no "
            "standard error."
        ),
    )
    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["never"]] = "never"
    grid_kind: ClassVar[Literal["quantile"]] = "quantile"
    other_form: ClassVar[Literal["offered"]] = "offered"
    quantile: str
    at: Fraction = Field(ge=0, le=1)
    among: tuple[Fraction, ...] = Field(min_length=1)

    @property
    def broken(self) -> str:
        """Its rank must be one of those that are drawn."""
        return "" if self.at in self.among else "is a quantile that is not drawn"

    def described(self, table: Table, unit: str) -> str:
        """The rank in percent, or which end it is."""
        name = phrase("quantile at {percent} %", percent=exact_text(100 * self.at))
        if self.at == 0:
            name = phrase("least value, which noise places roughly,")
        elif self.at == 1:
            name = phrase("largest value, which noise places roughly,")
        return self.of_values(name, self.unit_of(table), table, unit)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One for each rank that was asked for together: they are drawn apart, and put in order by each of them."""
        one = self.clipped("quantile", table)
        return tuple(one.model_copy(update={"at": at}) for at in self.among)

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Also with the number of values, from which its margin follows: for where that is measured anyway."""
        plain = self.quantities(table)
        return (plain, (*plain, Quantity(kind="nonnull", column=self.quantile, where=self.where)))

    def size(self, first: Quantity) -> int:
        """Not told by the first of its quantities: no ratio can be of a quantile, which has no error of its own."""
        raise BrokenPromiseError("a quantile has no size that its first quantity tells")

    def own(self, quantity: Quantity) -> bool:
        """Not the draws of the other ranks, among which its own is put in order."""
        return quantity.at in (None, self.at)

    def grid(self, quantities: Sequence[Quantity]) -> Fraction:
        """The step of the values."""
        return quantities[0].step

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
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

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The draw at its place among all that were asked for together."""
        draws = [each for each in terms if each.quantity.kind == "quantile"]
        place = sorted(each.quantity.at or Fraction(0) for each in draws).index(self.at) + 1
        names = ", ".join(each.name for each in draws)
        return Formula(f"smallest({place}, {names}) * {operand(draws[0].quantity.step)}")

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
