"""The calendar of periods, against every day of forty years and against the ends of the calendar."""

from __future__ import annotations

from datetime import date, timedelta
from typing import get_args

import pytest

from dprelease.errors import PlanError
from dprelease.spec.period import Per, beyond, span, windows

FIRST, DAYS = date(1996, 1, 1), 40 * 366
DAY = timedelta(days=1)


def name_of(day: date, per: str) -> str:
    """The window of a day, by strftime: another way than the one that is tested."""
    if per == "quarter":
        return f"{day:%Y}-Q{'111222333444'[day.month - 1]}"
    return day.strftime({"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}[per])


def days_of(period: str) -> list[date]:
    found = span(period)
    assert found is not None, period
    start, end = found
    return [start + at * DAY for at in range((end - start).days)]


@pytest.mark.parametrize("per", get_args(Per))
def test_the_periods_of_one_kind_cut_the_calendar_without_a_gap_or_an_overlap(per: str) -> None:
    members: dict[str, list[date]] = {}
    for at in range(DAYS):
        members.setdefault(name_of(FIRST + at * DAY, per), []).append(FIRST + at * DAY)
    for name in list(members)[1:-1]:  # the first and the last are cut off by the sample itself
        assert days_of(name) == members[name], name


@pytest.mark.parametrize("per", get_args(Per))
def test_a_period_touches_exactly_the_windows_of_its_days(per: Per) -> None:
    for kind in get_args(Per):
        every = dict.fromkeys(name_of(FIRST + at * DAY, kind) for at in range(0, DAYS, 5 if kind == "day" else 1))
        for period in every:
            assert windows(period, per) == tuple(dict.fromkeys(name_of(day, per) for day in days_of(period))), period


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("2024", "2024-01-01", "2025-01-01"),
        ("2024-Q4", "2024-10-01", "2025-01-01"),
        ("2024-02", "2024-02-01", "2024-03-01"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
        ("2020-W53", "2020-12-28", "2021-01-04"),
        ("2025-W01", "2024-12-30", "2025-01-06"),
        ("0001-W01", "0001-01-01", "0001-01-08"),
        ("9999-12-30", "9999-12-30", "9999-12-31"),
        ("9998", "9998-01-01", "9999-01-01"),
    ],
)
def test_spans(period: str, start: str, end: str) -> None:
    assert span(period) == (date.fromisoformat(start), date.fromisoformat(end))


@pytest.mark.parametrize(
    "text",
    [
        *("once", "", "24", "2024-", "2024-Q0", "2024-Q5", "2024-q1", "2024-00", "2024-13", "2024-3", "2024-W00"),
        *("2024-W53", "2021-W53", "2023-02-29", "1900-02-29", "2024-02-30", "2024-3-7", "2024-03-07T00", "2024-03\n"),
        *(" 2024", "+2024", "02024", "0000", "0000-01", "２０２４", "2024-W9", "2024-W091", "2024-Q1-01", "2024/03"),
        *("9999", "9999-Q4", "9999-12", "9999-W52", "9999-12-31"),  # end beyond the calendar
    ],
)
def test_other_text_is_no_calendar_period(text: str) -> None:
    assert span(text) is None
    with pytest.raises(PlanError, match="no calendar period"):
        windows(text, "year")


def test_a_week_may_touch_two_of_everything_longer() -> None:
    assert windows("2024-W09", "month") == ("2024-02", "2024-03")
    assert windows("2025-W01", "quarter") == ("2024-Q4", "2025-Q1")
    assert windows("2025-W01", "year") == ("2024", "2025")
    assert windows("2025-W01", "week") == ("2025-W01",)
    assert len(windows("2024", "day")) == 366
    assert len(windows("2020", "week")) == 53
    assert windows("2021", "week")[0] == "2020-W53"


def test_a_period_beyond_the_calendar_is_told_apart_from_other_text() -> None:
    ends = ("9999", "9999-Q4", "9999-12", "9999-W52", "9999-12-31")
    others = ("9999-Q3", "9999-13", "9999-W53", "9999-12-32", "99999", "2024-13", "once", "9998", "9999-12-30", "0001")

    assert all("the last day of the calendar" in beyond(text) for text in ends)
    assert not any(map(beyond, others))
    with pytest.raises(PlanError, match="DPR-P310") as caught:
        windows("9999-12", "year")
    assert "9999-12-31 is the last day" in caught.value.detail


def test_at_the_end_of_the_calendar_the_last_window_is_found() -> None:
    assert windows("9999-12-30", "year") == ("9999",)
    assert windows("9999-12-30", "week") == ("9999-W52",)
