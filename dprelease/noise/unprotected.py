"""Numbers that are published as they are: declared invariants, which no noise hides and no loss is claimed for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.noise.exact import Exact, open_exact

__all__ = ["NoNoise", "as_they_are"]


@dataclass(frozen=True)
class NoNoise:
    """The law of a number that has none: always 0."""

    @property
    def variance(self) -> float:
        """0."""
        return 0.0

    def margin(self, confidence: Fraction) -> int:
        """0 at every confidence."""
        del confidence
        return 0


def as_they_are(exact: Exact) -> npt.NDArray[np.int64]:
    """The very values, shape ``(cells,)``. Only for what a verified plan names as an invariant: nothing is hidden."""
    return open_exact(exact).copy()
