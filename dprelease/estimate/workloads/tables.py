"""A table of a workload as it is published: reconciled numbers, with the errors that they had before anything more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column
from dprelease.estimate.tables import PublishedTable, full_product, table_of_counts
from dprelease.estimate.workloads.design import Floats
from dprelease.measures.count import Count

__all__ = ["Reconciled", "workload_table"]


@dataclass(frozen=True, eq=False)
class Reconciled:
    """The numbers of one table.

    Attributes:
        estimate: Best linear unbiased, shape ``(nodes, *keys)``.
        published: What is shown: the same, or made non-negative or whole.
        variance: The variance of a cell of each node, of a shape that spreads to that of the estimate.
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
    nearest: bool = False,
) -> PublishedTable:
    """The published table of one set of attributes at one level.

    Standard error and margin are those of the estimate, which noise alone decides. The interval is the estimate with
    its margin, cut where counts end at 0; it holds the true count as often as it says. A number that was made
    non-negative or whole can lie outside of it, and has a bias that no margin covers.

    Args:
        name: The name of the table.
        title: What a reader sees.
        key_columns: Its keys: the level first, where there is one.
        label: The name of its number.
        found: Its numbers.
        reach: A margin, in standard errors.
        confidence: The confidence of the margins.
        unreliable_above: A cell is unreliable where margin > this x |value|; None: never.
        unreliable_show: ``flag`` keeps the numbers of an unreliable cell, ``blank`` withholds them.
        nearest: Whether intervals are about the nearest possible number (``intervals.interval``).
    """
    held = full_product(key_columns).without(found.left_out)
    estimate = _shown(found.estimate, found.left_out)
    published = estimate if found.published is found.estimate else _shown(found.published, found.left_out)
    error = _shown(np.broadcast_to(np.sqrt(found.variance), found.estimate.shape), found.left_out)
    return table_of_counts(
        name,
        title,
        key_columns,
        held,
        label,
        Count(count="rows"),
        estimate,
        published,
        error,
        reach=reach,
        confidence=confidence,
        unreliable_above=unreliable_above,
        unreliable_show=unreliable_show,
        nearest=nearest,
        whole=found.whole,
    )


def _shown(numbers: npt.NDArray[Any], left_out: Sequence[int]) -> npt.NDArray[Any]:
    """Those of the cells that have a row; shape ``(rows,)``."""
    flat = numbers.reshape(-1)
    return np.delete(flat, list(left_out)) if left_out else flat
