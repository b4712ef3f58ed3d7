"""A noise that a spec names is taken whatever an account pays for it, and the plan says what that is."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

from dprelease.plan.allocate.best_candidate import _bearable
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.filters import Composition, account_loss
from tests.ledgers import account
from tests.planned import plan_of

SPEC = """dprelease: 1
release: {{name: named, period: 2024}}
privacy: {{unit: {{entity: person}}, noise: {noise}, budget: {{epsilon: 1, delta: {delta}}}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns: {{a: {{type: integer, range: [0, 9]}}, sex: {{type: integer, keys: [1, 2]}}}}
queries:
"""
COUNTS = "".join(f'  q{n}: {{table: people, by: [], where: "a > {n}", measures: {{n: {{count: rows}}}}}}\n' for n in range(5))  # fmt: skip
TOLD = re.compile(
    r"the spec asks for `noise: (\w+)`, for which an account is charged ([\d.]+); .* epsilon ([\d.]+) for"
)


def made(noise: str, composition: Composition, delta: str = "1e-6", queries: str = COUNTS) -> ReleasePlan:
    terms = account(composition=composition, epsilon="100", delta="1e-6")
    plan = plan_of(SPEC.format(noise=noise, delta=delta) + queries, None, [terms])
    verify(plan)
    return plan


def charged(plan: ReleasePlan) -> float:
    terms: Account = plan.accounts[0]
    events = plan.cost_of(terms)
    return float(account_loss(terms.composition, [events], Fraction(1, 10**6)).epsilon)


@pytest.mark.parametrize(("noise", "mechanism"), [("knorm", "count_knorm"), ("laplace", "discrete_laplace")])
def test_a_named_noise_is_taken_on_an_account_that_pays_more_and_the_plan_says_both_charges(
    noise: str, mechanism: str
) -> None:
    plan, spared = made(noise, "zcdp"), made("auto", "zcdp")
    assert {step.mechanism for step in plan.steps} == {mechanism}
    assert {step.mechanism for step in spared.steps} == {"discrete_gaussian"}
    first = plan.considered[0]
    told = TOLD.fullmatch(first.why_not.removesuffix(" this release"))
    assert told is not None
    assert told[1] == noise
    assert float(told[2]) == pytest.approx(charged(plan), rel=0.01)
    assert float(told[3]) == pytest.approx(charged(spared), rel=0.01)
    ratio = float(spared.outputs[0].standard_error or 0) / float(plan.outputs[0].standard_error or 1)
    assert float(first.noise) == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize("noise", ["knorm", "laplace", "gaussian", "auto"])
def test_nothing_is_said_where_nothing_was_overruled(noise: str) -> None:
    plan = made(noise, "zcdp" if noise in ("gaussian", "auto") else "basic")
    assert not any(TOLD.search(each.why_not) for each in plan.considered)


def test_one_draw_for_twenty_queries_has_less_noise_than_twenty() -> None:
    line = '  q{0}: {{table: people, by: [], where: "a > {0}/3", measures: {{n: {{count: rows}}}}}}\n'
    queries = "".join(line.format(n) for n in range(20))
    joined, apart = (made(noise, "basic", queries=queries) for noise in ("auto", "laplace"))
    assert [len(each.steps) for each in (joined, apart)] == [1, 20]
    ratio = float(apart.outputs[0].standard_error or 0) / float(joined.outputs[0].standard_error or 1)
    assert ratio == pytest.approx(2.918, abs=0.001)


def test_joint_noise_needs_no_delta() -> None:
    plan = made("knorm", "basic", delta="0")
    assert {step.mechanism for step in plan.steps} == {"count_knorm"}


def test_what_no_joint_draw_can_hide_has_noise_of_its_own() -> None:
    queries = COUNTS + "  total: {table: people, by: [sex], measures: {s: {sum: a}}}\n"
    plan = made("knorm", "zcdp", queries=queries)
    assert sorted({step.mechanism for step in plan.steps})[0] == "count_knorm"
    assert len(plan.steps) == 2


@pytest.mark.parametrize(
    ("prefer", "mechanism"),
    [(None, "discrete_gaussian"), ("account", "discrete_gaussian"), ("accuracy", "count_knorm")],
)
def test_the_policy_says_whether_noise_or_the_account_wins(prefer: str | None, mechanism: str) -> None:
    terms = account(composition="zcdp", epsilon="100", delta="1e-6").model_copy(update={"prefer": prefer})
    plan = plan_of(SPEC.format(noise="auto", delta="1e-6") + COUNTS, None, [terms])
    verify(plan)
    assert {step.mechanism for step in plan.steps} == {mechanism}
    dearer = [each for each in plan.considered if "would charge an account" in each.why_not]
    assert bool(dearer) == (prefer != "accuracy")
    for each in dearer:
        assert each.why_not.startswith("it would charge an account epsilon ")
    knorm = next((each for each in dearer if each.name.startswith("K-norm")), None)
    if knorm is not None:
        assert f"an account epsilon {charged(made('knorm', 'zcdp')):.3g} for" in knorm.why_not


@pytest.mark.parametrize(
    ("said", "bearable"),
    [
        ((None,), 1.25),
        ((None, "accuracy"), 1.25),
        (("accuracy", "accuracy"), 3.0),
        (("accuracy", "account"), 1.01),
        (("account", None), 1.01),
    ],
)
def test_one_account_that_is_to_be_spared_spares_all(said: tuple[str | None, ...], bearable: float) -> None:
    accounts = [account(name=str(at)).model_copy(update={"prefer": each}) for at, each in enumerate(said)]
    assert _bearable(accounts, [1.0, 3.0, math.inf]) == pytest.approx(bearable)


def test_an_account_that_says_nothing_is_written_as_before() -> None:
    assert "prefer" not in account().canonical()
    spoken = account().model_copy(update={"prefer": "account"})
    assert Account.from_canonical(spoken.canonical()) == spoken
