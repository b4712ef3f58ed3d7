"""The verifier holds the days that a table is read from against the period that is charged, by another calendar."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import pytest

from dprelease.catalog.table import TimeFilter
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan, Window
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.spec.period import span
from tests.planned import SPEC, plan_of

PLAN = plan_of(SPEC)
PERIODS = (
    "2024",
    "2024-Q1",
    "2024-Q4",
    "2024-03",
    "2024-12",
    "2024-W09",
    "2024-W01",
    "2020-W53",
    "2024-02-29",
    "0999",
    "0999-03",
)


def timed(period: str, start: date, end: date) -> ReleasePlan:
    (name, *_) = PLAN.catalog.tables
    time = TimeFilter(column="seen", type="date", start=start, end=end)
    tables = {**PLAN.catalog.tables, name: PLAN.catalog.tables[name].model_copy(update={"time": time})}
    release = PLAN.release.model_copy(update={"period": period})
    return PLAN.model_copy(update={"release": release, "catalog": PLAN.catalog.model_copy(update={"tables": tables})})


@pytest.mark.parametrize("period", PERIODS)
def test_only_the_days_of_the_period_are_accepted(period: str) -> None:
    found = span(period)
    assert found is not None
    start, end = found
    verify(timed(period, start, end))
    for before, after in ((1, 0), (-1, 0), (0, 1), (0, -1), (366, 366)):
        with pytest.raises(BrokenPromiseError):
            verify(timed(period, start + timedelta(days=before), end + timedelta(days=after)))


def test_a_table_of_an_account_with_windows_is_never_read_whole() -> None:
    window = Window(per="year", cap=Budget(epsilon=Fraction(1)))
    accounts = tuple(account.model_copy(update={"window": window}) for account in PLAN.accounts)
    with pytest.raises(BrokenPromiseError, match="of all windows"):
        verify(PLAN.model_copy(update={"accounts": accounts}))


FIRST = ("0001", "0001-Q1", "0001-01", "0001-W01", "0001-01-01")


@pytest.mark.parametrize("period", FIRST)
def test_the_first_periods_of_the_calendar_have_no_day_before_them(period: str) -> None:
    found = span(period)
    assert found is not None
    start, end = found
    assert start == date.min
    verify(timed(period, start, end))
    for before, after in ((1, 0), (0, 1), (0, -1), (366, 366)):
        with pytest.raises(BrokenPromiseError, match=r"another period|no day"):
            verify(timed(period, start + timedelta(days=before), end + timedelta(days=after)))


@pytest.mark.parametrize("period", ["9999", "9999-Q4", "9999-12", "9999-W52", "9999-12-31"])
def test_no_filter_reads_a_period_that_ends_with_the_calendar(period: str) -> None:
    """The first day after it cannot be written, so that every filter misses its last day."""
    assert span(period) is None
    for start in (date(9999, 1, 1), date(9999, 10, 1), date(9999, 12, 1), date(9999, 12, 27), date(9999, 12, 30)):
        with pytest.raises(BrokenPromiseError, match="another period"):
            verify(timed(period, start, date.max))


@pytest.mark.parametrize("period", ["9999-12-30", "9999-11", "9999-Q3", "9999-W51", "9998"])
def test_the_last_periods_that_can_be_read(period: str) -> None:
    found = span(period)
    assert found is not None
    start, end = found
    verify(timed(period, start, end))
    for before, after in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        if (date.max - end).days >= after:
            with pytest.raises(BrokenPromiseError):
                verify(timed(period, start + timedelta(days=before), end + timedelta(days=after)))


@pytest.mark.parametrize("start", [date.min, date(2024, 1, 1), date.max])
def test_a_filter_to_no_day_is_refused(start: date) -> None:
    with pytest.raises(BrokenPromiseError, match="no day at all"):
        verify(timed("2024", start, start))
    with pytest.raises(BrokenPromiseError, match="no day at all"):
        verify(timed("2024", date.max, date.min))
