"""What was charged before the losses of pure noise were read exactly stays charged, is found right, and is added to."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.ledger.audit.memo import Memo
from dprelease.ledger.model import admission
from dprelease.ledger.model.balance import terms_of
from dprelease.ledger.model.history import events_digest
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants.rho import as_priced, plain_rho, zcdp_rho
from dprelease.privacy.budget import Loss
from dprelease.privacy.filters import Spent, spent_before, spent_on
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.publish.accounting.guarantee import guarantee
from tests.ledgers import SQLiteLedger, account, fill, plan
from tests.planned import SPEC, planned_anew

F = Fraction
ZCDP = account(composition="zcdp", epsilon="20")
PLAN = plan(cost="1", accounts=(ZCDP,))
LATER = plan(cost="1", accounts=(ZCDP,), period="2025")


def test_an_old_charge_stays_and_a_new_one_is_added_at_its_own_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    events, terms = PLAN.cost_of(ZCDP), terms_of(ZCDP)
    before, now = spent_before(terms, events), spent_on(terms, events)
    assert before == Spent(loss=F(1, 2))
    assert float(now.loss) == pytest.approx(0.46211715726)
    with monkeypatch.context() as older:
        older.setattr(admission, "spent_on", spent_before)
        fill(SQLiteLedger(path), PLAN)
    ledger = SQLiteLedger(path)
    assert ledger.check() == ()
    assert ledger.tally().state.accounts["people"].balance.spent == before
    fill(ledger, LATER)
    assert ledger.check() == ()
    assert ledger.tally().state.accounts["people"].balance.spent == before.plus(now)


def test_no_other_price_is_one() -> None:
    """The full check takes today's price and the one before it; of what was left out, the one before, which is more."""
    events, terms, memo = PLAN.cost_of(ZCDP), terms_of(ZCDP), Memo()
    before, now = spent_before(terms, events), spent_on(terms, events)
    between = Spent(loss=(before.loss + now.loss) / 2)
    told = {None: before, before: before, now: now, between: now, Spent(): now}
    for entry, price in told.items():
        assert memo.price(terms, events_digest(events), events, entry) == price


def test_a_plan_says_which_price_its_lost_charge_had() -> None:
    """The figure of the accountant that adds up rho is that of the price; a plan that has none may be older."""
    delta = F(1, 10**9)
    figures = [rho_to_epsilon(rho(PLAN.steps[0].event), delta) for rho in (zcdp_rho, plain_rho)]  # type: ignore[arg-type]
    older = []
    for figure in figures:
        loss = {"zcdp": Loss(epsilon=figure, delta=delta)}
        older.append(PLAN.model_copy(update={"loss": loss}).is_older)
    assert older == [False, True]
    assert "zcdp" not in PLAN.loss
    assert PLAN.is_older is None


def test_what_was_published_before_is_made_again_as_it_was() -> None:
    """The plan tells by its own figure, and pages and files of its bundle then say what they said."""
    laplace = SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "noise: laplace\n  budget: {epsilon: 1, delta: 1e-9}")
    with as_priced(before=True):
        older = planned_anew(laplace)
        told = guarantee(older)["totals"]
    newer = planned_anew(laplace)
    assert (older.is_older, newer.is_older) == (True, False)
    for each in (older, newer):
        verify(each)
    assert older.steps == newer.steps
    assert guarantee(older)["totals"] != told
    with as_priced(before=older.is_older is True):
        assert guarantee(older)["totals"] == told
