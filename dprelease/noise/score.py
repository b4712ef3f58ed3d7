"""The public law of a choice by the exponential mechanism: how far its score is from the best one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from dprelease.privacy.rounding import CONTEXT, real

__all__ = ["ScoreLaw"]


@dataclass(frozen=True)
class ScoreLaw:
    """P(x) proportional to exp(-score(x) / scale) over ``candidates`` values, of which one has score 0."""

    scale: Fraction
    candidates: int

    @property
    def variance(self) -> float:
        """Of an exponential variable of that scale: what planning compares choices by, not a variance of values."""
        return float(self.scale) ** 2

    def margin(self, confidence: Fraction) -> int:
        """A whole number m with P(score <= m) >= confidence: scale ln(candidates / (1 - confidence)), rounded up.

        Every candidate of a score above m has at most exp(-m / scale) times the probability of the one with score 0,
        so all of them together have at most candidates exp(-m / scale) (McSherry and Talwar 2007, Lemma 7).
        """
        beta = 1 - confidence
        return max(0, ceil(float(real(self.scale) * CONTEXT.log(real(self.candidates / beta))) * (1 + 1e-12)))
