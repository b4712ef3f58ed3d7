"""The closed list of things that cost privacy, as an accountant sees them.

Every event is a frozen value with integer-valued noise on the grid of its step. Sensitivities are in units of
that grid. Compatibility, as for every format here: a kind is never removed, a new field is optional, a
meaning never changes, and what an accountant does not know it refuses.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from dprelease.canonical import Value

__all__ = ["Composed", "DiscreteGaussian", "DiscreteLaplace", "Event", "Repeated", "Sensitivity"]


class Sensitivity(Value):
    """How far one unit can move a vector of cells, in four norms.

    Attributes:
        l0: The number of cells that can change.
        l1: The largest sum of absolute changes.
        l2_squared: The largest sum of squared changes (the square, because the root may be irrational).
        linf: The largest change of one cell.
    """

    l0: int = Field(ge=0)
    l1: Fraction = Field(ge=0)
    l2_squared: Fraction = Field(ge=0)
    linf: Fraction = Field(ge=0)

    @classmethod
    def of_one_cell(cls, change: int) -> Sensitivity:
        """One cell changes by at most ``change``."""
        size = Fraction(change)
        return cls(l0=1, l1=size, l2_squared=size * size, linf=size)


class DiscreteLaplace(Value):
    """Independent discrete Laplace noise on every cell: P(k) proportional to exp(-|k| / scale).

    With an integer-valued query of L1 sensitivity s it is (s / scale)-differentially private (Ghosh,
    Roughgarden and Sundararajan 2012; for vectors the L1 form follows cell by cell).
    """

    kind: Literal["discrete_laplace"] = "discrete_laplace"
    scale: Fraction = Field(gt=0)
    sensitivity: Sensitivity


class DiscreteGaussian(Value):
    """Independent discrete Gaussian noise on every cell: P(k) proportional to exp(-k^2 / (2 scale^2)).

    With an integer-valued query of L2 sensitivity s it satisfies (s^2 / (2 scale^2))-zCDP (Canonne, Kamath and
    Steinke 2020, Theorem 14). It is *not* the continuous Gaussian: the analytic Gaussian formula under-counts.
    """

    kind: Literal["discrete_gaussian"] = "discrete_gaussian"
    scale: Fraction = Field(gt=0)
    sensitivity: Sensitivity


class Repeated(Value):
    """The same event ``count`` times, with fresh noise each time."""

    kind: Literal["repeated"] = "repeated"
    event: Event
    count: int = Field(ge=1)


class Composed(Value):
    """All of these events on the same units; parameters fixed before the first draw."""

    kind: Literal["composed"] = "composed"
    events: tuple[Event, ...] = ()


Event = Annotated[DiscreteLaplace | DiscreteGaussian | Repeated | Composed, Field(discriminator="kind")]
Repeated.model_rebuild()
Composed.model_rebuild()
