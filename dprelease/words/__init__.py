"""In which language is a sentence said? The sentences of pages in English, and catalogues of them in other languages.

The English sentence is the key: it stands where it is said, ``phrase("No number was published exactly.")``, with named
places in braces. ``de.po`` and ``fr.po`` beside this have the same sentences in other languages (the format of GNU
gettext, which every tool of translators reads). To add a language, add its catalogue and its line in ``LANGUAGES``.

>>> phrase("{lower} to {upper}", lower="3", upper="4")
'3 to 4'
>>> with speaking("de"):
...     phrase("{lower} to {upper}", lower="3", upper="4"), number_written("1,234.5")
('3 bis 4', '1.234,5')
"""

from __future__ import annotations

from dprelease.words.catalogue import Catalogue, CatalogueError, catalogue, folded, read_catalogue
from dprelease.words.languages import DEFAULT, LANGUAGES, Language, direction, is_language_tag
from dprelease.words.messages import (
    amount,
    day_written,
    in_a_row,
    inside_sentence,
    marked,
    marked_many,
    number_written,
    phrase,
    phrase_many,
    speaking,
    spoken,
    translated,
)

__all__ = [
    "DEFAULT",
    "LANGUAGES",
    "Catalogue",
    "CatalogueError",
    "Language",
    "amount",
    "catalogue",
    "day_written",
    "direction",
    "folded",
    "in_a_row",
    "inside_sentence",
    "is_language_tag",
    "marked",
    "marked_many",
    "number_written",
    "phrase",
    "phrase_many",
    "read_catalogue",
    "speaking",
    "spoken",
    "translated",
]
