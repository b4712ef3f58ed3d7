"""What may replace what, what a release was read from, and what is kept once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError
from dprelease.ledger import Reservation
from dprelease.ledger.model.balance import Balance
from dprelease.ledger.model.entry import Reserved
from dprelease.ledger.tables import view
from dprelease.plan.document import ReleasePlan
from tests.ledgers import SQLiteLedger, account, answer, charges, fill, key, plan, standing_of


@pytest.fixture
def ledger(tmp_path: Path) -> SQLiteLedger:
    return SQLiteLedger(tmp_path / "ledger.db", [tmp_path / "anchors" / "head"])


def balance(ledger: SQLiteLedger, name: str = "people") -> Balance:
    with ledger._reading() as rows:
        assert rows is not None
        return view.whole_state(rows).accounts[name].balance


def reserve(ledger: SQLiteLedger, made: ReleasePlan, **more: Any) -> Reservation:
    return ledger.reserve(made, charges(made), **more)


def names(kept: Reservation) -> tuple[str, str, str]:
    return kept.release, kept.period, kept.plan_fingerprint


# --- Restatements ---


def closed(ledger: SQLiteLedger, made: ReleasePlan, **more: Any) -> Reservation:
    kept = reserve(ledger, made, **more)
    for step in made.steps:
        ledger.commit(key(kept, step.id), answer(step.id))
    ledger.close(*names(kept), "manifest")
    return kept


A, B, C = plan(), plan(cost="1/5"), plan(cost="3/10")


def test_a_restatement_is_linked_to_what_it_replaces_and_charged_again(ledger: SQLiteLedger) -> None:
    first = closed(ledger, A)
    second = reserve(ledger, B, restates="a wrong list of keys")
    assert (second.restates, second.reason, second.state) == (first.sequence, "a wrong list of keys", "open")
    assert balance(ledger).spent.loss == Fraction(3, 10)
    for step in B.steps:
        ledger.commit(key(second, step.id), answer(step.id, 8))
    ledger.close(*names(second), "another manifest")
    assert ledger.find("survey", "2024") is not None
    assert [each.sequence for each in ledger.reservations()] == [first.sequence, second.sequence]
    for kept, value in ((first, 7), (second, 8)):  # the answers of both stay what they are
        found = ledger.stored(key(kept))
        assert found is not None
        assert found.digest == answer("one", value).digest
    third = closed(ledger, C, restates="once more")
    assert third.restates == second.sequence
    assert ledger.check() == ()


def test_without_a_reason_another_plan_is_refused(ledger: SQLiteLedger) -> None:
    closed(ledger, A)
    with pytest.raises(LedgerError, match="DPR-L110"):
        reserve(ledger, B)
    assert balance(ledger).spent.loss == Fraction(1, 10)


def test_a_release_that_is_open_is_finished_or_given_up_first(ledger: SQLiteLedger) -> None:
    kept = reserve(ledger, A)
    with pytest.raises(LedgerError, match=r"DPR-L110 .* is open with plan"):
        reserve(ledger, B, restates="too early")
    ledger.give_up(*names(kept), "the spec was wrong")
    with pytest.raises(LedgerError, match=r"DPR-L113 .* was given up: the spec was wrong"):
        reserve(ledger, B)
    second = reserve(ledger, B, restates="now")
    assert second.restates == kept.sequence
    assert ledger.check() == ()


def test_the_same_restatement_twice_is_one(ledger: SQLiteLedger) -> None:
    closed(ledger, A)
    second = reserve(ledger, B, restates="why")
    for reason in ("why", "another reason", ""):
        assert reserve(ledger, B, restates=reason) == second
    assert balance(ledger).spent.loss == Fraction(3, 10)
    assert [entry.kind for entry in ledger.entries()].count("reserve") == 2


def test_no_plan_is_measured_twice_for_a_release_and_period(ledger: SQLiteLedger) -> None:
    """A, then B, then A again would be a second draw of A's answers."""
    first = closed(ledger, A)
    with pytest.raises(LedgerError, match="DPR-L114"):
        reserve(ledger, A, restates="draw again, please")
    closed(ledger, B, restates="why")
    for reason, code in (("back again", "DPR-L114"), ("", "DPR-L110")):
        with pytest.raises(LedgerError, match=code):
            reserve(ledger, A, restates=reason)
    with pytest.raises(BrokenPromiseError, match=r"DPR-L900|DPR-L901"):
        ledger.commit(key(first, "two"), answer("two"))
    assert ledger.commit(key(first), answer("one", 99)).digest == answer().digest
    assert ledger.check() == ()


def test_a_restatement_that_is_given_back_leaves_what_it_replaced(ledger: SQLiteLedger) -> None:
    first = closed(ledger, A)
    second = reserve(ledger, B, restates="why")
    ledger.void(*names(second), "no file")
    found = ledger.find("survey", "2024")
    assert found is not None
    assert found.sequence == first.sequence
    assert balance(ledger).spent.loss == Fraction(1, 10)
    again = reserve(ledger, B, restates="why")
    assert again.restates == first.sequence
    assert ledger.check() == ()


def test_a_restatement_obeys_the_cap(ledger: SQLiteLedger) -> None:
    closed(ledger, plan(cost="6/10"))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, plan(cost="5/10"), restates="why")
    found = ledger.find("survey", "2024")
    assert found is not None
    assert found.state == "closed"
    assert ledger.check() == ()


def test_what_is_given_up_stays_charged_and_is_never_gone_on_with(ledger: SQLiteLedger) -> None:
    made = plan(steps={"a": "people", "b": "people"})
    kept = reserve(ledger, made)
    ledger.secret(*names(kept))
    ledger.commit(key(kept, "a"), answer("a"))
    ledger.give_up(*names(kept), "the data were wrong")
    assert balance(ledger).spent.loss == Fraction(2, 10)
    found = ledger.find("survey", "2024")
    assert found is not None
    assert (found.state, found.ended, found.manifest) == ("given_up", "the data were wrong", None)
    stored = ledger.stored(key(kept, "a"))
    assert stored is not None, "what was answered stays what it is"
    refused: dict[str, Callable[[], object]] = {
        "DPR-L901": lambda: ledger.commit(key(kept, "b"), answer("b")),
        "DPR-L113": lambda: reserve(ledger, made),
        "DPR-L130": lambda: ledger.give_up(*names(kept), "again"),
        "DPR-L902": lambda: ledger.void(*names(kept), "after all"),
        "DPR-L903": lambda: ledger.close(*names(kept), "manifest"),
    }
    for code, use in refused.items():
        with pytest.raises(Exception, match=code):
            use()
    with pytest.raises(BrokenPromiseError, match="DPR-L901"):
        ledger.secret(*names(kept))
    assert ledger.check() == ()


# --- Sources ---


def test_sources_are_recorded_before_anything_is_drawn_and_read_back(ledger: SQLiteLedger) -> None:
    kept = reserve(ledger, plan(steps={"a": "people", "b": "visits"}))
    tables = {"people": ("h1", "h2"), "visits": ("h3",)}
    ledger.source(*names(kept), tables, "key", command="dprelease run")
    found = ledger.sourced(*names(kept))
    assert found is not None
    assert (found.tables, found.key, found.accepted) == (tables, "key", ())
    changed = {"people": ("h1", "h4"), "visits": ("h3",)}
    ledger.source(*names(kept), changed, "key", accepted="a typo was mended")
    ledger.source(*names(kept), tables, "key", accepted="and mended back")
    found = ledger.sourced(*names(kept))
    assert found is not None
    assert (found.tables, found.accepted) == (tables, ("a typo was mended", "and mended back"))
    assert ledger.check() == ()


def test_sources_belong_to_an_open_reservation(ledger: SQLiteLedger) -> None:
    kept = reserve(ledger, plan())
    for wrong in (("survey", "2025", kept.plan_fingerprint), ("survey", "2024", "another plan")):
        with pytest.raises(BrokenPromiseError, match="DPR-L901"):
            ledger.source(*wrong, {"people": ("h",)}, "key")
        with pytest.raises(BrokenPromiseError, match="DPR-L901"):
            ledger.sourced(*wrong)
    ledger.give_up(*names(kept), "no")
    with pytest.raises(BrokenPromiseError, match="DPR-L901"):
        ledger.source(*names(kept), {"people": ("h",)}, "key")


def test_one_file_under_two_accounts_is_refused(ledger: SQLiteLedger) -> None:
    """The same people would lose twice what either account shows."""
    fill(ledger, plan(steps={"one": "people"}))  # reads "file of people"
    other = reserve(ledger, plan(release="other", steps={"one": "visits"}))
    with pytest.raises(LedgerError, match=r"DPR-L153 .* table visits"):
        ledger.source(*names(other), {"visits": ("fine", "file of people")}, "key")
    assert ledger.sourced(*names(other)) is None
    ledger.source(*names(other), {"visits": ("fine",)}, "key")
    again = reserve(ledger, plan(release="again", steps={"one": "people"}))
    ledger.source(*names(again), {"people": ("file of people", "more")}, "key")  # the same account: that is its use
    with pytest.raises(LedgerError, match="DPR-L153"):
        ledger.source(*names(again), {"people": ("fine",)}, "key", accepted="changed")
    assert ledger.check() == ()


def test_one_file_under_two_accounts_of_one_release_is_refused(ledger: SQLiteLedger) -> None:
    kept = reserve(ledger, plan(steps={"a": "people", "b": "visits"}))
    with pytest.raises(LedgerError, match="DPR-L153"):
        ledger.source(*names(kept), {"people": ("h",), "visits": ("h",)}, "key")
    assert ledger.sourced(*names(kept)) is None


def test_the_same_data_again_are_nothing_new_and_others_are_accepted_or_refused(ledger: SQLiteLedger) -> None:
    kept = reserve(ledger, plan())
    ledger.source(*names(kept), {"people": ("h",)}, "key")
    ledger.source(*names(kept), {"people": ("h",)}, "key", accepted="it makes no difference")
    assert [entry.kind for entry in ledger.entries()].count("source") == 1
    with pytest.raises(LedgerError, match="DPR-L150"):
        ledger.source(*names(kept), {"people": ("other",)}, "key")
    ledger.source(*names(kept), {"people": ("other",)}, "key", accepted="a typo")
    assert [entry.kind for entry in ledger.entries()].count("source") == 2
    assert ledger.check() == ()


def test_another_key_says_nothing_of_the_files_before_and_is_accepted_or_refused(ledger: SQLiteLedger) -> None:
    """Hashes with another key cannot be compared: whether another account has paid for a file is not to be told."""
    fill(ledger, plan(steps={"one": "people"}))
    other = reserve(ledger, plan(release="other", steps={"one": "visits"}))
    with pytest.raises(LedgerError, match="DPR-L151"):
        ledger.source(*names(other), {"visits": ("x",)}, "another key")
    ledger.source(*names(other), {"visits": ("x",)}, "another key", accepted="the key is lost")
    third = reserve(ledger, plan(release="third", steps={"one": "people"}))
    ledger.source(*names(third), {"people": ("y",)}, "another key")
    assert ledger.check() == ()


# --- What is kept ---


def test_plans_and_draws_are_kept_once_however_often_they_are_released(ledger: SQLiteLedger) -> None:
    for year in range(2024, 2029):
        fill(ledger, plan(period=str(year), cost="1/20"), value=7)
    with ledger._reading() as rows:
        assert rows is not None
        count = rows.execute("SELECT count(*) FROM contents")[0][0]
    assert count == 5 + 1 + 1  # five plans, one kind of draws, one answer
    bodies = [entry.facts() for entry in ledger.entries()]
    made = [body for body in bodies if isinstance(body, Reserved)]
    assert {body.plan for body in made} == {""}
    assert len({body.charges[0].digest for body in made}) == 1
    assert len(standing_of(ledger, ["people"]).of("people").charged) == 5


def test_a_quote_charges_nothing_and_says_what_a_reservation_would(ledger: SQLiteLedger) -> None:
    made = plan(cost="6/10", accounts=[account(window=("year", "1"))])
    charged, refused = ledger.quote(charges(made), "2024")
    assert (refused, list(ledger.entries())) == ((), [])
    kept = reserve(ledger, made)
    assert (charged[0].facts, charged[0].windows) == (kept.accounts[0], kept.windows)
    _, refused = ledger.quote(charges(made), "2025")
    assert [(facts.name, facts.after.epsilon) for facts in refused] == [("people", Fraction(12, 10))]
    assert ledger.heads(["people", "nobody"]) == {"people": standing_of(ledger, ["people"]).of("people").head}
