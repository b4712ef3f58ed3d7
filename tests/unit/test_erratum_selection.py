"""Charges and groups of selections that older versions priced too low: told, charged, and written beside the bundle."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dprelease.errors import BudgetExceeded
from dprelease.ledger.model.entry import Reserved
from dprelease.ledger.model.fault import (
    ERRATA,
    Fault,
    cost_before,
    events_corrected,
    is_unprotected,
    misstated,
    repriced,
)
from dprelease.ledger.tables import incident, reserving
from dprelease.ledger.tables.incident import spent_more
from dprelease.noise import Measurement
from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy import group
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Approximate, Composed, DiscreteLaplace, KeySelection, Repeated, Sensitivity
from dprelease.privacy.filters import Spent, Terms, series_loss
from dprelease.privacy.unit import Neighboring
from dprelease.publish import folder_for
from dprelease.release.records.errata import errata, write_errata
from tests.ledgers import SQLiteLedger, charges, key
from tests.planned import VILLAGES, plan_of

F = Fraction
ERRATUM = Fault(why=ERRATA["key-selection"], erratum="key-selection", factor=F(1))


def homes(persons: int = 5, selecting: str = "1/50000") -> Account:
    return Account(
        name="people",
        unit="household" if persons > 1 else "person",
        neighboring=Neighboring.ADD_REMOVE,
        composition="zcdp",
        lifetime=Budget(epsilon=F(60), delta=F(1, 10**4)),
        selecting=F(selecting),
        nests={"person": persons} if persons > 1 else {},
    )


def made(name: str = "villages", account: Account | None = None, revisions: int = 0) -> ReleasePlan:
    text = VILLAGES.replace("1e-7}", "1e-7}\n  noise: gaussian").replace("name: villages", f"name: {name}")
    plan = plan_of(text, accounts=[account or homes()])
    return plan.model_copy(update={"release": plan.release.model_copy(update={"revisions": revisions})})


def close(ledger: SQLiteLedger, plan: ReleasePlan) -> None:
    kept = ledger.reserve(plan, charges(plan), None, {})
    names = (kept.release, kept.period, kept.plan_fingerprint)
    ledger.source(*names, {"people": ("a",)}, "k")
    selection, count = plan.steps
    ledger.commit(key(kept, selection.id), Measurement(selection.id, np.empty(0, np.int64), keys=(("a",), ("b",))))
    ledger.commit(key(kept, count.id), Measurement(count.id, np.array([30, 40], dtype=np.int64)))
    ledger.close(*names, "manifest")


def close_as_before(ledger: SQLiteLedger, plan: ReleasePlan) -> None:
    """By the prices of versions before the erratum, which did not know that there is one."""
    with pytest.MonkeyPatch.context() as patch:
        right = ReleasePlan.cost_of
        patch.setattr(ReleasePlan, "cost_of", lambda plan, account: cost_before(plan, account) or right(plan, account))
        patch.setattr(reserving, "ERRATA", {})
        close(ledger, plan)


def opened(folder: Path) -> SQLiteLedger:
    return SQLiteLedger(folder / "l.db", [folder / "head.json"])


def balance(ledger: SQLiteLedger) -> Spent:
    return ledger.tally().state.accounts["people"].balance.spent


def test_an_old_charge_is_found_corrected_once_and_told_by_name(tmp_path: Path) -> None:
    ledger, plan = opened(tmp_path), made()
    close_as_before(ledger, plan)
    delta = plan.steps[0].selecting.delta  # type: ignore[union-attr]
    assert balance(ledger).reveals == 5 * delta
    (told,) = ledger.check()
    assert "account people was charged too little" in told
    assert "dprelease ledger incident --erratum key-selection" in told

    (change,) = ledger.incident(ERRATUM, dry=True).changed
    assert change.after == plan.cost_of(homes())
    outcome = ledger.incident(ERRATUM)
    assert balance(ledger) == Spent(loss=outcome.recorded[0].before.loss, reveals=change.after.events[0].delta)  # type: ignore[union-attr]
    assert float(balance(ledger).reveals) == pytest.approx(5.9163e-6, rel=1e-4)
    assert not ledger.check()
    assert ledger.incident(ERRATUM).changed == ()

    folder = folder_for(tmp_path / "releases", "villages", "2024")
    folder.mkdir(parents=True)
    paths = write_errata(tmp_path / "releases", errata(outcome.recorded))
    facts = json.loads(paths[0].read_text())
    assert facts["incident"]["erratum"] == "key-selection"
    sizes = {each["size"]: each["loss"] for each in facts["groups"]}
    assert float(sizes[8]["delta"]) > 2.06e-4
    words = paths[1].read_text()
    assert "a price was too small (erratum key-selection)" in words
    assert "A group of 8 at once" in words


def test_where_one_unit_paid_right_nothing_is_added_and_the_groups_are_corrected(tmp_path: Path) -> None:
    ledger, plan = opened(tmp_path), made(account=homes(1))
    close_as_before(ledger, plan)
    assert not ledger.check()  # every price is right
    before = balance(ledger)
    (change,) = ledger.incident(ERRATUM).changed
    assert (change.before, change.spent) == (change.after, Spent())
    assert balance(ledger) == before
    assert not ledger.check()
    (found,) = errata(ledger.incident(ERRATUM).recorded)
    assert [each["size"] for each in found["groups"]] == [2, 4, 8]


def test_what_is_charged_now_is_no_erratum(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    close(ledger, made())
    close(ledger, made("second"))
    assert not ledger.check()
    assert ledger.incident(ERRATUM).changed == ()
    with ledger._reading() as rows:
        assert rows is not None
        text = rows.execute("SELECT body FROM entries WHERE kind = 'reserve'")[0][0]
    assert Reserved.from_canonical(text).mended == tuple(ERRATA)
    assert (
        Reserved.from_canonical(json.dumps({k: v for k, v in json.loads(text).items() if k != "mended"})).mended == ()
    )


def test_an_account_that_the_true_price_overflows_grants_nothing_more(tmp_path: Path) -> None:
    ledger, tight = opened(tmp_path), homes(selecting="1/1000000")
    close_as_before(ledger, made(account=tight))
    ledger.incident(ERRATUM)
    assert float(balance(ledger).reveals) == pytest.approx(5.9163e-6, rel=1e-4)
    with pytest.raises(BudgetExceeded):
        close(ledger, made("second", account=tight))


def test_all_copies_of_a_release_with_planned_revisions_are_corrected(tmp_path: Path) -> None:
    ledger, plan = opened(tmp_path), made(account=homes(), revisions=2)
    close_as_before(ledger, plan)
    (change,) = ledger.incident(ERRATUM).changed
    assert change.after == plan.cost_of(homes())
    first = change.after.events[0]
    assert isinstance(first, Repeated)
    assert first.count == 3
    assert isinstance(first.event, KeySelection)
    assert balance(ledger).reveals == 3 * first.event.delta
    assert not ledger.check()


def test_a_fault_of_the_noise_in_an_old_charge_is_corrected_from_the_true_price(tmp_path: Path) -> None:
    """Half the noise: as two times as many units, whatever the old entry says."""
    ledger, plan = opened(tmp_path), made(account=homes(2))
    close_as_before(ledger, plan)
    fault = Fault(why="half the noise", mechanism="gaussian_threshold", factor=F(2))
    (change,) = ledger.incident(fault).changed
    corrected = change.after.events[0]
    assert isinstance(corrected, KeySelection)
    assert corrected.units == 4
    assert corrected.noise.scale == plan.steps[0].scale / 2
    four = group.of_event(plan.events[0], 4)
    assert isinstance(four, KeySelection)
    assert corrected.delta == four.delta
    assert change.after.events[1] == change.before.events[1]
    # the same incident, recorded before there was a true price: found again by the erratum
    stale = Composed(
        events=(
            change.before.events[0].events[0].model_copy(update={"scale": plan.steps[0].scale / 2}),  # type: ignore[union-attr]
            Approximate(epsilon=F(0), delta=4 * plan.steps[0].selecting.delta),  # type: ignore[union-attr]
        )
    )
    assert repriced(stale, plan.steps[0], plan, homes(2)) == corrected
    assert repriced(corrected, plan.steps[0], plan, homes(2)) == corrected
    assert repriced(plan.events[1], plan.steps[1], plan, homes(2)) == plan.events[1]


def test_a_fault_in_a_selection_is_that_many_units_and_not_that_many_deltas() -> None:
    noise = DiscreteLaplace(scale=F(1), sensitivity=Sensitivity.of_one_cell(1))
    old = Composed(events=(noise, Approximate(epsilon=F(0), delta=F(1, 10**6))))
    found = events_corrected(old, F(3))
    assert isinstance(found, KeySelection)
    assert found.units == 3
    assert found.noise.scale == F(1, 3)
    assert found.delta > F(4, 10**6)  # e times as much for every unit more
    whole = KeySelection(noise=noise, threshold=25, keys=1, delta=F(1, 10**5))
    larger = events_corrected(whole, F(5, 2))
    assert isinstance(larger, KeySelection)
    assert larger.units == 3
    assert larger.noise.scale == F(2, 5)
    assert is_unprotected(events_corrected(whole, F(25)))
    assert events_corrected(whole, F(0)) == events_corrected(old.events[1], F(0))
    terms = Terms(composition="basic")
    assert spent_more(terms, Composed(events=(old,)), Composed(events=(found,))).loss == F(2)


def test_a_price_of_before_is_known_by_itself() -> None:
    plan = made()
    before = cost_before(plan, homes())
    assert before is not None
    assert before != plan.cost_of(homes())
    (first, second) = before.events
    assert isinstance(first, Composed)
    assert second == plan.cost_of(homes()).events[1]
    assert cost_before(plan, homes(1)) is None  # one unit paid right
    assert cost_before(plan_of(), plan_of().accounts[0]) is None  # nothing is selected
    assert misstated(plan)
    assert not misstated(plan_of())


def test_a_series_of_one_unit_keeps_its_digest_and_its_price(tmp_path: Path) -> None:
    """An account of composition pld that was opened before there were whole selections takes the same releases."""
    plan = made(account=homes(1).model_copy(update={"composition": "pld", "selecting": F(0)}))
    old = Composed(events=tuple(step.event for step in plan.steps))
    assert plan.event_of("people") == old == plan.cost_of(plan.accounts[0])
    assert series_loss([(old, 2)], F(1, 10**5)) == series_loss([(plan.event, 2)], F(1, 10**5))
    ledger = opened(tmp_path)
    ledger.open_account(plan.accounts[0], "a series", [(old, 2)])
    close(ledger, plan)
    assert not ledger.check()


@pytest.mark.parametrize("bad", [{"erratum": "nothing", "factor": F(1)}, {"erratum": "key-selection", "factor": F(2)}])
def test_an_erratum_has_a_known_name_and_no_factor(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="an erratum has a name"):
        Fault.model_validate({"why": "x", **bad})


def test_only_plans_that_select_keys_are_read_and_one_that_cannot_be_told_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of a long ledger takes half of the time so; what it finds is the same."""
    ledger = opened(tmp_path)
    plain = plan_of(accounts=[homes()])
    kept = ledger.reserve(plain, charges(plain), None, {})
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": ("a",)}, "k")
    step = plain.steps[0]
    ledger.commit(key(kept, step.id), Measurement(step.id, np.zeros(step.cells or 0, np.int64)))
    wrong = made()
    close_as_before(ledger, wrong)
    read: list[str] = []
    right = ReleasePlan.from_canonical.__func__  # type: ignore[attr-defined]  # of a class method

    def counted(cls: type[ReleasePlan], text: str | bytes) -> ReleasePlan:
        found: ReleasePlan = right(cls, text)
        read.append(found.release.name)
        return found

    def corrected() -> list[tuple[str, Composed, Composed]]:
        read.clear()
        with ledger._store.reading() as rows, monkeypatch.context() as patch:
            assert rows is not None
            patch.setattr(ReleasePlan, "from_canonical", classmethod(counted))
            return [(each.taken.release, each.before, each.after) for each in incident.corrections(rows, ERRATUM)]

    found = corrected()
    assert [name for name, before, after in found if before != after] == [wrong.release.name]
    assert read == [wrong.release.name]
    with monkeypatch.context() as patch:
        patch.setattr(incident, "from_json", lambda data: {"steps": [None]})  # no plan as it should be
        assert corrected() == found
    with ledger._store.reading() as rows:
        assert rows is not None
        missing = SimpleNamespace(plan="0" * 64)
        assert incident._may_select(rows, missing)  # type: ignore[arg-type]  # as much of a release as is looked at
