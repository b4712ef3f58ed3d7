"""Noise of planned workloads beside the least that is known: of large ones, of small ones, and along a column.

Usage: ``python -m bench.workloads [--parts large,small,lines] [--keys 10,30,100,128,250,1000]``. Everything is planned
from a spec, to integer noise at its certified scales. Nothing is asserted.

* *large*: fifteen workloads of five domains at (1, 1e-6), as tables, cells or the worst cell count, beside what no
  Gaussian noise can be below: the closed form of ResidualPlanner, worked out here from the sizes of the domain alone,
  and for the worst cell the dual bound of ``plan.design.residuals.minimax``.
* *small*: workloads of few cells at four budgets, on accounts of three compositions, beside the least that is known of
  any noise (``KNOWN``: found by search outside of this code; and K-norm noise by ``bench.scalars``). Above 1.01, what
  the plan says of what it passed over is printed.
* *lines*: prefixes and all ranges, beside the dual bound of ``bench.lines``.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations

from bench.crosstabs import spec_of
from bench.lines import WHICH, total_bound
from bench.scalars import knorm_std, reason
from bench.strategy import MU
from dprelease.estimate.ranges import variances_of
from dprelease.plan.design.residuals import Workload, minimax
from dprelease.plan.document import ReleasePlan
from tests.ledgers import account
from tests.planned import planned_anew

Sizes = tuple[int, ...]
Ways = tuple[int, ...]

LARGE: tuple[Sizes, ...] = (
    (4, 2, 6, 8, 10),
    (29, 18, 17, 5, 4, 18, 18),
    (6, 6, 5, 5, 4, 3, 7, 7, 6),
    (15, 31, 42, 16, 56, 32, 12, 55, 4, 50, 7, 31),
    (78, 89, 95, 30, 33, 35, 6, 67, 45, 6, 6, 37, 67, 5),
)
WAYS: tuple[Ways, ...] = ((0, 1, 2, 3), (1, 2), (1,))
BUDGETS = (("1", "1e-6"), ("0.5", "1e-9"), ("4", "1e-10"), ("10", "1e-12"))
ACCOUNTS = ("zcdp", "pld", "basic")
TOLD = 1.01

KNOWN: dict[tuple[Sizes, Ways], tuple[float, ...]] = {
    ((2, 3), (2,)): tuple(knorm_std(1, float(epsilon)) for epsilon, _ in BUDGETS),
    ((6, 6), (1,)): (2.2880, 4.6203, 0.4292),
    ((6,) * 3, (1,)): (3.1906, 6.4098, 0.7084),
    ((6,) * 5, (1,)): (4.9730, 9.9628, 1.1960),
    ((6,) * 10, (1,)): (9.4007, 18.810, 2.3285),
    ((30,) * 5, (1,)): (6.7008,),
    ((30,) * 10, (1,)): (12.89,),
    ((5, 4, 3, 2), (2,)): (4.668, 9.629, 0.671),
    ((5, 4, 3, 2), (1, 2)): (6.253, 13.28, 0.925),
    ((2, 3), (1, 2)): (1.919, 3.959, 0.276),
    ((4, 2, 6), (2,)): (2.714, 5.598, 0.390),
    ((4, 2, 6, 8, 10), (2,)): (10.70, 27.70, 2.62),
    ((2,) * 5, (1,)): tuple(knorm_std(5, float(epsilon)) for epsilon, _ in BUDGETS),
    ((2,) * 10, (1,)): tuple(knorm_std(10, float(epsilon)) for epsilon, _ in BUDGETS),
}
"""Root of the mean over tables of the variance of a cell, at each budget for which it is known."""


def planned(text: str, composition: str) -> ReleasePlan:
    """On an account that is large enough and composes so."""
    terms = account(composition=composition, epsilon="1000", delta="1e-5")  # type: ignore[arg-type]  # one of three
    return planned_anew(text, None, [terms])


def errors(plan: ReleasePlan) -> dict[str, tuple[float, int]]:
    """Of each table the standard error of a cell, and how many cells it has."""
    told = {output.query: float(output.standard_error or "nan") for output in plan.outputs}
    return {query.name: (told[query.name], plan.catalog.tables[query.table].cells(query.by)) for query in plan.queries}


def mean_square(pairs: Iterable[tuple[float, float]]) -> float:
    """The root of the mean square of errors with weights."""
    pairs = list(pairs)
    return math.sqrt(math.fsum(w * e * e for e, w in pairs) / math.fsum(w for _, w in pairs))


def least(sizes: Sizes, ways: Ways, *, by_cell: bool) -> float:
    """Root mean squared standard error of the best Gaussian noise (Xiao et al. 2023, ResidualPlanner), at (1, 1e-6).

    The variance of table A is the sum over its parts b of s_b p_b prod over A without b of n^-2, and mu^2 the sum of
    p_b / s_b, with p_b the product of (n - 1) / n: the least weighted sum is (sum of sqrt(v_b p_b))^2 / mu^2.
    """
    asked = [each for way in ways for each in combinations(range(len(sizes)), way)]
    weights = [math.prod(sizes[j] for j in each) if by_cell else 1 for each in asked]
    parts: dict[tuple[int, ...], float] = {}
    for each, weight in zip(asked, weights, strict=True):
        for part in (b for k in range(len(each) + 1) for b in combinations(each, k)):
            beyond = math.prod(sizes[j] for j in each if j not in part)
            parts[part] = parts.get(part, 0.0) + weight / beyond**2
    root = math.fsum(
        math.prod((sizes[j] - 1) / sizes[j] for j in part) * math.sqrt(sum_) for part, sum_ in parts.items()
    )
    return root / MU / math.sqrt(sum(weights))


def large() -> Iterator[str]:
    """A line for each workload: the noise and its ratio to the least, for each of three aims."""
    yield f"{'large, (1, 1e-6)':60}{'tables':>20}{'cells':>20}{'worst':>20}"
    for sizes in LARGE:
        for ways in WAYS:
            line = f"{f'{sizes}, ways {ways}':60}"[:75].ljust(60)
            for aim in ("tables", "cells", "worst"):
                found = errors(planned(spec_of(sizes, ways, "{epsilon: 1, delta: 1e-6}", aim), "zcdp")).values()
                if aim == "worst":
                    ours, bound = (
                        max(e for e, _ in found),
                        math.sqrt(minimax(Workload.ways(sizes, ways), MU**2).lower_bound),
                    )
                else:
                    ours = mean_square((e, n if aim == "cells" else 1) for e, n in found)
                    bound = least(sizes, ways, by_cell=aim == "cells")
                line += f"{ours:12.4f}{ours / bound:8.5f}"
            yield line


def small() -> Iterator[str]:
    """A line for each workload and budget: the ratio on each account; and then what was passed over."""
    reasons = []
    yield f"\n{'small':40}{'(epsilon, delta)':20}{'known':>9}" + "".join(f"{name:>9}" for name in ACCOUNTS)
    for (sizes, ways), known in KNOWN.items():
        for (epsilon, delta), best in zip(BUDGETS, known, strict=False):
            budget = f"{{epsilon: {epsilon}, delta: {delta}}}"
            line = f"{f'{sizes}, ways {ways}':40}{f'({epsilon}, {delta})':20}{best:9.4f}"
            for name in ACCOUNTS:
                plan = planned(spec_of(sizes, ways, budget), name)
                times = mean_square((e, 1) for e, _ in errors(plan).values()) / best
                line += f"{times:9.3f}"
                if times > TOLD:
                    reasons.append(f"  {sizes} {ways} ({epsilon}, {delta}) {name} {times:.3f}: {reason(plan)}")
            yield line
    yield f"\n{len(reasons)} entries above {TOLD}; what their plans say:"
    yield from reasons


def lines(keys: Iterable[int]) -> Iterator[str]:
    """A line for each number of keys: the root of the mean variance of all sums, and its ratio to the bound."""
    yield f"\n{'keys, (1, 1e-6)':20}{'prefixes':>20}{'all':>20}"
    for n in keys:
        line = f"{n:<20}"
        for which in WHICH:
            head = spec_of((n,), (1,), "{epsilon: 1, delta: 1e-6}").split("queries:")[0]
            asked = f"ranges: {{of: a0, which: {which}}}, measures: {{n: {{count: rows}}}}"
            (step,) = planned(f"{head}queries:\n  r: {{table: people, by: [a0], {asked}}}\n", "zcdp").steps
            variances = variances_of(step.factor, n, which)
            ours = math.sqrt(step.law.variance * float(variances.mean()))
            bound = math.sqrt(total_bound(n, which) / len(variances)) / MU
            line += f"{ours:12.4f}{ours / bound:8.4f}"
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(description="Noise of planned workloads beside the least that is known.")
    parser.add_argument("--parts", default="large,small,lines")
    parser.add_argument("--keys", default="10,30,100,128,250,1000")
    given = parser.parse_args()
    began = time.process_time()
    keys = [int(each) for each in given.keys.split(",")]
    made: Mapping[str, Callable[[], Iterator[str]]] = {"large": large, "small": small, "lines": partial(lines, keys)}
    for part in given.parts.split(","):
        for line in made[part]():
            print(line, flush=True)
    print(f"\n{time.process_time() - began:.1f} s of CPU")


if __name__ == "__main__":
    main()
