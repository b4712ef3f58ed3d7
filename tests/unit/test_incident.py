"""A fault is charged to every release that had it, once, and never gives anything back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.canonical import dumps
from dprelease.errors import BudgetExceeded, PlanError, UnsupportedEvent
from dprelease.ledger.model.fault import Fault, events_corrected, is_unprotected
from dprelease.ledger.tables.incident import spent_more
from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy.accountants import losses
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    KNorm,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.filters import Spent, Terms, series_loss
from dprelease.publish import folder_for
from dprelease.release.records.errata import errata, write_errata
from dprelease.release.records.export import export
from dprelease.release.records.status import accounts_of
from tests.ledgers import SQLiteLedger, account, answer, charges, key, plan, standing_of

ONE = Sensitivity.of_one_cell(1)
WRONG = Fault(why="the sampler was wrong", package="numpy", version="9", factor=Fraction(2))


def finish(
    ledger: SQLiteLedger, made: ReleasePlan, numpy: str = "9", accounts: Sequence[Account] | None = None
) -> None:
    kept = ledger.reserve(made, charges(made, accounts), None, {"numpy": numpy})
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": ("a",)}, "k")
    for step in made.steps:
        ledger.commit(key(kept, step.id), answer(step.id))
    ledger.close(kept.release, kept.period, kept.plan_fingerprint, "m")


def three(folder: Path) -> SQLiteLedger:
    """Two releases with numpy 9, one of them from two accounts, and one with numpy 8."""
    ledger = SQLiteLedger(folder / "state" / "l.db", [folder / "a" / "head.json"])
    finish(ledger, plan(release="a", steps={"one": "people"}, cost="1/8"))
    finish(ledger, plan(release="b", steps={"one": "people", "two": "firms"}, cost="1/4"))
    finish(ledger, plan(release="c", steps={"one": "people"}, cost="1/16"), numpy="8")
    return ledger


def spent(ledger: SQLiteLedger) -> dict[str, str]:
    policy = {name: account(name) for name in ("people", "firms")}
    return {each["name"]: each["spent"] for each in accounts_of(ledger.tally(), policy)}


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (
            DiscreteLaplace(scale=Fraction(6), sensitivity=ONE),
            DiscreteLaplace(scale=Fraction(4), sensitivity=ONE),
        ),
        (
            DiscreteGaussian(scale=Fraction(3), sensitivity=ONE),
            DiscreteGaussian(scale=Fraction(2), sensitivity=ONE),
        ),
        (BoundedRange(epsilon=Fraction(2)), BoundedRange(epsilon=Fraction(3))),
        (Approximate(epsilon=Fraction(1)), Approximate(epsilon=Fraction(2))),
        (
            KNorm(ball="linf", dimension=2, scale=Fraction(3), gauge=Fraction(1)),
            KNorm(ball="linf", dimension=2, scale=Fraction(2), gauge=Fraction(1)),
        ),
    ],
)
def test_draws_as_they_were_with_noise_that_was_too_small_by_a_half_more(event: object, wanted: object) -> None:
    half_more = Fraction(3, 2)
    assert events_corrected(event, half_more) == wanted  # type: ignore[arg-type]
    nested = Composed(events=(Repeated(event=Parallel(events=(event,)), count=2),))
    (inside,) = events_corrected(nested, half_more).events  # type: ignore[union-attr]
    assert inside == Repeated(event=Parallel(events=(wanted,)), count=2)


@pytest.mark.parametrize("factor", [Fraction(11, 10), Fraction(2), Fraction(5)])
@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplace(scale=Fraction(6), sensitivity=Sensitivity.of_shifts((2, 1))),
        DiscreteGaussian(scale=Fraction(9), sensitivity=Sensitivity.of_shifts((2, 1))),
        BoundedRange(epsilon=Fraction(1, 3)),
        Approximate(epsilon=Fraction(1, 3), delta=Fraction(1, 10**12)),
    ],
)
def test_every_accountant_finds_more_in_it_and_at_least_what_the_norms_say(event: object, factor: Fraction) -> None:
    before = losses(event, Fraction(1, 10**6))  # type: ignore[arg-type]
    after = losses(events_corrected(event, factor), Fraction(1, 10**6))  # type: ignore[arg-type]
    assert after.keys() == before.keys()
    assert all(after[name] > before[name] for name in before)
    if isinstance(event, DiscreteGaussian | DiscreteLaplace):
        reach = event.sensitivity
        larger = reach.model_copy(
            update={
                "l1": factor * reach.l1,
                "l2_squared": factor**2 * reach.l2_squared,
                "linf": factor * reach.linf,
                "shifts": tuple(tuple(int(factor * c) for c in shift) for shift in reach.shifts),
            }
        )
        other = losses(event.model_copy(update={"sensitivity": larger}), Fraction(1, 10**6))
        assert after["zcdp"] >= other["zcdp"]
        if factor.denominator == 1 and isinstance(event, DiscreteLaplace):
            assert after["pld"] >= other["pld"] * (1 - Fraction(1, 10**6))


def test_what_is_known_by_rho_alone_cannot_be_corrected_by_a_factor() -> None:
    with pytest.raises(UnsupportedEvent, match="only rho"):
        events_corrected(Concentrated(rho=Fraction(1)), Fraction(2))
    assert is_unprotected(events_corrected(Concentrated(rho=Fraction(1)), Fraction(0)))


def test_a_correction_is_never_negative_and_no_protection_is_a_delta_of_one() -> None:
    terms = Terms(composition="basic")
    low, high = (Composed(events=(Approximate(epsilon=Fraction(k)),)) for k in (1, 3))
    assert spent_more(terms, low, high) == Spent(loss=Fraction(2))
    assert spent_more(terms, high, low) == Spent()
    nothing = events_corrected(high, Fraction(0))
    assert isinstance(nothing, Composed)
    assert spent_more(terms, low, nothing) == Spent(reveals=Fraction(1))
    assert spent_more(terms, nothing, nothing) == Spent()


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(1, 2), Fraction(-1)])
def test_a_factor_is_above_one(factor: Fraction) -> None:
    with pytest.raises(ValueError, match="above 1"):
        Fault(why="x", factor=factor)


def test_releases_that_ran_with_it_are_charged_what_they_really_cost(tmp_path: Path) -> None:
    ledger = three(tmp_path)
    assert spent(ledger) == {"people": "0.4375", "firms": "0.25"}
    shown = ledger.incident(WRONG, dry=True)
    assert [(each.taken.release, each.account) for each in shown.changed] == [
        ("a", "people"),
        ("b", "firms"),
        ("b", "people"),
    ]
    assert spent(ledger) == {"people": "0.4375", "firms": "0.25"}  # a dry run writes nothing
    ledger.incident(WRONG)
    assert spent(ledger) == {"people": "0.8125", "firms": "0.5"}
    assert ledger.check() == ()
    assert standing_of(ledger, ["people"]).accounts["people"].charged[0].events[0].scale == 4  # type: ignore[union-attr]


def test_the_same_incident_again_charges_nothing_and_a_new_one_does(tmp_path: Path) -> None:
    ledger = three(tmp_path)
    first = ledger.incident(WRONG)
    again = ledger.incident(WRONG)
    assert again.changed == ()
    assert [each.entry for each in again.recorded] == [each.entry for each in first.recorded]
    finish(ledger, plan(release="d", steps={"one": "people"}, cost="1/20"))
    later = ledger.incident(WRONG)
    assert [each.taken.release for each in later.changed] == ["d"]
    other = Fault(why="and worse", release="a", factor=Fraction(3, 2))
    assert ledger.incident(other).changed[0].after.events[0].scale == Fraction(8, 3)  # type: ignore[union-attr]
    assert ledger.check() == ()
    assert spent(ledger)["people"] == "1.0375"  # above the cap of 1, and said so


def test_an_account_above_its_cap_grants_nothing_more(tmp_path: Path) -> None:
    ledger = three(tmp_path)
    ledger.incident(WRONG.model_copy(update={"factor": Fraction(4)}))
    (_, people) = accounts_of(ledger.tally(), {})
    assert (people["over_cap"], people["left"], people["fits"]) == (True, "0", 0)
    small = plan(release="small", cost="1/1000")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(small, charges(small))


def test_draws_that_protected_nothing_close_the_account_for_ever(tmp_path: Path) -> None:
    ledger = three(tmp_path)
    ledger.incident(Fault(why="a constant seed", release="a", factor=Fraction(0)))
    assert spent(ledger) == {"people": "unbounded", "firms": "0.25"}
    (_, people) = accounts_of(ledger.tally(), {})
    assert set(people["hypothetical"].values()) == {"unbounded"}
    assert (people["left"], people["over_cap"], people["fits"]) == ("0", True, 0)
    small = plan(release="small", cost="1/1000")
    with pytest.raises((BudgetExceeded, PlanError)):
        ledger.reserve(small, charges(small))
    assert ledger.find("small", "2024") is None
    assert ledger.check() == ()
    told = export(ledger)["accounts"]["people"]
    assert told["reveals"] >= 1
    assert any(each["zcdp"]["class_name"] == "NonPrivateDpEvent" for each in told["draws"].values())


def test_a_mechanism_and_a_release_narrow_it_down(tmp_path: Path) -> None:
    ledger = three(tmp_path)
    for fault, wanted in (
        (Fault(why="x", mechanism="discrete_gaussian", factor=Fraction(2)), []),
        (Fault(why="x", mechanism="discrete_laplace", release="c", factor=Fraction(2)), ["c"]),
        (Fault(why="x", release="b", period="2025", factor=Fraction(2)), []),
        (Fault(why="x", package="numpy", factor=Fraction(2)), ["a", "b", "b", "c"]),
        (Fault(why="x", package="scipy", factor=Fraction(2)), []),
    ):
        assert [each.taken.release for each in ledger.incident(fault, dry=True).changed] == wanted


def test_a_release_without_any_answer_drew_nothing(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    made = plan(cost="1/8")
    ledger.reserve(made, charges(made), None, {"numpy": "9"})
    assert ledger.incident(WRONG).changed == ()


def test_a_series_that_was_fixed_in_advance_costs_what_all_of_it_costs(tmp_path: Path) -> None:
    people = account("people", epsilon="2", composition="pld")
    made = [plan(release=f"r{k}", cost="1/8").model_copy(update={"accounts": (people,)}) for k in range(3)]
    ledger = SQLiteLedger(tmp_path / "l.db")
    events = made[0].cost_of(people)
    ledger.open_account(people, "a year", [(events, 4)])
    finish(ledger, made[0], accounts=[people])
    ledger.incident(WRONG)
    (found,) = accounts_of(ledger.tally(), {"people": people})
    delta = people.lifetime.delta
    wanted = series_loss([(events, 3), (events_corrected(events, Fraction(2)), 1)], delta).epsilon
    assert float(wanted) <= float(found["spent"]) <= float(wanted) * (1 + 1e-5)
    assert found["fits"] == 3
    assert ledger.check() == ()
    finish(ledger, made[1], accounts=[people])
    ledger.incident(Fault(why="all of it", factor=Fraction(0)))
    (found,) = accounts_of(ledger.tally(), {"people": people})
    assert (found["spent"], found["fits"]) == ("unbounded", 0)
    with pytest.raises((BudgetExceeded, PlanError)):
        ledger.reserve(made[2], charges(made[2], [people]))
    assert ledger.find("r2", "2024") is None


def test_errata_say_what_was_claimed_and_what_it_cost_and_are_the_same_for_ever(tmp_path: Path) -> None:
    ledger, releases = three(tmp_path), tmp_path / "releases"
    for name in ("a", "b"):
        folder_for(releases, name, "2024").mkdir(parents=True)
    ledger.incident(WRONG)
    finish(ledger, plan(release="d", steps={"one": "people"}, cost="1/20"))
    told = errata(ledger.incident(WRONG, dry=True).recorded)
    paths = write_errata(releases, told)
    assert [path.name for path in paths] == ["2024.erratum-17.json", "2024.erratum-17.md"] * 2
    first = json.loads(paths[0].read_text())
    assert first["claimed"] == {"epsilon": "1", "delta": "0"}
    people = first["accounts"]["people"]
    assert people["really"] == {"epsilon": "0.25", "delta": "0", "accountant": "basic"}
    assert (people["before"]["epsilon"], people["after"]["epsilon"]) == ("0.4375", "0.8125")
    words = paths[1].read_text()
    assert "the sampler was wrong" in words
    assert "too small by a factor of 2" in words
    before = {path: path.read_bytes() for path in paths}
    paths[2].unlink()
    assert write_errata(releases, errata(ledger.incident(WRONG).recorded)) == paths
    assert {path: path.read_bytes() for path in paths} == before
    assert paths[0].read_text() == dumps(dict(told[0])) + "\n"
