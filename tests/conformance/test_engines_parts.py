"""The conformance of an engine that never has all rows of a table in memory: the same numbers from parts of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.engines.duck import engine as room
from dprelease.engines.duck import loaded
from tests.conformance import test_engines, test_engines_complete, test_engines_units, test_shared_passes
from tests.tiers import few

LAWS: dict[str, Callable[[str, st.DataObject], None]] = {
    "rows": test_engines.agrees,
    "units": test_engines_units.agrees,
    "conditions": test_shared_passes.agrees,
    "cubes": test_shared_passes.adds_up,
    "workloads": test_engines_complete.agrees,
}


@pytest.fixture(autouse=True)
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units in four parts, and a run of rows for every block of a source."""
    monkeypatch.setattr(room, "_PARTS", 4)
    monkeypatch.setattr(loaded, "_RUN", 4)


@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=few(6, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_parts_add_up_to_the_numbers_of_the_reference_engine(law: str, data: st.DataObject) -> None:
    LAWS[law]("duckdb", data)


@pytest.mark.nightly
@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=few(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_parts_add_up_to_the_numbers_of_the_reference_engine_in_full(law: str, data: st.DataObject) -> None:
    LAWS[law]("duckdb", data)


def test_only_the_last_total_is_clamped_over_parts(tmp_path: Any) -> None:
    test_shared_passes.test_only_the_last_total_is_clamped("duckdb", tmp_path)
