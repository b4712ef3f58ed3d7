"""Seconds and memory to compare two large releases, as ``dprelease diff`` does it once it has read their bundles.

Usage: ``python -m bench.compare [--tables 4] [--cells 1000000] [--moved 0.001]``. Two releases of one plan of as many
counts and means, with that many cells together, and made-up measurements of them; of the second one a part of the
counts has moved far. Printed are the seconds, how much memory was taken more than before, and what was found. Nothing
here is asserted; a million cells with two numbers each are meant to take a few seconds.
"""

from __future__ import annotations

import argparse
import resource
import time
from fractions import Fraction

import numpy as np

from bench.publish import release
from dprelease.noise import Measurement
from dprelease.publish.bundle.compare import Released, compare_releases


def _later(measured: dict[str, Measurement], part: float) -> dict[str, Measurement]:
    """The same numbers, but for a part of the counts."""
    generator = np.random.default_rng(2)
    return {
        name: Measurement(name, each.values + 2000 * (generator.random(len(each.values)) < part))
        if name.endswith(".persons")
        else each
        for name, each in measured.items()
    }


def main() -> None:
    """Print what it takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--moved", type=float, default=0.001)
    asked = parser.parse_args()
    plan, measured = release(asked.tables, asked.cells)
    pair = (Released(plan, measured), Released(plan, _later(measured, asked.moved)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.perf_counter()
    found = compare_releases(*pair, Fraction(95, 100))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{asked.tables} tables, {asked.cells} cells with two numbers each, {asked.moved:.1%} of the counts moved")
    print(f"{seconds:.1f} s, {peak - before:.2f} GB more than the {before:.2f} GB of the two releases")
    print(f"{found.compared} numbers compared, {found.left_out} left out, {len(found.changes)} moved")


if __name__ == "__main__":
    main()
