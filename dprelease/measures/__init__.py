"""What can be asked? One file per kind of measure: what it needs measured, and what it makes of the answer.

Floor 3: pure. To add a kind, write its file and put it in ``MEASURES``; the laws then run on it by themselves.

>>> sorted(MEASURES)
['count', 'mean', 'stddev', 'sum', 'variance']
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from dprelease.measures.base import Estimate, Expected, Measure, Noisy
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance

__all__ = ["MEASURES", "AnyMeasure", "Estimate", "Expected", "Measure", "Noisy"]

MEASURES: dict[str, type[Measure]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
    "stddev": Stddev,
}


def _kind(value: Any) -> str | None:
    names = value if isinstance(value, Mapping) else type(value).model_fields if isinstance(value, Measure) else ()
    return next((kind for kind in MEASURES if kind in names), None)


AnyMeasure = Annotated[
    Annotated[Count, Tag("count")]
    | Annotated[Sum, Tag("sum")]
    | Annotated[Mean, Tag("mean")]
    | Annotated[Variance, Tag("variance")]
    | Annotated[Stddev, Tag("stddev")],
    Discriminator(_kind),
]
