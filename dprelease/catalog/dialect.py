"""How a CSV source writes its rows: declared by its owner, never guessed from a file."""

from __future__ import annotations

import re
from datetime import date
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from dprelease.canonical import GrownValue

__all__ = ["AS_STORED", "ENCODINGS", "MULTIBYTE", "STATISTICAL", "Dialect"]

_SINGLE_BYTE = (
    "latin-1",
    *(f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)),
    *(f"windows-{page}" for page in range(1250, 1259)),
    *("cp437", "cp850", "cp852", "cp855", "cp866", "koi8-r", "koi8-u", "mac-roman"),
)
MULTIBYTE = ("big5", "euc-jp", "euc-kr", "gbk", "shift_jis")
"""Encodings with characters of several bytes; none of these bytes is a line end."""
ENCODINGS = ("utf-8", *_SINGLE_BYTE, *MULTIBYTE)
"""All have the letters, digits and marks of ASCII where ASCII has them; UTF-16 and UTF-32 do not."""
STATISTICAL = ("sav", "zsav", "por", "dta", "xpt", "sas7bdat")
"""Formats of files of SPSS, Stata and SAS, whose endings are these."""
AS_STORED = "as stored"
"""In place of an encoding: the one that a file names itself."""

_PARTS = {"%d": "(?P<day>[0-9]{1,2})", "%m": "(?P<month>[0-9]{1,2})", "%Y": "(?P<year>[0-9]{4})"}
_FIXED = {"%d": "(?P<day>[0-9]{2})", "%m": "(?P<month>[0-9]{2})", "%Y": "(?P<year>[0-9]{4})"}


class Dialect(GrownValue):
    """The form of CSV lines and of the values in them; what it does not say is as in a plain CSV.

    Attributes:
        delimiter: What stands between two fields.
        quote: What a field with a delimiter in it stands in; None: there is no such mark.
        encoding: One of ``ENCODINGS``, or ``AS_STORED``.
        header: Whether the first line names the columns.
        names: The columns in the order of the file, where no line names them.
        skip: How many lines come before the header, or before the first row where there is none.
        decimal: The mark between whole and decimal digits.
        thousands: The mark between groups of three digits, which may be left out; None: there is none.
        date_format: How a day is written, with ``%d``, ``%m`` and ``%Y``; None: ``%Y-%m-%d``.
        true_values: The texts that mean true, in any case; empty: the usual ones.
        false_values: The texts that mean false, in any case; empty: the usual ones.
    """

    LATER: ClassVar[tuple[str, ...]] = ()
    delimiter: Literal[",", ";", "\t", "|"] = ","
    quote: Literal['"', "'"] | None = '"'
    encoding: str = "utf-8"
    header: bool = True
    names: tuple[str, ...] = ()
    skip: int = Field(0, ge=0)
    decimal: Literal[".", ","] = "."
    thousands: Literal[",", ".", " ", "'", "\u00a0", "\u202f", "\u2019"] | None = None
    date_format: str | None = None
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()

    @property
    def lines_before(self) -> int:
        """How many lines of a file are no rows."""
        return self.skip + self.header

    @property
    def has_notation(self) -> bool:
        """Whether numbers, days or truth values are written otherwise than plain."""
        return (self.decimal, self.thousands, self.date_format, self.true_values) != (".", None, None, ())

    @cached_property
    def day_pattern(self) -> re.Pattern[str] | None:
        """Matches a day at the beginning of a text, with groups ``year``, ``month`` and ``day``."""
        return None if self.date_format is None else day_pattern(self.date_format)

    def iso_day(self, text: str) -> tuple[str, str] | None:
        """The day that a text begins with, as ISO text, and what comes after it; None where there is no such day.

        >>> german = Dialect(date_format="%d.%m.%Y")
        >>> german.iso_day("7.3.2024 05:06"), german.iso_day("30.2.2024")
        (('2024-03-07', ' 05:06'), None)
        """
        found = None if self.day_pattern is None else self.day_pattern.match(text)
        if found is None:
            return None
        try:
            day = date(int(found["year"]), int(found["month"]), int(found["day"]))
        except ValueError:
            return None
        return day.isoformat(), text[found.end() :]


def day_pattern(date_format: str) -> re.Pattern[str]:
    """The pattern of a day; digits that touch have their full width.

    Raises:
        ValueError: If it does not hold ``%d``, ``%m`` and ``%Y`` once each, and nothing else after a ``%``.

    >>> bool(day_pattern("%Y%m%d").fullmatch("20240307")), bool(day_pattern("%d.%m.%Y").fullmatch("7.3.2024"))
    (True, True)
    """
    pieces = re.split(r"(%.?)", date_format, flags=re.DOTALL)
    marks = pieces[1::2]
    if sorted(marks) != ["%Y", "%d", "%m"]:
        raise ValueError(date_format)
    between = pieces[2:-1:2]
    parts = _PARTS if all(text and not text[0].isdigit() and not text[-1].isdigit() for text in between) else _FIXED
    return re.compile("".join(parts[each] if at % 2 else re.escape(each) for at, each in enumerate(pieces)), re.ASCII)
