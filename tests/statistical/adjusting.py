"""What non-negative and whole tables cost in bias and error: the table of ``docs/measures/workloads.md``.

``python -m tests.statistical.adjusting`` draws a made-up country of 3 regions, 30 districts and 300 towns 100 times: 42
cells per town (sex, age band of 3, 7 groups), 10 people in a cell on average and none in about half of them. At each
level the total, the three one-way tables and the joint table are drawn as tables, with one variance. "Squared" is
`nonnegative` by squared distance alone, without the precision of the estimates: what its search begins with.
``python -m tests.statistical.adjusting exact`` has the 7 groups of every district exact beside them: the table of
``docs/how-to/invariants.md``.
"""

from __future__ import annotations

import sys

import numpy as np

from dprelease.estimate.adjust import adjusted
from dprelease.estimate.workloads.design import Axes, Design, Floats, Table, Tree, WorkloadDraw
from dprelease.estimate.workloads.nonnegative import marginals, nonnegative
from dprelease.estimate.workloads.reconcile import node_variances, reconcile

SIZES = (2, 3, 7)
SETS: tuple[Axes, ...] = ((), (0,), (1,), (2,), (0, 1, 2))
KINDS = {"consistent": (False, False), "integer": (False, True), "nonnegative": (True, False), "both": (True, True)}
SHOWN = ("consistent", "integer", "squared", "nonnegative", "both")
EXACT: Table = (1, (2,))  # the 7 groups of every district
ROWS: tuple[tuple[str, Table], ...] = (
    ("the country's regions: totals", (0, ())),
    ("districts: totals", (1, ())),
    ("towns: totals", (2, ())),
    ("towns: 2 sexes", (2, (0,))),
    ("towns: 3 age bands", (2, (1,))),
    ("towns: 7 groups", (2, (2,))),
    ("towns: joint cells", (2, (0, 1, 2))),
)


def country(rng: np.random.Generator, exact: Table | None = None) -> tuple[Design, dict[Table, Floats]]:
    """What is drawn, and the true tables; of an exact one nothing else, nor of what it says."""
    tree = Tree(3, (np.repeat(np.arange(3), 10), rng.integers(0, 30, 300)))
    towns = rng.gamma(2, 0.5, (300, 1, 1, 1)) * rng.gamma(0.25, 40, (300, *SIZES))
    joint = [rng.poisson(towns).astype(np.float64)]
    for parents, above in zip(reversed(tree.parents), reversed(tree.sizes[:-1]), strict=True):
        joint.insert(0, np.zeros((above, *SIZES)))
        np.add.at(joint[0], parents, joint[1])
    taken = tuple(WorkloadDraw(level, axes, False, 25.0) for level in range(3) for axes in SETS)
    if exact is not None:
        unknown = (each for each in taken if each.level > exact[0] or not set(each.axes) <= set(exact[1]))
        taken = (*unknown, WorkloadDraw(*exact, False, 0.0))
    return Design(SIZES, tree, SETS, taken), {
        table: found.astype(np.float64) for table, found in marginals(SETS, joint).items()
    }


def measured(draws: int, seed: int = 1, exact: Table | None = None) -> dict[str, dict[Table, Floats]]:
    """By kind and table: errors of every draw, shape (draws, cells)."""
    rng = np.random.default_rng(seed)
    design, truth = country(rng, exact)
    found: dict[str, dict[Table, list[Floats]]] = {kind: {table: [] for table in design.tables} for kind in SHOWN}
    for _ in range(draws):
        values = [
            truth[take.level, take.axes]
            + np.rint(rng.normal(0, take.variance**0.5, truth[take.level, take.axes].shape))
            for take in design.taken
        ]
        tables = reconcile(design, values)
        joint = [tables[level, SETS[-1]] for level in range(3)]
        by_kind = {"squared": marginals(SETS, nonnegative(design, joint, rounds=0))}
        for kind, (non_negative, integer) in KINDS.items():
            by_kind[kind] = adjusted(design, tables, non_negative=non_negative, integer=integer, key=rng.bytes(32))
        for kind, made in by_kind.items():
            for table, each in made.items():
                found[kind][table].append((each.astype(np.float64) - truth[table]).ravel())
    return {kind: {table: np.array(each) for table, each in by.items()} for kind, by in found.items()}


def main() -> None:
    """Print the table."""
    exact = EXACT if "exact" in sys.argv[1:] else None
    errors, (design, truth) = measured(100, exact=exact), country(np.random.default_rng(1), exact)
    deviation = {table: np.sqrt(each) for table, each in node_variances(design).items()}
    print("| | Figure | consistent | `integer` | squared | `nonnegative` | both |\n|---|---|---|---|---|---|---|")
    for words, table in ROWS:
        true = truth[table].ravel()
        margin = 1.959964 * np.repeat(deviation[table], true.size // len(deviation[table]))
        groups = [("all", true >= 0)]
        if table == (2, (0, 1, 2)):
            groups += [("truly 0", true == 0), ("1 to 5", (true > 0) & (true <= 5)), ("above 20", true > 20)]
        for name, some in groups:
            by = {kind: errors[kind][table][:, some] for kind in SHOWN}
            figures = {
                "bias": [each.mean() for each in by.values()],
                "root mean squared error": [np.sqrt((each**2).mean()) for each in by.values()],
                "held by value -/+ margin, %": [100 * (np.abs(each) <= margin[some]).mean() for each in by.values()],
            }
            for figure, numbers in figures.items():
                shown = " | ".join(f"{number:.2f}" for number in numbers)
                print(f"| {words}{'' if name == 'all' else ', ' + name} ({some.sum():,}) | {figure} | {shown} |")


if __name__ == "__main__":
    main()
