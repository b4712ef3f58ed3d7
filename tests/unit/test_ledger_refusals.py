"""Every account that cannot pay refuses alike: what, where, what was allowed, what to do; and an entry that says so."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import BudgetExceeded, LedgerError
from dprelease.ledger.model.entry import Refused
from dprelease.plan.document import Account, ReleasePlan, Selecting
from dprelease.plan.document.account import AccountLosses
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import account_loss
from tests.ledgers import SQLiteLedger, account, charges, plan

OWN = Fraction(1, 10**7)  # the delta that each selection of keys has


@pytest.fixture
def ledger(tmp_path: Path) -> SQLiteLedger:
    return SQLiteLedger(tmp_path / "ledger.db", [tmp_path / "anchors" / "head"])


def capped(terms: Account, epsilon: str, delta: str | None = None) -> Account:
    cap = Budget(epsilon=Fraction(epsilon), delta=Fraction(delta) if delta else terms.lifetime.delta)
    return terms.model_copy(update={"lifetime": cap})


def selecting(terms: Account, period: str = "2024", mechanism: str = "gaussian_threshold") -> ReleasePlan:
    """A release whose one draw selects keys, at a delta of its own."""
    made = plan(period=period, mechanism=mechanism, accounts=[terms])
    (step,) = made.steps
    steps = (step.model_copy(update={"selecting": Selecting(threshold=10, delta=OWN), "cells": None}),)
    return made.model_copy(update={"steps": steps})


def refused(ledger: SQLiteLedger, made: ReleasePlan, at_most: Budget | None = None) -> tuple[BudgetExceeded, Refused]:
    """The error of a release that cannot be paid, and the entry of it, which changed no account."""
    known = [entry.kind for entry in ledger.entries()]
    heads = ledger.heads(["people"])
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve(made, charges(made, at_most=at_most))
    kinds = [entry.kind for entry in ledger.entries()]
    assert kinds[len(known) :] == (["refuse"] if known else ["anchor", "refuse"])
    body = list(ledger.entries())[-1].facts()
    assert isinstance(body, Refused)
    assert (body.release, body.period) == (made.release.name, made.release.period)
    assert ledger.heads(["people"]) == heads
    assert ledger.find("survey", made.release.period) is None
    assert ledger.check() == ()
    return caught.value, body


def facts_of(body: Refused) -> AccountLosses:
    (facts,) = body.exceeded
    return facts


# --- A series ---

SERIES = account(epsilon="3", composition="pld")


def opened(ledger: SQLiteLedger) -> ReleasePlan:
    made = plan(accounts=[SERIES])
    ledger.open_account(SERIES, "a series", [(made.event_of("people"), 2)])
    return made


@pytest.mark.parametrize("delta", [None, "1/1000000000000"])
def test_a_series_above_a_cap_that_was_lowered_since(ledger: SQLiteLedger, delta: str | None) -> None:
    opened(ledger)
    low = capped(SERIES, "3" if delta else "1/100", delta)
    error, body = refused(ledger, plan(accounts=[low]))
    assert error.code == "DPR-L100"
    assert "account people: its whole series costs epsilon 0.2 at delta 1e-9, allowed" in error.detail
    assert ("allowed 3 at delta 1e-12" if delta else "allowed 0.01 at delta 1e-9") in error.detail
    assert "nothing was charged; no smaller release helps" in error.hint
    assert facts_of(body).after == facts_of(body).before
    assert ledger.quote(charges(plan(accounts=[low])), "2024")[1] == body.exceeded


def test_a_series_above_what_the_spec_allows(ledger: SQLiteLedger) -> None:
    made = opened(ledger)
    low = Budget(epsilon=Fraction(1, 10), delta=SERIES.lifetime.delta)
    error, body = refused(ledger, made, low)
    assert "allowed 0.1 at" in error.detail
    assert facts_of(body).cap == low
    ledger.reserve(made, charges(made))


def test_a_series_is_held_against_its_lifetime_whatever_the_charge_says(ledger: SQLiteLedger) -> None:
    opened(ledger)
    made = plan(accounts=[capped(SERIES, "1/100")])
    error, _ = refused(ledger, made, Budget(epsilon=Fraction(9), delta=SERIES.lifetime.delta))
    assert "allowed 0.01 at" in error.detail


def test_a_series_has_no_cap_in_rho(ledger: SQLiteLedger) -> None:
    made = opened(ledger)
    with pytest.raises(LedgerError, match="DPR-L121"):
        ledger.reserve(made, charges(made, at_most=Budget(rho=Fraction(9), delta=Fraction(1, 10**9))))


# --- Draws with deltas of their own ---


def keeping(terms: Account, own: Fraction | int) -> Account:
    return terms.model_copy(update={"selecting": Fraction(own)})


SMALL = "1/10000000"
COMPOSED = [
    account(epsilon="9", composition="zcdp", delta="1/1000000"),
    account(epsilon="90", composition="rdp", order="2", delta="1/1000000"),
]


@pytest.mark.parametrize("terms", COMPOSED, ids=["zcdp", "rdp"])
def test_key_selections_that_an_account_keeps_nothing_for(ledger: SQLiteLedger, terms: Account) -> None:
    made = selecting(terms)
    error, body = refused(ledger, made)
    assert error.summary == "survey 2024 costs more than is left in account people"
    assert "key selection, asked delta 1e-7, already charged 0, together 1e-7, allowed 0" in error.detail
    assert "nothing was charged; give the keys in the spec" in error.hint
    facts = facts_of(body)
    # What it would be: noise at the whole delta, and the deltas of the draws on top.
    whole = made.steps[0].event
    assert isinstance(whole, Composed)
    noise = [whole.events[0]]
    alone = account_loss(terms.composition, noise, facts.cap.delta, kept=Fraction(0), order=terms.order)
    assert facts.before == Loss(epsilon=Fraction(0), delta=facts.cap.delta)
    assert (facts.after.epsilon, facts.after.delta) == (alone.epsilon, facts.cap.delta + OWN)
    assert ledger.quote(charges(made), "2024")[1] == body.exceeded


@pytest.mark.parametrize("terms", COMPOSED, ids=["zcdp", "rdp"])
def test_key_selections_beyond_what_is_kept_for_them(ledger: SQLiteLedger, terms: Account) -> None:
    kept = keeping(terms, 2 * OWN)
    for period in ("2022", "2023"):
        ledger.reserve(selecting(kept, period), charges(selecting(kept, period)))
    error, _ = refused(ledger, selecting(kept))
    assert "asked delta 1e-7, already charged 2e-7, together 3e-7, allowed 2e-7" in error.detail


def test_key_selections_beyond_the_delta_of_a_basic_account(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="9", delta="1/20000000")
    error, body = refused(ledger, selecting(terms, mechanism="laplace_threshold"))
    assert "allowed 5e-8" in error.detail
    assert (facts_of(body).after.epsilon, facts_of(body).after.delta) == (Fraction(1, 10), OWN)


def test_a_delta_that_is_all_kept_for_key_selections(ledger: SQLiteLedger) -> None:
    terms = keeping(COMPOSED[0], OWN)
    made = plan(mechanism="discrete_gaussian", accounts=[terms])
    error, _ = refused(ledger, made, Budget(epsilon=Fraction(9), delta=OWN))
    assert "it keeps 1e-7 of its delta for key selections, which leaves nothing of 1e-7" in error.detail
    assert "larger delta" in error.hint


def test_a_cap_in_rho_whose_delta_says_nothing(ledger: SQLiteLedger) -> None:
    terms = keeping(account(rho="9", composition="zcdp", delta="1/1000000"), OWN)
    made = plan(mechanism="discrete_gaussian", accounts=[terms])
    refused(ledger, made, Budget(rho=Fraction(9), delta=OWN))
    refused(ledger, selecting(keeping(terms, 0)))
    ledger.reserve(made, charges(made))


@pytest.mark.parametrize("window", [("year", "9")])
def test_a_window_refuses_like_a_lifetime(ledger: SQLiteLedger, window: Sequence[str]) -> None:
    terms = account(epsilon="90", composition="zcdp", delta="1/1000000", window=(window[0], window[1]))
    error, _ = refused(ledger, selecting(terms))
    assert "account people: draws with deltas" in error.detail
    assert terms.window is not None
    small = terms.window.model_copy(update={"cap": Budget(epsilon=Fraction(9), delta=Fraction(1, 20000000))})
    kept = keeping(terms, OWN).model_copy(update={"window": small})
    error, body = refused(ledger, selecting(kept, "2023"))
    assert "account people, year 2023: draws with deltas" in error.detail
    assert facts_of(body).window == "2023"


def test_two_accounts_that_cannot_pay_are_told_at_once(ledger: SQLiteLedger) -> None:
    people, visits = keeping(COMPOSED[0], 0), account("visits", epsilon="1/100", composition="zcdp", delta=SMALL)
    made = plan(steps={"one": "people", "two": "visits"}, mechanism="gaussian_threshold", accounts=[people, visits])
    one, two = made.steps
    steps = (
        one.model_copy(update={"selecting": Selecting(threshold=10, delta=OWN), "cells": None}),
        two.model_copy(update={"mechanism": "discrete_gaussian"}),
    )
    error, body = refused(ledger, made.model_copy(update={"steps": steps}))
    assert [facts.name for facts in body.exceeded] == ["people", "visits"]
    assert "account people: draws with deltas" in error.detail
    assert "account visits: asked epsilon" in error.detail
    assert "give the keys in the spec" in error.hint
    assert "lower the release's budget" in error.hint
