"""What the rule of chosen clips is worth on real incomes and delays, beside the declared range and the best fixed clip.

The tables of decision 96: the error, noise and cut together, of a mean cell over 400 draws. Each figure is known to
about 5 %; a rule that left half or twice as many rows above, or noise that did not follow the clip, lies outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dprelease.audit.bounds import least_probability, most_probability
from dprelease.catalog.chosen_clip import ClipGrid
from dprelease.noise import ExactHistogram, ExponentialClip

DATA = Path(__file__).parents[3] / "shared" / "data"
Reals = npt.NDArray[np.float64]


def shared(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not beside the checkout")
    return DATA / name


@cache
def incomes() -> tuple[Reals, npt.NDArray[np.int64]]:
    """Incomes of people of 15 and older that have one, with the number of their area."""
    found = pd.read_csv(shared("nist_acs_national2019.csv"), dtype=str, usecols=["PUMA", "AGEP", "PINCP"])
    found = found[(found["AGEP"].astype(int) >= 15) & (found["PINCP"] != "N") & found["PINCP"].notna()]
    return found["PINCP"].astype(float).to_numpy().clip(0), pd.factorize(found["PUMA"])[0].astype(np.int64)


@cache
def delays() -> Reals:
    """Delays of departures, the early ones 0."""
    found = pq.read_table(shared("nycflights13.parquet"), columns=["dep_delay"]).column(0).drop_null()
    return np.asarray(found, dtype=np.float64).clip(0)


@cache
def customers() -> Reals:
    """What every customer of a shop paid for what was delivered."""
    found = pq.read_table(shared("online_retail.parquet")).to_pandas()
    found = found[(found["Quantity"] > 0) & (found["UnitPrice"] > 0) & found["CustomerID"].notna()]
    paid = (found["Quantity"] * found["UnitPrice"]).groupby(found["CustomerID"]).sum()
    return np.asarray(paid, dtype=np.float64)


def errors(
    values: Reals, cell: npt.NDArray[np.int64], step: int, top: int, rho: float, draws: int = 400
) -> dict[str, float]:
    """The relative error of a mean cell, of the rule (a tenth for the choice), of the range, and of the best clip."""
    cells = int(cell.max()) + 1
    true = np.bincount(cell, values)
    size = float(true.mean())
    grid = ClipGrid(top=top // step, step=Fraction(step), above=Fraction(2), share=Fraction(1, 10))

    def error(clip: float, budget: float) -> float:
        cut = np.bincount(cell, np.minimum(values, clip)) - true
        return math.sqrt(float((cut**2).mean()) + (clip**2) / (2 * budget)) / size

    mu = math.sqrt(2 * rho * 0.9)
    above = grid.rows_above(cells, (10**6 / mu) ** 2)
    steps = np.rint(values / step).astype(np.int64).clip(0, grid.top)
    distinct, counts = np.unique(steps, return_counts=True)
    box = ExactHistogram(1, np.zeros_like(distinct), distinct, counts.astype(np.int64))
    scale = Fraction(math.sqrt(4 / (8 * rho * 0.1)))
    drawn = [int(ExponentialClip().draw(box, grid.candidates, above, scale)[0]) * step for _ in range(draws)]
    rule = math.sqrt(np.mean([error(clip, 0.9 * rho) ** 2 for clip in drawn]))
    best = min(error(each * step, rho) for each in grid.candidates)
    return {"rule": 100 * rule, "whole": 100 * error(top, rho), "best": 100 * best}


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(("rho", "whole", "best", "rule"), [(0.015, 12.99, 5.32, 5.60), (0.15, 4.11, 2.10, 2.23)])
def test_incomes_of_twenty_areas(rho: float, whole: float, best: float, rule: float) -> None:
    values, area = incomes()
    assert (len(values), area.max() + 1) == (23_006, 20)
    found = errors(values, area, 100, 1_500_000, rho)
    assert found["whole"] == pytest.approx(whole, rel=0.02)
    assert found["best"] == pytest.approx(best, rel=0.03)
    assert found["rule"] == pytest.approx(rule, rel=0.05)


@pytest.mark.nightly
@pytest.mark.shared
@pytest.mark.parametrize(
    ("what", "n", "rho", "whole", "rule"),
    [
        ("incomes", 1_000, 0.015, 15.1, 9.8),
        ("incomes", 10_000, 0.015, 1.49, 1.09),
        ("incomes", 23_006, 0.15, 0.206, 0.182),
        ("delays", 10_000, 0.015, 5.37, 3.08),
        ("delays", 30_000, 0.15, 0.572, 0.395),
        ("customers", 4_338, 0.015, 33.5, 16.2),
        ("customers", 10_000, 0.15, 4.47, 3.65),
    ],
)
def test_single_totals(what: str, n: int, rho: float, whole: float, rule: float) -> None:
    """Of a sample of n values, of ten samples their mean: a total depends on the sample by a tenth."""
    files: dict[str, tuple[Callable[[], Reals], int, int]] = {
        "incomes": (lambda: incomes()[0], 100, 1_500_000),
        "delays": (delays, 1, 1_440),
        "customers": (customers, 10, 500_000),
    }
    read, step, top = files[what]
    values = read()
    chance, found = np.random.default_rng(1), []
    samples = 1 if n == len(values) else 10
    for _ in range(samples):
        part = chance.choice(values, n, replace=n > len(values))
        found.append(errors(part, np.zeros(n, dtype=np.int64), step, top, rho, 1_000 // samples))
    assert np.mean([each["whole"] for each in found]) == pytest.approx(whole, rel=0.06)
    assert np.mean([each["rule"] for each in found]) == pytest.approx(rule, rel=0.12)


CLIPS = (3, 2, 1)
REST, NEWCOMER, ABOVE = [2, 3, 3], 3, 3  # one row of 3 more: the clip of 3 gains by a half, that of 1 loses by as much


def proved_range(scale: Fraction, runs: int, miss: float = 1e-7) -> float:
    """The least range of the loss between two tables that differ by a row which so many choices of a clip prove.

    The loss of the clip that gains most, less that of the one that loses most, each by bounds that hold but for
    ``miss``: of laws whose losses lie in an interval of a length, it is above that length with four times ``miss``.
    """
    seen = []
    for rows in (REST, [*REST, NEWCOMER]):
        values, counts = np.unique(rows, return_counts=True)
        box = ExactHistogram(1, np.zeros_like(values), values.astype(np.int64), counts.astype(np.int64))
        drawn = np.array([ExponentialClip().draw(box, CLIPS, ABOVE, scale)[0] for _ in range(runs)])
        seen.append([int((drawn == clip).sum()) for clip in CLIPS])
    ends = [
        (
            math.log(least_probability(after, runs, miss) / most_probability(before, runs, miss)),
            math.log(least_probability(before, runs, miss) / most_probability(after, runs, miss)),
        )
        for before, after in zip(*seen, strict=True)
    ]
    return max(gain for gain, _ in ends) + max(loss for _, loss in ends)


@pytest.mark.parametrize("runs", [10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_an_audit_of_the_choice_proves_most_of_what_is_charged_and_no_more(runs: int) -> None:
    """At a scale of 2 rows a range of 2 / scale = 1 is charged; half of that scale, a unit counted half, is a breach."""
    charged = 1.0
    assert (0.83 if runs > 50_000 else 0.5) * charged <= proved_range(Fraction(2), runs) <= charged
    assert proved_range(Fraction(1), runs) > charged
