"""A catalogue: the sentences of pages in another language, in the format of GNU gettext (``.po``), strictly read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Formatter

__all__ = ["Catalogue", "CatalogueError", "catalogue", "folded", "places", "read_catalogue"]

_FIELD = re.compile(r'(msgid|msgid_plural|msgstr|msgstr\[0\]|msgstr\[1\])\s+"(.*)"')
_MORE = re.compile(r'"(.*)"')
_ESCAPED = re.compile(r"\\(.)")
_SIGNS = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


class CatalogueError(ValueError):
    """A catalogue that is not as it should be: which line, and why."""


@dataclass(frozen=True)
class Catalogue:
    """The sentences of one language, by the English ones.

    Attributes:
        one: A sentence without a number that decides its form.
        many: For one of something and for several, by the two English sentences.
    """

    one: Mapping[str, str]
    many: Mapping[tuple[str, str], tuple[str, str]]


def folded(text: str) -> str:
    """A sentence as a catalogue has it: on one line, whatever lines it is written on."""
    return " ".join(text.split())


def places(text: str) -> frozenset[str]:
    """The named places of a sentence.

    >>> sorted(places("{count} of {all} numbers"))
    ['all', 'count']
    """
    return frozenset(name for _, name, _, _ in Formatter().parse(text) if name is not None)


@cache
def catalogue(tag: str) -> Catalogue:
    """The catalogue of a language, as it comes with the package."""
    return read_catalogue(files("dprelease.words").joinpath(f"{tag}.po").read_text(encoding="utf-8"))


def read_catalogue(text: str, *, whole: bool = True) -> Catalogue:
    """A catalogue from its text.

    Args:
        text: Of the file.
        whole: Whether every sentence must have a translation; else those without one are left out.

    Raises:
        CatalogueError: For a line that is none of the format, a sentence twice or without a translation, or one whose
            named places are not those of the English sentence.
    """
    one: dict[str, str] = {}
    many: dict[tuple[str, str], tuple[str, str]] = {}
    for number, entry in _entries(text):
        english = entry.get("msgid", "")
        if not english:  # the head of the file
            continue
        if "msgid_plural" in entry:
            key = (english, entry["msgid_plural"])
            found = (entry.get("msgstr[0]", ""), entry.get("msgstr[1]", ""))
            if not all(found) and not whole:
                continue
            _checked(number, "".join(key), "".join(found), twice=key in many, empty=not all(found))
            many[key] = found
        elif whole or entry.get("msgstr"):
            _checked(number, english, entry.get("msgstr", ""), twice=english in one, empty=not entry.get("msgstr"))
            one[english] = entry["msgstr"]
    return Catalogue(one, many)


def _checked(number: int, english: str, said: str, *, twice: bool, empty: bool) -> None:
    if twice or empty:
        raise CatalogueError(f"line {number}: a sentence {'stands twice' if twice else 'has no translation'}")
    try:
        different = places(english) ^ places(said)
    except ValueError:
        raise CatalogueError(f"line {number}: a brace that is not closed") from None
    if different:
        raise CatalogueError(f"line {number}: other named places than the English: {', '.join(sorted(different))}")


def _entries(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Each entry with the number of its first line."""
    entry: dict[str, str] = {}
    begins, field = 1, ""
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if not line.strip():
            if entry:
                yield begins, entry
            entry, begins, field = {}, number + 1, ""
        elif line.startswith("#"):
            continue
        elif named := _FIELD.fullmatch(line):
            field = named[1]
            if field in entry:
                raise CatalogueError(f"line {number}: {field} stands twice in one entry")
            entry[field] = _unescaped(named[2])
        elif field and (more := _MORE.fullmatch(line)):
            entry[field] += _unescaped(more[1])
        else:
            raise CatalogueError(f"line {number}: neither a comment nor a field")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _SIGNS.get(found[1], found[1]), text)
