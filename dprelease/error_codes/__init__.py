"""What does an error mean, why is it refused, and what is to be done? A text for every code, in the pages beside this.

To add one, write ``## DPR-S413``, its sentences and a line that begins with ``**What to do:**`` into the page that is
named after the beginning of the code (``S4.md``; any longer beginning may become a page of its own).

>>> codes_meant("s413")
('DPR-S413',)
>>> codes_meant("S41")[:3]
('DPR-S410', 'DPR-S411', 'DPR-S412')
>>> first_sentence(error_texts()["DPR-K104"])
'The file that a new key should go to exists already.'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

__all__ = ["codes_meant", "codes_near", "error_pages", "error_texts", "first_sentence"]

_ENTRY = re.compile(r"^## (DPR-[A-Z]\d{3})\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?:DPR-?)?([A-Z]\d{0,3})", re.IGNORECASE)
_SENTENCE = re.compile(r".+?[.?!](?=\s|\Z)", re.DOTALL)


@cache
def error_pages() -> dict[str, str]:
    """Every page, by the beginning that its codes share, in order: ``{"S4": "# DPR-S4: ..."}``; Markdown."""
    pages = (page for page in files(__name__).iterdir() if page.name.endswith(".md"))
    return {
        page.name.removesuffix(".md"): page.read_text(encoding="utf-8")
        for page in sorted(pages, key=lambda page: page.name)
    }


def entries(page: str) -> Iterator[tuple[str, str]]:
    """The codes of a page with their texts, in the order of the page."""
    for found in _ENTRY.finditer(page):
        yield found[1], found[2].strip()


@cache
def error_texts() -> dict[str, str]:
    """Every code with its text, in order of the codes; Markdown without the heading."""
    return dict(sorted(entry for page in error_pages().values() for entry in entries(page)))


def codes_meant(written: str) -> tuple[str, ...]:
    """The codes that somebody means, who may leave out ``DPR-``, capitals, and the last digits; none: it is no code.

    Args:
        written: What was typed: ``DPR-S413``, ``s413``, or ``S4`` for all that begin so.
    """
    found = _CODE.fullmatch(written.strip())
    if found is None:
        return ()
    return tuple(code for code in error_texts() if code.startswith(f"DPR-{found[1].upper()}"))


def codes_near(written: str) -> list[str]:
    """At most five codes of the same letter: first those with the same digits in another order, then by their numbers.

    >>> codes_near("S441")[0], codes_near("budget")
    ('DPR-S414', [])
    """
    found = _CODE.fullmatch(written.strip())
    if found is None:
        return []
    letter, digits = found[1][0].upper(), found[1][1:]

    def distance(code: str) -> tuple[bool, int]:
        return sorted(code[-3:]) != sorted(digits), abs(int(code[-3:]) - int(digits or 0))

    return sorted((code for code in error_texts() if code[4] == letter), key=distance)[:5]


def first_sentence(text: str) -> str:
    """What is wrong, in one sentence on one line."""
    found = _SENTENCE.match(text)
    return " ".join((found[0] if found else text).split())
