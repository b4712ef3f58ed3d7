"""Processes on one ledger: a race, a cap shared by eight, and a writer that is killed at random moments."""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dprelease.ledger import LEDGERS, Ledger, open_ledger
from dprelease.plan.document import ReleasePlan
from tests import postgres as servers
from tests.ledgers import key, plan, standing_of

WORKER = Path(__file__).with_name("ledger_worker.py")


postgres_server, postgres = servers.postgres_server, servers.postgres  # fixtures


@pytest.fixture(params=LEDGERS)
def url(request: pytest.FixtureRequest) -> str:
    """Of a ledger that nothing was ever written to; a server's has its tables, for a release never makes them."""
    if request.param == "sqlite":
        return "sqlite:///state/ledger.db"
    database = request.getfixturevalue("postgres")
    importlib.import_module("dprelease.ledger.stores.postgres").create_postgres_ledger(database.owner, servers.RUNNER)
    return str(database.runner)


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


def charged(ledger: Ledger) -> int:
    return len(standing_of(ledger, ["people"]).of("people").charged)


def _write(made: ReleasePlan, folder: Path) -> str:
    file = folder / "plan.json"
    file.write_text(made.canonical(), encoding="utf-8")
    return str(file)


class Nursery:
    """Processes, each with a ledger of its own, forked by one that has imported everything and opened nothing."""

    def __init__(self) -> None:
        self._warm = subprocess.Popen(
            [sys.executable, str(WORKER), "warm"],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a fork of several threads is half a process
        )
        self._started = 0

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self._warm.communicate(timeout=60)

    def ask(self, *order: object) -> int:
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        self._warm.stdin.write(json.dumps(order) + "\n")
        self._warm.stdin.flush()
        (answer,) = json.loads(self._warm.stdout.readline())
        return int(answer)

    def start(self, mode: str, url: str, folder: Path, *rest: str) -> Child:
        self._started += 1
        out = folder / f"said-{self._started}"
        return Child(self, self.ask("start", str(out), mode, url, str(folder), *rest), out)


@dataclass(frozen=True)
class Child:
    nursery: Nursery
    process: int
    out: Path

    def end(self) -> int:
        """Wait for its end: its exit code; less than 0: the signal that ended it."""
        return self.nursery.ask("wait", self.process)

    def said(self) -> list[list[Any]]:
        if not self.out.exists():
            return []
        # A killed process may leave half a line: it handed nothing on with it.
        lines = self.out.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


def test_two_processes_that_race_hand_on_one_answer_per_step(nursery: Nursery, url: str, tmp_path: Path) -> None:
    text = _write(plan(steps={"a": "people", "b": "people"}, cost="1/1000"), tmp_path)
    racing = [nursery.start("race", url, tmp_path, text, "30") for _ in range(2)]
    assert [child.end() for child in racing] == [0, 0]
    handed = [child.said() for child in racing]
    assert handed[0] == handed[1]
    assert len(handed[0]) == 60
    ledger = open_ledger(url, tmp_path, ["anchors/head"])
    assert kinds(ledger).count("reserve") == 30
    assert ledger.check() == ()


def _share(nursery: Nursery, url: str, folder: Path, processes: int, asked: int, cap: int) -> None:
    """So many processes ask for so many releases of one unit each, of a cap that is less; a reader looks on."""
    text = _write(plan(cost=f"1/{cap}"), folder)
    watching = nursery.start("watch", url, folder, str(cap))
    asking = [nursery.start("grant", url, folder, text, f"w{n}", str(asked)) for n in range(processes)]
    assert [child.end() for child in (*asking, watching)] == [0] * (processes + 1)
    assert len({child.process for child in asking}) == processes
    said, seen = [line for child in asking for line in child.said()], watching.said()
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
    assert any(0 < count < cap for count in counts), "the reader never looked while they were at it"


@pytest.mark.slow
def test_eight_processes_never_get_more_than_the_cap_together(nursery: Nursery, url: str, tmp_path: Path) -> None:
    _share(nursery, url, tmp_path, 8, 12, 60)


@pytest.mark.nightly
@pytest.mark.parametrize("time_", range(20))
def test_sixty_four_processes_never_get_more_than_a_thousand_units_together(
    nursery: Nursery, url: str, tmp_path: Path, time_: int
) -> None:
    _share(nursery, url, tmp_path, 64, 100, 1000)


@pytest.mark.slow
def test_processes_that_begin_at_once_make_one_ledger_with_one_id(nursery: Nursery, url: str, tmp_path: Path) -> None:
    """The first reservation of all makes the ledger, and both of its anchors."""
    for attempt in range(4 if url.startswith("sqlite") else 1):  # a database is there before, and is one
        folder = tmp_path / str(attempt)
        folder.mkdir()
        text = _write(plan(cost="1/100"), folder)
        asking = [nursery.start("grant", url, folder, text, f"w{n}", "2") for n in range(4)]
        assert [child.end() for child in asking] == [0] * 4
        said = [line for child in asking for line in child.said()]
        assert [line[0] for line in said] == ["granted"] * 8
        ledger = open_ledger(url, folder, ["anchors/head"])
        assert kinds(ledger).count("anchor") == 1
        assert ledger.check() == ()


@pytest.mark.slow
def test_killing_the_writer_at_random_moments_changes_no_answer(nursery: Nursery, url: str, tmp_path: Path) -> None:
    text = _write(plan(steps={"a": "people", "b": "people"}, cost="1/100000"), tmp_path)
    handed: dict[tuple[str, str], str] = {}
    closed: set[str] = set()
    for kill in range(20):
        child = nursery.start("churn", url, tmp_path, text, f"k{kill}")
        # Not so many seconds: on a busy machine nothing would be done in them.
        wanted, late = random.randint(1, 9), time.monotonic() + 120
        while len(child.said()) < wanted:
            assert time.monotonic() < late
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.03))
        os.kill(child.process, signal.SIGKILL)
        assert child.end() == -signal.SIGKILL
        for what, *rest in child.said()[1:]:
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
