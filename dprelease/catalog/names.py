"""What people are shown in the place of names, in several languages: titles, labels, units, conditions."""

from __future__ import annotations

from dprelease.canonical import Value
from dprelease.words import DEFAULT, direction

__all__ = ["Foreign", "Names"]


class Foreign(str):
    """Words in another language than the page that they stand on: there they are marked as such.

    Attributes:
        tag: Their language.
    """

    __slots__ = ("tag",)
    tag: str

    def __new__(cls, text: str, tag: str) -> Foreign:
        """The text with its language."""
        found = super().__new__(cls, text)
        found.tag = tag
        return found

    @property
    def direction(self) -> str:
        """In which direction it is written."""
        return direction(self.tag)


class Names(Value):
    """Everything that the author says to a reader, by what it is said of.

    Attributes:
        languages: Of the pages; those of the first one stand in the bundle itself, the others in folders.
        texts: By a path (``queries/income/measures/average/title``) the words, by language.
    """

    languages: tuple[str, ...] = (DEFAULT,)
    texts: dict[str, dict[str, str]] = {}

    def said(self, *path: str, language: str) -> str:
        """The words of a path in a language; in another one, marked, where it has none in that; empty: it has none.

        Another one is the first language of the pages that has words, or else the first one that was written.
        """
        return self.chosen(self.texts.get("/".join(path), {}), language)

    def chosen(self, by_language: dict[str, str], language: str) -> str:
        """Those of these words that a page in this language shows."""
        for tag in (language, *self.languages, *sorted(by_language)):
            if tag in by_language:
                return by_language[tag] if tag == language else Foreign(by_language[tag], tag)
        return ""
