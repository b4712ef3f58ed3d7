"""Columns that compare: joint weights by brute force, tests of the noise, what is refused, and plans that lie."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError, PlanError, SpecError
from dprelease.estimate.totals import design_of_tables
from dprelease.estimate.two_numbers import of_part_and_total, of_two_groups
from dprelease.estimate.workloads.reconcile import reconcile
from dprelease.measures.comparing.distances import noise_of_sum, stand_out
from dprelease.measures.comparing.parts import _brackets, share_reach, share_sets
from dprelease.noise import MECHANISMS
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.comparing.earlier import require_alike
from dprelease.spec.load import load
from tests.unit.compared import COLUMNS, SPEC, compared, measured, planned, truths

LEVEL = Fraction(95, 100)
SIZES = (3, 2, 4)
GAUSS, LAPLACE = (MECHANISMS[f"discrete_{name}"].law for name in ("gaussian", "laplace"))
DRAWN = {axes: GAUSS(Fraction(s)) for axes, s in {(0, 1, 2): 10, (0, 1): 7, (): 5, (2,): 6}.items()}


def responses(axes: tuple[int, ...], others: tuple[int, ...]) -> list[tuple[Any, Any, float]]:
    """For every cell of every draw by itself what it becomes in two tables: no formula of weights is used."""
    design = design_of_tables(SIZES, tuple(dict.fromkeys((axes, others))), DRAWN)
    values = [np.zeros(design.shape(0, take.axes)) for take in design.taken]
    found = []
    for take, numbers in zip(design.taken, values, strict=True):
        flat = numbers.reshape(-1)
        for at in range(flat.size):
            flat[at] = 1
            tables = reconcile(design, values)
            found.append((tables[0, axes].copy(), tables[0, others].copy(), take.variance))
            flat[at] = 0
    return found


@pytest.mark.parametrize(("axes", "total"), [((0, 1, 2), ()), ((0, 1, 2), (1, 2)), ((0, 2), (2,))])
def test_a_part_and_its_total_err_together_as_their_draws_say(axes: tuple[int, ...], total: tuple[int, ...]) -> None:
    one, two, both = of_part_and_total(SIZES, DRAWN, axes, total).moments
    pairs = [(part.reshape(-1)[0], whole.reshape(-1)[0], v) for part, whole, v in responses(axes, total)]
    assert one == pytest.approx(sum(a * a * v for a, _, v in pairs))
    assert two == pytest.approx(sum(b * b * v for _, b, v in pairs))
    assert both == pytest.approx(sum(a * b * v for a, b, v in pairs))


@pytest.mark.parametrize(("axes", "along"), [((0, 1, 2), 2), ((0, 1), 1), ((2,), 2)])
def test_two_groups_differ_by_what_their_draws_do_not_share(axes: tuple[int, ...], along: int) -> None:
    sums = of_two_groups(SIZES, DRAWN, axes, along)
    here, there = [0] * len(axes), [0] * len(axes)
    there[axes.index(along)] = 1
    brute = sum((a[(0, *here)] - a[(0, *there)]) ** 2 * v for a, _, v in responses(axes, axes))
    assert sum(n * (a - b) ** 2 * v for a, b, n, v in sums.parts) == pytest.approx(brute)


@pytest.mark.parametrize("law", [LAPLACE(Fraction(4)), GAUSS(Fraction(5))], ids=["Laplace", "Gauss"])
def test_p_values_and_margins_are_those_of_the_convolution(law: Any) -> None:
    at = np.arange(-200, 201)
    gaussian = "Gaussian" in type(law).__name__
    mass = np.exp(-((at / 5) ** 2) / 2) if gaussian else np.exp(-np.abs(at) / 4)
    both = np.convolve(mass / mass.sum(), mass / mass.sum())
    far = np.abs(np.arange(-400, 401))
    noise = noise_of_sum([(1.0, law), (-1.0, law)])
    for distance in (0, 1, 7, 20, 35):
        (found,) = noise.p_values(np.array([float(distance)]))
        assert found == pytest.approx(both[far >= distance].sum(), rel=1e-6)
    margin = noise.margin(LEVEL)
    assert both[far > margin].sum() <= 0.05 < both[far > margin - 1].sum()


def test_p_values_without_a_sum_are_never_too_small() -> None:
    """Of Laplace and Gaussian noise together, against the exact convolution."""
    at = np.arange(-300, 301)
    laplace, gauss = np.exp(-np.abs(at) / 4), np.exp(-((at / 5) ** 2) / 2)
    both = np.convolve(laplace / laplace.sum(), gauss / gauss.sum())
    far = np.abs(np.arange(-600, 601))
    distances = np.array([0.0, 3, 9, 15, 22, 40])
    found = noise_of_sum([(1.0, LAPLACE(Fraction(4))), (1.0, GAUSS(Fraction(5)))]).p_values(distances)
    exact = np.array([both[far >= each].sum() for each in distances])
    assert (found >= exact * (1 - 1e-9)).all()
    assert (found[1:] <= exact[1:] * 1.35).all()


def test_brackets_are_never_below_the_exact_margin_and_a_smaller_one_is_refused() -> None:
    sums = of_part_and_total((5,), {(0,): LAPLACE(Fraction(4))}, (0,), ())
    table = _brackets(sums, LEVEL)
    below = 0
    for share in np.random.default_rng(1).random(60):
        bracket = int(np.searchsorted(table.last, share))
        exact = share_reach(sums, float(share), LEVEL)
        assert table.reach[bracket] >= exact
        below += table.reach[bracket] * 0.95 < exact
    assert below == 60


def test_shares_know_that_the_total_is_of_the_same_draw() -> None:
    """The oracle's cell: 5 parts, a share of 0.2 and Laplace noise of scale 4; with two margins it would be 0.0420."""
    sums = of_part_and_total((5,), {(0,): LAPLACE(Fraction(4))}, (0,), ())
    low, high = share_sets(np.array([200.0]), np.array([1000.0]), sums, LEVEL)
    assert float(high[0] - low[0]) == pytest.approx(0.0208, rel=0.04)
    low, high = share_sets(np.array([-9.0, 30.0, 0.0]), np.array([40.0, 20.0, 0.0]), sums, LEVEL)
    assert low[0] == 0 < high[0] < 1 == high[1]
    assert np.isnan(low[2])


def test_marks_go_by_all_comparisons_together() -> None:
    chance = np.random.default_rng(3)
    assert np.mean([stand_out(chance.random(30), 0.05).any() for _ in range(2000)]) <= 0.05 + 0.02
    assert stand_out(np.array([0.04] * 30), 0.05).all()  # all thirty together are what noise makes once in 20


def test_columns_hold_values_in_their_intervals_and_totals_are_a_hundred() -> None:
    now, before = planned("{epsilon: 1}", 3, 4, 2024), planned("{epsilon: 1}", 3, 4, 2023)
    chance = np.random.default_rng(5)
    cells = np.full((2, 3, 4), 60)
    table = compared(now, measured(now, cells[0], chance), before, measured(before, cells[1], chance))
    columns = {each.name: each for each in table.measures}
    for each in table.measures:
        told = ~np.isnan(each.lower)
        assert (each.lower[told] <= each.value[told]).all()
        assert (each.value[told] <= each.upper[told]).all()
    totals = np.array([key == "_total" for key in table.keys[1]])
    assert (columns["share"].value[totals] == 100).all()
    assert columns["apart"].status.count("blank") == 3 + 3  # the group itself, and totals over the groups
    true = truths(table, *cells)
    assert np.nanmax(np.abs(columns["change"].value - true["change"])) < 100


WRONG = {
    "DPR-S431": "{a: {measure: n, share_of: total, change_from: previous}}",
    "DPR-S432": "{a: {measure: n, share_of: [kind]}}",
    "DPR-S434": "{a: {measure: m, change_from: previous}}",
    "DPR-S435": "{a: {measure: n, difference_from: {kind: 9}}}",
    "DPR-S436": "{a: {measure: mean, change_from: previous, show: percent}}",
    "DPR-S437": "{a: {measure: n, change_from: previous}}",
}


@pytest.mark.parametrize("code", WRONG)
def test_what_cannot_be_compared_is_refused_by_name(code: str) -> None:
    period = "spring" if code == "DPR-S437" else 2024
    measures = "{n: {count: rows}, mean: {mean: pay}}"
    text = SPEC.format(period=period, budget="{epsilon: 1}", areas=3, kinds=4, measures=measures, compare=WRONG[code])
    with pytest.raises(SpecError) as error:
        load(text, "spec.yaml")
    assert {each.code for each in error.value.problems} == {code}


def other(change: tuple[str, str]) -> ReleasePlan:
    text = SPEC.format(
        period=2023, budget="{epsilon: 2}", areas=3, kinds=4, measures="{n: {count: rows}}", compare=COLUMNS
    )
    from tests.planned import plan_of

    assert change[0] in text
    return plan_of(text.replace(*change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("to: 4", "to: 5"), "keys"),
        (("entity: person", "entity: household"), "unit"),
        (("by: [area, kind]", 'by: [area, kind]\n    where: "pay > 3"'), "other rows"),
        (("{count: rows}", '{count: rows, where: "pay > 3"}'), "defined otherwise"),
        (("totals: [[area]]", "totals: all"), "totals"),
        (("  people:\n    table", "  persons:\n    table"), "no such query"),
    ],
)
def test_another_definition_is_refused(change: tuple[str, str], says: str) -> None:
    with pytest.raises(PlanError, match="DPR-P331") as error:
        require_alike(planned("{epsilon: 1}", 3, 4, 2024), other(change), "2023")
    assert says in error.value.summary


def test_another_noise_and_the_period_in_a_condition_are_no_other_definition() -> None:
    now = planned("{epsilon: 1}", 3, 4, 2024)
    require_alike(now, other(("{epsilon: 2}", "{epsilon: 1/3}")), "2023")


def changed(plan: ReleasePlan, **fields: Any) -> ReleasePlan:
    (query,) = plan.queries
    return plan.model_copy(update={"queries": (query.model_copy(update=fields),)})


def test_plans_that_lie_about_what_they_compare_are_refused() -> None:
    plan = planned("{rho: 1/20, delta: 1e-9}", 3, 4, 2024)
    verify(plan)
    (query,) = plan.queries
    share = query.compare["share"]
    for lie in (
        {"share": share.model_copy(update={"share_of": ("kind",)})},
        {"share": share.model_copy(update={"measure": "m"})},
        {"share": share.model_copy(update={"change_from": "2023"})},
        {"n": share},
    ):
        with pytest.raises(BrokenPromiseError):
            verify(changed(plan, compare={**query.compare, **lie}))
    for name in ("share", "change", "apart"):
        outputs = tuple(
            each.model_copy(update={"standard_error": f"{float(each.standard_error or 0) * 0.99:.9f}"})
            if each.measure == name
            else each
            for each in plan.outputs
        )
        with pytest.raises(BrokenPromiseError, match="more accurate"):
            verify(plan.model_copy(update={"outputs": outputs}))
