"""What the author writes of how numbers are shown after the noise: reliability, signs, and a base to round to."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema

from dprelease.canonical import GrownValue
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import NUMBER, Filled, Positive, exact_number, kind_of, refuse

__all__ = ["CAUTION_ABOVE", "UNRELIABLE_ABOVE", "Base", "QueryBases", "SymbolsSpec", "UnreliableSpec"]

# Of a number, where a spec says nothing: half of an interval that is a third of it is a coefficient of variation of
# about 17 %, and of two thirds one of about 34 %: the limits of statistical offices (docs/decisions/0078).
CAUTION_ABOVE, UNRELIABLE_ABOVE = Fraction(1, 3), Fraction(2, 3)
_LONGEST = 12
_WORDS = ("auto", "none")
_HINT = "write `round: 10`, a decimal such as 0.01, or `round: auto`"


def _never(value: Any) -> Any:
    return None if value == "none" else value


def _base(value: Any) -> Any:
    """A base from its digits; ``auto`` and ``none`` are words, and are kept as such."""
    if isinstance(value, str) and value in _WORDS:
        return value
    if not isinstance(value, Numeral | Fraction | int) and not (isinstance(value, str) and value[:1].isdigit()):
        raise refuse("DPR-S696", f"is {kind_of(value)}, not a base", _HINT)
    base = exact_number(value)
    if base <= 0 or (base * 10**9).denominator != 1 or base >= 10**12:
        raise refuse("DPR-S696", "is no decimal between 1e-9 and 1e12", _HINT)
    return base


def _of_counts(value: Any, info: ValidationInfo) -> Any:
    """One base is that of every count of the query."""
    if value is None or isinstance(value, Mapping):
        return value
    measures, base = info.data.get("measures") or {}, _base(value)
    counts = [name for name, measure in measures.items() if measure.is_count]
    compared = info.data.get("compare") or {}
    counts += [name for name, each in compared.items() if each.in_units and each.measure in counts]
    return dict.fromkeys(counts, base) or {"": base}


def _symbol(value: str) -> str:
    if len(value) > _LONGEST or not value.isprintable():
        raise refuse("DPR-S697", f"has more than {_LONGEST} signs, or one that cannot be printed", 'write "[u]"')
    return value


Limit = Annotated[Positive | None, BeforeValidator(_never), WithJsonSchema({"anyOf": [NUMBER, {"const": "none"}]})]
Base = Annotated[
    Fraction | Literal["auto", "none"],
    BeforeValidator(_base),
    WithJsonSchema({"anyOf": [NUMBER, {"enum": [*_WORDS]}]}),
]
QueryBases = Annotated[dict[str, Base], BeforeValidator(_of_counts, json_schema_input_type=Base | dict[str, Base])]
Symbol = Annotated[Filled, AfterValidator(_symbol)]


class UnreliableSpec(SpecValue, GrownValue):
    """Numbers whose noise is large beside them."""

    LATER: ClassVar[tuple[str, ...]] = ("caution_above",)
    relative_error_above: Limit = Field(
        UNRELIABLE_ABOVE,
        description="A number is unreliable where half its interval is a larger part of it; `none`: no number is.",
    )
    caution_above: Limit = Field(
        CAUTION_ABOVE, description="It is marked to be used with care where half its interval is a larger part of it."
    )
    show: Literal["flag", "blank"] = Field("flag", description="Unreliable numbers have a flag, or are left blank.")


class SymbolsSpec(SpecValue, GrownValue):
    """The signs of an office for numbers that are not plain; each page says what those on it mean."""

    LATER: ClassVar[tuple[str, ...]] = ("not_distinguishable", "not_applicable")
    caution: Symbol | None = Field(None, description="Beside a number to be used with care; left out: [caution].")
    unreliable: Symbol | None = Field(None, description="Beside an unreliable number, or in its place; left out: [u].")
    withheld: Symbol | None = Field(None, description="In the place of a number that `suppress` withholds: [w].")
    no_estimate: Symbol | None = Field(None, description="In the place of a number that cannot be worked out: [x].")
    not_distinguishable: Symbol | None = Field(
        None, description="Beside a change or a difference that noise alone may have made; left out: [nd]."
    )
    not_applicable: Symbol | None = Field(
        None, description="In the place of a comparison that a row cannot have; left out: [z]."
    )
    low: Symbol | None = Field(None, description="Beside a 0 whose interval does not hold 0; left out: [low].")
