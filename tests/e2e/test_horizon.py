"""``dprelease plan --horizon N``, as a user types it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.project import POLICY, SPEC, command, forked, small_project

BUDGET = "budget: {epsilon: 1, delta: 1e-9}"
SMALL = SPEC[: SPEC.index("  income:\n    table:")]  # one query: quick to plan
MONTHLY = SMALL.replace("period: 2024", "period: 2024-11").replace(
    BUDGET, f"{BUDGET}\n  noise: gaussian\n  accounting: zcdp"
)


def told(folder: Path, *words: str) -> Any:
    """The horizon as JSON."""
    ended = forked(folder, "plan", "spec.yaml", "--json", *words)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["horizon"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("horizon")
    small_project(folder, MONTHLY)
    return folder


def test_a_horizon_is_shown_and_its_budget_fits_so_many_times(project: Path, tmp_path: Path) -> None:
    words = command(project, "plan", "spec.yaml", "--horizon", "12")
    found = told(project, "--horizon", "12")
    assert found["periods"][:3] == ["2024-11", "2024-12", "2025-01"]
    assert "12 release(s) like this one, from 2024-11 to 2025-10" in words
    (account,) = found["accounts"]
    (cap,) = account["caps"]
    totals = [Fraction(each["total"]) for each in cap["after"]]
    assert totals == sorted(totals)
    assert len(totals) == 12
    assert totals[-1] < 12 * totals[0] / 2  # rho adds up, epsilon does not
    assert (found["fit"], cap["refused"]) == (12, None)
    assert f"{cap['room']} more like this one fit into epsilon 4 at delta 1e-8" in words
    assert f"pld {account['hypothetical']['pld']}" in words
    limit = found["budget"]["limit"]
    assert f"the largest budget of which 12 fit: epsilon {limit} at delta 1e-9" in words
    # At that budget twelve fit, and at a thousandth more they do not, says the same command of a spec that has it.
    for number, (times, fit) in enumerate(((Fraction(1), 12), (Fraction(1001, 1000), 11))):
        text = MONTHLY.replace("epsilon: 1,", f"epsilon: {Fraction(limit) * times},")
        assert text != MONTHLY
        small_project(tmp_path / str(number), text)
        assert told(tmp_path / str(number), "--horizon", "12")["fit"] == fit


@pytest.mark.slow
def test_periods_that_were_released_are_passed_over_and_what_they_cost_is_counted(tmp_path: Path) -> None:
    small_project(tmp_path, MONTHLY)
    before = told(tmp_path, "--horizon", "3")
    command(tmp_path, "run", "spec.yaml", "--direct")
    after = told(tmp_path, "--horizon", "2")
    assert after["periods"] == before["periods"][1:]
    one, other = before["accounts"][0], after["accounts"][0]
    assert other["caps"][0]["before"] == one["caps"][0]["after"][0]["total"]
    assert other["caps"][0]["after"][-1]["total"] == one["caps"][0]["after"][-1]["total"]
    assert other["hypothetical"] == one["hypothetical"]
    status = json.loads(command(tmp_path, "ledger", "status", "--json"))["accounts"][0]
    assert status["fits"] == other["caps"][0]["room"]


def test_a_window_that_fills_up_is_named_and_planning_goes_on(tmp_path: Path) -> None:
    small_project(tmp_path, MONTHLY.replace("    join:", "    time: {column: seen, type: date}\n    join:"))
    window = "composition: zcdp, window: {per: year, epsilon: 2, delta: 1e-8}, time: {column: seen, type: date},"
    (tmp_path / "policy.yaml").write_text(POLICY.replace("composition: zcdp,", window))
    words = command(tmp_path, "plan", "spec.yaml", "--horizon", "8")
    found = told(tmp_path, "--horizon", "8")
    years = {cap["window"]: cap for cap in found["accounts"][0]["caps"] if cap["window"]}
    assert set(years) == {"2024", "2025"}
    assert years["2024"]["refused"] is None
    assert [each["release"] for each in years["2025"]["after"]] == [3, 4, 5, 6, 7, 8]
    refused = years["2025"]["refused"]
    assert found["fit"] == refused - 1
    assert years["2025"]["refused_period"] == found["periods"][refused - 1]
    assert "refused: account people, year 2025" in words
    assert f"{refused - 1} of 8 fit" in words
    assert found["budget"]["why"] == "account people, year 2025"
    assert "(stopped by account people, year 2025)" in words


@pytest.mark.slow
def test_periods_of_no_calendar_are_numbered_and_the_number_is_checked(tmp_path: Path) -> None:
    small_project(tmp_path, SMALL.replace("period: 2024", "period: spring"))
    words = command(tmp_path, "plan", "spec.yaml", "--horizon", "2")
    assert "2 release(s) like this one\n" in words
    assert told(tmp_path, "--horizon", "2")["periods"] == []
    assert "horizon" not in json.loads(command(tmp_path, "plan", "spec.yaml", "--json"))
    for wrong in ("0", "1001", "many"):
        assert "--horizon" in command(tmp_path, "plan", "spec.yaml", "--horizon", wrong, code=2)


@pytest.mark.slow
def test_an_account_of_a_series_says_what_the_series_would_cost(tmp_path: Path) -> None:
    small_project(tmp_path, MONTHLY.replace("epsilon: 1,", "epsilon: 1/2,"))
    (tmp_path / "policy.yaml").write_text(POLICY.replace("composition: zcdp", "composition: pld"))
    found = told(tmp_path, "--horizon", "6")
    (cap,) = found["accounts"][0]["caps"]
    last = cap["after"][-1]["total"]
    assert last == found["accounts"][0]["hypothetical"]["pld"]
    assert (cap["before"], found["fit"]) == ("0", 6)
    assert Fraction(found["budget"]["limit"]) > Fraction(1, 2)
    command(tmp_path, "plan", "spec.yaml", "--out", "plan.json")
    command(tmp_path, "ledger", "open", "people", "--series", "plan.json", "--releases", "6", "--why", "half a year")
    opened = told(tmp_path, "--horizon", "7")
    (cap,) = opened["accounts"][0]["caps"]
    assert {each["total"] for each in cap["after"]} == {last}
    assert (opened["fit"], cap["room"]) == (6, 6)
    assert opened["budget"]["limit"] is None
    assert "takes only what is in its series" in opened["budget"]["why"]
