"""Texts of a CSV in the notation that its owner declared, to the plain one that ``values.READ`` reads.

A function of each text alone, and total: what is not written in the declared notation is null. ``1.234,5`` with a
decimal comma and points between thousands is ``1234.5``; ``1234.5`` is then no number, and neither is ``12.34,5``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.dialect import Dialect
from dprelease.catalog.table import ColumnType
from dprelease.engines.files.values import BLANKS

__all__ = ["in_plain_notation"]

_BLANK = "[" + re.escape(BLANKS).replace("\\ ", " ") + "]*"


def in_plain_notation(kind: ColumnType, words: Any, dialect: Dialect, nulls: Sequence[str]) -> Any:
    """Texts of a column in plain notation; null where one is null, is listed as null, or is not in the notation.

    Args:
        kind: The declared type of the column.
        words: An Arrow array of texts.
        dialect: How the file writes them.
        nulls: Texts that stand for null, as the file writes them.

    >>> words = pa.array(["1.234,5", "1234,5", "12.34,5", "1234.5", "7"])
    >>> in_plain_notation("decimal", words, Dialect(decimal=",", thousands="."), ()).to_pylist()
    ['1234.5', '1234.5', None, None, '7']
    """
    listed = frozenset(nulls)
    if kind in ("integer", "decimal"):
        trimmed = pc.utf8_trim(words, BLANKS)
        if listed:
            words = pc.if_else(pc.is_in(trimmed, value_set=pa.array(sorted(listed), pa.string())), None, words)
        return words if (dialect.decimal, dialect.thousands) == (".", None) else _numbers(words, dialect)
    one = _ONE.get(kind)
    if one is None:
        return words
    texts = (None if word is None or word.strip(BLANKS) in listed else word.strip(BLANKS) for word in words.to_pylist())
    return pa.array([None if text is None else one(text, dialect) for text in texts], pa.string())


def _numbers(words: Any, dialect: Dialect) -> Any:
    """Numbers with a point and without marks between thousands."""
    point = re.escape(dialect.decimal)
    whole = "[0-9]+"
    if dialect.thousands is not None:
        whole = rf"(?:[0-9]+|[0-9]{{1,3}}(?:{re.escape(dialect.thousands)}[0-9]{{3}})+)"
    pattern = rf"^{_BLANK}[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?{_BLANK}$"
    words = pc.if_else(pc.match_substring_regex(words, pattern), pc.utf8_trim(words, BLANKS), None)
    if dialect.thousands is not None:
        words = pc.replace_substring(words, dialect.thousands, "")
    return pc.replace_substring(words, dialect.decimal, ".")


def _boolean(text: str, dialect: Dialect) -> str | None:
    if not dialect.true_values:
        return text
    small = text.lower()
    if small in (each.lower() for each in dialect.true_values):
        return "true"
    return "false" if small in (each.lower() for each in dialect.false_values) else None


def _date(text: str, dialect: Dialect) -> str | None:
    if dialect.date_format is None:
        return text
    day, rest = dialect.iso_day(text) or (None, "")
    return None if rest else day


def _timestamp(text: str, dialect: Dialect) -> str | None:
    if dialect.date_format is None:
        return text
    day, rest = dialect.iso_day(text) or (None, "")
    return None if day is None else day + rest


_ONE: Mapping[ColumnType, Callable[[str, Dialect], str | None]] = {
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
}
