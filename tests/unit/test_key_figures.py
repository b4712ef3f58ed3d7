"""Numbers that an author lets the front page begin with: shown as in their table, and refused before any charge."""

from __future__ import annotations

import re

import pytest

from dprelease.catalog.table import Catalog
from dprelease.errors import SpecError
from dprelease.plan.document import KeyFigure, ReleasePlan
from dprelease.plan.resolve.catalog import resolve
from dprelease.plan.verify.whole_plan import verify
from dprelease.spec.fields.document import PublishSpec
from dprelease.spec.load import load
from tests.unit import languages_example
from tests.unit.test_publish_pages import Outline
from tests.unit.test_site_crossed import pages

NORTH = KeyFigure(table="population", measure="persons", keys={"region": "3", "sex": "2"})
MEAN = KeyFigure(table="income", measure="average", keys={"state": "36", "sex": "1"})
BEFORE = "publish: {"
SPEC_OF_TOTALS = """
dprelease: 1
release: {name: people, period: 2024}
privacy: {unit: {entity: person}, neighboring: add_remove, budget: {epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: demo
    source: {file: people.csv}
    columns:
      region: {type: text, keys: [north, south]}
      sex: {type: integer, keys: [1, 2]}
      town: {type: text}
queries:
  people: {table: people, by: [region, sex], totals: [[sex], []], measures: {n: {count: rows}}}
  top: {table: people, top_k: region, k: 1}
  rare: {table: people, by: [town], keys: private, measures: {n: {count: rows}}}
derive:
  made: {sql: "SELECT sex, SUM(n) AS n FROM people GROUP BY sex"}
publish:
  key_figures: [{table: people, measure: n, keys: KEYS}]
"""


def resolved(text: str) -> Catalog:
    return resolve(load(text, "people.yaml"), {})


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
    for told, words in ((mean, "average, New York, Male"), (north, "persons, South, Female")):
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
    ("wrong", "code", "says"),
    [
        ({"table": "{table}s"}, "DPR-S756", "did you mean `{table}`?"),
        ({"table": "nowhere"}, "DPR-S756", "name a query, or a table of its `marginals`"),
        ({"measure": "{measure}x"}, "DPR-S757", "did you mean `{measure}`?"),
        ({"keys": ""}, "DPR-S758", "write `keys: "),
        ({"keys": "{wrong}"}, "DPR-S759", "write a key as the column has it, such as `"),
        ({"keys": "{near}"}, "DPR-S759", "did you mean `{first}`?"),
    ],
)
def test_what_will_not_be_published_is_told_with_its_place_and_the_nearest_name(
    wrong: dict[str, str], code: str, says: str
) -> None:
    query = next(each for each in languages_example.plan().queries if each.by and each.workload is None)
    columns = languages_example.plan().keys(query)
    longest = max((str(key) for key in columns[0].keys or ()), key=len)
    rest = "".join(f', {column.name}: "{(column.keys or ())[0]}"' for column in columns[1:])
    named = {
        "table": query.name,
        "measure": next(iter(query.measures)),
        "keys": ", ".join(f'{column.name}: "{(column.keys or ())[0]}"' for column in columns),
        "wrong": ", ".join(f"{column.name}: nobody" for column in columns),
        "near": f'{columns[0].name}: "{longest}1"{rest}',
        "first": longest,
    }
    written = {"table": "{table}", "measure": "{measure}", "keys": "{keys}"} | wrong
    with pytest.raises(SpecError) as refused:
        planned(written["table"].format(**named), written["measure"].format(**named), written["keys"].format(**named))
    problem = refused.value.problems[0]
    assert problem.code == code
    assert says.format(**named) in problem.hint
    assert problem.where is not None
    assert problem.where.line == 1 + languages_example.SPEC[: languages_example.SPEC.index(BEFORE)].count("\n")


ADDED_UP = (
    ("{region: north, sex: 1}", None),
    ("{region: _total, sex: 1}", None),
    ("{region: _total, sex: _total}", None),
    ("{region: north, sex: _total}", "DPR-S758"),
    ("{region: _all, sex: 1}", "DPR-S759"),
)


@pytest.mark.parametrize(("keys", "code"), ADDED_UP)
def test_a_row_of_totals_is_one_of_those_that_are_asked_for(keys: str, code: str | None) -> None:
    text = SPEC_OF_TOTALS.replace("KEYS", keys)
    if code is None:
        assert len(resolved(text).tables) == 1
        return
    with pytest.raises(SpecError) as refused:
        resolved(text)
    assert [each.code for each in refused.value.problems] == [code]


@pytest.mark.parametrize(
    ("table", "says"),
    [("top", "whose rows are not all combinations"), ("made", "a derived table"), ("rare", "not all combinations")],
)
def test_a_row_that_may_not_be_there_is_no_key_figure(table: str, says: str) -> None:
    text = SPEC_OF_TOTALS.replace("table: people, measure: n, keys: KEYS", f"table: {table}, measure: n, keys: {{}}")
    with pytest.raises(SpecError, match=says):
        resolved(text)


def test_seven_are_too_many() -> None:
    with pytest.raises(SpecError, match="key_figures"):
        planned("a", "b", "c: d", 7)
