"""The text of a grouping: what was written before there was ``complete`` is written still, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.plan.document import PlannedQuery

ROWS = Quantity(kind="rows")
BEFORE = (
    '{"by":["k"],"excluding":null,"max_groups":null,"max_rows_per_group":null,"min_units":null,"private":false,'
    '"table":"t","where":null}'
)
KINDS: list[tuple[type[Grouping], dict[str, Any]]] = [
    (Grouping, {}),
    (BoundedAggregate, {"quantity": ROWS}),
    (PlannedQuery, {"name": "q", "title": "Q", "measures": {}, "inputs": {}}),
]


@pytest.mark.parametrize(("kind", "more"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
def test_without_complete_nothing_says_so(kind: type[Grouping], more: dict[str, Any]) -> None:
    """Stored plans keep their fingerprints."""
    made = kind(table="t", by=("k",), **more)
    assert "complete" not in json.loads(made.canonical())
    assert "complete" not in made.model_dump()
    assert made.grouping.canonical() == BEFORE
    assert kind.from_canonical(made.canonical()) == made
    assert made.model_copy(update={"complete": ()}).fingerprint() == made.fingerprint()


@pytest.mark.parametrize(("kind", "more"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
def test_with_it_the_names_are_written_in_one_order(kind: type[Grouping], more: dict[str, Any]) -> None:
    made = [kind(table="t", by=("k",), complete=names, **more) for names in (("b", "a"), ("a", "b", "a"))]
    assert json.loads(made[0].canonical())["complete"] == ["a", "b"]
    assert made[0] == made[1]
    assert kind.from_canonical(made[0].canonical()) == made[0]
    assert made[0].grouping == Grouping(table="t", by=("k",), complete=("a", "b"))
    assert made[0].fingerprint() != kind(table="t", by=("k",), **more).fingerprint()
