"""In which language is a sentence said? The sentences of pages in English, and catalogues of them in other languages.

The English sentence is the key: it stands where it is said, ``say("No number was published exactly.")``, with named
places in braces. ``de.po`` and ``fr.po`` beside this have the same sentences in other languages (the format of GNU
gettext, which every tool of translators reads). To add a language, add its catalogue and its line in ``LANGUAGES``.

>>> say("{lower} to {upper}", lower="3", upper="4")
'3 to 4'
>>> with speaking("de"):
...     say("{lower} to {upper}", lower="3", upper="4"), written("1,234.5")
('3 bis 4', '1.234,5')
"""

from __future__ import annotations

from dprelease.words.catalogue import Catalogue, CatalogueError, catalogue, folded, read_catalogue
from dprelease.words.languages import DEFAULT, LANGUAGES, Language, direction, is_language_tag
from dprelease.words.messages import (
    amount,
    day_written,
    listed,
    marked,
    marked_many,
    say,
    say_many,
    speaking,
    spoken,
    translated,
    within,
    written,
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
    "is_language_tag",
    "listed",
    "marked",
    "marked_many",
    "read_catalogue",
    "say",
    "say_many",
    "speaking",
    "spoken",
    "translated",
    "within",
    "written",
]
