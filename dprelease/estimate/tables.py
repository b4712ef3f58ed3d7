"""From the noisy quantities of one query to its published table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column, Key
from dprelease.measures import Estimate, Measure, Noisy
from dprelease.measures.count import Count
from dprelease.measures.sum import Sum

__all__ = ["PublishedMeasure", "PublishedTable", "Status", "estimate"]

Floats = npt.NDArray[np.float64]
Status = Literal["ok", "unreliable", "blank"]


@dataclass(frozen=True, eq=False)
class PublishedMeasure:
    """One measure of a published table, one number per cell.

    Attributes:
        name: Its name in the spec.
        measure: What it is.
        value: Shape ``(cells,)``, read-only; NaN where nothing is published.
        standard_error: Of the same shape; NaN with the value.
        margin: Of the same shape; NaN with the value. Half the width of the interval at the table's confidence.
        status: ``ok``; ``unreliable``: the margin is larger than the release allows beside its value (with
            ``show: blank`` the numbers are then withheld, and the status says why); ``blank``: no estimate
            can be made from the noisy numbers.
        places: Decimals in which value and margin are exact (0 for a count, 1 for a count that is half the sum of
            two draws); None where there is no grid.
        integer: Whether value and margin are whole numbers by their kind.
    """

    name: str
    measure: Measure
    value: Floats
    standard_error: Floats
    margin: Floats
    status: tuple[Status, ...]
    places: int | None
    integer: bool


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """One query as published.

    Attributes:
        name: The query's name.
        title: Its title.
        key_columns: In published order.
        keys: For each key column its value in every cell, row-major: the last column runs fastest.
        measures: In the order of the spec.
        confidence: Of the margins.
        cells: The number of rows.
    """

    name: str
    title: str
    key_columns: tuple[Column, ...]
    keys: tuple[tuple[Key, ...], ...]
    measures: tuple[PublishedMeasure, ...]
    confidence: Fraction
    cells: int


def estimate(
    name: str,
    title: str,
    key_columns: Sequence[Column],
    measures: Mapping[str, Measure],
    inputs: Mapping[str, Sequence[Noisy]],
    *,
    confidence: Fraction,
    unreliable_above: Fraction | None = None,
    unreliable_show: Literal["flag", "blank"] = "flag",
) -> PublishedTable:
    """The published table of a query.

    Args:
        name: The query's name.
        title: Its title.
        key_columns: The columns of its ``by``; none means one cell.
        measures: By name, in published order.
        inputs: For each measure its noisy quantities, in the order that its ``estimate`` takes them; every
            array has one value per cell of the full cross product of the keys.
        confidence: Of the margins, between 0 and 1.
        unreliable_above: A cell is unreliable where margin > this x |value|; None: never.
        unreliable_show: ``flag`` keeps the numbers of an unreliable cell, ``blank`` withholds them.

    Returns:
        The table; its shape depends on the keys alone.
    """
    rows = list(product(*(column.keys or () for column in key_columns)))
    return PublishedTable(
        name=name,
        title=title,
        key_columns=tuple(key_columns),
        keys=tuple(tuple(row[at] for row in rows) for at in range(len(key_columns))),
        measures=tuple(
            _published(label, measure, inputs[label], confidence, unreliable_above, unreliable_show)
            for label, measure in measures.items()
        ),
        confidence=confidence,
        cells=len(rows),
    )


def _published(
    name: str,
    measure: Measure,
    noisy: Sequence[Noisy],
    confidence: Fraction,
    above: Fraction | None,
    show: Literal["flag", "blank"],
) -> PublishedMeasure:
    found: Estimate = measure.estimate(noisy, confidence)
    blank = np.isnan(found.value)
    unreliable = np.zeros_like(blank)
    if above is not None:
        unreliable = ~blank & (found.margin > float(above) * np.abs(found.value))
    hidden = blank | unreliable if show == "blank" else blank
    status: tuple[Status, ...] = tuple(
        "blank" if none else "unreliable" if weak else "ok" for none, weak in zip(blank, unreliable, strict=True)
    )
    return PublishedMeasure(
        name=name,
        measure=measure,
        value=_without(found.value, hidden),
        standard_error=_without(found.standard_error, hidden),
        margin=_without(found.margin, hidden),
        status=status,
        places=_places(measure, noisy),
        integer=isinstance(measure, Count) and len(noisy) == 1,
    )


def _without(numbers: Floats, hidden: npt.NDArray[np.bool_]) -> Floats:
    shown = np.where(hidden, np.nan, numbers) + 0.0  # + 0.0: no negative zero
    shown.flags.writeable = False
    return shown


def _places(measure: Measure, noisy: Sequence[Noisy]) -> int | None:
    """Decimals of the grid that a count or a sum lies on; None where a decimal cannot write its step."""
    if isinstance(measure, Count):
        return len(noisy) - 1  # of two draws it is half the sum
    if not isinstance(measure, Sum):
        return None
    step = noisy[0].quantity.step
    return next((places for places in range(19) if (step * 10**places).denominator == 1), None)
