"""Accounts and ceilings of a policy: every part, and every part wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dprelease.errors import SpecError
from dprelease.privacy.filters import Spent, Terms, read_total
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.spec.checks.accounts import best_order
from dprelease.spec.fields.accounts import WindowSpec
from dprelease.spec.project import load_policy

POLICY = """\
accounts:
  web: {unit: household, composition: zcdp, nests: {person: 5, person-month: 60},
    window: {per: year, epsilon: 4, delta: 1e-8}, time: {column: seen, type: date},
    lifetime: {epsilon: 20, delta: 1e-7, selecting: 1e-9}}
  renyi: {unit: person, composition: rdp, order: 20, lifetime: {epsilon: 8, delta: 1e-8}}
  series: {unit: person, composition: pld, lifetime: {epsilon: 2, delta: 1e-9}}
  pure: {unit: person, composition: basic, window: {per: day, epsilon: 0.1}, time: {column: at, type: date}, lifetime: {epsilon: 1}}
ceilings: {epsilon: 4, delta: 1e-8, units: [person, household]}
"""
RENYI = "{unit: person, composition: rdp, order: 20, lifetime: {epsilon: 8, delta: 1e-8}}"


def test_every_part_of_an_account_is_exact() -> None:
    policy = load_policy(POLICY, "policy.yaml")
    web, renyi, pure = (policy.accounts[name] for name in ("web", "renyi", "pure"))

    assert web.window == WindowSpec(per="year", epsilon=Fraction(4), delta=Fraction(1, 10**8))
    assert web.nests == {"person": 5, "person-month": 60}
    assert renyi.order == 20
    assert renyi.window is None
    assert renyi.nests == {}
    assert pure.window == WindowSpec(per="day", epsilon=Fraction(1, 10))
    assert policy.accounts["series"].composition == "pld"
    assert policy.ceilings is not None
    assert policy.ceilings.units == ("person", "household")
    assert load_policy(POLICY.replace(", units: [person, household]", ""), "p").ceilings.units is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "says"),
    [
        # windows
        ("per: year, ", "", "DPR-S201", 3, "per: year"),
        ("per: year", "per: never", "DPR-S202", 3, "one of: day, week, month, quarter, year"),
        ("epsilon: 4, delta: 1e-8}", "delta: 1e-8}", "DPR-S201", 3, "{per: year, epsilon: 4"),
        ("epsilon: 4, delta: 1e-8}", "epsilon: 4}", "DPR-S536", 3, "window: {per: year"),
        ("epsilon: 4, delta: 1e-8}", "epsilon: 20, delta: 1e-7}", "DPR-S594", 3, "lifetime"),
        ("epsilon: 4, delta: 1e-8}", "epsilon: 4, delta: 1e-9}", "DPR-S537", 4, "the window's delta"),
        (" time: {column: seen, type: date},", "", "DPR-S230", 3, "write `time: {column: seen, type: date}`"),
        ("time: {column: at, type: date}, ", "", "DPR-S230", 7, "paid for in one window, read in two"),
        ("composition: pld", "composition: pld, time: {column: seen, type: date}", "DPR-S598", 6, "or a `window`"),
        ("composition: pld", "composition: pld, window: {per: year, epsilon: 1}", "DPR-S594", 6, "one series"),
        (",\n    lifetime: {epsilon: 20, delta: 1e-7, selecting: 1e-9}", "", "DPR-S201", 2, "lifetime: {epsilon"),
        # orders
        (RENYI, RENYI.replace("order: 20, ", ""), "DPR-S593", 5, "write `order: 5.5`"),
        (RENYI, RENYI.replace("20", "1"), "DPR-S593", 5, "from 1.000001"),
        (RENYI, RENYI.replace("20", "1e10"), "DPR-S593", 5, "to 10^9"),
        (RENYI, RENYI.replace("20", "2"), "DPR-S593", 5, "epsilon is 17 there before anything is spent"),
        (RENYI, RENYI.replace("rdp", "zcdp"), "DPR-S593", 5, "composition: rdp"),
        (RENYI, RENYI.replace(", delta: 1e-8", ""), "DPR-S536", 5, "rdp needs one greater than 0"),
        (RENYI, RENYI.replace("1e-8", "1e-8, selecting: 1e-8"), "DPR-S537", 5, "leaves nothing"),
        (
            RENYI,
            RENYI.replace(
                "order", "window: {per: day, epsilon: 0.5, delta: 1e-9}, time: {column: at, type: date}, order"
            ),
            "DPR-S593",
            5,
            "`window`",
        ),
        (
            ", lifetime: {epsilon: 2, delta: 1e-9}",
            ", lifetime: {epsilon: 2, delta: 1e-9, selecting: 1e-10}",
            "DPR-S537",
            6,
            "zcdp or rdp",
        ),
        # nested units
        ("person: 5", "person: 0", "DPR-S205", 2, "greater than 0"),
        ("person: 5", "person: 2.5", "DPR-S209", 2, "whole number"),
        ("person: 5", "household: 5", "DPR-S595", 2, "own unit"),
        ("nests: {person: 5, person-month: 60}", "nests: [person]", "DPR-S203", 2, "nests: {person: 5}"),
        # ceilings
        ("units: [person, household]", "units: []", "DPR-S210", 8, "units: [person]"),
        ("units: [person, household]", "units: person", "DPR-S203", 8, "[person]"),
        ("units: [person, household]", "unit: [person]", "DPR-S200", 8, "`units`"),
        ("epsilon: 4, delta: 1e-8, units", "delta: 1e-8, units", "DPR-S201", 8, "epsilon: 4"),
    ],
)
def test_a_wrong_account(old: str, new: str, code: str, line: int, says: str) -> None:
    assert POLICY.count(old) == 1
    with pytest.raises(SpecError) as caught:
        load_policy(POLICY.replace(old, new), "policy.yaml")

    (problem,) = caught.value.problems
    assert (problem.code, problem.where.line if problem.where else 0) == (code, line), problem
    assert says in f"{problem.summary} {problem.hint}"


@pytest.mark.parametrize(("epsilon", "delta"), [(8, "1e-8"), (1, "1e-9"), (Fraction(1, 10), "1e-6"), (50, "1e-12")])
def test_no_other_order_takes_more_gaussian_noise_than_the_best(epsilon: Fraction, delta: str) -> None:
    """Held against the account itself: what fits at the best order is the most, and not much less than under zCDP."""
    best, at = best_order(Fraction(epsilon), Fraction(delta)), Fraction(delta)

    def most(order: Fraction) -> float:
        terms, low, high = Terms(composition="rdp", order=order, selecting=Fraction(0)), 0.0, float(epsilon) * 2
        for _ in range(40):
            middle = (low + high) / 2
            spent = Spent(loss=order * Fraction(middle))
            low, high = (middle, high) if read_total(terms, spent, at).epsilon <= epsilon else (low, middle)
        return low

    room = most(best)
    for factor in (Fraction(2, 3), Fraction(9, 10), Fraction(11, 10), Fraction(3, 2)):
        assert most(1 + (best - 1) * factor) < room * 1.002
    assert math.isclose(float(rho_to_epsilon(Fraction(room), at)), epsilon, rel_tol=0.01)
