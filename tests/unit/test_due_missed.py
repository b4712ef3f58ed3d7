"""What becomes of periods that were missed, and what the screen says while there is still time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dprelease.cli.commands.due import _hint, _lines
from dprelease.ledger import Reservation
from dprelease.release.schedule.due import coverage
from dprelease.spec.fields.schedule import Scheduled
from tests.ledgers import SQLiteLedger, charges, fill

from .test_due import ANCHOR, facts, monthly, schedule, states, taken


def test_what_the_author_skips_alarms_nobody_unless_it_was_begun() -> None:
    skip = {f"2024-0{month}": "the source\n  was lost" for month in (1, 2, 3, 4, 6)}
    begun = [taken("2024-01", "closed"), taken("2024-02", "open"), taken("2024-03", "given_up")]
    found = coverage(schedule(skip=skip, retention="40d"), "2024-01", begun, ANCHOR)

    assert states(found) == {
        "2024-01": "published",
        "2024-02": "open",
        "2024-03": "given_up",
        "2024-04": "skipped",
        "2024-05": "due",
        "2024-06": "skipped",
    }
    assert found[3].why == "the source was lost"
    assert {slot.why for slot in found if slot.state != "skipped"} == {""}


def test_only_the_latest_of_those_that_wait_is_due() -> None:
    made = schedule(catch_up="latest", not_before="4d")

    assert states(coverage(made, "2024-03", [taken("2024-03", "open")], ANCHOR)) == {
        "2024-03": "open",  # it was charged, and is finished
        "2024-04": "skipped",
        "2024-05": "due",
        "2024-06": "waiting",
    }
    assert states(coverage(made, "2024-04", [taken("2024-05", "closed")], ANCHOR))["2024-04"] == "skipped"
    absent = schedule(catch_up="latest", skip={"2024-05": "no survey"})
    assert states(coverage(absent, "2024-03", (), ANCHOR))["2024-04"] == "due"
    lost = schedule(catch_up="latest", retention="10d")
    assert states(coverage(lost, "2024-04", (), ANCHOR)) == {
        "2024-04": "skipped",
        "2024-05": "lost",
        "2024-06": "waiting",
    }


def test_without_catching_up_a_period_has_its_turn_until_the_second_tick() -> None:
    made = schedule(catch_up="none", not_before="4d", cron="0 6 5 * *")

    def state(now: str) -> str:
        return states(coverage(made, "2024-05", (), datetime.fromisoformat(now)))["2024-05"]

    assert state("2024-06-04T23:59:59Z") == "waiting"
    assert state("2024-06-05T00:00:00Z") == state("2024-06-05T06:00:00Z") == "due"
    assert state("2024-07-05T05:59:59Z") == "late"
    assert state("2024-07-05T06:00:00Z") == state("2030-01-01T00:00:00Z") == "skipped"
    begun = coverage(made, "2024-05", [taken("2024-05", "open")], datetime(2030, 1, 1, tzinfo=UTC))
    assert states(begun)["2024-05"] == "open"


def test_the_last_tick_before_the_data_are_gone_is_a_last_chance() -> None:
    made = schedule(cron="0 6 5 * *", not_before="4d", retention="66d")  # of May: until 2024-08-06

    def last_chance(now: str, begun: Sequence[Reservation] = ()) -> bool:
        return coverage(made, "2024-05", begun, datetime.fromisoformat(now))[0].last_chance

    assert not last_chance("2024-06-05T06:00:00Z")
    assert not last_chance("2024-08-05T05:59:59Z")
    assert last_chance("2024-08-05T06:00:00Z")  # the next tick is on 5 September
    assert last_chance("2024-08-05T06:00:00Z", [taken("2024-05", "open")])
    assert not last_chance("2024-08-05T06:00:00Z", [taken("2024-05", "closed")])
    assert not last_chance("2024-08-06T00:00:00Z")  # it is lost
    assert not last_chance("2024-08-05T06:00:00Z", [taken("2024-05", "given_up")])


def test_a_schedule_ends_with_its_last_period() -> None:
    made = schedule(last="2024-03")

    assert states(coverage(made, "2024-02", (), ANCHOR)) == {"2024-02": "late", "2024-03": "due"}
    beyond = [taken("2024-04", "closed"), taken("2024-05", "open")]
    assert states(coverage(made, "2024-03", beyond, ANCHOR)) == {"2024-03": "due", "2024-05": "open"}


def test_what_was_begun_is_listed_although_the_spec_has_no_such_period_any_more() -> None:
    begun = [taken("2024-01", "open"), taken("2024-02", "closed"), taken("2024-W20", "open"), taken("once", "open")]
    found = coverage(schedule(), "2024-04", begun, ANCHOR)

    assert states(found) == {
        "2024-01": "open",
        "2024-04": "late",
        "2024-W20": "open",
        "2024-05": "due",
        "2024-06": "waiting",
    }


def test_the_screen_says_how_long_there_is_still_time(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    ledger.reserve(begun := monthly("2024-04"), charges(begun))
    made = schedule(
        cron="0 6 5 * *", retention="80d", skip={"2024-03": "no survey", "2024-02": "no survey"}, last="2024-06"
    )
    now = datetime(2024, 7, 18, 12, tzinfo=UTC)
    told = facts(ledger, Scheduled("survey", "2024-01", made), now)
    shown = _lines({"spec": "s.yaml", "invalid": [], **told}, now)

    assert shown[0].startswith("s.yaml: survey, every month from 2024-01 to 2024-06; ")
    rows = [line.split("  ") for line in shown[1:]]
    table = {[cell for cell in row if cell][1].strip(): [cell.strip() for cell in row if cell] for row in rows}
    assert table["2024-01"][0] == "lost"
    assert table["2024-02 to 2024-03 (2)"][::2] == ["skipped", "no survey"]
    assert table["2024-04"][0] == "open, last chance"
    assert table["2024-04"][3] == "2024-07-20 00:00 UTC, 36 hour(s) left"
    assert table["2024-05"][0] == "late"
    assert table["2024-05"][3] == "2024-08-20 00:00 UTC, 32 day(s) left"
    assert table["2024-06"][0] == "due"
    assert [slot["period"] for slot in told["periods"] if slot["last_chance"]] == ["2024-04"]


def test_the_hint_names_first_what_is_most_urgent(tmp_path: Path) -> None:
    made = schedule(cron="0 6 5 * *", retention="80d")

    def hint(ledger: SQLiteLedger, first: str = "2024-01", **fields: Any) -> str:
        told = facts(
            ledger, Scheduled("survey", first, made.model_copy(update=fields)), datetime(2024, 7, 18, tzinfo=UTC)
        )
        return _hint({"spec": "s.yaml", **told})

    empty = SQLiteLedger(tmp_path / "empty.db")
    assert hint(empty) == "dprelease run s.yaml --period 2024-04"  # before 2024-05, and whatever is lost
    assert hint(empty, "2024-05") == "dprelease run s.yaml --period 2024-05"
    ledger = SQLiteLedger(tmp_path / "l.db")
    ledger.reserve(begun := monthly("2024-04"), charges(begun))
    assert hint(ledger) == "dprelease run s.yaml --period 2024-04 --as-planned"
    for period in ("2024-05", "2024-06"):
        fill(ledger, monthly(period))
    ledger.give_up("survey", "2024-04", begun.fingerprint(), "why")
    assert "schedule: {skip: {2024-01: REASON}}" in hint(ledger)
