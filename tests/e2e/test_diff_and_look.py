"""`dprelease diff` and `publish --look`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.project import SPEC, command, small_project


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
