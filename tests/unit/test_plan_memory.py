"""The memory that a plan says a release takes, and what is worked out once however many cells there are."""

from __future__ import annotations

import pickle

import pytest

from bench.cells import release
from dprelease.catalog.table import Column
from dprelease.errors import PublishError
from dprelease.plan.document import Publish, ReleasePlan
from dprelease.plan.explain.memory import memory_of
from dprelease.publish.columns import check_queries
from dprelease.spec.text.names import listed, shown
from tests.unit import publish_example


def _plan(cells: int, *formats: str) -> ReleasePlan:
    plan, _ = release(cells)
    return plan.model_copy(update={"publish": Publish.model_validate({"formats": formats or ("csv", "parquet")})})


def test_the_memory_of_a_release_grows_with_its_cells_alone() -> None:
    small, large, larger = (memory_of(_plan(cells)) for cells in (10_000, 500_000, 1_000_000))
    assert small.draw < large.draw < larger.draw
    assert small.publish < large.publish < larger.publish
    assert larger.publish - large.publish == pytest.approx(large.publish - small.publish, rel=0.05)


def test_files_of_more_numbers_than_stay_in_memory_take_no_more_of_it() -> None:
    """They wait on a disk; JSON, which does not, goes on taking it."""
    whole, twice = _plan(1_000_000), _plan(2_000_000)
    assert memory_of(twice).publish - memory_of(whole).publish < 0.6 * (memory_of(whole).publish - 450)
    held = [memory_of(_plan(cells, "csv", "json")).publish - memory_of(_plan(cells, "csv")).publish
            for cells in (1_000_000, 2_000_000)]  # fmt: skip
    assert held[1] == pytest.approx(2 * held[0], abs=1)


def test_every_format_that_holds_all_cells_takes_memory() -> None:
    alone, both = memory_of(_plan(1_000_000, "csv")), memory_of(_plan(1_000_000, "csv", "parquet"))
    assert alone.publish < both.publish
    assert alone.draw == both.draw


def test_keys_that_noise_decides_are_left_out() -> None:
    plan = _plan(1_000_000)
    (query,) = plan.queries
    hidden = plan.model_copy(update={"queries": (query.model_copy(update={"private": True}),)})
    assert memory_of(hidden).publish < memory_of(plan).publish


def test_a_copy_of_a_value_that_differs_has_a_fingerprint_of_its_own() -> None:
    column = Column(name="node", type="text", keys=("a", "b"))
    first = column.fingerprint()
    other = column.model_copy(update={"keys": ("a", "c")})
    assert other.fingerprint() != first == column.fingerprint()
    assert other.fingerprint() == Column(name="node", type="text", keys=("a", "c")).fingerprint()
    assert pickle.loads(pickle.dumps(column)).fingerprint() == first


def test_a_key_that_no_file_can_hold_is_refused_wherever_it_is() -> None:
    plan = publish_example.plan()
    table = publish_example.table()
    (query, *_) = [each for each in plan.queries if each.by]
    name = query.by[0]
    wrong = tuple(
        column.model_copy(update={"keys": ("\ud800",), "type": "text"}) if column.name == name else column
        for column in table.columns
    )
    tables = {query.table: table.model_copy(update={"columns": wrong})}
    catalog = plan.catalog.model_copy(update={"tables": {**plan.catalog.tables, **tables}})
    with pytest.raises(PublishError, match="no text that a file can hold"):
        check_queries(plan.model_copy(update={"catalog": catalog}))


def test_names_are_shown_as_they_are_but_for_signs_that_do_not_print() -> None:
    assert shown("sex") == "sex"
    assert shown("a\nb") == "a\\nb"
    assert shown("x" * 61) == "x" * 60 + "..."
    assert listed(str(at) for at in range(14)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 2 more"
