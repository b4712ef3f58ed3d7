"""Names that can be used, names that come near, and text that is safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["COLUMN_NAME", "NAME_RULE", "QUERY_NAME", "did_you_mean", "listed", "nearest", "shown"]

COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
QUERY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
NAME_RULE = "use letters, digits and _, not beginning with a digit, at most 63"
_LONGEST = 60
_MOST = 12


def shown(text: str, longest: int = _LONGEST) -> str:
    r"""Text of a spec as it may stand in a message: short, and without control characters or half characters.

    >>> shown("a\nb")
    'a\\nb'
    """
    safe = text[:longest]
    if not safe.isprintable():
        safe = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in safe)
    return safe if len(text) <= longest else f"{safe}..."


def listed(names: Iterable[str]) -> str:
    """Names in a row, as many as a reader takes in.

    >>> listed(["a", "b"]), listed([])
    ('a, b', 'none')
    """
    known = list(names)
    more = f", and {len(known) - _MOST} more" if len(known) > _MOST else ""
    return ", ".join(map(shown, known[:_MOST])) + more if known else "none"


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that comes nearest to a word, if any comes near.

    >>> nearest("Boundz", ["bounds", "by"]), nearest("x", ["bounds", "by"])
    ('bounds', None)
    """
    small = {name.lower()[:_LONGEST]: name for name in names}
    near = get_close_matches(word.lower()[:_LONGEST], small, n=1, cutoff=0.6)
    return small[near[0]] if near else None


def did_you_mean(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """The nearest name as a question, or what is there.

    >>> did_you_mean("boundz", ["bounds", "by"])
    'did you mean `bounds`?'
    >>> did_you_mean("x", ["bounds", "by"])
    'there is: bounds, by'
    """
    known = list(names)
    near = nearest(word, known)
    if near is not None:
        return f"did you mean `{shown(near)}`?"
    return otherwise or f"there is: {listed(known)}"
