"""Error per cell of a release of cross-tabulations, as drawn, beside the usual ways to spend the same budget.

Usage: ``python -m bench.crosstabs [REPETITIONS]`` (5 unless told).

*As drawn.* ``specs/adult-crosstabs.yaml`` at its own budget: the plan's draws by the release's samplers on the true
counts, reconciled and adjusted as published, against the truth; and the same 92 tables as 92 queries of their own, each
with an even part: discrete Gaussian noise, scaled by the exact loss of all draws together, and discrete Laplace noise
of epsilon / 92 each. Needs the Adult data beside the repository (``../shared/data/adult.csv``).

*As planned.* The error that integer plans made from specs promise at (epsilon, delta) = (1, 1e-6), beside the optimum
of the same objective with continuous noise: ResidualPlanner's figure, with each table counted the same (what a spec
minimizes unless told), and with each cell (the objective of its paper, `minimize: cells`). Needs no data.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.strategy import DOMAINS, EARLIER, PLANS
from dprelease.estimate.keys import Rows
from dprelease.estimate.tables import full_product
from dprelease.noise import MECHANISMS, Measurement
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms.residual import draw_residual
from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import Account, PlannedQuery, ReleasePlan, Step
from dprelease.plan.resolve.catalog import resolve
from dprelease.privacy.budget import Budget
from dprelease.publish.measured import workload_tables
from dprelease.spec.fields.columns import label_text
from dprelease.spec.load import load

__all__ = ["DATA", "SPEC", "planned", "spec_of"]

Reals = npt.NDArray[np.float64]

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "adult.csv"
SPEC = ROOT / "specs" / "adult-crosstabs.yaml"


def planned(text: str) -> ReleasePlan:
    """The plan of a spec without references, paid from accounts that are large enough."""
    loaded = load(text, "spec.yaml")
    catalog = resolve(loaded, {})
    accounts = [
        Account(
            name=name,
            unit=str(loaded.spec.privacy.unit),
            neighboring=loaded.spec.privacy.neighboring,
            composition="zcdp",
            lifetime=Budget(epsilon=Fraction(1000), delta=Fraction(1, 10**3)),
        )
        for name in sorted({table.account for table in catalog.tables.values()})
    ]
    return allocate(loaded.spec, catalog, accounts, loaded.fingerprint)


def spec_of(sizes: tuple[int, ...], ways: tuple[int, ...], budget: str, minimize: str = "tables") -> str:
    """The spec of all tables of so many of some attributes with numbers for keys."""
    columns = "".join(
        f"      a{at}: {{type: integer, keys: {{from: 1, to: {size}}}}}\n" for at, size in enumerate(sizes)
    )
    names = ", ".join(f"a{at}" for at in range(len(sizes)))
    return (
        "dprelease: 1\nrelease: {name: bench, period: 2024}\n"
        f"privacy: {{unit: {{entity: person}}, budget: {budget}}}\n"
        "tables:\n  people:\n    account: people\n    source: {file: people.csv}\n    columns:\n"
        f"{columns}queries:\n  crosstabs:\n    table: people\n"
        f"    marginals: {{of: [{names}], ways: {list(ways)}, minimize: {minimize}}}\n"
    )


def promised(plan: ReleasePlan) -> float:
    """Root mean squared error over all cells of all tables, as the plan states it; every cell of a table has one."""
    (workload,) = plan.workloads
    told = {output.query: float(output.standard_error or "nan") for output in plan.outputs}
    sizes = {query.name: plan.catalog.tables[query.table].cells(query.by) for query in plan.queries}
    squares = sum(sizes[name] * told[name] ** 2 for name in workload.tables)
    return math.sqrt(squares / sum(sizes[name] for name in workload.tables))


def as_planned() -> None:
    """Prints what integer plans promise beside ResidualPlanner's optimum, for each of two aims of a spec."""
    print("error per cell at (1, 1e-6), planned from specs that minimize tables and cells, beside the optimum of each")
    for at, (name, workload) in enumerate(DOMAINS.items()):
        ways = tuple(sorted({len(each) for each in workload.sets}))
        for aim, row in (("tables", "residuals, by table"), ("cells", "residuals, by cell")):
            start = time.perf_counter()
            found = promised(planned(spec_of(tuple(workload.sizes), ways, "{epsilon: 1, delta: 1e-6}", aim)))
            seconds, least = time.perf_counter() - start, PLANS[row](workload)
            print(
                f"{name:24}{aim:8}{found:10.4f}   least {least:9.4f} ({found / least:.4f}x; earlier "
                f"{EARLIER[row][at]:g})   {seconds:6.1f} s"
            )


def true_tables(plan: ReleasePlan) -> dict[tuple[str, ...], Reals]:
    """The counts of every table of a plan, and of what its draws are about, by columns; rows with every key."""
    (workload,) = plan.workloads
    columns = {name: plan.catalog.tables[workload.table].column(name) for name in workload.attributes}
    known = {name: {label_text(key) for key in column.keys or ()} for name, column in columns.items()}
    with DATA.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if all(row[name] in keys for name, keys in known.items())]
    wanted = {workload.columns(take.level, take.axes) for take in workload.takes}
    wanted |= {workload.columns(*workload.place(name)) for name in workload.tables}
    found = {}
    for by in wanted:
        seen = Counter(tuple(row[name] for name in by) for row in rows)
        cells: Rows = full_product(tuple(columns[name] for name in by))
        found[by] = np.array([seen[tuple(map(label_text, cell))] for cell in cells], dtype=np.float64)
    return found


def _noisy(step: Step, counts: Reals) -> Measurement:
    exact = Exact(counts.astype(np.int64))
    if step.residual is not None:
        return Measurement(step=step.id, values=draw_residual(exact, step.residual, step.scale))
    return Measurement(step=step.id, values=MECHANISMS[step.mechanism].draw(exact, step.scale))


def _reconciled(plan: ReleasePlan, truth: Mapping[tuple[str, ...], Reals]) -> list[Reals]:
    """The errors of the published tables of one release of a workload."""
    (workload,) = plan.workloads
    steps = {take.step: plan.step(take.step) for take in workload.takes}
    measured = {name: _noisy(step, truth[step.aggregate.by]) for name, step in steps.items()}
    tables = workload_tables(plan, workload, measured)
    return [
        np.asarray(tables[name].measures[0].value, dtype=np.float64) - truth[workload.columns(*workload.place(name))]
        for name in workload.tables
    ]


def _apart(plan: ReleasePlan, truth: Mapping[tuple[str, ...], Reals]) -> list[Reals]:
    """The errors of one release of queries of their own."""
    return [_noisy(step, truth[step.aggregate.by]).values - truth[step.aggregate.by] for step in plan.steps]


def _queries_of(tables: tuple[PlannedQuery, ...], text: str, privacy: str) -> str:
    """The spec with one query for each table of its workload."""
    head, _, rest = text.partition("\nqueries:\n")
    tail = rest[rest.index("\npublish:") :]
    queries = "".join(
        f"  t{at}: {{table: {each.table}, by: [{', '.join(each.by)}], measures: {{persons: {{count: rows}}}}}}\n"
        for at, each in enumerate(tables)
    )
    return (
        head.replace("  neighboring: add_remove\n", f"  neighboring: add_remove\n{privacy}")
        + f"\nqueries:\n{queries}"
        + tail
    )


def as_drawn(repetitions: int) -> None:
    """Prints the errors of some releases against the truth."""
    text = SPEC.read_text(encoding="utf-8")
    ours = planned(text)
    truth = true_tables(ours)
    tables = ours.queries
    plans = {
        f"this plan ({ours.workloads[0].strategy})": (ours, _reconciled),
        "even split, discrete Gaussian, exact": (planned(_queries_of(tables, text, "  noise: gaussian\n")), _apart),
        "even split, discrete Laplace, epsilon / 92": (
            planned(_queries_of(tables, text, "  noise: laplace\n  accounting: basic\n")),
            _apart,
        ),
    }
    persons, cells = float(truth[tables[0].by].sum()), sum(len(truth[each.by]) for each in tables)
    budget = ours.budget
    print(
        f"\n{len(tables)} tables, {cells} cells, {persons:.0f} people, epsilon {float(budget.limit):g}, delta"
        f" {float(budget.delta):g}: error per cell of {repetitions} releases against the truth, and by table"
    )
    least = None
    for name, (plan, draws) in plans.items():
        found = [draws(plan, truth) for _ in range(repetitions)]
        each = [math.sqrt(float(np.mean(np.concatenate(errors) ** 2))) for errors in found]
        by_table = math.sqrt(float(np.mean([np.mean(error**2) for errors in found for error in errors])))
        mean = math.sqrt(float(np.mean(np.square(each))))
        least = least or (mean, by_table)
        told = ", ".join(f"{one:.2f}" for one in each)
        print(
            f"{name:44}{mean:8.2f} ({mean / least[0]:.2f}x)   by table {by_table:8.2f} ({by_table / least[1]:.2f}x)"
            f"   {told}   certified epsilon {float(plan.loss[plan.certified].epsilon):.6f} by {plan.certified}"
        )


def main(repetitions: int) -> None:
    """Prints both."""
    if DATA.exists():
        as_drawn(repetitions)
    else:
        print(f"as drawn: skipped, {DATA} is not there")
    print()
    as_planned()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
