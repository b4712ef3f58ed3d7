"""How far a number of a weighted sample may lie from that of the population, by a public model beside the noise.

Noise hides who is in the sample; the sample itself is one of many. An estimated total T has the sampling variance
deff w (1 - f) T, and a share p of N people deff w (1 - f) p (1 - p) / N (``catalog.weight.Sampling``; Kish 1965). Both
are arithmetic on published numbers. The two errors are independent; how their margins are put together is in
docs/proofs/weights.md, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Table
from dprelease.estimate.tables import PublishedTable
from dprelease.measures import Measure

__all__ = ["is_sampled", "total_margin", "with_sampling"]

Floats = npt.NDArray[np.float64]


def is_sampled(measure: Measure | None, table: Table) -> bool:
    """Whether the model says the sampling error of a number: of weighted counts, and of shares of one in another.

    Of a sum or a mean it would take how much the values spread, which no draw tells.
    """
    if table.weight is None or table.weight.sampling is None or measure is None:
        return False
    return measure.sampled_as is not None


def with_sampling(published: PublishedTable, table: Table) -> PublishedTable:
    """The published table with the sampling error and the total margin of every number that has them.

    Args:
        published: The query as the noise left it.
        table: Whose rows it counts.
    """
    if table.weight is None or table.weight.sampling is None:
        return published
    one = float(table.weight.sampling.of_one)
    values = {each.name: each.value for each in published.measures}
    found = []
    for each in published.measures:
        if each.measure is None or not is_sampled(each.measure, table):
            found.append(each)
            continue
        size, whole = _size(each.measure, values), each.measure.whole
        error = whole * np.sqrt(one * _variance(each.value / whole, size))
        step = whole * float(table.weight.step) / (1.0 if size is None else size)
        total = total_margin(each.margin, each.standard_error, error, published.confidence, step)
        found.append(replace(each, sampling_error=error, total_margin=total))
    return replace(published, measures=tuple(found))


def total_margin(margin: Floats, error: Floats, sampling: Floats, confidence: Fraction, step: Floats | float) -> Floats:
    """A margin for noise and sampling together, where the sampling error is normal.

    The root of the summed squares of two margins. That of the noise is its own, or that of a normal error of its size
    where this is larger: below 90 % the margin of Laplace noise is the smaller one, and in squares it would not do. It
    has half a step more, for a number at its very end is beyond the margin half of the time once anything is added.

    Args:
        margin: Of the noise alone, by its own law.
        error: The standard error of the noise.
        sampling: The standard error of the sample.
        confidence: Of all margins.
        step: The grid of the number without noise.
    """
    z = NormalDist().inv_cdf((1 + float(confidence)) / 2)
    return np.asarray(np.hypot(np.maximum(margin, z * error) + step / 2, z * sampling))


def _size(measure: Measure, values: Mapping[str, Floats]) -> Floats | None:
    """The number of people of which a share is told, NaN where none is known; None of a total."""
    if measure.sampled_as == "total":
        return None
    size = values.get(measure.others[-1])
    return np.full(1, np.nan) if size is None else np.where(size > 0, size, np.nan)


def _variance(value: Floats, size: Floats | None) -> Floats:
    """The sampling variance per deff w (1 - f): T of a total, p (1 - p) / N of a share; NaN where nothing is known."""
    return np.maximum(value, 0.0) if size is None else value * (1 - value) / size
