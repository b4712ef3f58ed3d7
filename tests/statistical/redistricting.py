"""What non-negative tables cost in a release in the manner of the Census: ``docs/measures/workloads.md``.

``DPRELEASE_POPULATION=FOLDER python -m tests.statistical.redistricting`` makes the workload of ``redistricting.yaml``
(see there for the population) 20 times with made noise of its variances, and compares it with the truth.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from dprelease.estimate.workloads.design import Axes, Design, Floats, Table, Tree, WorkloadDraw
from dprelease.estimate.workloads.nonnegative import marginals, nonnegative
from dprelease.estimate.workloads.reconcile import node_variances, reconcile

NAMES = ("race", "Hispanic", "voting age", "housing")
SIZES = (9, 2, 2, 3)
SETS: tuple[Axes, ...] = ((), (0,), (1,), (2,), (3,), (0, 1, 2), (0, 1, 2, 3))
RHO, LEVELS = 1 / 25, {"region": 1 / 7, "state": 2 / 7, "PUMA": 4 / 7}
SHARES = {0: (0.1, 0.2, 0.2), 1: (0.05,) * 3, 3: (0.2,) * 3, 4: (0.5, 0.4, 0.4)}  # by ways, then by level


def population(folder: Path) -> tuple[Design, dict[Table, Floats]]:
    """What is drawn, and the true tables."""
    columns = ["PUMA", "RAC1P", "HISP", "AGEP", "HOUSING_TYPE"]
    people = pd.read_parquet(folder / "population.parquet", columns=columns)
    areas = pd.read_csv(Path(__file__).parents[2] / "specs/reference/acs_geography.csv", dtype=str)
    states = areas.drop_duplicates("state").reset_index(drop=True)
    regions = states["region"].drop_duplicates()
    parents = tuple(
        pd.Index(above).get_indexer(each)
        for above, each in ((regions, states["region"]), (states["state"], areas["state"]))
    )
    tree = Tree(len(regions), parents)
    finest = np.zeros((len(areas), *SIZES))
    places = (
        pd.Index(areas["PUMA"]).get_indexer(people["PUMA"]),
        people["RAC1P"].astype(int) - 1,
        (people["HISP"] > 0).astype(int),
        (people["AGEP"] >= 18).astype(int),
        people["HOUSING_TYPE"].astype(int) - 1,
    )
    np.add.at(finest, tuple(np.asarray(each) for each in places), 1)
    joint = [finest]
    for above, under in zip(reversed(tree.sizes[:-1]), reversed(tree.parents), strict=True):
        joint.insert(0, np.zeros((above, *SIZES)))
        np.add.at(joint[0], under, joint[1])
    taken = tuple(
        WorkloadDraw(level, axes, False, 1 / (2 * RHO * part * SHARES[len(axes)][level]))
        for level, part in enumerate(LEVELS.values())
        for axes in SETS
    )
    truth = {table: found.astype(np.float64) for table, found in marginals(SETS, joint).items()}
    return Design(SIZES, tree, SETS, taken), truth


def main() -> None:
    """Print the table."""
    design, truth = population(Path(os.environ["DPRELEASE_POPULATION"]))
    rng, kinds = np.random.default_rng(1), ("consistent", "squared", "nonnegative")
    errors: dict[str, dict[Table, list[Floats]]] = {kind: {table: [] for table in truth} for kind in kinds}
    for _ in range(20):
        exact = [truth[take.level, take.axes] for take in design.taken]
        noise = [rng.normal(0, take.variance**0.5, each.shape) for take, each in zip(design.taken, exact, strict=True)]
        tables = reconcile(design, [each + np.rint(more) for each, more in zip(exact, noise, strict=True)])
        joint = [tables[level, SETS[-1]] for level in range(3)]
        for kind, each in zip(
            kinds, (joint, nonnegative(design, joint, rounds=0), nonnegative(design, joint)), strict=True
        ):
            for table, numbers in marginals(SETS, each).items():
                errors[kind][table].append(np.asarray(numbers, dtype=np.float64) - truth[table])
    print("| Table | standard error | consistent | squared | `nonnegative` |\n|---|---|---|---|---|")
    for (level, axes), variances in node_variances(design).items():
        shown = []
        for kind in kinds:
            found = np.array(errors[kind][level, axes])
            margin = 1.959964 * np.sqrt(variances).reshape(-1, *(1,) * len(axes))
            shown.append(f"{np.sqrt((found**2).mean()):.1f} ({100 * (np.abs(found) <= margin).mean():.0f} %)")
        words = " x ".join((list(LEVELS)[level], *(NAMES[axis] for axis in axes)))
        print(f"| {words} ({truth[level, axes].size:,}) | {np.sqrt(variances).mean():.1f} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
