"""The languages that pages can be in, with how each writes numbers, and the direction of those that labels can be in.

The table is our own: what a library knows of languages changes with its version, and pages must be the same bytes
wherever they are made. Points, groups and months are those of Unicode (CLDR 45), and a test holds them fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["DEFAULT", "LANGUAGES", "Language", "direction", "is_language_tag"]

DEFAULT = "en"
_TAG = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|\d{3}))?")
_RIGHT_TO_LEFT = frozenset(("ar", "arc", "ckb", "dv", "fa", "he", "ks", "ps", "sd", "syr", "ug", "ur", "yi"))
_RIGHT_TO_LEFT_SCRIPTS = frozenset(
    ("Adlm", "Arab", "Aran", "Hebr", "Mand", "Mend", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa")
)


@dataclass(frozen=True)
class Language:
    """A language that pages can be in.

    Attributes:
        tag: Its tag (BCP 47), which names its folder and its catalogue.
        name: Its name, in itself.
        point: Between whole numbers and decimals.
        group: Between groups of three digits.
        months: The names of the months.
        date: A day, of ``{day}``, ``{month}`` and ``{year}``.
        first: How the first day of a month is written.
        capitals: Whether nouns begin with capital letters within a sentence too.
        several: Whether a number takes the plural.
    """

    tag: str
    name: str
    point: str
    group: str
    months: tuple[str, ...]
    date: str
    first: str
    capitals: bool
    several: Callable[[int], bool]


_EVERY = (
    Language(
        tag="en",
        name="English",
        point=".",
        group=",",
        months=(
            "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
            "November", "December",
        ),
        date="{day} {month} {year}",
        first="1",
        capitals=False,
        several=lambda number: number != 1,
    ),
    Language(
        tag="de",
        name="Deutsch",
        point=",",
        group=".",
        months=(
            "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
            "Dezember",
        ),
        date="{day}. {month} {year}",
        first="1",
        capitals=True,
        several=lambda number: number != 1,
    ),
    Language(
        tag="fr",
        name="Français",
        point=",",
        group="\u202f",
        months=(
            "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre",
            "novembre", "décembre",
        ),
        date="{day} {month} {year}",
        first="1er",
        capitals=False,
        several=lambda number: number > 1,
    ),
)  # fmt: skip
LANGUAGES: dict[str, Language] = {each.tag: each for each in _EVERY}


def is_language_tag(text: str) -> bool:
    """Whether a text is the tag of a language, as it stands in the attribute ``lang`` of a page.

    >>> [is_language_tag(each) for each in ("ar", "de-CH", "sr-Latn", "gsw", "german", "DE")]
    [True, True, True, True, False, False]
    """
    return _TAG.fullmatch(text) is not None


def direction(tag: str) -> str:
    """In which direction a language is written: ``ltr`` or ``rtl``; by its script, where its tag names one.

    >>> [direction(each) for each in ("de", "ar", "ar-EG", "az-Arab", "ku-Latn")]
    ['ltr', 'rtl', 'rtl', 'rtl', 'ltr']
    """
    language, *rest = tag.split("-")
    script = next((each for each in rest if len(each) == 4), None)
    known = language in _RIGHT_TO_LEFT if script is None else script in _RIGHT_TO_LEFT_SCRIPTS
    return "rtl" if known else "ltr"
