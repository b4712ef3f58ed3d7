"""``cron:`` of a schedule: which five fields are read, and at which moments they tick in a time zone.

Only what every cron reads alike is accepted, so that a schedule means the same to whoever starts it: Prefect, a
``crontab``, and the rule of this project that says when a period is passed over.

Clocks that change. A time of day that comes twice ticks once, the first time. A time of day that a clock skips ticks
once as well, but libraries place it differently: with the offset that held before the change, so that 02:30 becomes
03:30 (``after`` the gap; Prefect from 3.9 on, and on Python 3.13 and later), or with the one that holds afterwards, so
that it becomes 01:30 (``before`` it; Prefect 3.8 on Python 3.11 and 3.12). Ticks that fall together are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator

from dprelease.spec.text.names import shown
from dprelease.spec.text.scalars import kind_of, refuse

__all__ = ["Cron", "Gap", "tick_from"]

Gap = Literal["after", "before"]

# Name, lowest and highest number, and words for numbers; the order is that of cron.
_FIELDS: Sequence[tuple[str, int, int, Sequence[str]]] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    ("day of the week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)
_PART = re.compile(r"(\*|(?P<low>[0-9]{1,2}|[A-Z]{3})(-(?P<high>[0-9]{1,2}|[A-Z]{3}))?)(/(?P<step>[0-9]{1,2}))?")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_CRON_HINT = 'write minute, hour, day of the month, month, day of the week: `cron: "0 6 5 * *"` is 6:00 on every 5th'


def _cron(value: Any) -> str:
    """Five fields that every cron reads alike: numbers and names, ranges, lists and steps; nothing random or named."""
    if not isinstance(value, str):
        raise refuse("DPR-S630", f"is {kind_of(value)}, no five fields of cron", _CRON_HINT)
    parts = value.upper().split()
    if len(parts) != len(_FIELDS) or not value.isascii():
        raise refuse("DPR-S630", f"is {shown(value)!r}, and has {len(parts)} fields, not 5", _CRON_HINT)
    sets = [_numbers(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    if "*" not in (parts[2], parts[4]):  # some take days that fit both, some days that fit either
        hint = "leave one of the two `*`: with both, crons differ in which days they take"
        raise refuse("DPR-S630", "has a day of the month and a day of the week", hint)
    if min(sets[2]) > max(_LONGEST_MONTHS[month - 1] for month in sets[3]):
        raise refuse("DPR-S630", f"is {shown(value)!r}, a day that no year has", _CRON_HINT)
    return " ".join(value.split())


def _numbers(text: str, name: str, lowest: int, highest: int, words: Sequence[str]) -> set[int]:
    """What one field stands for."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise refuse("DPR-S630", f"has no {name} that every cron reads alike: {shown(text)!r}", _CRON_HINT)
        low, high = lowest, highest
        if match["low"]:
            low = _number(match["low"], name, words)
            high = _number(match["high"], name, words) if match["high"] else low
        step = int(match["step"] or 1)
        if not lowest <= low <= high <= highest or step == 0 or (match["step"] and match[1].isalnum()):
            expected = f"a number from {lowest} to {highest}, a range a-b, or a step */n or a-b/n"
            raise refuse("DPR-S630", f"has a {name} that cannot be: {shown(part)!r}", f"write {expected}")
        found |= set(range(low, high + 1, step))
    return found


def _number(text: str, name: str, words: Sequence[str]) -> int:
    if text.isdigit():
        return int(text)
    if text not in words:
        raise refuse("DPR-S630", f"has a {name} that cannot be: {shown(text)!r}", "write a number")
    return words.index(text)


Cron = Annotated[str, BeforeValidator(_cron)]


@dataclass(frozen=True)
class _Ticks:
    """The numbers that each field stands for, in order; days of the week from Monday, 0, as dates count them."""

    minutes: Sequence[int]
    hours: Sequence[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def on(self, day: date) -> bool:
        """Whether a day has ticks."""
        return day.month in self.months and day.day in self.days and day.weekday() in self.weekdays

    def since(self, moment: datetime) -> Iterator[datetime]:
        """Every tick by a clock that never changes, at or after a moment of it; the earliest first."""
        day, least = moment.date(), moment.time()
        while True:
            if self.on(day):
                for hour in self.hours:
                    if hour >= least.hour:
                        times = (time(hour, minute) for minute in self.minutes)
                        yield from (datetime.combine(day, each) for each in times if each >= least)
            day, least = day + timedelta(days=1), time()


@cache
def _ticks(cron: str) -> _Ticks:
    parts = cron.upper().split()
    minutes, hours, days, months, weekdays = (
        _numbers(part, *field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    from_monday = frozenset((day - 1) % 7 for day in weekdays)
    return _Ticks(sorted(minutes), sorted(hours), frozenset(days), frozenset(months), from_monday)


def tick_from(cron: str, zone: ZoneInfo, moment: datetime, gap: Gap = "after") -> datetime:
    """The first tick at or after a moment; UTC.

    >>> paris, night = ZoneInfo("Europe/Paris"), datetime(2024, 3, 30, 23, tzinfo=UTC)
    >>> [tick_from("30 2 * * *", paris, night, gap).strftime("%H:%MZ") for gap in ("before", "after")]
    ['00:30Z', '01:30Z']

    Args:
        cron: Five fields, as a spec has them.
        zone: Whose clock they are of.
        moment: With a time zone.
        gap: Where a time of day goes that the clock skips.

    Raises:
        OverflowError: If there is none before the end of the calendar.
    """
    moment = moment.astimezone(UTC)
    best: datetime | None = None
    for clock in _ticks(cron).since(_clock(moment, zone) - _skew(moment, zone)):
        if best is not None and clock > _clock(best, zone) + _skew(best, zone):
            return best
        found = clock.replace(tzinfo=zone, fold=_fold(clock, zone, gap)).astimezone(UTC)
        if found >= moment and (best is None or found < best):
            best = found
    raise OverflowError(cron)  # pragma: no cover - the days end first, with an OverflowError of their own


_DAY = timedelta(hours=25)  # no clock was ever changed by more than a day


def _clock(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _skew(moment: datetime, zone: ZoneInfo) -> timedelta:
    """How far from a moment a tick may stand elsewhere in the order of the clock: nothing, unless the clock changes."""
    near = (moment - _DAY, moment, moment + _DAY)
    return _DAY if len({each.astimezone(zone).utcoffset() for each in near}) > 1 else timedelta(0)


def _fold(clock: datetime, zone: ZoneInfo, gap: Gap) -> int:
    """PEP 495: of a time that comes twice, 0 is the first; of one that is skipped, 0 takes the offset from before."""
    if gap == "after":
        return 0
    offsets = [clock.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta(0) for fold in (0, 1)]
    return 1 if offsets[0] < offsets[1] else 0
