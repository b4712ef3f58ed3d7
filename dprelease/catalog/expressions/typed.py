"""Typed steps of an expression: each function takes typed operands and gives a typed node, or says why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from dprelease.catalog.expressions.tree import FUNCTIONS, ExpressionError, Node, NodeKind
from dprelease.catalog.table import ColumnType

__all__ = [
    "arithmetic",
    "call",
    "case",
    "cast",
    "comparison",
    "contained",
    "day_literal",
    "is_between",
    "is_null",
    "logical",
    "negated",
    "negative",
]

_INT64 = 2**63
_MOST_BOUND = 10**6
_NOT_COMPARED: dict[ColumnType, str] = {
    "timestamp": "compare a part of it: CAST(x AS DATE), YEAR(x), MONTH(x) or DAY(x)",
    "boolean": "use = or <>, or the column by itself as a condition",
}
_INTO: dict[ColumnType, tuple[ColumnType, ...]] = {
    "integer": ("decimal", "text", "boolean"),
    "decimal": ("integer", "text", "boolean"),
    "text": ("integer", "decimal", "boolean", "date"),
    "boolean": ("integer", "decimal", "text"),
    "date": ("text",),
    "timestamp": ("date",),
}


def _is_null_literal(node: Node) -> bool:
    return node.kind == "literal" and node.value is None


def _known(nodes: Sequence[Node], what: str) -> None:
    if any(_is_null_literal(node) for node in nodes):
        raise ExpressionError(f"{what} cannot take NULL", "write x IS NULL, or COALESCE(x, value)")


def _number(node: Node, what: str) -> Node:
    """A number as a decimal."""
    _known((node,), what)
    if node.type not in ("integer", "decimal"):
        raise ExpressionError(
            f"{what} needs numbers, not {node.type}",
            "write CAST(x AS INTEGER) or CAST(x AS DECIMAL)" if node.type in ("text", "boolean") else "",
        )
    return _widened(node)


def _widened(node: Node) -> Node:
    return Node("widen", "decimal", (node,)) if node.type == "integer" else node


def _condition(node: Node, what: str) -> Node:
    _known((node,), what)
    if node.type != "boolean":
        raise ExpressionError(f"{what} needs true or false, not {node.type}", "write a comparison, such as x = 1")
    return node


def day_literal(text: str) -> Node:
    """A date constant from ``YYYY-MM-DD``.

    Raises:
        ExpressionError: If there is no such day.
    """
    shaped = len(text) == 10 and text.isascii() and text[4] == text[7] == "-"
    try:
        if not shaped or date.fromisoformat(text).isoformat() != text:
            raise ValueError
    except ValueError:
        raise ExpressionError(f"{text[:40]!r} is not a day", "write a date as '2024-03-31'") from None
    return Node("literal", "date", (), text)


def _unified(nodes: Sequence[Node], what: str) -> tuple[Node, ...]:
    """Operands of one type: integers beside decimals become decimals, text literals beside dates become dates."""
    types = {node.type for node in nodes if not _is_null_literal(node)}
    if not types:
        raise ExpressionError(f"{what} has no type: every part is NULL", "write CAST(NULL AS INTEGER), for example")
    if types == {"date", "text"}:
        nodes = [day_literal(str(node.value)) if _is_plain_text(node) else node for node in nodes]
        types = {node.type for node in nodes if not _is_null_literal(node)}
    if types == {"integer", "decimal"}:
        nodes = [node if _is_null_literal(node) else _widened(node) for node in nodes]
        types = {"decimal"}
    if len(types) > 1:
        raise ExpressionError(
            f"{what} mixes {' and '.join(sorted(types))}",
            "make them one type with CAST(x AS ...), or put text in quotes",
        )
    (kind,) = types
    return tuple(replace(node, type=kind) if _is_null_literal(node) else node for node in nodes)


def _is_plain_text(node: Node) -> bool:
    return node.kind == "literal" and node.type == "text" and node.value is not None


def _comparable(nodes: Sequence[Node], what: str, ordered: bool) -> tuple[Node, ...]:
    _known(nodes, what)
    if any(node.type == "timestamp" for node in nodes):
        raise ExpressionError(f"{what} cannot take a timestamp", _NOT_COMPARED["timestamp"])
    same = _unified(nodes, what)
    kind = same[0].type
    if ordered and kind == "boolean":
        raise ExpressionError(f"{what} cannot take a boolean", _NOT_COMPARED["boolean"])
    return same


def comparison(kind: NodeKind, left: Node, right: Node) -> Node:
    """``= <> < <= > >=`` of two values of one type; integers are compared exactly, with a decimal as doubles."""
    return Node(kind, "boolean", _comparable((left, right), f"{kind}", kind not in ("=", "<>")))


def is_between(value: Node, low: Node, high: Node) -> Node:
    """``value >= low AND value <= high``."""
    return Node("between", "boolean", _comparable((value, low, high), "BETWEEN", True))


def contained(value: Node, literals: Sequence[Node]) -> Node:
    """``value IN (literals)``."""
    return Node("in", "boolean", _comparable((value, *literals), "IN", False))


def is_null(value: Node) -> Node:
    """``value IS NULL``."""
    if _is_null_literal(value):
        raise ExpressionError("NULL IS NULL says nothing", "name a column")
    return Node("is_null", "boolean", (value,))


def logical(kind: NodeKind, operands: Sequence[Node]) -> Node:
    """AND or OR of conditions; nested ones of the same kind become one."""
    flat: list[Node] = []
    for operand in operands:
        _condition(operand, kind.upper())
        flat += operand.parts if operand.kind == kind else (operand,)
    return Node(kind, "boolean", tuple(flat))


def negated(operand: Node) -> Node:
    """NOT of a condition; a double one is none."""
    if _condition(operand, "NOT").kind == "not":
        return operand.parts[0]
    return Node("not", "boolean", (operand,))


def arithmetic(kind: NodeKind, left: Node, right: Node) -> Node:
    """``+ - * /`` in doubles; the result is a decimal."""
    return Node(kind, "decimal", (_number(left, kind), _number(right, kind)))


def negative(operand: Node) -> Node:
    """Minus a number; minus a number literal is a literal."""
    number = _number(operand, "-")
    if operand.kind == "literal" and isinstance(operand.value, int | float) and operand.value != -_INT64:
        return replace(operand, value=-operand.value + 0)
    return Node("negative", "decimal", (number,))


def case(conditions: Sequence[Node], values: Sequence[Node], otherwise: Node) -> Node:
    """The value of the first condition that is true."""
    for condition in conditions:
        _condition(condition, "WHEN")
    *same, last = _unified((*values, otherwise), "CASE")
    parts = tuple(part for pair in zip(conditions, same, strict=True) for part in pair)
    return Node("case", last.type, (*parts, last))


def cast(operand: Node, to: ColumnType) -> Node:
    """The same value as another type, null where it does not fit.

    Raises:
        ExpressionError: If no value of the one type is one of the other.
    """
    if _is_null_literal(operand):
        return Node("cast", to, (Node("literal", "text"),))
    if operand.type == to:
        return operand
    if to == "date" and _is_plain_text(operand):
        return day_literal(str(operand.value))
    if to not in _INTO[operand.type]:
        raise ExpressionError(
            f"{operand.type} cannot become {to}", f"{operand.type} becomes {' or '.join(_INTO[operand.type])}"
        )
    return Node("cast", to, (operand,))


def call(name: str, arguments: Sequence[Node]) -> Node:
    """A function of the allow-list, by its upper-case name.

    Raises:
        ExpressionError: If the number or a type of the arguments is wrong.
    """
    kind, fewest, most = FUNCTIONS[name]
    if not fewest <= len(arguments) <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise ExpressionError(
            f"{name} takes {wanted} argument{'s' * (most > 1)}, not {len(arguments)}", _ARITY_HINTS.get(name, "")
        )
    if kind == "coalesce":
        same = _unified(arguments, name)
        return Node(kind, same[0].type, same)
    if kind in ("nullif", "least", "greatest"):
        same = _comparable(arguments, name, kind != "nullif")
        return Node(kind, same[0].type, same)
    _known(arguments, name)
    if kind in ("abs", "round", "floor", "ceil"):
        return _rounded(kind, name, arguments[0])
    if kind in ("year", "month", "day"):
        _expect(name, arguments[0], ("date", "timestamp"))
        return Node(kind, "integer", tuple(arguments))
    return _of_text(kind, name, arguments)


_ARITY_HINTS = {
    "ROUND": "it rounds to a whole number; ROUND(x * 100) / 100 keeps two places",
    "FLOOR": "it gives a whole number",
    "CEIL": "it gives a whole number",
    "TRIM": "it takes blanks off both ends",
}


def _expect(name: str, argument: Node, types: tuple[ColumnType, ...]) -> None:
    if argument.type not in types:
        hint = "write DATE '2024-03-31' or CAST(x AS DATE)" if "date" in types else ""
        hint = "write CAST(x AS TEXT)" if types == ("text",) else hint
        raise ExpressionError(f"{name} takes {' or '.join(types)}, not {argument.type}", hint)


def _rounded(kind: NodeKind, name: str, argument: Node) -> Node:
    """To whole numbers that fit in 64 bits, else null; a size stays of its type."""
    _expect(name, argument, ("integer", "decimal"))
    if kind == "abs":
        return Node(kind, argument.type, (argument,))
    return argument if argument.type == "integer" else Node(kind, "integer", (argument,))


def _of_text(kind: NodeKind, name: str, arguments: Sequence[Node]) -> Node:
    _expect(name, arguments[0], ("text",))
    if kind == "starts_with":
        _expect(name, arguments[1], ("text",))
        return Node(kind, "boolean", tuple(arguments))
    if kind == "left":
        return Node(kind, "text", (arguments[0],), (0, _bound(name, arguments[1], 0)))
    if kind == "substring":
        start = _bound(name, arguments[1], 1) - 1
        length = _bound(name, arguments[2], 0) if len(arguments) == 3 else None
        return Node(kind, "text", (arguments[0],), (start, length))
    return Node(kind, "integer" if kind == "length" else "text", (arguments[0],))


def _bound(name: str, argument: Node, least: int) -> int:
    value = argument.value
    whole = argument.kind == "literal" and argument.type == "integer" and isinstance(value, int)
    if not whole or not isinstance(value, int) or not least <= value <= _MOST_BOUND:
        raise ExpressionError(f"{name} takes positions as whole numbers from {least} to {_MOST_BOUND}, written out")
    return value
