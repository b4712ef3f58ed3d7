"""``time:`` from a spec to a catalog; specs and plans without one keep the text that they had before there were any."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from dprelease.catalog.table import Catalog, Table, TimeFilter
from dprelease.errors import Problem, SpecError
from dprelease.plan.resolve.catalog import resolve
from dprelease.spec.load import load

from .spec_example import PLACES, SPEC, swapped

TIMED = swapped("unit_id: none", "time: {column: when, type: date}")


def catalog(text: str) -> Catalog:
    return resolve(load(text, "spec.yaml"), {"places": PLACES})


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    return list(caught.value.problems)


def test_a_time_is_the_span_of_the_period_and_its_column_need_not_be_declared() -> None:
    table = catalog(TIMED).tables["people"]

    assert table.time == TimeFilter(column="when", type="date", start=date(2024, 3, 1), end=date(2024, 4, 1))
    assert "when" not in {column.name for column in table.columns}


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("2024", "2024-01-01", "2025-01-01"),
        ("2024-Q1", "2024-01-01", "2024-04-01"),
        ("2025-W01", "2024-12-30", "2025-01-06"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
    ],
)
def test_every_kind_of_calendar_period(period: str, start: str, end: str) -> None:
    time = catalog(swapped("period: 2024-03", f"period: {period}", TIMED)).tables["people"].time

    assert time is not None
    assert (time.start, time.end) == (date.fromisoformat(start), date.fromisoformat(end))


def test_a_declared_column_of_the_same_type_may_be_the_time() -> None:
    table = catalog(swapped("unit_id: none", "time: {column: seen, type: timestamp}")).tables["people"]

    assert table.time is not None
    assert (table.time.column, table.time.type) == ("seen", table.column("seen").type)


@pytest.mark.parametrize("period", ["once", "march-2024", "2024-2025"])
def test_a_period_that_is_none_of_the_calendar_is_told_at_its_place(period: str) -> None:
    (problem,) = problems_of(swapped("period: 2024-03", f"period: {period}", TIMED))

    assert (problem.code, problem.where.line if problem.where else 0) == ("DPR-S590", 4)
    assert "2024-W09" in problem.hint


def test_a_period_that_is_left_out_is_told_at_the_release() -> None:
    (problem,) = problems_of(swapped("  period: 2024-03\n", "", TIMED))

    assert (problem.code, problem.where.line if problem.where else 0) == ("DPR-S590", 2)


def test_a_period_that_is_wrong_in_itself_is_one_problem() -> None:
    assert [problem.code for problem in problems_of(swapped("period: 2024-03", "period: 2024/03", TIMED))] == [
        "DPR-S217"
    ]


def test_two_tables_with_a_time_are_one_problem_of_the_period() -> None:
    text = swapped("period: 2024-03", "period: once", TIMED)
    start, end = text.index("  people:"), text.index("queries:")
    twice = text[:end] + text[start:end].replace("people:", "others:") + text[end:]

    assert [problem.code for problem in problems_of(twice)] == ["DPR-S590"]


def test_the_unit_id_is_no_time() -> None:
    text = swapped(
        "unit_id: none", "unit_id: person\n    bounds: {max_rows: 3}\n    time: {column: person, type: date}"
    )

    assert "DPR-S591" in [problem.code for problem in problems_of(text)]


def _names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if isinstance(value, list) else set()


def _as_before(found: Catalog) -> Catalog:
    """Without what catalogs say since then of who chose a step."""
    tables = {
        name: table.model_copy(
            update={"columns": tuple(each.model_copy(update={"step_from": None}) for each in table.columns)}
        )
        for name, table in found.tables.items()
    }
    return found.model_copy(update={"tables": tables})


def test_without_a_time_neither_spec_nor_catalog_speaks_of_it() -> None:
    """Fingerprints from before there were times: of this spec, and of its catalog."""
    assert "time" not in _names(json.loads(load(SPEC, "s").spec.canonical()))
    assert "time" not in _names(json.loads(catalog(SPEC).canonical()))
    assert load(SPEC, "s").fingerprint == "2e4616028b150e37ec64c46f6cfb7b2e0535113ad5766302bc71d5b190fcb32f"
    assert _as_before(catalog(SPEC)).fingerprint() == "9e6950108d53e64a0b4c33ab59ec6ce2b6ab2ce8a02eb4504de6f462a5a515fd"


def test_a_time_is_in_spec_and_catalog_and_is_read_back() -> None:
    before, after = (load(text, "s").fingerprint for text in (swapped("    unit_id: none\n", ""), TIMED))
    assert before != after
    for text in (SPEC, TIMED):
        made = catalog(text)
        again = Catalog.from_canonical(made.canonical())
        assert again == made
        assert again.fingerprint() == made.fingerprint()
    other = catalog(swapped("period: 2024-03", "period: 2024-04", TIMED))
    assert other.fingerprint() != catalog(TIMED).fingerprint()


def test_a_table_written_before_there_were_times_is_read() -> None:
    old = json.loads(catalog(SPEC).canonical())["tables"]["people"]

    assert Table.from_canonical(json.dumps(old)).time is None
