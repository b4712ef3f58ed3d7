"""The services of ``deploy/compose.yaml`` as processes of one machine, and the bad days that they must come through.

PostgreSQL holds Prefect's database and the ledger, which are two databases with two roles; Prefect's server wants a
secret; one runner serves two periods, and is killed with its run in the middle of the first. Then a back-up is put back
that lacks the second period. The image and the containers themselves are not tested here.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.ledger.stores.postgres import create_postgres_ledger
from tests.crash.schedule import Clockwork
from tests.e2e.prefect_server import Started
from tests.e2e.test_backup_drill import numbers, script
from tests.postgres import RUNNER, Database, postgres, postgres_server
from tests.project import SPEC, command, forked, small_project

__all__ = ["postgres", "postgres_server"]  # fixtures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

SECRET = "office:correct-horse"
WITH_SECRET = {"PREFECT_API_AUTH_STRING": SECRET}


@pytest.fixture
def office(tmp_path: Path, empty: Path, postgres: Database) -> Iterator[Clockwork]:
    create_postgres_ledger(postgres.owner, RUNNER)
    made = Clockwork.make(tmp_path, empty, periods=2, every=20)
    settings = made.victim.folder / "dprelease.yaml"
    text = settings.read_text().replace("sqlite:///state/ledger.db", postgres.runner)
    settings.write_text(text.replace("key/source.key", "state-key/source.key"))
    made.house.secret = SECRET
    database = postgres.server.new_database()
    with made.house:
        made.house.serve(
            empty,
            {
                "PREFECT_API_DATABASE_CONNECTION_URL": database.owner.replace("postgresql://", "postgresql+asyncpg://"),
                "PREFECT_API_DATABASE_MIGRATE_ON_START": "true",
                "PREFECT_SERVER_API_AUTH_STRING": SECRET,
            },
        )
        yield made


def run_now(office: Clockwork) -> None:
    """What an operator does on Prefect's page."""
    found = office.house.until("a deployment", lambda: _deployment(office))
    office.house.ask("POST", f"/deployments/{found}/create_flow_run", {"state": {"type": "SCHEDULED"}})


def _deployment(office: Clockwork) -> str | None:
    found = office.house.ask("POST", "/deployments/filter", {})
    return str(found[0]["id"]) if found else None


def serve(office: Clockwork, name: str) -> Started:
    variables = {**office.variables, **WITH_SECRET, "DPRELEASE_LOG": "json"}
    words = ("dprelease", "serve", str(office.spec))
    return office.house.start(name, *words, folder=office.victim.folder, variables=variables)


def metrics(folder: Path) -> dict[str, float]:
    """As a collector scrapes them from the file."""
    command(folder, "metrics", "--textfile", "dprelease.prom", "--check")
    lines = (folder / "dprelease.prom").read_text().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_the_drill_on_postgresql_does_the_same(tmp_path: Path, postgres: Database) -> None:
    """The copy is taken while a session is open; what was in its place stays, under another name."""
    create_postgres_ledger(postgres.owner, RUNNER)
    project, copies = tmp_path / "project", tmp_path / "copies"
    small_project(project, SPEC.replace("period: 2024", "period: 2021"), rows=30)
    settings = (project / "dprelease.yaml").read_text()
    (project / "dprelease.yaml").write_text(settings.replace("sqlite:///state/ledger.db", postgres.runner))
    command(project, "run", "spec.yaml", "--direct")
    copied = script("backup-postgresql", str(project), str(copies), postgres.owner, folder=project)
    assert copied.returncode == 0, copied.stderr
    (copy,) = copies.iterdir()
    assert {"ledger.dump", "policy.yaml", "dprelease.yaml", "state-key", "SHA256SUMS"} <= {
        p.name for p in copy.iterdir()
    }
    assert (copy / "ledger.dump").stat().st_mode & 0o077 == 0
    command(project, "run", "spec.yaml", "--direct", "--period", "2022")
    before = numbers(project, "2022")

    urls = (postgres.server.url(), postgres.owner)
    drilled = script("restore-drill", str(project), str(copy), *urls, folder=project)
    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert "the ledger is sound" in drilled.stdout
    names = [name for (name,) in postgres.server.execute("SELECT datname FROM pg_database")]
    assert sum(name.startswith(f"{postgres.name}_lost_") for name in names) == 1
    again = forked(project, "run", "spec.yaml", "--direct", "--period", "2022")
    assert again.code != 0
    assert numbers(project, "2022") == before
    command(project, "run", "spec.yaml", "--direct", "--period", "2023")
    command(project, "ledger", "check")


@pytest.mark.nightly  # two minutes; its parts are tested on every run: here, by test_schedule and by unit/test_doctor
def test_two_periods_a_killed_runner_and_a_restored_backup(
    office: Clockwork, postgres: Database, tmp_path: Path
) -> None:
    folder, copies = office.victim.folder, tmp_path / "copies"
    runner = serve(office, "runner")
    office.stop_at("draw.drawn")
    run_now(office)
    process = office.stopped("draw.drawn")
    office.house.kill(runner)
    os.kill(process, signal.SIGKILL)

    runner = serve(office, "runner again")
    run_now(office)
    office.published(1)
    copied = script("backup-postgresql", str(folder), str(copies), postgres.owner, folder=folder)
    assert copied.returncode == 0, copied.stderr
    office.published(2)
    office.house.kill(runner, signal.SIGINT)
    office.house.until("the end of all runs", lambda: not any(office.house.at_work()), 120)
    assert list(office.problems()) == []

    told = metrics(folder)
    assert told['dprelease_periods{release="crash",state="published"}'] == 2
    assert told['dprelease_periods{release="crash",state="late"}'] == 0
    assert told["dprelease_ledger_sound"] == 1
    spent = told['dprelease_account_spent{account="people",window="",currency="epsilon"}']
    assert spent > 0
    logged = (office.house.logs / "runner again.log").read_text()
    assert '"event"' in logged, "the runner writes its events as JSON"

    numbers = {
        period: (office.victim.bundle(period) / "tables" / "visits.csv").read_bytes() for period in office.periods
    }
    (copy,) = copies.iterdir()
    drilled = script("restore-drill", str(folder), str(copy), postgres.server.url(), postgres.owner, folder=folder)
    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    again = forked(folder, "run", str(office.spec), "--period", office.periods[1], "--direct")
    assert {
        period: (office.victim.bundle(period) / "tables" / "visits.csv").read_bytes() for period in office.periods
    } == numbers
    told = metrics(folder)
    assert told["dprelease_ledger_sound"] == 1
    assert told['dprelease_account_spent{account="people",window="",currency="epsilon"}'] >= spent, again.err
    today = datetime.now(UTC).date().isoformat()
    text = office.spec.read_text()
    (folder / "next.yaml").write_text(text[: text.index("schedule:")])
    command(folder, "run", "next.yaml", "--period", today, "--direct")
    command(folder, "ledger", "check")
