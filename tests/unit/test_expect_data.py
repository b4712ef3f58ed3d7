"""A file of thresholds: what it may say, what is told of a wrong one, and that it marks lines and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dprelease.cli.commands.look import shown_text
from dprelease.errors import SpecError
from dprelease.release.project import Project
from dprelease.release.tuning.look import look_at
from dprelease.spec import expect_data
from dprelease.spec.expect_data import ExpectedData, load_expected
from tests.project import small_project

WHOLE = """
expect_data: 1
tables:
  people:
    rows: {at_least: 1000, at_most: 5000}
    unparsed: {at_most: 0}
    columns:
      district: {null: {at_most: 0}, not_listed: {at_most: 30 %}}
      income: {null: {at_most: 5 %}, unreadable: {at_most: 0}, outside: {at_most: 0.5 %}}
      region: {null: {at_most: 25.1%}}
queries:
  population: {no_cell: {at_most: 30 %}}
  income: {no_cell: {at_most: 700}, clipped: {average: {at_most: 0}, total: {at_least: 1}}}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_project(tmp_path_factory.mktemp("expected"), rows=3000)


def read(text: str, spec: Path) -> ExpectedData:
    loaded = Project.find(spec.parent).load(spec)
    return load_expected(text, "expect.yaml", loaded.spec)


def marked(spec: Path, text: str) -> set[str]:
    file = spec.parent / "expect.yaml"
    file.write_text(text, encoding="utf-8")
    shown = shown_text(look_at(spec, allowed=True, is_terminal=True, expect=file))
    return {line.split(", at ")[0] for line in shown.splitlines() if line.endswith(" expected")}


def test_a_line_is_marked_where_it_is_not_as_the_owner_expects(spec: Path) -> None:
    """750 of 3,001 rows are of a district that no list has; 273 have no income; one income is above the clip."""
    assert marked(spec, WHOLE) == {
        "! column income of table people: null 273 of 3,001 (9.10 %)",
        "! query income: rows in no cell 750 of 3,001 (24.99 %)",
        "! query income: values that the clip moves of average 1 of 2,046 (0.05 %)",
        "! query income: values that the clip moves of total 0 of 2,046 (0 %)",
    }


def test_without_a_file_the_usual_shares_are_expected(spec: Path) -> None:
    assert marked(spec, "expect_data: 1\n") == {
        "! column district of table people: not listed 750 of 3,001 (24.99 %)",
        "! query population: rows in no cell 750 of 3,001 (24.99 %)",
        "! query income: rows in no cell 750 of 3,001 (24.99 %)",
    }
    assert marked(spec, WHOLE.replace("at_least: 1000", "at_least: 3001").replace("at_most: 5000", "at_most: 3001"))
    assert "! table people: rows 3,001" in marked(spec, WHOLE.replace("at_least: 1000", "at_least: 3002"))
    assert "! table people: rows 3,001" in marked(spec, WHOLE.replace("at_most: 5000", "at_most: 3000"))


@pytest.mark.parametrize(
    ("text", "code", "says", "hint"),
    [
        ("tables: {}", "DPR-S201", "missing field `expect_data`", "expect_data"),
        ("expect_data: 2", "DPR-S202", "`expect_data`", "1"),
        ("expect_data: 1\ntable: {}", "DPR-S200", "unknown field `table`", "tables"),
        (
            "expect_data: 1\ntables: {peple: {rows: {at_most: 1}}}",
            "DPR-S242",
            "is no table of the spec: 'peple'",
            "people",
        ),
        (
            "expect_data: 1\ntables: {people: {columns: {incom: {null: {at_most: 1}}}}}",
            "DPR-S242",
            "is no column of table 'people' of the spec: 'incom'",
            "income",
        ),
        ("expect_data: 1\ntables: {people: {nulls: {at_most: 1}}}", "DPR-S200", "unknown field `nulls`", ""),
        (
            "expect_data: 1\ntables: {people: {columns: {income: {nulls: {at_most: 1}}}}}",
            "DPR-S200",
            "unknown field `nulls`",
            "did you mean `null`?",
        ),
        ("expect_data: 1\nqueries: {population: {clipped: {n: {at_most: 1}}}}", "DPR-S242", "is no measure", "persons"),
        ("expect_data: 1\ntables: {people: {rows: 5}}", "DPR-S203", "is the number 5, not a mapping", ""),
        ("expect_data: 1\ntables: {people: {rows: {}}}", "DPR-S241", "says no limit", "{at_most: 2 %}"),
        ("expect_data: 1\ntables: {people: {rows: {at_most: -1}}}", "DPR-S240", "neither a number", "2.5 %"),
        ("expect_data: 1\ntables: {people: {rows: {at_most: 0.5}}}", "DPR-S240", "neither a number", "2.5 %"),
        ("expect_data: 1\ntables: {people: {rows: {at_most: 101 %}}}", "DPR-S240", "neither a number", "2.5 %"),
        ("expect_data: 1\ntables: {people: {rows: {most: 1}}}", "DPR-S200", "unknown field `most`", "at_most"),
        ("expect_data: 1\ntables: {people: {rows: {at_most: ${env:X}}}}", "DPR-S", "", ""),
        ("[", "DPR-S1", "", ""),
    ],
)
def test_a_wrong_file_is_told_with_its_line(spec: Path, text: str, code: str, says: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(text, spec)
    told = str(caught.value)
    assert re.search(rf"expect\.yaml:[0-9]+:[0-9]+  {code}", told), told
    assert says in told
    assert hint in told


def test_every_problem_is_told_at_once(spec: Path) -> None:
    text = WHOLE.replace("people:", "peple:").replace("at_most: 700", "at_most: many").replace("average:", "mean:")
    with pytest.raises(SpecError) as caught:
        read(text, spec)
    assert [problem.code for problem in caught.value.problems] == ["DPR-S242", "DPR-S240", "DPR-S242"]


def test_the_example_of_the_module_is_one(spec: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", expect_data.__doc__ or "", re.DOTALL)
    read(example, spec)
