"""One comparison as a column: its numbers in all rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ComparedRows"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """One comparison in every row; NaN where nothing can be said.

    Attributes:
        value: Shape ``(rows,)``.
        error: Its standard error by the noise.
        lower: The ends of its interval.
        upper: The same.
        p_value: Of a change or a difference of numbers that are linear in their draws, and of one that is measured.
        never: In which rows there is no such number, whatever was measured.
    """

    value: Floats
    error: Floats
    lower: Floats
    upper: Floats
    p_value: Floats | None = None
    never: npt.NDArray[np.bool_] | None = None
