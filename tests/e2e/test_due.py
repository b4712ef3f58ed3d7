"""`dprelease due` as a user and as a monitor types it, from the first period to one that is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.project import SPEC, command, small_project

YEAR = datetime.now(UTC).year
FIRST, SECOND = str(YEAR - 2), str(YEAR - 1)


def spec(schedule: str = "", period: str = f"period: {FIRST}, ") -> str:
    assert SPEC.count("period: 2024, ") == 1
    text = SPEC.replace("period: 2024, ", period)
    return text + f'schedule: {{cron: "0 6 5 1 *", timezone: America/New_York, period: year{schedule}}}\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    small_project(tmp_path, spec(), rows=200)
    return tmp_path


def test_periods_are_due_until_they_are_released(project: Path) -> None:
    told = command(project, "due", code=7)
    assert f"spec.yaml: survey, every year from {FIRST}; 1 late, 1 due, 1 waiting" in told
    assert f"{YEAR - 1}-01-01 00:00 EST" in told
    assert f"dprelease run spec.yaml --period {FIRST}" in told
    assert not (project / "state").exists()  # nothing is written

    command(project, "run", "spec.yaml", "--direct", "--period", FIRST)
    told = command(project, "due", "spec.yaml", code=7)
    assert "1 published, 1 due, 1 waiting" in told
    assert f"dprelease run spec.yaml --period {SECOND}" in told

    command(project, "run", "spec.yaml", "--direct", "--period", SECOND)
    told = command(project, "due")
    assert "2 published, 1 waiting" in told
    facts = json.loads(command(project, "due", "--json"))
    (survey,) = facts["schedules"]
    assert [(each["period"], each["state"], each["alarm"]) for each in survey["periods"]] == [
        (FIRST, "published", False),
        (SECOND, "published", False),
        (str(YEAR), "waiting", False),
    ]
    assert survey["periods"][0]["due"] == f"{YEAR - 1}-01-01T05:00:00Z"
    assert (survey["release"], survey["alarm"]) == ("survey", False)


def test_a_lost_period_and_a_schedule_without_a_first_one_are_an_alarm(project: Path) -> None:
    (project / "spec.yaml").write_text(spec(", retention: 1d"))
    told = command(project, "due", "spec.yaml", code=7)
    assert "2 lost" in told
    assert "may be gone" in told

    (project / "spec.yaml").write_text(spec(period=""))
    told = command(project, "due", code=7)
    assert "does not say which year is the first" in told


def test_a_wrong_spec_is_told_beside_the_others(project: Path) -> None:
    (project / "other.yaml").write_text(spec().replace("America/New_York", "Mars"))
    told = command(project, "due", code=2)

    assert "DPR-S631" in told
    assert "other.yaml:" in told
    assert "1 late, 1 due, 1 waiting" in told


def test_a_project_without_schedules(tmp_path: Path) -> None:
    small_project(tmp_path, rows=10)

    assert "no spec of this project has a schedule" in command(tmp_path, "due")
    told = command(tmp_path, "due", "spec.yaml", code=2)
    assert "DPR-S635" in told
    assert json.loads(command(tmp_path, "due", "--json"))["schedules"] == []
