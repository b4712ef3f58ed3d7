"""What several of these tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Prefect's empty database is kept; the workers of one call of pytest share it."""
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if base.name.startswith("popen-") else base) / "prefect-empty"
    made.mkdir(exist_ok=True)
    return made
