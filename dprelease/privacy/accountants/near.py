"""Very many draws of one kind: what a search for a scale asks again and again, in floats and at its end exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Repeated, Sensitivity
from dprelease.privacy.theorems.concentrated import rough_laplace_rho

__all__ = ["CellDraws", "NearDraws", "exp_of", "only_change"]


def exp_of(value: float) -> Fraction:
    """A rational near exp(value), for values far below what a float can hold, too."""
    whole = math.floor(value / math.log(2))
    return Fraction(math.exp(value - whole * math.log(2))) * Fraction(2) ** whole


def only_change(found: Sensitivity) -> int:
    """The change of the one cell that a unit moves, where just that is known and the norms agree; else 0."""
    if len(found.shifts) != 1 or len(found.shifts[0]) != 1 or not found.l0 or not found.linf:
        return 0
    change = found.shifts[0][0]
    return change if 0 < change <= found.l1 and change * change <= found.l2_squared else 0


@dataclass(frozen=True)
class NearDraws:
    """Independent draws, each on one cell that one known change moves, with scales that are near what will be drawn.

    A search evaluates a thousand of them some twenty times; events of exact scales, each made, checked and hashed, took
    most of the time of planning. Their figures are those of such events, to the last digit.

    Attributes:
        noise: Of all of them.
        changes: Of each draw, by how much its cell moves, at least 1 (:func:`only_change`).
        counts: How often each is drawn.
        scales: The scale of each, above 0.
    """

    noise: Literal["discrete_laplace", "discrete_gaussian"]
    changes: Sequence[int]
    counts: Sequence[int]
    scales: npt.NDArray[np.float64]

    @property
    def event(self) -> Composed:
        """The same as an event."""
        make = DiscreteLaplace if self.noise == "discrete_laplace" else DiscreteGaussian
        draws = zip(self.changes, self.counts, self.scales.tolist(), strict=True)
        cells = ((make(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(c)), n) for c, n, scale in draws)
        return Composed(events=tuple(Repeated(event=one, count=n) for one, n in cells))

    @property
    def epsilons(self) -> list[float]:
        """The pure epsilon of each draw; infinite of Gaussian noise."""
        if self.noise == "discrete_gaussian":
            return [math.inf] * len(self.changes)
        return [change / scale for change, scale in zip(self.changes, self.scales.tolist(), strict=True)]

    @property
    def rhos(self) -> list[float]:
        """The zero-concentrated loss of each draw (``rho.rough_rho``)."""
        pairs = zip(self.changes, self.scales.tolist(), strict=True)
        if self.noise == "discrete_laplace":
            return [rough_laplace_rho(scale, change) for change, scale in pairs]
        found = []
        for change, scale in pairs:
            above, below = scale.as_integer_ratio()
            found.append((change * below) ** 2 / (2 * above**2))  # in whole numbers, so that it is rounded once
        return found

    def total(self, each: Sequence[float]) -> float:
        """The sum of a figure of each draw."""
        return math.fsum(n * one for n, one in zip(self.counts, each, strict=True))


@dataclass(frozen=True)
class CellDraws:
    """The same with the scales that will be drawn: what is certified of them is certified of their event.

    Attributes:
        noise: Of all of them.
        changes: Of each draw, by how much its cell moves, at least 1.
        counts: How often each is drawn.
        scales: The scale of each, above 0.
    """

    noise: Literal["discrete_laplace", "discrete_gaussian"]
    changes: Sequence[int]
    counts: Sequence[int]
    scales: Sequence[Fraction]

    @cached_property
    def event(self) -> Composed:
        """The same as an event."""
        make = DiscreteLaplace if self.noise == "discrete_laplace" else DiscreteGaussian
        draws = zip(self.changes, self.counts, self.scales, strict=True)
        cells = ((make(scale=scale, sensitivity=Sensitivity.of_one_cell(c)), n) for c, n, scale in draws)
        return Composed(events=tuple(Repeated(event=one, count=n) for one, n in cells))
