"""The pages: inert, accessible in structure, complete, and small enough to open."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from importlib.resources import files as package_files
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.table import Column
from dprelease.estimate import PublishedTable, Status
from dprelease.measures import MEASURES, expand_measures
from dprelease.privacy.budget import Loss
from dprelease.privacy.unit import Neighboring
from dprelease.publish import published_tables, render
from dprelease.publish.accounting.glossary import described
from dprelease.publish.base import Content
from dprelease.publish.numbers import at_most, odds_factor, percent_at_most, sure_after, with_margin
from dprelease.publish.site.chart import chart
from dprelease.publish.site.html import site_files
from dprelease.publish.site.paging import LARGEST_OF_TABLE, LARGEST_PAGE
from tests.unit.publish_example import facts, measurements, plan, table
from tests.unit.test_publish_files import keyed, published

PAGES = ("index.html", "accounting.html")
VOID = {"meta", "br", "hr", "link", "img", "input", "wbr"}


class Outline(HTMLParser):
    """What the tests ask of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.data: list[dict[str, Any]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if (tag, attrs) == ("script", [("type", "application/ld+json")]):
            tag = "data of a script"  # no browser runs it
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().rpartition(" ")[2] == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["data of a script"]:
            self.data.append(json.loads(data))
        elif self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def outline(page: str) -> Outline:
    return Outline(published().files[page].decode())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_needs_no_script_and_no_network(page: str) -> None:
    text = published().files[page].decode()
    found = Outline(text)
    assert not {tag for tag, _ in found.tags} & {"script", "link", "iframe", "img", "form", "object", "base"}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import", text)
    links = [attributes["href"] or "" for tag, attributes in found.tags if tag == "a"]
    assert all(link.startswith("#") or link in published().files for link in links)
    policy = next(attributes["content"] for _, attributes in found.tags if "http-equiv" in attributes)
    assert (policy or "").startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")


@pytest.mark.parametrize("page", PAGES)
def test_the_structure_can_be_read_aloud(page: str) -> None:
    found = outline(page)
    tags = [tag for tag, _ in found.tags]
    assert next(attributes for tag, attributes in found.tags if tag == "html")["lang"] == "en"
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert tags.count("caption") == tags.count("table")
    assert all(attributes.get("scope") in ("row", "col") for tag, attributes in found.tags if tag == "th")
    assert tags.count("main") == 1
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [attributes["aria-labelledby"] for _, attributes in found.tags if "aria-labelledby" in attributes]
    anchors = [
        (attributes["href"] or "")[1:]
        for tag, attributes in found.tags
        if tag == "a" and (attributes["href"] or "")[0] == "#"
    ]
    assert set(named) | set(anchors) <= set(ids)
    regions = [attributes for _, attributes in found.tags if attributes.get("role") == "region"]
    assert len(regions) == tags.count("table")
    assert all(attributes["tabindex"] == "0" for attributes in regions)
    assert all(attributes.get("aria-label") for _, attributes in found.tags if attributes.get("role") == "img")


HOSTILE = ("<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "\u202etxt.exe\u202c", "{{ 7 * 7 }}\u200f")


def test_labels_keys_and_titles_are_inert() -> None:
    labels = {str(key): words for key, words in zip("1234", HOSTILE, strict=True)}
    made = keyed(("1", "2", "3", "4"), labels=labels)
    release = made.release.model_copy(update={"title": HOSTILE[0] + HOSTILE[2], "curator": HOSTILE[1]})
    made = made.model_copy(update={"release": release})
    for page in PAGES:
        text = published(made).files[page].decode()
        tags = {tag for tag, _ in Outline(text).tags}
        assert not tags & {"script", "img"}
        assert "\u202e" not in text
        assert "[U+202E]" in text
    words = Outline(published(made).files["index.html"].decode()).text
    assert "<script>alert(1)</script>" in words
    assert "{{ 7 * 7 }}" in words
    text = published(keyed(HOSTILE)).files["index.html"].decode()
    assert not {tag for tag, _ in Outline(text).tags} & {"script", "img"}


def test_every_estimate_is_on_the_page_beside_its_margin() -> None:
    words = outline("index.html").text
    for each in published_tables(plan(), measurements()):
        for measure in each.measures:
            for at, status in enumerate(measure.status):
                value, margin = with_margin(float(measure.value[at]), float(measure.margin[at]), measure.places)
                assert status == "blank" or f"{value} ± {margin}" in words
    assert words.count("no estimate") == 2  # the cell, and the sentence that counts it


def test_unreliable_is_a_word_and_not_only_a_colour() -> None:
    statuses = [s for each in published_tables(plan(), measurements()) for m in each.measures for s in m.status]
    flags = [attributes for _, attributes in outline("index.html").tags if attributes.get("class") == "flag"]
    assert len(flags) == statuses.count("unreliable") + 1  # and the explanation
    assert "60,000 ± 140,000 (0 to 200,000) unreliable" in outline("index.html").text


def test_withheld_numbers_are_not_on_the_page() -> None:
    made = plan(publish=plan().publish.model_copy(update={"unreliable_show": "blank"}))
    words = Outline(published(made).files["index.html"].decode()).text
    assert "140,000" not in words
    assert "withheld: unreliable" in words


def test_the_guarantee_is_the_certified_loss_and_its_meaning() -> None:
    for page in PAGES:
        words = outline(page).text
        assert "ε = 1.9" in words
        assert "6.69 times" in words
        assert "up to 87 % sure" in words


def test_the_guarantee_of_the_other_relation_speaks_of_two_rows() -> None:
    words = Outline(published(plan(neighboring=Neighboring.REPLACE_ONE)).files["index.html"].decode()).text
    assert "which of two possible rows one person has" in words
    assert "at all" not in words


def lengthy(rows: int, columns: int = 1) -> Content:
    made = plan()
    (first, _) = published_tables(made, measurements())
    numbers = np.arange(rows, dtype=np.float64)
    ok: Status = "ok"
    measure = replace(
        first.measures[0],
        value=numbers,
        margin=np.full(rows, 29.0),
        lower=np.maximum(numbers - 29, 0),
        upper=numbers + 29,
        standard_error=numbers,
        status=(ok,) * rows,
    )
    column = Column(name="place", type="text", keys=tuple(f"{n:05d}" for n in range(rows)))
    big = PublishedTable(
        name="population",
        title="Places",
        key_columns=(column,),
        keys=(column.keys or (),),
        measures=(measure,) * columns,
        confidence=Fraction(95, 100),
        cells=rows,
    )
    return Content(plan=made, tables=(big,), facts=facts(made))


def _tables(content: Content, count: int) -> Content:
    (one,) = content.tables
    return replace(content, tables=tuple(replace(one, name=f"t{at}", derived="select") for at in range(count)))


def test_a_long_table_shows_its_first_rows_and_leads_to_all_of_them() -> None:
    content = lengthy(4_100)
    made = site_files(content, {"tables/population.csv": b"x" * 2_000_000})
    words = Outline(made["index.html"].decode()).text
    assert "the first 50 of 4,100 rows" in words
    assert "4,050 rows are not on this page: the whole table has 3 pages" in words
    assert ("00049" in words, "00050" in words) == (True, False)
    assert b'href="tables/population.csv"' in made["index.html"]
    names = [f"pages/population{end}.html" for end in ("", "-2", "-3")]
    assert list(made) == ["index.html", *names]
    found = [re.findall(r"<bdi>(\d{5})</bdi>", made[name].decode()) for name in names]
    assert [len(each) for each in found] == [2000, 2000, 100]
    assert [key for each in found for key in each] == [f"{at:05d}" for at in range(4_100)]


def test_the_pages_of_a_table_lead_to_one_another_and_back() -> None:
    made = site_files(lengthy(4_100), {})
    pages = [f"pages/population{end}.html" for end in ("", "-2", "-3")]
    for name, before, after in zip(pages, [None, *pages], [*pages[1:], None], strict=False):
        found = Outline(made[name].decode())
        links = {attributes.get("rel"): attributes["href"] for tag, attributes in found.tags if tag == "a"}
        assert links.get("prev") == (f"../{before}" if before else None)
        assert links.get("next") == (f"../{after}" if after else None)
        assert {"script", "link", "form"}.isdisjoint(tag for tag, _ in found.tags)
        hrefs = [attributes["href"] or "" for tag, attributes in found.tags if tag == "a"]
        assert {"../index.html", "../accounting.html"} <= set(hrefs)
        inner = [href.removeprefix("../") for href in hrefs if href.startswith("../pages/")]
        assert inner
        assert set(inner) <= set(made)


def test_a_second_page_never_takes_the_name_of_another_table() -> None:
    (one,) = (content := lengthy(4_100)).tables
    other = replace(one, name="Population-2", derived="select")
    made = site_files(replace(content, tables=(one, other)), {})
    assert len({name.lower() for name in made}) == len(made) == 7
    assert {"pages/population.2.html", "pages/Population-2.html", "pages/Population-2-2.html"} <= set(made)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(
    ("rows", "columns", "tables"), [(2_000, 60, 1), (60, 8, 39), (200, 3, 40), (4_100, 9, 2), (1, 1, 400), (7, 100, 1)]
)
def test_no_index_is_larger_than_two_megabytes_and_no_page_of_a_table_than_one(
    rows: int, columns: int, tables: int
) -> None:
    made = site_files(_tables(lengthy(rows, columns), tables), {})
    assert len(made["index.html"]) <= LARGEST_PAGE
    assert max((len(data) for path, data in made.items() if path != "index.html"), default=0) <= LARGEST_OF_TABLE


def test_many_tables_are_a_list_in_groups_with_a_page_for_each() -> None:
    content = _tables(lengthy(3), 400)
    state = Column(name="state", type="text", keys=("1", "2", "3"))
    halves = tuple(
        replace(each, key_columns=(state,), derived="") if at % 2 else each for at, each in enumerate(content.tables)
    )
    queries = tuple(content.plan.queries[0].model_copy(update={"name": f"t{at}"}) for at in range(1, 400, 2))
    plan_ = content.plan.model_copy(update={"queries": queries})
    made = site_files(replace(content, plan=plan_, tables=halves), {})
    found = Outline(made["index.html"].decode())
    assert len(made) == 401
    assert "400 tables" in found.text
    hrefs = [attributes["href"] for tag, attributes in found.tags if tag == "a"]
    assert {f"pages/t{at}.html" for at in range(400)} <= set(hrefs)
    assert {"#group-1", "#group-2"} <= set(hrefs)
    assert "By state (200)" in found.text
    assert "Derived tables (200)" in found.text
    assert "table" not in {tag for tag, _ in found.tags}


def test_how_many_pages_there_are_is_not_for_the_noise_to_decide() -> None:
    content = lengthy(4_100, 20)
    huge = tuple(replace(each, value=each.value * 1e12) for each in content.tables[0].measures)
    other = replace(content, tables=(replace(content.tables[0], measures=huge),))
    assert list(site_files(content, {})) == list(site_files(other, {}))


@pytest.mark.parametrize(
    ("value", "margin", "places", "expected"),
    [
        (1234.0, 56.0, 0, ("1,234", "56")),
        (1_234_567.0, 15_679.0, 0, ("1,234,600", "15,700")),
        (48211.38472, 312.41, None, ("48,211", "313")),
        (0.123456, 0.0123, None, ("0.1235", "0.0123")),
        (-0.4, 55.2, None, ("−0.4", "55.2")),
        (-0.0, 5.0, 0, ("0", "5")),
        (-0.2, 10_000.0, None, ("−0.200", "10,000")),
        (float("nan"), float("nan"), 0, ("", "")),
        (12.25, 0.0, 2, ("12.25", "0")),
        (12.3456789, float("nan"), None, ("12.3", "")),
        (9.2e18, 3.5e17, 0, ("9,200,000,000,000,000,000", "350,000,000,000,000,000")),
    ],
)
def test_numbers_have_the_digits_that_their_margin_supports(
    value: float, margin: float, places: int | None, expected: tuple[str, str]
) -> None:
    assert with_margin(value, margin, places) == expected


def test_a_margin_is_never_shown_smaller_than_it_is() -> None:
    for margin in (0.123401, 99.91, 1234.5, 7e8 + 1):
        assert float(with_margin(0.0, margin, None)[1].replace(",", "")) >= margin


def test_losses_are_rounded_up_and_never_reach_certainty() -> None:
    assert at_most(Fraction(1, 10**9)) == "10⁻⁹"
    assert at_most(Fraction(12345, 10**12)) == "1.24 × 10⁻⁸"
    assert odds_factor(Fraction(0)) in ("1", "1.01")
    assert (sure_after(Fraction(0)), percent_at_most(Fraction(1, 2))) == ("50.1", "50")
    assert sure_after(Fraction(17)) == "99.999996"
    assert (percent_at_most(Fraction(1)), percent_at_most(1 - Fraction(1, 10**6))) == ("100", "99.9999")


def test_a_chart_is_drawn_only_where_it_can_be_read() -> None:
    first, second = published_tables(plan(), measurements())
    drawn = chart(first, first.measures[0])
    assert drawn is not None
    assert len(drawn.bars) == 8
    assert [text for _, text in drawn.ticks] == ["0", "2,000", "4,000", "6,000"]
    average = chart(second, second.measures[2])
    assert average is not None
    assert average.dots  # the mean of a place is no part of a whole
    assert sum(not bar.published for bar in average.bars) == 1  # and it says so: no bar would look like zero
    assert average.notes[0] == "1 of the 12 numbers is not published."
    assert all(0 <= float(bar.low) <= float(bar.high) <= 100 for bar in average.bars if bar.low and bar.high)
    long = lengthy(61).tables[0]
    assert chart(long, long.measures[0]) is None


def test_a_chart_of_zeros_is_drawn() -> None:
    first, _ = published_tables(plan(), measurements())
    assert chart(first, replace(first.measures[0], value=np.zeros(8), margin=np.zeros(8))) is not None


def test_every_kind_of_measure_has_words() -> None:
    named = {
        "count": "number of rows in which income has a value",
        "count_distinct": "number of different values of income",
        "stddev": "standard deviation of income",
        "quantiles": "quantile at 12.5 % of income",
        "min": "least value, which noise places roughly, of income",
        "max": "largest value, which noise places roughly, of income",
        "ratio": "count divided by sum",
    }
    more = {"quantiles": {"at": ("1/8",)}}
    asked = {
        kind: made.model_validate({kind: ("count", "sum") if kind == "ratio" else "income", **more.get(kind, {})})
        for kind, made in MEASURES.items()
        if kind != "randomized"  # its words are about the law of its column: unit/test_randomized
    }
    for name, measure in expand_measures(asked).items():
        kind = name.partition("_q12")[0]
        assert described(measure, table(), "person").startswith(named.get(kind, f"{kind} of income"))
    assert described(MEASURES["count"].model_validate({"count": "rows"}), table(), "person") == (
        "number of rows; a row is declared to be one person"
    )


def _colours(text: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", text))


def _contrast(one: str, two: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_a_contrast_of_at_least_four_and_a_half_and_drawings_of_three(scheme: str) -> None:
    style = (package_files("dprelease.publish") / "templates" / "style.css").read_text()
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    colours = _colours(light if scheme == "light" else dark.split("\n* ")[0])
    for ground in ("ground", "raised"):
        for text in ("text", "muted", "link"):
            assert _contrast(colours[text], colours[ground]) >= 4.5
    assert _contrast(colours["flag-text"], colours["flag-ground"]) >= 4.5
    assert _contrast(colours["notice-text"], colours["notice-ground"]) >= 4.5
    for drawn in ("bar", "span", "rule", "whisker", "flag-line"):
        assert _contrast(colours[drawn], colours["ground"]) >= 3


def test_a_pure_guarantee_has_a_delta_of_zero_and_adds_nothing() -> None:
    made = plan(loss={"basic": Loss(epsilon=Fraction(1), delta=Fraction(0))}, certified="basic")
    words = Outline(render(made, measurements(), facts(made)).files["index.html"].decode()).text
    assert "ε = 1 at δ = 0 for each person" in words
    assert "comes on top" not in words
    assert "2.72 times" in words
