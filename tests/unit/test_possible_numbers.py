"""Intervals that are never a point, rates that are known to be parts, numbers that are no zero, and flags by default."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.expressions.expression import known_where, parse
from dprelease.catalog.table import ColumnType
from dprelease.errors import BrokenPromiseError
from dprelease.estimate import interval
from dprelease.measures.ratio import PlannedRatio
from dprelease.noise import MECHANISMS
from dprelease.plan.document import Publish, ReleasePlan
from dprelease.plan.verify.form import check_form
from dprelease.plan.verify.mathematics.truth import outcomes
from dprelease.publish.numbers import with_margin
from dprelease.spec.load import load
from tests.planned import plan_of
from tests.reference_expressions import evaluate

CONFIDENCE = Fraction(95, 100)
RATES = """dprelease: 1
release: {name: rates, period: 2024}
privacy: {unit: {entity: flight}, budget: {epsilon: 1}}
tables:
  flights:
    account: a
    source: {file: f.csv}
    columns:
      carrier: {type: text, keys: [AA, UA]}
      delay: {type: integer}
queries:
  q:
    table: flights
    by: [carrier]
    measures:
      sampled: {count: delay}
      late: {count: rows, where: "delay > 15"}
      rate: {ratio: [late, sampled]}
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-38, (0, 37)), (-1, (0, 37)), (0, (0, 37)), (5, (0, 42)), (50, (13, 87))],
)
def test_a_negative_count_is_at_most_a_margin_above_zero(value: float, expected: tuple[float, float]) -> None:
    """-38 with a margin of 37 was published as 0 to 0, as surely as 95 %."""
    lower, upper = interval(np.array([float(value)]), np.array([37.0]), (Fraction(0), None), grid=Fraction(1), nearest=True)  # fmt: skip
    assert (lower[0], upper[0]) == expected


@given(
    value=st.floats(-1e9, 1e9),
    margin=st.floats(1e-6, 1e9),
    low=st.integers(-1000, 1000),
    width=st.integers(1, 1000),
    share=st.fractions(0, 1),
)
def test_the_nearest_interval_holds_all_that_the_plain_one_does_and_is_no_point(
    value: float, margin: float, low: int, width: int, share: Fraction
) -> None:
    possible = (Fraction(low), Fraction(low + width))
    (lower,), (upper,) = interval(np.array([value]), np.array([margin]), possible, nearest=True)
    true = low + share * width
    if abs(Fraction(value) - true) <= Fraction(margin):
        assert Fraction(lower) <= true <= Fraction(upper)
    assert upper - lower >= min(margin, width / 2) * (1 - 1e-9)
    assert low <= lower <= upper <= low + width


@pytest.mark.parametrize("true", [0, 1, 3, 10, 40])
@pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian"])
def test_it_covers_by_the_law_of_the_noise_and_a_margin_too_small_is_found_out(name: str, true: int) -> None:
    """The probability itself, summed over all draws that matter; with two thirds of the margin it is too small."""
    law = MECHANISMS[name].law(Fraction(10))
    margin = law.margin(CONFIDENCE)
    draws = np.arange(-600, 601)
    size = np.exp(-np.abs(draws) / 10.0) if name == "discrete_laplace" else np.exp(-(draws**2) / 200.0)
    chances = size / size.sum()

    def covered(reach: float) -> float:
        values = true + draws.astype(float)
        lower, upper = interval(values, np.full(values.shape, reach), (Fraction(0), None), grid=Fraction(1), nearest=True)  # fmt: skip
        return float(chances[(lower <= true) & (true <= upper)].sum())

    assert covered(margin) >= 0.95
    assert true < 10 or covered(margin * 2 // 3) < 0.95  # a number at 0 is held by every interval that begins there


@pytest.mark.parametrize(
    ("value", "margin", "places", "told"),
    [(-0.536, 1370, None, "−0.536"), (1.062, 1370, None, "1.06"), (0.0, 1370, None, "0"), (3, 1370, 0, "3"),
     (-12.0, 1370, 0, "−10"), (0.0004, 0.5, None, "0.000400"), (0.3, 0.5, None, "0.300")],
)  # fmt: skip
def test_a_number_is_shown_as_zero_only_where_it_is(value: float, margin: float, places: int | None, told: str) -> None:
    """Rates of -0.536 and 1.062 were all shown as 0 beside a margin of 1,370."""
    assert with_margin(value, margin, places)[0] == told


TYPES: dict[str, ColumnType] = {"x": "integer", "y": "integer", "b": "boolean", "t": "text"}
VALUES = {"x": (None, -1, 0, 16), "y": (None, 0, 3), "b": (None, True, False), "t": (None, "", "a")}
CONDITIONS = {
    "x > 15": {"x"}, "NOT x > 15": {"x"}, "x > 15 AND y = 0": {"x", "y"}, "x > 15 OR y = 0": set(),
    "x > 0 OR x < y": {"x"}, "NOT (x > 15 OR y = 0)": {"x", "y"}, "NOT (x > 15 AND y = 0)": set(), "x IS NULL": set(),
    "x IS NOT NULL": {"x"}, "NOT x IS NULL AND b": {"x", "b"}, "x IN (0, 16)": {"x"}, "x NOT IN (0, 16)": {"x"},
    "x BETWEEN y AND 20": {"x", "y"}, "x NOT BETWEEN y AND 20": {"x", "y"}, "COALESCE(x, 16) > 15": set(),
    "NULLIF(x, y) > 0": {"x"}, "CASE WHEN b THEN x ELSE 16 END > 15": set(), "x + y > 15": {"x", "y"}, "b": {"b"},
    "NOT b": {"b"}, "b OR NOT b": {"b"}, "ABS(x) = 1 AND LENGTH(t) = 1": {"x", "t"}, "(x > 15) IS NULL": set(),
    "(x > 15) IS NOT NULL": {"x"}, "LEAST(x, y) = 0": {"x", "y"}, "CAST(t AS INTEGER) = 1": {"t"}, "x <> x": {"x"},
    "(x IS NULL) = b": {"b"}, "(x > 0 OR y > 0) = b": {"b"}, "NOT (NOT x > 15)": {"x"}, "TRUE": set(),
}  # fmt: skip


@pytest.mark.parametrize(("text", "known"), CONDITIONS.items())
def test_a_condition_implies_values_as_evaluating_every_row_says(text: str, known: set[str]) -> None:
    condition = parse(text, TYPES)
    rows = [dict(zip(VALUES, each, strict=True)) for each in product(*VALUES.values())]
    true = [row for row in rows if evaluate(condition, row) is True]
    found = known_where(condition.root)
    assert found == known
    assert all(row[name] is not None for row in true for name in found)
    for name in TYPES:  # the verifier's own route says yes wherever the plan does, and is right by itself
        allowed = "true" in outcomes(condition.root, name)
        assert allowed or all(row[name] is not None for row in true)
        assert not (name in found and allowed)


def rate(plan: ReleasePlan) -> PlannedRatio:
    found = plan.queries[0].measures["rate"]
    assert isinstance(found, PlannedRatio)
    return found


def test_late_departures_are_among_those_with_a_delay() -> None:
    """It was held for any ratio of counts, and published as -0.536, 1.062 and 0 +- 1,370."""
    plan = plan_of(RATES)
    assert rate(plan).implied
    assert rate(plan).bounds(()) == (Fraction(0), Fraction(1))
    check_form(plan)
    for other in ("delay IS NULL", "carrier = 'AA'", "delay > 15 OR carrier = 'AA'"):
        plan = plan_of(RATES.replace("delay > 15", other))
        assert not rate(plan).implied
        assert "implied" not in plan.canonical()
        queries = (plan.queries[0].model_copy(update={"measures": {**plan.queries[0].measures, "rate": rate(plan).model_copy(update={"implied": True})}}),)  # fmt: skip
        with pytest.raises(BrokenPromiseError, match="need not be counted below"):
            check_form(plan.model_copy(update={"queries": queries}))


def test_a_number_is_unreliable_where_half_its_interval_is_two_thirds_of_it_unless_a_spec_says_otherwise() -> None:
    plan = plan_of(RATES)
    assert (plan.publish.unreliable_above, plan.publish.unreliable_show) == (Fraction(2, 3), "flag")
    never = plan_of(RATES + "publish: {unreliable: {relative_error_above: none}}\n")
    assert never.publish.unreliable_above is None
    own = plan_of(RATES + "publish: {unreliable: {relative_error_above: 0.2, show: blank}}\n")
    assert (own.publish.unreliable_above, own.publish.unreliable_show) == (Fraction(1, 5), "blank")
    loaded = load(RATES + "publish: {unreliable: {relative_error_above: none}}\n", "s")
    assert type(loaded.spec).from_canonical(loaded.spec.canonical()) == loaded.spec


def test_what_was_planned_before_has_no_such_default_and_keeps_its_text() -> None:
    old = Publish.from_canonical('{"confidence":"19/20","formats":["csv"],"unreliable_above":null,"unreliable_show":"flag"}')  # fmt: skip
    assert old.unreliable_above is None
    assert old.intervals is None
    assert (
        old.canonical() == '{"confidence":"19/20","formats":["csv"],"unreliable_above":null,"unreliable_show":"flag"}'
    )
