"""Rows that no template makes: the same numbers, nothing of an author's text as markup, and the interval where cut."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.table import Column
from dprelease.estimate import PublishedMeasure, PublishedTable, Status
from dprelease.publish.html_text import inert, visible
from dprelease.publish.numbers import with_margin
from dprelease.publish.site.cells import between, rows

PLACE = Column(name="place", type="text", keys=("a", "b"), labels={"a": "<b>A</b> & Co"})


def measure(values: list[float], margins: list[float], places: int | None, status: Status = "ok") -> PublishedMeasure:
    value, margin = np.array(values), np.array(margins)
    lower, upper = np.maximum(value - margin, 0), np.maximum(value + margin, 0)
    return PublishedMeasure("n", None, value, margin, margin, lower, upper, (status,) * len(values), places, False)


def table(made: PublishedMeasure, keys: tuple[str, ...] = ("a",)) -> PublishedTable:
    return PublishedTable("t", "T", (PLACE,), (keys,), (made,), Fraction(95, 100), cells=len(keys))


def words(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", text)).strip()


whole = st.integers(-(10**17), 10**17).map(float)
numbers = whole | st.floats(-1e20, 1e20) | st.floats(-2, 2)


@given(numbers, st.floats(1e-9, 1e18) | st.integers(0, 10**6).map(float), st.sampled_from([None, 0, 1]))
def test_a_number_is_what_the_slow_way_shows(value: float, margin: float, places: int | None) -> None:
    value = float(round(value)) if places == 0 else round(value * 2) / 2 if places == 1 else value
    made = replace(measure([value], [margin], places), lower=np.array([-1e300]), upper=np.array([1e300]))
    made = replace(made, lower=made.value - margin, upper=made.value + margin)
    number, beside = with_margin(value, margin, places)
    assert words(rows(table(made), 0, 1)).endswith(f"{number} ± {beside}")


def test_the_interval_stands_there_only_where_it_was_cut_and_the_number_is_not_moved() -> None:
    found = rows(table(measure([3.0, 30.0, -5.0, -20.0], [8.0] * 4, 0), ("a",) * 4), 0, 4).splitlines()
    assert [words(line).removeprefix("<b>A</b> & Co a") for line in found] == [
        "3 ± 8 (0 to 11)",
        "30 ± 8",
        "−5 ± 8 (0 to 3)",
        "−20 ± 8 (0 to 0)",
    ]


def test_the_ends_of_an_interval_are_rounded_outward() -> None:
    assert between(0.001, 1234.1, 999.0, None) == "0 to 1,235"
    assert between(-0.5, 99.99, 12.3, 0) == "−1 to 100"
    assert between(0.0, 200_000.0, 100.0, 0) == "0 to 200,000"


def test_text_of_an_author_is_never_markup() -> None:
    hostile = ("<script>", '"x" onload=', "\u202eabc", "a\x00b", "&amp;", "\u200fא")
    column = Column(name="k", type="text", keys=hostile)
    made = replace(table(measure([1.0] * 6, [1.0] * 6, 0), ("a",) * 6), key_columns=(column,), keys=(hostile,))
    text = rows(made, 0, 6)
    assert set(re.findall(r"<(/?\w+)", text)) <= {
        "tr",
        "/tr",
        "th",
        "/th",
        "td",
        "/td",
        "bdi",
        "/bdi",
        "b",
        "/b",
        "span",
        "/span",
    }
    assert [words(line).split("1 ±")[0] for line in text.splitlines()] == [visible(key) for key in hostile]
    assert "&lt;b&gt;A&lt;/b&gt; &amp; Co" in rows(table(measure([1.0], [1.0], 0)), 0, 1)


def test_the_short_way_of_looking_at_text_sees_every_sign_that_reorders() -> None:
    for code in (*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xD800):
        if chr(code) not in "\t\n\r":
            assert visible(f"a{chr(code)}b") == f"a[U+{code:04X}]b"
    assert visible("Côte d’Ivoire – 東京 \u200f") == "Côte d’Ivoire – 東京 \u200f"
    assert str(inert("<\u202e>")) == "&lt;[U+202E]&gt;"


@pytest.mark.parametrize(("status", "said"), [("blank", "no estimate"), ("unreliable", "withheld: unreliable")])
def test_what_is_not_published_is_said_in_words(status: Status, said: str) -> None:
    text = rows(table(measure([float("nan")], [float("nan")], 0, status)), 0, 1)
    assert words(text).endswith(said)


def test_true_and_one_are_two_keys_and_parts_join_to_the_whole() -> None:
    column = Column(name="k", type="boolean", keys=(True, False))
    made = replace(table(measure([1.0, 2.0], [1.0, 1.0], 0), ("a", "b")), key_columns=(column,), keys=((True, False),))
    assert "<bdi>true</bdi>" in rows(made, 0, 2)
    assert rows(made, 0, 1) + rows(made, 1, 2) == rows(made, 0, 2)


def test_a_list_of_keys_has_cells_under_its_headings() -> None:
    made = replace(table(measure([1.0], [1.0], 0)), measures=())
    assert rows(made, 0, 1).startswith("<tr><td><bdi>&lt;b&gt;A")
