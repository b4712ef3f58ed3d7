"""The time by which the windows of an account go: one column for all, named by the policy; and ledgers from before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError, SpecError
from dprelease.ledger import Ledger, open_ledger, schemes
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.verify.periods import misread
from dprelease.privacy.periods import EVERY
from dprelease.release.planning import Target, plan_release
from dprelease.release.project import Project
from dprelease.release.records.status import status_facts
from dprelease.spec.load import load
from dprelease.spec.project import load_policy, load_project
from tests.fixtures.write_windows import read_by
from tests.ledgers import account, charges, plan

OLD = Path(__file__).resolve().parents[1] / "fixtures" / "ledger_windows.sql"
POLICY = """\
accounts:
  web: {unit: person, composition: zcdp, window: {per: year, epsilon: 1, delta: 1e-8},
    time: {column: seen, type: date}, lifetime: {epsilon: 8, delta: 1e-7}}
"""
SPEC = """\
dprelease: 1
release: {name: monitor, period: 2023}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}
tables:
  visits:
    account: web
    source: {file: data/visits.csv}
    time: {column: seen, type: date}
    columns:
      sex: {type: integer, keys: [1, 2]}
queries:
  visits: {table: visits, by: [sex], measures: {n: {count: rows}}}
"""
NAMED = account(epsilon="9", window=("year", "1/2"))


def planned(spec: str, policy: str = POLICY) -> ReleasePlan:
    settings = load_project("ledger: sqlite:///state/ledger.db\n", "dprelease.yaml", schemes())
    project = Project(Path("/somewhere"), settings, load_policy(policy, "policy.yaml"))
    return plan_release(Target(project, Path("s.yaml"), load(spec, "s.yaml")))


def unnamed(terms: Account = NAMED) -> Account:
    assert terms.window is not None
    return terms.model_copy(update={"window": terms.window.model_copy(update={"column": None, "type": None})})


# --- A spec and a plan ---


def test_a_row_that_is_seen_in_one_year_and_entered_in_the_next_is_read_by_one_of_the_two() -> None:
    """Seen on 2023-12-31 and entered on 2024-01-02, it would be paid for in 2023 once, in 2024 once, and read twice."""
    assert planned(SPEC).accounts[0].window.time == ("seen", "date")  # type: ignore[union-attr]
    other = SPEC.replace("column: seen", "column: entered").replace("2023", "2024")
    with pytest.raises(SpecError) as caught:
        planned(other)
    (problem,) = caught.value.problems
    assert (problem.code, problem.where.line if problem.where else 0) == ("DPR-S419", 8)
    assert "write `time: {column: seen, type: date}`" in problem.hint


@pytest.mark.parametrize(("old", "new"), [("type: date", "type: timestamp"), ("column: seen", "column: entered")])
def test_verify_finds_a_table_that_is_read_by_another_time(old: str, new: str) -> None:
    made = planned(SPEC)
    (visits,) = made.catalog.tables.values()
    assert list(misread(made)) == []
    assert visits.time is not None
    field, value = new.split(": ")
    time = visits.time.model_copy(update={field: value})
    tables = {"visits": visits.model_copy(update={"time": time})}
    forged = made.model_copy(update={"catalog": made.catalog.model_copy(update={"tables": tables})})
    assert list(misread(forged)) == ["visits is not read by the time of account web, which has windows"]


def test_a_plan_from_before_has_nothing_to_be_held_against() -> None:
    made = read_by("entered", "2024")
    assert list(misread(made)) != []
    assert list(misread(made.model_copy(update={"accounts": (unnamed(),)}))) == []


def test_the_ledger_charges_no_window_of_a_plan_that_is_read_by_another_time(tmp_path: Path) -> None:
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    made = read_by("entered", "2024")
    with pytest.raises(BrokenPromiseError, match=r"DPR-L907 .* is not read by the time of account people"):
        ledger.reserve(made, charges(made))
    assert ledger.reservations() == ()


def test_an_account_whose_policy_names_no_time_is_refused_with_what_to_add(tmp_path: Path) -> None:
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    made = plan(accounts=[unnamed()])
    with pytest.raises(LedgerError, match=r"DPR-L180 [\s\S]*beside `window`: `time: {column: seen, type: date}`"):
        ledger.reserve(made, charges(made))


def test_the_time_of_windows_is_for_ever(tmp_path: Path) -> None:
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    made = plan(accounts=[NAMED])
    ledger.reserve(made, charges(made))
    assert NAMED.window is not None
    other = NAMED.model_copy(update={"window": NAMED.window.model_copy(update={"column": "entered"})})
    again = read_by("entered", "2025", window=other.window)
    with pytest.raises(LedgerError, match=r"DPR-L120 .* per year by seen \(date\), and .* by entered \(date\)"):
        ledger.reserve(again, charges(again))
    assert ledger.check() == ()


# --- A ledger from before ---


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.executescript(OLD.read_text(encoding="utf-8"))
    made = open_ledger("sqlite:///ledger.db", tmp_path)
    made.recover("the fixture was written elsewhere")
    yield made
    made.disconnect()


def sums(ledger: Ledger) -> dict[str, Fraction]:
    balance = ledger.tally().state.accounts["people"].balance
    return {name: spent.loss for name, spent in balance.windows.items() if spent.loss}


BEFORE = {"2022": Fraction(1, 10), "2023": Fraction(1, 10), "2024": Fraction(1, 5), "2026": Fraction(1, 40)}
LATE = Fraction(1, 5) + Fraction(1, 40)  # what was read by `entered`: in 2024 and 2026, and not the one given back


def test_an_old_ledger_names_the_releases_that_were_read_by_two_times(ledger: Ledger) -> None:
    assert sums(ledger) == BEFORE
    found = ledger.check()
    assert [line.split(" by ")[1].split(",")[0] for line in found] == ["seen (date)"] * 2 + ["entered (date)"] * 2
    assert all("charged to every year" in line and "ledger open people" in line for line in found)


@pytest.mark.parametrize("by_hand", [True, False])
def test_the_first_policy_that_names_the_time_charges_the_others_to_every_window(
    ledger: Ledger, *, by_hand: bool
) -> None:
    made = read_by("seen", "2023", "1/10", "second")
    if by_hand:
        ledger.open_account(NAMED, "the time of the windows")
        assert sums(ledger) == {**BEFORE, EVERY: LATE}
    (quoted,), _ = ledger.quote(charges(made), "2023")
    (told,) = quoted.windows
    assert (told.before.epsilon, told.after.epsilon) == (Fraction(1, 10) + LATE, Fraction(2, 10) + LATE)
    kept = ledger.reserve(made, charges(made))
    assert [(each.window, each.before.epsilon) for each in kept.windows] == [("2023", Fraction(1, 10) + LATE)]
    assert sums(ledger) == {**BEFORE, "2023": Fraction(1, 5), EVERY: LATE}
    assert ledger.check() == ()

    spread = next(body.spread for _, body in ledger.openings("people") if body.spread)
    assert [each.spent.loss for each in spread] == [Fraction(1, 5), Fraction(1, 40)]
    assert ledger.tally().state.accounts["people"].account.window == NAMED.window
    windows = status_facts(ledger, {"people": NAMED})["accounts"][0]["windows"]
    assert {each["window"]: each["spent"] for each in windows} == {
        "2022": "0.325", "2023": "0.425", "2024": "0.425", "2025": "0.225", "2026": "0.25", EVERY: "0.225",
    }  # fmt: skip


def test_a_window_refuses_by_what_is_charged_to_every_one(ledger: Ledger) -> None:
    ledger.open_account(NAMED, "the time of the windows")
    fits, over = (read_by("seen", "2030", cost, cost.replace("/", "-")) for cost in ("11/40", "1/1000"))
    ledger.reserve(fits, charges(fits))  # 11/40 + 9/40 is the cap, one half
    with pytest.raises(BudgetExceeded, match=r"year 2030: asked epsilon 0\.001, already charged 0\.5, "):
        ledger.reserve(over, charges(over))
    assert ledger.check() == ()


def test_an_old_open_release_goes_on_and_one_that_is_given_back_leaves_what_is_everywhere(ledger: Ledger) -> None:
    ledger.open_account(NAMED, "the time of the windows")
    open_one = next(each for each in ledger.reservations() if each.state == "open")
    ledger.close("survey", "2026", open_one.plan_fingerprint, "manifest of 2026")
    assert ledger.check() == ()


def test_a_time_that_is_named_without_the_charge_is_found(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprelease.ledger.tables.reserving.spread_of", lambda *_: ())
    ledger.open_account(NAMED, "the time of the windows")
    (found,) = ledger.check()
    assert found.endswith("account people does not charge to every window what was read by another time")
