"""What a scheduled run is made of: which specs become deployments, what is refused, and what a failure leaves."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from dprelease.errors import OrchestratorError, SpecError
from dprelease.flows.deploy.schedules import schedule, serve
from dprelease.flows.deployment import is_product, product_of, products_in
from dprelease.flows.run_context import StepFailed, attempted
from dprelease.flows.server.reach import exposed
from dprelease.flows.server.settings import run_environment
from dprelease.release.project import Project
from tests.project import SPEC, environment, small_project

CANARY = "canary-" + "83519"
ROOT = Path(__file__).resolve().parents[2]
SCHEDULE = 'schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month}\n'
MONTHLY = SPEC.replace("period: 2024,", "period: 2024-01,").replace("A survey: small", "Survey of {{ period }}")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    home = tmp_path_factory.mktemp("home")
    clean = {name: text for name, text in os.environ.items() if not name.upper().startswith("PREFECT_")}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.unit.flows_client"],
        cwd=ROOT,
        env={**clean, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return said, ended.stderr


def test_a_run_refuses_to_start_where_prefect_would_store_what_it_does(done: tuple[dict[str, Any], str]) -> None:
    said = done[0]["guarded"]
    assert set(said) == {
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT",
        "PREFECT_TASKS_DEFAULT_PERSIST_RESULT",
        "PREFECT_TASKS_REFRESH_CACHE",
        "PREFECT_LOGGING_LOG_PRINTS",
        "PREFECT_LOGGING_EXTRA_LOGGERS",
    }
    assert all("DPR-O301" in text and name in text for name, text in said.items())


def test_a_period_that_fails_does_not_keep_the_next_ones_from_being_tried(done: tuple[dict[str, Any], str]) -> None:
    said = done[0]["turns"]
    assert said["tried"] == ["2024-01", "2024-02", "2024-03"]
    assert said["error"] == "1 of 3 failed (2024-01: TableMismatch DPR-E303)"
    assert said["alone"], "no cause and no context that Prefect could pickle"
    assert said["at most one"] == ["2024-01", "2024-02"], "one that fails and is charged nothing does not count"
    lines = [line for line in done[1].splitlines() if "DPR-E303  a message" in line]
    assert lines, "its process says the whole of it"
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ERROR survey/2024-01: DPR-E303 .*", line) for line in lines
    )
    assert said["levels"] == [logging.ERROR] * 2, "a filter of errors finds it"


def test_after_a_failure_that_stays_charged_only_what_is_open_is_gone_on_with(done: tuple[dict[str, Any], str]) -> None:
    said = done[0]["turns"]
    assert said["charged"] == [
        "2024-01",
        "2024-03",  # it is open
        "1 of 2 failed (2024-01: TableMismatch DPR-E303); 2024-01 stays charged, and 1 more were not begun",
    ]
    assert said["charged, at most one"] == ["2024-01", "1 of 1 failed (2024-01: TableMismatch DPR-E303)"]


def test_a_release_that_another_process_works_on_is_left_to_it(done: tuple[dict[str, Any], str]) -> None:
    assert done[0]["held"] == {"left": True, "busy": "DPR-L201"}


def test_an_error_outside_of_any_release_is_told_and_shown_by_class_and_code() -> None:
    told: list[str] = []

    def do() -> None:
        raise ValueError(f"row 7: {CANARY}")

    with pytest.raises(StepFailed) as seen:
        attempted("what is due", do, told.append)
    assert str(seen.value) == "what is due: ValueError"
    assert seen.value.__context__ is None
    assert CANARY not in told[0]


def test_a_product_is_named_tagged_and_described_in_public_words(tmp_path: Path) -> None:
    made = product_of(small_project(tmp_path, MONTHLY + SCHEDULE, rows=3))
    when = made.scheduled.schedule
    assert (made.name, when.cron, when.timezone) == ("survey", "0 6 5 * *", "Europe/Paris")
    assert made.tags == ("dprelease", "survey", "account:people")
    assert made.home == (tmp_path / "state" / "prefect").resolve()
    assert "**Survey of (month)**, released once for every month." in made.description
    assert "epsilon 1" in made.description
    assert "2024-01" not in made.description
    ended = MONTHLY.replace("2024-01", "2013-01") + SCHEDULE.replace("month}", "month, last: 2013-12}")
    assert product_of(small_project(tmp_path, ended, rows=3)).name == "survey"


def test_the_version_follows_what_is_released_and_not_when(tmp_path: Path) -> None:
    def version(spec: str) -> str:
        return product_of(small_project(tmp_path, spec, rows=3)).version

    first = version(MONTHLY + SCHEDULE)
    assert version("# a word\n" + MONTHLY.replace("2024-01", "2025-06") + SCHEDULE.replace("0 6", "0 7")) == first
    assert version(MONTHLY.replace("epsilon: 1,", "epsilon: 1/2,") + SCHEDULE) != first
    small_project(tmp_path, MONTHLY + SCHEDULE, rows=3)
    (tmp_path / "places.csv").write_text("district,region\n06-01,06\n", encoding="utf-8")
    assert product_of(tmp_path / "spec.yaml").version != first


def test_a_folder_stands_for_its_specs_with_a_schedule(tmp_path: Path) -> None:
    small_project(tmp_path, MONTHLY + SCHEDULE, rows=3)
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "once.yaml").write_text(SPEC.replace("name: survey", "name: once"), encoding="utf-8")
    other = MONTHLY.replace("name: survey", "name: other") + SCHEDULE
    (tmp_path / "specs" / "other.yaml").write_text(other, encoding="utf-8")
    assert [each.name for each in products_in([tmp_path])] == ["other", "survey"] or [
        each.name for each in products_in([tmp_path])
    ] == ["survey", "other"]
    assert [each.name for each in products_in([tmp_path / "specs"])] == ["other"]
    with pytest.raises(SpecError, match="no `schedule`"):
        products_in([tmp_path / "specs" / "once.yaml"])
    (tmp_path / "specs" / "other.yaml").write_text(other.replace("people\n", "nobody\n"), encoding="utf-8")
    with pytest.raises(SpecError):
        products_in([tmp_path / "specs"])


def test_without_a_server_or_a_schedule_nothing_is_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small_project(tmp_path, MONTHLY + SCHEDULE, rows=3)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    for register in (schedule, serve):
        with pytest.raises(OrchestratorError, match="no Prefect server is named") as seen:
            register([path])
        assert seen.value.code == "DPR-O110"
        assert "prefect server start" in seen.value.hint
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    (tmp_path / "specs").mkdir()
    with pytest.raises(OrchestratorError) as none:
        schedule([tmp_path / "specs"])
    assert none.value.code == "DPR-O111"


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    path = small_project(tmp_path, MONTHLY + SCHEDULE, rows=3)
    ended = subprocess.run(
        [sys.executable, "-m", "dprelease", "schedule", str(path)],
        env=environment({"PREFECT_API_URL": "http://127.0.0.1:9/api", "PYTHONPATH": str(ROOT)}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 8
    assert ended.stdout == ""
    assert "DPR-O112" in ended.stderr
    assert "127.0.0.1:9" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("api", "answer", "warns"),
    [
        ("http://127.0.0.1:4200/api", 200, False),
        ("http://localhost:4200/api", 200, False),
        ("http://[::1]:4200/api", 200, False),
        ("http://prefect.example:4200/api", 200, True),
        ("http://prefect.example:4200/api", 401, False),
        ("http://prefect.example:4200/api", 404, False),
    ],
)
def test_an_api_off_this_machine_without_credentials_is_warned_of(
    api: str, answer: int, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked without any: what Prefect's own settings would send is not sent."""
    asked: list[tuple[str, dict[str, object]]] = []

    def post(url: str, **more: object) -> httpx.Response:
        asked.append((url, more))
        return httpx.Response(answer)

    monkeypatch.setenv("PREFECT_API_URL", api)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "office:secret")
    monkeypatch.setattr(httpx, "post", post)
    assert ("without credentials" in exposed()) is warns
    assert all(url == f"{api}/flow_runs/count" and "auth" not in more and "headers" not in more for url, more in asked)


def test_an_api_that_does_not_answer_is_not_called_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def post(url: str, **more: object) -> httpx.Response:
        raise httpx.ConnectError("no route")

    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example:4200/api")
    monkeypatch.setattr(httpx, "post", post)
    assert exposed() == ""


def test_a_product_is_a_spec_with_a_schedule_that_the_project_lists(tmp_path: Path) -> None:
    path = small_project(tmp_path, MONTHLY + SCHEDULE, rows=3)
    (tmp_path / "once.yaml").write_text(SPEC.replace("name: survey", "name: once"), encoding="utf-8")
    (tmp_path / "inner").mkdir()
    inner = small_project(tmp_path / "inner", MONTHLY.replace("name: survey", "name: inner") + SCHEDULE, rows=3)
    link = tmp_path / "link.yaml"
    link.symlink_to(inner)
    project = Project.open(tmp_path)
    assert is_product(project, path)
    assert is_product(project, tmp_path / "inner" / ".." / "spec.yaml")
    beside = small_project(tmp_path.with_name(f"{tmp_path.name}-beside"), MONTHLY + SCHEDULE, rows=3)
    others = (tmp_path / "once.yaml", inner, link, tmp_path / "none.yaml", beside)
    for other in (*others, Path("spec.yaml"), Path("/dev/zero"), Path("/etc/passwd")):
        assert not is_product(project, other), other
    settings = (tmp_path / "dprelease.yaml").read_text()
    for listed, is_one in (("[spec.yaml]", True), ("[specs]", False), ("[]", False), ("[spec]", False)):
        (tmp_path / "dprelease.yaml").write_text(f"{settings}products: {listed}\n")
        assert is_product(Project.open(tmp_path), path) is is_one


def test_the_settings_of_a_scheduled_run_keep_nothing(tmp_path: Path) -> None:
    settings = run_environment(tmp_path, [tmp_path])
    for name in ("RESULTS_PERSIST_BY_DEFAULT", "TASKS_DEFAULT_PERSIST_RESULT", "TASKS_REFRESH_CACHE"):
        assert settings[f"PREFECT_{name}"] == "false"
    assert settings["PREFECT_LOGGING_TO_API_ENABLED"] == "false"
    assert settings["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
