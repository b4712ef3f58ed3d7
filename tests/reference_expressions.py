"""The value of an expression for one row, in plain Python: what every engine is tested against."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from math import ceil, floor, isfinite, trunc
from typing import Any

from dprelease.catalog.expressions.expression import (
    BLANKS,
    DATE_TEXT,
    DAY,
    FALSE_TEXT,
    INTEGER_TEXT,
    NUMBER_TEXT,
    TRUE_TEXT,
    Expression,
    letters,
)
from dprelease.catalog.expressions.tree import Node, Scalar
from dprelease.catalog.table import ColumnType

__all__ = ["evaluate", "value_of"]

_INT64 = 2**63


_Value = Scalar | None


_Row = Mapping[str, _Value]


@cache
def _case_map(upper: bool) -> dict[int, int]:
    return str.maketrans(*letters(upper))


def value_of(node: Node, row: _Row) -> _Value:
    """The value of a tree for one row; see :func:`tests.reference_expressions.evaluate`."""
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


def evaluate(expression: Expression, row: Mapping[str, Scalar | None]) -> Scalar | None:
    """The value of an expression for one row; what :class:`Expression` says that it means.

    Args:
        expression: What to compute.
        row: A value for every column of the expression: text, date and timestamp as ``str`` (the latter two in ISO
            form), integer as ``int`` of 64 bits, decimal as finite ``float``, boolean as ``bool``.

    Returns:
        A value of the type of the expression, or None for null. ``where`` treats null as false.
    """
    return value_of(expression.root, row)
