"""``schedule:`` of a spec: how often a period is released, when its data are complete, and how long they are kept.

A schedule says when, never what: it is no part of a spec's fingerprint, so that another hour of the day leaves every
plan, and every release that is under way, as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, WithJsonSchema

from dprelease.errors import Problem, SpecError
from dprelease.spec.fields import Period, ReleaseName, kind_of, refuse
from dprelease.spec.findings import Findings
from dprelease.spec.names import nearest, shown
from dprelease.spec.nodes import plain
from dprelease.spec.period import Per, beyond, is_a
from dprelease.spec.prune import Hidden
from dprelease.spec.translate import problems_of
from dprelease.spec.value import SpecValue
from dprelease.spec.yaml import read_yaml

__all__ = ["Duration", "ScheduleSpec", "Scheduled", "check_schedule", "read_schedule"]

_DURATION = re.compile(r"(0|[1-9][0-9]{0,3})([hdmy])")
_LONGEST = {"h": 9_999, "d": 9_999, "m": 1_200, "y": 100}
_EXAMPLES: dict[Per, str] = {
    "day": "2024-03-07",
    "week": "2024-W09",
    "month": "2024-03",
    "quarter": "2024-Q1",
    "year": "2024",
}
# Name, lowest and highest number, and words for numbers; the order is that of cron.
_FIELDS: Sequence[tuple[str, int, int, Sequence[str]]] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    ("day of the week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)
_KEYS = re.compile(rb"""^["']?(dprelease|schedule)["']?[ \t]*:""", re.MULTILINE)
_PART = re.compile(r"(\*|(?P<low>[0-9]{1,2}|[A-Z]{3})(-(?P<high>[0-9]{1,2}|[A-Z]{3}))?)(/(?P<step>[0-9]{1,2}))?")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_CRON_HINT = 'write minute, hour, day of the month, month, day of the week: `cron: "0 6 5 * *"` is 6:00 on every 5th'
_DURATION_HINT = "write a whole number and h, d, m or y, for hours, days, months, years: 6h, 4d, 1m, 2y"


class Duration(SpecValue):
    """A stretch of time by the calendar and the clock, such as four days or one month."""

    number: int = Field(ge=0)
    unit: Literal["h", "d", "m", "y"]

    def __str__(self) -> str:
        """As it is written.

        >>> str(Duration(number=4, unit="d"))
        '4d'
        """
        return f"{self.number}{self.unit}"

    def after(self, day: date, zone: ZoneInfo) -> datetime:
        """The moment so long after a day begins, in a time zone; UTC.

        Days, months and years count by the calendar: one month after the 31st is the last day of a shorter month.
        Hours count by the clock. A midnight that a change of the clock skips is the first moment of its day, and the
        first of two is taken (PEP 495: in a gap, ``fold=0`` takes the offset from before it).

        >>> Duration(number=1, unit="m").after(date(2024, 1, 31), ZoneInfo("UTC")).isoformat()
        '2024-02-29T00:00:00+00:00'
        """
        if self.unit == "d":
            day += timedelta(days=self.number)
        elif self.unit in ("m", "y"):
            years, month = divmod(day.month - 1 + self.number * (1 if self.unit == "m" else 12), 12)
            day = _clamped(day.year + years, month + 1, day.day)
        hours = self.number if self.unit == "h" else 0
        return datetime.combine(day, time(), zone).astimezone(UTC) + timedelta(hours=hours)


def _clamped(year: int, month: int, day: int) -> date:
    for shorter in range(4):
        try:
            return date(year, month, day - shorter)
        except ValueError:
            continue
    raise OverflowError(year)


def _duration(value: Any) -> Any:
    if isinstance(value, Duration):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise refuse("DPR-S632", f"is {kind_of(value)}, no length of time", _DURATION_HINT)
    if int(found[1]) > _LONGEST[found[2]]:
        raise refuse("DPR-S632", "is longer than a century", _DURATION_HINT)
    return Duration(number=int(found[1]), unit=found[2])  # type: ignore[arg-type]  # one of the four, by the pattern


Length = Annotated[
    Duration,
    BeforeValidator(_duration),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]


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


def _zone(value: Any) -> str:
    hint = "write the name of a place, such as Europe/Paris or America/New_York, or UTC"
    if not isinstance(value, str) or not value:
        raise refuse("DPR-S631", f"is {kind_of(value)}, no time zone", hint)
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):  # no name, a folder of names, a name that is not there
        from zoneinfo import available_timezones

        known = available_timezones()
        near = nearest(value, known)
        hint = f"did you mean `{near}`?" if near else hint if known else "install the package `tzdata`, which has them"
        raise refuse("DPR-S631", f"is {shown(value)!r}, which is no time zone here", hint) from None
    return value


class ScheduleSpec(SpecValue):
    """Every period is released once: how often, when, and until when that is possible."""

    cron: Annotated[str, BeforeValidator(_cron)] = Field(
        description="When a scheduler starts it: minute, hour, day of the month, month, day of the week."
    )
    timezone: Annotated[str, BeforeValidator(_zone)] = Field(
        description="Of cron, and of the days that periods begin and end with: Europe/Paris."
    )
    period: Per = Field(description="What one release is about: a day, week (ISO 8601), month, quarter or year.")
    catch_up: Literal["one_by_one"] = Field(
        "one_by_one", description="Periods that were missed are released as well, the earliest first."
    )
    not_before: Length = Field(
        Duration(number=0, unit="d"),
        json_schema_extra={"default": "0d"},
        description="How long after a period's end its data are complete: 6h, 4d, 1m.",
    )
    retention: Length | None = Field(None, description="How long after a period's end its data are kept: 90d, 2y.")

    @property
    def zone(self) -> ZoneInfo:
        """The time zone; its rules are of the machine."""
        return ZoneInfo(self.timezone)

    def complete(self, end: date) -> datetime:
        """The first moment at which the data of a period that ends before a day are complete; UTC.

        A day ends at its midnight in the schedule's time zone, and the rows of a release are told apart by days of
        UTC: the later one counts, for a release that lacks rows cannot be taken back.
        """
        return max(self.not_before.after(end, self.zone), self.not_before.after(end, ZoneInfo("UTC")))

    def gone(self, end: date) -> datetime | None:
        """The first moment at which its data may be gone, by the earlier midnight; None: they are kept. UTC."""
        if self.retention is None:
            return None
        return min(self.retention.after(end, self.zone), self.retention.after(end, ZoneInfo("UTC")))


def check_schedule(schedule: ScheduleSpec | None, first: str | None, findings: Findings) -> None:
    """A first period of the schedule's kind, and a time in which it can be released.

    Args:
        schedule: As written.
        first: ``release.period``, where the file or the command line gives it.
        findings: Where problems go.
    """
    if schedule is None:
        return
    kind = schedule.period
    if first is not None and not is_a(kind, first):
        says = f"is {shown(first)!r}, and the schedule releases every {kind}"
        why = beyond(first)
        hint = f"write one like {_EXAMPLES[kind]}: the first {kind} that is released"
        at = ("release", "period")
        findings.add("DPR-S633", at, says, f"{hint}; {why}" if why else hint, ("schedule", "period"))
    if schedule.retention is not None and any(
        (gone := schedule.gone(end)) is not None and gone <= schedule.complete(end) for end in _ENDS
    ):
        says = f"is {schedule.retention}, and the data are complete only {schedule.not_before} after the period's end"
        at = ("schedule", "retention")
        hint = "write a longer one, or a shorter `not_before`; days end in UTC as well as in the time zone"
        findings.add("DPR-S634", at, says, hint, ("schedule", "not_before"), ("schedule", "timezone"))


_ENDS = tuple(date(2024 + month // 12, month % 12 + 1, 1) for month in range(24))  # a leap year and another one


@dataclass(frozen=True)
class Scheduled:
    """A release that has a schedule.

    Attributes:
        name: Of the release.
        first: Its first period, where the spec says it.
        schedule: When its periods are due.
    """

    name: str
    first: str | None
    schedule: ScheduleSpec


class _Head(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    name: ReleaseName
    period: Period | None = None


class _Outline(BaseModel):
    """What a schedule is told by; the rest of the file is the business of a run."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    release: _Head
    schedule: ScheduleSpec


_MODELS: dict[str, type[BaseModel]] = {"": _Outline, "release": _Head, "schedule": ScheduleSpec}


def read_schedule(text: str | bytes, file: str) -> Scheduled | None:
    """The schedule of a spec, whatever is wrong in its other parts; None: it has none, or is no spec.

    Args:
        text: The file.
        file: Its name in messages.

    Raises:
        SpecError: With every problem of YAML (in what looks like a spec with a schedule) and of these parts.
    """
    words = text if isinstance(text, bytes) else text.encode()
    if not all(key in words for key in (b"dprelease", b"schedule")):
        return None
    try:
        places, problems = read_yaml(text, file)
    except SpecError:
        if len(set(_KEYS.findall(words))) == 2:
            raise
        return None  # some other file, that is no YAML as we read it
    data = plain(places.root)
    if not isinstance(data, dict) or not {"dprelease", "schedule"} <= set(data):
        return None
    try:
        found = _Outline.model_validate(data)
    except ValidationError as error:
        problems += [problem for _, problem in problems_of(error, places, _MODELS)]
        raise SpecError(_in_order(problems)) from None
    findings = Findings(places, Hidden(), problems)
    check_schedule(found.schedule, found.release.period, findings)
    if findings.problems:
        raise SpecError(_in_order(findings.problems))
    return Scheduled(found.release.name, found.release.period, found.schedule)


def _in_order(problems: list[Problem]) -> list[Problem]:
    def place(problem: Problem) -> tuple[int, int]:
        return (problem.where.line, problem.where.column) if problem.where else (0, 0)

    return sorted(dict.fromkeys(problems), key=place)
