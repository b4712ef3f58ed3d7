"""Coming releases: what is foretold is what the ledger's own check then says, and the largest budget is the largest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import PlanError
from dprelease.ledger import Charge
from dprelease.ledger.model.admission import assess_charges
from dprelease.ledger.model.balance import Balance
from dprelease.ledger.model.history import Stand, State, charged_balance
from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import Account, Head, ReleasePlan
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.forecast.horizon import Horizon, Purse, Series, ahead, coming, in_advance
from dprelease.plan.forecast.largest_budget import CLOSE, Largest, largest_budget
from dprelease.plan.resolve.catalog import resolve
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.filters import Spent, series_loss
from dprelease.release.records.status import UNBOUNDED, accounts_of, charged_draws
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.load import load
from tests.ledgers import SQLiteLedger, account, charges, plan
from tests.planned import SPEC

MONTHS = coming("2024-09", 40)
Planner = Callable[[ReleaseSpec], ReleasePlan]


def granted(
    made: ReleasePlan, charge: Charge, periods: Sequence[str], before: Balance | None = None
) -> tuple[int, dict[tuple[str, int], Fraction]]:
    """By the ledger's own check, one after the other: how many are granted, and what each cap has then."""
    account = charge.account
    balance = before or Balance(account=account.name, opened=1)
    totals: dict[tuple[str, int], Fraction] = {}
    for number, period in enumerate(periods, 1):
        state = State(accounts={account.name: Stand(account=account, balance=balance, head=Head())})
        (charged,), refused = assess_charges(state, [charge], period)
        for facts in (charged.facts, *charged.windows):
            totals[facts.window, number] = _amount(facts, charged.spent, balance)
        if refused:
            return number - 1, totals
        balance = charged_balance(balance, charged)
    return len(periods), totals


def _amount(facts: AccountLosses, asked: Spent | None, balance: Balance) -> Fraction:
    assert asked is not None
    return facts.after.epsilon if facts.cap.rho is None else balance.spent.loss + asked.loss


CASES = {
    "basic": (account(epsilon="2"), "discrete_laplace", "1/7", None),
    "zcdp": (account(epsilon="3", composition="zcdp"), "discrete_gaussian", "1/9", None),
    "in rho": (account(rho="1/10", composition="zcdp"), "discrete_gaussian", "1/9", None),
    "rdp": (account(epsilon="3", composition="rdp", order="20"), "discrete_gaussian", "1/9", None),
    "at most": (account(epsilon="9", composition="zcdp"), "discrete_gaussian", "1/9", Budget(epsilon=Fraction(2))),
    "in windows": (account(epsilon="9", window=("year", "5/8")), "discrete_laplace", "1/8", None),
    "windows of quarters": (account(epsilon="2", window=("quarter", "1/2")), "discrete_laplace", "1/6", None),
    "all of it": (account(epsilon="40"), "discrete_laplace", "1/8", None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_foretold_is_what_the_ledger_then_grants(name: str) -> None:
    people, mechanism, cost, at_most = CASES[name]
    if at_most is not None:
        at_most = at_most.model_copy(update={"delta": people.lifetime.delta})
    made = plan(cost=cost, mechanism=mechanism, accounts=[people])
    charge = Charge(account=people, events=made.cost_of(people), cap=at_most or people.lifetime)
    seen = ahead(made, [Purse(people, charge.cap)], MONTHS, len(MONTHS))
    fit, totals = granted(made, charge, MONTHS)
    assert seen.fit == fit
    assert (fit == len(MONTHS)) == (name == "all of it")
    told = {
        (line.capped.window, number): amount for line in reversed(seen.lines) for number, amount in line.after.items()
    }
    for key, amount in totals.items():
        assert told[key] == amount


def test_what_stands_already_counts_in_the_lifetime_and_in_its_window() -> None:
    people = account(epsilon="2", window=("year", "1"))
    made = plan(cost="1/4", accounts=[people])
    spent = Spent(loss=Fraction(1, 2))
    balance = Balance(account="people", opened=1, spent=spent, windows={"2024": spent})
    seen = ahead(made, [Purse(people, people.lifetime, spent, {"2024": spent})], MONTHS, len(MONTHS))
    fit, _ = granted(made, Charge(account=people, events=made.cost_of(people), cap=people.lifetime), MONTHS, balance)
    assert seen.fit == fit == 2
    first, second = seen.lines[0], seen.lines[1]
    assert (first.before, first.refused, first.room) == (Fraction(1, 2), 7, 6)
    assert (second.capped.window, second.before, second.refused, second.room) == ("2024", Fraction(1, 2), 3, 2)


@pytest.mark.parametrize(
    ("people", "mechanism", "cost"),
    [
        (account(), "discrete_laplace", "1/7"),
        (account(epsilon="3", composition="zcdp"), "discrete_gaussian", "1/9"),
        (account(epsilon="9", composition="rdp", order="20"), "discrete_gaussian", "1/9"),
    ],
)
def test_room_is_what_the_status_says_fits_and_in_advance_what_it_says_then(
    tmp_path: Path, people: Account, mechanism: str, cost: str
) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    made = [plan(release=f"r{k}", cost=cost, mechanism=mechanism, accounts=[people]) for k in range(4)]
    ledger.reserve(made[0], charges(made[0]))
    found = ledger.tally()
    (status,) = accounts_of(found, {"people": people})
    stand = found.state.accounts["people"]
    for look in (1, 3, status["fits"] + 2):  # whatever one looks at, the room is the same
        seen = ahead(made[0], [Purse(people, people.lifetime, stand.balance.spent)], (), look)
        assert seen.lines[0].room == status["fits"]
    asked, drawn = made[0].cost_of(people), charged_draws(found, "people")
    told = in_advance(drawn, asked, 3, people.lifetime.delta)
    for each in made[1:]:
        ledger.reserve(each, charges(each))
    (after,) = accounts_of(ledger.tally(), {"people": people})
    shown = {kind: UNBOUNDED if epsilon is None else round_up(epsilon) for kind, epsilon in told.items()}
    assert shown == after["hypothetical"]
    assert shown[people.composition] != UNBOUNDED


def test_room_is_unlimited_where_nothing_is_asked() -> None:
    people = account()
    nothing = plan(steps={"one": "other"}, accounts=[people])
    (line,) = ahead(nothing, [Purse(people, people.lifetime)], (), 3).lines
    assert (line.refused, line.room) == (None, None)
    assert line.after[3] == 0


def test_a_series_costs_all_of_it_from_the_first_and_takes_no_more() -> None:
    people = account(epsilon="3", composition="pld")
    made = plan(cost="1/4", accounts=[people])
    asked = made.cost_of(people)
    loss = series_loss([(asked, 5)], people.lifetime.delta)
    fresh, begun = Purse(people, people.lifetime), Purse(people, people.lifetime, series=Series(loss, 2))
    (line,) = ahead(made, [fresh], (), 5).lines
    assert (line.before, line.refused) == (Fraction(0), None)
    assert line.after == {k: series_loss([(asked, k)], people.lifetime.delta).epsilon for k in range(1, 6)}
    room = line.room or 0
    assert series_loss([(asked, room)], people.lifetime.delta).epsilon <= 3
    assert series_loss([(asked, room + 1)], people.lifetime.delta).epsilon > 3
    assert ahead(made, [fresh], (), room + 2).lines[0].refused == room + 1
    (line,) = ahead(made, [begun], (), 5).lines
    assert (line.before, set(line.after.values()), line.refused, line.room) == (loss.epsilon, {loss.epsilon}, 3, 2)
    small = replace(begun, account=account(epsilon="1", composition="pld"), cap=Budget(epsilon=Fraction(1)))
    assert ahead(made, [small], (), 5).fit == 0


def test_which_periods_come() -> None:
    assert coming("2024-Q3", 3) == ("2024-Q3", "2024-Q4", "2025-Q1")
    assert coming("2024-W52", 2, taken=["2024-W52", "2025-W02"]) == ("2025-W01", "2025-W03")
    assert coming("once", 3) == ()
    with pytest.raises(PlanError, match="9999"):
        coming("9999-11", 3)
    with pytest.raises(PlanError, match="none of the calendar"):
        ahead(plan(), [Purse(account(window=("year", "1")), account().lifetime)], (), 3)


def planner_of(text: str, people: Account) -> tuple[ReleaseSpec, Planner]:
    """A spec, and plans of it at other budgets."""
    loaded = load(text, "spec.yaml")
    catalog = resolve(loaded, {})
    return loaded.spec, lambda spec: allocate(spec, catalog, [people], loaded.fingerprint)


def at(spec: ReleaseSpec, limit: Fraction, noise: str = "") -> ReleaseSpec:
    """The spec with another budget in its own currency, and with another noise where one is named."""
    kind = "rho" if spec.privacy.budget.rho is not None else "epsilon"
    budget = Budget.model_validate({kind: limit, "delta": spec.privacy.budget.delta})
    said = {"budget": budget, "noise": noise or spec.privacy.noise}
    return spec.model_copy(update={"privacy": spec.privacy.model_copy(update=said)})


def fits(planned: ReleasePlan, people: Account, periods: Sequence[str]) -> bool:
    """Whether all of them are granted, by the ledger's own check."""
    charge = Charge(account=people, events=planned.cost_of(people), cap=people.lifetime)
    return granted(planned, charge, periods)[0] == len(periods)


BUDGET = "budget: {epsilon: 1, delta: 1e-9}"
SMALL = SPEC[: SPEC.index("  income:\n    table")].replace(BUDGET, f"{BUDGET}\n  noise: gaussian\n  accounting: zcdp")
PURE = SMALL.replace("noise: gaussian\n  accounting: zcdp", "noise: laplace\n  accounting: basic")
RHO = SMALL.replace(BUDGET, "budget: {rho: 1/50, delta: 1e-9}")
YEARS = ("year", "3")
SOLVED = {
    "zcdp": (SPEC, account(epsilon="4", delta="1/100000000", composition="zcdp"), 12),
    "rdp": (SMALL, account(epsilon="6", delta="1/100000000", composition="rdp", order="12"), 12),
    "basic": (PURE, account(epsilon="4"), 12),
    "in windows": (SMALL, account(epsilon="9", delta="1/100000000", composition="zcdp", window=YEARS), 12),
    "rho": (RHO, account(epsilon="4", delta="1/100000000", composition="zcdp"), 12),
    "one": (SMALL, account(epsilon="4", delta="1/100000000", composition="zcdp"), 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVED)
def test_so_many_fit_at_the_largest_budget_and_not_at_a_thousandth_more(name: str) -> None:
    text, people, number = SOLVED[name]
    spec, planner = planner_of(text, people)
    periods = MONTHS[:number]
    found = largest_budget(spec, planner, [Purse(people, people.lifetime)], periods, number)
    assert found.limit is not None
    assert found.plan is not None
    assert found.plan.steps == planner(at(spec, found.limit, found.noise)).steps
    assert fits(found.plan, people, periods)
    assert not fits(planner(at(spec, found.limit * Fraction(1001, 1000), found.noise)), people, periods)
    assert found.why.startswith("account people")
    assert ("year" in found.why) == (name == "in windows")
    if name == "zcdp":  # not a twelfth of the cap, but much more
        assert found.limit > Fraction(5, 2) * people.lifetime.limit / 12


def test_a_series_of_so_many_is_priced_as_a_whole() -> None:
    people = account(epsilon="4", composition="pld")
    spec, planner = planner_of(SMALL, people)
    found = largest_budget(spec, planner, [Purse(people, people.lifetime)], (), 6)
    assert found.limit is not None
    more = planner(at(spec, found.limit * Fraction(1001, 1000)))
    for made, inside in ((found.plan, True), (more, False)):
        assert made is not None
        assert (series_loss([(made.cost_of(people), 6)], people.lifetime.delta).epsilon <= 4) == inside


def test_what_was_spent_lowers_it() -> None:
    people = account(epsilon="4", delta="1/100000000", composition="zcdp")
    spec, planner = planner_of(SMALL, people)
    fresh, used = (
        largest_budget(spec, planner, [Purse(people, people.lifetime, Spent(loss=Fraction(loss)))], (), 4).limit
        for loss in ("0", "1/10")
    )
    assert fresh is not None
    assert used is not None
    assert used < fresh * Fraction(3, 4)


def faked(cost_at: Callable[[Fraction], Fraction]) -> Planner:
    """A planner of one count with Laplace noise that costs what is said of the budget."""

    def planner(spec: ReleaseSpec) -> ReleasePlan:
        limit = spec.privacy.budget.limit
        cost = cost_at(limit)
        if cost <= 0:
            raise PlanError(f"{float(limit)} is too small")
        made = plan(cost=str(cost))
        return made.model_copy(update={"loss": {"basic": Loss(epsilon=cost, delta=Fraction(0))}})

    return planner


def searched(
    cost_at: Callable[[Fraction], Fraction],
    purse: Purse | None = None,
    ceiling: str = "",
    start: str = "1",
    text: str = SPEC,
) -> Largest:
    """The budget of which ten fit into epsilon 1."""
    spec = at(load(text, "spec.yaml").spec, Fraction(start))
    most = Loss(epsilon=Fraction(ceiling), delta=Fraction(0)) if ceiling else None
    return largest_budget(spec, faked(cost_at), [purse or Purse(account(), account().lifetime)], (), 10, most)


@pytest.mark.parametrize("start", ["1/1000", "1/10", "7", "1/3"])
@pytest.mark.parametrize(
    ("cost_at", "exact"),
    [
        (lambda e: e, Fraction(1, 10)),
        (lambda e: 2 * e * e, Fraction(22361, 100000)),
        (lambda e: e / 1000, Fraction(100)),
        (lambda e: Fraction(1, 20) if e < 3 else Fraction(1, 5), Fraction(3)),  # a jump
        (lambda e: e - Fraction(1, 2), Fraction(6, 10)),  # nothing is planned at all below a half
    ],
)
def test_the_largest_is_found_from_wherever_one_starts(
    cost_at: Callable[[Fraction], Fraction], exact: Fraction, start: str
) -> None:
    found = searched(cost_at, start=start)
    if cost_at(Fraction(start)) <= 0:  # the spec's own plan is made first, and says so
        assert found.limit is None
        assert "too small" in found.why
        return
    assert found.limit is not None
    assert 10 * cost_at(found.limit) <= 1
    assert exact * (1 - CLOSE) <= found.limit <= exact * (1 + Fraction(1, 10**4))


def test_a_budget_that_dips_is_still_one_that_fits() -> None:
    found = searched(lambda e: e if e < Fraction(1, 4) else e / 5)  # the plan changes its noise at a quarter
    assert found.limit is not None
    assert found.limit <= Fraction(1, 10) or Fraction(1, 4) <= found.limit <= Fraction(1, 2)


def test_why_there_is_none() -> None:
    people = account()
    cases = {
        "used up": searched(lambda e: e, Purse(people, people.lifetime, Spent(loss=Fraction(2)))),
        "series": searched(
            lambda e: e, Purse(people, people.lifetime, series=Series(Loss(epsilon=Fraction(1), delta=Fraction(0)), 3))
        ),
        "account people": searched(lambda e: Fraction(1, 5)),  # pins that are too dear
        "changes nothing": searched(lambda e: Fraction(1, 50)),  # targets that are met
    }
    for why, found in cases.items():
        assert found.limit is None
        assert why in found.why
    left_nothing = searched(lambda e: e, Purse(people, people.lifetime, Spent(loss=Fraction(1))))
    assert left_nothing.limit is None


def test_the_ceilings_of_one_release_hold() -> None:
    found = searched(lambda e: e / 1000, ceiling="7/3")
    assert (found.limit, found.why) == (Fraction(7, 3), "the policy's ceilings")
    assert searched(lambda e: e / 1000, ceiling="1/2").limit == Fraction(1, 2)  # below what the spec asks
    in_rho = searched(lambda e: e / 1000, ceiling="1/20", text=RHO)  # held by what the plan is certified to cost
    assert (in_rho.limit, in_rho.why) == (Fraction(50), "the policy's ceilings")
    lower = searched(lambda e: e, ceiling="2")
    assert lower.limit is not None
    assert lower.limit <= Fraction(1, 10)


AIMED = (
    SPEC[: SPEC.index("budget:")]
    + """budget: {epsilon: 2}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: integer, keys: [1, 2]}
      age: {type: integer, range: [0, 99]}
queries:
  wide: {table: people, measures: {m: {count: rows}}, target: {m: {margin: 60}}}
  near: {table: people, measures: {m: {count: age}}, target: {m: {margin: 3}}}
  rest: {table: people, by: [sex], measures: {m: {count: rows}}}
"""
)


def test_a_noise_is_told_where_the_spec_as_it_stands_publishes_more_at_the_same_budget() -> None:
    """``auto`` gives the query without a target the least noise, and another noise all of them together less."""
    people = account(epsilon="5")
    spec, planner = planner_of(AIMED, people)
    found = largest_budget(spec, planner, [Purse(people, people.lifetime)], (), 1)
    assert (found.limit, found.noise) == (Fraction(5), "knorm")
    own = planner(at(spec, Fraction(5)))
    assert found.plan == planner(at(spec, Fraction(5), "knorm"))
    less, more = (math.prod(float(told.standard_error or 0) for told in each.outputs) for each in (found.plan, own))
    assert less < more / 2


def test_as_many_as_fit_is_the_first_refusal_of_any_cap() -> None:
    one, other = account("one", epsilon="1"), account("other", epsilon="1/2")
    made = plan(steps={"a": "one", "b": "other"}, cost="1/8", accounts=[one, other])
    seen = ahead(made, [Purse(one, one.lifetime), Purse(other, other.lifetime)], (), 6)
    assert isinstance(seen, Horizon)
    assert [line.refused for line in seen.lines] == [None, 5]
    assert seen.fit == 4
