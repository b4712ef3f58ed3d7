"""Processes on one ledger: a race, a cap shared by eight, and a writer that is killed at random moments."""

from __future__ import annotations

import importlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dprelease.ledger import LEDGERS, Ledger, open_ledger
from dprelease.plan.document import ReleasePlan
from tests import postgres as servers
from tests.ledgers import key, plan

WORKER = Path(__file__).with_name("ledger_worker.py")


postgres_server, postgres = servers.postgres_server, servers.postgres  # fixtures


@pytest.fixture(params=[name for name in LEDGERS if name != "postgres"])  # another name for postgresql
def url(request: pytest.FixtureRequest) -> str:
    """Of a ledger that nothing was ever written to; a server's has its tables, for a release never makes them."""
    if request.param == "sqlite":
        return "sqlite:///state/ledger.db"
    database = request.getfixturevalue("postgres")
    importlib.import_module("dprelease.ledger.postgres").create(database.owner, servers.RUNNER)
    return str(database.runner)


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


def charged(ledger: Ledger) -> int:
    return len(ledger.standing(["people"]).of("people").charged)


def _write(made: ReleasePlan, folder: Path) -> str:
    file = folder / "plan.json"
    file.write_text(made.canonical(), encoding="utf-8")
    return str(file)


def _start(mode: str, url: str, folder: Path, *rest: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), mode, url, str(folder), *rest]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def _lines(process: subprocess.Popen[str], timeout: float = 120) -> list[list[Any]]:
    out, _ = process.communicate(timeout=timeout)
    # A killed process may leave half a line: it handed nothing on with it.
    return [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]


def test_two_processes_that_race_hand_on_one_answer_per_step(url: str, tmp_path: Path) -> None:
    text = _write(plan(steps={"a": "people", "b": "people"}, cost="1/1000"), tmp_path)
    racing = [_start("race", url, tmp_path, text, "30") for _ in range(2)]
    handed = [_lines(process) for process in racing]
    assert [process.returncode for process in racing] == [0, 0]
    assert handed[0] == handed[1]
    assert len(handed[0]) == 60
    ledger = open_ledger(url, tmp_path, ["anchors/head"])
    assert kinds(ledger).count("reserve") == 30
    assert ledger.check() == ()


def _share(url: str, folder: Path, processes: int, asked: int, cap: int) -> None:
    """So many processes ask for so many releases of one unit each, of a cap that is less; a reader looks on."""
    text = _write(plan(cost=f"1/{cap}"), folder)
    asking = [_start("grant", url, folder, text, f"w{n}", str(asked)) for n in range(processes)]
    watching = _start("watch", url, folder, str(cap))
    said = [line for process in asking for line in _lines(process, 900)]
    seen = _lines(watching, 60)
    assert [process.returncode for process in (*asking, watching)] == [0] * (processes + 1)
    assert len(said) == processes * asked
    granted = sorted(line[1] for line in said if line[0] == "granted")
    ledger = open_ledger(url, folder, ["anchors/head"])
    assert len(granted) == cap
    assert granted == sorted(kept.period for kept in ledger.reservations())
    assert charged(ledger) == cap
    assert kinds(ledger).count("refuse") == processes * asked - cap
    assert ledger.check() == ()
    # Whoever looked never saw more than the cap, nor less than before, nor a state that does not add up.
    counts = [count for _, count in seen]
    assert counts == sorted(counts)
    assert counts[-1] == cap
    assert len(counts) > 3


@pytest.mark.slow
def test_eight_processes_never_get_more_than_the_cap_together(url: str, tmp_path: Path) -> None:
    _share(url, tmp_path, 8, 12, 60)


@pytest.mark.nightly
@pytest.mark.parametrize("time_", range(20))
def test_sixty_four_processes_never_get_more_than_a_thousand_units_together(
    url: str, tmp_path: Path, time_: int
) -> None:
    _share(url, tmp_path, 64, 100, 1000)


@pytest.mark.slow
def test_processes_that_begin_at_once_make_one_ledger_with_one_id(url: str, tmp_path: Path) -> None:
    """The first reservation of all makes the ledger, and both of its anchors."""
    for attempt in range(4 if url.startswith("sqlite") else 1):  # a database is there before, and is one
        folder = tmp_path / str(attempt)
        folder.mkdir()
        text = _write(plan(cost="1/100"), folder)
        asking = [_start("grant", url, folder, text, f"w{n}", "2") for n in range(4)]
        said = [line for process in asking for line in _lines(process)]
        assert [process.returncode for process in asking] == [0] * 4
        assert [line[0] for line in said] == ["granted"] * 8
        ledger = open_ledger(url, folder, ["anchors/head"])
        assert kinds(ledger).count("anchor") == 1
        assert ledger.check() == ()


@pytest.mark.slow
def test_killing_the_writer_at_random_moments_changes_no_answer(url: str, tmp_path: Path) -> None:
    text = _write(plan(steps={"a": "people", "b": "people"}, cost="1/100000"), tmp_path)
    handed: dict[tuple[str, str], str] = {}
    closed: set[str] = set()
    for kill in range(20):
        process = _start("churn", url, tmp_path, text, f"k{kill}")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == ["ready"]
        time.sleep(random.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        for what, *rest in _lines(process):
            if what == "handed":
                handed[rest[0], rest[1]] = rest[2]
            else:
                closed.add(rest[0])
        ledger = open_ledger(url, tmp_path, ["anchors/head"])
        assert ledger.check() == ()
    kept = {each.period: each for each in ledger.reservations()}
    assert len(handed) > 20
    for (period, step), digest in handed.items():
        found = ledger.stored(key(kept[period], step))
        assert found is not None
        assert found.digest == digest
    assert closed <= {period for period, each in kept.items() if each.state == "closed"}
    assert charged(ledger) == len(kept)
