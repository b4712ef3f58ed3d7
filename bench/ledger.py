"""Milliseconds that a long ledger takes: ``status``, ``check`` and one reservation, each beside its limit.

Usage: ``python bench/ledger.py [ENTRIES] [ROUNDS]``. Two ledgers of about so many entries (100,000): releases of 98
steps, and releases of one step. Every release has a plan of its own; every second one has the draws of another. They
are written by the code that writes every ledger, in a few large transactions instead of one each: nothing that is
measured here depends on how often a disk was asked to write while the ledger was made.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from dprelease.canonical import sha256
from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.ledger import Charge, StepKey
from dprelease.ledger.model.admission import assess_charges
from dprelease.ledger.model.entry import Closed, Reserved, Sourced, StepMeasured
from dprelease.ledger.model.history import charged_balance
from dprelease.ledger.model.process import this_process
from dprelease.ledger.tables.write import Write
from dprelease.noise import Measurement
from dprelease.plan.document import Account, Publish, ReleaseInfo, ReleasePlan, Step
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring, PrivacyUnit
from tests.ledgers import SQLiteLedger

CELLS = 4
LIMITS = {"status": 1000.0, "check": 4000.0, "reserve": 20.0}  # milliseconds
PEOPLE = Account(
    name="people",
    unit="person",
    neighboring=Neighboring.ADD_REMOVE,
    composition="zcdp",
    lifetime=Budget(epsilon=Fraction(10**6), delta=Fraction(1, 10**9)),
)


def plan(name: str, period: str, steps: int, scale: int) -> ReleasePlan:
    """A release of counts; the scale of its noise says which draws these are."""
    column = Column(name="k", type="text", keys=("a", "b", "c", "d"))
    table = Table(name="people", account="people", source=Source(file="x.csv", format="csv"), columns=(column,))
    made = tuple(
        Step(
            id=f"s{k}",
            answers=(),
            aggregate=BoundedAggregate(table="people", by=("k",), quantity=Quantity(kind="rows")),
            mechanism="discrete_gaussian",
            sensitivity=Sensitivity.of_one_cell(1),
            scale=Fraction(scale + k % 7),
            share=Fraction(1, steps),
            cells=CELLS,
        )
        for k in range(steps)
    )
    return ReleasePlan(
        release=ReleaseInfo(name=name, period=period),
        spec_fingerprint="spec",
        unit=PrivacyUnit(entity="person"),
        neighboring=Neighboring.ADD_REMOVE,
        budget=Budget(epsilon=Fraction(1), delta=Fraction(1, 10**9)),
        accounting="zcdp",
        accounts=(PEOPLE,),
        catalog=Catalog(tables={"people": table}),
        queries=(),
        steps=made,
        loss={"zcdp": Loss(epsilon=Fraction(1), delta=Fraction(1, 10**9))},
        certified="zcdp",
        outputs=(),
        publish=Publish(),
    )


def charge(made: ReleasePlan) -> Charge:
    return Charge(account=PEOPLE, events=made.cost_of(PEOPLE), cap=PEOPLE.lifetime)


def build(ledger: SQLiteLedger, releases: int, steps: int, *, sourced: bool) -> None:
    """So many finished releases, by the program's own writers, a few hundred releases in one transaction."""
    ledger.open_account(PEOPLE, "bench")
    like = {scale: plan("r0", "0", steps, scale) for scale in (400, 500)}
    costs = {scale: charge(made) for scale, made in like.items()}
    for start in range(0, releases, 200):
        # The one shortcut here: the inside of a ledger is used, so that many releases are one transaction.
        with ledger._writing(make=True, point="bench") as write:
            for number in range(start, min(start + 200, releases)):
                scale = 500 if number % 2 else 400
                add(write, like[scale], costs[scale], f"r{number}", sourced=sourced)


def add(write: Write, like: ReleasePlan, asked: Charge, name: str, *, sourced: bool) -> None:
    at, by = "2024-01-01T00:00:00Z", this_process("bench")
    info = like.release.model_copy(update={"name": name})
    text = like.model_copy(update={"release": info}).canonical()
    mark = sha256(text.encode())
    charged, refused = assess_charges(write.state, [asked], "0")
    if refused:
        raise RuntimeError("the cap of the bench is too low")
    body = partial(
        Reserved,
        release=name,
        period="0",
        plan_fingerprint=mark,
        spec_fingerprint="spec",
        charges=charged,
        environment={"dprelease": "1", "python": "3.12.0", "duckdb": "1.0.0"},
        at=at,
        by=by,
    )
    write.keep(text.encode())
    write.keep_value(asked.events)
    entry = write.rebalance(body, {each.facts.name: each for each in charged}, charged_balance)
    write.index_reservation(entry, name, "0", mark, None)
    facts = {"release": name, "period": "0", "plan": mark}
    if sourced:
        tables = {"tables": {"people": (sha256(name.encode()),)}, "accounts": {"people": "people"}}
        read = write.append(partial(Sourced, **facts, reservation=entry.sequence, **tables, key="k", at=at, by=by))
        write.rows.execute("INSERT INTO sources VALUES (?, ?)", (read.sequence, entry.sequence))
    for step in like.steps:
        digest = write.keep(Measurement(step.id, values(name, step.id)).to_bytes())
        measured = write.append(partial(StepMeasured, **facts, step=step.id, cells=CELLS, digest=digest, at=at))
        write.index_measurement(measured, StepKey(name, "0", mark, step.id), digest)
    closed = write.append(partial(Closed, **facts, reservation=entry.sequence, manifest=mark, at=at))
    write.end(entry.sequence, closed, "close")


def values(name: str, step: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Some numbers; nothing here is secret."""
    return np.frombuffer(bytes.fromhex(sha256(f"{name}/{step}".encode()))[: 8 * CELLS], dtype="<i8").copy()


def timed(run: Callable[[], object], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        found.append(1000 * (time.perf_counter() - started))
    return found


def reserve(ledger: SQLiteLedger, plans: Iterator[ReleasePlan]) -> None:
    made = next(plans)
    ledger.reserve(made, [charge(made)])


def measure(folder: Path, releases: int, steps: int, *, sourced: bool, rounds: int) -> None:
    from dprelease.release.records.status import status_facts

    path, anchor = folder / "state" / "ledger.db", folder / "anchors" / "head.json"
    ledger = SQLiteLedger(path, [anchor])
    started = time.perf_counter()
    build(ledger, releases, steps, sourced=sourced)
    length = sum(1 for _ in ledger.entries())
    print(f"{length} entries: {releases} releases of {steps} step(s); made in {time.perf_counter() - started:.0f} s")

    def status() -> None:
        fresh = SQLiteLedger(path, [anchor])
        status_facts(fresh, {"people": PEOPLE})
        fresh.disconnect()

    def check() -> None:
        fresh = SQLiteLedger(path, [anchor])
        if found := fresh.check():
            raise RuntimeError(f"the bench made a ledger that is not sound: {found[:3]}")
        fresh.disconnect()

    # Plans are made before the clock starts: a reservation is what is measured.
    ready = iter([plan(f"n{k}", "0", steps, 400) for k in range(max(20, rounds))])
    shown = {
        "status": timed(status, rounds),
        "check": timed(check, rounds),
        "reserve": timed(partial(reserve, ledger, ready), max(20, rounds)),
    }
    for name, times in shown.items():
        middle, limit = statistics.median(times), LIMITS[name]
        words = f"min {min(times):9.1f}  median {middle:9.1f}  max {max(times):9.1f} ms, limit {limit:.0f} ms"
        print(f"  {name:8} {words}  {'ok' if middle < limit else 'OVER'}")
    ledger.disconnect()


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for steps, sourced in ((98, False), (1, True)):
        releases = entries // (100 if steps == 98 else 4)
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), releases, steps, sourced=sourced, rounds=rounds)
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
