"""Every ledger store keeps the same promises; a store enrols by its line in ``LEDGERS``."""

from __future__ import annotations

import importlib
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError, StalePlan, UnsupportedEvent
from dprelease.ledger import LEDGERS, Ledger, StepKey, open_ledger
from dprelease.plan.document import Head, ReleasePlan
from dprelease.privacy.budget import Budget
from dprelease.privacy.filters import account_loss
from dprelease.privacy.unit import Neighboring
from tests import postgres as servers
from tests.ledgers import Standing, account, answer, charges, key, plan, standing_of

TWO = {"a": "people", "b": "visits"}


postgres_server, postgres = servers.postgres_server, servers.postgres  # fixtures


@pytest.fixture(params=LEDGERS)
def url(request: pytest.FixtureRequest) -> str:
    """Of a ledger that nothing was ever written to; a server's has its tables, for a release never makes them."""
    if request.param == "sqlite":
        return "sqlite:///state/ledger.db"
    database = request.getfixturevalue("postgres")
    importlib.import_module("dprelease.ledger.stores.postgres").create_postgres_ledger(database.owner, servers.RUNNER)
    return str(database.runner)


@pytest.fixture
def ledger(url: str, tmp_path: Path) -> Ledger:
    return open_ledger(url, tmp_path)


def kinds(ledger: Ledger) -> list[str]:
    """What happened, without the first entry, which says where the ledger is."""
    found: list[str] = [entry.kind for entry in ledger.entries()]
    assert found[:1] in ([], ["anchor"])
    return found[1:]


def charged(ledger: Ledger, name: str = "people") -> int:
    return len(standing_of(ledger, [name]).of(name).charged)


def test_looking_at_a_ledger_that_is_not_there_creates_nothing(ledger: Ledger, tmp_path: Path) -> None:
    assert standing_of(ledger, ["people"]) == Standing()
    assert ledger.find("survey", "2024") is None
    assert ledger.stored(StepKey("survey", "2024", "plan", "one")) is None
    assert ledger.measured("survey", "2024", "plan") == frozenset()
    assert (ledger.reservations(), tuple(ledger.entries()), ledger.check()) == ((), (), ())
    assert list(tmp_path.iterdir()) == []


def test_a_reservation_opens_its_account_charges_it_and_is_found_again(ledger: Ledger) -> None:
    made = plan()
    kept = ledger.reserve(made, charges(made), None, {"python": "3"}, "dprelease run")
    assert (kept.release, kept.period, kept.state, kept.manifest) == ("survey", "2024", "open", None)
    assert ReleasePlan.from_canonical(kept.plan) == made
    assert (kept.plan_fingerprint, kept.spec_fingerprint) == (made.fingerprint(), "spec")
    assert kept.environment == {"python": "3"}
    assert (kept.reserved_by.process, kept.reserved_by.command) == (os.getpid(), "dprelease run")
    (facts,) = kept.accounts
    assert (facts.before.epsilon, facts.after.epsilon) == (Fraction(0), Fraction(1, 10))
    assert kinds(ledger) == ["open", "reserve"]
    last = list(ledger.entries())[-1]
    assert (kept.sequence, kept.hash) == (last.sequence, last.hash)
    assert ledger.find("survey", "2024") == kept
    assert ledger.reservations() == (kept.model_copy(update={"plan": ""}),)  # a list is not to hold every plan
    standing = standing_of(ledger, ["people", "nobody"])
    assert standing.of("people").head == Head(sequence=last.sequence, hash=last.hash)
    assert standing.of("people").charged == (made.event_of("people"),)
    assert "nobody" not in standing.accounts


def test_the_same_plan_again_is_the_same_reservation_and_costs_nothing(ledger: Ledger) -> None:
    made = plan()
    first = ledger.reserve(made, charges(made), {"people": Head()})
    assert ledger.reserve(made, charges(made), {"people": Head()}) == first
    assert charged(ledger) == 1


def test_another_plan_for_the_same_release_and_period_is_refused_and_both_are_named(ledger: Ledger) -> None:
    first, second = plan(), plan(cost="1/5")
    ledger.reserve(first, charges(first))
    with pytest.raises(LedgerError, match="DPR-L110") as error:
        ledger.reserve(second, charges(second))
    assert first.fingerprint()[:12] in str(error.value)
    assert second.fingerprint()[:12] in str(error.value)
    assert charged(ledger) == 1


def test_a_plan_frozen_against_a_head_that_moved_is_stale(ledger: Ledger) -> None:
    first, second = plan(), plan(period="2025")
    ledger.reserve(first, charges(first))
    seen = {"people": standing_of(ledger, ["people"]).of("people").head}
    with pytest.raises(StalePlan, match="people moved from entry 0 to 3"):
        ledger.reserve(second, charges(second), {})
    with pytest.raises(StalePlan, match="another ledger"):
        ledger.reserve(second, charges(second), {"people": Head(sequence=3, hash="0" * 64)})
    ledger.reserve(second, charges(second), seen)
    assert charged(ledger) == 2


def test_an_entry_that_charges_nothing_makes_no_plan_stale(ledger: Ledger) -> None:
    first, second, dear = plan(), plan(period="2025"), plan(period="2026", cost="2")
    kept = ledger.reserve(first, charges(first))
    seen = {"people": standing_of(ledger, ["people"]).of("people").head}
    ledger.commit(key(kept), answer())
    ledger.close("survey", "2024", kept.plan_fingerprint, "manifest")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(dear, charges(dear))
    ledger.reserve(second, charges(second), seen)


@pytest.mark.parametrize(
    "now",
    [
        account(unit="household"),
        account(neighboring=Neighboring.REPLACE_ONE),
        account(composition="zcdp"),
    ],
)
def test_an_account_keeps_its_unit_relation_and_composition(ledger: Ledger, now: Any) -> None:
    first = plan()
    ledger.reserve(first, charges(first))
    later = plan(period="2025", accounts=[now], unit=now.unit, neighboring=now.neighboring)
    with pytest.raises(LedgerError, match="DPR-L120"):
        ledger.reserve(later, charges(later))
    changed = plan(period="2025")
    asked = charges(changed)[0].model_copy(update={"account": now})
    with pytest.raises(LedgerError, match="was planned with"):
        ledger.reserve(changed, [asked])
    assert kinds(ledger) == ["open", "reserve"]


def test_a_changed_cap_is_recorded_and_counts_from_then_on(ledger: Ledger) -> None:
    first, second = plan(cost="9/10"), plan(period="2025", cost="9/10")
    ledger.reserve(first, charges(first))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(second, charges(second))
    ledger.reserve(second, charges(second, [account(epsilon="2")]))
    assert kinds(ledger) == ["open", "reserve", "refuse", "open", "reserve"]
    reopened = list(ledger.entries())[4].body
    assert (reopened["replaces"], reopened["cap"]["epsilon"]) == (2, "2")
    assert ledger.check() == ()


def test_a_refusal_says_what_was_asked_charged_allowed_and_left_and_charges_nothing(ledger: Ledger) -> None:
    first, second = plan(cost="7/10"), plan(period="2025", cost="2/5")
    ledger.reserve(first, charges(first))
    with pytest.raises(BudgetExceeded) as error:
        ledger.reserve(second, charges(second))
    told = str(error.value)
    for part in ("account people", "asked epsilon 0.4", "charged epsilon 0.7", "allowed 1 ", "left 0.3"):
        assert part.replace("charged epsilon", "already charged") in told
    assert kinds(ledger) == ["open", "reserve", "refuse"]
    assert charged(ledger) == 1
    assert ledger.find("survey", "2025") is None
    assert ledger.check() == ()


def test_a_cap_is_met_exactly_and_not_exceeded_by_a_hair(ledger: Ledger) -> None:
    exact, hair = plan(cost="1"), plan(period="2025", cost="1/1000000000000")
    ledger.reserve(exact, charges(exact))
    with pytest.raises(BudgetExceeded, match="left 0"):
        ledger.reserve(hair, charges(hair))


def test_a_spec_can_lower_a_cap_and_never_raise_it(ledger: Ledger) -> None:
    made = plan(cost="1/2")
    with pytest.raises(BudgetExceeded, match=r"allowed 0\.4 "):
        ledger.reserve(made, charges(made, at_most=Budget(epsilon=Fraction(2, 5))))
    dear = plan(cost="3/2")
    with pytest.raises(BudgetExceeded, match="allowed 1 "):
        ledger.reserve(dear, charges(dear, at_most=Budget(epsilon=Fraction(9))))
    ledger.reserve(made, charges(made))


def test_all_accounts_are_charged_or_none(ledger: Ledger) -> None:
    made = plan(steps=TWO, cost="1/2")
    with pytest.raises(BudgetExceeded, match="account visits") as error:
        ledger.reserve(made, charges(made, [account(), account("visits", epsilon="1/4")]))
    assert "account people" not in str(error.value)
    assert standing_of(ledger, ["people", "visits"]) == Standing()
    kept = ledger.reserve(made, charges(made))
    assert [facts.name for facts in kept.accounts] == ["people", "visits"]
    assert (charged(ledger), charged(ledger, "visits")) == (1, 1)


def test_charges_that_are_not_the_plans_are_our_bug(ledger: Ledger) -> None:
    made, other = plan(steps=TWO), plan()
    with pytest.raises(BrokenPromiseError, match="DPR-L904"):
        ledger.reserve(made, charges(made)[:1])
    with pytest.raises(BrokenPromiseError, match="DPR-L904"):
        ledger.reserve(other, [charges(other)[0].model_copy(update={"events": plan(cost="1/20").event})])
    with pytest.raises(BrokenPromiseError, match="DPR-L904"):
        ledger.reserve(other, charges(other) * 2)
    assert tuple(ledger.entries()) == ()


def test_losses_of_an_account_compose_under_its_own_composition(ledger: Ledger) -> None:
    terms = account(epsilon="8", composition="zcdp")
    events = []
    for month in range(12):
        made = plan(period=str(month), cost="1/5", mechanism="discrete_gaussian")
        events.append(made.event)
        (facts,) = ledger.reserve(made, charges(made, [terms])).accounts
        assert facts.after == account_loss("zcdp", events, terms.lifetime.delta)
    single = account_loss("zcdp", events[:1], terms.lifetime.delta).epsilon
    assert facts.after.epsilon < 5 * single
    assert ledger.check() == ()


def test_a_cap_in_rho_is_spent_exactly(ledger: Ledger) -> None:
    terms = account(rho="1/50", composition="zcdp")
    for year in ("2024", "2025"):
        made = plan(period=year, cost="1/10", steps={"a": "people", "b": "people"}, mechanism="discrete_gaussian")
        ledger.reserve(made, charges(made, [terms]))
    hair = plan(period="2026", cost="1/100000", mechanism="discrete_gaussian")
    with pytest.raises(BudgetExceeded, match=r"allowed 0\.02 "):
        ledger.reserve(hair, charges(hair, [terms]))


@pytest.mark.parametrize(
    ("terms", "mechanism"),
    [(account(composition="zcdp", delta="0"), "discrete_gaussian"), (account(rho="1"), "discrete_laplace")],
)
def test_a_cap_that_the_composition_cannot_read_is_refused(ledger: Ledger, terms: Any, mechanism: str) -> None:
    made = plan(mechanism=mechanism)
    with pytest.raises(LedgerError, match="DPR-L121"):
        ledger.reserve(made, charges(made, [terms]))


def test_an_account_that_adds_up_epsilons_takes_no_gaussian_noise(ledger: Ledger) -> None:
    made = plan(mechanism="discrete_gaussian").model_copy(update={"accounts": (account(),)})
    with pytest.raises(UnsupportedEvent, match="basic composition"):
        ledger.reserve(made, charges(made))
    assert tuple(ledger.entries()) == ()


def test_the_first_commit_wins_for_ever(ledger: Ledger, url: str, tmp_path: Path) -> None:
    made = plan(steps=TWO)
    kept = ledger.reserve(made, charges(made))
    assert ledger.stored(key(kept, "a")) is None
    assert ledger.commit(key(kept, "a"), answer("a", 1)).digest == answer("a", 1).digest
    assert ledger.commit(key(kept, "a"), answer("a", 2)).digest == answer("a", 1).digest
    again = open_ledger(url, tmp_path)
    found = again.stored(key(kept, "a"))
    assert found is not None
    assert found.digest == answer("a", 1).digest
    assert again.measured("survey", "2024", kept.plan_fingerprint) == {"a"}
    assert kinds(ledger).count("measure") == 1


def test_what_is_not_a_step_of_the_reserved_plan_is_never_stored(ledger: Ledger) -> None:
    with pytest.raises(BrokenPromiseError, match="DPR-L901"):
        ledger.commit(StepKey("survey", "2024", "plan", "one"), answer())
    made = plan()
    kept = ledger.reserve(made, charges(made))
    wrong = {
        "DPR-L900": [(key(kept, "two"), answer("two")), (key(kept), answer("two"))],
        "DPR-L901": [(StepKey("survey", "2024", "other plan", "one"), answer())],
    }
    for code, attempts in wrong.items():
        for at, what in attempts:
            with pytest.raises(BrokenPromiseError, match=code):
                ledger.commit(at, what)
    short = type(answer())("one", answer().values[:-1])
    with pytest.raises(BrokenPromiseError, match="DPR-L900"):
        ledger.commit(key(kept), short)
    assert ledger.measured("survey", "2024", kept.plan_fingerprint) == frozenset()


def test_a_release_is_closed_once_all_is_measured_and_stays_closed(ledger: Ledger) -> None:
    made = plan(steps=TWO)
    kept = ledger.reserve(made, charges(made))
    mark = kept.plan_fingerprint
    ledger.commit(key(kept, "a"), answer("a"))
    with pytest.raises(BrokenPromiseError, match="the first is b"):
        ledger.close("survey", "2024", mark, "manifest")
    ledger.commit(key(kept, "b"), answer("b"))
    ledger.close("survey", "2024", mark, "manifest")
    ledger.close("survey", "2024", mark, "manifest")
    with pytest.raises(LedgerError, match="DPR-L131"):
        ledger.close("survey", "2024", mark, "another")
    found = ledger.reserve(made, charges(made))
    assert (found.state, found.manifest) == ("closed", "manifest")
    assert ledger.commit(key(kept, "a"), answer("a", 99)).digest == answer("a").digest
    assert kinds(ledger) == ["open", "open", "reserve", "measure", "measure", "close"]
    with pytest.raises(BrokenPromiseError, match="DPR-L902"):
        ledger.void("survey", "2024", mark, "too late")
    with pytest.raises(BrokenPromiseError, match="DPR-L901"):
        ledger.close("survey", "2025", mark, "manifest")


def test_a_reservation_is_given_back_only_while_nothing_was_measured(ledger: Ledger) -> None:
    made = plan(cost="9/10")
    kept = ledger.reserve(made, charges(made))
    ledger.void("survey", "2024", kept.plan_fingerprint, "the source is gone")
    assert ledger.find("survey", "2024") is None
    assert ledger.reservations() == ()
    assert charged(ledger) == 0
    assert standing_of(ledger, ["people"]).of("people").head.sequence == 4
    with pytest.raises(BrokenPromiseError, match="DPR-L901"):
        ledger.commit(key(kept), answer())
    with pytest.raises(LedgerError, match="DPR-L130"):
        ledger.void("survey", "2024", kept.plan_fingerprint, "again")
    again = ledger.reserve(made, charges(made))
    assert again.sequence > kept.sequence
    ledger.commit(key(again), answer())
    with pytest.raises(BrokenPromiseError, match="DPR-L902"):
        ledger.void("survey", "2024", kept.plan_fingerprint, "no")
    assert charged(ledger) == 1
    assert ledger.check() == ()


def test_threads_share_a_ledger_and_get_one_answer(ledger: Ledger) -> None:
    made = plan(steps={f"s{n}": "people" for n in range(10)}, cost="1/100")
    kept = ledger.reserve(made, charges(made))

    def measure(n: int) -> tuple[str, str]:
        step = f"s{n % 10}"
        return step, ledger.commit(key(kept, step), answer(step, n)).digest

    with ThreadPoolExecutor(8) as pool:
        handed = set(pool.map(measure, range(80)))
    assert len(handed) == 10
    assert ledger.check() == ()


def test_a_parallel_account_keeps_its_months_apart(ledger: Ledger) -> None:
    people = account(epsilon="3/10", unit="person-month", parallel="month")

    def ask(period: str, cost: str, release: str = "survey") -> Fraction:
        made = plan(release=release, period=period, cost=cost, unit="person-month", accounts=[people])
        (facts,) = ledger.reserve(made, charges(made)).accounts
        return facts.after.epsilon

    assert [ask(f"2024-0{month}", "2/10") for month in (1, 2, 3)] == [Fraction(1, 5)] * 3
    assert ask("2024-02", "1/10", "again") == Fraction(3, 10)
    for period in ("2024-02", "2024-W09", "2024-Q1"):  # each of them touches February
        with pytest.raises(BudgetExceeded, match="month 2024-02"):
            ask(period, "1/10", "more")
    assert ask("2024-W10", "1/10", "more") == Fraction(3, 10)
    months = ledger.tally().state.accounts["people"].balance.windows
    assert {name: spent.loss for name, spent in months.items()} == {
        "2024-01": Fraction(1, 5),
        "2024-02": Fraction(3, 10),
        "2024-03": Fraction(3, 10),
    }
    kept = ledger.find("survey", "2024-01")
    assert kept is not None
    ledger.void("survey", "2024-01", kept.plan_fingerprint, "nothing was read")
    assert ask("2024-01", "3/10", "other") == Fraction(3, 10)
    assert [entry.kind for entry in ledger.entries()].count("refuse") == 3
    assert ledger.check() == ()


def test_a_parallel_account_that_replaces_units_counts_two_months(ledger: Ledger) -> None:
    replace = Neighboring.REPLACE_ONE
    people = account(epsilon="3/10", unit="person-month", parallel="month", neighboring=replace)
    for period, cost in (("2024-01", "2/10"), ("2024-02", "1/10"), ("2024-03", "1/10")):
        made = plan(period=period, cost=cost, unit="person-month", neighboring=replace, accounts=[people])
        kept = ledger.reserve(made, charges(made))
    assert (kept.accounts[0].window, kept.accounts[0].after.epsilon) == ("2024-03 and 2024-01", Fraction(3, 10))
    made = plan("more", "2024-04", cost="2/10", unit="person-month", neighboring=replace, accounts=[people])
    with pytest.raises(BudgetExceeded, match=r"month 2024-01 and 2024-04|month 2024-04 and 2024-01"):
        ledger.reserve(made, charges(made))
    assert ledger.check() == ()
