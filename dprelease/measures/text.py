"""How measures and the pages about them write formulas and exact numbers, and what they tell authors.

>>> operand(Fraction(1, 3)), operand(-2), operand(5)
('(1/3)', '(-2)', '5')
>>> exact_text(Fraction(5, 2)), exact_text(Fraction(-12000)), exact_text(Fraction(1, 3))
('2.5', '−12,000', '1/3')
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.weight import RowWeight
from dprelease.words import number_written, phrase

__all__ = ["Flaw", "Formula", "FormulaTerm", "Widest", "decimal", "exact_text", "operand", "weighed"]


@dataclass(frozen=True)
class FormulaTerm:
    """A noisy number in a formula.

    Attributes:
        name: The name by which the formula calls it, such as ``x1``.
        quantity: What was measured, in whole steps of its grid.
    """

    name: str
    quantity: Quantity


@dataclass(frozen=True)
class Formula:
    """How a published number is worked out of its terms.

    Attributes:
        text: The formula. Besides ``+ - * / **`` and parentheses it may call ``clip(x, low, high)``, ``sqrt(x)`` and
            ``smallest(i, x1, ..., xn)``.
        blank: The conditions under any of which no number is published.
    """

    text: str
    blank: tuple[str, ...] = ()


def operand(value: int | Fraction) -> str:
    """A number as an operand of a formula."""
    text = str(value)
    return f"({text})" if "/" in text or value < 0 else text


def decimal(number: Decimal) -> str:
    """Plain digits in groups of three, with a minus sign that is not a hyphen; in the language that is spoken."""
    text = f"{number:,f}" if number else f"{abs(number):,f}"
    return number_written(text.replace("-", "−"))


def exact_text(value: Fraction) -> str:
    """A number as a reader sees it: a decimal where one is exact, else a fraction."""
    text = Decimal(value.numerator) / value.denominator
    return decimal(text) if Fraction(text) == value else str(value)


def weighed(weight: RowWeight) -> str:
    """What a weight does to a number, as the end of its description.

    >>> weighed(RowWeight(column="PWGTP", step=Fraction(1), clip=500))
    ', each record counting as often as its PWGTP says, at most 500 times'
    """
    return phrase(
        ", each record counting as often as its {column} says, at most {most} times",
        column=weight.column,
        most=exact_text(weight.in_units),
    )


class Flaw(NamedTuple):
    """Something to tell an author about one measure of a spec.

    Attributes:
        code: The stable code of the message.
        at: The place below the measure, such as ``("at", 1)``.
        says: What is wrong, or what to know.
        hint: What to write instead.
    """

    code: str
    at: tuple[str | int, ...]
    says: str
    hint: str


class Widest(NamedTuple):
    """The widest clip that a kind of measure can take.

    Attributes:
        steps: Its largest width, in steps of the column's grid.
        code: The stable code of the message about a wider one.
        says: That message; ``{}`` stands for the column.
    """

    steps: int
    code: str
    says: str
