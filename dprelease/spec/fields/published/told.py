"""Words of the author for a reader: in one language, or in several by their tags, or from a column of a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic.config import JsonDict

from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.names import did_you_mean
from dprelease.spec.text.scalars import Filled, Text, refuse
from dprelease.words import DEFAULT, LANGUAGES, is_language_tag

__all__ = ["Labels", "NameSpec", "PageLanguages", "ReferenceLabels", "Told", "first_said", "said"]

_TAGS = "write the tag of a language, such as en, de, ar or de-CH"
_SCHEMA: JsonDict = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$"},
            "additionalProperties": {"type": "string"},
        },
    ]
}


def _told(value: Any) -> Any:
    """Text as it is; a mapping by the tags of languages."""
    if not isinstance(value, Mapping):
        return value
    if not value:
        raise refuse("DPR-S470", "is words in no language", "write `{en: ..., de: ...}`, or plain text")
    for tag in value:
        if not isinstance(tag, str) or not is_language_tag(tag):
            raise refuse("DPR-S471", f"has words in {str(tag)!r}, which is not the tag of a language", _TAGS)
    return dict(value)


def _form_of_words(value: Any) -> str:
    return "<words>" if isinstance(value, Mapping) else "<text>"


Told = Annotated[
    Annotated[
        Annotated[Text, Tag("<text>")] | Annotated[dict[str, Text], Tag("<words>")], Discriminator(_form_of_words)
    ],
    BeforeValidator(_told),
    WithJsonSchema(_SCHEMA),
]
"""Plain text is in the first language of the release."""


def _known(tag: Any) -> Any:
    if isinstance(tag, str) and tag not in LANGUAGES:
        hint = did_you_mean(tag, LANGUAGES, f"there are {', '.join(LANGUAGES)}")
        raise refuse("DPR-S472", f"names a language that pages cannot be in: {tag!r}", hint)
    return tag


def _each_once(tags: Any) -> Any:
    if isinstance(tags, list | tuple) and (not tags or len(set(map(str, tags))) < len(tags)):
        says = "names a language twice" if tags else "names no language"
        raise refuse("DPR-S473", says, "write each language once, the first one for `index.html`: `[en, de]`")
    return tuple(tags) if isinstance(tags, list) else tags


PageLanguages = Annotated[
    tuple[Annotated[str, BeforeValidator(_known)], ...],
    BeforeValidator(_each_once),
    WithJsonSchema({"type": "array", "minItems": 1, "uniqueItems": True, "items": {"enum": list(LANGUAGES)}}),
]


class ReferenceLabels(SpecValue):
    """Labels of keys from a public file."""

    reference: Filled = Field(description="A name under `references`.")
    column: Told = Field(description="Of the reference: the words; or a column for each language, by its tag.")
    key: Filled | None = Field(
        None, description="Of the reference: the keys; left out: that of `keys`, or of the name."
    )


def _form_of_labels(value: Any) -> str:
    """A mapping with `reference` and `column` is one to a reference."""
    if isinstance(value, ReferenceLabels):
        return "<reference>"
    to_a_file = isinstance(value, Mapping) and isinstance(value.get("reference"), str) and "column" in value
    return "<reference>" if to_a_file else "<labels>"


Labels = Annotated[
    Annotated[ReferenceLabels, Tag("<reference>")] | Annotated[dict[str, Told], Tag("<labels>")],
    Discriminator(_form_of_labels),
]


class NameSpec(SpecValue):
    """What a reader sees of a published number."""

    title: Told = Field("", description="In the place of its name: at the head of its column, and beside its chart.")
    description: Told = Field("", description="What it is, in the author's words, before what the program says of it.")
    measured_in: Told = Field("", description="The unit of measurement, where that is not the one of its column.")
    condition: Told = Field("", description="What its `where` says, in words.")


def said(told: str | Mapping[str, str], languages: Sequence[str]) -> dict[str, str]:
    """Words by language; nothing where none were written.

    >>> said("Persons", ("de", "en")), said({"ar": "x"}, ("de",)), said("", ("de",))
    ({'de': 'Persons'}, {'ar': 'x'}, {})
    """
    by_language = {languages[0] if languages else DEFAULT: told} if isinstance(told, str) else dict(told)
    return {tag: text for tag, text in by_language.items() if text}


def first_said(told: str | Mapping[str, str], languages: Sequence[str]) -> str:
    """The words in the first of these languages that has some, else in the first one that was written; or none.

    >>> first_said({"fr": "oui", "de": "ja"}, ("en", "de")), first_said({"ar": "x"}, ("en",)), first_said("yes", ())
    ('ja', 'x', 'yes')
    """
    by_language = said(told, languages)
    wanted = next((tag for tag in languages if tag in by_language), next(iter(by_language), ""))
    return by_language.get(wanted, "")
