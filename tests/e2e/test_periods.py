"""One spec for every period: `--period` and `{{ period }}`, as a user runs them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from dprelease.release.run import Request, open_run
from tests.project import SPEC, command, installed, small_project

SMALL = SPEC[: SPEC.index("  income:\n    table:")]  # one query: quick to plan
MONTHLY = (
    SMALL.replace("period: 2024, ", "")
    .replace('"A survey: small"', '"People in {{ period }}"')
    .replace('"people-*.csv"', '"data/{{ period }}.csv"')
    .replace("      sex:", "      seen: {type: date}\n      sex:")
    .replace("title: Population,", 'title: "Until {{ period.end }}",')
    .replace("by: [district, sex],", "by: [district, sex], where: \"seen >= DATE '{{ period.start }}'\",")
)
ROWS = 2000
DAYS = {"2024-03": ("2024-03-07", "2024-02-29"), "2024-04": ("2024-04-30", "2024-04-01")}  # two days of its file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A file for each of two months: in that of March every second row is of February."""
    small_project(tmp_path, MONTHLY, rows=1)
    (tmp_path / "data").mkdir()
    for period, days in DAYS.items():
        rows = [f"06-01,1,1000,{days[k % 2]}" for k in range(ROWS)]
        (tmp_path / "data" / f"{period}.csv").write_text("\n".join(["district,sex,income,seen", *rows]) + "\n")
    return tmp_path


def counted(folder: Path, period: str) -> float:
    """The noisy number of rows in the only cell that has any."""
    text = (folder / "releases" / "survey" / period / "tables" / "population.csv").read_text()
    (row,) = [row for row in csv.DictReader(text.splitlines()) if (row["district"], row["sex"]) == ("06-01", "1")]
    return float(row["persons"])


def as_json(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(command(folder, *words, "--json", code=code))


def test_one_spec_releases_every_period_from_its_own_file_once(project: Path) -> None:
    march = as_json(project, "run", "spec.yaml", "--direct", "--period", "2024-03")
    april = as_json(project, "run", "spec.yaml", "--direct", "--period", "2024-04")
    again = as_json(project, "run", "spec.yaml", "--direct", "--period", "2024-03")

    assert (march["period"], march["state"], again["state"], again["drawn"]) == ("2024-03", "published", "exists", 0)
    assert march["plan_fingerprint"] == again["plan_fingerprint"] != april["plan_fingerprint"]
    assert counted(project, "2024-03") == pytest.approx(ROWS / 2, abs=100)
    assert counted(project, "2024-04") == pytest.approx(ROWS, abs=100)
    page = (project / "releases" / "survey" / "2024-04" / "index.html").read_text()
    assert "People in 2024-04" in page
    assert "Until 2024-05-01" in page
    assert "{{" not in page


@pytest.mark.slow
def test_a_written_period_is_the_same_release_as_one_that_is_given(project: Path) -> None:
    command(project, "run", "spec.yaml", "--direct", "--period", "2024-03")
    (project / "spec.yaml").write_text(MONTHLY.replace("name: survey,", "name: survey, period: 2024-03,"))

    assert as_json(project, "run", "spec.yaml", "--direct")["state"] == "exists"
    assert as_json(project, "run", "spec.yaml", "--direct", "--period", "2024-04")["state"] == "published"


@pytest.mark.slow
def test_a_frozen_plan_keeps_its_period(project: Path) -> None:
    command(project, "plan", "spec.yaml", "--period", "2024-04", "--out", "plan.json")

    assert "DPR-P304" in command(project, "run", "plan.json", "--direct", "--period", "2024-03", code=3)
    assert as_json(project, "run", "plan.json", "--direct", "--period", "2024-04")["period"] == "2024-04"
    assert as_json(project, "run", "plan.json", "--direct")["state"] == "exists"
    (project / "spec.yaml").write_text(MONTHLY.replace("epsilon: 1,", "epsilon: 1/2,"))
    command(project, "plan", "spec.yaml", "--period", "2024-03", "--out", "plan.json", "--replace")
    (project / "spec.yaml").write_text(MONTHLY)
    said = command(project, "run", "plan.json", "--direct", code=3)
    assert "`dprelease plan spec.yaml --period 2024-03 --out plan.json`" in said


@pytest.mark.slow
def test_another_look_is_that_of_the_releases_period(project: Path) -> None:
    command(project, "run", "spec.yaml", "--direct", "--period", "2024-03")
    (project / "spec.yaml").write_text(MONTHLY.replace("Until", "Before"))
    command(project, "publish", "survey/2024-03", "--look", "spec.yaml")

    assert "Before 2024-04-01" in (project / "releases" / "survey" / "2024-03" / "index.html").read_text()


def test_a_period_that_was_begun_is_given_up_by_its_name(project: Path) -> None:
    with open_run(Request(target=str(project / "spec.yaml"), period="2024-04"), "test"):
        pass  # as if it had been killed: reserved, and nothing measured
    give_up = ("run", "spec.yaml", "--direct", "--give-up", "lost", "--period")

    assert "survey/2024-03 is not open" in command(project, *give_up, "2024-03", code=4)
    assert "gave up survey/2024-04" in command(project, *give_up, "2024-04")


@pytest.mark.slow
def test_every_period_can_be_checked_planned_and_rehearsed(project: Path) -> None:
    assert as_json(project, "validate", "spec.yaml", "--period", "2024-Q1")["period"] == "2024-Q1"
    assert as_json(project, "plan", "spec.yaml", "--period", "2030-01")["period"] == "2030-01"
    assert as_json(project, "run", "spec.yaml", "--direct", "--synthetic", "--period", "2030-01")["period"] == "2030-01"


def test_what_cannot_be_a_period_is_refused_before_anything_is_opened(project: Path) -> None:
    assert "DPR-S303" in command(project, "run", "spec.yaml", "--direct", code=2)
    for period in ("../../etc/passwd", "2024-03' OR '1' = '1", "*", ""):
        assert "DPR-S217" in command(project, "run", "spec.yaml", "--direct", "--period", period, code=2)
    assert "DPR-S304" in command(project, "validate", "spec.yaml", "--period", "spring", code=2)
    assert not (project / "state").exists()


@pytest.mark.nightly
def test_through_prefect(project: Path) -> None:
    said = installed(project, "run", "spec.yaml", "--period", "2024-03")

    assert "published survey/2024-03" in said
    assert counted(project, "2024-03") == pytest.approx(ROWS / 2, abs=100)
