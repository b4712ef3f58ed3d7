"""What the tests of engines share."""

from __future__ import annotations

import pytest

from dprelease.engines import ENGINES, NAMED
from dprelease.engines.spark import engine, kept
from tests.conformance.plain_cluster import PlainCluster


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.nightly] * (name in NAMED)) for name in ENGINES])
def kind(request: pytest.FixtureRequest) -> str:
    """The name of an engine: each of them in turn, Spark's at night."""
    return str(request.param)


@pytest.fixture(autouse=True)
def plain_cluster(monkeypatch: pytest.MonkeyPatch) -> PlainCluster:
    """No Java: the steps of Spark's tasks run in this process. What Spark does with them is tried in ``test_spark.py``."""
    cluster = PlainCluster(cores=2)  # the fewest whose numbers are added up: each task costs what it compiles
    monkeypatch.setattr(engine, "spark_context", lambda _: cluster)
    monkeypatch.setattr(kept, "on_disks", lambda parts: parts)
    return cluster
