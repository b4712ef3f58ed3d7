"""Tables with a column across: every number once, where it belongs, and the script that is off by default."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace

import pytest

from dprelease.errors import SpecError
from dprelease.publish import published_tables
from dprelease.publish.base import Content
from dprelease.publish.site.crossed import with_across
from dprelease.publish.site.html import site_files
from dprelease.spec.load import load
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_catalogue import SPEC
from tests.unit.test_publish_pages import Outline

CELL = re.compile(r'<td class="num[^"]*">(.*?)</td>')


def pages(**publish: object) -> dict[str, bytes]:
    made = plan()
    made = made.model_copy(update={"publish": made.publish.model_copy(update=publish)})
    tables = published_tables(made, measurements())
    return site_files(Content(made, tables, facts(made), measurements()), {})


@pytest.mark.parametrize("across", ["region", "sex"])
def test_every_number_is_where_its_keys_are(across: str) -> None:
    table = published_tables(plan(), measurements())[0]
    made = with_across(table, across)
    (other,) = [column.name for column in made.key_columns]
    assert {across, other} == {"region", "sex"}
    assert made.cells * len(made.measures) == table.cells
    columns = {column.name: list(keys) for column, keys in zip(table.key_columns, table.keys, strict=True)}
    labels = next(column.labels for column in table.key_columns if column.name == across)
    for at, value in enumerate(table.measures[0].value.tolist()):
        row = list(made.keys[0]).index(columns[other][at])
        (measure,) = [each for each in made.measures if each.name == labels[str(columns[across][at])]]
        assert measure.value[row] == value
        assert measure.status[row] == table.measures[0].status[at]


def test_two_keys_of_one_label_are_told_apart_and_a_hole_is_refused() -> None:
    table = published_tables(plan(), measurements())[0]
    sex = table.key_columns[1].model_copy(update={"labels": {"1": "same", "2": "same"}})
    same = with_across(replace(table, key_columns=(table.key_columns[0], sex)), "sex")
    assert [each.name for each in same.measures] == ["same (1)", "same (2)"]
    with pytest.raises(ValueError, match="missing"):
        with_across(replace(table, keys=(table.keys[0], [1] * table.cells)), "sex")


def test_the_page_has_the_same_cells_in_fewer_rows() -> None:
    plain, across = (
        pages()["index.html"].decode(),
        pages(across={"population": "sex", "income": "sex"})["index.html"].decode(),
    )
    assert sorted(CELL.findall(plain)) == sorted(CELL.findall(across))
    assert across.count("<tr>") < plain.count("<tr>")
    assert "sex</bdi> across" in across
    assert "earners: Male" in Outline(across).text


def test_a_page_has_a_script_only_where_it_is_asked_for_and_the_policy_names_it() -> None:
    plain, moving = (pages(interactive=each)["index.html"].decode() for each in (False, True))
    assert "<script>" not in plain
    assert "script-src" not in plain
    (text,) = re.findall(r"<script>(.*?)</script>", moving, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{known}';" in moving
    assert not {"fetch", "innerHTML", "eval", "http", "localStorage", "import"} & set(re.findall(r"[A-Za-z]+", text))
    assert CELL.findall(plain) == CELL.findall(moving)


def spec(
    publish: str, query: str = "people: {table: people, by: [sex, area], measures: {persons: {count: rows}}}"
) -> str:
    columns = "sex: {type: integer, keys: [1, 2]}, area: {type: integer, keys: [1, 2]}"
    found = SPEC.replace("sex: {type: integer, keys: [1, 2]}", columns)
    return found[: found.index("  people: {table: people")] + f"  {query}\npublish: {publish}\n"


def test_a_column_across_is_in_the_spec() -> None:
    found = load(spec("{across: {people: sex}, interactive: true, period_column: true}"), "spec.yaml").spec.publish
    assert (found.across, found.interactive, found.period_column) == ({"people": "sex"}, True, True)


@pytest.mark.parametrize(
    ("publish", "more", "code"),
    [
        ("{across: {persons: sex}}", "", "DPR-S726"),
        ("{across: {people: age}}", "", "DPR-S727"),
        ("{across: {people: sex}}", ", totals: [[]]", "DPR-S728"),
        ("{across: {people: sex}}", ", suppress: {measure: persons, below: 5}", "DPR-S728"),
    ],
)
def test_what_cannot_stand_across_is_refused(publish: str, more: str, code: str) -> None:
    query = f"people: {{table: people, by: [sex, area], measures: {{persons: {{count: rows}}}}{more}}}"
    with pytest.raises(SpecError) as caught:
        load(spec(publish, query), "spec.yaml")
    assert [problem.code for problem in caught.value.problems] == [code]
