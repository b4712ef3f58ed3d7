"""Hundreds of tables that one finds one's way in: small pages, every table within reach, and no link that leads nowhere."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from posixpath import dirname, normpath
from posixpath import join as joined
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.table import Column
from dprelease.estimate import Status
from dprelease.estimate.keys import Coded
from dprelease.plan.document import Workload
from dprelease.publish.base import Content, safe_path
from dprelease.publish.site.front import MOST_ON_FRONT
from dprelease.publish.site.html import site_files
from dprelease.publish.site.linked_files import ALWAYS
from dprelease.publish.site.paging import LARGEST_PAGE, MOST_IN_ALL, page_path, paged
from dprelease.publish.site.workloads import MOST_LISTED, next_larger
from tests.unit import languages_example
from tests.unit.test_publish_pages import HOSTILE, Outline
from tests.unit.workload_example import content, published, workload

LETTERS = {f"c{at:02d}": 2 for at in range(14)}
PLACES = ("region", "state", "puma")
SIZES = {"region": 2, "state": 3, "puma": 250, "race": 5, "adult": 2}
Site = dict[str, bytes]


@cache
def wide() -> tuple[Content, Site]:
    """470 tables at one level, without any other."""
    return _made(content(workload("adult", tuple(LETTERS), (0, 1, 2, 3)), sizes=LETTERS, ordinary=False))


@cache
def tall() -> tuple[Content, Site]:
    """106 tables at each of five levels: more than the index holds."""
    levels = {f"level{at}": 2 for at in range(5)}
    sizes = {**levels, **dict(list(LETTERS.items())[:14])}
    return _made(content(workload("tall", tuple(LETTERS), (0, 1, 2), tuple(levels), "Tall & high"), sizes=sizes))


@cache
def census() -> tuple[Content, Site]:
    """Two small workloads, one of them at three levels, beside two ordinary tables."""
    first = workload("redistricting", ("race", "adult"), (0, 1, 2), PLACES, "Race and voting age")
    second = workload("crosstabs", ("race", "sex"), (1, 2))
    return _made(content(first, second, sizes={**SIZES, "sex": 2}))


def _made(made: Content) -> tuple[Content, Site]:
    return made, site_files(made, {f"tables/{table.name}.csv": b"x" for table in made.tables})


def links(path: str, data: bytes) -> set[str]:
    """Where a page leads to, from the folder of the bundle, with the place on the page."""
    hrefs = re.findall(r'<a [^>]*?href="([^"]+)"', data.decode())
    return {f"{path}{href}" if href[0] == "#" else normpath(joined(dirname(path), href)) for href in hrefs}


SITES = pytest.mark.parametrize("site", [wide, tall, census])


@pytest.mark.thin(first=1)
@SITES
def test_no_link_leads_nowhere(site) -> None:  # type: ignore[no-untyped-def]
    made, files = site()
    known = {*files, *ALWAYS, *(f"tables/{table.name}.csv" for table in made.tables)}
    ids = {path: set(re.findall(r' id="([^"]+)"', data.decode())) for path, data in files.items()}
    for path, data in files.items():
        for link in links(path, data):
            target, _, place = link.partition("#")
            assert target in known, (path, link)
            assert not place or place in ids[target], (path, link)


@SITES
def test_every_table_is_reached_from_the_index_by_links(site) -> None:  # type: ignore[no-untyped-def]
    made, files = site()
    away, rim = {"index.html": 0}, ["index.html"]
    while rim:
        found = {link.partition("#")[0] for path in rim for link in links(path, files[path])}
        rim = [path for path in sorted(found) if path in files and path not in away]
        away |= dict.fromkeys(rim, 1 + max(away.values()))
    assert set(away) == set(files)
    several = {query.name for query in made.plan.queries if query.workload is not None}
    assert max(away[page_path(name)] for name in several) <= 2


@pytest.mark.thin(first=1)
@SITES
def test_every_page_is_small_and_can_be_read_aloud_without_a_script(site) -> None:  # type: ignore[no-untyped-def]
    _, files = site()
    assert len(files["index.html"]) < 200_000
    assert max(map(len, files.values())) <= LARGEST_PAGE
    for path in files:
        assert safe_path(path) == path
    for data in list(files.values())[:: max(1, len(files) // 25)] + list(files.values())[-16:]:
        found = Outline(data.decode())
        tags = [tag for tag, _ in found.tags]
        assert not {"script", "link", "iframe", "img", "form", "object", "base"} & set(tags)
        levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
        assert levels.count(1) == tags.count("main") == 1
        assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
        captions = re.findall("<caption.*?</caption>", data.decode(), re.DOTALL)
        assert len(captions) == tags.count("table")
        assert len({re.sub("<[^>]*>", "", caption) for caption in captions}) == len(captions)
        ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        named = [attributes["aria-labelledby"] for _, attributes in found.tags if "aria-labelledby" in attributes]
        assert set(named) <= set(ids)
        navs = [attributes.get("aria-label") for tag, attributes in found.tags if tag == "nav"]
        assert None not in navs
        assert len(navs) == len(set(navs))


def test_the_index_holds_the_tree_of_some_tables_and_the_way_to_the_tree_of_many() -> None:
    some, many = (site()[1]["index.html"] for site in (wide, tall))
    assert sum(link.startswith("pages/adult__") for link in links("index.html", some)) == 470
    assert sum(link.startswith("pages/tall__") for link in links("index.html", many)) == MOST_ON_FRONT
    assert {"pages/tall.html#tall.0", "pages/tall.html#tall.2"} <= links("index.html", many)
    assert 5 * 106 > MOST_LISTED >= 470
    assert "530 tables of counts" in Outline(many.decode()).text
    assert sum(link.startswith("pages/tall__") for link in links("x", tall()[1]["pages/tall.html"])) == 0
    every = links("pages/tall.html", tall()[1]["pages/tall.html"])
    assert sum(link.startswith("pages/tall__") for link in every) == 530


def test_the_page_of_a_column_has_the_tables_with_it_at_every_level() -> None:
    found = links("pages/redistricting.race.html", census()[1]["pages/redistricting.race.html"])
    tables = {f"pages/redistricting__{level}__{each}.html" for level in PLACES for each in ("race", "race__adult")}
    assert {link for link in found if "__" in link} == tables
    assert "pages/redistricting.adult.html" in found


def test_the_page_of_a_table_leads_to_its_neighbours() -> None:
    files = census()[1]
    found = links("pages/x.html", files["pages/redistricting__state__race.html"])
    near = {"state__total", "state__race__adult", "region__race", "puma__race"}
    assert {link for link in found if "__" in link and "tables/" not in link} == {
        f"pages/redistricting__{each}.html" for each in near
    }
    assert {"index.html#workload-redistricting", "pages/redistricting.race.html"} <= found
    words = Outline(files["pages/redistricting__state__race.html"].decode()).text
    assert "Race and voting age: race, at level state" in words
    assert "Level region state puma" in words


def test_a_table_without_levels_has_none_on_its_page() -> None:
    words = Outline(wide()[1]["pages/adult__c00__c01.html"].decode()).text
    assert "Level" not in words
    assert "adult: c00 × c01" in words
    assert "12 tables" in words  # with one column more: behind a heading, so that the numbers stay in sight
    summaries = wide()[1]["pages/adult__c00__c01__c02.html"].count(b"<summary>")
    assert summaries == 0  # its three smaller tables stand there as they are


@given(st.sets(st.frozensets(st.integers(0, 5)), max_size=24))
def test_the_next_larger_sets_are_those_with_none_between(sets: set[frozenset[int]]) -> None:
    known = [tuple(sorted(each)) for each in sorted(sets, key=sorted)]
    found = next_larger(known)
    for axes in known:
        above = {each for each in sets if each > set(axes)}
        nearest = {tuple(sorted(each)) for each in above if not any(other < each for other in above)}
        assert set(found[axes]) == nearest
        assert len(found[axes]) == len(nearest)


def _of(post: tuple[str, ...]) -> tuple[str, str]:
    one = workload("redistricting", ("race", "adult"), (1, 2), PLACES)
    made = content(Workload(**{**one.model_dump(), "post": post}), sizes=SIZES, ordinary=False)
    files = site_files(made, {})
    return tuple(Outline(files[page].decode()).text for page in ("index.html", "pages/redistricting__state__race.html"))  # type: ignore[return-value]


def test_what_was_done_after_the_noise_is_said_and_nothing_else() -> None:
    index, page = _of(("consistent",))
    assert "They add up to one another" in index
    assert "parts add up to their whole, with all the digits" in index
    assert "Counts can be negative: cutting" in index
    assert "parts need not add up" not in index
    assert "moved up to 0" not in page
    assert "Rows whose puma, race or adult is missing, or is not among the keys, count in none of the tables of" in page
    index, page = _of(("consistent", "nonnegative", "integer"))
    assert "No number is negative there." in index
    assert "small numbers are too large on the whole" in page
    assert "rounded to whole numbers" in page
    index, page = _of(())
    assert "They add up" not in index
    assert "Counts can be negative, and parts need not add up" in index


def test_ordinary_tables_and_workloads_are_told_apart() -> None:
    words = Outline(census()[1]["index.html"].decode()).text
    assert "Population by region and sex 8 rows" in words
    assert "Race and voting age 12 tables" in words
    assert "in other tables parts need not add up" in words
    assert sum(path.startswith("pages/population") for path in census()[1]) == 0


def test_titles_and_columns_cannot_act() -> None:
    made, _ = census()
    several = tuple(each.model_copy(update={"title": HOSTILE[1] + HOSTILE[2]}) for each in made.plan.workloads)
    made = replace(made, plan=made.plan.model_copy(update={"workloads": several}))
    for data in site_files(made, {}).values():
        text = data.decode()
        assert not {tag for tag, _ in Outline(text).tags} & {"script", "img"}
        assert "\u202e" not in text


# --- long tables


def _long(rows: int, tables: int = 1) -> Content:
    """Tables of a workload with so many rows each."""
    names = tuple(f"t{at}" for at in range(tables))
    sizes = dict.fromkeys(names, 2)
    made = content(workload("w", names, (1,)), sizes=sizes, ordinary=False)
    column = Column(name="place", type="integer", keys=tuple(range(1_000)))
    longer = [
        replace(
            table,
            key_columns=(column,),
            keys=(Coded.repeated(column.keys or (), 7, rows),),
            measures=tuple(replace(each, **_repeated(rows)) for each in table.measures),
            cells=rows,
        )
        for table in made.tables
    ]
    return replace(made, tables=tuple(longer))


def _repeated(rows: int) -> dict[str, Any]:
    names = ("value", "standard_error", "margin", "lower", "upper")
    return {
        **{name: np.broadcast_to(np.float64(7), rows) for name in names},
        "status": Coded.repeated(("ok",), 1, rows),
    }


def test_a_table_of_ten_million_rows_has_one_page_with_the_first_ones_and_names_its_files() -> None:
    made = _long(10_000_000)
    files = site_files(made, {"tables/w__t0.csv": b"x", "tables/w__t0.parquet": b"x"})
    assert set(files) == {"index.html", "pages/w__t0.html", "pages/w.t0.html"}
    page = files["pages/w__t0.html"].decode()
    assert len(re.findall("<tr><th scope=.row", page)) == 2_000
    assert "Here are the first 2,000 of 10,000,000 rows; the files have all of them." in Outline(page).text
    assert {"tables/w__t0.csv", "tables/w__t0.parquet"} <= links("pages/w__t0.html", page.encode())
    assert "the files have" not in Outline(site_files(made, {})["pages/w__t0.html"].decode()).text


def test_an_ordinary_table_of_ten_million_rows_is_no_more_than_that() -> None:
    made = _long(10_000_000)
    (query,) = made.plan.queries
    plan = made.plan.model_copy(update={"queries": (query.model_copy(update={"workload": None}),), "workloads": ()})
    files = site_files(replace(made, plan=plan), {"tables/w__t0.csv": b"x"})
    assert set(files) == {"index.html", "pages/w__t0.html"}
    words = Outline(files["index.html"].decode()).text
    assert "9,999,950 rows are not on this page: more of them, and all of them in the files." in words


@pytest.mark.parametrize(
    ("rows", "tables", "pages", "held"),
    [(100_000, 1, 50, 100_000), (100_001, 1, 1, 2_000), (50_000, 10, 250, 50_000), (50_001, 10, 10, 2_000)],
)
def test_how_many_pages_a_release_has_is_limited(rows: int, tables: int, pages: int, held: int) -> None:
    found = paged(_long(rows, tables).tables)
    assert sum(len(each.pages) for each in found) == pages
    assert {each.pages[-1].last for each in found} == {held}


@given(st.lists(st.sampled_from([1, 60, 150, 900, 3_000, 40_000, 10**7]), min_size=1, max_size=6), st.integers(1, 900))
def test_the_rows_on_pages_are_limited_and_their_first_ones_are_always_there(cells: list[int], times: int) -> None:
    from dprelease.publish.site.paging import _on_pages

    held = _on_pages(cells * times)
    assert sum(held) <= max(MOST_IN_ALL, 50 * len(held))
    assert all(min(each, 50) <= have <= each for each, have in zip(cells * times, held, strict=True))


def test_long_names_make_short_paths_that_are_all_different() -> None:
    names = [f"{'q' * 60}__{'__'.join(each)}" for each in combinations((30 * "a", 30 * "b", 30 * "c"), 2)]
    paths = [page_path(name, mark) for name in names for mark in ("", "-2", "-25")]
    assert len(set(paths)) == len(paths)
    assert all(safe_path(path) == path for path in paths)
    assert max(len(path) for path in paths) <= 100


def test_columns_that_differ_in_capitals_have_pages_of_their_own() -> None:
    made = content(workload("w", ("Sex", "sex"), (1, 2)), sizes={"Sex": 2, "sex": 2}, ordinary=False)
    found = site_files(made, {})
    assert {"pages/w.1.Sex.html", "pages/w.2.sex.html"} <= set(found)


def test_the_number_of_pages_is_not_for_the_noise_to_decide() -> None:
    made, files = census()
    table = made.plan.catalog.tables["persons"]
    again = [published(table, query) for query in made.plan.queries if query.workload is not None]
    huge = [replace(each, measures=tuple(replace(m, value=m.value * 1e12) for m in each.measures)) for each in again]
    other = replace(made, tables=(*made.tables[: len(made.tables) - len(huge)], *huge))
    assert list(site_files(other, {})) == list(files)


def test_a_warning_names_the_coarser_table_as_its_page_does() -> None:
    content, _ = census()
    weak_all: tuple[Status, ...] = ("unreliable",)
    weak = [
        replace(
            table,
            measures=tuple(replace(each, held=True, status=weak_all * table.cells) for each in table.measures),
        )
        for table in content.tables
    ]
    publish = content.plan.publish.model_copy(update={"figures": languages_example.plan().publish.figures})
    plan = content.plan.model_copy(update={"publish": publish})
    found, headings = set(), set()
    for page in site_files(replace(content, plan=plan, tables=tuple(weak)), {}).values():
        plain = [" ".join(re.sub("<[^>]*>", "", each).split()) for each in page.decode().splitlines()]
        text = "\n".join(plain)
        found |= set(re.findall(r"“([^”]*)” has the same by fewer keys", text))
        headings |= set(plain)
    assert len(found) > 4
    assert not {each for each in found if "__" in each}
    assert found <= headings
