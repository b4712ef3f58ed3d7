"""What fuzzed specs found, each as small as it could be made (``tests/fuzz``)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dprelease.errors import SpecError
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.plan.verify.mathematics.delta import delta_of
from dprelease.plan.verify.mathematics.draws import Cell, Draw
from dprelease.plan.verify.totals import _gaussian_variance
from dprelease.plan.verify.whole_plan import verify
from dprelease.spec.load import load
from tests.planned import SPEC, plan_of
from tests.unit.series_example import swapped


def test_an_invariant_of_no_query_behind_another_problem_is_no_traceback() -> None:
    text = SPEC + "invariants: [{query: '', measure: n, why: w}, {query: none, measure: n, why: w}]\n"
    with pytest.raises(SpecError) as refused:
        load(text, "spec.yaml")
    assert {problem.code for problem in refused.value.problems}


def test_a_plan_of_next_to_no_epsilon_verifies() -> None:
    """The verifier's integral was good to four digits of delta there, and refused what is true."""
    text = SPEC.replace("{epsilon: 1, delta: 1e-9}", "{epsilon: 1e-9, delta: 1/2}\n  noise: laplace")
    plan = plan_of(text)
    assert verify(plan).delta <= Fraction(1, 2)


def test_what_delta_alone_pays_for_is_planned_by_its_targets() -> None:
    """A loss of 0 at that delta has no logarithm, and the planner ended in a traceback."""
    text = SPEC.replace("{epsilon: 1, delta: 1e-9}", "{epsilon: 1e-9, delta: 1/2}")
    text = text.replace("share: 2", "target: {persons: {margin: 300}}").replace(
        "measures: {persons: {count: rows}}}", "target: {persons: {margin: 300}}, measures: {persons: {count: rows}}}"
    )
    plan = plan_of(text)
    assert verify(plan).delta <= Fraction(1, 2)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(909, 1000), Fraction(2), Fraction(399, 100), Fraction(5)])
def test_the_verifiers_variance_of_gaussian_noise_is_that_of_its_law(scale: Fraction) -> None:
    """At small scales it is less than the square of the scale, and a comparison that was told right was refused."""
    assert _gaussian_variance(float(scale)) == pytest.approx(DiscreteGaussianLaw(scale).variance, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-4, 0.01, 0.5, 1.9])
def test_delta_of_a_few_cells_is_the_sum_over_all_noise(epsilon: float) -> None:
    draws: dict[Draw, int] = {
        ((Cell("laplace", Fraction(3, 2), 2),),): 1,
        ((Cell("laplace", Fraction(7), 5),),): 2,
        ((Cell("pure", Fraction(1, 3)),),): 1,
    }
    laws = []
    for scale, shift, often in ((1.5, 2, 1), (7.0, 5, 2)):
        noise = np.arange(-300, 300 + shift)
        q = math.exp(-1 / scale)
        mass = (1 - q) / (1 + q) * q ** np.abs(noise)
        loss = np.round((np.abs(noise - shift) - np.abs(noise)) / scale, 12)
        values, which = np.unique(loss, return_inverse=True)
        laws += [list(zip(values.tolist(), np.bincount(which, mass).tolist(), strict=True))] * often
    third = 1 / (1 + math.exp(-1 / 3))
    laws.append([(1 / 3, third), (-1 / 3, 1 - third)])
    true = math.fsum(
        math.prod(p for _, p in each) * max(0.0, -math.expm1(epsilon - sum(loss for loss, _ in each)))
        for each in product(*laws)
    )
    assert delta_of(draws, Fraction(epsilon)) == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize(
    "keys",
    ["keys: [1], bin: age", "bin: age, edges: [5]", "keys: {from: 0, to: 10000000000000}", "keys: {from: 9, to: 1}"],
)
@pytest.mark.parametrize("asks", ["totals: all", "compare: {d: {measure: n, differences_between: area}}"])
def test_wrong_keys_are_told_where_they_are_and_are_no_traceback_elsewhere(keys: str, asks: str) -> None:
    """Totals and comparisons took them to be sound: bands without edges, and spans of more keys than memory holds."""
    text = f"""\
dprelease: 1
release: {{name: r, period: 2024, title: t}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: 1, delta: 1e-9}}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      age: {{type: integer, range: [0, 100]}}
      area: {{type: integer, {keys}}}
queries:
  q: {{table: people, by: [area], measures: {{n: {{count: rows}}}}, {asks}}}
"""
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    assert "area" in str(caught.value)


_WEIGHT = ("    columns:", "    weight: {column: w, clip: 5, step: 1}\n    columns:")


@pytest.mark.parametrize(("changes", "told"), [((), True), ((_WEIGHT,), False)])
def test_a_share_of_a_series_is_one_where_rows_count_as_often_in_both_of_its_numbers(
    changes: tuple[tuple[str, str], ...], told: bool
) -> None:
    """What is counted without weights where there are none was no part of a whole to the planner, and one to ``verify``."""
    measures = (
        "{all: {count: rows}, long: {count: rows, where: 'hours > 3', weighted: false}, share: {ratio: [long, all]}}"
    )
    text = swapped(
        ("{visits: {count: rows}}", f"{measures}\n    expect: {{all: 100}}"),
        ("      sex: {", "      w: {type: integer}\n      sex: {"),
        *changes,
    )
    plan = plan_of(text)
    verify(plan)
    errors = {each.measure: each.standard_error for each in plan.outputs}
    assert [errors[name] is not None for name in ("share", "share_last_3")] == [told, told]
