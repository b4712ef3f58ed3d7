"""Planned revisions on every ledger store: paid once, in order, each from the plan that was published, found again."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError
from dprelease.ledger import Ledger, Reservation, open_ledger
from dprelease.ledger.tables import view
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import Budget
from tests.conformance.test_ledgers import postgres, postgres_server, url  # noqa: F401 - fixtures
from tests.ledgers import answer, charges, key, plan

STEPS = {"one": "people", "two": "people"}


@pytest.fixture
def ledger(url: str, tmp_path: Path) -> Ledger:  # noqa: F811 - the fixture that is imported
    return open_ledger(url, tmp_path)


def planned(revisions: int = 2, **more: str) -> ReleasePlan:
    made = plan(steps=STEPS, cost=more.pop("cost", "1/20"), **more)  # type: ignore[arg-type]
    return made.model_copy(update={"release": made.release.model_copy(update={"revisions": revisions})})


def begin(ledger: Ledger, made: ReleasePlan, **more: str) -> Reservation:
    return ledger.reserve(made, () if made.release.revision else charges(made), **more)  # type: ignore[arg-type]


def released(ledger: Ledger, made: ReleasePlan, value: int = 7, **more: str) -> Reservation:
    kept = begin(ledger, made, **more)
    identity = (kept.release, kept.period, kept.plan_fingerprint)
    ledger.sourced(*identity)
    ledger.source(*identity, {"people": (f"as of {value}",)}, "key")
    for step in made.steps:
        ledger.commit(key(kept, step.id), answer(step.id, value))
    ledger.close(*identity, f"manifest {value}")
    found = ledger.find(kept.release, kept.period)
    assert found is not None
    return found


def spent(ledger: Ledger) -> Fraction:
    return ledger.tally().state.accounts["people"].balance.spent.loss


def refused(ledger: Ledger, made: ReleasePlan, code: str) -> str:
    before = len(list(ledger.entries()))
    with pytest.raises(LedgerError, match=code) as error:
        begin(ledger, made)
    assert len(list(ledger.entries())) == before
    return str(error.value)


def test_the_whole_series_is_charged_at_once_and_each_revision_is_free(ledger: Ledger) -> None:
    made = planned()
    first = released(ledger, made, 1)
    assert spent(ledger) == 3 * Fraction(1, 10)
    one, two = (released(ledger, made.at_revision(k), 1 + k) for k in (1, 2))

    assert spent(ledger) == 3 * Fraction(1, 10)
    assert [each.revision for each in ledger.reservations()] == [0, 1, 2]
    assert (one.restates, two.restates) == (first.sequence, one.sequence)
    assert (one.reason, two.reason) == ("planned revision 1 of 2", "planned revision 2 of 2")
    assert (one.accounts, one.spec_fingerprint) == ((), first.spec_fingerprint)
    answers = [ledger.stored(key(each)) for each in (first, one, two)]
    assert [each and int(each.values[0]) for each in answers] == [1, 2, 3]  # each keeps its own, for ever
    assert ledger.check() == ()
    with ledger._reading() as rows:
        assert rows is not None
        assert view.whole_state(rows).accounts["people"].balance.releases == 1


def test_a_series_that_does_not_fit_is_refused_before_its_first_publication(ledger: Ledger) -> None:
    dear = planned(cost="1/5")  # 2 steps, 3 times: 6/5 of a cap of 1
    with pytest.raises(BudgetExceeded):
        begin(ledger, dear)
    assert spent(ledger) == 0 if ledger.tally().state.accounts else True
    lower = Budget(epsilon=Fraction(1, 2), delta=Fraction(0))  # the spec's `at_most` is about all of them, too
    with pytest.raises(BudgetExceeded):
        ledger.reserve(planned(1, cost="1/5"), charges(planned(1, cost="1/5"), at_most=lower))
    begin(ledger, planned(1, cost="1/5"))
    assert spent(ledger) == Fraction(4, 5)


def test_a_revision_that_was_begun_is_found_again_and_not_drawn_again(ledger: Ledger) -> None:
    made = planned()
    released(ledger, made)
    kept = begin(ledger, made.at_revision(1))
    ledger.commit(key(kept), answer("one", 8))

    again = begin(ledger, made.at_revision(1))
    assert (again.sequence, again.state) == (kept.sequence, "open")
    assert int(ledger.commit(key(again), answer("one", 9)).values[0]) == 8
    assert "DPR-L164" in refused(ledger, made.at_revision(2), "DPR-L164")  # while it is open
    ledger.commit(key(again, "two"), answer("two", 8))
    ledger.close("survey", "2024", again.plan_fingerprint, "manifest 8")
    assert begin(ledger, made.at_revision(1)).state == "closed"
    assert len([entry for entry in ledger.entries() if entry.kind == "reserve"]) == 2


def test_what_was_not_published_or_not_planned_or_passed_is_refused(ledger: Ledger) -> None:
    made, other = planned(), planned(cost="1/50")
    assert "without `--revision`" in refused(ledger, made.at_revision(1), "DPR-L160")
    begin(ledger, made)
    assert "first publication is open" in refused(ledger, made.at_revision(1), "DPR-L161")
    released(ledger, made)
    assert other.fingerprint()[:12] not in refused(ledger, other.at_revision(1), "DPR-L162")
    more = planned(3)
    refused(ledger, more.at_revision(3), "DPR-L162")  # a plan with one more than was paid for
    forged = made.model_copy(update={"release": made.release.model_copy(update={"revision": 3})})
    refused(ledger, forged, "DPR-L165")
    released(ledger, made.at_revision(2))  # the first one was missed
    assert "no further one" in refused(ledger, made.at_revision(1), "DPR-L163")
    assert spent(ledger) == 3 * Fraction(1, 10)
    assert ledger.check() == ()


def test_a_revision_is_charged_nothing_and_a_first_publication_no_less_than_all(ledger: Ledger) -> None:
    made = planned()
    released(ledger, made)
    with pytest.raises(BrokenPromiseError, match="DPR-L904"):
        ledger.reserve(made.at_revision(1), charges(made))
    once = tuple(
        each.model_copy(update={"events": made.event_of(each.account.name)}) for each in charges(planned(period="2025"))
    )
    with pytest.raises(BrokenPromiseError, match="DPR-L904"):  # one copy, and three are planned
        ledger.reserve(planned(period="2025"), once)


def test_a_revision_that_was_given_up_is_never_drawn_again_and_the_next_one_may_be(ledger: Ledger) -> None:
    made = planned()
    released(ledger, made)
    kept = begin(ledger, made.at_revision(1))
    ledger.commit(key(kept), answer("one", 8))
    ledger.give_up("survey", "2024", kept.plan_fingerprint, "the source was wrong")

    refused(ledger, made.at_revision(1), "DPR-L166")
    released(ledger, made.at_revision(2), 9)
    assert spent(ledger) == 3 * Fraction(1, 10)
    assert ledger.check() == ()


def test_a_revision_that_read_nothing_is_given_back_and_can_be_begun_again(ledger: Ledger) -> None:
    made = planned()
    released(ledger, made)
    kept = begin(ledger, made.at_revision(1))
    ledger.void("survey", "2024", kept.plan_fingerprint, "no such file")

    assert spent(ledger) == 3 * Fraction(1, 10)
    found = ledger.find("survey", "2024")
    assert found is not None
    assert (found.revision, found.state) == (0, "closed")
    released(ledger, made.at_revision(1), 8)
    assert ledger.check() == ()


def test_what_replaces_a_publication_by_hand_has_revisions_of_its_own(ledger: Ledger) -> None:
    made, other = planned(), planned(1, cost="1/50")
    released(ledger, made)
    released(ledger, made.at_revision(1), 8)
    released(ledger, other, 9, restates="a wrong list of keys")
    assert spent(ledger) == 3 * Fraction(1, 10) + 2 * Fraction(1, 25)

    refused(ledger, made.at_revision(2), "DPR-L162")  # of a publication that was replaced
    assert released(ledger, other.at_revision(1), 10).revision == 1
    assert spent(ledger) == 3 * Fraction(1, 10) + 2 * Fraction(1, 25)
    assert ledger.check() == ()


def test_a_publication_that_was_given_up_has_no_revisions(ledger: Ledger) -> None:
    made = planned()
    kept = begin(ledger, made)
    ledger.give_up("survey", "2024", kept.plan_fingerprint, "wrong")

    assert "--restate" in refused(ledger, made.at_revision(1), "DPR-L161")
    assert spent(ledger) == 3 * Fraction(1, 10)  # charged whole: nobody knows what was looked at
