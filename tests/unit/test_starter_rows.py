"""Made-up rows of a rehearsal: the times of most of them are of the period, whatever it is."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

import pytest

from dprelease.catalog.table import Column, Source, Table, TimeFilter
from dprelease.spec.period import span
from dprelease.starter.rows import write_rows


def table(period: str | None, kind: Literal["date", "timestamp"] = "date", *columns: Column) -> Table:
    days = None if period is None else span(period)
    time = None if days is None else TimeFilter(column="seen", type=kind, start=days[0], end=days[1])
    columns = (Column(name="sex", type="integer", keys=(1, 2)), *columns)
    return Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=columns, time=time)


def rows_of(made: Table, folder: Path) -> list[dict[str, str]]:
    write_rows(made, folder / "t.csv", 1000, seed="s")
    with (folder / "t.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", ["date", "timestamp"])
@pytest.mark.parametrize("period", ["2024", "2024-W09", "2024-02-29", "0001-01-01", "9999-12-30"])
def test_most_times_are_of_the_period_and_a_few_are_not(
    period: str, kind: Literal["date", "timestamp"], tmp_path: Path
) -> None:
    start, end = (day.isoformat() for day in span(period) or ())
    times = [row["seen"] for row in rows_of(table(period, kind), tmp_path)]
    inside = [time for time in times if start <= time < end]

    assert 850 < len(inside) < 1000
    assert "" in times
    assert {len(time) for time in times} == {0, 10 if kind == "date" else 19}


def test_a_declared_time_keeps_its_place_and_its_days(tmp_path: Path) -> None:
    seen = Column(name="seen", type="date", keys=("2023-12-31", "2024-01-01", "2024-05-05"))
    rows = rows_of(table("2024", "date", seen, Column(name="age", type="integer")), tmp_path)

    assert list(rows[0]) == ["sex", "seen", "age"]
    assert {row["seen"] for row in rows if row["seen"].startswith("2024")} == {"2024-01-01", "2024-05-05"}


def test_without_a_time_nothing_is_added(tmp_path: Path) -> None:
    assert list(rows_of(table(None), tmp_path)[0]) == ["sex"]
