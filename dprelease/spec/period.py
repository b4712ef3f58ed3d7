"""The calendar of periods: which days one covers, which one comes next, which windows of an account it touches. Exact.

A calendar period is a year, a quarter, a month, an ISO 8601 week (Monday to Sunday; week 1 has the year's first
Thursday) or a day of the proleptic Gregorian calendar. Weeks do not nest in months, quarters or years: one that
begins in December and ends in January touches two of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from types import MappingProxyType
from typing import Literal, get_args

from dprelease.errors import PlanError

__all__ = [
    "CALENDAR",
    "EXAMPLES",
    "Per",
    "beyond",
    "containing",
    "following",
    "is_a",
    "nearly",
    "periods",
    "preceding",
    "span",
    "windows",
]

Per = Literal["day", "week", "month", "quarter", "year"]
EXAMPLES: Mapping[Per, str] = MappingProxyType(
    {"year": "2024", "quarter": "2024-Q1", "month": "2024-03", "week": "2024-W09", "day": "2024-03-07"}
)
CALENDAR = " or ".join(", ".join(EXAMPLES.values()).rsplit(", ", 1))  # one of each, for messages

_PERIOD = re.compile(r"([0-9]{4})(?:-Q([1-4])|-W([0-9]{2})|-([0-9]{2})(?:-([0-9]{2}))?)?")
# What is shaped like one: `2024-3`, `2024-13`, `2024-02-30`, `2024Q1`, `2024-w9`, `9999`.
_SHAPED = re.compile(r"([0-9]{4})(?:-?([QqWw])([0-9]{1,2})|-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_MONTHS_OF_A_QUARTER = 3


def span(period: str) -> tuple[date, date] | None:
    """The first day of a period and the first day after it; None for text that is no calendar period.

    A period whose end is beyond the calendar (9999-12-31 is its last day) is none either: no date could say it.

    >>> span("2024-02"), span("2024-W09")[0].isoformat(), span("2023-W53"), span("once")
    ((datetime.date(2024, 2, 1), datetime.date(2024, 3, 1)), '2024-02-26', None, None)
    """
    found = _PERIOD.fullmatch(period)
    if found is None:
        return None
    year, quarter, week, month, day = (None if part is None else int(part) for part in found.groups())
    assert year is not None  # noqa: S101 - no match without it
    try:
        if day is not None and month is not None:
            first = date(year, month, day)
            return first, first + timedelta(days=1)
        if week is not None:
            first = date.fromisocalendar(year, week, 1)
            return first, first + timedelta(days=7)
        if month is not None:
            return _months(year, month, 1)
        if quarter is not None:
            return _months(year, _MONTHS_OF_A_QUARTER * (quarter - 1) + 1, _MONTHS_OF_A_QUARTER)
        return date(year, 1, 1), date(year + 1, 1, 1)
    except (ValueError, OverflowError):
        return None


def beyond(period: str) -> str:
    """Why a text that looks like a period is none, at the end of the calendar; empty for all other texts.

    >>> beyond("9999-12"), beyond("2024-13")
    ('9999-12-31 is the last day of the calendar, and a period ends before it', '')
    """
    if span(period) is not None or not period.startswith("9999") or _PERIOD.fullmatch(period) is None:
        return ""
    same = span("1999" + period[4:])  # the calendar repeats every 400 years, to the day of the week
    return "9999-12-31 is the last day of the calendar, and a period ends before it" if same else ""


def nearly(text: str) -> tuple[str, str] | None:
    """Why a text that is shaped like a period of the calendar is none, and the one that it may stand for, or "".

    A month that does not exist is a mistake of typing, and `2024-3` another name for `2024-03`: as names of their own
    they would be released, and charged, beside the one that was meant. None: a period of the calendar, or another text.

    >>> nearly("2024-3"), nearly("2024-q1"), nearly("spring-2024"), nearly("2024-03")
    (('months and days have two digits', '2024-03'), ('that is not how a quarter is written', '2024-Q1'), None, None)
    >>> nearly("2024-13"), nearly("2024-02-30"), nearly("2024-Q5")
    (('there is no such month', ''), ('there is no such day', ''), ('there is no such quarter', ''))
    """
    found = _SHAPED.fullmatch(text)
    if found is None or span(text) is not None:
        return None
    year, letter, number, month, day = found.groups()
    kind: Per = "year" if not letter and not month else "day" if day else "month"
    meant = "-".join((year, *(f"{int(part):02d}" for part in (month, day) if part)))
    says = "months and days have two digits"
    if letter:
        kind = "quarter" if letter in "Qq" else "week"
        meant = f"{year}-Q{int(number)}" if kind == "quarter" else f"{year}-W{int(number):02d}"
        says = f"that is not how a {kind} is written"
    if span(meant) is None:
        return beyond(meant) or f"there is no such {kind}", ""
    return says, meant


def _months(year: int, month: int, number: int) -> tuple[date, date]:
    years, after = divmod(month - 1 + number, 12)
    return date(year, month, 1), date(year + years, after + 1, 1)


def windows(period: str, per: Per) -> tuple[str, ...]:
    """Every day, week, month, quarter or year of which a period has a day, as period texts, the earliest first.

    A row of the period lies in exactly one of them, so that an account which charges all of them never under-charges
    one: a release about rows of a window has charged it.

    >>> windows("2024-Q1", "month"), windows("2024-12-30", "week"), windows("2025-W01", "year")
    (('2024-01', '2024-02', '2024-03'), ('2025-W01',), ('2024', '2025'))

    Raises:
        PlanError: If it is no calendar period: nothing would be charged, so that this must never be passed over.
    """
    whole = span(period)
    if whole is None:
        raise PlanError(
            f"the period {period!r} is no calendar period, and an account with a window per {per} needs one",
            detail=beyond(period),
            hint=f"write `period: 2024-03` in the spec, or another of {CALENDAR}",
            code="DPR-P310",
        )
    at, end = whole
    found: list[str] = []
    while at < end:
        found.append(containing(per, at))
        inside = span(found[-1])
        at = end if inside is None else inside[1]  # none: it lasts to the end of the calendar, and so beyond `end`
    return tuple(found)


def containing(kind: Per, day: date) -> str:
    """The period of a kind which a day lies in.

    >>> [containing(kind, date(2024, 12, 30)) for kind in ("week", "quarter", "year")]
    ['2025-W01', '2024-Q4', '2024']
    """
    if kind == "day":
        return day.isoformat()
    if kind == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04d}-W{week:02d}"
    if kind == "month":
        return f"{day.year:04d}-{day.month:02d}"
    quarter = (day.month - 1) // _MONTHS_OF_A_QUARTER + 1
    return f"{day.year:04d}-Q{quarter}" if kind == "quarter" else f"{day.year:04d}"


def is_a(kind: Per, period: str) -> bool:
    """Whether a text is a period of the calendar of that kind.

    >>> is_a("week", "2024-W09"), is_a("month", "2024"), is_a("year", "once")
    (True, False, False)
    """
    whole = span(period)
    return whole is not None and containing(kind, whole[0]) == period


def following(period: str) -> str:
    """The period of the same kind that begins where this one ends.

    >>> [following(period) for period in ("2024", "2024-Q4", "2024-02", "2020-W53", "2024-02-28")]
    ['2025', '2025-Q1', '2024-03', '2021-W01', '2024-02-29']

    Raises:
        PlanError: If it is no calendar period (DPR-P310), or the last one of the calendar (DPR-P311).
    """
    whole = span(period)
    if whole is None:
        raise _no_period(period, "nothing comes after it")
    kind: Per = next(kind for kind in get_args(Per) if is_a(kind, period))
    after = containing(kind, whole[1])
    if span(after) is None:
        hint = "9999-12-31 is the last day of the calendar, and a period ends before it"
        raise PlanError(f"no {kind} comes after the period {period!r}", hint=hint, code="DPR-P311")
    return after


def preceding(period: str) -> str | None:
    """The period of the same kind that ends where this one begins; None: it is none of the calendar, or its first.

    >>> [preceding(period) for period in ("2024", "2024-Q1", "2024-03", "2021-W01", "2024-03-01", "once")]
    ['2023', '2023-Q4', '2024-02', '2020-W53', '2024-02-29', None]
    """
    whole = span(period)
    if whole is None or whole[0] == date.min:
        return None
    kind: Per = next(kind for kind in get_args(Per) if is_a(kind, period))
    before = containing(kind, whole[0] - timedelta(days=1))
    return before if span(before) is not None else None


def periods(first: str, kind: Per, until: date) -> tuple[str, ...]:
    """Every period of a kind from the first one to the one in which a day lies, the earliest first.

    >>> periods("2023-12", "month", date(2024, 2, 1)), periods("2024", "year", date(2023, 12, 31))
    (('2023-12', '2024-01', '2024-02'), ())

    Raises:
        PlanError: If the first one is no period of that kind.
    """
    whole = span(first)
    if whole is None or not is_a(kind, first):
        raise _no_period(first, f"a schedule by {kind} begins with one", kind)
    at, found = whole[0], []
    while at <= until:
        found.append(containing(kind, at))
        inside = span(found[-1])
        if inside is None:  # it would end beyond the calendar
            return tuple(found[:-1])
        at = inside[1]
    return tuple(found)


def _no_period(period: str, why: str, kind: str = "") -> PlanError:
    says = f"the period {period!r} is no {kind} of the calendar" if kind else f"{period!r} is no calendar period"
    return PlanError(f"{says}, and {why}", detail=beyond(period), hint=f"write {CALENDAR}", code="DPR-P310")
