"""What Prefect keeps and what its processes say, after runs that go well and runs that fail in every way: no data.

People whose values nobody else has are in every release. Then everything is searched for these values, and for the
exact total that they make: Prefect's database, results, artifacts, all logs, and the project but for its data.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.prefect_server import Household, Started
from tests.e2e.traces import renderings, where
from tests.project import SETTINGS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults")
WORD, NUMBER, OTHER = "CanaryQz7wVx19", 2_736_451_827_349, 1_182_736_459_127
EXACT = NUMBER + OTHER  # the true total of one published cell
YEAR = datetime.now(UTC).year
WRONG, HEADLESS, FINE, LAST = (str(YEAR - back) for back in (4, 3, 2, 1))
POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 40, delta: 1e-5, selecting: 5e-6}}
"""
SPEC = """dprelease: 1
release: {name: canary, period: FIRST, title: "People of {{ period }}"}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-8}
  accounting: zcdp
tables:
  people:
    account: people
    source: {file: "data/{{ period }}.csv", null_values: ["", N]}
    unit_id: person
    bounds: {max_rows: 2, truncate: sample}
    columns:
      person: {type: text}
      town: {type: text, keys: [a, b]}
      amount: {type: integer, range: [0, 4000000000000]}
      topic: {type: text}
queries:
  money:
    table: people
    by: [town]
    bounds: {max_groups: 1}
    measures: {total: {sum: amount, clip_per: unit_cell}}
  towns:
    table: people
    by: [town]
    bounds: {max_groups: 1}
    measures: {visits: {count: rows}, persons: {count: units}, topics: {count_distinct: topic}}
  topics:
    table: people
    by: [topic]
    keys: private
    bounds: {max_groups: 1}
    measures: {persons: {count: units}}
publish: {formats: [csv, html]}
schedule: {cron: "0 0 1 1 *", timezone: UTC, period: year}
"""
HEAD = "person,town,amount,topic\n"
CANARIES = (
    f"{WORD},a,{NUMBER},{WORD}\n"
    f"o{WORD},a,{OTHER},x{WORD}\n"
    f"p1,b,{WORD},{NUMBER}\n"  # a bad row: no number
    f"p2,{WORD},NaN,{WORD},{NUMBER},{WORD}\n"  # too many fields
    f"p3,b,{NUMBER}{NUMBER},\n"
    f"p4,{NUMBER}\n"
)
# What an operator may have switched on, and what must not matter.
CURIOUS = {
    "PREFECT_LOGGING_LEVEL": "DEBUG",
    "PREFECT_LOGGING_ROOT_LEVEL": "DEBUG",
    "PREFECT_INTERNAL_LOGGING_LEVEL": "DEBUG",
    "PREFECT_LOGGING_TO_API_ENABLED": "true",
}
STORING = {
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "true",
    "PREFECT_LOGGING_LOG_PRINTS": "true",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "dprelease,duckdb,ibis,sqlglot",
}


@dataclass(frozen=True)
class Scene:
    """A project with canaries in its data, and the deployment that releases it."""

    project: Path
    house: Household
    empty: Path
    faults: Path
    pool: bool

    @property
    def variables(self) -> dict[str, str]:
        """Of whatever serves."""
        return {
            **CURIOUS,
            **STORING,
            "PYTHONPATH": f"{FAULTS}{os.pathsep}{ROOT}",
            "DPRELEASE_TEST_FAULTS": str(self.faults),
        }

    def begin(self) -> Started:
        """Register the spec as its author does, and start what releases it."""
        if not self.pool:
            return self.house.start(
                "serve", "dprelease", "serve", str(self.project / "spec.yaml"), variables=self.variables
            )
        self.house.finish("pool", "prefect", "work-pool", "create", "pool", "--type", "process")
        self.house.finish("schedule", "dprelease", "schedule", str(self.project / "spec.yaml"), "--pool", "pool")
        worker = {name: text for name, text in self.variables.items() if name not in STORING}
        return self.house.start("worker", "prefect", "worker", "start", "--pool", "pool", variables=worker)

    def order(self, point: str, do: str) -> None:
        """What goes wrong next."""
        (self.faults / "order").write_text(json.dumps({"do": do, "text": f"{WORD} {NUMBER}"}))
        (self.faults / "order").rename(self.faults / point)

    def begin_run(self, most: int) -> str:
        """Press `Run` on Prefect's page."""
        deployment = self.house.until("the deployment", self._deployment)
        wanted: dict[str, Any] = {"parameters": {"most": most}, "state": {"type": "SCHEDULED"}}
        if self.pool:
            variables = deployment["job_variables"]
            wanted["job_variables"] = {**variables, "env": {**variables["env"], **CURIOUS}}
        made = self.house.ask("POST", f"/deployments/{deployment['id']}/create_flow_run", wanted)
        return str(made["id"])

    def _deployment(self) -> dict[str, Any] | None:
        (found,) = self.house.ask("POST", "/deployments/filter", {"limit": 1}) or [None]
        return found if found is None or self.pool or found["status"] == "READY" else None

    def run(self, most: int, point: str = "", do: str = "") -> str:
        """Run it to its end, with something that goes wrong; the kind of its last state."""
        if point:
            self.order(point, do)
        made = self.begin_run(most)
        end = str(self.house.until(f"the end of the run of {most}", lambda: self.ended(made), 300))
        assert not point or (self.faults / f"{point}.taken").exists(), f"the run did not come to {point}"
        return end

    def ended(self, run: str) -> str | None:
        """How a run ended; None: it has not."""
        kind = self.house.ask("GET", f"/flow_runs/{run}")["state_type"]
        return kind if kind in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

    def published(self, period: str) -> bool:
        """Whether a period is."""
        return (self.project / "releases" / "canary" / period / "manifest.json").exists()

    def search(self) -> list[str]:
        """Every place with a canary."""
        told = {
            name: self.house.ask("POST", f"/{name}/filter", {"limit": 200})
            for name in ("artifacts", "flow_runs", "task_runs", "logs")
        }
        told["events"] = self.house.ask("POST", "/events/filter", {"limit": 50})
        forms = renderings(WORD, NUMBER, EXACT)
        return where(forms, [self.house.folder, self.project], apart=[self.project / "data"], told=told)


@pytest.fixture(params=[pytest.param(each, marks=pytest.mark.nightly) for each in ("serve", "worker")])
def scene(request: pytest.FixtureRequest, tmp_path: Path, empty: Path) -> Iterator[Scene]:
    project, faults = tmp_path / "project", tmp_path / "faults"
    (project / "data").mkdir(parents=True)
    faults.mkdir()
    for name, text in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "spec.yaml": SPEC.replace("FIRST", WRONG),
    }.items():
        (project / name).write_text(text, encoding="utf-8")
    rows = "".join(f"q{k},{'ab'[k % 2]},0,t{k % 3}\n" for k in range(120))
    for period in (WRONG, FINE, LAST):
        (project / "data" / f"{period}.csv").write_text(HEAD + rows + CANARIES, encoding="utf-8")
    (project / "data" / f"{HEADLESS}.csv").write_text(CANARIES + rows, encoding="utf-8")
    with Household(tmp_path / "house", "DEBUG") as house:
        yield Scene(project, house, empty, faults, request.param == "worker")


def cancelled(scene: Scene) -> str:
    """Somebody cancels a run on Prefect's page when it has drawn; how it ended."""
    (scene.faults / "draw.drawn.taken").unlink()
    scene.order("draw.drawn", "wait")
    run = scene.begin_run(most=1)
    scene.house.until("a run that has drawn", (scene.faults / "draw.drawn.taken").exists, 300)
    scene.house.ask("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    return str(scene.house.until("the end of the cancelled run", lambda: scene.ended(run), 120))


def go_wrong(scene: Scene) -> dict[str, str]:
    """Every kind of failure, one run after the other; how each of them ended."""
    ends = {}
    server = scene.house.serve(scene.empty)
    scene.begin()
    scene.order("draw.drawn", "full")
    ends["an error of ours, and then no room"] = scene.run(1, "draw.aggregated", "raise")
    assert (scene.faults / "draw.drawn.taken").exists(), "what can be measured is, also after a batch has failed"
    ends["killed"] = scene.run(1, "commit.stored", "kill")
    if scene.pool:
        assert cancelled(scene) == "CANCELLED"
    (scene.faults / "draw.aggregated.taken").unlink()
    scene.order("draw.aggregated", "wait")
    scene.begin_run(most=1)
    scene.house.until("a run that has read", (scene.faults / "draw.aggregated.taken").exists, 300)
    scene.house.kill(server)
    (scene.faults / "draw.aggregated.go").touch()
    if scene.pool:  # at night: what is said when it is lost for good, which takes Prefect minutes
        scene.house.until("the end of the run without a server", lambda: not scene.house.at_work(), 420)
    else:
        scene.house.until("the release without a server", lambda: scene.published(WRONG), 300)
    scene.house.serve(scene.empty)
    scene.house.until("the end of the run that has lost its server", lambda: not scene.house.at_work(), 420)
    ends["all that is left"] = scene.run(0)
    return ends


def test_no_value_of_the_data_reaches_prefect_or_a_log(scene: Scene) -> None:
    ends = go_wrong(scene)
    assert ends == {
        "an error of ours, and then no room": "FAILED",
        "killed": "CRASHED",
        "all that is left": "FAILED",  # a table has no head
    }
    assert [scene.published(period) for period in (WRONG, HEADLESS, FINE, LAST)] == [True, False, True, True]
    assert "DEBUG" in "".join(log.read_text() for log in scene.house.logs.iterdir())
    assert scene.search() == []

    leak(scene)


def test_every_form_of_a_canary_would_be_found(tmp_path: Path) -> None:
    """In a file, in a database's row, in a pickle, in what was coded and rounded."""
    floats = struct.pack("<dd", 0.5, float(NUMBER))
    planted = {
        "text": f"a row of {WORD}.".encode(),
        "result": base64.b64encode(b"x" + pickle.dumps({"text": WORD})),
        "pickle": pickle.dumps([1, NUMBER]),
        "pickled float": base64.b64encode(pickle.dumps(("x", float(EXACT)))),
        "array": floats,
        "rounded": f"{EXACT:.9g}".encode(),
        "decimal": f"{NUMBER}.00".encode(),
        "grouped": f"{EXACT:,}".encode(),
        "hex": f"0x{EXACT:016x}".encode(),
        f"named {WORD}": b"",
    }
    for name, data in planted.items():
        (tmp_path / name).write_bytes(data)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("CREATE TABLE t (i INTEGER, r REAL, b BLOB, j JSON)")
        long = json.dumps({"x": "y" * 10_000 + WORD})
        database.execute("INSERT INTO t VALUES (?, ?, ?, ?)", (NUMBER, float(EXACT), floats, long))
    hits = where(renderings(WORD, NUMBER, EXACT), [tmp_path])
    for name in (*planted, "a.db"):
        assert any(f"/{name}: " in each for each in hits), name
    for column in "irbj":
        assert any(f"a.db:t.{column}: " in each for each in hits), column
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / "a").write_bytes(pickle.dumps([WORD[:-4], NUMBER + 10**6, float(EXACT + 10**6)]))
    assert where(renderings(WORD, NUMBER, EXACT), [tmp_path / "clean"]) == []


def leak(scene: Scene) -> None:
    """The same search finds what a flow does wrong: it looks in the right places."""
    told = json.dumps({"text": WORD, "number": NUMBER}) + "\n"
    scene.house.finish("leaky", "tests.e2e.leaking_flow", told=told, code=1, variables={"PYTHONPATH": str(ROOT)})
    scene.house.until(
        "the last records of it", lambda: any("prefect.db:log.message" in each for each in scene.search()), 60
    )
    hits = scene.search()
    for place in (
        f"leaky.log: {WORD} as text",
        f"prefect.db:flow_run.parameters: {WORD} as text",
        f"prefect.db:flow_run.parameters: {NUMBER} as digits",
        f"prefect.db:flow_run_state.message: {WORD} as text",
        f"prefect.db:task_run_state.message: {WORD} as text",
        f"prefect.db:task_run.name: {WORD} as text",
        f"prefect.db:log.message: {NUMBER} as digits",
        f"prefect.db:artifact.data: {NUMBER} as digits",
        f"artifacts: {NUMBER} as digits",
        f"logs: {WORD} as text",
    ):
        assert any(each.endswith(place) for each in hits), (place, hits)
    assert any("/storage/" in each and str(NUMBER) in each for each in hits), hits
