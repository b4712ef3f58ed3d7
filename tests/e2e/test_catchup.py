"""Catching up for real: runs that fail and are killed, a spec that changes, a period that is released too early."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dprelease.errors import LedgerError, PlanError
from dprelease.ledger import Ledger
from dprelease.release import run as module
from dprelease.release.direct import run_directly
from dprelease.release.project import Project
from dprelease.release.run import Request
from dprelease.release.schedule.due_runs import agenda
from tests.project import SPEC, command, small_project

YEAR = datetime.now(UTC).year
SCHEDULE = 'schedule: {cron: "0 6 5 1 *", timezone: America/New_York, period: year}\n'
LAST = SCHEDULE.replace("}", ", last: 2023}")
SMALL = SPEC[: SPEC.index("  income:\n    table:")]  # one query: quick to plan
OLD = SMALL.replace("period: 2024, ", "period: 2020, ") + LAST
NEW = (
    OLD.replace("sex: {type: integer, keys: [1, 2],", "sex: {type: integer, keys: [1, 2, 3],")
    .replace("places:", "areas:")
    .replace("reference: places", "reference: areas")
)


def names(spec: Path) -> list[str]:
    return [f"{turn}{'*' * turn.resumes}" for turn in agenda(spec, datetime.now(UTC)).turns]


def books(spec: Path) -> Ledger:
    return Project.find(spec.parent).open_ledger()


def catch_up(spec: Path, most: int = 0) -> list[str]:
    return [run_directly(turn.request(str(spec))).state for turn in agenda(spec, datetime.now(UTC), most).turns]


class Killed(BaseException):
    """No error that anything handles: as if the process were gone, but for its lock."""


def kill_at(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def hit(failpoint: str) -> None:
        if failpoint == point:
            raise Killed

    monkeypatch.setattr(module, "hit", hit)


def test_old_periods_keep_their_plan_and_every_period_is_released_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small_project(tmp_path, OLD, rows=50)
    assert names(spec) == ["2020", "2021", "2022", "2023"]
    assert catch_up(spec, most=1) == ["published"]
    kill_at("publish.begun", monkeypatch)
    with pytest.raises(Killed):
        catch_up(spec)
    assert names(spec) == ["2021*", "2022", "2023"]
    with books(spec).lock("survey", "2022", "measuring"):
        assert names(spec) == ["2021*", "2023"]

    spec.write_text(NEW)
    with pytest.raises(LedgerError) as caught:
        run_directly(Request(target=str(spec), period="2021"))
    assert caught.value.code == "DPR-L110"
    assert "--as-planned" in caught.value.hint
    kill_at("publish.rendered", monkeypatch)  # again, in the same period
    with pytest.raises(Killed):
        catch_up(spec)
    kill_at("", monkeypatch)
    assert catch_up(spec) == ["published"] * 3
    assert names(spec) == []
    assert run_directly(Request(target=str(spec), period="2021", as_planned=True)).state == "exists"

    every = books(spec).reservations()
    assert [(each.period, each.state) for each in every] == [
        (period, "closed") for period in ("2020", "2021", "2022", "2023")
    ]
    assert len({each.spec_fingerprint for each in every}) == 4  # the period is a part of it
    keys = Counter(
        len(plan.plan.split('"keys":[1,2,3]')) > 1
        for period in ("2020", "2021", "2022", "2023")
        if (plan := books(spec).find("survey", period))
    )
    assert keys == {False: 2, True: 2}  # 2020 and 2021 by the old spec, the others by the new one
    told = command(tmp_path, "due")
    assert "every year from 2020 to 2023; 4 published" in told
    assert books(spec).check() == ()


@pytest.mark.slow
def test_a_period_that_fails_takes_no_later_one_with_it(tmp_path: Path) -> None:
    spec = small_project(tmp_path, OLD.replace("people-*.csv", "people-{{ period }}.csv"), rows=20)
    data = (tmp_path / "people-1.csv").read_bytes()
    for period in ("2020", "2022", "2023"):
        (tmp_path / f"people-{period}.csv").write_bytes(data)
    with books(spec).lock("survey", "2023", "measuring"):
        told = command(tmp_path, "run", "spec.yaml", "--due", "--direct", code=7)
    assert told.index("published survey/2020") < told.index("published survey/2022")
    assert "left survey/2023: process " in told
    assert "1 of 3 release(s) of survey failed" in told

    (tmp_path / "people-2021.csv").write_bytes(data)
    facts = json.loads(command(tmp_path, "run", "spec.yaml", "--due", "--direct", "--json"))
    assert [each["period"] for each in facts["released"]] == ["2021", "2023"]
    assert (facts["release"], facts["failed"], facts["left"]) == ("survey", [], [])
    assert "nothing of survey is due" in command(tmp_path, "run", "spec.yaml", "--due", "--direct")
    assert [each.period for each in books(spec).reservations()] == ["2020", "2022", "2021", "2023"]
    assert "--direct" in command(tmp_path, "run", "spec.yaml", "--due", "--direct", "--period", "2020", code=2)


@pytest.mark.slow
def test_a_revision_comes_when_its_time_has_come_and_is_finished_when_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = OLD.replace("period: 2020, ", "period: 2022, ").replace("last: 2023", "last: 2022, revisions: [1m, 1y]")
    spec = small_project(tmp_path, once, rows=50)
    assert catch_up(spec) == ["published"]
    told = command(tmp_path, "due", code=7)
    assert "2022 revision 2" in told
    assert "dprelease run spec.yaml --period 2022 --revision 2" in told
    assert "cannot pay" not in told

    kill_at("publish.begun", monkeypatch)
    with pytest.raises(Killed):
        catch_up(spec)
    kill_at("", monkeypatch)
    assert names(spec) == ["2022 revision 2*"]
    spec.write_text(once.replace("keys: [1, 2]", "keys: [1]").replace("2: Female", ""))
    assert catch_up(spec) == ["published"]
    assert names(spec) == []
    assert [(each.revision, each.state) for each in books(spec).reservations()] == [(0, "closed"), (2, "closed")]
    command(tmp_path, "due")


@pytest.mark.slow
def test_a_period_is_not_released_before_its_data_are_complete(tmp_path: Path) -> None:
    spec = small_project(tmp_path, SMALL.replace("period: 2024, ", f"period: {YEAR}, ") + SCHEDULE, rows=50)
    asked = Request(target=str(spec))
    with pytest.raises(PlanError) as caught:
        run_directly(asked)
    assert caught.value.code == "DPR-P313"
    assert f"{YEAR + 1}-01-01 00:00 EST" in caught.value.summary
    assert "--early" in caught.value.hint
    assert not (tmp_path / "state" / "ledger.db").exists()  # nothing was charged

    assert run_directly(asked.model_copy(update={"synthetic": True})).state == "published"
    told = command(tmp_path, "run", "spec.yaml", "--direct", "--early", "the register\n closes today")
    assert f"published survey/{YEAR}" in told
    (kept,) = books(spec).reservations()
    assert kept.reserved_by.command == "dprelease run --early: the register closes today"
    assert names(spec) == []
    assert "1 published" in command(tmp_path, "due")
    assert run_directly(asked).state == "exists"


def test_a_plan_that_is_kept_is_not_replaced_as_well(tmp_path: Path) -> None:
    small_project(tmp_path, OLD, rows=10)

    told = command(tmp_path, "run", "spec.yaml", "--direct", "--as-planned", "--restate", "why", code=2)
    assert "--restate" in told


def test_specs_of_one_name_are_refused(tmp_path: Path) -> None:
    small_project(tmp_path, OLD, rows=10)
    (tmp_path / "copy.yaml").write_text(OLD)
    for arguments in ((), ("spec.yaml", "copy.yaml")):
        told = command(tmp_path, "due", *arguments, code=2)
        assert "DPR-S639" in told
        assert "spec.yaml" in told
        assert "copy.yaml" in told
    assert "4 published" not in command(tmp_path, "due", "spec.yaml", code=7)
