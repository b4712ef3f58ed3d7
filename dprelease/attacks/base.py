"""What a demonstration shows: tables of texts, one drawing, and the rule of the tool that stops the attack."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bits",
    "Demonstration",
    "Drawing",
    "DrawnPoints",
    "Floats",
    "ShownTable",
    "guess_bound",
    "normal_share",
    "share",
]

Bits = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DrawnPoints:
    """Points of a drawing that belong together: joined by a line, or dots."""

    label: str
    points: tuple[tuple[float, float], ...]
    kind: Literal["line", "dots"] = "dots"


@dataclass(frozen=True)
class Drawing:
    """A chart of two axes.

    Attributes:
        title: Its heading.
        says: The text alternative: what a reader is to see.
        across: What the horizontal axis counts.
        up: What the vertical axis counts.
        series: Drawn in this order.
        powers_across: Whether the horizontal axis has equal steps for equal factors.
        powers_up: The same of the vertical axis.
    """

    title: str
    says: str
    across: str
    up: str
    series: tuple[DrawnPoints, ...]
    powers_across: bool = False
    powers_up: bool = False


@dataclass(frozen=True)
class ShownTable:
    """A table of a demonstration; every row has a text for each heading."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Demonstration:
    """One attack carried out.

    Attributes:
        attack: Its name in ``ATTACKS``.
        tables: What came out.
        drawing: The same as a picture.
        stopped_by: Which rule of the tool stops it, in a sentence or two.
    """

    attack: str
    tables: tuple[ShownTable, ...]
    drawing: Drawing
    stopped_by: str


def share(number: float) -> str:
    """A share with three decimals, and no more certain than it is: only all is 1.000."""
    return f"{min(number, 0.999) if number < 1 else 1:.3f}"


def normal_share(at: float) -> float:
    """The share of a normal distribution below ``at`` standard deviations."""
    return NormalDist().cdf(at)


def guess_bound(epsilon: float, delta: float) -> float:
    """How often, at most, a fair bit of one unit is guessed from an (epsilon, delta) answer: a probability.

    Kairouz, Oh and Viswanath (2015), Theorem 2.1: guesses of a 1 where the bit is 1 are at most e^epsilon times as
    likely as where it is 0, plus delta, and the same holds of guesses of a 0. With p and q the probabilities of a right
    guess of a 1 and of a 0, p <= e^epsilon (1 - q) + delta and q <= e^epsilon (1 - p) + delta; added up,
    (p + q) / 2 <= (e^epsilon + delta) / (1 + e^epsilon). By linearity it bounds the expected share of many bits.
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
