"""Accounts that are parallel by month: what a release is charged, what counts, and what readers of a ledger are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BudgetExceeded, LedgerError
from dprelease.ledger.audit.audit import audit
from dprelease.ledger.model.entry import AccountOpened
from dprelease.ledger.model.fault import Fault
from dprelease.plan.document import Account, Parallel, ReleasePlan
from dprelease.plan.forecast.horizon import Purse, ahead, coming
from dprelease.privacy.budget import Budget
from dprelease.privacy.filters import Spent
from dprelease.privacy.unit import Neighboring
from dprelease.release.records.errata import errata
from dprelease.release.records.export import export
from dprelease.release.records.status import accounts_of
from tests.ledgers import SQLiteLedger, account, answer, charges, key
from tests.ledgers import plan as bare_plan
from tests.unit.test_ledger_audit import Kept, chained, forged, index_of, lines, put

# --- what is charged ---

MONTHLY = account(epsilon="3/10", parallel="month", unit="person-month")
REPLACING = account(epsilon="3/10", parallel="month", unit="person-month", neighboring=Neighboring.REPLACE_ONE)


def month(
    period: str, terms: Account = MONTHLY, release: str = "survey", cost: str = "1/10", **more: Any
) -> ReleasePlan:
    return bare_plan(release=release, period=period, cost=cost, unit="person-month", accounts=[terms], **more)


def reserve(ledger: SQLiteLedger, made: ReleasePlan, **more: Any) -> Any:
    return ledger.reserve(made, charges(made), **more)


@pytest.fixture
def ledger(tmp_path: Path) -> SQLiteLedger:
    return SQLiteLedger(tmp_path / "l.db")


def test_every_month_has_the_cap_to_itself(ledger: SQLiteLedger) -> None:
    for at in range(1, 13):
        (facts,) = reserve(ledger, month(f"2024-{at:02d}")).accounts
        assert (facts.window, facts.before.epsilon, facts.after.epsilon) == (f"2024-{at:02d}", 0, Fraction(1, 10))
    kept = reserve(ledger, month("2024-02", release="again", cost="2/10"))
    assert (kept.accounts[0].after.epsilon, kept.windows) == (Fraction(3, 10), ())
    says = r"(?s)month 2024-02: asked epsilon 0\.1, already charged 0\.3, .* left 0\n.*every other month has a cap"
    with pytest.raises(BudgetExceeded, match=says) as caught:
        reserve(ledger, month("2024-02", release="more"))
    assert "account people, month 2024-02" in caught.value.detail
    reserve(ledger, month("2024-03", release="more"))
    assert ledger.check() == ()


def test_what_is_read_of_two_months_is_charged_to_both(ledger: SQLiteLedger) -> None:
    kept = reserve(ledger, month("2024-W09"))
    assert [each.window for each in (*kept.accounts, *kept.windows)] == ["2024-02", "2024-03"]
    reserve(ledger, month("2024-03", cost="2/10"))
    with pytest.raises(BudgetExceeded, match="month 2024-03"):
        reserve(ledger, month("2024-Q1", release="quarter"))
    reserve(ledger, month("2024-02-28"))
    assert ledger.check() == ()


def test_where_units_are_replaced_the_two_months_that_lost_most_count(ledger: SQLiteLedger) -> None:
    replacing = {"neighboring": Neighboring.REPLACE_ONE}
    reserve(ledger, month("2024-01", REPLACING, **replacing))
    kept = reserve(ledger, month("2024-02", REPLACING, cost="2/10", **replacing))
    (facts,) = kept.accounts
    assert (facts.window, facts.before.epsilon, facts.after.epsilon) == (
        "2024-02 and 2024-01",
        Fraction(1, 10),
        Fraction(3, 10),
    )
    reserve(ledger, month("2024-03", REPLACING, **replacing))  # 0.2 and 0.1
    with pytest.raises(BudgetExceeded, match=r"month 2024-03 and 2024-02: asked epsilon 0\.1, already charged 0\.3"):
        reserve(ledger, month("2024-03", REPLACING, release="again", **replacing))
    with pytest.raises(BudgetExceeded, match=r"together 0\.4"):
        reserve(ledger, month("2024-04", REPLACING, cost="2/10", **replacing))
    assert ledger.check() == ()


def test_what_is_given_back_is_given_back_to_its_month(ledger: SQLiteLedger) -> None:
    kept = reserve(ledger, month("2024-02", cost="3/10"))
    ledger.void("survey", "2024-02", kept.plan_fingerprint, "nothing was read")
    assert ledger.tally().state.accounts["people"].balance.windows == {"2024-02": Spent()}
    reserve(ledger, month("2024-02", release="other", cost="3/10"))
    assert ledger.check() == ()


@pytest.mark.parametrize(
    "other",
    [
        account(epsilon="3/10", unit="person-month"),
        account(epsilon="3/10", unit="person-month", parallel="month").model_copy(
            update={"parallel": Parallel(per="month", column="logged", type="date")}
        ),
    ],
)
def test_what_it_is_parallel_by_is_for_ever(ledger: SQLiteLedger, other: Account) -> None:
    reserve(ledger, month("2024-02"))
    with pytest.raises(LedgerError, match=r"DPR-L120 .* with parallel month by seen \(date\), and the policy now says"):
        reserve(ledger, month("2024-03", other))
    wider = account(epsilon="4/10", parallel="month", unit="person-month")
    reserve(ledger, month("2024-03", wider))
    assert [body.parallel for _, body in ledger.openings("people")] == [MONTHLY.parallel] * 2
    assert ledger.check() == ()


def test_a_spec_may_lower_the_cap_of_its_own_months_alone(ledger: SQLiteLedger) -> None:
    reserve(ledger, month("2024-01", cost="3/10"))
    low = Budget(epsilon=Fraction(1, 10), delta=MONTHLY.lifetime.delta)
    made = month("2024-02")
    ledger.reserve(made, charges(made, at_most=low))
    again = month("2024-02", release="again")
    with pytest.raises(BudgetExceeded, match=r"allowed 0\.1 "):
        ledger.reserve(again, charges(again, at_most=low))


def test_a_fault_of_one_month_closes_that_month(ledger: SQLiteLedger) -> None:
    for period in ("2024-01", "2024-02"):
        kept = reserve(ledger, month(period))
        ledger.source("survey", period, kept.plan_fingerprint, {"people": (period,)}, "k")
        ledger.commit(key(kept), answer())
        ledger.close("survey", period, kept.plan_fingerprint, "m")
    fault = Fault(why="a bug", release="survey", period="2024-01", factor=Fraction(10))
    (found,) = ledger.incident(fault).recorded
    assert (found.before, found.after) == (Spent(loss=Fraction(1, 10)), Spent(loss=Fraction(1)))
    (told,) = errata([found])
    assert told["accounts"]["people"]["after"]["epsilon"] == "1"
    with pytest.raises(BudgetExceeded, match="month 2024-01"):
        reserve(ledger, month("2024-01", release="again"))
    reserve(ledger, month("2024-02", release="again"))
    assert ledger.check() == ()


def _drop_march(plain: Any) -> None:
    del plain["charges"][0]["windows"][1]
    del plain["balances"][0]["windows"]["2024-03"]


UNTIED_PLAN = bare_plan(period="2024-W09", unit="person-month", accounts=[MONTHLY])
UNTIED_PLAN = UNTIED_PLAN.model_copy(update={"catalog": bare_plan().catalog})
FORGERIES: dict[str, tuple[int, Callable[[Any], None], str]] = {
    "a month left out": (3, _drop_march, "account people is not charged to what the period 2024-W09 touches"),
    "another sum": (4, put("charges", 0, "facts", "before", "epsilon", "0"), "the losses of account people do not add"),
    "a month's own sum": (
        4,
        put("charges", 0, "windows", 0, "after", "epsilon", "1/10"),
        "the losses of account people",
    ),
    "a lower cap": (4, put("charges", 0, "facts", "cap", "epsilon", "1/10"), "account people is charged more than its"),
    "a balance": (4, put("balances", 0, "windows", "2024-02", "loss", "1/10"), "the balance of account people is not"),
    "all months one": (2, put("parallel", None), "entry 3: its plan cannot be charged by stretches of time: account"),
    "years for months": (2, put("parallel", "per", "year"), "entry 3: its plan cannot be charged by stretches of time"),
    "another column": (2, put("parallel", "column", "x"), "entry 3: its plan cannot be charged by stretches of time"),
    "an untied plan": (
        3,
        put("plan_fingerprint", UNTIED_PLAN.fingerprint()),
        "its plan cannot be charged by stretches",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_book_is_found_though_every_hash_is_good(ledger: SQLiteLedger, name: str) -> None:
    """A week in two months, then a release about one of them."""
    made = [month("2024-W09"), month("2024-02")]
    for each in made:
        reserve(ledger, each)
    kept = Kept(*(text.canonical() for each in (*made, UNTIED_PLAN) for text in (each, each.event)))
    at, change, finding = FORGERIES[name]
    bodies = [entry.facts() for entry in ledger.entries()]
    assert audit(lines(chained(bodies)), index_of(bodies), kept) == []
    bodies[at - 1] = forged(bodies[at - 1], change)
    found = audit(lines(chained(bodies)), index_of(bodies), kept)
    assert any(
        line.startswith(finding if finding.startswith("entry") else f"entry {at}: {finding}") for line in found
    ), found


def test_plans_and_entries_without_it_are_as_they_were() -> None:
    plain = account()
    assert "parallel" not in plain.canonical()
    assert Account.from_canonical(plain.canonical()) == plain
    before = """{"account":"people","at":"","balances":[],"by":{"command":"","host":"h","process":1,"user":"u","version":"0"},
        "cap":{"delta":"0","epsilon":"1"},"composition":"basic","neighboring":"add_remove","unit":"person"}"""
    assert AccountOpened.from_canonical(before).terms.parallel is None


# --- what readers are told ---


def status(ledger: SQLiteLedger, terms: Account = MONTHLY) -> dict[str, Any]:
    (found,) = accounts_of(ledger.tally(), {"people": terms})
    return found


def test_status_shows_the_month_that_counts_and_every_month(ledger: SQLiteLedger) -> None:
    for period, cost in (("2024-01", "1/10"), ("2024-02", "2/10"), ("2024-03", "1/10")):
        reserve(ledger, month(period, cost=cost))
    found = status(ledger)
    assert (found["parallel"], found["counts"], found["spent"], found["left"]) == ("month", ["2024-02"], "0.2", "0.1")
    assert [(each["window"], each["spent"], each["left"]) for each in found["windows"]] == [
        ("2024-01", "0.1", "0.2"),
        ("2024-02", "0.2", "0.1"),
        ("2024-03", "0.1", "0.2"),
    ]
    assert (found["reserved"], found["fits"]) == ("0.2", 2)
    assert export(ledger)["accounts"]["people"]["windows"]["2024-02"] == {"loss": "1/5", "reveals": "0"}


def test_as_many_more_fit_as_are_granted(ledger: SQLiteLedger) -> None:
    replacing = {"neighboring": Neighboring.REPLACE_ONE}
    reserve(ledger, month("2024-01", REPLACING, cost="1/10", **replacing))
    reserve(ledger, month("2024-02", REPLACING, cost="1/20", **replacing))
    fits = status(ledger, REPLACING)["fits"]
    for number in range(fits):
        reserve(ledger, month("2024-02", REPLACING, release=f"r{number}", cost="1/20", **replacing))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, month("2024-02", REPLACING, release="last", cost="1/20", **replacing))
    assert fits == 3


def _ahead(terms: Account, made: ReleasePlan, periods: Sequence[str], windows: dict[str, Spent]) -> Any:
    purse = Purse(terms, terms.lifetime, Spent(), windows)
    return ahead(made, [purse], periods, len(periods))


def test_twelve_months_ahead_are_twelve_caps() -> None:
    year = coming("2024-01", 12)
    seen = _ahead(MONTHLY, month("2024-01", cost="3/10"), year, {})
    assert (seen.fit, len(seen.lines), seen.lines[0].room) == (12, 1, 1)
    assert set(seen.lines[0].after.values()) == {Fraction(3, 10)}
    begun = _ahead(MONTHLY, month("2024-01"), year, {"2024-05": Spent(loss=Fraction(25, 100))})
    assert (begun.fit, begun.lines[0].refused, begun.lines[0].before) == (4, 5, Fraction(25, 100))
    assert begun.lines[0].room == 3


def test_a_horizon_is_what_the_ledger_then_grants(ledger: SQLiteLedger, tmp_path: Path) -> None:
    replacing = {"neighboring": Neighboring.REPLACE_ONE}
    weeks = coming("2024-W07", 8)
    for terms, more in ((MONTHLY, {}), (REPLACING, replacing)):
        book = SQLiteLedger(tmp_path / "other.db") if terms is REPLACING else ledger
        told = _ahead(terms, month("2024-W07", terms, cost="1/13", **more), weeks, {})
        granted = 0
        for week in weeks:
            try:
                (facts, *_) = reserve(book, month(week, terms, cost="1/13", **more)).accounts
            except BudgetExceeded:
                break
            granted += 1
            assert facts.after.epsilon == told.lines[0].after[granted]
        assert 0 < told.fit == granted < len(weeks)
