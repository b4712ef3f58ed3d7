"""How near the noise of sums along thousands of keys is to the least that any Gaussian noise can have.

Usage: ``python -m bench.lines [1000,2048,4096]``. For prefixes and for all ranges it prints how many times the noise
(the root of the mean variance of all sums) of the draw that plans take is what no Gaussian noise can go below: by the
bound that is told in n log n steps, and by the one here with the processor seconds that it took.

The bound is the dual of the factorization norm (``plan.design.ranges.optimal_gaussian``): for weights l of the cells
that add up to 1, with ``D = diag(sqrt l)``, the total squared error is at least ``trace((D W'W D)^(1/2))^2``. *Any*
weights prove that, so they may come from anywhere. They are found for 512 keys, where a round is cheap, and stretched:
beside those that ``least_mean_variance`` takes, in proportion to the squared diagonal of ``(W'W)^(1/2)``, they hardly
depend on the number of keys. One spectrum without vectors is then all that is left to work out for many keys, and all
ranges look the same from both ends, so that theirs is that of two halves (of what is even and what is odd about the
middle). The spectrum is in floats; what these may be off is taken from the bound.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from dprelease.catalog.factor import factor_sensitivity
from dprelease.catalog.mirrored import Mirror
from dprelease.estimate.ranges import Which, rows_of_a_line, variances_of
from dprelease.plan.design.mirrored import Reals, least_mean_variance
from dprelease.plan.design.ranges import prefix_gram, range_gram
from dprelease.plan.lower.ranges import mirrored_factor
from dprelease.privacy.unit import Neighboring

SMALL, ROUNDS = 512, 40
GRAMS = {"prefixes": prefix_gram, "all": range_gram}
WHICH: tuple[Which, ...] = ("prefixes", "all")


def usual(keys: int, which: Which) -> Reals:
    """The squared diagonal of ``(W'W)^(1/2)``, but for a factor, from its sines and cosines."""
    cells = np.arange(1, keys + 1)
    if which == "all":
        angles = np.arange(1, keys + 1) * np.pi / (keys + 1)
        found = (np.sin(np.outer(cells, angles)) ** 2 / np.sin(angles / 2)).sum(axis=1)
    else:
        angles = (2 * np.arange(1, keys + 1) - 1) * np.pi / (2 * keys + 1)
        found = (np.cos(np.outer(cells - 0.5, angles)) ** 2 / np.sin(angles / 2)).sum(axis=1)
    return np.asarray(found**2)


def weights(keys: int, which: Which) -> Reals:
    """Of so many cells, which add up to 1 and are near the best."""
    few = min(keys, SMALL)
    gram, start = GRAMS[which](few), usual(few, which)
    found = start / start.sum()
    for _ in range(ROUNDS):
        root = np.sqrt(found)
        values, vectors = np.linalg.eigh(gram * np.outer(root, root))
        found = (vectors**2) @ np.sqrt(np.maximum(values, 0))
        found /= found.sum()
    if keys > few:
        ratio = found / start
        stretched = np.interp((np.arange(keys) + 0.5) / keys, (np.arange(few) + 0.5) / few, ratio)
        found = stretched * usual(keys, which)
    return np.asarray(found / found.sum())


def total_bound(keys: int, which: Which) -> float:
    """What the total squared error of no Gaussian noise at mu = 1 is below."""
    root = np.sqrt(weights(keys, which))
    if which == "all":
        root = (root + root[::-1]) / 2
    matrix = GRAMS[which](keys)
    matrix *= root[:, None]
    matrix *= root
    scale = 1 / float(root @ root)
    values = np.concatenate([np.linalg.eigvalsh(part) for part in _parts(matrix, even=which == "all")])
    off = keys * float(np.abs(values).max()) * 2.0**-52
    return float(np.sqrt(np.maximum(values - off, 0)).sum()) ** 2 * scale


def _parts(matrix: Reals, *, even: bool) -> list[Reals]:
    """Matrices whose spectra are together that of one that is the same from both ends; else itself."""
    half, rest = divmod(len(matrix), 2)
    if not even:
        return [matrix]
    near, far = matrix[:half, :half], matrix[:half, : -half - 1 : -1]
    if not rest:
        return [near + far, near - far]
    side = math.sqrt(2) * matrix[:half, half]
    return [
        np.block([[near + far, side[:, None]], [side[None, :], matrix[half : half + 1, half : half + 1]]]),
        near - far,
    ]


def error(keys: int, which: Which) -> float:
    """The total squared error of what plans draw, at mu = 1."""
    factor = mirrored_factor((keys,), 0, which)
    squared = float(factor_sensitivity(factor, 1, Neighboring.ADD_REMOVE).l2_squared)
    return squared * float(variances_of(factor, keys, which).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description="Sums along many keys beside the least error of Gaussian noise.")
    parser.add_argument("sizes", nargs="?", default="1000,2048,4096", help="numbers of keys")
    print(f"{'keys':>6} {'sums':10} {'noise, quick bound':>19} {'noise, this bound':>18} {'seconds':>8}")
    for keys in map(int, parser.parse_args().sizes.split(",")):
        for which in WHICH:
            kind: Mirror = "mirrored_prefixes" if which == "prefixes" else "mirrored_ranges"
            ours, quick = error(keys, which), least_mean_variance(keys, kind) * rows_of_a_line(keys, which)
            before = time.process_time()
            least = total_bound(keys, which)
            took = time.process_time() - before
            times = (math.sqrt(ours / each) for each in (quick, least))
            print(f"{keys:6} {which:10} " + "{:19.5f} {:18.5f}".format(*times) + f" {took:8.1f}", flush=True)


if __name__ == "__main__":
    main()
