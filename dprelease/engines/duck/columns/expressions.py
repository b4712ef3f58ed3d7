"""A row-wise expression as an Ibis expression that no value of a row can make fail.

Every step is total by itself: casts are TRY_CAST or come after a test that holds them in range, arithmetic is of
doubles alone, no integer is ever added or multiplied. It equals ``tests.reference_expressions.evaluate`` on every
row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub, truediv
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
    Node,
    letters,
)
from dprelease.catalog.table import ColumnType
from dprelease.engines.drivers import ibis

__all__ = ["double", "to_ibis"]

_IBIS: dict[ColumnType, str] = {
    "text": "string",
    "integer": "int64",
    "decimal": "float64",
    "boolean": "boolean",
    "date": "string",
    "timestamp": "string",
}
_LARGEST = float(2**53 - 1) * 2.0**971  # the largest double
# What is not in these blocks may have a partner in the engine and none in ``letters``, now or in a later version:
# letters for sounds, Georgian, Cherokee, Coptic, Roman numbers, letters in circles and what is added to Unicode next.
_SAME_LETTERS = (
    *(
        (0x0, 0x19A),
        (0x19C, 0x239),
        (0x23B, 0x23D),
        (0x241, 0x24F),
        (0x2B0, 0x109F),
        (0x1100, 0x139F),
        (0x1400, 0x1C7F),
    ),
    *((0x1E00, 0x2125), (0x2190, 0x24B5), (0x24EA, 0x2BFF), (0x2E00, 0xA63F), (0xAC00, 0xD7FF), (0xE000, 0xFFFF)),
    *((0x1F000, 0x1FAFF), (0x20000, 0x3FFFF)),
)
_OTHER_LETTERS = "[^" + "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in _SAME_LETTERS) + "]"
_WIDEST = float(2**63 - 1024)  # the largest double that fits in 64 bits; the least is -2^63

Column = Callable[[str], Any]
_COMPARING = frozenset({"=", "<>", "<", "<=", ">", ">=", "between", "in", "is_null"})
_SIMPLE = frozenset({"column", "literal"})


def to_ibis(expression: Expression, column: Column, known: dict[Node, Any] | None = None) -> Any:
    """Compile an expression.

    Args:
        expression: What to compute.
        column: Gives the Ibis column of a name, of the type of ``rows.ARROW``; decimals are finite.
        known: What comparisons of a column came to in other expressions of the same columns; those of this one are
            added. A thousand conditions compare the same columns with the same keys.

    Returns:
        An Ibis value of the type of ``rows.ARROW`` for the type of the expression; null where it is null.
    """
    return _value(expression.root, column, {} if known is None else known)


def _value(node: Node, column: Column, known: dict[Node, Any]) -> Any:
    """A step whose result is what it means: finite, and no minus zero."""
    if node.kind in _ARITHMETIC:
        return _finite(_loose(node, column, known))
    if node.kind == "column":
        return column(str(node.value))
    if node.kind == "literal":
        return _literal(node)
    if not (node.kind in _COMPARING and all(part.kind in _SIMPLE for part in node.parts)):
        return _STEPS[node.kind](node, *(_value(part, column, known) for part in node.parts))
    if (found := known.get(node)) is None:  # equal ones compare alike, also with 0.0 and with -0.0
        found = known[node] = _STEPS[node.kind](node, *(_value(part, column, known) for part in node.parts))
    return found


def _loose(node: Node, column: Column, known: dict[Node, Any]) -> Any:
    """Arithmetic that may be infinite or NaN, but only where it means null.

    An operand of ``+ - *`` or a numerator that is not finite makes the result not finite, so one test at the top
    of a run of them is enough, and no text doubles at every step. A denominator is tested: x / inf is finite.
    """
    if node.kind not in _ARITHMETIC:
        return _value(node, column, known)
    if node.kind == "negative":
        return double(0.0) - _loose(node.parts[0], column, known)
    left = _loose(node.parts[0], column, known)
    if node.kind != "/":
        return _ARITHMETIC[node.kind](left, _loose(node.parts[1], column, known))
    right = _loose(node.parts[1], column, known)
    return left / ibis.ifelse((right.abs() <= double(_LARGEST)) & (right != double(0.0)), right, _null("decimal"))


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul, "/": truediv, "negative": sub}


def _finite(value: Any) -> Any:
    return ibis.ifelse(value.abs() <= double(_LARGEST), value + double(0.0), _null("decimal"))


def double(value: float) -> Any:
    """A double constant, from its shortest digits: a bare number would be a decimal in some engines."""
    return ibis.literal(repr(value)).cast("float64")


def _null(kind: ColumnType) -> Any:
    return ibis.null(_IBIS[kind])


def _literal(node: Node) -> Any:
    if node.value is None:
        return _null(node.type)
    if isinstance(node.value, float):
        return double(node.value)
    return ibis.literal(node.value, type=_IBIS[node.type])


def _case(node: Node, *parts: Any) -> Any:
    branches = [(parts[at], parts[at + 1]) for at in range(0, len(parts) - 1, 2)]
    return ibis.cases(*branches, else_=parts[-1])


def _extreme(choose: str) -> Callable[..., Any]:
    def step(node: Node, *parts: Any) -> Any:
        known = reduce(and_, (part.notnull() for part in parts))
        return ibis.ifelse(known, getattr(ibis, choose)(*parts), _null(node.type))

    return step


def _absolute(node: Node, value: Any) -> Any:
    """128 bits hold the size of -2^63; it does not fit back into 64 and is null."""
    return value.cast("decimal(38, 0)").abs().try_cast("int64") if node.type == "integer" else value.abs()


def _in_range(value: Any) -> Any:
    """Doubles that are within 64 bits when they are rounded in any way, else null."""
    return ibis.ifelse(value.between(double(-(2.0**63)), double(_WIDEST)), value, _null("decimal"))


def _substring(node: Node, text: Any) -> Any:
    start, length = node.value if isinstance(node.value, tuple) else (0, None)
    return text.substr(start) if length is None else text.substr(start, length)


def _cased(upper: bool) -> Callable[..., Any]:
    """The engine's own mapping where it is known to be ours; the table, which is slow, for texts with other letters."""

    def step(_: Node, text: Any) -> Any:
        return ibis.ifelse(
            text.re_search(_OTHER_LETTERS), text.translate(*letters(upper)), text.upper() if upper else text.lower()
        )

    return step


def _is(text: Any, pattern: str) -> Any:
    """Whether a whole text, without the blanks around it, is of a pattern."""
    return text.re_search(f"^[{BLANKS}]*(?:{pattern})[{BLANKS}]*$")


def _part_of_day(start: int, length: int) -> Callable[..., Any]:
    def step(_: Node, text: Any) -> Any:
        whole = ibis.ifelse(text.re_search(f"^(?s:{DAY})$"), text, _null("text"))
        return whole.substr(start, length).try_cast("int64")

    return step


def _text_to_decimal(text: Any) -> Any:
    return _finite(_only(text, NUMBER_TEXT).try_cast("float64"))


def _only(text: Any, pattern: str) -> Any:
    """The text without blanks around it where it is of a pattern, else null."""
    return ibis.ifelse(_is(text, pattern), text.strip(), _null("text"))


def _text_to_date(text: Any) -> Any:
    day = _only(text, f"(?:{DATE_TEXT})")
    real = day.try_cast("date").notnull() & ~day.startswith("0000")
    return ibis.ifelse(real, day, _null("text"))


def _text_to_boolean(text: Any) -> Any:
    return ibis.cases((_is(text, TRUE_TEXT), True), (_is(text, FALSE_TEXT), False), else_=_null("boolean"))


def _to_boolean(value: Any) -> Any:
    return ibis.cases((value == 1, True), (value == 0, False), else_=_null("boolean"))


def _decimal_to_integer(value: Any) -> Any:
    inside = _in_range(value)
    whole = inside.floor()
    return ibis.ifelse(whole.cast("float64") == inside, whole, _null("integer"))


def _decimal_to_text(value: Any) -> Any:
    return ibis.coalesce(_decimal_to_integer(value).cast("string"), value.cast("string"))


_CASTS: dict[tuple[ColumnType, ColumnType], Callable[[Any], Any]] = {
    ("integer", "decimal"): lambda value: value.cast("float64"),
    ("integer", "text"): lambda value: value.cast("string"),
    ("integer", "boolean"): _to_boolean,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "text"): _decimal_to_text,
    ("decimal", "boolean"): _to_boolean,
    ("text", "integer"): lambda text: _only(text, INTEGER_TEXT).try_cast("int64"),
    ("text", "decimal"): _text_to_decimal,
    ("text", "boolean"): _text_to_boolean,
    ("text", "date"): _text_to_date,
    ("text", "text"): lambda text: text,
    ("boolean", "integer"): lambda value: value.cast("int64"),
    ("boolean", "decimal"): lambda value: value.cast("float64"),
    ("boolean", "text"): lambda value: ibis.cases((value, "true"), (~value, "false"), else_=_null("text")),
    ("date", "text"): lambda text: text,
    ("timestamp", "date"): lambda text: _text_to_date(text.substr(0, 10)),
}


def _cast(node: Node, value: Any) -> Any:
    operand = node.parts[0]
    if operand.kind == "literal" and operand.value is None:
        return _null(node.type)
    return _CASTS[operand.type, node.type](value)


_STEPS: dict[str, Callable[..., Any]] = {
    "widen": lambda _, value: value.cast("float64"),
    "or": lambda _, *parts: reduce(or_, parts),
    "and": lambda _, *parts: reduce(and_, parts),
    "not": lambda _, value: ~value,
    "is_null": lambda _, value: value.isnull(),
    "in": lambda _, value, *listed: value.isin(listed),
    "between": lambda _, value, low, high: value.between(low, high),
    "=": lambda _, left, right: eq(left, right),
    "<>": lambda _, left, right: ne(left, right),
    "<": lambda _, left, right: lt(left, right),
    "<=": lambda _, left, right: le(left, right),
    ">": lambda _, left, right: gt(left, right),
    ">=": lambda _, left, right: ge(left, right),
    "case": _case,
    "cast": _cast,
    "coalesce": lambda _, *parts: ibis.coalesce(*parts),
    "nullif": lambda _, value, other: value.nullif(other),
    "abs": _absolute,
    "round": lambda _, value: _in_range(value).round(),
    "floor": lambda _, value: _in_range(value).floor(),
    "ceil": lambda _, value: _in_range(value).ceil(),
    "least": _extreme("least"),
    "greatest": _extreme("greatest"),
    "lower": _cased(False),
    "upper": _cased(True),
    "trim": lambda _, text: text.strip(),
    "length": lambda _, text: text.length().cast("int64"),
    "left": _substring,
    "substring": _substring,
    "starts_with": lambda _, text, start: text.startswith(start),
    "year": _part_of_day(0, 4),
    "month": _part_of_day(5, 2),
    "day": _part_of_day(8, 2),
}
