"""Which letters a certificate can show: those of the fonts that come with what makes it, the same on every machine.

A letter that none of these fonts has would stop the whole file, or, without a standard, be lost in silence. So it is
written as its number: a reader then sees that there is a letter, and which.
"""

from __future__ import annotations

import re
from functools import cache

from dprelease.publish.html_text import visible

__all__ = ["BREAK", "COVERED", "in_lines", "printable"]

BREAK = "\u200b"  # where a line may end: the template puts an empty box there, which no copy of the text has
_PIECE, _WHOLE = 4, 14  # signs between two such places; signs of a part of a name that is left whole
_LONGEST_WORD = 23  # letters of a word that is left whole, as the narrowest column of words has room for
_WORD = re.compile(r"[^._:/-]*[._:/-]+|[^._:/-]+")  # with the signs behind it
_LONG = re.compile(r"[!-\u0250]{18,}")  # of a script whose letters are not joined

# Ranges of code points, found by making a PDF/A-2a of every letter by itself (typst 0.15.2: Libertinus Serif, New
# Computer Modern, DejaVu Sans Mono). Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic, Devanagari, Georgian, Cherokee,
# signs and arrows are whole; Chinese, Japanese, Korean, Thai and emoji are not there. A test makes a file of all.
COVERED = """
20-7e a0-377 37a-37f 384-38a 38c 38e-3a1 3a3-4ff 510-513 51a-51d 531-556 559-58a 58d-58f 591-5c7 5d0-5ea 5ef-5f4
606-60c 615 61b-61c 61f 621-63a 640-655 65a 660-66d 674 679-67b 67e-680 683-684 686-687 691 698 6a4 6a9 6af 6be
6cc 6f0-6f9 900-97f e3f e81-e82 e84 e87-e88 e8a e8d e94-e97 e99-e9f ea1-ea3 ea5 ea7 eaa-eab ead-eb9 ebb-ebc
ec8-ecd 10d0-10ff 115f-1160 13a0-13f5 13f8-13fd 17b4-17b5 17c1-17c3 180b-180f 1ab0-1ace 1d00-1f15 1f18-1f1d
1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fc4 1fc6-1fd3 1fd6-1fdb 1fdd-1fef
1ff2-1ff4 1ff6-1ffe 2000-2040 2042 2044-2052 2054-2064 2066-2071 2074-208e 2090-209c 20a0-20c0 20d0-20f0
2100-211e 2120 2122 2124 2126-2151 2153-2184 2189 2190-23ff 2422-2423 2460-262f 2638-268b 2690-269c 26a0-26a7
26aa-26b2 2701-2704 2706-2709 270c-2727 2729-274b 274d 274f-2752 2756 2758-275e 2761-277f 2794 2798-27af
27b1-2b73 2b76-2b95 2b97-2bff 2c60-2cf3 2cf9-2cff 2e02-2e05 2e08-2e0a 2e17-2e18 2e1f 2e22-2e25 2e2e 3000 3012
3016-3017 301a-301b 302e-3030 3036 306e a640-a641 a648-a649 a656-a657 a708-a716 a71b-a727 a72d a730 a735 a765
a789-a78e a790-a791 a793 a7aa a7f8-a7f9 fb00-fb06 fb13-fb17 fb1d-fb36 fb38-fb3c fb3e fb40-fb41 fb43-fb44
fb46-fb4f fb52-fb81 fb8a-fb95 fb9e-fb9f fbaa-fbad fbe8-fbe9 fbfc-fbff fe00-fe0f fe20-fe2f fe66 fe70-fe74
fe76-fefc feff 1d400-1d454 1d456-1d49c 1d49e-1d49f 1d4a2 1d4a5-1d4a6 1d4a9-1d4ac 1d4ae-1d4b9 1d4bb 1d4bd-1d4c3
1d4c5-1d505 1d507-1d50a 1d50d-1d514 1d516-1d51c 1d51e-1d539 1d53b-1d53e 1d540-1d544 1d546 1d54a-1d550
1d552-1d6a5 1d6a8-1d7cb 1d7ce-1d7ff
"""


def printable(text: str) -> str:
    """The text with every letter that no font has, and every sign that reorders or controls, as its code point.

    >>> printable("Zürich, الرباط, 統計")
    'Zürich, الرباط, [U+7D71][U+8A08]'
    """
    if text.isascii() and text.isprintable():
        return text
    known = _known()
    return "".join(sign if sign in known else f"[U+{ord(sign):04X}]" for sign in visible(text))


def in_lines(text: str) -> str:
    """The same, with places at which a run of signs without a space, such as a hash, may break.

    >>> in_lines("a short-one"), in_lines("0" * 18).count(BREAK)
    ('a short-one', 4)
    >>> in_lines("crosstabs.marital_status").split(BREAK)
    ['crosstabs.', 'marital_', 'status']
    >>> in_lines("Rat des Datenschutzbeauftragten").count(BREAK)
    0
    """
    return _LONG.sub(_in_pieces, printable(text).replace(BREAK, ""))


def _in_pieces(found: re.Match[str]) -> str:
    """Behind the signs between the words of a name, and within what has none for long; a word of a sentence stays."""
    if found[0].isalpha() and len(found[0]) <= _LONGEST_WORD:
        return found[0]
    words = _WORD.findall(found[0])
    return BREAK.join(
        word[at : at + size] for word in words for size in [_piece(word)] for at in range(0, len(word), size)
    )


def _piece(word: str) -> int:
    return len(word) if len(word) <= _WHOLE else _PIECE


@cache
def _known() -> frozenset[str]:
    found = set()
    for part in COVERED.split():
        first, _, last = part.partition("-")
        found |= {chr(at) for at in range(int(first, 16), int(last or first, 16) + 1)}
    return frozenset(found)
