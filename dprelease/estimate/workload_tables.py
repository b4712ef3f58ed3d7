"""A table of a workload as it is published: reconciled numbers, with the errors that they had before anything more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column
from dprelease.estimate.design import Floats
from dprelease.estimate.intervals import interval
from dprelease.estimate.tables import PublishedMeasure, PublishedTable, full_product, statuses
from dprelease.measures.count import Count

__all__ = ["Reconciled", "workload_table"]


@dataclass(frozen=True, eq=False)
class Reconciled:
    """The numbers of one table.

    Attributes:
        estimate: Best linear unbiased, shape ``(nodes, *keys)``.
        published: What is shown: the same, or made non-negative or whole.
        variance: Of a cell of each node, shape ``(nodes,)``.
        whole: Whether ``published`` is whole numbers.
    """

    estimate: Floats
    published: npt.NDArray[np.generic]
    variance: Floats
    whole: bool


def workload_table(
    name: str,
    title: str,
    key_columns: Sequence[Column],
    label: str,
    found: Reconciled,
    *,
    reach: float,
    confidence: Fraction,
    unreliable_above: Fraction | None = None,
    unreliable_show: Literal["flag", "blank"] = "flag",
) -> PublishedTable:
    """The published table of one set of attributes at one level.

    Standard error and margin are those of the estimate, which noise alone decides. The interval is the estimate with
    its margin, cut where counts end at 0; it holds the true count as often as it says. A number that was made
    non-negative or whole can lie outside of it, and has a bias that no margin covers.

    Args:
        name: Of the table.
        title: What a reader sees.
        key_columns: Its keys: the level first, where there is one.
        label: The name of its number.
        found: Its numbers.
        reach: A margin, in standard errors.
        confidence: Of the margins.
        unreliable_above: A cell is unreliable where margin > this x |value|; None: never.
        unreliable_show: ``flag`` keeps the numbers of an unreliable cell, ``blank`` withholds them.
    """
    estimate = found.estimate.reshape(-1)
    value = estimate if found.published is found.estimate else found.published.reshape(-1).astype(np.float64)
    each = estimate.size // len(found.variance)
    error = np.repeat(np.sqrt(found.variance), each)
    margin = error * reach
    blank = np.zeros(value.shape, dtype=bool)
    unreliable = blank if unreliable_above is None else margin > float(unreliable_above) * np.abs(value)
    lower, upper = interval(estimate, margin, (Fraction(0), None))
    value = value + 0.0  # no negative zero
    if unreliable_show == "blank" and unreliable.any():
        value, error, margin, lower, upper = (
            np.where(unreliable, np.nan, each) for each in (value, error, margin, lower, upper)
        )
    for numbers in (value, error, margin):
        numbers.flags.writeable = False
    measure = PublishedMeasure(
        name=label,
        measure=Count(count="rows"),
        value=value,
        standard_error=error,
        margin=margin,
        lower=lower,
        upper=upper,
        status=statuses(blank, unreliable),
        places=0 if found.whole else None,
        integer=found.whole,
    )
    held = full_product(key_columns)
    return PublishedTable(
        name=name,
        title=title,
        key_columns=tuple(key_columns),
        keys=held.columns,
        measures=(measure,),
        confidence=confidence,
        cells=len(held),
    )
