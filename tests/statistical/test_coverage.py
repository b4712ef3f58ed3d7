"""Do the published margins hold? True values made up, noise real, at least the nominal share covered.

Binomial tests, exact; each fails by chance once in 10^9 runs at most, and so does each that shows their power.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import Measure, Noisy, expand_measures
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.ranked_quantile import Quantile
from dprelease.measures.ratio import Ratio
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance
from dprelease.noise import MECHANISMS, Exact
from dprelease.noise.mechanisms.exponential import ScoreLaw

CONFIDENCE = Fraction(95, 100)
MISS = 1e-9
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


def covered(
    measure: Measure, exact: list[int], truth: float, mechanism: str, scales: list[Fraction], form: int = 0
) -> int:
    quantities = measure.alternatives(TABLE)[form]
    inputs = [
        noisy(quantity, np.full(CELLS, value, dtype=np.int64), mechanism, scale)
        for quantity, value, scale in zip(quantities, exact, scales, strict=True)
    ]
    estimate = measure.estimate(inputs, CONFIDENCE)
    shown = ~np.isnan(estimate.value)
    assert shown.mean() > 0.95
    return int((np.abs(estimate.value - truth) <= estimate.margin)[shown].sum() + (~shown).sum())


def weights_of(mechanism: str, scale: Fraction, k: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    size = float(scale)
    weight = np.exp(-np.abs(k) / size) if mechanism == "discrete_laplace" else np.exp(-(k**2) / (2 * size**2))
    return np.asarray(weight / weight.sum())


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_margins_of_counts_and_sums_cover_as_the_law_says(mechanism: str) -> None:
    """Discrete margins overshoot; the share must agree with the exact one of the law, and be 95 % or more."""
    cases: list[tuple[Measure, int, float, Fraction]] = [
        (Count(count="rows"), 40, 40.0, Fraction(7)),
        (Sum(sum="x"), 900, 450.0, Fraction(60)),
    ]
    for measure, exact, truth, scale in cases:
        hits = covered(measure, [exact], truth, mechanism, [scale])
        margin = MECHANISMS[mechanism].law(scale).margin(CONFIDENCE)
        k = np.arange(-4000, 4001)
        nominal = weights_of(mechanism, scale, k)[np.abs(k) <= margin].sum()
        assert nominal >= 0.95
        assert stats.binomtest(hits, CELLS, nominal).pvalue > MISS


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
@pytest.mark.parametrize(("rows", "mean"), [(30, 100.0), (400, 900.0), (5000, 500.0), (12, 1000.0)])
def test_margins_of_means_cover_at_least_what_they_say(mechanism: str, rows: int, mean: float) -> None:
    """The margin of a ratio is conservative by construction, and must not be idle: under 6 half-widths of the error."""
    measure = Mean(mean="x", clip=(Fraction(0), Fraction(1000)))
    centre = 1000
    exact = [int(rows * (2 * mean - centre)), rows]
    hits = covered(measure, exact, mean, mechanism, [Fraction(900), Fraction(3)])
    assert stats.binomtest(hits, CELLS, 0.95, alternative="less").pvalue > MISS


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_margins_of_numbers_from_two_draws_cover_as_the_law_of_the_sum_says(mechanism: str) -> None:
    """A count as half a sum, and a sum from a centred sum and a count: the share is that of the convolution."""
    cases: list[tuple[Measure, list[int], float, list[Fraction], int]] = [
        (Count(count="x"), [-7, 53], 23.0, [Fraction(12), Fraction(5)], 1),
        (Count(count="x"), [400, 400], 400.0, [Fraction(3, 2), Fraction(1, 2)], 1),
        (Sum(sum="x"), [-900, 80], 39550.0, [Fraction(60), Fraction(1, 2)], 1000),
        (Sum(sum="x", clip=(Fraction(0), Fraction(10))), [13, 30], 156.5, [Fraction(40), Fraction(3)], 10),
    ]
    for measure, exact, truth, scales, weight in cases:
        hits = covered(measure, exact, truth, mechanism, scales, form=1)
        one, other = (np.arange(-at, at + 1) for at in (int(40 * scale) + 20 for scale in scales))
        spaced = np.zeros((len(other) - 1) * weight + 1)
        spaced[::weight] = weights_of(mechanism, scales[1], other)
        both = np.convolve(weights_of(mechanism, scales[0], one), spaced)
        inside = np.cumsum(both)[len(both) // 2 :] * 2 - 1  # P(|X + w Y| <= m), for m = 0, 1, ...
        margin = int(np.argmax(inside >= 0.95 - 1e-12))
        told = measure.expected(
            measure.alternatives(TABLE)[1], [MECHANISMS[mechanism].law(scale) for scale in scales], CONFIDENCE, None
        )
        assert told.margin == margin / 2
        assert stats.binomtest(hits, CELLS, inside[margin]).pvalue > MISS


SPREADS = [
    [0.0, 1000.0] * 40,
    [500.0] * 60,
    [1000.0] * 50,
    [*[0.5] * 300, 990.5],
    [*np.arange(0, 1000, 2.5)],
    [3.0, 700.0] * 6,
]


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
@pytest.mark.parametrize("values", SPREADS, ids=range(len(SPREADS)))
@pytest.mark.parametrize(
    "scales", [(Fraction(250_000), Fraction(900), Fraction(3)), (Fraction(9000), Fraction(30), Fraction(1))]
)
def test_margins_of_spreads_cover_at_least_what_they_say(
    mechanism: str, values: list[float], scales: tuple[Fraction, ...]
) -> None:
    """Conservative by construction; the next test shows that they are not idle."""
    for measure, truth, inputs in spread_inputs(values, scales, mechanism):
        found = measure.estimate(inputs, CONFIDENCE)
        shown = ~np.isnan(found.value)
        assert shown.mean() > 0.95
        hits = int((np.abs(found.value - truth) <= found.margin)[shown].sum())
        assert stats.binomtest(hits, int(shown.sum()), 0.95, alternative="less").pvalue > MISS


def spread_inputs(
    values: list[float], scales: Sequence[Fraction], mechanism: str
) -> list[tuple[Variance | Stddev, float, list[Noisy]]]:
    """Variance and standard deviation with their truth, from the same 4,000 draws."""
    square, centred, counted = Variance(variance="x").quantities(TABLE)
    steps = [round(2 * value) - centred.centre for value in values]
    exact = [sum(square.in_grains(x) - square.offset for x in steps), sum(steps), len(steps)]
    parts = zip((square, centred, counted), exact, scales, strict=True)
    inputs = [noisy(q, np.full(4000, each, dtype=np.int64), mechanism, scale) for q, each, scale in parts]
    return [
        (Variance(variance="x"), float(np.var(values)), inputs),
        (Stddev(stddev="x"), float(np.std(values)), inputs),
    ]


def test_a_third_of_the_margin_of_a_spread_would_be_caught() -> None:
    values, scales = [*np.arange(0, 1000, 2.5)], [Fraction(250_000), Fraction(900), Fraction(3)]
    for measure, truth, inputs in spread_inputs(values, scales, "discrete_gaussian"):
        found = measure.estimate(inputs, CONFIDENCE)
        hits = int((np.abs(found.value - truth) <= found.margin / 3).sum())
        assert stats.binomtest(hits, 4000, 0.95, alternative="less").pvalue < MISS
        ratio = found.margin / found.standard_error
        assert np.median(ratio) < 6


def test_a_margin_of_half_the_size_would_be_caught() -> None:
    """Power: the same check fails for a margin that is half as wide."""
    law = MECHANISMS["discrete_gaussian"].law(Fraction(20))
    drawn = MECHANISMS["discrete_gaussian"].draw(Exact(np.zeros(CELLS, dtype=np.int64)), Fraction(20))
    hits = int((np.abs(drawn) <= law.margin(CONFIDENCE) // 2).sum())
    assert stats.binomtest(hits, CELLS, 0.95, alternative="less").pvalue < MISS


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


RANKS = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1))
SAMPLES = {
    "even": np.linspace(0, 1000, 301),
    "lumps": np.repeat([0.0, 250.0, 250.5, 1000.0], 60),
    "one": np.full(150, 400.0),
    "few": np.array([3.0, 990.0, 991.0]),
}


def chosen(values: npt.NDArray[np.float64], rank: Fraction, scale: float, cells: int) -> npt.NDArray[np.int64]:
    """Draws of the exponential mechanism on the grid of half units, by their weights."""
    grid = np.arange(2001) / 2
    below = np.searchsorted(np.sort(values), grid, side="left")
    above = len(values) - np.searchsorted(np.sort(values), grid, side="right")
    score = np.maximum(np.maximum(below - float(rank) * len(values), above - float(1 - rank) * len(values)), 0)
    weight = np.exp(-score / scale)
    return np.random.default_rng(int(scale) + len(values)).choice(2001, cells, p=weight / weight.sum())


def quantile_inputs(name: str, scale: int) -> list[Noisy]:
    values = SAMPLES[name]
    quantities = Quantile(quantile="x", at=RANKS[0], among=RANKS).alternatives(TABLE)[1]
    law = ScoreLaw(Fraction(scale), 2001)
    found = [
        Noisy(each, chosen(values, rank, float(scale), 4000), law)
        for each, rank in zip(quantities[:-1], RANKS, strict=True)
    ]
    count = np.full(4000, len(values), dtype=np.int64)
    return [*found, noisy(quantities[-1], count, "discrete_laplace", Fraction(4))]


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("scale", [1, 4])
def test_margins_of_quantiles_cover_at_least_what_they_say(name: str, scale: int) -> None:
    """Of every number that is a quantile of the values, the two ends included."""
    values, inputs = np.sort(SAMPLES[name]), quantile_inputs(name, scale)
    for rank in RANKS:
        found = Quantile(quantile="x", at=rank, among=RANKS).estimate(inputs, CONFIDENCE)
        n = len(values)
        ends = values[max(0, -(-rank * n // 1) - 1)], values[min(n - 1, rank * n // 1)]
        held = np.logical_and.reduce([np.abs(found.value - end) <= found.margin for end in ends])
        assert stats.binomtest(int(held.sum()), len(held), 0.95, alternative="less").pvalue > MISS


def test_a_margin_of_a_quantile_is_not_idle() -> None:
    """It is far from the whole clip; and ranks taken for nearer than they are would be caught."""
    inputs = quantile_inputs("even", 4)
    found = Quantile(quantile="x", at=RANKS[2], among=RANKS).estimate(inputs, CONFIDENCE)
    assert np.median(found.margin) < 450
    boldly = [Noisy(part.quantity, part.values, ScoreLaw(Fraction(1, 1000), 1)) for part in inputs[:-1]]
    close = (RANKS[0], Fraction(1, 2) - Fraction(1, 100), RANKS[2], Fraction(1, 2) + Fraction(1, 100), RANKS[4])
    drawn = [chosen(SAMPLES["even"], rank, 4.0, 4000) for rank in close]
    bold = [
        Noisy(part.quantity.model_copy(update={"at": rank}), values, part.law)
        for part, rank, values in zip(boldly, close, drawn, strict=True)
    ]
    found = Quantile(quantile="x", at=RANKS[2], among=close).estimate([*bold, inputs[-1]], CONFIDENCE)
    hits = int((np.abs(found.value - 500) <= found.margin).sum())
    assert stats.binomtest(hits, 4000, 0.95, alternative="less").pvalue < MISS


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
@pytest.mark.parametrize(("above", "below"), [(3, 30), (0, 12), (400, 400), (950, 1000), (2, 5)])
def test_margins_of_ratios_cover_at_least_what_they_say(mechanism: str, above: int, below: int) -> None:
    """A part of a whole, and the same two numbers where nothing says that one is a part of the other."""
    whole, part = Count(count="rows"), Count(count="rows", where="x > 3")
    for asked in ({"a": part, "b": whole}, {"a": Count(count="rows"), "b": part}):
        made = expand_measures({**asked, "r": Ratio(ratio=("a", "b"))})["r"]
        inputs = [
            noisy(quantity, np.full(CELLS, exact, dtype=np.int64), mechanism, Fraction(3))
            for quantity, exact in zip(made.quantities(TABLE), (above, below), strict=True)
        ]
        found = made.estimate(inputs, CONFIDENCE)
        shown = ~np.isnan(found.value)
        hits = int((np.abs(found.value - above / below) <= found.margin)[shown].sum() + (~shown).sum())
        assert stats.binomtest(hits, CELLS, 0.95, alternative="less").pvalue > MISS
        third = int((np.abs(found.value - above / below) <= found.margin / 4)[shown].sum())
        if below >= 400:
            assert stats.binomtest(third, int(shown.sum()), 0.95, alternative="less").pvalue < MISS
