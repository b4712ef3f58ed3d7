"""What can be asked? One file per kind of measure, which says all there is to say of it.

Floor 3: pure. To add a kind, write its file and put it in ``MEASURES``; specs, plans, the JSON Schema, the report and
the tests take it from there. A class that leaves something out is refused when this package is imported. ``MEASURES``
are the kinds that an author writes. ``expand_measures`` turns them into one measure for every published number; kinds
that only a plan has stand in for others, and are in ``PLANNED``.

>>> from fractions import Fraction
>>> asked = {"n": Count(count="rows"), "age": Quantiles(quantiles="age", at=(Fraction(1, 2), Fraction(9, 10)))}
>>> list(expand_measures(asked))
['n', 'age_q50', 'age_q90']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Tag

from dprelease.errors import PlanError
from dprelease.measures.base import Measure, Possible, WrittenMeasure
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.mean import Mean
from dprelease.measures.prefix_counts import PrefixCounts
from dprelease.measures.quantile import Max, Min, Quantiles
from dprelease.measures.randomized import Randomized
from dprelease.measures.ratio import PlannedRatio, Ratio
from dprelease.measures.sum import Sum
from dprelease.measures.text import Flaw
from dprelease.measures.variance import Stddev, Variance

__all__ = [
    "MEASURES",
    "PARTS",
    "PLANNED",
    "AnyMeasure",
    "AskedMeasure",
    "Estimate",
    "Expected",
    "Flaw",
    "Measure",
    "Noisy",
    "Possible",
    "PrefixCounts",
    "expand_measures",
    "unsaid_by",
]

MEASURES: dict[str, type[Measure]] = {
    each.kind: each
    for each in (
        Count,
        CountDistinct,
        Sum,
        Mean,
        Variance,
        Stddev,
        Quantiles,
        Min,
        Max,
        Ratio,
        Randomized,
    )
}
"""What an author can write, by the word that asks for it."""

_STANDING = dict.fromkeys(
    stands for each in MEASURES.values() if issubclass(each, WrittenMeasure) for stands in each.stands
)
PLANNED: dict[str, type[Measure]] = {each.tag or each.kind: each for each in _STANDING}
"""What stands in a plan for what an author wrote, by the field that tells it."""

PARTS = {kind: each for kind, each in MEASURES.items() if not issubclass(each, WrittenMeasure)}
"""What a ratio in a plan can be of: every kind that is planned as it is written."""


def unsaid_by(model: type[Measure]) -> list[str]:
    """What a class of measures does not say of itself, though every one must."""
    said = ("kind", "plural", "method", "held", "foreseen", *(("stands",) if issubclass(model, WrittenMeasure) else ()))
    missing = [name for name in said if not hasattr(model, name)]
    if "kind" not in missing and model.kind not in model.model_fields:
        missing.append(f"field `{model.kind}`")
    if "kind" not in missing and model not in PLANNED.values():
        fields = (name for name, info in model.model_fields.items() if info.is_required() and not info.examples)
        missing += [f"examples of `{name}`" for name in fields if name != model.kind]
    return sorted((*missing, *model.__abstractmethods__))


for _model in (*MEASURES.values(), *PLANNED.values()):
    if unsaid_by(_model):
        raise TypeError(
            f"measure {_model.__module__}.{_model.__name__} does not say its {', '.join(unsaid_by(_model))}"
        )


def _union(kinds: Mapping[str, type[Measure]]) -> Any:
    """The type of a value that is a measure of one of these kinds, told by its fields."""

    def tag_of(value: Any) -> str | None:
        names = value if isinstance(value, Mapping) else type(value).model_fields if isinstance(value, Measure) else ()
        return next((kind for kind in kinds if kind in names), None)

    choices: Iterable[Any] = (Annotated[model, Tag(kind)] for kind, model in kinds.items())
    return Annotated[reduce(or_, choices), Discriminator(tag_of)]


if TYPE_CHECKING:
    AskedMeasure = Measure
    AnyMeasure = Measure
else:
    AskedMeasure = _union(MEASURES)
    """What an author can write; a field that only plans have is one too many here."""
    PlannedRatio.model_rebuild(_types_namespace={"Part": _union(PARTS)})
    AnyMeasure = _union({**PLANNED, **MEASURES})
    """What a plan can hold: also what stands for the author's quantiles and ratios."""


def expand_measures(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """One measure for every published number, by its name, in published order.

    Args:
        measures: The measures of one query, by name, as the author wrote them.

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
