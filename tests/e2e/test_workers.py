"""Several hosts: workers of one pool release other specs and periods at once, against one ledger on a PostgreSQL server.

One product is asked for twice at once, too: the second run finds nothing left to do.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.ledger.stores.postgres import create_postgres_ledger
from dprelease.plan.document import ReleasePlan
from tests.crash.victim import SMALL, Victim, opened
from tests.e2e.prefect_server import Household
from tests.postgres import RUNNER, Database, postgres, postgres_server
from tests.project import forked

__all__ = ["postgres", "postgres_server"]  # fixtures

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]

PRODUCTS = ("north", "south")
ASKED = ("north", "south", "north")
WORKERS = ("one", "two")
YEAR = datetime.now(UTC).year
PERIODS = [str(YEAR - 2), str(YEAR - 1)]
POOL = "hosts"
ACCOUNT = "  NAME: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 40, delta: 1e-5, selecting: 5e-6}}\n"


@pytest.fixture
def project(tmp_path: Path, postgres: Database) -> Path:
    """Two products, each with an account of its own and two periods that are due; one ledger for both."""
    create_postgres_ledger(postgres.owner, RUNNER)
    folder = Victim.make(tmp_path / "project").folder
    settings = (folder / "dprelease.yaml").read_text()
    (folder / "dprelease.yaml").write_text(settings.replace("sqlite:///state/ledger.db", postgres.runner))
    (folder / "policy.yaml").write_text("accounts:\n" + "".join(ACCOUNT.replace("NAME", name) for name in PRODUCTS))
    for name in PRODUCTS:
        text = SMALL.replace("name: crash", f"name: {name}").replace("account: people", f"account: {name}")
        text = text.replace("PERIOD", PERIODS[0]).replace("visits.csv", f"{name}.csv")
        (folder / f"{name}.csv").write_text((folder / "visits.csv").read_text() + f"{name},w,1,5\n")
        schedule = f'schedule: {{cron: "0 0 1 1 *", timezone: UTC, period: year, last: {PERIODS[-1]}}}\n'
        (folder / f"{name}.yaml").write_text(text + schedule)
    return folder


@pytest.fixture
def house(tmp_path: Path, empty: Path) -> Iterator[Household]:
    with Household(tmp_path / "house", "INFO") as made:
        made.serve(empty)
        yield made


def begin(house: Household, project: Path, at_once: int) -> None:
    """Register the products, and ask for them before anybody is there to do it."""
    house.finish("pool", "prefect", "work-pool", "create", POOL, "--type", "process")
    specs = [f"{name}.yaml" for name in PRODUCTS]
    house.finish("schedule", "dprelease", "schedule", *specs, "--pool", POOL, folder=project)
    for name in ASKED:
        found = house.ask("GET", f"/deployments/name/dprelease/{name}")
        house.ask("POST", f"/deployments/{found['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
    for name in WORKERS:
        house.start(name, "prefect", "worker", "start", "--pool", POOL, "--name", name, "--limit", str(at_once))


def unsound(project: Path) -> Iterator[str]:
    """What is not as it must be in the ledger, and in the folder of releases."""
    _, ledger = opened(project)
    yield from (f"ledger check: {each}" for each in ledger.check())
    told: Counter[tuple[str, ...]] = Counter()
    for entry in ledger.entries():
        body = entry.body
        if entry.kind in ("reserve", "measure", "close"):
            told[(entry.kind, body["release"], body["period"], body.get("step", ""))] += 1
    wanted = {(kind, name, period, "") for kind in ("reserve", "close") for name in PRODUCTS for period in PERIODS}
    for each in ledger.reservations():
        found = ledger.find(each.release, each.period)
        plan = ReleasePlan.from_canonical(found.plan if found else "")
        wanted |= {("measure", each.release, each.period, step.id) for step in plan.steps}
    ledger.disconnect()
    yield from (f"{' '.join(key)}: {told[key]} times" for key in sorted(wanted | set(told)) if told[key] != 1)
    for name in PRODUCTS:
        for period in PERIODS:
            if not (project / "releases" / name / period / "manifest.json").exists():
                yield f"{name}/{period} is not published"


@pytest.mark.nightly  # two minutes; two processes on one ledger are raced on every run by tests/conformance
@pytest.mark.parametrize("at_once", [1, 2])
def test_two_workers_release_everything_once_into_one_ledger(project: Path, house: Household, at_once: int) -> None:
    begin(house, project, at_once)
    house.until("the end of all runs", lambda: sum(bool(each["end_time"]) for each in house.runs()) == len(ASKED), 420)

    runs = house.runs()
    assert [(each["name"], each["state_type"]) for each in runs if each["state_type"] != "COMPLETED"] == []
    assert list(unsound(project)) == []
    assert forked(project, "due").code == 0
    did = house.query("SELECT DISTINCT resource_id FROM event_resources WHERE resource_id LIKE 'prefect.worker.%'")
    assert {name for (name,) in did} == {f"prefect.worker.process.{name}" for name in WORKERS}
