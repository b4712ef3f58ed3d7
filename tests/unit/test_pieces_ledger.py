"""What a ledger holds of draws in pieces: each committed once in its shape, all of them from one state of the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError, LedgerError
from dprelease.ledger import StepKey
from dprelease.noise import Measurement
from dprelease.release.data.sources import SourceKey
from tests.pieces import KINDS, committed, identity, planned
from tests.unit.test_draw import reserved


def test_a_release_is_closed_when_every_piece_is_measured(tmp_path: Path) -> None:
    plan = planned(KINDS["residuals"])
    ledger, names = reserved(plan, tmp_path), list(plan.numbers)
    last = next(name for name in reversed(names) if ".piece-" in name)
    committed(plan, ledger, [name for name in names if name != last])
    with pytest.raises(BrokenPromiseError, match=rf"1 steps have no measurement, the first is {last}") as caught:
        ledger.close(*identity(plan), "digest")
    assert caught.value.code == "DPR-L903"
    committed(plan, ledger, [last])
    assert ledger.measured(*identity(plan)) == frozenset(names)
    ledger.close(*identity(plan), "digest")
    assert ledger.check() == ()


def test_a_piece_is_committed_once_in_its_shape_and_under_no_other_name(tmp_path: Path) -> None:
    plan = planned(KINDS["residuals"])
    ledger = reserved(plan, tmp_path)
    step, pieces = next(iter(plan.pieces.items()))
    one, two = (piece.id(step) for piece in pieces)
    assert plan.numbers[one] != plan.numbers[two]
    cells = plan.numbers[one] or 0
    wrong = {
        "the whole step": (step, plan.step(step).numbers or 0),
        "a piece too many": (f"{step}.piece-3", cells),
        "the shape of another": (one, plan.numbers[two] or 0),
        "the name of another": (two, cells),
    }
    for name, numbers in wrong.values():
        with pytest.raises(BrokenPromiseError) as caught:
            ledger.commit(StepKey(*identity(plan), name), Measurement(name, np.zeros(numbers, dtype=np.int64)))
        assert caught.value.code == "DPR-L900"
    first = ledger.commit(StepKey(*identity(plan), one), Measurement(one, np.arange(cells)))
    second = ledger.commit(StepKey(*identity(plan), one), Measurement(one, np.arange(cells) + 1))
    assert first.values.tolist() == second.values.tolist() == list(range(cells))
    assert ledger.measured(*identity(plan)) == {one}


def test_changed_data_are_accepted_only_between_whole_steps(tmp_path: Path) -> None:
    plan = planned(KINDS["residuals"])
    ledger, key = reserved(plan, tmp_path), SourceKey(bytes(32))
    step, pieces = next(iter(plan.pieces.items()))
    one, two = (piece.id(step) for piece in pieces)

    def read(what: str, accept: str = "") -> None:
        ledger.source(*identity(plan), {"persons": (what,)}, key.id, accepted=accept)

    read("as it was")
    read("corrected", accept="nothing is measured yet")
    committed(plan, ledger, [one])
    with pytest.raises(LedgerError, match=r"has measured 1 of the 2 pieces of") as caught:
        read("corrected again", accept="another correction")
    assert caught.value.code == "DPR-L155"
    assert "--give-up" in caught.value.hint
    read("corrected", accept="not needed: they are the same")
    committed(plan, ledger, [two])
    read("corrected again", accept="the step is whole")
    committed(plan, ledger, [name for name in plan.numbers if name not in (one, two)])
    assert ledger.check() == ()


def test_a_piece_is_not_committed_by_a_process_whose_data_were_replaced(tmp_path: Path) -> None:
    """Whoever worked on it all the same, without its lock, throws the piece away; whole steps do not depend on that."""
    plan = planned(KINDS["residuals"])
    one, two = reserved(plan, tmp_path), reserved(plan, tmp_path)
    one.source(*identity(plan), {"persons": ("before",)}, "key")
    assert two.sourced(*identity(plan)) is not None
    two.source(*identity(plan), {"persons": ("after",)}, "key", accepted="a correction")
    name = next(name for name in plan.numbers if ".piece-" in name)
    with pytest.raises(LedgerError, match="read from other data meanwhile") as caught:
        committed(plan, one, [name])
    assert caught.value.code == "DPR-L150"
    assert two.measured(*identity(plan)) == frozenset()
    committed(plan, one, [name for name in plan.numbers if ".piece-" not in name])
    committed(plan, two, [name for name in plan.numbers if ".piece-" in name])
    assert two.check() == ()


def test_a_check_finds_data_that_changed_between_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ledger that another program wrote without the rule."""
    plan = planned(KINDS["residuals"])
    ledger = reserved(plan, tmp_path)
    step, (first, _) = next(iter(plan.pieces.items()))
    ledger.source(*identity(plan), {"persons": ("a",)}, "key")
    committed(plan, ledger, [first.id(step)])
    monkeypatch.setattr("dprelease.ledger.tables.sources.require_whole_steps", lambda *_: None)
    ledger.source(*identity(plan), {"persons": ("b",)}, "key", accepted="why")
    assert [each for each in ledger.check() if "between the pieces of one step" in each]
