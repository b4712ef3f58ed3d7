"""What a page says, block by block, for tests of its languages."""

from __future__ import annotations

import re
from html import unescape

from dprelease.words import LANGUAGES

__all__ = ["blocks_of_numbers", "blocks_of_text", "numbers_in"]

_HIDDEN = re.compile(r"<(style|script|head)\b.*?</\1>|<nav class=\"tongues\".*?</nav>", re.DOTALL)
_ENDS = re.compile(r"</(?:p|li|d[dt]|t[dhr]|h\d|caption|figcaption|summary|title|text)>")
_TABLE = re.compile(r"<table class=\"estimates\".*?</table>", re.DOTALL)
_CELL = re.compile(r"<td class=\"num[^\"]*\">.*?</td>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_CITED = re.compile(  # names of theorems, and versions: no numbers
    r"(?:[Tt]heorem|théorème|[Pp]roposition|[Ll]emma|lemme)\s[\d.]+|\b\d+(?:\.\d{1,2}){2,}\b"
)


def blocks_of_text(page: str) -> list[str]:
    """The visible text of each block of a page, in order."""
    text = _ENDS.sub("\0", _HIDDEN.sub("", page))
    blocks = (re.sub(r"[ \n]+", " ", unescape(_TAG.sub("", block))).strip(" ") for block in text.split("\0"))
    return [block for block in blocks if block]


def numbers_in(text: str, tag: str) -> list[str]:
    """The numbers of a text as English writes them, sorted; powers of ten among them."""
    language = LANGUAGES[tag]
    group, point = re.escape(language.group), re.escape(language.point)
    number = re.compile(rf"\d{{1,3}}(?:{group}\d{{3}})+(?:{point}\d+)?(?!\d)|\d+(?:{point}\d+)?|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
    signs = {ord(language.group): ",", ord(language.point): "."}
    return sorted(each.translate(signs) for each in number.findall(_CITED.sub("", text)))


def blocks_of_numbers(page: str, tag: str) -> list[list[str]]:
    """The numbers of every block that has some, in order; then those of all cells.

    A wide table is cut where a sheet of paper ends, which the length of its heads decides as well: its cells are
    compared whatever part they stand in, and its heads are left out.
    """
    cells = [numbers for cell in _CELL.findall(page) if (numbers := numbers_in(_TAG.sub("", cell), tag))]
    found = (numbers_in(block, tag) for block in blocks_of_text(_TABLE.sub("", page)))
    return [*(numbers for numbers in found if numbers), *sorted(cells)]
