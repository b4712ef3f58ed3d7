"""What the author asks for: one published table, its measures, and how its part of the budget is said."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import InitErrorDetails, PydanticCustomError

from dprelease.measures import MEASURES, AnyMeasure
from dprelease.spec.advice import NOT_YET
from dprelease.spec.fields import Filled, Positive, PositiveWhole, Relative, Share, Text, exact, kind_of, refuse
from dprelease.spec.names import did_you_mean
from dprelease.spec.value import SpecValue

__all__ = ["PinSpec", "QuerySpec", "TargetSpec"]

_ONE: JsonDict = {"minProperties": 1, "maxProperties": 1}


def _numbers_of(kind: str) -> set[str]:
    def exact_inside(annotation: Any) -> bool:
        return annotation is Fraction or any(exact_inside(part) for part in get_args(annotation))

    return {name for name, info in MEASURES[kind].model_fields.items() if exact_inside(info.annotation)}


def _measure(value: Any) -> Any:
    """The mapping of a measure with its numbers exact; which kind it is must be plain."""
    if isinstance(value, tuple(MEASURES.values())):
        return value
    example = "write one of: " + ", ".join(f"{{{kind}: ...}}" for kind in MEASURES)
    if not isinstance(value, dict):
        raise refuse("DPR-S214", f"is {kind_of(value)}, not a measure", example)
    kinds = [kind for kind in MEASURES if kind in value]
    if len(kinds) != 1:
        raise _no_measure(value, kinds, example)
    problems: list[InitErrorDetails] = []
    read = dict(value)
    for name in _numbers_of(kinds[0]) & set(value):
        if value[name] is None:  # as canonical JSON writes what was left out; no author can write it
            continue
        if not isinstance(value[name], list | tuple):
            error = refuse("DPR-S210", f"is {kind_of(value[name])}, not a list of numbers", "write [low, high]")
            problems.append(InitErrorDetails(type=error, loc=(name,), input=value[name]))
            continue
        items: list[Fraction] = []
        for at, item in enumerate(value[name]):
            try:
                items.append(exact(item))
            except PydanticCustomError as error:
                problems.append(InitErrorDetails(type=error, loc=(name, at), input=item))
        read[name] = tuple(items)
    if problems:
        raise ValidationError.from_exception_data("measure", problems)
    return read


def _no_measure(value: dict[str, Any], kinds: list[str], example: str) -> Exception:
    if kinds:
        return refuse("DPR-S214", f"is {len(kinds)} measures: {', '.join(kinds)}", "give each one a name of its own")
    later = [name for name in value if f"queries.*.measures.*.{name}" in NOT_YET]
    if later:
        error = refuse("DPR-S300", "is not available yet", NOT_YET[f"queries.*.measures.*.{later[0]}"])
        return ValidationError.from_exception_data(
            "measure", [InitErrorDetails(type=error, loc=(later[0],), input=None)]
        )
    hint = did_you_mean(next(iter(value), ""), MEASURES, example)
    return refuse("DPR-S214", "does not say what it measures", hint)


class PinSpec(SpecValue):
    """What this query alone costs, whatever the others get; the release's delta holds."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_ONE)
    epsilon: Positive | None = Field(None, description="What the query alone would cost, at the release's delta.")
    rho: Positive | None = Field(None, description="Zero-concentrated differential privacy, spent exactly.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            found = "neither epsilon nor rho" if self.epsilon is None else "both epsilon and rho"
            raise refuse("DPR-S218", f"has {found}", "write one: `budget: {epsilon: 1/10}` or `budget: {rho: 1/100}`")
        return self


class TargetSpec(SpecValue):
    """How accurate a measure is to be in its worst cell, at `publish.confidence`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_ONE)
    margin: Positive | None = Field(None, description="At most this margin of error, in units of the measure.")
    relative: Relative | None = Field(None, description="At most this part of `expect`, for a count: 0.1 is 10 %.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.margin is None) == (self.relative is None):
            found = "neither margin nor relative" if self.margin is None else "both margin and relative"
            raise refuse("DPR-S222", f"has {found}", "write one: `{margin: 500}` or `{relative: 0.1}`")
        return self


class QuerySpec(SpecValue):
    """One published table: the full cross product of the keys of `by`, empty cells too."""

    title: Text = Field("", description="What a reader sees above the table.")
    table: Filled = Field(description="A name under `tables`.")
    by: tuple[Filled, ...] = Field((), description="Columns with keys; empty: one number for the whole table.")
    measures: dict[str, Annotated[AnyMeasure, BeforeValidator(_measure)]] = Field(
        description="One published number per cell each, by name.", min_length=1
    )
    budget: PinSpec | None = Field(None, description="Instead of a share: what this query alone would cost.")
    target: dict[str, TargetSpec] = Field(
        {}, description="Measure to the accuracy of its worst cell; beside a share, the least that it gets."
    )
    share: Share | None = Field(
        None,
        description="Of the budget, beside the other shares; left out: 1, or none with a budget or a target.",
        validate_default=True,
    )
    expect: dict[str, PositiveWhole] = Field({}, description="A public guess per cell of a count of this query.")

    @field_validator("share")
    @classmethod
    def _one_share(cls, share: Fraction | None, info: ValidationInfo) -> Fraction | None:
        """A share of 1 where nothing is said, so that leaving it out and writing it are the same spec."""
        said = info.data.get("budget") or info.data.get("target")
        return Fraction(1) if share is None and not said else share

    @property
    def weight(self) -> Fraction | None:
        """Its share of what is not pinned; None where it has a budget of its own, or targets and no share."""
        return None if self.budget else self.share
