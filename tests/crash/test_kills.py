"""A release that is killed at random moments goes on, and nobody ever sees two answers.

Results are added to the file that DPRELEASE_CRASH_RESULTS names, so that kills of the same code add up over runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.campaign import Campaign, Flavour
from tests.crash.nursery import Nursery
from tests.crash.victim import FULL, SMALL


def _out(tmp_path: Path) -> Path:
    return Path(os.environ.get("DPRELEASE_CRASH_RESULTS") or tmp_path / "kills.jsonl")


@pytest.mark.slow
def test_a_killed_release_goes_on(nursery: Nursery, tmp_path: Path) -> None:
    """Few random moments: test_points kills at every point of a release."""
    assert Campaign(nursery, tmp_path, tmp_path / "kills.jsonl", SMALL).run("direct", 4) == []


@pytest.mark.slow
def test_one_of_two_is_killed(nursery: Nursery, tmp_path: Path) -> None:
    assert Campaign(nursery, tmp_path, tmp_path / "kills.jsonl", SMALL).run("pair", 2) == []


@pytest.mark.slow
def test_a_killed_series_goes_on(nursery: Nursery, tmp_path: Path) -> None:
    """Every period has one draw and one charge, whatever was killed before it and while earlier periods were read again."""
    assert Campaign(nursery, tmp_path, tmp_path / "kills.jsonl").run("series", 15) == []


@pytest.mark.nightly
@pytest.mark.parametrize(("flavour", "kills"), [("direct", 1000), ("pair", 200), ("prefect", 20), ("series", 100)])
def test_many_kills(nursery: Nursery, tmp_path: Path, flavour: Flavour, kills: int) -> None:
    assert Campaign(nursery, tmp_path, _out(tmp_path), FULL).run(flavour, kills) == []
