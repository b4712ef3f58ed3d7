"""What an expression means: its value for one row, in plain Python. Engines are tested against this."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from math import ceil, floor, isfinite, trunc
from typing import Any

from dprelease.catalog.expressions.tree import Node, Scalar
from dprelease.catalog.table import ColumnType

__all__ = [
    "BLANKS",
    "DATE_TEXT",
    "DAY",
    "FALSE_TEXT",
    "INTEGER_TEXT",
    "NUMBER_TEXT",
    "TRUE_TEXT",
    "letters",
    "value_of",
]

_INT64 = 2**63
BLANKS = " \t\n\v\f\r"

# Patterns for whole texts, in what Python and RE2 understand alike.
INTEGER_TEXT = r"[+-]?[0-9]+"
NUMBER_TEXT = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
TRUE_TEXT = "[Tt]|[Tt][Rr][Uu][Ee]|1"
FALSE_TEXT = "[Ff]|[Ff][Aa][Ll][Ss][Ee]|0"
DATE_TEXT = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}.*"  # a date or a timestamp; the dot matches line ends too

_Value = Scalar | None
_Row = Mapping[str, _Value]


_CASED = (range(0x590), range(0x1E00, 0x2000), range(0xFF00, 0xFFF0))


@cache
def letters(upper: bool) -> tuple[str, str]:
    """The characters that LOWER or UPPER changes, and what each becomes: one character for one, whatever is beside it.

    These are the simple case mappings of Unicode from and to the blocks up to U+058F (Latin, Greek, Cyrillic,
    Armenian), U+1E00 to U+1FFF (Vietnamese, old Greek) and U+FF00 to U+FFEF (wide letters), which do not change any
    more from one version of Unicode to the next. A sharp s is paired with U+1E9E.
    """
    found = {}
    for code in (code for block in _CASED for code in block):
        old = chr(code)
        new = _upper(old) if upper else old.lower()[:1]
        if new != old and any(ord(new) in block for block in _CASED):
            found[old] = new
    return "".join(found), "".join(found.values())


def _upper(letter: str) -> str:
    """Where the full mapping has several letters, the simple one is the title-case letter or the letter itself."""
    if letter == "\u00df":
        return "\u1e9e"
    return next((new for new in (letter.upper(), letter.title()) if len(new) == 1), letter)


@cache
def _case_map(upper: bool) -> dict[int, int]:
    return str.maketrans(*letters(upper))


def value_of(node: Node, row: _Row) -> _Value:
    """The value of a tree for one row; see :func:`dprelease.catalog.expressions.expression.evaluate`."""
    special = _SPECIAL.get(node.kind)
    if special is not None:
        return special(node, row)
    values = [value_of(part, row) for part in node.parts]
    if any(value is None for value in values):
        return None
    return _STRICT[node.kind](node, *values)


def _and(node: Node, row: _Row) -> _Value:
    values = [value_of(part, row) for part in node.parts]
    return False if False in values else None if None in values else True


def _or(node: Node, row: _Row) -> _Value:
    values = [value_of(part, row) for part in node.parts]
    return True if True in values else None if None in values else False


def _between(node: Node, row: _Row) -> _Value:
    value, low, high = (value_of(part, row) for part in node.parts)
    if value is None:
        return None
    outside = (low is not None and _less(value, low)) or (high is not None and _less(high, value))
    return False if outside else None if low is None or high is None else True


def _less(left: Any, right: Any) -> bool:
    return bool(left < right)


def _case(node: Node, row: _Row) -> _Value:
    parts = node.parts
    for at in range(0, len(parts) - 1, 2):
        if value_of(parts[at], row) is True:
            return value_of(parts[at + 1], row)
    return value_of(parts[-1], row)


def _coalesce(node: Node, row: _Row) -> _Value:
    values = (value_of(part, row) for part in node.parts)
    return next((value for value in values if value is not None), None)


def _nullif(node: Node, row: _Row) -> _Value:
    value, other = (value_of(part, row) for part in node.parts)
    return None if value == other else value


_SPECIAL: dict[str, Callable[[Node, _Row], _Value]] = {
    "literal": lambda node, row: node.value if not isinstance(node.value, tuple) else None,
    "column": lambda node, row: row[str(node.value)],
    "is_null": lambda node, row: value_of(node.parts[0], row) is None,
    "and": _and,
    "or": _or,
    "between": _between,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
}


def _finite(value: float) -> float | None:
    return value + 0.0 if isfinite(value) else None


def _whole(value: float, rounded: Callable[[float], int]) -> int | None:
    whole = rounded(value)
    return whole if -_INT64 <= whole < _INT64 else None


def _nearest(value: float) -> int:
    """Halves away from zero; the fraction of a double is exact."""
    whole = trunc(value)
    return whole + (1 if value > 0 else -1) * (abs(value - whole) >= 0.5)


def _absolute(value: Any) -> Any:
    return None if value == -_INT64 and isinstance(value, int) else abs(value)


def _substring(node: Node, text: str) -> str:
    start, length = node.value if isinstance(node.value, tuple) else (0, None)
    return text[start:] if length is None else text[start : start + length]


def _part_of_day(start: int, end: int) -> Callable[[Node, str], int | None]:
    def read(_: Node, text: str) -> int | None:
        return int(text[start:end]) if re.fullmatch(DAY, text, re.DOTALL) else None

    return read


def _cast(node: Node, value: Any) -> _Value:
    return _CASTS[node.parts[0].type, node.type](value)


def _text_to_integer(text: str) -> int | None:
    digits = text.strip(BLANKS)
    if not re.fullmatch(INTEGER_TEXT, digits):
        return None
    sign, size = digits[0] == "-", digits.lstrip("+-").lstrip("0")
    if len(size) > 19:  # int() refuses thousands of digits
        return None
    value = -int(size or "0") if sign else int(size or "0")
    return value if -_INT64 <= value < _INT64 else None


def _text_to_decimal(text: str) -> float | None:
    digits = text.strip(BLANKS)
    return _finite(float(digits)) if re.fullmatch(NUMBER_TEXT, digits) else None


def _text_to_boolean(text: str) -> bool | None:
    word = text.strip(BLANKS)
    return True if re.fullmatch(TRUE_TEXT, word) else False if re.fullmatch(FALSE_TEXT, word) else None


def _text_to_date(text: str) -> str | None:
    day = text.strip(BLANKS)
    if not re.fullmatch(DATE_TEXT, day):
        return None
    try:
        date.fromisoformat(day)
    except ValueError:
        return None
    return day


def _decimal_to_text(value: float) -> str:
    """Digits alone where it is whole and fits in 64 bits, else the shortest digits that give the double back."""
    return str(int(value)) if value.is_integer() and -_INT64 <= value < _INT64 else repr(value)


def _to_boolean(value: float) -> bool | None:
    return {0: False, 1: True}.get(value)  # type: ignore[call-overload, no-any-return]


_CASTS: dict[tuple[ColumnType, ColumnType], Callable[[Any], _Value]] = {
    ("integer", "decimal"): float,
    ("integer", "text"): str,
    ("integer", "boolean"): _to_boolean,
    ("decimal", "integer"): lambda value: _whole(value, int) if value.is_integer() else None,
    ("decimal", "text"): _decimal_to_text,
    ("decimal", "boolean"): _to_boolean,
    ("text", "integer"): _text_to_integer,
    ("text", "decimal"): _text_to_decimal,
    ("text", "boolean"): _text_to_boolean,
    ("text", "date"): _text_to_date,
    ("text", "text"): str,
    ("boolean", "integer"): int,
    ("boolean", "decimal"): float,
    ("boolean", "text"): lambda value: str(value).lower(),
    ("date", "text"): str,
    ("timestamp", "date"): lambda value: _text_to_date(value[:10]),
}

_STRICT: dict[str, Callable[..., _Value]] = {
    "widen": lambda _, value: float(value),
    "not": lambda _, value: not value,
    "in": lambda _, value, *listed: value in listed,
    "=": lambda _, left, right: left == right,
    "<>": lambda _, left, right: left != right,
    "<": lambda _, left, right: left < right,
    "<=": lambda _, left, right: left <= right,
    ">": lambda _, left, right: left > right,
    ">=": lambda _, left, right: left >= right,
    "+": lambda _, left, right: _finite(left + right),
    "-": lambda _, left, right: _finite(left - right),
    "*": lambda _, left, right: _finite(left * right),
    "/": lambda _, left, right: _finite(left / right) if right else None,
    "negative": lambda _, value: 0.0 - value,
    "cast": _cast,
    "abs": lambda _, value: _absolute(value),
    "round": lambda _, value: _whole(value, _nearest),
    "floor": lambda _, value: _whole(value, floor),
    "ceil": lambda _, value: _whole(value, ceil),
    "least": lambda _, *values: min(values),
    "greatest": lambda _, *values: max(values),
    "lower": lambda _, text: text.translate(_case_map(False)),
    "upper": lambda _, text: text.translate(_case_map(True)),
    "trim": lambda _, text: text.strip(BLANKS),
    "length": lambda _, text: len(text),
    "left": _substring,
    "substring": _substring,
    "starts_with": lambda _, text, start: text.startswith(start),
    "year": _part_of_day(0, 4),
    "month": _part_of_day(5, 7),
    "day": _part_of_day(8, 10),
}
