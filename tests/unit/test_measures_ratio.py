"""Ratios: the range over the box, parts of a whole, blanks, and what an author can write."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import AnyMeasure, AskedMeasure, Measure, Noisy, expand_measures
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.ratio import PlannedRatio, Ratio
from dprelease.measures.sum import Sum
from dprelease.noise import MECHANISMS

LEVEL = Fraction(95, 100)
COLUMNS = (
    Column(name="x", type="integer", range=Range(low=Fraction(0), high=Fraction(10))),
    Column(name="y", type="integer", range=Range(low=Fraction(-5), high=Fraction(5))),
)
TABLE = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=COLUMNS)
ASKED: dict[str, Measure] = {
    "n": Count(count="rows"),
    "poor": Count(count="rows", where="x < 3"),
    "s": Sum(sum="x"),
    "y": Sum(sum="y"),
    "m": Mean(mean="y"),
    "rate": Ratio(ratio=("poor", "n")),
    "mean": Ratio(ratio=("s", "n")),
    "loose": Ratio(ratio=("s", "y")),
    "back": Ratio(ratio=("n", "poor")),
    "over_mean": Ratio(ratio=("n", "m")),
    "over_sum": Ratio(ratio=("n", "s")),
    "self": Ratio(ratio=("n", "n")),
}


def ratio(name: str) -> PlannedRatio:
    found = expand_measures(ASKED)[name]
    assert isinstance(found, PlannedRatio)
    return found


def noisy(measure: Measure, values: list[list[int]], scale: str = "3") -> list[Noisy]:
    law = MECHANISMS["discrete_laplace"].law(Fraction(scale))
    quantities = measure.quantities(TABLE)
    return [Noisy(q, np.array(each), law) for q, each in zip(quantities, values, strict=True)]


def test_a_plan_spells_out_what_a_ratio_is_of() -> None:
    found = ratio("rate")
    assert found.of == (ASKED["poor"], ASKED["n"])
    assert TypeAdapter(AnyMeasure).validate_json(found.canonical()) == found
    assert TypeAdapter(AnyMeasure).validate_json(ASKED["rate"].canonical()) == ASKED["rate"]
    assert (found.kind, ASKED["rate"].kind) == ("ratio", "ratio")
    with pytest.raises(ValidationError):
        TypeAdapter(AskedMeasure).validate_json(found.canonical())


def test_a_ratio_has_no_condition_of_its_own() -> None:
    with pytest.raises(ValidationError, match="give it to its two measures"):
        Ratio(ratio=("a", "b"), where="x > 1")


def test_parts_of_a_whole_are_known_as_such() -> None:
    shares = {name: ratio(name).is_share for name in ("rate", "mean", "loose", "back", "self")}
    assert shares == {"rate": True, "mean": False, "loose": False, "back": False, "self": True}
    of_column = expand_measures({**ASKED, "x": Count(count="x"), "r": Ratio(ratio=("poor", "x"))})["r"]
    assert isinstance(of_column, PlannedRatio)
    assert not of_column.is_share  # a row can be poor and have no x


@pytest.mark.parametrize(("name", "tops", "bottoms"), [("rate", (0, 7, 40), (1, 9, 50)), ("mean", (0, 90, 400), (1, 30, 60)), ("back", (0, 30), (1, 12)), ("over_sum", (3, 40), (1, 60))])  # fmt: skip
def test_the_margin_reaches_every_corner_of_the_box(name: str, tops: tuple[int, ...], bottoms: tuple[int, ...]) -> None:
    measure = ratio(name)
    half = 1 - (1 - LEVEL) / 2
    reach = int(MECHANISMS["discrete_laplace"].law(Fraction(3)).margin(half))
    pairs = list(product(tops, bottoms))
    found = measure.estimate(noisy(measure, [[a for a, _ in pairs], [b for _, b in pairs]]), LEVEL)
    for at, (a, b) in enumerate(pairs):
        corners = [
            top / bottom
            for top in range(a - reach, a + reach + 1)
            for bottom in range(max(1, b - reach), b + reach + 1)
        ]
        if measure.is_share:
            corners = [min(max(corner, 0.0), 1.0) for corner in corners]
        exact = max(found.value[at] - min(corners), max(corners) - found.value[at])
        assert found.margin[at] == pytest.approx(exact)


def test_a_ratio_is_blank_where_what_it_is_over_is_not_above_zero() -> None:
    measure = ratio("rate")
    found = measure.estimate(noisy(measure, [[5, 5, 5, 5], [-3, 0, 1, 200]]), LEVEL)
    assert np.isnan(found.value).tolist() == [True, True, False, False]
    assert found.value[2:].tolist() == [1.0, 0.025]
    over = ratio("over_mean")
    table = noisy(over, [[5, 5, 5], [-60, 0, 700], [30, 30, 200]])
    assert np.isnan(over.estimate(table, LEVEL).value).tolist() == [True, True, False]


def test_a_ratio_over_what_may_be_zero_has_no_margin() -> None:
    measure = ratio("loose")
    found = measure.estimate(noisy(measure, [[90, 90], [4, 400]]), LEVEL)
    assert np.isnan(found.value).tolist() == [False, False]
    assert np.isnan(found.margin).tolist() == [True, False]


def test_numbers_that_share_a_draw_are_not_taken_for_independent() -> None:
    apart, same = ratio("rate"), ratio("self")
    one = apart.estimate(noisy(apart, [[40], [40]]), LEVEL).standard_error[0]
    both = same.estimate(noisy(same, [[40], [40]]), LEVEL).standard_error[0]
    assert both == pytest.approx(one * 2**0.5)


@pytest.mark.parametrize("name", ["rate", "mean"])
def test_what_is_expected_is_the_worst_that_a_cell_of_that_size_has(name: str) -> None:
    measure = ratio(name)
    laws = [MECHANISMS["discrete_laplace"].law(Fraction(3))] * 2
    told = measure.expected(measure.quantities(TABLE), laws, LEVEL, 100)
    assert told.margin is not None
    assert told.standard_error is not None
    tops = list(range(101)) if name == "rate" else list(range(0, 1001, 10))
    found = measure.estimate(noisy(measure, [tops, [100] * len(tops)]), LEVEL)
    assert found.margin.max() <= told.margin * (1 + 1e-12)
    assert found.margin.max() >= told.margin * 0.98
    assert found.standard_error.max() == pytest.approx(told.standard_error)
    assert measure.expected(measure.quantities(TABLE), laws, LEVEL, None).why_null is not None


def test_what_cannot_be_expected_says_why() -> None:
    measure = ratio("loose")
    laws = [MECHANISMS["discrete_laplace"].law(Fraction(3))] * 2
    assert measure.expected(measure.quantities(TABLE), laws, LEVEL, 100).why_null is not None
