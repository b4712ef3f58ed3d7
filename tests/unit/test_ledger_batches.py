"""Answers of a batch are committed in one transaction: all or none, and the first commit of each step wins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.failpoints import EVENT
from tests.ledgers import SQLiteLedger, answer, charges, key, plan

STEPS = ("a", "b", "c")


class Dies(BaseException):
    """The end of the process."""


_armed: list[tuple[str, int]] = []


def _watch(event: str, told: tuple[Any, ...]) -> None:
    """An audit hook stays for ever: it does nothing while nothing is armed."""
    if event != EVENT or not _armed or told[0] != _armed[0][0]:
        return
    point, left = _armed.pop()
    if left == 1:
        raise Dies
    _armed.append((point, left - 1))


sys.addaudithook(_watch)


def begun(folder: Path) -> tuple[SQLiteLedger, Any]:
    made = plan(steps=dict.fromkeys(STEPS, "people"))
    ledger = SQLiteLedger(folder / "ledger.db")
    kept = ledger.reserve(made, charges(made))
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": ("hash",)}, "key")
    return ledger, kept


def values(found: dict[Any, Any]) -> dict[str, int]:
    return {at.step: int(each.values[0]) for at, each in found.items()}


@pytest.mark.parametrize(
    ("point", "hit"),
    [("commit.begun", 1), *((f"commit.{name}", at) for name in ("stored", "appended", "indexed") for at in (1, 2, 3))],
)
def test_who_dies_before_the_commit_leaves_no_answer_and_after_it_all(tmp_path: Path, point: str, hit: int) -> None:
    ledger, kept = begun(tmp_path)
    keys = [key(kept, step) for step in STEPS]
    _armed.append((point, hit))
    with pytest.raises(Dies):
        ledger.commit_all({at: answer(at.step, 1) for at in keys})
    ledger.disconnect()
    another = SQLiteLedger(tmp_path / "ledger.db")
    assert another.stored_all(keys) == {}
    assert values(another.commit_all({at: answer(at.step, 2) for at in keys})) == dict.fromkeys(STEPS, 2)
    assert another.check() == ()


@pytest.mark.parametrize("point", ["commit.committed", "commit.anchored", "commit.read"])
def test_who_dies_behind_the_commit_has_committed_all(tmp_path: Path, point: str) -> None:
    ledger, kept = begun(tmp_path)
    keys = [key(kept, step) for step in STEPS]
    _armed.append((point, 1))
    with pytest.raises(Dies):
        ledger.commit_all({at: answer(at.step, 1) for at in keys})
    ledger.disconnect()
    another = SQLiteLedger(tmp_path / "ledger.db")
    assert values(another.commit_all({at: answer(at.step, 2) for at in keys})) == dict.fromkeys(STEPS, 1)


def test_of_every_step_the_first_commit_wins(tmp_path: Path) -> None:
    ledger, kept = begun(tmp_path)
    ledger.commit(key(kept, "b"), answer("b", 1))
    drawn = {key(kept, step): answer(step, 2) for step in STEPS}
    assert values(ledger.commit_all(drawn)) == {"a": 2, "b": 1, "c": 2}
    assert values(ledger.stored_all(drawn)) == {"a": 2, "b": 1, "c": 2}
    assert sum(entry.kind == "measure" for entry in ledger.entries()) == 3


def test_one_answer_of_no_step_of_the_plan_lets_none_be_stored(tmp_path: Path) -> None:
    ledger, kept = begun(tmp_path)
    with pytest.raises(BrokenPromiseError, match="no such step"):
        ledger.commit_all({key(kept, "a"): answer("a"), key(kept, "x"): answer("x")})
    assert ledger.measured(kept.release, kept.period, kept.plan_fingerprint) == frozenset()
    assert ledger.check() == ()
