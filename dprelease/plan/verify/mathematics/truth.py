"""What conditions can come to for a row of which little is known: by cases, and not by how a condition was made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from dprelease.catalog.expressions.tree import Node
from dprelease.plan.verify.mathematics.values import together_at_values

__all__ = ["MOST_CASES", "counted_in_cases", "outcomes"]

MOST_CASES = 1 << 16

_ANY = frozenset(("true", "false", "null"))

Counting = tuple[str | None, Node | None, bool]
"""Rows with a value in a column, of which a condition is true; or, turned round, of which it is not."""


def counted_in_cases(counts: Sequence[Counting]) -> Iterator[tuple[bool, ...]]:
    """Which of several counts a row is in: every case that can be, and perhaps some that cannot.

    A condition is true where all of its conjuncts are. A case says of each column whether it has a value and of each
    conjunct whether it is true; one that needs a value is true in no case without it (:func:`outcomes`). Of those
    that compare one term with literals, only what some value of the term makes of them is a case.

    Args:
        counts: What is counted, column, condition and whether that is turned round.

    Raises:
        ValueError: If there are more than ``MOST_CASES``.
    """
    parts = [_conjuncts(condition) for _, condition, _ in counts]
    conjuncts = list(dict.fromkeys(each for found in parts for each in found))
    valued = [column for each in conjuncts if (column := _valued(each)) is not None]
    columns = list(dict.fromkeys([*valued, *(column for column, _, _ in counts if column is not None)]))
    together = together_at_values(conjuncts)
    if math.prod(len(each.truths) for each in together) * 2 ** len(columns) > MOST_CASES:
        raise ValueError("the conditions have too many parts to go through every case")
    for present in product((True, False), repeat=len(columns)):
        has = dict(zip(columns, present, strict=True))
        able = {each: _may_be_true(each, has) for each in conjuncts}
        left = [
            [dict(zip(each.conjuncts, truths, strict=True)) for truths in each.truths if each.fits(truths, able)]
            for each in together
        ]
        for chosen in product(*left):
            known = {conjunct: true for each in chosen for conjunct, true in each.items()}
            yield tuple(
                (column is None or has[column]) and all(known[each] for each in found) != turned
                for (column, _, turned), found in zip(counts, parts, strict=True)
            )


def _conjuncts(condition: Node | None) -> tuple[Node, ...]:
    if condition is None:
        return ()
    if condition.kind != "and":
        return (condition,)
    return tuple(each for part in condition.parts for each in _conjuncts(part))


def _valued(node: Node) -> str | None:
    """The column of which it says that it has a value, where it says that."""
    if node.kind != "not" or node.parts[0].kind != "is_null" or node.parts[0].parts[0].kind != "column":
        return None
    return str(node.parts[0].parts[0].value)


def _may_be_true(conjunct: Node, has: dict[str, bool]) -> tuple[bool, ...]:
    column = _valued(conjunct)
    if column is not None:
        return (has[column],)
    able = all("true" in outcomes(conjunct, name) for name, there in has.items() if not there)
    return (True, False) if able else (False,)


def outcomes(node: Node, null: str) -> frozenset[str]:
    """What a tree can give where one column is null and nothing is known of the others: true, false, null.

    Of what is no boolean, ``true`` stands for any value. The operands are taken for independent, so that nothing that
    can happen is left out.
    """
    if node.kind == "column":
        return frozenset(("null",)) if node.value == null else _ANY
    if node.kind == "literal":
        word = "null" if node.value is None else str(node.value).lower() if isinstance(node.value, bool) else "true"
        return frozenset((word,))
    parts = [outcomes(part, null) for part in node.parts]
    if node.kind in ("and", "or"):
        weak, strong = ("true", "false") if node.kind == "and" else ("false", "true")
        found = set()
        if any(strong in part for part in parts):
            found.add(strong)
        if all(weak in part for part in parts):
            found.add(weak)
        if any("null" in part for part in parts) and all({"null", weak} & part for part in parts):
            found.add("null")
        return frozenset(found)
    if node.kind == "not":
        return frozenset({"true": "false", "false": "true", "null": "null"}[each] for each in parts[0])
    if node.kind == "is_null":
        return frozenset("true" if each == "null" else "false" for each in parts[0])
    if node.kind in ("coalesce", "case"):
        return _ANY
    if node.kind == "nullif":
        parts = parts[:1]
    if any(part == {"null"} for part in parts):
        return frozenset(("null",))
    return _ANY
