"""Values as the declaration reads them, one at a time; shares no code with the engines."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dprelease.catalog.table import Column

SPACES = " \t\n\v\f\r"


class Written(float):
    """A decimal as it was read: a double for whoever computes with it, and what its digits say."""

    exact: Fraction


def written(number: Fraction) -> Written:
    found = Written(float(number) + 0.0)
    found.exact = number
    return found


def id_of(stored: Any, column: Column) -> str | None:
    """Bytes that are a text are that text; others, and those that begin with U+FDD0, that and every byte in two digits.

    What is read here by escapes of single bytes is read in the engines by refusal of the whole.
    """
    if not isinstance(stored, bytes | str):
        return text_of(stored, column)
    raw = stored if isinstance(stored, bytes) else stored.encode()
    text = raw.decode("utf-8", "surrogateescape")
    odd = text[:1] == "\ufdd0" or any(0xDC80 <= ord(char) <= 0xDCFF for char in text)
    return "\ufdd0" + "".join(f"{byte:02x}" for byte in raw) if odd else text


def value_of(column: Column, text: str | None, nulls: Sequence[str]) -> Any:
    if text is None or text in nulls:
        return None
    if column.type == "text":
        return text
    text = text.strip(SPACES)
    if text in nulls:
        return None
    if column.type == "boolean":
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(text.lower())
    if column.type in ("date", "timestamp"):
        return _iso(text, column.type)
    number = _number(text)
    if number is None:
        return None
    if column.type == "decimal":
        if not math.isfinite(float(text)) or float(text) == 0:
            return float(text) + 0.0 if math.isfinite(float(text)) else None
        return written(number)
    if number.denominator != 1:
        return None
    whole = number.numerator
    return None if column.range is None and not -(2**63) <= whole < 2**63 else whole


def _number(text: str) -> Fraction | None:
    """The number that a text writes; an exponent beyond 9999 in size counts as 9999."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.ASCII | re.IGNORECASE):
        return None
    head, _, power = text.lower().partition("e")
    size = min(int(power.lstrip("+-") or "0"), 9999)
    return Fraction(Decimal(head)) * Fraction(10) ** (-size if power.startswith("-") else size)


def _iso(text: str, kind: str) -> str | None:
    try:
        if kind == "date":
            return text if len(text) == 10 and dt.date.fromisoformat(text) and text.isascii() else None
        if not re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d", text):
            return None
        moment = dt.datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="microseconds").rstrip("0").rstrip(".")
    except (ValueError, OverflowError):
        return None


def within(column: Column, value: Any) -> Any:
    if value is None or column.range is None or column.type not in ("integer", "decimal"):
        return value
    low, high = column.range.low, column.range.high
    if column.type == "integer":  # what has no place in 64 bits is outside every range
        low, high = max(low, Fraction(1 - 2**63)), min(high, Fraction(2**63 - 1))
    if low <= value <= high:
        return value
    if column.outside == "null":
        return None
    limit = low if value < low else high
    return int(limit) if column.type == "integer" else written(limit)


def text_of(stored: Any, column: Column) -> str | None:
    """What a stored value reads as."""
    if stored is None or isinstance(stored, str):
        return stored
    if isinstance(stored, bytes):
        return stored.decode("utf-8", "replace")
    if isinstance(stored, bool):
        return "true" if stored else "false"
    if isinstance(stored, float):
        if not math.isfinite(stored):
            return None
        return digits_of(Fraction(stored if stored == int(stored) else repr(stored)))
    if isinstance(stored, Decimal):
        return digits_of(Fraction(stored))
    if isinstance(stored, dt.datetime):
        moment = stored if stored.tzinfo is None else stored.astimezone(dt.UTC).replace(tzinfo=None)
        nanoseconds = moment.microsecond * 1000 + getattr(moment, "nanosecond", 0)
        text = f"{moment.isoformat(timespec='seconds')}.{nanoseconds:09d}".rstrip("0").rstrip(".")
        return str(moment.date()) if column.type == "date" else text
    if isinstance(stored, int | dt.date):
        return str(stored)
    return None


def digits_of(number: Fraction) -> str:
    """A number with an end in tens, all of its digits and no more."""
    places = 0
    while number.denominator != 1:
        number, places = number * 10, places + 1
    digits = str(abs(number.numerator)).rjust(places + 1, "0")
    sign = "-" * (number < 0)
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)
