"""When a cron ticks: held against the schedule that Prefect makes of it, and against every minute of a clock."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.version import Version

from dprelease.spec.cron import Gap, tick_from
from dprelease.spec.fields.schedule import ScheduleSpec
from tests.tiers import few

# Clocks that change at two, at midnight, by half an hour, twice around Ramadan, by a whole day, and never.
ZONES = (
    *("UTC", "Europe/Paris", "America/New_York", "Africa/Cairo", "America/Havana", "Australia/Lord_Howe"),
    *("Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu", "America/Sao_Paulo", "Europe/Dublin"),
)
MINUTES = st.sampled_from(("0", "30", "15,45", "*/20", "7", "0,30"))
HOURS = st.sampled_from(("*", "0", "1", "2", "3", "23", "0-4", "*/6", "1,2"))
DAYS = st.sampled_from(
    ("* * *", "5 * *", "* * SUN", "* * 7", "* 3,10,11 *", "29 2 *", "31 * *", "* * MON-FRI", "1 1 *")
)
CRONS = st.builds(lambda *parts: " ".join(parts), MINUTES, HOURS, DAYS)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2024, 6, 1), timezones=st.just(UTC))
CHANGE = datetime(2024, 3, 10, 5, 30, tzinfo=UTC)  # an hour and a half before New York's clocks go forward


def prefect_ticks(cron: str, zone: str, start: datetime, number: int) -> list[datetime]:
    """What Prefect would start, in order and each once."""
    from prefect.server.schemas.schedules import CronSchedule

    found = asyncio.run(CronSchedule(cron=cron, timezone=zone).get_dates(number, start))
    return sorted({datetime.fromtimestamp(each.timestamp(), UTC) for each in found})


def ticks(cron: str, zone: str, start: datetime, gap: Gap, number: int) -> list[datetime]:
    found = [tick_from(cron, ZoneInfo(zone), start, gap)]
    while len(found) < number:
        found.append(tick_from(cron, ZoneInfo(zone), found[-1] + timedelta(seconds=1), gap))
    return found


@settings(max_examples=few(60))
@example(cron="30 2 * * *", zone="America/New_York", start=CHANGE)
@example(cron="0,30 2 * * *", zone="America/New_York", start=CHANGE)
@example(cron="0 0 * * *", zone="Africa/Cairo", start=datetime(2024, 4, 25, 20, 30, tzinfo=UTC))
@example(cron="*/20 * * * *", zone="America/New_York", start=datetime(2023, 11, 5, 5, 10, tzinfo=UTC))
@example(cron="15,45 0-4 * * *", zone="Australia/Lord_Howe", start=datetime(2023, 4, 1, 13, tzinfo=UTC))
@example(cron="0 0 * * *", zone="Pacific/Apia", start=datetime(2011, 12, 29, 9, tzinfo=UTC))
@example(cron="15,50 1,2 * * *", zone="Australia/Lord_Howe", start=datetime(2023, 9, 30, 15, 10, tzinfo=UTC))
@given(cron=CRONS, zone=st.sampled_from(ZONES), start=MOMENTS)
def test_prefect_starts_a_run_at_every_tick_and_at_no_other_time(cron: str, zone: str, start: datetime) -> None:
    old = Version(version("prefect")) < Version("3.9") and sys.version_info < (3, 13)
    gap: Gap = "before" if old else "after"
    theirs = [each for each in prefect_ticks(cron, zone, start, 12) if each >= start]

    assert ticks(cron, zone, start, gap, 5) == theirs[:5]


@settings(max_examples=few(60))
@example(cron="30 2 * * *", zone="America/New_York", start=CHANGE)
@example(cron="30 2 * * *", zone="America/New_York", start=CHANGE + timedelta(minutes=100))  # 03:10, after the gap
@example(cron="*/20 * * * *", zone="Africa/Cairo", start=datetime(2024, 4, 25, 20, 30, tzinfo=UTC))
@given(
    cron=st.builds(lambda *parts: " ".join((*parts, "* * *")), MINUTES, HOURS),
    zone=st.sampled_from(ZONES),
    start=MOMENTS,
)
def test_a_tick_is_the_first_moment_at_which_the_clock_shows_it(cron: str, zone: str, start: datetime) -> None:
    """Every minute by the clock is looked at, those included that it skips or shows twice."""
    place = ZoneInfo(zone)
    minutes, hours = (
        {value for value in range(top) if field_has(field, value)}
        for field, top in zip(cron.split(), (60, 24), strict=False)
    )
    noon = start.astimezone(place).replace(tzinfo=None, second=0, microsecond=0, fold=0) - timedelta(days=2)
    shown = (noon + timedelta(minutes=step) for step in range(5 * 24 * 60))
    moments = {
        each.replace(tzinfo=place).astimezone(UTC) for each in shown if each.minute in minutes and each.hour in hours
    }
    assert tick_from(cron, place, start) == min(each for each in moments if each >= start)


def field_has(field: str, value: int) -> bool:
    """Whether a field of those above stands for a number; read apart from the code."""
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        if span == "*" and value % int(step or 1) == 0:
            return True
        if span != "*" and int(low) <= value <= int(high or low):
            return True
    return False


@pytest.mark.parametrize("gap", get_args(Gap))
def test_a_tick_is_found_at_its_own_moment_and_not_after_it(gap: Gap) -> None:
    tick = datetime(2024, 5, 5, 4, tzinfo=UTC)
    one, paris = timedelta(microseconds=1), ZoneInfo("Europe/Paris")

    assert tick_from("0 6 5 * *", paris, tick, gap) == tick_from("0 6 5 * *", paris, tick - one, gap) == tick
    assert tick_from("0 6 5 * *", paris, tick + one, gap) == datetime(2024, 6, 5, 4, tzinfo=UTC)


def test_days_that_are_rare_come_all_the_same() -> None:
    start = datetime(2096, 3, 1, tzinfo=UTC)

    assert tick_from("0 6 29 2 *", ZoneInfo("UTC"), start) == datetime(2104, 2, 29, 6, tzinfo=UTC)
    with pytest.raises(OverflowError):
        tick_from("0 6 29 2 *", ZoneInfo("UTC"), datetime(9997, 1, 1, tzinfo=UTC))


@settings(max_examples=few(60))
@example(cron="0 0 * * *", zone="Africa/Cairo", day=datetime(2024, 4, 26))
@example(cron="0,30 2 * * *", zone="America/New_York", day=datetime(2024, 3, 10))
@given(cron=CRONS, zone=st.sampled_from(ZONES), day=st.datetimes(datetime(2001, 1, 1), datetime(2023, 1, 1)))
def test_a_period_is_never_passed_over_before_a_scheduler_had_its_turn(cron: str, zone: str, day: datetime) -> None:
    """Whichever way a scheduler places skipped times: it starts once when the data are complete, before it is over."""
    made = ScheduleSpec.model_validate({"cron": cron, "timezone": zone, "period": "day"})
    for gap in get_args(Gap):
        first, second = ticks(cron, zone, made.complete(day.date()), gap, 2)
        assert made.complete(day.date()) <= first < second <= made.passed_over(day.date())
