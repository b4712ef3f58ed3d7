"""``series:`` of a query: sums over its periods that are told well because the periods share their noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dprelease.canonical import GrownValue
from dprelease.catalog.series.aims import PERIOD
from dprelease.catalog.series.band import MOST_PERIODS, SumOf, lengths_of, sum_name
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import NUMBER, Period, PositiveWhole, exact_number, kind_of, refuse

__all__ = ["LONGEST_SUM", "SeriesSpec"]

LONGEST_TOTAL = 128  # periods
LONGEST_SUM = 60  # periods; longer ones are as well added up from shorter ones
_MOST_APART = 10_000  # weights of squared errors; further apart one of them does not count
_WEIGHTS = "write `minimize: relative`, or alike; or what squared errors weigh, `minimize: {period: 4, 12: 1}`"
_MINIMIZED = {
    "anyOf": [
        {"enum": ["relative", "alike"]},
        {
            "type": "object",
            "required": [PERIOD],
            "propertyNames": {"pattern": f"^({PERIOD}|ytd|total|[0-9]+)$"},
            "additionalProperties": NUMBER,
        },
    ]
}
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


def _minimized(value: Any) -> Any:
    """One of two words as it stands, or weights by the names of a period and of sums."""
    if value in ("relative", "alike"):
        return value
    if not isinstance(value, Mapping):
        raise refuse("DPR-S751", f"is {kind_of(value)}, neither one of two words nor weights", _WEIGHTS)
    weights = {str(name): exact_number(weight) for name, weight in value.items()}
    if PERIOD not in weights:
        raise refuse("DPR-S751", "has no weight for `period`", _WEIGHTS)
    least, most = min(weights.values()), max(weights.values())
    if least <= 0:
        raise refuse("DPR-S751", "has a weight that is not above 0", _WEIGHTS)
    if most > _MOST_APART * least:
        raise refuse("DPR-S751", f"has weights more than {_MOST_APART:,} times apart", _WEIGHTS)
    return weights


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
    minimize: Annotated[
        Literal["relative", "alike"] | dict[str, Fraction], BeforeValidator(_minimized), WithJsonSchema(_MINIMIZED)
    ] = Field(
        "relative",
        description="Errors against those of independent noise, or of all sums and the period alike; or what the "
        "squared error of each weighs, as in `{period: 4, 12: 1}`.",
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
        if not isinstance(self.minimize, str):
            known = {PERIOD, *map(str, self.sums)}
            if other := next((name for name in self.minimize if name not in known), ""):
                raise refuse("DPR-S751", f"has `minimize` with {other!r}, which is not among its `sums`", _WEIGHTS)
        return self
