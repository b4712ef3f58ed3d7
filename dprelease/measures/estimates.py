"""What a measure is made of, what it comes to, and how far off it will be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import Quantity
from dprelease.measures.prefix_counts import PrefixCounts
from dprelease.noise import Law
from dprelease.privacy.randomized import RandomizedResponse

__all__ = ["Estimate", "Expected", "Noisy", "OfAnswers"]

Floats = npt.NDArray[np.float64]


class OfAnswers(NamedTuple):
    """What a measure of randomized answers estimates.

    Attributes:
        column: The column of answers.
        key: The answer, as text.
        response: By which law they were randomized; None: not said yet.
    """

    column: str
    key: str
    response: RandomizedResponse | None


@dataclass(frozen=True, eq=False)
class Noisy:
    """One measurement of a quantity, with the public law of its noise; all in grid steps.

    Of a quantile the values are grid multiples within its clip, and the law is that of their score.

    Attributes:
        quantity: What was measured.
        values: Noisy, ``(cells,)``; of a period that shares its noise with others no whole numbers, and NaN where
            what it is made of is not there.
        law: Of the noise on one of them.
        drawn: Which step measured it: numbers of one step may have been drawn together; empty: not known.
        prefixes: Of counts of classes of grid values: what the values say of how many lie up to each class. The
            values are then all numbers of all cells, in steps of the lattice that they were drawn on.
    """

    quantity: Quantity
    values: npt.NDArray[np.int64]
    law: Law
    drawn: str = ""
    prefixes: PrefixCounts | None = None

    def scaled(self, number: Floats | npt.NDArray[np.int64] | float) -> Floats:
        """Grid steps to units of the column."""
        step = float(self.quantity.step)
        return np.asarray(number, dtype=np.float64) * step


@dataclass(frozen=True, eq=False)
class Estimate:
    """One number per cell with its uncertainty, all of shape ``(cells,)``; NaN means blank.

    Attributes:
        value: The number.
        standard_error: Of its noise.
        margin: The true number lies in value -/+ margin as often as was asked.
        ends: The lower and the upper ends of an interval within value -/+ margin which holds it as often; None: the
            margin is all that is known.
    """

    value: Floats
    standard_error: Floats
    margin: Floats
    ends: tuple[Floats, Floats] | None = None

    def times(self, whole: int) -> Estimate:
        """The number with its errors and its interval so many times: the interval of 100 r covers as that of r does."""
        if whole == 1:
            return self
        ends = None if self.ends is None else (whole * self.ends[0], whole * self.ends[1])
        return Estimate(whole * self.value, whole * self.standard_error, whole * self.margin, ends)


@dataclass(frozen=True)
class Expected:
    """Accuracy that the noise law promises before any draw, or why it cannot say."""

    standard_error: float | None = None
    margin: float | None = None
    why_null: str | None = None
