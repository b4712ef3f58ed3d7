"""Losing power between any two writes of a release is one more crash: it goes on, with the answers it had given."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.child import Orders
from tests.crash.disk import after, lay_down, snapshot
from tests.crash.invariants import Inspector
from tests.crash.nursery import Nursery
from tests.crash.trace import Operation, record, why_not
from tests.crash.victim import SMALL, Victim
from tests.tiers import few


@dataclass(frozen=True)
class Recorded:
    """A release as it was written, in a project that has ``earlier`` ones."""

    victim: Victim
    earlier: tuple[str, ...]
    before: dict[str, bytes | None]
    noted: bytes
    operations: list[Operation]

    @property
    def cuts(self) -> list[int]:
        """Behind which operations power is lost: all that change something, and where an answer is handed on."""
        return [number + 1 for number, each in enumerate(self.operations) if each.kind != "sync"]


PERIOD = "2024-09"


@pytest.fixture(scope="module", params=["first release", pytest.param("second release", marks=pytest.mark.nightly)])
def recorded(request: pytest.FixtureRequest, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("power")
    victim, earlier = Victim.make(folder / "project", SMALL), []
    if request.param == "second release":
        earlier.append("2024-08")
        assert nursery.finish(Orders(str(victim.spec("2024-08")), str(victim.note))) == ""
    orders = Orders(str(victim.spec(PERIOD)), str(victim.note))
    before = snapshot(victim.folder)
    noted = victim.note.read_bytes() if earlier else b""
    operations = record(orders, victim.folder, folder / "trace")
    made = Recorded(victim, tuple(earlier), before, noted, operations)
    assert sum(each.kind == "handed" for each in operations) == 3
    return made


@pytest.mark.slow
def test_the_recording_is_what_happened(recorded: Recorded) -> None:
    """Replayed to its end it leaves the files that are there."""
    now = snapshot(recorded.victim.folder)
    replayed = after(recorded.before, recorded.operations, len(recorded.operations)).in_order()
    assert {path for path in now if now[path] != replayed.get(path)} == set()
    assert now.keys() == replayed.keys()


def _lose_power(nursery: Nursery, recorded: Recorded, inspector: Inspector, count: int, seed: int | None) -> list[str]:
    victim, disk = recorded.victim, after(recorded.before, recorded.operations, count)
    files = disk.in_order() if seed is None else disk.torn(random.Random(f"{count} {seed}"))
    lay_down(victim.folder, files)
    victim.note.write_bytes(recorded.noted + b"".join(disk.handed))
    failed = nursery.finish(Orders(str(victim.spec(PERIOD)), str(victim.note)))
    return [failed] if failed else inspector.problems(victim, *recorded.earlier, PERIOD)


def _lost(nursery: Nursery, recorded: Recorded, cuts: list[tuple[int, int | None]]) -> dict[str, list[str]]:
    inspector, broken = Inspector(), {}
    for count, seed in cuts:
        if found := _lose_power(nursery, recorded, inspector, count, seed):
            last = recorded.operations[count - 1]
            broken[f"behind {count} ({last.kind} {Path(last.path).name}), seed {seed}"] = found
    return broken


def test_power_is_lost_at_some_writes(nursery: Nursery, recorded: Recorded) -> None:
    chosen = random.Random(512)
    cuts: list[tuple[int, int | None]] = [
        (count, chosen.choice((None, 0))) for count in chosen.sample(recorded.cuts, few(4, 2))
    ]
    assert _lost(nursery, recorded, cuts) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_power_is_lost_at_every_write(nursery: Nursery, recorded: Recorded, seed: int | None) -> None:
    broken = _lost(nursery, recorded, [(count, seed) for count in recorded.cuts])
    assert broken == {}, f"{len(broken)} of {len(recorded.cuts)}"
