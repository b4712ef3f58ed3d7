"""From estimated counts whose standard errors are known already to a published table."""

from __future__ import annotations

from collections.abc import Sequence
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
    moved = published is not estimate
    value, estimate = value + 0.0, estimate + 0.0  # no negative zero
    if moved and figures is not None:  # of a whole number the whole ends that are nearest hold as much
        ends = (np.rint(lower), np.rint(upper)) if whole else (lower, upper)
        lower, upper = np.minimum(ends[0], value), np.maximum(ends[1], value)
    rules = ShowRules(unreliable_above, unreliable_show, nearest, figures)
    caution, unreliable, hidden = rules.judged(value, margin, lower, upper, _COUNTED, blank, counts=True)
    if hidden.any():
        value, estimate, error, margin, lower, upper = (
            np.where(hidden, np.nan, each) for each in (value, estimate, error, margin, lower, upper)
        )
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
