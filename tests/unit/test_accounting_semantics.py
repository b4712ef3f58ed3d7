"""What the loss means for units, groups and attributes: the figures by hand, and their order."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.exchanges import exchanged
from dprelease.privacy.accountants import smallest
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Approximate, Composed, KeySelection
from dprelease.privacy.group import of_event
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.guarantee import allocation, loss_totals, meanings, shares, worked_example
from dprelease.publish.accounting.semantics import GROUPS, Meaning, reads, semantics
from dprelease.publish.numbers import at_least, beliefs
from tests.planned import SPEC, plan_of
from tests.unit.choices_example import choices
from tests.unit.publish_example import plan

LAPLACE = SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "budget: {epsilon: 1}\n  noise: laplace")


@cache
def made(text: str = SPEC) -> ReleasePlan:
    return plan_of(text)


def found(of: ReleasePlan, kind: str) -> list[Meaning]:
    return [each for each in semantics(of) if each.kind == kind]


def loss(each: Meaning) -> Loss:
    assert each.loss is not None
    return each.loss


def test_the_unit_has_the_certified_loss_and_groups_have_more() -> None:
    (unit,) = found(made(), "unit")
    assert unit.loss == made().loss[made().certified]
    sizes = [unit, *found(made(), "group")]
    assert [each.size for each in sizes] == [1, *GROUPS]
    epsilons = [loss(each).epsilon for each in sizes]
    assert all(2 * one <= two for one, two in pairwise(epsilons))


def test_a_group_under_laplace_noise_costs_its_size_times_the_unit() -> None:
    pure = made(LAPLACE)
    (unit,) = found(pure, "unit")
    assert [loss(each).epsilon / loss(unit).epsilon for each in found(pure, "group")] == list(GROUPS)
    assert {loss(each).delta for each in found(pure, "group")} == {0}


def test_another_person_is_two_steps_where_persons_come_and_go_and_one_where_they_are_replaced() -> None:
    (other,) = found(made(), "other_unit")
    assert other.steps == 2
    assert loss(other).epsilon / loss(found(made(), "unit")[0]).epsilon > 1
    assert loss(other).epsilon < loss(found(made(), "group")[0]).epsilon  # two cells by one each, and not one by two
    replaced = made(SPEC.replace("unit: {entity: person}", "unit: {entity: person}\n  neighboring: replace_one"))
    assert replaced.neighboring is Neighboring.REPLACE_ONE
    assert found(replaced, "other_unit") == []
    assert {each.steps for each in found(replaced, "attribute")} == {1}


def test_an_attribute_costs_what_the_draws_on_it_cost_for_two_steps() -> None:
    attributes = {each.attribute: each for each in found(made(), "attribute")}
    assert set(attributes) == {("people", name) for name in ("region", "sex", "income")}
    own = [step for step in made().steps if "sex" in step.aggregate.by]
    others = dict(zip(made().steps, exchanged(made()), strict=True))
    event = Composed(events=tuple(others[step] for step in own))
    two = of_event(Composed(events=tuple(step.event for step in own)), 2)
    delta = made().loss[made().certified].delta
    assert smallest(event, delta)[1] < smallest(two, delta)[1]
    sex = attributes["people", "sex"]
    assert (sex.draws, sex.steps) == (len(own), 2)
    assert loss(sex).epsilon == smallest(event, made().loss[made().certified].delta)[1]


def test_an_attribute_that_nothing_reads_costs_nothing() -> None:
    text = SPEC.replace("sex: {type", "hair: {type: text}\n      sex: {type")
    (hair,) = [each for each in found(made(text), "attribute") if each.attribute == ("people", "hair")]
    assert (hair.draws, hair.loss) == (0, Loss(epsilon=Fraction(0), delta=Fraction(0)))


def test_no_attribute_costs_more_than_the_unit_exchanged() -> None:
    for of in (made(), made(LAPLACE)):
        (whole,) = found(of, "other_unit")
        assert all(loss(each).epsilon <= loss(whole).epsilon for each in found(of, "attribute"))


def test_a_row_is_spoken_of_only_where_a_unit_may_have_several() -> None:
    assert found(made(), "row") == []
    (row,) = found(choices(), "row")
    assert row.loss == found(choices(), "other_unit")[0].loss


def test_deltas_of_draws_grow_with_a_group_and_then_the_delta_is_said() -> None:
    certified = choices().loss[choices().certified]
    (pair, *_) = found(choices(), "group")
    # keys that two units alone hold are shown far more often than twice as often as those of one
    selected = [of_event(event, 2) for event in choices().events if isinstance(event, KeySelection)]
    shown = [event.delta for event in selected if isinstance(event, KeySelection)]
    assert certified.delta < max(shown) < loss(pair).delta < 100 * certified.delta


def test_where_nothing_is_proved_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    wild = Approximate(epsilon=Fraction(50), delta=Fraction(1, 10**9))
    monkeypatch.setattr(ReleasePlan, "event", property(lambda self: Composed(events=(wild,) * len(self.steps))))
    assert {each.loss for each in found(plan(), "group")} == {None}
    rows, _ = meanings(plan())
    assert rows[2]["epsilon"] == "no bound is proved"


def test_an_expression_that_cannot_be_read_may_look_at_everything() -> None:
    step = choices().steps[0]
    read = reads(step.aggregate, (Quantity(kind="rows", where="no sense ("),), choices().catalog)
    assert {("visits", name) for name in ("country", "page", "term", "seconds")} <= read


def test_beliefs_are_bayes_rule_rounded_against_the_release() -> None:
    for before in (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)):
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(19, 10), Fraction(8)):
            low, high = (float(text) / 100 for text in beliefs(before, epsilon))
            odds = float(before / (1 - before))
            grown, shrunk = odds * 2.718281828459045 ** float(epsilon), odds / 2.718281828459045 ** float(epsilon)
            assert low <= shrunk / (1 + shrunk) <= low * 1.011
            assert grown / (1 + grown) <= high <= grown / (1 + grown) * 1.011
    assert beliefs(Fraction(1, 2), Fraction(0))[0] in ("49.9", "50")
    assert beliefs(Fraction(1, 2), Fraction(30))[1] != "100"


def test_a_belief_is_never_surer_than_the_likelihood_ratio_allows_by_brute_force() -> None:
    """Randomized response at epsilon 1: the posterior of each of its two answers."""
    truth = Fraction(731058578630005, 10**15)  # e / (1 + e)
    for before, _, low, high in worked_example(Loss(epsilon=Fraction(1), delta=Fraction(0))):
        prior = Fraction(before) / 100
        for seen in (truth, 1 - truth):
            after = 100 * prior * seen / (prior * seen + (1 - prior) * (1 - seen))
            assert Fraction(low) <= after <= Fraction(high)


def test_at_least_never_shows_more() -> None:
    for value in (Fraction(2, 3), Fraction(99999, 1000), Fraction(1, 7), Fraction(5), Fraction(1, 10**7), Fraction(0)):
        text = at_least(value)
        assert "⁻" in text or Fraction(text) <= value <= Fraction(text) * Fraction(101, 100)
    assert at_least(Fraction(99999, 1000)) == "99.9"


def test_the_shares_of_the_queries_add_up_to_one_and_shared_draws_count_in_parts() -> None:
    for of in (made(), choices(), plan()):
        given = allocation(of)
        assert [each["query"] for each in given] == [query.name for query in of.queries]
        assert sum(Fraction(each["share"]) for each in given) == sum(step.share for step in of.steps)
    (terms,) = [each for each in allocation(choices()) if each["query"] == "terms"]
    assert set(terms["steps"]) == {"terms.keys", "terms.rows"}
    assert (terms["cells"], terms["level"]) == (None, "all")
    assert Fraction(terms["reveals"]) == Fraction(1, 10**9)
    assert next(bar["width"] for bar in shares(choices())) == "100.00"


def test_the_rho_of_a_query_is_the_sum_of_its_draws_exactly() -> None:
    (population, income) = allocation(plan())
    assert (population["rho"], population["share"]) == ("1/800", "1/4")
    assert Fraction(income["rho"]) == 3 * Fraction(1, 3200)
    assert Fraction(loss_totals(plan())["rho"]) == Fraction(1, 800) + 3 * Fraction(1, 3200)
