"""The residual of a table of counts: its contrasts along some of its axes, as whole numbers."""

from __future__ import annotations

from pydantic import Field

from dprelease.canonical import Value

__all__ = ["Residual"]


class Residual(Value):
    """Which contrasts of a table of counts are drawn.

    Attributes:
        shape: How many keys each column of the step's ``by`` has.
        axes: The positions of the columns that are contrasted, rising.
        grain: Every contrast is multiplied by it, so that the lattice of the noise is fine.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    grain: int = Field(ge=1)
