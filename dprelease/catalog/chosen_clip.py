"""Clips that noise chooses: the public candidates, and the grid on which a sum is the same draw whatever was chosen.

The candidates fall from the declared end by a twenty-first part each, so that a sum of values of any size has one near
its best clip. What is clipped at the candidate c is summed in steps of c / 10^6: one row contributes 0 to 10^6 steps
for every c, so that noise of one scale hides the sum for every c, and is in proportion to c in units of the column
(docs/proofs/chosen-clips.md).

>>> ClipGrid(top=30, step=Fraction(1), above=Fraction(2), share=Fraction(1, 10)).candidates[:6]
(30, 28, 26, 24, 22, 20)
>>> ClipGrid(top=30, step=Fraction(1), above=Fraction(2), share=Fraction(1, 10)).candidates[-3:]
(3, 2, 1)
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from pydantic import Field

from dprelease.canonical import Value

__all__ = ["LARGEST_TOP", "PARTS", "ChosenClip", "ClipGrid"]

PARTS = 10**6
"""Into how many steps the chosen clip is divided: rounding to them moves a value by a two-millionth of the clip."""

LARGEST_TOP = 2**40
"""The largest declared end in steps of a column: there are some 560 candidates below it."""


class ClipGrid(Value):
    """What a clip is chosen from, and what it is chosen for.

    Attributes:
        top: The largest candidate, in steps of the column.
        step: The step of the column.
        above: How many rows shall lie above the clip, for every row that the noise of all cells is worth.
        share: The part of the query's budget that the choice costs.
    """

    top: int = Field(ge=1, le=LARGEST_TOP)
    step: Fraction = Field(gt=0)
    above: Fraction = Field(gt=0)
    share: Fraction = Field(gt=0, lt=1)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The clips that can be chosen, in steps of the column, falling from the largest to 1."""
        return _candidates(self.top)

    def step_at(self, clip: int) -> Fraction:
        """The grid of what is clipped at so many steps of the column, in its unit."""
        return Fraction(clip, PARTS) * self.step

    def rows_above(self, cells: int, variance: float) -> int:
        """How many rows the clip shall leave above it: ``above * cells * sd / PARTS``, rounded up.

        Sums clipped at c have noise of the standard deviation sd c / PARTS in every cell. The mean squared error of all
        cells is stationary where as many rows lie above c, but for a factor near 1, which ``above`` is.

        Args:
            cells: Of the query.
            variance: Of the noise on one of its sums, in squared steps of the grid.
        """
        return max(1, math.ceil(float(self.above) * cells * math.sqrt(variance) / PARTS))


class ChosenClip(Value):
    """``clip: {private: true, within: [0, 1500000]}``, as an author writes it.

    Attributes:
        private: True.
        within: From 0 to the largest clip that can be chosen, in units of the column.
        above: As :class:`ClipGrid` says.
        share: As there.
    """

    private: bool = Field(description="true: noise chooses the clip, at a part of the query's budget.")
    within: tuple[Fraction, Fraction] = Field(description="From 0 to the largest clip that can be chosen; public.")
    above: Fraction = Field(
        Fraction(2), description="How many rows shall lie above the clip for each that the noise of all cells is worth."
    )
    share: Fraction = Field(Fraction(1, 10), description="The part of the query's budget that the choice costs.")

    def on_grid(self, step: Fraction) -> ClipGrid:
        """In steps of a column."""
        return ClipGrid(top=int(self.within[1] / step), step=step, above=self.above, share=self.share)


@lru_cache(maxsize=64)
def _candidates(top: int) -> tuple[int, ...]:
    found = []
    while top:
        found.append(top)
        top = top * 20 // 21
    return tuple(found)
