"""A process of its own for the tests of ledgers: ``ledger_worker.py MODE URL FOLDER ARGUMENT...``.

What it prints, one JSON line at a time, is what it has handed on.

``ledger_worker.py warm`` forks such processes on request, so that none of them needs the second of the imports. It has
opened no ledger: every child opens its own, and shares nothing with the others but the modules.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from dprelease.errors import BudgetExceeded, MissingExtra
from dprelease.ledger import Charge, Ledger, StepKey, open_ledger
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from tests.ledgers import standing_of

CELLS = 3
_HUNG = 900  # seconds


def say(*what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def plans(text: str, periods: Iterator[str]) -> Iterator[tuple[ReleasePlan, list[Charge]]]:
    """The plan of a file, for one period after the other."""
    template = ReleasePlan.from_canonical(Path(text).read_text(encoding="utf-8"))
    made = [Charge(account=each, events=template.event_of(each.name), cap=each.lifetime) for each in template.accounts]
    for period in periods:
        release = template.release.model_copy(update={"period": period})
        yield template.model_copy(update={"release": release}), made


def drawn(step: str) -> Measurement:
    """An answer that no other process would give."""
    values = np.frombuffer(os.urandom(8 * CELLS), dtype="<i8").astype(np.int64)
    return Measurement(step, values)


def measure(ledger: Ledger, plan: ReleasePlan) -> None:
    for step in plan.steps:
        key = StepKey(plan.release.name, plan.release.period, plan.fingerprint(), step.id)
        kept = ledger.commit(key, drawn(step.id))
        say("handed", key.period, step.id, kept.digest)


def race(ledger: Ledger, plan_file: str, rounds: str) -> None:
    """Reserve and measure the same releases as everybody else."""
    for plan, made in plans(plan_file, (f"p{n}" for n in range(int(rounds)))):
        ledger.reserve(plan, made)
        measure(ledger, plan)  # the ledger's keys alone decide, whatever was read and recorded before


def grant(ledger: Ledger, plan_file: str, who: str, rounds: str) -> None:
    """Reserve releases of one's own until the cap says no, and go on asking."""
    for plan, made in plans(plan_file, (f"{who}-{n}" for n in range(int(rounds)))):
        try:
            ledger.reserve(plan, made)
        except BudgetExceeded:
            say("refused", plan.release.period)
        else:
            say("granted", plan.release.period)


def watch(ledger: Ledger, cap: str) -> None:
    """Look, until everything is granted: what is charged, and that every sum is that of its charges."""
    while not ledger.exists:
        time.sleep(0.01)
    count = 0
    while count < int(cap):
        began = time.monotonic()
        # It raises where the balances are not the sums of the charges, and where the anchors know more.
        count = len(standing_of(ledger, ["people"]).of("people").charged)
        assert len(ledger.reservations()) >= count
        say("saw", count)
        time.sleep(3 * (time.monotonic() - began))  # a quarter of a core: the others are to write meanwhile


def churn(ledger: Ledger, plan_file: str, who: str) -> None:
    """Release for ever: reserve, measure, close; every third one is given back."""
    say("ready")
    for plan, made in plans(plan_file, (f"{who}-{n}" for n in range(10**6))):
        name, period, mark = plan.release.name, plan.release.period, plan.fingerprint()
        ledger.reserve(plan, made)
        if int(period.rpartition("-")[2]) % 3 == 2:
            ledger.void(name, period, mark, "no source")
            continue
        measure(ledger, plan)
        ledger.close(name, period, mark, "manifest")
        say("closed", period)


def hold(ledger: Ledger, release: str, period: str) -> None:
    """Hold the lock of a release until killed."""
    with ledger.lock(release, period, "measuring"):
        say("held", os.getpid())
        sys.stdin.read()


MODES: dict[str, Callable[..., None]] = {"race": race, "grant": grant, "watch": watch, "churn": churn, "hold": hold}


def _become(out: str, mode: str, url: str, folder: str, *rest: str) -> NoReturn:
    """In a forked child: do what a process of its own would do, what it prints goes to a file."""
    code = 1
    try:
        signal.alarm(_HUNG)
        for path, number in ((os.devnull, 0), (out, 1)):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
            os.close(file)
        _obey(mode, url, folder, *rest)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _warm() -> None:
    """Start a child for each line ``["start", OUT, MODE, ...]``, and wait for one at ``["wait", PROCESS]``.

    The answer is its process number, or how it ended: an exit code, or less than 0: the signal.
    """
    with contextlib.suppress(MissingExtra):
        importlib.import_module("dprelease.ledger.stores.postgres")
    running: set[int] = set()
    for line in sys.stdin:
        order, *told = json.loads(line)
        if order == "start":
            process = os.fork()
            if not process:
                _become(*told)
            running.add(process)
            say(process)
        else:
            _, status = os.waitpid(told[0], 0)
            running.discard(told[0])
            say(os.waitstatus_to_exitcode(status))
    for process in running:
        os.kill(process, signal.SIGKILL)


def _obey(mode: str, url: str, folder: str, *rest: str) -> None:
    MODES[mode](open_ledger(url, Path(folder), ["anchors/head"]), *rest)


if __name__ == "__main__":
    if sys.argv[1:] == ["warm"]:
        _warm()
    else:
        _obey(*sys.argv[1:])
