"""``schedule:`` of a spec: how often a period is released, when its data are complete, and how long they are kept.

A schedule says when, never what: it is no part of a spec's fingerprint, so that another hour of the day leaves every
plan, and every release that is under way, as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, WithJsonSchema

from dprelease.errors import Problem, SpecError
from dprelease.spec.cron import Cron, Gap, tick_from
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.period import EXAMPLES, Per, beyond, is_a
from dprelease.spec.text.findings import Findings, Hidden
from dprelease.spec.text.names import nearest, shown
from dprelease.spec.text.nodes import plain
from dprelease.spec.text.scalars import Filled, Period, ReleaseName, kind_of, refuse
from dprelease.spec.text.translate import problems_of
from dprelease.spec.text.yaml import read_yaml

__all__ = ["Duration", "ScheduleSpec", "Scheduled", "check_schedule", "read_schedule"]

_DURATION = re.compile(r"(0|[1-9][0-9]{0,3})([hdmy])")
_LONGEST = {"h": 9_999, "d": 9_999, "m": 1_200, "y": 100}
_KEYS = re.compile(rb"""^["']?(dprelease|schedule)["']?[ \t]*:""", re.MULTILINE)
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

    cron: Cron = Field(
        description="When a scheduler starts it: minute, hour, day of the month, month, day of the week."
    )
    timezone: Annotated[str, BeforeValidator(_zone)] = Field(
        description="Of cron, and of the days that periods begin and end with: Europe/Paris."
    )
    period: Per = Field(description="What one release is about: a day, week (ISO 8601), month, quarter or year.")
    catch_up: Literal["one_by_one", "latest", "none"] = Field(
        "one_by_one", description="Periods that were missed: all, the earliest first; only the last one; or none."
    )
    not_before: Length = Field(
        Duration(number=0, unit="d"),
        json_schema_extra={"default": "0d"},
        description="How long after a period's end its data are complete: 6h, 4d, 1m.",
    )
    retention: Length | None = Field(None, description="How long after a period's end its data are kept: 90d, 2y.")
    revisions: tuple[Length, ...] = Field(
        (),
        json_schema_extra={"default": []},
        description="How long after a period's end it is released again, with the rows that came late: [1m, 12m].",
    )
    late_rows: Literal["next_revision", "never"] | None = Field(
        None, description="Rows that come after a release: in the next revision, or never; by default as revisions say."
    )
    last: Period | None = Field(None, description="The last period that is released; left out, there is none.")
    skip: dict[str, Filled] = Field(
        {}, description="Periods that are not released, and why: {2024-02: the source is lost}."
    )

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

    def revised(self, end: date, number: int) -> datetime:
        """The first moment at which a period that ends before a day may be revised; UTC.

        Args:
            end: The first day after the period.
            number: The number of the revision, from 1.
        """
        length = self.revisions[number - 1]
        return max(length.after(end, self.zone), length.after(end, ZoneInfo("UTC")))

    @property
    def takes_late_rows(self) -> bool:
        """Whether rows that come after a release are published: each revision reads the data as they are then."""
        return bool(self.revisions) if self.late_rows is None else self.late_rows == "next_revision"

    def passed_over(self, end: date) -> datetime:
        """Under ``catch_up: none``, when a period's turn is over: the second tick since its data are complete; UTC.

        A scheduler that starts on every tick has then had its chance, with all the time between two of them. Of the
        two ways to place a tick that a clock skips the later end counts, so that the first tick of either one is in
        time (a scheduler that places it otherwise than we do would find the period passed over at its first try).
        """
        whole = self.complete(end)
        return max(self._tick_after(tick_from(self.cron, self.zone, whole, gap), gap) for gap in ("after", "before"))

    def next_tick(self, now: datetime) -> datetime:
        """The first tick after a moment; UTC."""
        return self._tick_after(now, "after")

    def _tick_after(self, moment: datetime, gap: Gap) -> datetime:
        return tick_from(self.cron, self.zone, moment + timedelta(microseconds=1), gap)


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
    _check_periods(schedule, first, findings)
    _check_revisions(schedule, findings)
    if first is not None and not is_a(kind, first):
        says = f"is {shown(first)!r}, and the schedule releases every {kind}"
        why = beyond(first)
        hint = f"write one like {EXAMPLES[kind]}: the first {kind} that is released"
        at = ("release", "period")
        findings.add("DPR-S633", at, says, f"{hint}; {why}" if why else hint, ("schedule", "period"))
    if schedule.retention is not None and any(
        (gone := schedule.gone(end)) is not None and gone <= schedule.complete(end) for end in _ENDS
    ):
        says = f"is {schedule.retention}, and the data are complete only {schedule.not_before} after the period's end"
        at = ("schedule", "retention")
        hint = "write a longer one, or a shorter `not_before`; days end in UTC as well as in the time zone"
        findings.add("DPR-S634", at, says, hint, ("schedule", "not_before"), ("schedule", "timezone"))


def _check_periods(schedule: ScheduleSpec, first: str | None, findings: Findings) -> None:
    """The periods that the schedule itself names."""
    kind, last = schedule.period, schedule.last
    for period in schedule.skip:
        if not is_a(kind, period):
            says = f"is no {kind}, and the schedule releases every {kind}"
            hint = f"write one like {EXAMPLES[kind]}, and why it is not released"
            findings.add("DPR-S636", ("schedule", "skip", period), says, hint, ("schedule", "period"), key=True)
    if last is None:
        return
    if not is_a(kind, last):
        says, hint = f"is {shown(last)!r}, and the schedule releases every {kind}", f"write one like {EXAMPLES[kind]}"
        findings.add("DPR-S637", ("schedule", "last"), says, hint, ("schedule", "period"))
    elif first is not None and is_a(kind, first) and first > last:  # years have four digits: the order of time
        says = f"is {first}, and the schedule ends with {last}"
        hint = "write an earlier one, or a later `schedule: last:`"
        findings.add("DPR-S638", ("release", "period"), says, hint, ("schedule", "last"), ("schedule", "period"))


def _check_revisions(schedule: ScheduleSpec, findings: Findings) -> None:
    """Each after the data are complete, after the one before it, and before the data are gone."""
    lengths, at = schedule.revisions, ("schedule", "revisions")
    if len(lengths) > _MOST_REVISIONS:
        says = f"has {len(lengths)} revisions, and at most {_MOST_REVISIONS} are planned"
        findings.add("DPR-S643", at, says, "every one is charged with the first publication: plan fewer")
    for number, length in enumerate(lengths, 1):
        here, names = (*at, number - 1), (("schedule", "not_before"), ("schedule", "timezone"))
        moments = [(schedule.revised(end, number), end) for end in _ENDS]
        if any(moment <= schedule.complete(end) for moment, end in moments):
            says = f"is {length}, and the data are complete only {schedule.not_before} after the period's end"
            findings.add("DPR-S640", here, says, "write a longer one: it is counted from the period's end", *names)
        elif number > 1 and any(moment <= schedule.revised(end, number - 1) for moment, end in moments):
            says = f"is {length}, and the revision before it comes {lengths[number - 2]} after the period's end"
            findings.add("DPR-S641", here, says, "write them in order, each longer than the one before", at)
        elif any((gone := schedule.gone(end)) is not None and gone <= moment for moment, end in moments):
            says = f"is {length}, and the data are kept for {schedule.retention} only"
            findings.add(
                "DPR-S642", here, says, "leave it out, or write a longer `retention`", ("schedule", "retention")
            )
    if schedule.late_rows is not None and schedule.takes_late_rows != bool(lengths):
        says = "is `never`, and a revision reads the data as they are then, with every row that came late"
        hint = "leave out `late_rows`, or `revisions`"
        if not lengths:
            says = "is `next_revision`, and no revision is planned"
            hint = "write `revisions: [1m]`, or leave out `late_rows`: rows that come late are then never published"
        findings.add("DPR-S644", ("schedule", "late_rows"), says, hint, at)


_MOST_REVISIONS = 12
_ENDS = tuple(date(2024 + month // 12, month % 12 + 1, 1) for month in range(24))  # a leap year and another one


@dataclass(frozen=True)
class Scheduled:
    """A release that has a schedule.

    Attributes:
        name: The name of the release.
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
