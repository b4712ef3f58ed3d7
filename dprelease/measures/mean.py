"""``{mean: COLUMN, clip: [low, high]}``: the mean of a clipped column in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Floats, Possible
from dprelease.measures.clipped import Summed, clip_of, in_proportion, joint_margins, mean_of
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.tested.quotients import Draw, NoisyQuotient, widest_reach, with_ends
from dprelease.measures.text import Formula, FormulaTerm, operand
from dprelease.noise import Law
from dprelease.words import marked, phrase

__all__ = ["Mean"]


class Mean(Summed):
    """A mean from two measurements: the sum of values centred at the middle of the clip, and their count.

    Centring halves the sensitivity of the sum (for a clip from 0: from high to high / 2), and keeps the error
    of the count from being multiplied by the mean itself. With ``clip_per: unit_cell`` it is the mean over units of
    what each adds up to in the cell.
    """

    kind: ClassVar[str] = "mean"
    plural: ClassVar[str] = marked("Means")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "A mean is the middle of its clip plus a noisy sum of how far the values lie from it over a noisy count. "
            "It is held within its clip, and blank where the noisy count is below 1."
        ),
    )
    held: ClassVar[bool] = True
    has_totals: ClassVar[bool] = True
    foreseen: ClassVar[Literal["by_size"]] = "by_size"
    weighs: ClassVar[bool] = True
    mean: str

    def described(self, table: Table, unit: str) -> str:
        """In the unit of the column."""
        return self.of_values(phrase("mean"), self.unit_of(table), table, unit)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """Two: the centred sum, and the number of non-null values."""
        return (self.centred(table), self.how_many(table))

    def size(self, first: Quantity) -> int:
        """Always two."""
        return 2

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """The clip.

        The margin is about S / N and the centre, with the exact S and N of one set of values, each in the clip after it
        was clipped; a mean of one value or more lies between the least and the largest of them. It is not about the
        mean before clipping, which can lie anywhere. A cell without values has no mean: nothing is said of it.
        """
        return clip_of(quantities[0])

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """The weights of S / N at the worst mean r, an end of the clip: 1 / N^2 and r^2 / N^2."""
        worst, step = _worst(quantities[0]), float(quantities[0].grid)
        unit = (step / (count or 1)) ** 2
        return (unit, unit * worst**2)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """Means within the clip; blank where the noisy count is below 1.

        The margin holds for both draws together: with |S' - S| <= m_S and |N' - N| <= m_N (each at half the
        error probability) and N >= 1, the true clipped mean lies in the range of S / N over that box,
        intersected with the clip, whatever the data. The standard error is first order (delta method).
        """
        summed, counted = noisy
        quantity = summed.quantity
        sums = summed.values.astype(np.float64)
        counts = np.where(counted.values >= 1, counted.values, np.nan).astype(np.float64)
        low, high = float(quantity.low - quantity.centre), float(quantity.high - quantity.centre)
        ratio = np.clip(sums / counts, low, high)
        m_sum, m_count = joint_margins([summed.law, counted.law], confidence)
        least, most = _box(sums, counts, m_sum, m_count)
        reach = np.maximum(ratio - np.clip(least, low, high), np.clip(most, low, high) - ratio)
        error = np.sqrt(summed.law.variance + ratio**2 * counted.law.variance) / counts
        return Estimate(
            value=summed.scaled(quantity.centre + ratio),
            standard_error=summed.scaled(error),
            margin=summed.scaled(reach),
        )

    def estimate_tested(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The same values and standard errors, with the set of all means that the noise does not refuse.

        The mean less the centre is S / N in steps, two independent draws or two coordinates of one.
        """
        summed = noisy[0]
        low, high = self.as_quotient(noisy).tested(confidence)
        centre = float(summed.quantity.centre)
        return with_ends(self.estimate(noisy, confidence), summed.scaled(centre + low), summed.scaled(centre + high))

    def as_quotient(self, noisy: Sequence[Noisy]) -> NoisyQuotient:
        """The mean less the centre, over the number of values, in steps."""
        summed, counted = noisy
        quantity = summed.quantity
        step = float(quantity.step)
        return NoisyQuotient(
            summed.values.astype(np.float64),
            np.where(counted.values >= 1, counted.values, np.nan).astype(np.float64),
            (Draw(summed.law, 1.0, 0.0, summed.drawn), Draw(counted.law, 0.0, 1.0, counted.drawn)),
            (float(quantity.low - quantity.centre), float(quantity.high - quantity.centre)),
            0.0,
            float(quantity.centre) * step,
            step,
        )

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The centre and the mean of the values less the centre, in units of the column."""
        centred, counted = terms
        text = f"({operand(centred.quantity.centre)} + {mean_of(centred, counted)}) * {operand(centred.quantity.step)}"
        return Formula(text, (f"{counted.name} < 1",))

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """For a cell of ``count`` rows, at the worst mean (an end of the clip)."""
        return in_proportion(quantities[0], self._expected(quantities, laws, confidence, count))

    def _expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        if count is None:
            return Expected(why_null="depends on the cell's size: give `expect` for a count of the query")
        summed, law_sum, law_count = quantities[0], laws[0], laws[1]
        worst = _worst(summed)
        m_sum, m_count = joint_margins(laws, confidence)
        size = count / float(summed.weight_step)
        sums, counts = np.array([worst * size]), np.array([size])
        least, most = _box(sums, counts, m_sum, m_count)
        spread = float(summed.high - summed.low)
        margin = min(max(worst - float(least[0]), float(most[0]) - worst), spread)
        error = float(np.sqrt(law_sum.variance + worst**2 * law_count.variance)) / size
        step = float(summed.step)
        return Expected(error * step, margin * step)

    def expected_tested(
        self,
        quantities: Sequence[Quantity],
        laws: Sequence[Law],
        confidence: Fraction,
        count: int | None,
        drawn: Sequence[str] = (),
    ) -> Expected:
        """For a cell of ``count`` rows, at the mean whose interval just reaches an end of the clip: no other is wider.

        There the far side is q(r) / N with r at that end; a cell whose mean is nearer to the end has its interval cut.
        """
        found = self._expected(quantities, laws, confidence, count)
        if count is None:
            return found
        summed = quantities[0]
        ends = (float(summed.low - summed.centre), float(summed.high - summed.centre))
        draws = (Draw(laws[0], 1.0, 0.0), Draw(laws[1], 0.0, 1.0))
        margin = widest_reach(draws, ends, confidence, count / float(summed.weight_step))
        return in_proportion(summed, Expected(found.standard_error, margin * float(summed.step)))


def _worst(summed: Quantity) -> float:
    """The largest distance of a clipped mean from the centre, in steps."""
    return float(max(summed.high - summed.centre, summed.centre - summed.low))


def _box(sums: Floats, counts: Floats, m_sum: float, m_count: float) -> tuple[Floats, Floats]:
    """The least and the largest S / N over the box of margins, with N at least 1."""
    fewest, fullest = np.maximum(counts - m_count, 1.0), np.maximum(counts + m_count, 1.0)
    low, high = sums - m_sum, sums + m_sum
    least = np.minimum(low / fewest, low / fullest)
    most = np.maximum(high / fewest, high / fullest)
    return least, most
