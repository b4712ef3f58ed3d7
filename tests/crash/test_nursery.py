"""The harness of kills by itself: a child is hung where it computes nothing, and not where the machine is busy."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.crash import nursery
from tests.crash.child import Orders


def _computing(_: Orders) -> int:
    end = time.process_time() + 0.15
    while time.process_time() < end:
        pass
    return 0


def _waiting(_: Orders) -> int:
    time.sleep(30)
    return 0


@pytest.mark.parametrize(("child", "code"), [(_computing, 0), (_waiting, -signal.SIGUSR1)])
def test_a_child_that_computes_nothing_is_hung(
    monkeypatch: pytest.MonkeyPatch, child: Callable[[Orders], int], code: int
) -> None:
    for name, value in (("run", child), ("_HUNG", 0.5), ("_LOOK", 0.02)):
        monkeypatch.setattr(nursery, name, value)

    (end,) = nursery._ends([Orders("", "")], 0, None)

    assert end.code == code
    assert not end.killed  # a kill that was asked for is another thing
