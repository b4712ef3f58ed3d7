"""How far a number of a weighted sample may lie from that of the population, by a public model beside the noise.

Noise hides who is in the sample; the sample itself is one of many. An estimated total T has the sampling variance
deff w (1 - f) T, and a share p of N people deff w (1 - f) p (1 - p) / N (``catalog.weight.Sampling``; Kish 1965). Both
are arithmetic on published numbers. The two errors are independent, and their margins are added in squares: for Laplace
and for Gaussian noise beside normal sampling errors that is never too narrow (docs/proofs/weights.md, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Table
from dprelease.estimate.tables import PublishedTable
from dprelease.measures import Measure
from dprelease.measures.ratio import PlannedRatio

__all__ = ["is_sampled", "with_sampling"]

Floats = npt.NDArray[np.float64]


def is_sampled(measure: Measure | None, table: Table) -> bool:
    """Whether the model says the sampling error of a number: of weighted counts, and of shares of one in another.

    Of a sum or a mean it would take how much the values spread, which no draw tells.
    """
    if table.weight is None or table.weight.sampling is None or measure is None:
        return False
    if isinstance(measure, PlannedRatio):
        return measure.is_share and measure.of[0].weighted is not False
    return measure.is_count and measure.weighs and measure.weighted is not False


def with_sampling(published: PublishedTable, table: Table) -> PublishedTable:
    """The published table with the sampling error and the total margin of every number that has them.

    Args:
        published: The query as the noise left it.
        table: Whose rows it counts.
    """
    if table.weight is None or table.weight.sampling is None:
        return published
    one = float(table.weight.sampling.of_one)
    z = NormalDist().inv_cdf((1 + float(published.confidence)) / 2)
    values = {each.name: each.value for each in published.measures}
    found = []
    for each in published.measures:
        if each.measure is None or not is_sampled(each.measure, table):
            found.append(each)
            continue
        error = np.sqrt(one * _variance(each.measure, each.value, values))
        total = np.hypot(each.margin, z * error)
        found.append(replace(each, sampling_error=error, total_margin=total))
    return replace(published, measures=tuple(found))


def _variance(measure: Measure, value: Floats, values: Mapping[str, Floats]) -> Floats:
    """The sampling variance per deff w (1 - f): T of a total, p (1 - p) / N of a share; NaN where nothing is known."""
    if not isinstance(measure, PlannedRatio):
        return np.maximum(value, 0.0)
    size = values.get(measure.ratio[1], np.full(value.shape, np.nan))
    size = np.where(size > 0, size, np.nan)
    return value * (1 - value) / size
