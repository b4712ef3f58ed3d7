"""From estimated counts whose standard errors are known already to a published table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column
from dprelease.estimate.figures import FigureRules, ShowRules
from dprelease.estimate.intervals import interval
from dprelease.estimate.keys import Rows
from dprelease.estimate.tables import PublishedMeasure, PublishedTable, statuses
from dprelease.measures import Measure, Possible

__all__ = ["table_of_counts"]

Floats = npt.NDArray[np.float64]
_AT_ONCE = 1 << 20  # cells; what is between takes little memory, whatever the size of the table
_COUNTED: Possible = (Fraction(0), None)


def table_of_counts(
    name: str,
    title: str,
    key_columns: Sequence[Column],
    rows: Rows,
    label: str,
    measure: Measure,
    estimate: Floats,
    published: npt.NDArray[np.generic],
    error: Floats,
    *,
    reach: float,
    confidence: Fraction,
    unreliable_above: Fraction | None,
    unreliable_show: Literal["flag", "blank"],
    nearest: bool = False,
    whole: bool,
    figures: FigureRules | None = None,
) -> PublishedTable:
    """The published table of one number per row, a count whose standard error is known already.

    Standard error and margin are those of the estimate, which noise alone decides. The interval is the estimate with
    its margin, cut where counts end at 0; it holds the true count as often as it says. A number that was made
    non-negative or whole can lie outside of it, and has a bias that no margin covers; with ``figures`` the interval is
    lengthened up to that number, which loses nothing. Sums along a column are not moved: they need not be whole, and a
    prefix can be less than the one before it.

    Args:
        name: The name of the table.
        title: What a reader sees.
        key_columns: Its keys.
        rows: Their values in every row.
        label: The name of its number.
        measure: Which is a count of rows.
        estimate: The number as the noise left it.
        published: The number as it is shown: the estimate itself, that very array, where nothing was moved.
        error: The standard error of the estimate.
        reach: A margin, in standard errors.
        confidence: The confidence of the margins.
        unreliable_above: A cell is unreliable where margin > this x |published|, or by ``figures`` half its interval;
            None: never.
        unreliable_show: ``flag`` keeps the numbers of an unreliable cell, ``blank`` withholds them.
        nearest: Whether intervals are about the nearest possible number (``intervals.interval``).
        whole: Whether ``published`` is whole numbers.
        figures: The rules by which numbers are judged; None: those of plans from before there were others.
    """
    value = published.astype(np.float64, copy=False)
    margin = error * reach
    blank = np.isnan(estimate)  # of a series whose earlier draws are not there, or of periods that are not
    lower, upper = interval(estimate, margin, _COUNTED, nearest=nearest)
    for each in (lower, upper):
        each.flags.writeable = True  # they were made just now, and are nobody else's
    moved = published is not estimate
    value = _without_negative_zeros(value)
    estimate = _without_negative_zeros(estimate) if moved else value
    rules = ShowRules(unreliable_above, unreliable_show, nearest, figures)
    states = [np.zeros(value.shape, dtype=bool) for _ in range(3)]  # caution, unreliable, hidden
    for part in _parts(len(value)):
        if moved and figures is not None:  # of a whole number the whole ends that are nearest hold as much
            ends = (np.rint(lower[part]), np.rint(upper[part])) if whole else (lower[part], upper[part])
            lower[part], upper[part] = np.minimum(ends[0], value[part]), np.maximum(ends[1], value[part])
        of_part = (value[part], margin[part], lower[part], upper[part])
        for all_of, found in zip(states, rules.judged(*of_part, _COUNTED, blank[part], counts=True), strict=True):
            all_of[part] = found
    caution, unreliable, hidden = states
    if hidden.any():
        value = np.where(hidden, np.nan, value)
        estimate = np.where(hidden, np.nan, estimate) if moved else value
        error = np.where(hidden, np.nan, error)
        for numbers in (margin, lower, upper):
            numbers[hidden] = np.nan
    for numbers in (value, estimate, error, margin, lower, upper):
        numbers.flags.writeable = False
    shown = PublishedMeasure(
        name=label,
        measure=measure,
        value=value,
        standard_error=error,
        margin=margin,
        lower=lower,
        upper=upper,
        status=statuses(blank, unreliable, caution),
        places=0 if whole else None,
        integer=whole,
        unadjusted=estimate if moved else None,
        held=figures is not None,
    )
    return PublishedTable(
        name=name,
        title=title,
        key_columns=tuple(key_columns),
        keys=rows.columns,
        measures=(shown,),
        confidence=confidence,
        cells=len(rows),
    )


def _parts(cells: int) -> Iterator[slice]:
    """All cells, some at a time."""
    return (slice(first, first + _AT_ONCE) for first in range(0, cells, _AT_ONCE))


def _without_negative_zeros(numbers: Floats) -> Floats:
    """The numbers, no zero of them negative; a view of them where none was."""
    if any((np.signbit(numbers[part]) & (numbers[part] == 0)).any() for part in _parts(len(numbers))):
        return numbers + 0.0
    return numbers.view()
