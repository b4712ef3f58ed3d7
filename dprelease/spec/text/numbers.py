"""Numbers as they are written: their own digits, read exactly or refused by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

__all__ = ["Constant", "NotANumber", "Numeral", "read_rational"]

_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE]([-+]?[0-9]+))?")
_RATIO = re.compile(r"([-+]?[0-9]+)/([0-9]+)")
_INFINITE = re.compile(r"[-+]?\.?inf(?:inity)?", re.IGNORECASE)
_NAN = re.compile(r"[-+]?\.?nan", re.IGNORECASE)
_LONGEST = 200
_LARGEST_POWER = 400
_LARGEST = 10**300


class NotANumber(ValueError):
    """A text that is not an exact finite number.

    Attributes:
        reason: What it is instead; completes "`field` is ...".
        hint: What to write.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True)
class Numeral:
    """A plain scalar that is a number by the YAML 1.2 core rules; it remembers its digits.

    >>> Numeral("06").text, Numeral("06").whole, Numeral("1e-9").fraction
    ('06', 6, Fraction(1, 1000000000))
    """

    text: str

    @staticmethod
    def matches(text: str) -> bool:
        """Whether a plain scalar is a number: an integer, or a decimal with or without a power of ten."""
        return _NUMBER.fullmatch(text) is not None

    @property
    def fraction(self) -> Fraction:
        """The exact value.

        Raises:
            NotANumber: If it is absurdly long or large.
        """
        return read_rational(self.text)

    @property
    def whole(self) -> int | None:
        """The value if it is written as an integer of a length that can be meant."""
        return int(self.text) if _INTEGER.fullmatch(self.text) and len(self.text) <= _LONGEST else None


@dataclass(frozen=True)
class Constant:
    """A plain scalar that stands for true, false or nothing; it remembers how it is spelled."""

    text: str
    value: bool | None


def read_rational(text: str) -> Fraction:
    """The exact value of digits, with a point, a power of ten or a ``/``.

    >>> read_rational("0.5"), read_rational("104/4099")
    (Fraction(1, 2), Fraction(104, 4099))

    Raises:
        NotANumber: For anything else, and for what no parameter can mean: more than 200 characters, a power of
            ten beyond 400 (which is refused before it is computed), or a size of 1e300 and more.
    """
    found, ratio = _NUMBER.fullmatch(text), _RATIO.fullmatch(text)
    if not found and not ratio:
        raise _not_a_number(text)
    if len(text) > _LONGEST:
        raise NotANumber(f"a number of {len(text)} characters", f"use at most {_LONGEST}")
    if ratio:
        if int(ratio[2]) == 0:
            raise NotANumber("a division by zero", "write a fraction such as 1/2")
        value = Fraction(int(ratio[1]), int(ratio[2]))
    else:
        if found and found[1] and abs(int(found[1])) > _LARGEST_POWER:
            raise NotANumber("a number with an absurd exponent", "write a number such as 1e-9")
        value = Fraction(Decimal(text))
    if abs(value) >= _LARGEST:
        raise NotANumber("too large to be meant (1e300 or more)", "write a smaller number")
    return value


def _not_a_number(text: str) -> NotANumber:
    example = "write digits such as 0.5, 1e-9 or 1/2"
    if _NAN.fullmatch(text):
        return NotANumber("NaN, not a number", example)
    if _INFINITE.fullmatch(text):
        return NotANumber("infinite", f"{example}: every limit here is finite")
    if text.endswith("%") and _NUMBER.fullmatch(text[:-1]):
        return NotANumber("a percentage, not a number", "write it as a fraction of one: 95% is 0.95")
    if "_" in text and _NUMBER.fullmatch(text.replace("_", "")):
        return NotANumber("text, for it holds `_`", f"write {text.replace('_', '')[:40]}")
    if "," in text and _NUMBER.fullmatch(text.replace(",", "")):
        return NotANumber("text, for it holds a comma", "write a decimal point, and nothing between thousands")
    return NotANumber("text, not a number", example)
