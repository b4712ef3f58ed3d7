"""A table of a workload as it is published: reconciled numbers, with the errors that they had before anything more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

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
        variance: Of a cell of each node, of a shape that spreads to that of the estimate.
        whole: Whether ``published`` is whole numbers.
        left_out: Row-major positions of cells that have no row, rising.
    """

    estimate: Floats
    published: npt.NDArray[np.generic]
    variance: Floats
    whole: bool
    left_out: Sequence[int] = ()


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
    held = full_product(key_columns).without(found.left_out)
    estimate = _shown(found.estimate, found.left_out)
    value = (
        estimate if found.published is found.estimate else _shown(found.published, found.left_out).astype(np.float64)
    )
    error = _shown(np.broadcast_to(np.sqrt(found.variance), found.estimate.shape), found.left_out)
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
    return PublishedTable(
        name=name,
        title=title,
        key_columns=tuple(key_columns),
        keys=held.columns,
        measures=(measure,),
        confidence=confidence,
        cells=len(held),
    )


def _shown(numbers: npt.NDArray[Any], left_out: Sequence[int]) -> npt.NDArray[Any]:
    """Those of the cells that have a row; shape ``(rows,)``."""
    flat = numbers.reshape(-1)
    return np.delete(flat, list(left_out)) if left_out else flat
