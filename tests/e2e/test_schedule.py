"""A deployment whose clock really ticks: every period is released once, whatever is killed meanwhile.

That a package can be imported says nothing about it: with a newer SQLAlchemy Prefect imports, runs flows, and never
schedules one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.crash.schedule import Clockwork

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]


def test_the_clock_releases_every_period_once_whatever_is_killed(tmp_path: Path, empty: Path) -> None:
    clockwork = Clockwork.make(tmp_path, empty, periods=2, every=20)
    with clockwork.house:
        assert clockwork.campaign(full=False) == []


@pytest.mark.nightly
@pytest.mark.parametrize("pool", [False, True], ids=["served", "by a worker"])
def test_six_periods_every_twenty_seconds(tmp_path: Path, empty: Path, pool: bool) -> None:
    clockwork = Clockwork.make(tmp_path, empty, periods=6, every=20, pool=pool)
    with clockwork.house:
        assert clockwork.campaign(full=True) == []
