"""Errors of published numbers against true ones, summed by the size of the true cell, for ``tuning/utility.py``.

Root mean squared error, mean absolute error and bias are plain averages over cells and repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedMeasure

__all__ = ["SIZES", "ErrorSums", "Errors"]

Floats = npt.NDArray[np.float64]
SIZES = ("0", "1-9", "10-99", "100-999", "1,000+")
_LIMITS = (1, 10, 100, 1000)  # the least true size of every class but the first
_HAIR = 1e-12  # relative: a margin and an error that are equal as decimals may differ as doubles


@dataclass(frozen=True)
class Errors:
    """Errors of one measure, over the cells of a size class and over all repetitions. Confidential.

    Attributes:
        table: A query; of a workload its name, level and number of attributes.
        tables: How many tables that are.
        measure: Name of the measure.
        size: One of :data:`SIZES`: of a count the true number, of every other measure the true rows of its cell.
        compared: Numbers compared, of all repetitions.
        withheld: Numbers of that class that were blank.
        rmse: Root of the mean squared error, in units of the measure; NaN, as the next two, if all were blank.
        mean_absolute: Mean absolute error.
        bias: Mean error: published less true.
        coverage: The share of the numbers with a margin that are within it of the truth; None: none has one.
        standard_error: What the law says: the root mean square of the published ones; None: none has one.
    """

    table: str
    tables: int
    measure: str
    size: str
    compared: int
    withheld: int
    rmse: float
    mean_absolute: float
    bias: float
    coverage: float | None
    standard_error: float | None


class ErrorSums:
    """Sums of errors by size class, over tables and repetitions."""

    def __init__(self) -> None:
        self._tables: set[str] = set()
        names = ("compared", "withheld", "error", "absolute", "squared", "margins", "within", "laws", "variance")
        self._of = {name: np.zeros(len(SIZES)) for name in names}

    def add(self, table: str, shown: PublishedMeasure, true: Floats, size: Floats) -> None:
        """Add the cells of a table; those without a true number (a mean of no rows) are not counted."""
        self._tables.add(table)
        known = ~np.isnan(true)
        shape = np.searchsorted(_LIMITS, np.where(np.isnan(size), 0, size), side="right")

        def count(name: str, which: npt.NDArray[np.bool_], numbers: Floats | None = None) -> None:
            weights = None if numbers is None else numbers[which]
            self._of[name] += np.bincount(shape[which], weights, minlength=len(SIZES))

        there = known & ~np.isnan(shown.value)
        error = shown.value - true
        count("compared", there)
        count("withheld", known & ~there)
        count("error", there, error)
        count("absolute", there, np.abs(error))
        count("squared", there, error**2)
        margins = there & ~np.isnan(shown.margin)
        count("margins", margins)
        hair = _HAIR * (np.abs(shown.value) + np.abs(true))
        inside = (shown.lower - hair <= true) & (true <= shown.upper + hair)
        count("within", margins & (inside if shown.tested else np.abs(error) <= shown.margin + hair))
        laws = there & ~np.isnan(shown.standard_error)
        count("laws", laws)
        count("variance", laws, shown.standard_error**2)

    def lines(self, label: str, measure: str) -> Iterator[Errors]:
        """One for every size class that has cells."""
        for at, size in enumerate(SIZES):
            of = {name: float(sums[at]) for name, sums in self._of.items()}
            if not (of["compared"] or of["withheld"]):
                continue
            number = of["compared"] or np.nan
            yield Errors(
                table=label,
                tables=len(self._tables),
                measure=measure,
                size=size,
                compared=int(of["compared"]),
                withheld=int(of["withheld"]),
                rmse=float(np.sqrt(of["squared"] / number)),
                mean_absolute=of["absolute"] / number,
                bias=of["error"] / number,
                coverage=of["within"] / of["margins"] if of["margins"] else None,
                standard_error=float(np.sqrt(of["variance"] / of["laws"])) if of["laws"] else None,
            )
