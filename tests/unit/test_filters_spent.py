"""The currency of an account: sums that are exact, or rounded up, and how a total is read."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from pydantic import ValidationError

from dprelease.errors import BrokenPromiseError, PlanError, UnsupportedEvent
from dprelease.noise.mechanisms.random_scale import RandomScaleMechanism
from dprelease.plan.document import Account
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget, round_up
from dprelease.privacy.convert import converted
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Parallel,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.filters import Spent, Terms, account_loss, read_total, series_loss, spent_on, within
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.privacy.unit import Neighboring
from tests.planned import SPEC, plan_of
from tests.reference_comparisons import epsilon_to_rho

F = Fraction
ONE = Sensitivity.of_one_cell(1)
BASIC, ZCDP, PLD = Terms(composition="basic"), Terms(composition="zcdp"), Terms(composition="pld")
RDP = Terms(composition="rdp", order=F(8))
PURE: list[Event] = [
    DiscreteLaplace(scale=F(7), sensitivity=ONE),
    Approximate(epsilon=F(1, 3), delta=F(1, 10**9)),
    BoundedRange(epsilon=F(2, 7)),
    KNorm(ball="count", dimension=2, scale=F(3), gauge=F(1)),
    TotalResidual(dimension=20, share=F(49, 256), scale=F(3), rows=1),
    Parallel(events=(DiscreteLaplace(scale=F(3), sensitivity=ONE), Approximate(epsilon=F(1, 2), delta=F(1, 10**8)))),
]
CURVED: list[Event] = [
    DiscreteGaussian(scale=F(7), sensitivity=ONE),
    DiscreteGaussian(scale=F(5, 3), sensitivity=Sensitivity.of_shifts((2, 1), (1, 1, 1))),
    Concentrated(rho=F(1, 80)),
    RandomScaleMechanism().event(F(60), 40, F(1)),
]


@pytest.mark.parametrize("terms", [BASIC, ZCDP, RDP, Terms(composition="rdp", order=F(13, 10))])
def test_releases_add_up_to_exactly_what_they_cost_as_one(terms: Terms) -> None:
    events = PURE if terms.composition == "basic" else PURE + CURVED
    one_by_one = Spent()
    for event in events:
        for _ in range(3):
            one_by_one = one_by_one.plus(spent_on(terms, event))
    assert one_by_one == spent_on(terms, Repeated(event=Composed(events=tuple(events)), count=3))
    assert one_by_one.reveals == 3 * (F(1, 10**9) + F(1, 10**8))
    back = one_by_one
    for event in events * 3:
        back = back.minus(spent_on(terms, event))
    assert back == Spent()


def test_thirds_and_tenths_fill_a_cap_exactly() -> None:
    for epsilon, times in ((F(1, 3), 3), (F(1, 10), 10), (F(1, 7), 7)):
        spent, one = Spent(), spent_on(BASIC, Approximate(epsilon=epsilon))
        for _ in range(times):
            spent = spent.plus(one)
        assert within(BASIC, spent, Budget(epsilon=F(1)))
        assert spent.loss == 1
        more = spent.plus(Spent(loss=F(1, 10**40)))
        assert not within(BASIC, more, Budget(epsilon=F(1)))
        assert within(BASIC, more, Budget(epsilon=F(1)), slack=F(1, 10**9))
    rho, noise = F(1, 98), spent_on(ZCDP, DiscreteGaussian(scale=F(7), sensitivity=ONE))
    assert within(ZCDP, noise.plus(noise), Budget(rho=2 * rho, delta=F(1, 10**9)))
    assert not within(ZCDP, noise.plus(noise), Budget(rho=2 * rho - F(1, 10**50), delta=F(1, 10**9)))


def test_long_sums_stay_short_and_never_go_below_the_truth() -> None:
    choose, spent, exact, parts = random.Random(5), Spent(), F(0), []
    for _ in range(300):
        part = F(choose.getrandbits(39) + 1, choose.getrandbits(40) | (1 << 40) | 1)
        parts.append(part)
        spent, exact = spent.plus(Spent(loss=part, reveals=part / 10**9)), exact + part
        assert spent.loss.denominator.bit_length() <= 2000
        assert exact <= spent.loss <= exact + F(300, 10**60)
    assert exact.denominator.bit_length() > 2000, "else this test says nothing"
    assert spent.loss != exact
    choose.shuffle(parts)
    for part in parts:
        spent, exact = spent.minus(Spent(loss=part, reveals=part / 10**9)), exact - part
        assert exact <= spent.loss <= exact + F(600, 10**60)
        assert spent.reveals >= exact / 10**9
    assert spent.loss >= 0


def test_what_was_never_added_cannot_be_given_back() -> None:
    spent = Spent(loss=F(1, 2), reveals=F(1, 10**9))
    for other in (Spent(loss=F(3, 5)), Spent(reveals=F(1, 10**8))):
        with pytest.raises(BrokenPromiseError, match="given back"):
            spent.minus(other)
    with pytest.raises(ValidationError):
        Spent(loss=F(-1))
    assert Spent.from_canonical(spent.canonical()) == spent


def test_terms_name_one_order_or_none() -> None:
    for composition, order in (("rdp", None), ("zcdp", F(2)), ("rdp", F(1)), ("rdp", F(10**10))):
        with pytest.raises(ValidationError):
            Terms(composition=composition, order=order)


def test_the_order_is_the_next_float_and_the_same_for_spending_and_reading() -> None:
    """13/10 is no float: what is meant is the order just above, so Gaussian noise costs a little more."""
    terms = Terms(composition="rdp", order=F(13, 10))
    noise: Event = DiscreteGaussian(scale=F(2), sensitivity=ONE)
    slope = spent_on(terms, noise).loss / F(1, 8)
    assert F(13, 10) < slope < F(13, 10) + F(1, 10**16)
    assert spent_on(RDP, noise).loss == 8 * F(1, 8)
    best = min(account_loss("rdp", [noise] * 5, F(1, 10**6), order=F(order, 10)).epsilon for order in range(20, 120))
    assert 0 <= best - rho_to_epsilon(F(5, 8), F(1, 10**6)) < F(1, 1000)
    assert ACCOUNTANTS["rdp"].epsilon(Repeated(event=noise, count=5), F(1, 10**6)) <= best


def test_each_kind_reads_a_total_at_what_its_terms_leave() -> None:
    delta, kept = F(1, 10**6), F(1, 10**7)
    spent = Spent(loss=F(1, 50), reveals=F(9, 10**8))
    assert read_total(BASIC, spent, delta).epsilon == F(1, 50)
    zcdp, rdp = (terms.model_copy(update={"selecting": kept}) for terms in (ZCDP, RDP))
    assert read_total(zcdp, spent, delta).epsilon == rho_to_epsilon(F(1, 50), delta - kept)
    noise: list[Event] = [Concentrated(rho=F(1, 400)), Approximate(epsilon=F(0), delta=F(9, 10**8))]
    assert read_total(rdp, spent, delta) == account_loss("rdp", noise, delta, kept=kept, order=F(8))
    for terms in (ZCDP, RDP):  # nothing is kept
        with pytest.raises(UnsupportedEvent, match="key selection, use up 9e-08 of the account, which has 0"):
            read_total(terms, spent, delta)
        assert not within(terms, spent, Budget(epsilon=F(100), delta=delta))
        with pytest.raises(UnsupportedEvent):
            read_total(terms, Spent(loss=F(1)), F(0))
        assert read_total(terms, Spent(), F(0)).epsilon == 0
    with pytest.raises(UnsupportedEvent, match="`selecting` leaves nothing"):
        read_total(rdp, Spent(loss=F(1)), kept)
    loose = account_loss("rdp", noise, delta, order=F(8)).epsilon
    assert loose < read_total(rdp, spent, delta).epsilon, "without a fixed part the rest is larger"


def test_a_cap_in_rho_is_for_zcdp_and_counts_reveals() -> None:
    kept = ZCDP.model_copy(update={"selecting": F(1, 10**7)})
    cap = Budget(rho=F(1, 50), delta=F(1, 10**6))
    assert within(kept, Spent(loss=F(1, 50), reveals=F(1, 10**7)), cap)
    assert not within(kept, Spent(loss=F(1, 50), reveals=F(11, 10**8)), cap)
    assert not within(kept, Spent(loss=F(1, 49)), cap)
    for terms in (BASIC, RDP, PLD):
        with pytest.raises(PlanError, match="no cap in rho"):
            within(terms, Spent(), cap)


def test_a_gaussian_is_refused_by_basic_and_a_concentrated_box_by_a_series() -> None:
    with pytest.raises(UnsupportedEvent, match="basic composition"):
        spent_on(BASIC, CURVED[0])
    with pytest.raises(UnsupportedEvent, match="pld cannot take"):
        spent_on(PLD, CURVED[2])
    assert spent_on(PLD, CURVED[0]) == Spent()
    for ask in (lambda: read_total(PLD, Spent(), F(1, 10**6)), lambda: within(PLD, Spent(), Budget(epsilon=F(9)))):
        with pytest.raises(PlanError, match="no sum to read") as refused:
            ask()
        assert not isinstance(refused.value, UnsupportedEvent), "a missing sum is no total of nothing"


def test_a_series_costs_what_the_pld_accountant_finds_of_all_of_it() -> None:
    series: dict[Event, int] = {DiscreteGaussian(scale=F(7), sensitivity=ONE): 12, PURE[1]: 2}
    delta = F(1, 10**8)
    events = [event for event, count in series.items() for _ in range(count)]
    loss = series_loss(series, delta)
    assert loss.epsilon == ACCOUNTANTS["pld"].epsilon(Composed(events=tuple(events)), delta)
    assert series_loss(list(series.items()), delta) == loss == account_loss("pld", events, delta)
    assert series_loss({}, delta).epsilon == 0


def account(neighboring: Neighboring, unit: str = "household", **nests: int) -> Account:
    cap = Budget(epsilon=F(100), delta=F(1, 10**8))
    return Account(name="people", unit=unit, neighboring=neighboring, composition="basic", lifetime=cap, nests=nests)


def test_a_plan_charges_an_account_in_the_account_s_own_unit_and_relation() -> None:
    same = account(Neighboring.ADD_REMOVE, unit="person")
    made = plan_of(SPEC.replace("budget:", "noise: laplace\n  budget:"), accounts=[same])
    alone = made.event_of("people")
    assert made.cost_of(same) == alone
    home = account(Neighboring.REPLACE_ONE, person=5)
    assert made.cost_of(home) == converted(alone, 10)
    assert spent_on(BASIC, made.cost_of(home)).loss == 10 * spent_on(BASIC, alone).loss
    with pytest.raises(PlanError) as refused:
        made.cost_of(account(Neighboring.REPLACE_ONE))
    assert refused.value.code == "DPR-P410"


def test_a_plan_charges_an_account_for_the_draws_from_its_tables_and_no_others() -> None:
    """Two tables of two accounts, neither of which is called like its table."""
    tables, queries = SPEC.partition("tables:\n")[2].split("queries:\n")
    second = tables.replace("people:\n", "visits:\n", 1).replace("account: people", "account: others")
    text = SPEC.partition("tables:\n")[0] + "tables:\n" + tables.replace("account: people", "account: persons") + second
    asked = queries.partition("  income:\n")[0]
    made = plan_of(
        f"{text}queries:\n{asked}  more: {{table: visits, by: [sex], measures: {{rows: {{count: rows}}}}}}\n"
    )
    tables_of = {"persons": "people", "others": "visits"}
    for name, table in tables_of.items():
        drawn = [event for step, event in zip(made.steps, made.events, strict=True) if step.aggregate.table == table]
        assert drawn
        assert made.event_of(name) == Composed(events=tuple(drawn))
    assert sum(len(made.event_of(name).events) for name in tables_of) == len(made.steps)


def test_twelve_monthly_releases_cost_what_they_cost_together() -> None:
    """Each of epsilon 1 at delta 1e-9, read at 1.2e-8, the sum of the deltas; printed with `-s`."""
    each, delta = F(1, 10**9), F(12, 10**9)
    rho = epsilon_to_rho(F(1), each)
    kinds: dict[str, Event] = {
        "one Gaussian draw": Gaussian(
            scale=F(1), sensitivity=Sensitivity(l0=1, l1=F(1), l2_squared=2 * rho, linf=F(1))
        ),
        "one Laplace draw": DiscreteLaplace(scale=F(1), sensitivity=ONE),
        "(1, 1e-9) black boxes": Approximate(epsilon=F(1), delta=each),
    }
    lines, found = [], {}
    for kind, event in kinds.items():
        year = [event] * 12
        costs = {"plain sum": F(12)}
        kept = F(12, 10**9) if event.kind == "approximate" else F(0)
        at = 2 * delta if event.kind == "approximate" else delta
        if event.kind != "gaussian":
            costs["basic"] = account_loss("basic", year, delta).epsilon
        costs["zcdp"] = account_loss("zcdp", year, at, kept=kept).epsilon
        for order in (4, 8, 16):
            costs[f"rdp at {order}"] = account_loss("rdp", year, at, kept=kept, order=F(order)).epsilon
        costs["pld series"] = series_loss({event: 12}, at).epsilon
        found[kind] = costs
        figures = ", ".join(f"{name} {round_up(cost, 5)}" for name, cost in costs.items())
        lines.append(f"12 x {kind}, delta {round_up(at, 3)}: {figures}")
    print("\n" + "\n".join(lines))
    gaussian, laplace = found["one Gaussian draw"], found["one Laplace draw"]
    assert spent_on(ZCDP, Repeated(event=kinds["one Gaussian draw"], count=12)).loss == 12 * rho
    assert gaussian["pld series"] < gaussian["zcdp"] < gaussian["plain sum"] / 3
    assert min(gaussian[f"rdp at {order}"] for order in (4, 8, 16)) < gaussian["zcdp"] * F(11, 10)
    assert laplace["basic"] == 12
    assert laplace["pld series"] < laplace["rdp at 4"]
