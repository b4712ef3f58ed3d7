"""The tree of a row-wise expression: a closed set of node kinds, typed, frozen, small, with one canonical text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from dprelease.catalog.table import ColumnType

__all__ = [
    "CASTS",
    "FUNCTIONS",
    "KEYWORDS",
    "MOST_CHARACTERS",
    "MOST_DEPTH",
    "MOST_LISTED",
    "MOST_NODES",
    "MOST_UNFOLDED",
    "ExpressionError",
    "Node",
    "NodeKind",
    "Scalar",
    "canonical",
    "columns_read",
]

Scalar = int | float | bool | str

MOST_CHARACTERS = 4000
MOST_DEPTH = 32
MOST_NODES = 500
MOST_LISTED = 1000  # in one IN list
MOST_UNFOLDED = 2000  # steps of the text that an engine gets, where operands may stand more than once

NodeKind = Literal[
    "literal", "column", "widen",
    "or", "and", "not", "is_null", "in", "between", "=", "<>", "<", "<=", ">", ">=",
    "+", "-", "*", "/", "negative", "case", "cast",
    "coalesce", "nullif", "abs", "round", "floor", "ceil", "least", "greatest",
    "lower", "upper", "trim", "length", "left", "substring", "starts_with", "year", "month", "day",
]  # fmt: skip

# Name as written to (node kind, fewest arguments, most arguments).
FUNCTIONS: dict[str, tuple[NodeKind, int, int]] = {
    "COALESCE": ("coalesce", 1, 50),
    "NULLIF": ("nullif", 2, 2),
    "ABS": ("abs", 1, 1),
    "ROUND": ("round", 1, 1),
    "FLOOR": ("floor", 1, 1),
    "CEIL": ("ceil", 1, 1),
    "LEAST": ("least", 1, 50),
    "GREATEST": ("greatest", 1, 50),
    "LOWER": ("lower", 1, 1),
    "UPPER": ("upper", 1, 1),
    "TRIM": ("trim", 1, 1),
    "LENGTH": ("length", 1, 1),
    "LEFT": ("left", 2, 2),
    "SUBSTRING": ("substring", 2, 3),
    "STARTS_WITH": ("starts_with", 2, 2),
    "YEAR": ("year", 1, 1),
    "MONTH": ("month", 1, 1),
    "DAY": ("day", 1, 1),
}
KEYWORDS = frozenset(
    """AND OR NOT IS NULL IN BETWEEN CASE WHEN THEN ELSE END TRUE FALSE CAST TRY_CAST AS""".split()  # noqa: SIM905 - a list of forty quoted words is harder to read
)
CASTS: dict[str, ColumnType] = {
    "INTEGER": "integer",
    "DECIMAL": "decimal",
    "TEXT": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
}

# How often an engine that has no variables writes the operand of a step (see engines/duck/columns/expressions.py).
_WRITTEN: dict[NodeKind, int] = {
    "nullif": 2, "round": 2, "floor": 2, "ceil": 2, "least": 2, "greatest": 2, "lower": 3, "upper": 3,
    "left": 2, "substring": 2, "year": 4, "month": 4, "day": 4,
}  # fmt: skip
_CAST_WRITTEN: dict[tuple[ColumnType, ColumnType], int] = {
    ("integer", "boolean"): 2, ("decimal", "boolean"): 2, ("decimal", "integer"): 6, ("decimal", "text"): 7,
    ("text", "integer"): 2, ("text", "decimal"): 4, ("text", "boolean"): 2, ("text", "date"): 6,
    ("timestamp", "date"): 12, ("boolean", "text"): 2,
}  # fmt: skip
_ARITHMETIC = ("+", "-", "*", "/", "negative")


class ExpressionError(ValueError):
    """An expression that is refused. The text is public: it is the author's, and the message may quote it.

    Args:
        summary: What is wrong, in one line.
        hint: What to type instead; may be empty.
    """

    def __init__(self, summary: str, hint: str = "") -> None:
        super().__init__(f"{summary}: {hint}" if hint else summary)
        self.summary = summary
        self.hint = hint


@dataclass(frozen=True)
class Node:
    """One step of an expression.

    Attributes:
        kind: Which step.
        type: The type of its result.
        parts: Its operands. ``case``: condition, value, condition, value, ..., value otherwise.
            ``in``: what is looked for, then literals. ``widen``: an integer that is read as a decimal.
        value: ``literal``: the value, or None for null. ``column``: its name. ``left``: (0, characters).
            ``substring``: (characters before, characters or None).

    Raises:
        ExpressionError: If the tree under it exceeds a limit.
    """

    kind: NodeKind
    type: ColumnType
    parts: tuple[Node, ...] = ()
    value: Scalar | tuple[int, int | None] | None = None
    depth: int = field(init=False, compare=False, repr=False)
    size: int = field(init=False, compare=False, repr=False)
    unfolded: int = field(init=False, compare=False, repr=False)
    loose: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        counted = self.parts[:1] if self.kind == "in" else self.parts
        own = 0 if self.kind == "widen" else 1
        depth = own + max((part.depth for part in counted), default=0)
        size = own + sum(part.size for part in counted)
        unfolded, loose = self._written(counted)
        if depth > MOST_DEPTH:
            raise ExpressionError(
                f"it is nested deeper than {MOST_DEPTH} steps", "add columns step by step, or put parts in parentheses"
            )
        if size > MOST_NODES:
            raise ExpressionError(f"it has more than {MOST_NODES} parts", "compute parts of it in columns of their own")
        if unfolded > MOST_UNFOLDED:
            raise ExpressionError("it is too deeply nested", "compute the inner parts in columns of their own")
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "unfolded", unfolded)
        object.__setattr__(self, "loose", loose)

    def _written(self, parts: tuple[Node, ...]) -> tuple[int, int]:
        """The steps that an engine writes for it, and for it as part of a longer run of arithmetic.

        A run of arithmetic is written twice, once to test that it is finite; a denominator three times.
        """
        if self.kind in _ARITHMETIC:
            often = (1, 3) if self.kind == "/" else (1, 1)
            loose = 1 + sum(times * part.loose for times, part in zip(often, parts, strict=False))
            return 2 * loose + 1, loose
        if self.kind == "in":  # what is listed is short
            counted = 1 + parts[0].unfolded + (len(self.parts) - 1) // 4
            return counted, counted
        often_each = _WRITTEN.get(self.kind, 1)
        if self.kind == "cast":
            often_each = _CAST_WRITTEN.get((parts[0].type, self.type), 1)
        unfolded = 1 + often_each * sum(part.unfolded for part in parts)
        return unfolded, unfolded


def columns_read(node: Node) -> frozenset[str]:
    """The names of all columns in a tree."""
    if node.kind == "column":
        return frozenset((str(node.value),))
    return frozenset().union(*(columns_read(part) for part in node.parts))


_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BINDING: dict[NodeKind, int] = {
    "or": 1, "and": 2, "not": 3, "is_null": 4, "in": 4, "between": 4, "=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4,
    ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6, "negative": 7,
}  # fmt: skip
_ATOM = 8


def canonical(node: Node) -> str:
    """The one text of a tree: upper-case words, single blanks, no parenthesis that is not needed.

    Strings are in single quotes and odd names in double ones, both doubled inside; decimals are the shortest
    digits of the double.
    """
    write = _WRITERS.get(node.kind)
    if write is not None:
        return write(node)
    if node.kind in _BINDING:
        return _operation(node)
    arguments = ", ".join([canonical(part) for part in node.parts] + _bounds(node))
    return f"{node.kind.upper()}({arguments})"


def _bounds(node: Node) -> list[str]:
    if node.kind == "left" and isinstance(node.value, tuple):
        return [str(node.value[1])]
    if node.kind == "substring" and isinstance(node.value, tuple):
        start, length = node.value
        return [str(start + 1), *([] if length is None else [str(length)])]
    return []


def _within(node: Node, least: int) -> str:
    """The text of an operand, in parentheses where it binds less tightly than it must."""
    while node.kind == "widen":
        node = node.parts[0]
    binding = _BINDING.get(node.kind, _ATOM)
    if node.kind == "literal" and isinstance(node.value, int | float) and node.value < 0:
        binding = _BINDING["negative"]
    if node.kind == "not" and node.parts[0].kind in ("is_null", "in", "between"):
        binding = 4
    text = canonical(node)
    return text if binding >= least else f"({text})"


def _operation(node: Node) -> str:
    binding = _BINDING[node.kind]
    if node.kind in ("or", "and"):
        return f" {node.kind.upper()} ".join(_within(part, binding + 1) for part in node.parts)
    if node.kind == "not":
        if node.parts[0].kind in ("is_null", "in", "between"):
            return _predicate(node.parts[0], " NOT")
        return f"NOT {_within(node.parts[0], 4)}"
    if node.kind == "negative":
        return f"-{_within(node.parts[0], _ATOM)}"
    if binding == 4:
        return _predicate(node, "")
    left, right = node.parts
    return f"{_within(left, binding)} {node.kind} {_within(right, binding + 1)}"


def _predicate(node: Node, negation: str) -> str:
    first, *rest = (_within(part, 5) for part in node.parts)
    if node.kind == "is_null":
        return f"{first} IS{negation} NULL"
    if node.kind == "in":
        return f"{first}{negation} IN ({', '.join(rest)})"
    if node.kind == "between":
        return f"{first}{negation} BETWEEN {rest[0]} AND {rest[1]}"
    return f"{first} {node.kind} {rest[0]}"


def _literal(node: Node) -> str:
    value = node.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        quoted = "'" + value.replace("'", "''") + "'"
        return f"DATE {quoted}" if node.type == "date" else quoted
    return repr(value)


def _column(node: Node) -> str:
    name = str(node.value)
    if _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _case(node: Node) -> str:
    texts = [canonical(part) for part in node.parts]
    branches = [f"WHEN {texts[at]} THEN {texts[at + 1]}" for at in range(0, len(texts) - 1, 2)]
    return " ".join(["CASE", *branches, "ELSE", texts[-1], "END"])


def _cast(node: Node) -> str:
    return f"CAST({canonical(node.parts[0])} AS {node.type.upper()})"


_WRITERS: dict[NodeKind, Callable[[Node], str]] = {
    "literal": _literal,
    "column": _column,
    "case": _case,
    "cast": _cast,
    "widen": lambda node: canonical(node.parts[0]),
}
