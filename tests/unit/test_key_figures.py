"""Numbers that an author lets the front page begin with: shown as in their table, and refused before any charge."""

from __future__ import annotations

import re

import pytest

from dprelease.errors import PlanError, SpecError
from dprelease.plan.document import KeyFigure, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.spec.fields.document import PublishSpec
from tests.unit import languages_example
from tests.unit.test_publish_pages import Outline
from tests.unit.test_site_crossed import pages

NORTH = KeyFigure(table="population", measure="persons", keys={"region": "3", "sex": "2"})
MEAN = KeyFigure(table="income", measure="average", keys={"state": "36", "sex": "1"})
BEFORE = "publish: {"


def begun(page: bytes) -> list[str]:
    """The key figures of a page, as text."""
    found = re.search(r'<ul class="big keys".*?</ul>', page.decode(), re.S)
    return (
        []
        if found is None
        else [" ".join(Outline(each).text.split()) for each in re.findall(r"<li>(.*?)</li>", found[0])]
    )


def test_the_front_page_begins_with_what_was_chosen_in_that_order_as_its_table_shows_it() -> None:
    page = pages(key_figures=(MEAN, NORTH))["index.html"]
    mean, north = begun(page)
    text = " ".join(Outline(page.decode()).text.split())
    for told, words in ((mean, ": average, New York, Male"), (north, ": South, Female")):
        assert words in told
        number = re.match(r"[\d,]+ ± [\d,]+", told)
        assert number is not None
        assert text.count(number[0]) >= 2  # and in its table
    assert begun(pages()["index.html"]) == []  # no table of that release has one row


@pytest.mark.parametrize(
    "other",
    [
        {"table": "gone"},
        {"measure": "gone"},
        {"keys": {"region": "3"}},
        {"keys": {"region": "9", "sex": "2"}},
    ],
)
def test_a_page_of_a_foreign_plan_leaves_out_what_is_not_there(other: dict[str, object]) -> None:
    assert begun(pages(key_figures=(NORTH.model_copy(update=other),))["index.html"]) == []


def planned(table: str, measure: str, keys: str, times: int = 1) -> ReleasePlan:
    figures = [f"{{table: {table}, measure: {measure}, keys: {{{keys}}}}}"] * times
    written = f"{BEFORE}key_figures: [{', '.join(figures)}], "
    assert languages_example.SPEC.count(BEFORE) == 1
    return languages_example.plan(languages_example.SPEC.replace(BEFORE, written))


def test_a_spec_chooses_them_and_a_plan_without_them_is_written_as_before() -> None:
    query = next(each for each in languages_example.plan().queries if each.by and each.workload is None)
    columns = languages_example.plan().keys(query)
    keys = {column.name: str((column.keys or ())[0]) for column in columns}
    measure = next(iter(query.measures))
    made = planned(query.name, measure, ", ".join(f'{name}: "{key}"' for name, key in keys.items()))
    assert made.publish.key_figures == (KeyFigure(table=query.name, measure=measure, keys=keys),)
    assert verify(made) == verify(languages_example.plan())
    assert "key_figures" not in languages_example.plan().canonical()
    assert "key_figures" not in PublishSpec().model_dump_json()


@pytest.mark.parametrize(
    ("table", "measure", "keys", "code"),
    [
        ("nowhere", "{measure}", "{keys}", "DPR-S756"),
        ("{table}", "nothing", "{keys}", "DPR-S757"),
        ("{table}", "{measure}", "", "DPR-S758"),
        ("{table}", "{measure}", "{wrong}", "DPR-S759"),
    ],
)
def test_what_will_not_be_published_is_refused_by_the_plan(table: str, measure: str, keys: str, code: str) -> None:
    query = next(each for each in languages_example.plan().queries if each.by and each.workload is None)
    columns = languages_example.plan().keys(query)
    named = {
        "table": query.name,
        "measure": next(iter(query.measures)),
        "keys": ", ".join(f'{column.name}: "{(column.keys or ())[0]}"' for column in columns),
        "wrong": ", ".join(f"{column.name}: nobody" for column in columns),
    }
    with pytest.raises(PlanError) as refused:
        planned(table.format(**named), measure.format(**named), keys.format(**named))
    assert refused.value.code == code


def test_seven_are_too_many() -> None:
    with pytest.raises(SpecError, match="key_figures"):
        planned("a", "b", "c: d", 7)
