"""``series:`` of a query: sums over its periods that are told well because the periods share their noise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dprelease.canonical import GrownValue
from dprelease.catalog.series.band import MOST_PERIODS, SumOf, lengths_of, sum_name
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import Period, PositiveWhole, kind_of, refuse

__all__ = ["LONGEST_SUM", "SeriesSpec"]

LONGEST_TOTAL = 128  # periods
LONGEST_SUM = 60  # periods; longer ones are as well added up from shorter ones
_HINT = "write `sums: [3, 12, ytd]`: numbers of periods, and `ytd` for all since January"
_SUMS = {
    "type": "array",
    "minItems": 1,
    "items": {"anyOf": [{"type": "integer", "minimum": 2, "maximum": LONGEST_SUM}, {"enum": ["ytd", "total"]}]},
}


def _sum_of(value: Any) -> SumOf:
    if value in ("ytd", "total"):
        return "ytd" if value == "ytd" else "total"
    number = value
    if isinstance(value, Numeral):
        number = int(value.text) if value.text.isdecimal() else None
    if not isinstance(number, int) or isinstance(number, bool):
        raise refuse("DPR-S760", f"is {kind_of(value)}, neither a number of periods nor `ytd`", _HINT)
    if not 2 <= number <= LONGEST_SUM:
        raise refuse("DPR-S760", f"is {number}, not from 2 to {LONGEST_SUM} periods", _HINT)
    return number


def _sums(value: Any) -> Any:
    if not isinstance(value, list | tuple) or not value:
        raise refuse("DPR-S760", f"is {'empty' if value in ((), []) else kind_of(value)}, no list of sums", _HINT)
    found = tuple(map(_sum_of, value))
    if len(set(found)) < len(found):
        raise refuse("DPR-S760", "has a sum twice", "list every sum once")
    return found


class SeriesSpec(SpecValue, GrownValue):
    """Noise that the periods of a product share, so that sums of them err less; a period itself errs a little more."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        populate_by_name=True, json_schema_extra={"required": ["from", "sums"]}
    )
    LATER: ClassVar[tuple[str, ...]] = ("skip", "horizon")
    from_: Period = Field(alias="from", description="The first period of the series; another one begins a new series.")
    sums: Annotated[tuple[SumOf, ...], BeforeValidator(_sums), WithJsonSchema(_SUMS)] = Field(
        description="Which sums are told beside each period: of the last so many periods, or `ytd`, since January."
    )
    look_back: PositiveWhole | None = Field(
        None,
        description=f"How many periods are read again each time, at most {MOST_PERIODS}; left out: the longest sum.",
    )
    skip: tuple[Period, ...] = Field(
        (), description="Periods whose rows are lost: nothing is ever read of them, and sums with them are blank."
    )
    horizon: PositiveWhole | None = Field(
        None, description=f"How many periods the series has at most, from 2 to {LONGEST_TOTAL}: for the sum `total`."
    )
    minimize: Literal["relative", "alike"] = Field(
        "relative", description="Errors against those of independent noise, or of all sums and the period alike."
    )

    def named(self, measures: Iterable[str]) -> dict[str, str]:
        """The sums of some measures by the names under which they are published: of which measure each is."""
        return {sum_name(label, which): label for label in measures for which in self.sums}

    def periods_read(self, year: int) -> int:
        """How many periods a draw reads at most.

        Args:
            year: How many periods a year has.
        """
        if self.look_back is not None:
            return self.look_back
        return min(MOST_PERIODS, max(max(lengths_of(which, year, self.horizon)) for which in self.sums))

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        """``total`` and ``horizon`` stand beside one another: a band is made for so many periods."""
        if ("total" in self.sums) != (self.horizon is not None):
            lacks = "has `total` and no `horizon`" if self.horizon is None else "has a `horizon`, and no sum is `total`"
            raise refuse("DPR-S761", lacks, "write both, as in `sums: [12, total], horizon: 60`, or none of them")
        if self.horizon is not None and not 2 <= self.horizon <= LONGEST_TOTAL:
            hint = f"write the number of periods after which a new series begins, {LONGEST_TOTAL} at most"
            raise refuse("DPR-S761", f"has a `horizon` of {self.horizon}, not from 2 to {LONGEST_TOTAL} periods", hint)
        return self
