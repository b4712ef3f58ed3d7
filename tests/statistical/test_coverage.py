"""Do the published margins hold? True values made up, noise real, at least the nominal share covered."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import Measure, Noisy
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.noise import MECHANISMS, Exact

CONFIDENCE = Fraction(95, 100)
CELLS = 20_000
TABLE = Table(
    name="t",
    account="a",
    source=Source(file="t.csv", format="csv"),
    columns=(Column(name="x", type="decimal", range=Range(low=Fraction(0), high=Fraction(1000)), step=Fraction(1, 2)),),
)


def noisy(quantity: Quantity, exact: npt.NDArray[np.int64], mechanism: str, scale: Fraction) -> Noisy:
    drawn = MECHANISMS[mechanism].draw(Exact(exact), scale)
    return Noisy(quantity=quantity, values=drawn, law=MECHANISMS[mechanism].law(scale))


def covered(measure: Measure, exact: list[int], truth: float, mechanism: str, scales: list[Fraction]) -> int:
    quantities = measure.quantities(TABLE)
    inputs = [
        noisy(quantity, np.full(CELLS, value, dtype=np.int64), mechanism, scale)
        for quantity, value, scale in zip(quantities, exact, scales, strict=True)
    ]
    estimate = measure.estimate(inputs, CONFIDENCE)
    shown = ~np.isnan(estimate.value)
    assert shown.mean() > 0.95
    return int((np.abs(estimate.value - truth) <= estimate.margin)[shown].sum() + (~shown).sum())


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_margins_of_counts_and_sums_cover_as_the_law_says(mechanism: str) -> None:
    """Discrete margins overshoot; the share must agree with the exact one of the law, at 1e-6, and be 95 % or more."""
    cases: list[tuple[Measure, int, float, Fraction]] = [
        (Count(count="rows"), 40, 40.0, Fraction(7)),
        (Sum(sum="x"), 900, 450.0, Fraction(60)),
    ]
    for measure, exact, truth, scale in cases:
        hits = covered(measure, [exact], truth, mechanism, [scale])
        margin = MECHANISMS[mechanism].law(scale).margin(CONFIDENCE)
        k = np.arange(-4000, 4001)
        weight = (
            np.exp(-np.abs(k) / float(scale))
            if mechanism == "discrete_laplace"
            else np.exp(-(k**2) / (2 * float(scale) ** 2))
        )
        nominal = weight[np.abs(k) <= margin].sum() / weight.sum()
        assert nominal >= 0.95
        assert stats.binomtest(hits, CELLS, nominal).pvalue > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
@pytest.mark.parametrize(("rows", "mean"), [(30, 100.0), (400, 900.0), (5000, 500.0), (12, 1000.0)])
def test_margins_of_means_cover_at_least_what_they_say(mechanism: str, rows: int, mean: float) -> None:
    """The margin of a ratio is conservative by construction, and must not be idle: under 6 half-widths of the error."""
    measure = Mean(mean="x", clip=(Fraction(0), Fraction(1000)))
    centre = 1000
    exact = [int(rows * (2 * mean - centre)), rows]
    hits = covered(measure, exact, mean, mechanism, [Fraction(900), Fraction(3)])
    assert stats.binomtest(hits, CELLS, 0.95, alternative="less").pvalue > 1e-6


def test_a_margin_of_half_the_size_would_be_caught() -> None:
    """Power: the same check fails for a margin that is half as wide."""
    law = MECHANISMS["discrete_gaussian"].law(Fraction(20))
    drawn = MECHANISMS["discrete_gaussian"].draw(Exact(np.zeros(CELLS, dtype=np.int64)), Fraction(20))
    hits = int((np.abs(drawn) <= law.margin(CONFIDENCE) // 2).sum())
    assert stats.binomtest(hits, CELLS, 0.95, alternative="less").pvalue < 1e-6


def test_a_mean_of_an_empty_cell_is_blank() -> None:
    measure = Mean(mean="x")
    summed, counted = measure.quantities(TABLE)
    law = MECHANISMS["discrete_laplace"].law(Fraction(2))
    inputs = [Noisy(summed, np.array([5, 5]), law), Noisy(counted, np.array([-1, 4]), law)]
    estimate = measure.estimate(inputs, CONFIDENCE)
    assert np.isnan(estimate.value).tolist() == [True, False]
    assert np.isnan(estimate.margin).tolist() == [True, False]


def test_a_mean_never_leaves_its_clip() -> None:
    measure = Mean(mean="x", clip=(Fraction(100), Fraction(200)))
    summed, counted = measure.quantities(TABLE)
    law = MECHANISMS["discrete_laplace"].law(Fraction(2))
    estimate = measure.estimate(
        [Noisy(summed, np.array([10**9, -(10**9)]), law), Noisy(counted, np.array([1, 1]), law)], CONFIDENCE
    )
    assert estimate.value.tolist() == [200.0, 100.0]
