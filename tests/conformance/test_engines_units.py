"""Units with many rows: every engine gives the reference engine's numbers, whatever the bounds, ids and joins."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import PrivateJoin, TableBounds
from dprelease.errors import Unsupported
from tests.conformance.people import SECRET, opened
from tests.conformance.unit_tables import (
    REFERENCES,
    WITH_USERS,
    asked,
    bounds,
    catalog_of,
    hidden,
    opening,
    partitioned,
    quantities,
    table_bounds,
    users,
    visits,
    write,
)
from tests.tiers import few

IDS: dict[str, list[Any]] = {
    "text": ["1", "01", " 1", "1.0", "true", "TRUE", "a", "A", "ä", "a\u0308", " ", "x'y", None, None],
    "integer": ["1", "01", " 1", "1.0", "10e-1", "+1", "-0", "0", "2", "true", "1.5", "9" * 30, None],
    "boolean": ["1", "true", " T", "0", "FALSE", "yes", None],
    "date": ["2024-02-29", " 2024-02-29", "2023-02-29", "20240229", None],
}
COUNTRIES, PAGES = ["DE", "FR", "US", "de", None], ["a", "b", "A", "c", 'say "x"', None]
DAYS = ["2024-02-29", "2024-03-01", "2023-02-29", None]
SECONDS = ["-60", "-50", "-7", "0", "3", "10", "10.0", "11", "24.5", "40", "99", "100", "1e9", "x", None]
AMOUNTS = ["-1e308", "-1000", "-3.125", "-0.0", "0.125", "2.5", "99.9", "1000", "1001", "inf", None]
ADULTS = ["true", "F", "1", "2", None]
TENURES = ["1", "2", "3", "7", None]


@st.composite
def visit_rows(draw: st.DrawFn, unit: str) -> list[list[Any]]:
    ids = draw(st.lists(st.sampled_from(IDS[unit]), min_size=1, max_size=4))
    row = st.tuples(*(st.sampled_from(each) for each in (ids, COUNTRIES, PAGES, DAYS, SECONDS, AMOUNTS, ADULTS)))
    rows = draw(st.lists(row, max_size=14))
    again = draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []  # rows that are equal in everything
    return [list(each) for each in [*rows, *again]]


@st.composite
def user_rows(draw: st.DrawFn, unit: str) -> list[list[Any]]:
    row = st.tuples(*(st.sampled_from(each) for each in (IDS[unit], TENURES, DAYS)))
    return [list(each) for each in draw(st.lists(row, max_size=10))]


@st.composite
def groupings(draw: st.DrawFn, lent: bool) -> dict[str, Any]:
    names = ["country", "day", "adult", "union", "band", "topic", "late", *(["tenure"] if lent else [])]
    where = ["seconds >= 0", "page = 'a' or adult", "not (amount < 0)", *(["tenure = 1"] if lent else [])]
    return {
        "by": tuple(draw(st.lists(st.sampled_from(names), unique=True, max_size=2))),
        "complete": tuple(draw(st.one_of(st.just([]), st.lists(st.sampled_from(names), max_size=3)))),
        "where": draw(st.sampled_from([None, *where])),
        **draw(st.sampled_from(bounds())),
    }


def agrees(kind: str, data: st.DataObject) -> None:
    shape, unit = data.draw(st.sampled_from(["csv", "parquet"])), data.draw(st.sampled_from([*IDS]))
    lent, null_id = data.draw(st.booleans()), data.draw(st.sampled_from(["drop", "unit"]))
    some = table_bounds()
    mine = visits(
        shape, unit, null_id=null_id, bounds=data.draw(st.sampled_from(some)), private_joins=WITH_USERS if lent else ()
    )
    theirs = users(shape, data.draw(st.sampled_from([unit, "text"])), bounds=data.draw(st.sampled_from(some[:3])))
    if unit == "text" and data.draw(st.booleans()):
        mine = hidden(mine)
    paths = [("country",), ("day", "adult"), ("page", "seconds"), ("user",)]
    mine = partitioned(mine, *data.draw(st.sampled_from([(), (), *paths[: 3 + (mine.named.get("user") is not None)]])))
    catalog = catalog_of(mine, theirs)
    grouping = Grouping(table="visits", **data.draw(groupings(lent)))
    every = quantities()
    some_of_them = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, mine, data.draw(visit_rows(unit)), parts=data.draw(st.integers(1, 2)))
        write(folder, theirs, data.draw(user_rows(unit)))
        with opening(kind, folder) as engine, opening("reference", folder) as reference:
            expected = asked(reference, catalog, grouping, some_of_them)
            assert asked(engine, catalog, grouping, some_of_them) == expected


@settings(max_examples=few(8, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_engine_bounds_units_as_the_reference_engine_does(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


@pytest.mark.nightly
@settings(max_examples=few(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_engine_bounds_units_as_the_reference_engine_does_in_full(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


ROWS = [
    [user, country, page, "2024-02-29", seconds, amount, adult]
    for at, (user, country, page) in enumerate(product(["1", "2", "2", None], ["DE", "FR", "US"], ["a", "b"]))
    for seconds, amount, adult in [(at * 5 - 9, at - 7.5, at % 3 == 0), (99 - at, at / 8, True)]
]


# What becomes of a unit without an id, with every bound of the table: each of both on every commit, all at night.
BOUNDED = [
    pytest.param(null_id, most, marks=[pytest.mark.nightly] if (at + most) % 2 else [])
    for at, null_id in enumerate(("drop", "unit"))
    for most in range(5)
]


@pytest.mark.thin(first=2)
@pytest.mark.parametrize(("null_id", "most"), BOUNDED)
def test_every_quantity_under_every_bound(kind: str, null_id: str, most: int, tmp_path: Path) -> None:
    table = visits(null_id=null_id, bounds=table_bounds()[most])
    catalog = catalog_of(table, exclusions={"some": (1, 4)})
    write(tmp_path, table, ROWS)
    with opening(kind, tmp_path) as engine, opening("reference", tmp_path) as reference:
        for bound, by, excluding in (
            (bounds()[most], ("country", "late"), "some"),
            (bounds()[8 - most], (), None),
            (bounds()[8], ("topic", "band"), None),
        ):
            grouping = Grouping(table="visits", by=by, excluding=excluding, **bound)
            expected = asked(reference, catalog, grouping, quantities())
            assert asked(engine, catalog, grouping, quantities()) == expected


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("by", [("page",), ("page", "country"), ("day", "page"), ("topic", "adult")])
def test_keys_that_occur_and_what_is_in_them(kind: str, by: tuple[str, ...], tmp_path: Path) -> None:
    table = visits(null_id="unit", bounds=TableBounds(max_rows=9))
    catalog = catalog_of(table)
    pages = ["a", "B", "b", "ä", "10", "9", "", " ", "a\u0308", "'; --", "\U0001f4a5", "\ue000"]
    rows: list[list[Any]] = [
        *ROWS,
        *([f"u{at % 5}", "DE", page, "2024-03-01", at, 1, None] for at, page in enumerate(pages * 2)),
    ]
    write(tmp_path, table, rows)
    asks = quantities()[:: 1 + len(by)]
    for bound in bounds()[:: 1 + 3 * len(by)]:
        grouping = Grouping(table="visits", by=by, where="seconds >= 0", private=True, **bound)
        with opening(kind, tmp_path) as engine, opening("reference", tmp_path) as reference:
            expected = opened(reference.units_by_key(catalog, grouping, REFERENCES, SECRET))
            assert opened(engine.units_by_key(catalog, grouping, REFERENCES, SECRET)) == expected
            keys = [key for key, _ in expected][::-2]
            for some in (keys, []):
                answer = asked(reference, catalog, grouping, asks, some)
                assert asked(engine, catalog, grouping, asks, some) == answer


def test_ids_are_compared_as_the_text_of_what_they_mean(kind: str, tmp_path: Path) -> None:
    """Under text every spelling is a unit; under integer all spellings of one are one, and what is no integer is null."""
    spellings = ["1", "01", " 1", "1.0", "+1", "true"]
    rows = [[each, "DE", "a", None, 1, 1, None] for each in spellings]
    units = [Quantity(kind="units")]
    for number, (unit, null_id, expected) in enumerate(
        [("text", "drop", 6), ("integer", "drop", 1), ("integer", "unit", 2), ("boolean", "drop", 1)]
    ):
        table = visits(unit=unit, null_id=null_id)
        write(tmp_path / str(number), table, rows)
        with opening(kind, tmp_path / str(number)) as engine:
            grouping = Grouping(table="visits", by=())
            assert asked(engine, catalog_of(table), grouping, units) == [[expected]]


@pytest.mark.parametrize("ids", [[1, 1, 2, None], [1.0, 1.0, 2.0, float("nan")], [True, True, False, None]])
def test_stored_ids_are_read_as_their_text(kind: str, ids: list[Any], tmp_path: Path) -> None:
    """A stored 1, 1.0 or true is the id "1", "1" or "true", so that it meets the same id in another file."""
    mine, theirs = visits("parquet", private_joins=WITH_USERS), users("csv")
    catalog = catalog_of(mine, theirs)
    write(tmp_path, mine, [[each, "DE", "a", None, 1, 1.0, None] for each in ids])
    write(tmp_path, theirs, [["1", 1, None], ["true", 1, None], ["2", 2, None], ["false", 2, None]])
    grouping = Grouping(table="visits", by=("tenure",))
    with opening(kind, tmp_path) as engine:
        found = asked(engine, catalog, grouping, [Quantity(kind="rows"), Quantity(kind="units")])
    assert found == [[2, 1, 0], [1, 1, 0]]


def test_a_private_join_never_gives_more_matches_than_it_says(kind: str, tmp_path: Path) -> None:
    """Two rows of one unit meet 5 rows of it: 2 x 3 rows; a unit without a match stays, with nulls; nobody is joined."""
    join = (PrivateJoin(table="users", on="user", max_matches=3, add=("tenure",)),)
    mine, theirs = visits(private_joins=join, null_id="unit"), users()
    write(tmp_path, mine, [[each, "DE", "a", None, 1, 1, None] for each in ["x", "x", "y", None]])
    write(tmp_path, theirs, [["x", 1, None]] * 5 + [[None, 2, None]] * 4)
    asks = [Quantity(kind="rows"), Quantity(kind="nonnull", column="tenure"), Quantity(kind="units")]
    with opening(kind, tmp_path) as engine:
        assert asked(engine, catalog_of(mine, theirs), Grouping(table="visits", by=()), asks) == [[8], [6], [3]]


def test_two_private_joins_with_one_table_keep_their_own_limits(kind: str, tmp_path: Path) -> None:
    """Two rows meet one row by the first join and three by the second: six rows, and two of a unit without a match."""
    joins = [
        PrivateJoin(table="users", on="user", max_matches=most, add=(name,))
        for most, name in [(1, "tenure"), (3, "since")]
    ]
    mine, theirs = visits(private_joins=joins), users()
    write(tmp_path, mine, [[each, "DE", "a", None, 1, 1, None] for each in ["x", "x", "y", "y"]])
    write(tmp_path, theirs, [["x", at, "2024-02-29"] for at in (1, 2, 3, 1)])
    with opening(kind, tmp_path) as engine:
        try:
            found = asked(engine, catalog_of(mine, theirs), Grouping(table="visits", by=()), [Quantity(kind="rows")])
        except Unsupported:
            return  # an engine may refuse it, by what is declared
    assert found == [[8]]


def test_first_and_last_rows_of_a_unit(kind: str, tmp_path: Path) -> None:
    rows = [
        ["u", "DE", f"p{at}", day, at, None, None] for at, day in enumerate(["2024-03-01", "2024-02-29", "2024-03-01"])
    ]
    asks = [Quantity(kind="sum", column="seconds", low=0, high=100)]
    for truncate, order, expected in [
        ("first", ("day", "seconds"), 1),
        ("last", ("day", "seconds"), 2),
        ("first", ("seconds",), 0),
        ("last", ("page",), 2),
    ]:
        table = visits(bounds=TableBounds(max_rows=1, truncate=truncate, order_by=order))
        folder = tmp_path / f"{truncate}{len(order)}{expected}"
        write(folder, table, rows[::-1])
        with opening(kind, folder) as engine:
            assert asked(engine, catalog_of(table), Grouping(table="visits", by=()), asks) == [[expected]]


def test_rows_without_a_value_are_the_first_to_go(kind: str, tmp_path: Path) -> None:
    rows = [["u", "DE", page, None, seconds, None, None] for page, seconds in [("a", None), ("b", 7), ("c", None)]]
    asks = [Quantity(kind="sum", column="seconds", low=0, high=100)]
    write(tmp_path, visits(), rows)
    for truncate in ("first", "last"):
        table = visits(bounds=TableBounds(max_rows=1, truncate=truncate, order_by=("seconds",)))
        with opening(kind, tmp_path) as engine:
            assert asked(engine, catalog_of(table), Grouping(table="visits", by=()), asks) == [[7]]


def test_another_secret_chooses_other_rows(kind: str, tmp_path: Path) -> None:
    table = visits(bounds=TableBounds(max_rows=5))
    write(tmp_path, table, [["u", "DE", f"p{at}", None, at, None, None] for at in range(100)])
    asks = [Quantity(kind="sum", column="seconds", low=0, high=100)]
    grouping = Grouping(table="visits", by=())
    with opening(kind, tmp_path) as engine:
        found = {str(asked(engine, catalog_of(table), grouping, asks, secret=bytes([at]) * 32)) for at in range(8)}
    assert len(found) > 4
