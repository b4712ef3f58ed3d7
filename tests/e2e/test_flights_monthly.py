"""Months of real flights from one spec: the first on time, one killed half way, the others caught up in order.

By default four months with fewer queries, zCDP and threads; at night all twelve of the example as it is, by a Prefect
server that serves it.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dprelease.ledger import StepKey
from dprelease.plan.document import ReleasePlan
from dprelease.release.direct import run_directly
from dprelease.release.project import Project
from dprelease.release.publishing.rendering import Outcome
from dprelease.release.schedule.due_runs import agenda
from tests.e2e.prefect_server import Household
from tests.e2e.real_data import DATA, FILES, ROOT
from tests.project import command, environment
from tests.unit.test_export import here, script

FLIGHTS = FILES["flights"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not FLIGHTS.exists(), reason="the file of flights is not beside the checkout"),
]
VARIABLES = {"DPRELEASE_DATA": str(DATA)}
NAME = "flights-monthly"
SPEC = f"{NAME}.yaml"
MONTHS = [f"2013-{month:02}" for month in range(1, 13)]
FEW = MONTHS[:4]
LIGHT = {
    "  budget: {epsilon: 3/2, delta: 1e-9}\n": "  budget: {epsilon: 3/2, delta: 1e-9}\n  accounting: zcdp\n",
    "      delay: {quantiles: dep_delay, at: [0.5, 0.9], clip: [-30, 180]}\n": "",
    "      delay_q50: {title: Median delay}\n      delay_q90: {title: Delay of the latest tenth}\n": "",
    "formats: [csv, parquet, xlsx, html]": "formats: [csv, html]",
    "last: 2013-12": f"last: {FEW[-1]}",
}
# Dies when the second answer is in the ledger: what the first process knew is gone, what it committed is not.
KILLED = """
import itertools, os, signal, sys
from dprelease.cli import main
hits = itertools.count(1)
def watch(event, told):
    if event == "dprelease.point" and told[0] == "commit.committed" and next(hits) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
sys.argv[0] = "dprelease"
main()
"""


def project(folder: Path, *, light: bool) -> Path:
    """The example's project in a folder of its own; the path of its spec."""
    for name in ("dprelease.yaml", "policy.yaml", SPEC):
        shutil.copy(ROOT / "specs" / name, folder)
    text = (folder / SPEC).read_text(encoding="utf-8")
    for old, new in LIGHT.items() if light else ():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / SPEC).write_text(text, encoding="utf-8")
    return folder / SPEC


def caught_up(spec: Path, most: int = 0) -> list[Outcome]:
    """What a scheduled run does, without Prefect."""
    found = agenda(spec, datetime.now(UTC), most)
    return [run_directly(turn.request(str(spec))) for turn in found.turns]


def due(folder: Path, code: int = 0) -> dict[str, list[str]]:
    """State of the schedule to its months."""
    (facts,) = json.loads(command(folder, "due", SPEC, "--json", code=code).partition("\nDPR-")[0])["schedules"]
    states: dict[str, list[str]] = {}
    for slot in facts["periods"]:
        states.setdefault(slot["state"], []).append(slot["period"])
    return states


def measured(spec: Path, period: str) -> dict[str, str]:
    """Steps that have an answer in the ledger, with its digest."""
    ledger = Project.find(spec.parent).open_ledger()
    kept = ledger.find(NAME, period)
    assert kept is not None
    identity = (NAME, period, kept.plan_fingerprint)
    stored = {step: ledger.stored(StepKey(*identity, step)) for step in ledger.measured(*identity)}
    return {step: answer.digest for step, answer in stored.items() if answer is not None}


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("year")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPRELEASE_DATA", VARIABLES["DPRELEASE_DATA"])
        yield project(folder, light=True)


def test_what_was_interrupted_in_february_is_caught_up_to_april(year: Path) -> None:
    folder = year.parent
    assert due(folder, code=7) == {"late": FEW[:-1], "due": FEW[-1:]}
    assert [each.period for each in caught_up(year, most=1)] == FEW[:1]

    words = [sys.executable, "-c", KILLED, "run", SPEC, "--direct", "--period", FEW[1]]
    killed = subprocess.run(words, cwd=folder, env=environment(VARIABLES), capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    before = measured(year, FEW[1])
    assert len(before) >= 2
    assert due(folder, code=7) == {"published": FEW[:1], "open": FEW[1:2], "late": FEW[2:3], "due": FEW[3:]}
    assert f"dprelease run {SPEC} --period {FEW[1]}" in command(folder, "due", code=7)

    rest = caught_up(year)

    assert [each.period for each in rest] == FEW[1:]
    assert (rest[0].reused, {each.reused for each in rest[1:]}) == (len(before), {0})
    after = measured(year, FEW[1])
    assert before.items() <= after.items(), "an answer that was committed stays"
    assert len(after) == rest[0].drawn + rest[0].reused
    assert caught_up(year) == []


@pytest.fixture(scope="module")
def complete(year: Path) -> Path:
    """The project when all is released, whichever test runs first."""
    caught_up(year)
    return year


def everything_is_released_once(spec: Path, months: list[str]) -> None:
    folder = spec.parent
    assert due(folder) == {"published": months}
    kept = Project.find(folder).open_ledger().reservations()
    # Two flow runs at once may take the one July and the other August; alone, a run goes by the calendar.
    assert sorted((each.release, each.period, each.state) for each in kept) == [(NAME, m, "closed") for m in months]
    assert "the ledger is sound" in command(folder, "ledger", "check")
    page = re.sub("<[^>]*>", "", (folder / "releases" / "index.html").read_text(encoding="utf-8"))
    assert all(f"Departures from New York City in {month}" in page for month in listed(spec))
    assert listed(spec) == months


def test_every_month_is_released_once_and_listed(complete: Path) -> None:
    everything_is_released_once(complete, FEW)


def bundles_verify(spec: Path, months: list[str]) -> None:
    for month in months:
        said = json.loads(command(spec.parent, "verify", f"releases/{NAME}/{month}", "--json"))
        verdicts = {each["name"]: each["passed"] for each in said["checks"]}
        assert said["passed"]
        assert verdicts["loss re-derived"] is verdicts["rendered again"] is True
        assert False not in verdicts.values()


def test_bundles_verify_by_themselves(complete: Path) -> None:
    bundles_verify(complete, FEW[:2])  # one that went well and the one that was killed; all of them: at night


def test_a_month_holds_its_own_flights(complete: Path) -> None:
    """All titles could stand over one month: the counts are those of the file, by the law of the noise."""
    truth = exact_departures()
    for month in FEW:
        bundle = complete.parent / "releases" / NAME / month
        plan = ReleasePlan.from_canonical((bundle / "plan.json").read_bytes())
        (step,) = [step for step in plan.steps if any(each.measure == "departures" for each in step.answers)]
        margin = step.law.margin(1 - Fraction(1, 10**9) / (len(FEW) * 16))
        for row in csv.DictReader((bundle / "tables" / "carriers.csv").read_text(encoding="utf-8").splitlines()):
            assert abs(float(row["departures"]) - truth.get((month, row["carrier"]), 0)) <= margin, (month, row)


def exact_departures() -> dict[tuple[str, str], int]:
    """Counted outside of the engine; the few aircraft with two carriers in a month leave a slack of nothing."""
    sql = f"""SELECT month, carrier, sum(least(n, 20)) FROM (
        SELECT month, carrier, tailnum, count(*) AS n FROM read_parquet('{FLIGHTS}')
        WHERE tailnum IS NOT NULL GROUP BY ALL) GROUP BY ALL"""
    with closing(duckdb.connect()) as connection:
        return {(f"2013-{month:02}", carrier): int(n) for month, carrier, n in connection.execute(sql).fetchall()}


def rho_of(spec: Path) -> Fraction:
    """What the few plans cost, from their bundles alone: discrete Gaussian noise costs l2^2 / (2 scale^2), and rho
    adds up (Canonne, Kamath and Steinke 2020, Theorem 4; Bun and Steinke 2016, Lemma 1.7)."""
    found = Fraction(0)
    for month in FEW:
        steps = json.loads((spec.parent / "releases" / NAME / month / "plan.json").read_text())["steps"]
        assert {step["mechanism"] for step in steps} == {"discrete_gaussian"}
        for step in steps:
            found += Fraction(step["sensitivity"]["l2_squared"]) / (2 * Fraction(step["scale"]) ** 2)
    return found


def composed(spec: Path) -> dict[str, float]:
    """The loss of all months under every accountant, at the account's delta."""
    told = json.loads(command(spec.parent, "ledger", "status", "--json"))
    (account,) = [each for each in told["accounts"] if each["name"] == "aircraft"]
    found = {name: float(epsilon) for name, epsilon in account["hypothetical"].items()}
    return {"spent": float(account["spent"]), "plain sum": float(account["plain_sum"]["epsilon"]), **found}


def second_opinion(spec: Path) -> dict[str, float]:
    """What the program of docs/how-to/read-the-ledger.md makes of the ledger's export."""
    folder = spec.parent
    exported = command(folder, "ledger", "export", "--account", "aircraft")
    (folder / "ledger.json").write_text(exported, encoding="utf-8")
    out = here([str(script(folder)), str(folder / "ledger.json"), "1e-7"])
    return {kind: float(epsilon) for _, kind, epsilon in (line.split() for line in out.splitlines())}


def losses_agree(spec: Path, months: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    ours, theirs = composed(spec), second_opinion(spec)
    with capsys.disabled():
        print(f"\n{len(months)} months together, at delta 1e-7: {ours}; dp_accounting on the export: {theirs}")
    assert ours["pld"] <= ours["rdp"] <= ours["zcdp"] == ours["spent"] < ours["basic"]
    fold = 3 if months == MONTHS else 2
    assert ours["spent"] < ours["plain sum"] / fold, "less than a third of what adding up epsilons says, or half of it"
    # The same theorem on a grid of orders, and the same losses on a grid of their own.
    assert ours["zcdp"] * (1 - 1e-6) <= theirs["zcdp"] <= ours["zcdp"] * 1.002
    return theirs


def test_what_all_months_cost_together_is_known_under_every_accountant(
    complete: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("dp_accounting", reason="dp_accounting is not installed")
    theirs = losses_agree(complete, FEW, capsys)
    ours = composed(complete)
    assert ours["pld"] * 0.998 <= theirs["pld"] <= ours["pld"] * 1.05
    export = json.loads((complete.parent / "ledger.json").read_text(encoding="utf-8"))
    spent, rho = Fraction(export["accounts"]["aircraft"]["spent"]["loss"]), rho_of(complete)
    assert rho <= spent <= rho * (1 + Fraction(1, 10**9))


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_the_example_as_it_is_released_by_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], empty: Path
) -> None:
    """A clock ticks; the flow run that measures April is killed; the next tick does the rest."""
    (tmp_path / "project").mkdir()
    spec = project(tmp_path / "project", light=False)
    words = ("tests.e2e.serving", "--every", "20", SPEC)
    with Household(tmp_path / "prefect") as house:
        house.serve(empty)
        house.start("served", *words, folder=spec.parent, variables=VARIABLES)
        house.until("a killed April", lambda: killed_in_april(spec, house), 600)
        house.until("twelve bundles", lambda: len(listed(spec)) == len(MONTHS), 900)
        states = Counter(run["state_type"] for run in house.runs())
    with capsys.disabled():
        print(f"\nflow runs: {dict(states)}")
    assert states["CRASHED"] >= 1
    everything_is_released_once(spec, MONTHS)
    bundles_verify(spec, MONTHS)
    losses_agree(spec, MONTHS, capsys)


def killed_in_april(spec: Path, house: Household) -> bool:
    """Whether the flow run was killed that had begun to measure April."""
    if not (spec.parent / "state").exists():
        return False
    kept = Project.find(spec.parent).open_ledger().find(NAME, "2013-04")
    assert kept is None or kept.state == "open", "too late to interrupt it"
    if kept is None or not measured(spec, "2013-04"):
        return False
    for process in house.at_work():
        os.kill(process, signal.SIGKILL)
    return True


def listed(spec: Path) -> list[str]:
    """The months on the page over all releases, which is written last of all."""
    page = spec.parent / "releases" / "index.html"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return [month for month in MONTHS if f'href="{NAME}/{month}/index.html"' in text]
