"""The catalogues of sentences: whole, with the same places, numbers and marks; and no page says anything beside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from html import escape
from types import MappingProxyType

import pytest
from jinja2 import Environment, nodes

import dprelease.words.messages as spoken_words
from dprelease.formats import FORMATS
from dprelease.publish.accounting.report import accounting_page
from dprelease.publish.base import Content
from dprelease.publish.certificate.pdf import certificate_texts
from dprelease.publish.site.html import ACCOUNTING, site_files
from dprelease.publish.site.localised import accountable, in_spoken_language
from dprelease.words import (
    DEFAULT,
    LANGUAGES,
    Catalogue,
    CatalogueError,
    catalogue,
    phrase,
    phrase_many,
    read_catalogue,
    speaking,
)
from tests.unit import formats_example, languages_example, unadjusted_example
from tests.unit.publish_example import facts
from tests.words import blocks_of_numbers, blocks_of_text, numbers_in
from tools.catalogue import ROOT, Message, all_said, messages, written

from .sentence_bundles import BUNDLES, content_named

OTHERS = [tag for tag in LANGUAGES if tag != DEFAULT]
CERTIFICATE = "certificate.html"  # its texts, a paragraph each
_TAGS = re.compile(r"<[^>]*>")
_FILE = re.compile(r"[\w./-]+\.(?:csv|html|json|md|pdf|sig|xlsx|yaml)\b")
_WORD = re.compile(r"[A-Za-z]{2,}")


def entries(tag: str) -> Iterator[tuple[str, str]]:
    """Every English sentence of a catalogue with what it is in the other language; both forms of a plural."""
    held = catalogue(tag)
    yield from held.one.items()
    for (one, many), (said, more) in held.many.items():
        yield from ((one, said), (many, more))


@pytest.mark.parametrize("tag", OTHERS)
def test_a_catalogue_has_every_sentence_and_no_other(tag: str) -> None:
    held: set[Message] = {*catalogue(tag).one, *catalogue(tag).many}
    assert held == messages().keys(), f"run `python tools/catalogue.py {tag}`, and translate"


@pytest.mark.parametrize("tag", OTHERS)
def test_a_catalogue_is_as_the_tool_writes_it(tag: str) -> None:
    held = catalogue(tag)
    text = (ROOT / "words" / f"{tag}.po").read_text(encoding="utf-8")
    assert written(tag, all_said(held)) == text


@pytest.mark.parametrize("tag", OTHERS)
def test_a_sentence_has_the_marks_and_the_numbers_of_the_english_one(tag: str) -> None:
    for english, said in entries(tag):
        assert Counter(map(_mark, _TAGS.findall(english))) == Counter(map(_mark, _TAGS.findall(said))), english
        assert numbers_in(_TAGS.sub("", english), "en") == numbers_in(_TAGS.sub("", said), tag), english
        assert english.endswith(".") == said.endswith("."), english


# One word stands for one thing; and French sets a space that is not broken before signs of two parts.
OTHERWISE = {
    "de": (r"Period", r"Fallzahl", r"überschneid", r"Differential Privacy", r"\bSumme und Reste", r"\d %", r"[}>] %"),
    "fr": (r"\bdu temps\b", r"devinette", r"se recouvrent", r"vie privée", r"\brestes\b", r"(?<=.) [;:!?»%]", r"« "),
}


@pytest.mark.parametrize("tag", OTHERS)
def test_one_word_stands_for_one_thing(tag: str) -> None:
    parts = {"parties et restes"}  # the rest of a whole, which is no residual
    for english, said in entries(tag):
        kept = said if not any(said.startswith(each) for each in parts) else ""
        assert not [each for each in OTHERWISE[tag] if re.search(each, kept)], (english, said)


def _mark(tag: str) -> str:
    """A mark without the words that a screen reader says."""
    return re.sub(r' aria-label="[^"]*"', "", tag)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('msgid "a"\nmsgstr ""\n', "no translation"),
        ('msgid "a {x}"\nmsgstr "b {y}"\n', "other named places"),
        ('msgid "a {x}"\nmsgstr "b {x"\n', "brace"),
        ('msgid "a"\nmsgstr "b"\n\nmsgid "a"\nmsgstr "c"\n', "twice"),
        ('msgid "a"\nmsgid "a"\nmsgstr "b"\n', "twice in one entry"),
        ('msgid "a"\nmsgid_plural "as"\nmsgstr[0] "b"\n', "no translation"),
        ("msgid a\n", "neither"),
    ],
)
def test_a_catalogue_with_a_mistake_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(CatalogueError, match=wrong):
        read_catalogue(text)


def test_a_sentence_that_no_catalogue_has_is_an_error_and_never_english_in_silence() -> None:
    with speaking("de"), pytest.raises(KeyError):
        phrase("Nobody translated this.")


def test_a_number_takes_the_form_of_its_language() -> None:
    forms = {}
    for tag in LANGUAGES:
        with speaking(tag):
            forms[tag] = [phrase_many("{number} row", "{number} rows", number) for number in (0, 1, 2, 1234)]
    assert forms == {
        "en": ["0 rows", "1 row", "2 rows", "1,234 rows"],
        "de": ["0 Zeilen", "1 Zeile", "2 Zeilen", "1.234 Zeilen"],
        "fr": ["0 ligne", "1 ligne", "2 lignes", "1\u202f234 lignes"],
    }


@pytest.mark.parametrize("path", sorted((ROOT / "publish" / "templates").glob("*.j2")), ids=lambda path: path.name)
def test_no_template_says_anything_outside_of_the_catalogues(path) -> None:  # type: ignore[no-untyped-def]
    tree = Environment(extensions=["jinja2.ext.i18n"], trim_blocks=True, lstrip_blocks=True).parse(path.read_text())
    said = "".join(
        each.data for node in tree.find_all(nodes.Output) for each in node.nodes if type(each) is nodes.TemplateData
    )
    shown = re.sub(r"<[^>]*>|^[^<]*>|<[^>]*$", " ", re.sub(r"<(code|style)>.*?</\1>", " ", said, flags=re.DOTALL))
    labels = re.findall(r'(?:aria-label|title|alt)="([^"]+)"', said)
    words = [word for text in (shown, *labels) for word in _WORD.findall(text)]
    assert [word for word in words if word not in ("dprelease", "verify", "FOLDER", "KEY", "key", "SHA", "Atom")] == []


@cache
def content_of(name: str) -> Content:
    """Releases whose pages have nearly every sentence, by name."""
    if name in BUNDLES:
        return content_named(name)
    if name == "plain":
        return formats_example.plain(rehearsal=True, show="blank")
    if name == "chosen":
        return formats_example.chosen()
    if name == "yearly":
        return languages_example.yearly()
    if name == "names":
        words = languages_example.plan()
        return formats_example.content(words, languages_example.measured(words))
    moved = unadjusted_example.moved_plan()
    return formats_example.content(moved, unadjusted_example.answers(moved), derived=True)


def pages_of(content: Content, files: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, bytes]:
    """Its pages in the language that is spoken, the accounting among them; the texts of its certificate as one more."""
    known = {each.name for each in content.plan.accounts}
    charged = tuple(each for each in content.facts.accounts if each.name in known)
    told = accountable(replace(content, facts=content.facts.model_copy(update={"accounts": charged})))
    certificate = "".join(f"<p>{escape(text)}</p>" for text in certificate_texts(told)).encode()
    pages = site_files(in_spoken_language(content), files)
    return {**pages, ACCOUNTING: accounting_page(told), CERTIFICATE: certificate}


@cache
def english_pages(name: str) -> dict[str, bytes]:
    """The pages of one of them."""
    return pages_of(content_of(name))


@pytest.mark.parametrize("name", ["plain", "chosen", "moved", "names", "yearly", "gaussian"])
def test_all_that_a_page_says_is_in_the_catalogues(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speaks a language in which every sentence is in brackets: what is outside of them is an id, a sign or a name."""
    english = LANGUAGES[DEFAULT]
    bracketed = replace(english, tag="xx")
    every = messages()
    one = {each: f"⟦{each}⟧" for each in every if isinstance(each, str)}
    many = {each: (f"⟦{each[0]}⟧", f"⟦{each[1]}⟧") for each in every if not isinstance(each, str)}
    monkeypatch.setitem(LANGUAGES, "xx", bracketed)
    monkeypatch.setattr(spoken_words, "catalogue", lambda tag: Catalogue(one, many))
    content = content_of(name)
    with speaking("xx"):
        pages = pages_of(content, {"tables/income.csv": b""})
    known = set(
        _WORD.findall(content.plan.canonical() + facts(content.plan).canonical() + english.name + str(english.months))
    )
    known |= {
        word for form in FORMATS.values() for text in (form.label, *map(str, form.once)) for word in _WORD.findall(text)
    }
    keys = [str(key) for table in content.tables for column in table.keys for key in column]
    keys += [column.name for table in content.tables for column in table.key_columns]
    known |= {*_WORD.findall(" ".join(keys)), "kB", "MB", "UTC", "SHA", "ISO", "IEC", "dprelease", "verify", "FOLDER"}
    known |= {"commit", "entropy", "packages", "sampler", "tree"}  # names of the environment, as files have them
    for path, page in pages.items():
        for block in blocks_of_text(page.decode()):
            while "⟦" in block:
                shorter = re.sub(r"⟦[^⟦⟧]*⟧", " ", _FILE.sub("", block))
                assert shorter != block, (path, block)
                block = shorter  # noqa: PLW2901 - sentences within sentences
            assert set(_WORD.findall(block)) <= known, (path, block)


@pytest.mark.parametrize("tag", OTHERS)
@pytest.mark.parametrize("name", ["plain", "chosen", "moved", "yearly", *BUNDLES])
def test_every_number_of_a_page_is_that_of_the_english_page_whose_numbers_are_recomputed(name: str, tag: str) -> None:
    content = content_of(name)
    english = english_pages(name)
    with speaking(tag):
        other = pages_of(content)
    assert english.keys() == other.keys()
    for path, page in english.items():
        here, there = blocks_of_numbers(page.decode(), "en"), blocks_of_numbers(other[path].decode(), tag)
        assert there == here, path


@pytest.mark.parametrize("tag", OTHERS)
def test_no_language_explains_epsilon_and_delta_as_epsilon_but_for_delta(tag: str) -> None:
    but_for = {"de": r"(außer|abgesehen|bis auf)[^.;]*\bδ", "fr": r"(sauf|excepté|hormis|à l’exception)[^.;]*\bδ"}[tag]
    assert [said for _, said in entries(tag) if re.search(but_for, said)] == []
