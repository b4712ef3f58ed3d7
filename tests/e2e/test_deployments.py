"""Deployments as Prefect has them: registered by the command and by ``prefect deploy``, run by a worker, run again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dprelease.flows.server.settings import run_environment
from dprelease.release.project import Project
from tests.e2e.prefect_server import Household
from tests.project import SPEC, command, small_project

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary-" + "83519"
SCHEDULE = 'schedule: {{cron: "30 5 * * MON-FRI", timezone: Europe/Paris, period: day{more}}}\n'


def day(before: int) -> str:
    return str(datetime.now(UTC).date() - timedelta(days=before))


def written(folder: Path, *, title: str = "A survey", more: str = "") -> None:
    """A daily release with three periods."""
    spec = SPEC.replace('title: "A survey: small"', f'title: "{title} of {{{{ period }}}}"')
    spec = spec.replace("period: 2024,", f"period: {day(4)},").replace("epsilon: 1,", "epsilon: 1/10,")
    (folder / "spec.yaml").write_text(spec + SCHEDULE.format(more=f", last: {day(2)}" + more), encoding="utf-8")


class Listening(HTTPServer):
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        super().__init__(("127.0.0.1", 0), _Posted)


class _Posted(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Listening)
        server.heard.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class Place:
    """A project beside a Prefect server."""

    house: Household
    project: Path

    def deployment(self) -> dict[str, Any]:
        found: dict[str, Any] = self.house.ask("GET", "/deployments/name/dprelease/survey")
        return found

    def schedule(self, *words: str) -> str:
        return self.house.finish("schedule", "dprelease", "schedule", "spec.yaml", *words, folder=self.project)

    def ended(self, run: str, kind: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self.house.ask("GET", f"/flow_runs/{run}")
            return found if found["state_type"] == kind else None

        found: dict[str, Any] = self.house.until(f"a {kind} run", look)
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, empty: Path) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("deployments")
    with Household(folder / "house", level="INFO") as house:
        project = folder / "project"
        small_project(project, rows=300)
        written(project)
        house.serve(empty)
        yield Place(house, project)


@pytest.fixture(scope="module")
def created(place: Place) -> str:
    """What was said when the deployment was made: any test of this file may be the first one in its process."""
    return place.schedule()


@pytest.fixture(scope="module")
def by_hand(place: Place, created: str) -> None:
    """One period is released."""
    command(place.project, "run", "spec.yaml", "--direct", "--period", day(4))


@pytest.mark.usefixtures("by_hand")
def test_schedule_says_what_is_new_what_has_changed_and_which_periods_keep_their_plan(
    place: Place, created: str
) -> None:
    said = created
    assert "created dprelease/survey" in said
    assert "30 5 * * MON-FRI Europe/Paris" in said
    made = place.deployment()
    (ticks,) = made["schedules"]
    assert ticks["schedule"]["cron"] == "30 5 * * MON-FRI"
    assert ticks["schedule"]["timezone"] == "Europe/Paris"
    assert sorted(made["tags"]) == ["account:people", "dprelease", "survey"]
    assert made["enforce_parameter_schema"]
    assert made["entrypoint"] == "dprelease.flows.flow.dprelease"
    assert made["parameters"] == {"target": str(place.project / "spec.yaml"), "period": "", "most": 0}
    form = made["parameter_openapi_schema"]["properties"]
    assert form["target"]["enum"] == [str(place.project / "spec.yaml")]
    assert set(form) == {"target", "period", "most", "synthetic"}
    assert all(each["description"] for each in form.values())
    assert "epsilon 1/10" in made["description"]
    assert [each["limit"] for each in place.house.ask("POST", "/v2/concurrency_limits/filter", {})] == [1]

    written(place.project, title="Another survey")
    (told,) = json.loads(place.schedule("--json"))["deployments"]
    assert (told["state"], told["changes"]) == ("changed", ["spec", "description"])
    assert told["version"] != made["version"] == said.split("spec ")[1].split()[0] + made["version"][12:]
    assert told["kept"] == {"published": [day(4)], "open": [], "holds_from": day(3)}
    written(place.project, title="Another survey", more=", retention: 90d")
    assert "unchanged" in place.schedule(), "a schedule says when, never what"


@pytest.mark.usefixtures("created")
def test_what_another_value_of_a_parameter_would_do_is_refused_by_the_server(place: Place) -> None:
    number = place.deployment()["id"]
    for wrong in ({"target": "/etc/passwd"}, {"period": "../../etc"}, {"most": -1}):
        with pytest.raises(AssertionError, match="Validation failed"):
            place.house.ask("POST", f"/deployments/{number}/create_flow_run", {"parameters": wrong})


@pytest.fixture(scope="module")
def deployed(place: Place) -> str:
    """The id of the deployment of ``pipelines/prefect.yaml``, with the entry point of ``pipelines/release.py``."""
    text = (ROOT / "pipelines" / "prefect.yaml").read_text(encoding="utf-8")
    text = (
        text.replace("monthly.yaml", "spec.yaml")
        .replace("monthly-visits", "survey")
        .replace("account:demo", "account:people")
    )
    place.house.finish("pool", "prefect", "work-pool", "create", "dprelease", "--type", "process")
    (place.project / "prefect.yaml").write_text(text, encoding="utf-8")
    variables = {"DPRELEASE_PROJECT": str(place.project)}
    words = ("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "prefect.yaml")
    place.house.finish("deploy", *words, folder=place.project, variables=variables)
    return str(place.deployment()["id"])


def test_prefect_deploys_our_file_whose_settings_are_those_of_the_command(place: Place, deployed: str) -> None:
    made = place.deployment()
    assert made["work_pool_name"] == "dprelease"
    assert made["pull_steps"] == []
    ours = run_environment(Path("/home"), [place.project])
    apart = {"PREFECT_HOME", "PREFECT_RESULTS_LOCAL_STORAGE_PATH"}
    assert made["job_variables"]["env"] == {name: text for name, text in ours.items() if name not in apart}


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


BLOCK = """
import sys
from prefect.blocks.notifications import CustomWebhookNotificationBlock
block = CustomWebhookNotificationBlock(
    name="office", url=sys.argv[1], json_data={"text": "{{body}}", "subject": "{{subject}}"}
)
print(block.save("office"))
"""


def automated(place: Place, url: str) -> None:
    """Create our automations, with a block that posts to ``url`` in the place of the one that is to be put in."""
    (place.house.folder / "block.py").write_text(BLOCK, encoding="utf-8")
    path = {"PYTHONPATH": f"{place.house.folder}:{ROOT}"}
    number = place.house.finish("block", "block", url, variables=path).split()[-1]
    text = (ROOT / "pipelines" / "automations.yaml").read_text(encoding="utf-8")
    file = place.house.folder / "automations.yaml"
    file.write_text(text.replace("00000000-0000-0000-0000-000000000000", number), encoding="utf-8")
    said = place.house.finish("automations", "prefect", "automation", "create", "--from-file", str(file))
    assert "dprelease-zombies" in said
    assert "dprelease-notify" in said


@pytest.mark.usefixtures("by_hand")
def test_a_run_of_a_worker_fails_without_a_word_of_the_data_and_is_gone_on_with(
    place: Place, deployed: str, listening: Listening
) -> None:
    """One period was released by hand before. Both others fail; run again in Prefect, they are released, once."""
    house, project = place.house, place.project
    house.ask("PATCH", f"/deployments/{deployed}", {"entrypoint": "pipelines.release.monthly_visits"})
    rows = project / "people-1.csv"
    good = rows.read_text(encoding="utf-8")
    rows.write_text(good.replace("income", CANARY, 1), encoding="utf-8")
    url = f"http://127.0.0.1:{listening.server_port}"
    automated(place, url)
    hook = {"DPRELEASE_WEBHOOK": url}
    worker = house.start("worker", "prefect", "worker", "start", "--pool", "dprelease", variables=hook)
    run = house.ask("POST", f"/deployments/{deployed}/create_flow_run", {"state": {"type": "SCHEDULED"}})["id"]

    failed = place.ended(run, "FAILED")

    assert failed["name"] == f"survey/{day(3)} to {day(2)}"
    assert failed["state"]["message"].endswith(
        f"StepFailed: 2 of 2 failed ({day(3)}: TableMismatch DPR-E301, {day(2)}: TableMismatch DPR-E301)"
    )
    house.until("hook and automation", lambda: len(listening.heard) > 1)
    for heard in map(json.loads, listening.heard):
        assert heard["text"].startswith(f"survey/{day(3)} to {day(2)} is Failed: http")
        assert heard["text"].endswith(run)
    assert "DPR-E301" in worker.log.read_text(encoding="utf-8"), "its process says what Prefect does not"
    assert [each.period for each in Project.open(project).open_ledger().reservations()] == [day(4)]

    rows.write_text(good, encoding="utf-8")
    house.finish("retry", "prefect", "flow-run", "retry", run)
    ended = place.ended(run, "COMPLETED")

    assert ended["state"]["message"] == f"{day(3)}: published, {day(2)}: published"
    assert ended["run_count"] == 2
    states = [(each.period, each.state) for each in Project.open(project).open_ledger().reservations()]
    assert states == [(day(4), "closed"), (day(3), "closed"), (day(2), "closed")]
    names = {name for (name,) in house.query(f"select name from task_run where flow_run_id = '{run}'")}
    assert f"measure people: population ({day(2)})" in names
    keys = {key for (key,) in house.query("select key from artifact where key is not null")}
    assert keys == {"survey-plan", "survey-progress", "survey-accounting", "survey-release"}
    said = [text for (text,) in house.query("select message from log order by timestamp")]
    assert any("published" in text and day(2) in text for text in said)
    house.kill(worker)


def test_a_stuck_slot_of_an_account_delays_a_run_and_does_not_stop_it(place: Place) -> None:
    """As after a server that was killed while a slot was taken: nobody holds it, and nobody will give it back."""
    house = place.house
    if not house.ask("POST", "/v2/concurrency_limits/filter", {}):  # nothing was registered before
        house.ask("POST", "/v2/concurrency_limits/", {"name": "dprelease-account-people", "limit": 1})
    house.ask("PATCH", "/v2/concurrency_limits/dprelease-account-people", {"active_slots": 1})
    (house.folder / "waits.py").write_text(
        "import sys, dprelease.flows.concurrency as limits\n"
        "limits.PATIENCE = 1.0\n"
        "with limits.one_at_a_time(['dprelease-account-people']):\n"
        "    print('went on')\n"
        "with limits.one_at_a_time(['dprelease-account-people']):\n"
        "    print('and on')\n",
        encoding="utf-8",
    )
    said = house.finish("waits", "waits", variables={"PYTHONPATH": f"{house.folder}:{ROOT}"})
    assert "went on\nand on" in said
    limit = house.ask("GET", "/v2/concurrency_limits/dprelease-account-people")
    assert limit["active_slots"] == 0
