"""The certificate of the 2020 Census typed as a spec: loaded and planned, it has the certificate's own epsilons."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.levels import attribute_changes, levels
from dprelease.spec.load import load
from tests.golden.census_plan import FACTS, allocated
from tests.golden.census_spec import LEVELS, text
from tests.planned import plan_of

PERSONS = FACTS["persons"]
BUDGET = Budget(rho=Fraction(PERSONS["rho"]), delta=Fraction(PERSONS["delta"]))
CENSUS = Account(name="census", unit="person", neighboring=Neighboring.REPLACE_ONE, composition="zcdp", lifetime=BUDGET)


@cache
def plan() -> ReleasePlan:
    return plan_of(text(), accounts=[CENSUS])


@cache
def epsilons() -> dict[str, float]:
    """By the column of the source that changes, and what it changes within."""
    found = {}
    for change in attribute_changes(plan()):
        assert change.loss is not None
        assert change.loss.delta == BUDGET.delta
        within = f" within {change.within}" if change.within else ""
        found[change.attribute[1].removesuffix("_code") + within] = float(change.loss.epsilon)
    return found


def test_the_spec_says_the_rationals_of_the_certificate_and_no_other_numbers_of_loss() -> None:
    spec = load(text(), "census.yaml").spec
    assert spec.privacy.budget == BUDGET
    assert spec.privacy.neighboring is Neighboring.REPLACE_ONE
    written = text()
    for share in PERSONS["geolevel_proportions"]:
        assert share in written
    for shares in PERSONS["query_proportions"].values():
        assert all(share is None or share in written for share in shares)


def test_every_draw_has_its_share_of_the_certificate_exactly() -> None:
    (workload,) = plan().workloads
    assert workload.strategy == "given shares"
    ours = {}
    for take in workload.takes:
        step = plan().step(take.step)
        ours[workload.levels[take.level], frozenset(workload.attributes[at] for at in take.axes)] = step.share
        assert step.residual is None
        assert step.sensitivity.l2_squared == 2
    detailed = frozenset(("hhgq", "votingage", "hispanic", "cenrace"))
    columns = {"detailed": detailed, "total": frozenset[str]()}
    theirs = {
        (level, columns.get(query, frozenset(query.split("*")))): share for level, query, share in allocated("persons")
    }
    assert ours == theirs
    assert len(ours) == 65
    assert sum(ours.values()) == 1


def test_the_plan_spends_the_rho_to_the_last_bit_and_never_more() -> None:
    total = Fraction(0)
    for step in plan().steps:
        rho = step.sensitivity.l2_squared / (2 * step.scale**2)
        assert 0 <= step.share * BUDGET.limit - rho < step.share * BUDGET.limit / 10**9
        total += rho
    assert total <= BUDGET.limit


def test_the_epsilon_of_the_plan_is_the_published_one() -> None:
    loss = plan().loss["zcdp"]
    assert plan().certified == "zcdp"
    assert loss.delta == BUDGET.delta
    assert float(loss.epsilon) == pytest.approx(float(Fraction(PERSONS["epsilon_published"])), abs=1e-6)


@pytest.mark.slow
def test_the_guard_derives_the_same_loss_again() -> None:
    assert verify(plan()) == plan().loss["zcdp"]


@pytest.mark.parametrize("attribute", PERSONS["published_attribute_epsilon"])
def test_the_epsilon_of_an_attribute_is_the_published_one(attribute: str) -> None:
    assert round(epsilons()[attribute], 2) == PERSONS["published_attribute_epsilon"][attribute]


@pytest.mark.parametrize("level", PERSONS["published_geography_epsilon"])
def test_the_epsilon_of_a_block_within_a_level_is_the_published_one(level: str) -> None:
    outer = level.removeprefix("Block-within-").lower()
    assert round(epsilons()[f"block within {outer}"], 2) == PERSONS["published_geography_epsilon"][level]


def test_the_levels_of_the_plan_have_the_proportions_of_the_certificate() -> None:
    found = levels(plan())
    assert [level.name for level in found] == LEVELS
    assert [level.share for level in found] == [Fraction(part) for part in PERSONS["geolevel_proportions"]]


def test_one_proportion_that_is_wrong_would_be_seen() -> None:
    """Another level's proportion in one query, made up for in the next: still a spec, and another epsilon."""
    wrong = (
        text()
        .replace("[null, 3773/4097, 3126/4097", "[null, 3773/4097, 3136/4097")
        .replace("[130/4097, 12/4097, 28/4097, 1933/4102", "[130/4097, 12/4097, 18/4097, 1933/4102")
    )
    made = plan_of(wrong, accounts=[CENSUS])
    assert wrong != text()
    moved = {
        c.attribute[1]: float(c.loss.epsilon) for c in attribute_changes(made) if c.loss is not None and not c.within
    }
    assert round(moved["hispanic_code"], 2) != PERSONS["published_attribute_epsilon"]["hispanic"]
