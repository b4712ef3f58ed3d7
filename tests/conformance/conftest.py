"""What the tests of engines share."""

from __future__ import annotations

import pytest

from dprelease.engines import ENGINES


@pytest.fixture(params=ENGINES)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of an engine: each of them in turn."""
    return str(request.param)
