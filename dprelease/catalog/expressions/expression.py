"""Row-wise expressions for ``where`` and computed columns: total functions of one row, and nothing else.

An expression is read once into an own typed tree through an allow-list, has one canonical text that a plan can
store, and has one meaning (see :class:`Expression`), that every engine must agree with on every row. Nothing in it can
fail because of a value, read anything but the declared columns of its row, or change anything.

>>> adult = parse("age>=18 and not (sex = 'x')", {"age": "integer", "sex": "text"})
>>> adult.text, adult.type, sorted(adult.columns)
("age >= 18 AND NOT sex = 'x'", 'boolean', ['age', 'sex'])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

from dprelease.catalog.expressions.parse import parse_tree
from dprelease.catalog.expressions.tree import (
    MOST_CHARACTERS,
    ExpressionError,
    Node,
    NodeKind,
    Scalar,
    canonical,
    columns_read,
)
from dprelease.catalog.table import ColumnType

__all__ = [
    "BLANKS",
    "DATE_TEXT",
    "DAY",
    "FALSE_TEXT",
    "INTEGER_TEXT",
    "NUMBER_TEXT",
    "TRUE_TEXT",
    "Expression",
    "ExpressionError",
    "Node",
    "Scalar",
    "both_hold",
    "known_where",
    "letters",
    "parse",
]


@dataclass(frozen=True)
class Expression:
    """A row-wise expression. Its value for one row is as follows; ``where`` treats null as false.

    - A null operand makes the result null, except in AND, OR, IS NULL, COALESCE, CASE and the second operand of
      NULLIF. LEAST and GREATEST of a null are null (SQL:2023, T054).
    - ``+ - * /`` and minus are of doubles; a result that is not finite, and a division by zero, is null.
    - Integers are compared exactly, an integer beside a decimal as the nearest double, text by code point, dates as
      days.
    - ROUND (halves away from zero), FLOOR and CEIL give integers, null outside 64 bits.
    - Texts are sequences of code points. TRIM takes off blanks, tabs and line ends. LOWER and UPPER change each
      Latin, Greek, Cyrillic, Armenian and wide letter by itself, as ``expression.letters`` lists, and nothing
      else.
    - CAST gives null where a value does not fit: an integer from a decimal only where that is whole, from text only
      digits with a sign; booleans from 1, 0, and from the texts true, false, t, f, 1, 0 in any case; a date from
      text only where there is such a day; a date from a timestamp is the day as it is written.
    - No result is minus zero.

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
        return columns_read(self.root)

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
    return _parsed(text, tuple(types.items()))


@lru_cache(maxsize=1 << 14)  # of 10,000 conditions, read one after the other, a smaller cache finds none again
def _parsed(text: str, types: tuple[tuple[str, ColumnType], ...]) -> Expression:
    """Once for the same text: a spec's conditions are checked, and then planned."""
    expression = Expression(parse_tree(text, dict(types)))
    if len(expression.text) > MOST_CHARACTERS:
        raise ExpressionError(f"written out it is longer than {MOST_CHARACTERS} characters")
    return expression


def both_hold(first: str | None, second: str | None, types: Mapping[str, ColumnType]) -> str | None:
    """The canonical text of the filter that keeps what both keep; a row of which one says null is kept by neither.

    Raises:
        ExpressionError: If it would be too long.
    """
    if first is None or second is None:
        return first or second
    return parse(f"({first}) AND ({second})", types).text


BLANKS = " \t\n\v\f\r"
# Patterns for whole texts, in what Python and RE2 understand alike.
INTEGER_TEXT = r"[+-]?[0-9]+"
NUMBER_TEXT = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
TRUE_TEXT = "[Tt]|[Tt][Rr][Uu][Ee]|1"
FALSE_TEXT = "[Ff]|[Ff][Aa][Ll][Ss][Ee]|0"
DATE_TEXT = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}.*"  # a date or a timestamp; the dot matches line ends too
_CASED = (range(0x590), range(0x1E00, 0x2000), range(0xFF00, 0xFFF0))


@cache
def letters(upper: bool) -> tuple[str, str]:
    """The characters that LOWER or UPPER changes, and what each becomes: one character for one, whatever is beside it.

    These are the simple case mappings of Unicode from and to the blocks up to U+058F (Latin, Greek, Cyrillic,
    Armenian), U+1E00 to U+1FFF (Vietnamese, old Greek) and U+FF00 to U+FFEF (wide letters), which do not change any
    more from one version of Unicode to the next. A sharp s is paired with U+1E9E.
    """
    pairs = {}
    for code in (code for block in _CASED for code in block):
        old = chr(code)
        new = _upper(old) if upper else old.lower()[:1]
        if new != old and any(ord(new) in block for block in _CASED):
            pairs[old] = new
    return "".join(pairs), "".join(pairs.values())


def _upper(letter: str) -> str:
    """Where the full mapping has several letters, the simple one is the title-case letter or the letter itself."""
    if letter == "\u00df":
        return "\u1e9e"
    return next((new for new in (letter.upper(), letter.title()) if len(new) == 1), letter)


# A null operand decides nothing by itself in these, or decides something else than null.
_LENIENT: frozenset[NodeKind] = frozenset(("and", "or", "is_null", "coalesce", "case", "nullif", "not"))


def known_where(condition: Node) -> frozenset[str]:
    """Columns that are not null in any row where a condition is true; maybe not all of them.

    Proof, by the height of the tree. A step that is strict is null where an operand is (:class:`Expression`), and
    null is not true: where it is true, every operand is not null. Likewise a boolean step that is false. ``a AND b`` is
    true where both are, and false where one of them is; ``a OR b`` the other way about; ``NOT a`` turns it round. ``a
    IS NULL`` is false where a is not null, and says nothing where it is true.

    >>> types: dict[str, ColumnType] = {"delay": "integer", "carrier": "text"}
    >>> sorted(known_where(parse_tree("delay > 15 AND carrier IN ('AA', 'UA')", types)))
    ['carrier', 'delay']
    >>> sorted(known_where(parse_tree("delay > 15 OR carrier = 'AA'", types)))
    []
    """
    return _known(condition, True)


def _known(node: Node, outcome: bool) -> frozenset[str]:
    """Columns that are not null where a boolean tree has this outcome."""
    if node.kind in ("and", "or"):
        parts = [_known(part, outcome) for part in node.parts]
        every = (node.kind == "and") == outcome
        return frozenset.union(*parts) if every else frozenset.intersection(*parts)
    if node.kind == "not":
        return _known(node.parts[0], not outcome)
    if node.kind == "is_null":
        return frozenset() if outcome else _valued(node.parts[0])
    return _valued(node)


def _valued(node: Node) -> frozenset[str]:
    """Columns that are not null where a tree is not."""
    if node.kind == "column":
        return columns_read(node)
    if node.kind == "not":
        return _valued(node.parts[0])
    if node.kind in _LENIENT:
        return _valued(node.parts[0]) if node.kind == "nullif" else frozenset()
    return frozenset().union(*(_valued(part) for part in node.parts))
