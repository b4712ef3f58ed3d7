"""What `dprelease due` says of every period, held against the calendar day by day and against real ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from dprelease.ledger import Reservation
from dprelease.ledger.model.balance import Actor
from dprelease.plan.document import ReleasePlan
from dprelease.release.project import Project
from dprelease.release.schedule.due import PeriodStatus, coverage, due_facts, find_scheduled, first_period
from dprelease.spec.fields.schedule import Scheduled, ScheduleSpec
from dprelease.spec.period import Per, following, is_a, span
from tests.ledgers import SQLiteLedger, account, charges, fill, plan
from tests.project import SPEC, small_project

ACTOR = Actor(user="u", host="h", process=1, version="1", command="")
ANCHOR = datetime(2024, 6, 20, 12, tzinfo=UTC)


def schedule(period: Per = "month", **fields: Any) -> ScheduleSpec:
    given = {"cron": "0 6 * * *", "timezone": "UTC", "period": period, **fields}
    return ScheduleSpec.model_validate(given)


def taken(period: str, state: Literal["open", "closed", "given_up", "lost"], release: str = "r") -> Reservation:
    return Reservation(
        release=release,
        period=period,
        plan_fingerprint="p",
        spec_fingerprint="s",
        sequence=1,
        hash="h",
        reserved_at="",
        reserved_by=ACTOR,
        environment={},
        state=state,
        accounts=(),
    )


def states(slots: Sequence[PeriodStatus]) -> dict[str, str]:
    return {slot.period: slot.state for slot in slots}


def test_what_a_recovery_ended_is_published_where_it_has_found_the_bundle() -> None:
    begun = [
        taken("2024-01", "lost"),
        taken("2024-02", "lost").model_copy(update={"manifest": "digest"}),
        taken("2024-03", "given_up").model_copy(update={"manifest": "digest"}),
    ]
    found = states(coverage(schedule(not_before="4d"), "2024-01", begun, ANCHOR))
    assert [found[f"2024-0{month}"] for month in (1, 2, 3)] == ["given_up", "published", "published"]


def test_each_state() -> None:
    begun = [
        taken("2024-01", "closed"),
        taken("2024-02", "open"),
        taken("2024-03", "given_up"),
        taken("2023-09", "lost"),
    ]
    found = coverage(schedule(not_before="4d", retention="200d"), "2023-09", begun, ANCHOR)

    assert states(found) == {
        "2023-09": "given_up",
        "2023-10": "lost",  # kept until 2024-05-19
        "2023-11": "lost",  # until 2024-06-18
        "2023-12": "late",
        "2024-01": "published",
        "2024-02": "open",
        "2024-03": "given_up",
        "2024-04": "late",
        "2024-05": "due",
        "2024-06": "waiting",
    }
    assert [slot.passed for slot in found] == [True] * 8 + [False] * 2
    assert found[-2].due == datetime(2024, 6, 5, tzinfo=UTC)
    assert found[-2].gone == datetime(2024, 12, 18, tzinfo=UTC)


def test_states_change_at_the_moment_itself() -> None:
    made, moment, tick = (
        schedule(not_before="4d", retention="40d"),
        datetime(2024, 6, 5, tzinfo=UTC),
        timedelta(seconds=1),
    )

    def state(now: datetime, period: str) -> str:
        return states(coverage(made, "2024-05", (), now))[period]

    assert [state(moment - tick, "2024-05"), state(moment, "2024-05")] == ["waiting", "due"]
    assert state(datetime(2024, 7, 5, tzinfo=UTC) - tick, "2024-05") == "due"
    assert state(datetime(2024, 7, 5, tzinfo=UTC), "2024-05") == "late"
    assert state(datetime(2024, 7, 11, tzinfo=UTC) - tick, "2024-05") == "late"
    assert state(datetime(2024, 7, 11, tzinfo=UTC), "2024-05") == "lost"


def test_a_period_that_was_begun_again_is_what_it_was_last() -> None:
    def state(*each: Literal["open", "closed", "given_up", "lost"]) -> str:
        return coverage(schedule(), "2024-05", [taken("2024-05", one) for one in each], ANCHOR)[0].state

    assert state("closed", "open") == "open"
    assert state("closed", "given_up") == "published"  # the restatement was given up, the release stands
    assert state("given_up", "closed") == "published"
    assert state("given_up", "given_up") == state("lost") == "given_up"


def test_what_was_released_early_is_published() -> None:
    found = coverage(schedule(not_before="1m"), "2024-05", [taken("2024-06", "closed")], ANCHOR)

    assert states(found) == {"2024-05": "waiting", "2024-06": "published"}


@pytest.mark.thin
@pytest.mark.parametrize("kind", get_args(Per))
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_no_period_is_missing_and_none_twice_at_any_hour(kind: Per, zone: str) -> None:
    """Whatever the hour: every period that is over since the first is listed once, in order, and one that is not."""
    first = {"day": "2023-11-20", "week": "2023-W47", "month": "2023-11", "quarter": "2023-Q4", "year": "2023"}[kind]
    made = schedule(kind, timezone=zone)
    for hour in range(0, 24 * 60, 7):
        now = datetime(2023, 12, 15, tzinfo=UTC) + timedelta(hours=hour)
        found = coverage(made, first, (), now)
        listed = [slot.period for slot in found]
        assert listed[0] == first
        assert all(following(one) == two for one, two in pairwise(listed))
        over = [
            period for period in listed if (whole := span(period)) and whole[1] <= (now - timedelta(hours=14)).date()
        ]
        assert all(states(found)[period] in ("due", "late") for period in over)
        running = [slot.period for slot in found if slot.state == "waiting"]
        assert running
        assert running == listed[-len(running) :]
        last = span(listed[-1])
        assert last is not None
        assert last[0] <= now.date() + timedelta(days=1)
        assert [slot.state for slot in found].count("due") <= 1


def test_the_first_period_is_in_the_future() -> None:
    assert coverage(schedule(), "2024-07", (), ANCHOR) == ()


def test_the_first_period_of_a_ledger() -> None:
    begun = [taken("2024-03", "closed"), taken("2024-01", "given_up"), taken("2023", "closed"), taken("once", "open")]

    assert first_period("month", begun) == "2024-01"
    assert first_period("year", begun) == "2023"
    assert first_period("week", begun) is None


# With a ledger.

PEOPLE = account("people")
SURVEY = Scheduled("survey", "2024-03", schedule())


def facts(
    ledger: SQLiteLedger, scheduled: Scheduled = SURVEY, now: datetime = ANCHOR, **accounts: Any
) -> dict[str, Any]:
    return due_facts(scheduled, ledger, {"people": PEOPLE, **accounts}, now)


def monthly(period: str, cost: str = "1/10", release: str = "survey") -> ReleasePlan:
    return plan(release=release, period=period, cost=cost)


def test_a_ledger_that_is_not_there_has_released_nothing(tmp_path: Path) -> None:
    told = facts(SQLiteLedger(tmp_path / "l.db"))

    assert told["count"] == {"late": 2, "due": 1, "waiting": 1}
    assert told["alarm"]
    assert not list(tmp_path.iterdir())


def test_nobody_can_say_what_lacks_without_a_first_period(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    told = facts(ledger, Scheduled("survey", None, schedule()))
    assert (told["first"], told["periods"], told["alarm"]) == (None, [], True)

    fill(ledger, monthly("2024-05"))
    fill(ledger, monthly("2024-01", release="other"))
    told = facts(ledger, Scheduled("survey", None, schedule()))
    assert (told["first"], told["count"], told["alarm"]) == ("2024-05", {"published": 1, "waiting": 1}, False)


def test_a_ledger_with_everything_has_no_alarm(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    for period in ("2024-03", "2024-04", "2024-05"):
        assert facts(ledger)["alarm"]
        fill(ledger, monthly(period))
    told = facts(ledger)
    assert (told["count"], told["alarm"]) == ({"published": 3, "waiting": 1}, False)
    assert facts(ledger, now=datetime(2024, 7, 1, tzinfo=UTC))["alarm"]


def test_a_period_that_was_begun_is_left_alone_only_while_somebody_works_on_it(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    fill(ledger, monthly("2024-03"))
    fill(ledger, monthly("2024-04"))
    ledger.reserve(begun := monthly("2024-05"), charges(begun))

    told = facts(ledger)
    (slot,) = [each for each in told["periods"] if each["state"] == "open"]
    assert (slot["period"], slot["alarm"]) == ("2024-05", True)
    assert "nobody" in slot["blocked"]
    with ledger.lock("survey", "2024-05", "measuring"):
        told = facts(ledger)
        slot = told["periods"][2]
        assert not told["alarm"]
        assert "doing: measuring" in slot["blocked"]
        assert facts(ledger, now=datetime(2024, 7, 2, tzinfo=UTC))["periods"][2]["alarm"]  # it hangs
    with ledger.lock("survey", "2024-04", "measuring"), ledger.lock("other", "2024-05", "measuring"):
        assert facts(ledger)["alarm"]


def test_an_account_that_cannot_pay_is_named_exactly_when_the_reservation_is_refused(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    for n, period in enumerate(("2024-03", "2024-04"), start=1):
        told = facts(ledger)
        assert all(each["blocked"] == "" for each in told["periods"]), n
        fill(ledger, monthly(period, cost="1/3"))
    fill(ledger, monthly("2024-09", cost="1/3", release="other"))

    assert facts(ledger)["periods"][2]["blocked"] == "account people cannot pay for another release like the last one"
    larger = account("people", epsilon="4/3")
    assert facts(ledger, people=larger)["periods"][2]["blocked"] == ""
    assert "household" in facts(ledger, people=account("people", unit="household"))["periods"][2]["blocked"]


def test_an_account_that_the_policy_lost_is_named(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    fill(ledger, monthly("2024-03"))
    told = due_facts(SURVEY, ledger, {}, ANCHOR)

    assert told["periods"][1]["blocked"] == "the policy has no account people"


def test_a_full_window_is_named(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    people = account("people", epsilon="10", window=("year", "1/4"))
    for period in ("2024-03", "2024-04"):
        made = plan(release="survey", period=period, accounts=[people])
        ledger.reserve(made, charges(made, [people]))
        ledger.give_up("survey", period, made.fingerprint(), "why")

    told = facts(ledger, people=people)
    assert told["count"] == {"given_up": 2, "due": 1, "waiting": 1}
    assert told["periods"][2]["blocked"].startswith("account people (2024) cannot pay")


# In a folder.

SCHEDULE = 'schedule: {cron: "0 6 5 * *", timezone: UTC, period: year}\n'


def test_every_spec_with_a_schedule_is_found_and_nothing_else(tmp_path: Path) -> None:
    small_project(tmp_path, SPEC + SCHEDULE)
    for path, text in {
        "specs/deep/b.yml": SPEC.replace("name: survey", "name: other") + SCHEDULE,
        "specs/plain.yaml": SPEC,
        "specs/wrong.yaml": SPEC + SCHEDULE.replace("UTC", "Mars"),
        "specs/broken.yaml": SPEC + SCHEDULE + "x: [\n",
        "other.yaml": "services: {dprelease: &x 1, schedule: *x}\n",
        ".hidden/c.yaml": SPEC + SCHEDULE,
        "releases/survey/2024/d.yaml": SPEC + SCHEDULE,
        "another/dprelease.yaml": "ledger: x\n",
        "another/e.yaml": SPEC + SCHEDULE,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found, problems = find_scheduled(Project.find(tmp_path))

    assert [str(path.relative_to(tmp_path)) for path in found] == ["spec.yaml", "specs/deep/b.yml"]
    assert {Path(each.where.file).name for each in problems if each.where} == {"wrong.yaml", "broken.yaml"}
    assert "DPR-S631" in {each.code for each in problems}


def test_specs_that_share_a_name_are_refused_by_both_names(tmp_path: Path) -> None:
    small_project(tmp_path, SPEC + SCHEDULE)
    (tmp_path / "other.yaml").write_text(SPEC.replace("name: survey", "name: other") + SCHEDULE)
    (tmp_path / "copy.yaml").write_text(SPEC + SCHEDULE)
    found, (problem,) = find_scheduled(Project.find(tmp_path))

    assert [path.name for path in found] == ["other.yaml"]
    assert problem.code == "DPR-S639"
    assert "copy.yaml" in str(problem)
    assert "spec.yaml" in str(problem)


def test_the_day_of_the_first_period_is_in_it() -> None:
    found = coverage(schedule("day"), "2024-06-20", (), ANCHOR)

    assert states(found) == {"2024-06-20": "waiting"}
    assert is_a("day", date(2024, 6, 20).isoformat())
