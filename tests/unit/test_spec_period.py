"""The calendar of periods, against every day of forty years and against the ends of the calendar."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from typing import get_args

import pytest

from dprelease.errors import PlanError
from dprelease.spec.period import Per, beyond, containing, following, is_a, periods, span, windows

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


@pytest.mark.thin(first=1)
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


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("kind", get_args(Per))
def test_periods_follow_each_other_day_by_day(kind: Per) -> None:
    names = list(dict.fromkeys(name_of(FIRST + at * DAY, kind) for at in range(DAYS)))

    assert all(containing(kind, FIRST + at * DAY) == name_of(FIRST + at * DAY, kind) for at in range(DAYS))
    assert all(following(one) == two for one, two in pairwise(names))
    assert periods(names[0], kind, FIRST + (DAYS - 1) * DAY) == tuple(names)
    start = days_of(names[5])[0]
    for at in range(0, 800, 3):  # whatever the last day is
        wanted = dict.fromkeys(name_of(start + day * DAY, kind) for day in range(at + 1))
        assert periods(names[5], kind, start + at * DAY) == tuple(wanted)
    assert periods(names[5], kind, start - DAY) == ()


def test_a_period_is_of_one_kind() -> None:
    for text in ("2024", "2024-Q1", "2024-03", "2024-W09", "2024-03-07"):
        assert sum(is_a(kind, text) for kind in get_args(Per)) == 1
    for text in ("once", "2024-13", "9999", "2023-W53"):
        assert not any(is_a(kind, text) for kind in get_args(Per))


@pytest.mark.parametrize("last", ["9998", "9999-Q3", "9999-11", "9999-W51", "9999-12-30"])
def test_the_calendar_ends(last: str) -> None:
    kind = next(kind for kind in get_args(Per) if is_a(kind, last))

    assert periods(last, kind, date.max) == (last,)
    with pytest.raises(PlanError, match="DPR-P311"):
        following(last)


@pytest.mark.parametrize(
    ("first", "kind"), [("once", "month"), ("2024", "month"), ("2024-03", "day"), ("9999", "year")]
)
def test_a_schedule_begins_with_a_period_of_its_kind(first: str, kind: Per) -> None:
    with pytest.raises(PlanError, match="DPR-P310"):
        periods(first, kind, FIRST)
    if span(first) is None:
        with pytest.raises(PlanError, match="DPR-P310"):
            following(first)
