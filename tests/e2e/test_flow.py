"""The flow as the command runs it: in its own process, through a real Prefect server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dprelease.flows.server.server import TemporaryServer

CLIENT = Path(__file__).with_name("flow_client.py")
CANARY = b"canary-" + b"83519"
NOWHERE = "http://127.0.0.1:9/api"  # the discard port: nobody listens


def start(home: Path, folder: Path, mode: str = "fine", env: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
    clean = {name: text for name, text in os.environ.items() if not name.upper().startswith("PREFECT_")}
    return subprocess.Popen(
        [sys.executable, str(CLIENT), str(home), mode],
        cwd=folder,
        env={**clean, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes]) -> tuple[dict[str, Any], bytes]:
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err.decode()
    lines = out.splitlines()
    assert len(lines) == 1, f"more than the client's own line on stdout: {out!r}"
    said: dict[str, Any] = json.loads(lines[0])
    return said, err


def history(home: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        return database.execute(query).fetchall()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every client starts: somebody else's Prefect settings lie there in all three files that Prefect reads.

    Each names another server, and a time-out that is no number: a Prefect that reads one of them does not start.
    """
    made = tmp_path_factory.mktemp("specs")
    (made / ".env").write_text(f"PREFECT_API_URL={NOWHERE}\nPREFECT_API_REQUEST_TIMEOUT=never\n")
    (made / "prefect.toml").write_text(f'[api]\nurl = "{NOWHERE}"\nrequest_timeout = "never"\n')
    (made / "pyproject.toml").write_text(f'[tool.prefect.api]\nurl = "{NOWHERE}"\nrequest_timeout = "never"\n')
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project") / "state" / "prefect"


@pytest.fixture(scope="module")
def cold(home: Path, folder: Path) -> tuple[dict[str, Any], bytes, float]:
    """The first run of a home, and how long it took."""
    begun = time.monotonic()
    said, err = finish(start(home, folder))
    return said, err, time.monotonic() - begun


@pytest.fixture(scope="module")
def warm(cold: object, home: Path) -> Path:
    """A home whose database is made."""
    return home


@pytest.fixture(scope="module")
def served(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of its own for a server that keeps running: nobody else finds one there."""
    return Path(shutil.copytree(warm, tmp_path_factory.mktemp("served") / "prefect"))


@pytest.fixture(scope="module")
def running(served: Path) -> Iterator[TemporaryServer]:
    with TemporaryServer() as server:
        server.use(served)
        server.wait()
        yield server


def test_a_run_measures_every_batch_once_publishes_and_says_nothing(
    cold: tuple[dict[str, Any], bytes, float],
) -> None:
    said, err, _ = cold
    assert said["state"] == "published"
    assert said["calls"] == {f"t{i}": 1 for i in range(6)}
    assert said["shown"][0] == ["starting", 0, 0]
    assert said["shown"][-1] == ["publishing", 12, 12]
    assert [done for label, done, _ in said["shown"] if label == "measuring"] == [0, 2, 4, 6, 8, 10, 12]
    assert said["closed"]
    assert said["restored"], "environment and current folder are put back"
    assert err == b"", "nothing of Prefect on the terminal"


@pytest.mark.slow
def test_prefect_keeps_public_labels_all_task_runs_and_four_artifacts(
    cold: tuple[dict[str, Any], bytes, float], warm: Path
) -> None:
    first = "(select id from flow_run order by created limit 1)"
    ((name, state, parameters, tags),) = history(
        warm, f"select name, state_type, parameters, tags from flow_run where id = {first}"
    )
    assert (name, state) == ("demo/2024", "COMPLETED")
    assert json.loads(parameters) == {"target": "/specs/demo.yaml", "period": "2024", "most": 0, "synthetic": False}
    assert sorted(json.loads(tags)) == ["account:acs", "demo", "dprelease"]
    tasks = history(warm, f"select name, state_type, tags from task_run where flow_run_id = {first}")
    assert {state for _, state, _ in tasks} == {"COMPLETED"}
    assert {tags for _, _, tags in tasks} == {"[]"}, "for a task with tags Prefect asks its server before it starts"
    assert cold[0]["tasks"] == sorted(name for name, _, _ in tasks), "what is waited for is what there is"
    assert cold[0]["tasks"] == [
        *[f"measure t{i}: q{i}, r{i} (2024)" for i in range(6)],
        "open 2024",
        "publish 2024",
    ]
    kept = dict(history(warm, f"select key, data from artifact where flow_run_id = {first}"))
    assert set(kept) == {"demo-plan", "demo-progress", "demo-accounting", "demo-release"}
    (row,) = json.loads(json.loads(kept["demo-plan"]))
    assert row == {"query": "q0", "measure": "persons", "mechanism": "discrete laplace", "margin": "± 12.5"}
    assert kept["demo-progress"] == 100
    assert "acs" in kept["demo-accounting"]
    assert "file:///releases/demo/2024" in kept["demo-release"]


@pytest.mark.nightly  # that it may begin without migrations is seen on every commit: two at once share a home
def test_a_second_run_is_faster(cold: tuple[dict[str, Any], bytes, float], warm: Path, folder: Path) -> None:
    begun = time.monotonic()
    said, _ = finish(start(warm, folder))
    assert time.monotonic() - begun < cold[2]
    assert said["state"] == "published"


@pytest.mark.slow
def test_a_running_server_is_used_and_what_may_be_retried_is_retried(
    running: TemporaryServer, tmp_path: Path, folder: Path, served: Path
) -> None:
    before = len(history(served, "select id from flow_run"))
    said, err = finish(start(tmp_path / "home", folder, "retryable", env=running.api))
    assert said["state"] == "published"
    assert said["calls"] == {"t0": 1, "t1": 1, "t2": 2, "t3": 1, "t4": 1, "t5": 1}
    assert err == b""
    assert len(history(served, "select id from flow_run")) == before + 1
    assert not list((tmp_path / "home").glob("*.db")), "no other server was started"


@pytest.mark.slow
def test_any_other_error_is_not_retried_and_its_text_is_nowhere(
    running: TemporaryServer, tmp_path: Path, folder: Path, served: Path
) -> None:
    """A server that keeps running writes to its database what a server of the run's own would."""
    said, err = finish(start(tmp_path / "home", folder, "leak", env=running.api))
    assert said["calls"]["t2"] == 1
    assert (said["class"], said["exit"]) == ("BrokenPromiseError", 70)
    assert "DPR-O901  ValueError in measure t2: q2, r2 (2024)" in said["error"]
    assert said["alone"], "no cause and no context that a traceback could print"
    assert CANARY not in json.dumps(said).encode() + err
    assert err == b""
    deadline = time.monotonic() + 30  # nobody waits for what a server that stays has yet to write down
    while not (seen := history(served, "select message from task_run_state where type = 'FAILED'")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert seen == [("Task run encountered an exception StepFailed: measure t2: q2, r2 (2024): ValueError",)]
    files = [path for home in (served, tmp_path) for path in home.rglob("*") if path.is_file()]
    assert served / "prefect.db" in files
    assert [path for path in files if CANARY in path.read_bytes()] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_killed_run_leaves_no_server_and_two_at_once_share_its_home(warm: Path, folder: Path) -> None:
    """The second one of both takes no orders from its environment either."""
    process = start(warm, folder, "slow")
    assert process.stdout
    assert process.stdout.readline() == b"measuring\n"
    servers = children(process.pid)
    assert len(servers) == 1
    assert alive(servers[0])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 5
    while alive(servers[0]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(servers[0])
    odd = {
        "PREFECT_TASKS_REFRESH_CACHE": "true",
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        "PREFECT_DEBUG_MODE": "1",
    }
    both = [start(warm, folder), start(warm, folder, env=odd)]
    for process in both:
        said, err = finish(process)
        assert said["state"] == "published"
        assert err == b""
    assert list(warm.glob("run-*")) == [], "the second one's private database is removed"
    assert not list((warm / "results").glob("*"))


@pytest.mark.slow
def test_the_temporary_server_wants_its_secret(running: TemporaryServer) -> None:
    import http.client
    from urllib.parse import urlsplit

    address = urlsplit(running.api["PREFECT_API_URL"])
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.request("POST", "/api/flow_runs/filter", body="{}", headers={"Content-Type": "application/json"})
    assert connection.getresponse().status == http.client.UNAUTHORIZED
    connection.close()


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_an_error_that_names_the_way_out(tmp_path: Path, folder: Path) -> None:
    said, err = finish(start(tmp_path, folder, env={"PREFECT_API_URL": NOWHERE}))
    assert (said["class"], said["exit"]) == ("OrchestratorError", 8)
    assert "DPR-O200" in said["error"]
    assert "127.0.0.1:9" in said["error"]
    assert "--direct" in said["error"]
    assert said["calls"] == {}
    assert err == b""


@pytest.mark.slow
def test_a_server_that_cannot_start_is_an_error_that_names_the_way_out(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "prefect.db.lock").mkdir()
    said, err = finish(start(tmp_path / "home", folder))
    assert (said["class"], said["exit"]) == ("OrchestratorError", 8)
    assert "DPR-O100" in said["error"]
    assert "IsADirectoryError" in said["error"]
    assert "--direct" in said["error"]
    assert said["calls"] == {}
    assert err == b""


@pytest.mark.slow
def test_a_prefect_that_cannot_be_imported_is_an_error_that_names_the_way_out(tmp_path: Path, folder: Path) -> None:
    """A newer FastAPI or SQLAlchemy breaks Prefect when it is imported; here it is a package that is not Prefect."""
    (tmp_path / "prefect").mkdir()
    (tmp_path / "prefect" / "__init__.py").write_text("raise TypeError('Body() got an unexpected keyword argument')\n")
    env = {"PREFECT_API_URL": NOWHERE, "PYTHONPATH": str(tmp_path)}
    said, err = finish(start(tmp_path / "home", folder, env=env))
    assert (said["class"], said["exit"]) == ("OrchestratorError", 8)
    assert "DPR-O102" in said["error"]
    assert "unexpected keyword" in said["error"]
    assert "--direct" in said["error"]
    assert err == b""


@pytest.mark.slow
def test_a_flow_can_be_served_which_pickles_it_by_value(tmp_path: Path, folder: Path) -> None:
    code = "import cloudpickle; from dprelease.flows.flow import dprelease; cloudpickle.dumps(dprelease)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PREFECT_HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
