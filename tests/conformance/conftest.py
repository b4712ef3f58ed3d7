"""What the tests of engines share."""

from __future__ import annotations

import pytest

from dprelease.engines import ENGINES
from dprelease.engines.spark import engine
from tests.conformance.plain_cluster import PlainCluster


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.nightly] * (name == "spark")) for name in ENGINES])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an engine: each of them in turn; Spark's on a cluster without Java, at night."""
    if request.param == "spark":
        monkeypatch.setattr(engine, "spark_context", lambda _: PlainCluster())
    return str(request.param)
