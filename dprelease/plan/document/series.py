"""A query whose periods share their noise, as a plan says it: which series it is, and what is told beside a period."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dprelease.canonical import GrownValue
from dprelease.catalog.series.band import Band, BandDraw, SumOf
from dprelease.noise import Measurement
from dprelease.spec.period import preceding, span

__all__ = ["Draws", "PlannedSeries"]

BEFORE_THE_FIRST = "reaches back before the first period of the series"
SKIPPED = "has a period that was skipped"

Draws = Mapping[str, Mapping[str, Sequence[int]]]
"""By period and step, what earlier releases measured."""


class PlannedSeries(GrownValue):
    """Which series a query is a period of.

    Attributes:
        periods: All periods of the series so far, the first one first and the release's own last.
        sums: What is told beside the period: of the last so many periods, or ``ytd``.
        band: By which every draw weights its periods.
        year: How many periods a year has; None: no whole number of them.
        minimize: Whose errors the band was made for; by ``period`` and sums, what the squared error of each weighs.
        skipped: Periods between the first one and the last one that are none of it: nothing was ever read of them.
        horizon: How many periods it has at most, where ``total`` is one of its sums.
    """

    LATER: ClassVar[tuple[str, ...]] = ("skipped", "horizon")
    periods: tuple[str, ...]
    sums: tuple[SumOf, ...]
    band: Band
    year: int | None = None
    minimize: Literal["relative", "alike"] | dict[str, Fraction] = "relative"
    skipped: tuple[str, ...] = ()
    horizon: int | None = None

    @property
    def draw(self) -> BandDraw:
        """The draw of the release's own period."""
        return BandDraw(band=self.band, number=len(self.periods), skipped=self.skipped)

    def read(self) -> Iterator[tuple[str, int]]:
        """The periods that are read for the draw with their numbers in it, the release's own first."""
        return zip(reversed(self.periods), self.band.coefficients, strict=False)

    def length(self, which: SumOf) -> int | None:
        """Of how many periods a sum is now; None: it reaches back before the first one, or to one that was skipped.

        >>> series = PlannedSeries(periods=("2023-12", "2024-01", "2024-02"), sums=(12, "ytd"),
        ...     band=Band(coefficients=(4096,)), year=12)
        >>> series.length("ytd"), series.length(12)
        (2, None)
        >>> gap = series.model_copy(update={"periods": ("2023-12", "2024-02"), "skipped": ("2024-01",)})
        >>> gap.length("ytd"), gap.length(2), gap.length(1)
        (None, None, 1)
        """
        wanted = len(self.periods) if which == "total" else which
        if wanted == "ytd":
            whole = span(self.periods[-1])
            if whole is None or self.year is None:
                return None
            wanted = (whole[0].month - 1) * self.year // 12 + 1
        if wanted > len(self.periods):
            return None
        together = self.periods[-wanted:]
        return wanted if all(preceding(after) == before for before, after in pairwise(together)) else None

    def why_blank(self, which: SumOf) -> str:
        """Why there is no such sum now; empty: there is one."""
        if self.length(which) is not None:
            return ""
        reached = self.model_copy(update={"periods": tuple(sorted((*self.periods, *self.skipped))), "skipped": ()})
        return SKIPPED if reached.length(which) is not None else BEFORE_THE_FIRST

    def draws(
        self, step: str, measured: Mapping[str, Measurement], earlier: Draws
    ) -> list[npt.NDArray[np.int64]] | None:
        """What one of its draws measured in every period, the first one first; None where that of one is not there.

        Args:
            step: The id of the draw, the same in all periods.
            measured: By step, what was measured for the release's own period.
            earlier: What the earlier periods measured.

        Raises:
            ValueError: A draw of another period has another size.
        """
        known = [earlier.get(period, {}).get(step) for period in self.periods[:-1]]
        if any(each is None for each in known):
            return None
        found = [*(np.array(each, dtype=np.int64) for each in known), measured[step].values]
        if len({each.shape for each in found}) > 1:
            raise ValueError(f"draws of step {step!r} have different sizes")
        return found
