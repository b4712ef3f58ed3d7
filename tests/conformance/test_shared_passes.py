"""A ``where`` of a query asked as one of each quantity gives the same numbers: what lets queries share a pass."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.expressions.expression import both_hold
from dprelease.engines import ENGINES
from dprelease.engines.declared import types
from tests.conformance.people import COUNT, answers
from tests.conformance.reference_engine import ReferenceEngine
from tests.conformance.test_engines import parts, quantities, tables
from tests.tiers import few

CONDITIONS = (
    "amount > 2.5",
    "Code = 1 OR code",
    "area IS NULL",
    "NOT (rank < 3 AND region = 's')",
    "amount / rank > 1",
    "code",
    'CASE WHEN "seen at" IS NULL THEN code ELSE Code IN (1, 2) END',
)


def agrees(kind: str, data: st.DataObject) -> None:
    """Several conditions in one pass are several passes of one condition each, by the engine and by the reference."""
    table = data.draw(tables())
    files = data.draw(parts(table))
    by = data.draw(st.lists(st.sampled_from(["area", "Code", "code", "day"]), unique=True, max_size=2).map(tuple))
    conditions = data.draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3, unique=True))
    inner = data.draw(st.sampled_from([None, *CONDITIONS]))
    asked = [each.model_copy(update={"where": inner}) for each in data.draw(st.lists(quantities(), max_size=3))]
    asked = list(dict.fromkeys([COUNT, *asked]))
    moved = [
        each.model_copy(update={"where": both_hold(where, each.where, types(table))})
        for where in conditions
        for each in asked
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine, reference = ENGINES[kind](folder, {}), ReferenceEngine(folder, {})
        together = answers(engine, table, by, moved)
        apart = [each for where in conditions for each in answers(engine, table, by, asked, where=where)]
        engine.close()
        assert together == apart
        assert together == [each for where in conditions for each in answers(reference, table, by, asked, where=where)]


@pytest.mark.parametrize("kind", ENGINES)
@settings(max_examples=few(30, 6), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_conditions_of_one_pass_are_passes_of_one_condition(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)
