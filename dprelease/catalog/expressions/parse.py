"""Text to tree: own code splits the text into a closed set of tokens and takes brackets apart, sqlglot ranks operators.

sqlglot is handed only flat runs such as ``"0" + "1" >= "2" AND NOT "3"``, in which every operand is a number in
quotes that stands for a tree read before. So nothing that an author writes reaches it as text, it never nests, and
what it gives back is one of a dozen operators or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from typing import Any, Literal

from dprelease.catalog.expressions import typed
from dprelease.catalog.expressions.tokens import Token, excerpt, tokens
from dprelease.catalog.expressions.tree import (
    CASTS,
    FUNCTIONS,
    MOST_DEPTH,
    MOST_LISTED,
    ExpressionError,
    Node,
)
from dprelease.catalog.table import ColumnType

__all__ = ["parse_tree"]

_INT64 = 2**63
_MISSING = "a column of that name is put in double quotes"
_ENDS = frozenset(("WHEN", "THEN", "ELSE", "END", "AS"))
_SIGNS = frozenset(("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/"))


def parse_tree(text: str, types: Mapping[str, ColumnType]) -> Node:
    """The tree of an expression.

    Args:
        text: What the author wrote.
        types: Column name to type; names are compared exactly.

    Raises:
        ExpressionError: If anything in it is not allowed.
    """
    reader = _Reader(tokens(text), types)
    node = reader.part(0)
    if reader.token.kind != "end":
        raise ExpressionError(f"{reader.token} is out of place", "check the parentheses, commas and the CASE before it")
    if node.kind == "literal" and node.value is None:
        raise ExpressionError("NULL by itself has no type", "write CAST(NULL AS INTEGER), for example")
    return node


class _Reader:
    """Reads tokens from left to right; ``level`` counts the brackets around."""

    def __init__(self, tokens: list[Token], types: Mapping[str, ColumnType]) -> None:
        self._tokens = tokens
        self._types = types
        self._at = 0

    @property
    def token(self) -> Token:
        """The next token; the last one is of kind ``end`` and is never passed."""
        return self._tokens[self._at]

    def _follows(self, *upper: str) -> bool:
        ahead = self._tokens[self._at : self._at + len(upper)]
        return tuple(token.upper for token in ahead) == upper

    def _pass(self, *upper: str) -> bool:
        """Go past these keywords or signs, if they are next."""
        follows = self._follows(*upper)
        self._at += len(upper) if follows else 0
        return follows

    def _expect(self, upper: str, why: str) -> None:
        if not self._pass(upper):
            raise ExpressionError(f"{upper} is missing before {self.token}", why)

    def part(self, level: int) -> Node:
        """One whole expression, up to a comma, a closing parenthesis, a word of CASE or CAST, or the end."""
        if level >= MOST_DEPTH:
            raise ExpressionError(
                f"it is nested deeper than {MOST_DEPTH} steps", "compute parts in columns of their own"
            )
        pieces: list[str] = []
        slots: list[Node | tuple[Node, ...]] = []
        while True:
            self._prefixes(pieces)
            pieces.append(f'"{len(slots)}"')
            slots.append(self._operand(level))
            while self._tested(pieces, slots):
                pass
            if not self._joined(pieces):
                break
        first = slots[0]
        return first if len(pieces) == 1 and isinstance(first, Node) else _ranked(pieces, slots)

    def _prefixes(self, pieces: list[str]) -> None:
        """NOT and minus before an operand; a minus before a number belongs to the number."""
        while self._follows("NOT") or (self._follows("-") and self._tokens[self._at + 1].kind != "number"):
            sign = self.token.upper
            if sign == "NOT" and pieces and pieces[-1] not in ("AND", "OR"):
                raise ExpressionError("NOT is out of place", "put NOT and what follows it in parentheses")
            if sign == "-" and pieces[-2:] == ["-", "-"]:
                raise ExpressionError("there are too many minus signs", "write one")
            pieces.append(sign)
            self._at += 1

    def _tested(self, pieces: list[str], slots: list[Node | tuple[Node, ...]]) -> bool:
        """IS [NOT] NULL or [NOT] IN (...) after an operand."""
        if self._pass("IS"):
            pieces += ["IS", "NOT", "NULL"] if self._pass("NOT") else ["IS", "NULL"]
            if not self._pass("NULL"):
                raise ExpressionError(
                    f"IS is followed by {self.token}", "write IS NULL, IS NOT NULL, = true or = false"
                )
            return True
        if not (self._follows("IN") or self._follows("NOT", "IN")):
            return False
        if self._pass("NOT"):
            pieces.append("NOT")
        self._at += 1
        pieces.append(f'IN ("{len(slots)}")')
        slots.append(self._literals())
        return True

    def _joined(self, pieces: list[str]) -> bool:
        """An operator between two operands; False at the end of a part."""
        token = self.token
        if token.kind == "end" or token.upper in _ENDS or token.text in (",", ")"):
            return False
        if self._pass("NOT", "BETWEEN"):
            pieces += ["NOT", "BETWEEN"]
        elif token.upper in _SIGNS or token.upper in ("AND", "OR", "BETWEEN"):
            pieces.append(token.upper)
            self._at += 1
        else:
            raise ExpressionError(f"an operator is missing before {token}", _operator_hint(token))
        return True

    def _literals(self) -> tuple[Node, ...]:
        """The list after IN."""
        self._expect("(", "write x IN (1, 2)")
        literals: list[Node] = []
        while not literals or self._pass(","):
            if len(literals) >= MOST_LISTED:
                raise ExpressionError(f"IN lists more than {MOST_LISTED} values", "join a reference file instead")
            literals.append(self._listed())
        self._expect(")", "a list is closed by a parenthesis")
        return tuple(literals)

    def _listed(self) -> Node:
        token = self.token
        plain = token.kind in ("number", "text") or self._follows("-") or token.upper in ("TRUE", "FALSE")
        if plain or (token.kind == "word" and token.text.upper() == "DATE"):
            node = self._operand(0)
            if node.kind == "literal":
                return node
        if token.upper == "NULL":
            raise ExpressionError("NULL in a list is never found", "write x IS NULL beside the list")
        raise ExpressionError(f"IN is followed by {token}", "it takes constants only; compare columns with = and OR")

    def _operand(self, level: int) -> Node:
        token = self.token
        if self._follows("-") and self._tokens[self._at + 1].kind == "number":
            self._at += 2
            return _number(self._tokens[self._at - 1].text, -1)
        if token.kind == "end" or token.upper in _SIGNS or (token.upper and token.upper not in _STARTS):
            raise ExpressionError(f"something is missing before {token}", _MISSING if token.upper.isalpha() else "")
        self._at += 1
        if token.kind == "number":
            return _number(token.text, 1)
        if token.kind == "text":
            return Node("literal", "text", (), token.text)
        if token.kind == "name":
            return self._column(token)
        if token.upper in ("TRUE", "FALSE"):
            return Node("literal", "boolean", (), token.upper == "TRUE")
        if token.upper == "NULL":
            return Node("literal", "text")
        if token.upper in ("CAST", "TRY_CAST"):
            return self._cast(level)
        if token.upper == "CASE":
            return self._case(level)
        return self._group(level) if token.upper == "(" else self._word(token, level)

    def _group(self, level: int) -> Node:
        node = self.part(level + 1)
        if self._follows(","):
            raise ExpressionError("a list stands where one value is expected", "lists are written after IN only")
        self._expect(")", "every ( needs a )")
        return node

    def _word(self, token: Token, level: int) -> Node:
        """A date constant, a function or a column."""
        name = token.text.upper()
        if name == "DATE" and self.token.kind == "text":
            self._at += 1
            return typed.day_literal(self._tokens[self._at - 1].text)
        if not self._follows("("):
            return self._column(token)
        if name not in FUNCTIONS:
            near = get_close_matches(name[:40], FUNCTIONS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FUNCTIONS)} and CAST"
            raise ExpressionError(f"there is no function {excerpt(token.text)}", hint)
        self._at += 1
        arguments: list[Node] = []
        while not self._follows(")"):
            arguments.append(self.part(level + 1))
            if not self._pass(","):
                break
            if self._follows(")"):
                raise ExpressionError(f"an argument of {name} is missing before ')'")
        self._expect(")", f"{name}( needs a )")
        return typed.call(name, arguments)

    def _column(self, token: Token) -> Node:
        if self._follows("("):
            raise ExpressionError(f"{token} is no function", "functions are written without quotes")
        kind = self._types.get(token.text)
        if kind is None:
            raise ExpressionError(f"there is no column {token}", self._nearest(token))
        return Node("column", kind, (), token.text)

    def _nearest(self, token: Token) -> str:
        if token.text.upper() in ("SELECT", "WITH", "FROM", "EXISTS", "UNION"):
            return "one expression of the columns of a row is allowed here, no query"
        near = get_close_matches(token.text[:200], self._types, 1)
        if near:
            return f"did you mean {near[0]}?"
        if token.kind == "name":
            return "text is written in single quotes, a column in double quotes"
        if self._types and token.text.isalnum() and not token.text[0].isdigit():
            known = ", ".join(list(self._types)[:10])
            return f"a text is written in single quotes, such as '{token.text[:20]}'; the columns are {known}"
        return f"there are {', '.join(list(self._types)[:10])}" if self._types else ""

    def _cast(self, level: int) -> Node:
        self._expect("(", "write CAST(x AS INTEGER)")
        operand = self.part(level + 1)
        self._expect("AS", "write CAST(x AS INTEGER)")
        token = self.token
        to = CASTS.get(token.text.upper()) if token.kind == "word" else None
        if to is None:
            raise ExpressionError(f"there is no cast to {token}", f"there are {', '.join(CASTS)}")
        self._at += 1
        self._expect(")", "types have no size: write CAST(x AS DECIMAL)")
        return typed.cast(operand, to)

    def _case(self, level: int) -> Node:
        conditions: list[Node] = []
        values: list[Node] = []
        while not conditions or self._follows("WHEN"):
            self._expect("WHEN", "write CASE WHEN x = 1 THEN ... ELSE ... END")
            conditions.append(self.part(level + 1))
            self._expect("THEN", "write CASE WHEN x = 1 THEN ... ELSE ... END")
            values.append(self.part(level + 1))
        otherwise = self.part(level + 1) if self._pass("ELSE") else Node("literal", "text")
        self._expect("END", "every CASE needs an END")
        return typed.case(conditions, values, otherwise)


_STARTS = frozenset(("TRUE", "FALSE", "NULL", "CAST", "TRY_CAST", "CASE", "("))


def _operator_hint(token: Token) -> str:
    if token.kind == "word" and token.text.upper() in ("LIKE", "ILIKE", "SIMILAR", "GLOB", "REGEXP"):
        return "write STARTS_WITH(x, 'a'), or compare LEFT(x, 3) or SUBSTRING(x, 2, 1)"
    return "join the parts with AND, OR, =, + ..."


def _number(digits: str, sign: int) -> Node:
    """An integer of 64 bits, or a decimal that is the nearest double."""
    if digits.isdigit():
        whole = sign * int(digits)
        if not -_INT64 <= whole < _INT64:
            raise ExpressionError(f"{excerpt(digits)} does not fit in 64 bits", "write it as a decimal, with .0")
        return Node("literal", "integer", (), whole)
    value = float(digits)
    if not isfinite(value) or (value == 0 and digits.lower().split("e")[0].strip("0.")):
        raise ExpressionError(f"{excerpt(digits)} is beyond the range of a double")
    return Node("literal", "decimal", (), sign * value + 0.0)


def _ranked(pieces: list[str], slots: list[Node | tuple[Node, ...]]) -> Node:
    """A flat run of operators and numbered operands as a tree."""
    return _converted(_parsed_run(" ".join(pieces)), slots, 0)


@lru_cache(maxsize=1 << 8)
def _parsed_run(run: str) -> Any:
    """What sqlglot makes of a run, only to be read: conditions that differ in their operands alone share it."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return sqlglot.parse_one(run, dialect="duckdb")
    except (SqlglotError, RecursionError):
        raise ExpressionError(
            "the operators do not fit together", "check every BETWEEN x AND y, and add parentheses"
        ) from None


def _converted(tree: Any, slots: list[Node | tuple[Node, ...]], depth: int) -> Node:
    """What sqlglot made of a flat run; whatever is not in the list of operators is refused."""
    from sqlglot import exp

    if depth > MOST_DEPTH:
        raise ExpressionError(f"it is nested deeper than {MOST_DEPTH} steps", "put parts in parentheses")
    kind = type(tree)
    name = kind.__name__

    def below(part: Any) -> Node:
        return _converted(part, slots, depth + 1)

    def value(part: Any) -> Node:
        if not isinstance(part, exp.Column | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg):
            raise ExpressionError("a condition stands where a value is expected", "put it in parentheses")
        return below(part)

    if kind is exp.Column:
        return _slot(tree, slots)
    if name in _LOGICAL:
        return typed.logical(_LOGICAL[name], [below(part) for part in _spine(tree)])
    if kind is exp.Not:
        return typed.negated(below(tree.this))
    if name in _COMPARED:
        return typed.comparison(_COMPARED[name], value(tree.this), value(tree.expression))
    if name in _ARITHMETIC:
        return typed.arithmetic(_ARITHMETIC[name], value(tree.this), value(tree.expression))
    if kind is exp.Neg:
        return typed.negative(value(tree.this))
    if kind is exp.Is and isinstance(tree.expression, exp.Null):
        return typed.is_null(value(tree.this))
    if kind is exp.Between and set(tree.args) - {"symmetric"} == {"this", "low", "high"}:
        return typed.is_between(value(tree.this), value(tree.args["low"]), value(tree.args["high"]))
    if kind is exp.In and len(tree.expressions) == 1 and type(tree.expressions[0]) is exp.Column:
        listed = slots[int(tree.expressions[0].name)]
        return typed.contained(value(tree.this), listed if isinstance(listed, tuple) else (listed,))
    raise ExpressionError("the operators do not fit together", "add parentheses")


_LOGICAL: dict[str, Literal["and", "or"]] = {"And": "and", "Or": "or"}
_COMPARED: dict[str, Any] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ARITHMETIC: dict[str, Any] = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}


def _slot(tree: Any, slots: list[Node | tuple[Node, ...]]) -> Node:
    slot = slots[int(tree.name)]
    if isinstance(slot, tuple):
        raise ExpressionError("a list stands where one value is expected")
    return slot


def _spine(tree: Any) -> list[Any]:
    """The operands of a chain of one operator, in order, without recursion."""
    chain, kind = [], type(tree)
    while type(tree) is kind:
        chain.append(tree.expression)
        tree = tree.this
    return [tree, *reversed(chain)]
