"""What the author writes of a confidential table: where its rows are, whose they are, and how many of one unit."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.config import JsonDict

from dprelease.canonical import GrownValue
from dprelease.spec.fields.columns import ColumnSpec
from dprelease.spec.fields.published.told import Told
from dprelease.spec.fields.sources import SourceSpec
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.scalars import Bound, Exact, Filled, Flag, Positive, refuse

__all__ = ["BoundsSpec", "JoinSpec", "SamplingSpec", "TableSpec", "TimeSpec", "WeightSpec"]

_WITH_ONE: JsonDict = {"oneOf": [{"required": ["reference"]}, {"required": ["table", "max_matches"]}]}


class JoinSpec(SpecValue):
    """A join that adds columns: with a public reference, or with another confidential table of the same units."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_WITH_ONE)
    reference: Filled | None = Field(None, description="A name under `references`.")
    table: Filled | None = Field(None, description="Instead: a name under `tables`, with the same `unit_id`.")
    on: Filled = Field(description="A column of the table and of the reference, unique there; or the `unit_id`.")
    max_matches: Bound | None = Field(None, description="With a table: how many of a unit's rows are joined.")
    add: tuple[Filled, ...] = Field(description="Columns of the other side that the table declares too.", min_length=1)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.reference is None) == (self.table is None):
            found = "neither reference nor table" if self.table is None else "both reference and table"
            hint = "write one: `{reference: geography, on: puma, add: [state]}` or `{table: users, on: user_id, ...}`"
            raise refuse("DPR-S223", f"has {found}", hint)
        if self.table is not None and self.max_matches is None:
            hint = "write `max_matches: 1`: at most so many rows of a unit are joined to each of its rows"
            raise refuse("DPR-S223", "joins a confidential table without `max_matches`", hint)
        if self.reference is not None and self.max_matches is not None:
            hint = "leave it out: the key of a reference is unique"
            raise refuse("DPR-S223", "has `max_matches`, which is for confidential tables", hint)
        return self


class BoundsSpec(SpecValue):
    """How many rows of the table one unit may have; further ones are left out."""

    max_rows: Bound = Field(description="Per unit, over the whole table.")
    truncate: Literal["sample", "first", "last"] = Field("sample", description="Which of a unit's rows stay.")
    order_by: tuple[Filled, ...] = Field((), description="For `first` and `last`: columns of the source.")


class SamplingSpec(SpecValue):
    """A public model of the sampling error of weighted totals and shares: the variance is deff w (1 - f) T."""

    deff: Positive = Field(description="The design effect: times the variance of a simple random sample of that size.")
    mean_weight: Positive = Field(description="The size of the population over that of the sample, which are public.")
    fraction: Exact = Field(Fraction(0), description="The part of the population that is in the sample, below 1.")


class WeightSpec(SpecValue):
    """For how many people a record of a sample stands: rows then count as often as that."""

    column: Filled = Field(description="An integer or decimal column of the table.")
    clip: Positive = Field(description="The most that one record counts: a public limit, by which the noise grows.")
    step: Positive | None = Field(None, description="To which weights are rounded; left out: the column's, or 1.")
    calibrated: Flag = Field(
        True, description="Whether weights may depend on other records; `false` only of weights by the design alone."
    )
    sampling: SamplingSpec | None = Field(None, description="The sampling error is told beside the noise, by a model.")


class TimeSpec(SpecValue):
    """When each row was: only rows of the release's period are read."""

    column: Filled = Field(description="Of the source; it need not be declared under `columns`.")
    type: Literal["date", "timestamp"] = Field(description="How it is read; a timestamp's day is that in UTC.")


def _unit_id(value: Any) -> Any:
    return None if value == "none" else value


def _engine(value: Any) -> Any:
    return None if value == "duckdb" else value


class TableSpec(SpecValue, GrownValue):
    """One confidential table."""

    LATER: ClassVar[tuple[str, ...]] = ("time", "weight", "engine", "title", "description")
    account: Filled = Field(description="The account of policy.yaml that pays.")
    source: SourceSpec
    unit_id: Annotated[
        Filled | None,
        BeforeValidator(_unit_id),
        WithJsonSchema({"type": "string", "minLength": 1}),
    ] = Field(None, description="The column that says whose row it is; `none`, or left out: every row is one unit.")
    null_id: Literal["drop", "unit"] = Field("drop", description="Rows without an id: left out, or a unit each.")
    time: TimeSpec | None = Field(None, description="What `release.period` filters on; left out: all rows are read.")
    weight: WeightSpec | None = Field(None, description="Survey weights: counts, sums and means are then weighted.")
    bounds: BoundsSpec | None = None
    engine: Annotated[
        Literal["spark"] | None, BeforeValidator(_engine), WithJsonSchema({"enum": ["duckdb", "spark"]})
    ] = Field(None, description="What reads and adds up the rows: `spark`; left out, or `duckdb`: this machine alone.")
    join: tuple[JoinSpec, ...] = Field((), description="Joins that add columns, one after the other.")
    columns: dict[str, ColumnSpec] = Field(description="The columns that are used, by name.")
    title: Told = Field("", description="What a reader sees in the place of its name.")
    description: Told = Field("", description="What its rows are.")
