"""Variance and standard deviation: the grid of squares, the interval over the box of margins, blank and held cells."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import Noisy
from dprelease.measures.variance import Stddev, Variance
from dprelease.noise import MECHANISMS
from tests.tiers import few

LEVEL = Fraction(95, 100)


def table(low: str, high: str, step: str = "1") -> Table:
    within = Range(low=Fraction(low), high=Fraction(high))
    column = Column(name="x", type="decimal", range=within, step=Fraction(step))
    return Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(column,))


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        ("0", "1", "1"),
        ("0", "3", "1"),
        ("-5", "5", "1"),
        ("0", "65536", "1"),
        ("0", "100000", "1"),
        ("2", "9", "1/100"),
        ("0", "1000000000", "1/100"),
        ("-35000000000000", "35000000000000", "1"),
    ],
)
def test_a_square_is_centred_and_small(low: str, high: str, step: str) -> None:
    square, centred, _ = Variance(variance="x").quantities(table(low, high, step))
    least, most = square.contribution
    assert max(-least, most) <= 2**29
    assert abs(least + most) <= 1
    assert square.squares == (0, most - least)
    largest = max(abs(centred.low - centred.centre), abs(centred.high - centred.centre)) ** 2
    assert square.grain == max(1, -(-largest // 2**30))
    assert 10**9 * max(-least, most) < 2**62
    assert square.grain < 2**60


def inputs(spec: Table, values: tuple[int, int, int], scales: tuple[str, str, str]) -> list[Noisy]:
    quantities = Variance(variance="x").quantities(spec)
    laws = [MECHANISMS["discrete_gaussian"].law(Fraction(scale)) for scale in scales]
    return [Noisy(q, np.array([v]), law) for q, v, law in zip(quantities, values, laws, strict=True)]


@settings(max_examples=few(60), deadline=None)
@given(st.integers(-60, 60), st.integers(-40, 40), st.integers(1, 12), st.sampled_from(["0", "-3"]))
def test_the_interval_is_the_range_over_the_box(squares: int, sums: int, count: int, low: str) -> None:
    """By brute force over every whole number of the box, and reached at real counts between them or at its corners."""
    noisy = inputs(table(low, "6"), (squares, sums, count), ("2", "1", "1"))
    quantity = noisy[0].quantity
    third = 1 - (1 - LEVEL) / 3
    reach = [int(part.law.margin(third)) for part in noisy]
    cap = ((quantity.high - quantity.low) / 2) ** 2
    counts = np.unique(np.concatenate([np.linspace(max(1, count - reach[2]), max(1, count + reach[2]), 400)]))
    bounds = []
    for square, total in product((squares - reach[0], squares + reach[0]), range(sums - reach[1], sums + reach[1] + 1)):
        bounds.append(quantity.grain * (square / counts + quantity.offset) - (total / counts) ** 2)
    least, most = np.clip([np.min(bounds), np.max(bounds)], 0, cap)
    found = Variance(variance="x").estimate(noisy, LEVEL)
    assert 0 <= found.value[0] <= cap
    exact = max(found.value[0] - least, most - found.value[0])
    assert exact - 1e-9 <= found.margin[0] <= exact + 0.02
    root = Stddev(stddev="x").estimate(noisy, LEVEL)
    ends = max(root.value[0] - least**0.5, most**0.5 - root.value[0])
    assert root.value[0] == pytest.approx(found.value[0] ** 0.5)
    assert ends - 1e-6 <= root.margin[0] <= ends + 0.15


def test_rounded_squares_widen_the_margin_by_half_a_grain() -> None:
    """With no noise to speak of the error of rounding stays within the margin, and all of it is needed for some."""
    spec = table("0", "200000")
    variance = Variance(variance="x")
    square, centred, counted = variance.quantities(spec)
    draw = np.random.default_rng(5)
    law = MECHANISMS["discrete_laplace"].law(Fraction(1, 1000))
    needed = 0.0
    rounding = [0, 200_000, *[100_000 + x for x in (5, 15, 25, 35, 45, 55)]]  # squares end in a half of a grain of 10
    for rows in [np.array(rounding), *draw.integers(0, 200_001, size=(300, 8))]:
        steps = rows - centred.centre
        squares = sum(square.in_grains(int(x)) - square.offset for x in steps)
        noisy = [Noisy(q, np.array([v]), law) for q, v in [(square, squares), (centred, steps.sum()), (counted, 8)]]
        found = variance.estimate(noisy, LEVEL)
        mean = Fraction(int(rows.sum()), 8)
        exact = sum((int(x) - mean) ** 2 for x in rows) / 8
        assert square.grain / 2 <= found.margin[0] <= square.grain / 2 + 0.01
        needed = max(needed, abs(found.value[0] - float(exact)) / found.margin[0])
    assert 0.7 < needed <= 1


def test_cells_that_are_too_small_are_blank_and_values_stay_within_what_is_possible() -> None:
    spec = table("0", "10", "1/2")
    quantities = Variance(variance="x").quantities(spec)
    law = MECHANISMS["discrete_laplace"].law(Fraction(3))
    cells = [np.array([10**6, -(10**6), 5, 5]), np.array([0, 10**5, 5, 5]), np.array([4, 4, 0, -7])]
    noisy = [Noisy(q, values, law) for q, values in zip(quantities, cells, strict=True)]
    for measure, most in ((Variance(variance="x"), 25.0), (Stddev(stddev="x"), 5.0)):
        found = measure.estimate(noisy, LEVEL)
        assert found.value[:2].tolist() == [most, 0.0]
        for numbers in (found.value, found.margin, found.standard_error):
            assert np.isnan(numbers).tolist() == [False, False, True, True]
        assert np.all(found.margin[:2] <= most)


def test_the_standard_error_is_first_order_and_of_a_root_never_endless() -> None:
    """Against the spread of estimates under noise that is small beside the cell."""
    spec = table("0", "100")
    measure = Variance(variance="x")
    rows = np.array([10, 20, 20, 35, 70, 90, 90, 95] * 500)
    square = measure.quantities(spec)[0]
    exact = [int(((rows - 50) ** 2 - square.offset).sum()), int((rows - 50).sum()), len(rows)]
    draw = np.random.default_rng(11)
    scales = [20_000, 900, 20]
    values = [np.rint(e + draw.normal(0, s, 40_000)).astype(np.int64) for e, s in zip(exact, scales, strict=True)]
    quantities = measure.quantities(spec)
    laws = [MECHANISMS["discrete_gaussian"].law(Fraction(s)) for s in scales]
    noisy = [Noisy(q, v, law) for q, v, law in zip(quantities, values, laws, strict=True)]
    for each in (measure, Stddev(stddev="x")):
        found = each.estimate(noisy, LEVEL)
        assert np.median(found.standard_error) == pytest.approx(found.value.std(), rel=0.02)
    flat = [Noisy(q, np.array([v]), law) for q, v, law in zip(quantities, (-(10**9), 0, 4000), laws, strict=True)]
    assert np.isfinite(Stddev(stddev="x").estimate(flat, LEVEL).standard_error[0])


def test_what_is_expected_is_the_worst_cell_of_that_size() -> None:
    spec = table("0", "100")
    for measure in (Variance(variance="x"), Stddev(stddev="x")):
        quantities = measure.quantities(spec)
        laws = [MECHANISMS["discrete_laplace"].law(Fraction(s)) for s in (25_000, 1000, 20)]
        assert measure.expected(quantities, laws, LEVEL, None).why_null is not None
        told = measure.expected(quantities, laws, LEVEL, 3000)
        assert told.margin is not None
        assert told.standard_error is not None
        draw = np.random.default_rng(3)
        for _ in range(300):
            kinds = draw.integers(0, 101, size=draw.integers(1, 4))
            rows = np.sort(draw.choice(kinds, 3000)) - 50
            exact = [int((rows**2 - quantities[0].offset).sum()), int(rows.sum()), 3000]
            noisy = [Noisy(q, np.array([v]), law) for q, v, law in zip(quantities, exact, laws, strict=True)]
            found = measure.estimate(noisy, LEVEL)
            assert found.margin[0] <= told.margin * 1.001
            assert found.standard_error[0] <= told.standard_error * 1.000001
        larger = measure.expected(quantities, laws, LEVEL, 30_000)
        assert larger.margin is not None
        assert larger.margin < told.margin
