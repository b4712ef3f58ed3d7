"""`schedule:` of a spec: what is read, what is refused and where, and when a period's data are complete."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pytest

from dprelease.errors import Problem, SpecError
from dprelease.spec.fields.schedule import Duration, ScheduleSpec, read_schedule
from dprelease.spec.load import load
from dprelease.spec.period import EXAMPLES, Per, is_a

from .spec_example import SPEC, swapped

SCHEDULE = 'schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month, not_before: 4d, retention: 90d}\n'
WHOLE = SPEC + SCHEDULE
LINE = WHOLE.count("\n")


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    return caught.value.problems


def schedule(**fields: Any) -> ScheduleSpec:
    return ScheduleSpec.model_validate({"cron": "0 6 * * *", "timezone": "UTC", "period": "month", **fields})


def test_a_schedule_is_read_and_changes_no_fingerprint() -> None:
    with_it, without = load(WHOLE, "spec.yaml"), load(SPEC, "spec.yaml")

    assert with_it.spec.schedule == schedule(
        cron="0 6 5 * *", timezone="Europe/Paris", not_before="4d", retention="90d"
    )
    assert str(with_it.spec.schedule.not_before if with_it.spec.schedule else "") == "4d"
    assert without.spec.schedule is None
    assert with_it.fingerprint == without.fingerprint  # an open release is not stopped by another hour of the day


@pytest.mark.parametrize(
    ("old", "new", "code", "hint"),
    [
        ('cron: "0 6 5 * *", ', "", "DPR-S201", "6:00 on every 5th"),
        ("timezone: Europe/Paris, ", "", "DPR-S201", "or UTC"),
        ("period: month, ", "", "DPR-S201", "day, week, quarter"),
        ("period: month, ", "period: monthly, ", "DPR-S202", "`month`"),
        ("period: month, ", "period: year, ", "DPR-S633", "the first year"),
        ("not_before", "notbefore", "DPR-S200", "`not_before`"),
        ("not_before: 4d", "not_before: 4", "DPR-S632", "4d"),
        ("not_before: 4d", "not_before: 4w", "DPR-S632", "months"),
        ("not_before: 4d", "not_before: -4d", "DPR-S632", "whole number"),
        ("not_before: 4d", "not_before: 101y", "DPR-S632", "whole number"),
        ("retention: 90d", "retention: 4d", "DPR-S634", "longer one"),
        ("retention: 90d", "retention: 97h", "DPR-S634", "longer one"),  # Paris is up to two hours before UTC
        ("retention: 90d", "retention: 90d, revisions: [4d]", "DPR-S640", "longer one"),
        ("retention: 90d", "retention: 90d, skip: {2024-Q1: why}", "DPR-S636", "2024-03"),
        ("retention: 90d", "retention: 90d, skip: {2024-13: why}", "DPR-S636", "2024-03"),
        ("retention: 90d", "retention: 90d, skip: {2024-04: }", "DPR-S215", "write"),
        ("retention: 90d", "retention: 90d, skip: [2024-04]", "DPR-S203", "why it is not"),
        ("retention: 90d", "retention: 90d, last: 2024", "DPR-S637", "2024-03"),
        ("retention: 90d", "retention: 90d, last: 2024-02", "DPR-S638", "a later"),
        ("retention: 90d", "retention: 90d, catch_up: all", "DPR-S202", "one_by_one"),
        ("Europe/Paris", "Europe/Pariss", "DPR-S631", "Europe/Paris"),
        ("Europe/Paris", "Europe", "DPR-S631", "Europe/"),
        ("Europe/Paris", "../../etc/passwd", "DPR-S631", "UTC"),
        ("Europe/Paris", "2", "DPR-S631", "name of a place"),
        ('"0 6 5 * *"', '"@monthly"', "DPR-S630", "minute, hour"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(old: str, new: str, code: str, hint: str) -> None:
    (problem,) = problems_of(SPEC + swapped(old, new, SCHEDULE))

    assert problem.code == code
    assert hint in problem.hint, problem
    assert problem.where is not None
    assert problem.where.line == (4 if code in ("DPR-S633", "DPR-S638") else LINE)


@pytest.mark.parametrize("catch_up", ["one_by_one", "latest", "none"])
def test_what_becomes_of_missed_periods_changes_no_fingerprint(catch_up: str) -> None:
    fields = f"catch_up: {catch_up}, skip: {{2024-04: the source is lost, '2024-05': no survey}}, last: 2024-12"
    found = load(swapped("retention: 90d", f"retention: 90d, {fields}", WHOLE), "spec.yaml")

    assert found.fingerprint == load(SPEC, "spec.yaml").fingerprint
    assert found.spec.schedule is not None
    assert found.spec.schedule.catch_up == catch_up
    assert found.spec.schedule.skip == {"2024-04": "the source is lost", "2024-05": "no survey"}


def test_no_period_after_the_last_one_can_be_asked_for() -> None:
    text = swapped("retention: 90d", "retention: 90d, last: 2024-12", WHOLE)
    load(text, "spec.yaml", "2024-12")
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml", "2025-01")
    assert [each.code for each in caught.value.problems] == ["DPR-S638"]


def test_years_are_read_as_text_where_they_are_skipped() -> None:
    made = read_schedule(
        "dprelease: 1\nrelease: {name: a, period: 2020}\n"
        'schedule: {cron: "0 6 5 1 *", timezone: UTC, period: year, skip: {2021: why}, last: 2024}\n',
        "spec.yaml",
    )
    assert made is not None
    assert (made.schedule.skip, made.schedule.last) == ({"2021": "why"}, "2024")


def test_a_first_period_of_another_kind_is_refused_with_one_that_would_do() -> None:
    for kind, right in {"day": "2024-03-07", "week": "2024-W09", "quarter": "2024-Q1", "year": "2024"}.items():
        other = swapped("period: month", f"period: {kind}", WHOLE)
        (problem,) = problems_of(other)
        assert right in problem.hint
        load(swapped("period: 2024-03\n", f"period: {right}\n", other), "spec.yaml")


def test_several_things_that_are_wrong_are_told_in_one_go() -> None:
    text = swapped("4d", "4w", swapped("Europe/Paris", "Mars", SCHEDULE))

    assert [each.code for each in problems_of(SPEC + text)] == ["DPR-S631", "DPR-S632"]


RIGHT = [
    *("* * * * *", "0 6 5 * *", "*/15 0-23/2 * * *", "5,10,59 0 1,15 1-3,12 *", "0 0 * * 1-5", "30 23 * * 7"),
    *("0 6 29 2 *", "0 0 31 1,2 *", "0 0 * JAN-MAR *", "0 0 * * mon,Wed", "  0   6 5 * * ", "0-59/7 8-17 * 6 *"),
]
WRONG = [
    *("", "0 6 5 *", "0 6 5 * * *", "60 6 5 * *", "0 24 5 * *", "0 6 0 * *", "0 6 32 * *", "0 6 5 13 *", "0 6 5 0 *"),
    *("0 6 * * 8", "*/0 6 5 * *", "5/10 6 5 * *", "5-1 6 5 * *", "1,,2 6 5 * *", "x 6 5 * *", "-1 6 5 * *"),
    *("0 6 31 2 *", "0 6 31 4,6 *", "0 6 L * *", "0 6 * * MON#1", "0 6 * * 5L", "H 6 5 * *", "R 6 5 * *", "? 6 5 * *"),
    *("0 6 5 * MON", "0 6 */2 * 1", "0 6 1-7 * FOO", "0 6 5 XYZ *", "0 6 5 MON *", "0 6 5 * JAN", "٣ 6 5 * *"),
    *("0 6 5 * * # x", "0 6 5 * *; rm", "0 6\u00a05 * *", "*-5 6 5 * *", "1.5 6 5 * *", "0 6 5 * SAT-SUN"),
]


@pytest.mark.parametrize("cron", RIGHT)
def test_five_fields_that_every_cron_reads(cron: str) -> None:
    found = schedule(cron=cron).cron

    assert found == " ".join(cron.split())
    simulated = pytest.importorskip("cronsim").CronSim(found, datetime(2024, 1, 1, tzinfo=UTC))
    assert next(simulated).year < 2029  # and it comes


@pytest.mark.parametrize("cron", WRONG)
def test_other_texts_are_refused(cron: str) -> None:
    with pytest.raises(ValueError, match=r"cron|fields|minute|hour|day|month"):
        schedule(cron=cron)


def test_a_field_stands_for_what_cron_takes_it_for() -> None:
    """Every single number of every field, in and out of bounds, against another reader of cron."""
    other = pytest.importorskip("cronsim")
    for field in range(5):
        for number in range(70):
            parts = ["0", "0", "*", "*", "*"]
            parts[field] = str(number)
            try:
                other.CronSim(" ".join(parts), datetime(2024, 1, 1, tzinfo=UTC))
                known = True
            except other.CronSimError:
                known = False
            if known:
                schedule(cron=" ".join(parts))
            else:
                with pytest.raises(ValueError, match="cron"):
                    schedule(cron=" ".join(parts))


ZONES = ("UTC", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati", "Africa/Cairo", "America/Havana")


def at(duration: str, day: str, zone: str = "UTC") -> str:
    found = schedule(not_before=duration).not_before.after(date.fromisoformat(day), ZoneInfo(zone))
    assert found.tzinfo is UTC
    return found.strftime("%Y-%m-%dT%H:%MZ")


def test_lengths_of_time_are_of_the_calendar_and_of_the_clock() -> None:
    assert at("4d", "2024-02-27") == "2024-03-02T00:00Z"
    assert at("1m", "2024-01-31") == "2024-02-29T00:00Z"
    assert at("1m", "2023-01-29") == "2023-02-28T00:00Z"
    assert at("12m", "2024-02-29") == at("1y", "2024-02-29") == "2025-02-28T00:00Z"
    assert at("11m", "2024-02-01") == "2025-01-01T00:00Z"
    assert at("30h", "2024-03-10", "America/New_York") == "2024-03-11T11:00Z"  # the clock is put forward: 07:00 EDT
    assert at("1d", "2024-03-10", "America/New_York") == "2024-03-11T04:00Z"
    assert at("0d", "2024-04-26", "Africa/Cairo") == "2024-04-25T22:00Z"  # its midnight is skipped: 01:00 is the first
    assert at("0d", "2024-11-03", "America/Havana") == "2024-11-03T04:00Z"  # the first of its two midnights


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("length", ["0d", "6h", "4d", "1m", "13m", "1y"])
def test_a_later_period_is_never_complete_earlier(zone: str, length: str) -> None:
    days = [date(2023, 12, 1) + timedelta(days=k) for k in range(800)]
    made = schedule(timezone=zone, not_before=length)
    moments = [made.complete(day) for day in days]

    assert all(before <= after for before, after in pairwise(moments))
    for day, moment in zip(days, moments, strict=True):
        assert moment.astimezone(ZoneInfo(zone)).date() >= day  # over by its own days
        assert moment.date() >= day  # and by those of UTC, which tell rows apart


@pytest.mark.parametrize("zone", ZONES)
def test_data_are_taken_for_gone_at_the_earlier_midnight(zone: str) -> None:
    kept = schedule(timezone=zone, retention="90d")
    for k in range(400):
        day = date(2024, 1, 1) + timedelta(days=k)
        gone, late = kept.gone(day), day + timedelta(days=90)
        assert gone is not None
        assert gone <= datetime(late.year, late.month, late.day, tzinfo=UTC)
        assert gone <= datetime(late.year, late.month, late.day, tzinfo=ZoneInfo(zone))
    assert schedule().gone(date(2024, 1, 1)) is None


def test_there_is_a_moment_between_complete_and_gone() -> None:
    zone = swapped("Europe/Paris", "UTC", WHOLE)
    for retention, fits in {"96h": False, "4d": False, "97h": True, "1m": True}.items():
        text = swapped("retention: 90d", f"retention: {retention}", zone)
        if fits:
            load(text, "spec.yaml")
        else:
            assert [each.code for each in problems_of(text)] == ["DPR-S634"]
    month = swapped("not_before: 4d", "not_before: 1m", zone)
    assert problems_of(swapped("retention: 90d", "retention: 30d", month))  # in some months
    assert problems_of(swapped("retention: 90d", "retention: 31d", month))
    load(swapped("retention: 90d", "retention: 32d", month), "spec.yaml")


def test_durations_are_values() -> None:
    assert Duration(number=4, unit="d") == schedule(not_before="4d").not_before
    assert schedule(not_before="4d").fingerprint() != schedule(not_before="5d").fingerprint()
    assert '"not_before":"4d"' in schedule(not_before="4d").canonical()


def test_a_schedule_is_told_whatever_is_wrong_in_the_rest_of_the_spec() -> None:
    found = read_schedule(swapped("title: People", "titel: People", WHOLE), "spec.yaml")

    assert found is not None
    assert (found.name, found.first, found.schedule.period) == ("regional-monitor", "2024-03", "month")
    later = read_schedule(swapped("  period: 2024-03\n", "", WHOLE), "spec.yaml")
    assert later is not None
    assert later.first is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "a: 1",
        SPEC,
        "schedule: {}",
        "dprelease schedule",
        "dprelease: [&x, schedule]",
        "dprelease: 1",
        b"\xff\xfe",
    ],
)
def test_other_files_have_no_schedule(text: str | bytes) -> None:
    assert read_schedule(text, "x.yaml") is None


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("Europe/Paris", "Mars", ["DPR-S631"]),
        ("period: month", "period: year", ["DPR-S633"]),
        ("name: regional-monitor", "name: X", ["DPR-S211"]),
        ("period: 2024-03", "period: 2024-13", ["DPR-S917"]),
        ("period: 2024-03", "period: spring", ["DPR-S633"]),
        ("retention: 90d", "retention: 1d", ["DPR-S634"]),
        ("dprelease: 1\n", "dprelease: 1\ndprelease: 1\n", ["DPR-S109"]),
        ("unit: {entity: person}", "unit: {entity: [person}", ["DPR-S103"]),
    ],
)
def test_what_is_wrong_in_a_schedule_is_not_passed_over(old: str, new: str, codes: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        read_schedule(swapped(old, new, WHOLE), "spec.yaml")
    assert [each.code for each in caught.value.problems] == codes


def test_every_kind_of_period_has_an_example_of_its_own() -> None:
    assert set(EXAMPLES) == set(get_args(Per))
    assert all(is_a(kind, example) for kind, example in EXAMPLES.items())
