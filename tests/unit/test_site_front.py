"""The front page begins with numbers, and says of them what their tables say."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dprelease.estimate import PublishedMeasure, PublishedTable, Status
from dprelease.publish import published_tables
from dprelease.publish.base import Content
from dprelease.publish.figure_words import Signs
from dprelease.publish.site.front import MOST_ON_FRONT, key_figures, tables_on_front
from dprelease.publish.site.html import site_files
from dprelease.publish.site.paging import Paged
from dprelease.publish.site.workloads import crosstabs_of
from tests.unit import formats_example, publish_example
from tests.unit.languages_example import bundle
from tests.unit.test_publish_pages import Outline
from tests.unit.test_site_crossed import pages
from tests.unit.test_site_workloads import census, tall, wide


def single(value: float = 48.0, margin: float = 5.0, status: Status = "ok", **more: object) -> PublishedTable:
    numbers, reach = np.array([value]), np.array([margin])
    measure = PublishedMeasure(
        "n", None, numbers, reach / 2, reach, numbers - reach, numbers + reach, (status,), 0, False
    )
    made = replace(measure, **more)  # type: ignore[arg-type]
    return PublishedTable("t", "Everybody", (), (), (made,), Fraction(95, 100), 1)


def told(*tables: PublishedTable) -> list[tuple[str, str]]:
    found = key_figures((each, each.title, f"pages/{each.name}.html", None) for each in tables)
    return [(" ".join(Outline(str(each.cell)).text.split()), each.measure) for each in found]


def test_a_key_figure_stands_with_its_margin() -> None:
    assert told(single()) == [("48 ± 5", "")]
    two = single()
    assert told(replace(two, measures=(two.measures[0], replace(two.measures[0], name="m")))) == [
        ("48 ± 5", "n"),
        ("48 ± 5", "m"),
    ]


def test_what_is_unreliable_or_has_no_interval_is_no_key_figure() -> None:
    assert told(single(status="unreliable")) == []
    assert told(single(np.nan, np.nan, "blank")) == []
    assert told(single(margin=float("nan"))) == []
    assert told(replace(single(), cells=2)) == []
    assert len(told(*[single()] * 9)) == 4


def test_a_number_that_was_moved_stands_with_the_interval_that_holds_it_or_is_no_key_figure() -> None:
    before = np.array([43.0])
    assert told(single(unadjusted=before)) == []  # its interval is about the estimate before
    states = ("caution", "unreliable", "withheld", "no_estimate", "low")
    signs = Signs(dict.fromkeys(states, "[s]"), dict.fromkeys(states, "words"), np.zeros(1, dtype=bool))
    table = single(unadjusted=before, held=True)
    other = replace(table.measures[0], name="m", value=np.array([1048.0]), upper=np.array([1050.0]))
    found = key_figures([(replace(table, measures=(table.measures[0], other)), "T", "x", signs)])
    assert [Outline(str(each.cell)).text for each in found] == ["48 (43 to 53)", "1,048 (43 to 1,050)"]


def test_each_level_of_a_workload_has_its_first_small_table_on_the_front_page() -> None:
    for made in (wide, tall, census):
        content, files = made()
        page = files["index.html"].decode()
        workloads = content.plan.workloads
        found = tables_on_front(crosstabs_of(workloads, content.tables, [Paged(None, ())] * len(content.tables)))
        assert 1 <= len(found) <= MOST_ON_FRONT
        levels = [(each.workload.name, each.workload.place(name)[0]) for name, each in found.items()]
        assert len(set(levels)) == len(levels)
        for name, each in found.items():
            assert 2 <= each.tables[name].cells <= 60
            assert page.count(f'<caption id="caption-{name}">') == 1


def test_the_first_lines_say_how_it_stands_and_offer_the_files_of_their_language() -> None:
    for folder, words in (("", ("Nicht signiert", "Daten herunterladen")), ("en/", ("Unsigned", "Get the data"))):
        page = bundle()[f"{folder}index.html"].decode()
        chips, panel = (page.partition(f'class="{each}"')[2].partition("</ul>")[0] for each in ("chips", "panel"))
        assert words[0] in chips
        assert words[1] in panel
        root = "../" if folder else ""
        links = re.findall('href="([^"]*)"', panel)
        assert f"{root}{folder}tables/workbook.xlsx" in links
        assert f"{root}{folder}accounting.html" in links
        size = round(len(bundle()[f"{folder}tables/workbook.xlsx"]) / 1000, 1)
        assert (f"{size}".replace(".", ",") if not folder else f"{size}") in panel


def test_numbers_stand_before_what_is_said_of_them_and_facts_of_the_release_behind_both() -> None:
    page = bundle()["index.html"].decode()
    here = page[page.index('class="charts"') :]
    order = ('class="charts"', "<table", 'class="told"', 'id="reading"', 'class="facts"')
    places = [here.index(each) for each in order]
    assert places == sorted(places)


def test_no_line_ends_within_a_period_and_nothing_else_is_kept_together() -> None:
    made = publish_example.plan()
    release = made.release.model_copy(update={"title": "Departures in 2013-12, 1-2 a day of 2013"})
    made = made.model_copy(update={"release": release})
    measured = publish_example.measurements()
    tables = published_tables(made, measured)
    page = site_files(Content(made, tables, publish_example.facts(made), measured), {})["index.html"].decode()
    assert '<h1><bdi>Departures in <span class="short">2013-12</span>, 1-2 a day of 2013</bdi></h1>' in page
    assert ".short { white-space: nowrap; }" in page


def test_a_chart_that_paper_cuts_has_its_axis_on_both_sheets_and_lines_that_can_be_cut_with_it() -> None:
    """A drawing that lies behind rows on two sheets is painted whole on one of them, across whatever stands there."""
    large = formats_example.hostile(tuple(f"{at:02d}" for at in range(30)))
    page = "".join(made["index.html"].decode() for made in (pages(), site_files(large, {})))
    drawings = re.findall(r'<div class="plot[^>]*>.*?</figure>', page, re.S)
    assert any(' tall"' not in each[:200] for each in drawings)
    for each in drawings:
        tall = each.count('<div class="bar">') > 24
        axes = re.findall(r'<div class="axis">.*?</div>', each, re.S)
        ruled = each.partition('<div class="ruled"')[2].partition("</div>")[0]
        ticks = [re.findall(r'<text x="([^"]*)%"', axis) for axis in axes]
        assert len(axes) == 1 + tall == 1 + (' tall"' in each[:200])
        assert all(found == re.findall(r"left:([^%]*)%", ruled) for found in ticks)
        assert "<svg" not in ruled
    assert any(' tall"' in each[:200] for each in drawings)


def test_one_chart_has_its_table_at_its_side_and_several_stand_above_theirs() -> None:
    page = pages()["index.html"].decode()
    sections = re.findall(r"<section aria-labelledby=\"table-.*?</section>", page, re.S)
    charts = [section.count("<figure>") for section in sections]
    assert 1 in charts
    assert max(charts) > 1
    for section, many in zip(sections, charts, strict=True):
        assert ('class="pair"' in section) == (many == 1)
        if many == 1:
            beside = section[section.index('class="pair"') :]
            assert beside.index("<figure>") < beside.index("<table")
