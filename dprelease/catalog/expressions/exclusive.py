"""Conditions that no row fulfils together, as far as comparisons of one term with literals say so.

>>> from dprelease.catalog.expressions.expression import parse
>>> one, two, three = (parse(each, {"age": "integer"}) for each in ("age < 18", "age BETWEEN 18 AND 64", "age >= 60"))
>>> are_exclusive(one.root, two.root), are_exclusive(two.root, three.root)
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain, product
from typing import NamedTuple

from dprelease.catalog.expressions.tree import Node, Scalar

__all__ = ["are_exclusive", "cases_at_most"]


def are_exclusive(one: Node, two: Node) -> bool:
    """Whether no row makes both true: a conjunct of the one is never true beside one of the other.

    A term is the same for both, whatever it is, as expressions are functions of a row. Two conjuncts exclude each other
    where the one is the negation of the other, or where both say of one term that it is among some values, or within
    some ends, and these have nothing in common. Of intervals on a line nothing more is to be found: if three and more
    have no point in common, two of them have none (Helly 1923).
    """
    return any(_exclude(first, second) for first, second in product(conjuncts(one), conjuncts(two)))


def conjuncts(condition: Node) -> tuple[Node, ...]:
    """What must all be true where it is."""
    if condition.kind != "and":
        return (condition,)
    return tuple(each for part in condition.parts for each in conjuncts(part))


def cases_at_most(conditions: Iterable[Node]) -> int:
    """How many ways there are at most in which the conjuncts of some conditions can be true, or not.

    What comparisons make of a term changes at the literals alone: at each, between two of them, beyond them, and where
    there is no value. Of any other conjunct nothing is known.
    """
    compared: dict[Node, set[Scalar]] = {}
    cases = 1
    for each in dict.fromkeys(chain.from_iterable(map(conjuncts, conditions))):
        span = _span(each)
        if span is None:
            cases *= 2 * (1 + each.size)
            continue
        ends = {end for end, _ in (span.low, span.high) if math.isfinite(end)}
        compared.setdefault(span.term, set()).update(ends if span.values is None else span.values)
    return cases * math.prod(2 * len(found) + 2 for found in compared.values())


class _Span(NamedTuple):
    """What a comparison allows of its term: some values, or numbers between two ends.

    Attributes:
        term: What is compared.
        values: If it is one of some.
        low: The least number, and whether that is excluded.
        high: The largest number, and whether that is excluded.
    """

    term: Node
    values: frozenset[Scalar] | None = None
    low: tuple[float | int, bool] = (-math.inf, False)
    high: tuple[float | int, bool] = (math.inf, False)


def _exclude(one: Node, two: Node) -> bool:
    if two == Node("not", "boolean", (one,)) or one == Node("not", "boolean", (two,)):
        return True
    first, second = _span(one), _span(two)
    if first is None or second is None or first.term != second.term:
        return False
    if first.values is not None and second.values is not None:
        return not first.values & second.values
    if first.values is not None or second.values is not None:
        values, ends = (first, second) if first.values is not None else (second, first)
        return not any(_within(each, ends) for each in values.values or ())
    (low, past), (high, before) = max(first.low, second.low), _least(first.high, second.high)
    return low > high or (low == high and (past or before))


def _least(one: tuple[float | int, bool], two: tuple[float | int, bool]) -> tuple[float | int, bool]:
    return (one[0], one[1] or two[1]) if one[0] == two[0] else min(one, two)


def _within(value: Scalar, ends: _Span) -> bool:
    (low, past), (high, before) = ends.low, ends.high
    assert isinstance(value, int | float)  # noqa: S101 - terms that are compared with ends are numbers
    return (low < value or (low == value and not past)) and (value < high or (value == high and not before))


def _span(comparison: Node) -> _Span | None:
    """What it says of one term, where that is compared with literals; None where it says something else."""
    if comparison.kind not in ("=", "in", "<", "<=", ">", ">=", "between"):
        return None
    term, *others = comparison.parts
    if term.type not in ("integer", "decimal", "text", "boolean"):  # two texts of a literal can be one date
        return None
    values = [_literal(each) for each in others]
    if any(each is None for each in values) or _literal(term) is not None:
        return None
    known = [each for each in values if each is not None]
    if comparison.kind in ("=", "in"):
        return _Span(term, values=frozenset(known))
    numbers = [each for each in known if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) != len(known):
        return None
    if comparison.kind == "between":
        return _Span(term, low=(numbers[0], False), high=(numbers[1], False))
    if comparison.kind in ("<", "<="):
        return _Span(term, high=(numbers[0], comparison.kind == "<"))
    return _Span(term, low=(numbers[0], comparison.kind == ">"))


def _literal(node: Node) -> Scalar | None:
    """Its value, a number as it is compared; None of what is no literal, or null."""
    if node.kind == "widen" and node.parts[0].kind == "literal" and isinstance(node.parts[0].value, int):
        return float(node.parts[0].value)
    if node.kind != "literal" or isinstance(node.value, tuple):
        return None
    return node.value
