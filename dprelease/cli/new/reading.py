"""Answers as they are typed, to what they mean; what is wrong is said in words, by a ValueError."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Literal, get_args

from dprelease.catalog.table import ColumnType
from dprelease.spec.text.names import did_you_mean
from dprelease.starter.code_lists import CODE_LISTS
from dprelease.starter.first_spec import FirstColumn

__all__ = [
    "among",
    "budget",
    "column_of",
    "columns_of",
    "counting_number",
    "guessed_type",
    "keys_of",
    "kind_of_column",
    "matching",
    "optional",
    "pair",
    "published",
    "some",
]

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]{1,3})?")
_GUESSES: tuple[tuple[str, ColumnType], ...] = (
    (r"date|day|born|birth", "date"),
    (r"age|alter|year|month|count|number|size|persons|rooms|children", "integer"),
    (r"income|wage|salary|pay|price|amount|revenue|cost|fee|tax|rent|hours|weight|share|rate", "decimal"),
)


def guessed_type(name: str) -> ColumnType:
    """The type that the name of a column suggests.

    >>> guessed_type("birth_date"), guessed_type("Age"), guessed_type("income"), guessed_type("region")
    ('date', 'integer', 'decimal', 'text')
    """
    words = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    return next((kind for pattern, kind in _GUESSES if any(re.fullmatch(pattern, word) for word in words)), "text")


def some(text: str) -> str:
    """Any text of one line that is not empty."""
    if not text.strip() or not text.isprintable():
        raise ValueError("one line of text is wanted")
    return text.strip()


def positive_number(text: str) -> str:
    """A number above zero, as it was typed."""
    if not _NUMBER.fullmatch(text) or Fraction(text) <= 0:
        raise ValueError("a number above 0 is wanted, such as 1, 0.5 or 1e-9")
    return text


def counting_number(text: str) -> str:
    """A whole number from 1."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError("a whole number from 1 is wanted")
    return text


def budget(text: str) -> tuple[str, str]:
    """An epsilon and a delta with a comma between them."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or Fraction(positive_number(parts[1])) >= 1:
        raise ValueError("epsilon and delta are wanted, with a comma: 1,1e-9")
    return positive_number(parts[0]), parts[1]


def matching(pattern: str, wanted: str) -> Callable[[str], str]:
    """A text of a form."""

    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{wanted} is wanted")
        return text

    return read


def optional(text: str) -> str:
    """One line of text, or nothing."""
    return some(text) if text.strip() else ""


def pair(text: str) -> tuple[str, str]:
    """Two rising numbers with a comma between them."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(map(_NUMBER.fullmatch, parts)) or Fraction(parts[0]) >= Fraction(parts[1]):
        raise ValueError("the least and the greatest value are wanted, with a comma: 0,500000")
    return parts[0], parts[1]


def among(words: Iterable[str]) -> Callable[[str], str]:
    """One of some words."""
    known = tuple(words)

    def read(text: str) -> str:
        if text not in known:
            raise ValueError(did_you_mean(text, known))
        return text

    return read


def kind_of_column(text: str) -> ColumnType:
    """The type of a column."""
    found = next((each for each in get_args(ColumnType) if each == text), None)
    if found is None:
        raise ValueError(did_you_mean(text, get_args(ColumnType)))
    return found  # type: ignore[no-any-return]  # one of its own words


def column_of(names: Sequence[str], *, none: bool = False) -> Callable[[str], str]:
    """A column by its name or its number in the file, from 1; ``none`` for no column: the empty text."""

    def read(text: str) -> str:
        if none and text.lower() == "none":
            return ""
        if text in names:
            return text
        if text.isdecimal() and 1 <= int(text) <= len(names):
            return names[int(text) - 1]
        raise ValueError(f"{text!r} is neither the name of a column nor a number from 1 to {len(names)}")

    return read


def columns_of(names: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Columns with commas between them, each once; ``none`` for no column."""

    def read(text: str) -> tuple[str, ...]:
        if text.lower() == "none":
            return ()
        found = tuple(column_of(names)(part.strip()) for part in text.split(","))
        if len(set(found)) < len(found):
            raise ValueError("a column is named twice")
        return found

    return read


Published = tuple[Literal["keys", "span", "list", "edges"], tuple[str, ...]]


def keys_of(kind: ColumnType) -> Callable[[str], Published]:
    """The public values of a column: a list, a list of codes, a span, or the limits of bands."""

    def read(text: str) -> Published:
        if text.startswith("@"):
            if text[1:] not in CODE_LISTS:
                raise ValueError(f"there is no list {text}; {did_you_mean(text[1:], CODE_LISTS)}")
            if kind != "text":
                raise ValueError("the codes of a list are texts: the type of the column is text")
            return "list", (text[1:],)
        if text.startswith("bands "):
            edges = tuple(part.strip() for part in text.removeprefix("bands ").split(","))
            _require_rising(edges)
            if kind not in ("integer", "decimal"):
                raise ValueError("only an integer or a decimal has bands")
            return "edges", edges
        first, dots, last = text.partition("..")
        if dots:
            _require_key(first, kind)
            _require_key(last, kind)
            if kind not in ("integer", "date"):
                raise ValueError("only whole numbers and days have all that is between two of them")
            return "span", (first, last)
        keys = tuple(part.strip() for part in text.split(","))
        for key in keys:
            _require_key(key, kind)
        if len(set(keys)) < len(keys):
            raise ValueError("a value is listed twice")
        return "keys", keys

    return read


def _require_rising(edges: Sequence[str]) -> None:
    good = len(edges) > 1 and all(map(_NUMBER.fullmatch, edges))
    if not good or any(Fraction(low) >= Fraction(high) for low, high in pairwise(edges)):
        raise ValueError("rising limits are wanted: bands 0,18,65,120")


def _require_key(text: str, kind: ColumnType) -> None:
    if not text or not text.isprintable():
        raise ValueError("values are wanted, with commas between them")
    if kind == "integer" and not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
        raise ValueError(f"{text!r} is no whole number; codes with a zero before them are of type text")
    if kind == "boolean" and text not in ("true", "false"):
        raise ValueError("the values of a boolean are true,false")
    if kind == "date":
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is no day such as 2024-03-07") from None
    if kind in ("decimal", "timestamp"):
        raise ValueError(f"a column of type {kind} has no list of values; write bands, or another type")


def published(name: str, kind: ColumnType, found: Published) -> FirstColumn:
    """A column that cells are made by."""
    how, values = found
    if how == "list":
        return FirstColumn(name, kind, code_list=values[0])
    if how == "span":
        return FirstColumn(name, kind, span=(values[0], values[1]))
    return FirstColumn(name, kind, edges=values) if how == "edges" else FirstColumn(name, kind, keys=values)
