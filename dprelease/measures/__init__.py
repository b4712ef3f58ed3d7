"""What can be asked? One file per kind of measure: what it needs measured, and what it makes of the answer.

Floor 3: pure. To add a kind, write its file and put it in ``MEASURES``; the laws then run on it by themselves.
``MEASURES`` are the kinds that an author writes. ``planned`` turns them into one measure for every published number;
kinds that only a plan has are in ``PLANNED``, and :data:`AskedMeasure` does not read them.

>>> sorted(MEASURES)
['count', 'count_distinct', 'max', 'mean', 'min', 'quantiles', 'ratio', 'stddev', 'sum', 'variance']
>>> from fractions import Fraction
>>> asked = {"n": Count(count="rows"), "age": Quantiles(quantiles="age", at=(Fraction(1, 2), Fraction(9, 10)))}
>>> list(planned(asked))
['n', 'age_q50', 'age_q90']
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from dprelease.errors import PlanError
from dprelease.measures.base import Estimate, Expected, Measure, Noisy, Possible
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.mean import Mean
from dprelease.measures.quantile import Max, Min, Quantile, Quantiles
from dprelease.measures.ratio import PARTS, PlannedRatio, Ratio
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance

__all__ = [
    "MEASURES",
    "PARTS",
    "PLANNED",
    "AnyMeasure",
    "AskedMeasure",
    "Estimate",
    "Expected",
    "Measure",
    "Noisy",
    "Possible",
    "kind_of",
    "planned",
]

MEASURES: dict[str, type[Measure]] = {
    "count": Count,
    "count_distinct": CountDistinct,
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
    "stddev": Stddev,
    "quantiles": Quantiles,
    "min": Min,
    "max": Max,
    "ratio": Ratio,
}
# A ratio in a plan also says what it is of; it is told by that field.
PLANNED: dict[str, type[Measure]] = {"quantile": Quantile, "of": PlannedRatio}


def _names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    return type(value).model_fields if isinstance(value, Measure) else ()


def _asked(value: Any) -> str | None:
    return next((kind for kind in MEASURES if kind in _names(value)), None)


def _any(value: Any) -> str | None:
    return next((kind for kind in PLANNED if kind in _names(value)), None) or _asked(value)


def kind_of(measure: Measure) -> str:
    """The word by which a spec or a plan asks for a measure."""
    every: dict[str, type[Measure]] = {**MEASURES, "quantile": Quantile}
    return next((kind for kind, model in every.items() if isinstance(measure, model)), "ratio")


def planned(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """One measure for every published number, by its name, in published order.

    Args:
        measures: Of one query, by name, as the author wrote them.

    Raises:
        PlanError: If two published numbers have one name (DPR-P110).
    """
    found: dict[str, Measure] = {}
    for name, measure in measures.items():
        for published, each in measure.planned(name, measures).items():
            if published in found:
                raise PlanError(
                    f"two published numbers have the name {published!r}",
                    hint=f"rename measure {name!r}: quantiles m are published as m_q25, m_q50 and so on",
                    code="DPR-P110",
                )
            found[published] = each
    return found


_Author = (
    Annotated[Count, Tag("count")]
    | Annotated[CountDistinct, Tag("count_distinct")]
    | Annotated[Sum, Tag("sum")]
    | Annotated[Mean, Tag("mean")]
    | Annotated[Variance, Tag("variance")]
    | Annotated[Stddev, Tag("stddev")]
    | Annotated[Quantiles, Tag("quantiles")]
    | Annotated[Min, Tag("min")]
    | Annotated[Max, Tag("max")]
    | Annotated[Ratio, Tag("ratio")]
)

AskedMeasure = Annotated[_Author, Discriminator(_asked)]
"""What an author can write; a field that only plans have is one too many here."""

AnyMeasure = Annotated[
    _Author | Annotated[Quantile, Tag("quantile")] | Annotated[PlannedRatio, Tag("of")], Discriminator(_any)
]
"""What a plan can hold: also what stands for the author's quantiles and ratios."""
