"""A process that is killed between the choice of a clip and the sums clipped there: the clip stays what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.ledger import StepKey
from dprelease.plan.document import ReleasePlan
from tests.crash.child import Orders
from tests.crash.invariants import Inspector
from tests.crash.nursery import Nursery
from tests.crash.victim import FULL, Victim, opened
from tests.tiers import few

PERIOD = "2024"
CHOSEN = (
    FULL[: FULL.index("\nqueries:")]
    + """
queries:
  ages:
    table: people
    by: [region]
    measures: {total: {sum: age, clip: {private: true, within: [0, 1000000]}}}
publish: {formats: [csv]}
"""
).replace("age: {type: integer, range: [0, 120]}", "age: {type: integer, range: [0, 1000000]}")
KILLS = [("commit.committed", 1, 1), ("draw.drawn", 2, 1), ("draw.aggregated", 1, 0), ("commit.committed", 2, 2)]


def committed(victim: Victim) -> dict[str, list[int]]:
    """Every answer that the ledger has, by step."""
    _, ledger = opened(victim.folder)
    found = ledger.find("crash", PERIOD)
    assert found is not None
    plan = ReleasePlan.from_canonical(found.plan)
    keys = [StepKey("crash", PERIOD, plan.fingerprint(), step.id) for step in plan.steps]
    stored = ledger.stored_all(keys)
    ledger.disconnect()
    return {key.step: each.values.tolist() for key, each in stored.items()}


@pytest.mark.parametrize(("point", "hit", "answers"), KILLS[: few(len(KILLS), 2)])
def test_a_clip_is_chosen_once(nursery: Nursery, tmp_path: Path, point: str, hit: int, answers: int) -> None:
    """There are 233 candidates, so that a clip which is chosen again is hardly the same; and whoever goes on has it."""
    victim = Victim.make(tmp_path / "project", CHOSEN)
    (end,) = nursery.run(Orders(str(victim.spec(PERIOD)), str(victim.note), point=point, hit=hit))
    assert end.killed
    before = committed(victim)
    assert list(before) == ["ages.age-clip", "ages.age-sum"][:answers]
    assert nursery.finish(Orders(str(victim.spec(PERIOD)), str(victim.note))) == ""
    after = committed(victim)
    assert len(after) == 2
    assert before.items() <= after.items()
    inspector = Inspector()
    inspector.glimpse(victim, PERIOD)
    assert inspector.problems(victim, PERIOD) == []
