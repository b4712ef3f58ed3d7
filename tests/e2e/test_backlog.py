"""A mistake that every period of a backlog would make: told before anything is charged, or charged once at most."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dprelease.cli.commands.run import run_all_due
from dprelease.errors import CheckFailed, DpReleaseError, LedgerError
from dprelease.ledger import Ledger
from dprelease.release.direct import run_directly
from dprelease.release.planning import charges, open_target, plan_release
from dprelease.release.project import Project
from dprelease.release.run import Request
from tests.project import POLICY, SPEC, command, small_project

SCHEDULE = (
    'schedule: {cron: "0 6 5 * *", timezone: America/New_York, period: month, last: 2024-07, catch_up: one_by_one}\n'
)
SMALL = SPEC[: SPEC.index("  income:\n    table:")].replace("period: 2024, ", "period: 2023-01, ")
FIRST = SMALL.replace("epsilon: 1,", "epsilon: 1/10,") + SCHEDULE
SECOND = FIRST.replace("name: survey", "name: second").replace("account: people", "account: guests")
DUE = 19


def project(folder: Path) -> tuple[Path, Path]:
    """Two products on one file, each with an account of its own; the first one has released a month."""
    first = small_project(folder, FIRST, rows=20)
    second = folder / "second.yaml"
    second.write_text(SECOND, encoding="utf-8")
    guests = "  guests: {unit: person, composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}\nceilings"
    (folder / "policy.yaml").write_text(POLICY.replace("ceilings", guests), encoding="utf-8")
    run_directly(Request(target=str(first), period="2023-01"))
    return first, second


def books(spec: Path) -> Ledger:
    return Project.find(spec.parent).open_ledger()


@pytest.mark.slow
def test_a_file_that_another_account_has_paid_for_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    _, second = project(tmp_path)
    told = command(tmp_path, "run", "second.yaml", "--due", "--direct", code=7)
    assert told.count("DPR-L153") == 2 * DUE  # each of them by itself, and in the sum
    assert [each.release for each in books(second).reservations()] == ["survey"]
    assert "guests" not in books(second).tally().state.accounts
    assert "nothing was charged" in told


def test_another_key_is_refused_before_anything_is_charged_and_accepted_with_a_reason(tmp_path: Path) -> None:
    first, _ = project(tmp_path)
    (key,) = tmp_path.glob("*key*/source.key")
    key.write_bytes(os.urandom(32))
    with pytest.raises(LedgerError) as seen:
        run_directly(Request(target=str(first), period="2023-02"))
    assert seen.value.code == "DPR-L151"
    assert [each.period for each in books(first).reservations()] == ["2023-01"]
    done = run_directly(Request(target=str(first), period="2023-02", accept_changed_data="the key is lost"))
    assert done.state == "published"
    found = books(first).find("survey", "2023-02")
    assert found is not None
    assert found.accepted == ("the key is lost",)
    assert books(first).check() == ()


def test_a_file_that_is_gone_takes_no_later_period_with_it_and_is_not_charged(tmp_path: Path) -> None:
    first, _ = project(tmp_path)
    (tmp_path / "people-1.csv").rename(tmp_path / "elsewhere.csv")
    told = command(tmp_path, "run", "spec.yaml", "--due", "--direct", code=7)
    assert told.count("DPR-E102") == 2 * (DUE - 1)
    assert [each.period for each in books(first).reservations()] == ["2023-01"]


def breaking(spec: Path, tried: list[str]) -> Any:
    """What charges a period, and then fails in a way that keeps the charge."""

    def run(request: Request) -> Any:
        tried.append(str(request.period))
        if not books(spec).find("second", str(request.period)):
            target = open_target(spec, request.period)
            plan = plan_release(target)
            books(spec).reserve(plan, charges(plan, target.loaded))
        raise DpReleaseError("it broke", code="DPR-E001")

    return run


def test_after_a_failure_that_stays_charged_no_new_period_is_begun(tmp_path: Path) -> None:
    _, second = project(tmp_path)
    tried: list[str] = []
    for _ in range(3):  # and not one more with each run either
        with pytest.raises(CheckFailed, match="DPR-C111") as seen:
            run_all_due(second, breaking(second, tried), as_json=False)
        assert f"and {DUE - 1} were not begun" in seen.value.summary
        assert "--period 2023-01 --give-up REASON" in seen.value.hint
    assert tried == ["2023-01"] * 3
    assert [each.release for each in books(second).reservations()] == ["survey", "second"]


@pytest.mark.slow
def test_what_is_open_is_gone_on_with_after_such_a_failure(tmp_path: Path, capsys: Any) -> None:
    _, second = project(tmp_path)
    target = open_target(second, "2023-05")
    plan = plan_release(target)
    books(second).reserve(plan, charges(plan, target.loaded))
    tried: list[str] = []
    with pytest.raises(CheckFailed):
        run_all_due(second, breaking(second, tried), as_json=True)
    assert tried == ["2023-05"]
    facts = json.loads(capsys.readouterr().out)
    assert [each["why"] for each in facts["left"]] == ["stopped"] * (DUE - 1)
    for period in ("2023-01", "2023-02"):
        target = open_target(second, period)
        plan = plan_release(target)
        books(second).reserve(plan, charges(plan, target.loaded))
    tried.clear()
    with pytest.raises(CheckFailed):
        run_all_due(second, breaking(second, tried), as_json=True)
    assert tried == ["2023-01", "2023-02", "2023-05"]
