"""Which comparisons of one term with literals can be true together: what some value of it makes of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from dprelease.catalog.expressions.tree import Node

__all__ = ["TermTruths", "together_at_values"]

_ORDERED = ("<", "<=", ">", ">=", "between")
_COMPARED = ("=", "<>", "in", *_ORDERED)

_PLAIN = ("integer", "decimal", "text", "boolean")  # two texts of a literal can be one date

Value = Fraction | str | bool | None
_OTHER = "\x00another text than all that are named"


class TermTruths(NamedTuple):
    """Some conjuncts, and every way in which they can be true.

    Attributes:
        conjuncts: Of one term; or one, of which nothing is known, and its negation.
        truths: Whether each is true, for every case.
    """

    conjuncts: tuple[Node, ...]
    truths: tuple[tuple[bool, ...], ...]

    def fits(self, truths: Sequence[bool], able: Mapping[Node, Sequence[bool]]) -> bool:
        """Whether each of them may be so."""
        return all(true in able[each] for each, true in zip(self.conjuncts, truths, strict=True))


def together_at_values(conjuncts: Sequence[Node]) -> list[TermTruths]:
    """The conjuncts by the term that they compare with literals; each of the others beside its negation.

    What comparisons make of a number changes at the literals alone, so that each of these, one number between two
    neighbours, and one beyond either end stand for all; of texts and of true and false each that is named, and another
    one. A missing value makes none of them true. A value stands for itself where no term has it: a case too many.
    """
    by_term: dict[Node, list[Node]] = {}
    alone: dict[Node, list[Node]] = {}
    for each in conjuncts:
        compared = each.parts[0] if each.kind == "not" else each
        term = compared.parts[0] if compared.kind in _COMPARED and compared.parts[0].type in _PLAIN else None
        named = [_value(part) for part in compared.parts[1:]] if term is not None else []
        ordered = compared.kind not in _ORDERED or all(isinstance(value, Fraction) for value in named)
        if term is None or None in named or not ordered:
            alone.setdefault(compared, []).append(each)
        else:
            by_term.setdefault(term, []).append(each)
    found = []
    for base, both in alone.items():  # one that may be true, false or null, and its negation
        found.append(
            TermTruths(
                tuple(both),
                (*(tuple((each == base) == true for each in both) for true in (True, False)), (False,) * len(both)),
            )
        )
    for of_term in by_term.values():
        seen = dict.fromkeys(tuple(_holds(each, value) for each in of_term) for value in _values(of_term))
        found.append(TermTruths(tuple(of_term), tuple(seen)))
    return found


def _values(comparisons: Sequence[Node]) -> list[Value]:
    """One value for every case; None is a missing one."""
    compared = [each.parts[0] if each.kind == "not" else each for each in comparisons]
    named = dict.fromkeys(value for each in compared for part in each.parts[1:] if (value := _value(part)) is not None)
    numbers = sorted(each for each in named if isinstance(each, Fraction))
    if not numbers:
        return [None, _OTHER, *named]
    between = [(low + high) / 2 for low, high in pairwise(numbers)]
    return [None, *numbers, *between, numbers[0] - 1, numbers[-1] + 1]


def _value(literal: Node) -> Value:
    """Of a literal, as it is compared: what is read as a decimal, as the double that it becomes; None of all else."""
    if literal.kind == "widen" and literal.parts[0].kind == "literal":
        value = literal.parts[0].value
        return Fraction(float(value)) if isinstance(value, int) else None
    if literal.kind != "literal" or isinstance(literal.value, tuple):
        return None
    if isinstance(literal.value, bool | str):
        return literal.value
    return None if literal.value is None else Fraction(literal.value)


def _holds(comparison: Node, value: Value) -> bool:
    """Whether it is true of a value of its term."""
    if value is None:
        return False
    if comparison.kind == "not":
        return not _holds(comparison.parts[0], value)
    named = [_value(part) for part in comparison.parts[1:]]
    if comparison.kind in ("=", "in"):
        return value in named
    if comparison.kind == "<>":
        return value not in named
    if not isinstance(value, Fraction):
        return False
    first, last = named[0], named[-1]
    assert isinstance(first, Fraction)  # noqa: S101 - or it would be no case of the caller
    assert isinstance(last, Fraction)  # noqa: S101 - likewise
    return {
        "<": value < first, "<=": value <= first, ">": value > first, ">=": value >= first,
        "between": first <= value <= last,
    }[comparison.kind]  # fmt: skip
