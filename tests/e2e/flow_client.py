"""A client process for ``test_flow.py``: the real ``execute``, on an open release that only counts its calls.

Usage: ``flow_client.py HOME [MODE]``; the last line of its output is JSON. Modes: ``fine``; ``retryable`` (the first
try of one batch fails), ``leak`` (one batch raises an error full of what must not be seen), ``slow`` (no batch ends).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dprelease.canonical import Value
from dprelease.errors import DpReleaseError, Unavailable

CANARY = "canary-" + "83519"  # in two parts: the source line in a traceback is not a leak


class Request(Value):
    target: str
    synthetic: bool = False


class AccountLine(Value):
    name: str
    before: str
    after: str
    cap: str


class Outcome(Value):
    release: str
    period: str
    folder: str
    plan_fingerprint: str
    state: str
    drawn: int
    reused: int
    epsilon: str
    delta: str
    accounts: tuple[AccountLine, ...]
    unprotected: str = ""


class CountingRun:
    """Stands in for an open release: six batches of two steps."""

    plan = SimpleNamespace(
        release=SimpleNamespace(name="demo", period="2024"),
        fingerprint=lambda: "f" * 64,
        accounts=(SimpleNamespace(name="acs"),),
        steps=("a", "b") * 6,
        invariants=(),
        queries=(SimpleNamespace(name="q0", measures={"persons": SimpleNamespace(whole=1)}, compare={}),),
        outputs=(SimpleNamespace(query="q0", measure="persons", steps=("a",), margin="12.5"),),
        step=lambda name: SimpleNamespace(mechanism="discrete_laplace"),
    )

    def __init__(self, mode: str) -> None:
        self.mode, self.calls, self.closed, self._lock = mode, dict[str, int](), False, threading.Lock()
        self.tasks: list[str] = []

    def __enter__(self) -> CountingRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def batches(self) -> tuple[Any, ...]:
        steps = [tuple(SimpleNamespace(answers=(SimpleNamespace(query=f"{q}{i}"),)) for q in "qr") for i in range(6)]
        return tuple(SimpleNamespace(table=f"t{i}", steps=each, piece=None) for i, each in enumerate(steps))

    def measure(self, batch: Any) -> int:
        with self._lock:
            self.calls[batch.table] = self.calls.get(batch.table, 0) + 1
        if self.mode == "slow":
            os.write(1, b"measuring\n")  # one write: two threads say it at once
            time.sleep(600)
        if batch.table == "t2":
            self._fail()
        return len(batch.steps)

    def _fail(self) -> None:
        if self.mode == "retryable" and self.calls["t2"] < 2:
            raise Unavailable("the source is busy")
        if self.mode == "leak":
            row = {"name": CANARY}
            try:
                raise KeyError(row["name"])
            except KeyError as cause:
                raise ValueError(f"cannot cast {row}") from cause

    def publish(self) -> Outcome:
        flow: Any = sys.modules["dprelease.flows.flow"]
        settle = flow._settle

        def settled(work: Any) -> None:
            self.tasks = sorted(work.tasks)
            settle(work)

        flow._settle = settled
        return Outcome(
            release="demo",
            period="2024",
            folder=str(Path("/releases/demo/2024")),
            plan_fingerprint=self.plan.fingerprint(),
            state="published",
            drawn=12,
            reused=0,
            epsilon="1",
            delta="1e-9",
            accounts=(AccountLine(name="acs", before="0", after="1", cap="8"),),
        )


def main() -> None:
    home, mode = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "fine"
    run = CountingRun(mode)
    stand_in: Any = types.ModuleType("dprelease.release.run")
    stand_in.Request, stand_in.Outcome, stand_in.open_run = Request, Outcome, lambda request, doing: run
    sys.modules["dprelease.release.run"] = stand_in
    import dprelease.release

    dprelease.release.run = stand_in

    from dprelease.flows import execute

    folder, shown, said = Path.cwd(), list[tuple[str, int, int]](), dict[str, Any]()
    try:
        outcome = execute(
            Request(target="/specs/demo.yaml"),  # type: ignore[arg-type]  # has what the flow reads of one
            lambda label, done, total: shown.append((label, done, total)),
            home=home,
        )
        said["state"] = outcome.state
    except DpReleaseError as error:
        said |= {"error": str(error), "class": type(error).__name__, "exit": error.exit_code}
        said["alone"] = error.__cause__ is None and error.__context__ is None
    said |= {"calls": run.calls, "closed": run.closed, "shown": shown, "tasks": run.tasks}
    said["restored"] = Path.cwd() == folder and "PREFECT_HOME" not in os.environ
    print(json.dumps(said))


if __name__ == "__main__":
    main()
