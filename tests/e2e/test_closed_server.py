"""Prefect's API in wrong hands: what a run may be told to do, and what runs before it; a pool and a server that are closed."""

from __future__ import annotations

import base64
import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dprelease.flows.server.settings import PROJECTS, run_environment
from dprelease.release.project import Project
from tests.e2e.prefect_server import Household
from tests.project import SETTINGS, SPEC, small_project

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = json.loads((ROOT / "pipelines" / "pool-template.json").read_text(encoding="utf-8"))
SECRET = "office:a-long-secret"


def day(before: int) -> str:
    return str(datetime.now(UTC).date() - timedelta(days=before))


def daily(name: str) -> str:
    spec = SPEC.replace("name: survey, period: 2024,", f"name: {name}, period: {day(2)},").replace(
        "A survey: small", "A"
    )
    schedule = f'schedule: {{cron: "30 5 * * *", timezone: UTC, period: day, last: {day(2)}}}\n'
    return spec.replace("epsilon: 1,", "epsilon: 1/10,") + schedule


def begun(project: Path) -> list[str]:
    return [f"{each.release}/{each.period}" for each in Project.open(project).open_ledger().reservations()]


def test_the_template_has_the_settings_of_the_command() -> None:
    fixed = TEMPLATE["job_configuration"]
    assert fixed["env"] == run_environment(Path("/srv/office/state/prefect"), [Path("/srv/office")])
    text = json.dumps(fixed)
    assert text.count("{{") == 1, "what has a placeholder can be filled in by whoever starts a run"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, empty: Path) -> Iterator[tuple[Household, Path]]:
    """A closed pool and its worker, a product, and a draft beside it that is none."""
    folder = tmp_path_factory.mktemp("closed")
    project = folder / "office"
    small_project(project, daily("survey"), rows=300)
    (project / "drafts").mkdir()
    (project / "drafts" / "draft.yaml").write_text(daily("draft"), encoding="utf-8")
    (project / "dprelease.yaml").write_text(SETTINGS + "products: [spec.yaml]\n", encoding="utf-8")
    template = json.dumps(TEMPLATE).replace("/srv/office", str(project))
    (folder / "pool.json").write_text(template, encoding="utf-8")
    with Household(folder / "house", level="INFO") as house:
        house.serve(empty)
        words = (
            "work-pool",
            "create",
            "offices",
            "--type",
            "process",
            "--base-job-template",
            str(folder / "pool.json"),
        )
        house.finish("pool", "prefect", *words)
        said = house.finish("schedule", "dprelease", "schedule", "spec.yaml", "--pool", "offices", folder=project)
        assert "created dprelease/survey" in said
        house.start("worker", "prefect", "worker", "start", "--pool", "offices")
        yield house, project


def deployment(house: Household) -> dict[str, Any]:
    found: dict[str, Any] = house.ask("GET", "/deployments/name/dprelease/survey")
    return found


def ended(house: Household, run: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = house.ask("GET", f"/flow_runs/{run}")
        return found if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED") else None

    found: dict[str, Any] = house.until("the end of a run", look)
    return found


def started(house: Household, **more: Any) -> str:
    """A run by the door that checks nothing: neither frozen parameters nor the pool's variables."""
    made = deployment(house)
    body = {
        "flow_id": made["flow_id"],
        "deployment_id": made["id"],
        "work_pool_name": "offices",
        "state": {"type": "SCHEDULED"},
        "parameters": made["parameters"],
        **more,
    }
    return str(house.ask("POST", "/flow_runs/", body)["id"])


@pytest.mark.nightly
def test_a_run_that_is_told_another_file_is_refused(office: tuple[Household, Path]) -> None:
    """By the flow itself; which targets are refused is tried without a server, in ``test_flows_scheduled.py``."""
    house, project = office
    parameters = deployment(house)["parameters"]
    run = ended(house, started(house, parameters={**parameters, "target": str(project / "drafts" / "draft.yaml")}))
    assert run["state_type"] == "FAILED"
    assert "DPR-O303" in run["state"]["message"]
    assert "draft" not in run["state"]["message"]
    assert begun(project) == []


@pytest.mark.nightly
def test_no_command_gets_into_a_closed_pool(office: tuple[Household, Path], tmp_path: Path) -> None:
    house, project = office
    made, sign = deployment(house)["id"], tmp_path / "made-by-the-api"
    for wrong in ({"command": f"touch {sign}"}, {"env": {"X": "1"}}, {"working_dir": "/"}):
        with pytest.raises(AssertionError, match=r"409|422"):
            house.ask("POST", f"/deployments/{made}/create_flow_run", {"job_variables": wrong})
    run = ended(house, started(house, job_variables={"command": f"touch {sign}"}))
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert not sign.exists(), "a value without a placeholder in the template is used by nobody"
    assert begun(project) == [f"survey/{day(2)}"]


@pytest.mark.nightly
def test_the_environment_of_a_run_gets_through_a_closed_pool(office: tuple[Household, Path]) -> None:
    """So the pool alone closes nothing: who may POST /flow_runs/ may do all, and a proxy has to refuse that."""
    house, project = office
    before = begun(project)
    run = ended(house, started(house, job_variables={"env": {PROJECTS: "/"}}))
    assert run["state_type"] == "FAILED"
    assert "DPR-S001" in run["state"]["message"], "there is no project at /, where this run was told to look"
    assert begun(project) == before


@pytest.mark.nightly
def test_pull_steps_are_told_and_taken_out_again(office: tuple[Household, Path], tmp_path: Path) -> None:
    """They run before the flow does: what they did is done. The run goes no further, and `schedule` mends it."""
    house, project = office
    before, sign = begun(project), tmp_path / "made-by-a-step"
    step = {"prefect.deployments.steps.run_shell_script": {"script": f"touch {sign}"}}
    house.ask("PATCH", f"/deployments/{deployment(house)['id']}", {"pull_steps": [step]})
    run = ended(house, started(house))
    assert run["state_type"] == "FAILED"
    assert "DPR-O304" in run["state"]["message"]
    assert sign.exists(), "or else this test shows nothing"
    said = house.finish("schedule", "dprelease", "schedule", "spec.yaml", "--pool", "offices", folder=project)
    assert "changed dprelease/survey (pull steps)" in said
    assert not deployment(house)["pull_steps"]
    assert ended(house, started(house))["state_type"] == "COMPLETED"
    assert begun(project) == before


@pytest.mark.nightly
def test_a_spec_that_is_not_listed_is_no_product(office: tuple[Household, Path]) -> None:
    house, project = office
    said = house.finish("draft", "dprelease", "schedule", "drafts/draft.yaml", folder=project, code=8)
    assert "DPR-O115" in said
    assert "add the spec" in said


def test_a_server_that_wants_credentials_is_named_as_one(tmp_path: Path, empty: Path) -> None:
    project = tmp_path / "office"
    small_project(project, daily("survey"), rows=3)
    with Household(tmp_path / "house") as house:
        house.secret = SECRET
        house.serve(empty, {"PREFECT_SERVER_API_AUTH_STRING": SECRET})
        # Each command once, and each wrong word once: a command takes seconds to reach a server.
        guessed = {"PREFECT_API_AUTH_STRING": "office:guessed"}
        for command, wrong in ((("schedule",), {}), (("run", "--period", day(2)), guessed)):
            words = ("dprelease", command[0], "spec.yaml", *command[1:])
            said = house.finish(command[0], *words, folder=project, variables=wrong, code=8)
            assert "DPR-O113" in said
            assert "wants credentials" in said
            assert "PREFECT_API_AUTH_STRING" in said
            assert "guessed" not in said
        right = {"PREFECT_API_AUTH_STRING": SECRET}
        said = house.finish("schedule", "dprelease", "schedule", "spec.yaml", folder=project, variables=right)
        assert "created dprelease/survey" in said
        with closing(http.client.HTTPConnection("127.0.0.1", house.port, timeout=60)) as connection:
            connection.request("POST", "/api/flow_runs/filter", body="{}")
            assert connection.getresponse().status == 401
        assert base64.b64encode(SECRET.encode()).decode() not in said
