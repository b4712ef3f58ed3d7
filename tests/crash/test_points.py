"""One kill at every named point of a release: it goes on, and nobody ever sees two answers."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby, zip_longest
from pathlib import Path

import pytest

from dprelease.failpoints import POINTS
from tests.crash.child import Orders
from tests.crash.invariants import Inspector
from tests.crash.nursery import Nursery
from tests.crash.victim import SMALL, TINY, Victim
from tests.tiers import few

PERIOD = "2024"


def _orders(victim: Victim, point: str = "", hit: int = 1, reached: str = "") -> Orders:
    return Orders(str(victim.spec(PERIOD)), str(victim.note), point=point, hit=hit, reached=reached)


def _spoil(victim: Victim) -> None:
    """Damage the bundle, so that publishing again moves it aside."""
    next(victim.bundle(PERIOD).glob("tables/*.csv")).write_bytes(b"")


class Comings:
    """How often a release comes by each point: of a first run, and of one that finds its bundle spoilt."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        victim = Victim.make(folder / "counted", SMALL)
        self.first = self._count(nursery, victim, folder / "first.jsonl")
        _spoil(victim)
        self.again = self._count(nursery, victim, folder / "again.jsonl")

    def _count(self, nursery: Nursery, victim: Victim, file: Path) -> Counter[str]:
        assert nursery.finish(_orders(victim, reached=str(file))) == ""
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return Counter(json.loads(line)["point"] for line in lines)


@pytest.fixture(scope="module")
def comings(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Comings:
    return Comings(nursery, tmp_path_factory.mktemp("comings"))


def _chains(points: list[str]) -> list[list[str]]:
    """Points in chains: one of each phase, in the order of a release, so that a resumed run still comes by the next."""
    phases = [list(found) for _, found in groupby(points, key=lambda point: point.partition(".")[0])]
    return [[point for point in chain if point] for chain in zip_longest(*phases)]


def _kill(nursery: Nursery, victim: Victim, point: str, hit: int = 1) -> list[str]:
    (end,) = nursery.run(_orders(victim, point, hit))
    return [] if end.killed else [f"{point}: the run ended with {end.code} and was not killed there"]


def _finished(nursery: Nursery, victim: Victim, inspector: Inspector) -> list[str]:
    inspector.glimpse(victim, PERIOD)
    failed = nursery.finish(_orders(victim))
    inspector.glimpse(victim, PERIOD)
    return [failed] if failed else inspector.problems(victim, PERIOD)


def test_a_release_comes_by_every_point(comings: Comings) -> None:
    assert [point for point in POINTS if not comings.first[point] + comings.again[point]] == []


def _in_order(point: str) -> int:
    """Anchors are written with every commit: between the two, so that answers are still to be anchored there."""
    return POINTS.index("publish.begun") - 1 if point.startswith("anchor.") else POINTS.index(point)


def test_killed_once_at_every_point_a_release_goes_on(nursery: Nursery, comings: Comings, tmp_path: Path) -> None:
    """In chains of kills, each in a run that resumes the one before; what a chain misses has a release of its own.

    ``make test`` takes the first chain, which has a point of every phase, and one point of a spoilt bundle.
    """
    inspector, found, missed = Inspector(), {}, []
    chains = _chains(sorted((point for point in POINTS if comings.first[point]), key=_in_order))
    for chain in chains[: few(len(chains), 1)]:
        victim = Victim.make(tmp_path / "-".join(chain), TINY)
        missed += [point for point in chain if _kill(nursery, victim, point)]
        found["-".join(chain)] = _finished(nursery, victim, inspector)
    for point in missed:
        victim = Victim.make(tmp_path / point, TINY)
        found[point] = _kill(nursery, victim, point) + _finished(nursery, victim, inspector)
    again = [point for point in POINTS if not comings.first[point] and comings.again[point]]
    for point in again[: few(len(again), 1)]:
        found[point] = _killed_again(nursery, tmp_path / point, inspector, point, 1)
    assert {name: problems for name, problems in found.items() if problems} == {}


def _killed_again(nursery: Nursery, folder: Path, inspector: Inspector, point: str, hit: int) -> list[str]:
    victim = Victim.make(folder, TINY)
    before = _finished(nursery, victim, inspector)
    _spoil(victim)
    return before + _kill(nursery, victim, point, hit) + _finished(nursery, victim, inspector)


@pytest.mark.nightly
@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_one_point(nursery: Nursery, comings: Comings, tmp_path: Path, point: str, hit: int) -> None:
    if hit > 1 and hit > max(comings.first[point], comings.again[point]):
        pytest.skip("a release does not come by so often")
    inspector = Inspector()
    if comings.first[point] >= hit or not comings.again[point]:
        victim = Victim.make(tmp_path / "project")
        problems = _kill(nursery, victim, point, hit)
        inspector.glimpse(victim, PERIOD)
        problems += inspector.problems(victim)
        assert problems + _finished(nursery, victim, inspector) == []
    if comings.again[point] >= hit:
        assert _killed_again(nursery, tmp_path / "again", inspector, point, hit) == []
