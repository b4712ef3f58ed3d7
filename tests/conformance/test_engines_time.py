"""Rows of one period: every engine keeps those that the reference engine keeps, before it does anything else."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Column, Source, Table, TableBounds, TimeFilter
from dprelease.errors import TableMismatch, Unsupported
from dprelease.privacy.unit import Neighboring
from dprelease.spec.period import span, windows
from tests.conformance.people import SECRET, opened
from tests.conformance.unit_tables import (
    NAMES,
    REFERENCES,
    WITH_USERS,
    asked,
    assert_within,
    bounds,
    catalog_of,
    claimed,
    hidden,
    moved,
    opening,
    partitioned,
    quantities,
    table_bounds,
    users,
    visits,
    write,
)
from tests.tiers import few

Kind = Literal["date", "timestamp"]
ROWS = Quantity(kind="rows")


def of(period: str, column: str = "seen", kind: Kind = "date") -> TimeFilter:
    days = span(period)
    assert days is not None
    return TimeFilter(column=column, type=kind, start=days[0], end=days[1])


def events(time: TimeFilter, shape: Literal["csv", "parquet"] = "csv", *columns: Column) -> Table:
    """A table whose one column of interest is its time, which is not declared."""
    source = Source(file=f"events*.{shape}", format=shape, null_values=("", "2024-02-14"))
    return Table(name="events", account="a", source=source, columns=columns, time=time)


def kept(kind: str, folder: Path, period: str, moments: list[str], as_: Kind) -> list[str]:
    """Of these texts, those whose rows are kept: each has a power of two of its own in the sum."""
    path = folder / f"{period}{as_}"
    path.mkdir()
    (path / "events.csv").write_text(
        "n,seen\n" + "".join(f'{2**at},"{moment}"\n' for at, moment in enumerate(moments)), encoding="utf-8"
    )
    table = events(of(period, kind=as_), "csv", Column(name="n", type="integer"))
    total = Quantity(kind="sum", column="n", low=0, high=2**40)
    with opening(kind, path) as engine:
        ((found,),) = asked(engine, catalog_of(table), Grouping(table="events", by=()), [total])
    return [moment for at, moment in enumerate(moments) if found >> at & 1]


INSIDE = ["2024-02-01", " 2024-02-28 ", "2024-02-29"]
OUTSIDE = ["2024-01-31", "2024-03-01", "2023-02-28", "0001-01-01", "9999-12-31"]
GARBAGE = [
    "",
    "2024-02-14",
    "2024-02-30",
    "2024-2-3",
    "20240203",
    "2024-02",
    "02/03/2024",
    "2024-02-01x",
    "NaN",
    "\x00",
]


def test_days_at_both_ends_nulls_and_garbage(kind: str, tmp_path: Path) -> None:
    late = ["2024-02-01 00:00", "2024-02-01T12:00:00"]  # a text with a time of day is no date
    assert kept(kind, tmp_path, "2024-02", [*INSIDE, *OUTSIDE, *GARBAGE, *late], "date") == INSIDE


def test_moments_at_both_ends_count_by_their_day_in_utc(kind: str, tmp_path: Path) -> None:
    inside = [
        *("2024-02-01 00:00", "2024-02-01T00:00:00Z", "2024-01-31T23:00:00-01:00", "2024-02-01T05:30:00+05:30"),
        *("2024-02-29T23:59:59.999999999", "2024-03-01T00:59:59+01:00", "2024-02-29 23:59"),
    ]
    outside = [
        *("2024-01-31T23:59:59.999999999", "2024-02-01T00:00:00+00:01", "2024-03-01T00:00:00", "2024-03-01 00:00Z"),
        *("2024-02-29T23:00:00-01:00", "2023-02-14 12:00"),
    ]
    garbage = ["", "2024-02-14", "2024-02-29", "2024-02-30 12:00", "2024-02-01 24:00", "2024-02-01 12:00+24:00", "x"]
    extremes = ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"]  # no moment of the calendar
    found = kept(kind, tmp_path, "2024-02", [*inside, *outside, *garbage, *extremes], "timestamp")
    assert found == inside


def test_a_leap_day_and_a_week_across_two_years(kind: str, tmp_path: Path) -> None:
    days = ["2024-02-28", "2024-02-29", "2024-03-01", "2024-12-29", "2024-12-30", "2025-01-05", "2025-01-06"]
    assert kept(kind, tmp_path, "2024-02-29", days, "date") == ["2024-02-29"]
    assert kept(kind, tmp_path, "2025-W01", days, "date") == ["2024-12-30", "2025-01-05"]
    assert kept(kind, tmp_path, "2024-Q1", days, "date") == days[:3]
    assert kept(kind, tmp_path, "2025", days, "date") == days[5:]


DAYS_STORED = [date(2024, 1, 31), date(2024, 2, 1), date(2024, 2, 29), date(2024, 3, 1), None]
LAST = datetime(2024, 1, 31, 23, 59, 59)
MOMENTS_STORED = [LAST, datetime(2024, 2, 1), datetime(2024, 2, 29, 23, 59, 59), datetime(2024, 3, 1), None]
AHEAD = timezone(timedelta(hours=9))
ZONED = [moment and moment.replace(tzinfo=UTC).astimezone(AHEAD) for moment in MOMENTS_STORED]
STORED = [
    pa.array(DAYS_STORED, pa.date32()),
    pa.array(DAYS_STORED, pa.date64()),
    pa.array(MOMENTS_STORED, pa.timestamp("s")),
    pa.array(ZONED, pa.timestamp("us", tz="Asia/Tokyo")),
    pa.array(["2024-01-31", "2024-02-01", "2024-02-29", "2024-03-01", "x"], pa.string()).dictionary_encode(),
    pa.array([19753, 19754, 19782, 19783, None], pa.int64()),
]


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: str(stored.type)[:12])
@pytest.mark.parametrize("as_", ["date", "timestamp"])
def test_stored_types(kind: str, stored: Any, as_: Kind, tmp_path: Path) -> None:
    table = events(of("2024-02", kind=as_), "parquet", Column(name="seen", type=as_), Column(name="n", type="integer"))
    pq.write_table(pa.table({"n": list(range(5)), "seen": stored}), tmp_path / "events.parquet")
    total = Quantity(kind="sum", column="n", low=0, high=100)
    with opening(kind, tmp_path) as engine:
        found = asked(engine, catalog_of(table), Grouping(table="events", by=()), [ROWS, total])
    readable = not pa.types.is_integer(stored.type)
    readable &= as_ == "date" or pa.types.is_timestamp(stored.type)  # a day without a time of day is no moment
    assert found == ([[2], [3]] if readable else [[0], [0]])


@pytest.mark.slow
def test_the_days_of_a_year_share_out_its_rows(kind: str, tmp_path: Path) -> None:
    days = [date(2023, 12, 1) + timedelta(days=at) for at in range(430) for _ in range(at % 3)]
    days = [day for day in days if day != date(2024, 2, 14)]  # a null
    (tmp_path / "events.csv").write_text("seen\n" + "".join(f"{day}\n" for day in days), encoding="utf-8")

    def total(period: str) -> int:
        with opening(kind, tmp_path) as engine:
            table = events(of(period))
            return int(asked(engine, catalog_of(table), Grouping(table="events", by=()), [ROWS])[0][0])

    whole = sum(day.year == 2024 for day in days)
    assert 300 < whole < 600
    assert (
        total("2024")
        == whole
        == sum(map(total, windows("2024", "month")))
        == sum(map(total, windows("2024", "quarter")))
    )
    assert sum(map(total, windows("2024", "week"))) == sum(date(2024, 1, 1) <= day < date(2025, 1, 6) for day in days)


def test_one_engine_keeps_two_periods_apart(kind: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("seen\n2024-01-01\n2024-02-01\n2024-02-02\n", encoding="utf-8")
    with opening(kind, tmp_path) as engine:
        found = [
            asked(engine, catalog_of(table), Grouping(table="events", by=()), [ROWS])
            for table in (events(of("2024-01")), events(of("2024-02")), events(of("2024")))
        ]
    assert found == [[[1]], [[2]], [[3]]]


def test_bounds_hold_per_period(kind: str, tmp_path: Path) -> None:
    """Rows of other periods take nobody's place: not under the table's bound, nor as matches of a private join."""
    rows = [["u", "DE", f"p{at}", day, at, None, None] for day in ("2024-02-29", "2024-03-01") for at in (1, 2)]
    theirs = [["u", tenure, day] for tenure, day in [(1, "2024-03-01")] * 5 + [(2, "2024-02-29")]]
    mine = visits(
        bounds=TableBounds(max_rows=2, truncate="last", order_by=("day",)),
        private_joins=(WITH_USERS[0].model_copy(update={"max_matches": 1}),),
        time=of("2024-02", "day"),
    )
    asks = [ROWS, Quantity(kind="sum", column="seconds", low=0, high=100)]
    write(tmp_path, mine, rows)
    write(tmp_path, users(), theirs)
    catalog = catalog_of(mine, users(time=of("2024-02", "since")))
    with opening(kind, tmp_path) as engine:
        assert asked(engine, catalog, Grouping(table="visits", by=()), asks) == [[2], [3]]
        assert asked(engine, catalog, Grouping(table="visits", by=("tenure",)), asks) == [[0, 2, 0], [0, 3, 0]]
        nobody = catalog_of(mine, users(time=of("2023", "since")))
        assert asked(engine, nobody, Grouping(table="visits", by=("tenure",)), asks)[0] == [0, 0, 0]
        assert asked(engine, nobody, Grouping(table="visits", by=()), asks) == [[2], [3]]


IDS = ["1", "2", "2", "x", None]
DAYS = ["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-01", "2023-02-29", None]
MOMENTS = ["2024-02-29 23:59", "2024-02-29T23:59:59-00:01", "2024-03-01T00:30:00+01:00", "2024-03-01 12:00", "x", None]
PERIODS = ["2024", "2024-02", "2024-02-29", "2024-03-01", "2024-W09", "2023"]


@st.composite
def rows_of(draw: st.DrawFn, *more: list[Any]) -> list[list[Any]]:
    parts: tuple[list[Any], ...] = (
        IDS,
        ["DE", "FR", None],
        ["a", "b"],
        DAYS,
        ["3", "40", "-60", None],
        ["2.5", "99.9", None],
        ["true", "F"],
    )
    row = st.tuples(*(st.sampled_from(each) for each in (*parts, *more)))
    return [list(each) for each in draw(st.lists(row, max_size=16))]


def agrees(kind: str, data: st.DataObject) -> None:
    shape, period = data.draw(st.sampled_from(["csv", "parquet"])), data.draw(st.sampled_from(PERIODS))
    times: list[TimeFilter] = [of(period, "day"), of(period, "seen", "timestamp"), of(period, "seen")]
    time = data.draw(st.sampled_from(times))
    lent, some = data.draw(st.booleans()), table_bounds()
    fields: dict[str, Any] = {
        "null_id": data.draw(st.sampled_from(["drop", "unit"])),
        "bounds": data.draw(st.sampled_from(some)),
    }
    mine = visits(shape, private_joins=WITH_USERS if lent else (), time=time, **fields)
    mine = hidden(mine) if data.draw(st.booleans()) else mine
    mine = partitioned(mine, *data.draw(st.sampled_from([(), ("country",), ("day",)])))
    sinces: list[TimeFilter | None] = [None, of(period, "since"), of("2024", "since")]
    since = data.draw(st.sampled_from(sinces))
    theirs = users(shape, bounds=data.draw(st.sampled_from(some[:3])), time=since)
    catalog = catalog_of(mine, theirs)
    by = tuple(data.draw(st.lists(st.sampled_from(["country", "day", "adult"]), unique=True, max_size=2)))
    private = by == ("country",) and data.draw(st.booleans())
    grouping = Grouping(table="visits", by=by, private=private, **data.draw(st.sampled_from(bounds())))
    asks = data.draw(st.lists(st.sampled_from(quantities()), min_size=1, max_size=3))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = data.draw(rows_of(MOMENTS))
        write(folder, mine, rows, parts=data.draw(st.integers(1, 2)), names=(*NAMES, "seen"))
        write(folder, theirs, [[row[0], 1, row[3]] for row in data.draw(rows_of())])
        with opening(kind, folder) as engine, opening("reference", folder) as reference:
            if private:
                found, expected = (
                    opened(each.units_by_key(catalog, grouping, REFERENCES, SECRET)) for each in (engine, reference)
                )
                assert found == expected
            else:
                assert asked(engine, catalog, grouping, asks) == asked(reference, catalog, grouping, asks)


@settings(max_examples=few(20, 6), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_engine_keeps_the_rows_that_the_reference_engine_keeps(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


@pytest.mark.nightly
@settings(max_examples=few(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_engine_keeps_the_rows_that_the_reference_engine_keeps_in_full(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


@pytest.mark.slow
def test_a_unit_moves_no_number_further_than_claimed_without_a_time(kind: str, tmp_path: Path) -> None:
    """What ``catalog.sensitivity`` claims knows nothing of times, and holds; the rows of other periods move nothing."""
    draw = random.Random(7)
    days = ["2024-02-28", "2024-02-29", "2024-03-01", None]

    def some(user: str, count: int) -> list[list[Any]]:
        return [
            [
                user,
                draw.choice(["DE", "FR"]),
                draw.choice("abc"),
                draw.choice(days),
                draw.randrange(-90, 120),
                2.5,
                True,
            ]
            for _ in range(count)
        ]

    few, giant = [row for at in range(20) for row in some(f"u{at}", 6)], some("giant", 3000)
    table = visits("parquet", bounds=TableBounds(max_rows=7), private_joins=WITH_USERS, time=of("2024-02-29", "day"))
    catalog = catalog_of(table, users("parquet", time=of("2024-02", "since")))
    write(tmp_path / "with", table, [*few, *giant])
    write(tmp_path / "without", table, few)
    write(tmp_path / "elsewhen", table, [*few, *(row for row in giant if row[3] != "2024-02-29")])
    for name in ("with", "without", "elsewhen"):
        write(tmp_path / name, catalog.tables["users"], [[user, 1, "2024-02-29"] for user in ("u1", "giant")])
    with (
        opening(kind, tmp_path / "with") as full,
        opening(kind, tmp_path / "without") as less,
        opening(kind, tmp_path / "elsewhen") as other,
    ):
        for by in ((), ("country", "topic")):
            grouping = Grouping(table="visits", by=by)
            everything = [each for each in quantities() if each.kind != "quantile"]
            before, after, same = (asked(each, catalog, grouping, everything) for each in (less, full, other))
            assert same == before
            assert before != after
            for quantity, old, new in zip(everything, before, after, strict=True):
                assert_within(moved(old, new), claimed(catalog, grouping, quantity, Neighboring.ADD_REMOVE))


DECLARED = Column(name="seen", type="text")
COMPUTED = visits().column("late").model_copy(update={"name": "seen", "type": "date"})


@pytest.mark.parametrize(
    "table",
    [
        events(of("2024"), "csv", DECLARED),
        events(of("2024", kind="timestamp"), "csv", Column(name="seen", type="date")),
        visits(time=of("2024", "user")),
        hidden(visits()).model_copy(update={"time": of("2024", "user")}),
        visits(time=of("2024", "late")),
        visits(time=of("2024", "union")),
        events(TimeFilter(column="seen", type="date", start=date(2024, 1, 1), end=date(2024, 1, 1))),
    ],
)
def test_a_time_that_is_none_is_refused_before_a_row_is_read(kind: str, table: Table, tmp_path: Path) -> None:
    with opening(kind, tmp_path) as engine, pytest.raises(Unsupported) as caught:
        engine.check(catalog_of(table), Grouping(table=table.name, by=()), [ROWS], REFERENCES)
    assert caught.value.code == "DPR-E215"


def test_a_missing_time_is_told_by_the_header(kind: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("n,when\n1,2024-01-01\n", encoding="utf-8")
    table = events(of("2024"), "csv", Column(name="n", type="integer"))
    with opening(kind, tmp_path) as engine, pytest.raises(TableMismatch, match="no column 'seen'"):
        engine.describe(table)
