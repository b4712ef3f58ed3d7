"""What several of these tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

import dprelease as dp

from .api_project import write_project


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Prefect's empty database is kept; the workers of one call of pytest share it."""
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if base.name.startswith("popen-") else base) / "prefect-empty"
    made.mkdir(exist_ok=True)
    return made


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in a folder whose name has a blank, in which every kind of table was released by the Python API."""
    made = tmp_path_factory.mktemp("api") / "a Büro of numbers"
    outcome = dp.run(write_project(made)).outcome
    assert outcome is not None
    assert outcome.state == "published"
    return made
