"""What the noise of a series is made for: which sums of periods are published, and how much each one's error weighs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dprelease.catalog.series.band import SumOf, lengths_of

__all__ = ["PERIOD", "Aim", "Minimized", "sum_of_word"]

PERIOD = "period"
"""Stands for a period by itself where sums are named."""

Minimized = Literal["relative", "alike"] | Mapping[str, Fraction]
"""Whose errors a band is made for: by a word, or what the squared error of each weighs, by ``period`` and the sums."""


@dataclass(frozen=True)
class Aim:
    """Weights of the squared errors of sums of periods.

    Attributes:
        weights: By the sum, 1 for the period itself: what its mean variance counts; at least 0, and above 0 for 1.
        year: How many periods a year has.
        horizon: How many periods the series has at most, where that is known.

    Raises:
        ValueError: If the period itself weighs nothing: its error may then grow without end.
    """

    weights: Mapping[SumOf, Fraction]
    year: int = 12
    horizon: int | None = None

    def __post_init__(self) -> None:
        if min(self.weights.values()) < 0 or self.weights.get(1, 0) <= 0:
            raise ValueError("no error weighs less than nothing, and that of the period itself weighs something")

    @classmethod
    def relative(cls, sums: tuple[SumOf, ...], year: int = 12, horizon: int | None = None) -> Aim:
        """Every mean variance by that of independent noise: 1, 1/3, 1/12, and 1 / 6.5 for ``ytd`` of months."""
        weights = {which: 1 / _mean_length(which, year, horizon) for which in dict.fromkeys((1, *sums))}
        return cls(weights, year, horizon)

    @classmethod
    def alike(cls, sums: tuple[SumOf, ...], year: int = 12, horizon: int | None = None) -> Aim:
        """Every mean variance alike."""
        return cls(dict.fromkeys((1, *sums), Fraction(1)), year, horizon)

    @classmethod
    def of(cls, minimized: Minimized, sums: tuple[SumOf, ...], year: int = 12, horizon: int | None = None) -> Aim:
        """What is written as ``minimize``: by a word, or by weights, of which only the ratios matter.

        >>> weights = {"period": Fraction(4), "12": Fraction(1)}
        >>> Aim.of(weights, (3, 12)).weights == {1: Fraction(4, 5), 12: Fraction(1, 5)}
        True
        """
        if minimized == "relative":
            return cls.relative(sums, year, horizon)
        if isinstance(minimized, str):
            return cls.alike(sums, year, horizon)
        together = sum(minimized.values())
        return cls({sum_of_word(each): weight / together for each, weight in minimized.items()}, year, horizon)

    @property
    def correlation(self) -> tuple[Fraction, ...]:
        """g_0, g_1, ...: the objective is ``g_0 r_0 + 2 sum g_k r_k`` for noise of autocovariances r.

        A sum of w periods has the variance ``sum over |k| < w of (w - |k|) r_k``.
        """
        longest = max(max(lengths_of(which, self.year, self.horizon)) for which in self.weights)
        found = [Fraction(0)] * longest
        for which, weight in self.weights.items():
            lengths = lengths_of(which, self.year, self.horizon)
            for length in lengths:
                for lag in range(length):
                    found[lag] += weight * (length - lag) / len(lengths)
        return tuple(found)


def sum_of_word(word: str) -> SumOf:
    """The sum that a word names: ``period``, ``12``, ``ytd``, ``total``.

    >>> [sum_of_word(each) for each in ("period", "12", "ytd")]
    [1, 12, 'ytd']
    """
    if word in ("ytd", "total"):
        return "ytd" if word == "ytd" else "total"
    return 1 if word == PERIOD else int(word)


def _mean_length(which: SumOf, year: int, horizon: int | None) -> Fraction:
    lengths = lengths_of(which, year, horizon)
    return Fraction(sum(lengths), len(lengths))
