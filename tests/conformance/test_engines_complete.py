"""Numbers of rows that have a key in every one of some columns: one engine asked about many tables of a workload."""

from __future__ import annotations

import random
import tempfile
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import TableBounds, Zeros
from tests.conformance.people import SECRET
from tests.conformance.test_engines_units import user_rows, visit_rows
from tests.conformance.unit_tables import WITH_USERS, asked, catalog_of, opening, users, visits, write
from tests.tiers import few

ROWS = Quantity(kind="rows")
KEYED = ["country", "day", "adult", "union", "band", "topic", "late"]
WHERE = [None, "seconds >= 0", "page = 'a' or adult"]
ZEROS = {
    "impossible": Zeros(reference="never", columns=("country", "late"), cells=(0, 3)),
    "nobody": Zeros(reference="never", columns=("late", "band", "country"), cells=(1, 2, 5)),
}


@st.composite
def workloads(draw: st.DrawFn, lent: bool) -> list[Grouping]:
    """Tables that count the same rows, now and then one over a column beyond them, or with bounds of its own."""
    names = [*KEYED, *(["tenure"] if lent else [])]
    complete = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)))
    common: dict[str, Any] = {"table": "visits", "complete": complete, "where": draw(st.sampled_from(WHERE))}
    zeros = ("impossible", *(each for each in ("nobody",) if "band" in complete))
    if {"country", "late"} <= set(complete):
        common["zeros"] = draw(st.sampled_from((None, *zeros)))
    asked = [Grouping(by=tuple(by), **common) for by in draw(st.lists(st.permutations(complete), max_size=1))]
    asked += [Grouping(by=each.by[:-1], **common) for each in asked]
    other = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    left_out = common.get("zeros") if common.get("zeros") == "impossible" else "some"
    return [*asked, Grouping(by=tuple(other), **common), Grouping(by=("country", "late"), excluding=left_out, **common)]


def agrees(kind: str, data: st.DataObject) -> None:
    shape, lent = data.draw(st.sampled_from(["csv", "parquet"])), data.draw(st.booleans())
    of_units: dict[str, Any] = {
        "null_id": data.draw(st.sampled_from(["drop", "unit"])),
        "bounds": data.draw(st.sampled_from([None, TableBounds(max_rows=1), TableBounds(max_rows=3)])),
        "private_joins": WITH_USERS if lent else (),
    }
    mine = visits(shape, **of_units) if lent or data.draw(st.booleans()) else visits(shape, unit_id=None)
    catalog = catalog_of(mine, users(shape), exclusions={"some": (1, 4)}, zeros=ZEROS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, mine, data.draw(visit_rows("text")), parts=data.draw(st.integers(1, 2)))
        write(folder, catalog.tables["users"], data.draw(user_rows("text")))
        with opening(kind, folder) as engine, opening("reference", folder) as reference:
            for grouping in data.draw(workloads(lent)):
                expected = asked(reference, catalog, grouping, [ROWS])
                assert asked(engine, catalog, grouping, [ROWS, ROWS]) == expected * 2
            if mine.unit_id is not None:
                bounded = grouping.model_copy(update={"max_rows_per_group": 1})
                assert asked(engine, catalog, bounded, [ROWS]) == asked(reference, catalog, bounded, [ROWS])


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_tables_of_a_workload_are_those_of_the_reference_engine(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


@pytest.mark.nightly
@settings(max_examples=few(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_tables_of_a_workload_are_those_of_the_reference_engine_in_full(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


def made_rows(count: int) -> list[list[Any]]:
    draw = random.Random(5)
    return [
        [
            draw.choice(["u1", "u2", "u3", "u4", None]),
            draw.choice(["DE", "FR", "US", "XX", None]),
            draw.choice("abA"),
            draw.choice(["2024-02-29", "2024-03-01", None, "1999-01-01"]),
            draw.randrange(-60, 120),
            1.5,
            draw.choice([True, False, None]),
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("unit", [None, "user"])
def test_the_tables_of_a_workload_add_up_to_one_another(kind: str, unit: str | None, tmp_path: Path) -> None:
    """Without ``complete`` they would not: each would drop the rows that have no key in its own columns alone."""
    table = visits(unit_id=unit)
    write(tmp_path, table, made_rows(400))
    names, catalog = ("adult", "country", "day"), catalog_of(table)
    with opening(kind, tmp_path) as engine:
        totals = {
            (complete, by): sum(asked(engine, catalog, Grouping(table="visits", by=by, complete=complete), [ROWS])[0])
            for complete in ((), names)
            for size in range(4)
            for by in combinations(names, size)
        }
    assert len({total for (complete, _), total in totals.items() if complete}) == 1
    assert len({total for (complete, _), total in totals.items() if not complete}) > 3


@pytest.mark.parametrize("unit", [None, "user"])
def test_rows_with_an_impossible_combination_are_in_no_table_whatever_its_columns(
    kind: str, unit: str | None, tmp_path: Path
) -> None:
    """All tables have one total, which is less by the rows of the listed combinations; their own cells are 0."""
    table, names = visits(unit_id=unit), ("adult", "country", "day")
    write(tmp_path, table, made_rows(400))
    catalog = catalog_of(table, zeros={"never": Zeros(reference="never", columns=("country", "adult"), cells=(1, 2))})
    found = {}
    with opening(kind, tmp_path) as engine:
        for zeros in (None, "never"):
            for by in (each for size in range(4) for each in combinations(names, size)):
                grouping = Grouping(table="visits", by=by, complete=names, zeros=zeros)
                found[zeros, by] = asked(engine, catalog, grouping, [ROWS])[0]
        cells = Grouping(table="visits", by=("country", "adult"), complete=names, zeros="never", excluding="never")
        (some,) = asked(engine, catalog, cells, [ROWS])
        assert len(some) == 4
    before = found[None, ("adult", "country")]
    adult = [before[at] for at in range(6)]  # adult is the first of the two: its keys change every three cells
    gone = adult[3] + adult[1]  # country 0 with adult 1, and country 1 with adult 0
    assert gone > 10
    assert {sum(each) for (zeros, _), each in found.items() if zeros is None} == {sum(before)}
    assert {sum(each) for (zeros, _), each in found.items() if zeros is not None} == {sum(before) - gone}
    after = found["never", ("adult", "country")]
    assert [after[1], after[3]] == [0, 0]
    assert sum(some) == sum(after)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("unit", [None, "user"])
def test_impossible_combinations_are_left_out_of_every_other_number_as_well(
    kind: str, unit: str | None, tmp_path: Path
) -> None:
    """Sums, and counts under a bound of the query, are of the very rows that the tables of a workload count."""
    table, names = visits(unit_id=unit), ("adult", "country", "day")
    write(tmp_path, table, made_rows(400))
    catalog = catalog_of(table, zeros={"never": Zeros(reference="never", columns=("country", "adult"), cells=(1, 2))})
    asks = [ROWS, Quantity(kind="sum", column="seconds", low=0, high=100), Quantity(kind="distinct", column="page")]
    bounds: list[dict[str, Any]] = [{}, *([{"max_rows_per_group": 3}, {"max_groups": 1}] if unit else [])]
    with opening(kind, tmp_path) as engine, opening("reference", tmp_path) as reference:
        for by, bound in product((("adult",), ("country", "adult"), ("union",)), bounds):
            grouping = Grouping(table="visits", by=by, complete=names, zeros="never", **bound)
            found = asked(engine, catalog, grouping, asks)
            assert found == asked(reference, catalog, grouping, asks)
            assert found != asked(engine, catalog, grouping.model_copy(update={"zeros": None}), asks)


def test_one_unit_moves_the_tables_of_a_workload_by_no_more_rows_than_it_has(kind: str, tmp_path: Path) -> None:
    """With one unit's rows taken out each table falls by at most ``max_rows``, in all, whatever else is there."""
    table, rows = visits(bounds=TableBounds(max_rows=3)), made_rows(60)
    names = ("adult", "country", "day")
    catalog = catalog_of(table, zeros={"never": Zeros(reference="never", columns=("country", "adult"), cells=(1, 2))})
    write(tmp_path / "with", table, rows)
    write(tmp_path / "without", table, [row for row in rows if row[0] != "u2"])
    with opening(kind, tmp_path / "with") as full, opening(kind, tmp_path / "without") as less:
        for by, zeros in product(((), ("day",), ("country", "adult"), names), (None, "never")):
            grouping = Grouping(table="visits", by=by, complete=names, zeros=zeros, where="seconds >= 0")
            before, after = (asked(engine, catalog, grouping, [ROWS], secret=SECRET)[0] for engine in (less, full))
            change = [new - old for old, new in zip(before, after, strict=True)]
            assert min(change) >= 0
            assert sum(change) <= 3
