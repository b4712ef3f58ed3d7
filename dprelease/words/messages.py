"""Sentences and numbers in the language that is spoken: English, unless pages in another one are being made.

What is spoken is a variable of the context, as what a decimal context rounds by: a page is made of sentences of many
modules, down to those on measures, and none of them decides about the language. ``speaking`` sets it for a block, and
nothing else does; files for programs are made outside of any such block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date

from dprelease.words.catalogue import catalogue, folded
from dprelease.words.languages import DEFAULT, LANGUAGES, Language

__all__ = [
    "amount",
    "day_written",
    "in_a_row",
    "inside_sentence",
    "marked",
    "marked_many",
    "number_written",
    "phrase",
    "phrase_many",
    "speaking",
    "spoken",
    "translated",
]  # fmt: skip

_SPOKEN: ContextVar[Language] = ContextVar("spoken", default=LANGUAGES[DEFAULT])


@contextmanager
def speaking(tag: str) -> Iterator[None]:
    """Speak a language within a block."""
    before = _SPOKEN.set(LANGUAGES[tag])
    try:
        yield
    finally:
        _SPOKEN.reset(before)


def spoken() -> Language:
    """The language that is spoken."""
    return _SPOKEN.get()


def marked(text: str) -> str:
    """The sentence itself: it belongs to the catalogue, and is said later, by :func:`phrase` of a variable."""
    return text


def translated(text: str) -> str:
    """A sentence in the language that is spoken, its places still open; one that no catalogue has is an error.

    Raises:
        KeyError: The catalogue lacks it.
    """
    language = _SPOKEN.get()
    if language.tag == DEFAULT:
        return text
    said = catalogue(language.tag).one[folded(text)]
    before, after = len(text) - len(text.lstrip()), len(text.rstrip())
    return f"{text[:before]}{said}{text[after:]}"


def marked_many(one: str, many: str) -> tuple[str, str]:
    """The two sentences themselves, for one of something and for several: they are said later."""
    return one, many


def phrase(text: str, /, **places: object) -> str:
    """A sentence in the language that is spoken, with what belongs into its places."""
    said = translated(text)
    return said.format(**places) if places else said


def phrase_many(one: str, many: str, number: int, /, **places: object) -> str:
    """The sentence for one of something or that for several, by the number, which is written at ``{number}``."""
    language = _SPOKEN.get()
    forms = (one, many) if language.tag == DEFAULT else catalogue(language.tag).many[folded(one), folded(many)]
    return forms[language.several(number)].format(number=amount(number), **places)


def amount(number: int) -> str:
    """A whole number, its digits in groups of three."""
    return number_written(f"{number:,}")


def number_written(number: str) -> str:
    """A number that is written as in English, as the language that is spoken writes it.

    >>> with speaking("fr"):
    ...     number_written("−1,234.5").replace(chr(0x202f), " ")
    '−1 234,5'
    """
    language = _SPOKEN.get()
    if language.tag == DEFAULT:
        return number
    return number.translate({ord(","): language.group, ord("."): language.point})


def inside_sentence(text: str) -> str:
    """A phrase that can begin a sentence, as it stands within one.

    >>> inside_sentence("Means")
    'means'
    """
    return text if _SPOKEN.get().capitals else text[:1].lower() + text[1:]


def day_written(day: date) -> str:
    """A day of the calendar, with the name of its month.

    >>> day_written(date(2024, 5, 1))
    '1 May 2024'
    """
    language = _SPOKEN.get()
    number = language.first if day.day == 1 else str(day.day)
    return language.date.format(day=number, month=language.months[day.month - 1], year=day.year)


def in_a_row(names: Sequence[str], last: str = "and") -> str:
    """Names in a row: ``a, b and c``; with ``or`` before the last one.

    >>> in_a_row(["a", "b", "c"]), in_a_row(["a"]), in_a_row([]), in_a_row(["a", "b"], "or")
    ('a, b and c', 'a', '', 'a or b')
    """
    if len(names) < 2:
        return "".join(names)
    first = ", ".join(names[:-1])
    if last == "and":
        return phrase("{first} and {last}", first=first, last=names[-1])
    return phrase("{first} or {last}", first=first, last=names[-1])
