"""Invariants from the spec to the plan: what may be one, which workloads take it in, and what that buys."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import PlanError, SpecError
from dprelease.estimate.adjust import whole
from dprelease.estimate.workloads.design import Tree
from dprelease.estimate.workloads.reconcile import node_variances
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import plan_facts, unprotected
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.accounting.glossary import not_protected, post_processing
from dprelease.release.planning import open_target, plan_release
from dprelease.spec.load import load
from tests.invariants import LAW, STATES, allowed, exact_states
from tests.planned import plan_of
from tests.tiers import few
from tests.workloads import GEO, areas, crosstabs, ordinary, small_workloads, spec_of

FILES = {"geo": GEO.encode()}
MEASURE = "measures: {persons: {count: rows}}"


def planned(*queries: str, **asked: str) -> ReleasePlan:
    return plan_of(exact_states(*queries, **asked), files=FILES)


def unaided() -> ReleasePlan:
    """The same without invariants."""
    return plan_of(spec_of(areas(), ordinary(), budget="{epsilon: 1, delta: 1e-9}"), files=FILES)


def test_a_plan_without_invariants_keeps_its_text() -> None:
    text = spec_of(areas(), ordinary())
    plain, empty = plan_of(text, files=FILES), plan_of(f"{text}invariants: []\n", files=FILES)
    assert plain.canonical() == empty.canonical()
    assert "invariants" not in plain.canonical()
    assert unprotected(plain) == ""
    assert "unprotected" not in plan_facts(plain)


def test_an_invariant_is_no_step_and_costs_nothing() -> None:
    plan, without = planned(), unaided()
    (exact,) = plan.invariants
    assert (exact.id, exact.cells, exact.why) == ("states.exact", 3, LAW)
    assert exact.id not in {step.id for step in plan.steps}
    assert sum((step.share for step in plan.steps), Fraction(0)) == 1
    assert verify(plan) == plan.loss[plan.certified]
    assert len(plan.event.events) == len(plan.steps)
    assert {each.id for batch in plan.batches() for each in batch.steps} == {each.id for each in plan.measured}
    assert abs(float(plan.loss[plan.certified].epsilon / without.loss[without.certified].epsilon) - 1) < 1e-6
    assert ReleasePlan.from_canonical(plan.canonical()) == plan


def test_the_loss_is_told_to_be_of_the_noisy_measurements_alone() -> None:
    plan = planned()
    said = unprotected(plan)
    assert said.startswith("The noisy measurements are (epsilon, delta)-differentially private; these totals are")
    assert f"states.persons by state ({LAW})" in said
    facts = plan_facts(plan)
    assert (facts["unprotected"], facts["invariants"][0]["why"]) == (said, LAW)
    assert not_protected(plan)[0] == said
    assert not any("no invariants" in line for line in not_protected(plan))
    assert post_processing(plan)[0] == "Invariants are the exact counts: states.persons."


def test_a_workload_takes_it_in_and_draws_nothing_that_it_says() -> None:
    plan, without = planned(), unaided()
    (workload,) = plan.workloads
    assert ("states.exact", 1, ()) in {(take.step, take.level, take.axes) for take in workload.takes}
    drawn = {step.id for step in plan.steps}
    assert "areas.puma.total" in drawn
    assert not {"areas.region.total", "areas.state.total"} & drawn
    assert plan.invariants[0].aggregate.complete == ("puma", "race", "region", "sex", "state")
    assert plan.queries[0].complete == plan.invariants[0].aggregate.complete
    told, before = ({each.query: each for each in one.outputs} for one in (plan, without))
    for name in workload.tables:
        assert float(told[name].standard_error or "nan") <= float(before[name].standard_error or "nan") * (1 + 1e-5)
    assert [told[name].margin for name in ("states", "areas__state", "areas__region")] == ["0", "0", "0"]
    variances = node_variances(design_of(workload, plan.catalog, {each.id: each for each in plan.measured}))
    assert variances[0, ()].max() == variances[1, ()].max() == 0
    assert (variances[2, ()] > 0).tolist() == [True, True, True, False, True]  # 4801 is all of state 48


def test_the_plan_says_what_the_invariants_buy() -> None:
    (first, *_) = planned().considered
    assert first.name == "areas: without its invariants"
    assert 1 < float(first.noise) < 10


def test_shares_that_an_author_gives_stay_as_told() -> None:
    plan = planned(areas("shares: {levels: {region: 1/7, state: 2/7, puma: 4/7}}"), ordinary())
    total = sum((step.share for step in plan.steps if step.id.startswith("areas.")), Fraction(0))
    assert {step.id: step.share / total for step in plan.steps}["areas.state.total"] == Fraction(2, 21)
    assert float({each.query: each for each in plan.outputs}["areas__state"].margin or 1) == 0


def test_a_target_is_met_with_what_is_known() -> None:
    plan = planned(areas("target: {count: {margin: 60}}"), ordinary())
    margins = [float(each.margin or "nan") for each in plan.outputs if each.query.startswith("areas")]
    assert 59.9 < max(margins) <= 60


def test_rows_stay_those_of_the_query_where_no_workload_has_its_table() -> None:
    plan = planned(crosstabs(), ordinary())
    assert plan.invariants[0].aggregate.complete == ()
    assert all(take.step != "states.exact" for take in plan.workloads[0].takes)


def test_a_workload_of_other_rows_does_not_take_it_in() -> None:
    plan = planned(areas('where: "age > 3"'), ordinary())
    assert all(take.step != "states.exact" for take in plan.workloads[0].takes)


def test_the_total_of_a_workload_without_levels_can_be_exact() -> None:
    everyone = f"  everyone: {{table: persons, {MEASURE}}}\n"
    text = spec_of(crosstabs(), ordinary(), everyone) + "invariants: [{query: everyone, measure: persons, why: Law}]\n"
    plan = plan_of(text, files=FILES)
    assert "crosstabs.total" not in {step.id for step in plan.steps}
    assert {each.query: each.margin for each in plan.outputs}["crosstabs__total"] == "0"
    assert verify(plan) == plan.loss[plan.certified]


def _with(query: str, name: str = "more", post: str = "[consistent]") -> str:
    text = spec_of(areas(), ordinary(), f"  {name}: {{table: persons, {query}}}\n", post=post)
    return f"{text}invariants: [{{query: {name}, measure: persons, why: Law}}]\n"


@pytest.mark.parametrize("post", ["[consistent]", "[consistent, nonnegative, integer]"])
def test_a_table_with_attributes_can_be_exact(post: str) -> None:
    plan = plan_of(_with(f"by: [state, sex], {MEASURE}", post=post), files=FILES)
    margins = {each.query: each.margin for each in plan.outputs if each.query.startswith("areas")}
    exact = {"areas__region", "areas__state", "areas__region__sex", "areas__state__sex"}
    assert {name for name, margin in margins.items() if margin == "0"} == exact
    assert verify(plan) == plan.loss[plan.certified]


def _two(first: str, second: str, post: str) -> str:
    queries = (f"  {name}: {{table: persons, by: [{by}], {MEASURE}}}\n" for name, by in (("a", first), ("b", second)))
    text = spec_of(areas(), ordinary(), *queries, post=post)
    return f"{text}invariants: [{{query: a, measure: persons, why: Law}}, {{query: b, measure: persons, why: Law}}]\n"


def test_what_is_done_after_the_noise_keeps_one_exact_table_and_what_follows_from_it() -> None:
    post = "[consistent, nonnegative]"
    plan = plan_of(_two("puma, sex", "state", post), files=FILES)
    assert {each.query: each.margin for each in plan.outputs}["areas__state"] == "0"
    for first, second in (("state, sex", "state, race"), ("state, sex", "puma")):
        with pytest.raises(PlanError, match="would not both stay exact") as refused:
            plan_of(_two(first, second, post), files=FILES)
        assert refused.value.code == "DPR-P107"
        assert all(f"by {by} " in str(refused.value) for by in (first, second))
    assert plan_of(_two("state, sex", "state, race", "[consistent]"), files=FILES).invariants


def test_the_same_keys_in_another_order_are_refused_with_the_right_one() -> None:
    with pytest.raises(PlanError, match="in another order") as refused:
        plan_of(_with(f"by: [sex, state], {MEASURE}"), files=FILES)
    assert "by: [state, sex]" in (refused.value.hint or "")


def test_a_workload_of_which_nothing_is_hidden_is_refused() -> None:
    with pytest.raises(PlanError, match="nothing of it is protected"):
        plan_of(_with(f"by: [puma, sex, race], {MEASURE}"), files=FILES)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("measures: {persons: {count: rows}, rest: {count: age}}", "has other measures beside it"),
        (f"by: [sex], {MEASURE}, suppress: {{measure: persons, below: 5}}", "has `suppress`"),
        (f"by: [sex], {MEASURE}, budget: {{epsilon: 1/10}}", "has a `budget`"),
        (f"by: [sex], {MEASURE}, target: {{persons: {{margin: 5}}}}", "has a `target`"),
        (f"by: [sex], {MEASURE}, share: 2", "has a `share`"),
        ('measures: {persons: {count: rows, where: "age > 3"}}', "is no count of rows"),
        ("measures: {persons: {count: age}}", "is no count of rows"),
    ],
)
def test_what_is_no_plain_count_of_rows_is_no_invariant(query: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        load(_with(query), "spec.yaml")
    (problem,) = refused.value.problems
    assert problem.code == "DPR-S663"
    assert says in problem.summary


def test_a_table_of_units_has_no_invariant() -> None:
    text = spec_of(areas(), STATES, units=True) + "invariants: [{query: states, measure: persons, why: Law}]\n"
    with pytest.raises(SpecError, match="unit_id"):
        load(text, "spec.yaml")


def test_a_release_that_protects_nothing_is_none() -> None:
    text = spec_of(STATES).replace("postprocess: [consistent]\n", "")
    with pytest.raises(SpecError, match="protects nothing"):
        load(f"{text}invariants: [{{query: states, measure: persons, why: Law}}]\n", "spec.yaml")


def test_the_owner_of_the_account_decides_and_not_the_spender(tmp_path: Path) -> None:
    spec = small_workloads(tmp_path, exact_states(), rows=20)
    target = open_target(spec)
    with pytest.raises(SpecError, match="lets no number be published exactly") as refused:
        plan_release(target)
    (problem,) = refused.value.problems
    assert problem.code == "DPR-S418"
    assert "invariants: true" in (problem.hint or "")
    allowed(tmp_path)
    target = open_target(spec)
    assert plan_release(target).invariants


@pytest.mark.parametrize("written", ["maybe", "1", "null"])
def test_the_policy_says_true_or_false(tmp_path: Path, written: str) -> None:
    spec = small_workloads(tmp_path, exact_states(), rows=20)
    allowed(tmp_path)
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text(encoding="utf-8").replace("invariants: true", f"invariants: {written}"))
    with pytest.raises(SpecError, match="invariants"):
        open_target(spec)


@settings(deadline=None, max_examples=few(40))
@given(seed=st.integers(0, 2**32), key=st.binary(min_size=32, max_size=32), kept=st.integers(0, 2))
def test_whole_totals_stay_when_cells_are_rounded(seed: int, key: bytes, kept: int) -> None:
    rng = np.random.default_rng(seed)
    tree = Tree(2, (np.array([0, 1, 0, 1, 0]), np.array([4, 0, 1, 2, 3, 3, 0])))
    finest = rng.uniform(0, 9, (7, 6))
    nodes = np.arange(7)
    for level in range(2, kept, -1):
        nodes = tree.parents[level - 1][nodes]
    for node in range(tree.sizes[kept]):  # the last cell of one of its children makes the total of the node whole
        last = int(np.flatnonzero(nodes == node)[-1])
        finest[last, -1] += 1 - finest[nodes == node].sum() % 1
    made = whole(tree, finest, key, kept)
    totals = np.zeros(tree.sizes[kept])
    np.add.at(totals, nodes, finest.sum(axis=1))
    assert made[kept].sum(axis=1).tolist() == np.rint(totals).astype(int).tolist()
    for level, parents in enumerate(tree.parents):
        above = np.zeros_like(made[level])
        np.add.at(above, parents, made[level + 1])
        assert (above == made[level]).all()
    assert np.abs(made[2] - finest).max() < 1
    assert made[2].min() >= 0


def test_totals_that_floats_get_wrong_are_put_right() -> None:
    tenths = np.full((2000, 10), 0.1)  # ten of them add up to a little less than 1
    for seed in range(20):
        (made,) = whole(Tree(2000), tenths, bytes([seed] * 32), 0)
        assert (made.sum(axis=1) == 1).all()
