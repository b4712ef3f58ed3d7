"""Row-wise expressions for ``where`` and computed columns: total functions of one row, and nothing else.

An expression is read once into an own typed tree through an allow-list, has one canonical text that a plan can
store, and has one meaning, :func:`evaluate`, that every engine must agree with on every row. Nothing in it can
fail because of a value, read anything but the declared columns of its row, or change anything.

>>> adult = parse("age>=18 and not (sex = 'x')", {"age": "integer", "sex": "text"})
>>> adult.text, adult.type, sorted(adult.columns)
("age >= 18 AND NOT sex = 'x'", 'boolean', ['age', 'sex'])
>>> evaluate(adult, {"age": 20, "sex": "f"}), evaluate(adult, {"age": 20, "sex": None})
(True, None)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dprelease.catalog.expressions.parse import read
from dprelease.catalog.expressions.tree import (
    MOST_CHARACTERS,
    ExpressionError,
    Node,
    Scalar,
    canonical,
    columns_of,
)
from dprelease.catalog.expressions.value import value_of
from dprelease.catalog.table import ColumnType

__all__ = ["Expression", "ExpressionError", "Node", "Scalar", "evaluate", "parse"]


@dataclass(frozen=True)
class Expression:
    """A row-wise expression.

    Attributes:
        root: Its tree. Two expressions are equal if their trees are.
    """

    root: Node

    @property
    def type(self) -> ColumnType:
        """The type of its result."""
        return self.root.type

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return columns_of(self.root)

    @cached_property
    def text(self) -> str:
        """Canonical text: under the same column types, :func:`parse` reads it back as an equal expression."""
        return canonical(self.root)


def parse(text: str, types: Mapping[str, ColumnType]) -> Expression:
    """Read an expression.

    Allowed are columns, constants, ``= <> < <= > >= AND OR NOT``, ``IS [NOT] NULL``, ``[NOT] IN``,
    ``[NOT] BETWEEN``, ``+ - * /``, CASE WHEN, CAST and the functions of ``expression_tree.FUNCTIONS``.

    Args:
        text: SQL text of at most 4,000 characters.
        types: Declared columns that it may read; names are compared exactly.

    Raises:
        ExpressionError: If anything in it is not allowed, or the types do not fit.
    """
    expression = Expression(read(text, types))
    if len(expression.text) > MOST_CHARACTERS:
        raise ExpressionError(f"written out it is longer than {MOST_CHARACTERS} characters")
    return expression


def evaluate(expression: Expression, row: Mapping[str, Scalar | None]) -> Scalar | None:
    """The value of an expression for one row; this is what it means.

    - A null operand makes the result null, except in AND, OR, IS NULL, COALESCE, CASE and the second operand of
      NULLIF. LEAST and GREATEST of a null are null (SQL:2023, T054).
    - ``+ - * /`` and minus are of doubles; a result that is not finite, and a division by zero, is null.
    - Integers are compared exactly, an integer beside a decimal as the nearest double, text by code point, dates as
      days.
    - ROUND (halves away from zero), FLOOR and CEIL give integers, null outside 64 bits.
    - Texts are sequences of code points. TRIM takes off blanks, tabs and line ends. LOWER and UPPER change each
      Latin, Greek, Cyrillic, Armenian and wide letter by itself, as ``expression_value.letters`` lists, and nothing
      else.
    - CAST gives null where a value does not fit: an integer from a decimal only where that is whole, from text only
      digits with a sign; booleans from 1, 0, and from the texts true, false, t, f, 1, 0 in any case; a date from
      text only where there is such a day; a date from a timestamp is the day as it is written.
    - No result is minus zero.

    Args:
        expression: What to compute.
        row: A value for every column of the expression: text, date and timestamp as ``str`` (the latter two in ISO
            form), integer as ``int`` of 64 bits, decimal as finite ``float``, boolean as ``bool``.

    Returns:
        A value of the type of the expression, or None for null. ``where`` treats null as false.
    """
    return value_of(expression.root, row)
