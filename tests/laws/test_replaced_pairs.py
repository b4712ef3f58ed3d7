"""What one row in the place of another costs all Gaussian draws of a workload, by brute force over tiny tables.

Every draw's matrix is written out here from its definition; every two units with up to two rows are tried in all draws
at once. The claims of plans must be that maximum, and plans that claim less must be refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import BrokenPromiseError
from dprelease.estimate.workloads.design import Tree
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms import residual as drawing
from dprelease.plan.design import workload_candidates, workload_pairs
from dprelease.plan.design.workload_cost import Part
from dprelease.plan.design.workload_pairs import PairLosses, square_of_pair
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify import pairs as second
from dprelease.plan.verify.pairs import check_pairs
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.event import Composed, DiscreteGaussian, Sensitivity, some_of
from dprelease.privacy.group import of_event
from dprelease.privacy.theorems import gaussian
from dprelease.publish.accounting.semantics import semantics
from tests.planned import plan_of, planned_anew
from tests.replaced import GEO, answers, planned, text_of, units, worst_of
from tests.tiers import few

Reals = npt.NDArray[np.float64]
CASES = [
    pytest.param((2, 2), "[1]", False, id="two of two"),
    pytest.param((3, 2), "[1]", False, id="one way"),
    pytest.param((3, 2), "[0, 1, 2]", False, id="with total"),
    pytest.param((2, 2, 2), "[2]", False, id="pairs of binary columns"),
    pytest.param((4, 3, 2), "[1, 2]", False, id="one and two ways"),
    pytest.param((3, 1, 2), "[1]", False, id="a column of one key"),
    pytest.param((2, 3), "[0, 1]", True, id="levels"),
    pytest.param((2, 2), "[2]", True, id="levels of one table"),
]


@pytest.mark.parametrize(("sizes", "ways", "levels"), CASES)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_claims_are_the_worst_replaced_unit(sizes: tuple[int, ...], ways: str, levels: bool, rows: int) -> None:
    plan = planned(sizes, ways, levels=levels, rows=rows)
    if rows == 2 and prod(sizes) * (3 if levels else 1) > 12:
        rows = 1  # all pairs of units of one row; the plan has the square of two times that
        true = worst_of(plan, 1) * 4
    else:
        true = worst_of(plan, max(1, rows))
    claimed = float(2 * total_rho(Composed(events=plan.events)))
    together = [step.common is not None for step in plan.steps]
    assert all(together) or not any(together)
    assert true <= claimed * (1 + 1e-12)
    if any(together):
        assert claimed <= true * (1 + 1e-8)
        own = sum(float(step.sensitivity.l2_squared / step.scale**2) for step in plan.steps)
        assert claimed < own * 0.999
    verify(plan)


@pytest.mark.parametrize("rows", [0, 2])
def test_residuals_of_levels_are_bounded_together(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """With levels the planner takes tables as a rule, of which two rows far apart are the worst pair of all draws."""
    only = "dprelease.plan.design.workload_strategy._candidates"
    monkeypatch.setattr(only, lambda problem: [("residuals", workload_candidates.residuals(problem))])
    for sizes, ways in (((2, 3), "[0, 1]"), ((2, 2), "[2]"), ((3, 2), "[1]")):
        plan = planned_anew(text_of(sizes, ways, levels=True, rows=rows), {"geo": GEO.encode()})
        assert all(step.common is not None for step in plan.steps)
        true = worst_of(plan, 1) * max(1, rows) ** 2
        assert true <= float(2 * total_rho(Composed(events=plan.events))) <= true * (1 + 1e-8)
        for most in (0, 1000):
            monkeypatch.setattr(second, "_WRITTEN_OUT", most)
            verify(plan)
            for at, step in enumerate(plan.steps):
                if step.common:
                    with pytest.raises(BrokenPromiseError):
                        check_pairs(halved(plan, at))


def test_most_small_workloads_are_bounded_together() -> None:
    for sizes, ways in (((3, 2), "[1]"), ((2, 2, 2), "[2]"), ((4, 3, 2), "[1, 2]")):
        assert all(step.common is not None for step in planned(sizes, ways).steps)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_row_more_or_less_moves_each_draw_as_far_as_it_can(rows: int) -> None:
    """Under add_remove every cell is the worst one for every draw, and nothing is claimed together."""
    plan = planned((3, 2), "[1, 2]", relation="add_remove", rows=rows)
    assert all(step.common is None for step in plan.steps)
    true = max(float((each**2).sum()) for each in units(answers(plan), max(1, rows)))
    assert float(2 * total_rho(Composed(events=plan.events))) == pytest.approx(true, rel=1e-9)


def halved(plan: ReleasePlan, at: int) -> ReleasePlan:
    step = plan.steps[at]
    smaller = step.model_copy(update={"common": (step.common or Fraction(0)) / 2})
    return plan.model_copy(update={"steps": (*plan.steps[:at], smaller, *plan.steps[at + 1 :])})


@pytest.mark.parametrize(("sizes", "ways"), [((3, 2), "[0, 1, 2]"), ((8, 7, 2), "[1, 2]")], ids=["pairs", "sets"])
def test_half_of_a_square_is_found(sizes: tuple[int, ...], ways: str) -> None:
    plan = planned(sizes, ways)
    moving = [at for at, step in enumerate(plan.steps) if step.common]
    assert moving
    for at in moving:
        with pytest.raises(BrokenPromiseError, match="costs w more than its draws are bounded by"):
            check_pairs(halved(plan, at))
        with pytest.raises(BrokenPromiseError):
            verify(halved(plan, at))


def test_both_derivations_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of cells, and all sets of attributes with all levels, have the same worst case."""
    for (sizes, ways, levels), rows in product([case.values for case in CASES], (0, 2)):
        plan = planned(sizes, ways, levels=levels, rows=rows)  # type: ignore[arg-type]
        for most in (0, 1000):
            monkeypatch.setattr(second, "_WRITTEN_OUT", most)
            check_pairs(plan)
            if plan.steps[0].common is not None:
                less = [
                    step.model_copy(update={"common": step.common * (1 - Fraction(1, 10**7))})
                    for step in plan.steps
                    if step.common is not None
                ]
                with pytest.raises(BrokenPromiseError):
                    check_pairs(plan.model_copy(update={"steps": tuple(less)}))


@pytest.mark.parametrize("fault", ["half", "pairs that agree", "rows that count"])
def test_a_planner_that_overlooks_pairs_is_found(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    true_losses, true_square = PairLosses.losses, square_of_pair

    def losses(self: PairLosses, parts: Sequence[Part], weights: Sequence[float]) -> Reals:
        found = true_losses(self, parts, weights)
        if fault == "pairs that agree":  # in no attribute
            found[1:, 1:] = 0
        if fault == "rows that count":  # nowhere
            found[1:] = 0
        return found / 2 if fault == "half" else found

    monkeypatch.setattr(PairLosses, "losses", losses)
    if fault == "half":
        monkeypatch.setattr(
            "dprelease.plan.lower.lowered_workload.square_of_pair", lambda *given: true_square(*given) / 2
        )
    plan = planned_anew(text_of((3, 2), "[1, 2]"))
    assert worst_of(plan, 1) > float(2 * total_rho(Composed(events=plan.events))) * 1.2
    with pytest.raises(BrokenPromiseError):
        verify(plan)


def changed(plan: ReleasePlan, **update: object) -> ReleasePlan:
    return plan.model_copy(update={"steps": (plan.steps[0].model_copy(update=update), *plan.steps[1:])})


def test_a_bound_of_all_draws_is_of_all_draws() -> None:
    plan = planned((3, 2), "[1, 2]")
    with pytest.raises(BrokenPromiseError, match="and others"):
        check_pairs(changed(plan, common=None))
    with pytest.raises(BrokenPromiseError, match="without pairs"):
        check_pairs(plan.model_copy(update={"neighboring": planned((3, 2), "[1]", relation="add_remove").neighboring}))
    with pytest.raises(BrokenPromiseError, match="no draw of a workload"):
        check_pairs(plan.model_copy(update={"workloads": ()}))
    with pytest.raises(BrokenPromiseError, match="on no lattice"):
        check_pairs(changed(plan, residual=None))
    with pytest.raises(BrokenPromiseError, match="another noise"):
        check_pairs(changed(plan, mechanism="discrete_laplace"))


@st.composite
def workloads(draw: st.DrawFn) -> tuple[tuple[int, ...], Tree, list[Part], list[float]]:
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    roots = draw(st.integers(1, 2))
    parents, above = [], roots
    for _ in range(draw(st.integers(0, 2))):
        more = draw(st.lists(st.integers(0, above - 1), max_size=2))
        parents.append(np.array([*range(above), *more], dtype=np.int64))
        above += len(more)
    tree, parts = Tree(roots, tuple(parents)), []
    for _ in range(draw(st.integers(1, 6))):
        axes = tuple(sorted(draw(st.sets(st.sampled_from(range(len(sizes)))))))
        contrasted = draw(st.booleans()) and all(sizes[at] > 1 for at in axes)
        parts.append(Part(draw(st.integers(0, tree.levels - 1)), axes, contrasted, Fraction(1)))
    weights = [draw(st.floats(0, 5)) for _ in parts]
    return sizes, tree, parts, weights


@settings(max_examples=few(200, 40), deadline=None)
@given(workloads())
def test_sums_over_draws_are_those_of_all_pairs_of_cells(
    workload: tuple[tuple[int, ...], Tree, list[Part], list[float]],
) -> None:
    sizes, tree, parts, weights = workload
    cells = list(product(range(tree.sizes[-1]), *map(range, sizes)))
    rows = []
    for node, *place in cells:
        nodes = [node]
        for above in reversed(tree.parents):
            nodes.insert(0, int(above[nodes[0]]))
        found = []
        for part, weight in zip(parts, weights, strict=True):
            one = np.eye(tree.sizes[part.level])[nodes[part.level]]
            for at in part.axes:
                here = np.eye(sizes[at])[place[at]]
                one = np.kron(one, here - 1 / sizes[at] if part.residual else here)
            found.append(one * weight**0.5)
        rows.append(np.concatenate(found))
    every = np.array([*rows, np.zeros(len(rows[0]))])
    true = max(float(((every - one) ** 2).sum(axis=1).max()) for one in every)
    pairs = PairLosses(sizes, tree)
    worst, pair = pairs.worst(parts, weights)
    assert worst == pytest.approx(true, rel=1e-9, abs=1e-12)
    exact = sum(float(square_of_pair(part, sizes, pair)) * weight for part, weight in zip(parts, weights, strict=True))
    assert exact == pytest.approx(true, rel=1e-9, abs=1e-12)
    losses = pairs.losses(parts, weights)
    shares = np.random.default_rng(7).random(losses.shape)
    shares /= shares.sum()
    means = pairs.mean_squares(shares, parts)
    assert float((means * weights).sum()) == pytest.approx(float((shares * losses).sum()), rel=1e-9, abs=1e-12)


def test_a_workload_of_too_many_columns_is_charged_draw_by_draw() -> None:
    assert not PairLosses((2,) * 17, Tree.flat()).is_few
    assert PairLosses((2,) * 16 + (1,) * 5, Tree.flat()).is_few


def test_no_workload_has_more_noise_than_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for sizes, ways, levels in (case.values for case in CASES):
        now = planned(sizes, ways, levels=levels)  # type: ignore[arg-type]
        with monkeypatch.context() as patched:
            patched.setattr(workload_pairs, "_MOST_COLUMNS", -1)
            before = planned_anew(text_of(sizes, ways, levels=levels), {"geo": GEO.encode()})  # type: ignore[arg-type]
        assert all(step.common is None for step in before.steps)
        assert "common" not in json.loads(before.canonical())["steps"][0]
        verify(before)
        mean_now, mean_before = (sum(float(each.standard_error or 0) ** 2 for each in p.outputs) for p in (now, before))
        assert mean_now <= mean_before * (1 + 1e-6)


@pytest.mark.parametrize("accounting", ["basic", "advanced"])
def test_accountants_of_boxes_have_the_plans_that_they_had(accounting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of((3, 2), "[1, 2]", accounting=accounting)
    now = planned_anew(text)
    assert all(step.common is None for step in now.steps)
    monkeypatch.setattr(workload_pairs, "_MOST_COLUMNS", -1)
    assert planned_anew(text).canonical() == now.canonical()


def some(scales: Sequence[int], commons: Sequence[Fraction | None]) -> tuple[DiscreteGaussian, ...]:
    reach = Sensitivity(l0=4, l1=Fraction(4000), l2_squared=Fraction(4 * 10**6), linf=Fraction(1000))
    pairs = zip(scales, commons, strict=True)
    return tuple(DiscreteGaussian(scale=Fraction(scale), sensitivity=reach, common=common) for scale, common in pairs)


def test_accounts_that_add_rho_and_the_law_of_the_loss_take_the_common_square() -> None:
    whole = some((9000, 4000), (Fraction(10**6), Fraction(2 * 10**6)))
    mu_squared = sum((each.squared / each.scale**2 for each in whole), Fraction(0))
    event, delta = Composed(events=whole), Fraction(1, 10**9)
    assert total_rho(event) == mu_squared / 2
    exact = gaussian.epsilon(mu_squared, delta)
    assert exact <= ACCOUNTANTS["pld"].epsilon(event, delta) <= exact * (1 + Fraction(1, 10**5))
    alone = Composed(events=some((9000, 4000), (None, None)))
    for name in ("basic", "advanced"):  # boxes are of one draw each
        assert ACCOUNTANTS[name].epsilon(event, delta) == ACCOUNTANTS[name].epsilon(alone, delta)
    for name in ("pld", "zcdp", "rdp"):
        assert ACCOUNTANTS[name].epsilon(event, delta) < ACCOUNTANTS[name].epsilon(alone, delta)


def test_noise_of_few_steps_is_read_draw_by_draw() -> None:
    """Below 16 steps no Gaussian bound is proved; lattice laws are of one draw, so that none is read together."""
    reach, delta = Sensitivity.of_one_cell(1), Fraction(1, 10**9)
    small = DiscreteGaussian(scale=Fraction(8), sensitivity=reach, common=Fraction(0))
    (large,) = some((9000,), (Fraction(10**6),))
    alone = [each.model_copy(update={"common": None}) for each in (small, large)]
    pld = ACCOUNTANTS["pld"]
    assert pld.epsilon(Composed(events=(small, large)), delta) == pld.epsilon(Composed(events=tuple(alone)), delta)


def test_a_part_of_draws_that_are_bounded_together_is_bounded_draw_by_draw() -> None:
    whole = some((9000, 4000, 2000), (Fraction(10**6), Fraction(2 * 10**6), None))
    assert some_of(whole, (0, 1, 2)) == whole
    assert some_of(whole, (0, 1)) == whole[:2]
    assert [each.common for each in some_of(whole, (0, 2)) if isinstance(each, DiscreteGaussian)] == [None, None]
    grown = of_event(whole[0], 3)
    assert isinstance(grown, DiscreteGaussian)
    assert grown.common == 9 * 10**6
    assert grown.sensitivity.l2_squared == 36 * 10**6


def test_what_is_told_of_one_column_covers_rows_that_differ_in_it_alone() -> None:
    """Only some draws depend on it, and they may cost more than their part of what all draws cost together."""
    text = text_of((2, 2, 2), "[1, 2]")
    for at in range(3):  # a condition is true or false of every row, so that all rows count whatever a column holds
        kept = f"c{at}: {{sql: 'a{at} > 0', type: boolean, keys: [false, true], null: false}}"
        given = f"a{at}: {{type: integer, range: [0, 9]}}\n      {kept}"
        text = text.replace(f"c{at}: {{type: integer, keys: {{from: 1, to: 2}}}}", given)
    plan = plan_of(text)
    assert all(step.common is not None for step in plan.steps)
    moves, cells = answers(plan), list(product(range(2), repeat=3))
    told = {each.attribute[1]: each for each in semantics(plan) if each.attribute is not None}
    for at in range(3):
        same = [
            (a, b) for a, b in product(range(len(cells)), repeat=2) if without(cells[a], at) == without(cells[b], at)
        ]
        mu_squared = Fraction(max(float(((moves[a] - moves[b]) ** 2).sum()) for a, b in same))
        meaning = told[f"a{at}"]
        assert meaning.loss is not None
        assert meaning.draws < len(plan.steps)
        assert gaussian.epsilon(mu_squared, meaning.loss.delta) <= meaning.loss.epsilon


def without(cell: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*cell[:at], *cell[at + 1 :])


def test_nothing_is_spent_on_a_declared_number_of_rows() -> None:
    """It is public where its owner declares it; else its draw costs next to nothing where a row replaces another."""
    text = text_of((3, 2), "[0, 1]")
    everybody = "  everybody:\n    table: people\n    by: []\n    measures: {rows: {count: rows}}\n"
    declared = plan_of(f"{text}{everybody}invariants:\n  - {{query: everybody, measure: rows, why: It is declared}}\n")
    assert [take.axes for take in declared.workloads[0].takes if take.step == declared.invariants[0].id] == [()]
    ways = {take.step: take.axes for take in declared.workloads[0].takes}
    assert sorted(ways[step.id] for step in declared.steps) == [(0,), (1,)]
    verify(declared)
    drawn = plan_of(text)
    ways = {take.step: take.axes for take in drawn.workloads[0].takes}
    (total,) = (step for step in drawn.steps if ways[step.id] == ())
    assert total.common == 0
    two = [{each.query: float(each.standard_error or 0) for each in plan.outputs} for plan in (declared, drawn)]
    for name in ("w__c0", "w__c1"):
        assert two[0][name] < two[1][name] < 1.1 * two[0][name]


def test_one_draw_alone_costs_what_its_own_sensitivity_says() -> None:
    plan = planned((3, 2), "[1, 2]")
    for step in plan.steps:
        assert total_rho(Composed(events=(step.alone,))) == step.sensitivity.l2_squared / step.scale**2 / 2


def test_counts_beyond_64_bits_are_contrasted_in_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two draws of one table must not clamp different rows of it; what one answer moves never grows by clamping."""
    monkeypatch.setattr(drawing, "add_noise", lambda kind, numbers, scale, sampler: numbers)
    step = next(each for each in planned((3, 2), "[1, 2]").steps if each.residual and len(each.residual.axes) == 2)
    residual = step.residual
    assert residual is not None
    counts = np.arange(residual.slices * 6, dtype=np.int64) * 5
    counts[0] = residual.most_rows + 3
    other = counts.copy()
    other[[0, 1]] += (-1, 1)
    before, after = (drawing.draw_residual(Exact(each), residual, Fraction(1)) for each in (counts, other))
    matrix = np.kron(3 * np.eye(3, dtype=object) - 1, 2 * np.eye(2, dtype=object) - 1) * residual.grain
    exact, moved = (np.array(matrix, dtype=object) @ each.astype(object) for each in (counts, other))
    assert [int(n) for n in before] == [max(-(2**61), min(2**61, int(n))) for n in exact]
    assert all(abs(int(a) - int(b)) <= abs(c - d) for a, b, c, d in zip(before, after, exact, moved, strict=True))
