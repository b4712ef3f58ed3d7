"""A schedule that really fires, while everything around it is killed; every period must come out once all the same.

``python -m tests.crash.schedule --periods 6 --every 20`` runs it in full (``make nightly`` does it too); exit code 1:
something broke. Nobody starts a run by hand but the one that the clock then overlaps.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.crash.invariants import Inspector
from tests.crash.victim import SMALL, Victim
from tests.e2e.prefect_server import Household, Started
from tests.project import forked

__all__ = ["Clockwork", "daily"]

_FAULTS = Path(__file__).resolve().parents[1] / "e2e" / "faults"
_ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 300.0  # seconds for one release, on a machine that is busy with other things
_POOL = "clockwork"


def daily(periods: int, now: datetime) -> tuple[str, list[str]]:
    """A spec of that many past days, and the days."""
    days = [(now.date() - timedelta(days=periods - at)).isoformat() for at in range(periods)]
    schedule = f'schedule: {{cron: "0 0 1 1 *", timezone: UTC, period: day, last: {days[-1]}}}\n'
    return SMALL.replace("PERIOD", days[0]) + schedule, days


@dataclass(frozen=True)
class Clockwork:
    """A project with a daily spec, in a household that serves it.

    Attributes:
        victim: The project.
        house: Server and all other processes.
        empty: Folder with Prefect's empty database.
        periods: The days that are due, the earliest first.
        every: Seconds between two ticks of the clock.
        pool: Run by a worker of a process pool, and not by `serve`.
    """

    victim: Victim
    house: Household
    empty: Path
    periods: list[str]
    every: float
    pool: bool = False

    @classmethod
    def make(cls, folder: Path, empty: Path, periods: int, every: float, *, pool: bool = False) -> Clockwork:
        """Write the project and prepare the household; enter ``house`` to end its processes."""
        victim = Victim.make(folder / "project")
        text, days = daily(periods, datetime.now(UTC))
        (victim.folder / "daily.yaml").write_text(text, encoding="utf-8")
        made = cls(victim, Household(folder / "house"), empty, days, every, pool)
        made.faults.mkdir()
        return made

    @property
    def spec(self) -> Path:
        """The one spec of all periods."""
        return self.victim.folder / "daily.yaml"

    @property
    def faults(self) -> Path:
        """Where orders for the next process that comes by are left: see ``tests/e2e/faults``."""
        return self.house.folder / "faults"

    @property
    def by_hand(self) -> Path:
        """As ``faults``, for the run that somebody types."""
        return self.house.folder / "by hand"

    @property
    def variables(self) -> dict[str, str]:
        """For the processes that release."""
        return {"PYTHONPATH": f"{_FAULTS}{os.pathsep}{_ROOT}", "DPRELEASE_TEST_FAULTS": str(self.faults)}

    def begin(self) -> Started:
        """Register the spec with a clock of its own, and start what runs it; the server is up."""
        if self.pool:
            self.house.finish("pool", "prefect", "work-pool", "create", _POOL, "--type", "process")
            self.house.finish("schedule", *self._register, "--pool", _POOL, str(self.spec), variables=self.variables)
        return self.serve()

    @property
    def _register(self) -> tuple[str, ...]:
        return "tests.e2e.serving", "--every", str(self.every), "--most", "1"

    def serve(self) -> Started:
        """Start what runs the flow when the clock ticks."""
        if self.pool:
            words = ("prefect", "worker", "start", "--pool", _POOL, "--limit", "2")
            return self.house.start("worker", *words, variables=self.variables)
        return self.house.start("serve", *self._register, str(self.spec), variables=self.variables)

    # What goes wrong.

    def stop_at(self, point: str, faults: Path | None = None) -> None:
        """Let the next process that comes to this point wait there."""
        folder = faults or self.faults
        for name in (f"{point}.taken", f"{point}.go"):
            (folder / name).unlink(missing_ok=True)
        order = folder / f"{point}.order"
        order.write_text(json.dumps({"do": "wait"}))
        order.rename(folder / point)

    def stopped(self, point: str, faults: Path | None = None) -> int:
        """The process that waits at the point, as soon as there is one."""
        taken = (faults or self.faults) / f"{point}.taken"
        self.house.until(f"a run that comes to {point}", taken.exists, _LONGEST)
        return int(taken.read_text())

    def go(self, point: str, faults: Path | None = None) -> None:
        """Let it go on."""
        ((faults or self.faults) / f"{point}.go").touch()

    def kill_a_run(self) -> None:
        """Kill the process of a run by the clock in the middle of a release: drawn, and not committed."""
        self.stop_at("draw.drawn")
        os.kill(self.stopped("draw.drawn"), signal.SIGKILL)

    def kill_the_server(self, server: Started) -> None:
        """Kill the server while a release is under way, which then goes on; start it again."""
        self.stop_at("draw.aggregated")
        self.stopped("draw.aggregated")
        self.house.kill(server)
        self.go("draw.aggregated")
        self.house.serve(self.empty)

    def kill_all_that_release(self, serving: Started) -> Started:
        """Kill what serves, and its run in the middle of a release; start it again."""
        self.stop_at("commit.stored")
        process = self.stopped("commit.stored")
        self.house.kill(serving)
        os.kill(process, signal.SIGKILL)
        return self.serve()

    def take_by_hand(self, period: str) -> Started:
        """Begin a run by hand, which then has the period in its hands until it may go on."""
        self.by_hand.mkdir()
        self.stop_at("publish.begun", self.by_hand)
        manual = self.house.start(
            "manual",
            *("dprelease", "run", str(self.spec), "--period", period),
            folder=self.victim.folder,
            variables={**self.variables, "DPRELEASE_TEST_FAULTS": str(self.by_hand)},
            lasting=False,
        )
        self.stopped("publish.begun", self.by_hand)
        return manual

    def overlap(self, manual: Started) -> str:
        """Let the clock tick once more beside the run by hand, which then goes on; what it said in the end."""
        held = datetime.now(UTC).isoformat()
        self.house.until("a tick that finds the period held", lambda: self._left_alone_since(held), _LONGEST)
        assert manual.alive
        assert not self.is_published(self.periods[-1])
        self.go("publish.begun", self.by_hand)
        self.house.until("the end of the run by hand", lambda: not manual.alive, _LONGEST)
        return manual.log.read_text()

    def _left_alone_since(self, moment: str) -> bool:
        """Whether a run by the clock has begun since then and went well, and left the last period to the run by hand."""
        ended = [
            each for each in self.clock_runs() if each["start_time"] > moment and each["state_type"] == "COMPLETED"
        ]
        return any(self.periods[-1] in (each["state"]["message"] or "") for each in ended)

    # What must come of it.

    def published(self, count: int) -> None:
        """Wait until so many periods are."""
        done = "so many periods published: " + str(count)
        self.house.until(done, lambda: sum(self.is_published(each) for each in self.periods) >= count, count * _LONGEST)

    def is_published(self, period: str) -> bool:
        """Whether its bundle can be seen."""
        return (self.victim.bundle(period) / "manifest.json").exists()

    def problems(self) -> Iterator[str]:
        """Everything that is not as it must be; call it when nothing runs any more."""
        yield from Inspector().problems(self.victim, *self.periods)
        due = forked(self.victim.folder, "due", str(self.spec))
        if due.code:
            yield f"`due` ends with {due.code}: {due.out}{due.err}"

    def clock_runs(self) -> list[dict[str, Any]]:
        """The flow runs that the clock has begun."""
        return [each for each in self.house.runs() if each["auto_scheduled"] and each["start_time"]]

    def end(self, serving: Started) -> None:
        """Stop what serves as Ctrl-C does, and wait for the runs that are under way."""
        self.house.kill(serving, signal.SIGINT)
        self.house.until("the end of all runs", lambda: not any(self.house.at_work()), _LONGEST)

    def campaign(self, *, full: bool) -> list[str]:
        """All of it, within ``house``; the problems in the end."""
        server = self.house.serve(self.empty)
        manual = self.take_by_hand(self.periods[-1])
        serving = self.begin()
        self.kill_a_run()
        self.kill_the_server(server)
        self.published(1)
        if full:
            serving = self.kill_all_that_release(serving)
        self.published(len(self.periods) - 1)
        said = self.overlap(manual)
        self.end(serving)
        problems = list(self.problems())
        if f"published crash/{self.periods[-1]}" not in said:
            problems.append(f"the run by hand said: {said}")
        # The one that was killed, one for every period but that by hand, and one that found this one held.
        if len(self.clock_runs()) < len(self.periods) + 1:
            problems.append(f"the clock has begun {len(self.clock_runs())} runs only")
        return problems


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.schedule", description=__doc__)
    parser.add_argument("--periods", type=int, default=6)
    parser.add_argument("--every", type=float, default=20.0)
    parser.add_argument("--pool", action="store_true", help="by a worker of a pool, and not by `serve`")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dprelease-schedule-"))
    (folder / "empty").mkdir()
    clockwork = Clockwork.make(folder / "it", folder / "empty", given.periods, given.every, pool=given.pool)
    with clockwork.house:
        problems = clockwork.campaign(full=True)
    print(f"{given.periods} periods, every {given.every:.0f} s: {len(problems)} problems; in {folder}")
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
