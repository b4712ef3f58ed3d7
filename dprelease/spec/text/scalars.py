"""The kinds of scalars that fields take: read from what the author wrote, or refused with words that fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from dprelease.catalog.table import Key
from dprelease.spec.period import CALENDAR, nearly
from dprelease.spec.text.names import shown
from dprelease.spec.text.numbers import Constant, NotANumber, Numeral, read_rational

__all__ = [
    "NUMBER",
    "AsWritten",
    "Bound",
    "ColumnKey",
    "Confidence",
    "Delta",
    "Exact",
    "Filled",
    "Flag",
    "Limit",
    "Outside",
    "Pair",
    "Period",
    "Positive",
    "PositiveWhole",
    "Relative",
    "ReleaseName",
    "Share",
    "Text",
    "Version",
    "Whole",
    "as_written",
    "day",
    "exact_number",
    "kind_of",
    "refuse",
    "true_or_false",
]

NUMBER: dict[str, Any] = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": r"^[-+]?([0-9]+/[0-9]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)$"},
    ]
}
_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}
_SMALLEST = Fraction(1, 10**300)
_MOST_RELATIVE = 10
_MOST_OF_ONE = 10**5  # rows or cells of one unit: with more no noise leaves anything to be seen
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def refuse(code: str, summary: str, hint: str = "") -> PydanticCustomError:
    """The error of a validator; ``summary`` completes "`field` ..."."""
    return PydanticCustomError(code, "{summary}", {"summary": summary, "hint": hint})


def kind_of(value: Any) -> str:
    """What a written value is, in words."""
    if isinstance(value, Constant):
        return "empty" if value.value is None else f"`{value.text}`, which is true or false"
    if isinstance(value, Numeral):
        return f"the number {shown(value.text)}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"the text {shown(str(value))!r}" if value != "" else 'the text ""'


def exact_number(value: Any) -> Fraction:
    """A number from its digits, exactly; text such as ``104/4099`` as well."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if not isinstance(value, Numeral | str):
        raise refuse("DPR-S203", f"is {kind_of(value)}, not a number", "write digits such as 0.5, 1e-9 or 1/2")
    try:
        return read_rational(value.text if isinstance(value, Numeral) else value)
    except NotANumber as error:
        raise refuse("DPR-S204", f"is {error.reason}", error.hint) from None


def _positive(value: Any) -> Fraction:
    number = exact_number(value)
    if number == 0:
        raise refuse("DPR-S205", "is zero", "write a number greater than 0")
    if number < 0:
        raise refuse("DPR-S205", "is negative", "write a number greater than 0")
    return _not_subnormal(number)


def _share(value: Any) -> Fraction:
    number = exact_number(value)
    if number <= 0:
        hint = "write a number greater than 0, or leave the query out: what gets no budget cannot be published"
        raise refuse("DPR-S205", "is zero" if number == 0 else "is negative", hint)
    return _not_subnormal(number)


def _relative(value: Any) -> Fraction:
    number = _positive(value)
    if number > _MOST_RELATIVE:
        hint = "write a fraction of one: 0.1 is ten percent; or a `margin`, in units of the measure"
        raise refuse("DPR-S221", f"is more than {_MOST_RELATIVE}", hint)
    return number


def _not_subnormal(number: Fraction) -> Fraction:
    if 0 < number < _SMALLEST:
        raise refuse("DPR-S206", "is subnormal (below 1e-300)", "write a number that can be meant")
    return number


def _delta(value: Any) -> Fraction:
    number = exact_number(value)
    if not 0 <= number < 1:
        what = "negative" if number < 0 else "1 or more: it would promise nothing"
        raise refuse("DPR-S207", f"is {what}", "write a small probability such as 1e-9, or 0")
    return _not_subnormal(number)


def _confidence(value: Any) -> Fraction:
    number = exact_number(value)
    if not 0 < number < 1:
        raise refuse("DPR-S208", "is not between 0 and 1", "write a probability such as 0.95")
    return number


def _whole(value: Any) -> int:
    number = value.whole if isinstance(value, Numeral) else value
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**63:
        raise refuse("DPR-S209", f"is {kind_of(value)}, not a whole number of 64 bits", "write digits alone: 12000")
    return number


def _positive_whole(value: Any) -> int:
    number = _whole(value)
    if number <= 0:
        raise refuse("DPR-S205", "is not greater than 0", "write a whole number from 1")
    return number


def _text(value: Any) -> str:
    if isinstance(value, Constant) and value.value is None:
        raise refuse("DPR-S215", "is empty", "write something in quotes, or leave the line out")
    if not isinstance(value, str):
        quoted = f': "{shown(value.text)}"' if isinstance(value, Numeral | Constant) and value.text else ""
        raise refuse("DPR-S203", f"is {kind_of(value)}, not text", f"put text in quotes{quoted}")
    return value


def _filled(value: Any) -> str:
    text = _text(value)
    if not text.strip():
        raise refuse("DPR-S215", "is empty", "write something, or leave the line out where it is optional")
    return text


def _bound(value: Any) -> int:
    number = _positive_whole(value)
    if number > _MOST_OF_ONE:
        hint = "write a bound near what most units have: noise grows with it, and what is beyond it is left out"
        raise refuse("DPR-S225", "is more than 100,000", hint)
    return number


def as_written(value: Any) -> str:
    """The text of a scalar as it stands in the file, whatever YAML would make of it."""
    if isinstance(value, Constant) and value.value is None:
        raise refuse("DPR-S215", "is empty", 'put it in quotes where that is meant: "" or "null"')
    return value.text if isinstance(value, Numeral | Constant) else _text(value)


def _outside(value: Any) -> Any:
    return "null" if value == Constant("null", None) else value


def _matching(rule: str, code: str, hint: str) -> Callable[[str], str]:
    pattern = re.compile(rule)

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise refuse(code, f"is {shown(value)!r}, which has a sign that it cannot have or is too long", hint)
        return value

    return check


def day(text: str) -> date | None:
    """The day of ``YYYY-MM-DD``, if there is one."""
    if not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _column_key(value: Any, info: ValidationInfo) -> Key:
    """A key by the type of its column, which pydantic has read before (and refused, where it is not there)."""
    kind = info.data.get("type") if info.data else None
    if kind == "integer":
        return _whole_key(value)
    if kind == "boolean":
        written = value.value if isinstance(value, Constant) else value
        if not isinstance(written, bool):
            raise refuse("DPR-S212", f"is {kind_of(value)}, no key of a boolean column", "write true or false, bare")
        return written
    text = as_written(value)
    if kind == "date" and day(text) is None:
        raise refuse("DPR-S212", f"is {kind_of(value)}, no key of a date column", "write a day such as 2024-03-07")
    return text


def _whole_key(value: Any) -> int:
    if isinstance(value, str) and Numeral(value).whole is not None:
        raise refuse("DPR-S212", f"is {kind_of(value)}, no key of an integer column", "leave the quotes out")
    try:
        return _whole(value)
    except PydanticCustomError:
        hint = "write a whole number, or give the column `type: text`"
        raise refuse("DPR-S212", f"is {kind_of(value)}, no key of an integer column", hint) from None


def _limit(value: Any) -> int | str:
    number = value.whole if isinstance(value, Numeral) else value
    if isinstance(number, int) and not isinstance(number, bool) and abs(number) < 2**63:
        return number
    if isinstance(number, str) and day(number) is not None:
        return number
    raise refuse("DPR-S212", f"is {kind_of(value)}, not a whole number or a day", "write 1 or 2024-03-07")


def true_or_false(value: Any) -> bool:
    """A plain ``true`` or ``false``; a word in quotes is none."""
    written = value.value if isinstance(value, Constant) else value
    if not isinstance(written, bool):
        raise refuse("DPR-S203", f"is {kind_of(value)}, not true or false", "write `true` or `false`, or leave it out")
    return written


def _two(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise refuse("DPR-S210", f"is {kind_of(value)}, not two numbers", "write [low, high]")
    return tuple(value)


Exact = Annotated[Fraction, BeforeValidator(exact_number), WithJsonSchema(NUMBER)]
Positive = Annotated[Fraction, BeforeValidator(_positive), WithJsonSchema(NUMBER)]
Share = Annotated[Fraction, BeforeValidator(_share), WithJsonSchema(NUMBER)]
Relative = Annotated[Fraction, BeforeValidator(_relative), WithJsonSchema(NUMBER)]
Delta = Annotated[Fraction, BeforeValidator(_delta), WithJsonSchema(NUMBER)]
Confidence = Annotated[Fraction, BeforeValidator(_confidence), WithJsonSchema(NUMBER)]
Whole = Annotated[int, BeforeValidator(_whole)]
Bound = Annotated[
    int, BeforeValidator(_bound), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _MOST_OF_ONE})
]
PositiveWhole = Annotated[int, BeforeValidator(_positive_whole), WithJsonSchema({"type": "integer", "minimum": 1})]
Text = Annotated[str, BeforeValidator(_text)]
Filled = Annotated[str, BeforeValidator(_filled), WithJsonSchema({"type": "string", "minLength": 1})]
Flag = Annotated[bool, BeforeValidator(true_or_false)]
AsWritten = Annotated[str, BeforeValidator(as_written), WithJsonSchema(_SCALAR)]
ColumnKey = Annotated[Key, BeforeValidator(_column_key), WithJsonSchema(_SCALAR)]
Limit = Annotated[int | str, BeforeValidator(_limit), WithJsonSchema({"type": ["integer", "string"]})]
Pair = Annotated[tuple[Exact, Exact], BeforeValidator(_two)]
# ``outside: null`` is the word, not nothing; an editor reads it as nothing.
Outside = Annotated[
    Literal["clamp", "null"], BeforeValidator(_outside), WithJsonSchema({"enum": ["clamp", "null", None]})
]
_NAME = "[a-z0-9][a-z0-9-]{0,62}"
ReleaseName = Annotated[
    str,
    BeforeValidator(lambda value: _matching(_NAME, "DPR-S211", "use a-z, 0-9 and -: regional-monitor")(_text(value))),
    Field(json_schema_extra={"pattern": f"^{_NAME}$"}),
]
_PERIOD = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_PERIOD_HINT = "write 2024, 2024-Q1, 2024-03 or the like: letters, digits, `.`, `_` and `-`, at most 64"


def _period(value: Any) -> str:
    """A period of the calendar, or a name that nobody can take for one."""
    text = _matching(_PERIOD, "DPR-S217", _PERIOD_HINT)(as_written(value))
    near = nearly(text)
    if near is not None:
        why, meant = near
        hint = f"write {meant}" if meant else f"write {CALENDAR}"
        says = f"is {shown(text)!r}, which is shaped like a period of the calendar and is none: {why}"
        raise refuse("DPR-S917", says, f"{hint}; or a name that is shaped otherwise, such as spring-2024 or 2024-2025")
    return text


Period = Annotated[
    str,
    BeforeValidator(_period),
    WithJsonSchema({**_SCALAR, "pattern": f"^{_PERIOD}$"}),
]
Version = Annotated[Literal[1], BeforeValidator(_whole)]
