"""`dprelease diff` and `publish --look`, as a user runs them."""

from __future__ import annotations

import json
import re
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.project import SPEC, command, small_project

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "compare-and-republish.md"
QUERIES = SPEC[SPEC.index("  population:") :]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two periods of one release; in the second one, thousands more live in a district."""
    folder = tmp_path_factory.mktemp("diff")
    spec = small_project(folder)
    command(folder, "run", "spec.yaml", "--direct")
    spec.write_text(SPEC.replace("period: 2024", "period: 2025"), encoding="utf-8")
    with (folder / "people-1.csv").open("a") as file:
        file.write("07-01,1,30000\n" * 4000)
    command(folder, "run", "spec.yaml", "--direct")
    return folder


@pytest.mark.slow
def test_what_grew_is_named_and_what_did_not_is_not(project: Path) -> None:
    said = command(project, "diff", "releases/survey/2024", "releases/survey/2025", "--json", code=7)
    found = json.loads(said[: said.rindex("}") + 1])
    assert [each["what"] for each in found["differences"]] == ["period"]
    named = {(each["query"], each["measure"], *each["keys"]) for each in found["changes"]}
    assert ("population", "persons", "07-01", "1") in named
    assert ("population", "persons", "06-01", "2") not in named
    shown = command(project, "diff", "releases/survey/2024", "releases/survey/2025", code=7)
    assert "numbers compared" in shown
    assert "population.persons" in shown


def test_a_bundle_beside_itself_is_alike(project: Path) -> None:
    said = command(project, "diff", "releases/survey/2024", "releases/survey/2024")
    assert "none moved by more than noise explains" in said


@pytest.mark.parametrize("confidence", ["0", "1", "95", "x"])
def test_a_confidence_is_a_share(project: Path, confidence: str) -> None:
    bundle = "releases/survey/2024"
    assert "between 0 and 1" in command(project, "diff", bundle, bundle, "--confidence", confidence, code=2)


def test_what_is_no_bundle_is_told(project: Path) -> None:
    assert "DPR-W120" in command(project, "diff", "releases/survey/2024", "releases", code=6)


def as_json(said: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said[: said.rindex("}") + 1])
    return found


@pytest.mark.slow
def test_a_query_that_comes_moves_the_noise_of_the_others(project: Path) -> None:
    more = "  sexes: {table: people, by: [sex], measures: {persons: {count: rows}}}\n"
    (project / "next.yaml").write_text(SPEC.replace(QUERIES, more + QUERIES), encoding="utf-8")
    (project / "now.yaml").write_text(SPEC, encoding="utf-8")
    command(project, "plan", "now.yaml", "--out", "plan.json")
    found = as_json(command(project, "diff", "plan.json", "next.yaml", "--json", code=7))
    assert (found["first"]["kind"], found["second"]["kind"]) == ("plan", "spec")
    assert found["plan"]["added"] == [{"name": "sexes", "workload": False, "tables": ["sexes"]}]
    assert [each["name"] for each in found["plan"]["queries"]] == ["population", "income"]
    moved = {each["name"]: [float(times) for times in each["times"]] for each in found["plan"]["queries"]}
    assert all(1 < times < 2 for times in moved["population"])
    assert all(0.5 < times < 2 for times in moved["income"])  # another noise suits its counts now
    for each in found["plan"]["queries"]:
        assert Fraction(each["share"]["after"]) < Fraction(each["share"]["before"])
    assert {"tables/sexes.csv", "tables/sexes.parquet"} <= set(found["files"]["added"])
    assert (found["changes"], found["compared"]) == ([], 0)
    shown = command(project, "diff", "plan.json", "next.yaml", code=7)
    assert re.search(r"^population +persons +discrete", shown, re.MULTILINE)
    assert "+ tables/sexes.csv" in shown
    assert "numbers compared" not in shown
    assert "2 queries: nothing moved" in command(project, "diff", "plan.json", "now.yaml")


def test_a_release_is_compared_with_the_spec_that_it_was_made_from(project: Path) -> None:
    (project / "now.yaml").write_text(SPEC, encoding="utf-8")
    said = command(project, "diff", "survey/2024", "now.yaml")
    assert "2 queries: nothing moved" in said
    later = as_json(command(project, "diff", "survey/2024", "now.yaml", "--period", "2030", "--json"))
    assert [each["what"] for each in later["differences"]] == ["period"]
    other = command(project, "diff", "now.yaml", "survey/2025", "--confidence", "0.9")
    assert "nothing moved" in other


def test_another_release_is_compared_and_said_to_be_one(project: Path) -> None:
    (project / "other.yaml").write_text(SPEC.replace("name: survey", "name: census"), encoding="utf-8")
    said = command(project, "diff", "survey/2024", "other.yaml")
    assert "two releases: survey/2024 beside census/2024" in said


@pytest.mark.parametrize(
    ("given", "says", "code"),
    [
        ("survey/1999", "DPR-W120", 6),
        ("nothing", "DPR-W120", 6),
        ("nothing.json", "DPR-P301", 3),
        ("nothing.yaml", "DPR-S001", 2),
        ("releases/survey/2024/plan.json", "DPR-P301", 3),
    ],
)
def test_what_is_nothing_to_compare_is_told(project: Path, given: str, says: str, code: int) -> None:
    assert says in command(project, "diff", "releases/survey/2024", given, code=code)


@pytest.mark.slow
def test_the_commands_and_the_figures_of_the_page_are_true(tmp_path: Path) -> None:
    command(tmp_path, "init", "new")
    folder, page = tmp_path / "new", HOW_TO.read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    first, second = (shlex.split(line)[1:] for line in block.splitlines())
    command(folder, *first)
    assert "2 queries: nothing moved" in command(folder, *second)
    (line,) = re.findall(r"^    (crosstabs: .*)$", page, re.MULTILINE)
    spec = (folder / "quickstart.yaml").read_text(encoding="utf-8")
    at = spec.index("  population:")
    (folder / "quickstart.yaml").write_text(f"{spec[:at]}  {line}\n{spec[at:]}", encoding="utf-8")
    said = [" ".join(row.split()) for row in command(folder, *second, code=7).splitlines()]
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    missing = [row for row in shown.splitlines() if row.strip() and " ".join(row.split()) not in said]
    assert missing == []


def test_another_look_costs_nothing_and_passes_every_check(project: Path) -> None:
    spec, bundle = project / "spec.yaml", project / "releases" / "survey" / "2025"
    before = json.loads(command(project, "ledger", "status", "--json"))["accounts"]
    plan = (bundle / "plan.json").read_bytes()
    text = SPEC.replace("period: 2024", "period: 2025").replace("title: Population,", 'title: "Who lives where",')
    spec.write_text(text + "publish: {formats: [csv, html], confidence: 0.9}\n", encoding="utf-8")
    command(project, "publish", "survey/2025", "--look", "spec.yaml")
    assert "Who lives where" in (bundle / "index.html").read_text()
    assert "at 90 % confidence" in (bundle / "index.html").read_text()
    assert not (bundle / "tables" / "workbook.xlsx").exists()
    assert (bundle / "plan.json").read_bytes() == plan
    checks = json.loads(command(project, "verify", str(bundle), "--json"))["checks"]
    assert [each for each in checks if each["passed"] is False] == []
    assert json.loads(command(project, "ledger", "status", "--json"))["accounts"] == before
    command(project, "publish", "survey/2025")
    assert not (bundle / "presentation.json").exists()


def test_a_spec_that_would_measure_something_else_is_no_look(project: Path) -> None:
    text = SPEC.replace("period: 2024", "period: 2025").replace("budget: {epsilon: 1,", "budget: {epsilon: 2,")
    (project / "spec.yaml").write_text(text, encoding="utf-8")
    said = command(project, "publish", "survey/2025", "--look", "spec.yaml", code=3)
    assert "DPR-P170" in said
    assert "budget" in said
