"""What planned revisions cost, what a fault in one of them costs, and what becomes of them when a ledger is lost."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import LedgerError
from dprelease.ledger.model.balance import terms_of
from dprelease.ledger.model.fault import Fault
from dprelease.ledger.model.history import events_digest
from dprelease.ledger.model.lifecycle import Ended, Past, misfit, revises
from dprelease.ledger.tables import view
from dprelease.ledger.tables.plans import Plans
from dprelease.plan.document import Account, Composition, ReleaseInfo, ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.event import Composed, Repeated
from dprelease.privacy.filters import series_loss, spent_on
from dprelease.release.records.errata import errata
from dprelease.release.records.status import accounts_of
from dprelease.release.revisions import revisions_of, vintages
from tests.ledgers import SQLiteLedger, World, account, answer, charges, key, plan
from tests.tiers import few

STEPS = {"one": "people", "two": "people"}
WRONG = Fault(why="the sampler was wrong", package="numpy", version="9", factor=Fraction(2))


def planned(revisions: int = 2, **more: Any) -> ReleasePlan:
    made = plan(**{"steps": STEPS, "cost": "1/20", **more})
    return made.model_copy(update={"release": made.release.model_copy(update={"revisions": revisions})})


def released(ledger: SQLiteLedger, made: ReleasePlan, numpy: str = "9", accounts: Any = None, **more: Any) -> None:
    asked = () if made.release.revision else charges(made, accounts)
    kept = ledger.reserve(made, asked, None, {"numpy": numpy}, **more)
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": (numpy,)}, "k")
    for step in made.steps:
        ledger.commit(key(kept, step.id), answer(step.id))
    ledger.close(kept.release, kept.period, kept.plan_fingerprint, "m")


def spent(ledger: SQLiteLedger, name: str = "people") -> Fraction:
    return ledger.tally().state.accounts[name].balance.spent.loss


# --- What they cost ---


def test_a_plan_without_revisions_has_the_bytes_that_it_always_had() -> None:
    info = ReleaseInfo(name="survey", period="2024")
    assert info.canonical() == (
        '{"contact":"","curator":"","intended_use":"","name":"survey","period":"2024","title":""}'
    )
    assert ReleaseInfo.from_canonical(info.canonical()) == info
    with pytest.raises(ValueError, match="not planned"):
        ReleaseInfo(name="survey", period="2024", revisions=1, revision=2)
    with pytest.raises(ValueError, match="not planned"):
        plan().at_revision(1)


@pytest.mark.parametrize(
    ("mechanism", "accountant"),
    [
        *(("discrete_laplace", name) for name in ACCOUNTANTS),
        *(("discrete_gaussian", name) for name in ("zcdp", "rdp", "pld")),  # it has no pure epsilon
    ],
)
def test_a_series_costs_so_many_copies_and_a_revision_nothing(mechanism: str, accountant: str) -> None:
    made, people = planned(3, mechanism=mechanism), plan(mechanism=mechanism).accounts[0]
    cost = made.cost_of(people)
    copies = Composed(events=made.event.events * 4)
    assert [made.at_revision(k).cost_of(people) for k in (1, 2, 3)] == [Composed()] * 3
    assert made.at_revision(2).event == made.event == planned(0, mechanism=mechanism).event
    found, wanted = (ACCOUNTANTS[accountant].epsilon(each, Fraction(1, 10**6)) for each in (cost, copies))
    assert float(found) == pytest.approx(float(wanted), rel=1e-6)
    assert found > ACCOUNTANTS[accountant].epsilon(made.event, Fraction(1, 10**6))


def test_dp_accounting_finds_the_same_for_the_same_number_of_draws() -> None:
    rdp = pytest.importorskip("dp_accounting.rdp", reason="the crosscheck extra is not installed")
    from dp_accounting import dp_event

    made = planned(3, mechanism="discrete_gaussian")  # noise of scale 20 on a change of 1: as good as continuous
    theirs = rdp.RdpAccountant().compose(dp_event.GaussianDpEvent(20.0), count=len(made.steps) * 4)
    ours = ACCOUNTANTS["rdp"].epsilon(made.cost_of(made.accounts[0]), Fraction(1, 10**6))
    assert float(ours) == pytest.approx(theirs.get_epsilon(1e-6), rel=0.02)


def test_an_account_of_households_pays_for_copies_of_what_a_household_loses() -> None:
    houses = account("people", unit="household", nests={"person": 3}, composition="zcdp")
    made = planned(1, mechanism="discrete_gaussian", accounts=[houses])
    once = planned(0, mechanism="discrete_gaussian", accounts=[houses]).cost_of(houses)
    assert made.cost_of(houses) == Composed(events=tuple(Repeated(event=each, count=2) for each in once.events))


@pytest.mark.parametrize("composition", ["basic", "zcdp", "rdp"])
def test_every_filter_adds_up_the_same_for_a_series_and_for_releases_one_by_one(composition: Composition) -> None:
    mechanism = "discrete_laplace" if composition == "basic" else "discrete_gaussian"
    order = "8" if composition == "rdp" else None
    people = account(composition=composition, order=order)
    made = planned(2, mechanism=mechanism, accounts=[people])
    terms, once = terms_of(people), planned(0, mechanism=mechanism, accounts=[people]).cost_of(people)
    assert float(spent_on(terms, made.cost_of(people)).loss) == pytest.approx(3 * float(spent_on(terms, once).loss))
    assert spent_on(terms, made.cost_of(people)).loss >= Fraction(299, 100) * spent_on(terms, once).loss


def test_a_pld_account_takes_the_whole_series_as_one_release_of_it(tmp_path: Path) -> None:
    people = account("people", epsilon="3", composition="pld")
    made = planned(2, accounts=[people])
    ledger = SQLiteLedger(tmp_path / "l.db")
    ledger.open_account(people, "a year", [(made.cost_of(people), 1)])
    loss = ledger.tally().state.accounts["people"].loss
    assert loss == series_loss([(Composed(events=made.event.events * 3), 1)], people.lifetime.delta)

    released(ledger, made, accounts=[people])
    released(ledger, made.at_revision(1), accounts=[people])
    with pytest.raises(LedgerError, match="all 1 releases"):
        released(ledger, planned(2, release="another", accounts=[people]), accounts=[people])
    assert ledger.check() == ()


def test_plans_of_one_series_are_read_once_and_told_apart_by_their_revisions() -> None:
    plans, made = Plans(), planned(2)
    first, second = plans.read(made.canonical()), plans.read(made.at_revision(2).canonical())
    bare = plans.read(planned(0).canonical())

    assert first.costs == {"people": events_digest(made.cost_of(made.accounts[0]))} != bare.costs
    assert (second.costs, second.revision, second.revisions) == ({}, 2, 2)
    assert (second.first, first.first) == (made.fingerprint(), "")
    assert plans.read(planned(2, period="2025").canonical()).name[1] == "2025"


# --- The rule, and what the full check makes of a book that was written without it ---


def test_what_the_ledger_refuses_the_full_check_finds() -> None:
    made = planned(3)
    first, states = made.fingerprint(), get_args(Ended)
    marks = [made.at_revision(k).fingerprint() for k in range(4)]
    for base, one, two, number in product(states, (None, *states[:3]), (None, *states[:3]), (1, 2, 3)):
        past = [Past(first, base, 0)]
        past += [Past(marks[k], state, k) for k, state in ((1, one), (2, two)) if state]
        if any(each.state == "open" for each in past[:-1]):
            continue  # no ledger has that
        try:
            fresh = revises(past, made.at_revision(number), marks[number])
        except LedgerError:
            fresh = False
        assert fresh == (misfit(past, first, number, 3) == ""), (past, number)


def test_a_forged_revision_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprelease.ledger.tables.reserving.revises", lambda *_: True)
    for name, wrong in {
        "late": [planned().at_revision(2), planned().at_revision(1)],
        "another": [planned(3).at_revision(1)],
        "never": [],
    }.items():
        ledger = SQLiteLedger(tmp_path / f"{name}.db")
        for made in [planned().at_revision(1)] if name == "never" else [planned(), *wrong]:
            released(ledger, made)
        (found,) = ledger.check()
        assert "revis" in found, found


# --- A fault in some of the publications ---


@pytest.mark.parametrize("faulty", list(product([False, True], repeat=3)))
def test_a_fault_charges_each_publication_that_had_it_and_no_other(tmp_path: Path, faulty: tuple[bool, ...]) -> None:
    made, ledger = planned(2), SQLiteLedger(tmp_path / "l.db", [tmp_path / "a" / "head"])
    for k, wrong in enumerate(faulty):
        released(ledger, made.at_revision(k), "9" if wrong else "8")
    once = Fraction(1, 10)  # of one publication; a fault of factor 2 doubles an epsilon
    found = ledger.incident(WRONG)

    assert [each.taken.revision for each in found.changed] == [k for k, wrong in enumerate(faulty) if wrong]
    assert [each.spent.loss for each in found.changed] == [once] * sum(faulty)
    assert spent(ledger) == 3 * once + sum(faulty) * once  # what all draws were
    assert ledger.incident(WRONG).changed == ()
    assert ledger.check() == ()
    (told,) = accounts_of(ledger.tally(), {})
    assert told["spent"] == str(float(3 * once + sum(faulty) * once))
    assert told["releases"] == 1
    for each in errata(found.recorded):
        assert each["claimed"] == {"epsilon": "1", "delta": "0"}
        assert each["accounts"]["people"]["really"]["epsilon"] == "0.2"  # of one publication, as it was claimed


def test_a_revision_that_is_drawn_after_an_incident_is_charged_by_the_same_one(tmp_path: Path) -> None:
    made, ledger = planned(2), SQLiteLedger(tmp_path / "l.db")
    released(ledger, made)
    ledger.incident(WRONG)
    released(ledger, made.at_revision(1))
    assert spent(ledger) == Fraction(4, 10)
    assert [each.taken.revision for each in ledger.incident(WRONG).changed] == [1]
    worse = ledger.incident(WRONG.model_copy(update={"why": "worse", "factor": Fraction(3, 2)}))
    assert [each.spent.loss for each in worse.changed] == [Fraction(1, 10)] * 2  # of copies that cost 0.2 by then
    assert spent(ledger) == Fraction(7, 10)
    ledger.incident(Fault(why="no noise at all", period="2024", factor=Fraction(0)))
    assert accounts_of(ledger.tally(), {})[0]["spent"] == "unbounded"
    assert ledger.check() == ()


@pytest.mark.parametrize(
    "people", [account(window=("month", "1/2")), account(parallel="month", unit="person-month")], ids=["cap", "apart"]
)
def test_a_fault_in_a_revision_counts_in_the_month_of_its_period(people: Account, tmp_path: Path) -> None:
    made = planned(1, accounts=[people], period="2024-03", unit=people.unit)
    ledger = SQLiteLedger(tmp_path / "l.db")
    released(ledger, made, "8", [people])
    released(ledger, made.at_revision(1), "9", [people])
    ledger.incident(WRONG)
    with ledger._reading() as rows:
        assert rows is not None
        found = view.whole_state(rows).accounts["people"].balance
    assert found.windows["2024-03"].loss == found.spent.loss == Fraction(3, 10)
    assert ledger.check() == ()


def test_a_series_of_a_pld_account_with_a_fault_in_a_revision_is_never_priced_too_low(tmp_path: Path) -> None:
    people = account("people", epsilon="3", composition="pld")
    made, ledger = planned(1, accounts=[people]), SQLiteLedger(tmp_path / "l.db")
    ledger.open_account(people, "once", [(made.cost_of(people), 1)])
    released(ledger, made, "8", [people])
    released(ledger, made.at_revision(1), "9", [people])
    ledger.incident(WRONG)
    (found,) = accounts_of(ledger.tally(), {"people": people})
    faulty = plan(steps=STEPS, cost="1/10").event
    really = series_loss([(made.event, 1), (faulty, 1)], people.lifetime.delta).epsilon
    assert float(found["spent"]) >= float(really)
    assert ledger.check() == ()


# --- A ledger that was lost ---


def test_a_lost_revision_is_never_drawn_again_and_what_paid_for_it_stays_charged(tmp_path: Path) -> None:
    world, made = World(tmp_path), planned()
    released(world.ledger(), made)
    world.backup()
    released(world.ledger(), made.at_revision(1))
    world.restore()
    ledger = world.ledger()
    ledger.recover("the disk broke")

    assert world.spent() == Fraction(3, 10)
    (first, lost) = ledger.reservations()
    assert (first.state, lost.state, lost.plan_fingerprint) == ("closed", "lost", made.at_revision(1).fingerprint())
    for number in (1, 2):
        with pytest.raises(LedgerError, match="DPR-L161"):
            ledger.reserve(made.at_revision(number), ())
    assert ledger.check() == ()


def test_a_lost_first_publication_is_charged_with_all_of_its_revisions(tmp_path: Path) -> None:
    world, made = World(tmp_path), planned()
    released(world.ledger(), plan(release="before", cost="1/50"))
    world.backup()
    released(world.ledger(), made)
    released(world.ledger(), made.at_revision(1))
    world.restore()
    ledger = world.ledger()
    ledger.recover("the disk broke")

    assert world.spent() == Fraction(1, 50) + Fraction(3, 10)
    with pytest.raises(LedgerError, match="DPR-L161"):
        ledger.reserve(made.at_revision(2), ())
    with pytest.raises(LedgerError):
        ledger.reserve(made, charges(made))
    assert ledger.check() == ()


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["first", "restate", "revise", "revise", "finish", "give_up", "void"]), st.integers(1, 3)
    ),
    max_size=14,
)


@settings(max_examples=few(25, 6), deadline=None)
@given(operations=OPERATIONS)
def test_whatever_the_order_no_more_is_drawn_than_was_paid_for(
    operations: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    ledger = SQLiteLedger(tmp_path_factory.mktemp("order") / "l.db")
    plans = [planned(2, cost=cost) for cost in ("1/200", "1/250", "1/300")]
    paid: dict[str, int] = {}  # by fingerprint of a first publication: how many publications it was charged for
    drawn: dict[str, set[str]] = {}
    base: ReleasePlan | None = None
    for what, number in operations:
        found = ledger.find("survey", "2024")
        try:
            if what in ("first", "restate"):
                made = plans[number - 1]
                ledger.reserve(made, charges(made), restates="why" if what == "restate" else "")
                base, paid[made.fingerprint()] = made, 3
            elif what == "revise":
                ledger.reserve((base or plans[0]).at_revision(1 + number % 2), ())
            elif what == "finish" and found and found.state == "open":
                current = ReleasePlan.from_canonical(found.plan)
                for step in current.steps:
                    ledger.commit(key(found, step.id), answer(step.id))
                drawn.setdefault(current.at_revision(0).fingerprint(), set()).add(current.fingerprint())
                ledger.close("survey", "2024", found.plan_fingerprint, "m")
            elif found and found.state == "open":
                end = ledger.give_up if what == "give_up" else ledger.void
                end("survey", "2024", found.plan_fingerprint, "why")
                if what == "void" and not found.revision:
                    del paid[found.plan_fingerprint]
                    last = ledger.find("survey", "2024")
                    base = ReleasePlan.from_canonical(last.plan).at_revision(0) if last else None
        except LedgerError:
            continue
    assert all(len(marks) <= paid[first] for first, marks in drawn.items())
    assert drawn.keys() <= paid.keys()
    stands = ledger.tally().state.accounts
    total = sum((_cost(each) for each in plans if each.fingerprint() in paid), Fraction(0))
    assert (stands["people"].balance.spent.loss if stands else 0) == total
    assert ledger.check() == ()


def _cost(made: ReleasePlan) -> Fraction:
    return 3 * sum((1 / step.scale for step in made.steps), Fraction(0))


# --- Which there are ---


def test_the_revisions_of_a_period_are_told_from_its_reservations(tmp_path: Path) -> None:
    ledger, made = SQLiteLedger(tmp_path / "l.db"), planned(3)

    def seen() -> Any:
        return vintages(ledger.reservations(), lambda base: revisions_of(ledger, base))

    assert seen() is None
    ledger.reserve(made, charges(made))
    assert (seen().planned, list(seen().next())) == (0, [])  # its first publication is not finished
    released(ledger, made)
    assert (seen().planned, list(seen().next()), seen().done) == (3, [1, 2, 3], ())
    kept = ledger.reserve(made.at_revision(2), ())
    assert (seen().open, list(seen().next())) == (2, [])
    ledger.give_up("survey", "2024", kept.plan_fingerprint, "why")
    assert (seen().ended, list(seen().next())) == ((2,), [3])
    released(ledger, made.at_revision(3))
    assert (seen().done, list(seen().next()), seen().planned) == ((3,), [], 3)
    released(ledger, planned(1, cost="1/50"), restates="a wrong list")
    assert (seen().base.restates is not None, seen().planned, list(seen().next())) == (True, 1, [1])
