"""Seconds of the processor for intervals by exact tests of the noise.

Usage: ``python -m bench.intervals [CELLS]`` (100,000). Shares, means and spreads of cells of 2 to 10,000 rows, behind
discrete Laplace and discrete Gaussian noise. Nothing is asserted; every line is meant to take 2 seconds at most.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import Measure, Noisy
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.ratio import PlannedRatio
from dprelease.measures.variance import Variance
from dprelease.noise import MECHANISMS

CONFIDENCE, HALF = Fraction(95, 100), 30_000
PAY = Column(name="pay", type="integer", range=Range(low=Fraction(0), high=Fraction(2 * HALF)))
TABLE = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(PAY,))
PART = Count(count="rows", where="pay < 5")
KINDS: dict[str, Measure] = {
    "shares": PlannedRatio(ratio=("part", "all"), of=(PART, Count(count="rows"))),
    "means": Mean(mean="pay", clip=(Fraction(0), Fraction(2 * HALF))),
    "spreads": Variance(variance="pay"),
}


def cells(measure: Measure, mechanism: str, count: int) -> list[Noisy]:
    """Noisy numbers of so many cells, of any mean and spread that is possible."""
    chance = np.random.default_rng(24)
    rows = np.rint(10 ** chance.uniform(0.3, 4, count))
    mean = chance.integers(1 - HALF, HALF, count).astype(float)
    deviation = np.minimum(chance.integers(0, HALF, count), HALF - np.abs(mean))

    def total(part: Quantity) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if part.kind == "square":
            return np.asarray(np.floor((mean**2 + deviation**2) / part.grain + 0.5) * rows - part.offset * rows)
        if part.kind == "sum":
            return np.asarray(mean * rows)
        return np.asarray(np.rint(rows * chance.uniform(0, 1, count)) if part.where else rows)

    found = []
    for part in measure.quantities(TABLE):
        law = MECHANISMS[mechanism].law(Fraction(8 * max(map(abs, part.contribution))))
        noise = chance.normal(0, law.variance**0.5, count)
        found.append(Noisy(part, np.rint(total(part) + noise).astype(np.int64), law))
    return found


def main(count: int) -> None:
    """One line for each kind and law."""
    for name, measure in KINDS.items():
        for mechanism in ("discrete_laplace", "discrete_gaussian"):
            noisy = cells(measure, mechanism, count)
            began = time.process_time()
            found = measure.estimate_tested(noisy, CONFIDENCE)
            took = time.process_time() - began
            told = 0 if found.ends is None else int(np.isfinite(found.ends[0]).sum())
            print(f"{name:8} {mechanism:18} {count:,} cells, {told:,} with an interval: {took:.2f} s of the processor")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
