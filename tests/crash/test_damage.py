"""A damaged write-ahead log or database is harmless or is told: no spend is forgotten in silence."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import DpReleaseError
from dprelease.ledger import Reservation, StepKey
from dprelease.plan.document import ReleasePlan
from dprelease.release.records.status import accounts_of, policy_accounts
from tests.crash.child import Orders
from tests.crash.nursery import Nursery
from tests.crash.victim import Victim, opened

STEP = 97
FLIPS = 300
_NOT_ASKED = "nothing: its reservation was not found"


@dataclass(frozen=True)
class Wreck:
    """A project whose second release was killed after some of its answers, and what its ledger then said.

    ``unseen`` are answers that were stored and that the kill kept from being handed on: they may be lost.
    """

    victim: Victim
    files: dict[Path, bytes]
    said: dict[str, Any]
    unseen: frozenset[str] = frozenset()

    @property
    def log(self) -> Path:
        """The write-ahead log."""
        return self.victim.database.with_name("ledger.db-wal")

    def put(self, path: Path, data: bytes) -> None:
        """Everything as the kill left it, but for one file. The path stays: a ledger knows where it belongs."""
        for folder in {each.parent for each in self.files}:
            for found in folder.iterdir():
                if found.is_file() and found not in self.files:
                    found.unlink()  # the shared memory of the log, which SQLite makes again
        for each, content in self.files.items():
            each.write_bytes(content if each != path else data)


def _said(victim: Victim) -> dict[str, Any]:
    """Everything that the ledger says of what was spent, charged and answered; an error is an answer too."""
    found: dict[str, Any] = {}

    def ask(what: str, question: Any) -> None:
        try:
            found[what] = question()
        except DpReleaseError as error:
            found[what] = error
        except Exception as error:  # no error of ours: nobody is told what is wrong
            found[what] = f"{type(error).__name__} with a traceback"

    try:
        project, ledger = opened(victim.folder)
    except DpReleaseError as error:
        return {"open": error}
    ask(
        "standing",
        lambda: [(each["name"], each["spent"]) for each in accounts_of(ledger.tally(), policy_accounts(project))],
    )
    for period in ("2024-01", "2024-02"):
        ask(f"find {period}", lambda period=period: ledger.find("crash", period))
        if not isinstance(reservation := found[f"find {period}"], Reservation):
            continue
        for step in ReleasePlan.from_canonical(reservation.plan).steps:
            key = StepKey("crash", period, reservation.plan_fingerprint, step.id)
            ask(f"stored {period} {step.id}", lambda key=key: getattr(ledger.stored(key), "digest", None))
    ask("check", ledger.check)
    ledger.disconnect()
    return found


@pytest.fixture(scope="module")
def wreck(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Wreck:
    victim = Victim.make(tmp_path_factory.mktemp("wreck") / "project")
    assert nursery.finish(Orders(str(victim.spec("2024-01")), str(victim.note))) == ""
    (end,) = nursery.run(Orders(str(victim.spec("2024-02")), str(victim.note), handed=1))
    assert end.killed
    inputs = {"releases"}
    kept = [each for each in victim.folder.iterdir() if each.is_dir() and each.name not in inputs]
    files = {
        each: each.read_bytes()
        for folder in kept
        for each in folder.rglob("*")
        if each.is_file() and not each.name.endswith(("-shm", ".lock"))
    }
    made = Wreck(victim, files, {})
    assert len(files[made.log]) > 20_000, "the kill left no long log"
    made.put(made.log, files[made.log])
    said = _said(victim)
    assert said["check"] == (), said["check"]
    assert any(value for name, value in said.items() if name.startswith("stored 2024-02"))
    seen = {f"stored {each.period} {each.step}" for each in victim.handed()}
    return Wreck(victim, files, said, frozenset(name for name in said if name.startswith("stored ")) - seen)


def _silent(wreck: Wreck, after: dict[str, Any]) -> list[str]:
    """What was forgotten or changed without a word."""
    if "open" in after:
        return []
    found = []
    told = bool(after["check"])  # findings, or an error
    for what, value in wreck.said.items():
        now = after.get(what, _NOT_ASKED)
        if now == value or isinstance(now, DpReleaseError) or (what == "check" and isinstance(now, tuple)):
            continue
        if now is None and what in wreck.unseen:
            continue
        # Never less spent without an error there, and never a traceback; the rest may be told by the check alone.
        if what == "standing" or not told or "traceback" in str(now):
            found.append(f"{what} says {str(now)[:80]!r}")
    return found


def _damaged(wreck: Wreck, path: Path, variants: Iterator[tuple[str, bytes]]) -> dict[str, int]:
    counts = {"harmless": 0, "told": 0}
    broken: dict[str, list[str]] = {}
    for name, data in variants:
        wreck.put(path, data)
        after = _said(wreck.victim)
        if found := _silent(wreck, after):
            broken[name] = found
        else:
            counts["harmless" if after == wreck.said else "told"] += 1
    some = dict(list(broken.items())[:5])
    assert not broken, f"{len(broken)} damages of {path.name} pass in silence, {counts}: {some}"
    print(f"{path.name}: {counts}")
    return counts


def _cuts(data: bytes, every: int) -> Iterator[tuple[str, bytes]]:
    return ((f"cut to {size}", data[:size]) for size in range(0, len(data), STEP * every))


def _flips(data: bytes, times: int) -> Iterator[tuple[str, bytes]]:
    chosen = random.Random(97)
    for _ in range(times):
        at, bit = chosen.randrange(len(data)), chosen.randrange(8)
        yield f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def _missing(wreck: Wreck) -> dict[str, Any]:
    wreck.put(wreck.log, b"")
    wreck.log.unlink()
    return _said(wreck.victim)


def test_a_log_that_is_gone_is_told(wreck: Wreck) -> None:
    assert _silent(wreck, _missing(wreck)) == []


def test_a_ledger_that_is_gone_is_told(wreck: Wreck) -> None:
    wreck.put(wreck.log, b"")
    wreck.log.unlink()
    wreck.victim.database.unlink()
    assert _silent(wreck, _said(wreck.victim)) == []


@pytest.mark.slow
@pytest.mark.parametrize("every", [29, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_cut_log_is_harmless_or_told(wreck: Wreck, every: int) -> None:
    _damaged(wreck, wreck.log, _cuts(wreck.files[wreck.log], every))


@pytest.mark.parametrize("times", [30, pytest.param(FLIPS, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", ["ledger.db-wal", "ledger.db"])
def test_a_flipped_bit_is_harmless_or_told(wreck: Wreck, name: str, times: int) -> None:
    path = wreck.victim.database.with_name(name)
    _damaged(wreck, path, _flips(wreck.files[path], times))


@pytest.mark.nightly
def test_a_cut_anchor_is_harmless_or_told(wreck: Wreck) -> None:
    anchors = [path for path in wreck.files if path.parent.name == "anchor"]
    for path in anchors:
        _damaged(wreck, path, _cuts(wreck.files[path], 1))
        _damaged(wreck, path, _flips(wreck.files[path], FLIPS))


@pytest.fixture(scope="module", autouse=True)
def _tidy(wreck: Wreck) -> Iterator[None]:
    yield
    shutil.rmtree(wreck.victim.folder, ignore_errors=True)
