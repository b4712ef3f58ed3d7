"""What one text means under a declared type: a value, or None. The only definition; vectorised reading is a shortcut.

Nothing here raises because of a text. Digits are ASCII digits; blanks around anything but text are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal

from dprelease.catalog.table import ColumnType

__all__ = ["BEYOND", "BLANKS", "LIMIT", "MARK", "READ", "Scalar", "id_text", "number_text"]

Scalar = int | float | bool | str

BLANKS = " \t\n\v\f\r"
LIMIT = 2**63  # integers from -LIMIT to LIMIT - 1 have a place in 64 bits
BEYOND = 2**64  # stands for every integer above
MARK = "\ufdd0"  # no character: Unicode keeps it for use within a program, so that hardly any text has it

_NUMBER = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?)([0-9]+))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))?"
)
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def read_integer(text: str) -> int | None:
    """A whole number in any decimal notation, exactly; at most ``BEYOND`` in size, where longer ones end.

    >>> read_integer("15400.0"), read_integer("1.5e1"), read_integer("15400.5"), read_integer("9" * 400) == BEYOND
    (15400, 15, None, True)
    """
    match = _NUMBER.fullmatch(text.strip(BLANKS))
    if not match:
        return None
    sign, whole, tail, bare, minus, power = match.groups(default="")
    digits = (whole + tail + bare).lstrip("0")
    if not digits:
        return 0
    size = power.lstrip("0")
    # A power of ten with more digits than this outweighs every text that fits in memory.
    shift = int(size or "0") if len(size) < 16 else 10**16
    shift = (-shift if minus == "-" else shift) - len(tail + bare)
    short = digits.rstrip("0")
    shift += len(digits) - len(short)
    if shift < 0:
        return None
    value = int(short) * 10**shift if len(short) + shift < 20 else BEYOND
    value = value if value <= LIMIT else BEYOND
    return -value if sign == "-" else value


def read_decimal(text: str) -> float | None:
    """The nearest double, if it is finite; minus zero is zero.

    >>> read_decimal(" 1.5 "), read_decimal("1e400"), read_decimal("nan"), read_decimal("1_0")
    (1.5, None, None, None)
    """
    stripped = text.strip(BLANKS)
    if not _NUMBER.fullmatch(stripped):
        return None
    value = float(stripped)
    return value + 0.0 if math.isfinite(value) else None


def read_boolean(text: str) -> bool | None:
    """``true false t f 1 0`` in any case."""
    return _BOOLEANS.get(text.strip(BLANKS).lower())


def read_date(text: str) -> str | None:
    """``YYYY-MM-DD`` if there is such a day from year 1 on, else None."""
    stripped = text.strip(BLANKS)
    return stripped if _DATE.fullmatch(stripped) and _exists(stripped, date.fromisoformat) else None


def read_timestamp(text: str) -> str | None:
    """An ISO 8601 date and time as one text for each moment, in UTC where it has an offset; None where there is none.

    Files write one moment in many ways; units, distinct values and the order of rows must not depend on which.

    >>> read_timestamp("2024-03-07 05:06"), read_timestamp("2024-03-07T06:06:00.500+01:00")
    ('2024-03-07T05:06:00', '2024-03-07T05:06:00.5')
    """
    match = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if not match:
        return None
    day, clock, seconds, fraction, sign, hours, minutes = match.groups(default="")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}:{seconds or '00'}")
        if sign:
            ahead = timedelta(hours=int(hours), minutes=int(minutes))
            moment = moment - ahead if sign == "+" else moment + ahead
    except (ValueError, OverflowError):
        return None
    part = fraction.rstrip("0")
    return moment.isoformat(timespec="seconds") + (f".{part}" if part else "")


def _exists(text: str, parse: Callable[[str], object]) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


READ: Mapping[ColumnType, Callable[[str], Scalar | None]] = {
    "text": str,
    "integer": read_integer,
    "decimal": read_decimal,
    "boolean": read_boolean,
    "date": read_date,
    "timestamp": read_timestamp,
}


def id_text(raw: bytes) -> str:
    r"""The text of a unit's id: no two byte strings have the same one, whatever they hold.

    Bytes that are UTF-8 are their own text. All others, and those that begin with ``MARK``, are ``MARK`` and then the
    bytes in hexadecimal. So a text that begins with ``MARK`` says every byte of its id, any other text is its id, and
    which of the two it is shows at its beginning.

    >>> print(id_text(b"Ren\xc3\xa9"), ascii(id_text(b"Ren\xe9")), ascii(id_text("\ufdd052656ee9".encode())))
    René '\ufdd052656ee9' '\ufdd0efb7903532363536656539'
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = MARK
    return MARK + raw.hex() if text.startswith(MARK) else text


def number_text(value: float | Decimal) -> str | None:
    """The text of a stored number: one for each number, whatever type it is stored as; None where it is not finite.

    Its digits, without an exponent, without zeros at the end of a fraction. Those of a double are all digits of a whole
    number, else the fewest that are read as this double and no other.

    >>> number_text(15400.0), number_text(-0.0), number_text(0.5), number_text(float("inf"))
    ('15400', '0', '0.5', None)
    >>> number_text(Decimal("17.00")), number_text(1e-7), number_text(2.0**70)
    ('17', '0.0000001', '1180591620717411303424')
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = Decimal(int(value)) if value.is_integer() else Decimal(repr(value))
    text = format(value, "f") if value else "0"  # minus zero, too
    return text.rstrip("0").rstrip(".") if "." in text else text
