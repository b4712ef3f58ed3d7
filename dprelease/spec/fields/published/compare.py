"""What the author writes of further columns that compare published numbers: shares, changes, indices, differences."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dprelease.canonical import GrownValue
from dprelease.measures.comparing.comparison import PREVIOUS, TOTAL_WORD, ComparedNumber
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.scalars import AsWritten, Filled, Flag, Period, kind_of, refuse

__all__ = ["MOST_GROUPS", "CompareSpec"]

_FORMS = ("share_of", "change_from", "index_to", "difference_from", "differences_between")
MOST_GROUPS = 20  # whose pairs are compared: each is a column
_DIFFERENCES = ("difference_from", "differences_between")
_LIST = {"type": "array", "items": {"type": "string", "minLength": 1}}


def _total(value: Any) -> Any:
    if value == TOTAL_WORD:
        return ()
    if isinstance(value, str):
        hint = "write `share_of: total`, or the columns of a table of totals: `share_of: [region]`"
        raise refuse("DPR-S432", f"is {kind_of(value)}, neither `total` nor a list of columns", hint)
    return value


class CompareSpec(SpecValue, GrownValue):
    """A further column of a query that is made of its published numbers; it draws nothing and costs nothing."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"required": ["measure"], "oneOf": [{"required": [form]} for form in _FORMS]}
    )
    LATER: ClassVar[tuple[str, ...]] = (*_FORMS, "show", "proved")
    measure: Filled = Field(description="The measure of this query that is compared.")
    share_of: Annotated[
        tuple[Filled, ...] | None,
        BeforeValidator(_total),
        WithJsonSchema({"anyOf": [{"const": TOTAL_WORD}, _LIST]}),
    ] = Field(None, description="Of which of the query's `totals` each number is a share: `total`, or a list of them.")
    change_from: Period | None = Field(
        None, description="The period that is subtracted: `previous`, or one by name. With percent: the growth."
    )
    index_to: Period | None = Field(None, description="The period whose numbers are 100: `previous`, or one by name.")
    difference_from: dict[Filled, AsWritten] | None = Field(
        None, description="A column of `by` and the key of the group that is subtracted: {region: South}."
    )
    differences_between: Filled | None = Field(
        None,
        description="A column of `by`: a column for each of its groups, with each row less that of the group.",
        examples=["region"],
    )
    show: Literal["percent"] | None = Field(
        None, description="percent: a share in percent; of a change by how many percent the number grew."
    )
    proved: Flag = Field(
        True,
        description="false: of changes and differences of means and ratios, a narrower interval with a p-value, which "
        "hold as measured in simulations, without a proof.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        said = [form for form in _FORMS if getattr(self, form) is not None]
        if len(said) != 1:
            found = f"has {' and '.join(said)}" if said else "does not say with what it compares"
            raise refuse("DPR-S431", found, f"write one of: {', '.join(_FORMS)}")
        if self.difference_from is not None and len(self.difference_from) != 1:
            raise refuse("DPR-S435", "does not name one group", "write `difference_from: {region: South}`")
        if self.show and said[0] in ("index_to", *_DIFFERENCES):
            raise refuse("DPR-S431", f"shows {said[0]} in percent", "leave `show` out: an index is 100 at its base")
        return self

    @property
    def planned(self) -> ComparedNumber:
        """The same as a plan has it, but for the group of each column of `differences_between`."""
        return ComparedNumber(
            measure=self.measure,
            share_of=self.share_of,
            change_from=self.change_from,
            index_to=self.index_to,
            difference_from=next(iter((self.difference_from or {}).items()), None),
            show=self.show,
            proved=self.proved,
        )

    @property
    def in_units(self) -> bool:
        """Whether it is in units of its measure: a change or a difference."""
        return any(getattr(self, form) is not None for form in _DIFFERENCES) or (
            self.change_from is not None and self.show is None
        )

    @property
    def period_word(self) -> str:
        """The period that it looks back to, as it is written; empty: to none."""
        return self.change_from or self.index_to or ""

    @property
    def is_previous(self) -> bool:
        """Whether it looks at the period before, whichever that is."""
        return self.period_word == PREVIOUS
